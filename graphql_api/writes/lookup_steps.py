"""The steps of a transaction whose mapping items are in another store."""

from collections.abc import Sequence
from dataclasses import dataclass

from graphql_api.errors import CrossStoreWrite
from graphql_api.model import OWNER, is_mapping_key
from graphql_api.storage import Check, Delete, Put, TransactionWrite
from graphql_api.writes.item_keys import item_key, write_key


@dataclass(frozen=True, slots=True)
class WriteSteps:
    """A transaction as a sequence of steps."""

    records: list[TransactionWrite]
    positions: list[int]
    """of the record writes in the transaction"""
    inserted: list[Put]
    """mapping items of records that the transaction creates"""
    repaired: list[Put]
    removed: list[Delete]

    @property
    def changes_records(self) -> bool:
        """Return whether a record is written, and not only required to be unchanged."""
        return any(not isinstance(write, Check) for write in self.records)


def steps_of(writes: Sequence[TransactionWrite]) -> WriteSteps:
    """Return a transaction as a sequence of steps. Refuse conditions in the second store."""
    steps = WriteSteps([], [], [], [], [])
    created = {item_key(write.item) for write in writes if isinstance(write, Put) and _expects_absence(write)}
    for position, write in enumerate(writes):
        if not is_mapping_key(write_key(write).hash):
            steps.records.append(write)
            steps.positions.append(position)
        elif isinstance(write, Put):
            is_new = tuple(write.item[OWNER]) in created
            (steps.inserted if is_new else steps.repaired).append(write)
        elif isinstance(write, Delete):
            steps.removed.append(write)
        else:
            raise cross_store_error("A condition on a mapping item")
    return steps


def _expects_absence(write: Put) -> bool:
    return write.expect is not None and write.expect.absent


def cross_store_error(subject: str) -> CrossStoreWrite:
    """Return the error of a write that needs a transaction over two stores."""
    return CrossStoreWrite(
        f"{subject} needs a transaction over two stores, because the lookups are in a store of their own. Write the "
        "records one by one, or keep the lookups in the table."
    )
