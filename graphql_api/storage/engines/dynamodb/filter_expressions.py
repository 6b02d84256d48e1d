"""Filter and projection expressions of queries.

Both are optional in the port. So everything that DynamoDB does not support is omitted: tests of key attributes and of
attributes that the index lacks, operands of the wrong type, and whatever exceeds the limits of an expression.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graphql_api.errors import StoreRefused
from graphql_api.storage import (
    AllOf,
    AnyOf,
    AttributeTest,
    IndexDefinition,
    StoreFilter,
    TableDefinition,
    are_comparable,
    keep_supported_tests,
    key_attributes,
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


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation of `AttributeTest` as an expression, and the operands that DynamoDB accepts."""

    expression: str
    accepts: Callable[[tuple[Any, ...]], bool] = lambda operands: are_comparable(*operands)


OPERATIONS: Mapping[str, _Operation] = {
    "eq": _Operation("{name} = {values}", lambda _: True),
    "in": _Operation("{name} IN ({values})", lambda operands: 1 <= len(operands) <= MAX_IN),
    "lt": _Operation("{name} < {values}"),
    "le": _Operation("{name} <= {values}"),
    "gt": _Operation("{name} > {values}"),
    "ge": _Operation("{name} >= {values}"),
    "between": _Operation(
        "{name} BETWEEN {0} AND {1}", lambda operands: are_comparable(*operands) and bool(operands[0] <= operands[1])
    ),
    "prefix": _Operation("begins_with({name}, {values})", lambda operands: isinstance(operands[0], str | bytes)),
    "contains": _Operation("contains({name}, {values})", lambda operands: isinstance(operands[0], str)),
}
"""operations that DynamoDB supports; all others are not sent"""


@dataclass(frozen=True, slots=True)
class QueryExpressions:
    """The expressions of a query, with their placeholders."""

    filter: str | None = None
    projection: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Wire] = field(default_factory=dict)


def build_expressions(
    table: TableDefinition, index: IndexDefinition, filter: StoreFilter | None, attributes: Collection[str] | None
) -> QueryExpressions:
    """Build the part of the filter that a query of this index can test, and the projection.

    There is no projection if it equals that of the index.
    """
    projected, keys = projected_attributes(table, index), key_attributes(table, index)

    def is_testable(test: AttributeTest) -> bool:
        if test.attribute in keys or (projected is not None and test.attribute not in projected):
            return False
        return OPERATIONS[test.operation].accepts(test.values) and all(map(_is_encodable, test.values))

    builder = _ExpressionBuilder(names={index.hash_attribute: "#h", index.range_attribute: "#r"})
    for part in _conjuncts(keep_supported_tests(filter, OPERATIONS, is_testable)):
        extended = builder.with_conjunct(part)
        builder = extended if extended.fits else builder
    projection = None
    if attributes is not None:
        returned = keys.union(attributes if projected is None else projected.intersection(attributes))
        if returned != projected and len(returned) <= MAX_PROJECTED:
            projection = ", ".join(map(builder.name, sorted(returned)))
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
            self.operators += 1
            name, values = self.name(part.attribute), [self._value(value) for value in part.values]
            expression = OPERATIONS[part.operation].expression
            alternatives = [expression.format(*values, name=name, values=", ".join(values))]
            if part.or_missing:
                self.operators += 1
                alternatives.append(f"attribute_not_exists({name})")
        self.operators += len(alternatives) - 1
        joined = " OR ".join(alternatives)
        return f"({joined})" if within_and and len(alternatives) > 1 else joined

    def name(self, attribute: str) -> str:
        """Return the placeholder of an attribute name."""
        return self.names.setdefault(attribute, f"#a{len(self.names)}")

    def _value(self, value: object) -> str:
        placeholder = f":a{len(self.values)}"
        self.values[placeholder] = encode_value(value, "the filter")
        self.value_bytes += value_size(value)
        return placeholder


def _conjuncts(filter: StoreFilter | None) -> list[StoreFilter]:
    if isinstance(filter, AllOf):
        return [conjunct for part in filter.parts for conjunct in _conjuncts(part)]
    return [] if filter is None else [filter]


def _is_encodable(value: object) -> bool:
    try:
        encode_value(value, "the filter")
    except StoreRefused:
        return False
    return True
