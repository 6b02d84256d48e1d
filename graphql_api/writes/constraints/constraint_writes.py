"""What a record's transaction has to hold so that no constraint breaks, whoever else writes at the same time.

What is read here decides what people are told; that it still holds when the record is written is part of the
transaction. Where it does not, the whole write begins anew.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.errors import ForeignKeyBroken, NotUnique
from graphql_api.model import Entity, EntitySpec, ForeignKeySpec, has_expired, value_of
from graphql_api.storage import Check, Delete, Expect, Item, Key, Put, Store, TogetherWrite
from graphql_api.writes.constraints.constraint_items import (
    UNTIL,
    Held,
    bound_keys,
    held_by,
    owner_of,
    parent_keys,
    references_of,
)
from graphql_api.writes.constraints.delete_intent import CLOSING, closed_at, is_abandoned, opened
from graphql_api.writes.display_names import record_name, value_told
from graphql_api.writes.item_keys import key_of
from graphql_api.writes.optimistic_concurrency import StillBusy, unchanged

Known = Mapping[Key, Item | None]


async def binding_writes(
    store: Store,
    entity: EntitySpec,
    olds: Sequence[Item],
    new: Item | None,
    tenant: str | None,
    now: float,
    *,
    presumed_new: bool = False,
    parents_known: Known | None = None,
) -> list[TogetherWrite]:
    """What has to be written beside a record, in the same transaction.

    `olds`: what stands at the keys that it can have; `new`: what will. `presumed_new`: nobody has looked yet whether
    its unique values are free, and the transaction finds out. `parents_known`: records that were just read.
    """
    if not (entity.unique or entity.foreign_keys):
        return []
    home = None if new is None else key_of(new)
    binding = _Binding(store, entity, tenant, now, home, {key_of(old) for old in olds})
    had = {key: old for old in olds for key in bound_keys(entity, old, tenant)}
    values = {} if new is None else held_by(entity, new, tenant)
    references = {} if new is None else references_of(entity, new, tenant)
    parents = {key: parent_keys(one.foreign_key, one.values, tenant) for key, one in references.items()}
    references = {key: one for key, one in references.items() if home not in parents[key]}  # It may name itself.
    looked_at = [] if presumed_new else [*had, *values, *references]
    looked_at += [key for each in references for key in parents[each]]
    known = await _read(store, looked_at, {} if parents_known is None else parents_known)

    for key, held in values.items():
        if not binding.keeps(known.get(key), had.get(key)):
            await binding.hold(key, held, known.get(key))
    for key, one in references.items():
        if not binding.keeps(known.get(key), had.get(key)):
            binding.name_parent(one.foreign_key, one.values, parents[key], known)
            binding.writes.append(Put(one.item, unchanged(known.get(key))))
    for key in had.keys() - values.keys() - references.keys():
        binding.let_go(key, known.get(key))
    return binding.writes


async def parents_of(store: Store, entity: EntitySpec, record: Entity, tenant: str | None) -> Known:
    """The records that a record names by foreign keys; an error if one of them is not there."""
    named = []
    for foreign_key in entity.foreign_keys:
        values = [value_of(record, part.name) for part in foreign_key.by]
        if None not in values:
            named.append((foreign_key, values, parent_keys(foreign_key, values, tenant)))
    known = await _read(store, [key for _, _, keys in named for key in keys], {})
    own = [value_of(record, part.name) for part in entity.primary]
    for foreign_key, values, keys in named:
        itself = foreign_key.parent.name == entity.name and values == own
        if not itself and not any(known[key] is not None for key in keys):
            raise _no_parent(entity, foreign_key, values)
    return known


async def _read(store: Store, keys: Iterable[Key], known: Known) -> Known:
    left = [key for key in dict.fromkeys(keys) if key not in known]
    return {**known, **dict(zip(left, await store.get_many(left, consistent=True), strict=True))} if left else known


def _no_parent(entity: EntitySpec, foreign_key: ForeignKeySpec, values: Sequence[Any]) -> ForeignKeyBroken:
    names = " and ".join(f"{entity.type_name}.{part.name}" for part in foreign_key.by)
    verb = "names" if len(foreign_key.by) == 1 else "name"
    return ForeignKeyBroken(
        f"{names} {verb} {record_name(foreign_key.parent, values)}, which is not there. Create that first, or name "
        "another one.",
        argument=foreign_key.by[0].name,
    )


@dataclass(frozen=True, slots=True)
class _Binding:
    store: Store
    entity: EntitySpec
    tenant: str | None
    now: float
    home: Key | None
    """where the record will stand"""
    before: Collection[Key]
    """where it stands now"""
    writes: list[TogetherWrite] = field(default_factory=list)
    opened: set[Key] = field(default_factory=set)
    """records whose marks are taken off"""

    def owns(self, item: Item) -> bool:
        """Whether such an item belongs to the record."""
        return owner_of(item) == self.home or owner_of(item) in self.before

    def let_go(self, key: Key, stands: Item | None) -> None:
        """Removes what the record no longer has."""
        if stands is not None and self.owns(stands):
            self.writes.append(Delete(key, unchanged(stands)))

    # --- unique values -----------------------------------------------------------------------------------------

    async def hold(self, key: Key, held: Held, stands: Item | None) -> None:
        """Takes a unique value; its item is written even if it names the record, since others may be at it."""
        self.writes.append(Put(held.item, unchanged(stands)))
        if stands is None or self.owns(stands):
            return
        owner = owner_of(stands)
        (other,) = await self.store.get_many([owner], consistent=True)
        living = other is not None and not has_expired(self.entity, other, self.now)
        if other is not None and living and key in bound_keys(self.entity, other, self.tenant):
            # Nobody gives what is derived: what it is made from is what can be changed.
            parts = " and ".join(
                f"{part.name} (from {' and '.join(part.sources)})" if part.sources else part.name
                for part in held.unique.parts
            )
            first = held.unique.parts[0]
            values = ", ".join(map(value_told, held.unique.parts, held.values))
            raise NotUnique(
                f"{self.entity.type_name}.{parts}: another {self.entity.type_name} has {values} already. Give another "
                "value, or change that record.",
                argument=first.given_by[0],
            )
        # Its owner has expired, or went away without it by the hand of somebody who knows nothing of this constraint.
        self.writes.append(Check(owner, unchanged(other)))

    # --- foreign keys ------------------------------------------------------------------------------------------

    def keeps(self, stands: Item | None, old: Item | None) -> bool:
        """Whether an item has stood for the record all the time, and needs no writing.

        The record that has the value, or the reference, keeps others from touching it. Where it expires they judge by
        their own clocks when it no longer does.
        """
        if stands is None or old is None or owner_of(stands) != self.home:
            return False
        return self.entity.ttl is None and UNTIL not in stands

    def name_parent(
        self, foreign_key: ForeignKeySpec, values: Sequence[Any], keys: Sequence[Key], known: Known
    ) -> None:
        """Makes sure that the record is there which a foreign key names, and that nobody is removing it."""
        found = next(((key, known[key]) for key in keys if known[key] is not None), None)
        if found is None:
            raise _no_parent(self.entity, foreign_key, values)
        key, parent = found
        assert parent is not None, "it was found"
        if closed_at(parent) is None:
            self.writes.append(Check(key, Expect(without=(CLOSING,))))
        elif key in self.opened:
            return
        elif is_abandoned(parent, self.now):
            self.opened.add(key)
            self.writes.append(Put(opened(parent), unchanged(parent)))
        else:
            raise StillBusy(
                f"{record_name(foreign_key.parent, values)} is just being removed. Try again a little later."
            )
