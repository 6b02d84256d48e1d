"""What binds a page token to its search: digests and descriptions, and the errors for a token of another search."""

from collections.abc import Callable

from graphql_api.codecs import KeyRange
from graphql_api.errors import ExpiredToken, TokenAhead, TokenMismatch
from graphql_api.model import EntitySpec, IndexSpec
from graphql_api.query.filters import Filter
from graphql_api.query.page_token import PageToken
from graphql_api.query.range_conditions import IndexConditions
from graphql_api.query.search_plan import IndexScan
from graphql_api.query.search_request import SearchRequest

MAX_TOKEN_AGE_HOURS = 24


def describe_search(
    entity: EntitySpec, request: SearchRequest, scan: IndexScan, filter: Filter | None, *, reverse: bool
) -> str:
    """Describe the conditions of a search, for page tokens and the error for a token of another search."""
    conditions = [scan.conditions.description] if scan.conditions.description else []
    conditions += [] if filter is None else [f"where {filter.describe()}"]
    union = entity.unions.get(request.index)
    name = scan.index.name if union is None else union.name
    return f"{'reversed ' if reverse else ''}{' '.join(conditions) or f'every {entity.type_name} by {name}'}"


def index_identity(index: IndexSpec) -> tuple[object, ...]:
    """Return what a cursor in an index depends on. Any other change of the catalog keeps tokens valid."""
    versions = {part.stored: part.version for part in (*index.hash, *index.range_properties) if part.version > 1}
    return (
        index.entity,
        index.name,
        index.raw,
        (index.hash_entity, index.sharded_like_parent, index.space.function, index.space.width),
        [part.stored for part in index.hash],
        [(column.name, column.codec.name, column.descending) for column in index.columns],
        *([versions] if versions else ()),
    )


def _hash_identity(conditions: IndexConditions) -> tuple[object, ...]:
    values = conditions.hash_values
    return values[0] if len(values) == 1 else values


def _range_identity(key_range: KeyRange) -> tuple[object, ...]:
    # Bounds are compared as text: equal numbers have one form, and an index holds only texts or only numbers.
    low, high = (None if bound is None else str(bound) for bound in (key_range.low, key_range.high))
    return low, high, key_range.low_open, key_range.high_open


def verify_token(
    token: PageToken, here: PageToken, generations: int, argument: str, names: Callable[[], tuple[str, str]]
) -> None:
    """Raise an error unless the token is recent and belongs to this search, whose own token is `here`.

    `generations`: the shard generations that this server knows. `names` returns the name and the description of the
    search for errors.
    """
    if here.issued_hour - token.issued_hour > MAX_TOKEN_AGE_HOURS:
        raise ExpiredToken(
            f"{argument} is older than {MAX_TOKEN_AGE_HOURS} hours: omit it to start from the first page.",
            argument=argument,
        )
    if token.index_digest != here.index_digest:
        search_name, description = names()
        raise TokenMismatch(
            f"{argument} was made by another search ({token.description}), and is used with {search_name} "
            f"({description}). Use it with the index that it comes from, or omit it to start from the first page.",
            argument=argument,
        )
    if token.search_digest != here.search_digest:
        _, description = names()
        raise TokenMismatch(
            f"{argument} was made for {token.description}, and is used with {description}. Use it with the same "
            "arguments, or omit it to start from the first page.",
            argument=argument,
        )
    if token.generations > generations:
        raise TokenAhead(
            f"{argument} was made by a server with newer shard generations than this one: retry once this "
            "server has been updated.",
            argument=argument,
        )


def scan_identity(scan: IndexScan) -> tuple[object, ...]:
    """Return what the conditions of a token must be."""
    return _hash_identity(scan.conditions), _range_identity(scan.conditions.range)
