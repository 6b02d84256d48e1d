"""The law of histories: after any writes and added generations, the store equals a dictionary of versions.

Expected results come from plain dictionaries and `sorted`.
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
from tests.laws.search_catalogs import new_tenant, seen
from tests.laws.test_search import SEAL, run_in_batches
from tests.support.dynamodb_servers import Server
from tests.support.run_depth import examples
from tests.support.store_doubles import store_with_runner

CURRENT = "~current"
SINCE = (0, 100, 200)
"""start of each generation"""

SHARDS = (Shards(1), Shards(1).then(3, since=100), Shards(1).then(3, since=100).then(16, since=200))
IDS = ["a", "ab", "a|", "a\0", CURRENT, "é"]
VERSIONS = ["v1", "v10", "v2", "zebra", "~", "~curren", "~current\0", "~current|", "~current~", "~z", "é", "🦓", "\0"]
STATUSES = ["new", "sent", CURRENT]
PROPERTIES = ("status", "total", "note")


class Base(Entity, name="order", current=CURRENT):
    """Versions of an order, and its current record."""

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
class ReferenceModel:
    """The reference model: versions by id with their values, and current records without entries."""

    created: dict[str, int] = field(default_factory=dict)
    entries: dict[str, dict[str, Values]] = field(default_factory=dict)
    current_only: dict[str, Values] = field(default_factory=dict)

    def put(self, order_id: str, version: str, values: Values) -> None:
        self.entries.setdefault(order_id, {})[version] = values
        self.current_only.pop(order_id, None)

    def state(self, order_id: str) -> Values | None:
        """Returns the latest state of an id."""
        versions = self.entries.get(order_id)
        return versions[max(versions)] if versions else self.current_only.get(order_id)

    def delete(self, order_id: str, version: str) -> None:
        versions = self.entries.get(order_id, {})
        versions.pop(version, None)
        if order_id in self.entries and not versions:
            del self.entries[order_id], self.created[order_id]

    def records(self) -> list[Values]:
        """Returns all stored records, including current records."""
        found = []
        for order_id in {*self.entries, *self.current_only}:
            state = self.state(order_id)
            assert state is not None
            versions = {**self.entries.get(order_id, {}), CURRENT: state}
            for version, values in versions.items():
                found.append({"order_id": order_id, "version": version, **values})
        return found


@dataclass
class RandomWrites:
    """Applies random writes to an empty tenant and to the reference model."""

    data: st.DataObject
    store: Store
    tenant: str = field(default_factory=new_tenant)
    model: ReferenceModel = field(default_factory=ReferenceModel)
    added_generations: int = 0
    """number of added generations"""

    @property
    def db(self) -> Database:
        return Database(CATALOGS[self.added_generations], self.store, SEAL, clock=lambda: 1_000.0, tenant=self.tenant)

    @property
    def order(self) -> type[Base]:
        return ORDERS[self.added_generations]

    def draw_from(self, values: Sequence[Any], label: str) -> Any:
        return self.data.draw(st.sampled_from([*values]), label=label)

    def draw_id(self) -> str:
        """Draws an id, more often a stored one than a new one."""
        return str(self.draw_from([*IDS, *self.model.created, *self.model.created], "id"))

    def draw_values(self) -> Values:
        return {
            "status": self.draw_from(STATUSES, "status"),
            "total": self.draw_from([None, 0, 1, 10], "total"),
            "note": self.draw_from([None, "Zoë", "v"], "note"),
        }

    def creation_value(self, order_id: str) -> int:
        """Returns the creation value of an id; new ids get one of a generation that has started."""
        candidates = [
            value for value in (1, 99, 100, 150, 200, 250) if value < [*SINCE, 10_000][self.added_generations + 1]
        ]
        if order_id not in self.model.created:
            self.model.created[order_id] = self.draw_from(candidates, "created")
        return self.model.created[order_id]

    def new_record(self, order_id: str, version: str, values: Values) -> Base:
        return self.order(order_id=order_id, version=version, created=self.creation_value(order_id), **values)

    # --- writes

    async def put(self) -> None:
        order_id, version, values = self.draw_id(), self.draw_from(VERSIONS, "version"), self.draw_values()
        known = order_id in self.model.entries
        seen["older entry"] += known and version < max(self.model.entries[order_id])
        seen["entry again"] += known and version in self.model.entries[order_id]
        await self.db.put(self.new_record(order_id, version, values))
        self.model.put(order_id, version, values)

    async def put_several(self) -> None:
        rows = [
            (self.draw_id(), self.draw_from([*VERSIONS, CURRENT], "version"), self.draw_values())
            for _ in range(self.draw_from([2, 5, 9], "rows"))
        ]
        problems = await self.db.put_many([self.new_record(*row) for row in rows])
        for problem, (order_id, version, values) in zip(problems, rows, strict=True):
            assert isinstance(problem, InvalidRecord) == (version == CURRENT)
            if version != CURRENT:
                assert problem is None
                self.model.put(order_id, version, values)

    async def restore(self) -> None:
        rows = [
            (self.draw_id(), self.draw_from([*VERSIONS[:4], CURRENT, CURRENT], "version"), self.draw_values())
            for _ in range(self.draw_from([1, 4], "rows"))
        ]
        assert await self.db.restore_many([self.new_record(*row) for row in rows]) == [None] * len(rows)
        for order_id, version, values in rows:
            if version != CURRENT:
                self.model.put(order_id, version, values)
        for order_id, version, values in rows:
            if version == CURRENT and order_id not in self.model.entries:
                self.model.current_only[order_id] = values
                seen["current record only"] += 1

    async def update(self) -> None:
        order_id, version = self.draw_id(), self.draw_from(VERSIONS, "version")
        values = self.draw_values()
        changes = {name: values[name] for name in PROPERTIES if self.data.draw(st.booleans(), label=name)}
        versions = self.model.entries.get(order_id, {})
        base = versions.get(version) or self.model.state(order_id)
        if base is None:
            with pytest.raises(RecordNotFound):
                await self.db.update(self.order, order_id, version=version, **changes)
            return
        seen["update in place" if version in versions else "update to a new version"] += 1
        updated = await self.db.update(self.order, order_id, version=version, **changes)
        expected = {**base, **changes}
        assert {name: getattr(updated, name) for name in PROPERTIES} == expected
        assert (updated.order_id, updated.version, updated.created) == (order_id, version, self.model.created[order_id])
        self.model.put(order_id, version, expected)

    async def delete(self) -> None:
        order_id = self.draw_id()
        versions = self.model.entries.get(order_id, {})
        version = self.draw_from([*versions, *versions, *VERSIONS[:3]], "version")
        seen["last entry deleted"] += version in versions and version == max(versions)
        seen["only entry deleted"] += [*versions] == [version]
        await self.db.delete(self.order, order_id, version=version)
        self.model.delete(order_id, version)

    async def move(self) -> None:
        """Changing the creation value of an id is rejected as soon as the generations make a difference."""
        order_id, version = self.draw_id(), self.draw_from(VERSIONS, "version")
        if self.added_generations == 0 or self.model.state(order_id) is None:
            return
        seen["creation value changed"] += 1
        created = self.creation_value(order_id) + 1
        with pytest.raises(CreationChanged):
            await self.db.put(self.order(order_id=order_id, version=version, created=created))
        with pytest.raises(CreationChanged):
            await self.db.update(self.order, order_id, version=version, created=created)

    async def grow(self) -> None:
        seen["growth"] += self.added_generations < len(ORDERS) - 1
        self.added_generations = min(self.added_generations + 1, len(ORDERS) - 1)

    # --- reads

    async def check(self) -> None:
        """Compares every search with the model, page by page."""
        records = self.model.records()
        for order_id in IDS:
            state = self.model.state(order_id)
            found = await self.db.get(self.order, order_id)
            assert (None if found is None else {name: getattr(found, name) for name in PROPERTIES}) == state
        reverse = self.data.draw(st.booleans(), label="reverse")
        for history in ("ALL", "PAST", "CURRENT"):
            expected_records = [
                one for one in records if history in ("ALL", "CURRENT" if one["version"] == CURRENT else "PAST")
            ]
            order_id, status = self.draw_id(), self.draw_from(STATUSES, "status")
            by_id = sorted(
                (one for one in expected_records if one["order_id"] == order_id), key=lambda one: str(one["version"])
            )
            by_status = sorted(
                (one for one in expected_records if one["status"] == status), key=_by("version", "order_id")
            )
            by_words = sorted(
                (one for one in expected_records if one["note"] is not None), key=_by("note", "version", "order_id")
            )
            by_total = sorted(
                (one for one in expected_records if one["total"] is not None), key=_by("total", "order_id", "version")
            )
            seen[f"{history} of many"] += len(by_status) > 3
            for index, arguments, expected in (
                (self.order.by_id, {"order_id": order_id}, by_id),
                (self.order.by_status, {"status": status}, by_status),
                (self.order.by_words, {}, by_words),
                (self.order.by_total, {}, by_total),
            ):
                await self.check_pages(
                    index, {**arguments, "history": history}, expected[::-1] if reverse else expected, reverse
                )

    async def check_pages(self, index: IndexRef, arguments: Values, expected: list[Values], reverse: bool) -> None:
        limit = self.draw_from([1, 2, 3, 20], "limit")
        token, at = None, 0
        while True:
            page = await self.db.search(index, **arguments, reverse=reverse, limit=limit, next_token=token)
            names = ("order_id", "version", *PROPERTIES)
            assert [{name: getattr(one, name) for name in names} for one in page.items] == expected[at : at + limit]
            at, token = at + limit, page.next_token
            if token is None:
                assert at >= len(expected)
                return


def _by(*names: str) -> Any:
    return lambda one: tuple(one[name] for name in names)


CLASSES = [
    *("older entry", "entry again", "update in place", "update to a new version", "last entry deleted"),
    *("only entry deleted", "growth", "creation value changed", "current record only"),
    *("ALL of many", "PAST of many", "CURRENT of many"),
]


async def run_random_writes(data: st.DataObject, store: Store, most: int) -> None:
    """Applies random writes and compares all records from time to time."""
    random_writes = RandomWrites(data, store)
    for _ in range(data.draw(st.integers(1, most), label="steps")):
        for _ in range(data.draw(st.integers(1, 5), label="writes")):
            await getattr(random_writes, random_writes.draw_from(STEPS, "step"))()
        await random_writes.check()


def test_histories_match_the_reference_model(tmp_path_factory: pytest.TempPathFactory, request: Any) -> None:
    """After any writes, in any generation, every search returns the entries and current records of the model."""
    folder: Path = tmp_path_factory.mktemp("histories")
    with store_with_runner(open_sqlite(folder / "orders.db"), CATALOGS[0].table_definition()) as (runner, store):

        @examples(25)
        @given(data=st.data())
        def law(data: st.DataObject) -> None:
            runner.run(run_random_writes(data, store, most=4))

        seen.clear()
        run_in_batches(law, request, CLASSES)


@pytest.fixture
def dynamodb_store(dynamodb: Server) -> Iterator[tuple[asyncio.Runner, Store]]:
    """DynamoDB Local on its own event loop."""
    with store_with_runner(dynamodb.open("history-laws"), CATALOGS[0].table_definition()) as runner_and_store:
        yield runner_and_store


def test_histories_match_the_reference_model_on_dynamodb(
    dynamodb_store: tuple[asyncio.Runner, Store], request: pytest.FixtureRequest
) -> None:
    """After any writes, DynamoDB Local returns the entries and current records of the model."""
    runner, store = dynamodb_store

    @examples(5, deep=150)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        runner.run(run_random_writes(data, store, most=2))

    run_in_batches(law, request)
