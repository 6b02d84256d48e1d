"""Random catalogs, records and searches, and the reference results, computed from plain values with `sorted`.

Imports only declarations from the package, so that the reference results share no code with the search.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cmp_to_key, lru_cache, partial
from itertools import count
from random import Random
from types import new_class
from typing import Any, Literal
from uuid import UUID

from hypothesis import strategies as st

from graphql_api import Catalog, Created, Entity, Id, Index, Lookup, Shards, SubId, Timestamp, Ttl, desc

seen = Counter[str]()
"""how often each class of cases was drawn in this run"""

Record = dict[str, Any]


class State(Enum):
    """Sorts by declaration order, not by value."""

    OPEN = "open"
    CLOSED = "closed"
    ABANDONED = "abandoned"


_TEXTS = ["", "a", "ab", "abc", "ab|", "a#", "a!b", "a/b", "a%", "b", "ann", "anna", "|", "~", "}", "{", "é", "e\u0301"]
_ODD_TEXTS = [
    "\x00",
    "a\x00",
    "a\x00b",
    "a\x01",
    "a\x01|",
    "a\x01}",
    "a\x02",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "a\U0010ffff",
    "😀",
]

POOLS: dict[Any, list[Any]] = {
    str: _TEXTS + _ODD_TEXTS,
    int: [-(2**63), -10, -9, -1, 0, 1, 9, 10, 11, 2**63 - 1],
    bool: [False, True],
    float: [-1.5e10, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 1e100],
    Decimal: [Decimal(text) for text in ("-12.5", "-1", "0", "0.001", "1", "1.5", "10", "1E+100")],
    date: [date(2023, 12, 31), date(2024, 1, 1), date(2024, 2, 29)],
    datetime: [datetime(2024, 1, 1, hour, tzinfo=UTC) + timedelta(microseconds=hour) for hour in range(4)],
    timedelta: [timedelta(days=-1), timedelta(), timedelta(microseconds=1), timedelta(days=400)],
    UUID: [UUID(int=number) for number in (0, 1, 2**64, 2**127)],
    State: list(State),
}
IDS = [text for text in _TEXTS + _ODD_TEXTS if text]
OWN_IDS = [begin + end for begin in IDS for end in ("", "1", "2", "12")]
RAW = ("by_text", "by_number", "by_state")

Hashed = Literal["", "group", "owner_id"]
HASHED: list[tuple[Hashed, bool | str]] = [
    ("", True),
    ("group", True),
    ("group", False),
    ("owner_id", "Owner"),
    ("", False),
]
"""hash property of an index, and how it is sharded"""

SIZES = (1, 2, 3, 5, 16, 150)
FEW = (1, 1, 2, 2, 3, 3, 5, 5, 16)
"""numbers of shards; the few ones are for engines that need one query per shard"""

KEYS = ("key", "part", "sub_a", "sub_b")
"""properties that a primary key may have"""

NOW = 1_700_000_000
"""the time in every drawn database"""

GROWTH = 1000
"""creation values are below it until a generation is added"""


@dataclass(frozen=True)
class ColumnShape:
    """A sort property of the drawn index."""

    name: str
    type: Any
    nullable: bool
    descending: bool


@dataclass(frozen=True)
class Shape:
    """The shape of a drawn entity."""

    composite: bool
    subs: int
    columns: tuple[ColumnShape, ...]
    hash: Hashed
    sharded: bool | str
    sizes: tuple[int, ...]
    owner_sizes: tuple[int, ...]
    projection: Literal["ALL", "KEYS_ONLY", "INCLUDE"]
    has_grown: bool = False
    lookup: Hashed = ""
    """property of the lookup; empty: there is none, so that records without constraints are put plainly"""

    def grown(self, size: int) -> "Shape":
        """Returns the same shape with one more generation, for records created later."""
        return replace(self, sizes=(*self.sizes, size), owner_sizes=(*self.owner_sizes, size + 1), has_grown=True)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Draws an entity with an index over up to three properties."""
    names = iter(("alpha", "beta", "gamma"))
    columns: list[ColumnShape] = []
    # Bounds on the creation value limit the shards that a search reads, so a quarter of the indexes begin with it.
    first = draw(st.sampled_from(["plain", "plain", "created", ""]))
    for name in [first, *draw(st.lists(st.sampled_from(["plain", "plain", "created"]), max_size=2))] if first else ():
        if name == "created":
            if all(column.name != "created" for column in columns):
                columns.append(ColumnShape("created", int, nullable=False, descending=draw(st.booleans())))
            continue
        kind = draw(st.sampled_from([str, str, *POOLS]))
        columns.append(
            ColumnShape(
                next(names), kind, nullable=draw(st.booleans()), descending=kind is not str and draw(st.booleans())
            )
        )
    hash_property, sharded = draw(st.sampled_from(HASHED))
    sizes = st.lists(st.sampled_from(SIZES), min_size=1, max_size=3)
    shape = Shape(
        composite=draw(st.booleans()),
        subs=draw(st.sampled_from([0, 0, 1, 2])),
        columns=tuple(columns),
        hash=hash_property,
        sharded=sharded,
        sizes=tuple(draw(sizes)),
        owner_sizes=tuple(draw(sizes)),
        projection=draw(st.sampled_from(["ALL", "ALL", "KEYS_ONLY", "INCLUDE"])),
        lookup=draw(st.sampled_from(["", "", "", "group", "owner_id"])),
    )
    seen[f"projection {shape.projection}"] += 1
    seen["composite id"] += shape.composite
    seen[f"sharded {sharded}"] += 1
    seen["several generations"] += len(shape.sizes) > 1
    seen["one shard"] += shape.sizes == (1,)
    seen["composite sub id"] += shape.subs == 2
    seen["history"] += shape.subs > 0
    seen["descending column"] += any(column.descending for column in columns)
    seen["no sort property"] += not columns
    return shape


def few_shards(shape: Shape) -> Shape:
    """Returns the shape with few shards, except about one in twelve: Hypothesis would favour many shards."""
    random = Random(str(shape))
    if random.random() < 0.08:
        return replace(shape, sizes=(150, *shape.sizes[1:]))
    sizes, owner_sizes = (tuple(random.choices(FEW, k=len(shape.sizes))) for _ in range(2))
    return replace(shape, sizes=sizes, owner_sizes=owner_sizes)


@dataclass(frozen=True)
class DrawnCatalog:
    """A drawn catalog."""

    shape: Shape
    catalog: Catalog
    thing: type[Entity]

    @property
    def primary(self) -> list[str]:
        return [*self.ids, *["sub_a", "sub_b"][: self.shape.subs]]

    @property
    def ids(self) -> list[str]:
        return ["key", "part"] if self.shape.composite else ["key"]


def make_entity(name: str, shards: Shards, body: Mapping[str, Any], **keywords: Any) -> type[Entity]:
    """Creates an entity without source text: a search for attribute docstrings would take a seventh of the time."""
    options = {"shards": shards, "use_attribute_docstrings": False, **keywords}
    names = {"__module__": __name__, "__doc__": "A drawn entity.", **body}
    return new_class(name, (Entity,), options, lambda namespace: namespace.update(names))


def make_owner_entity(shards: Shards) -> type[Entity]:
    """Creates the entity whose shards other indexes may share."""
    return make_entity("Owner", shards, {"__annotations__": {"owner_key": Id[str], "created": Created[Timestamp]}})


def build(shape: Shape) -> DrawnCatalog:
    """Returns the catalog of a shape."""

    def shards(sizes: Sequence[int]) -> Shards:
        found = Shards(sizes[0])
        for number, size in enumerate(sizes[1:], 1):
            grown = shape.has_grown and number == len(sizes) - 1
            found = found.then(size, since=GROWTH if grown else number * 100)
        return found

    annotations: dict[str, Any] = {"key": Id[str]} | ({"part": Id[int]} if shape.composite else {})
    if shape.subs:
        annotations["sub_a"] = SubId[str]
    if shape.subs > 1:
        annotations["sub_b"] = SubId[int]
    annotations |= {"created": Created[Timestamp], "group": str | None, "owner_id": str | None}
    annotations |= {"raw_text": str | None, "raw_number": Decimal | None, "raw_state": State | None}
    annotations |= {"expires": Ttl[Timestamp] | None}
    annotations |= {
        column.name: column.type | None if column.nullable else column.type
        for column in shape.columns
        if column.name != "created"
    }
    body = {
        "__annotations__": annotations,
        "by_x": Index(
            hash=shape.hash or None,
            sort=[desc(column.name) if column.descending else column.name for column in shape.columns],
            sharded=shape.sharded,
            name=f"x{shape.projection}",
            hash_key="xHashKey",
            range_key="xRangeKey",
            projection=["group"] if shape.projection == "INCLUDE" else shape.projection,
        ),
        "by_text": Index(sort="raw_text", raw=True),
        "by_number": Index(hash="group", sort="raw_number", raw=True),
        "by_state": Index(hash="group", sort="raw_state", raw=True, projection="KEYS_ONLY"),
    }
    if shape.lookup:
        body["by_lookup"] = Lookup(shape.lookup)
    thing = make_entity("Thing", shards(shape.sizes), body)
    return DrawnCatalog(shape, Catalog(thing, make_owner_entity(shards(shape.owner_sizes))), thing)


@st.composite
def records(draw: st.DrawFn, shape: Shape, least_created: int = 0, most: int = 30) -> list[Record]:
    """Draws records with distinct primary keys; records with the same id have the same creation value."""
    created_of: dict[tuple[Any, ...], int] = {}
    found: dict[tuple[Any, ...], Record] = {}
    for _ in range(draw(st.integers(0, most))):
        record = draw(_one(shape, least_created))
        own_id = record["key"], record.get("part")
        record["created"] = created_of.setdefault(own_id, record["created"])
        found[tuple(record[name] for name in KEYS if name in record)] = record
    return list(found.values())


@lru_cache(maxsize=8)
def _one(shape: Shape, least_created: int) -> st.SearchStrategy[Record]:
    """Returns the strategy of a shape, cached: building a strategy takes longer than drawing from it."""
    pools: dict[str, Sequence[Any]] = {
        "key": OWN_IDS,
        "created": [least_created + after for after in (0, 1, 99, 100, 101, 199, 200, 300)],
        "group": ["g", "g", "g", "h|", "", None],
        "owner_id": ["o", "o", "o1", "o|#", None],
        "raw_text": [text for text in POOLS[str] if text] + ["a", "a", None],
        "raw_number": [*POOLS[Decimal], Decimal(1), Decimal(1), None],
        "raw_state": [*State, None],
        "expires": [None, None, None, None, NOW - 1, NOW, NOW + 1],
    }
    if shape.composite:
        pools["part"] = [-1, 0, 1]
    if shape.subs:
        pools["sub_a"] = IDS[:8]
    if shape.subs > 1:
        pools["sub_b"] = POOLS[int]
    for column in shape.columns:
        if column.name != "created":
            pools[column.name] = POOLS[column.type] + ([None] if column.nullable else [])
    return st.fixed_dictionaries({name: st.sampled_from(pool) for name, pool in pools.items()})


def with_mutable_fields_of(record: Record, other: Record) -> Record:
    """Returns the record with all mutable properties taken from another record."""
    return {**other, **{name: record[name] for name in (*KEYS, "created") if name in record}}


# --- searches --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnSearch:
    """A search with its arguments, and its reference implementation."""

    index: str
    arguments: dict[str, Any]
    exact: dict[str, Any]
    last: tuple[str, str, Any, Any] | None
    """property, kind of condition, one or two values"""
    order: tuple[ColumnShape, ...]
    raw: bool
    listed: tuple[str, list[Any]] | None = None
    """hash property with several values"""

    def matches(self, record: Record) -> bool:
        """Whether a record is visible, has an entry in the index, and meets every condition."""
        if record["expires"] is not None and record["expires"] <= NOW:
            seen["expired"] += 1
            return False
        if any(record.get(name) != value for name, value in self.exact.items()):
            return False
        if self.listed is not None and record[self.listed[0]] not in self.listed[1]:
            return False
        first = self.order[0].name
        if record[first] is None or (self.raw and record[first] == ""):
            return False
        if self.last is None:
            return True
        name, kind, one, other = self.last
        value = record[name]
        if value is None:
            return False
        if kind == "eq":
            return bool(value == one)
        if kind == "prefix":
            return str(value).startswith(one)
        rank = self._rank
        return (one is None or rank(one) <= rank(value)) and (other is None or rank(value) <= rank(other))

    def expected_result(self, everything: Sequence[Record]) -> list[Record]:
        """Returns the whole result in order."""
        return sorted(filter(self.matches, everything), key=cmp_to_key(self._compare))

    def _compare(self, one: Record, other: Record) -> int:
        for column in self.order:
            left, right = one[column.name], other[column.name]
            if left != right:
                if left is None or right is None:
                    return -1 if left is None else 1
                return -1 if (self._rank(left) < self._rank(right)) != column.descending else 1
        return 0

    def _rank(self, value: Any) -> Any:
        return rank(value, raw=self.raw)


def rank(value: Any, *, raw: bool) -> Any:
    """Returns the sort key of a value: enums in declaration order, or by stored value on a raw index."""
    if isinstance(value, Enum):
        return value.value if raw else list(type(value)).index(value)
    return value


@st.composite
def searches(draw: st.DrawFn, drawn: DrawnCatalog, known: Sequence[Record]) -> DrawnSearch:
    """Draws a search of one index of the entity, with conditions that often match some record."""
    shape = drawn.shape
    lookup = ["by_lookup"] * 3 if shape.lookup else []
    index = draw(st.sampled_from(["by_x", "by_x", "by_x", "by_id", "by_text", "by_number", "by_state", *lookup]))
    tail = tuple(
        ColumnShape(name, int if name in {"sub_b", "part"} else str, nullable=False, descending=False)
        for name in drawn.primary
    )
    required: list[str] = []
    if index == "by_id":
        ids = drawn.ids
        order, sort, required = tail, tail[len(ids) :] or tail, ids if shape.subs else []
    elif index == "by_lookup":
        order, sort, required = tail, (), [shape.lookup]
    elif index == "by_text":
        order = sort = (ColumnShape("raw_text", str, nullable=True, descending=False),)
    elif index in {"by_number", "by_state"}:
        name, kind = ("raw_number", Decimal) if index == "by_number" else ("raw_state", State)
        order = sort = (ColumnShape(name, kind, nullable=True, descending=False),)
        required = ["group"]
    else:
        order, sort, required = shape.columns + tail, shape.columns, [shape.hash] if shape.hash else []
    values = _Values(known)
    arguments = {
        name: draw(values.of(ColumnShape(name, int if name == "part" else str, nullable=False, descending=False)))
        for name in required
    }
    exact = dict(arguments)
    last = None
    condition_count = draw(st.integers(0, len(sort)))
    for column in sort[: condition_count - 1] if condition_count else ():
        exact[column.name] = arguments[column.name] = draw(values.of(column))
    if condition_count:
        column = sort[condition_count - 1]
        last = (column.name, *draw(_condition(column, values, raw=index in RAW)))
        arguments[column.name] = _written(last)
    seen[index] += 1
    seen[f"condition {last[1] if last else 'none'}"] += 1
    flat_allowed = len(sort) == 1 or index != "by_id"
    if condition_count == 1 and flat_allowed and draw(st.booleans()):
        given = arguments.pop(sort[0].name)
        arguments |= {"from_" if key == "from" else key: value for key, value in given.items()}
        seen["flat condition"] += 1
    listed = None
    if required and index != "by_id" and draw(st.integers(0, 2)) == 0:
        (name,) = required
        hash_column = ColumnShape(name, str, nullable=False, descending=False)
        listed = name, draw(st.lists(values.of(hash_column), max_size=4))
        del exact[name], arguments[name]
        arguments[f"{name}_in"] = listed[1]
        seen["several hash values"] += len({*listed[1]}) > 1
    return DrawnSearch(index, arguments, exact, last, order, raw=index in RAW, listed=listed)


def _written(condition: tuple[str, str, Any, Any]) -> dict[str, Any]:
    _, kind, one, other = condition
    if kind == "between":
        return {key: value for key, value in (("from", one), ("to", other)) if value is not None}
    return {kind: one}


@dataclass(frozen=True)
class _Values:
    """Strategies for argument values; most are values of stored records."""

    known: Sequence[Record]

    def of(self, column: ColumnShape) -> st.SearchStrategy[Any]:
        pools: dict[str, list[Any]] = {
            "key": IDS,
            "part": [-1, 0, 1, 2],
            "group": ["g", "h|", "nobody"],
            "owner_id": ["o", "o1", "o|#"],
            "created": [0, 50, 99, 100, 101, 200, 300, GROWTH, GROWTH + 1],
        }
        pool = pools.get(column.name, POOLS[column.type])
        may_be_empty = column.type is str and not column.name.startswith(("sub", "raw"))
        stored = [record[column.name] for record in self.known]
        common = [value for value in stored if value is not None and (value != "" or may_be_empty)]
        if column.name in pools:
            common = [value for value in common if value != ""]
        rare = st.sampled_from([value for value in pool if value != "" or may_be_empty])
        return st.one_of(st.sampled_from(common), st.sampled_from(common), rare) if common else rare


@st.composite
def _condition(draw: st.DrawFn, column: ColumnShape, values: _Values, *, raw: bool) -> tuple[str, Any, Any]:
    kinds = ["eq", "between", "between"] + (["prefix", "prefix"] if column.type is str else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "eq":
        return kind, draw(values.of(column)), None
    if kind == "prefix":
        text = draw(values.of(column))
        return kind, text[: draw(st.integers(0, len(text)))], None
    low, high = sorted((draw(values.of(column)), draw(values.of(column))), key=partial(rank, raw=raw))
    sides = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    return kind, low if sides[0] else None, high if sides[1] else None


@dataclass(frozen=True)
class Case:
    """A drawn catalog with records, and a search of them."""

    drawn: DrawnCatalog
    records: list[Record]
    search: DrawnSearch
    reverse: bool

    @property
    def index(self) -> Any:
        return getattr(self.drawn.thing, self.search.index)


def draw_case(data: st.DataObject, *, few: bool = False) -> Case:
    """Draws a catalog, its records, and a search."""
    shape = data.draw(shapes(), label="shape")
    drawn = build(few_shards(shape) if few else shape)
    everything = data.draw(records(drawn.shape), label="records")
    search = data.draw(searches(drawn, everything), label="search")
    return Case(drawn, everything, search, data.draw(st.booleans(), label="reverse"))


_numbers = count()


def new_tenant() -> str:
    """Returns a new tenant, so that cases share no keys."""
    return f"tenant{next(_numbers)}"
