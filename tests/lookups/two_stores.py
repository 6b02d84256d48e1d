"""A catalog whose lookups are in a second store, faults at each step of its writes, and what is stored afterwards."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphql_api import Catalog, Entity, Id, Lookup, Shards, open_catalog
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.ops import ReconciliationResult, ReconciliationSettings, reconcile_lookups
from graphql_api.storage import Delete, ForwardingStore, Item, Key, TransactionWrite, Write
from graphql_api.writes import LookupStore, with_lookup_store
from tests.support.fake_clock import FakeClock
from tests.support.store_doubles import all_items

SECRETS = Secrets.generate()
GRACE = 900.0


class User(Entity, shards=Shards(5)):
    """A user."""

    user_id: Id[str]
    name: str = ""
    phone: str | None = None

    by_phone = Lookup("phone")


CATALOG = Catalog(User)


class Killed(BaseException):
    """The process of the writer has ended."""


@dataclass
class Fault:
    """What happens at one step of a write, each time that it is sent."""

    step: str
    """`mapping put`, `record write`, `mapping read` or `mapping delete`"""
    kind: str
    """`fails`: not applied; `reply lost`: applied, without a reply; `killed before` and `killed after` it"""
    steps: list[str] = field(default_factory=list)
    """the steps that were sent"""

    async def around(self, step: str, send: Any) -> Any:
        """Send a step, unless the fault concerns it."""
        self.steps.append(step)
        if step != self.step:
            return await send()
        if self.kind == "killed before":
            raise Killed
        if self.kind == "fails":
            raise StoreUnavailable("The store is away: retry.")
        result = await send()
        if self.kind == "killed after":
            raise Killed
        del result
        raise StoreUnavailable("The reply is lost: retry.")


class FaultyRecords(ForwardingStore):
    """The store of the records, with a fault."""

    def __init__(self, inner: Any, fault: Fault) -> None:
        super().__init__(inner)
        self.fault = fault

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await self.fault.around("record write", lambda: self.inner.write_together(writes, token))


class FaultyMappings(ForwardingStore):
    """The store of the mapping items, with a fault."""

    def __init__(self, inner: Any, fault: Fault) -> None:
        super().__init__(inner)
        self.fault = fault

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        step = "mapping delete" if isinstance(writes[0], Delete) else "mapping put"
        try:
            found: Sequence[StoreError | None] = await self.fault.around(step, lambda: self.inner.write(writes))
        except StoreUnavailable as problem:
            return [problem] * len(writes)
        return found

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        found: Sequence[Item | None] = await self.fault.around(
            "mapping read", lambda: self.inner.get_many(keys, consistent)
        )
        return found


@asynccontextmanager
async def two_stores(folder: Path, clock: FakeClock, catalog: Catalog = CATALOG) -> AsyncIterator[Database]:
    """Opens a table, and its lookups in another file."""
    urls = (f"sqlite:///{folder}/{name}.db" for name in ("records", "lookups"))
    async with open_catalog(catalog, next(urls), lookups=next(urls), secrets=SECRETS, clock=clock) as db:
        yield db


def lookup_store(db: Database) -> LookupStore:
    """The store of both."""
    assert isinstance(db.store, LookupStore)
    return db.store


def with_fault(db: Database, fault: Fault) -> Database:
    """Returns a server of the same stores with a fault."""
    store = lookup_store(db)
    faulty = FaultyRecords(store.inner, fault), FaultyMappings(store.mappings, fault)
    return replace(db, store=with_lookup_store(*faulty, db.clock, store.grace_seconds))


async def found(db: Database, phone: str) -> list[str]:
    """The ids that a search by phone finds, page by page."""
    ids, token = list[str](), None
    while True:
        page = await db.search(User.by_phone, phone=phone, limit=2, next_token=token)
        ids += [user.user_id for user in page.items]
        token = page.next_token
        if token is None:
            return ids
        assert len(page.items) == 2, "no page ends early"


async def mapped(db: Database, id: str) -> dict[str, bool]:
    """The phones of the mapping items of a record, and whether the record has each."""
    record = await db.get(User, id)
    prefix = "" if db.tenant is None else f"{db.tenant}|"
    items = [one for one in await all_items(lookup_store(db).mappings) if one["rangeKey"] == f"userId#{id}"]
    keys = [item["hashKey"] for item in items if item["hashKey"].startswith(f"{prefix}user~lookup.")]
    phones = [key.partition("phone#")[2] for key in keys]
    return {phone: record is not None and record.phone == phone for phone in sorted(phones)}


async def reconcile(db: Database, **settings: Any) -> ReconciliationResult:
    """Reconciles the lookups."""
    options = ReconciliationSettings(clock=db.clock, **{"grace_seconds": GRACE, **settings})
    return await reconcile_lookups(lookup_store(db), db.catalog, options)


async def check_consistent(db: Database) -> None:
    """Compares all mapping items with all records."""
    store = lookup_store(db)
    records = [item for item in await all_items(store.inner) if "user!" in item["hashKey"] and "phone" in item]
    heads = {item["hashKey"]: item["hashKey"].partition("user!")[0] for item in records}
    needed = {
        (f"{heads[item['hashKey']]}user~lookup.phone!|phone#{item['phone']}", item["rangeKey"]) for item in records
    }
    stored = [item for item in await all_items(store.mappings) if "~lookup." in item["hashKey"]]
    assert {(item["hashKey"], item["rangeKey"]) for item in stored} == needed
