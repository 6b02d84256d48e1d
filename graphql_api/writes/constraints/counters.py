"""Numbers that the records of a group get in turn: none twice for ever, at times one left out (docs/writing.md).

The counter of a group is an item of its own, which says the last number that was taken. It is raised before the record
is written, and never goes back: a number whose record was not written after all is left out.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from graphql_api.codecs import hash_key, segment
from graphql_api.errors import ConditionFailed, InvalidValue, ShardQLError, about, for_one_of_several
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, Entity, EntitySpec, PropertySpec, value_of
from graphql_api.storage import Item, Key, MeteredStore, Put, Store
from graphql_api.writes.item_keys import WRITE_ID
from graphql_api.writes.optimistic_concurrency import in_some_tries, new_write_id, unchanged
from graphql_api.writes.transactions import commit_alone
from graphql_api.writes.write_coalescer import Together

LAST = "_last"
"""attribute of a counter: the last number that was taken"""

MAX_KNOWN = 1_000
"""counters whose last number a process remembers"""


def counter_key(entity: EntitySpec, part: PropertySpec, record: Entity, tenant: str | None) -> Key:
    """Where the counter of a property stands for the group that a record is of."""
    group = [entity.properties[name] for name in part.counts or ()]
    values = [(one, value_of(record, one.name)) for one in group]
    named = [(one.stored, one.column.encode(value)) for one, value in values if value is not None]
    with about(group[0].name if group else None):
        return Key(hash_key(f"{entity.name}~counter", "", named, tenant), segment("counter", part.stored))


async def give_numbers(store: Store, entity: EntitySpec, record: Entity, tenant: str | None) -> None:
    """Gives a record the next numbers of its groups where it has none, and raises the counters above those it has."""
    for part in entity.counters:
        key = counter_key(entity, part, record, tenant)
        number = value_of(record, part.name)
        of = f"The counter of {entity.type_name}.{part.name}"
        if number is not None:
            await counters_of(store).raise_to(store, key, number, of)
            continue
        number = await counters_of(store).take(store, key, of)
        try:
            put_numbers(record, {part.name: part.column.codec.check(number)})
        except InvalidValue as problem:
            raise InvalidValue(
                f"{entity.type_name}.{part.name}: the numbers of this group have come to their end. Declare the "
                "property of a wider type.",
                argument=part.name,
            ) from problem


async def raise_counters(store: Store, entity: EntitySpec, records: Sequence[Entity], tenant: str | None) -> None:
    """Raises each counter above all numbers of many records at once, so that none of them has to wait for it."""
    furthest: dict[Key, tuple[int, str]] = {}
    for part in entity.counters:
        for record in records:
            number = value_of(record, part.name)
            if isinstance(number, int):
                key = counter_key(entity, part, record, tenant)
                if key not in furthest or furthest[key][0] < number:
                    furthest[key] = number, f"The counter of {entity.type_name}.{part.name}"
    for key, (number, of) in furthest.items():
        await counters_of(store).raise_to(store, key, number, of)


def put_numbers(record: Entity, numbers: Mapping[str, int]) -> None:
    """Gives a record those of the numbers that it lacks."""
    vars(record).update({name: number for name, number in numbers.items() if value_of(record, name) is None})
    record.compute_derived()


def needs_numbers(entity: EntitySpec, old: Entity, new: Entity) -> bool:
    """Whether a counter has to know of a record that has stood there before.

    The record is from before there was a counter, or takes its number along into another group.
    """
    groups = (name for part in entity.counters for name in part.counts or ())
    lacks = any(value_of(old, part.name) is None for part in entity.counters)
    return lacks or any(value_of(old, name) != value_of(new, name) for name in groups)


def counters_of(store: Store) -> "Counters":
    """The counters of a store, which everybody in this process shares who writes through it, in whatever way."""
    while isinstance(store, MeteredStore | Together):
        store = store.inner
    return _OF_STORES.setdefault(store, Counters())


@dataclass(slots=True, eq=False)
class _Turn:
    """One taker, until it has its number or knows why there is none."""

    number: int | None = None
    problem: ShardQLError | None = None


@dataclass(slots=True)
class _Line:
    """Those who are at the counter of one group: the first one takes numbers for all who wait by then."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_Turn] = field(default_factory=list)
    takers: int = 0


class Counters:
    """The counters of one store, as one process takes numbers from them."""

    def __init__(self) -> None:
        self._lines: dict[tuple[asyncio.AbstractEventLoop, Key], _Line] = {}
        self._known: OrderedDict[Key, Item] = OrderedDict()

    async def take(self, store: Store, key: Key, of: str) -> int:
        """The next number of a group, whose counter stands at this key; `of`: what errors call it."""
        turn = _Turn()
        with self._in_line(key) as line:
            line.waiting.append(turn)
            try:
                async with line.lock:
                    if turn in line.waiting:
                        await self._serve(store, key, line, of)
            finally:
                line.waiting = [other for other in line.waiting if other is not turn]
        if turn.problem is not None:
            raise turn.problem
        assert turn.number is not None, "whoever is no longer waiting was served"
        return turn.number

    async def raise_to(self, store: Store, key: Key, number: int, of: str) -> None:
        """Sees to it that numbers up to this one are never handed out again; it may be higher by now."""
        if self._is_known_to_reach(key, number):
            return
        with self._in_line(key) as line:
            async with line.lock:
                if not self._is_known_to_reach(key, number):
                    await self._advance(store, key, lambda last: max(last, number), of)

    def _is_known_to_reach(self, key: Key, number: int) -> bool:
        known = self._known.get(key)
        return known is not None and bool(known[LAST] >= number)

    @contextmanager
    def _in_line(self, key: Key) -> Iterator[_Line]:
        """The line of those who are at a group's counter just now."""
        place = asyncio.get_running_loop(), key
        line = self._lines.setdefault(place, _Line())
        line.takers += 1
        try:
            yield line
        finally:
            line.takers -= 1
            if not line.takers:
                del self._lines[place]

    async def _serve(self, store: Store, key: Key, line: _Line, of: str) -> None:
        """Takes a number for each of those who wait; if the one who does it leaves, the others take their own."""
        served, line.waiting = line.waiting, []
        try:
            last = await self._advance(store, key, lambda last: last + len(served), of)
        except ShardQLError as problem:
            for turn in served:
                turn.problem = for_one_of_several(problem)
        except BaseException:
            line.waiting = [*served, *line.waiting]
            raise
        else:
            for back, turn in enumerate(reversed(served)):
                turn.number = last - back

    async def _advance(self, store: Store, key: Key, following: Callable[[int], int], of: str) -> int:
        """Makes the last number of a counter the one that follows it, and gives that back."""

        async def attempt() -> int:
            # What is known is believed once: a counter that may have been written since, by anybody, is read anew.
            stored = self._known.pop(key, None)
            if stored is None:
                (stored,) = await store.get_many([key], consistent=True)
            before = 0 if stored is None else int(stored[LAST])
            last = following(before)
            if stored is not None and last == before:
                self._remember(key, stored)
                return last
            item = {HASH_ATTRIBUTE: key.hash, RANGE_ATTRIBUTE: key.range, LAST: last, WRITE_ID: new_write_id()}
            try:
                await commit_alone(store, Put(item, unchanged(stored)))
            except ConditionFailed as problem:
                if problem.old is not None:
                    self._remember(key, problem.old)
                raise
            self._remember(key, item)
            return last

        return await in_some_tries(attempt, of)

    def _remember(self, key: Key, item: Item) -> None:
        self._known[key] = item
        self._known.move_to_end(key)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


_OF_STORES: "WeakKeyDictionary[Store, Counters]" = WeakKeyDictionary()
