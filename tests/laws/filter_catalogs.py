"""Random catalogs with unions and narrow projections, and records that may be older than a declaration.

Imports only declarations from the package, so that the reference results share no code with the search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal
from uuid import UUID

from hypothesis import strategies as st
from pydantic import Field

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Id,
    Index,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Union,
    canonical,
    derived,
    desc,
    stored,
)
from tests.laws.search_catalogs import (
    IDS,
    KEYS,
    NOW,
    OWN_IDS,
    POOLS,
    SIZES,
    Record,
    State,
    make_entity,
    make_owner_entity,
    seen,
)


def double(number: int) -> int:
    """Derives a number from a number; filter values are derived, too."""
    return 2 * number


def shouted(number: int) -> str:
    """Derives a text from a number; filter values are texts already and are not derived."""
    return f"{number}!"


PLAIN: dict[str, Any] = {
    "text": str | None,
    "number": int,
    "amount": Annotated[Decimal | None, stored("amt")],
    "flag": bool | None,
    "state": State | None,
    "moment": datetime | None,
    "day": date | None,
    "span": timedelta | None,
    "real": float | None,
    "uuid": UUID | None,
    "tags": list[str],
    "codes": set[int] | None,
    "states": list[State] | None,
    "days": list[date] | None,
    "spans": list[timedelta] | None,
    "era": str,
    "expires": Ttl[Timestamp] | None,
}
"""properties that all records were written with"""

LATER: dict[str, Any] = {
    "late_number": int,
    "late_text": str | None,
    "late_none": str | None,
    "late_tags": list[str],
    "late_folded": str | None,
    "late_made": str,
}
"""properties declared after some of the records were written"""

DEFAULTS: dict[str, Any] = {"late_number": 5, "late_text": "new", "late_none": None, "late_tags": ["x"]}
DERIVED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "folded": ("text", canonical),
    "twice": ("number", double),
    "length": ("text", len),
    "shout": ("number", shouted),
    "late_folded": ("text", canonical),
}
MADE_PREFIX = "made of "
"""prefix of a default that depends on the rest of the record: the number follows"""

DERIVES_ARGUMENTS = ("folded", "twice", "late_folded")
"""derived properties whose function is also applied to filter values"""

SCALARS: dict[str, Any] = dict(
    [
        *(("key", str), ("part", int), ("sub_a", str), ("created", int), ("group", str), ("text", str)),
        *(("number", int), ("amount", Decimal), ("flag", bool), ("state", State), ("moment", datetime)),
        *(("day", date), ("span", timedelta), ("real", float), ("uuid", UUID), ("folded", str), ("twice", int)),
        *(("length", int), ("shout", str), ("late_number", int), ("late_text", str), ("late_none", str)),
        *(("late_folded", str), ("late_made", str), ("era", str)),
    ]
)
LISTS: dict[str, Any] = {"tags": str, "codes": int, "states": State, "days": date, "spans": timedelta, "late_tags": str}
NUMBERS = [-10, -1, 0, 1, 5, 9, 10]
PROJECTED = {
    "SOME": ["number", "text", "folded", "tags"],
    "OTHERS": ["state", "states", "spans", "late_text", "late_number", "late_folded", "late_made", "expires"],
}
ORDERED = ("lt", "le", "gt", "ge")

HASHED: list[tuple[str, bool | str]] = [
    ("", True),
    ("", True),
    ("group", True),
    ("group", False),
    ("owner_id", "Owner"),
    ("", False),
]
"""hash property of an index, and how it is sharded"""

Projection = Literal["ALL", "KEYS_ONLY", "SOME", "OTHERS"]


MAX_RECORD_BYTES = 8 * 1024
"""more than any drawn record has, so that prices of searches are small"""


@dataclass(frozen=True)
class Member:
    """An index of the drawn entity, alone or as a member of a union."""

    name: str
    raw: bool
    descending: bool
    second: bool
    """also sorted by number"""
    projection: Projection


@dataclass(frozen=True)
class Shape:
    """The shape of a drawn entity."""

    kind: Any
    """type of the sort properties"""
    members: tuple[Member, ...]
    union: bool
    composite: bool
    sub: bool
    hash: str
    sharded: bool | str
    sizes: tuple[int, ...]
    new_index: bool
    """the first index was declared after some of the records were written, so it lacks them"""


@st.composite
def shapes(draw: st.DrawFn, sizes: Sequence[int] = SIZES) -> Shape:
    """Draws an entity with one to three indexes over properties of one type, with or without a union."""
    kind = draw(st.sampled_from([str, str, str, int, Decimal, State]))
    member_count = draw(st.sampled_from([1, 2, 2, 3]))
    members = []
    for number, name in enumerate(("alpha", "beta", "gamma")[:member_count]):
        raw = kind in (str, Decimal) and draw(st.sampled_from([False, False, False, True]))
        narrow: list[Projection] = ["KEYS_ONLY", "SOME", "OTHERS"]
        members.append(
            Member(
                name,
                raw,
                descending=kind is not str and not raw and draw(st.booleans()),
                second=not raw and draw(st.booleans()),
                projection=draw(st.sampled_from(["ALL", *narrow])) if number == 0 else "ALL",
            )
        )
    hashed, sharded = draw(st.sampled_from(HASHED))
    shape = Shape(
        kind,
        tuple(members),
        union=member_count > 1,
        composite=draw(st.booleans()),
        sub=draw(st.booleans()),
        hash=hashed,
        sharded=sharded,
        sizes=tuple(draw(st.lists(st.sampled_from(sizes), min_size=1, max_size=2))),
        new_index=draw(st.booleans()),
    )
    seen[f"union of {member_count}"] += 1
    seen[f"projection {members[0].projection}"] += 1
    seen["index declared later"] += shape.new_index
    seen["raw member"] += any(member.raw for member in members)
    seen["several generations"] += len(shape.sizes) > 1
    seen[f"hashed {hashed or 'without property'}"] += 1
    return shape


@dataclass(frozen=True)
class DrawnCatalog:
    """A drawn catalog, and the older catalog that its oldest records were written with."""

    shape: Shape
    catalog: Catalog
    thing: type[Entity]
    older: Catalog
    old_thing: type[Entity]

    @property
    def primary(self) -> list[str]:
        return ["key", *(["part"] if self.shape.composite else []), *(["sub_a"] if self.shape.sub else [])]

    @property
    def properties(self) -> list[str]:
        return [*self.thing.model_fields]


def build(shape: Shape) -> DrawnCatalog:
    """Returns the catalogs of a shape."""
    catalog, thing = _build(shape, later=True)
    older, old_thing = _build(shape, later=False)
    return DrawnCatalog(shape, catalog, thing, older, old_thing)


def _build(shape: Shape, *, later: bool) -> tuple[Catalog, type[Entity]]:
    def shards(extra: int) -> Shards:
        found = Shards(shape.sizes[0] + extra)
        for number, size in enumerate(shape.sizes[1:], 1):
            found = found.then(size + extra, since=number * 100)
        return found

    tail: dict[str, Any] = {"part": Id[int]} if shape.composite else {}
    tail |= {"sub_a": SubId[str]} if shape.sub else {}
    kind = shape.kind.__name__
    annotations: dict[str, Any] = {"key": Id[str], **tail, "created": Created[Timestamp], "group": str | None}
    annotations |= {"owner_id": str | None}
    annotations |= {
        # In one table an attribute has one type, and an attribute that is a plain key is never empty.
        member.name: Annotated[shape.kind | None, stored(f"{member.name}{kind.capitalize()}{'Raw' * member.raw}")]
        for member in shape.members
    }
    annotations |= PLAIN | {"folded": str | None, "twice": int, "length": int | None, "shout": str}
    body: dict[str, Any] = {name: derived(function, source) for name, (source, function) in DERIVED.items()}
    if later:
        annotations |= LATER
        body |= {name: default for name, default in DEFAULTS.items() if name != "late_tags"}
        body["late_tags"] = Field(default_factory=lambda: ["x"])
        body["late_made"] = Field(default_factory=lambda data: f"{MADE_PREFIX}{data['number']}")
    else:
        del body["late_folded"]
    for member in shape.members[0 if later or not shape.new_index else 1 :]:
        body[f"by_{member.name}"] = _index(shape, member, [*annotations])
    body["by_expires"] = Index(sort="expires", projection="KEYS_ONLY", name="expiring", range_key="expiringRangeKey")
    if shape.union and later:
        body["by_any"] = Union(*(f"by_{member.name}" for member in shape.members))
    body["__annotations__"] = annotations
    thing = make_entity("Thing", shards(0), body, max_record_bytes=MAX_RECORD_BYTES)
    return Catalog(thing, make_owner_entity(shards(1))), thing


def _index(shape: Shape, member: Member, declared: Sequence[str]) -> Index:
    narrow = member.projection in PROJECTED
    physical = f"{member.name}{shape.kind.__name__}{member.projection}{'Raw' * member.raw}"
    return Index(
        hash=shape.hash or None,
        sort=[desc(member.name) if member.descending else member.name, *(["number"] if member.second else [])],
        sharded=shape.sharded,
        raw=member.raw,
        name=physical,
        hash_key=f"{physical}HashKey",
        range_key=None if member.raw else f"{physical}RangeKey",
        projection=[name for name in PROJECTED[member.projection] if name in declared] if narrow else _whole(member),
    )


def _whole(member: Member) -> Literal["ALL", "KEYS_ONLY"]:
    return "KEYS_ONLY" if member.projection == "KEYS_ONLY" else "ALL"


# --- records ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenRecord:
    """The expected values of a record, and whether it was written before the later properties were declared."""

    record: Record
    is_old: bool

    @property
    def provided_fields(self) -> Record:
        """The fields that the writer provided."""
        derived_or_later = [*DERIVED, *(LATER if self.is_old else ())]
        return {name: value for name, value in self.record.items() if name not in derived_or_later}

    def with_key(self, key: Record) -> "WrittenRecord":
        """Returns the same record with another primary key and creation value."""
        return WrittenRecord(with_derived({**self.record, **key}), self.is_old)


@st.composite
def records(draw: st.DrawFn, shape: Shape, most: int = 30) -> list[WrittenRecord]:
    """Draws records with distinct primary keys; records with the same id have the same creation value."""
    created_of: dict[tuple[Any, ...], int] = {}
    found: dict[tuple[Any, ...], WrittenRecord] = {}
    for _ in range(draw(st.integers(0, most))):
        written = draw(_one(shape))
        record = written.record
        record["created"] = created_of.setdefault((record["key"], record.get("part")), record["created"])
        found[tuple(record[name] for name in KEYS if name in record)] = written
    return list(found.values())


@lru_cache(maxsize=8)
def _one(shape: Shape) -> st.SearchStrategy[WrittenRecord]:
    """Returns the strategy of a shape, cached: building a strategy takes longer than drawing from it."""
    pools: dict[str, Sequence[Any]] = {"key": OWN_IDS}
    if shape.composite:
        pools["part"] = [-1, 0, 1]
    if shape.sub:
        pools["sub_a"] = IDS[:8]
    pools["created"] = [0, 1, 99, 100, 101, 200]
    pools["group"] = ["g", "g", "g", "h|", None]
    pools["owner_id"] = ["o", "o", "o1", None]
    for member in shape.members:
        pool = [value for value in POOLS[shape.kind] if value != "" or not member.raw]
        pools[member.name] = [*pool, *pool[:2], *pool[:2], None, None, None]
    pools |= {"text": [*POOLS[str], "Zoë", "zoe", None], "number": NUMBERS}
    pools |= {name: [*POOLS[kind], None] for name, kind in SCALARS.items() if name in PLAIN and name not in pools}
    pools["expires"] = [None, None, None, None, NOW - 1, NOW, NOW + 1]
    record = {name: st.sampled_from(pool) for name, pool in pools.items()} | COLLECTIONS
    return st.builds(_written, st.fixed_dictionaries(record), st.none() | LATER_VALUES | LATER_VALUES)


COLLECTIONS: dict[str, st.SearchStrategy[Any]] = {
    "tags": st.lists(st.sampled_from(["", "a", "b", "1"]), max_size=2),
    "codes": st.none() | st.sets(st.sampled_from([0, 1, 2]), max_size=2),
    "states": st.none() | st.lists(st.sampled_from(State), max_size=2),
    "days": st.none() | st.lists(st.sampled_from(POOLS[date]), max_size=2),
    "spans": st.none() | st.lists(st.sampled_from(POOLS[timedelta]), max_size=2),
}
LATER_VALUES: st.SearchStrategy[Record] = st.fixed_dictionaries(
    {
        "late_number": st.sampled_from([5, 6]),
        "late_text": st.sampled_from(["new", "newer", None]),
        "late_none": st.sampled_from([None, "a", "ab"]),
        "late_tags": st.sampled_from([["x"], ["y"], []]),
        "late_made": st.sampled_from(["made", MADE_PREFIX]),
    }
)


def _written(record: Record, later: Record | None) -> WrittenRecord:
    is_old = later is None
    record |= later or {**DEFAULTS, "late_made": f"{MADE_PREFIX}{record['number']}"}
    record["era"] = "old" if is_old else "new"
    seen["written before a declaration"] += is_old
    return WrittenRecord(with_derived(record), is_old)


def with_derived(record: Record) -> Record:
    """Returns the record with its derived properties."""
    for name, (source, function) in DERIVED.items():
        record[name] = None if record[source] is None else function(record[source])
    return record
