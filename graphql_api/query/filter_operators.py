"""The operators of filters: one entry defines an operator for Python, GraphQL, explain output and evaluation.

An operator is evaluated after the read, on every engine. Engines also evaluate those that the `Store` port defines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from graphql_api.codecs import Between, Codec, Condition, Eq, Prefix, short_repr
from graphql_api.storage import ATTRIBUTE_OPERATIONS

Operands = tuple[Any, ...]


class Operand(Enum):
    """The shape of an operand; a value has the type of the property, or of the elements of a list."""

    VALUE = "one value"
    VALUES = "a list of values"
    RANGE = "two values, from and to"
    BOOLEAN = "true or false"


class ValueKind(StrEnum):
    """The kinds of property values that differ in their operators."""

    TEXT = "texts"
    BOOLEAN = "booleans"
    SCALAR = "numbers, times and other plain values"
    LIST = "lists and sets of plain values"
    NESTED = "nested values"


PLAIN = frozenset({ValueKind.TEXT, ValueKind.BOOLEAN, ValueKind.SCALAR})


@dataclass(frozen=True, kw_only=True)
class FilterOperator:
    """An operator of filters; `matches` decides on a value of the kinds in `applies_to`."""

    name: str
    """in Python; GraphQL uses the name in camel case"""
    description: str
    """for the GraphQL schema"""
    operand: Operand
    applies_to: frozenset[ValueKind]
    matches: Callable[[Any, Operands], bool]
    """evaluation on a value that is not missing, in its plain form; in its encoded form if the operator is `ordered`"""
    matches_missing: Callable[[Operands], bool] = lambda _: False
    ordered: bool = False
    """compares encoded values, which sort like the values; not offered for booleans in GraphQL"""
    implied_condition: Callable[[Operands], Condition] | None = None
    """a condition that every match meets, which narrows key ranges"""
    describe: Callable[[Operands], str] | None = None
    """text for explain output instead of the name and the operands"""

    def __post_init__(self) -> None:
        for part in ("name", "description", "operand", "applies_to", "matches"):
            if not getattr(self, part):
                raise ValueError(f"The filter operator {self.name!r} has no {part}: provide it.")

    def in_schema_for(self, kind: ValueKind) -> bool:
        """Check whether GraphQL offers the operator for a kind of values."""
        return kind in self.applies_to and not (self.ordered and kind is ValueKind.BOOLEAN)

    def text(self, operands: Operands) -> str:
        """Format the operator and its operands for explain output and error messages."""
        if self.describe is not None:
            return self.describe(operands)
        return f"{self.name} {', '.join(short_repr(getattr(value, 'value', value)) for value in operands)}"


def _port_operator(
    name: str,
    description: str,
    operand: Operand = Operand.VALUE,
    *,
    applies_to: frozenset[ValueKind] = PLAIN,
    ordered: bool = False,
    implied: Callable[[Operands], Condition] | None = None,
) -> FilterOperator:
    """Return an operator that the `Store` port defines, with the meaning that it has there."""
    return FilterOperator(
        name=name,
        description=description,
        operand=operand,
        applies_to=applies_to,
        matches=ATTRIBUTE_OPERATIONS[name],
        ordered=ordered,
        implied_condition=implied,
    )


EQ = _port_operator("eq", "Equal to this value.", implied=lambda operands: Eq(operands[0]))
NE = FilterOperator(
    name="ne",
    description="Not equal to this value. Also matches records without a value.",
    operand=Operand.VALUE,
    applies_to=PLAIN,
    matches=lambda value, operands: not EQ.matches(value, operands),
    matches_missing=lambda _: True,
)


def _up_to(operands: Operands) -> Condition:
    return Between(None, operands[0])


def _from(operands: Operands) -> Condition:
    return Between(operands[0], None)


_TEXT, _LIST = frozenset({ValueKind.TEXT}), frozenset({ValueKind.LIST})

OPERATORS = (
    EQ,
    NE,
    _port_operator("in", "Equal to one of these values.", Operand.VALUES),
    _port_operator("lt", "Less than this value.", ordered=True, implied=_up_to),
    _port_operator("le", "Less than or equal to this value.", ordered=True, implied=_up_to),
    _port_operator("gt", "Greater than this value.", ordered=True, implied=_from),
    _port_operator("ge", "Greater than or equal to this value.", ordered=True, implied=_from),
    _port_operator(
        "between",
        "Between two values, both inclusive.",
        Operand.RANGE,
        ordered=True,
        implied=lambda operands: Between(*operands),
    ),
    _port_operator("prefix", "Starts with this text.", applies_to=_TEXT, implied=lambda operands: Prefix(operands[0])),
    _port_operator("contains", "Contains this text.", applies_to=_TEXT),
    _port_operator("contains", "The list contains this value.", applies_to=_LIST),
    FilterOperator(
        name="exists",
        description="Whether the property has a value.",
        operand=Operand.BOOLEAN,
        applies_to=frozenset(ValueKind),
        matches=lambda _, operands: bool(operands[0]),
        matches_missing=lambda operands: not operands[0],
        describe=lambda operands: "exists" if operands[0] else "does not exist",
    ),
)
"""all operators, in the order of the schema"""


def operators_of(kind: ValueKind | None = None) -> Mapping[str, FilterOperator]:
    """Return the operators for a kind of values, or for any kind, by name."""
    return {operator.name: operator for operator in OPERATORS if kind is None or kind in operator.applies_to}


def kind_of(codec: Codec[Any] | None, element: Codec[Any] | None = None) -> ValueKind:
    """Return the kind of a property's values, from its codec or the codec of its elements."""
    if codec is None:
        return ValueKind.NESTED if element is None else ValueKind.LIST
    if codec.kind == "text":
        return ValueKind.TEXT
    return ValueKind.SCALAR if codec.is_ordered else ValueKind.BOOLEAN
