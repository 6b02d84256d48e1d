"""What becomes of the current record of a history when entries of it are written (docs/history.md).

The current record is the entry with the greatest sub id, under another sub id. It names that entry, so that entries may
come in any order; and every write to the history writes it too, on the condition that it is as it was read.
"""

from collections.abc import Sequence
from typing import Any

from graphql_api.errors import CreationChanged, InvalidRecord
from graphql_api.model import Entity, EntitySpec, from_item, value_of
from graphql_api.storage import Check, Delete, Expect, Item, Put, TogetherWrite
from graphql_api.writes.history.creation_value import creation_changed
from graphql_api.writes.history.history_head import Head
from graphql_api.writes.item_keys import current_item, key_of
from graphql_api.writes.optimistic_concurrency import new_write_id, touched, unchanged


def current_after(entity: EntitySpec, head: Head, newest: Entity | None, tenant: str | None) -> Item | None:
    """The current record after a write of entries, of which `newest` has the greatest sub id."""
    if newest is not None and (head.last is None or value_of(newest, entity.sub_ids[0].name) >= head.last):
        return current_item(entity, newest, tenant, new_write_id())
    if head.entry is not None:
        return current_item(entity, from_item(entity, head.entry), tenant, new_write_id())
    return None if head.current is None else touched(head.current)


def current_writes(head: Head, becomes: Item | None) -> list[TogetherWrite]:
    """Makes this the current record, or none, if it is still as it was read."""
    home = None if becomes is None else key_of(becomes)
    writes: list[TogetherWrite] = []
    for key, stored in head.currents.items():
        if becomes is not None and key == home:
            writes.append(Put(becomes, unchanged(stored)))
        elif stored is not None:
            writes.append(Delete(key, unchanged(stored)))
        elif home is None or head.currents[home] is None:
            # Nobody else may begin the history in another generation at the same time.
            writes.append(Check(key, Expect(absent=True)))
    return writes


def refuse_current(entity: EntitySpec, sub_values: Sequence[Any]) -> None:
    """Refuses to write or remove a current record by itself."""
    if entity.current is not None and entity.current in sub_values:
        name = entity.sub_ids[0].name
        raise InvalidRecord(
            f"{entity.type_name}.{name} is {entity.current!r}, and the current record follows the entries by itself: "
            f"write the entry, under its own {name}.",
            argument=name,
        )


def moved(entity: EntitySpec, state: Item | None, values: Sequence[Any], record: Entity) -> CreationChanged | None:
    """What is wrong with the creation value of an entry, where it decides in which shard its history lies."""
    created = entity.created
    if created is None or len(entity.space.generations) == 1 or state is None or created.stored not in state:
        return None
    stored, given = created.column.codec.load(state[created.stored]), value_of(record, created.name)
    return None if stored == given else creation_changed(entity, values, stored, given)
