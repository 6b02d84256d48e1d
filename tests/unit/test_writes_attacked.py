"""What once broke writes, or nearly did: other catalogs, other hands, values at their limits, several at once."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
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
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Item, Key, Put, RangeRead, ReadResult, TransactionWrite
from graphql_api.writes import optimistic_concurrency
from graphql_api.writes.constraints.delete_intent import DELETE_INTENT, ABANDONED_AFTER_SECONDS
from graphql_api.writes.item_keys import to_item
from tests.stores import WrappedStore
from tests.unit.shelf import CATALOG, NOW, SEAL, Author, Book, Diary, Shelf

# --- other catalogs --------------------------------------------------------------------------------------------


class Shop(Entity):
    """What is named, in every release."""

    shop_id: Id[str]


def releases() -> tuple[type[Entity], type[Entity]]:
    """Goods of a shop as an older release declares them, and as a newer one does."""

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
def goods(shelf: Shelf) -> tuple[tuple[type[Any], Database], tuple[type[Any], Database]]:
    """The older and the newer release over the same records: the class of goods, and the database."""

    def over(model: type[Entity]) -> tuple[type[Any], Database]:
        return model, Database(Catalog(Shop, model), shelf.store, SEAL, clock=shelf.clock, tenant=shelf.tenant)

    older, newer = releases()
    return over(older), over(newer)


Goods = tuple[tuple[type[Any], Database], tuple[type[Any], Database]]


async def bound_items(shelf: Shelf) -> list[Item]:
    """The items that stand for unique values and foreign keys."""
    return [item for item in (await shelf.items()).values() if "_owner" in item]


async def test_a_foreign_key_that_is_declared_no_more(goods: Goods) -> None:
    """Foreign keys that have been taken out keep nobody; one that only has another name keeps what it kept."""
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


async def test_records_that_expire_no_more(goods: Goods, shelf: Shelf) -> None:
    """Where Ttl is taken out, a record that stays keeps what it names, and its items do not expire without it."""
    (older, before), (newer, after) = goods
    await before.create(Shop, shop_id="a")
    await before.create(older, good_id="g", shop_id="a", code="x", until=int(NOW) + 5)
    await before.create(older, good_id="h", shop_id="a", code="y", until=int(NOW) + 5)
    await after.update(newer, "g", maker_id=None)
    shelf.clock.now += 10
    for item in await bound_items(shelf):
        if item["_owner"][1] == "goodId#g" and "ofShop" not in item["rangeKey"]:
            assert not item.keys() & {"_until", "until"}
    await after.delete(newer, "g")
    with pytest.raises(ForeignKeyBroken, match="Good h references it"):
        await after.delete(Shop, "a")
    with pytest.raises(NotUnique):
        await after.create(newer, good_id="i", shop_id="a", code="y")


# --- other hands -----------------------------------------------------------------------------------------------


async def test_a_reference_that_says_what_is_no_longer_so(shelf: Shelf) -> None:
    """A record that an older release has let name another one keeps the new one, and not the old one."""
    for author_id in ("a", "b"):
        await shelf.db.create(Author, author_id=author_id, name=author_id)
    await shelf.db.create(Book, book_id="one", author_id="a")
    await shelf.store.write([Put(to_item(CATALOG.entity(Book), Book(book_id="one", author_id="b"), shelf.tenant, "w"))])
    await shelf.db.delete(Author, "a")
    await shelf.db.update(Book, "one", shelf=2)
    with pytest.raises(ForeignKeyBroken):
        await shelf.db.delete(Author, "b")
    await shelf.check()


async def test_a_value_left_behind_in_another_generation(shelf: Shelf) -> None:
    """A value whose owner went away without it is taken by a record of the same id in another shard generation."""
    await shelf.db.create(Author, author_id="a", name="Ada", created=1)
    gone = [Delete(key) for key, item in (await shelf.items()).items() if "authorId" in item]
    assert await shelf.store.write(gone) == [None]
    author = await shelf.db.create(Author, author_id="a", name="Ada", created=5_000_000)
    assert author.version == 1
    await shelf.check()


async def test_the_last_entry_is_created_once_more(shelf: Shelf) -> None:
    """That an entry is there is said in the same words, whichever it is, also where shards have grown."""
    await shelf.db.create(Diary, diary_id="d", at=1, created=1)
    await shelf.db.create(Diary, diary_id="d", at=2, created=1)
    for at in (1, 2):
        with pytest.raises(AlreadyExists, match=f"Diary d/{at} already exists"):
            await shelf.db.create(Diary, diary_id="d", at=at, created=1)


class Meanwhile(WrappedStore):
    """Has something done by somebody else before one of the next calls."""

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


async def test_an_owner_that_is_named_and_removed(on_file: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes a value that a record has left behind, and names that very record, makes sure of both."""
    entity = CATALOG.entity(Author)
    monkeypatch.setattr(optimistic_concurrency, "MAX_ATTEMPTS", 4)
    outcomes = set()
    for calls in range(8):
        shelf = Shelf(on_file.store, f"t{calls}")
        past = await shelf.db.create(Author, author_id="p", name="Pat", created=1)
        changed = past.model_copy(update={"name": "Quin"})
        await shelf.store.write([Put(to_item(entity, changed, shelf.tenant, "w"))])

        async def close(shelf: Shelf = shelf) -> None:
            item = next(item for item in (await shelf.items()).values() if "authorId" in item)
            marked = {**item, DELETE_INTENT: int(shelf.clock.now * 1000), "_w": "closed"}
            assert await shelf.store.write([Put(marked)]) == [None]

        db = shelf.through(Meanwhile(shelf.store, calls, close))
        with suppress(Conflict):
            await db.create(Author, author_id="n", name="Pat", mentor_id="p", created=1)
        items = await shelf.items()
        is_named = any(key.hash.endswith("refs!|authorId#p") for key in items)
        is_marked = any(DELETE_INTENT in item for item in items.values())
        assert is_named == (await shelf.db.get(Author, "n") is not None) != is_marked
        outcomes.add(is_named)
    assert outcomes == {True, False}


async def test_a_mark_that_somebody_left_in_a_long_batch(on_file: Shelf) -> None:
    """Records that are put look at the time when it is their turn: a mark grows old also while a batch is written."""
    await on_file.db.create(Author, author_id="a", name="Ada")
    author = next(item for item in (await on_file.items()).values() if "authorId" in item)
    marked = {**author, DELETE_INTENT: int(on_file.clock.now * 1000), "_w": "closed"}
    assert await on_file.store.write([Put(marked)]) == [None]

    async def later() -> None:
        on_file.clock.now += ABANDONED_AFTER_SECONDS + 0.1

    db = on_file.through(Meanwhile(on_file.store, 1, later))
    assert await db.put_many([Book(book_id="b", author_id="a")]) == [None]
    await on_file.check()


# --- values at their limits ------------------------------------------------------------------------------------


async def test_records_from_before_that_are_too_long_for_it(shelf: Shelf) -> None:
    """A record whose value has no key, from before the constraint, can be changed, put right and removed."""
    entity = CATALOG.entity(Book)
    long = Book(book_id="b" * 1_005, author_id="a", isbn="x" * 3_000)
    assert await shelf.store.write([Put(to_item(entity, long, shelf.tenant, "w"))]) == [None]
    await shelf.db.create(Author, author_id="a", name="Ada")
    with pytest.raises(KeyTooLong) as refused:
        await shelf.db.update(Book, long.book_id, shelf=2)
    assert refused.value.argument == "isbn"
    with pytest.raises(KeyTooLong, match="Shorten the record's id") as refused:
        await shelf.db.update(Book, long.book_id, isbn="y")
    assert refused.value.argument == "book_id"
    await shelf.db.delete(Book, long.book_id)
    assert await shelf.db.get(Book, long.book_id) is None
    short = long.model_copy(update={"book_id": "short"})
    assert await shelf.store.write([Put(to_item(entity, short, shelf.tenant, "w"))]) == [None]
    assert (await shelf.db.update(Book, "short", isbn="y")).isbn == "y"
    await shelf.check()


@pytest.mark.parametrize("value", ["", "x" * 1_100, "\x00"])
async def test_names_that_nobody_can_have(shelf: Shelf, value: str) -> None:
    """What no record can be called is not there, and the error is about the property that says so."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    with pytest.raises(ForeignKeyBroken, match=r"Book\.editor_id references Author.*, which does not exist") as refused:
        await shelf.db.create(Book, book_id="b", author_id="a", editor_id=value)
    assert refused.value.argument == "editor_id"
    with pytest.raises(ForeignKeyBroken):
        await shelf.db.create(Book, book_id="b", author_id=value)


class Desk(Entity):
    """Of everything that can be unique by itself, and together."""

    desk_id: Id[str]
    price: Unique[Decimal | None] = None
    weight: Unique[float | None] = None
    day: Unique[date | None] = None
    fits: bool | None = None
    room: str | None = None
    at_place = UniqueTogether("room", "fits")


DESKS = Catalog(Desk)


async def test_values_that_are_equal(shelf: Shelf) -> None:
    """Numbers are unique by their value, however they are written; null parts are no value; the empty text is one."""
    db = Database(DESKS, shelf.store, SEAL, clock=shelf.clock, tenant=shelf.tenant)
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


async def test_texts_that_look_the_same(shelf: Shelf) -> None:
    """Texts are unique by their characters: those of two normal forms are two, and may be as long as a key has room."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    for number, isbn in enumerate(["\u00e9", "e\u0301", "\u212b", "\u00c5", "\U0010ffff", "\x00", " ", "x" * 1_900]):
        await shelf.db.create(Book, book_id=str(number), author_id="a", isbn=isbn)
        with pytest.raises(NotUnique):
            await shelf.db.create(Book, book_id="z", author_id="a", isbn=isbn)
    with pytest.raises(KeyTooLong) as refused:
        await shelf.db.create(Book, book_id="z", author_id="a", isbn="é" * 1_100)
    assert refused.value.argument == "isbn"
    await shelf.check()


class Slip(Entity):
    """Numbered among those of its group."""

    slip_id: Id[str]
    pile: str
    num: Int32 = counter("pile")


SLIPS = Catalog(Slip)


async def test_a_group_that_is_too_long(shelf: Shelf) -> None:
    """A group of which no counter can have a key is told by its property, and does not keep others of the batch."""
    db = Database(SLIPS, shelf.store, SEAL, clock=shelf.clock, tenant=shelf.tenant)
    with pytest.raises(KeyTooLong) as refused:
        await db.create(Slip, slip_id="a", pile="x" * 3_000)
    assert refused.value.argument == "pile"
    problems = await db.put_many([Slip(slip_id="a", pile="x" * 3_000, num=3), Slip(slip_id="b", pile="p", num=3)])
    assert [type(problem).__name__ for problem in problems] == ["KeyTooLong", "NoneType"]
    assert (await db.create(Slip, slip_id="c", pile="p")).num == 4


async def test_numbers_from_before_the_counter(shelf: Shelf) -> None:
    """A record that had its number before that was counted is put, and nobody gets its number again."""
    db = Database(SLIPS, shelf.store, SEAL, clock=shelf.clock, tenant=shelf.tenant)
    entity = SLIPS.entity(Slip)
    for slip_id, num in (("a", 7), ("b", 9)):
        item = to_item(entity, Slip(slip_id=slip_id, pile="p", num=num), shelf.tenant, "w")
        assert await shelf.store.write([Put(item)]) == [None]
    await db.put(Slip(slip_id="a", pile="p", num=7))
    assert (await db.create(Slip, slip_id="c", pile="p")).num == 8
    await db.put(Slip(slip_id="b", pile="p"))
    assert (await db.create(Slip, slip_id="d", pile="p")).num == 10


async def test_a_creation_value_that_is_written_otherwise(shelf: Shelf) -> None:
    """The moment that a record has is no other one because it is given as a text or as another kind of number."""
    await shelf.db.create(Author, author_id="a", name="Ada", created=1_500)
    for created in (1_500.0, "1500", Decimal(1_500)):
        assert (await shelf.db.update(Author, "a", created=created)).created == 1_500
    for other, told in ((1_501, "1501"), (None, "null")):
        with pytest.raises(CreationChanged, match=f"cannot become {told}"):
            await shelf.db.update(Author, "a", created=other)


class Trace(Entity, shards=Shards(1).then(4, since=1_000)):
    """A history that forgets its entries one by one."""

    trace_id: Id[str]
    at: SubId[int]
    created: Created[Timestamp]
    until: Ttl[Timestamp] | None = None


async def test_a_history_whose_first_entries_have_expired(shelf: Shelf) -> None:
    """A further entry lies where the living ones do, whatever has expired before them."""
    db = Database(Catalog(Trace), shelf.store, SEAL, clock=shelf.clock, tenant=shelf.tenant)
    for at, until in ((1, int(NOW) + 5), (2, None)):
        await db.put(Trace(trace_id="t", at=at, created=1, until=until))
    shelf.clock.now += 10
    (problem,) = await db.put_many([Trace(trace_id="t", at=3, created=5_000)])
    assert isinstance(problem, CreationChanged)
    assert await db.put_many([Trace(trace_id="t", at=3, created=1)]) == [None]


async def test_a_mark_goes_with_the_attempt(on_file: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a removal comes to, it leaves no mark that would keep others waiting."""
    monkeypatch.setattr(optimistic_concurrency, "MAX_ATTEMPTS", 3)
    await on_file.db.create(Author, author_id="a", name="Ada")
    met: list[int] = []

    class Meeting(WrappedStore):
        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            if any(isinstance(write, Delete) for write in writes):
                met.append(len(writes))
                raise Conflict("Met.")
            await super().write_together(writes, token)

    with pytest.raises(Conflict):
        await on_file.through(Meeting(on_file.store)).delete(Author, "a")
    assert len(met) == 3
    assert not any(DELETE_INTENT in item for item in (await on_file.items()).values())
    await on_file.db.create(Book, book_id="b", author_id="a")
    await on_file.check()


async def test_an_entry_that_comes_between_two_looks(on_file: Shelf) -> None:
    """One who finds no entry, and then that very one as the last, begins anew and does not write it twice."""

    class Between(WrappedStore):
        async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
            if await on_file.db.get(Diary, "d", at=2) is None:
                await on_file.db.create(Diary, diary_id="d", at=2, created=1)
            return await super().read_ranges(reads, want)

    await on_file.db.create(Diary, diary_id="d", at=1, created=1)
    entry = await on_file.through(Between(on_file.store)).update(Diary, "d", at=2, mood="good")
    assert (entry.version, entry.mood) == (2, "good")
    await on_file.check()
