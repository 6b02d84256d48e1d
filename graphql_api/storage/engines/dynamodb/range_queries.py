"""Range reads as queries of one hash key: bounds become conditions, responses become pages of rows."""

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
    check_nonempty_range,
    check_range_value,
    check_read,
    check_start_key,
    encode_key_text,
)
from graphql_api.storage.engines.dynamodb.api_client import ApiCall, ApiClient, Response
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentResponse
from graphql_api.storage.engines.dynamodb.filter_expressions import QueryExpressions
from graphql_api.storage.engines.dynamodb.wire_format import Wire, WireItem, decode_item, decode_number, encode_number

_BOUND = "the read: a bound"
_START = "the read: its start key"


def check_reads(reads: Sequence[RangeRead], kind: RangeType) -> None:
    """Refuse reads that are invalid or do not fit together."""
    seen: set[str] = set()
    last_range: KeyRange | None = None
    for read in reads:
        check_read(read, reads[0])
        encode_key_text(read.hash_key, MAX_HASH_BYTES, "the read: the hash key")
        if read.hash_key in seen:
            raise StoreRefused(f"{read.hash_key!r} is read twice in one call. Read each hash key once.")
        seen.add(read.hash_key)
        if read.range is not last_range:
            last_range = read.range
            for bound in (last_range.low, last_range.high):
                if bound is not None:
                    check_range_value(bound, kind, _BOUND)
            check_nonempty_range(last_range)
        if read.start is not None:
            check_range_value(read.start.value, kind, _START)
            encode_key_text(read.start.key.hash, MAX_HASH_BYTES, _START)
            encode_key_text(read.start.key.range, MAX_RANGE_BYTES, _START)
            check_start_key(read)


def query_limit(read: RangeRead, want: int) -> int:
    """Return the limit of a query.

    It is one higher for a descending query with an open upper bound, which reads and drops a row at the bound.
    """
    has_both_bounds = read.range.low is not None and read.range.high is not None
    return min(read.limit, want + (read.descending and read.range.high_open and has_both_bounds))


class RangeQuery:
    """One range read of one index."""

    def __init__(
        self,
        api: ApiClient,
        table: TableDefinition,
        index: IndexDefinition,
        read: RangeRead,
        limit: int,
        expressions: QueryExpressions,
    ) -> None:
        self._api = api
        self._table = table
        self._index = index
        self._read = read
        self._limit = limit
        self._expressions = expressions
        self._uses_near_bound_only = False

    async def run(self, deadline: float) -> RowPage:
        """Query until there are rows, a position within the range, or the end: every page makes progress."""
        read, records_read = self._read, 0
        start = self._start_key()
        while True:
            shard = f"{self._api.table}/{read.index or 'table'}/{read.hash_key}"
            call = ApiCall("Query", self._request(start), self._check_response, deadline, shard, read.hash_key)
            response = await self._api.execute(call)
            records_read += response["ScannedCount"]
            rows, done = self._decode_rows(response["Items"])
            start = response.get("LastEvaluatedKey")
            position = None if start is None else self._decode_position(start)
            if position is None or done or self._is_past_range(position.value):
                # The filter may exclude the row past the far bound, but LastEvaluatedKey still shows the position.
                return RowPage(rows, None, records_read)
            if rows or read.range.contains(position.value):
                return RowPage(rows, position, records_read)
            if not self._uses_near_bound_only:
                # All rows were at the open bound. From now on, the key condition excludes them.
                self._uses_near_bound_only = True
                start = None

    def _request(self, start: WireItem | None) -> dict[str, Any]:
        condition, values = self._condition()
        request: dict[str, Any] = {
            "TableName": self._api.table,
            "KeyConditionExpression": f"#h = :h{condition and f' AND {condition}'}",
            "ExpressionAttributeNames": {"#h": self._index.hash_attribute, **self._expressions.names},
            "ExpressionAttributeValues": {":h": {"S": self._read.hash_key}, **values, **self._expressions.values},
            "ScanIndexForward": not self._read.descending,
            "Limit": self._limit,
        }
        if condition:
            request["ExpressionAttributeNames"]["#r"] = self._index.range_attribute
        if self._expressions.filter is not None:
            request["FilterExpression"] = self._expressions.filter
        if self._expressions.projection is not None:
            request["ProjectionExpression"] = self._expressions.projection
        if self._read.index is not None:
            request["IndexName"] = self._read.index
        if self._read.consistent:
            request["ConsistentRead"] = True
        if start is not None:
            request["ExclusiveStartKey"] = start
        return request

    def _condition(self) -> tuple[str, dict[str, Wire]]:
        """Return a key condition that includes all rows of the range.

        DynamoDB has no condition for two bounds of which one is open. An open lower bound of text becomes the next
        text. Otherwise the condition includes the open bound, and its rows are dropped. If such rows fill a page, the
        condition uses the near bound only, and the read stops at the far bound.
        """
        key_range = self._read.range
        low, high, low_open = key_range.low, key_range.high, key_range.low_open
        if low_open and isinstance(low, str) and len(low.encode()) < MAX_RANGE_BYTES:
            low, low_open = f"{low}\0", False
        if self._uses_near_bound_only:
            low, high = (None, high) if self._read.descending else (low, None)
        values = {}
        if low is not None:
            values[":low"] = self._encode_bound(low)
        if high is not None:
            values[":high"] = self._encode_bound(high)
        if low is not None and high is not None:
            return "#r BETWEEN :low AND :high", values
        if low is not None:
            return ("#r > :low" if low_open else "#r >= :low"), values
        if high is not None:
            return ("#r < :high" if key_range.high_open else "#r <= :high"), values
        return "", values

    def _encode_bound(self, value: RangeValue) -> Wire:
        return {"S": value} if isinstance(value, str) else {"N": encode_number(value, _BOUND)}

    def _start_key(self) -> WireItem | None:
        start = self._read.start
        if start is None:
            return None
        position = {
            self._table.hash_attribute: {"S": start.key.hash},
            self._table.range_attribute: {"S": start.key.range},
        }
        if self._read.index is not None:
            position[self._index.hash_attribute] = {"S": self._read.hash_key}
            position[self._index.range_attribute] = self._encode_bound(start.value)
        return position

    # --- the response

    def _check_response(self, response: Response) -> None:
        """Refuse a response that is truncated or belongs to another request."""
        items = response.get("Items")
        if not isinstance(items, list) or response.get("Count") != len(items) or "ScannedCount" not in response:
            raise InconsistentResponse("the number of items differs from Count")
        wanted = {"S": self._read.hash_key}
        for item in (*items, *[response[name] for name in ("LastEvaluatedKey",) if name in response]):
            if item.get(self._index.hash_attribute) != wanted:
                raise InconsistentResponse("it contains a record of another hash key")
            self._decode_position(item)

    def _decode_rows(self, items: Sequence[WireItem]) -> tuple[list[Row], bool]:
        """Return the rows within the range, and whether a row past its far bound was read."""
        rows, read = [], self._read
        for item in items:
            value, ordinal, key = self._decode_position(item)
            if read.range.contains(value):
                rows.append(Row(value, ordinal, key, item, decode_item))
            elif self._is_past_range(value):
                return rows, True
        return rows, False

    def _is_past_range(self, value: Any) -> bool:
        """Return whether a value is past the far bound of the range."""
        key_range: Any = self._read.range
        if key_range.contains(value):
            return False
        if self._read.descending:
            return key_range.low is not None and bool(value <= key_range.low)
        return key_range.high is not None and bool(value >= key_range.high)

    def _decode_position(self, item: Mapping[str, Wire]) -> Position:
        """Return the position of a row. Refuse a row without a key."""
        try:
            range_value = item[self._index.range_attribute]
            value: RangeValue = range_value["S"] if self._index.range_type == "S" else decode_number(range_value["N"])
            key = Key(item[self._table.hash_attribute]["S"], item[self._table.range_attribute]["S"])
        except (KeyError, TypeError, ArithmeticError) as problem:
            raise InconsistentResponse("it contains a record without its keys") from problem
        return Position(value, self._read.ordinal, key)
