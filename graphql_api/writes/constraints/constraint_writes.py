"""The constraint items in the transaction of a record, which keep constraints valid against concurrent writers.

Errors are based on what is read here. The transaction requires that it is unchanged; if it is not, the whole write is
repeated.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.errors import ForeignKeyBroken, Localizable, Message, NameList, NotUnique, PropertyName
from graphql_api.model import Entity, EntitySpec, ForeignKeySpec, PropertySpec, is_expired, value_of
from graphql_api.storage import Check, Delete, Expect, Item, Key, Put, Store, TransactionWrite
from graphql_api.writes.constraints.constraint_items import (
    OWNER_EXPIRES,
    UniqueItem,
    constraint_keys,
    owner_key,
    parent_keys,
    reference_items,
    unique_items,
)
from graphql_api.writes.constraints.delete_intent import (
    DELETE_INTENT,
    delete_intent_time,
    is_abandoned,
    without_delete_intent,
)
from graphql_api.writes.display_names import format_value, property_name, record_name
from graphql_api.writes.item_keys import item_key
from graphql_api.writes.optimistic_concurrency import RecordLocked, expect_unchanged

KnownItems = Mapping[Key, Item | None]


async def build_constraint_writes(
    store: Store,
    entity: EntitySpec,
    old_owners: Sequence[Item],
    new_owner: Item | None,
    tenant: str | None,
    now: float,
    *,
    presumed_new: bool = False,
    known_parents: KnownItems | None = None,
) -> list[TransactionWrite]:
    """Return the writes of constraint items that belong in the transaction of a record.

    `old_owners`: the stored items of the record, at all keys that it can have; `new_owner`: its item after the write.
    `presumed_new`: skip the read of unique items, since the transaction detects values that are taken.
    `known_parents`: referenced records that were just read.
    """
    if not (entity.unique or entity.foreign_keys):
        return []
    record_key = None if new_owner is None else item_key(new_owner)
    plan = _ConstraintPlan(store, entity, tenant, now, record_key, {item_key(old) for old in old_owners})
    old_owner_of = {key: old for old in old_owners for key in constraint_keys(entity, old, tenant)}
    unique = {} if new_owner is None else unique_items(entity, new_owner, tenant)
    references = {} if new_owner is None else reference_items(entity, new_owner, tenant)
    parents = {
        key: parent_keys(reference.foreign_key, reference.values, tenant) for key, reference in references.items()
    }
    # A record may reference itself, which needs no item.
    references = {key: reference for key, reference in references.items() if record_key not in parents[key]}
    needed = [] if presumed_new else [*old_owner_of, *unique, *references]
    needed += [parent for key in references for parent in parents[key]]
    known = await _read_missing(store, needed, {} if known_parents is None else known_parents)

    for key, unique_item in unique.items():
        if not plan.is_unchanged(known.get(key), old_owner_of.get(key)):
            await plan.claim_unique_value(key, unique_item, known.get(key))
    for key, reference in references.items():
        if not plan.is_unchanged(known.get(key), old_owner_of.get(key)):
            plan.require_parent(reference.foreign_key, reference.values, parents[key], known)
            plan.writes.append(Put(reference.item, expect_unchanged(known.get(key))))
    for key in old_owner_of.keys() - unique.keys() - references.keys():
        plan.release(key, known.get(key))
    return plan.writes


async def read_parents(store: Store, entity: EntitySpec, record: Entity, tenant: str | None) -> KnownItems:
    """Read the records that a record references by foreign keys. Raise an error if one does not exist."""
    references = []
    for foreign_key in entity.foreign_keys:
        values = [value_of(record, part.name) for part in foreign_key.by]
        if None not in values:
            references.append((foreign_key, values, parent_keys(foreign_key, values, tenant)))
    known = await _read_missing(store, [key for _, _, keys in references for key in keys], {})
    own_values = [value_of(record, part.name) for part in entity.primary_key]
    for foreign_key, values, keys in references:
        references_itself = foreign_key.parent.name == entity.name and values == own_values
        if not references_itself and not any(known[key] is not None for key in keys):
            raise _missing_parent(entity, foreign_key, values)
    return known


async def _read_missing(store: Store, keys: Iterable[Key], known: KnownItems) -> KnownItems:
    """Return the known items, with those at the other keys that are read in addition."""
    unknown = [key for key in dict.fromkeys(keys) if key not in known]
    if not unknown:
        return known
    return {**known, **dict(zip(unknown, await store.get_many(unknown, consistent=True), strict=True))}


def _missing_parent(entity: EntitySpec, foreign_key: ForeignKeySpec, values: Sequence[Any]) -> ForeignKeyBroken:
    return ForeignKeyBroken(
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


@dataclass(frozen=True, slots=True)
class _ConstraintPlan:
    """The planned writes of constraint items for one record."""

    store: Store
    entity: EntitySpec
    tenant: str | None
    now: float
    record_key: Key | None
    """key of the record after the write"""
    old_keys: Collection[Key]
    """keys of the record before the write"""
    writes: list[TransactionWrite] = field(default_factory=list)
    cleared_intents: set[Key] = field(default_factory=set)
    """keys of parents whose abandoned delete intent this transaction removes"""

    def owns(self, item: Item) -> bool:
        """Return whether a constraint item belongs to the record."""
        return owner_key(item) == self.record_key or owner_key(item) in self.old_keys

    def release(self, key: Key, stored: Item | None) -> None:
        """Delete a constraint item that the record no longer needs."""
        if stored is not None and self.owns(stored):
            self.writes.append(Delete(key, expect_unchanged(stored)))

    # --- unique values -----------------------------------------------------------------------------------------

    async def claim_unique_value(self, key: Key, unique_item: UniqueItem, stored: Item | None) -> None:
        """Reserve a unique value. Raise an error if another record has it.

        The item is also written if the record owns it, since a concurrent writer may be replacing it.
        """
        self.writes.append(Put(unique_item.item, expect_unchanged(stored)))
        if stored is None or self.owns(stored):
            return
        owner = owner_key(stored)
        (other,) = await self.store.get_many([owner], consistent=True)
        is_visible = other is not None and not is_expired(self.entity, other, self.now)
        if other is not None and is_visible and key in constraint_keys(self.entity, other, self.tenant):
            raise NotUnique(
                "{entity}.{properties}: another {entity} already has {values}. Choose another value, or change that "
                "record.",
                entity=self.entity.type_name,
                properties=NameList(tuple(map(_name_with_sources, unique_item.unique.parts))),
                values=", ".join(map(format_value, unique_item.unique.parts, unique_item.values)),
                argument=PropertyName(unique_item.unique.parts[0].input_names[0]),
            )
        # The owner has expired, or was changed by an application that does not know this constraint.
        self.writes.append(Check(owner, expect_unchanged(other)))

    # --- foreign keys ------------------------------------------------------------------------------------------

    def is_unchanged(self, stored: Item | None, old_owner: Item | None) -> bool:
        """Return whether the record already owned a constraint item, so that it needs no write.

        The condition on the record also protects its constraint items. For records that expire it does not, since other
        servers decide by their own clocks when a record has expired.
        """
        if stored is None or old_owner is None or owner_key(stored) != self.record_key:
            return False
        return self.entity.ttl is None and OWNER_EXPIRES not in stored

    def require_parent(
        self, foreign_key: ForeignKeySpec, values: Sequence[Any], keys: Sequence[Key], known: KnownItems
    ) -> None:
        """Require that the referenced record exists, and that no other writer is deleting it."""
        key = next((key for key in keys if known[key] is not None), None)
        parent = None if key is None else known[key]
        if key is None or parent is None:
            raise _missing_parent(self.entity, foreign_key, values)
        if delete_intent_time(parent) is None:
            self.writes.append(Check(key, Expect(without=(DELETE_INTENT,))))
        elif key in self.cleared_intents:
            return
        elif is_abandoned(parent, self.now):
            self.cleared_intents.add(key)
            self.writes.append(Put(without_delete_intent(parent), expect_unchanged(parent)))
        else:
            raise RecordLocked(f"{record_name(foreign_key.parent, values)} is being deleted. Try again later.")
