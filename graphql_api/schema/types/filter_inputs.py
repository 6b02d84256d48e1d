"""Input types of filters: one for each entity, composed of one for each scalar."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import strawberry
from strawberry.annotation import StrawberryAnnotation
from strawberry.types.base import get_object_definition
from strawberry.types.field import StrawberryField

from graphql_api.codecs import Boolean, Codec, Text
from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.query import element_codec, filter_property_name
from graphql_api.schema import descriptions
from graphql_api.schema.descriptions import COMBINATORS, OPERATORS
from graphql_api.schema.graphql_names import GraphQLNames, NameRegistry, declared_at
from graphql_api.schema.types.condition_inputs import ConditionTypes
from graphql_api.schema.types.graphql_scalars import graphql_scalar_name, make_nullable, strawberry_annotation
from graphql_api.schema.types.object_types import RecordTypes, input_type, plain_field


class FilterTypes:
    """Factory of the input types of filters; creates each type once."""

    def __init__(
        self, names: GraphQLNames, records: RecordTypes, conditions: ConditionTypes, registry: NameRegistry
    ) -> None:
        self._names = names
        self._records = records
        self._conditions = conditions
        self._registry = registry
        self._filters: dict[str, type] = {}
        """Filter types of entities, by name."""
        self._comparisons: dict[str, type] = {}
        """Comparison types of single values and lists, by name."""

    def filter_type(self, entity: EntitySpec) -> type:
        """Return the input type of filters of an entity."""
        name = self._names.type_name(f"{entity.type_name}Filter")
        if name not in self._filters:
            self._registry.claim_type(name, declared_at(entity), f"the filter of {entity.type_name}")
            self._filters[name] = self._create_filter_type(entity, name)
        return self._filters[name]

    def _create_filter_type(self, entity: EntitySpec, name: str) -> type:
        fields = [
            _optional_field(
                filter_property_name(self._names.naming, part.name),
                self._comparison_type(entity, part),
                descriptions.property_description(part),
            )
            for part in entity.properties.values()
        ]
        fields += [_optional_field(name, str, description) for name, description in COMBINATORS.items()]
        filter_type = input_type(name, fields, descriptions.record_filter(entity))
        several: Any = list
        for field in get_object_definition(filter_type, strict=True).fields:
            if field.graphql_name in COMBINATORS:  # Combinators refer to the type itself, which exists only now.
                annotation = filter_type if field.graphql_name == "not" else several[filter_type]
                field.type_annotation = StrawberryAnnotation(make_nullable(annotation))
        return filter_type

    def _comparison_type(self, entity: EntitySpec, part: PropertySpec) -> type:
        if part.codec is not None:
            return self._scalar_comparison(entity, part)
        codec = element_codec(entity, part)
        if codec is not None:
            return self._list_comparison(entity, part, codec)
        return self._existence_comparison(entity, part)

    def _scalar_comparison(self, entity: EntitySpec, part: PropertySpec) -> type:
        codec = part.column.codec
        scalar, scalar_name = self._records.scalar_annotation(entity, part), self._records.scalar_name(part)
        name = f"{scalar_name}Filter"
        if name not in self._comparisons:
            self._registry.claim_type(name, declared_at(entity, part.name), f"the comparisons of {scalar_name}")
            several: Any = list
            operators: dict[str, Any] = {"eq": scalar, "ne": scalar, "in": several[scalar]}
            if not isinstance(codec, Boolean):
                operators |= dict.fromkeys(("lt", "le", "gt", "ge"), scalar)
                operators["between"] = self._conditions.range_type(entity, part)
            if isinstance(codec, Text):
                operators |= {"prefix": str, "contains": str}
            self._comparisons[name] = _create_comparison_type(name, operators)
        return self._comparisons[name]

    def _list_comparison(self, entity: EntitySpec, part: PropertySpec, codec: Codec[Any]) -> type:
        item_name = graphql_scalar_name(codec, self._records.enum_name)
        name = f"{item_name}ListFilter"
        if name not in self._comparisons:
            self._registry.claim_type(name, declared_at(entity, part.name), f"the comparisons of lists of {item_name}")
            item = strawberry_annotation(codec, self._records.enum_name)
            self._comparisons[name] = _create_comparison_type(
                name, {"contains": item}, {"contains": descriptions.LIST_CONTAINS}
            )
        return self._comparisons[name]

    def _existence_comparison(self, entity: EntitySpec, part: PropertySpec) -> type:
        """Return the type for values that can only be tested for existence."""
        name = "ValueFilter"
        if name not in self._comparisons:
            self._registry.claim_type(name, declared_at(entity, part.name), "the comparisons of any value")
            self._comparisons[name] = _create_comparison_type(name, {})
        return self._comparisons[name]


def _create_comparison_type(
    name: str, operators: Mapping[str, Any], texts: Mapping[str, str] = MappingProxyType({})
) -> type:
    fields = [
        _optional_field(operator, annotation, texts.get(operator) or OPERATORS[operator])
        for operator, annotation in {**operators, "exists": bool}.items()
    ]
    return input_type(name, fields, descriptions.COMPARISON)


def _optional_field(name: str, annotation: Any, description: str) -> StrawberryField:
    """Create an optional field; an explicit null reaches the search, which rejects it with a message."""
    return plain_field(
        f"{name}_", make_nullable(annotation), name=name, description=description, default=strawberry.UNSET
    )


def to_filter(value: Any) -> Any:
    """Convert an input object to the mapping that searches accept; other values are returned unchanged."""
    if isinstance(value, list):
        return [to_filter(item) for item in value]
    definition = get_object_definition(value)
    if definition is None:
        return value
    filter = {}
    for field in definition.fields:
        field_value = getattr(value, field.python_name)
        if field_value is not strawberry.UNSET:
            filter[field.graphql_name or field.python_name] = to_filter(field_value)
    return filter
