"""Several writers at once, one call of the store at a time in every order that comes up: no constraint ever breaks."""

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
from graphql_api.writes.constraints import delete_intent
from graphql_api.writes.constraints.delete_intent import DELETE_INTENT, ABANDONED_AFTER_SECONDS
from graphql_api.writes.item_keys import to_item
from tests.depth import depth
from tests.unit.conftest import Worlds
from tests.unit.shelf import CATALOG, Author, Book, Diary, Loan, Operation, Turns

pytestmark = pytest.mark.usefixtures("no_pauses")


def create_book(book_id: str = "b", author_id: str = "a", **values: Any) -> Operation:
    """Writes a new book."""
    return lambda db: db.create(Book, book_id=book_id, author_id=author_id, **values)


def begin_author(name: str, created: int) -> Operation:
    """Writes the same new author, as of another moment."""
    return lambda db: db.create(Author, author_id="a", name=name, created=created)


def begin_diary(at: int, created: int) -> Operation:
    """Writes an entry of the same diary, which began at another moment."""
    return lambda db: db.create(Diary, diary_id="d", at=at, created=created)


def remove_author(author_id: str = "a") -> Operation:
    """Removes an author."""
    return lambda db: db.delete(Author, author_id)


async def test_a_child_comes_while_its_parent_goes(worlds: Worlds, random: Random) -> None:
    """Either the book is there and its author too, or neither: one of the two is refused, and never both."""
    seen = set()
    async for world in worlds.some(depth(150, 3_000)):
        await world.db.create(Author, author_id="a", name="Ada")
        told = await Turns(random).run(world, {"create": create_book(), "remove": remove_author()})
        author, book = await world.db.get(Author, "a"), await world.db.get(Book, "b")
        assert isinstance(told["create"], ForeignKeyBroken) == (book is None), told
        assert isinstance(told["remove"], ForeignKeyBroken) == (author is not None), told
        assert (author is None) == (book is None), told
        await world.check()
        seen.add(author is None)
    assert seen == {True, False}


async def test_many_around_one_parent(worlds: Worlds, random: Random) -> None:
    """Books that come, move and go, and an author who changes and is removed, twice at once, leave all in order."""
    outcomes = set()
    async for world in worlds.some(depth(60, 1_500)):
        for author_id in ("a", "c"):
            await world.db.create(Author, author_id=author_id, name=author_id)
        await world.db.create(Book, book_id="m", author_id="c")
        told = await Turns(random).run(
            world,
            {
                "create": create_book(editor_id="c"),
                "move": lambda db: db.update(Book, "m", author_id="a"),
                "drop": lambda db: db.delete(Book, "m"),
                "rename": lambda db: db.update(Author, "a", name="Ada"),
                "remove": remove_author(),
                "again": remove_author(),
            },
        )
        for name, answer in told.items():
            gone = (RecordNotFound,) if name in ("move", "rename") else ()
            expected = (*gone, Conflict) if name == "rename" else (*gone, Conflict, ForeignKeyBroken)
            assert not isinstance(answer, ShardQLError) or isinstance(answer, expected), (name, answer)
        await world.check()
        assert not any(DELETE_INTENT in item for item in (await world.items()).values())
        outcomes.add(tuple(isinstance(answer, ShardQLError) for answer in told.values()))
    assert len(outcomes) > depth(1, 3)


async def test_a_removal_that_ends_in_the_middle(worlds: Worlds, random: Random) -> None:
    """Whatever it leaves behind, books of the author can be written a little later, and the author can be removed."""
    marked = 0
    number = 0
    async for world in worlds.some(depth(40, 400)):
        number += 1
        await world.db.create(Author, author_id="a", name="Ada")
        told = await Turns(random).run(world, {"remove": remove_author()}, crash=("remove", number % 6))
        if await world.db.get(Author, "a") is None:
            assert told["remove"] is None
            continue
        assert told["remove"] == "crashed"
        closed = any(DELETE_INTENT in item for item in (await world.items()).values())
        marked += closed
        if closed:
            with pytest.raises(Conflict, match="Author a is being deleted"):
                await world.db.create(Book, book_id="b", author_id="a")
            world.clock.now += ABANDONED_AFTER_SECONDS + 0.1
        if number % 2:
            await world.db.create(Book, book_id="b", author_id="a")
            with pytest.raises(ForeignKeyBroken):
                await world.db.delete(Author, "a")
        else:
            await world.db.delete(Author, "a")
            assert await world.db.get(Author, "a") is None
        assert not any(DELETE_INTENT in item for item in (await world.items()).values())
        await world.check()
    assert marked


async def test_a_mark_that_is_taken_off_too_early(
    worlds: Worlds, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where clocks differ so much that every mark looks abandoned, nothing breaks; it only takes more tries."""
    monkeypatch.setattr(delete_intent, "ABANDONED_AFTER_SECONDS", -1.0)
    async for world in worlds.some(depth(100, 2_000)):
        await world.db.create(Author, author_id="a", name="Ada")
        operations = {"create": create_book(), "another": create_book("c"), "remove": remove_author()}
        told = await Turns(random).run(world, operations)
        author = await world.db.get(Author, "a")
        books = [await world.db.get(Book, book_id) for book_id in ("b", "c")]
        if author is None:
            assert books == [None, None]
            assert isinstance(told["create"], ForeignKeyBroken)
            assert isinstance(told["another"], ForeignKeyBroken)
        else:
            assert None not in books
            assert isinstance(told["remove"], ForeignKeyBroken)
        await world.check()


async def test_several_want_one_value(worlds: Worlds, random: Random) -> None:
    """Of several who take the same value at once exactly one gets it, also where its owner lets go of it meanwhile."""
    winners = set()
    async for world in worlds.some(depth(80, 2_000)):
        await world.db.create(Author, author_id="old", name="Ada")
        await world.db.create(Author, author_id="other", name="Bob")
        told = await Turns(random).run(
            world,
            {
                "create": lambda db: db.create(Author, author_id="new", name="ADA"),
                "rename": lambda db: db.update(Author, "other", name="ada"),
                "let go": lambda db: db.update(Author, "old", name="Eve"),
                "once more": lambda db: db.create(Author, author_id="third", name="Adà"),
            },
        )
        assert not isinstance(told["let go"], ShardQLError)
        got = [name for name in ("create", "rename", "once more") if not isinstance(told[name], ShardQLError)]
        assert len(got) <= 1
        assert all(isinstance(told[name], NotUnique) for name in {"create", "rename", "once more"} - set(got)), told
        await world.check()
        winners |= set(got) or {"nobody"}
    assert len(winners) > 2


async def test_a_value_that_was_left_behind(worlds: Worlds, random: Random) -> None:
    """Where an older release took a value from a record past its item, one of two who want it gets it."""
    winners = set()
    async for world in worlds.some(depth(60, 1_000)):
        await world.db.create(Author, author_id="a", name="Ada")
        await world.db.create(Book, book_id="b", author_id="a", isbn="1")
        past = to_item(CATALOG.entity(Book), Book(book_id="b", author_id="a"), world.tenant, "older")
        await world.store.write([Put(past)])
        told = await Turns(random).run(
            world,
            {"back": lambda db: db.update(Book, "b", isbn="1"), "new": create_book("c", isbn="1")},
        )
        won = [name for name, answer in told.items() if not isinstance(answer, ShardQLError)]
        assert len(won) == 1, told
        assert {type(answer) for answer in told.values()} == {Book, NotUnique}, told
        await world.check()
        winners.add(won[0])
    assert len(winners) == 2


async def test_one_id_in_several_generations(worlds: Worlds, random: Random) -> None:
    """Of several who create one id at once, each for another shard generation, one does; there is one record of it."""
    winners = set()
    async for world in worlds.some(depth(60, 1_000)):
        values = {"first": 1, "second": 2_000_000, "third": 3_000_000}
        told = await Turns(random).run(world, {name: begin_author(name, at) for name, at in values.items()})
        won = [name for name, answer in told.items() if not isinstance(answer, ShardQLError)]
        assert len(won) == 1, told
        assert sum(isinstance(answer, AlreadyExists) for answer in told.values()) == 2, told
        await world.check()
        winners.add(won[0])
    assert len(winners) == 3


async def test_one_history_in_several_generations(worlds: Worlds, random: Random) -> None:
    """Entries of one id that begin it at once, some for another generation, all lie in one: that of the first."""
    seen = set()
    async for world in worlds.some(depth(60, 1_000)):
        operations = {f"entry {at}": begin_diary(at, created) for at, created in enumerate([1, 1, 5_000])}
        told = await Turns(random).run(world, {**operations, "drop": lambda db: db.delete(Diary, "d", at=0)})
        failed = {name for name, answer in told.items() if isinstance(answer, ShardQLError)}
        assert all(isinstance(told[name], CreationChanged) for name in failed), told
        entries = [item for item in (await world.items()).values() if "diaryId" in item]
        assert len({item["created"] for item in entries}) <= 1
        assert len({item["hashKey"] for item in entries}) <= 1
        seen.add(frozenset(failed))
    assert len(seen) > 1


async def test_entries_of_histories_that_are_bound(worlds: Worlds, random: Random) -> None:
    """The current record holds what is unique, whoever writes an entry: of two histories one has the card."""
    async for world in worlds.some(depth(60, 1_000)):
        await world.db.create(Author, author_id="a", name="Ada")
        await world.db.put(Loan(loan_id="x", at="1", card="red"))
        await world.db.put(Loan(loan_id="y", at="1", card="blue"))
        told = await Turns(random).run(
            world,
            {
                "goes on": lambda db: db.update(Loan, "x", at="2", card="green", author_id="a"),
                "wants": lambda db: db.put(Loan(loan_id="y", at="2", card="red")),
                "drops": lambda db: db.delete(Loan, "x", at="2"),
                "remove": remove_author(),
            },
        )
        problems = [answer for answer in told.values() if isinstance(answer, ShardQLError)]
        assert all(isinstance(answer, (NotUnique, ForeignKeyBroken)) for answer in problems), told
        await world.check()


async def test_versions_of_writers_at_once(worlds: Worlds, random: Random) -> None:
    """Each write that is told to be done has raised the version by one, and of those who expect one only one does."""
    async for world in worlds.some(depth(40, 600)):
        await world.db.create(Author, author_id="a", name="Ada")
        told = await Turns(random).run(
            world,
            {
                "expects": lambda db: db.update(Author, "a", name="Bea", expected_version=1),
                "expects too": lambda db: db.update(Author, "a", name="Cleo", expected_version=1),
                "does not care": lambda db: db.update(Author, "a", mentor_id="a"),
            },
        )
        done = [answer for answer in told.values() if not isinstance(answer, ShardQLError)]
        assert sorted(answer.version for answer in done) == list(range(2, 2 + len(done)))
        assert sum(isinstance(told[name], ShardQLError) for name in ("expects", "expects too")) >= 1
        author = await world.db.get(Author, "a")
        assert author is not None
        assert author.version == 1 + len(done)
        await world.check()


async def test_what_the_turns_are_drawn_for(worlds: Worlds, random: Random) -> None:
    """A writer who only looks whether the author is there, and then writes the book, is caught by turns like these."""

    async def careless(db: Database) -> None:
        if await db.get(Author, "a") is not None:
            book = to_item(CATALOG.entity(Book), Book(book_id="b", author_id="a"), db.tenant, "w")
            await db.store.write([Put(book)])

    caught = 0
    async for world in worlds.some(60):
        await world.db.create(Author, author_id="a", name="Ada")
        await Turns(random).run(world, {"careless": careless, "remove": remove_author()})
        if await world.db.get(Author, "a") is None and await world.db.get(Book, "b") is not None:
            caught += 1
            with pytest.raises(AssertionError, match="names a"):
                await world.check()
    assert caught
