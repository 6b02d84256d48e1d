"""What a request of the DynamoDB protocol asks for: the operation, and the hash keys that it touches."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tests.faults.messages import Message

_EQUALS = re.compile(r"(?<![\w#])[#\w.]+\s*=\s*(:\w+)")
"""`#h = :h`, and neither `>=` nor `<=`"""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request as it came to the proxy; each is itself, however much two are alike."""

    number: int
    """how many came before it"""
    at: float
    """when it came, by the clock of the event loop"""
    operation: str
    index: str | None
    hash_keys: tuple[str, ...]
    body: Mapping[str, Any]

    @property
    def shards(self) -> frozenset[str]:
        """The shards of its hash keys: `03` of `user!03|x#1`."""
        return frozenset(key.partition("!")[2].partition("|")[0] for key in self.hash_keys)


def read_request(message: Message, number: int, at: float, hash_attribute: str) -> Request:
    """Looks into a message as far as a rule may want to know."""
    operation = (message.header("X-Amz-Target") or "").rpartition(".")[2]
    body = orjson.loads(message.body) if message.body else {}
    keys = tuple(dict.fromkeys(_hash_keys(body, hash_attribute)))
    return Request(number, at, operation, body.get("IndexName"), keys, body)


def _hash_keys(body: Mapping[str, Any], hash_attribute: str) -> Iterator[str]:
    # The hash key stands first in a condition on keys; a second `=` would be the range key's.
    equals = _EQUALS.search(body.get("KeyConditionExpression", ""))
    if equals:
        yield body["ExpressionAttributeValues"][equals[1]]["S"]
    for holder in _holders(body):
        if hash_attribute in holder:
            yield holder[hash_attribute]["S"]


def _holders(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Everything in a request that carries a table's key: keys and items, alone, in batches and in transactions."""
    for name in ("Key", "Item"):
        if name in body:
            yield body[name]
    for of_table in body.get("RequestItems", {}).values():
        if isinstance(of_table, Mapping):
            yield from of_table["Keys"]
        else:
            for write in of_table:
                yield from _holders(next(iter(write.values())))
    for action in body.get("TransactItems", ()):
        yield from _holders(next(iter(action.values())))
