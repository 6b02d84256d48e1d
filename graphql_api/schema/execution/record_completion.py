"""Compile the completion of records: the response objects of all records of a page, one property after the other.

Fields with resolvers, such as joins, custom fields and properties with rules, are executed as always, for each record.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import graphql
from graphql.execution.collect_fields import FieldDetailsList

from graphql_api.codecs import EnumCodec
from graphql_api.model import (
    Entity,
    EntitySpec,
    ExpectedTypes,
    PropertySpec,
    StoredColumns,
    expected_types,
    is_plain_model,
)
from graphql_api.schema.execution.value_completion import (
    Completion,
    SubfieldCollector,
    UnexpectedValue,
    compile_value,
    field_name,
    generated_field_of,
    leaf_completion,
    plain_attribute,
)
from graphql_api.schema.selection import source_properties
from graphql_api.schema.types.generated_fields import Mark, field_marks
from graphql_api.schema.types.object_types import resolve_attribute

KeySeal = Callable[[Entity], str]
ResponseObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PropertyField:
    """A selected property whose value needs no resolver."""

    name: str
    """Python name"""
    is_required: bool
    leaf: graphql.GraphQLScalarType | graphql.GraphQLEnumType | None
    """None for lists and nested models"""
    complete: Completion

    def from_values(self, values: Iterable[Any]) -> list[Any]:
        """Return the response values of Python values."""
        return [self.complete(value) for value in values]


class RecordColumns(Protocol):
    """The source of the values of records."""

    def response_values(self, part: PropertyField) -> Sequence[Any]:
        """Return the response value of a property of each record."""

    def records(self) -> Sequence[Entity]:
        """Return the records for resolvers and keys."""


@dataclass(slots=True)
class DecodedRecords:
    """Values of records that are decoded."""

    decoded: Sequence[Entity]

    def response_values(self, part: PropertyField) -> Sequence[Any]:
        return part.from_values([resolve_attribute(record, part.name) for record in self.decoded])

    def records(self) -> Sequence[Entity]:
        return self.decoded


@dataclass(slots=True)
class StoredRecords:
    """Values of stored items, which are not decoded to records."""

    columns: StoredColumns
    plan: "StoredRecordsPlan"

    def response_values(self, part: PropertyField) -> Sequence[Any]:
        spec = self.columns.entity.properties[part.name]
        if part.leaf is None or spec.codec is None or spec.function is not None:
            return part.from_values(self.columns.values(part.name))
        column = self.columns.scalar(spec)
        names = self.plan.enum_names.get(part.name)
        if names is not None:
            values: Sequence[Any] = [None if one is None else names[type(one), one] for one in column.values]
        else:
            values = spec.codec.column_to_json(column.values)
        if column.defaults:
            values = [part.complete(spec.default) if at in column.defaults else one for at, one in enumerate(values)]
        if part.is_required and None in values:
            raise UnexpectedValue("null")
        return values

    def records(self) -> Sequence[Entity]:
        return self.columns.records(self.plan.record_properties)


@dataclass(frozen=True, slots=True)
class StoredRecordsPlan:
    """How the stored items of an entity are read for one selection."""

    entity: EntitySpec
    expected: ExpectedTypes
    """of the properties that are not selected"""
    record_properties: frozenset[str]
    """the properties that resolvers and keys read"""
    enum_names: Mapping[str, Mapping[tuple[type, Any], str]]
    """names of enum members by the types and stored values, by property"""


class RecordCompletion:
    """The completion of records of one type for one selection of their fields."""

    def __init__(
        self,
        schema: graphql.GraphQLSchema,
        kind: graphql.GraphQLObjectType,
        details: FieldDetailsList,
        collect: SubfieldCollector,
    ) -> None:
        self.kind = kind
        self._properties: dict[str, PropertyField] = {}
        self._constants: dict[str, str] = {}
        self._keys: list[str] = []
        self.resolved: dict[str, FieldDetailsList] = {}
        """fields with resolvers, by response name"""
        self._source_fields: set[str] | None = set()
        """generated fields with resolvers; None if a resolver can read complete records"""
        self._stored_plan: StoredRecordsPlan | None = None
        fields = collect(kind, details)
        for response_name, subfield in fields.items():
            self._add(schema, response_name, subfield, collect)
        self._build = _object_builder([*fields])
        self._names = [*fields]

    def _add(
        self, schema: graphql.GraphQLSchema, response_name: str, details: FieldDetailsList, collect: SubfieldCollector
    ) -> None:
        name = field_name(details)
        if name == "__typename":
            self._constants[response_name] = self.kind.name
            return
        definition = schema.get_field(self.kind, name)
        assert definition is not None, "the document is valid"
        attribute, marks = plain_attribute(definition), field_marks(definition)
        extended = bool(getattr(generated_field_of(definition), "extensions", True))
        if Mark.RECORD_KEY in marks and not extended:
            self._keys.append(response_name)
            return
        complete = compile_value(schema, definition.type, details, collect)
        if Mark.PROPERTY in marks and attribute is not None and complete is not None:
            bare = graphql.get_nullable_type(definition.type)
            leaf = bare if graphql.is_leaf_type(bare) else None
            is_required = graphql.is_non_null_type(definition.type)
            self._properties[response_name] = PropertyField(attribute, is_required, leaf, complete)
            return
        self.resolved[response_name] = details
        if extended:
            self._source_fields = None
        elif self._source_fields is not None:
            self._source_fields.add(name)

    # --- stored items ------------------------------------------------------------------------------------------

    def stored_records(self, columns: StoredColumns) -> RecordColumns | None:
        """Return the source of values that needs no decoded records; None if this selection needs them."""
        if not is_plain_model(columns.entity.model):
            return None
        plan = self._stored_plan
        if plan is None or plan.entity is not columns.entity:
            plan = self._plan_for(columns.entity)
            if plan is None:
                return None
            self._stored_plan = plan
        columns.check_types(plan.expected)
        return StoredRecords(columns, plan)

    def _plan_for(self, entity: EntitySpec) -> StoredRecordsPlan | None:
        sources = source_properties(entity)
        resolved = self._source_fields
        has_rules = any(part.allow is not None for part in entity.properties.values())
        if resolved is None or not resolved <= sources.keys() or (resolved and has_rules):
            return None
        read = frozenset[str]().union(*map(sources.__getitem__, resolved), sources["id"] if self._keys else ())
        selected = {one.name: one for one in self._properties.values()}
        enum_names = {
            name: _enum_names(entity.properties[name], one.leaf)
            for name, one in selected.items()
            if isinstance(one.leaf, graphql.GraphQLEnumType)
        }
        return StoredRecordsPlan(entity, expected_types(entity, read | selected.keys()), read, enum_names)

    # --- completion --------------------------------------------------------------------------------------------

    def objects(self, source: RecordColumns, count: int, seal: KeySeal) -> list[ResponseObject]:
        """Return the response objects of records. Fields with resolvers are still null.

        Raise any error if a value is unexpected. Nothing else has happened then.
        """
        columns: dict[str, Sequence[Any]] = {
            **{name: [value] * count for name, value in self._constants.items()},
            **{name: source.response_values(part) for name, part in self._properties.items()},
            **{name: [None] * count for name in self.resolved},
        }
        if self._keys:
            columns |= dict.fromkeys(self._keys, [seal(record) for record in source.records()])
        if not columns:  # Conditions exclude all fields.
            return [{} for _ in range(count)]
        return self._build(zip(*map(columns.__getitem__, self._names), strict=True))


def _enum_names(part: PropertySpec, leaf: graphql.GraphQLEnumType) -> Mapping[tuple[type, Any], str]:
    assert isinstance(part.codec, EnumCodec), "only enums have this GraphQL type"
    complete = leaf_completion(leaf)
    stored = ((part.codec.store(member), member) for member in part.codec.enum_class)
    return {(type(value), value): complete(member) for value, member in stored}


def _object_builder(names: Sequence[str]) -> Callable[[Iterable[tuple[Any, ...]]], list[ResponseObject]]:
    """Return a function that makes an object of each row of values.

    Its code is generated, since `dict(zip(…))` takes three times as long.
    """
    values = [f"v{number}" for number in range(len(names))] or ["_"]
    members = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=False))
    code = f"lambda rows: [{{{members}}} for {', '.join(values)}, in rows]"
    build: Callable[[Iterable[tuple[Any, ...]]], list[ResponseObject]] = eval(code)  # noqa: S307 - GraphQL names only
    return build
