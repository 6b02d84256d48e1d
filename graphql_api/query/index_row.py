"""Read property values from the rows of an index: from its attributes, and from its encoded keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphql_api.codecs import decode_tuple
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec, decode_property, is_expired
from graphql_api.query.property_values import PropertyReader, default_needs_record, property_reader
from graphql_api.storage import Row


@dataclass(frozen=True)
class RowView:
    """Read the properties that every row of one index provides."""

    entity: EntitySpec
    index: IndexSpec
    known: Mapping[str, Any]
    """values of the properties that are equal in every row, by Python name"""

    @property
    def is_full_record(self) -> bool:
        """Whether a row holds the complete record."""
        return self.index.projection == "ALL"

    def provides(self, name: str) -> bool:
        """Check whether every row provides the value of a property.

        An older record may lack a derived property. The row must then provide the sources of the property too.
        """
        if self.is_full_record or name in self.known or name in self._key_properties:
            return True
        part = self.entity.properties[name]
        if self.index.raw and part == self.index.sort[0].property:
            return True
        if part.stored not in self._attributes or default_needs_record(self.entity, part):
            return False
        return part.function is None or all(map(self.provides, part.sources))

    def carries_attribute(self, name: str) -> bool:
        """Check whether every row has the attribute of a property, if the record has it."""
        return self.is_full_record or self.entity.properties[name].stored in self._attributes

    def attributes_for(self, names: Iterable[str]) -> frozenset[str] | None:
        """Return the attributes from which a row provides these properties; None if it takes all attributes."""
        attributes = set[str]()
        pending = [*names]
        while pending:
            name = pending.pop()
            part = self.entity.properties[name]
            if not self.is_full_record and (name in self.known or name in self._key_properties):
                continue
            if default_needs_record(self.entity, part):
                return None
            attributes.add(part.stored)
            pending += part.sources
        return frozenset(attributes)

    def values(self, row: Row) -> Mapping[str, Any]:
        """Return the values of all properties that a row provides, if it does not hold the complete record."""
        read, values = self.reader(row), dict[str, Any]()
        for part in self._provided:
            value = read(part)
            values[part.name] = value if part.codec is not None else decode_property(self.entity, part, value)
        return values

    def reader(self, row: Row) -> PropertyReader:
        """Return a reader for single properties; valid only for properties that the row provides."""
        known = {} if self.is_full_record else {**self.known, **self._key_values(row)}
        return property_reader(self.entity, row.item, known)

    def is_expired(self, row: Row, now: float) -> bool:
        """Check whether the record of a row has expired; False if the row does not provide the expiry."""
        ttl = self._expiry
        if ttl is None:
            return False
        if self.carries_attribute(ttl.name):
            return is_expired(self.entity, row.item, now)
        expires = self.reader(row)(ttl)
        return expires is not None and bool(expires <= now)

    # --- the same for every row --------------------------------------------------------------------------------

    @cached_property
    def _provided(self) -> tuple[PropertySpec, ...]:
        """The properties that every row provides."""
        return tuple(part for name, part in self.entity.properties.items() if self.provides(name))

    @cached_property
    def _expiry(self) -> PropertySpec | None:
        """The property that holds the expiry of a record, if every row provides it."""
        ttl = self.entity.ttl
        return ttl if ttl is not None and self.provides(ttl.name) else None

    @cached_property
    def _attributes(self) -> frozenset[str]:
        projected = self.index.projection if isinstance(self.index.projection, tuple) else ()
        keys = {self.index.sort[0].property.stored} if self.index.raw else set()
        return frozenset({*projected, *keys})

    @cached_property
    def _key_properties(self) -> frozenset[str]:
        """The properties that are decoded from a key: the range value, or on a raw index the record's own key."""
        return frozenset(part.name for part in self._encoded_index.range_properties)

    @property
    def _encoded_index(self) -> IndexSpec:
        return self.entity.indexes["by_id"] if self.index.raw else self.index

    def _key_values(self, row: Row) -> dict[str, Any]:
        encoded = self._encoded_index
        values = decode_tuple(encoded.columns, row.key.range if self.index.raw else str(row.value))
        return dict(zip((part.name for part in encoded.range_properties), values, strict=True))
