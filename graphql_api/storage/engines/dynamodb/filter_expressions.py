"""What a query is asked beyond its range: tests of attributes, and which attributes come back, as expressions.

Both are hints of the port, so that whatever the protocol does not allow is left out: tests of key attributes and of
what an index does not carry, operands of the wrong type, and what goes beyond the limits of an expression.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from graphql_api.errors import StoreRefused
from graphql_api.storage import (
    AllOf,
    AnyOf,
    AttributeTest,
    IndexDefinition,
    RangeRead,
    StoreFilter,
    TableDefinition,
    carried_attributes,
    ordered_together,
    value_size,
    weakened,
)
from graphql_api.storage.engines.dynamodb.wire_format import Wire, encode_value

MAX_CHARACTERS = 4_000
"""of an expression; AWS allows 4,096 bytes"""

MAX_OPERATORS = 250
"""of an expression; AWS allows 300"""

MAX_IN = 100
"""values of one IN"""

MAX_VALUE_BYTES = 64 * 1024
"""of all values: they go along with each query; AWS allows about 1 MB"""

MAX_ANSWERED = 100
"""attributes that are worth naming; beyond, all of them come back"""

_COMPARED = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTIONS = {"prefix": "begins_with", "contains": "contains"}


@dataclass(frozen=True, slots=True)
class Extras:
    """The expressions of a query, with the placeholders that they use."""

    filter: str | None = None
    projection: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Wire] = field(default_factory=dict)


def extras_of_reads(table: TableDefinition, index: IndexDefinition, reads: Sequence[RangeRead]) -> list[Extras]:
    """The expressions of each read; reads of one search share their filter, which is written once."""
    found: list[Extras] = []
    for number, read in enumerate(reads):
        before = reads[number - 1]
        if found and read.filter is before.filter and read.attributes == before.attributes:
            found.append(found[-1])
        else:
            found.append(extras_of(table, index, read.filter, read.attributes))
    return found


def extras_of(
    table: TableDefinition, index: IndexDefinition, filter: StoreFilter | None, attributes: Collection[str] | None
) -> Extras:
    """As much of a filter as a query of this index may test, and which attributes it answers."""
    written = _Written(names={index.hash_attribute: "#h", index.range_attribute: "#r"})
    left = None if filter is None else weakened(filter, _testable(table, index))
    if left is not None:
        for part in _conjuncts(left):
            longer = written.with_conjunct(part)
            written = longer if longer.fits else written
    projection = None if attributes is None else written.projection(table, index, attributes)
    names = {placeholder: name for name, placeholder in written.names.items() if placeholder not in {"#h", "#r"}}
    if projection is not None:
        names["#r"] = index.range_attribute
    return Extras(" AND ".join(written.parts) or None, projection, names, written.values)


@dataclass(slots=True)
class _Written:
    """Expressions as far as they have been written."""

    names: dict[str, str]
    values: dict[str, Wire] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    operators: int = 0
    value_bytes: int = 0

    @property
    def fits(self) -> bool:
        return (
            len(" AND ".join(self.parts)) <= MAX_CHARACTERS
            and self.operators <= MAX_OPERATORS
            and self.value_bytes <= MAX_VALUE_BYTES
        )

    def with_conjunct(self, part: StoreFilter) -> "_Written":
        """These, and one more thing that must hold."""
        longer = replace(self, names=dict(self.names), values=dict(self.values), operators=self.operators + 1)
        longer.parts = *self.parts, longer.text(part, within_and=True)
        return longer

    def text(self, part: StoreFilter, *, within_and: bool) -> str:
        """A filter with no more parentheses than it needs: the protocol refuses some that it does not."""
        if isinstance(part, AllOf):
            self.operators += len(part.parts) - 1
            return " AND ".join(self.text(each, within_and=True) for each in part.parts)
        if isinstance(part, AnyOf):
            alternatives = [self.text(each, within_and=False) for each in part.parts]
        else:
            alternatives = [self._test(part)]
            if part.or_missing:
                self.operators += 1
                alternatives.append(f"attribute_not_exists({self._name(part.attribute)})")
        self.operators += len(alternatives) - 1
        joined = " OR ".join(alternatives)
        return f"({joined})" if within_and and len(alternatives) > 1 else joined

    def _test(self, test: AttributeTest) -> str:
        self.operators += 1
        name, values = self._name(test.attribute), [self._value(value) for value in test.values]
        if test.operation in _FUNCTIONS:
            return f"{_FUNCTIONS[test.operation]}({name}, {values[0]})"
        if test.operation == "in":
            return f"{name} IN ({', '.join(values)})"
        if test.operation == "between":
            return f"{name} BETWEEN {values[0]} AND {values[1]}"
        return f"{name} {_COMPARED[test.operation]} {values[0]}"

    def _name(self, attribute: str) -> str:
        return self.names.setdefault(attribute, f"#a{len(self.names)}")

    def _value(self, value: object) -> str:
        placeholder = f":a{len(self.values)}"
        self.values[placeholder] = encode_value(value, "the filter")
        self.value_bytes += value_size(value)
        return placeholder

    def projection(self, table: TableDefinition, index: IndexDefinition, attributes: Collection[str]) -> str | None:
        """The keys and these attributes, as far as the index carries them; None where that is all that it carries."""
        carried = carried_attributes(table, index)
        keys = {index.hash_attribute, index.range_attribute, table.hash_attribute, table.range_attribute}
        answered = frozenset(keys.union(attributes if carried is None else carried.intersection(attributes)))
        if answered == carried or len(answered) > MAX_ANSWERED:
            return None
        return ", ".join(self._name(attribute) for attribute in sorted(answered))


def _conjuncts(filter: StoreFilter) -> Iterator[StoreFilter]:
    if isinstance(filter, AllOf):
        for part in filter.parts:
            yield from _conjuncts(part)
    else:
        yield filter


def _testable(table: TableDefinition, index: IndexDefinition) -> Callable[[AttributeTest], bool]:
    """Tells which tests the protocol allows on an index."""
    carried = carried_attributes(table, index)
    keys = {index.hash_attribute, index.range_attribute, table.hash_attribute, table.range_attribute}

    def testable(test: AttributeTest) -> bool:
        if test.attribute in keys or (carried is not None and test.attribute not in carried):
            return False
        return _has_fit_values(test.operation, test.values) and all(map(_is_sendable, test.values))

    return testable


def _has_fit_values(operation: str, values: tuple[object, ...]) -> bool:
    match operation:
        case "eq":
            return True
        case "in":
            return 1 <= len(values) <= MAX_IN
        case "lt" | "le" | "gt" | "ge":
            return ordered_together(*values)
        case "between":
            low, high = values
            return ordered_together(low, high) and bool(low <= high)  # type: ignore[operator]  # it has an order
        case "prefix":
            return isinstance(values[0], str | bytes)
        case "contains":
            return isinstance(values[0], str)
    return False


def _is_sendable(value: object) -> bool:
    try:
        encode_value(value, "the filter")
    except StoreRefused:
        return False
    return True
