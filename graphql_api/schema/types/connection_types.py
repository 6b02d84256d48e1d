"""Connection types: a page as `items` with a `nextToken`, and as Relay's `edges` with a `pageInfo`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import strawberry

from graphql_api.model import EntitySpec
from graphql_api.query import MAX_COUNTED
from graphql_api.query.execution import Count, Page, Shards
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.types.generated_fields import (
    ArgumentValues,
    Info,
    Mark,
    argument,
    generated_field,
    object_type,
    plain_field,
)
from graphql_api.schema.types.graphql_scalars import make_nullable


@strawberry.enum(
    description="Why a page is shorter than requested although more records follow. "
    "BUDGET: the read budget was used up; SHARDS: shards did not answer."
)
class StoppedBy(Enum):
    """Why a page is shorter than requested."""

    BUDGET = "BUDGET"
    SHARDS = "SHARDS"


SHARED_TYPES = ("PageInfo", "TotalCount", "SearchShards", "FailedShard", "StoppedBy", "OnShardFailure")
"""Names of types that all schemas share."""


_FAILED_SHARD = object_type(
    "FailedShard",
    [
        plain_field("shard", str, "Name of the shard."),
        plain_field("code", str, "Error code of the failure."),
        plain_field("retryable", bool, "Whether a retry can succeed."),
    ],
    "A shard that did not answer.",
)
_FAILED_SHARDS: Any = list[_FAILED_SHARD]  # type: ignore[valid-type]
_FAILED_TEXT = "Shards that did not answer. Their records follow on later pages."
_SEARCH_SHARDS = object_type(
    "SearchShards",
    [
        plain_field("expected", int, "Number of shards that were read."),
        plain_field("answered", int, "Number of shards that answered."),
        plain_field("failed", _FAILED_SHARDS, _FAILED_TEXT, marks=[Mark.STORED_LIST]),
    ],
    "The shards that were read for a page.",
)


@strawberry.type(description="The number of records in a result, as far as they were counted.")
class TotalCount:
    """The number of records in a result."""

    value: int = strawberry.field(description="Number of counted records.")
    exact: bool = strawberry.field(description="Whether all records were counted. If false, there may be more.")


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
        return self.page.items[self.position]

    @property
    def cursor(self) -> str:
        return self.page.cursors[self.position]


@dataclass(frozen=True, slots=True)
class PageInfo:
    """The position of a page in the whole result; cursors are sealed only if they are selected."""

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


@dataclass(frozen=True, slots=True)
class Connection:
    """A page with the attributes that the GraphQL fields read."""

    page: Page[Any] | EmptyPage

    @property
    def items(self) -> Sequence[Any]:
        return self.page.items

    @property
    def next_token(self) -> str | None:
        return self.page.next_token

    @property
    def edges(self) -> list[Edge]:
        return [Edge(self.page, position) for position in range(len(self.page.items))]

    @property
    def page_info(self) -> PageInfo:
        return PageInfo(self.page)

    @property
    def complete(self) -> bool:
        return self.page.complete

    @property
    def stopped_by(self) -> StoppedBy | None:
        return None if self.page.stopped_by is None else StoppedBy(self.page.stopped_by)

    @property
    def shards(self) -> Shards:
        return self.page.shards


_PAGE_INFO = object_type(
    "PageInfo",
    [
        plain_field("has_next_page", bool, "Whether records follow this page."),
        plain_field("has_previous_page", bool, "Whether records precede this page."),
        plain_field(
            "start_cursor",
            str | None,
            "Cursor of the first record. On a page requested with `last`, pass it as `before` to continue.",
        ),
        plain_field(
            "end_cursor",
            str | None,
            "Cursor of the last record. If more records follow, pass it as `after` or `nextToken` to continue.",
        ),
    ],
    "The position of a page in the whole result.",
)


def connection_type(names: GraphQLNames, entity: EntitySpec, record: type) -> type:
    """Create the connection type of an entity."""
    name, edge_name = (
        names.claim("type", names.type_name(f"{entity.type_name}{kind}"), f"the pages of {entity.type_name}", entity)
        for kind in ("Connection", "Edge")
    )
    edge_fields = [
        plain_field("node", record, "The record."),
        plain_field("cursor", str, "Position of the record. Pass it as `after`, `before` or `nextToken`."),
    ]
    edge = object_type(edge_name, edge_fields, f"One {entity.type_name} record of a page, with its cursor.")
    records: Any = list[record]  # type: ignore[valid-type]
    edges: Any = list[edge]  # type: ignore[valid-type]
    count_limit = argument("atMost", int, f"Count up to this number, 1 to {MAX_COUNTED:,}.", default=MAX_COUNTED)
    count_text = "The number of records in the whole result."
    stopped_text = "Why the page is shorter than requested although more records follow."
    fields = [
        plain_field("items", records, "The records of this page, in order.", marks=[Mark.PER_RECORD]),
        plain_field("next_token", str | None, "Token of the next page, or null if no records follow."),
        plain_field("edges", edges, "The records of this page, with their cursors.", marks=[Mark.PER_RECORD]),
        generated_field("totalCount", TotalCount, count_text, [count_limit], _count, [Mark.COUNTING], has_parent=True),
        plain_field("page_info", _PAGE_INFO, "The position of this page in the whole result."),
        plain_field("complete", bool, "Whether every shard answered."),
        plain_field("stopped_by", make_nullable(StoppedBy), stopped_text),
        plain_field("shards", _SEARCH_SHARDS, "The shards that were read, and which of them answered."),
    ]
    return object_type(name, fields, f"A page of {entity.type_name} records.")


async def _count(root: Connection, info: Info, arguments: ArgumentValues) -> Count | TotalCount:
    if isinstance(root.page, EmptyPage):
        return TotalCount(value=0, exact=True)
    return await info.context.dataloaders.load_count(root.page.request, arguments["atMost"], info.path.as_list())
