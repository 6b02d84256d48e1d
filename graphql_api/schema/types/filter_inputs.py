"""The input types of filters: one for each entity, made of one for each scalar."""

from collections.abc import Mapping
from typing import Any

import strawberry
from strawberry.annotation import StrawberryAnnotation
from strawberry.types.base import get_object_definition
from strawberry.types.field import StrawberryField

from graphql_api.codecs import Boolean, Codec, Text
from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.query import item_codec, property_in_filters
from graphql_api.schema.graphql_names import Names, Register, at, with_article
from graphql_api.schema.types.condition_inputs import ConditionTypes
from graphql_api.schema.types.graphql_scalars import annotation_of, name_of, or_null
from graphql_api.schema.types.object_types import RecordTypes, input_type, plain_field

_WORDS = {
    "eq": "Exactly this value.",
    "ne": "Any other value, or none.",
    "in": "One of these values.",
    "lt": "Less than this value.",
    "le": "At most this value.",
    "gt": "More than this value.",
    "ge": "At least this value.",
    "between": "From one value to another, both included.",
    "prefix": "Texts that begin so.",
    "contains": "Texts that hold this one.",
    "exists": "Whether there is a value at all.",
}
_JOINTS = {"and": "All of these.", "or": "At least one of these.", "not": "What this one leaves out."}


class FilterTypes:
    """Makes the input types of filters, each once."""

    def __init__(self, names: Names, records: RecordTypes, conditions: ConditionTypes, register: Register) -> None:
        self._names = names
        self._records = records
        self._conditions = conditions
        self._register = register
        self._entities: dict[str, type] = {}
        self._made: dict[str, type] = {}
        """the comparisons of single values"""

    def of(self, entity: EntitySpec) -> type:
        """The input type of filters of an entity."""
        name = self._names.type(f"{entity.type_name}Filter")
        if name not in self._entities:
            self._register.type(name, at(entity), f"the filter of {entity.type_name}")
            self._entities[name] = self._entity(entity, name)
        return self._entities[name]

    def _entity(self, entity: EntitySpec, name: str) -> type:
        fields = [
            self._property(entity, part, property_in_filters(self._names.dialect, part.name))
            for part in entity.properties.values()
        ]
        fields += [_given(name, str, words) for name, words in _JOINTS.items()]
        words = f"What must hold of {with_article(entity.type_name)}: everything that is said, together."
        made = input_type(name, fields, words)
        several: Any = list
        for field in get_object_definition(made, strict=True).fields:
            if field.graphql_name in _JOINTS:  # They join filters of the type that is only there now.
                itself = made if field.graphql_name == "not" else several[made]
                field.type_annotation = StrawberryAnnotation(or_null(itself))
        return made

    def _property(self, entity: EntitySpec, part: PropertySpec, name: str) -> StrawberryField:
        description = part.description or f"The {part.stored}."
        return _given(name, self._comparisons(entity, part), description)

    def _comparisons(self, entity: EntitySpec, part: PropertySpec) -> type:
        if part.codec is not None:
            return self._of_scalar(entity, part)
        codec = item_codec(entity, part)
        return self._of_list(entity, part, codec) if codec is not None else self._of_anything(entity, part)

    def _of_scalar(self, entity: EntitySpec, part: PropertySpec) -> type:
        codec = part.column.codec
        scalar, scalar_name = self._records.scalar(entity, part), name_of(codec, self._records.enum_name)
        name = f"{scalar_name}Filter"
        if name not in self._made:
            self._register.type(name, at(entity, part.name), f"the comparisons of {scalar_name}")
            several: Any = list
            operations: dict[str, Any] = {"eq": scalar, "ne": scalar, "in": several[scalar]}
            if not isinstance(codec, Boolean):
                operations |= dict.fromkeys(("lt", "le", "gt", "ge"), scalar)
                operations["between"] = self._conditions.range_of(entity, part)
            if isinstance(codec, Text):
                operations |= {"prefix": str, "contains": str}
            self._made[name] = _comparing(name, operations)
        return self._made[name]

    def _of_list(self, entity: EntitySpec, part: PropertySpec, codec: Codec[Any]) -> type:
        item_name = name_of(codec, self._records.enum_name)
        name = f"{item_name}ListFilter"
        if name not in self._made:
            self._register.type(name, at(entity, part.name), f"the comparisons of lists of {item_name}")
            item = annotation_of(codec, self._records.enum_name)
            self._made[name] = _comparing(name, {"contains": item}, words="Lists that hold this value.")
        return self._made[name]

    def _of_anything(self, entity: EntitySpec, part: PropertySpec) -> type:
        if "ValueFilter" not in self._made:
            self._register.type("ValueFilter", at(entity, part.name), "the comparisons of any value")
            self._made["ValueFilter"] = _comparing("ValueFilter", {})
        return self._made["ValueFilter"]


def _comparing(name: str, operations: Mapping[str, Any], words: str | None = None) -> type:
    fields = [
        _given(operation, annotation, words if words and operation == "contains" else _WORDS[operation])
        for operation, annotation in {**operations, "exists": bool}.items()
    ]
    return input_type(name, fields, "What must hold of a value: everything that is said, together.")


def _given(name: str, annotation: Any, description: str) -> StrawberryField:
    """A field that may be left out; a null is told to the search, which refuses it in words."""
    return plain_field(f"{name}_", or_null(annotation), name=name, description=description, default=strawberry.UNSET)


def filter_of(given: Any) -> Any:
    """What an input object says, as searches take it from Python."""
    if isinstance(given, list):
        return [filter_of(part) for part in given]
    definition = get_object_definition(given)
    if definition is None:
        return given
    said = {}
    for field in definition.fields:
        value = getattr(given, field.python_name)
        if value is not strawberry.UNSET:
            name = field.graphql_name or field.python_name
            said[name] = filter_of(value)
    return said
