"""Read property values from stored items, including items written before a property was declared."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from graphql_api.model import EntitySpec, PropertySpec, decode_record, to_attribute_value
from graphql_api.storage import Item

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
