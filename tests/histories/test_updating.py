"""An update keeps what is not given; under a new sub id it is a new entry that goes on from the last one."""

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
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, Put
from tests.histories.orders import CURRENT, Counted, Entry, Order, Plain, Shop, order
from tests.stores import Between, WrappedStore


async def test_a_new_version_inherits(shop: Shop) -> None:
    """What is not given comes from the last entry, null clears, and the answer is the new entry."""
    await shop.db.put(order("o", "v3", status="new", total=3, note="Zoë", created=7))
    made = await shop.db.update(Order, "o", version="v4", status="shipped", total=None)
    assert made == order("o", "v4", status="shipped", total=None, note="Zoë", created=7)
    assert await shop.db.get(Order, "o", version="v4") == made
    assert await shop.state("o") == {"status": "shipped", "total": None, "note": "Zoë"}
    assert await shop.histories() == {"o": ["v3", "v4"]}


async def test_an_older_version_inherits_too(shop: Shop) -> None:
    """An entry that is added among older ones goes on from the last one, and the current record stays."""
    await shop.db.put_many([order("o", "v1", total=1), order("o", "v3", total=3)])
    made = await shop.db.update(Order, "o", version="v2", status="late")
    assert (made.total, made.status) == (3, "late")
    assert await shop.state("o") == {"status": "new", "total": 3, "note": None}
    assert await shop.histories() == {"o": ["v1", "v2", "v3"]}


async def test_a_known_version_changes_in_place(shop: Shop) -> None:
    """The entry keeps what is not given; the last one takes the current record along, an older one does not."""
    await shop.db.put_many([order("o", "v1", total=1, note="one"), order("o", "v2", total=2, note="two")])
    assert (await shop.db.update(Order, "o", version="v1", total=10)).note == "one"
    assert (await shop.state("o"))["total"] == 2
    assert (await shop.db.update(Order, "o", version="v2", total=20)).note == "two"
    assert await shop.state("o") == {"status": "new", "total": 20, "note": "two"}
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_a_record_without_history_changes_in_place(shop: Shop) -> None:
    """What is not given stays, what is derived is computed anew, and index keys move."""
    await shop.db.put(Plain(key="k", total=1, note="Zoë"))
    assert await shop.db.update(Plain, "k", note="Gómez") == Plain(key="k", total=1, note="Gómez")
    assert await shop.db.update(Plain, "k", total=None) == Plain(key="k", note="Gómez")
    assert not (await shop.db.search(Plain.by_word, note_canonical="zoe")).items
    (found,) = (await shop.db.search(Plain.by_word, note_canonical="gomez")).items
    assert found == Plain(key="k", note="Gómez") == await shop.db.get(Plain, "k")


async def test_a_history_without_current_records(shop: Shop) -> None:
    """The last entry goes on under sub ids of several parts; under those of an entry, that one changes in place."""
    given: dict[str, Any] = {"order_id": "o", "part": 1}
    await shop.db.put_many([Entry(**given, at="a", line=1, total=1), Entry(**given, at="b", line=1, status="sent")])
    assert await shop.db.update(Entry, "o/1", at="b", line=2, total=5) == Entry(
        **given, at="b", line=2, status="sent", total=5
    )
    assert await shop.db.update(Entry, **given, at="a", line=1, status="x") == Entry(
        **given, at="a", line=1, status="x", total=1
    )
    assert len(await shop.items()) == 3
    with pytest.raises(MissingArgument, match="line"):
        await shop.db.update(Entry, "o/1", at="b", total=5)


async def test_what_is_not_there(shop: Shop) -> None:
    """An update of nothing is an error, whatever has expired counts as nothing, and nothing is written."""
    await shop.db.put(order("gone", "v1", expires=int(shop.clock.now)))
    for wanted in (
        shop.db.update(Plain, "k", total=1),
        shop.db.update(Entry, "o/1", at="a", line=1, total=1),
        shop.db.update(Order, "o", version="v1", total=1),
        shop.db.update(Order, "gone", version="v1", total=1),
        shop.db.update(Order, "gone", version="v2", total=1),
    ):
        with pytest.raises(RecordNotFound, match="create it by put"):
            await wanted
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


@pytest.mark.parametrize(("changes", "kind", "words"), WRONG)
@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_what_cannot_be_changed(
    on_file: Shop, version: str, changes: dict[str, Any], kind: type[ShardQLError], words: str
) -> None:
    """The id, the creation value, what is derived and what is no property are refused, in place and as a new entry."""
    await on_file.db.put(order("o", "v1"))
    before = await on_file.items()
    with pytest.raises(kind, match=words):
        await on_file.db.update(Order, "o", version=version, **changes)
    assert await on_file.items() == before


async def test_which_entry_is_meant(shop: Shop) -> None:
    """Where an id has several records, an update says which of them it is about."""
    await shop.db.put(order("o", "v1"))
    with pytest.raises(MissingArgument, match="provide version too"):
        await shop.db.update(Order, "o", status="sent")


async def test_a_creation_value_that_stays(shop: Shop) -> None:
    """Giving the creation value as it is changes nothing."""
    await shop.db.put(order("o", "v1", created=5))
    assert (await shop.db.update(Order, "o", version="v2", created=5)).created == 5


async def test_by_record_key(shop: Shop) -> None:
    """A record's key names what is to be changed, and with a sub id beside it the history that goes on."""
    await shop.db.put(order("o", "v1"))
    key = record_key(order("o", "v1"))
    assert (await shop.db.update(Order, key, total=1)).total == 1
    assert (await shop.db.update(Order, key, version="v2", status="sent")).total == 1
    await shop.db.put(Plain(key="k"))
    assert (await shop.db.update(Plain, record_key(Plain(key="k")), total=4)).total == 4
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_records_that_others_wrote(shop: Shop) -> None:
    """A record without the name of its write is held against all that was read of it."""
    await shop.db.put(Plain(key="k", total=1))
    (item,) = await shop.items()
    await shop.store.write([Put({name: value for name, value in item.items() if name != "_w"})])
    assert (await shop.db.update(Plain, "k", note="x")).total == 1


async def test_a_record_that_changes_meanwhile(on_file: Shop) -> None:
    """An update that was overtaken reads anew: it keeps what the other one has written."""
    between = Between(on_file.store)
    await on_file.db.put_many([order("o", "v1"), order("o", "v2")])
    await on_file.db.put(Entry(order_id="o", part=1, at="a", line=1))

    async def of_entry() -> None:
        await on_file.db.update(Entry, "o/1", at="b", line=1, status="overtaking")

    between.action = of_entry
    made = await on_file.through(between).update(Entry, "o/1", at="c", line=1, total=3)
    assert (made.status, made.total) == ("overtaking", 3)


class Overtaken(WrappedStore):
    """Does something once, after the first read by key."""

    def __init__(self, inner: Store, action: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self.action: Callable[[], Awaitable[object]] | None = action

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        found = await super().get_many(keys, consistent)
        action, self.action = self.action, None
        if action is not None:
            await action()
        return found


MINE: dict[str, tuple[Callable[[Database], Awaitable[object]], dict[str, int]]] = {
    "put": (lambda db: db.put(order("o", "v3", total=3)), {"v3": 3}),
    "put of an older entry": (lambda db: db.put(order("o", "v0", total=0)), {"v0": 0}),
    "update": (lambda db: db.update(Order, "o", version="v3", total=3), {"v3": 3}),
    "update in place": (lambda db: db.update(Order, "o", version="v1", total=10), {"v1": 10}),
    "deletion": (lambda db: db.delete(Order, "o", version="v2"), {"v2": -1}),
}
"""what a write makes of the totals by version; -1: there is none"""

OTHERS: dict[str, tuple[Callable[[Database], Awaitable[object]], dict[str, int]]] = {
    "later entry": (lambda db: db.put(order("o", "v9", total=9)), {"v9": 9}),
    "entry between": (lambda db: db.update(Order, "o", version="v1a", total=8), {"v1a": 8}),
    "last entry changed": (lambda db: db.update(Order, "o", version="v2", total=20), {"v2": 20}),
    "older entry gone": (lambda db: db.delete(Order, "o", version="v1a0"), {"v1a0": -1}),
}


@pytest.mark.parametrize("mine", MINE)
@pytest.mark.parametrize("other", OTHERS)
async def test_a_write_that_is_overtaken(shop: Shop, mine: str, other: str) -> None:
    """Whatever happens between its reads and its writes, both happen, one after the other."""
    totals = {"v1": 1, "v1a0": 5, "v2": 2}
    await shop.db.put_many([order("o", version, total=total) for version, total in totals.items()])
    write, wanted = MINE[mine]
    overtake, also = OTHERS[other]
    await write(shop.through(Overtaken(shop.store, lambda: overtake(shop.db))))
    expected = {name: total for name, total in {**totals, **also, **wanted}.items() if total >= 0}
    assert await shop.histories() == {"o": sorted(expected)}
    stands = {item["version"]: item["total"] for item in await shop.items()}
    assert stands == {**expected, CURRENT: expected[max(expected)]}


@pytest.mark.parametrize("several", [7])
async def test_updates_of_one_order_at_once(shop: Shop, several: int) -> None:
    """Of N concurrent updates every one makes its entry, and the current record is equal to the last."""
    await shop.db.put(order("o", "v0"))
    last_first = range(several - 1, 0, -1)
    await asyncio.gather(*(shop.db.update(Order, "o", version=f"v{at}", total=at) for at in last_first))
    assert await shop.histories() == {"o": [f"v{at}" for at in range(several)]}
    assert (await shop.state("o"))["total"] == several - 1


async def test_concurrent_updates_lose_nothing(shop: Shop) -> None:
    """Each of the concurrent updates of one record or entry changes its own property, and all changes stand."""
    await shop.db.put(order("o", "v1"))
    await shop.db.put(Plain(key="k"))
    changes: list[dict[str, Any]] = [{"status": "sent"}, {"total": 5}, {"note": "Zoë"}]
    await asyncio.gather(
        *(shop.db.update(Order, "o", version="v1", **change) for change in changes),
        *(shop.db.update(Plain, "k", **change) for change in changes),
    )
    assert await shop.state("o") == {"status": "sent", "total": 5, "note": "Zoë"}
    assert await shop.db.get(Plain, "k") == Plain(key="k", status="sent", total=5, note="Zoë")


async def test_beginnings_of_one_order_at_once(shop: Shop) -> None:
    """Of first entries that disagree about the creation value, one decides and the others are refused."""
    created = [1, 2, 1_500, 1_501, 2_000]
    found = await asyncio.gather(
        *(shop.db.put(order("o", f"v{at}", created=value)) for at, value in enumerate(created)), return_exceptions=True
    )
    refused = [problem for problem in found if problem is not None]
    assert {type(problem) for problem in refused} == {CreationChanged}
    assert len(refused) == len(created) - 1
    (versions,) = (await shop.histories()).values()
    assert len(versions) == 1


async def test_puts_updates_and_deletions_at_once(shop: Shop) -> None:
    """Whatever happens at the same time, the current record is equal to the last entry, or there is neither."""
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
    """The entry and the current record are read, and both are written by one transaction."""
    await shop.db.put(order("o", "v1"))
    store = Counted(shop.store)
    await shop.through(store).update(Order, "o", version="v2", total=1)
    assert store.calls == ["get_many", "get_many", "write_together"]


async def test_the_store_has_its_say(shop: Shop) -> None:
    """What the store refuses of an update is the update's error, and nothing of it is written."""
    await shop.db.put(order("o", "v1"))
    with pytest.raises(ItemTooLarge):
        await shop.db.update(Order, "o", version="v2", body="x" * 410_000)
    assert await shop.histories() == {"o": ["v1"]}
    assert CURRENT in {item["version"] for item in await shop.items()}
