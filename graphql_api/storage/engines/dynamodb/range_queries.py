"""A read as queries of one hash key: bounds as conditions, answers as pages of rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.codecs import KeyRange, RangeValue
from graphql_api.errors import StoreRefused
from graphql_api.storage import (
    MAX_HASH_BYTES,
    MAX_RANGE_BYTES,
    IndexDefinition,
    Key,
    Position,
    RangeRead,
    RangeType,
    Row,
    RowPage,
    TableDefinition,
    check_company,
    check_range_value,
    check_room,
    check_start,
    key_text,
)
from graphql_api.storage.engines.dynamodb.calls import Answer, Call, Calls
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentAnswer
from graphql_api.storage.engines.dynamodb.filter_expressions import Extras
from graphql_api.storage.engines.dynamodb.wire_format import Wire, WireItem, decode_item, number_text, read_number

_BOUND = "the read: a bound"
_START = "the read: its start key"


def check_reads(reads: Sequence[RangeRead], kind: RangeType) -> None:
    """Refuses reads that do not fit each other, the index, or themselves."""
    seen: set[str] = set()
    last_range: KeyRange | None = None
    for read in reads:
        check_company(read, reads[0])
        key_text(read.hash_key, MAX_HASH_BYTES, "the read: the hash key")
        if read.hash_key in seen:
            raise StoreRefused(f"{read.hash_key!r} is read twice in one call. Ask each hash key once.")
        seen.add(read.hash_key)
        if read.range is not last_range:
            last_range = read.range
            for bound in (last_range.low, last_range.high):
                if bound is not None:
                    check_range_value(bound, kind, _BOUND)
            check_room(last_range)
        if read.start is not None:
            check_range_value(read.start.value, kind, _START)
            key_text(read.start.key.hash, MAX_HASH_BYTES, _START)
            key_text(read.start.key.range, MAX_RANGE_BYTES, _START)
            check_start(read)


def rows_looked_at(read: RangeRead, want: int) -> int:
    """At most so many rows: those that are wanted, and one at an open bound that a descending query reads and drops."""
    closed_in = read.range.low is not None and read.range.high is not None
    return min(read.limit, want + (read.descending and read.range.high_open and closed_in))


class Query:
    """One read of one index."""

    def __init__(
        self, calls: Calls, table: TableDefinition, index: IndexDefinition, read: RangeRead, limit: int, extras: Extras
    ) -> None:
        self._calls = calls
        self._table = table
        self._index = index
        self._read = read
        self._limit = limit
        self._extras = extras
        self._near_is_strict = False

    async def run(self, deadline: float) -> RowPage:
        """Asks until there are rows, a place within the range, or the end: an answer makes progress."""
        read, looked_at = self._read, 0
        start = self._start()
        while True:
            shard = f"{self._calls.table}/{read.index or 'table'}/{read.hash_key}"
            call = Call("Query", self._request(start), self._check, deadline, shard, read.hash_key)
            answer = await self._calls.do(call)
            looked_at += answer["ScannedCount"]
            rows, done = self._rows(answer["Items"])
            start = answer.get("LastEvaluatedKey")
            place = None if start is None else self._position(start)
            if place is None or done or self._is_beyond(place.value):
                # A filter may have left out the very row beyond the farther bound, but not where the engine stood.
                return RowPage(rows, None, looked_at)
            if rows or read.range.contains(place.value):
                return RowPage(rows, place, looked_at)
            if not self._near_is_strict:
                # Nothing but rows of an open bound: from now on they are left out by the condition itself.
                self._near_is_strict = True
                start = None

    def _request(self, start: WireItem | None) -> dict[str, Any]:
        condition, values = self._condition()
        request: dict[str, Any] = {
            "TableName": self._calls.table,
            "KeyConditionExpression": f"#h = :h{condition and f' AND {condition}'}",
            "ExpressionAttributeNames": {"#h": self._index.hash_attribute, **self._extras.names},
            "ExpressionAttributeValues": {":h": {"S": self._read.hash_key}, **values, **self._extras.values},
            "ScanIndexForward": not self._read.descending,
            "Limit": self._limit,
        }
        if condition:
            request["ExpressionAttributeNames"]["#r"] = self._index.range_attribute
        if self._extras.filter is not None:
            request["FilterExpression"] = self._extras.filter
        if self._extras.projection is not None:
            request["ProjectionExpression"] = self._extras.projection
        if self._read.index is not None:
            request["IndexName"] = self._read.index
        if self._read.consistent:
            request["ConsistentRead"] = True
        if start is not None:
            request["ExclusiveStartKey"] = start
        return request

    def _condition(self) -> tuple[str, dict[str, Wire]]:
        """The range as a condition that never leaves a wanted row out; the protocol has none for two bounds, one open.

        A text's open lower bound is the next text. Otherwise an open bound is included with another one beside it, and
        its rows are dropped; if they turn out to be many, the nearer bound alone is the condition, and the read stops
        at the farther one.
        """
        asked = self._read.range
        low, high, low_open = asked.low, asked.high, asked.low_open
        if low_open and isinstance(low, str) and len(low.encode()) < MAX_RANGE_BYTES:
            low, low_open = f"{low}\0", False
        if self._near_is_strict:
            low, high = (None, high) if self._read.descending else (low, None)
        values = {}
        if low is not None:
            values[":low"] = self._bound(low)
        if high is not None:
            values[":high"] = self._bound(high)
        if low is not None and high is not None:
            return "#r BETWEEN :low AND :high", values
        if low is not None:
            return ("#r > :low" if low_open else "#r >= :low"), values
        if high is not None:
            return ("#r < :high" if asked.high_open else "#r <= :high"), values
        return "", values

    def _bound(self, value: RangeValue) -> Wire:
        return {"S": value} if isinstance(value, str) else {"N": number_text(value, _BOUND)}

    def _start(self) -> WireItem | None:
        start = self._read.start
        if start is None:
            return None
        place = {
            self._table.hash_attribute: {"S": start.key.hash},
            self._table.range_attribute: {"S": start.key.range},
        }
        if self._read.index is not None:
            place[self._index.hash_attribute] = {"S": self._read.hash_key}
            place[self._index.range_attribute] = self._bound(start.value)
        return place

    # --- the answer

    def _check(self, answer: Answer) -> None:
        """Refuses an answer that is cut, or of another question."""
        items = answer.get("Items")
        if not isinstance(items, list) or answer.get("Count") != len(items) or "ScannedCount" not in answer:
            raise InconsistentAnswer("its items are not as many as it says")
        wanted = {"S": self._read.hash_key}
        for item in (*items, *[answer[name] for name in ("LastEvaluatedKey",) if name in answer]):
            if item.get(self._index.hash_attribute) != wanted:
                raise InconsistentAnswer("it holds a record of another hash key")
            self._position(item)

    def _rows(self, items: Sequence[WireItem]) -> tuple[list[Row], bool]:
        """The rows within the range, and whether one beyond its farther bound was seen."""
        rows, read = [], self._read
        for item in items:
            value, ordinal, key = self._position(item)
            if read.range.contains(value):
                rows.append(Row(value, ordinal, key, item, decode_item))
            elif self._is_beyond(value):
                return rows, True
        return rows, False

    def _is_beyond(self, value: Any) -> bool:
        """Whether a value lies on the far side of the range."""
        asked: Any = self._read.range
        if asked.contains(value):
            return False
        if self._read.descending:
            return asked.low is not None and bool(value <= asked.low)
        return asked.high is not None and bool(value >= asked.high)

    def _position(self, item: Mapping[str, Wire]) -> Position:
        """Where a row stands; refuses what lacks a key."""
        try:
            told = item[self._index.range_attribute]
            value: RangeValue = told["S"] if self._index.range_type == "S" else read_number(told["N"])
            key = Key(item[self._table.hash_attribute]["S"], item[self._table.range_attribute]["S"])
        except (KeyError, TypeError, ArithmeticError) as problem:
            raise InconsistentAnswer("it holds a record without its keys") from problem
        return Position(value, self._read.ordinal, key)
