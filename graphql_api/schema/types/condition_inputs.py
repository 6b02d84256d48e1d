"""Input types of conditions on sort properties: one `@oneOf` type for each scalar."""

from typing import Any

import strawberry
from strawberry.types.maybe import Some

from graphql_api.codecs import Between, Boolean, Condition, Eq, Prefix, Text
from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.schema import descriptions
from graphql_api.schema.descriptions import OPERATORS
from graphql_api.schema.graphql_names import NameRegistry, declared_at
from graphql_api.schema.types.object_types import RecordTypes, input_type, plain_field


class ConditionTypes:
    """Factory of the input types of conditions; creates each type once."""

    def __init__(self, records: RecordTypes, registry: NameRegistry) -> None:
        self._records = records
        self._registry = registry
        self._types: dict[str, type] = {}

    def condition_type(self, entity: EntitySpec, part: PropertySpec) -> type:
        """Return the input type of conditions on a property."""
        codec = part.column.codec
        scalar, scalar_name = self._records.scalar_annotation(entity, part), self._records.scalar_name(part)
        name = f"{scalar_name}Condition"
        if name not in self._types:
            self._registry.claim_type(name, declared_at(entity, part.name), f"the condition type of {scalar_name}")
            fields = [_optional_field("eq", scalar, OPERATORS["eq"])]
            if isinstance(codec, Text):
                fields.append(_optional_field("prefix", str, OPERATORS["prefix"]))
            if not isinstance(codec, Boolean):
                fields += [
                    _optional_field("low", scalar, descriptions.LOWER_BOUND, name="from"),
                    _optional_field("high", scalar, descriptions.UPPER_BOUND, name="to"),
                    _optional_field("between", self.range_type(entity, part), OPERATORS["between"]),
                ]
            self._types[name] = input_type(name, fields, descriptions.CONDITION, one_of=True)
        return self._types[name]

    def range_type(self, entity: EntitySpec, part: PropertySpec) -> type:
        """Return the input type of ranges of a property's values."""
        scalar, scalar_name = self._records.scalar_annotation(entity, part), self._records.scalar_name(part)
        name = f"{scalar_name}Range"
        if name not in self._types:
            self._registry.claim_type(name, declared_at(entity, part.name), f"the range type of {scalar_name}")
            bounds = [
                plain_field("low", scalar, name="from", description=descriptions.LOWER_BOUND),
                plain_field("high", scalar, name="to", description=descriptions.UPPER_BOUND),
            ]
            self._types[name] = input_type(name, bounds, descriptions.RANGE)
        return self._types[name]


def _optional_field(python_name: str, annotation: Any, description: str, *, name: str | None = None) -> Any:
    maybe: Any = strawberry.Maybe
    return plain_field(python_name, maybe[annotation], name=name, description=description)


def to_condition(input_object: Any) -> Condition:
    """Convert an input object to a condition; GraphQL has checked that exactly one of its fields is set."""
    for kind in ("eq", "prefix", "low", "high", "between"):
        field = getattr(input_object, kind, None)
        if isinstance(field, Some):
            return _condition(kind, field.value)
    raise AssertionError(f"{input_object!r} is an input object with one field")


def _condition(kind: str, value: Any) -> Condition:
    if kind == "eq":
        return Eq(value)
    if kind == "prefix":
        return Prefix(value)
    if kind == "between":
        return Between(value.low, value.high)
    return Between(value, None) if kind == "low" else Between(None, value)
