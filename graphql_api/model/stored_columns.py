"""Columns of stored items: the values of one property of several records, read through codecs alone.

Only entities whose records pydantic would not change have columns. A page of them needs no models.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from graphql_api.codecs import StoredType
from graphql_api.model.access_declarations import PropertyRules
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Role, Stored, StoredAs
from graphql_api.model.property_specs import parse_annotation
from graphql_api.model.record_codec import decode_property, partial_record
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.storage import AttributeValue, Item

_MARKERS = (Role, Stored, StoredAs, PropertyRules)
_STORED_TYPES: Mapping[StoredType, frozenset[type]] = {
    "text": frozenset({str}),
    "number": frozenset({int, Decimal}),
    "boolean": frozenset({bool}),
    "mixed": frozenset({str, int, Decimal}),
}


class UndecodedRecord(Exception):
    """A record must be decoded as a whole: a property has a computed default, or its value is of another type."""


@dataclass(frozen=True)
class StoredColumn:
    """The stored values of a scalar property, and the records whose value is the default of the property."""

    values: Sequence[AttributeValue]
    """None for null, and for the default"""
    defaults: Collection[int] = ()
    """positions of the records that lack the property"""


@dataclass(frozen=True)
class StoredColumns:
    """The columns of stored items of one plain entity. A value that codecs refuse raises `InvalidValue`."""

    entity: EntitySpec
    items: Sequence[Item]

    def scalar(self, part: PropertySpec) -> StoredColumn:
        """Return the stored values of a scalar property that is not derived."""
        name, items = part.stored, self.items
        values = [item.get(name) for item in items]
        if NoneType not in map(type, values) or (part.nullable and not part.null_is_stored):
            return StoredColumn(values)
        lacking = [at for at, value in enumerate(values) if value is None and _has_default(part, items[at])]
        if lacking and part.default is None:
            raise UndecodedRecord(name)
        return StoredColumn(values, lacking)

    def values(self, name: str) -> Sequence[Any]:
        """Return the Python values of a property. Derived properties are computed."""
        part = self.entity.properties[name]
        if part.function is not None:
            function, sources = part.function, [self.values(source) for source in part.sources]
            return [None if None in row else function(*row) for row in zip(*sources, strict=True)]
        column = self.scalar(part)
        if part.codec is None:
            return [decode_property(self.entity, part, value) for value in column.values]
        loaded = [None if value is None else part.codec.load(value) for value in column.values]
        for at in column.defaults:
            loaded[at] = part.default
        return loaded

    def records(self, names: Iterable[str]) -> Sequence[Entity]:
        """Return records with only these properties."""
        columns = {name: self.values(name) for name in names}
        rows = zip(*columns.values(), strict=True) if columns else [()] * len(self.items)
        return [partial_record(self.entity, dict(zip(columns, row, strict=True))) for row in rows]

    def check_types(self, expected: "ExpectedTypes") -> None:
        """Raise `UndecodedRecord` if a record lacks a required value, or has one of an unexpected type.

        It costs next to nothing, and finds most records that `decode_record` refuses.
        """
        for name, types in expected:
            found = {type(item.get(name)) for item in self.items}
            if NoneType in found if types is None else not found <= types:
                raise UndecodedRecord(name)


ExpectedTypes = Sequence[tuple[str, frozenset[type] | None]]
"""Stored names, each with the types of its stored values, or None if any value will do"""


def expected_types(entity: EntitySpec, selected: Collection[str]) -> ExpectedTypes:
    """Return what to verify of the properties that are not selected, and therefore not decoded."""
    expected: list[tuple[str, frozenset[type] | None]] = []
    for name, part in entity.properties.items():
        if name in selected or part.function is not None:
            continue
        if part.codec is not None:
            types = _STORED_TYPES[part.codec.stored_type]
            expected.append((part.stored, types if entity.requires(part) else types | {NoneType}))
        elif entity.requires(part):
            expected.append((part.stored, None))
    return expected


def _has_default(part: PropertySpec, item: Item) -> bool:
    """Return whether a record without a value has the default of a property: see `decode_record`."""
    return not part.nullable or (part.null_is_stored and part.stored not in item)


# --- plain entities --------------------------------------------------------------------------------------------


@cache
def is_plain_model(model: type[Entity]) -> bool:
    """Return whether codecs alone determine the records of a class: it validates only the types of its scalars."""
    decorators = model.__pydantic_decorators__
    adds_code = (
        decorators.validators
        or decorators.field_validators
        or decorators.root_validators
        or _validators(model) != _validators(Entity)
        or model.__pydantic_post_init__ is not None
        or model.__pydantic_custom_init__
        or model.compute_derived is not Entity.compute_derived
    )
    return not adds_code and model.model_config == Entity.model_config and _has_plain_schema(model)


def _validators(model: type[Entity]) -> dict[str, Any]:
    found = model.__pydantic_decorators__.model_validators
    return {name: getattr(validator.func, "__func__", validator.func) for name, validator in found.items()}


def _has_plain_schema(model: type[Entity]) -> bool:
    own: Any = model.__get_pydantic_core_schema__
    inherited: Any = BaseModel.__get_pydantic_core_schema__
    return own.__func__ is inherited.__func__ and all(map(_is_plain_field, model.model_fields.values()))


def _is_plain_field(field: FieldInfo) -> bool:
    """Return whether a property is no scalar, or one that pydantic accepts whatever its codec loads."""
    if parse_annotation(field.annotation, field.metadata).codec is None:
        return True
    return _has_only_markers(field.metadata) and _is_plain_type(field.annotation)


def _has_only_markers(metadata: Iterable[Any]) -> bool:
    return all(isinstance(one, _MARKERS) for one in metadata)


def _is_plain_type(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _has_only_markers(annotation.__metadata__) and _is_plain_type(annotation.__origin__)
    if origin is Union or origin is UnionType:
        return all(map(_is_plain_type, get_args(annotation)))
    return isinstance(annotation, type)
