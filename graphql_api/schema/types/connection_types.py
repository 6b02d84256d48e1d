"""A page of records as clients know it: items with a `nextToken`, or edges with a `pageInfo`; both at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, cast

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.model import EntitySpec
from graphql_api.query import MAX_COUNTED
from graphql_api.query.execution import Count, Page, Shards
from graphql_api.schema.graphql_names import Names, Register, at
from graphql_api.schema.query_cost import COUNTED, EACH, STORED
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
    strawberry.enum(name="StoppedBy", description="Why a page is shorter than asked for, though more records follow."),
]
OnShardFailure = Annotated[
    _OnShardFailure,
    strawberry.enum(
        name="OnShardFailure",
        description="What becomes of a page when a shard does not answer: FAIL is an error; PARTIAL gives the records "
        "of the others, says so, and brings the missing ones on later pages.",
    ),
]

History = Annotated[
    _History,
    strawberry.enum(
        name="History",
        description="Which records of histories are wanted: ALL of them, only the entries (PAST), or only the one "
        "that holds the latest state of each id (CURRENT).",
    ),
]

SHARED_TYPES = ("PageInfo", "TotalCount", "SearchShards", "FailedShard", "StoppedBy", "OnShardFailure")
"""types that all catalogs have in common"""


@strawberry.type(description="Where a page stands in the whole answer.")
class PageInfo:
    """Relay's description of a page."""

    has_next_page: bool = strawberry.field(description="Whether records follow this page.")
    has_previous_page: bool = strawberry.field(description="Whether records precede this page.")
    start_cursor: str | None = strawberry.field(
        description="The place of the first record; on a page that `last` asked for, what `before` takes to go on."
    )
    end_cursor: str | None = strawberry.field(
        description="The place of the last record; while more follows, what `after` and `nextToken` take to go on."
    )


@strawberry.type(description="A shard that did not answer.")
class FailedShard:
    """One of those that a page lacks."""

    shard: str = strawberry.field(description="Its name.")
    code: str = strawberry.field(description="What went wrong, as one of the codes of errors.")
    retryable: bool = strawberry.field(description="Whether asking again can help.")


@strawberry.type(description="Which shards a page asked, and which of them answered.")
class SearchShards:
    """The shards behind a page."""

    expected: int = strawberry.field(description="How many were asked.")
    answered: int = strawberry.field(description="How many answered.")
    failed: list[FailedShard] = strawberry.field(
        description="Those that did not; their records come on later pages.", metadata={STORED: True}
    )


@strawberry.type(description="How many records an answer has, as far as they were counted.")
class TotalCount:
    """A count."""

    value: int = strawberry.field(description="So many.")
    exact: bool = strawberry.field(description="Whether there are no more than these.")


class Nothing:
    """The page of an answer of which it is known, without a look at the store, that it holds no record."""

    items: Sequence[Any] = ()
    cursors: Sequence[str] = ()
    next_token = start_cursor = end_cursor = None
    has_next = has_previous = False
    complete = True
    stopped_by = None
    shards = Shards(0, 0)


@dataclass(frozen=True, slots=True)
class Edge:
    """One record of a page, and its place."""

    page: Page[Any] | Nothing
    at: int

    @property
    def node(self) -> Any:
        """The record."""
        return self.page.items[self.at]

    @property
    def cursor(self) -> str:
        """Its place."""
        return self.page.cursors[self.at]


@dataclass(frozen=True, slots=True)
class Connection:
    """A page under the names of its GraphQL fields."""

    page: Page[Any] | Nothing

    @property
    def items(self) -> Sequence[Any]:
        """The records."""
        return self.page.items

    @property
    def next_token(self) -> str | None:
        """What asks for the next page."""
        return self.page.next_token

    @property
    def edges(self) -> list[Edge]:
        """The records with their places."""
        return [Edge(self.page, at) for at in range(len(self.page.items))]

    @property
    def page_info(self) -> PageInfo:
        """Where the page stands; cursors are sealed only where they are asked for."""
        return _PageInfo(self.page)  # type: ignore[return-value]

    @property
    def complete(self) -> bool:
        """Whether all shards answered."""
        return self.page.complete

    @property
    def stopped_by(self) -> _StoppedBy | None:
        """Why the page is short."""
        return None if self.page.stopped_by is None else _StoppedBy(self.page.stopped_by)

    @property
    def shards(self) -> Any:
        """Who answered."""
        return self.page.shards


@dataclass(frozen=True, slots=True)
class _PageInfo:
    page: Page[Any] | Nothing

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


def connection_type(names: Names, register: Register, entity: EntitySpec, record: type) -> type:
    """The type of an entity's pages."""
    name = names.type(f"{entity.type_name}Connection")
    edge_name = names.type(f"{entity.type_name}Edge")
    for taken in (name, edge_name):
        register.type(taken, at(entity), f"the pages of {entity.type_name}")
    edge = object_type(
        edge_name,
        [
            plain_field("node", record, description="The record."),
            plain_field("cursor", str, description="Its place: `after`, `before` and `nextToken` take it."),
        ],
        f"A record of a page of {entity.type_name}, and its place.",
    )
    return object_type(name, _fields(record, edge), f"A page of {entity.type_name}.")


def _total_count() -> StrawberryField:
    async def total_count(
        root: Connection, info: strawberry.Info[Context, None], at_most: int = MAX_COUNTED
    ) -> Count | TotalCount:
        if isinstance(root.page, Nothing):
            return TotalCount(value=0, exact=True)
        return await info.context.reads.count(root.page.request, at_most, info.path.as_list())

    total_count.__annotations__ |= {
        "root": strawberry.Parent[Connection],
        "at_most": Annotated[
            int, strawberry.argument(name="atMost", description=f"How far to count, 1 to {MAX_COUNTED:,}.")
        ],
        "return": TotalCount,
    }
    made: StrawberryField = strawberry.field(
        resolver=cast(Any, total_count),
        name="totalCount",
        description="How many records the whole answer has.",
        metadata={COUNTED: True},
    )
    return made


def _fields(record: type, edge: type) -> list[StrawberryField]:
    return [
        plain_field("items", list[record], description="The records of this page, in order.", marks=[EACH]),  # type: ignore[valid-type]
        plain_field("next_token", str | None, description="Asks for the next page; null when nothing is left."),
        plain_field("edges", list[edge], description="The same records, each with its place.", marks=[EACH]),  # type: ignore[valid-type]
        _total_count(),
        plain_field("page_info", PageInfo, description="Where this page stands in the whole answer."),
        plain_field("complete", bool, description="Whether every shard answered."),
        plain_field("stopped_by", StoppedBy | None, description="Why the page is short though more follows."),
        plain_field("shards", SearchShards, description="Which shards were asked, and which answered."),
    ]
