"""The values of stored items as filters see them: also of items that are older than a property's declaration."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from graphql_api.model import EntitySpec, PropertySpec, from_item, to_plain
from graphql_api.storage import Item

Values = Callable[[PropertySpec], Any]
"""the value of a property of the record at hand, None where there is none"""


def value_reader(entity: EntitySpec, item: Item, told: Mapping[str, Any] = MappingProxyType({})) -> Values:
    """Reads the properties of a stored item; one that it lacks has its default, a derived one is computed.

    `told` are values that are known without it.
    """

    def value_of(part: PropertySpec) -> Any:
        if part.name in told:
            return told[part.name]
        stored = item.get(part.stored)
        if stored is not None:
            return stored if part.codec is None else part.codec.load(stored)
        if part.function is not None:
            sources = [value_of(entity.properties[name]) for name in part.sources]
            return None if None in sources else part.function(*sources)
        if part.stored in item or not has_default(entity, part):
            return None
        field = entity.model.model_fields[part.name]
        if default_needs_record(entity, part):
            default = getattr(from_item(entity, item), part.name)
        else:
            default = field.get_default(call_default_factory=True)
        return default if part.codec is not None else to_plain(default)

    return value_of


def has_default(entity: EntitySpec, part: PropertySpec) -> bool:
    """Whether a record may have a value that was written before the property was declared."""
    field = entity.model.model_fields[part.name]
    return not field.is_required() and (field.default is not None or field.default_factory is not None)


def default_needs_record(entity: EntitySpec, part: PropertySpec) -> bool:
    """Whether the default is made from the record's other properties."""
    return bool(entity.model.model_fields[part.name].default_factory_takes_validated_data)
