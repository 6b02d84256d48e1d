"""Columns of stored items: the values of one property of several records, read through codecs alone.

Only entities whose records pydantic would not change have columns. A page of them needs no models.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from types import NoneType
from typing import Any

from graphql_api.codecs import StoredType
from graphql_api.model.entity import Entity
from graphql_api.model.record_codec import decode_property, partial_record
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.storage import AttributeValue, ColumnReader, Item, Row

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
    rows: Sequence[Row]

    @property
    def items(self) -> Sequence[Item]:
        """Return the items with all their attributes."""
        return [row.item for row in self.rows]

    @cached_property
    def stored(self) -> ColumnReader:
        """Return a reader of single attributes."""
        return Row.columns(self.rows)

    def scalar(self, part: PropertySpec, values: Sequence[AttributeValue] | None = None) -> StoredColumn:
        """Return the stored values of a scalar property that is not derived. `values`: if they are read already."""
        if values is None:
            values = self.stored(part.stored)
        if NoneType not in map(type, values) or (part.nullable and not part.null_is_stored):
            return StoredColumn(values)
        rows = self.rows
        lacking = [at for at, value in enumerate(values) if value is None and _has_default(part, rows[at].item)]
        if lacking and part.default is None:
            raise UndecodedRecord(part.stored)
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
        rows = zip(*columns.values(), strict=True) if columns else [()] * len(self.rows)
        return [partial_record(self.entity, dict(zip(columns, row, strict=True))) for row in rows]

    def check_types(self, expected: "ExpectedTypes") -> None:
        """Raise `UndecodedRecord` if a record lacks a required value, or has one of an unexpected type.

        It costs next to nothing, and finds most records that `decode_record` refuses.
        """
        for name, types in expected:
            found = {*map(type, self.stored(name))}
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
