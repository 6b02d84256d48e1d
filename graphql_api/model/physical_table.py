"""Derive the physical table of a catalog. Declared indexes with the same physical name share one index."""

from collections.abc import Iterable
from typing import Literal

from graphql_api import codecs
from graphql_api.model.specs import EntitySpec, IndexSpec, PropertySpec
from graphql_api.storage import IndexDefinition, TableDefinition


def table_definition(specs: Iterable[EntitySpec]) -> TableDefinition:
    """Return the definition of the table that valid entities need."""
    indexes: dict[str, IndexDefinition] = {}
    ttl_attribute = None
    for spec in specs:
        if spec.ttl is not None:
            ttl_attribute = spec.ttl.stored
        for index in spec.indexes.values():
            if index.physical is not None:
                indexes[index.physical] = index_definition(index.physical, index)
    return TableDefinition(tuple(indexes.values()), ttl_attribute=ttl_attribute)


def index_definition(physical: str, index: IndexSpec) -> IndexDefinition:
    """Return the definition of the physical index that one declared index needs."""
    raw_type = raw_key_type(index.sort[0].property) if index.raw and index.sort else None
    keys = (index.hash_attribute, index.range_attribute)
    projection = index.projection
    if isinstance(projection, tuple):
        projection = tuple(name for name in projection if name not in keys)  # Every index entry has the keys.
    return IndexDefinition(physical, *keys, raw_type or "S", projection or "KEYS_ONLY")


def raw_key_type(prop: PropertySpec) -> Literal["S", "N"] | None:
    """Return the key type of the stored attribute: "S" for text, "N" for numbers, None if it cannot be a key."""
    codec = prop.codec
    if codec is None or isinstance(codec, codecs.Boolean):
        return None
    if isinstance(codec, codecs.EnumCodec):
        kinds = {type(codec.store(member)) for member in codec.enum_class}
        return None if len(kinds) > 1 else "N" if kinds == {int} else "S"
    return "N" if codec.stores_number else "S"
