"""Parse the `filter` argument of a search into a checked filter."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphql_api.codecs import Codec, Text, short_repr
from graphql_api.errors import ConflictingArguments, FilterTooLarge, InvalidValue, UnknownArgument, about, nearest
from graphql_api.model import EntitySpec, PropertySpec, item_codec, to_attribute_value
from graphql_api.query.filters import OPERATORS, And, Comparison, Filter, Not, Or, conjuncts
from graphql_api.query.naming_scheme import PYTHON_NAMES, NamingScheme
from graphql_api.query.search_values import search_value

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
    return item_codec(entity.model.model_fields[part.name].annotation)


class _FilterParser:
    def __init__(self, entity: EntitySpec, naming: NamingScheme) -> None:
        self.comparisons = 0
        self._parts = {filter_property_name(naming, part.name): part for part in entity.properties.values()}
        self._entity = entity

    def parse(self, source: Any, depth: int) -> Filter:
        if depth > MAX_NESTING:
            raise FilterTooLarge(f"and, or and not are nested more than {MAX_NESTING} levels deep: flatten the filter.")
        if not isinstance(source, Mapping):
            raise InvalidValue(f"A filter maps property names to comparisons, it is not {short_repr(source)}.")
        parts = tuple(self._entries(source, depth))
        return parts[0] if len(parts) == 1 else And(conjuncts(And(parts)))

    def _entries(self, source: Mapping[str, Any], depth: int) -> Iterator[Filter]:
        for name, operand in source.items():
            if name == "not":
                yield Not(self.parse(operand, depth + 1))
            elif name in LOGICAL_OPERATORS:
                if isinstance(operand, Mapping | str) or not isinstance(operand, Sequence):
                    raise InvalidValue(f"{name} takes a list of filters.")
                parts = tuple(self.parse(part, depth + 1) for part in operand)
                yield And(parts) if name == "and" else Or(parts)
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

    def _comparison(self, part: PropertySpec, operator: str, value: Any) -> Comparison:
        if operator not in OPERATORS:
            raise InvalidValue(
                f"Unknown operator.{nearest(operator, OPERATORS)} The operators are {', '.join(OPERATORS)}."
            )
        if value is None:
            raise InvalidValue("A comparison with null matches nothing: use exists: false to find missing values.")
        if operator == "exists":
            if not isinstance(value, bool):
                raise InvalidValue(f"exists is true or false, not {short_repr(value)}.")
            return Comparison(part, operator, (value,))
        if operator == "contains" and part.codec is None:
            codec = element_codec(self._entity, part)
            if codec is None:
                raise InvalidValue("contains applies only to texts, and to lists and sets of plain values.")
            return Comparison(part, operator, (to_attribute_value(codec.check(value)),))
        if part.codec is None:
            raise InvalidValue("Only exists applies to this property, and contains if it is a list or set.")
        if operator in ("prefix", "contains") and not isinstance(part.codec, Text):
            raise InvalidValue(f"{operator} applies only to texts, and this property is {part.codec.name}.")
        return Comparison(part, operator, _check_values(self._entity, part, operator, value))


def _check_values(entity: EntitySpec, part: PropertySpec, operator: str, value: Any) -> tuple[Any, ...]:
    """Return the values to compare with; values of derived properties are derived as on write."""
    values: Sequence[Any] = (value,)
    if operator == "in":
        if isinstance(value, str | Mapping) or not isinstance(value, Sequence | frozenset | set):
            raise InvalidValue(f"in takes a list of values, not {short_repr(value)}.")
        if len(value) > MAX_VALUES:
            raise FilterTooLarge(f"in has {len(value)} values, and at most {MAX_VALUES} are allowed: use fewer.")
        values = tuple(value)
    elif operator == "between":
        values = _bounds(value)
    return tuple(search_value(entity, part, each) for each in values)


def _bounds(value: Any) -> tuple[Any, Any]:
    if isinstance(value, Mapping):
        bounds = [value.get("from", value.get("from_")), value.get("to")]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        bounds = [*value]
    else:
        bounds = []
    if len(bounds) != 2 or None in bounds:
        raise ConflictingArguments("between takes two values, from and to.")
    return bounds[0], bounds[1]
