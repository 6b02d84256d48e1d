"""Connection types: a page as `items` with a `nextToken`, and as Relay's `edges` with a `pageInfo`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.model import EntitySpec, PageStyle, camel_case
from graphql_api.query import DEFAULT_LIMIT, MAX_COUNTED, MAX_LIMIT, ValueKind, operators_of
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
    python_class,
)
from graphql_api.schema.types.graphql_scalars import make_nullable

NESTED_COUNTED = 1_000
"""Default number of records that are counted for each list of a record."""


@strawberry.enum(
    description="Why a page is shorter than requested although more records follow. "
    "BUDGET: the read budget was used up; SHARDS: shards did not answer."
)
class StoppedBy(Enum):
    """Why a page ended early."""

    BUDGET = "BUDGET"
    SHARDS = "SHARDS"


SHARED_TYPES = (
    *("Connection", "Edge", "PageInfo"),
    *("TotalCount", "SearchShards", "FailedShard", "StoppedBy", "OnShardFailure"),
)
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
    stored_records = None
    cursors: Sequence[str] = ()
    next_token = start_cursor = end_cursor = None
    has_next = has_previous = False
    complete = True
    stopped_by = None
    shards = Shards(0, 0)

    @property
    def record_count(self) -> int:
        return len(self.items)


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
        return [Edge(self.page, position) for position in range(self.page.record_count)]

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


_CONDITIONS = (
    "properties that a search needs: one value, or several values in the argument that ends in `In`.",
    "`eq`, `prefix`, `from`, `to`: conditions on the first property of the order. Bounds are inclusive.",
    "the name of a property: a condition on it. It requires exact values of the properties before it.",
    "`filter`: tests of properties. A record must pass all of them.",
    "`reverse`: descending instead of ascending order, or the reverse for a descending index.",
    "`onShardFailure`: whether the page fails with a shard.",
)
_PAGE_SIZE = f"1 to {MAX_LIMIT}, {DEFAULT_LIMIT} by default"
_PAGING: Mapping[PageStyle, Sequence[str]] = {
    "appsync": (f"`limit`: the page size, {_PAGE_SIZE}.", "`nextToken`: that of the previous page."),
    "relay": (
        f"`first`, `after`: page size, {_PAGE_SIZE}, and cursor when reading forward.",
        "`last`, `before`: page size and cursor when reading backward from the end.",
    ),
}


def _page_description(pages: PageStyle) -> str:
    """Describe the arguments that all fields of pages share, and the operators of filters."""
    paging = [line for style, lines in _PAGING.items() if pages in (style, "both") for line in lines]
    operators = [operator for kind in ValueKind for operator in operators_of(kind).values()]
    meanings = dict.fromkeys(f"`{camel_case(each.name)}`: {each.description}" for each in operators)
    return "\n".join(
        [
            "A page of records, in order. All fields that return one have some of these arguments:",
            *(f"- {line}" for line in (*_CONDITIONS, *paging)),
            "",
            "Operators of filters:",
            *(f"- {line}" for line in meanings),
        ]
    )


class ConnectionTypes:
    """Factory of the connection types. Two interfaces describe the fields that all of them have."""

    def __init__(self, names: GraphQLNames, node: type, pages: PageStyle) -> None:
        self._names = names
        self._pages = pages
        text = "A record of a page, with its cursor."
        self._edge = strawberry.interface(python_class("Edge", _edge_fields(node)), name="Edge", description=text)
        page = python_class("Connection", self._page_fields(node, self._edge))
        self._page = strawberry.interface(page, name="Connection", description=_page_description(pages))

    def connection_type(self, entity: EntitySpec, record: type) -> type:
        """Create the connection type of an entity."""
        edge = self._edge
        if self._pages != "appsync":
            text = f"One {entity.type_name} of a page."
            edge = self._type(entity, "Edge", _undescribed(_edge_fields(record)), self._edge, text)
        fields = _undescribed(self._page_fields(record, edge))
        return self._type(entity, "Connection", fields, self._page, f"A page of {entity.type_name} records.")

    def _type(
        self, entity: EntitySpec, suffix: str, fields: Iterator[StrawberryField], interface: type, description: str
    ) -> type:
        name = self._names.type_name(f"{entity.type_name}{suffix}")
        self._names.claim("type", name, f"the pages of {entity.type_name}", entity)
        page_class = python_class(name, fields, (interface,), is_type_of=staticmethod(lambda *_: True))
        return strawberry.type(page_class, name=name, description=description)

    def _page_fields(self, record: type, edge: type) -> Iterator[StrawberryField]:
        records: Any = list[record]  # type: ignore[valid-type]
        edges: Any = list[edge]  # type: ignore[valid-type]
        if self._pages != "relay":
            yield plain_field("items", records, "The records of this page.", marks=[Mark.PER_RECORD])
            yield plain_field("next_token", str | None, "Token of the next page, or null if no records follow.")
        if self._pages != "appsync":
            yield plain_field("edges", edges, "The records of this page, with their cursors.", marks=[Mark.PER_RECORD])
            yield plain_field("page_info", _PAGE_INFO, "The position of this page in the whole result.")
        text = (
            f"Count up to this number, 1 to {MAX_COUNTED:,}; by default {MAX_COUNTED:,}, and {NESTED_COUNTED:,} in the "
            "lists of a record."
        )
        count_limit = argument("atMost", int, text)
        text = "The number of records on all pages."
        yield generated_field("totalCount", TotalCount, text, [count_limit], _count, [Mark.COUNTING], has_parent=True)
        yield plain_field("complete", bool, "Whether every shard answered.")
        text = "Why the page may be shorter than requested, or the next page empty."
        yield plain_field("stopped_by", make_nullable(StoppedBy), text)
        yield plain_field("shards", _SEARCH_SHARDS, "The shards that were read, and which of them answered.")


def _edge_fields(record: type) -> Iterator[StrawberryField]:
    yield plain_field("node", record, "The record.")
    yield plain_field("cursor", str, "Position of the record: a value for `after` and `before`.")


def _undescribed(fields: Iterator[StrawberryField]) -> Iterator[StrawberryField]:
    """Remove the descriptions that the interface already has."""
    for field in fields:
        field.description = None
        for each in field.arguments:
            each.description = None
        yield field


async def _count(root: Connection, info: Info, arguments: ArgumentValues) -> Count | TotalCount:
    if isinstance(root.page, EmptyPage):
        return TotalCount(value=0, exact=True)
    path = info.path.as_list()
    default = NESTED_COUNTED if len(path) > len(["connection", "totalCount"]) else MAX_COUNTED
    return await info.context.dataloaders.load_count(root.page.request, arguments.get("atMost", default), path)
