"""Counters assign consecutive numbers per group, each at most once, under concurrency and failures."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from graphql_api import Catalog, Entity, Id, Int32, counter, derived
from graphql_api.clock import system_clock
from graphql_api.codecs.hash_keys import parse_hash_key
from graphql_api.database import Database
from graphql_api.errors import AlreadyExists, Conflict, ImmutableChanged, InvalidValue, StoreError, StoreUnavailable
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.metered_store import ForwardingStore, MeteredStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Key, Put, TransactionWrite, Write
from graphql_api.writes.counters import Counters, assign_numbers, counter_key, shared_counters
from graphql_api.writes.entity_records import EntityRecords
from tests.support.engine_params import on_both_engines
from tests.writes.conftest import OpenTable


def _label(num: int) -> str:
    return f"#{num}"


class Ticket(Entity):
    """A ticket with a number per group and a serial number among all tickets."""

    ticket_id: Id[str]
    board: str = "b"
    column: int | None = None
    num: Int32 = counter("board", "column")
    serial: int = counter()
    label: str | None = derived(_label, "num")


CATALOG = Catalog(Ticket)
TICKET = CATALOG.entity(Ticket)
KEY = Key("ticket~counter!|board#b", "counter#num")


class HookedStore(ForwardingStore):
    """Counts writes, and runs hooks before and after them."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.writes = 0
        self.before: Callable[[Sequence[TransactionWrite]], Awaitable[None]] | None = None
        self.after: Callable[[], None] | None = None

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        async with self._with_hooks(writes):
            return await super().write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        async with self._with_hooks(writes):
            await super().write_together(writes, token)

    @asynccontextmanager
    async def _with_hooks(self, writes: Sequence[TransactionWrite]) -> AsyncIterator[None]:
        self.writes += 1
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(writes)
        yield
        if self.after is not None:
            self.after()


@pytest.fixture
async def store(open_table: OpenTable) -> HookedStore:
    """An empty store."""
    inner = await open_table()
    await inner.ensure_table(CATALOG.table_definition())
    return HookedStore(inner)


def key_of(board: str, column: int | None, tenant: str | None = None) -> Key:
    """Returns the key of a group's counter."""
    return counter_key(TICKET, TICKET.properties["num"], Ticket(ticket_id="t", board=board, column=column), tenant)


def tickets(store: Store) -> EntityRecords:
    """The tickets in a store."""
    return EntityRecords(store, TICKET, None, system_clock)


async def next_number(store: Store, key: Key = KEY) -> int:
    """Takes the next number of a counter."""
    return await shared_counters(store).next_number(store, key, "The counter")


@on_both_engines
async def test_each_group_counts_from_one(store: HookedStore) -> None:
    """The numbers of each group and tenant start at 1 and are consecutive."""
    for key in (key_of("b", 1), key_of("b", 2), key_of("b", None), key_of("b", 1, "acme")):
        assert [await next_number(store, key) for _ in range(3)] == [1, 2, 3]


def test_counter_keys_of_groups_are_distinct() -> None:
    """Each combination of group values has its own counter key, outside of all shards of the entity."""
    boards = ["", "b", "b|column#00009223372036854775809", "b#", "b!", "B", "b/", "%7C"]
    keys = {key_of(board, column, tenant) for board in boards for column in (None, 0, 1, -1) for tenant in (None, "b")}
    assert len(keys) == len(boards) * 4 * 2
    for key in keys:
        assert parse_hash_key(key.hash).head not in CATALOG.entities
    serial = counter_key(TICKET, TICKET.properties["serial"], Ticket(ticket_id="t"), None)
    assert serial == Key("ticket~counter!", "counter#serial")


async def test_concurrent_requests_share_a_write(store: HookedStore) -> None:
    """Fifty concurrent requests for a number need two writes: one for the first, and one for all others."""
    numbers = await asyncio.gather(*(next_number(store) for _ in range(50)))
    assert numbers == [*range(1, 51)]
    assert store.writes == 2
    assert await next_number(store) == 51


async def test_requests_through_metered_stores_share_a_write(store: HookedStore) -> None:
    """Requests through metered stores share a write with the others."""
    meters = [MeteredStore(MeteredStore(store, lambda _: None), lambda _: None) for _ in range(10)]
    stores: list[Store] = [store, *meters]
    numbers = await asyncio.gather(*(next_number(one) for one in stores))
    assert sorted(numbers) == [*range(1, 12)]
    assert store.writes == 2


@on_both_engines
async def test_concurrent_processes_get_distinct_numbers(store: HookedStore, open_table: OpenTable) -> None:
    """Several processes never get the same number, and skip none if no call fails."""
    stores: list[Store] = [store, *[await open_table() for _ in range(3)]]
    processes = [(Counters(), one) for one in stores]
    numbers = await asyncio.gather(
        *(counters.next_number(own, KEY, "The counter") for _ in range(25) for counters, own in processes)
    )
    assert sorted(numbers) == [*range(1, 101)]


@on_both_engines
async def test_a_counter_raised_by_another_process(store: HookedStore) -> None:
    """A cached counter value is not trusted: the next number follows the stored one."""
    this_process, other_process = Counters(), Counters()
    assert await this_process.next_number(store, KEY, "The counter") == 1
    assert [await other_process.next_number(store, KEY, "The counter") for _ in range(3)] == [2, 3, 4]
    assert await this_process.next_number(store, KEY, "The counter") == 5


@pytest.mark.parametrize("block", [1, 2])
async def test_cancelling_the_request_that_writes_for_others(store: HookedStore, block: int) -> None:
    """If the request that writes for others is cancelled, the others still get distinct numbers."""
    for steps in range(10):
        key, written = Key(f"{KEY.hash}{steps}", KEY.range), store.writes
        requests = [asyncio.ensure_future(next_number(store, key)) for _ in range(5)]
        # The first request writes for itself, the second for all that wait by then.
        while store.writes < written + block:  # noqa: ASYNC110 - yields to the event loop
            await asyncio.sleep(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        requests[block - 1].cancel()
        numbers = await asyncio.gather(*requests, return_exceptions=True)
        assert isinstance(numbers.pop(block - 1), asyncio.CancelledError | int)
        assert len({*numbers}) == 4
        assert all(isinstance(number, int) for number in numbers)
    assert not shared_counters(store)._queues


async def test_cancelling_a_waiting_request(store: HookedStore) -> None:
    """A waiting request that is cancelled is dropped, and the others get their numbers."""
    requests = [asyncio.ensure_future(next_number(store)) for _ in range(5)]
    await asyncio.sleep(0)
    requests[2].cancel()
    numbers = await asyncio.gather(*requests, return_exceptions=True)
    assert isinstance(numbers[2], asyncio.CancelledError)
    assert [number for number in numbers if isinstance(number, int)] == [1, 2, 3, 4]


@on_both_engines
async def test_lost_replies(store: HookedStore) -> None:
    """If half of the replies are lost after the write, all requests get distinct consecutive numbers."""
    replies = iter(range(1_000))

    def after() -> None:
        if next(replies) % 2:
            raise StoreUnavailable("The reply is lost.")

    store.after = after
    numbers = [await next_number(store) for _ in range(20)]
    numbers += await asyncio.gather(*(next_number(store) for _ in range(20)))
    assert numbers == [*range(1, 41)]


@on_both_engines
async def test_a_lost_reply_with_a_concurrent_process(store: HookedStore) -> None:
    """If another process takes the next number after a lost reply, the unconfirmed number is never assigned."""
    others_numbers: list[int] = []

    async def before(_: Sequence[TransactionWrite]) -> None:
        if store.writes == 2:
            others_numbers.append(await Counters().next_number(store.inner, KEY, "The counter"))

    def after() -> None:
        if store.writes == 1:
            raise StoreUnavailable("The reply is lost.")

    store.before, store.after = before, after
    assert await next_number(store) == 3
    assert others_numbers == [2]
    assert store.writes == 3


async def test_an_unavailable_store_fails_all_waiting_requests(store: HookedStore) -> None:
    """If the store is unavailable, each waiting request gets its own error. Later numbers do not repeat."""

    def refuse() -> None:
        raise StoreUnavailable("No reply.")

    assert await next_number(store) == 1
    store.after = refuse
    results = await asyncio.gather(*(next_number(store) for _ in range(4)), return_exceptions=True)
    assert all(isinstance(result, StoreUnavailable) for result in results)
    assert len({*map(id, results)}) == 4
    store.after = None
    assert await next_number(store) > 1
    assert await next_number(store) > 2


@on_both_engines
async def test_raising_a_counter(store: HookedStore) -> None:
    """Raising a counter never lowers it, and writes nothing if it is high enough."""
    counters = shared_counters(store)
    await counters.raise_to(store, KEY, 41, "The counter")
    assert await next_number(store) == 42
    written = store.writes
    await counters.raise_to(store, KEY, 7, "The counter")
    await Counters().raise_to(store, KEY, 42, "The counter")
    assert store.writes == written
    assert await next_number(store) == 43


@on_both_engines
async def test_assign_numbers_to_records(store: HookedStore) -> None:
    """A record gets its missing numbers and derived properties. Numbers that it has are not assigned again."""
    first, second, third = (Ticket(ticket_id=name) for name in "abc")
    await assign_numbers(tickets(store), first)
    assert (first.num, first.serial, first.label) == (1, 1, "#1")
    second.num = 9
    await assign_numbers(tickets(store), second)
    assert (second.num, second.serial, second.label) == (9, 2, "#9")
    await assign_numbers(tickets(store), third)
    assert (third.num, third.serial) == (10, 3)


@on_both_engines
async def test_a_counter_at_its_maximum_is_refused(store: HookedStore) -> None:
    """A counter at the maximum of its type is an error with the property."""
    await shared_counters(store).raise_to(store, key_of("b", None), 2**31 - 2, "The counter")
    last = Ticket(ticket_id="a")
    await assign_numbers(tickets(store), last)
    assert last.num == 2**31 - 1
    with pytest.raises(InvalidValue, match=r"Ticket\.num: the counter of this group is at its maximum") as caught:
        await assign_numbers(tickets(store), Ticket(ticket_id="b"))
    assert caught.value.argument == "num"


async def test_the_counter_cache_is_bounded(store: HookedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process caches the most recently used counters only, and the others still count correctly."""
    monkeypatch.setattr("graphql_api.writes.counters.MAX_CACHED_COUNTERS", 2)
    keys = [key_of(board, None) for board in "abc"]
    assert [await next_number(store, key) for key in keys * 2] == [1, 1, 1, 2, 2, 2]
    assert len(shared_counters(store)._cached_items) == 2


# --- numbers of records ----------------------------------------------------------------------------------------


@pytest.fixture
def db(store: HookedStore) -> Database:
    """A database on the store."""
    return Database(CATALOG, store, TokenSeal([b"a secret of thirty-two bytes only"]))


async def stored(db: Database, ticket_id: str) -> Ticket:
    """Returns a stored ticket."""
    found = await db.get(Ticket, ticket_id)
    assert found is not None
    return found


@on_both_engines
async def test_concurrent_creates_get_distinct_numbers(db: Database, store: HookedStore) -> None:
    """Sixty-four concurrent creates get the numbers 1 to 64, with few additional writes."""
    tickets = await asyncio.gather(*(db.create(Ticket, ticket_id=f"t{at}") for at in range(64)))
    assert sorted(ticket.num for ticket in tickets) == sorted(ticket.serial for ticket in tickets) == [*range(1, 65)]
    assert all(ticket.label == f"#{ticket.num}" for ticket in tickets)
    assert [await stored(db, ticket.ticket_id) for ticket in tickets] == tickets
    assert store.writes < 64 + 20


async def test_create_refuses_a_provided_number(db: Database) -> None:
    """A create with a provided counter value is refused, and takes no number."""
    with pytest.raises(InvalidValue, match=r"Ticket\.num is assigned by a counter") as caught:
        await db.create(Ticket, ticket_id="a", num=7)
    assert caught.value.argument == "num"
    assert (await db.create(Ticket, ticket_id="a")).num == 1


@on_both_engines
async def test_a_number_never_changes(db: Database) -> None:
    """Updates and puts cannot change a number. A put without one keeps it, and a deletion does not free it."""
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
async def test_put_and_restored_numbers_are_kept(db: Database, restoring: bool) -> None:
    """A put or restored record keeps its number, which is never assigned again."""
    records = [Ticket(ticket_id=f"t{number}", num=number, serial=number) for number in (5, 40, 3)]
    records.append(Ticket(ticket_id="other", board="c", num=7, serial=8))
    write = db.restore_many if restoring else db.put_many
    assert await write(records) == [None] * 4
    assert {(await stored(db, f"t{number}")).num for number in (5, 40, 3)} == {5, 40, 3}
    following = await db.create(Ticket, ticket_id="following")
    assert (following.num, following.serial) == (41, 41)
    assert (await db.create(Ticket, ticket_id="too", board="c")).num == 8


async def test_restore_replaces_a_lower_number(db: Database) -> None:
    """A restored record can replace a lower number by its own, which is not assigned again."""
    await db.create(Ticket, ticket_id="a")
    assert await db.restore_many([Ticket(ticket_id="a", num=9, serial=1)]) == [None]
    assert (await stored(db, "a")).num == 9
    assert (await db.create(Ticket, ticket_id="b")).num == 10


@on_both_engines
async def test_records_older_than_the_counter_get_numbers(db: Database, store: HookedStore) -> None:
    """A record without numbers gets them with its next write, once."""
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
async def test_a_record_keeps_its_number_in_another_group(db: Database) -> None:
    """A record that changes its group keeps its number, and the counter of the new group continues above it."""
    for ticket_id in "abc":
        await db.create(Ticket, ticket_id=ticket_id)
    assert (await db.update(Ticket, "c", board="c")).num == 3
    assert (await db.create(Ticket, ticket_id="d", board="c")).num == 4
    await db.put(Ticket(ticket_id="b", board="d"))
    assert (await db.create(Ticket, ticket_id="e", board="d")).num == 3


@on_both_engines
async def test_a_retried_write_keeps_its_number(db: Database, store: HookedStore) -> None:
    """A write that is retried after conflicts keeps the number of its first attempt."""
    item = {"hashKey": "ticket!", "rangeKey": "ticketId#old", "ticketId": "old", "board": "b"}
    assert await store.write([Put(item)]) == [None]
    conflicts_left = {"new": 3, "old": 3, "put": 3}

    async def before(writes: Sequence[TransactionWrite]) -> None:
        for ticket_id, times in conflicts_left.items():
            if times and any(isinstance(one, Put) and one.item.get("ticketId") == ticket_id for one in writes):
                conflicts_left[ticket_id] -= 1
                raise Conflict("Another transaction is in progress.")

    store.before = before
    assert (await db.create(Ticket, ticket_id="new")).num == 1
    assert (await db.update(Ticket, "old", column=None)).num == 2
    await db.put(Ticket(ticket_id="put"))
    assert ((await stored(db, "put")).num, (await stored(db, "put")).serial) == (3, 3)
    assert (await db.create(Ticket, ticket_id="last")).num == 4
    assert not any(conflicts_left.values())


async def test_a_number_assigned_by_a_concurrent_write_is_kept(db: Database, store: HookedStore) -> None:
    """If a concurrent write numbers a record during an update, the record keeps that number."""
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
    """The number of a failed create is skipped and not assigned again."""
    assert (await db.create(Ticket, ticket_id="a")).num == 1
    with pytest.raises(AlreadyExists):
        await db.create(Ticket, ticket_id="a")
    assert (await db.create(Ticket, ticket_id="b")).num > 1


async def test_searches_do_not_find_counters(db: Database, store: HookedStore) -> None:
    """Counters are stored outside of the hash keys of records, so that searches do not find them."""
    await db.create(Ticket, ticket_id="a")
    heads = {parse_hash_key(item["hashKey"]).head for item in (await store.scan(0, 1, None)).items}
    assert heads == {"ticket", "ticket~counter"}
    assert [ticket.ticket_id for ticket in (await db.search(Ticket.by_id)).items] == ["a"]
