"""Writes one by one, in batches where nothing is expected of what stands there, and all or none."""

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
    IndexDefinition,
    Item,
    Key,
    Put,
    TableDefinition,
    TogetherWrite,
    Unmet,
    Write,
    check_expectation,
    check_range_value,
    check_together,
    check_together_size,
    key_text,
    refuse_check,
    refuse_doubles,
    same,
    unmet_error,
)
from graphql_api.storage.engines.dynamodb.calls import Answer, Call, Calls, requires
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentAnswer
from graphql_api.storage.engines.dynamodb.point_reads import check_key, read_key, rest, wire_key
from graphql_api.storage.engines.dynamodb.table_lifecycle import Standing
from graphql_api.storage.engines.dynamodb.task_groups import some_at_once
from graphql_api.storage.engines.dynamodb.wire_format import WireItem, bytes_sent, encode_item, encode_value

MAX_IN_A_BATCH = 25
MAX_BYTES_IN_A_BATCH = 15 * 2**20
"""AWS takes 16 MB of JSON, with what stands around the records"""
WRITE_ID = "_w"
"""the attribute that tells one write from every other (docs/table-format.md)"""

Problems = list[StoreError | None]


class Change(NamedTuple):
    """A write, checked and encoded."""

    position: int
    key: Key
    write: TogetherWrite
    item: WireItem | None
    condition: dict[str, Any]
    """what the protocol needs for the expectation, if there is one"""

    @property
    def speaks_for_itself(self) -> bool:
        """Whether the record that it leaves behind tells whose write it was."""
        return self.item is not None and WRITE_ID in self.item


def prepare(standing: Standing, position: int, write: TogetherWrite) -> Change:
    """Checks a write by everything that does not depend on what is stored."""
    table = standing.definition
    condition = {} if write.expect is None else _condition(table, write.expect)
    if not isinstance(write, Put):
        check_key(write.key, "the check" if isinstance(write, Check) else "the deletion")
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
        key_text(item[index.hash_attribute], MAX_HASH_BYTES, f"{where} {index.hash_attribute!r}")
    if index.range_attribute in item:
        check_range_value(item[index.range_attribute], index.range_type, f"{where} {index.range_attribute!r}")


def _condition(table: TableDefinition, expect: Expect) -> dict[str, Any]:
    check_expectation(expect)
    encode_item(expect.attributes)
    encode_item(dict.fromkeys(expect.without))
    names, values = {"#h": table.hash_attribute}, {}
    if expect.absent:
        parts = ["attribute_not_exists(#h)"]
    else:
        parts = ["attribute_exists(#h)"]
        for place, (name, value) in enumerate(sorted(expect.attributes.items())):
            parts.append(f"#a{place} = :a{place}")
            names[f"#a{place}"] = name
            values[f":a{place}"] = encode_value(value, name)
        for place, name in enumerate(sorted(set(expect.without))):
            parts.append(f"attribute_not_exists(#w{place})")
            names[f"#w{place}"] = name
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
                refuse_check(write)
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
        """One write. If an answer is lost, the record that stands there or the token of a transaction tells the truth.

        A token costs twice the write units, so it is used where no record can speak.
        """
        try:
            if change.condition and not change.speaks_for_itself:
                await self._transaction([change], token_urlsafe(18), deadline)
            else:
                await self._single(change, deadline)
        except StoreError as problem:
            return problem
        return None

    async def _single(self, change: Change, deadline: float) -> None:
        request = {"TableName": self._calls.table, **change.condition, "ReturnConsumedCapacity": "TOTAL"}
        if change.item is not None:
            operation, request["Item"] = "PutItem", change.item
        else:
            operation, request["Key"] = "DeleteItem", wire_key(self._table, change.key)
        call = Call(operation, request, requires("ConsumedCapacity"), deadline, *self._place(change))
        try:
            await self._calls.do(call)
        except ConditionFailed as problem:
            if not _stands(change, problem.old):
                raise _unmet([change], problem) from problem.__cause__

    def _place(self, change: Change) -> tuple[str, str]:
        """The shard of a write, and what errors call it."""
        return f"{self._calls.table}/table/{change.key.hash}", change.key.hash

    # --- together

    async def together(self, writes: Sequence[TogetherWrite], token: str) -> None:
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
        await self._transaction(changes, token, self._calls.deadline())

    async def _transaction(self, changes: Sequence[Change], token: str, deadline: float) -> None:
        request = {
            "TransactItems": [self._action(change) for change in changes],
            "ClientRequestToken": self._token(token),
            "ReturnConsumedCapacity": "TOTAL",
        }
        place = self._place(changes[0]) if len(changes) == 1 else ()
        call = Call("TransactWriteItems", request, requires("ConsumedCapacity"), deadline, *place)
        try:
            await self._calls.do(call)
        except ConditionFailed as problem:
            raise _unmet(changes, problem) from problem.__cause__

    def _token(self, token: str) -> str:
        """The token as the engine gets it, which remembers the tokens of all tables together."""
        return blake2b(f"{self._calls.table}\0{token}".encode(), digest_size=MAX_TOKEN_CHARACTERS // 2).hexdigest()

    def _action(self, change: Change) -> dict[str, Any]:
        action = {"TableName": self._calls.table, **change.condition}
        if change.item is not None:
            return {"Put": {**action, "Item": change.item}}
        kind = "ConditionCheck" if isinstance(change.write, Check) else "Delete"
        return {kind: {**action, "Key": wire_key(self._table, change.key)}}


def _batches(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """The changes in batches of which each is few enough and small enough for one request."""
    batch: list[Change] = []
    size = 0
    for change in changes:
        added = 0 if change.item is None else bytes_sent(change.item)
        if batch and (len(batch) == MAX_IN_A_BATCH or size + added > MAX_BYTES_IN_A_BATCH):
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += added
    if batch:
        yield batch


def _stands(change: Change, old: Item | None) -> bool:
    """Whether what stands there is what this very write has left, in an attempt unheard or doubled by the network."""
    written = change.write
    return isinstance(written, Put) and old is not None and WRITE_ID in old and same(old, dict(written.item))


def _unmet(changes: Sequence[Change], problem: ConditionFailed) -> ConditionFailed:
    """A failed condition in the words of the port, by the positions of the caller."""
    return unmet_error(
        [
            Unmet(change.position, change.key, change.write.expect or Expect(), problem.failures[place])
            for place, change in enumerate(changes)
            if place in problem.failures
        ]
    )
