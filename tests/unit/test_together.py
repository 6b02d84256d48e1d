"""`Together`: many writers at one moment make few calls of the store, and each has what it would have alone."""

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
from graphql_api.storage.port import Store
from graphql_api.storage.values import Check, Delete, Expect, Item, Key, Put, TableDefinition, TransactionWrite, Write
from graphql_api.writes.commands import Create
from graphql_api.writes.transactions import commit_transaction
from graphql_api.writes.write_coalescer import WriteCoalescer
from tests.depth import depth
from tests.stores import WrappedStore

ABSENT = Expect(absent=True)


def key(name: object) -> Key:
    """Where an item stands."""
    return Key("things!", f"id#{name}")


def item(name: object, by: object = "") -> Item:
    """An item that says who wrote it."""
    return {"hashKey": "things!", "rangeKey": f"id#{name}", "_w": f"{by}", "by": f"{by}"}


def new(name: object, by: object = "") -> Put:
    """Writes an item where there is none."""
    return Put(item(name, by), ABSENT)


@dataclass(eq=False)
class Trouble:
    """What becomes of a call: whether it reaches the store, and how it fails then."""

    problem: StoreError
    is_applied: bool = False


class Watched(WrappedStore):
    """Notes what it is asked, and fails as it is told."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.read: list[Sequence[Key]] = []
        self.sent: list[tuple[Sequence[TransactionWrite], str]] = []
        self.alone = 0
        """writes that are no transactions"""
        self.trouble: Callable[[Sequence[TransactionWrite]], Trouble | None] = lambda _: None

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.read.append(keys)
        return await super().get_many(keys, consistent)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.sent.append((writes, token))
        trouble = self.trouble(writes)
        if trouble is None or trouble.is_applied:
            await super().write_together(writes, token)
        if trouble is not None:
            raise trouble.problem

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        self.alone += len(writes)
        return await super().write(writes)

    def once(self, *troubles: Trouble) -> None:
        """The next calls fail this way."""
        left = [*troubles]
        self.trouble = lambda _: left.pop(0) if left else None

    @property
    def sizes(self) -> list[int]:
        """How many writes each transaction had."""
        return [len(writes) for writes, _ in self.sent]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Watched]:
    """An empty table."""
    inner = await open_sqlite(tmp_path / "things.db")
    await inner.ensure_table(TableDefinition())
    yield Watched(inner)
    await inner.close()


Outcome = BaseException | None


async def together(store: Watched, *transactions: Sequence[TransactionWrite]) -> list[Outcome]:
    """What becomes of transactions that are asked for at one moment."""
    async with WriteCoalescer(store) as many:
        return await asyncio.gather(*(commit_transaction(many, writes) for writes in transactions), return_exceptions=True)


async def written(store: Store, *names: object) -> list[Any]:
    """Who wrote the items; None where there is none."""
    found = await store.get_many([key(name) for name in names], consistent=True)
    return [None if one is None else one["by"] for one in found]


# --- few calls -------------------------------------------------------------------------------------------------


async def test_reads_at_one_moment_are_one_call(store: Watched) -> None:
    """What several ask for is read once, each key once, and each gets its own in its order."""
    await together(store, [new("a", 1)], [new("b", 2)])
    async with WriteCoalescer(store) as many:
        asked = (many.get_many([key(name) for name in names], consistent=True) for names in ("ab", "ca", "b"))
        found = await asyncio.gather(*asked)
    assert [[one and one["by"] for one in each] for each in found] == [["1", "2"], [None, "1"], ["2"]]
    assert store.read == [[key("a"), key("b"), key("c")]]


async def test_a_read_that_need_not_be_consistent_goes_its_own_way(store: Watched) -> None:
    """Only reads that see everything are put together."""
    async with WriteCoalescer(store) as many:
        await asyncio.gather(*(many.get_many([key("a")], consistent=False) for _ in range(2)))
    assert len(store.read) == 2


async def test_a_key_that_no_engine_takes_is_the_trouble_of_whoever_asks_for_it(store: Watched) -> None:
    """A read that is refused takes no other with it."""
    async with WriteCoalescer(store) as many:
        asked = (many.get_many([one], consistent=True) for one in (key("a"), Key("", ""), key("b")))
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in found] == [list, StoreRefused, list]


async def test_transactions_at_one_moment_are_one(store: Watched) -> None:
    """Transactions go as one, and what several of them check is checked once."""
    await commit_transaction(store, [new("parent")])
    checked = Check(key("parent"), Expect(without=("closing",)))
    store.sent.clear()
    transactions: list[list[TransactionWrite]] = [[new(name, name), checked] for name in "abc"]
    outcomes = await together(store, *transactions)
    assert outcomes == [None, None, None]
    assert store.sizes == [4]
    assert await written(store, *"abc") == [*"abc"]


async def test_one_that_is_alone_is_sent_as_it_is(store: Watched) -> None:
    """Where nobody else asks, nothing is changed, not even the token."""
    async with WriteCoalescer(store) as many:
        await many.write_together([new("a")], "token")
    assert store.sent == [([new("a")], "token")]


async def test_no_transaction_has_more_writes_than_fit(store: Watched) -> None:
    """Of many as many go together as one transaction may have, and none is taken apart."""
    outcomes = await together(store, *([new(f"{n}-{part}") for part in range(3)] for n in range(70)))
    assert outcomes == [None] * 70
    assert store.sizes == [99, 99, 12]


async def test_who_comes_a_little_later_is_waited_for(store: Watched) -> None:
    """Those who wait for one another, and so come one after the other, are still one transaction."""
    lock = asyncio.Lock()

    async def go(many: WriteCoalescer, name: str) -> None:
        async with lock:
            pass
        await many.write_together([new(name)], name)

    async with WriteCoalescer(store) as many:
        await lock.acquire()
        asking = [asyncio.create_task(go(many, name)) for name in "abcdefgh"]
        await asyncio.sleep(0)
        lock.release()
        await asyncio.gather(*asking)
    assert store.sizes == [8]


# --- each for itself -------------------------------------------------------------------------------------------


async def test_whose_condition_fails_is_told_so_alone(store: Watched) -> None:
    """The others are carried out, by one more transaction; who failed learns what stands at which of its writes."""
    await commit_transaction(store, [new("b", "before")])
    store.sent.clear()
    outcomes = await together(store, [new("a", 1)], [new("x", 2), new("b", 2)], [new("c", 3)], [new("d", 4)])
    failed = outcomes.pop(1)
    assert isinstance(failed, ConditionFailed)
    assert (failed.position, failed.old) == (1, item("b", "before"))
    assert outcomes == [None, None, None]
    assert await written(store, *"abcdx") == ["1", "before", "3", "4", None]
    assert sorted(store.sizes) == [2, 3, 5]


async def test_those_who_want_the_same_place_are_sent_apart(store: Watched) -> None:
    """Of two that write one item one does; what the other one wanted beside it is not there."""
    outcomes = await together(store, [new("a", 1), new("b", 1)], [new("a", 2), new("c", 2)])
    assert sorted(outcome is None for outcome in outcomes) == [False, True]
    winner = outcomes.index(None) + 1
    assert await written(store, *"abc") == [f"{winner}", "1" if winner == 1 else None, "2" if winner == 2 else None]


async def test_what_one_removes_another_may_not_count_on(store: Watched) -> None:
    """A transaction that checks what another one removes is sent apart from it."""
    await commit_transaction(store, [new("a")])
    outcomes = await together(store, [Delete(key("a"))], [Check(key("a"), Expect()), new("b")])
    assert outcomes[0] is None
    assert (outcomes[1] is None) == (await written(store, "b") == [""])


async def test_of_two_that_remove_the_same_one_does(store: Watched) -> None:
    """What two transactions do alike is not done for both of them by one."""
    await commit_transaction(store, [new("a", 1)])
    removal = Delete(key("a"), Expect(attributes={"_w": "1"}))
    outcomes = await together(store, [removal, new("b")], [removal, new("c")])
    assert sorted(outcome is None for outcome in outcomes) == [False, True]
    assert sorted(one is None for one in await written(store, *"bc")) == [False, True]


async def test_what_no_engine_takes_takes_no_other_with_it(store: Watched) -> None:
    """A record that is refused is the trouble of its own transaction."""
    doubled = [new("d", 4), Put(item("d", 4))]
    outcomes = await together(store, [new("a", 1)], [Put({**item("b"), "wrong": 1.5})], [new("c", 3)], doubled)
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreRefused, type(None), StoreRefused]
    assert await written(store, *"abc") == ["1", None, "3"]


async def test_one_that_leaves_takes_no_other_with_it(store: Watched) -> None:
    """Who is cancelled before the transactions are sent has written nothing, and the others have."""
    async with WriteCoalescer(store) as many:
        asking = [asyncio.create_task(many.write_together([new(name)], name)) for name in "abc"]
        await asyncio.sleep(0)
        asking[1].cancel()
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, type(None)]
    assert await written(store, *"abc") == ["", None, ""]


async def test_nothing_outlives_the_block(store: Watched) -> None:
    """What is still under way at its end is cancelled."""
    began, ended = asyncio.Event(), asyncio.Event()

    class Slow(WrappedStore):
        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    async with WriteCoalescer(Slow(store)) as many:
        asking = [asyncio.create_task(many.write_together([new(name)], name)) for name in "ab"]
        await began.wait()
        for one in asking:
            one.cancel()
    assert ended.is_set()


# --- troubles of the store -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_applied", [True, False])
async def test_a_lost_reply_is_asked_for_again(store: Watched, is_applied: bool) -> None:
    """Where nobody knows, one asks for all under their token, and nobody is told of a failure that was none."""
    store.once(*(Trouble(StoreUnavailable("Nothing was heard."), is_applied) for _ in range(2)))
    outcomes = await together(store, [new("a", 1)], [new("b", 2)], [new("c", 3)])
    assert outcomes == [None, None, None]
    assert await written(store, *"abc") == ["1", "2", "3"]
    assert len({token for _, token in store.sent}) == 1
    assert store.sizes == [3] * 3


async def test_a_lost_reply_before_a_failed_condition(store: Watched) -> None:
    """What was sent unheard and not carried out is sent by each alone once it is clear that it cannot be as one."""
    await commit_transaction(store, [new("b", "before")])
    store.once(Trouble(StoreUnavailable("Nothing was heard.")))
    outcomes = await together(store, [new("a", 1)], [new("b", 2)])
    assert outcomes[0] is None
    assert isinstance(outcomes[1], ConditionFailed)
    assert await written(store, *"ab") == ["1", "before"]


async def test_who_heard_nothing_alone_is_sent_alone_again(store: Watched) -> None:
    """What may have been carried out goes on under its own token, and is not done once more along with others."""
    store.once(Trouble(StoreUnavailable("Nothing was heard."), is_applied=True))
    async with WriteCoalescer(store) as many:
        with pytest.raises(StoreUnavailable):
            await many.write_together([new("a", 1)], "one")
        assert await store.write([Delete(key("a"))]) == [None]  # by somebody else
        again = [many.write_together([new("a", 1)], "one"), many.write_together([new("b", 2)], "two")]
        assert await asyncio.gather(*again) == [None, None]
    assert await written(store, *"ab") == [None, "2"]


async def test_a_denial_behind_silence(store: Watched) -> None:
    """That nobody is let in any more says nothing of what was sent before: it is not sent alone, and has not failed."""
    denied = [Trouble(StoreDenied("Not any more."))] * 2
    store.once(Trouble(StoreUnavailable("Nothing was heard."), is_applied=True), *denied)
    outcomes = await together(store, [new("a", 1)], [new("b", 2)])
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 2
    assert set(store.sizes) == {2}
    assert await written(store, *"ab") == ["1", "2"]


async def test_patience_is_asked_of_everybody(store: Watched) -> None:
    """Where the store asks for patience, it is not asked by each alone instead."""
    store.once(Trouble(Throttled("Not so fast.")))
    async with WriteCoalescer(store) as many:
        asked = (many.write_together([new(name)], name) for name in "abc")
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Throttled] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert store.sizes == [3]


async def test_a_conflict_is_that_of_one_of_them(store: Watched) -> None:
    """After a conflict each asks for itself."""
    store.once(Trouble(Conflict("Somebody else.")))
    assert await together(store, [new("a")], [new("b")]) == [None, None]
    assert store.sizes == [2, 1, 1]


@dataclass
class _Story:
    """Writers that want some of few places, over a store that fails as it likes."""

    random: Random
    store: Watched
    taken: dict[int, list[str]] = field(default_factory=dict)
    """by writer: the places that it is told to have"""

    def trouble(self, _: Sequence[TransactionWrite]) -> Trouble | None:
        """Half of all calls fail, half of those after they were carried out."""
        kind = self.random.randrange(8)
        if kind < 2:
            return Trouble(StoreUnavailable("Nothing was heard."), is_applied=bool(kind))
        if kind == 2:
            return Trouble(Throttled("Not so fast."))
        return Trouble(Conflict("Somebody else.")) if kind == 3 else None

    async def write(self, many: WriteCoalescer, writer: int, places: Sequence[str]) -> None:
        """Takes places all at once; it is certain in the end whether it has them."""
        while True:
            try:
                await commit_transaction(many, [new(place, writer) for place in places])
            except ConditionFailed:
                return
            except StoreError as problem:
                found = await written(self.store.inner, *places)
                if isinstance(problem, StoreUnavailable) and f"{writer}" in found:
                    break
            else:
                break
        self.taken[writer] = [*places]


async def test_each_has_all_or_nothing_and_knows_it(store: Watched, random: Random, no_pauses: None) -> None:
    """Whatever fails, and however often: who is told to have written has, each place once, and nobody else has."""
    shared = 0
    for number in range(depth(40, 1_000)):
        store.sent.clear()
        story = _Story(random, store)
        store.trouble = story.trouble
        wanted = [[f"{number}-{place}" for place in random.sample(range(12), 3)] for _ in range(10)]
        async with WriteCoalescer(store) as many:
            await asyncio.gather(*(story.write(many, writer, places) for writer, places in enumerate(wanted)))
        shared += sum(size > 3 for size in store.sizes)
        owners = {place: f"{writer}" for writer, places in story.taken.items() for place in places}
        assert len(owners) == sum(map(len, story.taken.values()))
        everywhere = [f"{number}-{place}" for place in range(12)]
        assert await written(store.inner, *everywhere) == [owners.get(place) for place in everywhere]
    assert shared


# --- what it costs ---------------------------------------------------------------------------------------------


class Shop(Entity):
    """Where things are made."""

    shop_id: Id[str]


class Thing(Entity):
    """One of many, numbered in its shop."""

    thing_id: Id[str] = generated()
    shop_id: str
    num: Int32 = counter("shop_id")
    label: Unique[str] | None = None

    of_shop = ForeignKey("Shop", by="shop_id")


CATALOG = Catalog(Shop, Thing)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with one shop, whose store is watched."""
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path}/shop.db") as opened:
        await opened.put(Shop(shop_id="s"))
        yield Database(CATALOG, Watched(opened.store), opened.seal)


def things(count: int, **values: Any) -> list[Create]:
    """Things to be made."""
    return [Create(CATALOG.entity(Thing), {"shop_id": "s", "label": f"t{n}", **values}) for n in range(count)]


async def test_what_one_record_costs(db: Database) -> None:
    """A record with a number, a unique value and a foreign key takes one read, a write and a transaction."""
    assert isinstance(db.store, Watched)
    await db.create(Thing, shop_id="s", label="first")
    db.store.read.clear()
    db.store.sent.clear()
    db.store.alone = 0
    await db.create(Thing, shop_id="s", label="second")
    assert [len(keys) for keys in db.store.read] == [1]
    assert db.store.alone == 1  # The counter.
    assert db.store.sizes == [4]  # The record, its value, its reference, and whether the shop is there.


async def test_what_a_hundred_records_cost(db: Database) -> None:
    """A hundred records take a few calls, and each gets a number of its own."""
    assert isinstance(db.store, Watched)
    answers = await db.apply_each(things(100))
    assert {one.num for one in answers if isinstance(one, Thing)} == {*range(1, 101)}
    assert len(db.store.read) <= 3
    assert db.store.alone <= 3
    assert len(db.store.sent) <= 4
    assert sum(db.store.sizes) <= 307


async def test_rows_that_are_wrong_among_a_hundred(db: Database) -> None:
    """Each row is answered for itself, whatever is wrong with the others."""
    await db.create(Thing, thing_id="there", shop_id="s", label="taken")
    rows = things(30)
    rows[3] = things(1, thing_id="there", label=None)[0]
    rows[14] = things(1, shop_id="nowhere")[0]
    rows[25] = things(1, label="taken")[0]
    answers = await db.apply_each(rows)
    wrong = {at: type(one) for at, one in enumerate(answers) if isinstance(one, ShardQLError)}
    assert wrong == {3: AlreadyExists, 14: ForeignKeyBroken, 25: NotUnique}
    made = [one.thing_id for one in answers if isinstance(one, Thing)]
    assert len({*made}) == 27
    assert None not in await db.get_many(Thing, made)
