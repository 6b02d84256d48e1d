"""What stands of a record before it is written, and what becomes of it there."""

from collections.abc import Mapping
from dataclasses import dataclass

from graphql_api.storage import Check, Delete, Expect, Item, Key, Put, TogetherWrite
from graphql_api.writes.history.history_head import Head
from graphql_api.writes.item_keys import key_of
from graphql_api.writes.optimistic_concurrency import unchanged

Standing = Mapping[Key, Item | None]
"""what stands at every key that a record can have"""


@dataclass(slots=True)
class Reading:
    """What stands before a write."""

    standing: Standing
    living: Item | None
    """the record itself, unless it has expired"""
    head: Head | None = None
    """of a history that keeps a current record"""
    base: Item | None = None
    """what the record goes on from"""

    @property
    def stored(self) -> list[Item]:
        """Whatever stands there, expired or not."""
        return [item for item in self.standing.values() if item is not None]

    @property
    def bound(self) -> list[Item]:
        """What holds the unique values and foreign keys that there are: of a history its current record."""
        if self.head is None:
            return self.stored
        return [item for item in self.head.currents.values() if item is not None]


def in_place(found: Reading, item: Item) -> list[TogetherWrite]:
    """Puts a record where it belongs, and makes sure that it stands nowhere else."""
    home = key_of(item)
    writes: list[TogetherWrite] = []
    for key, stored in found.standing.items():
        if key == home:
            writes.append(Put(item, unchanged(stored)))
        elif stored is not None:
            writes.append(Delete(key, unchanged(stored)))
        elif found.living is None:
            writes.append(Check(key, Expect(absent=True)))
    return writes
