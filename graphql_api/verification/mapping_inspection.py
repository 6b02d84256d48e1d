"""Inspect the mapping items of lookups both ways: those that a record needs, and those that no record needs."""

from graphql_api.codecs import hash_key_parts
from graphql_api.evolution import RecordRepairer
from graphql_api.model import HASH_ATTRIBUTE, mapped_record
from graphql_api.storage import Check, Delete, Item, Key, Store
from graphql_api.verification.findings import Damage, Finding, Inspection
from graphql_api.verification.record_inspection import decoded_record
from graphql_api.verification.verified_elements import VerifiedEntity
from graphql_api.writes import (
    GRACE_SECONDS,
    EntityRecords,
    expect_unchanged,
    is_same_item,
    item_key,
    mapping_items,
    may_be_in_flight,
)


async def inspect_mappings(
    repairer: RecordRepairer,
    records: EntityRecords,
    verified: VerifiedEntity,
    item: Item,
    corrected: Item,
    inspection: Inspection,
) -> None:
    """Compare the mapping items of a record with those that it needs, and let them follow its own repair."""
    changes = inspection.writes
    writes, violations = await repairer.mapping_writes(verified.repair, records, [item], corrected, changes)
    for element, lookup in verified.repair.lookups.items():
        needed = mapping_items(lookup, corrected, records.tenant, is_old=True)
        for key, mapping in (await records.read(needed)).items():
            if mapping is not None and is_same_item(mapping, needed[key]):
                continue
            reason = "it is missing" if mapping is None else "its record or expiry is wrong"
            name = element.removeprefix(f"{verified.entity.name} lookup ")
            label = (f"lookup {verified.entity.name}.{name}",)
            inspection.add(Finding(Damage.MAPPING_ITEM, key, reason, label, item_key(corrected)))
    if writes:
        inspection.writes += [*writes, Check(item_key(item), expect_unchanged(item))]
    for violation in violations:
        finding = Finding(Damage.INVALID_RECORD, violation.record, violation.reason, is_derivable=False)
        inspection.add(finding)


async def inspect_mapping_item(
    store: Store, verified: VerifiedEntity, item: Item, element: str, inspection: Inspection, now: float
) -> None:
    """Find out whether the record of a mapping item has its values. An expired record is removed with it."""
    key, place = item_key(item), hash_key_parts(item[HASH_ATTRIBUTE])
    assert place is not None, "only items with a hash key of this table are inspected"
    if may_be_in_flight(item, now, GRACE_SECONDS):
        return
    delete, record_key = Delete(key, expect_unchanged(item)), mapped_record(item)
    if record_key is None:
        inspection.add(Finding(Damage.VOID_ITEM, key, "it names no record of its entity", (element,)), delete)
        return
    (record,) = await store.get_many([record_key], consistent=True)
    if record is not None and (not verified.entity.is_visible(record, now) or _needs(verified, record, key)):
        return
    reason = "its record does not exist" if record is None else "its record has another value"
    unchanged = Check(record_key, expect_unchanged(record))
    inspection.add(Finding(Damage.VOID_ITEM, key, reason, (element,), record_key), delete, unchanged)


def _needs(verified: VerifiedEntity, record: Item, mapping: Key) -> bool:
    """Return whether a record needs a mapping item, as it is stored or with its derived properties corrected."""
    place = hash_key_parts(record[HASH_ATTRIBUTE])
    assert place is not None, "a mapping item names a record of its entity"
    if mapping in mapping_items(verified.entity, record, place.tenant, is_old=True):
        return True
    corrected = decoded_record(verified, record, place.tenant, Inspection())
    return corrected is not None and mapping in mapping_items(
        verified.entity, corrected.fresh, place.tenant, is_old=True
    )
