"""`WriteCoalescer` combines concurrent transactions into few store calls, and each caller gets its own result."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Entity, ForeignKey, Id, Int32, Unique, counter, generated, open_catalog
from graphql_api.database import Database
from graphql_api.errors import (
    AlreadyExists,
    ConditionFailed,
    Conflict,
    ForeignKeyBroken,
    NotUnique,
    ShardQLError,
    StoreDenied,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    Throttled,
)
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Check, Delete, Expect, Item, Key, Put, TableDefinition, TransactionWrite, Write
from graphql_api.writes.commands import Create
from graphql_api.writes.transactions import commit_transaction
from graphql_api.writes.write_coalescer import WriteCoalescer
from tests.support.run_depth import depth

ABSENT = Expect(absent=True)


def key(name: object) -> Key:
    """Returns the key of an item."""
    return Key("things!", f"id#{name}")


def item(name: object, by: object = "") -> Item:
    """Returns an item with the name of its writer."""
    return {"hashKey": "things!", "rangeKey": f"id#{name}", "_w": f"{by}", "by": f"{by}"}


def new(name: object, by: object = "") -> Put:
    """Returns a put on the condition that the item does not exist."""
    return Put(item(name, by), ABSENT)


@dataclass(eq=False)
class Failure:
    """How a call fails, and whether it is applied before that."""

    problem: StoreError
    is_applied: bool = False


class RecordingStore(ForwardingStore):
    """Records its calls, and fails as configured."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.read: list[Sequence[Key]] = []
        self.sent: list[tuple[Sequence[TransactionWrite], str]] = []
        self.plain_writes = 0
        """writes outside of transactions"""
        self.failure_for: Callable[[Sequence[TransactionWrite]], Failure | None] = lambda _: None

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.read.append(keys)
        return await super().get_many(keys, consistent)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.sent.append((writes, token))
        failure = self.failure_for(writes)
        if failure is None or failure.is_applied:
            await super().write_together(writes, token)
        if failure is not None:
            raise failure.problem

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        self.plain_writes += len(writes)
        return await super().write(writes)

    def fail_next(self, *failures: Failure) -> None:
        """Makes the next calls fail in this way."""
        left = [*failures]
        self.failure_for = lambda _: left.pop(0) if left else None

    @property
    def transaction_sizes(self) -> list[int]:
        """The number of writes of each transaction."""
        return [len(writes) for writes, _ in self.sent]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[RecordingStore]:
    """An empty table."""
    inner = await open_sqlite(tmp_path / "things.db")
    await inner.ensure_table(TableDefinition())
    yield RecordingStore(inner)
    await inner.close()


Outcome = BaseException | None


async def commit_all(store: RecordingStore, *transactions: Sequence[TransactionWrite]) -> list[Outcome]:
    """Commits transactions concurrently through one coalescer, and returns their results or errors."""
    async with WriteCoalescer(store) as coalescer:
        return await asyncio.gather(
            *(commit_transaction(coalescer, writes) for writes in transactions), return_exceptions=True
        )


async def written(store: Store, *names: object) -> list[Any]:
    """Returns the writers of the items, and None for items that do not exist."""
    found = await store.get_many([key(name) for name in names], consistent=True)
    return [None if one is None else one["by"] for one in found]


# --- coalescing ------------------------------------------------------------------------------------------------


async def test_concurrent_reads_are_one_call(store: RecordingStore) -> None:
    """Concurrent reads become one call that reads each key once. Each caller gets its items in its order."""
    await commit_all(store, [new("a", 1)], [new("b", 2)])
    async with WriteCoalescer(store) as coalescer:
        reads = (coalescer.get_many([key(name) for name in names], consistent=True) for names in ("ab", "ca", "b"))
        found = await asyncio.gather(*reads)
    assert [[one and one["by"] for one in each] for each in found] == [["1", "2"], [None, "1"], ["2"]]
    assert store.read == [[key("a"), key("b"), key("c")]]


async def test_eventually_consistent_reads_are_not_coalesced(store: RecordingStore) -> None:
    """Only consistent reads are coalesced."""
    async with WriteCoalescer(store) as coalescer:
        await asyncio.gather(*(coalescer.get_many([key("a")], consistent=False) for _ in range(2)))
    assert len(store.read) == 2


async def test_an_invalid_key_fails_only_its_own_read(store: RecordingStore) -> None:
    """An invalid read fails alone."""
    async with WriteCoalescer(store) as coalescer:
        reads = (coalescer.get_many([one], consistent=True) for one in (key("a"), Key("", ""), key("b")))
        found = await asyncio.gather(*reads, return_exceptions=True)
    assert [type(one) for one in found] == [list, StoreRefused, list]


async def test_concurrent_transactions_are_combined(store: RecordingStore) -> None:
    """Concurrent transactions become one, and a check that several of them contain is sent once."""
    await commit_transaction(store, [new("parent")])
    checked = Check(key("parent"), Expect(without=("closing",)))
    store.sent.clear()
    transactions: list[list[TransactionWrite]] = [[new(name, name), checked] for name in "abc"]
    outcomes = await commit_all(store, *transactions)
    assert outcomes == [None, None, None]
    assert store.transaction_sizes == [4]
    assert await written(store, *"abc") == [*"abc"]


async def test_a_single_transaction_is_sent_unchanged(store: RecordingStore) -> None:
    """A single transaction is sent unchanged, with its own token."""
    async with WriteCoalescer(store) as coalescer:
        await coalescer.write_together([new("a")], "token")
    assert store.sent == [([new("a")], "token")]


async def test_combined_transactions_respect_the_maximum_size(store: RecordingStore) -> None:
    """A combined transaction never exceeds the maximum size, and no transaction is split."""
    outcomes = await commit_all(store, *([new(f"{n}-{part}") for part in range(3)] for n in range(70)))
    assert outcomes == [None] * 70
    assert store.transaction_sizes == [99, 99, 12]


async def test_transactions_that_start_slightly_later_are_combined(store: RecordingStore) -> None:
    """Transactions that start one after the other in the same loop iteration are still combined."""
    lock = asyncio.Lock()

    async def go(coalescer: WriteCoalescer, name: str) -> None:
        async with lock:
            pass
        await coalescer.write_together([new(name)], name)

    async with WriteCoalescer(store) as coalescer:
        await lock.acquire()
        tasks = [asyncio.create_task(go(coalescer, name)) for name in "abcdefgh"]
        await asyncio.sleep(0)
        lock.release()
        await asyncio.gather(*tasks)
    assert store.transaction_sizes == [8]


# --- separate results ------------------------------------------------------------------------------------------


async def test_a_failed_condition_fails_only_its_transaction(store: RecordingStore) -> None:
    """If a condition fails, only its transaction fails, with its position and old item. The others are applied."""
    await commit_transaction(store, [new("b", "before")])
    store.sent.clear()
    outcomes = await commit_all(store, [new("a", 1)], [new("x", 2), new("b", 2)], [new("c", 3)], [new("d", 4)])
    failed = outcomes.pop(1)
    assert isinstance(failed, ConditionFailed)
    assert (failed.position, failed.old) == (1, item("b", "before"))
    assert outcomes == [None, None, None]
    assert await written(store, *"abcdx") == ["1", "before", "3", "4", None]
    assert sorted(store.transaction_sizes) == [2, 3, 5]


async def test_transactions_that_write_the_same_item_are_separate(store: RecordingStore) -> None:
    """Of two transactions that write one item, one is applied and the other one not at all."""
    outcomes = await commit_all(store, [new("a", 1), new("b", 1)], [new("a", 2), new("c", 2)])
    assert sorted(outcome is None for outcome in outcomes) == [False, True]
    winner = outcomes.index(None) + 1
    assert await written(store, *"abc") == [f"{winner}", "1" if winner == 1 else None, "2" if winner == 2 else None]


async def test_a_check_is_not_combined_with_a_delete_of_its_item(store: RecordingStore) -> None:
    """A transaction that checks an item is not combined with one that deletes it."""
    await commit_transaction(store, [new("a")])
    outcomes = await commit_all(store, [Delete(key("a"))], [Check(key("a"), Expect()), new("b")])
    assert outcomes[0] is None
    assert (outcomes[1] is None) == (await written(store, "b") == [""])


async def test_of_two_deletes_of_one_item_one_succeeds(store: RecordingStore) -> None:
    """Of two transactions that delete one item, only one succeeds."""
    await commit_transaction(store, [new("a", 1)])
    removal = Delete(key("a"), Expect(attributes={"_w": "1"}))
    outcomes = await commit_all(store, [removal, new("b")], [removal, new("c")])
    assert sorted(outcome is None for outcome in outcomes) == [False, True]
    assert sorted(one is None for one in await written(store, *"bc")) == [False, True]


async def test_an_invalid_write_fails_only_its_transaction(store: RecordingStore) -> None:
    """A transaction that the engine refuses fails alone."""
    doubled = [new("d", 4), Put(item("d", 4))]
    outcomes = await commit_all(store, [new("a", 1)], [Put({**item("b"), "wrong": 1.5})], [new("c", 3)], doubled)
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreRefused, type(None), StoreRefused]
    assert await written(store, *"abc") == ["1", None, "3"]


async def test_cancelling_one_transaction_does_not_affect_the_others(store: RecordingStore) -> None:
    """A transaction that is cancelled before it is sent writes nothing, and the others are applied."""
    async with WriteCoalescer(store) as coalescer:
        tasks = [asyncio.create_task(coalescer.write_together([new(name)], name)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, type(None)]
    assert await written(store, *"abc") == ["", None, ""]


async def test_closing_cancels_calls_in_progress(store: RecordingStore) -> None:
    """Calls in progress are cancelled when the coalescer closes."""
    started, ended = asyncio.Event(), asyncio.Event()

    class Slow(ForwardingStore):
        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    async with WriteCoalescer(Slow(store)) as coalescer:
        tasks = [asyncio.create_task(coalescer.write_together([new(name)], name)) for name in "ab"]
        await started.wait()
        for one in tasks:
            one.cancel()
    assert ended.is_set()


# --- store failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_applied", [True, False])
async def test_a_lost_reply_is_retried_with_the_same_token(store: RecordingStore, is_applied: bool) -> None:
    """A combined transaction with a lost reply is sent again with its token, and no caller gets an error."""
    store.fail_next(*(Failure(StoreUnavailable("The reply is lost."), is_applied) for _ in range(2)))
    outcomes = await commit_all(store, [new("a", 1)], [new("b", 2)], [new("c", 3)])
    assert outcomes == [None, None, None]
    assert await written(store, *"abc") == ["1", "2", "3"]
    assert len({token for _, token in store.sent}) == 1
    assert store.transaction_sizes == [3] * 3


async def test_a_lost_reply_before_a_failed_condition(store: RecordingStore) -> None:
    """After a lost reply and a failed condition, each transaction is sent separately."""
    await commit_transaction(store, [new("b", "before")])
    store.fail_next(Failure(StoreUnavailable("The reply is lost.")))
    outcomes = await commit_all(store, [new("a", 1)], [new("b", 2)])
    assert outcomes[0] is None
    assert isinstance(outcomes[1], ConditionFailed)
    assert await written(store, *"ab") == ["1", "before"]


async def test_a_lost_reply_of_a_single_transaction_is_retried_alone(store: RecordingStore) -> None:
    """A transaction with a lost reply is sent again with its own token and alone, so that it is not applied twice."""
    store.fail_next(Failure(StoreUnavailable("The reply is lost."), is_applied=True))
    async with WriteCoalescer(store) as coalescer:
        with pytest.raises(StoreUnavailable):
            await coalescer.write_together([new("a", 1)], "one")
        assert await store.write([Delete(key("a"))]) == [None]  # by another client
        again = [coalescer.write_together([new("a", 1)], "one"), coalescer.write_together([new("b", 2)], "two")]
        assert await asyncio.gather(*again) == [None, None]
    assert await written(store, *"ab") == [None, "2"]


async def test_a_denial_after_a_lost_reply_is_no_failure(store: RecordingStore) -> None:
    """After a lost reply, a denial is not treated as a failure of the write, and nothing is sent separately."""
    denied = [Failure(StoreDenied("Access denied."))] * 2
    store.fail_next(Failure(StoreUnavailable("The reply is lost."), is_applied=True), *denied)
    outcomes = await commit_all(store, [new("a", 1)], [new("b", 2)])
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 2
    assert set(store.transaction_sizes) == {2}
    assert await written(store, *"ab") == ["1", "2"]


async def test_throttling_fails_all_combined_transactions(store: RecordingStore) -> None:
    """If the store throttles a combined transaction, the transactions are not sent separately."""
    store.fail_next(Failure(Throttled("Too many requests.")))
    async with WriteCoalescer(store) as coalescer:
        commits = (coalescer.write_together([new(name)], name) for name in "abc")
        outcomes = await asyncio.gather(*commits, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Throttled] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert store.transaction_sizes == [3]


async def test_a_conflict_splits_the_combined_transaction(store: RecordingStore) -> None:
    """After a conflict each transaction is sent separately."""
    store.fail_next(Failure(Conflict("Another transaction is in progress.")))
    assert await commit_all(store, [new("a")], [new("b")]) == [None, None]
    assert store.transaction_sizes == [2, 1, 1]


@dataclass
class ContentionScenario:
    """Writers that compete for few slots, over a store that fails at random."""

    random: Random
    store: RecordingStore
    acquired: dict[int, list[str]] = field(default_factory=dict)
    """by writer: the slots that it has acquired"""

    def next_failure(self, _: Sequence[TransactionWrite]) -> Failure | None:
        """Half of the calls fail, some of them after they were applied."""
        kind = self.random.randrange(8)
        if kind < 2:
            return Failure(StoreUnavailable("The reply is lost."), is_applied=bool(kind))
        if kind == 2:
            return Failure(Throttled("Too many requests."))
        return Failure(Conflict("Another transaction is in progress.")) if kind == 3 else None

    async def write(self, coalescer: WriteCoalescer, writer: int, slots: Sequence[str]) -> None:
        """Writes several slots in one transaction, until the outcome is known."""
        while True:
            try:
                await commit_transaction(coalescer, [new(slot, writer) for slot in slots])
            except ConditionFailed:
                return
            except StoreError as problem:
                found = await written(self.store.inner, *slots)
                if isinstance(problem, StoreUnavailable) and f"{writer}" in found:
                    break
            else:
                break
        self.acquired[writer] = [*slots]


async def test_transactions_are_atomic_under_random_failures(
    store: RecordingStore, random: Random, no_backoff: None
) -> None:
    """Under any failures each transaction is applied completely or not at all, and its writer learns which."""
    shared = 0
    for number in range(depth(40, 1_000)):
        store.sent.clear()
        scenario = ContentionScenario(random, store)
        store.failure_for = scenario.next_failure
        slots_by_writer = [[f"{number}-{slot}" for slot in random.sample(range(12), 3)] for _ in range(10)]
        async with WriteCoalescer(store) as coalescer:
            await asyncio.gather(
                *(scenario.write(coalescer, writer, slots) for writer, slots in enumerate(slots_by_writer))
            )
        shared += sum(size > 3 for size in store.transaction_sizes)
        owners = {slot: f"{writer}" for writer, slots in scenario.acquired.items() for slot in slots}
        assert len(owners) == sum(map(len, scenario.acquired.values()))
        all_slots = [f"{number}-{slot}" for slot in range(12)]
        assert await written(store.inner, *all_slots) == [owners.get(slot) for slot in all_slots]
    assert shared


# --- store calls -----------------------------------------------------------------------------------------------


class Shop(Entity):
    """A shop that numbers its things."""

    shop_id: Id[str]


class Thing(Entity):
    """A thing with a number, a unique label and a foreign key."""

    thing_id: Id[str] = generated()
    shop_id: str
    num: Int32 = counter("shop_id")
    label: Unique[str] | None = None

    of_shop = ForeignKey("Shop", by="shop_id")


CATALOG = Catalog(Shop, Thing)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with one shop, on a recording store."""
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path}/shop.db") as opened:
        await opened.put(Shop(shop_id="s"))
        yield Database(CATALOG, RecordingStore(opened.store), opened.seal)


def things(count: int, **values: Any) -> list[Create]:
    """Returns creates of things with distinct labels."""
    return [Create(CATALOG.entity(Thing), {"shop_id": "s", "label": f"t{n}", **values}) for n in range(count)]


async def test_calls_of_one_create(db: Database) -> None:
    """A create with a counter, a unique value and a foreign key takes one read, one write and one transaction."""
    assert isinstance(db.store, RecordingStore)
    await db.create(Thing, shop_id="s", label="first")
    db.store.read.clear()
    db.store.sent.clear()
    db.store.plain_writes = 0
    await db.create(Thing, shop_id="s", label="second")
    assert [len(keys) for keys in db.store.read] == [1]
    assert db.store.plain_writes == 1  # the counter
    assert db.store.transaction_sizes == [4]  # the record, its constraint items, and the check of the shop


async def test_calls_of_a_hundred_creates(db: Database) -> None:
    """A hundred creates take few calls, and get distinct numbers."""
    assert isinstance(db.store, RecordingStore)
    answers = await db.apply_each(things(100))
    assert {one.num for one in answers if isinstance(one, Thing)} == {*range(1, 101)}
    assert len(db.store.read) <= 3
    assert db.store.plain_writes <= 3
    assert len(db.store.sent) <= 4
    assert sum(db.store.transaction_sizes) <= 307


async def test_invalid_rows_of_a_batch_fail_alone(db: Database) -> None:
    """Each invalid row of a batch fails with its own error, and the others succeed."""
    await db.create(Thing, thing_id="there", shop_id="s", label="taken")
    rows = things(30)
    rows[3] = things(1, thing_id="there", label=None)[0]
    rows[14] = things(1, shop_id="nowhere")[0]
    rows[25] = things(1, label="taken")[0]
    answers = await db.apply_each(rows)
    wrong = {at: type(one) for at, one in enumerate(answers) if isinstance(one, ShardQLError)}
    assert wrong == {3: AlreadyExists, 14: ForeignKeyBroken, 25: NotUnique}
    created_ids = [one.thing_id for one in answers if isinstance(one, Thing)]
    assert len({*created_ids}) == 27
    assert None not in await db.get_many(Thing, created_ids)
