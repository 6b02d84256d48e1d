"""Execute a request once, however often it is sent under one idempotency key (docs/how-to/writing.md).

The response is stored in the transaction of the request, so neither exists without the other. Later and concurrent
requests with the same key receive it. Failures are not stored: the same request may succeed later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
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
from graphql_api.model import Entity, decode_record, encode_record, to_attribute_value
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
    canonical_json,
    check_record_size,
)
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.entity_records import item_at
from graphql_api.writes.item_keys import WRITE_ID
from graphql_api.writes.transactions import commit_transaction, expect_unchanged

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


Results = Sequence[Entity | None]
"""of each command the record as it was written, or the record that was deleted"""


# --- requests --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """One command, or several that are executed all or none, with an idempotency key."""

    idempotency_key: str
    commands: Sequence[Command]
    is_combined: bool = False
    """the commands are executed all or none, and the response is a list"""

    @property
    def subject(self) -> str:
        """Return what errors name as written."""
        return "The result of all operations" if self.is_combined else self.commands[0].entity.type_name

    @property
    def digest(self) -> bytes:
        """Return a digest of everything that distinguishes the request."""
        described = [*map(_described, self.commands)]
        request = described if self.is_combined else described[0]
        return blake2b(dumps(request, option=OPT_SORT_KEYS), digest_size=DIGEST_BYTES).digest()

    def encode(self, results: Results) -> AttributeValue:
        """Return the stored form of the results: the attributes of each record, or None."""
        encoded = [
            None if record is None else encode_record(command.entity, record)
            for command, record in zip(self.commands, results, strict=True)
        ]
        return encoded if self.is_combined else encoded[0]

    def decode(self, response: AttributeValue) -> list[Entity | None]:
        """Return the results in a stored response."""
        return [
            None if attributes is None else decode_record(command.entity, attributes)
            for command, attributes in zip(self.commands, response if self.is_combined else [response], strict=True)
        ]


def _described(command: Command) -> list[Any]:
    """Return everything that distinguishes a command: the kind of write, the record and the values."""
    key: Sequence[Any] = ()
    values: Mapping[str, Any] = {}
    match command:
        case Create() | Replace():
            values = command.values
        case Update():
            key, values = command.key, command.changes
        case Remove():
            key = command.key
    version = None if isinstance(command, Create) else command.expected_version
    canonical_values = {}
    for name, value in values.items():
        with about(PropertyName(name)):
            canonical_values[name] = _canonical(value)
    kind = type(command).__name__
    return [kind, command.entity.name, [*map(_canonical, key)], _canonical(version), canonical_values]


def _canonical(value: Any) -> Any:
    return canonical_json(to_attribute_value(value))


# --- the guard -------------------------------------------------------------------------------------------------


class IdempotencyGuard:
    """The guard of one request with an idempotency key: executes it, or replays its stored response.

    Keys belong to a tenant and a subject. The subject excludes the groups of the caller, so a retry with a renewed
    token finds the response. `ttl_attribute`: the attribute by which the engine deletes expired items, if it does.
    """

    def __init__(
        self,
        request: IdempotentRequest,
        store: Store,
        tenant: str | None,
        subject: str | None,
        now: float,
        ttl_attribute: str | None,
    ) -> None:
        check_idempotency_key(request.idempotency_key)
        self.request = request
        self.store = store
        self.key = response_key(request.idempotency_key, tenant, subject)
        self.request_digest = request.digest
        self.now = now
        self.ttl_attribute = ttl_attribute
        self.snapshot: Item | None = None  # the item at the key when it was last read

    async def read_response(self) -> Item | None:
        """Return the stored response unless it has expired. Raise an error if it belongs to another request."""
        (item,) = await self.store.get_many([self.key], consistent=True)
        self.snapshot = item
        if item is None or item[EXPIRES] <= self.now:
            return None
        if item[REQUEST_DIGEST] != self.request_digest:
            raise IdempotencyMismatch(
                f"The idempotency key {short_repr(self.request.idempotency_key)} was used for another request. Create "
                "a new key for each request, and reuse it only to retry that request.",
                argument=ArgumentName("idempotency_key"),
            )
        return item

    def response_write(self, results: Results) -> Put:
        """Return the write that stores the response, on the condition that none was stored since the last read."""
        expires = int(self.now) + RESPONSE_SECONDS
        response = self.request.encode(results)
        item = response_item(self.key, self.request_digest, response, expires, self.ttl_attribute)
        try:
            check_record_size(item)
        except ItemTooLarge as problem:
            raise ItemTooLarge(
                "{entity} is too large for a write with an idempotency key, which also stores the response: {problem}",
                entity=self.request.subject,
                problem=problem,
            ) from problem
        return Put(item, expect_unchanged(self.snapshot))

    def own_writes(self, results: Results) -> Sequence[Put]:
        """Return the write that stores the response, for the transaction of several commands."""
        return [self.response_write(results)]

    async def attempt(self, execute: Callable[[], Awaitable[Results]]) -> Results:
        """Return the results of the stored response, or execute the request.

        `execute` includes `response_write` in its transaction. If it fails, the cause may be the same request: a
        concurrent copy, or an earlier attempt whose outcome was unknown. So a rejection is final only if there is no
        response, and no concurrent copy is committing: an engine may show a record a moment before the response.
        """
        response = await self.read_response()
        if response is not None:
            return await self._replay(response)
        try:
            results = await execute()
        except ShardQLError as problem:
            with suppress(StoreError) if isinstance(problem, StoreError) else nullcontext():
                response = await self.read_response()
            if response is not None:
                return await self._replay(response)
            if not isinstance(problem, StoreError):
                await commit_transaction(self.store, [Check(self.key, expect_unchanged(self.snapshot))])
            raise
        await self._sweep()
        return results

    async def _replay(self, response: Item) -> Results:
        """Return the records of a stored response, if the access rules still allow them: they may have changed."""
        results = self.request.decode(response[RESPONSE])
        for command, record in zip(self.request.commands, results, strict=True):
            if command.allow is not None and record is not None:
                old = None if isinstance(command, Create | Replace) else record
                await command.allow(old, None if isinstance(command, Remove) else record)
        return results

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


def response_key(key: str, tenant: str | None, subject: str | None) -> Key:
    """Return the key of the stored response for an idempotency key. Its first hex digit selects one of 16 shards."""
    owner = b"" if subject is None else b"=" + subject.encode(errors="surrogatepass")
    digest = blake2b(owner + b"\0" + key.encode(), digest_size=DIGEST_BYTES).hexdigest()
    return Key(hash_key("shardql~once", digest[0], (), tenant), key_segment("request", digest))


def response_item(key: Key, request: bytes, response: AttributeValue, expires: int, ttl_attribute: str | None) -> Item:
    """Return a response in its stored form: the digest of the request, and what it returned."""
    expiry = {} if ttl_attribute is None else {ttl_attribute: expires}
    return item_at(key, {REQUEST_DIGEST: request, RESPONSE: response, EXPIRES: expires, **expiry})


def check_idempotency_key(key: str, max_length: int = MAX_IDEMPOTENCY_KEY_LENGTH) -> None:
    """Reject texts that cannot be an idempotency key."""
    if not 1 <= len(key) <= max_length or not all("!" <= character <= "~" for character in key):
        raise InvalidValue(
            f"{short_repr(key)} is not a valid idempotency key: use 1 to {max_length} visible ASCII characters, such "
            "as a UUID.",
            argument=ArgumentName("idempotency_key"),
        )
