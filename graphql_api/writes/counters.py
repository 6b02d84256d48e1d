"""Counters: consecutive numbers for the records of a group, never repeated, with gaps (docs/how-to/writing.md).

The counter of a group is an item of its own that holds the last assigned number. It advances before the record is
written, and never goes back. If the record is not written after all, its number is skipped.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from graphql_api.codecs import hash_key, key_segment
from graphql_api.errors import (
    ConditionFailed,
    InvalidValue,
    Message,
    PropertyName,
    QueryTooCostly,
    ShardQLError,
    about,
    for_one_of_several,
)
from graphql_api.model import Entity, EntitySpec, PropertySpec, value_of
from graphql_api.storage import ForwardingStore, Item, Key, Put, Store
from graphql_api.writes.commands import PutRecord
from graphql_api.writes.display_names import property_error, property_name
from graphql_api.writes.entity_records import EntityRecords, item_at
from graphql_api.writes.transactions import commit_single, expect_unchanged, retry_on_conflict

LAST_NUMBER = "_last"
"""attribute of a counter: the last assigned number"""

MAX_CACHED_COUNTERS = 1_000
"""counters whose last number one process caches"""


def counter_key(entity: EntitySpec, part: PropertySpec, record: Entity, tenant: str | None) -> Key:
    """Return the key of a property's counter, for the group of a record."""
    group = [entity.properties[name] for name in part.counter_group or ()]
    values = [(member, value_of(record, member.name)) for member in group]
    encoded = [(member.stored, member.column.encode(value)) for member, value in values if value is not None]
    with about(PropertyName(group[0].name) if group else None):
        return Key(hash_key(f"{entity.name}~counter", "", encoded, tenant), key_segment("counter", part.stored))


async def assign_numbers(records: EntityRecords, record: Entity) -> None:
    """Assign the next numbers of its groups to a record that lacks them, and raise counters to those it has."""
    entity, store = records.entity, records.store
    for part in entity.counters:
        key = counter_key(entity, part, record, records.tenant)
        number = value_of(record, part.name)
        subject = _counter_name(entity, part)
        if number is not None:
            await shared_counters(store).raise_to(store, key, number, subject)
            continue
        number = await shared_counters(store).next_number(store, key, subject)
        try:
            set_missing_numbers(entity, record, {part.name: part.column.codec.check(number)})
        except InvalidValue as problem:
            remedy = "{property}: the counter of this group is at its maximum. Declare the property with a wider type."
            raise property_error(InvalidValue, remedy, entity, part) from problem


async def raise_counters(store: Store, puts: Iterable[PutRecord], tenant: str | None) -> None:
    """Raise each counter to the greatest number of a batch, so that its records do not raise it one by one."""
    greatest: dict[Key, tuple[int, Message]] = {}
    for put in puts:
        for part in put.entity.counters if isinstance(put.record, put.entity.model) else ():
            number = value_of(put.record, part.name)
            if isinstance(number, int):
                key = counter_key(put.entity, part, put.record, tenant)
                if key not in greatest or greatest[key][0] < number:
                    greatest[key] = number, _counter_name(put.entity, part)
    for key, (number, subject) in greatest.items():
        await shared_counters(store).raise_to(store, key, number, subject)


def _counter_name(entity: EntitySpec, part: PropertySpec) -> Message:
    return Message("the counter of {property}", property=property_name(entity, part))


def set_missing_numbers(entity: EntitySpec, record: Entity, numbers: Mapping[str, int]) -> None:
    """Set those numbers that a record lacks."""
    vars(record).update({name: number for name, number in numbers.items() if value_of(record, name) is None})
    record.compute_derived(entity.derived_functions)


def needs_numbers(entity: EntitySpec, old: Entity, new: Entity) -> bool:
    """Return whether a record is older than a counter, or moves to another group and keeps its number."""
    groups = (name for part in entity.counters for name in part.counter_group or ())
    lacks_number = any(value_of(old, part.name) is None for part in entity.counters)
    return lacks_number or any(value_of(old, name) != value_of(new, name) for name in groups)


def shared_counters(store: Store) -> "Counters":
    """Return the counters of a store, which all writers of this process share, whatever wraps the store."""
    while isinstance(store, ForwardingStore):
        store = store.inner
    return _COUNTERS_BY_STORE.setdefault(store, Counters())


@dataclass(slots=True)
class _CounterQueue:
    """The requests to one counter. The first one to get the lock assigns numbers to all that are waiting by then.

    A `RequestCoalescer` would not do: requests wait while a batch of the same counter runs, and share the next one.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[asyncio.Future[int | ShardQLError]] = field(default_factory=list)
    users: int = 0


class Counters:
    """The counters of one store, as one process advances them. Concurrent requests to one counter are coalesced."""

    def __init__(self) -> None:
        self._queues: dict[tuple[asyncio.AbstractEventLoop, Key], _CounterQueue] = {}
        self._cached_items: dict[Key, Item] = {}

    async def next_number(self, store: Store, key: Key, subject: str | Message) -> int:
        """Return the next number of the counter at this key. Errors name the `subject`."""
        request: asyncio.Future[int | ShardQLError] = asyncio.get_running_loop().create_future()
        with self._queue(key) as queue:
            queue.waiting.append(request)
            try:
                async with queue.lock:
                    if not request.done():
                        await self._assign_waiting(store, key, queue, subject)
            finally:
                request.cancel()  # This has an effect only if this task was cancelled.
        result = request.result()
        if isinstance(result, ShardQLError):
            raise result
        return result

    async def raise_to(self, store: Store, key: Key, number: int, subject: str | Message) -> None:
        """Raise a counter to at least this number, so that it is never assigned again."""
        if self._has_reached(key, number):
            return
        with self._queue(key) as queue:
            async with queue.lock:
                if not self._has_reached(key, number):
                    await self._advance(store, key, lambda last: max(last, number), subject)

    def _has_reached(self, key: Key, number: int) -> bool:
        cached = self._cached_items.get(key)
        return cached is not None and bool(cached[LAST_NUMBER] >= number)

    @contextmanager
    def _queue(self, key: Key) -> Iterator[_CounterQueue]:
        """Provide the queue of a counter, which exists as long as there are requests to it."""
        queue_key = asyncio.get_running_loop(), key
        queue = self._queues.setdefault(queue_key, _CounterQueue())
        queue.users += 1
        try:
            yield queue
        finally:
            queue.users -= 1
            if not queue.users:
                del self._queues[queue_key]

    async def _assign_waiting(self, store: Store, key: Key, queue: _CounterQueue, subject: str | Message) -> None:
        """Assign numbers to all waiting requests. If this task is cancelled, the others keep waiting."""
        queue.waiting = [request for request in queue.waiting if not request.done()]
        requests, count = tuple(queue.waiting), len(queue.waiting)
        results: Sequence[int | ShardQLError]
        try:
            last = await self._advance(store, key, lambda last: last + count, subject)
            results = range(last - count + 1, last + 1)
        except QueryTooCostly:
            raise  # Only the ceiling of this request refuses the write: the others keep waiting.
        except ShardQLError as problem:
            results = [for_one_of_several(problem) for _ in range(count)]
        for request, result in zip(requests, results, strict=True):
            if not request.done():
                request.set_result(result)

    async def _advance(self, store: Store, key: Key, next_value: Callable[[int], int], subject: str | Message) -> int:
        """Advance a counter to the value that `next_value` computes from its last number. Return that value."""

        async def attempt() -> int:
            # A cached item serves one attempt: if another process has written the counter since, it is read again.
            stored = self._cached_items.pop(key, None)
            if stored is None:
                (stored,) = await store.get_many([key], consistent=True)
            last = 0 if stored is None else int(stored[LAST_NUMBER])
            new_last = next_value(last)
            if stored is not None and new_last == last:
                self._cache(key, stored)
                return new_last
            item = item_at(key, {LAST_NUMBER: new_last})
            try:
                await commit_single(store, Put(item, expect_unchanged(stored)))
            except ConditionFailed as problem:
                if problem.old is not None:
                    self._cache(key, problem.old)
                raise
            self._cache(key, item)
            return new_last

        return await retry_on_conflict(attempt, subject)

    def _cache(self, key: Key, item: Item) -> None:
        self._cached_items[key] = item
        if len(self._cached_items) > MAX_CACHED_COUNTERS:
            del self._cached_items[next(iter(self._cached_items))]  # the one that was cached first


_COUNTERS_BY_STORE: "WeakKeyDictionary[Store, Counters]" = WeakKeyDictionary()
