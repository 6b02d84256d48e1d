"""Connection types: a page as `items` with a `nextToken`, and as Relay's `edges` with a `pageInfo`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, cast

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.model import EntitySpec
from graphql_api.query import MAX_COUNTED
from graphql_api.query.execution import Count, Page, Shards
from graphql_api.schema import descriptions
from graphql_api.schema.graphql_names import GraphQLNames, NameRegistry, declared_at
from graphql_api.schema.query_cost import COUNTING, PER_RECORD, STORED_LIST
from graphql_api.schema.request_context import Context
from graphql_api.schema.types.object_types import object_type, plain_field


class _StoppedBy(Enum):
    BUDGET = "BUDGET"
    SHARDS = "SHARDS"


class _OnShardFailure(Enum):
    FAIL = "FAIL"
    PARTIAL = "PARTIAL"


class _History(Enum):
    ALL = "ALL"
    PAST = "PAST"
    CURRENT = "CURRENT"


StoppedBy = Annotated[
    _StoppedBy,
    strawberry.enum(name="StoppedBy", description=descriptions.STOPPED_BY),
]
OnShardFailure = Annotated[
    _OnShardFailure, strawberry.enum(name="OnShardFailure", description=descriptions.ON_SHARD_FAILURE)
]
History = Annotated[_History, strawberry.enum(name="History", description=descriptions.HISTORY)]

SHARED_TYPES = ("PageInfo", "TotalCount", "SearchShards", "FailedShard", "StoppedBy", "OnShardFailure")
"""Names of types that all schemas share."""


@strawberry.type(description=descriptions.PAGE_INFO)
class PageInfo:
    """Relay's `PageInfo`."""

    has_next_page: bool = strawberry.field(description=descriptions.HAS_NEXT_PAGE)
    has_previous_page: bool = strawberry.field(description=descriptions.HAS_PREVIOUS_PAGE)
    start_cursor: str | None = strawberry.field(description=descriptions.START_CURSOR)
    end_cursor: str | None = strawberry.field(description=descriptions.END_CURSOR)


@strawberry.type(description=descriptions.FAILED_SHARD)
class FailedShard:
    """A shard that did not answer."""

    shard: str = strawberry.field(description=descriptions.FAILED_SHARD_NAME)
    code: str = strawberry.field(description=descriptions.FAILED_SHARD_CODE)
    retryable: bool = strawberry.field(description=descriptions.FAILED_SHARD_RETRYABLE)


@strawberry.type(description=descriptions.SEARCH_SHARDS)
class SearchShards:
    """The shards that were read for a page."""

    expected: int = strawberry.field(description=descriptions.SHARDS_EXPECTED)
    answered: int = strawberry.field(description=descriptions.SHARDS_ANSWERED)
    failed: list[FailedShard] = strawberry.field(description=descriptions.SHARDS_FAILED, metadata={STORED_LIST: True})


@strawberry.type(description=descriptions.TOTAL_COUNT)
class TotalCount:
    """The number of records in a result."""

    value: int = strawberry.field(description=descriptions.COUNTED_RECORDS)
    exact: bool = strawberry.field(description=descriptions.COUNT_IS_EXACT)


class EmptyPage:
    """The page of a result that is known to be empty without a read."""

    items: Sequence[Any] = ()
    cursors: Sequence[str] = ()
    next_token = start_cursor = end_cursor = None
    has_next = has_previous = False
    complete = True
    stopped_by = None
    shards = Shards(0, 0)


@dataclass(frozen=True, slots=True)
class Edge:
    """One record of a page, and its cursor."""

    page: Page[Any] | EmptyPage
    position: int

    @property
    def node(self) -> Any:
        """The record."""
        return self.page.items[self.position]

    @property
    def cursor(self) -> str:
        """The cursor of the record."""
        return self.page.cursors[self.position]


@dataclass(frozen=True, slots=True)
class Connection:
    """A page with the attributes that the GraphQL fields read."""

    page: Page[Any] | EmptyPage

    @property
    def items(self) -> Sequence[Any]:
        """The records."""
        return self.page.items

    @property
    def next_token(self) -> str | None:
        """The token of the next page."""
        return self.page.next_token

    @property
    def edges(self) -> list[Edge]:
        """The records with their cursors."""
        return [Edge(self.page, position) for position in range(len(self.page.items))]

    @property
    def page_info(self) -> PageInfo:
        """The position of the page; cursors are sealed only if they are selected."""
        return _PageInfo(self.page)  # type: ignore[return-value]

    @property
    def complete(self) -> bool:
        """Whether every shard answered."""
        return self.page.complete

    @property
    def stopped_by(self) -> _StoppedBy | None:
        """Why the page is shorter than requested."""
        return None if self.page.stopped_by is None else _StoppedBy(self.page.stopped_by)

    @property
    def shards(self) -> Any:
        """The shards that were read, and which of them answered."""
        return self.page.shards


@dataclass(frozen=True, slots=True)
class _PageInfo:
    page: Page[Any] | EmptyPage

    @property
    def has_next_page(self) -> bool:
        return self.page.has_next

    @property
    def has_previous_page(self) -> bool:
        return self.page.has_previous

    @property
    def start_cursor(self) -> str | None:
        return self.page.start_cursor

    @property
    def end_cursor(self) -> str | None:
        return self.page.end_cursor


def connection_type(names: GraphQLNames, registry: NameRegistry, entity: EntitySpec, record: type) -> type:
    """Create the connection type of an entity."""
    name = names.type_name(f"{entity.type_name}Connection")
    edge_name = names.type_name(f"{entity.type_name}Edge")
    for claimed in (name, edge_name):
        registry.claim_type(claimed, declared_at(entity), f"the pages of {entity.type_name}")
    edge = object_type(
        edge_name,
        [
            plain_field("node", record, description=descriptions.EDGE_NODE),
            plain_field("cursor", str, description=descriptions.EDGE_CURSOR),
        ],
        descriptions.edge(entity),
    )
    return object_type(name, _fields(record, edge), descriptions.connection(entity))


def _total_count() -> StrawberryField:
    async def total_count(
        root: Connection, info: strawberry.Info[Context, None], at_most: int = MAX_COUNTED
    ) -> Count | TotalCount:
        if isinstance(root.page, EmptyPage):
            return TotalCount(value=0, exact=True)
        return await info.context.dataloaders.load_count(root.page.request, at_most, info.path.as_list())

    total_count.__annotations__ |= {
        "root": strawberry.Parent[Connection],
        "at_most": Annotated[int, strawberry.argument(name="atMost", description=descriptions.COUNT_LIMIT)],
        "return": TotalCount,
    }
    field: StrawberryField = strawberry.field(
        resolver=cast(Any, total_count),
        name="totalCount",
        description=descriptions.WHOLE_COUNT,
        metadata={COUNTING: True},
    )
    return field


def _fields(record: type, edge: type) -> list[StrawberryField]:
    records: Any = list[record]  # type: ignore[valid-type]
    edges: Any = list[edge]  # type: ignore[valid-type]
    return [
        plain_field("items", records, description=descriptions.ITEMS, marks=[PER_RECORD]),
        plain_field("next_token", str | None, description=descriptions.NEXT_TOKEN),
        plain_field("edges", edges, description=descriptions.EDGES, marks=[PER_RECORD]),
        _total_count(),
        plain_field("page_info", PageInfo, description=descriptions.CONNECTION_PAGE_INFO),
        plain_field("complete", bool, description=descriptions.COMPLETE),
        plain_field("stopped_by", StoppedBy | None, description=descriptions.WHY_STOPPED),
        plain_field("shards", SearchShards, description=descriptions.SHARDS),
    ]
