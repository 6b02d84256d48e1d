"""Creates, updates, puts and deletions of records with constraints, on both engines."""

from collections.abc import Sequence
from dataclasses import replace
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
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Key, Put, TransactionWrite
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.item_keys import to_item
from graphql_api.writes.transactions import OUTCOME_RETRIES
from tests.writes.library_catalog import CATALOG, NOW, Author, Book, Diary, Library, Loan, Pass, Ticket, Visit

MAX_SENDS = OUTCOME_RETRIES.max_attempts

# --- server-set properties -------------------------------------------------------------------------------------


async def test_create_sets_server_values(library: Library) -> None:
    """Id, timestamps, version and derived properties are set by the server and stored."""
    author = await library.db.create(Author, name="Ada Löwe")
    assert len(author.author_id) == 22
    assert (author.created, author.updated, author.version) == (int(NOW * 1000), int(NOW), 1)
    assert author.name_canonical == "adalowe"
    assert await library.db.get(Author, author.author_id) == author
    await library.check()


async def test_create_ignores_provided_version_and_update_time(library: Library) -> None:
    """A creation value may be provided. Version and update time are always set by the server."""
    provided = Author(author_id="a", created=5, updated=7, version=70, name="Ada")
    author = await library.db.create(provided)
    assert (author.created, author.updated, author.version) == (5, int(NOW), 1)
    assert (provided.updated, provided.version) == (7, 70)
    with pytest.raises(UnknownArgument, match="Did you mean 'name'"):
        await library.db.create(Author, nmae="Bob")


async def test_update_sets_version_and_update_time(library: Library) -> None:
    """An update sets version and update time. These and derived properties cannot be provided."""
    await library.db.create(Author, author_id="a", name="Ada")
    library.clock.now += 10
    author = await library.db.update(Author, "a", name="Bea")
    assert (author.version, author.updated, author.created) == (2, int(NOW) + 10, int(NOW * 1000))
    for name in ("version", "updated", "name_canonical"):
        with pytest.raises(InvalidValue, match=name) as refused:
            await library.db.apply(Update(CATALOG.entity(Author), ["a"], {name: 3}))
        assert refused.value.argument == name
    assert await library.db.get(Author, "a") == author
    await library.check()


async def test_put_sets_version_and_keeps_creation_value(library: Library) -> None:
    """A put increments the stored version, and keeps the creation value if none is provided."""
    await library.db.create(Author, author_id="a", name="Ada", created=77)
    command = Replace(CATALOG.entity(Author), {"author_id": "a", "name": "Bea"})
    author = await library.db.apply(command)
    assert isinstance(author, Author)
    assert (author.version, author.created) == (2, 77)
    await library.db.put(Author(author_id="b", created=1, updated=1, version=9, name="Bob"))
    written = await library.db.get(Author, "b")
    assert written is not None
    assert (written.version, written.updated) == (1, int(NOW))
    await library.check()


async def test_restore_keeps_version_and_timestamps(library: Library) -> None:
    """A restored record keeps its version and timestamps, but the version of an existing record never decreases."""
    old = Author(author_id="a", created=1, updated=5, version=9, name="Ada")
    assert await library.db.restore_many([old]) == [None]
    assert await library.db.get(Author, "a") == old
    assert await library.db.restore_many([old.model_copy(update={"version": 3})]) == [None]
    written = await library.db.get(Author, "a")
    assert written is not None
    assert written.version == 10


async def test_an_invalid_record_reports_every_field(library: Library) -> None:
    """An invalid record is refused with every invalid field, by create, update and put."""
    with pytest.raises(InvalidRecord) as refused:
        await library.db.create(Book, book_id=1, shelf="x")
    assert [one["field"] for one in refused.value.extensions["fields"]] == ["book_id", "author_id", "shelf"]
    assert refused.value.argument == "book_id"
    await library.db.create(Author, author_id="a", name="Ada")
    await library.db.create(Book, book_id="b", author_id="a")
    with pytest.raises(InvalidRecord) as refused:
        await library.db.update(Book, "b", shelf=None, place="x")
    assert [one.field for one in refused.value.fields] == ["shelf", "place"]
    with pytest.raises(InvalidRecord, match=r"Book\.shelf: .*; Book\.place: "):
        await library.db.apply(
            Replace(CATALOG.entity(Book), {"book_id": "b", "author_id": "a", "shelf": "", "place": ""})
        )


# --- ids and expiry --------------------------------------------------------------------------------------------


async def test_create_refuses_an_existing_id(library: Library) -> None:
    """A create never replaces a record in any shard generation, and a deleted id is free again."""
    await library.db.create(Author, author_id="a", name="Ada", created=1)
    for created in (2, 5_000):
        with pytest.raises(AlreadyExists, match="Author a already exists") as refused:
            await library.db.create(Author, author_id="a", name="Bob", created=created)
        assert refused.value.argument == "author_id"
    await library.db.delete(Author, "a")
    assert (await library.db.create(Author, author_id="a", name="Bob", created=5_000)).version == 1
    await library.check()


async def test_an_expired_record_frees_id_and_unique_values(library: Library) -> None:
    """The id and unique values of an expired record are free, even if the engine has not removed it yet."""
    await library.db.create(Pass, card_id="p", code="x", until=int(NOW) + 5)
    with pytest.raises(NotUnique):
        await library.db.create(Pass, card_id="q", code="x")
    library.clock.now += 5
    await library.db.create(Pass, card_id="q", code="x")
    created = await library.db.create(Pass, card_id="p", code="y", until=int(NOW) + 50)
    assert created.code == "y"
    await library.check()
    with pytest.raises(NotUnique):
        await library.db.update(Pass, "p", code="x")


async def test_unique_items_expire_with_their_record(library: Library) -> None:
    """A unique item expires with its record, and follows a change of the expiry."""
    entity = CATALOG.entity(Pass)
    assert entity.ttl is not None
    for until in (int(NOW) + 5, int(NOW) + 9, None):
        await library.db.put(Pass(card_id="p", code="x", until=until))
        (item,) = [item for item in (await library.items()).values() if "_owner" in item]
        assert (item.get(entity.ttl.stored), item.get("_until")) == (until, until)


# --- unique values ---------------------------------------------------------------------------------------------


async def test_a_taken_unique_value_is_refused(library: Library) -> None:
    """No create, update or put can take a unique value of another record, in any notation. Null is no value."""
    await library.db.create(Author, author_id="a", name="Ada")
    for book_id in ("b", "c"):
        await library.db.create(Book, book_id=book_id, author_id="a")
    await library.db.update(Book, "b", isbn="1", place=4)
    attempts: list[tuple[str, Any]] = [
        ("name", library.db.create(Author, author_id="x", name="ÁDA")),  # The canonical form is derived.
        ("isbn", library.db.update(Book, "c", isbn="1")),
        ("isbn", library.db.put(Book(book_id="d", author_id="a", isbn="1"))),
        ("shelf", library.db.update(Book, "c", place=4)),
        ("shelf", library.db.create(Book, book_id="d", author_id="a", place=4)),
    ]
    for argument, attempt in attempts:
        with pytest.raises(NotUnique) as refused:
            await attempt
        assert refused.value.argument == argument
    await library.db.update(Book, "c", place=4, shelf=2)
    await library.check()


async def test_a_released_unique_value_is_free(library: Library) -> None:
    """A unique value is free once its owner has another value, has none, or is deleted."""
    await library.db.create(Author, author_id="a", name="Ada")
    await library.db.create(Book, book_id="b", author_id="a", isbn="1")
    await library.db.update(Book, "b", isbn="2")
    await library.db.create(Book, book_id="c", author_id="a", isbn="1")
    await library.db.update(Book, "c", isbn=None)
    await library.db.put(Book(book_id="d", author_id="a", isbn="1"))
    await library.db.delete(Book, "d")
    await library.db.create(Book, book_id="e", author_id="a", isbn="1")
    await library.check()


async def test_unique_values_are_separate_per_tenant(library: Library) -> None:
    """Unique values are separate per tenant, even if a tenant name contains separators."""
    await library.db.create(Author, author_id="a", name="Ada")
    for tenant in (f"{library.tenant}|author~unique!", f"{library.tenant}x"):
        other = Library(library.store, tenant)
        await other.db.create(Author, author_id="a", name="Ada")
        with pytest.raises(ForeignKeyBroken):
            await other.db.create(Book, book_id="b", author_id="z")


async def test_similar_unique_values_do_not_conflict(library: Library) -> None:
    """Only equal values conflict, not those whose encoded texts look similar."""
    await library.db.create(Author, author_id="a", name="Ada")
    for number, isbn in enumerate(["a|b", "a", "a%7Cb", "a#b", "a!", "", "ab", "A"]):
        await library.db.create(Book, book_id=str(number), author_id="a", isbn=isbn)
    for number, (on, place) in enumerate([(1, 11), (11, 1), (-1, 1), (1, -1)]):
        await library.db.create(Book, book_id=f"p{number}", author_id="a", shelf=on, place=place)
    await library.check()


async def test_a_too_long_unique_value_is_refused(library: Library) -> None:
    """A unique value that is too long for the key of its unique item is refused with its property."""
    await library.db.create(Author, author_id="a", name="Ada")
    with pytest.raises(KeyTooLong, match="isbn") as refused:
        await library.db.create(Book, book_id="b", author_id="a", isbn="x" * 3_000)
    assert refused.value.argument == "isbn"
    assert await library.db.get(Book, "b") is None


async def test_records_older_than_the_constraint(library: Library) -> None:
    """A record without constraint items gets them with its next write, if its values are free."""
    await library.db.create(Author, author_id="a", name="Ada")
    book = Book(book_id="b", author_id="a", isbn="1")
    await library.store.write([Put(to_item(CATALOG.entity(Book), book, library.tenant, "w"))])
    await library.db.update(Book, "b", shelf=2)
    await library.check()
    await library.store.write([Delete(key) for key, item in (await library.items()).items() if "bookId" in item])
    await library.db.create(Book, book_id="c", author_id="a", isbn="1")  # The owner is gone, its unique item is not.
    await library.db.delete(Book, "c")
    await library.db.delete(Author, "a")
    assert not [key for key, item in (await library.items()).items() if "_owner" in item]


# --- foreign keys ----------------------------------------------------------------------------------------------


async def test_a_missing_referenced_record_is_refused(library: Library) -> None:
    """A referenced record must exist on create, update and put. A null reference is allowed."""
    await library.db.create(Author, author_id="a", name="Ada", created=1)
    await library.db.create(Author, author_id="e", name="Eve", created=5_000)
    with pytest.raises(ForeignKeyBroken, match="author_id references Author z, which does not exist") as refused:
        await library.db.create(Book, book_id="b", author_id="z")
    assert refused.value.argument == "author_id"
    await library.db.create(Book, book_id="b", author_id="a", editor_id="e")
    for name in ("author_id", "editor_id"):
        with pytest.raises(ForeignKeyBroken) as refused:
            await library.db.apply(Update(CATALOG.entity(Book), ["b"], {name: "z"}))
        assert refused.value.argument == name
    with pytest.raises(ForeignKeyBroken):
        await library.db.put(Book(book_id="c", author_id="z"))
    await library.db.update(Book, "b", editor_id=None, author_id="e")
    await library.check()


async def test_a_referenced_record_cannot_be_deleted(library: Library) -> None:
    """A referenced record cannot be deleted, and the error names a referencing record. Without references it can."""
    await library.db.create(Author, author_id="a", name="Ada")
    await library.db.create(Author, author_id="b", name="Bob")
    await library.db.create(Book, book_id="one", author_id="a", editor_id="a")
    before = await library.db.get(Author, "a")
    with pytest.raises(
        ForeignKeyBroken, match=r"Author a cannot be deleted: Book one references it by Book\.author_id"
    ):
        await library.db.delete(Author, "a")
    assert await library.db.get(Author, "a") == before
    await library.db.update(Book, "one", author_id="b")
    with pytest.raises(ForeignKeyBroken, match=r"Book\.editor_id"):
        await library.db.delete(Author, "a")
    await library.db.update(Book, "one", editor_id=None)
    await library.db.delete(Author, "a")
    await library.db.delete(Book, "one")
    await library.db.delete(Author, "b")
    assert not [item for item in (await library.items()).values() if "_w" not in item or "_owner" in item]


async def test_a_self_reference_does_not_block_deletion(library: Library) -> None:
    """A record may reference itself, from the start or later, and can still be deleted."""
    await library.db.create(Author, author_id="a", name="Ada", mentor_id="a")
    await library.db.create(Author, author_id="b", name="Bob", mentor_id="a")
    await library.db.update(Author, "b", mentor_id="b")
    await library.db.delete(Author, "a")
    await library.db.delete(Author, "b")
    assert not [item for item in (await library.items()).values() if "_owner" in item]


async def test_an_expired_reference_does_not_block_deletion(library: Library) -> None:
    """The reference of an expired record does not block a deletion, and a put must reference an existing record."""
    await library.db.create(Author, author_id="a", name="Ada")
    await library.db.create(Pass, card_id="p", code="x", author_id="a", until=int(NOW) + 5)
    with pytest.raises(ForeignKeyBroken):
        await library.db.delete(Author, "a")
    library.clock.now += 6
    await library.db.delete(Author, "a")
    with pytest.raises(ForeignKeyBroken):
        await library.db.put(Pass(card_id="p", code="x", author_id="a", until=None))


@pytest.mark.parametrize("counter", [False, True])
async def test_an_expired_record_cannot_be_referenced(library: Library, counter: bool) -> None:
    """A reference to an expired record is refused like one to a missing record, and gets no number.

    Catalogs refuse foreign keys to entities with Ttl. The visibility of the referenced record is checked nevertheless.
    """
    author, book = CATALOG.entity(Author), CATALOG.entity(Book)
    (of_author,) = (key for key in book.foreign_keys if key.name == "ofAuthor")
    of_author = replace(of_author, parent=replace(author, ttl=author.properties["updated"]))
    book = replace(book, foreign_keys=(of_author,))
    if counter:
        place = replace(book.properties["place"], counter_group=())
        book = replace(book, properties={**book.properties, "place": place})
    library.clock.now += 5
    await library.db.create(Author, author_id="a", name="Ada")
    library.clock.now -= 1
    await library.db.apply(Create(book, {"book_id": "b", "author_id": "a"}))
    library.clock.now += 1
    with pytest.raises(ForeignKeyBroken, match=r"Book\.author_id references Author a, which does not exist"):
        await library.db.apply(Create(book, {"book_id": "c", "author_id": "a"}))
    last_numbers = [item["_last"] for item in (await library.items()).values() if "_last" in item]
    assert last_numbers == ([1] if counter else [])


async def test_an_orphaned_reference_item_does_not_block_deletion(library: Library) -> None:
    """Reference items of records that no longer exist do not block a deletion."""
    await library.db.create(Author, author_id="a", name="Ada")
    for number in range(30):
        await library.db.create(Book, book_id=f"b{number:02}", author_id="a")
    deletes = [Delete(key) for key, item in (await library.items()).items() if "bookId" in item]
    await library.store.write(deletes[:-1])
    with pytest.raises(ForeignKeyBroken):
        await library.db.delete(Author, "a")
    await library.store.write(deletes[-1:])
    await library.db.delete(Author, "a")
    assert not [item for item in (await library.items()).values() if "_owner" in item]


# --- versions and immutable properties -------------------------------------------------------------------------


async def test_expected_version(library: Library) -> None:
    """A write with an expected version succeeds for the stored version only. The error contains the stored version."""
    await library.db.create(Author, author_id="a", name="Ada")
    author = await library.db.update(Author, "a", name="Bea", expected_version=1)
    attempts: list[Any] = [
        library.db.update(Author, "a", name="Cleo", expected_version=1),
        library.db.put(author, expected_version=3),
        library.db.delete(Author, "a", expected_version=1),
    ]
    for attempt in attempts:
        with pytest.raises(VersionConflict, match="has version 2") as refused:
            await attempt
        assert refused.value.extensions == {"code": "VERSION_CONFLICT", "argument": "expected_version", "version": 2}
    with pytest.raises(VersionConflict, match="does not exist, but version 2 was expected") as refused:
        await library.db.put(author.model_copy(update={"author_id": "b"}), expected_version=2)
    assert refused.value.version is None
    await library.db.delete(Author, "a", expected_version=2)
    await library.db.delete(Author, "a", expected_version=2)  # The record is already deleted.
    with pytest.raises(UnknownArgument, match="has no version to compare"):
        await library.db.update(Book, "b", shelf=1, expected_version=1)


async def test_immutable_properties_and_creation_value(library: Library) -> None:
    """Immutable properties and the creation value cannot change by update or put. The same value is allowed."""
    await library.db.create(Author, author_id="a", name="Ada", created=1)
    await library.db.create(Book, book_id="b", author_id="a", language="de")
    with pytest.raises(ImmutableChanged, match=r"Book\.language never changes") as refused:
        await library.db.update(Book, "b", language="en")
    assert refused.value.argument == "language"
    with pytest.raises(ImmutableChanged):
        await library.db.put(Book(book_id="b", author_id="a"))
    with pytest.raises(CreationChanged):
        await library.db.update(Author, "a", created=2)
    with pytest.raises(CreationChanged):
        await library.db.put(Author(author_id="a", created=5_000, updated=1, version=1, name="Ada"))
    assert (await library.db.update(Book, "b", language="de", shelf=3)).shelf == 3
    assert (await library.db.update(Author, "a", created=1)).version == 2


async def test_update_and_delete_of_a_missing_record(library: Library) -> None:
    """An update of a missing record is an error. A deletion of a missing record returns None."""
    with pytest.raises(RecordNotFound, match="Author a does not exist"):
        await library.db.update(Author, "a", name="Ada")
    assert await library.db.apply(Remove(CATALOG.entity(Author), ["a"])) is None
    author = await library.db.create(Author, author_id="a", name="Ada")
    assert await library.db.apply(Remove(CATALOG.entity(Author), ["a"])) == author


async def test_a_counter_as_part_of_the_id(library: Library) -> None:
    """A counter value may be part of the id, and is assigned before the record is looked up."""
    created_records = [await library.db.create(Ticket, desk="north") for _ in range(3)]
    assert [(ticket.desk, ticket.num) for ticket in created_records] == [("north", 1), ("north", 2), ("north", 3)]
    with pytest.raises(InvalidValue, match="assigned by a counter"):
        await library.db.create(Ticket, desk="north", num=9)
    await library.db.put(Ticket(desk="north", num=9))
    assert (await library.db.create(Ticket, desk="north")).num == 10
    assert (await library.db.update(Ticket, "north/2", note="x")).note == "x"


# --- histories -------------------------------------------------------------------------------------------------


async def test_unique_values_of_a_history_belong_to_its_current_record(library: Library) -> None:
    """Entries of one id share a unique value, which is held while the current record has it."""
    await library.db.create(Author, author_id="a", name="Ada")
    await library.db.create(Loan, loan_id="x", at="1", card="red", author_id="a")
    await library.db.update(Loan, "x", at="2")
    with pytest.raises(NotUnique):
        await library.db.create(Loan, loan_id="y", at="1", card="red")
    with pytest.raises(AlreadyExists):
        await library.db.create(Loan, loan_id="x", at="2", card="red")
    with pytest.raises(ForeignKeyBroken, match=r"Loan x/~current references it by Loan\.author_id"):
        await library.db.delete(Author, "a")
    await library.db.update(Loan, "x", at="3", card="blue", author_id=None)
    await library.db.put(Loan(loan_id="y", at="1", card="red", author_id="a"))
    await library.check()
    with pytest.raises(NotUnique):  # The previous entry would become current, and its card is taken.
        await library.db.delete(Loan, "x", at="3")
    await library.db.delete(Loan, "y", at="1")
    await library.db.delete(Loan, "x", at="3")
    await library.check()
    found = await library.db.put_many([Loan(loan_id=one, at="9", card="green") for one in ("p", "q", "p")])
    assert sorted(type(one).__name__ for one in found) in (
        ["NoneType", "NotUnique", "NotUnique"],
        ["NoneType", "NoneType", "NotUnique"],
    )
    await library.check()


async def test_a_history_without_a_current_record(library: Library) -> None:
    """Each entry has its own version and unique values, and a new entry continues from the last one."""
    await library.db.create(Diary, diary_id="d", at=1, created=1, mood="good")
    with pytest.raises(NotUnique):
        await library.db.update(Diary, "d", at=2)
    entry = await library.db.update(Diary, "d", at=2, mood=None)
    assert (entry.version, entry.created) == (2, 1)
    assert (await library.db.update(Diary, "d", at=1, mood="bad", expected_version=1)).version == 2
    with pytest.raises(CreationChanged):
        await library.db.create(Diary, diary_id="d", at=3, created=5_000)
    await library.db.create(Diary, diary_id="d", at=3, created=1, mood="good")
    await library.check()


async def test_a_new_entry_inherits_the_creation_value(library: Library) -> None:
    """A new entry without a creation value gets that of its history, and so the same shard."""
    await library.db.create(Diary, diary_id="d", at=1, created=1)
    created = await library.db.create(Diary, diary_id="d", at=2)
    put = await library.db.apply(Replace(CATALOG.entity(Diary), {"diary_id": "d", "at": 3, "mood": "good"}))
    assert isinstance(put, Diary)
    assert [entry.created for entry in (created, put)] == [1, 1]
    assert (put.version, put.mood) == (1, "good")
    assert (await library.db.create(Diary, diary_id="e", at=1)).created == int(NOW)
    await library.db.create(Visit, visit_id="v", at="1", began=1)
    created_visit = await library.db.create(Visit, visit_id="v", at="2", note="x")
    put_visit = await library.db.apply(Replace(CATALOG.entity(Visit), {"visit_id": "v", "at": "3"}))
    assert isinstance(put_visit, Visit)
    assert [visit.began for visit in (created_visit, put_visit)] == [1, 1]
    assert await library.db.get(Visit, "v") == put_visit.model_copy(update={"at": "~current"})
    await library.check()


# --- authorization and batches ---------------------------------------------------------------------------------


async def test_the_guard_runs_before_any_write(library: Library) -> None:
    """The guard receives the old and new record before any write. A refused write does not even change counters."""
    shown: list[tuple[Any, Any]] = []

    async def guard(old: Any, new: Any) -> None:
        shown.append((old, new))
        raise Forbidden("No.")

    author = await library.db.create(Author, author_id="a", name="Ada")
    before = await library.items()
    entity, tickets = CATALOG.entity(Author), CATALOG.entity(Ticket)
    commands: list[Command] = [
        Create(tickets, {"desk": "north"}, allow=guard),
        Update(entity, ["a"], {"name": "Bea"}, allow=guard),
        Replace(entity, {"author_id": "a", "name": "Bea"}, allow=guard),
        Remove(entity, ["a"], allow=guard),
    ]
    for command in commands:
        with pytest.raises(Forbidden):
            await library.db.apply(command)
    assert [old for old, _ in shown] == [None, author, author, author]
    assert await library.items() == before


async def test_batch_commands_fail_separately(library: Library) -> None:
    """A failed command does not affect the others, and commands of one record run in order."""
    entity = CATALOG.entity(Author)
    answers = await library.db.apply_each(
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
    created_records = await library.db.create_many([Book(book_id="b", author_id="a"), Book(book_id="c", author_id="z")])
    assert [type(one).__name__ for one in created_records] == ["Book", "ForeignKeyBroken"]
    assert await library.db.create_many([]) == []
    await library.check()


# --- lost replies ----------------------------------------------------------------------------------------------


CONFLICT = Conflict("Another transaction is in progress.")


class FailingTransactionStore(ForwardingStore):
    """Fails transactions before or after they are applied, and records their tokens."""

    def __init__(self, inner: Store, problems: Sequence[tuple[ShardQLError, bool]]) -> None:
        super().__init__(inner)
        self.problems = list(problems)
        self.tokens: list[str] = []

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.tokens.append(token)
        problem, is_applied = self.problems.pop(0) if self.problems else (None, True)
        if is_applied:
            await super().write_together(writes, token)
        if problem is not None:
            raise problem


async def test_a_lost_reply_is_retried_with_the_same_token(sqlite_library: Library) -> None:
    """After a lost reply the same transaction is sent again with the same token, and counts once."""
    lost = StoreUnavailable("No reply.")
    for is_applied in (True, False):
        name = f"author {is_applied}"
        store = FailingTransactionStore(
            sqlite_library.store, [(lost, is_applied), (lost, is_applied), (CONFLICT, False)]
        )
        author = await sqlite_library.through(store).create(Author, author_id=name, name=name)
        assert author.version == 1
        assert len(store.tokens) == 4
        assert len(set(store.tokens)) == 1
        store.problems = [(lost, is_applied)]
        assert (await sqlite_library.through(store).update(Author, name, mentor_id=name)).version == 2
    await sqlite_library.check()


async def test_a_conflict_is_retried_with_a_new_token(sqlite_library: Library) -> None:
    """If every reply arrived, a conflict is retried as a new transaction."""
    store = FailingTransactionStore(sqlite_library.store, [(CONFLICT, False)] * 2)
    await sqlite_library.through(store).create(Author, author_id="a", name="Ada")
    assert len(set(store.tokens)) == 3


async def test_repeated_lost_replies_make_the_outcome_unknown(sqlite_library: Library) -> None:
    """After repeated lost replies the outcome is unknown, and a create is not safe to retry."""
    store = FailingTransactionStore(sqlite_library.store, [(StoreUnavailable("No reply."), True)] * MAX_SENDS)
    with pytest.raises(OutcomeUnknown, match="It is unknown whether the write was applied: No reply") as unknown:
        await sqlite_library.through(store).create(Author, author_id="a", name="Ada")
    assert not unknown.value.retryable
    assert len(set(store.tokens)) == 1
    assert await sqlite_library.db.get(Author, "a") is not None


async def test_a_failed_condition_starts_a_new_attempt(sqlite_library: Library) -> None:
    """A failed condition starts a new attempt with a new transaction."""
    store = FailingTransactionStore(sqlite_library.store, [(ConditionFailed("Changed.", position=0, old=None), False)])
    await sqlite_library.through(store).create(Author, author_id="a", name="Ada")
    assert len(set(store.tokens)) == 2


class PrecedingWriteStore(ForwardingStore):
    """Writes an item directly before the first transaction."""

    def __init__(self, inner: Store, write: Put) -> None:
        super().__init__(inner)
        self.first: list[Put] = [write]

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        first, self.first = self.first, []
        await self.inner.write(first)
        await super().write_together(writes, token)


async def test_an_owner_that_regains_its_value_concurrently(sqlite_library: Library) -> None:
    """A value without owner is not taken if its former owner regains it concurrently without its unique item."""
    entity = CATALOG.entity(Book)
    await sqlite_library.db.create(Author, author_id="a", name="Ada")
    book = await sqlite_library.db.create(Book, book_id="b", author_id="a", isbn="1")
    without = book.model_copy(update={"isbn": None})
    await sqlite_library.store.write([Put(to_item(entity, without, sqlite_library.tenant, "one"))])
    store = PrecedingWriteStore(sqlite_library.store, Put(to_item(entity, book, sqlite_library.tenant, "two")))
    with pytest.raises(NotUnique):
        await sqlite_library.through(store).put(Book(book_id="c", author_id="a", isbn="1"))
    await sqlite_library.check()


# --- store calls -----------------------------------------------------------------------------------------------


class CallRecordingStore(ForwardingStore):
    """Records the calls of the store."""

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


async def test_store_calls_of_each_write(sqlite_library: Library) -> None:
    """A create reads only referenced records. An update reads the record and its constraint items once each."""
    store = CallRecordingStore(sqlite_library.store)
    db = sqlite_library.through(store)

    async def calls(operation: Any) -> list[str]:
        store.calls = []
        await operation
        return store.calls

    assert await calls(db.create(Author, author_id="a", name="Ada")) == ["together 3"]
    assert await calls(db.create(Book, book_id="b", author_id="a", isbn="1")) == ["get 2", "together 4"]
    assert await calls(db.update(Book, "b", shelf=2)) == ["get 1", "get 4", "together 1"]
    assert await calls(db.put(Pass(card_id="p", code="x"))) == ["get 1", "get 1", "together 2"]
    assert await calls(db.delete(Book, "b")) == ["get 1", "get 2", "together 3"]
