"""Random filters and searches of a drawn catalog, and their reference results from plain predicates and `sorted`.

Imports nothing from the package, so that the reference results share no code with the search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import strategies as st

from tests.laws.filter_catalogs import (
    DERIVED,
    DERIVES_ARGUMENTS,
    LISTS,
    NUMBERS,
    ORDERED,
    PROJECTED,
    SCALARS,
    DrawnCatalog,
    Member,
    Shape,
    WrittenRecord,
    build,
    records,
    shapes,
)
from tests.laws.search_catalogs import IDS, POOLS, SIZES, ColumnShape, DrawnSearch, Record, rank, seen

# --- filters ---------------------------------------------------------------------------------------------------

Predicate = Callable[[Record], bool]

TEXT_OPERATIONS: dict[str, Callable[[str, str], bool]] = {"prefix": str.startswith, "contains": str.__contains__}
"""Operators of texts, and their meaning."""


@dataclass(frozen=True)
class Filter:
    """A filter argument, and its meaning as a plain predicate."""

    argument: Any
    holds: Predicate


@st.composite
def filters(draw: st.DrawFn, drawn: DrawnCatalog, known: Sequence[Record], depth: int = 2) -> Filter:
    """Draws a filter whose comparisons often match some record."""
    combinator = draw(st.sampled_from(["test", "test", "several", "and", "or", "or", "not"])) if depth else "test"
    if combinator == "test":
        return draw(_comparisons(drawn, known))
    seen[f"filter {combinator}"] += 1
    if combinator == "not":
        inner = draw(filters(drawn, known, depth - 1))
        return Filter({"not": inner.argument}, lambda record: not inner.holds(record))
    parts = draw(st.lists(filters(drawn, known, depth - 1), max_size=3))
    if combinator == "several":  # several keys in one mapping; the last value of a repeated key wins
        by_name = {
            name: (value, part) for part in parts if len(part.argument) == 1 for name, value in part.argument.items()
        }
        kept = [part for _, part in by_name.values()]
        return Filter({name: value for name, (value, _) in by_name.items()}, lambda record: all_hold(kept, record))
    if combinator == "and":
        return Filter({"and": [part.argument for part in parts]}, lambda record: all_hold(parts, record))
    return Filter({"or": [part.argument for part in parts]}, lambda record: any(part.holds(record) for part in parts))


def all_hold(parts: Sequence[Filter], record: Record) -> bool:
    """Whether every filter holds."""
    return all(part.holds(record) for part in parts)


@st.composite
def _comparisons(draw: st.DrawFn, drawn: DrawnCatalog, known: Sequence[Record]) -> Filter:
    # Comparisons of sort properties may narrow the key range; those of projected properties are evaluated on rows.
    sorted_by = [*(member.name for member in drawn.shape.members), "number", "created", "key"]
    carried = PROJECTED.get(drawn.shape.members[0].projection, sorted_by)
    every = [name for name in (*SCALARS, *LISTS) if name in drawn.properties]
    names = draw(st.sampled_from([every, sorted_by, [name for name in carried if name in (*every, *sorted_by)]]))
    name = draw(st.sampled_from(names))
    if name in LISTS:
        operations = ["contains", "contains", "exists"]
    else:
        operations = ["eq", "eq", "ne", "in", *ORDERED, "between", "exists"]
    source = DERIVED[name][0] if name in DERIVES_ARGUMENTS else name
    values = [record[source] for record in known if record[source] is not None] if name not in LISTS else []
    if name in LISTS:
        values = [item for record in known for item in record[name] or ()] or POOLS[LISTS[name]]
    if not values:
        kind = SCALARS.get(name)
        values = NUMBERS if kind is int else POOLS.get(kind, [])
    if not values:
        operations = ["exists"]
    elif isinstance(values[0], str) and name not in LISTS:
        operations += ["prefix", *TEXT_OPERATIONS]
    operation = draw(st.sampled_from(operations))
    seen[f"test {operation}"] += 1
    one = partial(draw, st.sampled_from(values)) if values else None
    if operation == "exists" or one is None:
        exists = draw(st.booleans())
        return Filter({name: {"exists": exists}}, lambda record: (record[name] is not None) is exists)
    if operation == "in":
        many = [one() for _ in range(draw(st.integers(0, 3)))]
        return Filter(
            {name: {"in": many}}, lambda record: any(_equal(record[name], _argument_value(name, v)) for v in many)
        )
    if operation == "between":
        low, high = one(), one()
        bounds = draw(st.sampled_from([[low, high], {"from": low, "to": high}]))
        return Filter(
            {name: {"between": bounds}},
            lambda record: _compares(name, "ge", record, low) and _compares(name, "le", record, high),
        )
    value = one()
    if operation in TEXT_OPERATIONS and name not in LISTS:
        begin = 0 if operation == "prefix" else draw(st.integers(0, len(value)))
        value = value[begin : draw(st.integers(begin, len(value)))]
    bare = operation == "eq" and draw(st.booleans())
    seen["bare value"] += bare
    argument = {name: value} if bare else {name: {operation: value}}
    return Filter(argument, partial(_holds, name, operation, value))


def _argument_value(name: str, value: Any) -> Any:
    """Returns the value compared with the property: derived, if the property derives filter values, too."""
    return DERIVED[name][1](value) if name in DERIVES_ARGUMENTS else value


def _holds(name: str, operation: str, value: Any, record: Record) -> bool:
    found = record[name]
    if name in LISTS:
        return found is not None and value in found
    if operation in ORDERED:
        return _compares(name, operation, record, value)
    value = _argument_value(name, value)
    if operation == "ne":
        return not _equal(found, value)
    if operation == "eq":
        return _equal(found, value)
    return found is not None and TEXT_OPERATIONS[operation](found, value)


def _equal(found: Any, value: Any) -> bool:
    return found is not None and bool(found == value)


def _compares(name: str, operation: str, record: Record, value: Any) -> bool:
    if record[name] is None:
        return False
    found, other = rank(record[name], raw=False), rank(_argument_value(name, value), raw=False)
    results = {"lt": found < other, "le": found <= other, "gt": found > other, "ge": found >= other}
    return bool(results[operation])


# --- searches --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """A search of one index or of a union, with a filter."""

    index: str
    arguments: dict[str, Any]
    parts: tuple[DrawnSearch, ...]
    filter: Filter | None
    select: tuple[str, ...] | None
    reverse: bool

    @property
    def options(self) -> dict[str, Any]:
        """The options of every page."""
        found = {"filter": None if self.filter is None else self.filter.argument, "select": self.select}
        return {**self.arguments, **found, "reverse": self.reverse}

    def segments(self, everything: Sequence[Record]) -> list[list[Record]]:
        """Returns the whole result index by index; each record is in the first index that has it."""
        found: list[list[Record]] = []
        remaining = list(everything)
        for part in self.parts:
            matches = part.expected_result(remaining)
            seen["duplicate in a later index"] += len(part.expected_result(everything)) > len(matches)
            remaining = [record for record in remaining if record not in matches]
            kept = [record for record in matches if self.filter is None or self.filter.holds(record)]
            seen["filtered out"] += len(kept) < len(matches)
            found.append(kept[::-1] if self.reverse else kept)
        return found

    def is_tied(self, segment: int) -> bool:
        """Whether the engine determines the order within equal values."""
        return self.parts[segment].raw


@st.composite
def searches(draw: st.DrawFn, drawn: DrawnCatalog, known: Sequence[Record]) -> Search:
    """Draws a search of an index or a union, with a filter and a selection."""
    shape = drawn.shape
    kind = (
        "union"
        if shape.union and draw(st.integers(0, 3))
        else draw(st.sampled_from(["single", "single", "id", "expires"]))
    )
    tail = tuple(ColumnShape(name, None, nullable=False, descending=False) for name in drawn.primary)
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
                for name in drawn.primary[:-1]
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
    # Records that were written before the index was declared have no entry in it, whatever their properties are.
    newer = exact | {"era": "new"}
    lacking = [order[0].name == shape.members[0].name and shape.new_index for order, _ in orders]
    seen["index without old records"] += any(lacking)
    parts = tuple(
        DrawnSearch(index, {}, newer if lacks else exact, None if last is None else (order[0].name, *last), order, raw)
        for (order, raw), lacks in zip(orders, lacking, strict=True)
    )
    filter = (
        draw(st.none() | filters(drawn, known) | filters(drawn, known))
        if kind in ("union", "single")
        else draw(filters(drawn, known))
    )
    names = draw(st.none() | st.sets(st.sampled_from(drawn.properties), max_size=3))
    select = None if names is None else tuple(sorted({*names, *drawn.primary}))
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

    drawn: DrawnCatalog
    written: list[WrittenRecord]
    search: Search

    @property
    def index(self) -> Any:
        return getattr(self.drawn.thing, self.search.index)

    @property
    def records(self) -> list[Record]:
        return [written.record for written in self.written]


def draw_case(data: st.DataObject, sizes: Sequence[int] = SIZES) -> Case:
    """Draws a catalog, its records, and a search."""
    drawn = build(data.draw(shapes(sizes), label="shape"))
    written = data.draw(records(drawn.shape), label="records")
    return Case(drawn, written, data.draw(searches(drawn, [one.record for one in written]), label="search"))
