"""A store wrapper that collects the writes of several commands, and shows them to later reads.

Nothing is sent to the wrapped store until the collected writes are committed by one transaction. Two kinds of writes
are sent at once: those without a transaction, which are counters and expired responses, and delete intents, which only
have an effect while other writers can read them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphql_api.errors import StoreError
from graphql_api.storage import (
    Check,
    Delete,
    Expect,
    FailedCondition,
    ForwardingStore,
    Item,
    Key,
    Position,
    Put,
    RangeRead,
    ReadResult,
    Row,
    RowPage,
    Store,
    TransactionWrite,
    check_record_size,
    condition_failed_error,
    condition_holds,
)
from graphql_api.writes.delete_intents import place_delete_intent, remove_delete_intent
from graphql_api.writes.entity_records import EntityRecords
from graphql_api.writes.item_keys import DELETE_INTENT, WRITE_ID, item_key, write_key
from graphql_api.writes.transactions import expect_unchanged, merge_conditions


class StagedStore(ForwardingStore):
    """A store whose transactions are collected instead of sent. Reads see the collected state."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._staged: dict[Key, Item | None] = {}
        """the items that the collected writes leave, or None where they delete one"""
        self._conditions: dict[Key, Expect] = {}
        """what the collected writes require of the stored items"""
        self._stored: dict[Key, Item | None] = {}
        """the stored items that were read"""
        self._intents: dict[Key, Item] = {}
        """the stored records with a delete intent of this store"""

    def begin(self) -> None:
        """Forget the collected writes, to collect those of another attempt. Delete intents stay."""
        self._staged.clear()
        self._conditions.clear()
        self._stored.clear()

    # --- reading -----------------------------------------------------------------------------------------------

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read items by key, as the collected writes leave them."""
        unknown = [key for key in dict.fromkeys(keys) if key not in self._staged]
        items = await self.inner.get_many(unknown, consistent) if unknown else ()
        found = {key: self._note(key, item) for key, item in zip(unknown, items, strict=True)}
        return [self._staged[key] if key in self._staged else found[key] for key in keys]

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Read ranges. Those of the table show what the collected writes leave; indexes show the stored state."""
        results = await self.inner.read_ranges(reads, want)
        return [
            result if isinstance(result, StoreError) or read.index is not None else self._with_staged(read, result)
            for read, result in zip(reads, results, strict=True)
        ]

    def _with_staged(self, read: RangeRead, page: RowPage) -> RowPage:
        rows = [
            Row(row.value, row.ordinal, row.key, self._note(row.key, row.item))
            for row in page.rows
            if row.key not in self._staged
        ]
        rows += [
            Row(key.range, read.ordinal, key, item)
            for key, item in self._staged.items()
            if item is not None and _is_within(key, read, page.scanned_to)
        ]
        rows.sort(key=lambda row: row.key.range, reverse=read.descending)
        return replace(page, rows=rows)

    def _note(self, key: Key, item: Item | None) -> Item | None:
        """Note a stored item. Return it without a delete intent of this store, which only concerns other writers."""
        self._stored[key] = item
        intent = self._intents.get(key)
        if item is None or intent is None or item.get(WRITE_ID) != intent[WRITE_ID]:
            return item
        return {name: value for name, value in item.items() if name != DELETE_INTENT}

    # --- writing -----------------------------------------------------------------------------------------------

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:  # noqa: ARG002 - of the port
        """Collect the writes of a transaction, if their conditions hold in the collected state."""
        for position, write in enumerate(writes):
            key = write_key(write)
            if (
                key in self._staged
                and write.expect is not None
                and not condition_holds(write.expect, self._staged[key])
            ):
                old = self._staged[key]
                failed = FailedCondition(position, key, write.expect, None if old is None else dict(old))
                raise condition_failed_error([failed])
        for write in writes:
            key = write_key(write)
            if key not in self._staged and write.expect is not None:
                self._conditions[key] = merge_conditions(self._conditions.get(key), write.expect)
            if isinstance(write, Put):
                check_record_size(write.item)
            if not isinstance(write, Check):
                self._staged[key] = write.item if isinstance(write, Put) else None

    def collected_checks(self) -> list[TransactionWrite]:
        """Return the conditions of the collected writes, without the writes."""
        return [Check(key, condition) for key, condition in self._conditions.items()]

    def collected_writes(self) -> list[TransactionWrite]:
        """Return the writes that leave the collected state, on all conditions."""
        return [self._final_write(key) for key in dict.fromkeys((*self._conditions, *self._staged))]

    def _final_write(self, key: Key) -> TransactionWrite:
        condition, item = self._conditions.get(key), self._staged.get(key)
        if item is not None:
            return Put(item, condition)
        if condition is not None and (condition.absent or key not in self._staged):
            return Check(key, condition)
        return Delete(key, condition)

    # --- delete intents ----------------------------------------------------------------------------------------

    async def place_delete_intent(self, records: EntityRecords, item: Item) -> Item:
        """Place a delete intent on the stored record, if there is one. Return the record as later writes expect it."""
        key = item_key(item)
        is_staged = key in self._staged
        stored = self._stored.get(key) if is_staged else item
        if stored is not None:
            intent = await place_delete_intent(replace(records, store=self.inner), stored)
            self._intents[key] = self._stored[key] = intent
            self._conditions[key] = expect_unchanged(intent)
            item = item if is_staged else intent
        return item

    async def withdraw_delete_intents(self) -> None:
        """Remove the delete intents, because the records were not deleted."""
        while self._intents:
            _, intent = self._intents.popitem()
            await remove_delete_intent(self.inner, intent)


def _is_within(key: Key, read: RangeRead, scanned_to: Position | None) -> bool:
    """Return whether a page of a read that ends at `scanned_to` contains the key if there is an item."""
    if key.hash != read.hash_key or not read.range.contains(key.range):
        return False
    start: Any = None if read.start is None else read.start.value
    if start is not None and (key.range >= start if read.descending else key.range <= start):
        return False
    if scanned_to is None:
        return True
    place: Any = key.range, read.ordinal
    end: Any = scanned_to.value, scanned_to.ordinal
    return bool(place >= end if read.descending else place <= end)
