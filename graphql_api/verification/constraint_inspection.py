"""Inspect constraint items both ways: those that a record needs, and those that no record needs."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from graphql_api.clock import Clock
from graphql_api.codecs import SEP, hash_key_parts
from graphql_api.errors import KeyTooLong
from graphql_api.evolution import RecordRepairer
from graphql_api.model import HASH_ATTRIBUTE, EntitySpec, ForeignKeySpec, UniqueSpec, named_owner
from graphql_api.storage import (
    Check,
    Delete,
    Item,
    Key,
    Put,
    Store,
    TransactionWrite,
)
from graphql_api.verification.findings import Damage, Finding, Inspection
from graphql_api.verification.record_inspection import decoded_record
from graphql_api.verification.verified_elements import VerifiedEntity
from graphql_api.writes import (
    ConstraintItem,
    EntityRecords,
    constraint_items,
    constraint_keys,
    expect_unchanged,
    holder_of,
    item_key,
    owner_key,
    parent_keys,
    read_holders,
    write_key,
)


async def inspect_constraints(
    repairer: RecordRepairer,
    records: EntityRecords,
    verified: VerifiedEntity,
    owners: Sequence[Item],
    owner: Item,
    inspection: Inspection,
) -> None:
    """Compare the constraint items of a record with those that it needs.

    `owners`: the stored items of the record, at all keys that it can have; `owner`: its item as it should be.
    """
    needed: dict[Key, ConstraintItem] = {}
    for entity in verified.repair.constraints.values():
        with suppress(KeyTooLong):  # The repairer reports it.
            needed |= constraint_items(entity, owner, records.tenant)
    stored = await records.read(needed)

    def add(key: Key, reason: str) -> None:
        damage, element = _describe_constraint(verified.entity, needed[key].constraint)
        inspection.add(Finding(damage, key, reason, (element,), item_key(owner)))

    unowned = {
        key: item
        for key, item in stored.items()
        if item is not None and named_owner(item, verified.entity.name, records.tenant) is None
    }
    if unowned:
        for key, item in unowned.items():
            add(key, "it names no record of its entity")
            inspection.writes.append(Put(needed[key].item, expect_unchanged(item)))
        inspection.writes += _unchanged(owners)
        return
    writes, violations = await repairer.constraint_writes(verified.repair, records, owners, owner)
    changed = [write for write in writes if write_key(write) in needed]
    for write in changed:
        add(write_key(write), _describe(write, stored[write_key(write)], owner))
    if changed:
        inspection.writes += [*writes, *_unchanged(owners)]
    for violation in violations:
        (element,) = violation.elements
        names = f"{element.removeprefix(f'{verified.entity.name} ')}".rpartition(" ")
        damage = Damage.DUPLICATE_VALUE if names[0] == "unique" else Damage.MISSING_PARENT
        label = f"{names[0]} {verified.entity.name}.{names[2]}"
        reason, other = violation.reason, violation.other
        inspection.add(Finding(damage, violation.record, reason, (label,), other, is_derivable=False))


def _unchanged(items: Iterable[Item]) -> list[Check]:
    return [Check(item_key(item), expect_unchanged(item)) for item in items]


def _describe(write: TransactionWrite, stored: Item | None, owner: Item) -> str:
    if isinstance(write, Delete):
        return "it is superfluous: a record that references itself needs none"
    if stored is None:
        return "it is missing"
    return "it belongs to another record" if owner_key(stored) != item_key(owner) else "its expiry or key is wrong"


def _describe_constraint(entity: EntitySpec, constraint: UniqueSpec | ForeignKeySpec) -> tuple[Damage, str]:
    """Return the damage of an item of a constraint, and the name of the element."""
    if isinstance(constraint, UniqueSpec):
        return Damage.UNIQUE_ITEM, f"unique {entity.name}.{constraint.name}"
    return Damage.REFERENCE_ITEM, f"foreign key {entity.name}.{constraint.name}"


def reference_name(key: Key) -> str:
    """Return the entity and the foreign key in the key of a reference item: `book.ofAuthor`."""
    return key.range.partition(SEP)[0]


# --- items without a record ------------------------------------------------------------------------------------


async def inspect_constraint_item(
    store: Store, verified: VerifiedEntity, item: Item, element: str, inspection: Inspection, clock: Clock
) -> None:
    """Find out whether the owner of a constraint item has its value. `verified`: the entity of the owner."""
    key, place, entity = item_key(item), hash_key_parts(item[HASH_ATTRIBUTE]), verified.entity
    assert place is not None, "only items with a hash key of this table are inspected"
    delete = Delete(key, expect_unchanged(item))
    owner = named_owner(item, entity.name, place.tenant)
    if owner is None:
        inspection.add(Finding(Damage.VOID_ITEM, key, "it names no record of its entity", (element,)), delete)
        return
    holders = await read_holders(store, entity, owner, place.tenant)
    existing = [holder for holder in holders.values() if holder is not None]
    holder = holder_of(entity, holders, clock())
    if holder is None and existing:
        return  # The owner has expired: engines remove both.
    if holder is not None and _needs_once_corrected(verified, holder, key, place.tenant):
        return
    reason = "its owner does not exist" if holder is None else "its owner has another value"
    checks = [Check(stored_key, expect_unchanged(stored)) for stored_key, stored in holders.items()]
    inspection.add(Finding(Damage.VOID_ITEM, key, reason, (element,), owner), delete, *checks)


def _needs_once_corrected(verified: VerifiedEntity, holder: Item, key: Key, tenant: str | None) -> bool:
    """Return whether a record needs the constraint item at a key, also with its derived properties corrected."""
    if _needs(verified.entity, holder, key, tenant):
        return True
    corrected = decoded_record(verified, holder, tenant, Inspection())
    return corrected is not None and _needs(verified.entity, corrected.fresh, key, tenant)


def _needs(entity: EntitySpec, holder: Item, key: Key, tenant: str | None) -> bool:
    """Return whether a record needs the constraint item at a key. A record that references itself needs none."""
    try:
        needed = constraint_items(entity, holder, tenant).get(key)
    except KeyTooLong:
        return key in constraint_keys(entity, holder, tenant)
    if needed is None or not isinstance(needed.constraint, ForeignKeySpec):
        return needed is not None
    return item_key(holder) not in parent_keys(needed.constraint, needed.values, tenant)
