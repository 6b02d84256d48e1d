"""Writes: independent, in batches if they are unconditional, or as transactions."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from secrets import token_urlsafe
from typing import Any, NamedTuple

from graphql_api.errors import ConditionFailed, ItemTooLarge, StoreError, StoreRefused
from graphql_api.runtime import current_meter
from graphql_api.storage import (
    MAX_TOKEN_CHARACTERS,
    Check,
    Expect,
    FailedCondition,
    Item,
    Key,
    Put,
    TableDefinition,
    TransactionWrite,
    Write,
    check_transaction_size,
    check_write,
    condition_failed_error,
    current_bounds,
    most_of_writes,
    prepare_each,
    prepare_transaction,
    values_equal,
)
from graphql_api.storage.engines.dynamodb.api_client import ApiCall, ApiClient, run_concurrently
from graphql_api.storage.engines.dynamodb.driver_client import Response
from graphql_api.storage.engines.dynamodb.wire_format import (
    WireItem,
    decode_key,
    encode_item,
    encode_key,
    encode_value,
    max_wire_size,
)

MAX_BATCH_WRITES = 25
MAX_BATCH_BYTES = 15 * 2**20
"""DynamoDB accepts 16 MB of JSON, including the envelope of the records"""
WRITE_ID = "_w"
"""the attribute that identifies a write (docs/reference/table-format.md)"""


class PreparedWrite(NamedTuple):
    """A validated and encoded write."""

    position: int
    key: Key
    write: TransactionWrite
    kind: str
    """its name in the protocol: `Put`, `Delete` or `ConditionCheck`"""
    target: dict[str, WireItem]
    """the record or its key, as request parameter"""
    condition: dict[str, Any]
    """the condition as request parameters; empty without a condition"""


def prepare_write(table: TableDefinition, position: int, write: TransactionWrite) -> PreparedWrite:
    """Validate and encode a write, independent of what is stored."""
    key = check_write(table, write)
    condition = {} if write.expect is None else _condition(table, write.expect)
    if isinstance(write, Put):
        return PreparedWrite(position, key, write, "Put", {"Item": encode_item(write.item)}, condition)
    kind = "ConditionCheck" if isinstance(write, Check) else "Delete"
    return PreparedWrite(position, key, write, kind, {"Key": encode_key(table, key)}, condition)


def _condition(table: TableDefinition, expect: Expect) -> dict[str, Any]:
    encode_item(expect.attributes)
    encode_item(dict.fromkeys(expect.without))
    names, values = {"#h": table.hash_attribute}, {}
    if expect.absent:
        parts = ["attribute_not_exists(#h)"]
    else:
        parts = ["attribute_exists(#h)"]
        for number, (name, value) in enumerate(sorted(expect.attributes.items())):
            parts.append(f"#a{number} = :a{number}")
            names[f"#a{number}"] = name
            values[f":a{number}"] = encode_value(value, name)
        for number, name in enumerate(sorted(set(expect.without))):
            parts.append(f"attribute_not_exists(#w{number})")
            names[f"#w{number}"] = name
    condition: dict[str, Any] = {
        "ConditionExpression": " AND ".join(parts),
        "ExpressionAttributeNames": names,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if values:
        condition["ExpressionAttributeValues"] = values
    return condition


# --- independent writes ----------------------------------------------------------------------------------------


class ItemWriter:
    """Writes to one table."""

    def __init__(self, api: ApiClient, table: TableDefinition) -> None:
        self._api = api
        self._table = table

    async def write_each(self, writes: Sequence[Write]) -> list[StoreError | None]:
        """Apply each write independently. Return the error or None of each write."""
        changes, problems = prepare_each(writes, partial(prepare_write, self._table))
        unconditional = [change for change in changes if not change.condition]
        parts = [*_batches(unconditional), *([change] for change in changes if change.condition)]

        semaphore = asyncio.Semaphore(self._api.settings.batches_at_once)

        async def apply(part: list[PreparedWrite]) -> None:
            async with semaphore:
                if len(part) > 1:
                    part = await self._apply_batch(part, problems)
                for change in part:
                    problems[change.position] = await self._apply_single(change)

        await run_concurrently(apply, parts)
        return problems

    async def _apply_batch(self, batch: list[PreparedWrite], problems: list[StoreError | None]) -> list[PreparedWrite]:
        """Apply a batch. If it is refused as a whole, return the writes to apply one by one."""
        deadline = self._api.new_deadline()
        remaining = list(batch)
        send = partial(self._send_batch, deadline)
        try:
            await self._api.repeat_unprocessed(remaining, send, deadline, "BatchWriteItem left {} writes unprocessed")
        except (StoreRefused, ItemTooLarge):
            return remaining
        except StoreError as problem:
            for change in remaining:
                problems[change.position] = problem
        return []

    async def _send_batch(self, deadline: float, changes: list[PreparedWrite]) -> list[PreparedWrite]:
        """Send a batch. Return the writes that DynamoDB left unprocessed."""
        by_key = {change.key: change for change in changes}

        def parse(response: Response) -> list[PreparedWrite]:
            unprocessed = []
            for request in response["UnprocessedItems"].get(self._api.table, ()):
                item = request["PutRequest"]["Item"] if "PutRequest" in request else request["DeleteRequest"]["Key"]
                unprocessed.append(by_key[decode_key(self._table, item)])
            return unprocessed

        requests = [{f"{change.kind}Request": change.target} for change in changes]
        most = self._most_units(changes)
        call = ApiCall(
            "BatchWriteItem", {"RequestItems": {self._api.table: requests}}, parse, deadline, most_units=most
        )
        return await self._api.execute(call)

    async def _apply_single(self, change: PreparedWrite) -> StoreError | None:
        """Apply one write. After a lost response, the stored record or the token of a transaction shows the outcome.

        A transaction costs twice the write units, so it is used only if the record cannot identify the write.
        """
        try:
            if change.condition and WRITE_ID not in change.target.get("Item", ()):
                await self._send_transaction([change], token_urlsafe(18))
            else:
                request = {"TableName": self._api.table, **change.condition, **change.target}
                await self._send(f"{change.kind}Item", request, [change])
        except ConditionFailed as problem:
            return None if _is_own_write(change, problem.old) else problem
        except StoreError as problem:
            return problem
        return None

    # --- transactions

    async def write_transaction(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically."""
        changes = prepare_transaction(writes, token, partial(prepare_write, self._table))
        check_transaction_size(writes)
        await self._send_transaction(changes, token)

    async def _send_transaction(self, changes: Sequence[PreparedWrite], token: str) -> None:
        # DynamoDB remembers tokens per account, so its token includes the table.
        client_token = blake2b(
            f"{self._api.table}\0{token}".encode(), digest_size=MAX_TOKEN_CHARACTERS // 2
        ).hexdigest()
        actions = [
            {change.kind: {"TableName": self._api.table, **change.condition, **change.target}} for change in changes
        ]
        await self._send("TransactWriteItems", {"TransactItems": actions, "ClientRequestToken": client_token}, changes)

    async def _send(self, operation: str, request: dict[str, Any], changes: Sequence[PreparedWrite]) -> None:
        """Send writes in one request. Errors have the positions of the caller."""
        hash_key = changes[0].key.hash
        shard = f"{self._api.table}/table/{hash_key}" if len(changes) == 1 else None
        request["ReturnConsumedCapacity"] = "TOTAL"
        most = self._most_units(changes, is_transaction=operation == "TransactWriteItems")
        deadline = self._api.new_deadline()
        parse = itemgetter("ConsumedCapacity")
        call = ApiCall(operation, request, parse, deadline, shard, hash_key if shard else None, most_units=most)
        try:
            await self._api.execute(call)
        except ConditionFailed as problem:
            failed = [
                FailedCondition(change.position, change.key, change.write.expect or Expect(), problem.failures[number])
                for number, change in enumerate(changes)
                if number in problem.failures
            ]
            raise condition_failed_error(failed) from problem.__cause__

    def _most_units(self, changes: Iterable[PreparedWrite], *, is_transaction: bool = False) -> float:
        if current_meter() is None:
            return 0.0
        writes = [change.write for change in changes]
        return most_of_writes(self._table, writes, current_bounds(), together=is_transaction)


def _batches(changes: Iterable[PreparedWrite]) -> Iterator[list[PreparedWrite]]:
    """Split the changes into batches within the limits of one request."""
    batch: list[PreparedWrite] = []
    size = 0
    for change in changes:
        added = max_wire_size(change.target["Item"]) if change.kind == "Put" else 0
        if batch and (len(batch) == MAX_BATCH_WRITES or size + added > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += added
    if batch:
        yield batch


def _is_own_write(change: PreparedWrite, old: Item | None) -> bool:
    """Return whether the stored record was written by an earlier or duplicated attempt of this write."""
    written = change.write
    return isinstance(written, Put) and old is not None and WRITE_ID in old and values_equal(old, dict(written.item))
