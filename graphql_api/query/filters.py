"""Represent a filter: the conditions that records must meet in addition to the range of the index.

Filters test stored values. A missing value (null, or absent without a default) matches no comparison. `ne` is the exact
negation of `eq`, and `not` negates any filter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import short_repr
from graphql_api.model import PropertySpec
from graphql_api.query.property_values import PropertyReader

ORDERED_OPERATORS = ("lt", "le", "gt", "ge", "between")
OPERATORS = ("eq", "ne", "in", *ORDERED_OPERATORS, "prefix", "contains", "exists")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare one property with constant values."""

    part: PropertySpec
    operator: str
    values: tuple[Any, ...]
    """as the property's codec represents them"""

    @property
    def properties(self) -> frozenset[str]:
        return frozenset({self.part.name})

    def matches(self, read: PropertyReader) -> bool:
        value = read(self.part)
        if self.operator == "exists":
            return (value is not None) is self.values[0]
        if self.operator == "ne":
            return value is None or not self._equal(value, self.values[0])
        return value is not None and self._holds(value)

    def _equal(self, value: Any, other: Any) -> bool:
        return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)

    def _holds(self, value: Any) -> bool:
        first = self.values[0] if self.values else None
        match self.operator:
            case "eq":
                return self._equal(value, first)
            case "in":
                return any(self._equal(value, other) for other in self.values)
            case "prefix":
                return bool(value.startswith(first))
            case "contains":
                return first in value
        encode = self.part.column.codec.encode  # Encoded values sort like the values; enums sort as declared.
        key, bounds = encode(value), [encode(other) for other in self.values]
        match self.operator:
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
        """Return a value that is equal for equal comparisons; page tokens store its digest."""
        codec = self.part.codec
        values = [
            codec.encode(value) if codec is not None and self.operator != "exists" else repr(value)
            for value in self.values
        ]
        return self.part.stored, self.operator, tuple(values)

    def describe(self) -> str:
        """Format the comparison for explain output and error messages."""
        if self.operator == "exists":
            return f"{self.part.stored} {'exists' if self.values[0] else 'does not exist'}"
        values = ", ".join(short_repr(_enum_value(value)) for value in self.values)
        return f"{self.part.stored} {self.operator} {values}"


@dataclass(frozen=True, slots=True)
class And:
    """Match records that match all parts."""

    parts: "tuple[Filter, ...]"

    @property
    def properties(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.properties for part in self.parts))

    def matches(self, read: PropertyReader) -> bool:
        return all(part.matches(read) for part in self.parts)

    def identity(self) -> tuple[Any, ...]:
        return "and", tuple(sorted(map(repr, (part.identity() for part in self.parts))))

    def describe(self) -> str:
        return _join_descriptions(" and ", self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Match records that match at least one part."""

    parts: "tuple[Filter, ...]"

    @property
    def properties(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.properties for part in self.parts))

    def matches(self, read: PropertyReader) -> bool:
        return any(part.matches(read) for part in self.parts)

    def identity(self) -> tuple[Any, ...]:
        return "or", tuple(sorted(map(repr, (part.identity() for part in self.parts))))

    def describe(self) -> str:
        return _join_descriptions(" or ", self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """Match records that do not match the part."""

    part: "Filter"

    @property
    def properties(self) -> frozenset[str]:
        return self.part.properties

    def matches(self, read: PropertyReader) -> bool:
        return not self.part.matches(read)

    def identity(self) -> tuple[Any, ...]:
        return "not", self.part.identity()

    def describe(self) -> str:
        return f"not ({self.part.describe()})"


Filter = Comparison | And | Or | Not


def conjuncts(filter: Filter | None) -> tuple[Filter, ...]:
    """Split a filter into parts that must all match."""
    if filter is None:
        return ()
    if isinstance(filter, And):
        return tuple(inner for part in filter.parts for inner in conjuncts(part))
    return (filter,)


def all_of(parts: Sequence[Filter]) -> Filter | None:
    """Combine filters into one that requires all of them; None without any part."""
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def _join_descriptions(operator: str, parts: "Sequence[Filter]") -> str:
    return operator.join(part.describe() if isinstance(part, Comparison) else f"({part.describe()})" for part in parts)


def _enum_value(value: Any) -> Any:
    return getattr(value, "value", value)
