"""Execute a request once, however often it is sent under one idempotency key (docs/writing.md).

The response is stored in the transaction of the request, so neither exists without the other. Later and concurrent
requests with the same key receive it. Failures are not stored: the same request may succeed later.
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

from graphql_api.codecs import KeyRange, hash_key, key_segment, short_repr
from graphql_api.errors import (
    ArgumentName,
    IdempotencyMismatch,
    InvalidValue,
    ItemTooLarge,
    PropertyName,
    ShardQLError,
    StoreError,
    about,
)
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, Entity, decode_record, encode_record, to_attribute_value
from graphql_api.storage import (
    AttributeValue,
    Check,
    Delete,
    Item,
    Key,
    Put,
    RangeRead,
    RowPage,
    Store,
    check_record_size,
)
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.item_keys import WRITE_ID
from graphql_api.writes.optimistic_concurrency import expect_unchanged, new_write_id
from graphql_api.writes.transactions import commit_transaction

RESPONSE_SECONDS = 24 * 60 * 60
"""how long a response is stored"""

MAX_IDEMPOTENCY_KEY_LENGTH = 255

REQUEST_DIGEST, RESPONSE, EXPIRES = "_request", "_answer", "_until"
"""attributes of a stored response: digest of the request, the record if any, the second at which it expires"""

DIGEST_BYTES = 32

SWEEP_INTERVAL, SWEEP_SIZE = 8, 16
"""share of the requests that sweep (one in 8), and number of stored responses that each sweep reads"""
SWEEP_SECONDS = 0.5
"""how long a sweep may delay the response"""
SWEEP_GRACE_SECONDS = 60 * 60
"""how long a sweep spares expired responses, since the clocks of servers differ"""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The response to an earlier request."""

    record: Entity | None
    """None for a delete of a record that did not exist"""


@dataclass(slots=True)
class IdempotencyGuard:
    """The guard of one request with an idempotency key: executes it, or replays its stored response."""

    store: Store
    command: Command
    key: Key
    """of the stored response"""
    request_digest: bytes
    now: float
    ttl_attribute: str | None
    """the attribute by which the engine deletes expired items, if it does"""
    snapshot: Item | None = field(default=None, init=False)
    """the item at the key when it was last read"""

    async def read_response(self) -> StoredResponse | None:
        """Return the stored response unless it has expired. Raise an error if it belongs to another request."""
        (item,) = await self.store.get_many([self.key], consistent=True)
        self.snapshot = item
        if item is None or item[EXPIRES] <= self.now:
            return None
        if item[REQUEST_DIGEST] != self.request_digest:
            raise IdempotencyMismatch(
                f"The idempotency key {short_repr(self.command.idempotency_key)} was used for another request. Create "
                "a new key for each request, and reuse it only to retry that request.",
                argument=ArgumentName("idempotency_key"),
            )
        attributes = item[RESPONSE]
        return StoredResponse(None if attributes is None else decode_record(self.command.entity, attributes))

    def response_write(self, record: Entity | None) -> Put:
        """Return the write that stores the response, on the condition that none was stored since the last read."""
        attributes = None if record is None else encode_record(self.command.entity, record)
        expires = int(self.now) + RESPONSE_SECONDS
        item = response_item(self.key, self.request_digest, attributes, expires, self.ttl_attribute)
        try:
            check_record_size(item)
        except ItemTooLarge as problem:
            raise ItemTooLarge(
                "{entity} is too large for a write with an idempotency key, which also stores the response: {problem}",
                entity=self.command.entity.type_name,
                problem=problem,
            ) from problem
        return Put(item, expect_unchanged(self.snapshot))

    async def attempt(self, execute: Callable[[], Awaitable[Entity | None]]) -> Entity | None:
        """Return the stored response, or execute the request.

        `execute` includes `response_write` in its transaction. If it fails, the cause may be the same request: a
        concurrent copy, or an earlier attempt whose outcome was unknown.
        """
        response = await self.read_response()
        if response is not None:
            return await self._replay(response)
        try:
            result = await execute()
        except ShardQLError as problem:
            response = await self._response_despite(problem)
            if response is None:
                raise
            result = await self._replay(response)
        else:
            await self._sweep()
        return result

    async def _response_despite(self, problem: ShardQLError) -> StoredResponse | None:
        """Return the stored response after a failed execution; None if the failure is final.

        A rejection is final only if the response can be read, and no concurrent copy of the request is committing: an
        engine may show the record of a transaction a moment before its stored response.
        """
        if isinstance(problem, StoreError):
            with suppress(StoreError):
                return await self.read_response()
            return None
        response = await self.read_response()
        if response is None:
            await commit_transaction(self.store, [Check(self.key, expect_unchanged(self.snapshot))])
        return response

    async def _replay(self, response: StoredResponse) -> Entity | None:
        """Return the record of a stored response, if the access rules still allow it: they may have changed."""
        record, allow = response.record, self.command.allow
        if allow is not None and record is not None:
            old = None if isinstance(self.command, Create | Replace) else record
            await allow(old, None if isinstance(self.command, Remove) else record)
        return record

    async def _sweep(self) -> None:
        """Occasionally delete some expired responses, for engines that do not delete them, or only late."""
        _, _, digest = self.key.range.partition("#")
        if int(digest[-2:], 16) % SWEEP_INTERVAL:
            return
        following = KeyRange(self.key.range, key_segment("request", "g"), low_open=True)
        names = frozenset({EXPIRES, WRITE_ID})
        read = RangeRead(None, self.key.hash, 0, following, SWEEP_SIZE, consistent=True, attributes=names)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(SWEEP_SECONDS):
                (page,) = await self.store.read_ranges([read], want=SWEEP_SIZE)
                if isinstance(page, RowPage):
                    expired = [row for row in page.rows if row.item[EXPIRES] + SWEEP_GRACE_SECONDS <= self.now]
                    deletes = [Delete(row.key, expect_unchanged(row.item)) for row in expired]
                    if deletes:
                        await self.store.write(deletes)


def idempotency_guard(
    store: Store,
    command: Command,
    *,
    tenant: str | None,
    subject: str | None,
    now: float,
    ttl_attribute: str | None,
) -> IdempotencyGuard | None:
    """Return the guard of a command with an idempotency key. Keys belong to a tenant and a subject.

    The subject excludes the groups of the caller, so a retry with a renewed token finds the response.
    """
    key = command.idempotency_key
    if key is None:
        return None
    check_idempotency_key(key)
    return IdempotencyGuard(
        store, command, response_key(key, tenant, subject), request_digest(command), now, ttl_attribute
    )


def response_key(key: str, tenant: str | None, subject: str | None) -> Key:
    """Return the key of the stored response for an idempotency key. Its first hex digit selects one of 16 shards."""
    owner = b"" if subject is None else b"=" + subject.encode(errors="surrogatepass")
    digest = blake2b(owner + b"\0" + key.encode(), digest_size=DIGEST_BYTES).hexdigest()
    return Key(hash_key("shardql~once", digest[0], (), tenant), key_segment("request", digest))


def response_item(key: Key, request: bytes, attributes: Item | None, expires: int, ttl_attribute: str | None) -> Item:
    """Return a response in its stored form: the digest of the request, and the attributes of the record if any."""
    item = {
        HASH_ATTRIBUTE: key.hash,
        RANGE_ATTRIBUTE: key.range,
        REQUEST_DIGEST: request,
        RESPONSE: attributes,
        EXPIRES: expires,
        WRITE_ID: new_write_id(),
    }
    return item if ttl_attribute is None else {**item, ttl_attribute: expires}


def check_idempotency_key(key: str, max_length: int = MAX_IDEMPOTENCY_KEY_LENGTH) -> None:
    """Reject texts that cannot be an idempotency key."""
    if not 1 <= len(key) <= max_length or not all("!" <= character <= "~" for character in key):
        raise InvalidValue(
            f"{short_repr(key)} is not a valid idempotency key: use 1 to {max_length} visible ASCII characters, such "
            "as a UUID.",
            argument=ArgumentName("idempotency_key"),
        )


# --- digests of requests ---------------------------------------------------------------------------------------


def request_digest(command: Command) -> bytes:
    """Return a digest of everything that distinguishes a request: the kind of write, the record and the values."""
    key: Sequence[Any] = () if isinstance(command, Create | Replace) else command.key
    values: Mapping[str, Any] = {}
    if not isinstance(command, Remove):
        values = command.changes if isinstance(command, Update) else command.values
    version = None if isinstance(command, Create) else command.expected_version
    canonical_values: dict[str, Any] = {}
    request = [
        type(command).__name__,
        command.entity.name,
        [_canonical(part) for part in key],
        _canonical(version),
        canonical_values,
    ]
    for name, value in values.items():
        with about(PropertyName(name)):
            canonical_values[name] = _canonical(value)
    return blake2b(dumps(request, option=OPT_SORT_KEYS), digest_size=DIGEST_BYTES).digest()


def _canonical(value: Any) -> Any:
    return _canonical_json(to_attribute_value(value))


def _canonical_json(value: AttributeValue) -> Any:
    """Return the canonical JSON form of a value: 1 equals 1.0, but neither "1" nor true."""
    match value:
        case None | bool() | str():
            return value
        case int() | Decimal():
            digits = format(Decimal(value), "f") if value else "0"
            return ["number", digits.rstrip("0").rstrip(".") if "." in digits else digits]
        case bytes():
            return ["bytes", value.hex()]
        case Mapping():
            return {name: _canonical_json(item) for name, item in value.items()}
        case AbstractSet():
            return ["set", *sorted((_canonical_json(item) for item in value), key=dumps)]
        case _:
            return ["list", *map(_canonical_json, value)]
