"""Filters in Python: the meaning of each comparison, records older than a property, errors, and predicate pushdown."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp, Ttl, canonical, derived
from graphql_api.database import Database
from graphql_api.errors import FilterTooLarge, InvalidValue, ShardQLError, UnknownArgument
from graphql_api.query.filter_parser import MAX_COMPARISONS, MAX_NESTING, MAX_VALUES
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.support.store_doubles import CountingStore

NOW = 1_000


class Level(Enum):
    """Declared in another order than its values sort."""

    LOW = "z"
    HIGH = "a"


class Place(BaseModel):
    """A nested value."""

    town: str = "here"


class Thing(Entity, shards=Shards(3)):
    """A record with properties of many types."""

    key: Id[str]
    name: str | None = None
    plain: str | None = derived(canonical, "name")
    size: int | None = None
    twice: int | None = derived(lambda size: 2 * size, "size")
    label: str | None = derived(lambda size: f"{size}!", "size")
    ratio: float = 0.0
    flag: bool | None = None
    level: Level | None = None
    tags: list[str] = Field(default_factory=list)
    levels: set[Level] = Field(default_factory=set)
    spans: list[timedelta] = Field(default_factory=list)
    place: Place | None = None
    blob: bytes | None = None

    by_name = Index(sort=["name", "size"])


class FirstRelease(Entity, shards=Shards(3), name="aged"):
    """The entity in its first release."""

    key: Id[str]
    name: str


class SecondRelease(Entity, shards=Shards(3), name="aged"):
    """The entity with its first index."""

    key: Id[str]
    name: str

    by_narrow = Index(sort="name", projection="KEYS_ONLY", name="narrow")


class ThirdRelease(Entity, shards=Shards(3), name="aged"):
    """The entity with properties that were declared later."""

    key: Id[str]
    name: str
    plain: str = derived(canonical, "name")
    number: int = 5
    text: str | None = "new"
    nothing: str | None = None
    levels: list[Level] = Field(default_factory=lambda: [Level.HIGH])
    title: str = Field(default_factory=lambda data: f"{data['name']}, {data['key']}")

    by_name = Index(sort="name")
    by_narrow = Index(sort="name", projection=["plain", "title", "levels", "number"], name="narrow")
    by_plain = Index(sort="plain", projection="KEYS_ONLY")


class Visit(Entity, shards=Shards(4).then(16, since=100)):
    """An entry of a history that expires."""

    who: Id[str]
    at: SubId[int]
    created: Created[Timestamp]
    room: str
    day: date | None = None
    until: Ttl[Timestamp] | None = None

    by_room = Index(hash="room", sort=["day", "at"])
    by_until = Index(sort="until", projection="KEYS_ONLY")
    by_created = Index(sort=["room", "created"])


CATALOG = Catalog(Thing, ThirdRelease, Visit)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database over a store that counts its calls."""
    store = await open_sqlite(tmp_path / "x.db")
    await store.ensure_table(CATALOG.table_definition())
    yield Database(CATALOG, CountingStore(store), TokenSeal([b"s" * 32]), clock=lambda: NOW)
    await store.close()


async def store_records(db: Database, *records: Entity) -> None:
    """Stores records."""
    assert await db.put_many(records) == [None] * len(records)


async def matching_keys(db: Database, index: Any, filter: Any, **options: Any) -> list[str]:
    """Returns the sorted ids of the records that pass a filter."""
    return sorted(item.key for item in (await db.search(index, filter=filter, **options)).items)


THINGS = [
    Thing(
        key="a",
        name="Gómez",
        size=1,
        ratio=-0.5,
        flag=True,
        level=Level.LOW,
        tags=["x", "y"],
        levels={Level.HIGH},
        spans=[timedelta(days=1)],
        place=Place(),
        blob=b"1",
    ),
    Thing(key="b", name="gomezzo", size=2, flag=False, level=Level.HIGH, tags=["y"]),
    Thing(key="c", name="", size=10, ratio=1.5, levels={Level.HIGH, Level.LOW}),
    Thing(key="d"),
]


@pytest.mark.parametrize(
    ("filter", "keys"),
    [
        ({"size": 1}, "a"),
        ({"size": {"eq": 1}}, "a"),
        ({"size": {"ne": 1}}, "bcd"),
        ({"not": {"size": {"eq": 1}}}, "bcd"),
        ({"not": {"size": {"ne": 1}}}, "a"),
        ({"size": {"in": [1, 10, 11]}}, "ac"),
        ({"size": {"in": {2}}}, "b"),
        ({"size": {"in": []}}, ""),
        ({"size": {"in_": [2]}}, "b"),
        ({"size": {"lt": 2}}, "a"),
        ({"size": {"le": 2}}, "ab"),
        ({"size": {"gt": 2}}, "c"),
        ({"size": {"ge": 2}}, "bc"),
        ({"not": {"size": {"ge": 2}}}, "ad"),
        ({"size": {"between": [2, 10]}}, "bc"),
        ({"size": {"between": {"from": 1, "to": 2}}}, "ab"),
        ({"size": {"between": {"from_": 1, "to": 1}}}, "a"),
        ({"size": {"between": [10, 2]}}, ""),
        ({"size": {"gt": 1, "lt": 10}}, "b"),
        ({"size": {}}, "abcd"),
        ({"size": {"exists": True}}, "abc"),
        ({"size": {"exists": False}}, "d"),
        ({"name": {"prefix": "g"}}, "b"),
        ({"name": {"prefix": ""}}, "abc"),
        ({"name": {"contains": "mezz"}}, "b"),
        ({"name": {"eq": ""}}, "c"),
        ({"name": ""}, "c"),
        ({"plain": "GÓMEZ"}, "a"),
        ({"plain": {"prefix": "Gómez"}}, "ab"),
        ({"plain": {"contains": "MEZ"}}, "ab"),
        ({"plain": {"gt": "Gómez"}}, "b"),
        ({"plain": {"between": ["GÓMEZ", "Gómez"]}}, "a"),
        ({"plain": {"in": ["GÓMEZ", "GOMEZZO"]}}, "ab"),
        ({"plain": {"ne": "GÓMEZ"}}, "bcd"),
        ({"twice": 1}, "a"),
        ({"twice": {"ge": 2}}, "bc"),
        ({"label": "10!"}, "c"),
        ({"label": {"prefix": "1"}}, "ac"),
        ({"ratio": 0}, "bd"),
        ({"ratio": -0.0}, "bd"),
        ({"ratio": {"lt": 0}}, "a"),
        ({"flag": False}, "b"),
        ({"flag": {"lt": True}}, "b"),
        ({"level": Level.HIGH}, "b"),
        ({"level": {"gt": Level.LOW}}, "b"),
        ({"level": {"lt": Level.HIGH}}, "a"),
        ({"tags": {"contains": "y"}}, "ab"),
        ({"tags": {"contains": "x"}, "size": 1}, "a"),
        ({"tags": {"exists": True}}, "abcd"),
        ({"levels": {"contains": Level.LOW}}, "c"),
        ({"spans": {"contains": timedelta(hours=24)}}, "a"),
        ({"place": {"exists": True}}, "a"),
        ({"blob": {"exists": False}}, "bcd"),
        ({}, "abcd"),
        ({"not": {}}, ""),
        ({"and": []}, "abcd"),
        ({"or": []}, ""),
        ({"or": [{"size": 1}, {"size": {"exists": False}}]}, "ad"),
        ({"and": [{"size": {"ge": 1}}, {"not": {"or": [{"size": 2}, {"flag": True}]}}]}, "c"),
    ],
)
async def test_a_filter_returns_the_matching_records(filter: Any, keys: str, db: Database) -> None:
    """Null passes no comparison, `ne` and `not` negate, and values for derived properties are derived."""
    await store_records(db, *THINGS)
    assert await matching_keys(db, Thing.by_id, filter) == list(keys)
    named = [thing.key for thing in THINGS if thing.name is not None]
    assert await matching_keys(db, Thing.by_name, filter) == [key for key in named if key in keys]


async def test_texts_compare_by_code_points_and_numbers_by_value(db: Database) -> None:
    """Texts are compared by code points, and numbers by value."""

    class Ordered(Entity):
        """A record with a text and a number."""

        key: Id[str]
        text: str
        amount: Decimal

    ordered = replace(db, catalog=Catalog(Ordered))
    texts = ["Z", "a", "a\x00", "ab", "é", "\ue000", "😀"]
    await store_records(
        ordered, *(Ordered(key=str(at), text=text, amount=Decimal(at - 3)) for at, text in enumerate(texts))
    )
    for at, text in enumerate(texts):
        assert await matching_keys(ordered, Ordered.by_id, {"text": {"lt": text}}) == [
            str(number) for number in range(at)
        ]
        after = [str(number) for number in range(at, len(texts))]
        assert await matching_keys(ordered, Ordered.by_id, {"amount": {"ge": Decimal(at - 3)}}) == after


# --- records older than a property -----------------------------------------------------------------------------


async def test_a_property_declared_later_has_its_default_in_filters(db: Database) -> None:
    """A filter sees the default or derived value of a property that was declared after the record was written."""
    first_release = replace(db, catalog=Catalog(FirstRelease))
    await store_records(first_release, FirstRelease(key="old", name="Zoë"))
    await store_records(
        db, ThirdRelease(key="new", name="Zoë", number=6, text=None, levels=[Level.LOW], title="Zoë, old")
    )
    for filter, keys in (
        ({"number": 5}, ["old"]),
        ({"number": {"ne": 5}}, ["new"]),
        ({"text": {"prefix": "n"}}, ["old"]),
        ({"text": {"exists": False}}, ["new"]),
        ({"nothing": {"exists": False}}, ["new", "old"]),
        ({"plain": "ZOË"}, ["new", "old"]),
        ({"levels": {"contains": Level.HIGH}}, ["old"]),
        ({"title": "Zoë, old"}, ["new", "old"]),
    ):
        assert await matching_keys(db, ThirdRelease.by_id, filter) == keys, filter
    (record,) = (await db.search(ThirdRelease.by_id, key="old")).items
    assert (record.number, record.text, record.levels, record.title) == (5, "new", [Level.HIGH], "Zoë, old")


async def test_records_are_fetched_if_rows_may_lack_a_later_property(db: Database) -> None:
    """Records are fetched if their index entries may lack a property that was declared later."""
    first_release = replace(db, catalog=Catalog(SecondRelease))
    await store_records(first_release, SecondRelease(key="old", name="Zoë"))
    await store_records(db, ThirdRelease(key="new", name="Zoé", levels=[Level.LOW]))
    for filter, keys in (
        ({"plain": {"exists": True}}, ["new", "old"]),
        ({"title": {"prefix": "Zoë, o"}}, ["old"]),
        ({"levels": {"contains": Level.HIGH}}, ["old"]),
        ({"number": 5}, ["new", "old"]),
    ):
        assert await matching_keys(db, ThirdRelease.by_narrow, filter, select=["key"]) == keys, filter
    items = (await db.search(ThirdRelease.by_narrow, select=["plain", "title", "levels", "number"])).items
    assert [(item.plain, item.title, item.levels, item.number) for item in items] == [
        ("zoe", "Zoé, new", [Level.LOW], 5),
        ("zoe", "Zoë, old", [Level.HIGH], 5),
    ]


async def test_an_index_by_expiry_leaves_out_expired_records(db: Database) -> None:
    """An index with the expiry in its key leaves out expired records without a fetch."""
    await store_records(
        db, *(Visit(who=f"w{at}", at=at, created=0, room="r", until=at) for at in (NOW - 1, NOW, NOW + 1))
    )
    for options in ({}, {"select": ["who"]}, {"select": ["who"], "filter": {"at": {"ge": 0}}}):
        page = await db.search(Visit.by_until, **options)
        assert [item.who for item in page.items] == [f"w{NOW + 1}"]


# --- predicate pushdown ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "arguments", "filter", "keys"),
    [
        (Visit.by_room, {"room": "r"}, {"day": date(2026, 1, 2)}, ("r", "day#2026-01-02|")),
        (Visit.by_room, {"room": "r"}, {"day": {"ge": date(2026, 1, 2)}}, ("r", "day#2026-01-02")),
        (Visit.by_room, {"room": "r", "eq": date(2026, 1, 2)}, {"at": 7}, ("r", "day#2026-01-02|at#")),
        (Visit.by_created, {"prefix": "r"}, {"created": 7}, (None, "room#r")),
        (Visit.by_created, {}, {"room": {"prefix": "ro"}}, (None, "room#ro")),
    ],
)
async def test_a_filter_on_a_sort_property_narrows_the_key_range(
    index: Any, arguments: Any, filter: Any, keys: tuple[str, str], db: Database
) -> None:
    """A filter on a sort property narrows the key range if the conditions before it are exact, with the same result."""
    visits = [
        Visit(who=f"{room}{at}", at=at, created=at, room=room, day=day)
        for at in range(10)
        for room, day in (("r", date(2026, 1, 1 + at % 3)), ("room", None))
    ]
    await store_records(db, *visits)
    page = await db.search(index, **arguments, filter=filter)
    assert page.explain["range"]["from"].startswith(keys[1])
    holds = ReferenceFilter(filter)
    unfiltered = await db.search(index, **arguments)
    assert list(page.items) == [item for item in unfiltered.items if holds(item)]
    assert page.explain["read"]["recordsRead"] <= unfiltered.explain["read"]["recordsRead"]
    assert len(page.items) >= 1


class ReferenceFilter:
    """A reference implementation of the comparisons of these tests."""

    def __init__(self, filter: Any) -> None:
        self.filter = filter

    def __call__(self, item: Any) -> bool:
        """Whether a record passes the filter."""
        return all(self._passes(getattr(item, name), operand) for name, operand in self.filter.items())

    def _passes(self, value: Any, operand: Any) -> bool:
        if not isinstance(operand, dict):
            return bool(value == operand)
        if value is None:
            return False
        return bool(value.startswith(operand["prefix"]) if "prefix" in operand else value >= operand["ge"])


async def test_a_filter_on_id_or_creation_selects_shards(db: Database) -> None:
    """A filter on the id selects one shard per generation; one on the creation value selects generations in force."""
    assert len((await db.search(Visit.by_created)).explain["hashKeys"]) == 20 - 4
    for filter, shards in (
        ({"who": "w"}, 2),
        ({"created": {"lt": 99}}, 4),
        ({"created": {"between": [100, 200]}}, 16),
        ({"created": 50, "who": "w"}, 1),
        ({"or": [{"created": 50}]}, 16),
    ):
        hash_keys = (await db.search(Visit.by_created, filter=filter)).explain["hashKeys"]
        assert len(hash_keys) <= shards, filter
        assert (len(hash_keys) < 16) == (shards < 16), filter


async def test_explain_output_lists_tests_on_rows_and_on_records(db: Database) -> None:
    """The explain output lists the tests made on index rows, and those made on fetched records."""
    page = await db.search(
        ThirdRelease.by_plain, filter={"plain": {"prefix": "z"}, "key": {"ne": "k"}, "number": {"gt": 1}}
    )
    assert page.explain["filter"]["testedOnRows"] == ["plain prefix 'z'", "key ne 'k'"]
    assert page.explain["filter"]["testedOnRecords"] == ["number gt 1"]
    assert page.explain["fetchesRecords"] is True


# --- invalid filters -------------------------------------------------------------------------------------------


def nested_filter(levels: int) -> Any:
    """Returns a filter with this number of nested negations."""
    return {"size": 1} if levels == 0 else {"not": nested_filter(levels - 1)}


@pytest.mark.parametrize(
    ("filter", "error", "message"),
    [
        ([], InvalidValue, r"filter: A filter maps property names to comparisons, it is not \[\]"),
        ("size", InvalidValue, "it is not 'size'"),
        ({"sise": 1}, UnknownArgument, r"Thing has no property 'sise'\. Did you mean 'size'\?"),
        ({1: 2}, UnknownArgument, "Thing has no property 1"),
        ({"size": {"like": 1}}, InvalidValue, r"size\.like: Unknown operator\. .*The operators are eq, ne, in"),
        ({"size": {1: 1}}, InvalidValue, r"size\.1: Unknown operator"),
        ({"size": None}, InvalidValue, r"size\.eq: A comparison with null matches nothing: use exists: false"),
        ({"size": "1"}, InvalidValue, r"size\.eq: str given"),
        ({"size": True}, InvalidValue, r"size\.eq: bool given"),
        ({"flag": 1}, InvalidValue, r"flag\.eq: int given"),
        ({"ratio": float("nan")}, InvalidValue, r"ratio\.eq: nan is no number"),
        ({"level": "z"}, InvalidValue, r"level\.eq: str given"),
        ({"size": {"prefix": "1"}}, InvalidValue, r"size\.prefix: prefix applies only to texts"),
        ({"size": {"contains": 1}}, InvalidValue, r"size\.contains: contains applies only to texts"),
        ({"size": {"in": 1}}, InvalidValue, r"size\.in: in takes a list of values, not 1"),
        ({"name": {"in": "ab"}}, InvalidValue, r"name\.in: in takes a list of values, not 'ab'"),
        ({"size": {"between": [1]}}, ShardQLError, "between takes two values, from and to"),
        ({"size": {"between": {"from": 1}}}, ShardQLError, "between takes two values, from and to"),
        ({"size": {"exists": 1}}, InvalidValue, r"size\.exists: exists is true or false, not 1"),
        (
            {"tags": ["x"]},
            InvalidValue,
            r"tags\.eq: Only exists applies to this property, and contains if it is a list or set",
        ),
        ({"tags": {"contains": 1}}, InvalidValue, r"tags\.contains: int given"),
        ({"levels": {"contains": "a"}}, InvalidValue, r"levels\.contains: str given"),
        (
            {"place": {"contains": "x"}},
            InvalidValue,
            r"place\.contains: contains applies only to texts, and to lists and sets of plain values",
        ),
        ({"name": "a\ud800"}, InvalidValue, r"name\.eq: The text holds a lone surrogate"),
        ({"or": {"size": 1}}, InvalidValue, "or takes a list of filters"),
        ({"and": "x"}, InvalidValue, "and takes a list of filters"),
        ({"not": [{"size": 1}]}, InvalidValue, "A filter maps property names"),
        ({"size": {"in": list(range(MAX_VALUES + 1))}}, FilterTooLarge, "in has 101 values, and at most 100"),
        (
            {"or": [{"size": 1}] * (MAX_COMPARISONS + 1)},
            FilterTooLarge,
            "has 101 comparisons, and at most 100 are allowed",
        ),
        (nested_filter(MAX_NESTING + 1), FilterTooLarge, "nested more than 10 levels deep: flatten the filter"),
    ],
)
async def test_an_invalid_filter_is_rejected_before_any_read(
    filter: Any, error: type[ShardQLError], message: str, db: Database
) -> None:
    """An invalid filter is rejected before any read; the error names the property, the operator and the remedy."""
    with pytest.raises(error, match=message) as caught:
        await db.search(Thing.by_id, filter=filter)
    assert caught.value.argument == "filter"
    assert isinstance(db.store, CountingStore)
    assert db.store.counts.reads == 0


@pytest.mark.parametrize(
    ("filter", "keys"),
    [
        ({"size": {"in": list(range(MAX_VALUES))}}, "abc"),
        ({"or": [{"size": number} for number in range(MAX_COMPARISONS)]}, "abc"),
        (nested_filter(MAX_NESTING), "a"),
    ],
)
async def test_a_filter_at_its_limits_is_accepted(filter: Any, keys: str, db: Database) -> None:
    """A filter with the maximum number of values, comparisons or levels is accepted."""
    await store_records(db, *THINGS)
    assert await matching_keys(db, Thing.by_id, filter) == list(keys)


@pytest.mark.parametrize(("select", "message"), [(["nam"], "no property 'nam' to select"), ("name", "takes a list")])
async def test_only_properties_can_be_selected(select: Sequence[str], message: str, db: Database) -> None:
    """`select` rejects names that are no properties, and values that are no lists."""
    with pytest.raises(ShardQLError, match=message) as caught:
        await db.search(Thing.by_id, select=select)
    assert caught.value.argument == "select"
