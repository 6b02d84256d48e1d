"""The physical table behind a catalog: one index for all declarations that share its name."""

from collections.abc import Iterable
from typing import Literal

from graphql_api import codecs
from graphql_api.model.specs import EntitySpec, IndexSpec, PropertySpec
from graphql_api.storage import IndexDefinition, TableDefinition


def table_definition(specs: Iterable[EntitySpec]) -> TableDefinition:
    """The table that entities without violations need."""
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
    """What one declared index asks of its physical index."""
    raw_type = raw_key_type(index.sort[0].property) if index.raw and index.sort else None
    keys = (index.hash_attribute, index.range_attribute)
    carried = index.projection
    if isinstance(carried, tuple):
        carried = tuple(name for name in carried if name not in keys)  # keys are there anyway
    return IndexDefinition(physical, *keys, raw_type or "S", carried or "KEYS_ONLY")


def raw_key_type(prop: PropertySpec) -> Literal["S", "N"] | None:
    """How an engine would order the plain attribute: as text, as numbers, or not at all."""
    codec = prop.codec
    if codec is None or isinstance(codec, codecs.Boolean):
        return None
    if isinstance(codec, codecs.EnumCodec):
        kinds = {type(codec.store(member)) for member in codec.enum_class}
        return None if len(kinds) > 1 else "N" if kinds == {int} else "S"
    return "N" if codec.number else "S"
