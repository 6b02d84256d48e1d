"""Constraint items and delete intents, which keep constraints valid against concurrent writers.

Unique items reserve the unique values of a record, reference items record its foreign keys. They are written in the
transaction of the record, and name their owner: the record whose key they were made from. Errors are based on what is
read here. The transaction requires that it is unchanged; if it is not, the whole write is repeated.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import SEP, hash_key
from graphql_api.errors import (
    EmptyKey,
    ForeignKeyBroken,
    InvalidValue,
    KeyTooLong,
    Localizable,
    Message,
    NameList,
    NotUnique,
    PropertyName,
    about,
)
from graphql_api.model import (
    OWNER,
    RANGE_ATTRIBUTE,
    Entity,
    EntitySpec,
    ForeignKeySpec,
    PropertySpec,
    UniqueSpec,
    encode_values,
    stored_value,
)
from graphql_api.storage import (
    MAX_RANGE_BYTES,
    Check,
    Delete,
    Expect,
    Item,
    Key,
    Put,
    Store,
    TransactionWrite,
)
from graphql_api.writes.display_names import format_value, property_name, record_name
from graphql_api.writes.entity_records import EntityRecords, StoredItems, item_at, values_of
from graphql_api.writes.item_keys import CURRENT_OF, DELETE_INTENT, item_key, possible_keys, write_key
from graphql_api.writes.transactions import RecordLocked, expect_unchanged, with_new_write_id

OWNER_EXPIRES = "_until"
"""attribute of constraint items: the second at which their owner expires, if it does"""

Constraint = UniqueSpec | ForeignKeySpec

ABANDONED_AFTER_SECONDS = 2.0
"""Older delete intents count as abandoned. If the owner is still active, its delete needs another attempt."""


@dataclass(frozen=True, slots=True)
class ConstraintItem:
    """The item of a unique value, or of a foreign key."""

    constraint: Constraint
    values: tuple[Any, ...]
    item: Item


def constraint_items(entity: EntitySpec, item: Item, tenant: str | None) -> dict[Key, ConstraintItem]:
    """Return the constraint items of a stored record, by their keys."""
    attributes, expires = {OWNER: [*item_key(item)]}, None if entity.ttl is None else item.get(entity.ttl.stored)
    if entity.ttl is not None and expires is not None:
        attributes |= {OWNER_EXPIRES: expires, entity.ttl.stored: expires}
    items = {}
    for constraint, values in _constraint_values(entity, item):
        key = _constraint_key(entity, constraint, values, item, tenant)
        items[key] = ConstraintItem(constraint, values, item_at(key, attributes))
    return items


def constraint_keys(entity: EntitySpec, item: Item, tenant: str | None) -> dict[Key, Constraint]:
    """Return the keys of all constraint items of a stored record."""
    keys = {}
    for constraint, values in _constraint_values(entity, item):
        # Values that are too long are older than the constraint. They are skipped, so that they can be corrected.
        with suppress(KeyTooLong):
            keys[_constraint_key(entity, constraint, values, item, tenant)] = constraint
    return keys


def unique_key(entity: EntitySpec, unique: UniqueSpec, values: Sequence[Any], tenant: str | None) -> Key:
    """Return the key of the unique item that reserves these values."""
    with about(PropertyName(unique.parts[0].input_names[0])):
        encoded = encode_values(unique.parts, values)
        return Key(hash_key(f"{entity.name}~unique", "", encoded, tenant), unique.name)


def parent_keys(foreign_key: ForeignKeySpec, values: Sequence[Any], tenant: str | None) -> list[Key]:
    """Return every key that the referenced record can have; none if the values cannot be a primary key."""
    try:
        return possible_keys(foreign_key.parent, values, tenant)
    except (EmptyKey, KeyTooLong):
        return []


def references_hash_key(parent: EntitySpec, values: Sequence[Any], tenant: str | None) -> str:
    """Return the hash key of all reference items that reference one record."""
    return hash_key(f"{parent.name}~refs", "", encode_values(parent.ids, values), tenant)


def owner_key(item: Item) -> Key:
    """Return the key of the record that owns a constraint item."""
    return Key(*item[OWNER])


def are_of_one_history(entity: EntitySpec, one: Key, other: Key) -> bool:
    """Return whether two keys belong to one history whose current record owns its constraint items."""
    if entity.written_current is None or one.hash != other.hash:
        return False
    count = len(entity.ids)
    return one.range.split(SEP)[:count] == other.range.split(SEP)[:count]


async def read_holders(store: Store, entity: EntitySpec, owner: Key, tenant: str | None) -> StoredItems:
    """Read the owner of a constraint item, and after it what holds its values instead, at all possible keys.

    Entries own the items of a history until it gets a current record, which then holds the values of all of them. While
    current records are dropped, their entries hold the values again: the owner is left out.
    """
    (item,) = await store.get_many([owner], consistent=True)
    current = entity.written_current
    is_current = item is not None and CURRENT_OF in item
    if item is None or not entity.sub_ids or is_current == (current is not None):
        return {owner: item}
    sub_id = item[CURRENT_OF] if is_current else current
    keys = possible_keys(entity, [*(load_key_part(part, item) for part in entity.ids), sub_id], tenant)
    found = dict(zip(keys, await store.get_many(keys, consistent=True), strict=True))
    return found if is_current else {owner: item, **found}


def holder_of(entity: EntitySpec, holders: StoredItems, now: float) -> Item | None:
    """Return the visible item that holds the values of a constraint item."""
    return entity.visible_item(reversed([*holders.values()]), now)


def _constraint_values(entity: EntitySpec, item: Item) -> Iterator[tuple[Constraint, tuple[Any, ...]]]:
    """Yield the constraints that apply to a stored record: none of their values is null, and all fit."""
    constraints: tuple[Constraint, ...] = (*entity.unique, *entity.foreign_keys)
    for constraint in constraints:
        parts = constraint.parts if isinstance(constraint, UniqueSpec) else constraint.by
        try:
            values = tuple(stored_value(part, item) for part in parts)
        except InvalidValue:  # Another application wrote the value.
            continue
        if None not in values:
            yield constraint, values


def _constraint_key(
    entity: EntitySpec, constraint: Constraint, values: Sequence[Any], item: Item, tenant: str | None
) -> Key:
    if isinstance(constraint, UniqueSpec):
        return unique_key(entity, constraint, values, tenant)
    with about(PropertyName(constraint.by[0].name)):
        hash_text = references_hash_key(constraint.parent, values, tenant)
    range_key = f"{entity.name}.{constraint.name}{SEP}{item[RANGE_ATTRIBUTE]}"
    size = len(range_key.encode())
    if size > MAX_RANGE_BYTES:
        raise KeyTooLong(
            f"{entity.type_name}.{constraint.name}: the reference item would have a key of {size:,} bytes, at most "
            f"{MAX_RANGE_BYTES:,} fit. Shorten the record's id.",
            argument=PropertyName(entity.primary_key[0].name if entity.primary_key else constraint.by[0].name),
        )
    return Key(hash_text, range_key)


# --- the transaction of a record -------------------------------------------------------------------------------


async def build_constraint_writes(
    records: EntityRecords,
    old_owners: Sequence[Item],
    new_owner: Item | None,
    *,
    presumed_new: bool = False,
    known_parents: StoredItems | None = None,
) -> list[TransactionWrite]:
    """Return the writes of constraint items that belong in the transaction of a record.

    `old_owners`: the stored items of the record, at all keys that it can have; `new_owner`: its item after the write.
    `presumed_new`: skip the read of unique items, since the transaction detects values that are taken.
    `known_parents`: referenced records that were just read.
    """
    entity, tenant, now = records.entity, records.tenant, records.clock()
    if not (entity.unique or entity.foreign_keys):
        return []
    record_key = None if new_owner is None else item_key(new_owner)
    own_keys = {record_key, *map(item_key, old_owners)}

    def is_own(stored: Item) -> bool:
        owner = owner_key(stored)
        return owner in own_keys or any(key is not None and are_of_one_history(entity, owner, key) for key in own_keys)

    old_keys = {key: None for old in old_owners for key in constraint_keys(entity, old, tenant)}
    items = {} if new_owner is None else constraint_items(entity, new_owner, tenant)
    parents = {
        key: parent_keys(item.constraint, item.values, tenant)
        for key, item in items.items()
        if isinstance(item.constraint, ForeignKeySpec)
    }
    # A record may reference itself, which needs no item.
    items = {key: item for key, item in items.items() if record_key not in parents.get(key, ())}
    needed = [] if presumed_new else [*old_keys, *items]
    needed += [parent for key in items for parent in parents.get(key, ())]
    known = await records.read(needed, known_parents)

    writes: list[TransactionWrite] = []
    parent_writes: dict[Key, TransactionWrite] = {}
    for key, item in items.items():
        stored = known.get(key)
        is_owned = stored is not None and key in old_keys and owner_key(stored) == record_key
        # The condition on the record also protects its constraint items. For records that expire it does not, since
        # other servers decide by their own clocks when a record has expired.
        if stored is not None and is_owned and entity.ttl is None and OWNER_EXPIRES not in stored:
            continue
        try:
            if isinstance(item.constraint, ForeignKeySpec):
                stored_parents = {parent: known[parent] for parent in parents[key]}
                write = _require_parent(entity, item.constraint, item.values, stored_parents, now)
                parent_writes[write_key(write)] = write
            elif stored is not None and not is_own(stored):
                owner = owner_key(stored)
                writes += await _require_free_value(records, key, item.constraint, item.values, owner, now)
        except (ForeignKeyBroken, NotUnique):
            if key in old_keys and not item.constraint.is_ready:
                continue  # The stored record has violated it since before, which `shardql migrate` reports.
            raise
        writes.append(Put(item.item, expect_unchanged(stored)))
    for key in old_keys.keys() - items.keys():
        stored = known.get(key)
        if stored is not None and is_own(stored):
            writes.append(Delete(key, expect_unchanged(stored)))
    return [*writes, *parent_writes.values()]


async def read_parents(records: EntityRecords, record: Entity) -> StoredItems:
    """Read the records that a record references by foreign keys. Raise an error if one does not exist."""
    entity, now = records.entity, records.clock()
    references = []
    for foreign_key in entity.foreign_keys:
        if any(entity.properties.get(part.name) is not part for part in foreign_key.by):
            continue  # Only another catalog declares it: the transaction checks it.
        values = values_of(record, foreign_key.by)
        if None not in values:
            references.append((foreign_key, values, parent_keys(foreign_key, values, records.tenant)))
    known = await records.read(key for _, _, keys in references for key in keys)
    own_values = values_of(record, entity.primary_key)
    for foreign_key, values, keys in references:
        references_itself = foreign_key.parent.name == entity.name and values == own_values
        if not references_itself:
            _find_parent(entity, foreign_key, values, {key: known[key] for key in keys}, now)
    return known


def _find_parent(
    entity: EntitySpec, foreign_key: ForeignKeySpec, values: Sequence[Any], stored: StoredItems, now: float
) -> tuple[Key, Item]:
    """Return the visible item of the referenced record. Raise an error if there is none."""
    for key, item in stored.items():
        if item is not None and foreign_key.parent.is_visible(item, now):
            return key, item
    raise ForeignKeyBroken(
        "{properties} {verb} {record}, which does not exist. Create it first, or reference another record.",
        properties=NameList(tuple(property_name(entity, part) for part in foreign_key.by)),
        verb="references" if len(foreign_key.by) == 1 else "reference",
        record=record_name(foreign_key.parent, values),
        argument=PropertyName(foreign_key.by[0].name),
    )


def _name_with_sources(part: PropertySpec) -> Localizable:
    """Return the name of a property; of a derived one also its sources, which the caller can change."""
    if not part.sources:
        return PropertyName(part.name)
    sources = NameList(tuple(map(PropertyName, part.sources)))
    return Message("{property} (from {sources})", property=PropertyName(part.name), sources=sources)


async def _require_free_value(
    records: EntityRecords, key: Key, unique: UniqueSpec, values: Sequence[Any], owner: Key, now: float
) -> list[TransactionWrite]:
    """Return the checks that the owner of a unique item still does not have its value. Raise an error if it has."""
    entity = records.entity
    stored_items = await read_holders(records.store, entity, owner, records.tenant)
    holder = holder_of(entity, stored_items, now)
    if holder is not None and key in constraint_keys(entity, holder, records.tenant):
        raise NotUnique(
            "{entity}.{properties}: another {entity} already has {values}. Choose another value, or change that "
            "record.",
            entity=entity.type_name,
            properties=NameList(tuple(map(_name_with_sources, unique.parts))),
            values=", ".join(map(format_value, unique.parts, values)),
            argument=PropertyName(unique.parts[0].input_names[0]),
        )
    # The owner is invisible, or was changed by an application that does not know this constraint.
    return [Check(stored_key, expect_unchanged(stored)) for stored_key, stored in stored_items.items()]


def _require_parent(
    entity: EntitySpec, foreign_key: ForeignKeySpec, values: Sequence[Any], stored: StoredItems, now: float
) -> Check | Put:
    """Return the write which requires that the referenced record exists, and that no other writer is deleting it."""
    key, parent = _find_parent(entity, foreign_key, values, stored, now)
    if DELETE_INTENT not in parent:
        return Check(key, Expect(without=(DELETE_INTENT,)))
    # A future time counts as abandoned too, since clocks differ.
    if abs(now - float(parent[DELETE_INTENT]) / 1000) <= ABANDONED_AFTER_SECONDS:
        raise RecordLocked(f"{record_name(foreign_key.parent, values)} is being deleted. Try again later.")
    return Put(without_delete_intent(parent), expect_unchanged(parent))


def without_delete_intent(item: Item) -> Item:
    """Return a record without its delete intent, under a new write id."""
    return with_new_write_id({name: value for name, value in item.items() if name != DELETE_INTENT})


def load_key_part(part: PropertySpec, item: Item) -> Any:
    """Return a part of a record's key; the stored value, if another application wrote one that does not fit."""
    stored = item.get(part.stored)
    try:
        return part.column.codec.load(stored)
    except InvalidValue:
        return stored
