"""docs/how-to/backups.md: a copy is of one moment, and a restored table knows what the page says."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Int32, Shards, Timestamp, Unique, counter, open_catalog
from graphql_api.connection import Secrets
from graphql_api.errors import NotReady, NotUnique
from graphql_api.storage import Put
from graphql_api.storage.engines import opened_store
from tests.cli.test_cli_project import OPENED, Bank, moved
from tests.docs.pages import ROOT
from tests.docs.test_examples import SYBIL, PageModule
from tests.support.cli_runner import run
from tests.support.dynamodb_servers import CREDENTIALS, REGION
from tests.support.store_doubles import all_items

PAGE = ROOT / "docs" / "how-to" / "backups.md"
SECRETS = Secrets.generate()


class Order(Entity):
    """The entity of the page."""

    order_id: Id[str]
    email: Unique[str]
    number: Int32 = counter()

    by_number = Index(sort="number")


class OrderByEmail(Entity, name="order"):
    """Its next release."""

    order_id: Id[str]
    email: Unique[str]
    number: Int32 = counter()

    by_number = Index(sort="number")
    by_email = Index(sort="email")


CATALOG, NEXT = Catalog(Order), Catalog(OrderByEmail)


@dataclass(frozen=True)
class Tables:
    """A table, and an empty place for its copy."""

    source: str
    target: str
    back_up: Callable[[str, str], None] | None = None
    """the function of the page, for SQLite"""

    async def copy(self) -> None:
        """Copy all items of one moment, as a physical backup does."""
        if self.back_up is not None:
            self.back_up(*(url.removeprefix("sqlite:///") for url in (self.source, self.target)))
            return
        async with opened_store(self.source) as source, opened_store(self.target) as target:
            definition = await source.describe()
            assert definition is not None
            await target.ensure_table(definition)
            await target.write([Put(item) for item in await all_items(source)])


def page_namespace() -> dict[str, Any]:
    """Run the Python blocks of the page in the working directory."""
    document = SYBIL.parse(PAGE)
    document.namespace["__name__"] = "__page__"
    sys.modules["__page__"] = PageModule(document.namespace)
    try:
        for example in document:
            example.evaluate()
    finally:
        del sys.modules["__page__"]
    return document.namespace


@pytest.fixture(params=["sqlite", "dynamodb"])
def tables(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    """A table on each engine."""
    monkeypatch.chdir(tmp_path)
    if request.param == "sqlite":
        back_up = page_namespace()["back_up"]
        yield Tables(f"sqlite:///{tmp_path}/source.db", f"sqlite:///{tmp_path}/target.db", back_up)
        return
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    tail = f"?region={REGION}&endpoint={request.getfixturevalue('dynamodb').endpoint}&deadline=60&read_seconds=20"
    source, target = (f"dynamodb://backup-{uuid4().hex}{tail}" for _ in range(2))
    yield Tables(source, target)


def opened(catalog: Catalog, url: str, **options: Any) -> Any:
    """Open a table with the same keys, as a server before and after a restore."""
    return open_catalog(catalog, url, secrets=SECRETS, create_table=True, **options)


async def create(db: Any, *numbers: int) -> list[int]:
    """Create orders, with an idempotency key each, and return the numbers that they get."""
    return [
        (await db.create(Order, order_id=f"o{n}", email=f"{n}@example.com", idempotency_key=f"key-{n}")).number
        for n in numbers
    ]


async def test_a_restored_table(tables: Tables) -> None:
    """Tokens, unique values and idempotency keys of a restored table are those of the copy; later numbers repeat."""
    async with opened(CATALOG, tables.source) as db:
        assert await create(db, 1, 2, 3, 4, 5) == [1, 2, 3, 4, 5]
        token = (await db.search(Order.by_number, limit=2)).next_token
        await tables.copy()
        assert await create(db, 6, 7) == [6, 7]
        later = (await db.search(Order.by_number, limit=6)).next_token
        await db.delete(Order, "o1")
    async with opened(CATALOG, tables.target) as db:
        rest = await db.search(Order.by_number, limit=10, next_token=token)
        assert [order.number for order in rest.items] == [3, 4, 5]
        assert (await db.search(Order.by_number, limit=10, next_token=later)).items == []
        assert await db.get(Order, "o1") is not None
        assert await create(db, 3) == [3]
        assert await db.get(Order, "o7") is None
        assert await create(db, 7, 7) == [6, 6]
        with pytest.raises(NotUnique):
            await db.create(Order, order_id="other", email="3@example.com")


async def test_elements_from_after_the_copy(tmp_path: Path) -> None:
    """An index that was added after the copy is not ready in the restored table, until it is migrated."""
    url = f"sqlite:///{tmp_path}/restored.db"
    async with opened(CATALOG, url) as db:
        await create(db, 1, 2)
    async with opened(NEXT, url, migrate=False) as db:
        with pytest.raises(NotReady):
            await db.search(OrderByEmail.by_email)
    async with opened(NEXT, url, migrate=True) as db:
        assert len((await db.search(OrderByEmail.by_email)).items) == 2


def test_a_copy_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While orders are written one after the other, a copy has all up to one of them, and nothing is wrong in it."""
    monkeypatch.chdir(tmp_path)
    namespace = page_namespace()
    monkeypatch.setitem(sys.modules, "app", PageModule(namespace))
    result = run("verify", "app:catalog", "--store", "sqlite:///backup.db")
    assert result.exit_code == 0, result.output

    async def numbers() -> list[int]:
        async with open_catalog(namespace["catalog"], "sqlite:///backup.db") as db:
            return [order.number for order in (await db.search(namespace["Order"].by_number, limit=100)).items]

    found = asyncio.run(numbers())
    assert found == [*range(1, len(found) + 1)]
    assert 20 <= len(found) <= 60


def test_events_after_a_restore(tmp_path: Path) -> None:
    """A restored table applies exactly the events that came after its copy."""
    bank = Bank(tmp_path)
    bank.write(OPENED, moved(2, 5))
    bank.project()
    database = tmp_path / "bank.db"
    shutil.copy(database, tmp_path / "backup.db")  # No process has it open, so it has no log.
    bank.write(OPENED, moved(2, 5), moved(3, 8))
    assert "accounts: 1 applied, 2 applied before" in bank.project()
    shutil.copy(tmp_path / "backup.db", database)
    assert "accounts: 1 applied, 2 applied before" in bank.project()


def _log_catalog(since: int | None) -> Catalog:
    shards = Shards(1) if since is None else Shards(1).then(4, since=since)

    class Entry(Entity, shards=shards):
        entry_id: Id[str]
        created: Created[Timestamp]

    return Catalog(Entry)


BEFORE, GROWN = _log_catalog(None), _log_catalog(1_000_000)


def test_generations_from_after_the_copy(tmp_path: Path) -> None:
    """A generation that has begun before it is built stays announced. Migrating fails, and says what to declare."""
    url = f"sqlite:///{tmp_path}/entries.db"

    async def create_entry(catalog: Catalog, id: str) -> list[str]:
        async with open_catalog(catalog, url, secrets=SECRETS) as db:
            await db.create(catalog.entity("Entry").model, entry_id=id)
            return [item["hashKey"] for item in await all_items(db.store) if item["hashKey"].startswith("entry!")]

    asyncio.run(create_entry(BEFORE, "a"))
    assert asyncio.run(create_entry(GROWN, "b")) == ["entry!", "entry!"]
    result = run("migrate", f"{__name__}:GROWN", "--store", url, "--apply")
    assert result.exit_code == 1
    assert "The generation entry.1 begins" in result.output
    assert "declare a later begin" in result.output
