"""The greatest size and the indexes of stored items, by hash key: what is known of them before they are read."""

from graphql_api.codecs import hash_key_parts
from graphql_api.model import Catalog, EntitySpec, lookup_name
from graphql_api.storage import ANY_ITEM, IndexDefinition, ItemBound

CONSTRAINT_ITEM_BYTES = 8 * 1024
"""more than a unique item, a reference item or a counter can have: its key, the key of its owner, and a few numbers"""
_CONSTRAINT_KINDS = frozenset({"unique", "refs", "counter"})


def entity_indexes(catalog: Catalog, entity: EntitySpec) -> tuple[IndexDefinition, ...]:
    """Return the physical indexes that may contain the records of an entity."""
    names = {index.physical for index in entity.written_indexes}
    return tuple(index for index in catalog.table_definition().indexes if index.name in names)


class ItemBounds:
    """The bounds of all items of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._by_entity = {
            entity.name: ItemBound(entity.max_record_bytes, entity_indexes(catalog, entity))
            for entity in catalog.entities.values()
        }

    def __call__(self, hash_key: str) -> ItemBound:
        """Return the bound of the items with a hash key."""
        parts = hash_key_parts(hash_key)
        if parts is None:
            return ANY_ITEM
        if parts.kind in _CONSTRAINT_KINDS or lookup_name(parts.kind) is not None:
            return ItemBound(CONSTRAINT_ITEM_BYTES)
        return ANY_ITEM if parts.kind else self._by_entity.get(parts.entity, ANY_ITEM)
