"""A planned search: what the plans of all its pages have in common. Pages of a recent search are planned from it."""

from collections.abc import MutableMapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from graphql_api.errors import ExpiredToken, TokenAhead, TokenMismatch
from graphql_api.model import Catalog, EntitySpec, IndexSpec, SortProperty, UnionSpec
from graphql_api.query.filters import Filter
from graphql_api.query.page_token import PageToken, short_description, unpack
from graphql_api.query.search_plan import IndexScan, SearchPlan
from graphql_api.query.search_request import MAX_SORTED, Paging, SearchRequest, check_options
from graphql_api.query.shard_progress import ShardProgress, Traversal
from graphql_api.query.token_seal import TokenSeal

MAX_TOKEN_AGE_HOURS = 24
_MAX_SHOWN_BYTES = 160
"""of a description in an error message"""


@dataclass(frozen=True, slots=True)
class PlannedSearch:
    """A search without the position and the time of a page."""

    entity: EntitySpec
    searched: IndexSpec | UnionSpec
    indexes: tuple[IndexSpec, ...]
    scans: tuple[IndexScan, ...]
    filter: Filter | None
    order_by: SortProperty | None
    first_token: PageToken
    """of the first page, without its hour"""
    description: str

    def page(self, request: SearchRequest, paging: Paging, now: float, seal: TokenSeal) -> SearchPlan:
        """Return the plan of the page at the position of a token, or of the first page."""
        token = self._token(request, paging, now, seal)
        check_options(request)
        return SearchPlan(
            entity=self.entity,
            request=request,
            scans=self.scans,
            filter=self.filter,
            order_by=self.order_by,
            limit=paging.limit if self.order_by is None else MAX_SORTED,
            resumed=paging.token is not None,
            traversal=Traversal(
                paging.reverse, paging.backward, len(self.scans), ShardProgress(token.cursor, token.lagging)
            ),
            token=token,
            now=now,
        )

    def _token(self, request: SearchRequest, paging: Paging, now: float, seal: TokenSeal) -> PageToken:
        """Return the token of the start of the page."""
        token = replace(self.first_token, issued_hour=int(now // 3600))
        if paging.token is None:
            return token
        sealed = seal.open(paging.token, request.tenant, request.principal, paging.argument)
        opened = unpack(sealed, paging.argument)
        self._verify(opened, request, paging.argument, token.issued_hour)
        return replace(token, cursor=opened.cursor, lagging=opened.lagging, selectivity_hint=opened.selectivity_hint)

    @property
    def _shown(self) -> str:
        return short_description(self.description, _MAX_SHOWN_BYTES)

    def _verify(self, token: PageToken, request: SearchRequest, argument: str, hour: int) -> None:
        """Raise an error unless a token is recent and belongs to this search."""
        if hour - token.issued_hour > MAX_TOKEN_AGE_HOURS:
            raise ExpiredToken(
                f"{argument} is older than {MAX_TOKEN_AGE_HOURS} hours: omit it to start from the first page.",
                argument=argument,
            )
        if token.index_digest != self.first_token.index_digest:
            name = request.naming.search_name(self.entity, self.searched)
            raise TokenMismatch(
                f"{argument} was made by another search ({token.description}), and is used with {name} "
                f"({self._shown}). Use it with the index that it comes from, or omit it to start from the first page.",
                argument=argument,
            )
        if token.search_digest != self.first_token.search_digest:
            raise TokenMismatch(
                f"{argument} was made for {token.description}, and is used with {self._shown}. Use it with the same "
                "arguments, or omit it to start from the first page.",
                argument=argument,
            )
        if token.generations > max(len(index.space.generations) for index in self.indexes):
            raise TokenAhead(
                f"{argument} was made by a server with newer shard generations than this one: retry once this "
                "server has been updated.",
                argument=argument,
            )


# --- recent searches -------------------------------------------------------------------------------------------

MAX_RECENT_SEARCHES = 64
"""of one catalog"""

_recent: WeakKeyDictionary[Catalog, MutableMapping[Any, PlannedSearch]] = WeakKeyDictionary()

_TOKENS = ("next_token", "after", "before")
_options = attrgetter(
    *(field.name for field in fields(SearchRequest) if field.name not in ("arguments", "naming", *_TOKENS))
)
_tokens = attrgetter(*_TOKENS)
_SIMPLE_TYPES = frozenset({str, int, bool, type(None)})
"""types whose values cannot change, and are the same if they are equal and of one type"""


def search_identity(request: SearchRequest) -> Any:
    """Return what is equal for all pages of a search; None if that is not known, because its arguments may change."""
    values = (*_options(request), *request.arguments.values())
    types = tuple(map(type, values))
    if not _SIMPLE_TYPES.issuperset(types):
        return None
    has_token = tuple(token is None for token in _tokens(request))
    return request.naming, tuple(request.arguments), values, types, has_token


def recent_searches(catalog: Catalog) -> MutableMapping[Any, PlannedSearch]:
    """Return the searches of a catalog that were planned lately, by their identity."""
    recent = _recent.get(catalog)
    if recent is None or len(recent) >= MAX_RECENT_SEARCHES:
        recent = _recent[catalog] = {}
    return recent
