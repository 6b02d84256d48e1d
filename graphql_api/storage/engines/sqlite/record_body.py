"""Records as text: JSON for what JSON can say, a tag for everything else (docs/engines.md)."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any

import orjson

from graphql_api.errors import StoreRefused
from graphql_api.storage import MAX_DEPTH, MAX_RECORD_BYTES, Item, number_problem, refuse_large

_INT64 = range(-(2**63), 2**63)
_CERTAINLY_SMALL = MAX_RECORD_BYTES // 2
"""The text of a record is never shorter than two thirds of the size that counts, so below this nothing is counted."""


def encode_body(item: Item) -> bytes:
    """The record as it is stored; refuses what no engine would keep."""
    parts: dict[str, Any] = {}
    for name, value in item.items():
        kind = type(value)
        plain = kind is str or kind is bool or value is None or (kind is int and value in _INT64)
        parts[name] = value if plain else _tagged(value, name, 1)
    if "" in parts:
        raise StoreRefused("A record has an attribute without a name. Name every attribute.")
    try:
        body = orjson.dumps(parts)
    except orjson.JSONEncodeError as problem:
        raise StoreRefused(
            f"A record cannot be stored: {problem}. Use well-formed text for names and values."
        ) from problem
    if len(body) > _CERTAINLY_SMALL:
        refuse_large(item)
    return body


def decode_body(body: bytes) -> dict[str, Any]:
    """The record that was stored."""
    parts: dict[str, Any] = orjson.loads(body)
    for name, value in parts.items():
        if type(value) is dict or type(value) is list:
            parts[name] = _untagged(value)
    return parts


def decode_some(names: Collection[str]) -> Callable[[bytes], dict[str, Any]]:
    """Decodes these attributes of a record, as far as it has them."""

    def decode(body: bytes) -> dict[str, Any]:
        parts = orjson.loads(body)
        return {name: _untagged(parts[name]) for name in names if name in parts}

    return decode


# --- tags ------------------------------------------------------------------------------------------------------


def _tagged(value: Any, where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise StoreRefused(f"{where} is nested deeper than {MAX_DEPTH} levels. Flatten it.")
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int() | Decimal():
            text = _number_text(value, where)
            return value if type(value) is int and value in _INT64 else {"N": text}
        case bytes():
            return {"B": _binary_text(value)}
        case list():
            return [_tagged(part, where, depth + 1) for part in value]
        case Mapping():
            return {"M": {name: _tagged(part, f"{where}.{name}", depth + 1) for name, part in value.items()}}
        case frozenset():
            return _tagged_set(value, where)
    hint = " Use Decimal for fractions." if isinstance(value, float) else ""
    raise StoreRefused(f"{where} is a {type(value).__name__}, which no engine stores.{hint}")


def _tagged_set(value: frozenset[Any], where: str) -> dict[str, list[str]]:
    if not value:
        raise StoreRefused(f"{where} is an empty set. Leave the attribute out instead.")
    if all(isinstance(part, str) for part in value):
        return {"SS": sorted(value)}
    if all(isinstance(part, bytes) for part in value):
        return {"BS": [_binary_text(part) for part in sorted(value)]}
    if all(isinstance(part, int | Decimal) and not isinstance(part, bool) for part in value):
        return {"NS": [_number_text(part, where) for part in sorted(value)]}
    raise StoreRefused(f"{where} mixes types in a set. Use only texts, only numbers or only bytes.")


def _number_text(value: int | Decimal, where: str) -> str:
    problem = number_problem(value)
    if problem is not None:
        raise StoreRefused(f"{where}: the number {problem}. Round it, or store it as text.")
    return str(value) if value else "0"


def _binary_text(value: bytes) -> str:
    return b64encode(value).decode()


def _untagged(value: Any) -> Any:
    if type(value) is list:
        return [_untagged(part) for part in value]
    if type(value) is not dict:
        return value
    ((tag, content),) = value.items()
    match tag:
        case "N":
            return read_number(content)
        case "B":
            return b64decode(content)
        case "M":
            return {name: _untagged(part) for name, part in content.items()}
        case "SS":
            return frozenset(content)
        case "NS":
            return frozenset(map(read_number, content))
        case _:
            return frozenset(map(b64decode, content))


def read_number(text: str) -> int | Decimal:
    """An int where the text is one, otherwise a Decimal."""
    return int(text) if text.removeprefix("-").isdigit() else Decimal(text)
