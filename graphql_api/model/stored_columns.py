"""Columns of stored items: the values of one property of several records, read through codecs alone.

Only entities whose records pydantic would not change have columns. A page of them needs no models.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any

from graphql_api.codecs import StoredType
from graphql_api.model.entity import Entity
from graphql_api.model.plain_models import is_plain_model
from graphql_api.model.record_codec import decode_property, decode_record, make_records
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.storage import AttributeValue, Item

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
        return make_records(self.entity, [*columns], rows)

    def check_types(self, expected: "ExpectedTypes") -> None:
        """Raise `UndecodedRecord` if a record lacks a required value, or has one of an unexpected type.

        It costs next to nothing, and finds most records that `decode_record` refuses.
        """
        for name, types in expected:
            found = {type(item.get(name)) for item in self.items}
            if NoneType in found if types is None else not found <= types:
                raise UndecodedRecord(name)


def decode_records(entity: EntitySpec, items: Sequence[Item]) -> Sequence[Entity]:
    """Decode stored items to records: all values of a property at once, if codecs alone can decode every item."""
    records = _decode_columns(entity, items) if entity.has_only_scalars and is_plain_model(entity.model) else None
    return [decode_record(entity, item) for item in items] if records is None else records


def _decode_columns(entity: EntitySpec, items: Sequence[Item]) -> Sequence[Entity] | None:
    stored = StoredColumns(entity, items)
    try:
        columns = {part.name: _decode_column(stored, part) for part in entity.provided_properties}
        derived = [part.name for part in entity.derived_properties]
        if derived:  # Records have their properties in the declared order.
            columns = {name: columns.get(name, [None] * len(items)) for name in entity.properties}
        rows = zip(*columns.values(), strict=True) if columns else [()] * len(items)
        records = make_records(entity, [*columns], rows)
        for record in records if derived else ():
            record.model_fields_set.difference_update(derived)
            record.compute_derived(entity.derived_functions)
    except Exception:  # noqa: BLE001 - decoding one by one reports it
        return None
    return records


def _decode_column(stored: StoredColumns, part: PropertySpec) -> Sequence[Any]:
    name, codec = part.stored, part.column.codec
    values = [item.get(name) for item in stored.items]
    if NoneType not in map(type, values):
        return codec.load_column(values)
    if stored.scalar(part).defaults:
        raise UndecodedRecord(name)
    return [None if value is None else codec.load(value) for value in values]


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
