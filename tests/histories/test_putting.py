"""An entry and the current record of its id are written together, in whatever order entries come."""

from collections.abc import Sequence
from itertools import permutations
from random import Random
from typing import Any

import pytest

from graphql_api.errors import (
    Conflict,
    CreationChanged,
    InvalidRecord,
    ItemTooLarge,
    KeyTooLong,
    ShardQLError,
    StoreError,
    StoreUnavailable,
)
from graphql_api.storage.values import Put, TransactionWrite
from graphql_api.writes.history.history_batches import MAX_ENTRIES
from graphql_api.writes.optimistic_concurrency import MAX_ATTEMPTS
from graphql_api.writes.transactions import MAX_SENDS
from tests.histories.orders import CURRENT, Counted, Order, Plain, Shop, order
from tests.stores import WrappedStore


async def test_an_entry_brings_its_current_record(shop: Shop) -> None:
    """The first entry makes the current record, a later one replaces it, and entries stay."""
    await shop.db.put(order("o", "v1", status="new", note="Zoë"))
    assert await shop.state("o") == {"status": "new", "total": None, "note": "Zoë"}
    await shop.db.put(order("o", "v2", status="sent", total=5))
    assert await shop.state("o") == {"status": "sent", "total": 5, "note": None}
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_index_keys_of_the_current_record_move(shop: Shop) -> None:
    """A search by what has changed finds the current record at its new place alone."""
    await shop.db.put(order("o", "v1", status="new", note="a"))
    await shop.db.put(order("o", "v2", status="sent"))
    for status, versions in (("new", ["v1"]), ("sent", ["v2", CURRENT])):
        page = await shop.db.search(Order.by_status, status=status)
        assert [found.version for found in page.items] == versions
    assert [found.version for found in (await shop.db.search(Order.by_note)).items] == ["v1"]


@pytest.mark.parametrize("versions", [*permutations(("v1", "v2", "~current2", "é"))][::5])
async def test_entries_come_in_any_order(shop: Shop, versions: Sequence[str]) -> None:
    """The current record is the entry with the greatest sub id, whichever was written last."""
    for at, version in enumerate(versions):
        await shop.db.put(order("o", version, total=at))
        assert await shop.histories() == {"o": sorted(versions[: at + 1])}


async def test_an_older_entry_is_put_right(shop: Shop) -> None:
    """Putting the last entry again changes the current record too, putting an older one does not."""
    for version in ("v1", "v2"):
        await shop.db.put(order("o", version))
    await shop.db.put(order("o", "v1", total=1))
    assert (await shop.state("o"))["total"] is None
    await shop.db.put(order("o", "v2", total=2))
    assert (await shop.state("o"))["total"] == 2
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_the_current_record_is_nobodys_to_write(shop: Shop) -> None:
    """Putting or updating it is refused, by its row in a batch, and the error says what to write instead."""
    await shop.db.put(order("o", "v1"))
    with pytest.raises(InvalidRecord, match="under its own version") as refused:
        await shop.db.put(order("o", CURRENT, status="sent"))
    assert refused.value.argument == "version"
    found = await shop.db.put_many([order("o", "v2"), order("o", CURRENT), order("p", "v1")])
    assert [type(problem) for problem in found] == [type(None), InvalidRecord, type(None)]
    with pytest.raises(InvalidRecord, match="under its own version"):
        await shop.db.update(Order, "o", version=CURRENT, status="sent")
    assert await shop.histories() == {"o": ["v1", "v2"], "p": ["v1"]}
    assert (await shop.state("o"))["status"] == "new"


async def test_batches_of_histories(shop: Shop, random: Random) -> None:
    """Many entries of few ids, more of one than a transaction holds, some of them twice: all stand as in the end."""
    records = [order(f"o{random.randrange(4)}", f"v{random.randrange(60):03}", total=at) for at in range(150)]
    records += [order("long", f"v{at:03}", total=at) for at in range(2 * MAX_ENTRIES + 5)]
    random.shuffle(records)
    assert await shop.db.put_many(records) == [None] * len(records)
    last = {(record.order_id, record.version): record for record in records}
    assert await shop.histories() == {
        key: sorted(version for own, version in last if own == key) for key in {key for key, _ in last}
    }
    for key, version in [("long", "v084"), ("o1", max(version for own, version in last if own == "o1"))]:
        assert (await shop.state(key))["total"] == last[key, version].total


async def test_a_wrong_row_takes_no_other_with_it(shop: Shop) -> None:
    """Of a batch of one history the records that no store takes fail alone, and the last good one is current."""
    large = order("o", "v9", body="x" * 410_000)
    batch = [order("o", "v1"), large, order("o", "v2"), order("o", "v" * 1_100), order("p", "v1")]
    found = await shop.db.put_many(batch)
    wanted = [type(None), ItemTooLarge, type(None), KeyTooLong, type(None)]
    assert [type(problem) for problem in found] == wanted
    assert await shop.histories() == {"o": ["v1", "v2"], "p": ["v1"]}


async def test_a_current_record_that_cannot_be(shop: Shop) -> None:
    """An entry whose current record would have too long a key is refused with it: there is never one without."""
    fits = order("x" * 996, "v1")
    found = await shop.db.put_many([fits, order("o", "v1")])
    assert [type(problem) for problem in found] == [KeyTooLong, type(None)]
    assert await shop.histories() == {"o": ["v1"]}


async def test_the_creation_value_is_one_an_id(shop: Shop) -> None:
    """An entry that would give its id another creation value is refused, in a batch by its row."""
    await shop.db.put(order("o", "v1", created=5))
    with pytest.raises(CreationChanged, match="was created at 5"):
        await shop.db.put(order("o", "v2", created=1_005))
    batch = [order("o", "v3", created=5), order("o", "v4", created=6), order("p", "v1"), order("p", "v2", created=2)]
    found = await shop.db.put_many(batch)
    assert [type(problem) for problem in found] == [type(None), CreationChanged, type(None), CreationChanged]
    assert await shop.histories() == {"o": ["v1", "v3"], "p": ["v1"]}


async def test_an_expired_history_begins_anew(shop: Shop) -> None:
    """What has expired decides nothing any more: another creation value and an older version may follow."""
    await shop.db.put(order("o", "v9", created=5, expires=NOW_AND_A_BIT))
    shop.clock.now = NOW_AND_A_BIT
    await shop.db.put(order("o", "v1", created=1_005))
    assert await shop.db.get(Order, "o", version="v9") is None
    found = await shop.db.get(Order, "o")
    assert found is not None
    assert (found.version, found.created) == (CURRENT, 1_005)
    assert [item["version"] for item in await shop.items() if item["version"] == CURRENT] == [CURRENT]


NOW_AND_A_BIT = 110


async def test_entries_from_before_the_declaration(shop: Shop) -> None:
    """Where entries have no current record yet, the next write makes it of the last one, even of an older entry."""
    await shop.db.put_many([order("o", "v1"), order("o", "v3", total=3)])
    (current,) = [item for item in await shop.items() if item["version"] == CURRENT]
    await shop.store.write([Put({name: value for name, value in current.items() if name != "_of"} | {"total": 9})])
    await shop.db.put(order("o", "v2"))
    assert await shop.histories() == {"o": ["v1", "v2", "v3"]}
    assert (await shop.state("o"))["total"] == 3


class Watched(Counted):
    """Keeps the writes too."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.store)
        self.transactions: list[Sequence[TransactionWrite]] = []

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.transactions.append(writes)
        await super().write_together(writes, token)


async def test_a_pair_is_one_transaction(shop: Shop) -> None:
    """Nothing of a history is ever written by itself, and an entry of a known id takes one read and one transaction."""
    store = Watched(shop)
    db = shop.through(store)
    await db.put(order("o", "v1"))
    store.calls.clear()
    await db.put(order("o", "v2"))
    assert store.calls == ["get_many", "write_together"]
    await db.put_many([order("o", "v0"), order("p", "v1")])
    await db.update(Order, "o", version="v3", total=1)
    await db.delete(Order, "o", version="v3")
    assert "write" not in store.calls
    versions = [{write.item["version"] for write in writes if isinstance(write, Put)} for writes in store.transactions]
    assert all(CURRENT in each for each in versions)
    store.calls.clear()
    await db.put(Plain(key="k"))
    assert store.calls == ["write"]


class Meets(WrappedStore):
    """Has an error ready for the next transactions, before or after they are carried out."""

    def __init__(self, shop: Shop, problems: Sequence[StoreError], *, afterwards: bool = False) -> None:
        super().__init__(shop.store)
        self.problems = list(problems)
        self.afterwards = afterwards

    async def write_together(self, writes: Any, token: str) -> None:
        problem = self.problems.pop() if self.problems else None
        if problem is None or self.afterwards:
            await super().write_together(writes, token)
        if problem is not None:
            raise problem


@pytest.mark.parametrize("afterwards", [False, True])
async def test_a_fault_at_the_transaction(on_file: Shop, afterwards: bool) -> None:
    """Whether it was carried out or not, there is an entry with its current record or neither, and again is enough."""
    for problem in (StoreUnavailable("gone"), StoreUnavailable("gone again")):
        store = Meets(on_file, [problem] * MAX_SENDS, afterwards=afterwards)
        db = on_file.through(store)
        with pytest.raises(StoreUnavailable):
            await db.put(order("o", "v1"))
        assert await on_file.histories() == ({"o": ["v1"]} if afterwards else {})
        await db.put(order("o", "v1"))
        assert await on_file.histories() == {"o": ["v1"]}
        store.problems += [problem] * MAX_SENDS
        with pytest.raises(StoreUnavailable):
            await db.update(Order, "o", version="v2", total=2)
        await db.update(Order, "o", version="v2", total=2)
        assert await on_file.histories() == {"o": ["v1", "v2"]}
        await db.delete(Order, "o", version="v2")
        store.problems += [problem] * MAX_SENDS
        with pytest.raises(StoreUnavailable):
            await db.delete(Order, "o", version="v1")
        assert await on_file.histories() == ({} if afterwards else {"o": ["v1"]})
        await db.delete(Order, "o", version="v1")
        assert await on_file.histories() == {}


async def test_what_others_change_meanwhile(on_file: Shop) -> None:
    """A write that others overtake is tried anew, a few times; then it is an error that may be retried."""
    store = Meets(on_file, [Conflict("met")] * 3)
    await on_file.through(store).put(order("o", "v1"))
    assert not store.problems
    store.problems = [Conflict("met")] * (MAX_ATTEMPTS + 1)
    with pytest.raises(Conflict, match="Concurrent writes changed Order o") as given_up:
        await on_file.through(store).put(order("o", "v2"))
    assert given_up.value.retryable
    assert len(store.problems) == 1
    assert await on_file.histories() == {"o": ["v1"]}
    problems: list[ShardQLError | None] = await on_file.through(store).put_many([order("o", "v2"), order("o", "v3")])
    assert problems == [None, None]
