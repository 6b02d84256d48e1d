"""An update keeps omitted properties. With a new sub id it creates an entry that continues from the last one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from graphql_api.database import Database
from graphql_api.errors import (
    ConflictingArguments,
    CreationChanged,
    InvalidRecord,
    InvalidValue,
    ItemTooLarge,
    MissingArgument,
    RecordNotFound,
    ShardQLError,
    UnknownArgument,
)
from graphql_api.model.record_identity import record_key
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, Put
from tests.support.store_doubles import InterleavingStore
from tests.writes.histories.order_history import CURRENT, CallRecordingStore, Entry, Order, Plain, Shop, order


async def test_a_new_entry_continues_from_the_last_one(shop: Shop) -> None:
    """Omitted properties come from the last entry, null clears a property, and the result is the new entry."""
    await shop.db.put(order("o", "v3", status="new", total=3, note="Zoë", created=7))
    updated = await shop.db.update(Order, "o", version="v4", status="shipped", total=None)
    assert updated == order("o", "v4", status="shipped", total=None, note="Zoë", created=7)
    assert await shop.db.get(Order, "o", version="v4") == updated
    assert await shop.state("o") == {"status": "shipped", "total": None, "note": "Zoë"}
    assert await shop.histories() == {"o": ["v3", "v4"]}


async def test_a_new_older_entry_continues_from_the_last_one(shop: Shop) -> None:
    """A new entry before the last one continues from the last one, and does not change the current record."""
    await shop.db.put_many([order("o", "v1", total=1), order("o", "v3", total=3)])
    updated = await shop.db.update(Order, "o", version="v2", status="late")
    assert (updated.total, updated.status) == (3, "late")
    assert await shop.state("o") == {"status": "new", "total": 3, "note": None}
    assert await shop.histories() == {"o": ["v1", "v2", "v3"]}


async def test_an_existing_entry_is_updated_in_place(shop: Shop) -> None:
    """An update in place keeps omitted properties. It changes the current record only for the last entry."""
    await shop.db.put_many([order("o", "v1", total=1, note="one"), order("o", "v2", total=2, note="two")])
    assert (await shop.db.update(Order, "o", version="v1", total=10)).note == "one"
    assert (await shop.state("o"))["total"] == 2
    assert (await shop.db.update(Order, "o", version="v2", total=20)).note == "two"
    assert await shop.state("o") == {"status": "new", "total": 20, "note": "two"}
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_a_record_without_history_is_updated_in_place(shop: Shop) -> None:
    """Omitted properties are kept, derived properties are computed again, and index keys change."""
    await shop.db.put(Plain(key="k", total=1, note="Zoë"))
    assert await shop.db.update(Plain, "k", note="Gómez") == Plain(key="k", total=1, note="Gómez")
    assert await shop.db.update(Plain, "k", total=None) == Plain(key="k", note="Gómez")
    assert not (await shop.db.search(Plain.by_word, note_canonical="zoe")).items
    (found,) = (await shop.db.search(Plain.by_word, note_canonical="gomez")).items
    assert found == Plain(key="k", note="Gómez") == await shop.db.get(Plain, "k")


async def test_a_history_without_current_records(shop: Shop) -> None:
    """Without current records, a new sub id continues from the last entry, and an existing one is updated in place."""
    order_key: dict[str, Any] = {"order_id": "o", "part": 1}
    await shop.db.put_many(
        [Entry(**order_key, at="a", line=1, total=1), Entry(**order_key, at="b", line=1, status="sent")]
    )
    assert await shop.db.update(Entry, "o/1", at="b", line=2, total=5) == Entry(
        **order_key, at="b", line=2, status="sent", total=5
    )
    assert await shop.db.update(Entry, **order_key, at="a", line=1, status="x") == Entry(
        **order_key, at="a", line=1, status="x", total=1
    )
    assert len(await shop.items()) == 3
    with pytest.raises(MissingArgument, match="line"):
        await shop.db.update(Entry, "o/1", at="b", total=5)


async def test_update_of_a_missing_record(shop: Shop) -> None:
    """An update of a missing or expired record is an error, and nothing is written."""
    await shop.db.put(order("gone", "v1", expires=int(shop.clock.now)))
    for update in (
        shop.db.update(Plain, "k", total=1),
        shop.db.update(Entry, "o/1", at="a", line=1, total=1),
        shop.db.update(Order, "o", version="v1", total=1),
        shop.db.update(Order, "gone", version="v1", total=1),
        shop.db.update(Order, "gone", version="v2", total=1),
    ):
        with pytest.raises(RecordNotFound, match="create it by put"):
            await update
    assert {item["orderId"] for item in await shop.items()} == {"gone"}


WRONG: list[tuple[dict[str, Any], type[ShardQLError], str]] = [
    ({"created": 2}, CreationChanged, "was created at 1"),
    ({"created": 2_000, "total": 1}, CreationChanged, "leave created unchanged"),
    ({"order_id": "p"}, ConflictingArguments, "part of the id"),
    ({"note_canonical": "x"}, InvalidValue, "derived from note"),
    ({"totl": 1}, UnknownArgument, "'total'"),
    ({"status": None}, InvalidRecord, "Order.status"),
    ({"total": "many"}, InvalidRecord, "Order.total"),
]


@pytest.mark.parametrize(("changes", "error", "message"), WRONG)
@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_invalid_changes_are_refused(
    sqlite_shop: Shop, version: str, changes: dict[str, Any], error: type[ShardQLError], message: str
) -> None:
    """Changes of id, creation value, derived and unknown properties are refused, in place and for a new entry."""
    await sqlite_shop.db.put(order("o", "v1"))
    before = await sqlite_shop.items()
    with pytest.raises(error, match=message):
        await sqlite_shop.db.update(Order, "o", version=version, **changes)
    assert await sqlite_shop.items() == before


async def test_update_requires_the_sub_id(shop: Shop) -> None:
    """An update of a history requires the sub id."""
    await shop.db.put(order("o", "v1"))
    with pytest.raises(MissingArgument, match="provide version too"):
        await shop.db.update(Order, "o", status="sent")


async def test_the_same_creation_value_is_no_change(shop: Shop) -> None:
    """Providing the same creation value is no change."""
    await shop.db.put(order("o", "v1", created=5))
    assert (await shop.db.update(Order, "o", version="v2", created=5)).created == 5


async def test_update_by_record_key(shop: Shop) -> None:
    """A record key identifies the entry to update. With another sub id it identifies the history."""
    await shop.db.put(order("o", "v1"))
    key = record_key(order("o", "v1"))
    assert (await shop.db.update(Order, key, total=1)).total == 1
    assert (await shop.db.update(Order, key, version="v2", status="sent")).total == 1
    await shop.db.put(Plain(key="k"))
    assert (await shop.db.update(Plain, record_key(Plain(key="k")), total=4)).total == 4
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_records_without_write_id(shop: Shop) -> None:
    """A stored record without write id is compared by all values that were read."""
    await shop.db.put(Plain(key="k", total=1))
    (item,) = await shop.items()
    await shop.store.write([Put({name: value for name, value in item.items() if name != "_w"})])
    assert (await shop.db.update(Plain, "k", note="x")).total == 1


async def test_an_update_retries_on_conflict(sqlite_shop: Shop) -> None:
    """An update that conflicts with another write reads again, and keeps the other write's values."""
    interleaving_store = InterleavingStore(sqlite_shop.store)
    await sqlite_shop.db.put_many([order("o", "v1"), order("o", "v2")])
    await sqlite_shop.db.put(Entry(order_id="o", part=1, at="a", line=1))

    async def update_entry() -> None:
        await sqlite_shop.db.update(Entry, "o/1", at="b", line=1, status="interleaved")

    interleaving_store.action = update_entry
    updated = await sqlite_shop.through(interleaving_store).update(Entry, "o/1", at="c", line=1, total=3)
    assert (updated.status, updated.total) == ("interleaved", 3)


class InterposingStore(ForwardingStore):
    """Runs an action once, after the first read by key."""

    def __init__(self, inner: Store, action: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self.action: Callable[[], Awaitable[object]] | None = action

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        found = await super().get_many(keys, consistent)
        action, self.action = self.action, None
        if action is not None:
            await action()
        return found


WRITES: dict[str, tuple[Callable[[Database], Awaitable[object]], dict[str, int]]] = {
    "put": (lambda db: db.put(order("o", "v3", total=3)), {"v3": 3}),
    "put of an older entry": (lambda db: db.put(order("o", "v0", total=0)), {"v0": 0}),
    "update": (lambda db: db.update(Order, "o", version="v3", total=3), {"v3": 3}),
    "update in place": (lambda db: db.update(Order, "o", version="v1", total=10), {"v1": 10}),
    "deletion": (lambda db: db.delete(Order, "o", version="v2"), {"v2": -1}),
}
"""changes of the totals by version; -1 deletes the entry"""

INTERLEAVED_WRITES: dict[str, tuple[Callable[[Database], Awaitable[object]], dict[str, int]]] = {
    "later entry": (lambda db: db.put(order("o", "v9", total=9)), {"v9": 9}),
    "entry between": (lambda db: db.update(Order, "o", version="v1a", total=8), {"v1a": 8}),
    "last entry changed": (lambda db: db.update(Order, "o", version="v2", total=20), {"v2": 20}),
    "older entry gone": (lambda db: db.delete(Order, "o", version="v1a0"), {"v1a0": -1}),
}


@pytest.mark.parametrize("own", WRITES)
@pytest.mark.parametrize("other", INTERLEAVED_WRITES)
async def test_interleaved_writes(shop: Shop, own: str, other: str) -> None:
    """Whatever another write does between read and write, both writes take effect."""
    totals = {"v1": 1, "v1a0": 5, "v2": 2}
    await shop.db.put_many([order("o", version, total=total) for version, total in totals.items()])
    write, expected_totals = WRITES[own]
    interleave, other_totals = INTERLEAVED_WRITES[other]
    await write(shop.through(InterposingStore(shop.store, lambda: interleave(shop.db))))
    expected = {name: total for name, total in {**totals, **other_totals, **expected_totals}.items() if total >= 0}
    assert await shop.histories() == {"o": sorted(expected)}
    stored = {item["version"]: item["total"] for item in await shop.items()}
    assert stored == {**expected, CURRENT: expected[max(expected)]}


@pytest.mark.parametrize("count", [7])
async def test_concurrent_updates_of_one_order(shop: Shop, count: int) -> None:
    """Each of several concurrent updates creates its entry, and the current record equals the last one."""
    await shop.db.put(order("o", "v0"))
    descending = range(count - 1, 0, -1)
    await asyncio.gather(*(shop.db.update(Order, "o", version=f"v{at}", total=at) for at in descending))
    assert await shop.histories() == {"o": [f"v{at}" for at in range(count)]}
    assert (await shop.state("o"))["total"] == count - 1


async def test_concurrent_updates_lose_nothing(shop: Shop) -> None:
    """Concurrent updates of different properties of one record are all applied."""
    await shop.db.put(order("o", "v1"))
    await shop.db.put(Plain(key="k"))
    changes: list[dict[str, Any]] = [{"status": "sent"}, {"total": 5}, {"note": "Zoë"}]
    await asyncio.gather(
        *(shop.db.update(Order, "o", version="v1", **change) for change in changes),
        *(shop.db.update(Plain, "k", **change) for change in changes),
    )
    assert await shop.state("o") == {"status": "sent", "total": 5, "note": "Zoë"}
    assert await shop.db.get(Plain, "k") == Plain(key="k", status="sent", total=5, note="Zoë")


async def test_concurrent_first_entries(shop: Shop) -> None:
    """Of concurrent first entries with different creation values one succeeds, and the others are refused."""
    created = [1, 2, 1_500, 1_501, 2_000]
    found = await asyncio.gather(
        *(shop.db.put(order("o", f"v{at}", created=value)) for at, value in enumerate(created)), return_exceptions=True
    )
    refused = [problem for problem in found if problem is not None]
    assert {type(problem) for problem in refused} == {CreationChanged}
    assert len(refused) == len(created) - 1
    (versions,) = (await shop.histories()).values()
    assert len(versions) == 1


async def test_concurrent_puts_updates_and_deletions(shop: Shop) -> None:
    """After concurrent puts, updates and deletions, the current record equals the last entry, or neither exists."""
    for turn in range(3):
        await shop.db.put(order("o", "v1", total=turn))
        await asyncio.gather(
            shop.db.put(order("o", "v3")),
            shop.db.update(Order, "o", version="v2", status="x"),
            shop.db.delete(Order, "o", version="v1"),
            shop.db.delete(Order, "o", version="v3"),
            shop.db.put_many([order("o", "v0"), order("p", "v1")]),
            return_exceptions=True,
        )
        assert (await shop.histories())["p"] == ["v1"]
        for version in ("v0", "v1", "v2", "v3"):
            await shop.db.delete(Order, "o", version=version)
            await shop.histories()
        assert await shop.histories() == {"p": ["v1"]}


async def test_an_update_reads_twice_and_writes_once(shop: Shop) -> None:
    """An update reads the entry and the current record, and writes both in one transaction."""
    await shop.db.put(order("o", "v1"))
    store = CallRecordingStore(shop.store)
    await shop.through(store).update(Order, "o", version="v2", total=1)
    assert store.calls == ["get_many", "get_many", "write_together"]


async def test_an_update_refused_by_the_store(shop: Shop) -> None:
    """An update that the store refuses fails with the error of the store, and writes nothing."""
    await shop.db.put(order("o", "v1"))
    with pytest.raises(ItemTooLarge):
        await shop.db.update(Order, "o", version="v2", body="x" * 410_000)
    assert await shop.histories() == {"o": ["v1"]}
    assert CURRENT in {item["version"] for item in await shop.items()}
