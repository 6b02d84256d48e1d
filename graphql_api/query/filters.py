"""Filters: what else must hold of the records of an answer, beyond the range that the index gives.

A filter tests stored values. What is null, or left out where there is no default, meets no comparison; `ne` is exactly
what `eq` is not, and `not` turns anything round.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import (
    Between,
    Boolean,
    Codec,
    Condition,
    DecimalNumber,
    EnumCodec,
    Eq,
    Int32,
    Int64,
    Prefix,
    Text,
    Timestamp,
    TimestampMs,
    shown,
)
from graphql_api.errors import ConflictingArguments, FilterTooLarge, InvalidValue, UnknownArgument, about, nearest
from graphql_api.model import EntitySpec, PropertySpec, codec_of_items, to_plain
from graphql_api.query.argument_names import PYTHON, Dialect
from graphql_api.query.property_values import Values
from graphql_api.query.search_values import searched_value
from graphql_api.storage import AllOf, AnyOf, AttributeTest, StoreFilter

MAX_TESTS = 100
"""comparisons of one filter"""

MAX_VALUES = 100
"""values of one `in`"""

MAX_NESTING = 10
"""levels of and, or and not inside one another"""

JOINTS = ("and", "or", "not")
ORDERED = ("lt", "le", "gt", "ge", "between")
OPERATIONS = ("eq", "ne", "in", *ORDERED, "prefix", "contains", "exists")


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison of one property."""

    part: PropertySpec
    operation: str
    values: tuple[Any, ...]
    """as the property's codec has them"""

    @property
    def properties(self) -> frozenset[str]:
        return frozenset({self.part.name})

    def matches(self, values: Values) -> bool:
        value = values(self.part)
        if self.operation == "exists":
            return (value is not None) is self.values[0]
        if self.operation == "ne":
            return value is None or not self._equal(value, self.values[0])
        return value is not None and self._holds(value)

    def _equal(self, value: Any, other: Any) -> bool:
        return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)

    def _holds(self, value: Any) -> bool:
        first = self.values[0] if self.values else None
        match self.operation:
            case "eq":
                return self._equal(value, first)
            case "in":
                return any(self._equal(value, other) for other in self.values)
            case "prefix":
                return bool(value.startswith(first))
            case "contains":
                return first in value
        encode = self.part.column.codec.encode  # Encoded values sort as their values do, enums as they are declared.
        key, bounds = encode(value), [encode(other) for other in self.values]
        match self.operation:
            case "lt":
                return key < bounds[0]
            case "le":
                return key <= bounds[0]
            case "gt":
                return key > bounds[0]
            case "ge":
                return key >= bounds[0]
        return bounds[0] <= key <= bounds[1]

    def identity(self) -> tuple[Any, ...]:
        codec = self.part.codec
        values = [
            codec.encode(value) if codec is not None and self.operation != "exists" else repr(value)
            for value in self.values
        ]
        return self.part.stored, self.operation, tuple(values)

    def words(self) -> str:
        if self.operation == "exists":
            return f"{self.part.stored} {'exists' if self.values[0] else 'does not exist'}"
        told = ", ".join(shown(_plain(value)) for value in self.values)
        return f"{self.part.stored} {self.operation} {told}"


@dataclass(frozen=True, slots=True)
class And:
    """All of several filters."""

    parts: "tuple[Filter, ...]"

    @property
    def properties(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.properties for part in self.parts))

    def matches(self, values: Values) -> bool:
        return all(part.matches(values) for part in self.parts)

    def identity(self) -> tuple[Any, ...]:
        return "and", tuple(sorted(map(repr, (part.identity() for part in self.parts))))

    def words(self) -> str:
        return _joined(" and ", self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of several filters."""

    parts: "tuple[Filter, ...]"

    @property
    def properties(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.properties for part in self.parts))

    def matches(self, values: Values) -> bool:
        return any(part.matches(values) for part in self.parts)

    def identity(self) -> tuple[Any, ...]:
        return "or", tuple(sorted(map(repr, (part.identity() for part in self.parts))))

    def words(self) -> str:
        return _joined(" or ", self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """What another filter leaves out."""

    part: "Filter"

    @property
    def properties(self) -> frozenset[str]:
        return self.part.properties

    def matches(self, values: Values) -> bool:
        return not self.part.matches(values)

    def identity(self) -> tuple[Any, ...]:
        return "not", self.part.identity()

    def words(self) -> str:
        return f"not ({self.part.words()})"


Filter = Test | And | Or | Not


def _joined(joint: str, parts: "Sequence[Filter]") -> str:
    return joint.join(part.words() if isinstance(part, Test) else f"({part.words()})" for part in parts)


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)


def conjuncts(filter: Filter | None) -> tuple[Filter, ...]:
    """Filters that must all hold."""
    if filter is None:
        return ()
    if isinstance(filter, And):
        return tuple(inner for part in filter.parts for inner in conjuncts(part))
    return (filter,)


def all_of(parts: Sequence[Filter]) -> Filter | None:
    """One filter for several; None where there is nothing to test."""
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


# --- reading ---------------------------------------------------------------------------------------------------


def read_filter(entity: EntitySpec, given: Any, dialect: Dialect = PYTHON) -> Filter | None:
    """`{"phone": {"exists": True}, "or": [{"total": {"gt": 5}}, {"status": "open"}]}` as a filter, checked."""
    if given is None:
        return None
    reader = _Reader(entity, dialect)
    word = dialect.word("filter")
    with about(word):
        found = reader.read(given, 0)
        if reader.tests > MAX_TESTS:
            raise FilterTooLarge(
                f"The filter has {reader.tests} comparisons, and at most {MAX_TESTS} are tested: ask for fewer.",
                argument=word,
            )
    return found if conjuncts(found) else None


def property_in_filters(dialect: Dialect, python_name: str) -> str:
    """What a property is called in a filter: one that has the name of a joint stands there with an underscore."""
    name = dialect.property(python_name)
    return f"{name}_" if name in JOINTS else name


class _Reader:
    def __init__(self, entity: EntitySpec, dialect: Dialect) -> None:
        self.tests = 0
        self._parts = {property_in_filters(dialect, part.name): part for part in entity.properties.values()}
        self._entity = entity

    def read(self, given: Any, depth: int) -> Filter:
        if depth > MAX_NESTING:
            raise FilterTooLarge(
                f"and, or and not stand more than {MAX_NESTING} levels inside one another: flatten them."
            )
        if not isinstance(given, Mapping):
            raise InvalidValue(f"A filter names properties and what must hold of them, it is not {shown(given)}.")
        parts = tuple(self._each(given, depth))
        return parts[0] if len(parts) == 1 else And(conjuncts(And(parts)))

    def _each(self, given: Mapping[str, Any], depth: int) -> Iterator[Filter]:
        for name, asked in given.items():
            if name == "not":
                yield Not(self.read(asked, depth + 1))
            elif name in JOINTS:
                if isinstance(asked, Mapping | str) or not isinstance(asked, Sequence):
                    raise InvalidValue(f"{name} joins filters: give a list of them.")
                parts = tuple(self.read(part, depth + 1) for part in asked)
                yield And(parts) if name == "and" else Or(parts)
            elif name in self._parts:
                yield from self._tests(name, self._parts[name], asked)
            else:
                hint = nearest(str(name), [*self._parts, *JOINTS])
                raise UnknownArgument(f"{self._entity.type_name} has no property {shown(name)}.{hint}")

    def _tests(self, name: str, part: PropertySpec, asked: Any) -> Iterator[Filter]:
        operations = asked if isinstance(asked, Mapping) else {"eq": asked}
        for operation, value in operations.items():
            self.tests += 1
            try:
                yield self._test(part, str(operation).removesuffix("_"), value)
            except InvalidValue as problem:
                raise InvalidValue(f"{name}.{operation}: {problem.message}") from problem

    def _test(self, part: PropertySpec, operation: str, value: Any) -> Test:
        if operation not in OPERATIONS:
            raise InvalidValue(
                f"There is no such comparison.{nearest(operation, OPERATIONS)} There are {', '.join(OPERATIONS)}."
            )
        if value is None:
            raise InvalidValue("Null is compared with nothing: ask for what has no value by exists: false.")
        if operation == "exists":
            if not isinstance(value, bool):
                raise InvalidValue(f"exists is true or false, not {shown(value)}.")
            return Test(part, operation, (value,))
        if operation == "contains" and part.codec is None:
            codec = item_codec(self._entity, part)
            if codec is None:
                raise InvalidValue("Only texts, and lists and sets of plain values, contain something.")
            return Test(part, operation, (to_plain(codec.check(value)),))
        if part.codec is None:
            raise InvalidValue("Only exists, and contains on lists and sets, can be asked of it.")
        if operation in ("prefix", "contains") and not isinstance(part.codec, Text):
            raise InvalidValue(f"Only texts have parts, and this is {part.codec.name}.")
        return Test(part, operation, _checked(self._entity, part, operation, value))


def _checked(entity: EntitySpec, part: PropertySpec, operation: str, value: Any) -> tuple[Any, ...]:
    """The values to compare with; what was derived on write is derived here too."""
    given: Sequence[Any] = (value,)
    if operation == "in":
        if isinstance(value, str | Mapping) or not isinstance(value, Sequence | frozenset | set):
            raise InvalidValue(f"in takes a list of values, not {shown(value)}.")
        if len(value) > MAX_VALUES:
            raise FilterTooLarge(f"in has {len(value)} values, and at most {MAX_VALUES} are looked at: give fewer.")
        given = tuple(value)
    elif operation == "between":
        given = _pair(value)
    return tuple(searched_value(entity, part, each) for each in given)


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, Mapping):
        pair = [value.get("from", value.get("from_")), value.get("to")]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        pair = [*value]
    else:
        pair = []
    if len(pair) != 2 or None in pair:
        raise ConflictingArguments("between takes two values, from and to.")
    return pair[0], pair[1]


def item_codec(entity: EntitySpec, part: PropertySpec) -> Codec[Any] | None:
    """The codec of what a list or set is made of, if it is made of one kind of plain values."""
    return codec_of_items(entity.model.model_fields[part.name].annotation)


# --- what an index can serve -----------------------------------------------------------------------------------


def as_condition(test: Filter) -> Condition | None:
    """The condition on a sort property that holds wherever a test does; None where no range says so."""
    if not isinstance(test, Test):
        return None
    match test.operation:
        case "eq":
            return Eq(test.values[0])
        case "prefix":
            return Prefix(test.values[0])
        case "ge" | "gt":
            return Between(test.values[0], None)
        case "le" | "lt":
            return Between(None, test.values[0])
        case "between":
            return Between(*test.values)
    return None


# --- what an engine may test -----------------------------------------------------------------------------------


def store_filter(filter: Filter | None, has_default: Callable[[PropertySpec], bool]) -> StoreFilter | None:
    """What an engine may test by itself: it holds wherever the filter does, and leaves out what it cannot say."""
    parts = [found for part in conjuncts(filter) if (found := _in_store(part, has_default)) is not None]
    return None if not parts else parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _in_store(filter: Filter, has_default: Callable[[PropertySpec], bool]) -> StoreFilter | None:
    if isinstance(filter, Or):
        parts = [_in_store(part, has_default) for part in filter.parts]
        return None if None in parts or not parts else AnyOf(tuple(part for part in parts if part is not None))
    if isinstance(filter, And):
        return store_filter(filter, has_default)
    if isinstance(filter, Not) or filter.part.codec is None or filter.part.function is not None:
        return None
    codec = filter.part.codec
    if filter.operation in ("ne", "exists") or not isinstance(codec, _ONE_FORM):
        return None
    if filter.operation in ORDERED and not _orders_as_stored(codec):
        return None
    values = tuple(codec.store(value) for value in filter.values)
    return AttributeTest(filter.part.stored, filter.operation, values, or_missing=has_default(filter.part))


_ONE_FORM = (Text, Boolean, Int64, Int32, Timestamp, TimestampMs, DecimalNumber, EnumCodec)
"""Types whose equal values an engine finds equal: others may be stored in several forms by whoever else wrote them."""


def _orders_as_stored(codec: Codec[Any]) -> bool:
    return isinstance(codec, Text) or (codec.number and not isinstance(codec, EnumCodec))
