"""Unions in Python: the order of their results, completeness without duplicates, and their tokens."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, Union, canonical, derived, desc
from graphql_api.database import Database
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidValue,
    StoreUnavailable,
    TokenMismatch,
    TooManyToSort,
    UnknownArgument,
)
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.support.distributed_store import KeyOrderedStore
from tests.support.store_doubles import FailingStore, IndependentReadsStore, InterleavingStore

SEAL = TokenSeal([b"s" * 32])


class Person(Entity, shards=Shards(7)):
    """A person with up to three names."""

    key: Id[str]
    first: str | None = None
    last: str | None = None
    nick: str | None = None
    age: int = 0
    team: str = "t"
    plain_first: str | None = derived(canonical, "first")
    plain_last: str | None = derived(canonical, "last")

    by_first = Index(sort=["first", "age"], projection="KEYS_ONLY")
    by_last = Index(sort=["last"])
    by_nick = Index(sort="nick", raw=True)
    by_plain_first = Index(sort="plain_first")
    by_plain_last = Index(sort="plain_last")
    by_team_age = Index(hash="team", sort=desc("age"))
    by_team_size = Index(hash="team", sort="age", slot="teamSize")
    by_name = Union("by_first", "by_last", "by_nick")
    by_plain = Union("by_plain_first", "by_plain_last")
    by_team = Union("by_team_age", "by_team_size")


class EarlierPerson(Entity, name="person", shards=Shards(7)):
    """A person as declared before first names were indexed."""

    key: Id[str]
    first: str | None = None
    last: str | None = None
    team: str = "t"
    age: int = 0

    by_last = Index(sort=["last"])


CATALOG = Catalog(Person)


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    store = KeyOrderedStore(await open_sqlite(tmp_path / "x.db"))
    await store.ensure_table(CATALOG.table_definition())
    yield store
    await store.close()


@pytest.fixture(params=[IndependentReadsStore, lambda store: store])
async def db(sqlite: Store, request: pytest.FixtureRequest) -> Database:
    """An empty database, on an engine with independent reads per shard and on one with a single scan."""
    engine: Callable[[Store], Store] = request.param
    return Database(CATALOG, engine(sqlite), SEAL)


async def store_records(db: Database, *records: Entity) -> None:
    """Stores records."""
    assert await db.put_many(records) == [None] * len(records)


async def read_all_pages(
    db: Database, index: Any, *, backward: bool = False, size: int = 3, **options: Any
) -> list[list[str]]:
    """Returns the ids of all pages, in the order of reading."""
    pages: list[list[str]] = []
    token = None
    while True:
        assert len(pages) < 200
        paging = {"last": size, "before": token} if backward else {"limit": size, "next_token": token}
        page = await db.search(index, **options, **paging)
        pages.append([item.key for item in page.items])
        token = (page.start_cursor if page.has_previous else None) if backward else page.next_token
        if token is None:
            return pages


def flattened(pages: Sequence[Sequence[str]]) -> list[str]:
    """Returns the ids of all pages in one list."""
    return [key for page in pages for key in page]


PEOPLE = [
    Person(key="a", first="jo", last="ann", nick="joe"),
    Person(key="b", first="ann", last="jones"),
    Person(key="c", first=None, last="john", nick="jojo"),
    Person(key="d", first=None, last=None, nick="jo"),
    Person(key="e", first="joan", last=None, nick="jo"),
    Person(key="f", first="bo", last="by"),
]
JO = ["a", "e", "c", "b", "d"]
"""by first name jo and joan, then by last name john and jones, then by nick"""


async def test_records_are_returned_index_by_index_and_once(db: Database) -> None:
    """A union returns the records index by index, each in its own order, and no record twice."""
    await store_records(db, *PEOPLE)
    for size in (1, 2, 3, 4, 5, 50):
        pages = await read_all_pages(db, Person.by_name, prefix="jo", size=size)
        assert flattened(pages) == JO
        assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
        back = await read_all_pages(db, Person.by_name, prefix="jo", size=size, backward=True)
        assert flattened(back[::-1]) == JO
        assert [len(page) for page in back[:-1]] == [size] * (len(back) - 1)


async def test_reverse_applies_within_each_index(db: Database) -> None:
    """`reverse` reverses the order within each index, not the order of the indexes."""
    await store_records(db, *PEOPLE)
    assert flattened(await read_all_pages(db, Person.by_name, prefix="jo", reverse=True)) == ["e", "a", "b", "c", "d"]


async def test_any_cursor_continues_in_either_direction(db: Database) -> None:
    """Every cursor continues in either direction, across the gaps between the indexes."""
    await store_records(db, *PEOPLE)
    page = await db.search(Person.by_name, prefix="jo", limit=50)
    for at, cursor in enumerate(page.cursors):
        for size in (1, 2, 50):
            after = await db.search(Person.by_name, prefix="jo", first=size, after=cursor)
            assert [item.key for item in after.items] == JO[at + 1 : at + 1 + size]
            assert after.has_next == (at + 1 + size < len(JO))
            before = await db.search(Person.by_name, prefix="jo", last=size, before=cursor)
            assert [item.key for item in before.items] == JO[max(0, at - size) : at]
            assert before.has_previous == (at - size > 0)


async def test_a_record_without_an_earlier_index_entry_is_found_in_a_later_index(sqlite: Store) -> None:
    """A record without an entry in an earlier index is found in a later one."""
    db = Database(CATALOG, sqlite, SEAL)
    earlier = replace(db, catalog=Catalog(EarlierPerson))
    await store_records(earlier, EarlierPerson(key="old", first="john", last="johnson"))
    await store_records(db, Person(key="new", first="john", last="johnson"))
    assert flattened(await read_all_pages(db, Person.by_name, prefix="jo", size=1)) == ["new", "old"]


async def test_a_record_outside_of_an_earlier_range_is_found_in_a_later_index(db: Database) -> None:
    """A record outside of the key range of an earlier index is found in a later one."""
    await store_records(db, Person(key="x", first="zoe", last="jo"), Person(key="y", first="jo", last="zoe"))
    assert flattened(await read_all_pages(db, Person.by_name, eq="jo")) == ["y", "x"]
    assert flattened(await read_all_pages(db, Person.by_name, from_="z")) == ["x", "y"]


async def test_arguments_are_derived_like_stored_values(db: Database) -> None:
    """Arguments are derived as the stored values were: Gómez and gomez find the same records."""
    await store_records(db, Person(key="1", first="Gómez"), Person(key="2", first="x", last="GOMEZ-Juárez"))
    for prefix in ("Gómez", "gomez", "GÓMEZ"):
        assert flattened(await read_all_pages(db, Person.by_plain, prefix=prefix)) == ["1", "2"]


async def test_members_may_be_descending_and_share_a_hash_property(db: Database) -> None:
    """Members of a union may be descending and share a hash property; records in both are returned by the first."""
    await store_records(db, *(Person(key=f"k{age}", age=age, team="t" if age % 2 else "u") for age in range(9)))
    assert flattened(await read_all_pages(db, Person.by_team, team="t", size=2)) == ["k7", "k5", "k3", "k1"]
    assert flattened(await read_all_pages(db, Person.by_team, team="t", to=5, reverse=True)) == ["k1", "k3", "k5"]


async def test_an_empty_text_is_searched_in_the_indexes_that_can_hold_it(db: Database) -> None:
    """`eq=""` finds the records of encoded indexes, also if another member of the union stores plain keys."""
    people = [Person(key="a", first=""), Person(key="b", last=""), Person(key="c", first="x", nick="y")]
    await store_records(db, *people)
    for arguments in ({"eq": ""}, {"eq": "", "reverse": True}):
        page = await db.search(Person.by_name, **arguments)
        assert [person.key for person in page.items] == ["a", "b"]
        first = await db.search(Person.by_name, limit=1, **arguments)
        rest = await db.search(Person.by_name, next_token=first.next_token, **arguments)
        assert [person.key for person in (*first.items, *rest.items)] == ["a", "b"]
    assert (await db.count(Person.by_name, eq="")).value == 2
    with pytest.raises(EmptyKey):
        await db.search(Person.by_nick, eq="")


async def test_a_filter_applies_to_every_index(db: Database) -> None:
    """Pages of a filtered union are full, whether an index projects the tested property or not."""
    people = [
        Person(key=f"{at:02}", first=f"jo{at:02}" if at % 3 else None, last=f"jo{at:02}", age=at % 5)
        for at in range(40)
    ]
    await store_records(db, *people)
    matching = [person for person in people if person.age == 1]
    expected = [person.key for person in matching if person.first] + [p.key for p in matching if not p.first]
    for select in (None, ["key"], ["key", "nick"]):
        pages = await read_all_pages(db, Person.by_name, prefix="jo", filter={"age": 1}, select=select)
        assert flattened(pages) == expected
        assert [len(page) for page in pages] == [3, 3, 2]


async def test_a_token_is_valid_for_its_union_only(db: Database) -> None:
    """A token of a union is valid neither for its members nor for another union, and vice versa."""
    await store_records(db, *PEOPLE)
    token = (await db.search(Person.by_name, prefix="jo", limit=1)).next_token
    member = (await db.search(Person.by_first, prefix="jo", limit=1)).next_token
    assert token is not None
    assert len(token) <= 250
    for index, given in ((Person.by_first, token), (Person.by_plain, token), (Person.by_name, member)):
        with pytest.raises(TokenMismatch, match="was made by another search"):
            await db.search(index, prefix="jo", next_token=given)


async def test_a_record_that_moves_during_a_page_is_on_it_once(sqlite: Store) -> None:
    """A record that changes its indexed name during a page is on the page once."""
    between = InterleavingStore(IndependentReadsStore(sqlite))
    db = Database(CATALOG, between, SEAL)
    await store_records(db, Person(key="m", first="jo", last="jones"), Person(key="z", first="x", last="josh"))
    between.action = partial(store_records, db, Person(key="m", first="x", last="jones"))
    page = await db.search(Person.by_name, prefix="jo", select=["key"], limit=5)
    assert [item.key for item in page.items] == ["m", "z"]
    assert page.next_token is None


async def test_failed_shards_of_a_union_are_read_again(sqlite: Store, random: Random) -> None:
    """Shards that fail in any index of a union are read again from their own positions."""
    chance = 0.4
    people = [
        Person(key=f"{at:03}", first=f"jo{at}" if at % 3 else None, last=f"jo{at}", nick="jo") for at in range(60)
    ]
    store = FailingStore(IndependentReadsStore(sqlite), lambda read: random.random() < chance)
    await store_records(Database(CATALOG, sqlite, SEAL), *people)
    db = Database(CATALOG, store, SEAL)
    for backward in (False, True):
        found: list[str] = []
        token, pages, chance = None, 0, 0.4
        while True:
            pages += 1
            chance = 0.4 if pages < 20 else 0.0
            paging: dict[str, Any] = {"last": 5, "before": token} if backward else {"limit": 5, "next_token": token}
            try:
                page = await db.search(Person.by_name, prefix="jo", on_shard_failure="PARTIAL", **paging)
            except StoreUnavailable:  # All shards of this page failed; the token stays valid.
                assert chance
                continue
            found += [item.key for item in page.items]
            token = (page.start_cursor if page.has_previous else None) if backward else page.next_token
            if token is None:
                break
        assert sorted(found) == [person.key for person in people]


async def test_a_record_that_moves_to_a_later_index_hides_no_other(sqlite: Store) -> None:
    """A record that moves to a later index during a page is returned once, and hides no record after it."""
    store = InterleavingStore(sqlite)
    db = Database(CATALOG, store, SEAL)
    await store_records(db, Person(key="x", first="jo"), *(Person(key=f"k{at}", last=f"john {at}") for at in range(6)))
    for size in (1, 2, 3, 6, 7):
        await store_records(db, Person(key="x", first="jo"))
        store.action = partial(store_records, Database(CATALOG, sqlite, SEAL), Person(key="x", last="jo"))
        pages = await read_all_pages(db, Person.by_plain, prefix="jo", size=size)
        assert [key for key in flattened(pages) if key != "x"] == [f"k{at}" for at in range(6)]
        assert pages[0].count("x") == 1


# --- results in another order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["age", "nick", "key"])
async def test_order_by_sorts_the_whole_result(by: str, db: Database, random: Random) -> None:
    """`order_by` sorts the whole result by any property, nulls first; `desc` reverses the order."""
    people = [
        Person(
            key=f"{at:02}",
            first=random.choice(["jo", None]),
            last="jo",
            age=random.randrange(-3, 4),
            nick=random.choice(["b", "ab", None]),
        )
        for at in range(50)
    ]
    await store_records(db, *people)
    values = {person.key: (getattr(person, by) is not None, getattr(person, by) or 0) for person in people}
    for order, reverse in ((by, False), (desc(by), True)):
        page = await db.search(Person.by_name, prefix="jo", order_by=order)
        found = [item.key for item in page.items]
        assert [values[key] for key in found] == sorted(values.values(), reverse=reverse)
        assert sorted(found) == sorted(values)
        assert (page.next_token, page.has_next, page.has_previous) == (None, False, False)


async def test_at_most_a_thousand_matches_are_sorted(sqlite: Store) -> None:
    """At most 1,000 records, without duplicates, can be sorted; more are an error with a remedy."""
    db = Database(CATALOG, sqlite, SEAL)
    await store_records(db, *(Person(key=f"{at:04}", first="jo", last="jo", age=-at) for at in range(1_000)))
    page = await db.search(Person.by_name, prefix="jo", order_by="age")
    assert [item.age for item in page.items] == list(range(-999, 1))
    await store_records(db, Person(key="one more", last="jo"))
    with pytest.raises(TooManyToSort, match=r"More than 1,000 records match.* Narrow the search"):
        await db.search(Person.by_name, prefix="jo", order_by="age")
    assert len((await db.search(Person.by_name, prefix="jo", order_by="age", filter={"age": {"lt": -9}})).items) == 990


async def test_order_by_excludes_paging_arguments(db: Database) -> None:
    """`order_by` excludes paging arguments, and requires a union and an existing property."""
    for options in (
        {"limit": 5},
        {"first": 5},
        {"reverse": True},
        {"next_token": "x"},
        {"on_shard_failure": "PARTIAL"},
    ):
        with pytest.raises(ConflictingArguments, match="order_by returns the whole result as one page"):
            await db.search(Person.by_name, prefix="jo", order_by="age", **options)
    with pytest.raises(UnknownArgument, match="order_by applies only to unions"):
        await db.search(Person.by_first, prefix="jo", order_by="age")
    with pytest.raises(InvalidValue, match=r"Person cannot be sorted by 'agee'.*Did you mean 'age'"):
        await db.search(Person.by_name, prefix="jo", order_by="agee")
