"""A catalog with properties of every type, and a database of it for tests of invalid input."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Int32, Shards, SubId, Timestamp, canonical, derived, desc
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.support.store_doubles import CountingStore, store_with_runner

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
LONE_SURROGATE = "a\ud800"
"""Text with a lone surrogate: it cannot be encoded as UTF-8."""
NOW = 1_764_000_000.0


class State(Enum):
    """The declared order differs from the order of the values."""

    OPEN = "open"
    CLOSED = "closed"
    ABANDONED = "abandoned"


class Thing(Entity, shards=Shards(3)):
    """Has a property and an index of every type."""

    thing_id: Id[str]
    created: Created[Timestamp]
    owner: str | None = None
    limit: int = 0
    first_name: str = ""
    name: str = derived(canonical, "first_name")
    whole: int = 0
    small: Int32 = 0
    real: float = 0.0
    amount: Decimal = Decimal(0)
    flag: bool = False
    uuid: UUID = UUID(int=0)
    day: date = date(2026, 1, 1)
    moment: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    span: timedelta = timedelta()
    state: State = State.OPEN
    note: str | None = None

    by_name = Index(sort=["name", "created", "state"])
    by_owner = Index(hash="owner", sort=[desc("whole"), "name"])
    by_day_down = Index(hash="owner", sort=[desc("day"), desc("state")], slot="gsi21")
    by_owner_only = Index(hash="owner", slot="gsi22")
    by_note = Index(sort="note", raw=True)
    by_limit = Index(sort=["limit", "name"], slot="gsi23")
    by_whole = Index(sort="whole")
    by_small = Index(sort="small")
    by_real = Index(sort="real")
    by_amount = Index(sort="amount")
    by_flag = Index(sort="flag")
    by_uuid = Index(sort="uuid")
    by_day = Index(sort="day")
    by_moment = Index(sort="moment")
    by_span = Index(sort="span")
    by_state = Index(sort="state")
    by_number = Index(sort="whole", raw=True)


class Digits(Entity):
    """Has a derived property that fails for some inputs."""

    digits_id: Id[str]
    text: str
    padded: str = derived(lambda text: f"{int(text):09d}", "text")

    by_padded = Index(sort="padded")


class Line(Entity, shards=Shards(3)):
    """A history with a composite id and a composite sub id."""

    order: Id[str]
    year: Id[int]
    category: SubId[str]
    num: SubId[int]


class Settings(Entity):
    """A singleton entity."""

    theme: str = "dark"


class Stranger(Entity):
    """An entity that is not in the catalog."""

    stranger_id: Id[str]


CATALOG = Catalog(Thing, Digits, Line, Settings)


@dataclass
class AllTypesDatabase:
    """A database with a few records, and a store that counts its calls."""

    runner: asyncio.Runner
    store: CountingStore
    db: Database

    def error_of(self, action: Coroutine[Any, Any, Any]) -> ShardQLError:
        """Runs an action that must fail before any store call, and returns its error."""
        before = self.store.counts.reads, self.store.counts.gets, self.store.counts.writes
        with pytest.raises(ShardQLError) as caught:
            self.runner.run(action)
        assert (self.store.counts.reads, self.store.counts.gets, self.store.counts.writes) == before
        assert len(caught.value.message) < 600
        return caught.value


@contextmanager
def all_types_database(folder: Path) -> Iterator[AllTypesDatabase]:
    """Opens a database that holds one `Thing`, one `Line` and the `Settings`."""
    with store_with_runner(open_sqlite(folder / "x.db"), CATALOG.table_definition()) as (runner, inner):
        store = CountingStore(inner)
        db = Database(CATALOG, store, SEAL, clock=lambda: NOW)
        runner.run(db.put(Thing(thing_id="t-1", created=1, first_name="Jo", owner="o")))
        runner.run(db.put(Line(order="o-1", year=2026, category="electronics", num=1)))
        runner.run(db.put(Settings()))
        yield AllTypesDatabase(runner, store, db)
