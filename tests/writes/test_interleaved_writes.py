"""Concurrent writers with randomly interleaved store calls never break a constraint."""

from random import Random
from typing import Any

import pytest

from graphql_api.database import Database
from graphql_api.errors import (
    AlreadyExists,
    Conflict,
    CreationChanged,
    ForeignKeyBroken,
    NotUnique,
    RecordNotFound,
    ShardQLError,
)
from graphql_api.storage.values import Put
from graphql_api.writes import constraints
from graphql_api.writes.constraints import ABANDONED_AFTER_SECONDS
from graphql_api.writes.item_keys import DELETE_INTENT, to_item
from tests.support.run_depth import depth
from tests.writes.conftest import LibraryFactory
from tests.writes.library_catalog import CATALOG, Author, Book, CallScheduler, Diary, Loan, Operation

pytestmark = pytest.mark.usefixtures("no_backoff")


def create_book(book_id: str = "b", author_id: str = "a", **values: Any) -> Operation:
    """Creates a book."""
    return lambda db: db.create(Book, book_id=book_id, author_id=author_id, **values)


def create_author(name: str, created: int) -> Operation:
    """Creates the author `a` with a given creation value."""
    return lambda db: db.create(Author, author_id="a", name=name, created=created)


def create_entry(at: int, created: int) -> Operation:
    """Creates an entry of the diary `d` with a given creation value."""
    return lambda db: db.create(Diary, diary_id="d", at=at, created=created)


def delete_author(author_id: str = "a") -> Operation:
    """Deletes an author."""
    return lambda db: db.delete(Author, author_id)


async def test_create_of_a_child_during_deletion_of_its_parent(libraries: LibraryFactory, random: Random) -> None:
    """Of a concurrent create of a book and delete of its author, exactly one is refused."""
    parent_deleted = set()
    async for library in libraries.create(depth(150, 3_000)):
        await library.db.create(Author, author_id="a", name="Ada")
        outcomes = await CallScheduler(random).run(library, {"create": create_book(), "remove": delete_author()})
        author, book = await library.db.get(Author, "a"), await library.db.get(Book, "b")
        assert isinstance(outcomes["create"], ForeignKeyBroken) == (book is None), outcomes
        assert isinstance(outcomes["remove"], ForeignKeyBroken) == (author is not None), outcomes
        assert (author is None) == (book is None), outcomes
        await library.check()
        parent_deleted.add(author is None)
    assert parent_deleted == {True, False}


async def test_many_writers_around_one_parent(libraries: LibraryFactory, random: Random) -> None:
    """Concurrent creates, moves, updates and deletions of books and their author keep all constraints."""
    outcome_patterns = set()
    async for library in libraries.create(depth(60, 1_500)):
        for author_id in ("a", "c"):
            await library.db.create(Author, author_id=author_id, name=author_id)
        await library.db.create(Book, book_id="m", author_id="c")
        outcomes = await CallScheduler(random).run(
            library,
            {
                "create": create_book(editor_id="c"),
                "move": lambda db: db.update(Book, "m", author_id="a"),
                "drop": lambda db: db.delete(Book, "m"),
                "rename": lambda db: db.update(Author, "a", name="Ada"),
                "remove": delete_author(),
                "again": delete_author(),
            },
        )
        for name, answer in outcomes.items():
            missing = (RecordNotFound,) if name in ("move", "rename") else ()
            expected = (*missing, Conflict) if name == "rename" else (*missing, Conflict, ForeignKeyBroken)
            assert not isinstance(answer, ShardQLError) or isinstance(answer, expected), (name, answer)
        await library.check()
        assert not any(DELETE_INTENT in item for item in (await library.items()).values())
        outcome_patterns.add(tuple(isinstance(answer, ShardQLError) for answer in outcomes.values()))
    assert len(outcome_patterns) > depth(1, 3)


async def test_a_crashed_deletion(libraries: LibraryFactory, random: Random) -> None:
    """After a crashed deletion, the author accepts books again after a while, or can be deleted."""
    delete_intents = 0
    number = 0
    async for library in libraries.create(depth(40, 400)):
        number += 1
        await library.db.create(Author, author_id="a", name="Ada")
        outcomes = await CallScheduler(random).run(library, {"remove": delete_author()}, crash=("remove", number % 6))
        if await library.db.get(Author, "a") is None:
            assert outcomes["remove"] is None
            continue
        assert outcomes["remove"] == "crashed"
        has_delete_intent = any(DELETE_INTENT in item for item in (await library.items()).values())
        delete_intents += has_delete_intent
        if has_delete_intent:
            with pytest.raises(Conflict, match="Author a is being deleted"):
                await library.db.create(Book, book_id="b", author_id="a")
            library.clock.now += ABANDONED_AFTER_SECONDS + 0.1
        if number % 2:
            await library.db.create(Book, book_id="b", author_id="a")
            with pytest.raises(ForeignKeyBroken):
                await library.db.delete(Author, "a")
        else:
            await library.db.delete(Author, "a")
            assert await library.db.get(Author, "a") is None
        assert not any(DELETE_INTENT in item for item in (await library.items()).values())
        await library.check()
    assert delete_intents


async def test_a_delete_intent_removed_too_early(
    libraries: LibraryFactory, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If clock skew makes every delete intent look abandoned, constraints still hold."""
    monkeypatch.setattr(constraints, "ABANDONED_AFTER_SECONDS", -1.0)
    async for library in libraries.create(depth(100, 2_000)):
        await library.db.create(Author, author_id="a", name="Ada")
        operations = {"create": create_book(), "another": create_book("c"), "remove": delete_author()}
        outcomes = await CallScheduler(random).run(library, operations)
        author = await library.db.get(Author, "a")
        books = [await library.db.get(Book, book_id) for book_id in ("b", "c")]
        if author is None:
            assert books == [None, None]
            assert isinstance(outcomes["create"], ForeignKeyBroken)
            assert isinstance(outcomes["another"], ForeignKeyBroken)
        else:
            assert None not in books
            assert isinstance(outcomes["remove"], ForeignKeyBroken)
        await library.check()


async def test_concurrent_writers_of_one_unique_value(libraries: LibraryFactory, random: Random) -> None:
    """At most one of several concurrent writers gets a unique value, even if its owner releases it meanwhile."""
    winners = set()
    async for library in libraries.create(depth(80, 2_000)):
        await library.db.create(Author, author_id="old", name="Ada")
        await library.db.create(Author, author_id="other", name="Bob")
        outcomes = await CallScheduler(random).run(
            library,
            {
                "create": lambda db: db.create(Author, author_id="new", name="ADA"),
                "rename": lambda db: db.update(Author, "other", name="ada"),
                "release": lambda db: db.update(Author, "old", name="Eve"),
                "second create": lambda db: db.create(Author, author_id="third", name="Adà"),
            },
        )
        assert not isinstance(outcomes["release"], ShardQLError)
        successful = [
            name for name in ("create", "rename", "second create") if not isinstance(outcomes[name], ShardQLError)
        ]
        assert len(successful) <= 1
        assert all(
            isinstance(outcomes[name], NotUnique) for name in {"create", "rename", "second create"} - set(successful)
        ), outcomes
        await library.check()
        winners |= set(successful) or {"none"}
    assert len(winners) > 2


async def test_concurrent_writers_of_a_stale_unique_value(libraries: LibraryFactory, random: Random) -> None:
    """Of two concurrent writers of a stale unique value exactly one succeeds."""
    winners = set()
    async for library in libraries.create(depth(60, 1_000)):
        await library.db.create(Author, author_id="a", name="Ada")
        await library.db.create(Book, book_id="b", author_id="a", isbn="1")
        stale_item = to_item(CATALOG.entity(Book), Book(book_id="b", author_id="a"), library.tenant, "older")
        await library.store.write([Put(stale_item)])
        outcomes = await CallScheduler(random).run(
            library,
            {"back": lambda db: db.update(Book, "b", isbn="1"), "new": create_book("c", isbn="1")},
        )
        successful = [name for name, answer in outcomes.items() if not isinstance(answer, ShardQLError)]
        assert len(successful) == 1, outcomes
        assert {type(answer) for answer in outcomes.values()} == {Book, NotUnique}, outcomes
        await library.check()
        winners.add(successful[0])
    assert len(winners) == 2


async def test_concurrent_creates_of_one_id_in_several_generations(libraries: LibraryFactory, random: Random) -> None:
    """Of concurrent creates of one id in several shard generations exactly one succeeds."""
    winners = set()
    async for library in libraries.create(depth(60, 1_000)):
        values = {"first": 1, "second": 2_000_000, "third": 3_000_000}
        outcomes = await CallScheduler(random).run(
            library, {name: create_author(name, at) for name, at in values.items()}
        )
        successful = [name for name, answer in outcomes.items() if not isinstance(answer, ShardQLError)]
        assert len(successful) == 1, outcomes
        assert sum(isinstance(answer, AlreadyExists) for answer in outcomes.values()) == 2, outcomes
        await library.check()
        winners.add(successful[0])
    assert len(winners) == 3


async def test_concurrent_first_entries_in_several_generations(libraries: LibraryFactory, random: Random) -> None:
    """Concurrent first entries of one history all lie in one shard generation, that of the first one."""
    failure_patterns = set()
    async for library in libraries.create(depth(60, 1_000)):
        operations = {f"entry {at}": create_entry(at, created) for at, created in enumerate([1, 1, 5_000])}
        outcomes = await CallScheduler(random).run(
            library, {**operations, "drop": lambda db: db.delete(Diary, "d", at=0)}
        )
        failed = {name for name, answer in outcomes.items() if isinstance(answer, ShardQLError)}
        assert all(isinstance(outcomes[name], CreationChanged) for name in failed), outcomes
        entries = [item for item in (await library.items()).values() if "diaryId" in item]
        assert len({item["created"] for item in entries}) <= 1
        assert len({item["hashKey"] for item in entries}) <= 1
        failure_patterns.add(frozenset(failed))
    assert len(failure_patterns) > 1


async def test_concurrent_entries_with_constraints(libraries: LibraryFactory, random: Random) -> None:
    """The unique value of a history belongs to its current record: of two histories only one gets it."""
    async for library in libraries.create(depth(60, 1_000)):
        await library.db.create(Author, author_id="a", name="Ada")
        await library.db.put(Loan(loan_id="x", at="1", card="red"))
        await library.db.put(Loan(loan_id="y", at="1", card="blue"))
        outcomes = await CallScheduler(random).run(
            library,
            {
                "update": lambda db: db.update(Loan, "x", at="2", card="green", author_id="a"),
                "put": lambda db: db.put(Loan(loan_id="y", at="2", card="red")),
                "delete": lambda db: db.delete(Loan, "x", at="2"),
                "remove": delete_author(),
            },
        )
        problems = [answer for answer in outcomes.values() if isinstance(answer, ShardQLError)]
        assert all(isinstance(answer, (NotUnique, ForeignKeyBroken)) for answer in problems), outcomes
        await library.check()


async def test_versions_of_concurrent_updates(libraries: LibraryFactory, random: Random) -> None:
    """Each successful update increments the version by one. Of several with one expected version only one succeeds."""
    async for library in libraries.create(depth(40, 600)):
        await library.db.create(Author, author_id="a", name="Ada")
        outcomes = await CallScheduler(random).run(
            library,
            {
                "first expected": lambda db: db.update(Author, "a", name="Bea", expected_version=1),
                "second expected": lambda db: db.update(Author, "a", name="Cleo", expected_version=1),
                "unconditional": lambda db: db.update(Author, "a", mentor_id="a"),
            },
        )
        done = [answer for answer in outcomes.values() if not isinstance(answer, ShardQLError)]
        assert sorted(answer.version for answer in done) == list(range(2, 2 + len(done)))
        assert sum(isinstance(outcomes[name], ShardQLError) for name in ("first expected", "second expected")) >= 1
        author = await library.db.get(Author, "a")
        assert author is not None
        assert author.version == 1 + len(done)
        await library.check()


async def test_the_scheduler_detects_a_race(libraries: LibraryFactory, random: Random) -> None:
    """The scheduler detects a writer that checks a reference without constraint items."""

    async def unsafe_create(db: Database) -> None:
        if await db.get(Author, "a") is not None:
            book = to_item(CATALOG.entity(Book), Book(book_id="b", author_id="a"), db.tenant, "w")
            await db.store.write([Put(book)])

    caught = 0
    async for library in libraries.create(60):
        await library.db.create(Author, author_id="a", name="Ada")
        await CallScheduler(random).run(library, {"create": unsafe_create, "remove": delete_author()})
        if await library.db.get(Author, "a") is None and await library.db.get(Book, "b") is not None:
            caught += 1
            with pytest.raises(AssertionError, match="names a"):
                await library.check()
    assert caught
