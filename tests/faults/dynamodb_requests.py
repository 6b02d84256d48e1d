"""Parses requests of the DynamoDB protocol: their operation and their hash keys."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tests.faults.http_messages import Message

_EQUALS = re.compile(r"(?<![\w#])[#\w.]+\s*=\s*(:\w+)")
"""matches `#h = :h`, but neither `>=` nor `<=`"""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request that the proxy received. Compared by identity."""

    number: int
    """the number of earlier requests"""
    received_at: float
    """the time of arrival, by the clock of the event loop"""
    operation: str
    index: str | None
    hash_keys: tuple[str, ...]
    body: Mapping[str, Any]

    @property
    def shards(self) -> frozenset[str]:
        """The shards of the hash keys: `03` of `user!03|x#1`."""
        return frozenset(key.partition("!")[2].partition("|")[0] for key in self.hash_keys)


def read_request(message: Message, number: int, received_at: float, hash_attribute: str) -> Request:
    """Parse a message."""
    operation = (message.header("X-Amz-Target") or "").rpartition(".")[2]
    body = orjson.loads(message.body) if message.body else {}
    keys = tuple(dict.fromkeys(_hash_keys(body, hash_attribute)))
    return Request(number, received_at, operation, body.get("IndexName"), keys, body)


def _hash_keys(body: Mapping[str, Any], hash_attribute: str) -> Iterator[str]:
    # The hash key is the first condition. A second `=` would belong to the range key.
    match = _EQUALS.search(body.get("KeyConditionExpression", ""))
    if match:
        yield body["ExpressionAttributeValues"][match[1]]["S"]
    for holder in _key_holders(body):
        if hash_attribute in holder:
            yield holder[hash_attribute]["S"]


def _key_holders(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield each part of a request that contains a table key: keys and items, alone, in batches and in transactions."""
    for name in ("Key", "Item"):
        if name in body:
            yield body[name]
    for table_requests in body.get("RequestItems", {}).values():
        if isinstance(table_requests, Mapping):
            yield from table_requests["Keys"]
        else:
            for write in table_requests:
                yield from _key_holders(next(iter(write.values())))
    for action in body.get("TransactItems", ()):
        yield from _key_holders(next(iter(action.values())))
