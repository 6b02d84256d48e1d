"""One catalog on two engines, with one clock and one seal: what is done on one is done on the other, and compared."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from graphql_api import Catalog, Entity
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.query.execution.result_page import Page
from tests.clocks import Clock
from tests.laws.search_world import seen
from tests.same_pages.waivers import View, check_same


@dataclass
class Twins:
    """The same database twice."""

    sqlite: Database
    dynamodb: Database
    clock: Clock

    @property
    def catalog(self) -> Catalog:
        return self.sqlite.catalog

    def grow(self, catalog: Catalog) -> None:
        """Both go on with a catalog that has a generation more."""
        self.sqlite, self.dynamodb = replace(self.sqlite, catalog=catalog), replace(self.dynamodb, catalog=catalog)

    async def same(self, act: Callable[[Database], Awaitable[Any]]) -> Any:
        """What an act gives, which is the same on both, errors included."""
        one, other = [await told(act(db)) for db in (self.sqlite, self.dynamodb)]
        check_same(one, other, ties=False)
        return one.get("result", one)

    async def pages(
        self, act: Callable[[Database, int], Awaitable[Page[Any]]], sort: str, *, ties: bool, filtered: bool = False
    ) -> tuple[Page[Any], Page[Any]] | None:
        """A page of each, the same but for what is waived; None where both give the same error."""
        found: list[Page[Any]] = []
        views: list[View] = []
        for number, db in enumerate((self.sqlite, self.dynamodb)):
            view = await told(act(db, number))
            if "result" in view:
                found.append(view["result"])
                view = page_view(view["result"], sort)
            views.append(view)
        check_same(*views, ties=ties, filtered=filtered)
        return (found[0], found[1]) if found else None


async def told(doing: Awaitable[Any]) -> View:
    """A result, or an error in all its parts."""
    try:
        return {"result": await doing}
    except ShardQLError as problem:
        return error_view(problem)


def error_view(problem: ShardQLError) -> View:
    """An error as a caller sees it."""
    seen[f"refused: {problem.code}"] += 1
    return {"error": problem.extensions, "message": problem.message}


def plain(record: Entity) -> dict[str, Any]:
    """A record as its values."""
    return {name: getattr(record, name) for name in type(record).model_fields}


def page_view(page: Page[Any], sort: str) -> View:
    """Everything that a page shows."""
    return {
        "items": [plain(item) for item in page.items],
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
