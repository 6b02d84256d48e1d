"""What stands beside the records of an entity, and what their transactions cost with it (docs/capacity.md).

Items of unique values and foreign keys, current records of histories, counters and kept answers are worked out by the
functions that write them, so that none is forgotten.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, Entity, EntitySpec, PropertySpec, to_attributes, value_of
from graphql_api.ops.index_capacity import entries_of, mean_size, mean_units, stored_bytes, units_of, write_units
from graphql_api.storage import Item, Key, TableDefinition
from graphql_api.writes import (
    DIGEST_BYTES,
    LAST,
    WRITE_ID,
    counter_key,
    current_item,
    encoded_id,
    hash_keys_of,
    held_by,
    kept_item,
    key_of,
    parent_keys,
    place_of,
    references_of,
)

SOME_WRITE = "AAAAAAAAAAAAAAAA"
"""as long as the name of every write"""
TWICE = 2
"""what a transaction costs: DynamoDB prepares each write of it, and then carries it out"""
SOME_SECOND = 1_800_000_001
"""as long as that at which an answer expires"""

Kind = Literal["current record", "unique value", "foreign key", "counter", "kept answer"]


@dataclass(frozen=True, slots=True)
class BesideCapacity:
    """Items of one kind that stand beside records."""

    kind: Kind
    name: str
    """of the constraint, or what else it is for"""
    share: float | None
    """how many there are for each record; None: one for each request that has an idempotency key, for a day"""
    bytes: float
    """of one"""
    write_units: float
    """of one write of one, with the entries that it has in indexes; in a transaction, but for a counter"""
    stored_bytes: float
    """of one, with what storage counts on top of it and of its entries"""


@dataclass(frozen=True, slots=True)
class TransactionUnits:
    """Capacity units of writing one record by its transaction, with everything that belongs to it."""

    create: float
    """of a new id: with its checks, and the counters that it may have to raise by itself"""
    update: float
    """at least: nothing moves"""
    move: float
    """at most: the entries of all indexes move, and every value that may change"""
    remove: float
    """of the only entry of its id, where it is a history"""
    key: float
    """more than this, where the request has an idempotency key"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Sample records as they would be stored."""

    entity: EntitySpec
    table: TableDefinition
    records: Sequence[Entity]
    items: Sequence[Item]
    tenant: str | None
    parent_bytes: Mapping[str, float]
    """mean sizes of other entities' records, by their names, where they are known"""

    def per_record(self, count: int) -> float:
        """So many of all samples, for each of them."""
        return count / len(self.items)


def beside(measured: Measured) -> tuple[tuple[BesideCapacity, ...], TransactionUnits]:
    """What stands beside these records, and the units of their transactions."""
    entity, count = measured.entity, len(measured.items)
    own = units_of(measured.items, entries_of(measured.table, measured.items).values())
    create, update, move, removed = own.create, own.update, own.move, own.create
    found: list[BesideCapacity] = []
    holders = measured.items
    if entity.current is not None:
        holders = [*_currents(measured).values()]
        units = units_of(holders, entries_of(measured.table, holders).values())
        found.append(_current(measured, holders, units.create))
        create, update, move, removed = (
            create + units.create,
            update + units.update,
            move + units.move,
            removed + units.create,
        )
    for bound in _bound(measured, holders):
        found.append(bound.told)
        create += bound.units + bound.check
        removed += bound.units
        update += bound.units + bound.check if entity.ttl is not None else 0  # Items that expire are always renewed.
        move += 2 * bound.units + bound.check if bound.moves else 0
    for part in entity.counters:
        told = _counter(measured, part)
        found.append(told)
        create += told.write_units / TWICE  # It is raised before the transaction, by itself.
        if _may_change(entity, [entity.properties[name] for name in part.counts or ()]):
            move += told.write_units / TWICE
    if entity.children:
        removed += own.update  # It is marked before anybody looks who names it.
    checks = _checks(measured) / count
    create += checks
    removed += checks if entity.current is not None else 0
    answer = _answer(measured)
    return (*found, answer), TransactionUnits(
        create=TWICE * create,
        update=TWICE * update,
        move=TWICE * move,
        remove=TWICE * removed,
        key=answer.write_units,
    )


# --- the kinds of items ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bound:
    """One constraint, by what it costs a record on average."""

    told: BesideCapacity
    units: float
    """of one write of its item, where a record has one"""
    check: float
    """of a look at the record that is named"""
    moves: bool


def _currents(measured: Measured) -> dict[str, Item]:
    """The current record of each id among the samples, which its last entry is."""
    entity = measured.entity
    last: dict[str, Entity] = {}
    for record in sorted(measured.records, key=lambda one: value_of(one, entity.sub_ids[0].name)):
        last[encoded_id(entity, [value_of(record, part.name) for part in entity.ids])] = record
    return {one: current_item(entity, record, measured.tenant, SOME_WRITE) for one, record in last.items()}


def _current(measured: Measured, items: Sequence[Item], units: float) -> BesideCapacity:
    size, indexes = mean_size(items), entries_of(measured.table, items).values()
    name = measured.entity.current or ""
    share = measured.per_record(len(items))
    return BesideCapacity("current record", name, share, size, TWICE * units, stored_bytes(size, indexes))


def _bound(measured: Measured, holders: Sequence[Item]) -> Iterator[_Bound]:
    """Unique values and foreign keys, as those records have them that hold by them."""
    entity, tenant = measured.entity, measured.tenant
    for unique in entity.unique:
        items = [
            held.item
            for holder in holders
            for held in held_by(entity, holder, tenant).values()
            if held.unique == unique
        ]
        if items:
            yield _of_items(measured, "unique value", unique.attribute, items, len(holders), unique.parts)
    for foreign_key in entity.foreign_keys:
        items = [
            reference.item
            for holder in holders
            for reference in references_of(entity, holder, tenant).values()
            if reference.foreign_key == foreign_key
            and key_of(holder) not in parent_keys(foreign_key, reference.values, tenant)  # It may name itself.
        ]
        if items:
            parent = write_units(round(measured.parent_bytes.get(foreign_key.parent.name, 1)))
            yield _of_items(measured, "foreign key", foreign_key.name, items, len(holders), foreign_key.by, parent)


def _of_items(
    measured: Measured,
    kind: Kind,
    name: str,
    items: Sequence[Item],
    holders: int,
    parts: Sequence[PropertySpec],
    parent: int = 0,
) -> _Bound:
    size, units, share = mean_size(items), mean_units(items), len(items) / holders
    told = BesideCapacity(kind, name, measured.per_record(len(items)), size, TWICE * units, stored_bytes(size, ()))
    return _Bound(told, share * units, share * parent, _may_change(measured.entity, parts))


def _may_change(entity: EntitySpec, parts: Sequence[PropertySpec]) -> bool:
    fixed = {part.name for part in (*entity.primary, *entity.counters, entity.created) if part is not None}
    return any(not part.immutable and part.name not in fixed for part in parts)


def _counter(measured: Measured, part: PropertySpec) -> BesideCapacity:
    entity, tenant = measured.entity, measured.tenant
    groups: dict[Key, int] = {}
    for record in measured.records:
        key = counter_key(entity, part, record, tenant)
        groups[key] = max(value_of(record, part.name) or 1, groups.get(key, 1))
    items = [
        {HASH_ATTRIBUTE: key.hash, RANGE_ATTRIBUTE: key.range, LAST: last, WRITE_ID: SOME_WRITE}
        for key, last in groups.items()
    ]
    size, share = mean_size(items), measured.per_record(len(items))
    return BesideCapacity("counter", part.name, share, size, mean_units(items), stored_bytes(size, ()))


def _answer(measured: Measured) -> BesideCapacity:
    """The kept answer of a request with an idempotency key."""
    place = place_of("", measured.tenant, None)
    ttl = measured.table.ttl_attribute
    items = [
        kept_item(place, bytes(DIGEST_BYTES), to_attributes(measured.entity, record), SOME_SECOND, ttl)
        for record in measured.records
    ]
    size = mean_size(items)
    return BesideCapacity("kept answer", "", None, size, TWICE * mean_units(items), stored_bytes(size, ()))


def _checks(measured: Measured) -> int:
    """Looks of all samples at places where nothing may stand: a unit each, as of the smallest record."""
    entity = measured.entity
    if len(entity.space.generations) == 1:
        return 0
    ids = [encoded_id(entity, [value_of(one, part.name) for part in entity.ids]) for one in measured.records]
    others = sum(len(hash_keys_of(entity, each, measured.tenant)) - 1 for each in ids)
    return others + (len(ids) if entity.sub_ids and entity.current is None else 0)
