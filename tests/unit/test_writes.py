"""Creates, updates, puts and removals of records that are bound to others, on both engines."""

from collections.abc import Sequence
from typing import Any

import pytest

from graphql_api.errors import (
    AlreadyExists,
    ConditionFailed,
    Conflict,
    CreationChanged,
    Forbidden,
    ForeignKeyBroken,
    ImmutableChanged,
    InvalidRecord,
    InvalidValue,
    KeyTooLong,
    NotUnique,
    OutcomeUnknown,
    RecordNotFound,
    ShardQLError,
    StoreUnavailable,
    UnknownArgument,
    VersionConflict,
)
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Key, Put, TransactionWrite
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.item_keys import to_item
from graphql_api.writes.transactions import MAX_SENDS
from tests.stores import WrappedStore
from tests.unit.shelf import CATALOG, NOW, Author, Book, Diary, Loan, Pass, Shelf, Ticket, Visit

# --- what the server sets --------------------------------------------------------------------------------------


async def test_a_record_that_is_created(shelf: Shelf) -> None:
    """Id, moments, version and what is derived are there although nobody gave them, and stored as they were told."""
    author = await shelf.db.create(Author, name="Ada Löwe")
    assert len(author.author_id) == 22
    assert (author.created, author.updated, author.version) == (int(NOW * 1000), int(NOW), 1)
    assert author.name_canonical == "adalowe"
    assert await shelf.db.get(Author, author.author_id) == author
    await shelf.check()


async def test_what_is_given_at_a_creation(shelf: Shelf) -> None:
    """A moment of creation may be given; version and last change are the server's, whatever a record says."""
    given = Author(author_id="a", created=5, updated=7, version=70, name="Ada")
    author = await shelf.db.create(given)
    assert (author.created, author.updated, author.version) == (5, int(NOW), 1)
    assert (given.updated, given.version) == (7, 70)
    with pytest.raises(UnknownArgument, match="Did you mean 'name'"):
        await shelf.db.create(Author, nmae="Bob")


async def test_an_update_sets_what_the_server_sets(shelf: Shelf) -> None:
    """The version rises by one and the moment is that of the update; neither can be given, nor what is derived."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    shelf.clock.now += 10
    author = await shelf.db.update(Author, "a", name="Bea")
    assert (author.version, author.updated, author.created) == (2, int(NOW) + 10, int(NOW * 1000))
    for name in ("version", "updated", "name_canonical"):
        with pytest.raises(InvalidValue, match=name) as refused:
            await shelf.db.apply(Update(CATALOG.entity(Author), ["a"], {name: 3}))
        assert refused.value.argument == name
    assert await shelf.db.get(Author, "a") == author
    await shelf.check()


async def test_a_put_sets_them_too(shelf: Shelf) -> None:
    """A put goes on from the version that stands there, and keeps the moment of creation where none is given."""
    await shelf.db.create(Author, author_id="a", name="Ada", created=77)
    command = Replace(CATALOG.entity(Author), {"author_id": "a", "name": "Bea"})
    author = await shelf.db.apply(command)
    assert isinstance(author, Author)
    assert (author.version, author.created) == (2, 77)
    await shelf.db.put(Author(author_id="b", created=1, updated=1, version=9, name="Bob"))
    written = await shelf.db.get(Author, "b")
    assert written is not None
    assert (written.version, written.updated) == (1, int(NOW))
    await shelf.check()


async def test_restoring_keeps_them(shelf: Shelf) -> None:
    """What comes out of another table keeps its version and its moments; over a record the version never goes back."""
    old = Author(author_id="a", created=1, updated=5, version=9, name="Ada")
    assert await shelf.db.restore_many([old]) == [None]
    assert await shelf.db.get(Author, "a") == old
    assert await shelf.db.restore_many([old.model_copy(update={"version": 3})]) == [None]
    written = await shelf.db.get(Author, "a")
    assert written is not None
    assert written.version == 10


async def test_everything_that_is_wrong(shelf: Shelf) -> None:
    """A record that is none is refused with each of its fields, of a create, an update and a put alike."""
    with pytest.raises(InvalidRecord) as refused:
        await shelf.db.create(Book, book_id=1, shelf="x")
    assert [one["field"] for one in refused.value.extensions["fields"]] == ["book_id", "author_id", "shelf"]
    assert refused.value.argument == "book_id"
    await shelf.db.create(Author, author_id="a", name="Ada")
    await shelf.db.create(Book, book_id="b", author_id="a")
    with pytest.raises(InvalidRecord) as refused:
        await shelf.db.update(Book, "b", shelf=None, place="x")
    assert [one.field for one in refused.value.fields] == ["shelf", "place"]
    with pytest.raises(InvalidRecord, match=r"Book\.shelf: .*; Book\.place: "):
        await shelf.db.apply(
            Replace(CATALOG.entity(Book), {"book_id": "b", "author_id": "a", "shelf": "", "place": ""})
        )


# --- that there is one of it -----------------------------------------------------------------------------------


async def test_an_id_that_is_taken(shelf: Shelf) -> None:
    """A create never replaces a record, in whatever shard generation that lies; the removed id is free again."""
    await shelf.db.create(Author, author_id="a", name="Ada", created=1)
    for created in (2, 5_000):
        with pytest.raises(AlreadyExists, match="Author a already exists") as refused:
            await shelf.db.create(Author, author_id="a", name="Bob", created=created)
        assert refused.value.argument == "author_id"
    await shelf.db.delete(Author, "a")
    assert (await shelf.db.create(Author, author_id="a", name="Bob", created=5_000)).version == 1
    await shelf.check()


async def test_an_expired_record_is_none(shelf: Shelf) -> None:
    """Its id and its unique values are free, also before the engine has removed it."""
    await shelf.db.create(Pass, card_id="p", code="x", until=int(NOW) + 5)
    with pytest.raises(NotUnique):
        await shelf.db.create(Pass, card_id="q", code="x")
    shelf.clock.now += 5
    await shelf.db.create(Pass, card_id="q", code="x")
    created = await shelf.db.create(Pass, card_id="p", code="y", until=int(NOW) + 50)
    assert created.code == "y"
    await shelf.check()
    with pytest.raises(NotUnique):
        await shelf.db.update(Pass, "p", code="x")


async def test_unique_items_expire_with_their_record(shelf: Shelf) -> None:
    """An item that holds a unique value has the second at which its record expires, and gets another one with it."""
    entity = CATALOG.entity(Pass)
    assert entity.ttl is not None
    for until in (int(NOW) + 5, int(NOW) + 9, None):
        await shelf.db.put(Pass(card_id="p", code="x", until=until))
        (item,) = [item for item in (await shelf.items()).values() if "_owner" in item]
        assert (item.get(entity.ttl.stored), item.get("_until")) == (until, until)


# --- unique values ---------------------------------------------------------------------------------------------


async def test_a_value_that_is_taken(shelf: Shelf) -> None:
    """No other record gets it: by no create, update or put, however it is written; null is no value."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    for book_id in ("b", "c"):
        await shelf.db.create(Book, book_id=book_id, author_id="a")
    await shelf.db.update(Book, "b", isbn="1", place=4)
    attempts: list[tuple[str, Any]] = [
        ("name", shelf.db.create(Author, author_id="x", name="ÁDA")),  # Nobody gives its canonical form.
        ("isbn", shelf.db.update(Book, "c", isbn="1")),
        ("isbn", shelf.db.put(Book(book_id="d", author_id="a", isbn="1"))),
        ("shelf", shelf.db.update(Book, "c", place=4)),
        ("shelf", shelf.db.create(Book, book_id="d", author_id="a", place=4)),
    ]
    for argument, attempt in attempts:
        with pytest.raises(NotUnique) as refused:
            await attempt
        assert refused.value.argument == argument
    await shelf.db.update(Book, "c", place=4, shelf=2)
    await shelf.check()


async def test_a_value_that_is_let_go(shelf: Shelf) -> None:
    """Another record may have it as soon as its owner has another one, has none, or is gone."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    await shelf.db.create(Book, book_id="b", author_id="a", isbn="1")
    await shelf.db.update(Book, "b", isbn="2")
    await shelf.db.create(Book, book_id="c", author_id="a", isbn="1")
    await shelf.db.update(Book, "c", isbn=None)
    await shelf.db.put(Book(book_id="d", author_id="a", isbn="1"))
    await shelf.db.delete(Book, "d")
    await shelf.db.create(Book, book_id="e", author_id="a", isbn="1")
    await shelf.check()


async def test_tenants_do_not_meet(shelf: Shelf) -> None:
    """Each tenant has its own values, also one whose name looks like part of another one's values."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    for tenant in (f"{shelf.tenant}|author~unique!", f"{shelf.tenant}x"):
        other = Shelf(shelf.store, tenant)
        await other.db.create(Author, author_id="a", name="Ada")
        with pytest.raises(ForeignKeyBroken):
            await other.db.create(Book, book_id="b", author_id="z")


async def test_values_that_look_alike(shelf: Shelf) -> None:
    """Only equal values are the same: not those whose texts would run together, nor numbers that are written alike."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    for number, isbn in enumerate(["a|b", "a", "a%7Cb", "a#b", "a!", "", "ab", "A"]):
        await shelf.db.create(Book, book_id=str(number), author_id="a", isbn=isbn)
    for number, (on, place) in enumerate([(1, 11), (11, 1), (-1, 1), (1, -1)]):
        await shelf.db.create(Book, book_id=f"p{number}", author_id="a", shelf=on, place=place)
    await shelf.check()


async def test_a_value_that_is_too_long(shelf: Shelf) -> None:
    """It is refused with its property, since its item could have no key."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    with pytest.raises(KeyTooLong, match="isbn") as refused:
        await shelf.db.create(Book, book_id="b", author_id="a", isbn="x" * 3_000)
    assert refused.value.argument == "isbn"
    assert await shelf.db.get(Book, "b") is None


async def test_what_was_there_before_the_constraint(shelf: Shelf) -> None:
    """Records without such items, by the hand of an older release, get them with their next write, if nobody has."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    book = Book(book_id="b", author_id="a", isbn="1")
    await shelf.store.write([Put(to_item(CATALOG.entity(Book), book, shelf.tenant, "w"))])
    await shelf.db.update(Book, "b", shelf=2)
    await shelf.check()
    await shelf.store.write([Delete(key) for key, item in (await shelf.items()).items() if "bookId" in item])
    await shelf.db.create(Book, book_id="c", author_id="a", isbn="1")  # Its owner is gone without a trace.
    await shelf.db.delete(Book, "c")
    await shelf.db.delete(Author, "a")
    assert not [key for key, item in (await shelf.items()).items() if "_owner" in item]


# --- foreign keys ----------------------------------------------------------------------------------------------


async def test_a_record_that_names_nobody(shelf: Shelf) -> None:
    """What it names must be there, by create, update and put; null names nobody."""
    await shelf.db.create(Author, author_id="a", name="Ada", created=1)
    await shelf.db.create(Author, author_id="e", name="Eve", created=5_000)
    with pytest.raises(ForeignKeyBroken, match="author_id references Author z, which does not exist") as refused:
        await shelf.db.create(Book, book_id="b", author_id="z")
    assert refused.value.argument == "author_id"
    await shelf.db.create(Book, book_id="b", author_id="a", editor_id="e")
    for name in ("author_id", "editor_id"):
        with pytest.raises(ForeignKeyBroken) as refused:
            await shelf.db.apply(Update(CATALOG.entity(Book), ["b"], {name: "z"}))
        assert refused.value.argument == name
    with pytest.raises(ForeignKeyBroken):
        await shelf.db.put(Book(book_id="c", author_id="z"))
    await shelf.db.update(Book, "b", editor_id=None, author_id="e")
    await shelf.check()


async def test_a_record_that_is_named(shelf: Shelf) -> None:
    """It cannot be removed, and the error names one that names it; as soon as none does, it can."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    await shelf.db.create(Author, author_id="b", name="Bob")
    await shelf.db.create(Book, book_id="one", author_id="a", editor_id="a")
    before = await shelf.db.get(Author, "a")
    with pytest.raises(ForeignKeyBroken, match=r"Author a cannot be deleted: Book one references it by Book\.author_id"):
        await shelf.db.delete(Author, "a")
    assert await shelf.db.get(Author, "a") == before
    await shelf.db.update(Book, "one", author_id="b")
    with pytest.raises(ForeignKeyBroken, match=r"Book\.editor_id"):
        await shelf.db.delete(Author, "a")
    await shelf.db.update(Book, "one", editor_id=None)
    await shelf.db.delete(Author, "a")
    await shelf.db.delete(Book, "one")
    await shelf.db.delete(Author, "b")
    assert not [item for item in (await shelf.items()).values() if "_w" not in item or "_owner" in item]


async def test_a_record_that_names_itself(shelf: Shelf) -> None:
    """It may, from the beginning or later, and that does not keep it."""
    await shelf.db.create(Author, author_id="a", name="Ada", mentor_id="a")
    await shelf.db.create(Author, author_id="b", name="Bob", mentor_id="a")
    await shelf.db.update(Author, "b", mentor_id="b")
    await shelf.db.delete(Author, "a")
    await shelf.db.delete(Author, "b")
    assert not [item for item in (await shelf.items()).values() if "_owner" in item]


async def test_a_record_that_expires_keeps_nobody(shelf: Shelf) -> None:
    """When it has expired what it names may go, and it cannot come back to life without it."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    await shelf.db.create(Pass, card_id="p", code="x", author_id="a", until=int(NOW) + 5)
    with pytest.raises(ForeignKeyBroken):
        await shelf.db.delete(Author, "a")
    shelf.clock.now += 6
    await shelf.db.delete(Author, "a")
    with pytest.raises(ForeignKeyBroken):
        await shelf.db.put(Pass(card_id="p", code="x", author_id="a", until=None))


async def test_a_record_gone_by_other_hands(shelf: Shelf) -> None:
    """What a record has left behind that somebody removed without its reference keeps nobody."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    for number in range(30):
        await shelf.db.create(Book, book_id=f"b{number:02}", author_id="a")
    gone = [Delete(key) for key, item in (await shelf.items()).items() if "bookId" in item]
    await shelf.store.write(gone[:-1])
    with pytest.raises(ForeignKeyBroken):
        await shelf.db.delete(Author, "a")
    await shelf.store.write(gone[-1:])
    await shelf.db.delete(Author, "a")
    assert not [item for item in (await shelf.items()).values() if "_owner" in item]


# --- versions, and what never changes --------------------------------------------------------------------------


async def test_a_version_that_is_expected(shelf: Shelf) -> None:
    """Only the version that stands there is changed, put or removed; the error tells which one that is."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    author = await shelf.db.update(Author, "a", name="Bea", expected_version=1)
    attempts: list[Any] = [
        shelf.db.update(Author, "a", name="Cleo", expected_version=1),
        shelf.db.put(author, expected_version=3),
        shelf.db.delete(Author, "a", expected_version=1),
    ]
    for attempt in attempts:
        with pytest.raises(VersionConflict, match="has version 2") as refused:
            await attempt
        assert refused.value.extensions == {"code": "VERSION_CONFLICT", "argument": "expected_version", "version": 2}
    with pytest.raises(VersionConflict, match="does not exist, but version 2 was expected") as refused:
        await shelf.db.put(author.model_copy(update={"author_id": "b"}), expected_version=2)
    assert refused.value.version is None
    await shelf.db.delete(Author, "a", expected_version=2)
    await shelf.db.delete(Author, "a", expected_version=2)  # What is wanted is so already.
    with pytest.raises(UnknownArgument, match="has no version to compare"):
        await shelf.db.update(Book, "b", shelf=1, expected_version=1)


async def test_what_never_changes(shelf: Shelf) -> None:
    """An immutable property and the creation value stay, by update and by put; the same value is no change."""
    await shelf.db.create(Author, author_id="a", name="Ada", created=1)
    await shelf.db.create(Book, book_id="b", author_id="a", language="de")
    with pytest.raises(ImmutableChanged, match=r"Book\.language never changes") as refused:
        await shelf.db.update(Book, "b", language="en")
    assert refused.value.argument == "language"
    with pytest.raises(ImmutableChanged):
        await shelf.db.put(Book(book_id="b", author_id="a"))
    with pytest.raises(CreationChanged):
        await shelf.db.update(Author, "a", created=2)
    with pytest.raises(CreationChanged):
        await shelf.db.put(Author(author_id="a", created=5_000, updated=1, version=1, name="Ada"))
    assert (await shelf.db.update(Book, "b", language="de", shelf=3)).shelf == 3
    assert (await shelf.db.update(Author, "a", created=1)).version == 2


async def test_what_is_not_there(shelf: Shelf) -> None:
    """An update of nothing is an error, a removal of nothing is none, and gives nothing back."""
    with pytest.raises(RecordNotFound, match="Author a does not exist"):
        await shelf.db.update(Author, "a", name="Ada")
    assert await shelf.db.apply(Remove(CATALOG.entity(Author), ["a"])) is None
    author = await shelf.db.create(Author, author_id="a", name="Ada")
    assert await shelf.db.apply(Remove(CATALOG.entity(Author), ["a"])) == author


async def test_keys_that_are_counted(shelf: Shelf) -> None:
    """A number may be part of the id; then it is taken before the record is looked for."""
    made = [await shelf.db.create(Ticket, desk="north") for _ in range(3)]
    assert [(ticket.desk, ticket.num) for ticket in made] == [("north", 1), ("north", 2), ("north", 3)]
    with pytest.raises(InvalidValue, match="assigned by a counter"):
        await shelf.db.create(Ticket, desk="north", num=9)
    await shelf.db.put(Ticket(desk="north", num=9))
    assert (await shelf.db.create(Ticket, desk="north")).num == 10
    assert (await shelf.db.update(Ticket, "north/2", note="x")).note == "x"


# --- histories -------------------------------------------------------------------------------------------------


async def test_a_history_holds_by_its_current_record(shelf: Shelf) -> None:
    """Entries of one id share a value; it is held as long as the current record has it."""
    await shelf.db.create(Author, author_id="a", name="Ada")
    await shelf.db.create(Loan, loan_id="x", at="1", card="red", author_id="a")
    await shelf.db.update(Loan, "x", at="2")
    with pytest.raises(NotUnique):
        await shelf.db.create(Loan, loan_id="y", at="1", card="red")
    with pytest.raises(AlreadyExists):
        await shelf.db.create(Loan, loan_id="x", at="2", card="red")
    with pytest.raises(ForeignKeyBroken, match=r"Loan x/~current references it by Loan\.author_id"):
        await shelf.db.delete(Author, "a")
    await shelf.db.update(Loan, "x", at="3", card="blue", author_id=None)
    await shelf.db.put(Loan(loan_id="y", at="1", card="red", author_id="a"))
    await shelf.check()
    with pytest.raises(NotUnique):  # The entry before it would become current again, and its card is taken.
        await shelf.db.delete(Loan, "x", at="3")
    await shelf.db.delete(Loan, "y", at="1")
    await shelf.db.delete(Loan, "x", at="3")
    await shelf.check()
    found = await shelf.db.put_many([Loan(loan_id=one, at="9", card="green") for one in ("p", "q", "p")])
    assert sorted(type(one).__name__ for one in found) in (
        ["NoneType", "NotUnique", "NotUnique"],
        ["NoneType", "NoneType", "NotUnique"],
    )
    await shelf.check()


async def test_a_history_without_a_current_record(shelf: Shelf) -> None:
    """Each entry has its own version and its own unique values, and goes on from the last one under a new sub id."""
    await shelf.db.create(Diary, diary_id="d", at=1, created=1, mood="good")
    with pytest.raises(NotUnique):
        await shelf.db.update(Diary, "d", at=2)
    entry = await shelf.db.update(Diary, "d", at=2, mood=None)
    assert (entry.version, entry.created) == (2, 1)
    assert (await shelf.db.update(Diary, "d", at=1, mood="bad", expected_version=1)).version == 2
    with pytest.raises(CreationChanged):
        await shelf.db.create(Diary, diary_id="d", at=3, created=5_000)
    await shelf.db.create(Diary, diary_id="d", at=3, created=1, mood="good")
    await shelf.check()


async def test_an_entry_begins_when_its_history_did(shelf: Shelf) -> None:
    """A further entry that is created or put without a creation value has that of its id, and so lies where it does."""
    await shelf.db.create(Diary, diary_id="d", at=1, created=1)
    created = await shelf.db.create(Diary, diary_id="d", at=2)
    put = await shelf.db.apply(Replace(CATALOG.entity(Diary), {"diary_id": "d", "at": 3, "mood": "good"}))
    assert isinstance(put, Diary)
    assert [entry.created for entry in (created, put)] == [1, 1]
    assert (put.version, put.mood) == (1, "good")
    assert (await shelf.db.create(Diary, diary_id="e", at=1)).created == int(NOW)
    await shelf.db.create(Visit, visit_id="v", at="1", began=1)
    created_visit = await shelf.db.create(Visit, visit_id="v", at="2", note="x")
    put_visit = await shelf.db.apply(Replace(CATALOG.entity(Visit), {"visit_id": "v", "at": "3"}))
    assert isinstance(put_visit, Visit)
    assert [visit.began for visit in (created_visit, put_visit)] == [1, 1]
    assert await shelf.db.get(Visit, "v") == put_visit.model_copy(update={"at": "~current"})
    await shelf.check()


# --- who may, and several at once ------------------------------------------------------------------------------


async def test_a_guard_is_asked_before_anything_is_written(shelf: Shelf) -> None:
    """It is shown the old record and the new one; what it refuses leaves no trace, not even a number that was taken."""
    shown: list[tuple[Any, Any]] = []

    async def guard(old: Any, new: Any) -> None:
        shown.append((old, new))
        raise Forbidden("No.")

    author = await shelf.db.create(Author, author_id="a", name="Ada")
    before = await shelf.items()
    entity, tickets = CATALOG.entity(Author), CATALOG.entity(Ticket)
    commands: list[Command] = [
        Create(tickets, {"desk": "north"}, allow=guard),
        Update(entity, ["a"], {"name": "Bea"}, allow=guard),
        Replace(entity, {"author_id": "a", "name": "Bea"}, allow=guard),
        Remove(entity, ["a"], allow=guard),
    ]
    for command in commands:
        with pytest.raises(Forbidden):
            await shelf.db.apply(command)
    assert [old for old, _ in shown] == [None, author, author, author]
    assert await shelf.items() == before


async def test_each_by_itself(shelf: Shelf) -> None:
    """One bad command takes no other with it, and those of one record are carried out in their order."""
    entity = CATALOG.entity(Author)
    answers = await shelf.db.apply_each(
        [
            Create(entity, {"author_id": "a", "name": "Ada"}),
            Create(entity, {"author_id": "a", "name": "Bob"}),
            Update(entity, ["a"], {"name": "Bea"}),
            Create(entity, {"name": None}),
            Remove(entity, ["z"]),
            Update(entity, ["a"], {"name": "Cleo"}),
        ]
    )
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == ["Author", "AlreadyExists", "Author", "InvalidRecord", "NoneType", "Author"]
    assert [answer.version for answer in answers if isinstance(answer, Author)] == [1, 2, 3]
    made = await shelf.db.create_many([Book(book_id="b", author_id="a"), Book(book_id="c", author_id="z")])
    assert [type(one).__name__ for one in made] == ["Book", "ForeignKeyBroken"]
    assert await shelf.db.create_many([]) == []
    await shelf.check()


# --- answers that are lost -------------------------------------------------------------------------------------


class Losing(WrappedStore):
    """Loses answers to transactions, before they are carried out or after; remembers the tokens."""

    def __init__(self, inner: Store, problems: Sequence[tuple[ShardQLError, bool]]) -> None:
        super().__init__(inner)
        self.problems = list(problems)
        self.tokens: list[str] = []

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.tokens.append(token)
        problem, afterwards = self.problems.pop(0) if self.problems else (None, True)
        if afterwards:
            await super().write_together(writes, token)
        if problem is not None:
            raise problem


async def test_an_answer_that_is_lost(on_file: Shelf) -> None:
    """The same transaction is asked for again under the same token, and what it has done is no failure."""
    lost = StoreUnavailable("No answer.")
    for afterwards in (True, False):
        name = f"author {afterwards}"
        store = Losing(on_file.store, [(lost, afterwards), (lost, afterwards), (Conflict("Met."), False)])
        author = await on_file.through(store).create(Author, author_id=name, name=name)
        assert author.version == 1
        assert len(store.tokens) == 4
        assert len(set(store.tokens)) == 1
        store.problems = [(lost, afterwards)]
        assert (await on_file.through(store).update(Author, name, mentor_id=name)).version == 2
    await on_file.check()


async def test_a_conflict_is_certain(on_file: Shelf) -> None:
    """Where every answer was heard, a conflict is tried anew, by another transaction."""
    store = Losing(on_file.store, [(Conflict("Met."), False)] * 2)
    await on_file.through(store).create(Author, author_id="a", name="Ada")
    assert len(set(store.tokens)) == 3


async def test_nobody_knows(on_file: Shelf) -> None:
    """After some times it is said that nobody knows, and that what would be made twice is not to be tried again."""
    store = Losing(on_file.store, [(StoreUnavailable("No answer."), True)] * MAX_SENDS)
    with pytest.raises(OutcomeUnknown, match="It is unknown whether the write was applied: No answer") as unknown:
        await on_file.through(store).create(Author, author_id="a", name="Ada")
    assert not unknown.value.retryable
    assert len(set(store.tokens)) == 1
    assert await on_file.db.get(Author, "a") is not None


async def test_an_error_that_is_no_question(on_file: Shelf) -> None:
    """What the store refuses is told at once, and a condition that did not hold is looked at anew."""
    store = Losing(on_file.store, [(ConditionFailed("Met.", position=0, old=None), False)])
    await on_file.through(store).create(Author, author_id="a", name="Ada")
    assert len(set(store.tokens)) == 2


class Before(WrappedStore):
    """Has something written by other hands before the first transaction."""

    def __init__(self, inner: Store, write: Put) -> None:
        super().__init__(inner)
        self.first: list[Put] = [write]

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        first, self.first = self.first, []
        await self.inner.write(first)
        await super().write_together(writes, token)


async def test_an_owner_that_comes_back(on_file: Shelf) -> None:
    """A value that was left behind is not taken where its owner gets it back meanwhile, past its item."""
    entity = CATALOG.entity(Book)
    await on_file.db.create(Author, author_id="a", name="Ada")
    book = await on_file.db.create(Book, book_id="b", author_id="a", isbn="1")
    without = book.model_copy(update={"isbn": None})
    await on_file.store.write([Put(to_item(entity, without, on_file.tenant, "one"))])
    store = Before(on_file.store, Put(to_item(entity, book, on_file.tenant, "two")))
    with pytest.raises(NotUnique):
        await on_file.through(store).put(Book(book_id="c", author_id="a", isbn="1"))
    await on_file.check()


# --- what it costs ---------------------------------------------------------------------------------------------


class Asked(WrappedStore):
    """Remembers what is asked of it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[str] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Any:
        self.calls.append(f"get {len(keys)}")
        return await super().get_many(keys, consistent)

    async def write(self, writes: Any) -> Any:
        self.calls.append(f"write {len(writes)}")
        return await super().write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.calls.append(f"together {len(writes)}")
        await super().write_together(writes, token)


async def test_calls(on_file: Shelf) -> None:
    """A create looks for nothing but what it names, and an update reads the record, and what binds it, once each."""
    store = Asked(on_file.store)
    db = on_file.through(store)

    async def calls(of: Any) -> list[str]:
        store.calls = []
        await of
        return store.calls

    assert await calls(db.create(Author, author_id="a", name="Ada")) == ["together 3"]
    assert await calls(db.create(Book, book_id="b", author_id="a", isbn="1")) == ["get 2", "together 4"]
    assert await calls(db.update(Book, "b", shelf=2)) == ["get 1", "get 4", "together 1"]
    assert await calls(db.put(Pass(card_id="p", code="x"))) == ["get 1", "get 1", "together 2"]
    assert await calls(db.delete(Book, "b")) == ["get 1", "get 2", "together 3"]
