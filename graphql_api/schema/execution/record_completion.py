"""Compile the completion of records: the response objects of all records of a page, one property after the other.

Fields with resolvers, such as joins, custom fields and properties with rules, are executed as always, for each record.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any, NamedTuple

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
from graphql_api.schema.execution.resolved_fields import ResponseObject
from graphql_api.schema.execution.value_completion import (
    Completion,
    SubfieldCollector,
    UnexpectedValue,
    compile_value,
    field_name,
    generated_field_of,
    plain_attribute,
)
from graphql_api.schema.selection import source_properties
from graphql_api.schema.types.generated_fields import COLUMN_RESOLVER, Mark, field_marks
from graphql_api.schema.types.object_types import record_model, resolve_attribute
from graphql_api.storage import AttributeValue

KeySeal = Callable[[Entity], str]


@dataclass(frozen=True, slots=True)
class PropertyField:
    """A selected property whose value needs no resolver."""

    name: str
    """Python name"""
    is_required: bool
    leaf: graphql.GraphQLScalarType | graphql.GraphQLEnumType | None
    """None for lists and nested models"""
    complete: Completion

    def of_record(self, record: Entity) -> Any:
        """Return the response value of a decoded record."""
        return self.complete(resolve_attribute(record, self.name))


@dataclass
class StoredRecords:
    """Values of stored items, which are not decoded to records."""

    columns: StoredColumns
    plan: "StoredRecordsPlan"

    def response_values(self, part: PropertyField) -> Sequence[Any]:
        """Return the response value of a property of each record."""
        scalar = self.plan.scalars.get(part.name)
        if scalar is None:
            return [part.complete(value) for value in self.columns.values(part.name)]
        stored = self.columns.stored(scalar.stored)
        types = {*map(type, stored)}
        if types <= scalar.json_types:
            return stored
        if NoneType not in types:  # Decimal numbers compare with None slowly.
            return scalar.convert(stored)
        column = self.columns.scalar(scalar.spec, stored)
        values = scalar.convert(column.values)
        if column.defaults:
            default = part.complete(scalar.spec.default)
            values = [default if at in column.defaults else one for at, one in enumerate(values)]
        if part.is_required and None in values:
            raise UnexpectedValue("null")
        return values

    def __len__(self) -> int:
        return len(self.columns.records)

    def values(self, name: str) -> Sequence[Any]:
        """Return the value of a property that resolvers or keys read, of each record."""
        return self._read_columns[name]

    @cached_property
    def _read_columns(self) -> Mapping[str, Sequence[Any]]:
        return {name: self.columns.values(name) for name in self.plan.record_properties}

    @cached_property
    def records(self) -> Sequence[Entity]:
        """The records for resolvers and keys."""
        return self.columns.records_of(self._read_columns)

    def check_read_columns(self) -> None:
        """Raise any error if a value that resolvers read is malformed."""
        _ = self._read_columns


class ScalarColumn(NamedTuple):
    """How the stored values of a scalar property become response values."""

    spec: PropertySpec
    stored: str
    """the name of its attribute"""
    json_types: frozenset[type]
    """see `Codec.json_types`"""
    convert: Callable[[Sequence[AttributeValue]], Sequence[Any]]
    """keeps None"""


@dataclass(frozen=True, slots=True)
class StoredRecordsPlan:
    """How the stored items of an entity are read for one selection."""

    entity: EntitySpec
    expected: ExpectedTypes
    """of the properties that are not selected"""
    record_properties: frozenset[str]
    """the properties that resolvers and keys read"""
    scalars: Mapping[str, ScalarColumn]
    """by property; derived properties, lists and models have none"""


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
        self._model = record_model(kind)
        self._properties: dict[str, PropertyField] = {}
        self._constants: dict[str, str] = {}
        self._keys: list[str] = []
        self.resolved: dict[str, FieldDetailsList] = {}
        """fields with resolvers, by response name"""
        self.resolves_columns = True
        """whether all of these are nullable, and resolved for several records at once"""
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
        is_column = definition.extensions.get(COLUMN_RESOLVER) is not None
        self.resolves_columns &= is_column and not graphql.is_non_null_type(definition.type)
        if extended:
            self._source_fields = None
        elif self._source_fields is not None:
            self._source_fields.add(name)

    # --- stored items ------------------------------------------------------------------------------------------

    def stored_records(self, columns: StoredColumns) -> StoredRecords | None:
        """Return the values of stored items; None if this selection needs decoded records."""
        if columns.entity.model is not self._model or not is_plain_model(self._model):
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
        columns = {name: _scalar_column(entity.properties[name], one) for name, one in selected.items()}
        scalars = {name: column for name, column in columns.items() if column is not None}
        return StoredRecordsPlan(entity, expected_types(entity, read | selected.keys()), read, scalars)

    # --- completion --------------------------------------------------------------------------------------------

    def objects(self, source: StoredRecords, seal: KeySeal) -> list[ResponseObject]:
        """Return the response objects of stored items. Fields with resolvers are still null.

        Raise any error if a value is unexpected.
        """
        count = len(source.columns.records)
        if self.resolved:
            source.check_read_columns()
        columns: dict[str, Sequence[Any]] = {
            **{name: [value] * count for name, value in self._constants.items()},
            **{name: source.response_values(part) for name, part in self._properties.items()},
            **{name: [None] * count for name in self.resolved},
        }
        if self._keys:
            keys = [seal(record) for record in source.records]
            columns |= dict.fromkeys(self._keys, keys)
        if not columns:  # Conditions exclude all fields.
            return [{} for _ in range(count)]
        return self._build(zip(*map(columns.__getitem__, self._names), strict=True))

    def object_of(self, record: Entity, seal: KeySeal) -> ResponseObject:
        """Return the response object of a decoded record, as `objects` does."""
        if type(record) is not self._model:  # A resolver of the application returned it.
            raise UnexpectedValue(type(record).__name__)
        response: ResponseObject = dict.fromkeys(self._names)
        response |= self._constants
        for name, part in self._properties.items():
            response[name] = part.of_record(record)
        for name in self._keys:
            response[name] = seal(record)
        return response


def _scalar_column(spec: PropertySpec, part: PropertyField) -> ScalarColumn | None:
    codec = spec.codec
    if part.leaf is None or codec is None or spec.function is not None:
        return None
    convert = _enum_conversion(codec, part) if isinstance(codec, EnumCodec) else codec.column_to_json
    return ScalarColumn(spec, spec.stored, codec.json_types, convert)


def _enum_conversion(codec: EnumCodec, part: PropertyField) -> Callable[[Sequence[AttributeValue]], Sequence[Any]]:
    """Return the conversion of stored values to names of enum members."""
    stored = ((codec.store(member), member) for member in codec.enum_class)
    names = {(type(value), value): part.complete(member) for value, member in stored}
    return lambda values: [None if one is None else names[type(one), one] for one in values]


def _object_builder(names: Sequence[str]) -> Callable[[Iterable[tuple[Any, ...]]], list[ResponseObject]]:
    """Return a function that makes an object of each row of values.

    Its code is generated, since `dict(zip(…))` takes three times as long.
    """
    values = [f"v{number}" for number in range(len(names))] or ["_"]
    members = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=False))
    code = f"lambda rows: [{{{members}}} for {', '.join(values)}, in rows]"
    build: Callable[[Iterable[tuple[Any, ...]]], list[ResponseObject]] = eval(code)  # noqa: S307 - GraphQL names only
    return build
