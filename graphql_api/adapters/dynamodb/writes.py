"""Writes one by one, in batches where nothing is expected of what stands there, and all or none."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from graphql_api.adapters.dynamodb.calls import Answer, Call, Calls, requires
from graphql_api.adapters.dynamodb.gather import some_at_once
from graphql_api.adapters.dynamodb.gets import check_key, read_key, rest, wire_key
from graphql_api.adapters.dynamodb.items import WireItem, bytes_sent, encode_item, encode_value
from graphql_api.adapters.dynamodb.problems import InconsistentAnswer
from graphql_api.adapters.dynamodb.table import Standing
from graphql_api.errors import ConditionFailed, ItemTooLarge, StoreError, StoreRefused
from graphql_api.store.checks import (
    MOST_HASH_BYTES,
    MOST_TOKEN_CHARACTERS,
    check_contradiction,
    check_range_value,
    check_together,
    check_together_size,
    key_text,
    refuse_doubles,
)
from graphql_api.store.records import same
from graphql_api.store.values import Delete, Expect, IndexDefinition, Item, Key, TableDefinition, Write

MOST_IN_A_BATCH = 25
MOST_BYTES_IN_A_BATCH = 15 * 2**20
"""AWS takes 16 MB of JSON, with what stands around the records"""
WRITE_ID = "_w"
"""the attribute that tells one write from every other (docs/table-format.md)"""

Problems = list[StoreError | None]


class Change(NamedTuple):
    """A write, checked and encoded."""

    position: int
    key: Key
    write: Write
    item: WireItem | None
    condition: dict[str, Any]
    """what the protocol needs for the expectation, if there is one"""


def prepare(standing: Standing, position: int, write: Write) -> Change:
    """Checks a write by everything that does not depend on what is stored."""
    table = standing.definition
    condition = {} if write.expect is None else _condition(table, write.expect)
    if isinstance(write, Delete):
        check_key(write.key, "the deletion")
        return Change(position, write.key, write, None, condition)
    for attribute in (table.hash_attribute, table.range_attribute):
        if attribute not in write.item:
            raise StoreRefused(f"The record lacks its key attribute {attribute!r}. Every record needs both.")
    key = Key(write.item[table.hash_attribute], write.item[table.range_attribute])
    check_key(key, "the record")
    for index in table.indexes:
        _check_entry(index, write.item)
    return Change(position, key, write, encode_item(write.item), condition)


def _check_entry(index: IndexDefinition, item: Item) -> None:
    """Refuses attributes that an index could not hold, whether or not it would hold the record."""
    where = f"index {index.name!r}: attribute"
    if index.hash_attribute in item:
        key_text(item[index.hash_attribute], MOST_HASH_BYTES, f"{where} {index.hash_attribute!r}")
    if index.range_attribute in item:
        check_range_value(item[index.range_attribute], index.range_type, f"{where} {index.range_attribute!r}")


def _condition(table: TableDefinition, expect: Expect) -> dict[str, Any]:
    check_contradiction(expect)
    encode_item(expect.attributes)
    names, values = {"#h": table.hash_attribute}, {}
    if expect.absent:
        parts = ["attribute_not_exists(#h)"]
    else:
        parts = ["attribute_exists(#h)"]
        for place, (name, value) in enumerate(sorted(expect.attributes.items())):
            parts.append(f"#a{place} = :a{place}")
            names[f"#a{place}"] = name
            values[f":a{place}"] = encode_value(value, name)
    condition: dict[str, Any] = {
        "ConditionExpression": " AND ".join(parts),
        "ExpressionAttributeNames": names,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if values:
        condition["ExpressionAttributeValues"] = values
    return condition


# --- each by itself --------------------------------------------------------------------------------------------


class Writer:
    """Writes to one table as it stands."""

    def __init__(self, calls: Calls, standing: Standing) -> None:
        self._calls = calls
        self._standing = standing
        self._table = standing.definition

    async def each(self, writes: Sequence[Write]) -> Problems:
        """Applies each write by itself; tells for each what was wrong."""
        problems: Problems = [None] * len(writes)
        changes = []
        for position, write in enumerate(writes):
            try:
                changes.append(prepare(self._standing, position, write))
            except StoreError as problem:
                problems[position] = problem
        refuse_doubles(change.key for change in changes)
        plain = [change for change in changes if not change.condition]
        parts = [*_batches(plain), *([change] for change in changes if change.condition)]

        async def apply(part: list[Change]) -> None:
            for change, problem in (await self._part(part)).items():
                problems[change] = problem

        await some_at_once(apply, parts, self._calls.settings.batches_at_once)
        return problems

    async def _part(self, part: list[Change]) -> dict[int, StoreError | None]:
        """A batch, or a single write; a batch that is refused as a whole is tried write by write."""
        deadline = self._calls.deadline()
        if len(part) == 1:
            return {part[0].position: await self._alone(part[0], deadline)}
        left = list(part)
        try:
            tries = 0
            while left:
                rests = await self._batch(left, deadline)
                tries = 1 if len(rests) < len(left) else tries + 1
                left = rests
                if left:
                    await rest(self._calls, tries, deadline, f"BatchWriteItem leaves {len(left)} writes over")
        except (StoreRefused, ItemTooLarge):
            return {change.position: await self._alone(change, self._calls.deadline()) for change in left}
        except StoreError as problem:
            return {change.position: problem for change in left}
        return {}

    async def _batch(self, changes: list[Change], deadline: float) -> list[Change]:
        """Sends a batch; what the engine leaves over of it."""
        by_key = {change.key: change for change in changes}

        def rests(answer: Answer) -> list[Change]:
            left = []
            for request in answer["UnprocessedItems"].get(self._calls.table, ()):
                item = request["PutRequest"]["Item"] if "PutRequest" in request else request["DeleteRequest"]["Key"]
                left.append(by_key[read_key(self._table, item)])
            return left

        def check(answer: Answer) -> None:
            try:
                rests(answer)
            except KeyError as problem:
                raise InconsistentAnswer("it does not say what it leaves over") from problem

        requests = [
            {"PutRequest": {"Item": change.item}}
            if change.item is not None
            else {"DeleteRequest": {"Key": wire_key(self._table, change.key)}}
            for change in changes
        ]
        call = Call("BatchWriteItem", {"RequestItems": {self._calls.table: requests}}, check, deadline)
        return rests(await self._calls.do(call))

    async def _alone(self, change: Change, deadline: float) -> StoreError | None:
        """One write; where its condition fails, the record that stands there tells whether it was met by us before."""
        request = {"TableName": self._calls.table, **change.condition, "ReturnConsumedCapacity": "TOTAL"}
        if change.item is not None:
            operation, request["Item"] = "PutItem", change.item
        else:
            operation, request["Key"] = "DeleteItem", wire_key(self._table, change.key)
        shard = f"{self._calls.table}/table/{change.key.hash}"
        call = Call(operation, request, requires("ConsumedCapacity"), deadline, shard, change.key.hash)
        try:
            await self._calls.do(call)
        except ConditionFailed as problem:
            if _was_ours(change, problem.old, unheard=call.unheard):
                return None
            failed = ConditionFailed(problem.message, position=change.position, old=problem.old)
            failed.__cause__ = problem.__cause__
            return failed
        except StoreError as problem:
            return problem
        return None

    # --- together

    async def together(self, writes: Sequence[Write], token: str) -> None:
        """Applies all writes or none."""
        check_together(len(writes), token)
        changes = []
        for position, write in enumerate(writes):
            try:
                changes.append(prepare(self._standing, position, write))
            except StoreError as problem:
                raise type(problem)(f"write {position}: {problem.message}") from problem
        refuse_doubles(change.key for change in changes)
        check_together_size(writes)
        request = {
            "TransactItems": [self._action(change) for change in changes],
            "ClientRequestToken": self._token(token),
            "ReturnConsumedCapacity": "TOTAL",
        }
        call = Call("TransactWriteItems", request, requires("ConsumedCapacity"), self._calls.deadline())
        await self._calls.do(call)

    def _token(self, token: str) -> str:
        """The token as the engine gets it, which remembers the tokens of all tables together."""
        return blake2b(f"{self._calls.table}\0{token}".encode(), digest_size=MOST_TOKEN_CHARACTERS // 2).hexdigest()

    def _action(self, change: Change) -> dict[str, Any]:
        action = {"TableName": self._calls.table, **change.condition}
        if change.item is not None:
            return {"Put": {**action, "Item": change.item}}
        return {"Delete": {**action, "Key": wire_key(self._table, change.key)}}


def _batches(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """The changes in batches of which each is few enough and small enough for one request."""
    batch: list[Change] = []
    size = 0
    for change in changes:
        added = 0 if change.item is None else bytes_sent(change.item)
        if batch and (len(batch) == MOST_IN_A_BATCH or size + added > MOST_BYTES_IN_A_BATCH):
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += added
    if batch:
        yield batch


def _was_ours(change: Change, old: dict[str, Any] | None, *, unheard: bool) -> bool:
    """Whether what stands there is what this very write has left, in an attempt unheard or doubled by the network."""
    if isinstance(change.write, Delete):
        return unheard and old is None
    return old is not None and WRITE_ID in old and same(old, dict(change.write.item))
