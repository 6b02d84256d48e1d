"""The law of histories: whatever is written, and however shards grow, they are what a dictionary of versions says.

What must come is worked out with plain dictionaries and `sorted`.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import new_class
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp, canonical, derived
from graphql_api.database import Database
from graphql_api.errors import CreationChanged, InvalidRecord, RecordNotFound
from graphql_api.model.markers import IndexRef
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.depth import examples
from tests.dynamodb_local import Server
from tests.laws.search_world import new_tenant, seen
from tests.laws.test_search import SEAL, in_batches
from tests.stores import on_a_loop

CURRENT = "~current"
SINCE = (0, 100, 200)
"""when the generations begin"""

SHARDS = (Shards(1), Shards(1).then(3, since=100), Shards(1).then(3, since=100).then(16, since=200))
IDS = ["a", "ab", "a|", "a\0", CURRENT, "é"]
VERSIONS = ["v1", "v10", "v2", "zebra", "~", "~curren", "~current\0", "~current|", "~current~", "~z", "é", "🦓", "\0"]
STATUSES = ["new", "sent", CURRENT]
PROPERTIES = ("status", "total", "note")


class Base(Entity, name="order", current=CURRENT):
    """Every version of an order, and the last of them once more."""

    order_id: Id[str]
    version: SubId[str]
    created: Created[Timestamp]
    status: str = "new"
    total: int | None = None
    note: str | None = None
    note_canonical: str | None = derived(canonical, "note")

    by_status = Index(hash="status", sort="version")
    by_words = Index(sort=["note", "version"], projection="KEYS_ONLY")
    by_total = Index(sort="total")


def _grown(shards: Shards) -> type[Base]:
    body = {"__module__": __name__, "__doc__": Base.__doc__}
    return new_class("Order", (Base,), {"shards": shards, "name": "order"}, lambda names: names.update(body))


ORDERS = [_grown(shards) for shards in SHARDS]
CATALOGS = [Catalog(order) for order in ORDERS]

STEPS = ["put", "put", "put_several", "restore", "update", "update", "delete", "move", "grow"]

Values = dict[str, Any]


@dataclass
class Model:
    """What histories must be: versions by id, each with its values; and current records that stand alone."""

    created: dict[str, int] = field(default_factory=dict)
    entries: dict[str, dict[str, Values]] = field(default_factory=dict)
    alone: dict[str, Values] = field(default_factory=dict)

    def put(self, order_id: str, version: str, values: Values) -> None:
        self.entries.setdefault(order_id, {})[version] = values
        self.alone.pop(order_id, None)

    def state(self, order_id: str) -> Values | None:
        """The latest state of an id."""
        versions = self.entries.get(order_id)
        return versions[max(versions)] if versions else self.alone.get(order_id)

    def delete(self, order_id: str, version: str) -> None:
        versions = self.entries.get(order_id, {})
        versions.pop(version, None)
        if order_id in self.entries and not versions:
            del self.entries[order_id], self.created[order_id]

    def records(self) -> list[Values]:
        """Everything that stands."""
        found = []
        for order_id in {*self.entries, *self.alone}:
            state = self.state(order_id)
            assert state is not None
            versions = {**self.entries.get(order_id, {}), CURRENT: state}
            for version, values in versions.items():
                found.append({"order_id": order_id, "version": version, **values})
        return found


@dataclass
class Play:
    """Random writes to an empty tenant, and the same in the model."""

    data: st.DataObject
    store: Store
    tenant: str = field(default_factory=new_tenant)
    model: Model = field(default_factory=Model)
    stage: int = 0
    """generations that have been added"""

    @property
    def db(self) -> Database:
        return Database(CATALOGS[self.stage], self.store, SEAL, clock=lambda: 1_000.0, tenant=self.tenant)

    @property
    def order(self) -> type[Base]:
        return ORDERS[self.stage]

    def one_of(self, values: Sequence[Any], label: str) -> Any:
        return self.data.draw(st.sampled_from([*values]), label=label)

    def an_id(self) -> str:
        """One that is known, more often than not."""
        return str(self.one_of([*IDS, *self.model.created, *self.model.created], "id"))

    def values(self) -> Values:
        return {
            "status": self.one_of(STATUSES, "status"),
            "total": self.one_of([None, 0, 1, 10], "total"),
            "note": self.one_of([None, "Zoë", "v"], "note"),
        }

    def creation(self, order_id: str) -> int:
        """An id has one; a new one lies in a generation that has begun."""
        begun = [value for value in (1, 99, 100, 150, 200, 250) if value < [*SINCE, 10_000][self.stage + 1]]
        if order_id not in self.model.created:
            self.model.created[order_id] = self.one_of(begun, "created")
        return self.model.created[order_id]

    def record(self, order_id: str, version: str, values: Values) -> Base:
        return self.order(order_id=order_id, version=version, created=self.creation(order_id), **values)

    # --- what may happen

    async def put(self) -> None:
        order_id, version, values = self.an_id(), self.one_of(VERSIONS, "version"), self.values()
        known = order_id in self.model.entries
        seen["older entry"] += known and version < max(self.model.entries[order_id])
        seen["entry again"] += known and version in self.model.entries[order_id]
        await self.db.put(self.record(order_id, version, values))
        self.model.put(order_id, version, values)

    async def put_several(self) -> None:
        rows = [
            (self.an_id(), self.one_of([*VERSIONS, CURRENT], "version"), self.values())
            for _ in range(self.one_of([2, 5, 9], "rows"))
        ]
        problems = await self.db.put_many([self.record(*row) for row in rows])
        for problem, (order_id, version, values) in zip(problems, rows, strict=True):
            assert isinstance(problem, InvalidRecord) == (version == CURRENT)
            if version != CURRENT:
                assert problem is None
                self.model.put(order_id, version, values)

    async def restore(self) -> None:
        rows = [
            (self.an_id(), self.one_of([*VERSIONS[:4], CURRENT, CURRENT], "version"), self.values())
            for _ in range(self.one_of([1, 4], "rows"))
        ]
        assert await self.db.restore_many([self.record(*row) for row in rows]) == [None] * len(rows)
        for order_id, version, values in rows:
            if version != CURRENT:
                self.model.put(order_id, version, values)
        for order_id, version, values in rows:
            if version == CURRENT and order_id not in self.model.entries:
                self.model.alone[order_id] = values
                seen["current record alone"] += 1

    async def update(self) -> None:
        order_id, version = self.an_id(), self.one_of(VERSIONS, "version")
        values = self.values()
        changes = {name: values[name] for name in PROPERTIES if self.data.draw(st.booleans(), label=name)}
        versions = self.model.entries.get(order_id, {})
        base = versions.get(version) or self.model.state(order_id)
        if base is None:
            with pytest.raises(RecordNotFound):
                await self.db.update(self.order, order_id, version=version, **changes)
            return
        seen["update in place" if version in versions else "update to a new version"] += 1
        made = await self.db.update(self.order, order_id, version=version, **changes)
        expected = {**base, **changes}
        assert {name: getattr(made, name) for name in PROPERTIES} == expected
        assert (made.order_id, made.version, made.created) == (order_id, version, self.model.created[order_id])
        self.model.put(order_id, version, expected)

    async def delete(self) -> None:
        order_id = self.an_id()
        versions = self.model.entries.get(order_id, {})
        version = self.one_of([*versions, *versions, *VERSIONS[:3]], "version")
        seen["last entry deleted"] += version in versions and version == max(versions)
        seen["only entry deleted"] += [*versions] == [version]
        await self.db.delete(self.order, order_id, version=version)
        self.model.delete(order_id, version)

    async def move(self) -> None:
        """An entry with another creation value than its id has is refused, once that decides anything."""
        order_id, version = self.an_id(), self.one_of(VERSIONS, "version")
        if self.stage == 0 or self.model.state(order_id) is None:
            return
        seen["creation value changed"] += 1
        created = self.creation(order_id) + 1
        with pytest.raises(CreationChanged):
            await self.db.put(self.order(order_id=order_id, version=version, created=created))
        with pytest.raises(CreationChanged):
            await self.db.update(self.order, order_id, version=version, created=created)

    async def grow(self) -> None:
        seen["growth"] += self.stage < len(ORDERS) - 1
        self.stage = min(self.stage + 1, len(ORDERS) - 1)

    # --- what must be found

    async def check(self) -> None:
        """Every search gives what the model says, page by page."""
        records = self.model.records()
        for order_id in IDS:
            state = self.model.state(order_id)
            found = await self.db.get(self.order, order_id)
            assert (None if found is None else {name: getattr(found, name) for name in PROPERTIES}) == state
        reverse = self.data.draw(st.booleans(), label="reverse")
        for history in ("ALL", "PAST", "CURRENT"):
            wanted = [one for one in records if history in ("ALL", "CURRENT" if one["version"] == CURRENT else "PAST")]
            order_id, status = self.an_id(), self.one_of(STATUSES, "status")
            by_id = sorted((one for one in wanted if one["order_id"] == order_id), key=lambda one: str(one["version"]))
            by_status = sorted((one for one in wanted if one["status"] == status), key=_by("version", "order_id"))
            by_words = sorted(
                (one for one in wanted if one["note"] is not None), key=_by("note", "version", "order_id")
            )
            by_total = sorted(
                (one for one in wanted if one["total"] is not None), key=_by("total", "order_id", "version")
            )
            seen[f"{history} of many"] += len(by_status) > 3
            for index, arguments, answer in (
                (self.order.by_id, {"order_id": order_id}, by_id),
                (self.order.by_status, {"status": status}, by_status),
                (self.order.by_words, {}, by_words),
                (self.order.by_total, {}, by_total),
            ):
                await self.walk(index, {**arguments, "history": history}, answer[::-1] if reverse else answer, reverse)

    async def walk(self, index: IndexRef, arguments: Values, answer: list[Values], reverse: bool) -> None:
        limit = self.one_of([1, 2, 3, 20], "limit")
        token, at = None, 0
        while True:
            page = await self.db.search(index, **arguments, reverse=reverse, limit=limit, next_token=token)
            names = ("order_id", "version", *PROPERTIES)
            assert [{name: getattr(one, name) for name in names} for one in page.items] == answer[at : at + limit]
            at, token = at + limit, page.next_token
            if token is None:
                assert at >= len(answer)
                return


def _by(*names: str) -> Any:
    return lambda one: tuple(one[name] for name in names)


CLASSES = [
    *("older entry", "entry again", "update in place", "update to a new version", "last entry deleted"),
    *("only entry deleted", "growth", "creation value changed", "current record alone"),
    *("ALL of many", "PAST of many", "CURRENT of many"),
]


async def play(data: st.DataObject, store: Store, most: int) -> None:
    """Random writes, with a look at everything now and then."""
    game = Play(data, store)
    for _ in range(data.draw(st.integers(1, most), label="steps")):
        for _ in range(data.draw(st.integers(1, 5), label="writes")):
            await getattr(game, game.one_of(STEPS, "step"))()
        await game.check()


def test_histories_are_what_was_written(tmp_path_factory: pytest.TempPathFactory, request: Any) -> None:
    """After any writes, in any generation, entries and current records are those of the model, on every way to them."""
    folder: Path = tmp_path_factory.mktemp("histories")
    with on_a_loop(open_sqlite(folder / "orders.db"), CATALOGS[0].table_definition()) as (runner, store):

        @examples(25)
        @given(data=st.data())
        def law(data: st.DataObject) -> None:
            runner.run(play(data, store, most=4))

        seen.clear()
        in_batches(law, request, CLASSES)


@pytest.fixture
def remote(dynamodb: Server) -> Iterator[tuple[asyncio.Runner, Store]]:
    """DynamoDB Local on an event loop of its own."""
    with on_a_loop(dynamodb.open("history-laws"), CATALOGS[0].table_definition()) as made:
        yield made


def test_the_same_on_dynamodb(remote: tuple[asyncio.Runner, Store], request: pytest.FixtureRequest) -> None:
    """DynamoDB Local answers as the model does, too."""
    runner, store = remote

    @examples(5, deep=150)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        runner.run(play(data, store, most=2))

    in_batches(law, request)
