"""An entry and its current record are written in one transaction, in any order of entries."""

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
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import Put, TransactionWrite
from graphql_api.writes.history_batches import MAX_ENTRIES
from graphql_api.writes.transactions import CONFLICT_RETRIES, OUTCOME_RETRIES
from tests.writes.histories.order_history import CURRENT, CallRecordingStore, Order, Plain, Shop, order


async def test_an_entry_updates_the_current_record(shop: Shop) -> None:
    """The first entry creates the current record, and a later entry replaces it. Entries remain."""
    await shop.db.put(order("o", "v1", status="new", note="Zoë"))
    assert await shop.state("o") == {"status": "new", "total": None, "note": "Zoë"}
    await shop.db.put(order("o", "v2", status="sent", total=5))
    assert await shop.state("o") == {"status": "sent", "total": 5, "note": None}
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_index_keys_of_the_current_record_change(shop: Shop) -> None:
    """Index keys of the current record change with its values, so that searches find it by the new values only."""
    await shop.db.put(order("o", "v1", status="new", note="a"))
    await shop.db.put(order("o", "v2", status="sent"))
    for status, versions in (("new", ["v1"]), ("sent", ["v2", CURRENT])):
        page = await shop.db.search(Order.by_status, status=status)
        assert [found.version for found in page.items] == versions
    assert [found.version for found in (await shop.db.search(Order.by_note)).items] == ["v1"]


@pytest.mark.parametrize("versions", [*permutations(("v1", "v2", "~current2", "é"))][::5])
async def test_entries_come_in_any_order(shop: Shop, versions: Sequence[str]) -> None:
    """The current record equals the entry with the greatest sub id, in any order of writes."""
    for at, version in enumerate(versions):
        await shop.db.put(order("o", version, total=at))
        assert await shop.histories() == {"o": sorted(versions[: at + 1])}


async def test_replacing_entries(shop: Shop) -> None:
    """Putting the last entry again changes the current record. Putting an older entry does not."""
    for version in ("v1", "v2"):
        await shop.db.put(order("o", version))
    await shop.db.put(order("o", "v1", total=1))
    assert (await shop.state("o"))["total"] is None
    await shop.db.put(order("o", "v2", total=2))
    assert (await shop.state("o"))["total"] == 2
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_the_current_record_cannot_be_written_directly(shop: Shop) -> None:
    """Writing the current record directly is refused with a remedy, in a batch by its row."""
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


async def test_large_batches_of_histories(shop: Shop, random: Random) -> None:
    """A large batch with many entries per id and duplicates results in the last version of each entry."""
    records = [order(f"o{random.randrange(4)}", f"v{random.randrange(60):03}", total=at) for at in range(150)]
    records += [order("long", f"v{at:03}", total=at) for at in range(2 * MAX_ENTRIES + 5)]
    random.shuffle(records)
    assert await shop.db.put_many(records) == [None] * len(records)
    last = {(record.order_id, record.version): record for record in records}
    assert await shop.histories() == {
        key: sorted(version for order_id, version in last if order_id == key) for key in {key for key, _ in last}
    }
    for key, version in [("long", "v084"), ("o1", max(version for order_id, version in last if order_id == "o1"))]:
        assert (await shop.state(key))["total"] == last[key, version].total


async def test_invalid_rows_fail_alone(shop: Shop) -> None:
    """Invalid records of a batch fail alone, and the last valid entry becomes current."""
    large = order("o", "v9", body="x" * 410_000)
    batch = [order("o", "v1"), large, order("o", "v2"), order("o", "v" * 1_100), order("p", "v1")]
    found = await shop.db.put_many(batch)
    expected = [type(None), ItemTooLarge, type(None), KeyTooLong, type(None)]
    assert [type(problem) for problem in found] == expected
    assert await shop.histories() == {"o": ["v1", "v2"], "p": ["v1"]}


async def test_an_entry_with_an_impossible_current_record_is_refused(shop: Shop) -> None:
    """An entry whose current record would have a too long key is refused."""
    fits = order("x" * 996, "v1")
    found = await shop.db.put_many([fits, order("o", "v1")])
    assert [type(problem) for problem in found] == [KeyTooLong, type(None)]
    assert await shop.histories() == {"o": ["v1"]}


async def test_all_entries_have_the_same_creation_value(shop: Shop) -> None:
    """An entry with another creation value than its id is refused, in a batch by its row."""
    await shop.db.put(order("o", "v1", created=5))
    with pytest.raises(CreationChanged, match="was created at 5"):
        await shop.db.put(order("o", "v2", created=1_005))
    batch = [order("o", "v3", created=5), order("o", "v4", created=6), order("p", "v1"), order("p", "v2", created=2)]
    found = await shop.db.put_many(batch)
    assert [type(problem) for problem in found] == [type(None), CreationChanged, type(None), CreationChanged]
    assert await shop.histories() == {"o": ["v1", "v3"], "p": ["v1"]}


async def test_an_expired_history_does_not_restrict_new_entries(shop: Shop) -> None:
    """An expired history does not restrict new entries: creation value and version may differ."""
    await shop.db.put(order("o", "v9", created=5, expires=SOON))
    shop.clock.now = SOON
    await shop.db.put(order("o", "v1", created=1_005))
    assert await shop.db.get(Order, "o", version="v9") is None
    found = await shop.db.get(Order, "o")
    assert found is not None
    assert (found.version, found.created) == (CURRENT, 1_005)
    assert [item["version"] for item in await shop.items() if item["version"] == CURRENT] == [CURRENT]


SOON = 110


async def test_entries_without_a_current_record(shop: Shop) -> None:
    """Entries without a current record get one with the next write of their history."""
    await shop.db.put_many([order("o", "v1"), order("o", "v3", total=3)])
    (current,) = [item for item in await shop.items() if item["version"] == CURRENT]
    await shop.store.write([Put({name: value for name, value in current.items() if name != "_of"} | {"total": 9})])
    await shop.db.put(order("o", "v2"))
    assert await shop.histories() == {"o": ["v1", "v2", "v3"]}
    assert (await shop.state("o"))["total"] == 3


class TransactionRecordingStore(CallRecordingStore):
    """Records the writes of transactions too."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.store)
        self.transactions: list[Sequence[TransactionWrite]] = []

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.transactions.append(writes)
        await super().write_together(writes, token)


async def test_entry_and_current_record_are_one_transaction(shop: Shop) -> None:
    """An entry and its current record are always written in one transaction, after one read if the id is known."""
    store = TransactionRecordingStore(shop)
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


class FailingTransactionStore(ForwardingStore):
    """Raises errors in transactions, before or after they are applied."""

    def __init__(self, shop: Shop, problems: Sequence[StoreError], *, is_applied: bool = False) -> None:
        super().__init__(shop.store)
        self.problems = list(problems)
        self.is_applied = is_applied

    async def write_together(self, writes: Any, token: str) -> None:
        problem = self.problems.pop() if self.problems else None
        if problem is None or self.is_applied:
            await super().write_together(writes, token)
        if problem is not None:
            raise problem


@pytest.mark.parametrize("is_applied", [False, True])
async def test_transaction_faults(sqlite_shop: Shop, is_applied: bool) -> None:
    """After a transaction fault an entry and its current record exist both or not at all, and a retry succeeds."""
    for problem in (StoreUnavailable("no reply"), StoreUnavailable("no reply again")):
        store = FailingTransactionStore(sqlite_shop, [problem] * OUTCOME_RETRIES.max_attempts, is_applied=is_applied)
        db = sqlite_shop.through(store)
        with pytest.raises(StoreUnavailable):
            await db.put(order("o", "v1"))
        assert await sqlite_shop.histories() == ({"o": ["v1"]} if is_applied else {})
        await db.put(order("o", "v1"))
        assert await sqlite_shop.histories() == {"o": ["v1"]}
        store.problems += [problem] * OUTCOME_RETRIES.max_attempts
        with pytest.raises(StoreUnavailable):
            await db.update(Order, "o", version="v2", total=2)
        await db.update(Order, "o", version="v2", total=2)
        assert await sqlite_shop.histories() == {"o": ["v1", "v2"]}
        await db.delete(Order, "o", version="v2")
        store.problems += [problem] * OUTCOME_RETRIES.max_attempts
        with pytest.raises(StoreUnavailable):
            await db.delete(Order, "o", version="v1")
        assert await sqlite_shop.histories() == ({} if is_applied else {"o": ["v1"]})
        await db.delete(Order, "o", version="v1")
        assert await sqlite_shop.histories() == {}


async def test_retry_on_conflict(sqlite_shop: Shop) -> None:
    """A write is retried on conflict up to a limit. Then the conflict is a retryable error."""
    store = FailingTransactionStore(sqlite_shop, [Conflict("transaction in progress")] * 3)
    await sqlite_shop.through(store).put(order("o", "v1"))
    assert not store.problems
    store.problems = [Conflict("transaction in progress")] * (CONFLICT_RETRIES.max_attempts + 1)
    with pytest.raises(Conflict, match="Concurrent writes changed Order o") as caught:
        await sqlite_shop.through(store).put(order("o", "v2"))
    assert caught.value.retryable
    assert len(store.problems) == 1
    assert await sqlite_shop.histories() == {"o": ["v1"]}
    problems: list[ShardQLError | None] = await sqlite_shop.through(store).put_many(
        [order("o", "v2"), order("o", "v3")]
    )
    assert problems == [None, None]
