"""Strict JSON: refuses ambiguous texts and keeps every digit of a number."""

import json
import re
from itertools import islice
from typing import Any, Self

import orjson

from graphql_api.errors import InputTooLarge, InvalidJson

MAX_NESTING = 100
"""Levels of nested objects and lists. Code that reads the value later recurses once per level."""
MAX_DIGITS = 400
"""Digits of one number. The longest float written without an exponent has 309 digits before its point."""
_TO_NEXT_ELEMENT = re.compile(r'[^"\[{,]*+(?:"(?:[^"\\]++|\\.)*+"?+[^"\[{,]*+)*+(?:([\[{,])|\Z)', re.DOTALL)
"""The text up to the next bracket, brace or comma outside of strings, which is the group, or up to the end."""


class LiteralFloat(float):
    """A float that keeps its JSON literal, for code that reads it as a decimal number."""

    literal: str

    def __new__(cls, literal: str) -> Self:
        self = super().__new__(cls, literal)
        self.literal = literal
        return self

    def __repr__(self) -> str:
        return self.literal

    __str__ = __repr__


def read_json(data: bytes | str, subject: str, max_elements: int | None = None) -> Any:
    """Decode a JSON text. `subject` names the text in error messages.

    Integers are exact. A fraction that a float cannot represent becomes a LiteralFloat. Texts that parsers disagree
    about are refused: duplicate keys, NaN, infinities, lone surrogates and unlimited nesting. So is, before it is
    decoded, a text of more than `max_elements` objects, lists and commas.
    """
    try:
        text = data.decode() if isinstance(data, bytes) else data
        if max_elements is not None:
            _check_elements(text, subject, max_elements)
        value = _DECODER.decode(text)
        _check_nesting(text, value)
        if "\\ud" in text or "\\uD" in text:
            orjson.loads(text)  # Raises on a lone surrogate.
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8: byte {error.start} starts no character."
    except RecursionError:
        problem = f"nests more than {MAX_NESTING} objects and lists: flatten it."
    except orjson.JSONDecodeError:
        problem = "escapes half of a surrogate pair, which is not a character: send both halves, or the character."
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
    except _Ambiguous as error:
        problem = str(error)
    else:
        return value
    raise InvalidJson(f"{subject} {problem}")


def write_json(value: Any) -> bytes:
    """Encode a response as JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Stored JSON may exceed the limits of orjson: integers of more than 64 bits, or more than 254 levels.
        return json.dumps(value, separators=(",", ":")).encode()


class _Ambiguous(Exception):
    """The text is refused. The message completes a sentence whose subject is the name of the text."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Ambiguous(f"has the key {duplicate[:40]!r} twice in one object: send it once.")
    return members


def _integer(text: str) -> int:
    _check_digits(text)
    return int(text)


def _fraction(text: str) -> float:
    _check_digits(text)
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise _Ambiguous(f"has the number {text[:40]}, which is too large for a float: send a string.")
    return value if repr(value) == text else LiteralFloat(text)


def _check_digits(text: str) -> None:
    if len(text) > MAX_DIGITS:
        raise _Ambiguous(f"has a number of {len(text)} digits: send at most {MAX_DIGITS}.")


def _refuse_constant(text: str) -> float:
    raise _Ambiguous(f"has {text}, which is not JSON: send null or a string.")


def _check_elements(text: str, subject: str, limit: int) -> None:
    if sum(map(text.count, "[{,")) <= limit:
        return  # Strings contain these characters too, so this number is an upper bound.
    elements = (match for match in _TO_NEXT_ELEMENT.finditer(text) if match[1])
    if sum(1 for _ in islice(elements, limit + 1)) > limit:
        message = f"{subject} has more than {limit:,} objects, lists and commas: send less at once."
        raise InputTooLarge(message, limit=limit)


def _check_nesting(text: str, value: Any) -> None:
    if text.count("{") + text.count("[") <= MAX_NESTING:
        return
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_NESTING):
        children = (child for parent in level for child in (parent.values() if isinstance(parent, dict) else parent))
        level = [child for child in children if isinstance(child, dict | list)]
    if level:
        raise RecursionError


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_refuse_constant
)
