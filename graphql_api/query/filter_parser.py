"""Parse the argument `filter` of a search into a checked filter."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphql_api.codecs import Codec, short_repr
from graphql_api.errors import ConflictingArguments, FilterTooLarge, InvalidValue, UnknownArgument, about, nearest
from graphql_api.model import EntitySpec, PropertySpec, item_codec, to_attribute_value
from graphql_api.query.argument_values import search_value
from graphql_api.query.filter_operators import PLAIN, Operand, ValueKind, kind_of, operators_of
from graphql_api.query.filters import Combination, Comparison, Filter, Not, conjuncts
from graphql_api.query.search_request import PYTHON_NAMES, NamingScheme

MAX_COMPARISONS = 100
"""comparisons in one filter"""

MAX_VALUES = 100
"""values of one `in`"""

MAX_NESTING = 10
"""levels of nested and, or and not"""

LOGICAL_OPERATORS = ("and", "or", "not")


def parse_filter(entity: EntitySpec, source: Any, naming: NamingScheme = PYTHON_NAMES) -> Filter | None:
    """Parse and check a filter: `{"phone": {"exists": True}, "or": [{"total": {"gt": 5}}, {"status": "open"}]}`."""
    if source is None:
        return None
    parser = _FilterParser(entity, naming)
    argument = naming.common_argument("filter")
    with about(argument):
        filter = parser.parse(source, 0)
        if parser.comparisons > MAX_COMPARISONS:
            raise FilterTooLarge(
                f"The filter has {parser.comparisons} comparisons, and at most {MAX_COMPARISONS} are allowed: "
                "use fewer.",
                argument=argument,
            )
    return filter if conjuncts(filter) else None


def filter_property_name(naming: NamingScheme, python_name: str) -> str:
    """Return the name of a property in filters; an underscore separates it from a logical operator of that name."""
    name = naming.property_name(python_name)
    return f"{name}_" if name in LOGICAL_OPERATORS else name


def element_codec(entity: EntitySpec, part: PropertySpec) -> Codec[Any] | None:
    """Return the codec of the elements of a list or set, if all of them are plain values of one type."""
    return None if part.codec is not None else item_codec(entity.model.model_fields[part.name].annotation)


class _FilterParser:
    def __init__(self, entity: EntitySpec, naming: NamingScheme) -> None:
        self.comparisons = 0
        self._parts = {filter_property_name(naming, part.name): part for part in entity.properties.values()}
        self._operators = {naming.common_argument(name): name for name in operators_of()}
        self._entity = entity

    def parse(self, source: Any, depth: int) -> Filter:
        if depth > MAX_NESTING:
            raise FilterTooLarge(f"and, or and not are nested more than {MAX_NESTING} levels deep: flatten the filter.")
        if not isinstance(source, Mapping):
            raise InvalidValue(f"A filter maps property names to comparisons, it is not {short_repr(source)}.")
        before = self.comparisons
        parts = tuple(self._entries(source, depth))
        if depth and self.comparisons == before:
            self.comparisons += 1  # A part without comparisons takes as much time to process.
        return parts[0] if len(parts) == 1 else Combination("and", conjuncts(Combination("and", parts)))

    def _entries(self, source: Mapping[str, Any], depth: int) -> Iterator[Filter]:
        for name, operand in source.items():
            if name == "not":
                yield Not(self.parse(operand, depth + 1))
            elif name in LOGICAL_OPERATORS:
                if isinstance(operand, Mapping | str) or not isinstance(operand, Sequence):
                    raise InvalidValue(f"{name} takes a list of filters.")
                parts = tuple(self.parse(part, depth + 1) for part in operand)
                yield Combination("and" if name == "and" else "or", parts)
            elif name in self._parts:
                yield from self._comparisons(name, self._parts[name], operand)
            else:
                hint = nearest(str(name), [*self._parts, *LOGICAL_OPERATORS])
                raise UnknownArgument(f"{self._entity.type_name} has no property {short_repr(name)}.{hint}")

    def _comparisons(self, name: str, part: PropertySpec, operand: Any) -> Iterator[Filter]:
        by_operator = operand if isinstance(operand, Mapping) else {"eq": operand}
        for operator, value in by_operator.items():
            self.comparisons += 1
            try:
                yield self._comparison(part, str(operator).removesuffix("_"), value)
            except InvalidValue as problem:
                raise InvalidValue(f"{name}.{operator}: {problem.message}") from problem

    def _comparison(self, part: PropertySpec, name: str, value: Any) -> Comparison:
        if name not in self._operators:
            raise InvalidValue(
                f"Unknown operator.{nearest(name, self._operators)} The operators are {', '.join(self._operators)}."
            )
        if value is None:
            raise InvalidValue("A comparison with null matches nothing: use exists: false to find missing values.")
        element = element_codec(self._entity, part)
        operator = operators_of(kind_of(part.codec, element)).get(self._operators[name])
        if operator is None:
            raise InvalidValue(self._refusal(name, part))
        values = _operand_values(name, operator.operand, value)
        if operator.operand is not Operand.BOOLEAN:
            values = tuple(self._value(part, element, each) for each in values)
        return Comparison(part, operator, values)

    def _value(self, part: PropertySpec, element: Codec[Any] | None, value: Any) -> Any:
        """Return a value to compare with; values of derived properties are derived as on write."""
        if element is not None:
            return to_attribute_value(element.check(value))
        return search_value(self._entity, part, value)

    def _refusal(self, name: str, part: PropertySpec) -> str:
        """Return why an operator does not apply to a property, for an error message."""
        kinds = [kind for kind in ValueKind if self._operators[name] in operators_of(kind)]
        if part.codec is not None:
            plain = [kind for kind in kinds if kind in PLAIN]
            return f"{name} applies only to {' and '.join(plain or kinds)}, and this property is {part.codec.name}."
        if ValueKind.LIST in kinds:
            return f"{name} applies only to {', and to '.join(kinds)}."
        nested, lists = (
            [known for known, operator in self._operators.items() if operator in operators_of(kind)]
            for kind in (ValueKind.NESTED, ValueKind.LIST)
        )
        more = " and ".join(known for known in lists if known not in nested)
        return f"Only {' and '.join(nested)} applies to this property, and {more} if it is a list or set."


def _operand_values(name: str, operand: Operand, value: Any) -> tuple[Any, ...]:
    """Return the values of an operand, whose shape is checked."""
    if operand is Operand.BOOLEAN and not isinstance(value, bool):
        raise InvalidValue(f"{name} is true or false, not {short_repr(value)}.")
    if operand is Operand.RANGE:
        return _bounds(name, value)
    if operand is not Operand.VALUES:
        return (value,)
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence | frozenset | set):
        raise InvalidValue(f"{name} takes a list of values, not {short_repr(value)}.")
    if len(value) > MAX_VALUES:
        raise FilterTooLarge(f"{name} has {len(value)} values, and at most {MAX_VALUES} are allowed: use fewer.")
    return tuple(value)


def _bounds(name: str, value: Any) -> tuple[Any, ...]:
    bounds: Sequence[Any] = ()
    if isinstance(value, Mapping):
        bounds = (value.get("from", value.get("from_")), value.get("to"))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        bounds = value
    if len(bounds) != 2 or None in bounds:
        raise ConflictingArguments(f"{name} takes two values, from and to.")
    return tuple(bounds)
