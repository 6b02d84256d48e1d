"""Two releases of a catalog, and a process that migrates a table to the newer one and reports each page."""

import asyncio
import sys
from collections.abc import Sequence

from graphql_api import Catalog, Entity, Id, Index, Unique
from graphql_api.evolution import MigrationSettings, run_migration
from graphql_api.storage import Check, ForwardingStore, Item, Key, ScanPage
from graphql_api.storage.engines import opened_store
from graphql_api.storage.engines.sqlite import SqliteStore
from graphql_api.writes import item_key

PAGE = "page"
"""the line that the process prints before each page that it reads"""
END = "end"


def older() -> Catalog:
    """The catalog of the older release."""

    class User(Entity):
        user_id: Id[str]
        name: str
        town: str
        email: str

        by_name = Index(sort="name")

    return Catalog(User)


def newer() -> Catalog:
    """The catalog of the newer release: another property, three indexes, and a unique constraint."""

    class User(Entity):
        user_id: Id[str]
        name: str
        town: str
        email: Unique[str]
        note: str | None = None

        by_name = Index(sort="name")
        by_town = Index(hash="town", sort="name")
        by_town_and_id = Index(hash="town")
        by_mail = Index(sort="email")

    return Catalog(User)


OLDER, NEWER = older(), newer()


def values_of(number: int, town: int) -> dict[str, str]:
    """The properties of a user."""
    return {"user_id": f"u{number:07}", "name": f"n{number:07}", "town": f"t{town:05}", "email": f"e{number:07}"}


class PagedStore(ForwardingStore):
    """Scans in small pages, and reports them."""

    def __init__(self, inner: SqliteStore, page: int) -> None:
        super().__init__(inner)
        self._sqlite = inner
        self._page = page

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        print(PAGE, flush=True)  # noqa: T201 - the report
        page = await super().scan(segment, of, after)
        items: Sequence[Item] = page.items[: self._page]
        return page if len(items) == len(page.items) else ScanPage(items, item_key(items[-1]))

    def forget_snapshot(self) -> None:
        """Forwards to the file."""
        self._sqlite.forget_snapshot()

    def holds(self, check: Check) -> bool:
        """Compares with the file."""
        return self._sqlite.holds(check)


async def _migrate(url: str, page: int) -> None:
    async with opened_store(url) as store:
        assert isinstance(store, SqliteStore)
        settings = MigrationSettings(claim_seconds=0.2)
        result = await run_migration(PagedStore(store, page), NEWER, settings)
        assert result.is_complete, result
    print(END, flush=True)  # noqa: T201 - the report


if __name__ == "__main__":
    asyncio.run(_migrate(sys.argv[1], int(sys.argv[2])))
