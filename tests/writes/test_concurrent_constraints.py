"""Constraints with changed catalogs, external writes, concurrent writes and boundary values."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Int32,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Unique,
    UniqueTogether,
    counter,
)
from graphql_api.database import Database
from graphql_api.errors import (
    AlreadyExists,
    Conflict,
    CreationChanged,
    ForeignKeyBroken,
    KeyTooLong,
    NotUnique,
)
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Item, Key, Put, RangeRead, ReadResult, TransactionWrite
from graphql_api.writes import transactions
from graphql_api.writes.constraints import ABANDONED_AFTER_SECONDS
from graphql_api.writes.item_keys import DELETE_INTENT, to_item
from tests.writes.library_catalog import CATALOG, NOW, SEAL, Author, Book, Diary, Library

# --- changed catalogs ------------------------------------------------------------------------------------------


class Shop(Entity):
    """A referenced entity, unchanged in every release."""

    shop_id: Id[str]


def releases() -> tuple[type[Entity], type[Entity]]:
    """Returns the class of goods in an older and in a newer release."""

    class Good(Entity):
        good_id: Id[str]
        shop_id: str
        maker_id: str | None = None
        until: Ttl[Timestamp] | None = None
        code: Unique[str | None] = None

        of_shop = ForeignKey("Shop", by="shop_id")
        of_maker = ForeignKey("Shop", by="maker_id")

    older = Good

    class Good(Entity):  # type: ignore[no-redef]
        good_id: Id[str]
        shop_id: str
        maker_id: str | None = None
        until: Timestamp | None = None
        code: Unique[str | None] = None

        in_shop = ForeignKey("Shop", by="shop_id")

    return older, Good


@pytest.fixture
def goods(library: Library) -> tuple[tuple[type[Any], Database], tuple[type[Any], Database]]:
    """The older and the newer release over the same records: the class of goods, and the database."""

    def over(model: type[Entity]) -> tuple[type[Any], Database]:
        return model, Database(Catalog(Shop, model), library.store, SEAL, clock=library.clock, tenant=library.tenant)

    older, newer = releases()
    return over(older), over(newer)


GoodsReleases = tuple[tuple[Any, Database], tuple[Any, Database]]


async def constraint_items(library: Library) -> list[Item]:
    """Returns the constraint items."""
    return [item for item in (await library.items()).values() if "_owner" in item]


async def test_removed_and_renamed_foreign_keys(goods: GoodsReleases) -> None:
    """A removed foreign key blocks no deletion. A renamed foreign key still does."""
    (older, before), (newer, after) = goods
    for shop_id in "abc":
        await before.create(Shop, shop_id=shop_id)
    await before.create(older, good_id="g", shop_id="a", maker_id="b")
    with pytest.raises(ForeignKeyBroken, match=r"Good g references it by Good\.shop_id"):
        await after.delete(Shop, "a")
    await after.update(newer, "g", shop_id="c")
    await after.delete(Shop, "a")
    await after.delete(Shop, "b")
    with pytest.raises(ForeignKeyBroken, match=r"Good g references it by Good\.shop_id"):
        await after.delete(Shop, "c")


async def test_records_whose_ttl_was_removed(goods: GoodsReleases, library: Library) -> None:
    """If an entity loses its Ttl, its records keep their references, and their constraint items do not expire."""
    (older, before), (newer, after) = goods
    await before.create(Shop, shop_id="a")
    await before.create(older, good_id="g", shop_id="a", code="x", until=int(NOW) + 5)
    await before.create(older, good_id="h", shop_id="a", code="y", until=int(NOW) + 5)
    await after.update(newer, "g", maker_id=None)
    library.clock.now += 10
    for item in await constraint_items(library):
        if item["_owner"][1] == "goodId#g" and "ofShop" not in item["rangeKey"]:
            assert not item.keys() & {"_until", "until"}
    await after.delete(newer, "g")
    with pytest.raises(ForeignKeyBroken, match="Good h references it"):
        await after.delete(Shop, "a")
    with pytest.raises(NotUnique):
        await after.create(newer, good_id="i", shop_id="a", code="y")


# --- external and concurrent writes ----------------------------------------------------------------------------


async def test_a_stale_reference_item(library: Library) -> None:
    """A stale reference item blocks no deletion, and the actual reference does."""
    for author_id in ("a", "b"):
        await library.db.create(Author, author_id=author_id, name=author_id)
    await library.db.create(Book, book_id="one", author_id="a")
    await library.store.write(
        [Put(to_item(CATALOG.entity(Book), Book(book_id="one", author_id="b"), library.tenant, "w"))]
    )
    await library.db.delete(Author, "a")
    await library.db.update(Book, "one", shelf=2)
    with pytest.raises(ForeignKeyBroken):
        await library.db.delete(Author, "b")
    await library.check()


async def test_an_orphaned_unique_item_in_another_generation(library: Library) -> None:
    """An orphaned unique item can be taken by a record of the same id in another shard generation."""
    await library.db.create(Author, author_id="a", name="Ada", created=1)
    deletes = [Delete(key) for key, item in (await library.items()).items() if "authorId" in item]
    assert await library.store.write(deletes) == [None]
    author = await library.db.create(Author, author_id="a", name="Ada", created=5_000_000)
    assert author.version == 1
    await library.check()


async def test_creating_an_existing_entry(library: Library) -> None:
    """Creating an existing entry is `AlreadyExists` for every entry, also with several shard generations."""
    await library.db.create(Diary, diary_id="d", at=1, created=1)
    await library.db.create(Diary, diary_id="d", at=2, created=1)
    for at in (1, 2):
        with pytest.raises(AlreadyExists, match=f"Diary d/{at} already exists"):
            await library.db.create(Diary, diary_id="d", at=at, created=1)


class InterposingStore(ForwardingStore):
    """Runs an action before the n-th call."""

    def __init__(self, inner: Store, before: int, action: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(inner)
        self.left = before
        self.action = action

    async def _count(self) -> None:
        self.left -= 1
        if self.left == -1:
            await self.action()

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Any:
        await self._count()
        return await super().get_many(keys, consistent)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await self._count()
        await super().write_together(writes, token)


async def test_a_former_owner_is_referenced_and_deleted_concurrently(
    sqlite_library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A create that takes the stale unique value of a referenced record detects the deletion of that record."""
    entity = CATALOG.entity(Author)
    strategy = replace(transactions.CONFLICT_RETRIES, max_attempts=4)
    monkeypatch.setattr(transactions, "CONFLICT_RETRIES", strategy)
    outcomes = set()
    for calls in range(8):
        library = Library(sqlite_library.store, f"t{calls}")
        former_owner = await library.db.create(Author, author_id="p", name="Pat", created=1)
        changed = former_owner.model_copy(update={"name": "Quin"})
        await library.store.write([Put(to_item(entity, changed, library.tenant, "w"))])

        async def close(library: Library = library) -> None:
            item = next(item for item in (await library.items()).values() if "authorId" in item)
            marked_item = {**item, DELETE_INTENT: int(library.clock.now * 1000), "_w": "closed"}
            assert await library.store.write([Put(marked_item)]) == [None]

        db = library.through(InterposingStore(library.store, calls, close))
        with suppress(Conflict):
            await db.create(Author, author_id="n", name="Pat", mentor_id="p", created=1)
        items = await library.items()
        is_referenced = any(key.hash.endswith("refs!|authorId#p") for key in items)
        has_delete_intent = any(DELETE_INTENT in item for item in items.values())
        assert is_referenced == (await library.db.get(Author, "n") is not None) != has_delete_intent
        outcomes.add(is_referenced)
    assert outcomes == {True, False}


async def test_a_delete_intent_expires_during_a_batch(sqlite_library: Library) -> None:
    """Each put of a batch uses the current time, so that a delete intent can expire during the batch."""
    await sqlite_library.db.create(Author, author_id="a", name="Ada")
    author = next(item for item in (await sqlite_library.items()).values() if "authorId" in item)
    marked_item = {**author, DELETE_INTENT: int(sqlite_library.clock.now * 1000), "_w": "closed"}
    assert await sqlite_library.store.write([Put(marked_item)]) == [None]

    async def later() -> None:
        sqlite_library.clock.now += ABANDONED_AFTER_SECONDS + 0.1

    db = sqlite_library.through(InterposingStore(sqlite_library.store, 1, later))
    assert await db.put_many([Book(book_id="b", author_id="a")]) == [None]
    await sqlite_library.check()


# --- boundary values -------------------------------------------------------------------------------------------


async def test_stored_values_too_long_for_a_unique_item(library: Library) -> None:
    """A stored record with a value too long for its unique item can be changed, corrected and deleted."""
    entity = CATALOG.entity(Book)
    long = Book(book_id="b" * 1_005, author_id="a", isbn="x" * 3_000)
    assert await library.store.write([Put(to_item(entity, long, library.tenant, "w"))]) == [None]
    await library.db.create(Author, author_id="a", name="Ada")
    with pytest.raises(KeyTooLong) as refused:
        await library.db.update(Book, long.book_id, shelf=2)
    assert refused.value.argument == "isbn"
    with pytest.raises(KeyTooLong, match="Shorten the record's id") as refused:
        await library.db.update(Book, long.book_id, isbn="y")
    assert refused.value.argument == "book_id"
    await library.db.delete(Book, long.book_id)
    assert await library.db.get(Book, long.book_id) is None
    short = long.model_copy(update={"book_id": "short"})
    assert await library.store.write([Put(to_item(entity, short, library.tenant, "w"))]) == [None]
    assert (await library.db.update(Book, "short", isbn="y")).isbn == "y"
    await library.check()


@pytest.mark.parametrize("value", ["", "x" * 1_100, "\x00"])
async def test_references_to_impossible_ids(library: Library, value: str) -> None:
    """A reference to an impossible id is refused like a missing record, with its property."""
    await library.db.create(Author, author_id="a", name="Ada")
    with pytest.raises(ForeignKeyBroken, match=r"Book\.editor_id references Author.*, which does not exist") as refused:
        await library.db.create(Book, book_id="b", author_id="a", editor_id=value)
    assert refused.value.argument == "editor_id"
    with pytest.raises(ForeignKeyBroken):
        await library.db.create(Book, book_id="b", author_id=value)


class Desk(Entity):
    """A desk with unique values of several types."""

    desk_id: Id[str]
    price: Unique[Decimal | None] = None
    weight: Unique[float | None] = None
    day: Unique[date | None] = None
    fits: bool | None = None
    room: str | None = None
    at_place = UniqueTogether("room", "fits")


DESKS = Catalog(Desk)


async def test_equal_unique_values(library: Library) -> None:
    """Numbers are unique by value, in any notation. Null is no value, and the empty text is one."""
    db = Database(DESKS, library.store, SEAL, clock=library.clock, tenant=library.tenant)
    first: dict[str, Any] = {
        "price": Decimal("1.50"),
        "weight": 0.0,
        "day": date(2026, 1, 1),
        "room": "",
        "fits": False,
    }
    await db.create(Desk, desk_id="a", **first)
    same: dict[str, Any] = {"price": Decimal("1.5"), "weight": -0.0, "day": "2026-01-01"}
    for name, value in same.items():
        with pytest.raises(NotUnique) as refused:
            await db.create(Desk, desk_id="b", **{name: value})
        assert refused.value.argument == name
    with pytest.raises(NotUnique):
        await db.create(Desk, desk_id="b", room="", fits=False)
    some: list[dict[str, Any]] = [{"room": ""}, {"room": ""}, {"fits": False}, {"room": "", "fits": True}]
    for number, others in enumerate(some):
        await db.create(Desk, desk_id=f"c{number}", **others)
    await db.update(Desk, "a", price=Decimal("-0"), weight=1)
    some = [{"price": 0}, {"price": Decimal("0.00")}, {"weight": 1.0}]
    for number, values in enumerate(some):
        with pytest.raises(NotUnique):
            await db.create(Desk, desk_id=f"d{number}", **values)
    await db.create(Desk, desk_id="e", price=Decimal("1.50"), weight=0)


async def test_unique_texts_are_not_normalized(library: Library) -> None:
    """Texts are unique by their code points without normalization, up to the maximum key size."""
    await library.db.create(Author, author_id="a", name="Ada")
    for number, isbn in enumerate(["\u00e9", "e\u0301", "\u212b", "\u00c5", "\U0010ffff", "\x00", " ", "x" * 1_900]):
        await library.db.create(Book, book_id=str(number), author_id="a", isbn=isbn)
        with pytest.raises(NotUnique):
            await library.db.create(Book, book_id="z", author_id="a", isbn=isbn)
    with pytest.raises(KeyTooLong) as refused:
        await library.db.create(Book, book_id="z", author_id="a", isbn="é" * 1_100)
    assert refused.value.argument == "isbn"
    await library.check()


class Slip(Entity):
    """A slip with a number in its pile."""

    slip_id: Id[str]
    pile: str
    num: Int32 = counter("pile")


SLIPS = Catalog(Slip)


async def test_a_too_long_counter_group(library: Library) -> None:
    """A counter group too long for a key is refused with its property, and the other records of the batch succeed."""
    db = Database(SLIPS, library.store, SEAL, clock=library.clock, tenant=library.tenant)
    with pytest.raises(KeyTooLong) as refused:
        await db.create(Slip, slip_id="a", pile="x" * 3_000)
    assert refused.value.argument == "pile"
    problems = await db.put_many([Slip(slip_id="a", pile="x" * 3_000, num=3), Slip(slip_id="b", pile="p", num=3)])
    assert [type(problem).__name__ for problem in problems] == ["KeyTooLong", "NoneType"]
    assert (await db.create(Slip, slip_id="c", pile="p")).num == 4


async def test_numbers_older_than_the_counter(library: Library) -> None:
    """A put of a record with an uncounted number raises the counter above it."""
    db = Database(SLIPS, library.store, SEAL, clock=library.clock, tenant=library.tenant)
    entity = SLIPS.entity(Slip)
    for slip_id, num in (("a", 7), ("b", 9)):
        item = to_item(entity, Slip(slip_id=slip_id, pile="p", num=num), library.tenant, "w")
        assert await library.store.write([Put(item)]) == [None]
    await db.put(Slip(slip_id="a", pile="p", num=7))
    assert (await db.create(Slip, slip_id="c", pile="p")).num == 8
    await db.put(Slip(slip_id="b", pile="p"))
    assert (await db.create(Slip, slip_id="d", pile="p")).num == 10


async def test_notations_of_a_creation_value(library: Library) -> None:
    """The notation of a creation value does not matter, only its value."""
    await library.db.create(Author, author_id="a", name="Ada", created=1_500)
    for created in (1_500.0, "1500", Decimal(1_500)):
        assert (await library.db.update(Author, "a", created=created)).created == 1_500
    for other, message in ((1_501, "1501"), (None, "null")):
        with pytest.raises(CreationChanged, match=f"cannot become {message}"):
            await library.db.update(Author, "a", created=other)


class Trace(Entity, shards=Shards(1).then(4, since=1_000)):
    """A history whose entries can expire."""

    trace_id: Id[str]
    at: SubId[int]
    created: Created[Timestamp]
    until: Ttl[Timestamp] | None = None


async def test_a_new_entry_after_expired_entries(library: Library) -> None:
    """A new entry lies in the shard of the entries that have not expired."""
    db = Database(Catalog(Trace), library.store, SEAL, clock=library.clock, tenant=library.tenant)
    for at, until in ((1, int(NOW) + 5), (2, None)):
        await db.put(Trace(trace_id="t", at=at, created=1, until=until))
    library.clock.now += 10
    (problem,) = await db.put_many([Trace(trace_id="t", at=3, created=5_000)])
    assert isinstance(problem, CreationChanged)
    assert await db.put_many([Trace(trace_id="t", at=3, created=1)]) == [None]


async def test_a_failed_deletion_removes_its_delete_intent(
    sqlite_library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed deletion removes its delete intent."""
    strategy = replace(transactions.CONFLICT_RETRIES, max_attempts=3)
    monkeypatch.setattr(transactions, "CONFLICT_RETRIES", strategy)
    await sqlite_library.db.create(Author, author_id="a", name="Ada")
    attempts: list[int] = []

    class ConflictingStore(ForwardingStore):
        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            if any(isinstance(write, Delete) for write in writes):
                attempts.append(len(writes))
                raise Conflict("Another transaction is in progress.")
            await super().write_together(writes, token)

    with pytest.raises(Conflict):
        await sqlite_library.through(ConflictingStore(sqlite_library.store)).delete(Author, "a")
    assert len(attempts) == 3
    assert not any(DELETE_INTENT in item for item in (await sqlite_library.items()).values())
    await sqlite_library.db.create(Book, book_id="b", author_id="a")
    await sqlite_library.check()


async def test_an_entry_created_between_two_reads(sqlite_library: Library) -> None:
    """An update restarts if its entry is created concurrently between its two reads."""

    class CreatingStore(ForwardingStore):
        async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
            if await sqlite_library.db.get(Diary, "d", at=2) is None:
                await sqlite_library.db.create(Diary, diary_id="d", at=2, created=1)
            return await super().read_ranges(reads, want)

    await sqlite_library.db.create(Diary, diary_id="d", at=1, created=1)
    entry = await sqlite_library.through(CreatingStore(sqlite_library.store)).update(Diary, "d", at=2, mood="good")
    assert (entry.version, entry.mood) == (2, "good")
    await sqlite_library.check()
