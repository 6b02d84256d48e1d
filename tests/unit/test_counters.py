"""Counters: numbers in turn for each group, none twice, whoever takes them and whatever goes wrong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from graphql_api import Catalog, Entity, Id, Int32, counter, derived
from graphql_api.codecs.hash_keys import parse_hash_key
from graphql_api.database import Database
from graphql_api.errors import AlreadyExists, Conflict, ImmutableChanged, InvalidValue, StoreError, StoreUnavailable
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.metered_store import MeteredStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Key, Put, TransactionWrite, Write
from graphql_api.writes.constraints.counters import Counters, assign_numbers, counter_key, shared_counters
from tests.stores import WrappedStore
from tests.unit.conftest import Opened
from tests.unit.engines import on_both_engines


def _label(num: int) -> str:
    return f"#{num}"


class Ticket(Entity):
    """Something with a number of its own in each of its groups, and one among all."""

    ticket_id: Id[str]
    board: str = "b"
    column: int | None = None
    num: Int32 = counter("board", "column")
    serial: int = counter()
    label: str | None = derived(_label, "num")


CATALOG = Catalog(Ticket)
TICKET = CATALOG.entity(Ticket)
KEY = Key("ticket~counter!|board#b", "counter#num")


class Watched(WrappedStore):
    """Counts writes, and may do something before or after the next ones."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.writes = 0
        self.before: Callable[[Sequence[TransactionWrite]], Awaitable[None]] | None = None
        self.after: Callable[[], None] | None = None

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        async with self._watched(writes):
            return await super().write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        async with self._watched(writes):
            await super().write_together(writes, token)

    @asynccontextmanager
    async def _watched(self, writes: Sequence[TransactionWrite]) -> AsyncIterator[None]:
        self.writes += 1
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(writes)
        yield
        if self.after is not None:
            self.after()


@pytest.fixture
async def store(opened: Opened) -> Watched:
    """An empty store."""
    inner = await opened()
    await inner.ensure_table(CATALOG.table_definition())
    return Watched(inner)


def key_of(board: str, column: int | None, tenant: str | None = None) -> Key:
    """Where the counter of a group stands."""
    return counter_key(TICKET, TICKET.properties["num"], Ticket(ticket_id="t", board=board, column=column), tenant)


async def next_number(store: Store, key: Key = KEY) -> int:
    """The next number of a group."""
    return await shared_counters(store).next_number(store, key, "The counter")


@on_both_engines
async def test_each_group_counts_from_one(store: Watched) -> None:
    """A group's numbers begin with 1 and follow one another; other groups and other tenants have their own."""
    for key in (key_of("b", 1), key_of("b", 2), key_of("b", None), key_of("b", 1, "acme")):
        assert [await next_number(store, key) for _ in range(3)] == [1, 2, 3]


def test_no_two_groups_share_a_counter() -> None:
    """Values that look like separators, empty ones and nulls are groups of their own, and no entity's shard."""
    boards = ["", "b", "b|column#00009223372036854775809", "b#", "b!", "B", "b/", "%7C"]
    keys = {key_of(board, column, tenant) for board in boards for column in (None, 0, 1, -1) for tenant in (None, "b")}
    assert len(keys) == len(boards) * 4 * 2
    for key in keys:
        assert parse_hash_key(key.hash).head not in CATALOG.entities
    serial = counter_key(TICKET, TICKET.properties["serial"], Ticket(ticket_id="t"), None)
    assert serial == Key("ticket~counter!", "counter#serial")


async def test_takers_of_a_moment_share_a_write(store: Watched) -> None:
    """Fifty takers at once need two writes: one for the first of them, and one for all who came meanwhile."""
    numbers = await asyncio.gather(*(next_number(store) for _ in range(50)))
    assert numbers == [*range(1, 51)]
    assert store.writes == 2
    assert await next_number(store) == 51


async def test_takers_through_meters(store: Watched) -> None:
    """Who takes through a store that is metered shares the write with the others all the same."""
    meters = [MeteredStore(MeteredStore(store, lambda _: None), lambda _: None) for _ in range(10)]
    ways: list[Store] = [store, *meters]
    numbers = await asyncio.gather(*(next_number(one) for one in ways))
    assert sorted(numbers) == [*range(1, 12)]
    assert store.writes == 2


@on_both_engines
async def test_processes_that_take_at_once(store: Watched, opened: Opened) -> None:
    """Several processes never take the same number, and none is left out while nothing fails."""
    ways: list[Store] = [store, *[await opened() for _ in range(3)]]
    counters = [(Counters(), one) for one in ways]
    numbers = await asyncio.gather(*(mine.next_number(own, KEY, "The counter") for _ in range(25) for mine, own in counters))
    assert sorted(numbers) == [*range(1, 101)]


@on_both_engines
async def test_a_counter_that_another_process_has_raised(store: Watched) -> None:
    """What a process remembers of a counter is never believed: it goes on behind what stands there."""
    here, there = Counters(), Counters()
    assert await here.next_number(store, KEY, "The counter") == 1
    assert [await there.next_number(store, KEY, "The counter") for _ in range(3)] == [2, 3, 4]
    assert await here.next_number(store, KEY, "The counter") == 5


@pytest.mark.parametrize("block", [1, 2])
async def test_the_one_who_takes_for_all_leaves(store: Watched, block: int) -> None:
    """A taker who is cancelled while taking for others costs them nothing but time, and no number comes twice."""
    for steps in range(10):
        key, written = Key(f"{KEY.hash}{steps}", KEY.range), store.writes
        takers = [asyncio.ensure_future(next_number(store, key)) for _ in range(5)]
        # The first one takes for itself, the second for all who wait by then.
        while store.writes < written + block:  # noqa: ASYNC110 - a few turns of the loop
            await asyncio.sleep(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        takers[block - 1].cancel()
        numbers = await asyncio.gather(*takers, return_exceptions=True)
        assert isinstance(numbers.pop(block - 1), asyncio.CancelledError | int)
        assert len({*numbers}) == 4
        assert all(isinstance(number, int) for number in numbers)
    assert not shared_counters(store)._queues


async def test_one_who_waits_leaves(store: Watched) -> None:
    """A taker who is cancelled while another takes for all is forgotten, and the rest get their numbers."""
    takers = [asyncio.ensure_future(next_number(store)) for _ in range(5)]
    await asyncio.sleep(0)
    takers[2].cancel()
    numbers = await asyncio.gather(*takers, return_exceptions=True)
    assert isinstance(numbers[2], asyncio.CancelledError)
    assert [number for number in numbers if isinstance(number, int)] == [1, 2, 3, 4]


@on_both_engines
async def test_answers_that_are_lost(store: Watched) -> None:
    """Half of all answers lost after the write: everybody has a number, and nobody another's."""
    lost = iter(range(1_000))

    def after() -> None:
        if next(lost) % 2:
            raise StoreUnavailable("The answer is lost.")

    store.after = after
    numbers = [await next_number(store) for _ in range(20)]
    numbers += await asyncio.gather(*(next_number(store) for _ in range(20)))
    assert numbers == [*range(1, 41)]


@on_both_engines
async def test_an_answer_that_is_lost_while_another_process_takes(store: Watched) -> None:
    """A number that was taken without an answer is left out where somebody went on behind it, and nobody gets it."""
    theirs: list[int] = []

    async def before(_: Sequence[TransactionWrite]) -> None:
        if store.writes == 2:
            theirs.append(await Counters().next_number(store.inner, KEY, "The counter"))

    def after() -> None:
        if store.writes == 1:
            raise StoreUnavailable("The answer is lost.")

    store.before, store.after = before, after
    assert await next_number(store) == 3
    assert theirs == [2]
    assert store.writes == 3


async def test_a_store_that_does_not_answer(store: Watched) -> None:
    """All who wait learn of it, each by an error of its own that may be retried; then numbers go on, none twice."""

    def refuse() -> None:
        raise StoreUnavailable("No answer.")

    assert await next_number(store) == 1
    store.after = refuse
    results = await asyncio.gather(*(next_number(store) for _ in range(4)), return_exceptions=True)
    assert all(isinstance(result, StoreUnavailable) for result in results)
    assert len({*map(id, results)}) == 4
    store.after = None
    assert await next_number(store) > 1
    assert await next_number(store) > 2


@on_both_engines
async def test_raising_a_counter(store: Watched) -> None:
    """A counter is raised above a number that was given, never lowered, and writes nothing where it is high enough."""
    mine = shared_counters(store)
    await mine.raise_to(store, KEY, 41, "The counter")
    assert await next_number(store) == 42
    written = store.writes
    await mine.raise_to(store, KEY, 7, "The counter")
    await Counters().raise_to(store, KEY, 42, "The counter")
    assert store.writes == written
    assert await next_number(store) == 43


@on_both_engines
async def test_the_numbers_of_a_record(store: Watched) -> None:
    """A record gets the numbers that it lacks, with what is derived of them; those that it has are not handed out."""
    first, second, third = (Ticket(ticket_id=name) for name in "abc")
    await assign_numbers(store, TICKET, first, None)
    assert (first.num, first.serial, first.label) == (1, 1, "#1")
    second.num = 9
    await assign_numbers(store, TICKET, second, None)
    assert (second.num, second.serial, second.label) == (9, 2, "#9")
    await assign_numbers(store, TICKET, third, None)
    assert (third.num, third.serial) == (10, 3)


@on_both_engines
async def test_the_last_number_of_a_type(store: Watched) -> None:
    """Behind the greatest number that a property can hold there is none: an error that names the property."""
    await shared_counters(store).raise_to(store, key_of("b", None), 2**31 - 2, "The counter")
    last = Ticket(ticket_id="a")
    await assign_numbers(store, TICKET, last, None)
    assert last.num == 2**31 - 1
    with pytest.raises(InvalidValue, match=r"Ticket\.num: the counter of this group is at its maximum") as caught:
        await assign_numbers(store, TICKET, Ticket(ticket_id="b"), None)
    assert caught.value.argument == "num"


async def test_only_so_many_counters_are_remembered(store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process remembers the counters that were used last, and takes from the others all the same."""
    monkeypatch.setattr("graphql_api.writes.constraints.counters.MAX_CACHED_COUNTERS", 2)
    keys = [key_of(board, None) for board in "abc"]
    assert [await next_number(store, key) for key in keys * 2] == [1, 1, 1, 2, 2, 2]
    assert len(shared_counters(store)._cached_items) == 2


# --- the numbers of records ------------------------------------------------------------------------------------


@pytest.fixture
def db(store: Watched) -> Database:
    """Tickets on the store."""
    return Database(CATALOG, store, TokenSeal([b"a secret of thirty-two bytes only"]))


async def stored(db: Database, ticket_id: str) -> Ticket:
    """A ticket as it stands."""
    found = await db.get(Ticket, ticket_id)
    assert found is not None
    return found


@on_both_engines
async def test_many_creators(db: Database, store: Watched) -> None:
    """Sixty-four creators at once get the numbers from 1 to 64, and need few writes more than records."""
    made = await asyncio.gather(*(db.create(Ticket, ticket_id=f"t{at}") for at in range(64)))
    assert sorted(ticket.num for ticket in made) == sorted(ticket.serial for ticket in made) == [*range(1, 65)]
    assert all(ticket.label == f"#{ticket.num}" for ticket in made)
    assert [await stored(db, ticket.ticket_id) for ticket in made] == made
    assert store.writes < 64 + 20


async def test_a_number_is_not_given_but_taken(db: Database) -> None:
    """To create a record with a number of one's own is refused, and takes none."""
    with pytest.raises(InvalidValue, match=r"Ticket\.num is assigned by a counter") as caught:
        await db.create(Ticket, ticket_id="a", num=7)
    assert caught.value.argument == "num"
    assert (await db.create(Ticket, ticket_id="a")).num == 1


@on_both_engines
async def test_a_number_never_changes(db: Database) -> None:
    """No update and no put changes it; a put without one keeps it, and deleting the record does not free it."""
    await db.create(Ticket, ticket_id="a")
    for change in (
        db.update(Ticket, "a", num=2),
        db.update(Ticket, "a", num=None, serial=9),
        db.put(Ticket(ticket_id="a", num=3)),
    ):
        with pytest.raises(ImmutableChanged):
            await change
    await db.put(Ticket(ticket_id="a"))
    assert (await stored(db, "a")).num == 1
    await db.delete(Ticket, "a")
    assert (await db.create(Ticket, ticket_id="a")).num == 2


@on_both_engines
@pytest.mark.parametrize("restoring", [False, True])
async def test_records_that_bring_their_numbers(db: Database, restoring: bool) -> None:
    """A record that is put or restored keeps its number, and nobody ever gets it again."""
    records = [Ticket(ticket_id=f"t{number}", num=number, serial=number) for number in (5, 40, 3)]
    records.append(Ticket(ticket_id="other", board="c", num=7, serial=8))
    write = db.restore_many if restoring else db.put_many
    assert await write(records) == [None] * 4
    assert {(await stored(db, f"t{number}")).num for number in (5, 40, 3)} == {5, 40, 3}
    following = await db.create(Ticket, ticket_id="following")
    assert (following.num, following.serial) == (41, 41)
    assert (await db.create(Ticket, ticket_id="too", board="c")).num == 8


async def test_restoring_another_number(db: Database) -> None:
    """A record that is restored over one with a lower number takes its own, which is not given again."""
    await db.create(Ticket, ticket_id="a")
    assert await db.restore_many([Ticket(ticket_id="a", num=9, serial=1)]) == [None]
    assert (await stored(db, "a")).num == 9
    assert (await db.create(Ticket, ticket_id="b")).num == 10


@on_both_engines
async def test_records_from_before_the_counter(db: Database, store: Watched) -> None:
    """A record that was written before its entity had counters gets its numbers with the next write, once."""
    await db.create(Ticket, ticket_id="a")
    for ticket_id in ("b", "c", "d"):
        item = {"hashKey": "ticket!", "rangeKey": f"ticketId#{ticket_id}", "ticketId": ticket_id, "board": "b"}
        assert await store.write([Put(item)]) == [None]
    assert (await db.update(Ticket, "b", column=None)).num == 2
    assert (await db.update(Ticket, "b", column=None)).num == 2
    await db.put(Ticket(ticket_id="c"))
    assert (await stored(db, "c")).num == 3
    await db.put(Ticket(ticket_id="d", num=9))
    assert ((await stored(db, "d")).num, (await stored(db, "d")).label) == (9, "#9")
    assert (await db.create(Ticket, ticket_id="e")).num == 10


@on_both_engines
async def test_a_record_that_changes_its_group(db: Database) -> None:
    """It takes its number along, and the new group's counter goes on above it."""
    for ticket_id in "abc":
        await db.create(Ticket, ticket_id=ticket_id)
    assert (await db.update(Ticket, "c", board="c")).num == 3
    assert (await db.create(Ticket, ticket_id="d", board="c")).num == 4
    await db.put(Ticket(ticket_id="b", board="d"))
    assert (await db.create(Ticket, ticket_id="e", board="d")).num == 3


@on_both_engines
async def test_a_number_is_taken_once_however_often_it_is_tried(db: Database, store: Watched) -> None:
    """A write that meets others again and again keeps the number of its first try, also for a record that had none."""
    item = {"hashKey": "ticket!", "rangeKey": "ticketId#old", "ticketId": "old", "board": "b"}
    assert await store.write([Put(item)]) == [None]
    left = {"new": 3, "old": 3, "put": 3}

    async def before(writes: Sequence[TransactionWrite]) -> None:
        for ticket_id, times in left.items():
            if times and any(isinstance(one, Put) and one.item.get("ticketId") == ticket_id for one in writes):
                left[ticket_id] -= 1
                raise Conflict("It meets another one.")

    store.before = before
    assert (await db.create(Ticket, ticket_id="new")).num == 1
    assert (await db.update(Ticket, "old", column=None)).num == 2
    await db.put(Ticket(ticket_id="put"))
    assert ((await stored(db, "put")).num, (await stored(db, "put")).serial) == (3, 3)
    assert (await db.create(Ticket, ticket_id="last")).num == 4
    assert not any(left.values())


async def test_a_number_that_somebody_else_has_given(db: Database, store: Watched) -> None:
    """A record without a number that gets one while it is being changed keeps that, whatever was taken for it."""
    item = {"hashKey": "ticket!", "rangeKey": "ticketId#old", "ticketId": "old", "board": "b"}
    assert await store.write([Put(item)]) == [None]

    async def before(writes: Sequence[TransactionWrite]) -> None:
        if any(isinstance(one, Put) and "ticketId" in one.item for one in writes):
            store.before = None
            await store.write([Put({**item, "num": 7, "serial": 8, "_w": "another"})])

    store.before = before
    changed = await db.update(Ticket, "old", board="c")
    assert (changed.num, changed.serial) == (7, 8)
    assert await stored(db, "old") == changed
    assert (await db.create(Ticket, ticket_id="next", board="c")).num == 8


async def test_a_create_that_fails_leaves_a_gap(db: Database) -> None:
    """A number whose record was refused is left out, and is nobody's."""
    assert (await db.create(Ticket, ticket_id="a")).num == 1
    with pytest.raises(AlreadyExists):
        await db.create(Ticket, ticket_id="a")
    assert (await db.create(Ticket, ticket_id="b")).num > 1


async def test_counters_are_in_no_shard(db: Database, store: Watched) -> None:
    """An entity that grows looks at its records and not at its counters, whatever those are called."""
    await db.create(Ticket, ticket_id="a")
    heads = {parse_hash_key(item["hashKey"]).head for item in (await store.scan(0, 1, None)).items}
    assert heads == {"ticket", "ticket~counter"}
    assert [ticket.ticket_id for ticket in (await db.search(Ticket.by_id)).items] == ["a"]
