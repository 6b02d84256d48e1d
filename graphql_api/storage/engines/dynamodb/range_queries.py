"""Range reads as queries of one hash key: bounds become conditions, responses become pages of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import RangeValue
from graphql_api.storage import (
    MAX_RANGE_BYTES,
    IndexDefinition,
    Key,
    Position,
    RangeRead,
    Row,
    RowPage,
    TableDefinition,
    most_of_query,
    read_units,
)
from graphql_api.storage.engines.dynamodb.api_client import ApiCall, ApiClient, check_count, response_size
from graphql_api.storage.engines.dynamodb.driver_client import Response
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentResponse
from graphql_api.storage.engines.dynamodb.filter_expressions import QueryExpressions
from graphql_api.storage.engines.dynamodb.wire_format import (
    WIRE_FORMAT,
    Wire,
    WireItem,
    decode_number,
    encode_key,
    encode_number,
)


@dataclass(slots=True)
class RangeQuery:
    """One range read of one index, which stops at its limit and at `want` rows."""

    api: ApiClient
    table: TableDefinition
    index: IndexDefinition
    read: RangeRead
    want: int
    expressions: QueryExpressions
    example: dict[str, Any] | None = None
    """the first request for the same range in another shard"""
    uses_near_bound_only: bool = False

    async def run(self, deadline: float) -> RowPage:
        """Query until there are rows, a position within the range, or the end: every page makes progress."""
        read, records_read, size = self.read, 0, 0
        start = self._start_key()
        while True:
            shard = f"{self.api.table}/{read.index or 'table'}/{read.hash_key}"
            call = ApiCall(
                "Query",
                self._request(start),
                self._parse,
                deadline,
                shard,
                read.hash_key,
                most_units=most_of_query(read),
                least_units=read_units(0, consistent=read.consistent),
            )
            scanned, found, start, position, received = await self.api.execute(call)
            records_read += scanned
            size += received
            rows = self._within_range(found)
            is_past = bool(found) and self._is_past_range(found[-1].value)
            if position is None or is_past or self._is_past_range(position.value):
                # The filter may exclude the row past the far bound, but LastEvaluatedKey still shows the position.
                return RowPage(rows, None, records_read, size)
            if rows or read.range.contains(position.value):
                return RowPage(rows, position, records_read, size)
            if not self.uses_near_bound_only:
                # All rows were at the open bound. From now on, the key condition excludes them.
                self.uses_near_bound_only = True
                start = None

    @property
    def _limit(self) -> int:
        key_range, read = self.read.range, self.read
        # A descending query reads and drops a row at an open bound.
        drops_row = read.descending and key_range.high_open and None not in (key_range.low, key_range.high)
        return min(read.limit, self.want + drops_row)

    def first_request(self) -> dict[str, Any]:
        """Return the request that reads the range from its beginning."""
        return self._request(None)

    def _request(self, start: WireItem | None) -> dict[str, Any]:
        if self.example is not None and start is None and not self.uses_near_bound_only:
            values = {**self.example["ExpressionAttributeValues"], ":h": {"S": self.read.hash_key}}
            return {**self.example, "ExpressionAttributeValues": values, "Limit": self._limit}
        condition, values = self._condition()
        read = self.read
        request: dict[str, Any] = {
            "TableName": self.api.table,
            "KeyConditionExpression": f"#h = :h{condition and f' AND {condition}'}",
            "ExpressionAttributeNames": {"#h": self.index.hash_attribute, **self.expressions.names},
            "ExpressionAttributeValues": {":h": {"S": read.hash_key}, **values, **self.expressions.values},
            "ScanIndexForward": not read.descending,
            "Limit": self._limit,
        }
        if condition:
            request["ExpressionAttributeNames"]["#r"] = self.index.range_attribute
        if self.expressions.filter is not None:
            request["FilterExpression"] = self.expressions.filter
        if self.expressions.projection is not None:
            request["ProjectionExpression"] = self.expressions.projection
        if read.index is not None:
            request["IndexName"] = read.index
        if read.consistent:
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
        key_range = self.read.range
        low, high, low_open = key_range.low, key_range.high, key_range.low_open
        if low_open and isinstance(low, str) and len(low.encode()) < MAX_RANGE_BYTES:
            low, low_open = f"{low}\0", False
        if self.uses_near_bound_only:
            low, high = (None, high) if self.read.descending else (low, None)
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
        return {"S": value} if isinstance(value, str) else {"N": encode_number(value, "the read: a bound")}

    def _start_key(self) -> WireItem | None:
        start = self.read.start
        if start is None:
            return None
        position = encode_key(self.table, start.key)
        if self.read.index is not None:
            position[self.index.hash_attribute] = {"S": self.read.hash_key}
            position[self.index.range_attribute] = self._encode_bound(start.value)
        return position

    # --- the response

    def _parse(self, response: Response) -> tuple[int, list[Row], WireItem | None, Position | None, int]:
        """Return the number of examined rows, the rows, the start key of the next page, and the size of the response.

        The start key is also returned as a position.
        Refuse a response that is truncated or belongs to another request.
        """
        check_count(response)
        ordinal, decode = self.read.ordinal, self._row_decoder()
        rows = [Row(value, ordinal, key, item, WIRE_FORMAT) for value, key, item in map(decode, response["Items"])]
        start, position = response.get("LastEvaluatedKey"), None
        if start is not None:
            value, key, _ = decode(start)
            position = Position(value, ordinal, key)
        return response["ScannedCount"], rows, start, position, response_size(response)

    def _within_range(self, rows: list[Row]) -> list[Row]:
        """Return the rows within the range. They are ordered, so its ends show whether there are others."""
        contains = self.read.range.contains
        if rows and contains(rows[0].value) and contains(rows[-1].value):
            return rows
        return [row for row in rows if contains(row.value)]

    def _is_past_range(self, value: Any) -> bool:
        """Return whether a value is past the far bound of the range."""
        key_range: Any = self.read.range
        if key_range.contains(value):
            return False
        if self.read.descending:
            return key_range.low is not None and bool(value <= key_range.low)
        return key_range.high is not None and bool(value >= key_range.high)

    def _row_decoder(self) -> Callable[[WireItem], tuple[RangeValue, Key, WireItem]]:
        """Return a function that decodes the range value and the key of a record, and returns them with it."""
        hash_attribute, range_attribute = self.index.hash_attribute, self.index.range_attribute
        table_hash, table_range = self.table.hash_attribute, self.table.range_attribute
        hash_value, is_text = {"S": self.read.hash_key}, self.index.range_type == "S"

        def decode(item: WireItem) -> tuple[RangeValue, Key, WireItem]:
            if item[hash_attribute] != hash_value:
                raise InconsistentResponse("it contains a record of another hash key")
            encoded = item[range_attribute]
            value: RangeValue = encoded["S"] if is_text else decode_number(encoded["N"])
            return value, Key(item[table_hash]["S"], item[table_range]["S"]), item

        return decode
