"""Creates in batches have the results, and leave the items, of creates that are executed one by one."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Id,
    Int32,
    Lookup,
    Shards,
    Timestamp,
    Unique,
    Version,
    canonical,
    derived,
)
from graphql_api.database import Database
from graphql_api.errors import (
    AlreadyExists,
    Conflict,
    NotUnique,
    OutcomeUnknown,
    SchemaChanged,
    ShardQLError,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    Throttled,
)
from graphql_api.storage import ForwardingStore, Item, Key, Store, TransactionWrite
from graphql_api.testing import in_memory
from graphql_api.writes import Create, Remove, Update, executor, transactions
from tests.support.fake_clock import FakeClock
from tests.support.run_depth import depth
from tests.support.store_doubles import all_items


class Member(Entity, shards=Shards(1).then(4, since=1_000)):
    """Has unique values, a lookup, and all that the server sets."""

    member_id: Id[str]
    created: Created[Timestamp]
    version: Version[Int32]
    email: Unique[str | None] = None
    name: str
    name_canonical: Unique[str] = derived(canonical, "name")

    by_name = Lookup("name")


CATALOG = Catalog(Member)
MEMBER = CATALOG.entity(Member)


class FailingStore(ForwardingStore):
    """Counts its transactions, and fails those that a test names."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.sent: list[int] = []
        """number of writes of each transaction"""
        self.reads = 0
        self.failures: list[tuple[StoreError, bool]] = []
        """of the next transactions, and whether they are applied before that"""

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.reads += 1
        return await super().get_many(keys, consistent)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.sent.append(len(writes))
        failure = self.failures.pop(0) if self.failures else None
        if failure is None or failure[1]:
            await super().write_together(writes, token)
        if failure is not None:
            raise failure[0]


def member(number: int | str, **values: Any) -> Member:
    """Return a member whose values no other number has."""
    return Member(**{"member_id": f"m{number}", "created": 5, "name": f"name {number}", "version": 1, **values})


def shown(result: Any) -> Any:
    """Return what shows of a result."""
    return (type(result), result.message) if isinstance(result, ShardQLError) else result


async def stored(db: Database) -> dict[Key, Item]:
    """Return all items without their write ids."""
    items = await all_items(db.store)
    return {
        Key(item["hashKey"], item["rangeKey"]): {name: value for name, value in item.items() if name != "_w"}
        for item in items
        if not item["hashKey"].startswith("shardql!")
    }


def random_batch(random: Random) -> list[Any]:
    """Return commands, among them some that are refused and some for one record."""
    commands: list[Any] = []
    # Of concurrent writes with one value, any may succeed, so only the member that is not written has a common one.
    for _ in range(random.randrange(1, 9)):
        number = random.randrange(6)
        values = {"member_id": f"m{number}", "created": random.choice([5, 2_000]), "name": f"name {number}"}
        values |= {"email": random.choice([None, f"{number}@x", "taken@x"])}
        values |= random.choice(
            [{}, {}, {}, {"name": None}, {"nmae": 1}, {"name": "n" * 2_000 + str(number)}, {"member_id": ""}]
        )
        commands.append(
            random.choice(
                [Create(MEMBER, values)] * 6
                + [Update(MEMBER, [f"m{number}"], {"email": f"{number}@y"}), Remove(MEMBER, [f"m{number}"])]
            )
        )
    return commands


@pytest.mark.usefixtures("no_backoff")
async def test_batches_have_the_results_of_single_creates(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """For random batches, results and items are equal to those without the planning of creates."""
    planned = 0
    for _ in range(depth(quick=40, deep=2_000)):
        clock = FakeClock()
        async with in_memory(CATALOG, clock=clock) as fast, in_memory(CATALOG, clock=clock) as slow:
            for db in (fast, slow):
                await db.create(member("-taken", email="taken@x"))
            for _ in range(3):
                commands = random_batch(random)
                results = await fast.apply_each(commands)
                with monkeypatch.context() as patch:
                    patch.setattr(executor, "can_be_planned", lambda _: False)
                    expected = await slow.apply_each(commands)
                assert [*map(shown, results)] == [*map(shown, expected)], commands
                assert await stored(fast) == await stored(slow)
                planned += sum(isinstance(result, Member) for result in results)
    assert planned


async def test_a_batch_is_few_transactions_without_reads() -> None:
    """A hundred creates with two unique values and a mapping item are five transactions, and read nothing."""
    async with in_memory(CATALOG) as db:
        store = FailingStore(db.store)
        results = await replace(db, store=store).create_many(
            [member(number, email=f"{number}@x") for number in range(100)]
        )
        assert all(isinstance(result, Member) for result in results)
        # The record, its possible key in another generation, two unique items, and a mapping item.
        assert (store.sent, store.reads) == ([100] * 5, 0)


@pytest.mark.usefixtures("no_backoff")
async def test_only_what_fails_is_sent_again() -> None:
    """Records that exist, or whose value is taken, are read and refused. The others are sent again together."""
    async with in_memory(CATALOG, member(1), member(7, email="7@x")) as db:
        store = FailingStore(db.store)
        batch = [member(1), member(2), member(3, email="7@x"), member(4)]
        first, second, third, fourth = await replace(db, store=store).create_many(batch)
        assert isinstance(first, AlreadyExists)
        assert isinstance(third, NotUnique)
        assert (second, fourth) == (await db.get(Member, "m2"), await db.get(Member, "m4"))
        assert store.sent[:2] == [4 * 4 + 1, 2 * 4]


async def test_equal_values_in_one_batch() -> None:
    """Of two creates with one unique value, the first succeeds and the second is refused."""
    async with in_memory(CATALOG) as db:
        first, second = await db.create_many([member(1, email="a@x"), member(2, email="a@x")])
        assert isinstance(first, Member)
        assert isinstance(second, NotUnique)
        assert await db.get(Member, "m2") is None


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize("problem", [Conflict("locked"), StoreRefused("too large"), Throttled("slow down")])
async def test_a_refused_batch_is_executed_one_by_one(problem: StoreError) -> None:
    """An error that may concern one record alone does not fail the others."""
    async with in_memory(CATALOG) as db:
        store = FailingStore(db.store)
        attempts = transactions.OUTCOME_RETRIES.max_attempts if isinstance(problem, Throttled) else 1
        store.failures = [(problem, False)] * attempts
        results = await replace(db, store=store).create_many([member(1), member(2)])
        assert all(isinstance(result, Member) for result in results)
        assert len(store.sent) > 1


@pytest.mark.usefixtures("no_backoff")
async def test_a_lost_reply_is_resolved_by_the_token() -> None:
    """A batch whose reply is lost is sent again under its token, and not applied twice."""
    async with in_memory(CATALOG) as db:
        store = FailingStore(db.store)
        store.failures = [(StoreUnavailable("no reply"), True)]
        results = await replace(db, store=store).create_many([member(1), member(2)])
        assert all(isinstance(result, Member) for result in results)
        assert store.sent == [8, 8]


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize(
    ("problem", "reported"),
    [
        (StoreUnavailable("no reply"), OutcomeUnknown),
        (Throttled("slow down"), Throttled),
        (SchemaChanged("changed"), SchemaChanged),
    ],
)
async def test_an_error_of_all_is_that_of_each(problem: StoreError, reported: type[ShardQLError]) -> None:
    """If the outcome stays unknown, or the engine is overloaded, each create has an error of its own."""
    async with in_memory(CATALOG) as db:
        store = FailingStore(db.store)
        store.failures = [(problem, False)] * 100
        results = await replace(db, store=store, schema=None).create_many([member(1), member(2)])
        assert [*map(type, results)] == [reported, reported]
        assert results[0] is not results[1]
        assert await db.get(Member, "m1") is None


def test_write_ids_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write ids differ, and none is kept for longer than a second: another copy of the process may have it too."""
    now = 1_000.0
    monkeypatch.setattr(transactions, "time", lambda: now)
    ids = [transactions.new_write_id() for _ in range(1_000)]
    assert len({*ids}) == len(ids)
    assert {*map(len, ids)} == {16}
    kept = [*transactions._write_ids._ids]
    assert kept
    for later in (now + 1.1, now + 3, now):  # a clock may be set back
        now = later
        fresh = transactions.new_write_id()
        assert fresh not in kept
        kept += transactions._write_ids._ids
