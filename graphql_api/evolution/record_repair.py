"""Repair one stored record, so that it complies with the elements that a migration builds or verifies.

Index entries and derived properties are computed again. Constraint items and current records are compared with what
they should be. Every write requires that the record is unchanged. A record that cannot comply is a violation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from graphql_api.clock import Clock
from graphql_api.codecs import hash_key_parts
from graphql_api.errors import (
    ForeignKeyBroken,
    InvalidValue,
    ItemTooLarge,
    KeyTooLong,
    NotUnique,
    ShardQLError,
    StoreError,
    StoreRefused,
)
from graphql_api.evolution.repair_plan import (
    CONSTRAINTS,
    EntityRepair,
    plan_repairs,
    recomputed,
    rewritten,
    with_lookups,
)
from graphql_api.evolution.table_record import RecordedElement
from graphql_api.model import HASH_ATTRIBUTE, Catalog, EntitySpec, ForeignKeySpec, PropertySpec
from graphql_api.storage import Check, Item, Key, Put, Store, TransactionWrite, check_record_size, values_equal
from graphql_api.writes import (
    CURRENT_OF,
    EntityRecords,
    HistoryHead,
    build_constraint_writes,
    commit_transaction,
    constraint_items,
    current_record_after,
    expect_unchanged,
    is_same_item,
    item_key,
    mapping_items,
    mapping_writes,
    owner_key,
    parent_keys,
    read_current_items,
    read_last_entry,
    retry_on_conflict,
    single_copy_writes,
    write_key,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A stored record that does not comply with an element."""

    elements: tuple[str, ...]
    """ids of the elements"""
    record: Key
    reason: str
    other: Key | None = None
    """the record that it conflicts with"""

    def __str__(self) -> str:
        other = "" if self.other is None else f" (the other record: {self.other.hash} / {self.other.range})"
        return f"{self.record.hash} / {self.record.range}: {self.reason}{other}"


class ExpectedHead(NamedTuple):
    """The head of a history as it is stored, and the current record as it should be."""

    stored: Mapping[Key, Item | None]
    """the items at the keys of the current record"""
    last_entry: Item | None
    current: Item | None
    """None: nothing is visible"""


class RecordRepairer:
    """Repairs the records of one page of a pass."""

    def __init__(self, store: Store, catalog: Catalog, elements: Sequence[RecordedElement], clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._repairs = plan_repairs(catalog, elements)
        self._visited_heads: set[tuple[str | None, str, Key]] = set()

    def repair_of(self, item: Item) -> EntityRepair | None:
        """Return what the pass does with a stored item; None for other entities, and items that are no records."""
        parts = hash_key_parts(item[HASH_ATTRIBUTE])
        return None if parts is None else self._repairs.get(parts.head)

    def group_of(self, item: Item) -> Key | tuple[Any, ...]:
        """Return what identifies the records that are repaired one after the other: those of one history."""
        repair = self.repair_of(item)
        if repair is None or repair.current is None:
            return item_key(item)
        return item[HASH_ATTRIBUTE], *(item.get(part.stored) for part in repair.entity.ids)

    def check(self, repair: EntityRepair, item: Item) -> list[Violation]:
        """Return the violations that can be seen in the record alone: its creation value and its place."""
        entity, key, found = repair.entity, item_key(item), list[Violation]()
        created = None if entity.created is None else item.get(entity.created.stored)
        if created is None or entity.created is None:
            return found
        codec = entity.created.column.codec
        try:
            value = codec.load(created)
        except InvalidValue as problem:
            ids = (*repair.generations, *repair.placed)
            return [Violation(ids, key, f"{problem}")] if ids else found
        for element, since in repair.generations.items():
            if value >= since:
                found.append(Violation((element,), key, f"it was created at {codec.display(value)}"))
        return found

    def rewrite(self, repair: EntityRepair, item: Item) -> tuple[Item, list[Violation]]:
        """Return a record with its computed attributes, and why they cannot be computed."""
        if not (repair.computed or repair.placed):
            return item, []
        ids, key = (*repair.computed, *repair.placed), item_key(item)
        try:
            new = rewritten(repair, item, _tenant(item))
            check_record_size(new)
            misplaced = repair.placed and _own_shard(repair.entity, item) != key.hash
        except ShardQLError as problem:
            if isinstance(problem, StoreError) and not isinstance(problem, ItemTooLarge):
                raise
            is_shown = repair.entity.is_visible(item, self._clock())
            return item, [Violation(ids, key, f"{problem}")] if is_shown else []
        reason = "it is stored in the shard of another creation value"
        return new, [Violation(repair.placed, key, reason)] if misplaced else []

    def refused(self, item: Item, problem: StoreError) -> Violation:
        """Return the violation of a record that the store refuses with its computed attributes."""
        repair = self.repair_of(item)
        assert repair is not None, "only records of entities are repaired"
        return Violation(repair.computed, item_key(item), f"{problem}")

    async def repair(self, item: Item) -> tuple[int, list[Violation]]:
        """Repair a record. Return the number of written items, and its violations."""
        key, stored, is_first = item_key(item), item, True

        async def attempt() -> tuple[int, list[Violation]]:
            nonlocal stored, is_first
            found = stored if is_first else (await self._store.get_many([key], consistent=True))[0]
            is_first = False
            repair = None if found is None else self.repair_of(found)
            return (0, []) if found is None or repair is None else await self._repair_once(repair, found)

        return await retry_on_conflict(attempt, f"the record {key.hash} / {key.range}")

    async def _repair_once(self, repair: EntityRepair, item: Item) -> tuple[int, list[Violation]]:
        violations = self.check(repair, item)
        new, more = self.rewrite(repair, item)
        violations += more
        records = EntityRecords(self._store, repair.entity, _tenant(item), self._clock)
        writes: list[TransactionWrite] = [] if new is item else [Put(new, expect_unchanged(item))]
        is_current = _is_current(repair.entity, item)
        is_shown = repair.entity.is_visible(new, self._clock())
        if is_shown and not (is_current and repair.current is not None):
            mapping_writes, more = await self.mapping_writes(repair, records, [item], new, writes)
            violations += more
            if mapping_writes:
                writes += [*mapping_writes, *([] if writes else [Check(item_key(item), expect_unchanged(item))])]
        if repair.current is not None:
            if not is_current:
                count = await self._commit(writes, item, violations, repair.computed)
            else:
                count = 0
            more_count, more = await self._repair_head(repair, records, item)
            return count + more_count, violations + more
        is_owner = repair.entity.written_current is None or is_current
        if repair.constraints and is_owner and is_shown:
            constraint_writes, more = await self.constraint_writes(repair, records, [item], new)
            violations += more
            if constraint_writes:
                writes += [*constraint_writes, *([] if writes else [Check(item_key(item), expect_unchanged(item))])]
        ids = (*repair.computed, *repair.lookups, *repair.constraints)
        return await self._commit(writes, item, violations, ids), violations

    async def _commit(
        self, writes: list[TransactionWrite], item: Item, violations: list[Violation], ids: tuple[str, ...]
    ) -> int:
        """Commit the writes of a repair. Return the number of written items."""
        if not writes:
            return 0
        try:
            await commit_transaction(self._store, writes)
        except (StoreRefused, ItemTooLarge) as problem:
            violations.append(Violation(ids, item_key(item), f"{problem}"))
            return 0
        return sum(not isinstance(write, Check) for write in writes)

    # --- current records of histories --------------------------------------------------------------------------

    async def _repair_head(
        self, repair: EntityRepair, records: EntityRecords, item: Item
    ) -> tuple[int, list[Violation]]:
        """Compare the current record of a history with its last entry, and correct it, with its constraint items."""
        entity, element = repair.entity, repair.current
        assert element is not None, "the repair of a head belongs to a current record"
        ids = (element.element.id, *repair.computed, *repair.lookups, *repair.constraints)
        try:
            id_values = [part.column.codec.load(item[part.stored]) for part in entity.ids]
            head_key = records.keys([*id_values, entity.written_current])[0]
            mark = (records.tenant, entity.name, head_key)
            if mark in self._visited_heads:
                return 0, []
            stored, entry, expected = await self.expected_head(repair, records, id_values)
        except (ShardQLError, KeyError) as problem:
            if isinstance(problem, StoreError):
                raise
            return 0, [Violation(ids, item_key(item), f"{problem}")]
        owners = [old for old in stored.values() if old is not None]
        if expected is None:  # no visible entry, and no visible current record
            self._visited_heads.add(mark)
            return 0, []
        if element.is_checked and element.state == "building":
            strange = next((old for old in owners if _is_entry_of_its_own(entity, old, expected)), None)
            if strange is not None:
                self._visited_heads.add(mark)
                reason = "it is an entry with the sub id of the current record: remove it, or reserve another sub id"
                return 0, [Violation(ids, item_key(strange), reason)]
        is_right = len(owners) == 1 and item_key(owners[0]) == item_key(expected) and is_same_item(owners[0], expected)
        kept = owners[0] if is_right else expected
        writes = [] if is_right else single_copy_writes(stored, expected)
        if entry is not None and not is_right:
            # A delete of the last entry writes no current record if there is none yet.
            writes.append(Check(item_key(entry), expect_unchanged(entry)))
        constraint_writes, violations = await self.constraint_writes(repair, records, owners, kept)
        mapping_writes, more = await self.mapping_writes(repair, records, owners, kept, writes)
        writes, violations = [*writes, *mapping_writes], [*violations, *more]
        if (constraint_writes or mapping_writes) and is_right:
            writes.append(Check(item_key(kept), expect_unchanged(kept)))
        count = await self._commit([*writes, *constraint_writes], kept, violations, ids)
        self._visited_heads.add(mark)
        return count, violations

    async def expected_head(
        self, repair: EntityRepair, records: EntityRecords, id_values: Sequence[Any]
    ) -> ExpectedHead:
        """Return the stored items at the keys of a current record, and the current record as it should be."""
        entity = records.entity
        (stored,) = await read_current_items(records, [id_values])
        entry = await read_last_entry(records, id_values, without={entity.written_current})
        shown = records.visible(stored.values())
        if entry is None:
            return ExpectedHead(stored, None, None if shown is None else rewritten(repair, shown, records.tenant))
        head = HistoryHead(stored, shown, entry, entry[entity.sub_ids[0].stored])
        return ExpectedHead(stored, entry, current_record_after(records, head, None))

    # --- lookups -----------------------------------------------------------------------------------------------

    async def mapping_writes(
        self,
        repair: EntityRepair,
        records: EntityRecords,
        old: Sequence[Item],
        new: Item,
        writes: Sequence[TransactionWrite],
    ) -> tuple[list[TransactionWrite], list[Violation]]:
        """Return the writes of the mapping items of a record, and the lookups that cannot contain it.

        Those of the repaired lookups are compared with what is stored. The others follow from `writes`.
        """
        violations: list[Violation] = []
        lookups = {f"{records.entity.name} lookup {one.lookup}": one for one in records.entity.written_lookups}
        planned: dict[Key, TransactionWrite] = {}
        for element, lookup in lookups.items():
            entity = with_lookups(records.entity, (lookup,))
            try:
                changes = mapping_writes(entity, old, writes, records.tenant)
                needed = mapping_items(entity, new, records.tenant) if element in repair.lookups else {}
            except KeyTooLong as problem:
                violations.append(Violation((element,), item_key(new), f"{problem}"))
                continue
            stored = await records.read(needed)
            planned |= {write_key(write): write for write in changes}
            planned |= {key: Put(item) for key, item in needed.items() if not _is_stored(stored[key], item)}
        return [*planned.values()], violations

    # --- constraints -------------------------------------------------------------------------------------------

    async def constraint_writes(
        self, repair: EntityRepair, records: EntityRecords, owners: Sequence[Item], owner: Item
    ) -> tuple[list[TransactionWrite], list[Violation]]:
        """Return the writes of the constraint items of a record, and the constraints that it does not comply with."""
        writes: list[TransactionWrite] = []
        violations: list[Violation] = []
        for element, entity in repair.constraints.items():
            own = replace(records, entity=entity)
            try:
                items = constraint_items(entity, owner, records.tenant)
                parents = {
                    key: parent_keys(one.constraint, one.values, records.tenant)
                    for key, one in items.items()
                    if isinstance(one.constraint, ForeignKeySpec)
                }
                known = await own.read([*items, *(key for keys in parents.values() for key in keys)])
                for key, keys in parents.items():
                    constraint = items[key].constraint
                    assert isinstance(constraint, ForeignKeySpec), "only foreign keys have parents"
                    found = constraint.parent.visible_item(map(known.get, keys), self._clock())
                    if found is None and item_key(owner) not in keys:
                        raise ForeignKeyBroken(_missing_parent(constraint, items[key].values))
                planned = await build_constraint_writes(own, owners, owner, known_parents=known)
            except NotUnique as problem:
                other = next((owner_key(old) for key in items if (old := known.get(key)) is not None), None)
                violations.append(Violation((element,), item_key(owner), f"{problem}", other))
                continue
            except ShardQLError as problem:
                if isinstance(problem, StoreError):
                    raise
                violations.append(Violation((element,), item_key(owner), f"{problem}"))
                continue
            writes += _needed(planned, known)
        return writes, violations


def _is_stored(stored: Item | None, mapping: Item) -> bool:
    return stored is not None and is_same_item(stored, mapping)


def _missing_parent(foreign_key: ForeignKeySpec, values: Sequence[Any]) -> str:
    parts = ", ".join(f"{part.name} {value}" for part, value in zip(foreign_key.by, values, strict=True))
    return f"{parts} references a {foreign_key.parent.type_name} that does not exist"


def _needed(writes: Sequence[TransactionWrite], known: Mapping[Key, Item | None]) -> list[TransactionWrite]:
    """Return the writes without those that store what is stored already; none if only checks remain."""
    changes = []
    for write in writes:
        stored = known.get(write_key(write))
        if not (isinstance(write, Put) and stored is not None and is_same_item(stored, write.item)):
            changes.append(write)
    return changes if any(not isinstance(write, Check) for write in changes) else []


def _is_current(entity: EntitySpec, item: Item) -> bool:
    return entity.written_current is not None and item.get(entity.sub_ids[0].stored) == entity.written_current


def _is_entry_of_its_own(entity: EntitySpec, stored: Item, expected: Item) -> bool:
    """Return whether an item at the key of a current record is an entry that a caller wrote under its sub id."""
    parts: Iterable[PropertySpec] = entity.properties.values()
    return CURRENT_OF not in stored and any(
        not values_equal(stored.get(part.stored), expected.get(part.stored)) for part in parts
    )


def _own_shard(entity: EntitySpec, item: Item) -> str:
    """Return the hash key that a record should have."""
    return str(recomputed(entity, item, _tenant(item))[HASH_ATTRIBUTE])


def _tenant(item: Item) -> str | None:
    parts = hash_key_parts(item[HASH_ATTRIBUTE])
    assert parts is not None, "only records of entities are repaired"
    return parts.tenant


def failed_elements(elements: Sequence[RecordedElement], violations: Sequence[Violation]) -> set[str]:
    """Return the elements that cannot become ready. Constraints of a history depend on its current records."""
    failed = {key for violation in violations for key in violation.elements}
    histories = {
        one.element.entity for one in elements if one.element.kind == "current record" and one.element.id in failed
    }
    dependent = {
        one.element.id
        for one in elements
        if one.element.entity in histories and one.element.kind in {*CONSTRAINTS, "lookup"}
    }
    return (failed | dependent) & {one.element.id for one in elements}
