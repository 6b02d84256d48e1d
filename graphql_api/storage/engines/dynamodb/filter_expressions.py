"""Filter and projection expressions of queries.

Both are optional in the port. So everything that DynamoDB does not support is omitted: tests of key attributes and of
attributes that the index lacks, operands of the wrong type, and whatever exceeds the limits of an expression.
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
    are_comparable,
    keep_supported_tests,
    projected_attributes,
    value_size,
)
from graphql_api.storage.engines.dynamodb.wire_format import Wire, encode_value

MAX_CHARACTERS = 4_000
"""characters of an expression; DynamoDB allows 4,096 bytes"""

MAX_OPERATORS = 250
"""operators of an expression; DynamoDB allows 300"""

MAX_IN = 100
"""values of one IN"""

MAX_VALUE_BYTES = 64 * 1024
"""bytes of all values, which each query sends; DynamoDB allows about 1 MB"""

MAX_PROJECTED = 100
"""attributes of a projection; beyond this, the query returns all attributes"""

_COMPARED = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTIONS = {"prefix": "begins_with", "contains": "contains"}


@dataclass(frozen=True, slots=True)
class QueryExpressions:
    """The expressions of a query, with their placeholders."""

    filter: str | None = None
    projection: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Wire] = field(default_factory=dict)


def build_expressions_of_reads(
    table: TableDefinition, index: IndexDefinition, reads: Sequence[RangeRead]
) -> list[QueryExpressions]:
    """Return the expressions of each read. Reads of one search share their filter, which is built once."""
    expressions: list[QueryExpressions] = []
    for number, read in enumerate(reads):
        previous = reads[number - 1]
        if expressions and read.filter is previous.filter and read.attributes == previous.attributes:
            expressions.append(expressions[-1])
        else:
            expressions.append(build_expressions(table, index, read.filter, read.attributes))
    return expressions


def build_expressions(
    table: TableDefinition, index: IndexDefinition, filter: StoreFilter | None, attributes: Collection[str] | None
) -> QueryExpressions:
    """Build the part of the filter that a query of this index can test, and the projection."""
    builder = _ExpressionBuilder(names={index.hash_attribute: "#h", index.range_attribute: "#r"})
    testable_filter = None if filter is None else keep_supported_tests(filter, _supports_test(table, index))
    if testable_filter is not None:
        for part in _conjuncts(testable_filter):
            extended = builder.with_conjunct(part)
            builder = extended if extended.fits else builder
    projection = None if attributes is None else builder.projection(table, index, attributes)
    names = {placeholder: name for name, placeholder in builder.names.items() if placeholder not in {"#h", "#r"}}
    if projection is not None:
        names["#r"] = index.range_attribute
    return QueryExpressions(" AND ".join(builder.parts) or None, projection, names, builder.values)


@dataclass(slots=True)
class _ExpressionBuilder:
    """Expressions that are being built."""

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

    def with_conjunct(self, part: StoreFilter) -> "_ExpressionBuilder":
        """Return these expressions with one more condition that must hold."""
        extended = replace(self, names=dict(self.names), values=dict(self.values), operators=self.operators + 1)
        extended.parts = *self.parts, extended.text(part, within_and=True)
        return extended

    def text(self, part: StoreFilter, *, within_and: bool) -> str:
        """Return a filter with minimal parentheses, because DynamoDB refuses redundant ones."""
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
        """Return the projection of keys and attributes, or None if it equals what the index projects."""
        projected = projected_attributes(table, index)
        keys = {index.hash_attribute, index.range_attribute, table.hash_attribute, table.range_attribute}
        returned = frozenset(keys.union(attributes if projected is None else projected.intersection(attributes)))
        if returned == projected or len(returned) > MAX_PROJECTED:
            return None
        return ", ".join(self._name(attribute) for attribute in sorted(returned))


def _conjuncts(filter: StoreFilter) -> Iterator[StoreFilter]:
    if isinstance(filter, AllOf):
        for part in filter.parts:
            yield from _conjuncts(part)
    else:
        yield filter


def _supports_test(table: TableDefinition, index: IndexDefinition) -> Callable[[AttributeTest], bool]:
    """Return a function that decides whether DynamoDB supports a test on an index."""
    projected = projected_attributes(table, index)
    keys = {index.hash_attribute, index.range_attribute, table.hash_attribute, table.range_attribute}

    def is_testable(test: AttributeTest) -> bool:
        if test.attribute in keys or (projected is not None and test.attribute not in projected):
            return False
        return _has_valid_operands(test.operation, test.values) and all(map(_is_encodable, test.values))

    return is_testable


def _has_valid_operands(operation: str, values: tuple[object, ...]) -> bool:
    match operation:
        case "eq":
            return True
        case "in":
            return 1 <= len(values) <= MAX_IN
        case "lt" | "le" | "gt" | "ge":
            return are_comparable(*values)
        case "between":
            low, high = values
            return are_comparable(low, high) and bool(low <= high)  # type: ignore[operator]  # they are comparable
        case "prefix":
            return isinstance(values[0], str | bytes)
        case "contains":
            return isinstance(values[0], str)
    return False


def _is_encodable(value: object) -> bool:
    try:
        encode_value(value, "the filter")
    except StoreRefused:
        return False
    return True
