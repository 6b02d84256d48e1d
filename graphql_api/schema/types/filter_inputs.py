"""Input types of filters and of conditions on sort properties: one for each entity, composed of those of scalars."""

from collections.abc import Iterable
from typing import Any

import strawberry
from strawberry.annotation import StrawberryAnnotation
from strawberry.types.base import get_object_definition
from strawberry.types.field import StrawberryField
from strawberry.types.maybe import Some

from graphql_api.errors import FilterTooLarge
from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.query import (
    MAX_COMPARISONS,
    MAX_VALUES,
    Operand,
    ValueKind,
    element_codec,
    filter_property_name,
    kind_of,
    operators_of,
)
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.types.generated_fields import ListLimit, input_field, input_type, plain_field
from graphql_api.schema.types.graphql_scalars import graphql_scalar_name, make_nullable, strawberry_annotation
from graphql_api.schema.types.object_types import RecordTypes

_COMBINATORS = ("and", "or", "not")

_VALUES_LIMIT = ListLimit(MAX_VALUES, "values", FilterTooLarge, "use fewer")
_FILTERS_LIMIT = ListLimit(MAX_COMPARISONS, "filters", FilterTooLarge, "use fewer")

_Entry = tuple[str, Any, ListLimit | None]
"""Name and annotation of an input field, and the limit on its items."""

_list_of: Any = list


class FilterTypes:
    """Factory of the input types of filters and conditions; creates each type once."""

    def __init__(self, names: GraphQLNames, records: RecordTypes) -> None:
        self._names = names
        self._records = records
        self._types: dict[str, type] = {}

    # --- conditions --------------------------------------------------------------------------------------------

    def condition_type(self, entity: EntitySpec, part: PropertySpec) -> type:
        """Return the `@oneOf` input type of conditions on a property."""
        scalar, scalar_name = self._records.scalar_annotation(entity, part), self._records.scalar_name(part)
        name = f"{scalar_name}Condition"
        if name not in self._types:
            self._names.claim("type", name, f"the condition type of {scalar_name}", entity, part.name)
            kind = kind_of(part.codec)
            operators = operators_of(kind)
            fields = [_choice("eq", scalar)]
            if "prefix" in operators:
                fields.append(_choice("prefix", str))
            if operators["between"].in_schema_for(kind):
                fields += [
                    _choice("from_", scalar, name="from"),
                    _choice("to", scalar),
                    _choice("between", self._range_type(entity, part)),
                ]
            text = f"A condition on {scalar_name}: exactly one field."
            self._types[name] = input_type(name, fields, text, one_of=True)
        return self._types[name]

    def _range_type(self, entity: EntitySpec, part: PropertySpec) -> type:
        """Return the input type of ranges of a property's values."""
        scalar, scalar_name = self._records.scalar_annotation(entity, part), self._records.scalar_name(part)
        name = f"{scalar_name}Range"
        if name not in self._types:
            self._names.claim("type", name, f"the range type of {scalar_name}", entity, part.name)
            bounds = [plain_field("from_", scalar, name="from"), plain_field("to", scalar)]
            self._types[name] = input_type(name, bounds, f"A range of {scalar_name}, both bounds inclusive.")
        return self._types[name]

    # --- filters -----------------------------------------------------------------------------------------------

    def filter_type(self, entity: EntitySpec) -> type:
        """Return the input type of filters of an entity."""
        name = self._names.type_name(f"{entity.type_name}Filter")
        if name not in self._types:
            self._names.claim("type", name, f"the filter of {entity.type_name}", entity)
            entries: list[_Entry] = []
            for part in entity.shown_properties.values():
                property_name = filter_property_name(self._names.naming, part.name)
                entries.append((property_name, self._comparison_type(entity, part), None))
            entries += [(combinator, str, _FILTERS_LIMIT) for combinator in _COMBINATORS]
            text = f"A filter on {entity.type_name} records."
            filter_type = self._types[name] = _input_of_optional_fields(name, entries, text)
            for field in get_object_definition(filter_type, strict=True).fields:
                if field.graphql_name in _COMBINATORS:  # Combinators refer to the type itself, which exists only now.
                    annotation = filter_type if field.graphql_name == "not" else _list_of[filter_type]
                    field.type_annotation = StrawberryAnnotation(make_nullable(annotation))
        return self._types[name]

    def _comparison_type(self, entity: EntitySpec, part: PropertySpec) -> type:
        """Return the input type of comparisons with a property: the operators for its kind of values."""
        element = element_codec(entity, part)
        kind, codec = kind_of(part.codec, element), part.codec or element
        scalar = "" if codec is None else graphql_scalar_name(codec, self._records.enum_name)
        name, values = {
            ValueKind.LIST: (f"{scalar}ListFilter", f"lists of {scalar}"),
            ValueKind.NESTED: ("ValueFilter", "any value"),
        }.get(kind, (f"{scalar}Filter", scalar))
        if name not in self._types:
            self._names.claim("type", name, f"the comparisons of {values}", entity, part.name)
            common, operators = self._names.naming.common_argument, operators_of(kind).values()
            entries = [
                (
                    common(each.name),
                    self._operand_annotation(each.operand, entity, part),
                    _VALUES_LIMIT if each.operand is Operand.VALUES else None,
                )
                for each in operators
                if each.in_schema_for(kind)
            ]
            text = f"Comparisons with {values}."
            self._types[name] = _input_of_optional_fields(name, entries, text)
        return self._types[name]

    def _operand_annotation(self, operand: Operand, entity: EntitySpec, part: PropertySpec) -> Any:
        if operand is Operand.BOOLEAN:
            return bool
        if operand is Operand.RANGE:
            return self._range_type(entity, part)
        element = element_codec(entity, part)
        if element is None:
            value = self._records.scalar_annotation(entity, part)
        else:
            value = strawberry_annotation(element, self._records.enum_name)
        return _list_of[value] if operand is Operand.VALUES else value


def _choice(python_name: str, annotation: Any, *, name: str | None = None) -> StrawberryField:
    """Create a field of a `@oneOf` type."""
    maybe: Any = strawberry.Maybe
    return plain_field(python_name, maybe[annotation], name=name)


def _input_of_optional_fields(name: str, entries: Iterable[_Entry], description: str) -> type:
    """Create an input type; an explicit null in a field reaches the search, which rejects it with a message."""
    fields = [
        input_field(f"{field}_", field, annotation, None, required=False, limit=limit)
        for field, annotation, limit in entries
    ]
    return input_type(name, fields, description)


def to_condition(input_object: Any) -> dict[str, Any]:
    """Convert an input object to a condition of a search; GraphQL has checked that exactly one of its fields is set."""
    ((name, value),) = (
        (name, field.value)
        for name in ("eq", "prefix", "from_", "to", "between")
        if isinstance(field := getattr(input_object, name, None), Some)
    )
    return {"from_": value.from_, "to": value.to} if name == "between" else {name: value}


def to_filter(value: Any) -> Any:
    """Convert an input object to the mapping that searches accept; other values are returned unchanged."""
    if isinstance(value, list):
        return [to_filter(item) for item in value]
    definition = get_object_definition(value)
    if definition is None:
        return value
    return {
        field.graphql_name or field.python_name: to_filter(field_value)
        for field in definition.fields
        if (field_value := getattr(value, field.python_name)) is not strawberry.UNSET
    }
