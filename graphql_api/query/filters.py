"""Represent a filter: the conditions that records must meet in addition to the range of the index.

Filters test stored values. A missing value (null, or absent without a default) matches no comparison. `ne` is the exact
negation of `eq`, and `not` negates any filter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from graphql_api.model import PropertySpec
from graphql_api.query.filter_operators import FilterOperator, Operand
from graphql_api.query.property_values import PropertyReader


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare one property with constant values."""

    part: PropertySpec
    operator: FilterOperator
    values: tuple[Any, ...]
    """as the property's codec represents them"""

    @property
    def properties(self) -> frozenset[str]:
        return frozenset({self.part.name})

    def matches(self, read: PropertyReader) -> bool:
        value, operator = read(self.part), self.operator
        if value is None:
            return operator.matches_missing(self.values)
        if operator.ordered:  # Encoded values sort like the values; enums sort as declared.
            encode = self.part.column.codec.encode
            return operator.matches(encode(value), tuple(map(encode, self.values)))
        return operator.matches(value, self.values)

    def identity(self) -> tuple[Any, ...]:
        """Return a value that is equal for equal comparisons; page tokens store its digest."""
        codec = self.part.codec
        encode = repr if codec is None or self.operator.operand is Operand.BOOLEAN else codec.encode
        values = [encode(value) for value in self.values]
        # A list of values is a set: neither order nor duplicates count.
        return self.part.stored, self.operator.name, tuple(sorted({*values}) if self.is_set else values)

    @property
    def is_set(self) -> bool:
        """Return whether the values are alternatives."""
        return self.operator.operand is Operand.VALUES

    def describe(self) -> str:
        """Format the comparison for explain output and error messages."""
        return f"{self.part.stored} {self.operator.text(self.values)}"


@dataclass(frozen=True, slots=True)
class Combination:
    """Match records that match all parts (`and`), or at least one part (`or`)."""

    operator: Literal["and", "or"]
    parts: "tuple[Filter, ...]"

    @property
    def properties(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.properties for part in self.parts))

    def matches(self, read: PropertyReader) -> bool:
        quantifier = all if self.operator == "and" else any
        return quantifier(part.matches(read) for part in self.parts)

    def identity(self) -> tuple[Any, ...]:
        return self.operator, tuple(sorted(map(repr, (part.identity() for part in self.parts))))

    def describe(self) -> str:
        texts = [part.describe() if isinstance(part, Comparison) else f"({part.describe()})" for part in self.parts]
        return f" {self.operator} ".join(texts)


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


Filter = Comparison | Combination | Not


def conjuncts(filter: Filter | None) -> tuple[Filter, ...]:
    """Split a filter into parts that must all match."""
    if filter is None:
        return ()
    if isinstance(filter, Combination) and filter.operator == "and":
        return tuple(inner for part in filter.parts for inner in conjuncts(part))
    return (filter,)


def all_of(parts: Sequence[Filter]) -> Filter | None:
    """Combine filters into one that requires all of them; None without any part."""
    return None if not parts else parts[0] if len(parts) == 1 else Combination("and", tuple(parts))
