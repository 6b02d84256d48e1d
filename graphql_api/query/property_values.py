"""Read property values from stored items, also older ones, and from the rows and encoded keys of an index."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from graphql_api.codecs import decode_tuple
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec, decode_property, decode_record, to_attribute_value
from graphql_api.storage import Item, Row

PropertyReader = Callable[[PropertySpec], Any]
"""return the value of a property of one record; None if it has no value"""


def property_reader(entity: EntitySpec, item: Item, known: Mapping[str, Any] = MappingProxyType({})) -> PropertyReader:
    """Return a reader for the properties of a stored item.

    A missing property has its default, a missing derived property is computed. `known` holds values by Python name
    that take precedence over the item.
    """

    def read(part: PropertySpec) -> Any:
        if part.name in known:
            return known[part.name]
        stored = item.get(part.stored)
        if part.function is not None and entity.status_of(part.stored) is not None:
            stored = None  # Another version of the function may have computed it.
        if stored is not None:
            return stored if part.codec is None else part.codec.load(stored)
        if part.function is not None:
            sources = [read(entity.properties[name]) for name in part.sources]
            return None if None in sources else part.function(*sources)
        if part.stored in item or not has_default(entity, part):
            return None
        field = entity.model.model_fields[part.name]
        if default_needs_record(entity, part):
            default = getattr(decode_record(entity, item), part.name)
        else:
            default = field.get_default(call_default_factory=True)
        return default if part.codec is not None else to_attribute_value(default)

    return read


def has_default(entity: EntitySpec, part: PropertySpec) -> bool:
    """Check whether a record written before the property was declared has a value."""
    field = entity.model.model_fields[part.name]
    return not field.is_required() and (field.default is not None or field.default_factory is not None)


def default_needs_record(entity: EntitySpec, part: PropertySpec) -> bool:
    """Check whether the default is computed from other properties of the record."""
    return bool(entity.model.model_fields[part.name].default_factory_takes_validated_data)


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
        return self.carries(self.entity.properties[name])

    def carries(self, part: PropertySpec) -> bool:
        """Check whether every row has the attribute of a property, which need not be one of the catalog."""
        return self.is_full_record or part.stored in self._attributes

    @property
    def shows_inherited_visibility(self) -> bool:
        """Whether every row has the attributes that only other catalogs declare and that decide on visibility."""
        return all(self.carries(part) for part in self.entity.visibility_properties if not self._is_declared(part))

    def _is_declared(self, part: PropertySpec) -> bool:
        return self.entity.properties.get(part.name) is part

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
        if self.is_full_record:
            return property_reader(self.entity, row.item)
        encoded = self._encoded_index
        values = decode_tuple(encoded.columns, row.key.range if self.index.raw else str(row.value))
        keys = zip((part.name for part in encoded.range_properties), values, strict=True)
        return property_reader(self.entity, row.item, {**self.known, **dict(keys)})

    def is_visible(self, row: Row, now: float) -> bool:
        """Check whether the record of a row is visible, as far as the row shows."""
        item = row.item
        for part in self._visibility_keys:
            value = self.reader(row)(part)
            item = item if value is None else {**item, part.stored: part.column.codec.store(value)}
        return self.entity.is_visible(item, now)

    # --- the same for every row --------------------------------------------------------------------------------

    @cached_property
    def _provided(self) -> tuple[PropertySpec, ...]:
        """The properties that every row provides."""
        return tuple(part for name, part in self.entity.properties.items() if self.provides(name))

    @cached_property
    def _visibility_keys(self) -> tuple[PropertySpec, ...]:
        """The properties that decide whether a record is visible and that rows provide in their keys only."""
        parts = filter(self._is_declared, self.entity.visibility_properties)
        return tuple(part for part in parts if self.provides(part.name) and not self.carries(part))

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
