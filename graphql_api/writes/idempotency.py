"""Requests that are carried out once, however often they come under one idempotency key (docs/writing.md).

The answer is kept in the transaction that carries the request out, so there is never one without the other; whoever
comes later, or at the same time, is given it. Failures are not kept: the same request may succeed another time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from orjson import OPT_SORT_KEYS, dumps

from graphql_api.codecs import KeyRange, hash_key, segment, shown
from graphql_api.errors import IdempotencyMismatch, InvalidValue, ItemTooLarge, ShardQLError, StoreError, about
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, Entity, from_item, to_attributes, to_plain
from graphql_api.storage import AttributeValue, Check, Delete, Item, Key, Put, RangeRead, RowPage, Store, refuse_large
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.item_keys import WRITE_ID
from graphql_api.writes.optimistic_concurrency import new_write_id, unchanged
from graphql_api.writes.transactions import commit

KEPT_SECONDS = 24 * 60 * 60

MAX_CHARACTERS = 255
"""of an idempotency key"""

REQUEST, ANSWER, UNTIL = "_request", "_answer", "_until"
"""attributes of a kept answer: the request's digest, the record if there is one, the second at which it expires"""

DIGEST_BYTES = 32

SHARDS = "0123456789abcdef"
"""kept answers lie in so many shards, by the first digit of their digests"""

SWEEP_EVERY, SWEPT = 8, 16
"""how many kept answers there are for one sweep, and how many of those behind them that looks at"""
SWEEP_SECONDS = 0.5
"""how long a sweep may hold up the answer"""
SWEEP_GRACE = 60 * 60
"""seconds for which expired answers are left alone: the clocks of servers differ"""


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer that a request was given."""

    record: Entity | None
    """None: there was nothing to remove"""


@dataclass(slots=True)
class Once:
    """One request under an idempotency key: its answer, if it was carried out, and how it is kept."""

    store: Store
    command: Command
    key: Key
    request: bytes
    """digest of what is asked for"""
    now: float
    ttl_attribute: str | None
    """by which the engine removes what has expired, if it does"""
    standing: Item | None = field(default=None, init=False)
    """what stood at the key when it was last looked at"""

    async def kept(self) -> Kept | None:
        """The answer that is kept, if there is one that has not expired; an error if it is that of another request."""
        (found,) = await self.store.get_many([self.key], consistent=True)
        self.standing = found
        if found is None or found[UNTIL] <= self.now:
            return None
        if found[REQUEST] != self.request:
            raise IdempotencyMismatch(
                f"The idempotency key {shown(self.command.idempotency_key)} was used for another request. Make a new "
                "key for each request, and give it again only with the very same one.",
                argument="idempotency_key",
            )
        answer = found[ANSWER]
        return Kept(None if answer is None else from_item(self.command.entity, answer))

    def put(self, record: Entity | None) -> Put:
        """Keeps the answer, in the transaction of the request, unless one is kept since it was last looked."""
        answer = None if record is None else to_attributes(self.command.entity, record)
        item = kept_item(self.key, self.request, answer, int(self.now) + KEPT_SECONDS, self.ttl_attribute)
        try:
            refuse_large(item)
        except ItemTooLarge as problem:
            raise ItemTooLarge(
                f"{self.command.entity.type_name} is too large for a write with an idempotency key, whose answer is "
                f"kept: {problem.message}",
            ) from problem
        return Put(item, unchanged(self.standing))

    async def attempt(self, carry_out: Callable[[], Awaitable[Entity | None]]) -> Entity | None:
        """What the request is answered: as before, if it was carried out before; else by carrying it out.

        `carry_out` puts the answer in its transaction. Where it fails, the reason may be this very request, which
        somebody has carried out since it was looked for, or of which nobody has heard that it was carried out.
        """
        kept = await self.kept()
        if kept is not None:
            return await self._again(kept)
        try:
            answer = await carry_out()
        except ShardQLError as problem:
            kept = await self._kept_behind(problem)
            if kept is None:
                raise
            answer = await self._again(kept)
        else:
            await self._sweep()
        return answer

    async def _kept_behind(self, problem: ShardQLError) -> Kept | None:
        """The answer that is kept where the request has failed; without one the problem stands.

        A refusal counts only where that can be looked for, and where nobody is just carrying the request out: an engine
        may show the record of a transaction a moment before the answer that it keeps.
        """
        if isinstance(problem, StoreError):
            with suppress(StoreError):
                return await self.kept()
            return None
        kept = await self.kept()
        if kept is None:
            await commit(self.store, [Check(self.key, unchanged(self.standing))])
        return kept

    async def _again(self, kept: Kept) -> Entity | None:
        """A kept answer, if the caller may still have it: rights may have changed since."""
        record, allow = kept.record, self.command.allow
        if allow is not None and record is not None:
            old = None if isinstance(self.command, Create | Replace) else record
            await allow(old, None if isinstance(self.command, Remove) else record)
        return record

    async def _sweep(self) -> None:
        """Now and then removes some answers that have expired, where the engine may not do it or takes its time."""
        _, _, digest = self.key.range.partition("#")
        if int(digest[-2:], 16) % SWEEP_EVERY:
            return
        behind = KeyRange(self.key.range, segment("request", "g"), low_open=True)
        names = frozenset({UNTIL, WRITE_ID})
        read = RangeRead(None, self.key.hash, 0, behind, SWEPT, consistent=True, attributes=names)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(SWEEP_SECONDS):
                (page,) = await self.store.read_ranges([read], want=SWEPT)
                if isinstance(page, RowPage):
                    expired = [row for row in page.rows if row.item[UNTIL] + SWEEP_GRACE <= self.now]
                    deletes = [Delete(row.key, unchanged(row.item)) for row in expired]
                    if deletes:
                        await self.store.write(deletes)


def once(
    store: Store,
    command: Command,
    *,
    tenant: str | None,
    subject: str | None,
    now: float,
    ttl_attribute: str | None,
) -> Once | None:
    """How a request is carried out once, if it has an idempotency key; that belongs to the tenant and the subject.

    Who it is says so alone, and not what they may do: a token that is renewed with other groups asks for the same.
    """
    key = command.idempotency_key
    if key is None:
        return None
    check_key(key)
    return Once(store, command, place_of(key, tenant, subject), digest_of(command), now, ttl_attribute)


def place_of(key: str, tenant: str | None, subject: str | None) -> Key:
    """Where the answer to a request with this idempotency key is kept."""
    who = b"" if subject is None else b"=" + subject.encode(errors="surrogatepass")
    digest = blake2b(who + b"\0" + key.encode(), digest_size=DIGEST_BYTES).hexdigest()
    return Key(hash_key("shardql~once", digest[0], (), tenant), segment("request", digest))


def kept_item(place: Key, request: bytes, answer: Item | None, until: int, ttl_attribute: str | None) -> Item:
    """An answer as it is stored; `answer`: the attributes of the record, if there is one."""
    item = {
        HASH_ATTRIBUTE: place.hash,
        RANGE_ATTRIBUTE: place.range,
        REQUEST: request,
        ANSWER: answer,
        UNTIL: until,
        WRITE_ID: new_write_id(),
    }
    return item if ttl_attribute is None else {**item, ttl_attribute: until}


def check_key(key: str, most: int = MAX_CHARACTERS) -> None:
    """Refuses what is no idempotency key; `most`: how many characters it may have."""
    if not 1 <= len(key) <= most or not all("!" <= mark <= "~" for mark in key):
        raise InvalidValue(
            f"{shown(key)} is no idempotency key: give 1 to {most} visible ASCII characters, as of a UUID.",
            argument="idempotency_key",
        )


# --- what is asked for -----------------------------------------------------------------------------------------


def digest_of(command: Command) -> bytes:
    """What tells a request from every other one: what is done, to which record, with which values."""
    key: Sequence[Any] = () if isinstance(command, Create | Replace) else command.key
    values: Mapping[str, Any] = {}
    if not isinstance(command, Remove):
        values = command.changes if isinstance(command, Update) else command.values
    version = None if isinstance(command, Create) else command.expected_version
    told: list[Any] = [type(command).__name__, command.entity.name, [_told(part) for part in key], _told(version), {}]
    for name, value in values.items():
        with about(name):
            told[-1][name] = _told(value)
    return blake2b(dumps(told, option=OPT_SORT_KEYS), digest_size=DIGEST_BYTES).digest()


def _told(value: Any) -> Any:
    return _tagged(to_plain(value))


def _tagged(plain: AttributeValue) -> Any:
    """A value as JSON, in one way: 1 is 1.0, but never "1" or true."""
    match plain:
        case None | bool() | str():
            return plain
        case int() | Decimal():
            digits = format(Decimal(plain), "f") if plain else "0"
            return ["number", digits.rstrip("0").rstrip(".") if "." in digits else digits]
        case bytes():
            return ["bytes", plain.hex()]
        case Mapping():
            return {name: _tagged(value) for name, value in plain.items()}
        case AbstractSet():
            return ["set", *sorted((_tagged(value) for value in plain), key=dumps)]
        case _:
            return ["list", *map(_tagged, plain)]
