"""A process that migrates a table from one release to the next, and reports each page that it reads."""

import asyncio
import sys
from collections.abc import Sequence

from graphql_api import Catalog, Entity, Id, Index, Unique
from graphql_api.errors import StoreUnavailable
from graphql_api.evolution import MigrationSettings, run_migration
from graphql_api.storage import Check, ForwardingStore, Item, Key, ScanPage, Store
from graphql_api.storage.engines import opened_store
from graphql_api.storage.engines.sqlite import SqliteStore
from graphql_api.writes import item_key

PAGE = "page"
"""the line that the process prints before each page that it reads"""
LOST = "lost"
"""the line after a run that could not renew its lease in time, and is repeated"""
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

    def __init__(self, inner: Store, page: int) -> None:
        super().__init__(inner)
        self._page = page

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        print(PAGE, flush=True)  # noqa: T201 - the report
        page = await super().scan(segment, of, after)
        items: Sequence[Item] = page.items[: self._page]
        return page if len(items) == len(page.items) else ScanPage(items, item_key(items[-1]))


class ComparingPagedStore(PagedStore):
    """Also compares the record of the table, as its file does."""

    def __init__(self, inner: SqliteStore, page: int) -> None:
        super().__init__(inner, page)
        self._sqlite = inner

    def forget_snapshot(self) -> None:
        """Forwards to the file."""
        self._sqlite.forget_snapshot()

    def holds(self, check: Check) -> bool:
        """Compares with the file."""
        return self._sqlite.holds(check)


async def _migrate(url: str, page: int) -> None:
    async with opened_store(url) as store:
        compares = isinstance(store, SqliteStore)
        paged = ComparingPagedStore(store, page) if isinstance(store, SqliteStore) else PagedStore(store, page)
        settings = MigrationSettings(margin_seconds=0.1, life_seconds=0.2, claim_seconds=0.2 if compares else 1.0)
        result = None
        while result is None:
            try:
                result = await run_migration(paged, NEWER, settings)
            except StoreUnavailable:
                print(LOST, flush=True)  # noqa: T201 - the report
        assert result.is_complete, result
    print(END, flush=True)  # noqa: T201 - the report


if __name__ == "__main__":
    asyncio.run(_migrate(sys.argv[1], int(sys.argv[2])))
