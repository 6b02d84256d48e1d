"""Conditions on a sort property under its own name: exactly one of several kinds, for each scalar one input type."""

from typing import Any

import strawberry
from strawberry.types.maybe import Some

from graphql_api.codecs import Between, Boolean, Condition, Eq, Prefix, Text
from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.schema.graphql_names import Register, at
from graphql_api.schema.types.graphql_scalars import name_of
from graphql_api.schema.types.object_types import RecordTypes, input_type, plain_field


class ConditionTypes:
    """Makes the input types of conditions, each once."""

    def __init__(self, records: RecordTypes, register: Register) -> None:
        self._records = records
        self._register = register
        self._made: dict[str, type] = {}

    def of(self, entity: EntitySpec, part: PropertySpec) -> type:
        """The input type of conditions on a property."""
        codec = part.column.codec
        scalar, name = self._records.scalar(entity, part), name_of(codec, self._records.enum_name)
        if name not in self._made:
            of = at(entity, part.name)
            self._register.type(f"{name}Condition", of, f"the conditions on {name}")
            fields = [_optional("eq", scalar, "Exactly this value.")]
            if isinstance(codec, Text):
                fields.append(_optional("prefix", str, "Texts that begin so."))
            if not isinstance(codec, Boolean):
                between = self.range_of(entity, part)
                fields += [
                    _optional("low", scalar, "This value and all behind it.", name="from"),
                    _optional("high", scalar, "This value and all before it.", name="to"),
                    _optional("between", between, "From one value to another, both included."),
                ]
            self._made[name] = input_type(f"{name}Condition", fields, "One condition on a property.", one_of=True)
        return self._made[name]

    def range_of(self, entity: EntitySpec, part: PropertySpec) -> type:
        """The input type of ranges of a property's values."""
        scalar, scalar_name = self._records.scalar(entity, part), name_of(part.column.codec, self._records.enum_name)
        name = f"{scalar_name}Range"
        if name not in self._made:
            self._register.type(name, at(entity, part.name), f"the range of {scalar_name}")
            bounds = [
                plain_field("low", scalar, name="from", description="The first value that belongs to it."),
                plain_field("high", scalar, name="to", description="The last value that belongs to it."),
            ]
            self._made[name] = input_type(name, bounds, "All values from one to another, both of them included.")
        return self._made[name]


def _optional(python_name: str, annotation: Any, description: str, *, name: str | None = None) -> Any:
    maybe: Any = strawberry.Maybe
    return plain_field(python_name, maybe[annotation], name=name, description=description)


def condition_of(given: Any) -> Condition:
    """What an input object asks for; GraphQL has made sure that it is one thing."""
    for kind in ("eq", "prefix", "low", "high", "between"):
        chosen = getattr(given, kind, None)
        if isinstance(chosen, Some):
            return _condition(kind, chosen.value)
    raise AssertionError(f"{given!r} is an input object of one key")


def _condition(kind: str, value: Any) -> Condition:
    if kind == "eq":
        return Eq(value)
    if kind == "prefix":
        return Prefix(value)
    if kind == "between":
        return Between(value.low, value.high)
    return Between(value, None) if kind == "low" else Between(None, value)
