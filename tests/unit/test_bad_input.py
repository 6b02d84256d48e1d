"""Whatever is wrong with a request, the error says which argument, why, and what to do instead."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Created, Entity, Id, Index, Int32, Shards, SubId, Timestamp, canonical, derived, desc
from graphql_api.adapters.sqlite import SqliteStore, open_sqlite
from graphql_api.catalog.markers import IndexRef
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidLimit,
    InvalidRange,
    InvalidRecord,
    InvalidToken,
    InvalidValue,
    KeyTooLong,
    MissingArgument,
    ShardQLError,
    UnknownArgument,
    UnknownEntity,
    UnknownIndex,
)
from graphql_api.keys.codec import shown
from graphql_api.keys.ranges import Between, Eq, Prefix
from graphql_api.search.planner import plan_search
from graphql_api.search.request import SearchRequest
from graphql_api.search.seal import Seal
from graphql_api.wiring import Database
from tests.depth import examples
from tests.stores import CountingStore

SEAL = Seal([b"a secret of thirty-two bytes only"])
LONE = "a\ud800"


class State(Enum):
    """Declared in another order than its values sort."""

    OPEN = "open"
    CLOSED = "closed"
    ABANDONED = "abandoned"


class Thing(Entity, shards=Shards(3)):
    """Has something of every type."""

    thing_id: Id[str]
    created: Created[Timestamp]
    owner: str | None = None
    limit: int = 0
    first_name: str = ""
    name: str = derived(canonical, "first_name")
    digits: str | None = derived(lambda text: f"{int(text):09d}", "first_name")
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
    by_number = Index(sort="whole", raw=True, slot="gsi24")


class Digits(Entity):
    """Has a property that cannot be derived from everything."""

    digits_id: Id[str]
    text: str
    padded: str = derived(lambda text: f"{int(text):09d}", "text")

    by_padded = Index(sort="padded")


class Line(Entity, shards=Shards(3)):
    """A history under a composite id, with a composite sub id."""

    order: Id[str]
    year: Id[int]
    category: SubId[str]
    num: SubId[int]


class Settings(Entity):
    """There is one."""

    theme: str = "dark"


class Stranger(Entity):
    """Belongs to another catalog."""

    stranger_id: Id[str]
