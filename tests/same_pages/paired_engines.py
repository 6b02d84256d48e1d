"""One catalog on two engines with one clock and one token seal: operations run on both, and results are compared."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from graphql_api import Catalog, Entity
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.query.execution.result_page import Page
from tests.laws.search_catalogs import seen
from tests.same_pages.waivers import View, check_same
from tests.support.fake_clock import FakeClock


@dataclass
class PairedEngines:
    """The same database on SQLite and on DynamoDB."""

    sqlite: Database
    dynamodb: Database
    clock: FakeClock

    @property
    def catalog(self) -> Catalog:
        return self.sqlite.catalog

    def grow(self, catalog: Catalog) -> None:
        """Continues on both engines with a catalog that has one more generation."""
        self.sqlite, self.dynamodb = replace(self.sqlite, catalog=catalog), replace(self.dynamodb, catalog=catalog)

    async def run_on_both(self, operation: Callable[[Database], Awaitable[Any]]) -> Any:
        """Returns the result of an operation, which must be the same on both engines, errors included."""
        one, other = [await outcome(operation(db)) for db in (self.sqlite, self.dynamodb)]
        check_same(one, other, ties=False)
        return one.get("result", one)

    async def pages(
        self,
        operation: Callable[[Database, int], Awaitable[Page[Any]]],
        sort: str,
        *,
        ties: bool,
        filtered: bool = False,
    ) -> tuple[Page[Any], Page[Any]] | None:
        """Returns the page of each engine, equal except for the waivers; None if both raise the same error."""
        found: list[Page[Any]] = []
        views: list[View] = []
        for number, db in enumerate((self.sqlite, self.dynamodb)):
            view = await outcome(operation(db, number))
            if "result" in view:
                found.append(view["result"])
                view = page_view(view["result"], sort)
            views.append(view)
        check_same(*views, ties=ties, filtered=filtered)
        return (found[0], found[1]) if found else None


async def outcome(running: Awaitable[Any]) -> View:
    """Returns the result, or all parts of the error."""
    try:
        return {"result": await running}
    except ShardQLError as problem:
        return error_view(problem)


def error_view(problem: ShardQLError) -> View:
    """An error as callers receive it."""
    seen[f"refused: {problem.code}"] += 1
    return {"error": problem.extensions, "message": problem.message}


def record_values(record: Entity) -> dict[str, Any]:
    """The values of a record."""
    return {name: getattr(record, name) for name in type(record).model_fields}


def page_view(page: Page[Any], sort: str) -> View:
    """All fields of a page."""
    return {
        "items": [record_values(item) for item in page.items],
        "values": [getattr(item, sort) for item in page.items],
        "cursors": [*page.cursors],
        "start cursor": page.start_cursor,
        "end cursor": page.end_cursor,
        "next token": page.next_token,
        "has next": page.has_next,
        "has previous": page.has_previous,
        "complete": page.complete,
        "stopped by": page.stopped_by,
        "shards": page.shards,
        "explain": page.explain,
    }
