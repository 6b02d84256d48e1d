"""The index that contestants read in DynamoDB: the table that this code has made, seen as any client sees it."""

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from tests.benchmarks.sample_rows import FIELDS

ATTRIBUTES = FIELDS
_OFFSET = 1 << 63
UNSIGNED_HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "DynamoDB_20120810.Query",
    "X-Amz-Date": "20260101T000000Z",
    "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0",
}
"""of a Query that is not signed, for floors"""


@dataclass(frozen=True, slots=True)
class DynamoIndex:
    """A sharded index, ordered by creation time."""

    endpoint: str
    table: str
    index: str
    hash_attribute: str
    range_attribute: str
    hash_keys: tuple[str, ...]

    @staticmethod
    def from_environment() -> "DynamoIndex":
        values = json.loads(os.environ["BENCH_TABLE"])
        return DynamoIndex(**{**values, "hash_keys": tuple(values["hash_keys"])})

    def to_text(self) -> str:
        """Return the value of the environment variable BENCH_TABLE."""
        return json.dumps(asdict(self))

    def lower_bound(self, low: int, last: str | None) -> str:
        """Return the first range key of a window, or the one after that of the last row."""
        return self._bound(low) if last is None else f"{last}\0"

    def upper_bound(self, high: int) -> str:
        """Return a range key after those of a window, which no row has."""
        return self._bound(high)

    def _bound(self, created: int) -> str:
        return f"created#{created + _OFFSET:020}"

    def query(self, hash_key: str, low: str, high: str, size: int) -> dict[str, Any]:
        """Return the parameters of a Query."""
        names = {f"#{at}": name for at, name in enumerate([*ATTRIBUTES, self.range_attribute])}
        return {
            "TableName": self.table,
            "IndexName": self.index,
            "KeyConditionExpression": "#h = :h AND #r BETWEEN :a AND :b",
            "ExpressionAttributeNames": {"#h": self.hash_attribute, "#r": self.range_attribute, **names},
            "ExpressionAttributeValues": {":h": {"S": hash_key}, ":a": {"S": low}, ":b": {"S": high}},
            "ProjectionExpression": ",".join(names),
            "Limit": size,
        }
