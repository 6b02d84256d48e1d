"""Random filters and searches of a drawn catalog, and what they must find: plain predicates and `sorted`.

Nothing here imports from keys, search or fanout.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import strategies as st

from tests.laws.filter_world import (
    CARRIED,
    DERIVED,
    LISTS,
    NUMBERS,
    ORDERED,
    SAME_KIND,
    SCALARS,
    Member,
    Shape,
    World,
    Written,
    build,
    records,
    shapes,
)
from tests.laws.search_world import IDS, POOLS, SIZES, ColumnShape, Drawn, Record, rank, seen

# --- filters ---------------------------------------------------------------------------------------------------

Predicate = Callable[[Record], bool]


@dataclass(frozen=True)
class Filter:
    """A filter as its caller writes it, and what it means in plain Python."""

    given: Any
    holds: Predicate


@st.composite
def filters(draw: st.DrawFn, world: World, known: Sequence[Record], depth: int = 2) -> Filter:
    """A filter with parts that often meet something."""
    joint = draw(st.sampled_from(["test", "test", "several", "and", "or", "or", "not"])) if depth else "test"
    if joint == "test":
        return draw(_tests(world, known))
    seen[f"filter {joint}"] += 1
    if joint == "not":
        inner = draw(filters(world, known, depth - 1))
        return Filter({"not": inner.given}, lambda record: not inner.holds(record))
    parts = draw(st.lists(filters(world, known, depth - 1), max_size=3))
    if joint == "several":  # side by side in one mapping; of one name the last one counts
        by_name = {name: (asked, part) for part in parts if len(part.given) == 1 for name, asked in part.given.items()}
        kept = [part for _, part in by_name.values()]
        return Filter({name: asked for name, (asked, _) in by_name.items()}, lambda record: all_hold(kept, record))
    if joint == "and":
        return Filter({"and": [part.given for part in parts]}, lambda record: all_hold(parts, record))
    return Filter({"or": [part.given for part in parts]}, lambda record: any(part.holds(record) for part in parts))


def all_hold(parts: Sequence[Filter], record: Record) -> bool:
    """Whether every filter holds."""
    return all(part.holds(record) for part in parts)


@st.composite
def _tests(draw: st.DrawFn, world: World, known: Sequence[Record]) -> Filter:
    # Tests on what an index is sorted by may narrow its range, those on what a narrow one carries are made on rows.
    sorted_by = [*(member.name for member in world.shape.members), "number", "created", "key"]
    carried = CARRIED.get(world.shape.members[0].projection, sorted_by)
    every = [name for name in (*SCALARS, *LISTS) if name in world.properties]
    names = draw(st.sampled_from([every, sorted_by, [name for name in carried if name in (*every, *sorted_by)]]))
    name = draw(st.sampled_from(names))
    if name in LISTS:
        operations = ["contains", "contains", "exists"]
    else:
        operations = ["eq", "eq", "ne", "in", *ORDERED, "between", "exists"]
    source = DERIVED[name][0] if name in SAME_KIND else name
    values = [record[source] for record in known if record[source] is not None] if name not in LISTS else []
    if name in LISTS:
        values = [item for record in known for item in record[name] or ()] or POOLS[LISTS[name]]
    if not values:
        kind = SCALARS.get(name)
        values = NUMBERS if kind is int else POOLS.get(kind, [])
    if not values:
        operations = ["exists"]
    elif isinstance(values[0], str) and name not in LISTS:
        operations += ["prefix", "prefix", "contains"]
    operation = draw(st.sampled_from(operations))
    seen[f"test {operation}"] += 1
    one = partial(draw, st.sampled_from(values)) if values else None
    if operation == "exists" or one is None:
        wanted = draw(st.booleans())
        return Filter({name: {"exists": wanted}}, lambda record: (record[name] is not None) is wanted)
    if operation == "in":
        many = [one() for _ in range(draw(st.integers(0, 3)))]
        return Filter({name: {"in": many}}, lambda record: any(_equal(record[name], _asked(name, v)) for v in many))
    if operation == "between":
        low, high = one(), one()
        given = draw(st.sampled_from([[low, high], {"from": low, "to": high}]))
        return Filter(
            {name: {"between": given}},
            lambda record: _compares(name, "ge", record, low) and _compares(name, "le", record, high),
        )
    value = one()
    if operation in ("prefix", "contains") and name not in LISTS:
        begin = draw(st.integers(0, len(value))) if operation == "contains" else 0
        value = value[begin : draw(st.integers(begin, len(value)))]
    bare = operation == "eq" and draw(st.booleans())
    seen["bare value"] += bare
    given = {name: value} if bare else {name: {operation: value}}
    return Filter(given, partial(_holds, name, operation, value))


def _asked(name: str, value: Any) -> Any:
    """What was derived on write is derived of what is asked for, too."""
    return DERIVED[name][1](value) if name in SAME_KIND else value


def _holds(name: str, operation: str, value: Any, record: Record) -> bool:
    found = record[name]
    if name in LISTS:
        return found is not None and value in found
    if operation in ORDERED:
        return _compares(name, operation, record, value)
    value = _asked(name, value)
    if operation == "ne":
        return not _equal(found, value)
    if operation == "eq":
        return _equal(found, value)
    if found is None:
        return False
    return bool(found.startswith(value) if operation == "prefix" else value in found)


def _equal(found: Any, value: Any) -> bool:
    return found is not None and bool(found == value)


def _compares(name: str, operation: str, record: Record, value: Any) -> bool:
    if record[name] is None:
        return False
    found, other = rank(record[name], raw=False), rank(_asked(name, value), raw=False)
    results = {"lt": found < other, "le": found <= other, "gt": found > other, "ge": found >= other}
    return bool(results[operation])


# --- searches --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """A search with a filter: of one index, or of several one after the other."""

    index: str
    arguments: dict[str, Any]
    parts: tuple[Drawn, ...]
    filter: Filter | None
    select: tuple[str, ...] | None
    reverse: bool

    @property
    def options(self) -> dict[str, Any]:
        """What goes with every page."""
        found = {"filter": None if self.filter is None else self.filter.given, "select": self.select}
        return {**self.arguments, **found, "reverse": self.reverse}

    def segments(self, everything: Sequence[Record]) -> list[list[Record]]:
        """The whole answer index by index; a record comes in the first that has it."""
        found: list[list[Record]] = []
        left = list(everything)
        for part in self.parts:
            there = part.answer(left)
            seen["left out of a later index"] += len(part.answer(everything)) > len(there)
            left = [record for record in left if record not in there]
            kept = [record for record in there if self.filter is None or self.filter.holds(record)]
            seen["filtered out"] += len(kept) < len(there)
            found.append(kept[::-1] if self.reverse else kept)
        return found

    def is_tied(self, segment: int) -> bool:
        """Whether the order within equal values is the engine's."""
        return self.parts[segment].raw


@st.composite
def searches(draw: st.DrawFn, world: World, known: Sequence[Record]) -> Search:
    """A search of an index or a union, with a filter and a selection."""
    shape = world.shape
    kind = (
        "union"
        if shape.union and draw(st.integers(0, 3))
        else draw(st.sampled_from(["single", "single", "id", "expires"]))
    )
    tail = tuple(ColumnShape(name, None, nullable=False, descending=False) for name in world.primary)
    hashed = shape.hash if kind in ("union", "single") else ""
    arguments: dict[str, Any] = (
        {hashed: draw(st.sampled_from(["g", "h|"] if hashed == "group" else ["o", "o1"]))} if hashed else {}
    )
    exact = dict(arguments)
    seen[f"search {kind}"] += 1
    if kind == "id":
        index, orders = "by_id", [(tail, False)]
        if shape.sub:
            exact = arguments = {
                name: draw(st.sampled_from([record[name] for record in known] or [IDS[0] if name == "key" else 0]))
                for name in world.primary[:-1]
            }
            orders = [(tail[-1:], False)]
        last = None
    elif kind == "expires":
        index = "by_expires"
        orders = [((ColumnShape("expires", int, nullable=True, descending=False), *tail), False)]
        last = None
    else:
        members = list(shape.members) if kind == "union" else [draw(st.sampled_from(shape.members))]
        index = "by_any" if kind == "union" else f"by_{members[0].name}"
        orders = [(_order(shape, member, tail), member.raw) for member in members]
        last = draw(_condition(shape, [member.name for member in members], known, raw=any(m.raw for m in members)))
        arguments |= _written(last)
    # Records that were written before the index was declared have no entry in it, whatever their properties say.
    newer = exact | {"era": "new"}
    lacking = [order[0].name == shape.members[0].name and shape.new_index for order, _ in orders]
    seen["index without old records"] += any(lacking)
    parts = tuple(
        Drawn(index, {}, newer if lacks else exact, None if last is None else (order[0].name, *last), order, raw)
        for (order, raw), lacks in zip(orders, lacking, strict=True)
    )
    filter = (
        draw(st.none() | filters(world, known) | filters(world, known))
        if kind in ("union", "single")
        else draw(filters(world, known))
    )
    names = draw(st.none() | st.sets(st.sampled_from(world.properties), max_size=3))
    select = None if names is None else tuple(sorted({*names, *world.primary}))
    seen["select"] += select is not None
    reverse = draw(st.booleans())
    seen["reverse"] += reverse
    return Search(index, arguments, parts, filter, select, reverse)


def _order(shape: Shape, member: Member, tail: tuple[ColumnShape, ...]) -> tuple[ColumnShape, ...]:
    first = ColumnShape(member.name, shape.kind, nullable=True, descending=member.descending)
    if member.raw:
        return (first,)
    second = (ColumnShape("number", int, nullable=False, descending=False),) if member.second else ()
    return (first, *second, *tail)


@st.composite
def _condition(
    draw: st.DrawFn, shape: Shape, names: Sequence[str], known: Sequence[Record], *, raw: bool
) -> tuple[str, Any, Any] | None:
    values = [record[name] for record in known for name in names if record[name] is not None] or POOLS[shape.kind]
    if raw:
        values = [value for value in values if value != ""] or [value for value in POOLS[shape.kind] if value != ""]
    one = partial(draw, st.sampled_from(values))
    kinds = ["none", "none", "eq", "between", "between"] + (["prefix", "prefix"] if shape.kind is str else [])
    kind = draw(st.sampled_from(kinds))
    seen[f"condition {kind}"] += 1
    if kind == "none":
        return None
    if kind == "eq":
        return kind, one(), None
    if kind == "prefix":
        value = one()
        return kind, value[: draw(st.integers(0, len(value)))], None
    low, high = sorted((one(), one()), key=partial(rank, raw=False))
    sides = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    return kind, low if sides[0] else None, high if sides[1] else None


def _written(condition: tuple[str, Any, Any] | None) -> dict[str, Any]:
    if condition is None:
        return {}
    kind, one, other = condition
    if kind == "between":
        return {name: value for name, value in (("from_", one), ("to", other)) if value is not None}
    return {kind: one}


@dataclass(frozen=True)
class Case:
    """A drawn catalog with records, and a search of them."""

    world: World
    written: list[Written]
    search: Search

    @property
    def index(self) -> Any:
        return getattr(self.world.thing, self.search.index)

    @property
    def records(self) -> list[Record]:
        return [written.record for written in self.written]


def draw_case(data: st.DataObject, sizes: Sequence[int] = SIZES) -> Case:
    """A catalog, records and a search, drawn one after the other."""
    world = build(data.draw(shapes(sizes), label="shape"))
    written = data.draw(records(world.shape), label="records")
    return Case(world, written, data.draw(searches(world, [one.record for one in written]), label="search"))
