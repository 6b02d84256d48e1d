"""Writes: independent, in batches if they are unconditional, or as transactions."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from secrets import token_urlsafe
from typing import Any, NamedTuple

from graphql_api.errors import ConditionFailed, ItemTooLarge, StoreError, StoreRefused
from graphql_api.storage import (
    MAX_HASH_BYTES,
    MAX_TOKEN_CHARACTERS,
    Check,
    Expect,
    FailedCondition,
    IndexDefinition,
    Item,
    Key,
    Put,
    TableDefinition,
    TransactionWrite,
    Write,
    check_condition,
    check_distinct_keys,
    check_range_value,
    check_transaction,
    check_transaction_size,
    condition_failed_error,
    encode_key_text,
    refuse_lone_check,
    values_equal,
)
from graphql_api.storage.engines.dynamodb.api_client import ApiCall, ApiClient, Response, require_members
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentResponse
from graphql_api.storage.engines.dynamodb.point_reads import back_off, check_key, decode_key, encode_key
from graphql_api.storage.engines.dynamodb.table_lifecycle import TableDescription
from graphql_api.storage.engines.dynamodb.task_groups import run_with_limit
from graphql_api.storage.engines.dynamodb.wire_format import WireItem, encode_item, encode_value, max_wire_size

MAX_BATCH_WRITES = 25
MAX_BATCH_BYTES = 15 * 2**20
"""DynamoDB accepts 16 MB of JSON, including the envelope of the records"""
WRITE_ID = "_w"
"""the attribute that identifies a write (docs/table-format.md)"""

WriteErrors = list[StoreError | None]


class PreparedWrite(NamedTuple):
    """A validated and encoded write."""

    position: int
    key: Key
    write: TransactionWrite
    item: WireItem | None
    condition: dict[str, Any]
    """the condition as request parameters; empty without a condition"""

    @property
    def has_write_id(self) -> bool:
        """Return whether the stored record identifies this write."""
        return self.item is not None and WRITE_ID in self.item


def prepare_write(description: TableDescription, position: int, write: TransactionWrite) -> PreparedWrite:
    """Validate and encode a write, independent of what is stored."""
    table = description.definition
    condition = {} if write.expect is None else _condition(table, write.expect)
    if not isinstance(write, Put):
        check_key(write.key, "the check" if isinstance(write, Check) else "the deletion")
        return PreparedWrite(position, write.key, write, None, condition)
    for attribute in (table.hash_attribute, table.range_attribute):
        if attribute not in write.item:
            raise StoreRefused(f"The record lacks the key attribute {attribute!r}. Provide both key attributes.")
    key = Key(write.item[table.hash_attribute], write.item[table.range_attribute])
    check_key(key, "the record")
    for index in table.indexes:
        _check_entry(index, write.item)
    return PreparedWrite(position, key, write, encode_item(write.item), condition)


def _check_entry(index: IndexDefinition, item: Item) -> None:
    """Refuse attributes that an index cannot contain, even if the index would not contain the record."""
    where = f"index {index.name!r}: attribute"
    if index.hash_attribute in item:
        encode_key_text(item[index.hash_attribute], MAX_HASH_BYTES, f"{where} {index.hash_attribute!r}")
    if index.range_attribute in item:
        check_range_value(item[index.range_attribute], index.range_type, f"{where} {index.range_attribute!r}")


def _condition(table: TableDefinition, expect: Expect) -> dict[str, Any]:
    check_condition(expect)
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

    def __init__(self, api: ApiClient, description: TableDescription) -> None:
        self._api = api
        self._description = description
        self._table = description.definition

    async def write_each(self, writes: Sequence[Write]) -> WriteErrors:
        """Apply each write independently. Return the error or None of each write."""
        problems: WriteErrors = [None] * len(writes)
        changes = []
        for position, write in enumerate(writes):
            try:
                refuse_lone_check(write)
                changes.append(prepare_write(self._description, position, write))
            except StoreError as problem:
                problems[position] = problem
        check_distinct_keys(change.key for change in changes)
        unconditional = [change for change in changes if not change.condition]
        parts = [*_batches(unconditional), *([change] for change in changes if change.condition)]

        async def apply(part: list[PreparedWrite]) -> None:
            for change, problem in (await self._apply_part(part)).items():
                problems[change] = problem

        await run_with_limit(apply, parts, self._api.settings.batches_at_once)
        return problems

    async def _apply_part(self, part: list[PreparedWrite]) -> dict[int, StoreError | None]:
        """Apply a batch or a single write. If a batch is refused as a whole, apply its writes one by one."""
        deadline = self._api.new_deadline()
        if len(part) == 1:
            return {part[0].position: await self._apply_single(part[0], deadline)}
        remaining = list(part)
        try:
            attempt = 0
            while remaining:
                unprocessed = await self._send_batch(remaining, deadline)
                attempt = 1 if len(unprocessed) < len(remaining) else attempt + 1
                remaining = unprocessed
                if remaining:
                    await back_off(
                        self._api, attempt, deadline, f"BatchWriteItem left {len(remaining)} writes unprocessed"
                    )
        except (StoreRefused, ItemTooLarge):
            return {change.position: await self._apply_single(change, self._api.new_deadline()) for change in remaining}
        except StoreError as problem:
            return {change.position: problem for change in remaining}
        return {}

    async def _send_batch(self, changes: list[PreparedWrite], deadline: float) -> list[PreparedWrite]:
        """Send a batch. Return the writes that DynamoDB left unprocessed."""
        by_key = {change.key: change for change in changes}

        def unprocessed(response: Response) -> list[PreparedWrite]:
            remaining = []
            for request in response["UnprocessedItems"].get(self._api.table, ()):
                item = request["PutRequest"]["Item"] if "PutRequest" in request else request["DeleteRequest"]["Key"]
                remaining.append(by_key[decode_key(self._table, item)])
            return remaining

        def check(response: Response) -> None:
            try:
                unprocessed(response)
            except KeyError as problem:
                raise InconsistentResponse("it does not list what is unprocessed") from problem

        requests = [
            {"PutRequest": {"Item": change.item}}
            if change.item is not None
            else {"DeleteRequest": {"Key": encode_key(self._table, change.key)}}
            for change in changes
        ]
        call = ApiCall("BatchWriteItem", {"RequestItems": {self._api.table: requests}}, check, deadline)
        return unprocessed(await self._api.execute(call))

    async def _apply_single(self, change: PreparedWrite, deadline: float) -> StoreError | None:
        """Apply one write. After a lost response, the stored record or the token of a transaction shows the outcome.

        A transaction costs twice the write units, so it is used only if the record cannot identify the write.
        """
        try:
            if change.condition and not change.has_write_id:
                await self._send_transaction([change], token_urlsafe(18), deadline)
            else:
                await self._send_single(change, deadline)
        except StoreError as problem:
            return problem
        return None

    async def _send_single(self, change: PreparedWrite, deadline: float) -> None:
        request = {"TableName": self._api.table, **change.condition, "ReturnConsumedCapacity": "TOTAL"}
        if change.item is not None:
            operation, request["Item"] = "PutItem", change.item
        else:
            operation, request["Key"] = "DeleteItem", encode_key(self._table, change.key)
        call = ApiCall(operation, request, require_members("ConsumedCapacity"), deadline, *self._shard(change))
        try:
            await self._api.execute(call)
        except ConditionFailed as problem:
            if not _is_own_write(change, problem.old):
                raise _condition_failed_error([change], problem) from problem.__cause__

    def _shard(self, change: PreparedWrite) -> tuple[str, str]:
        """Return the shard of a write, and its name in error messages."""
        return f"{self._api.table}/table/{change.key.hash}", change.key.hash

    # --- transactions

    async def write_transaction(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically."""
        check_transaction(len(writes), token)
        changes = []
        for position, write in enumerate(writes):
            try:
                changes.append(prepare_write(self._description, position, write))
            except StoreError as problem:
                raise type(problem)(f"write {position}: {problem.message}") from problem
        check_distinct_keys(change.key for change in changes)
        check_transaction_size(writes)
        await self._send_transaction(changes, token, self._api.new_deadline())

    async def _send_transaction(self, changes: Sequence[PreparedWrite], token: str, deadline: float) -> None:
        request = {
            "TransactItems": [self._transact_item(change) for change in changes],
            "ClientRequestToken": self._client_token(token),
            "ReturnConsumedCapacity": "TOTAL",
        }
        shard = self._shard(changes[0]) if len(changes) == 1 else ()
        call = ApiCall("TransactWriteItems", request, require_members("ConsumedCapacity"), deadline, *shard)
        try:
            await self._api.execute(call)
        except ConditionFailed as problem:
            raise _condition_failed_error(changes, problem) from problem.__cause__

    def _client_token(self, token: str) -> str:
        """Return the token for DynamoDB, which remembers tokens per account: it includes the table."""
        return blake2b(f"{self._api.table}\0{token}".encode(), digest_size=MAX_TOKEN_CHARACTERS // 2).hexdigest()

    def _transact_item(self, change: PreparedWrite) -> dict[str, Any]:
        action = {"TableName": self._api.table, **change.condition}
        if change.item is not None:
            return {"Put": {**action, "Item": change.item}}
        kind = "ConditionCheck" if isinstance(change.write, Check) else "Delete"
        return {kind: {**action, "Key": encode_key(self._table, change.key)}}


def _batches(changes: Iterable[PreparedWrite]) -> Iterator[list[PreparedWrite]]:
    """Split the changes into batches within the limits of one request."""
    batch: list[PreparedWrite] = []
    size = 0
    for change in changes:
        added = 0 if change.item is None else max_wire_size(change.item)
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


def _condition_failed_error(changes: Sequence[PreparedWrite], problem: ConditionFailed) -> ConditionFailed:
    """Return the error of the port for failed conditions, with the positions of the caller."""
    return condition_failed_error(
        [
            FailedCondition(change.position, change.key, change.write.expect or Expect(), problem.failures[number])
            for number, change in enumerate(changes)
            if number in problem.failures
        ]
    )
