"""Describe a search as requested, and parse its paging arguments."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql_api.codecs import short_repr
from graphql_api.errors import ConflictingArguments, InvalidLimit, InvalidValue
from graphql_api.query.naming_scheme import PYTHON_NAMES, NamingScheme

DEFAULT_LIMIT = 50
MAX_LIMIT = 500

READ_BUDGET = 10_000
"""records that the engine may examine for one page"""

MAX_SORTED = 1_000
"""matches of a union that `order_by` sorts"""

MAX_COUNTED = 10_000
COUNT_BUDGET = 20_000
"""records that the engine may examine for one count"""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: the index, its arguments, and the page of the result.

    `arguments` holds hash properties, conditions on the first sort property (`eq`, `prefix`, `from_`, `to`) and
    conditions by property name. A page is selected by `limit` and `next_token`, or by `first`, `after`, `last` and
    `before`, never by both.
    """

    entity: str
    index: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reverse: bool | None = None
    limit: int | None = None
    next_token: str | None = None
    first: int | None = None
    after: str | None = None
    last: int | None = None
    before: str | None = None
    on_shard_failure: str = "FAIL"
    filter: Any = None
    """filter from the caller, as `parse_filter` accepts it"""
    enforced_filter: Any = None
    """filter from the authorization policy, with Python names"""
    order_by: Any = None
    """property that sorts the whole result of a union, or `desc()` of it"""
    history: str = "ALL"
    """for histories with current records: ALL, only the entries (PAST), or only the current records (CURRENT)"""
    select: Collection[str] | None = None
    """Python names of the needed properties; None: all"""
    read_budget: int = READ_BUDGET
    """records that the engine may examine before the page ends early"""
    count_only: bool = False
    """only the number of records is needed"""
    consistent: bool = False
    """for `by_id`: reads see every acknowledged write"""
    why: str | None = None
    """reason for the choice of the index, if the caller did not name the index"""
    tenant: str | None = None
    principal: str | None = None
    naming: NamingScheme = PYTHON_NAMES


@dataclass(frozen=True, slots=True)
class Paging:
    """The page of a request: size, order, direction and start."""

    limit: int
    reverse: bool
    backward: bool
    token: str | None
    argument: str
    """name of the argument that holds the token"""


def parse_paging(request: SearchRequest) -> Paging:
    """Merge the two styles of paging arguments into one order, direction, limit and token."""
    name_of = request.naming.common_argument
    provided = [
        name
        for name in ("limit", "next_token", "first", "after", "last", "before")
        if getattr(request, name) is not None
    ]
    for one, others in (
        ("limit", ("first", "last", "after", "before")),
        ("next_token", ("first", "last", "after", "before")),
        ("first", ("last", "before")),
        ("after", ("last", "before")),
    ):
        for other in others:
            if one in provided and other in provided:
                raise ConflictingArguments(
                    f"{name_of(one)} and {name_of(other)} exclude each other. Page forward with limit and "
                    f"{name_of('next_token')} or with first and after, backward with last and before.",
                    argument=name_of(one),
                )
    backward = "last" in provided or "before" in provided
    size_name = next((name for name in ("limit", "first", "last") if name in provided), "limit")
    token_name = next((name for name in ("next_token", "after", "before") if name in provided), "next_token")
    return Paging(
        limit=_check_limit(size_name, getattr(request, size_name)),
        reverse=_check_reverse(request.reverse),
        backward=backward,
        token=getattr(request, token_name),
        argument=name_of(token_name),
    )


def check_read_budget(request: SearchRequest) -> int:
    """Return the number of records that the engine may examine before the page ends early."""
    budget: Any = request.read_budget
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        argument = request.naming.common_argument("read_budget")
        raise InvalidLimit(
            f"{argument} must be a whole number of at least 1, not {short_repr(budget)}.", argument=argument
        )
    return budget


def _check_limit(argument: str, limit: object) -> int:
    if limit is None:
        return DEFAULT_LIMIT
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidLimit(
            f"{argument} must be a whole number from 1 to {MAX_LIMIT}, not {short_repr(limit)}.", argument=argument
        )
    return limit


def _check_reverse(reverse: object) -> bool:
    if reverse is None:
        return False
    if not isinstance(reverse, bool):
        raise InvalidValue(f"reverse must be True or False, not {short_repr(reverse)}.", argument="reverse")
    return reverse
