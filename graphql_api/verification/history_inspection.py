"""Inspect one history: its current record, and the last entry that it is a copy of."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.errors import StoreError
from graphql_api.evolution import RecordRepairer
from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.storage import Item, values_equal
from graphql_api.verification.constraint_inspection import inspect_constraints
from graphql_api.verification.findings import Damage, Finding, Inspection
from graphql_api.verification.record_inspection import InspectedRecord
from graphql_api.writes import (
    CURRENT_OF,
    EntityRecords,
    item_key,
    single_copy_writes,
    unknown_attributes,
)

_MISSING = object()
_MAX_NAMES = 3


async def inspect_history(
    repairer: RecordRepairer, records: EntityRecords, record: InspectedRecord, inspection: Inspection
) -> None:
    """Compare the current record of a history with its last entry, and its constraint items with those it needs."""
    verified = record.verified
    try:
        head = await repairer.expected_head(verified.repair, records, record.id_values)
    except StoreError:
        raise
    except Exception:  # noqa: BLE001 - validators are code of the application
        return  # The last entry does not fit its entity, which its own inspection reports.
    shown, expected = records.visible(head.stored.values()), head.current
    if expected is None or (shown is None and verified.entity.ttl is not None):
        return  # Nothing is visible, or the newest entry has expired and the next write makes an earlier one current.
    element = (f"current record {verified.entity.name}.current",)
    lost = _lost_entry(shown, head.last_entry, verified.entity.sub_ids[0])
    if lost is not None:
        reason = f"it copies the entry {lost}, which does not exist"
        inspection.add(Finding(Damage.MISSING_ENTRY, item_key(expected), reason, element, is_derivable=False))
        return
    owners = [item for item in head.stored.values() if item is not None]
    reason = "" if head.last_entry is None else _describe(verified.entity, owners, expected, head.last_entry)
    if reason:
        inspection.add(Finding(Damage.CURRENT_RECORD, item_key(expected), reason, element))
        inspection.writes += single_copy_writes(head.stored, expected)
    kept = expected if reason else owners[0]
    await inspect_constraints(repairer, records, verified, owners, kept, inspection)


def _lost_entry(shown: Item | None, last_entry: Item | None, sub_id: PropertySpec) -> str | None:
    """Return the sub id of an entry that a current record copies, if the entry does not exist."""
    copied = None if shown is None else shown.get(CURRENT_OF)
    if not isinstance(copied, str):
        return None
    return copied if last_entry is None or copied > last_entry[sub_id.stored] else None


def _describe(entity: EntitySpec, owners: Sequence[Item], expected: Item, entry: Item) -> str:
    """Return what is wrong with the stored current records; an empty text if nothing is."""
    if not owners:
        return "it is missing"
    if len(owners) > 1:
        return "two shards hold one"
    (owner,) = owners
    if item_key(owner) != item_key(expected):
        return f"it is stored in {item_key(owner).hash}"
    if owner.get(CURRENT_OF) != expected[CURRENT_OF]:
        return f"it does not copy the last entry, {expected[CURRENT_OF]}"
    names = [part.stored for part in entity.properties.values() if not _is_copied(entity, part, owner, expected, entry)]
    unknown, wanted = unknown_attributes(entity, owner), unknown_attributes(entity, entry)
    names += sorted(name for name in unknown.keys() | wanted.keys() if not _equal(unknown, wanted, name))
    return f"it differs from the last entry in {', '.join(names[:_MAX_NAMES])}" if names else ""


def _is_copied(entity: EntitySpec, part: PropertySpec, owner: Item, expected: Item, entry: Item) -> bool:
    """Return whether a current record has the value of its entry. A derived property is inspected by itself."""
    if part.function is not None or _equal(owner, expected, part.stored) or _equal(owner, entry, part.stored):
        return True
    # An entry that is older than the property does not determine a default that is computed for each record.
    has_factory = entity.model.model_fields[part.name].default_factory is not None and not part.is_server_set
    return part.stored not in entry and has_factory


def _equal(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    first, second = one.get(name, _MISSING), other.get(name, _MISSING)
    return first is second or (first is not _MISSING and second is not _MISSING and values_equal(first, second))
