"""JSON as clients send it: strictly one meaning, and every digit kept."""

import json
from collections.abc import Iterable
from typing import Any, Self

import orjson

from graphql_api.errors import InvalidJson

MAX_LEVELS = 100
"""objects and lists in each other; what reads them later goes one call deeper with each"""
MAX_DIGITS = 400
"""of one number: the longest float that is written without an exponent has 309 before its point"""


class WrittenFloat(float):
    """A float that remembers how it was written, for those who read it as a decimal number."""

    text: str

    def __new__(cls, text: str) -> Self:
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__


def read_json(data: bytes | str, where: str) -> Any:
    """The value of a JSON text; integers are exact, and a fraction that a float cannot hold remembers its digits.

    Refuses what parsers disagree about: keys given twice, NaN, infinities, half a surrogate pair, endless depth.
    """
    try:
        text = data.decode() if isinstance(data, bytes) else data
        value = _DECODER.decode(text)
        _check_levels(text, value)
        if _may_escape_a_surrogate(text):
            orjson.loads(text)  # which refuses a lone one
    except UnicodeDecodeError as problem:
        raise InvalidJson(f"{where} is not UTF-8: byte {problem.start} begins no character.") from None
    except (RecursionError, _TooDeep):
        raise InvalidJson(
            f"{where} nests more than {MAX_LEVELS} objects and lists in each other: send it flatter."
        ) from None
    except orjson.JSONDecodeError:
        raise InvalidJson(
            f"{where} escapes half of a surrogate pair, which is no character: send both halves, or the character."
        ) from None
    except json.JSONDecodeError as problem:
        raise InvalidJson(
            f"{where} is not JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}."
        ) from None
    except _Unreadable as problem:
        raise InvalidJson(f"{where} {problem}") from None
    return value


def write_json(value: Any) -> bytes:
    """The JSON text of an answer."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Stored JSON may hold what orjson does not write: integers beyond 64 bits, more than 254 levels.
        return json.dumps(value, separators=(",", ":")).encode()


class _Unreadable(Exception):
    """What is wrong with a JSON text; the name of the text goes before it."""


class _TooDeep(Exception):
    """There are more levels than are read."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Unreadable(f"gives the key {twice[:40]!r} twice in one object: send it once.")
    return found


def _integer(text: str) -> int:
    _check_digits(text)
    return int(text)


def _fraction(text: str) -> float:
    _check_digits(text)
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise _Unreadable(f"has the number {text[:40]}, which is too large for a float: send a text.")
    return value if repr(value) == text else WrittenFloat(text)


def _check_digits(text: str) -> None:
    if len(text) > MAX_DIGITS:
        raise _Unreadable(f"has a number of {len(text)} digits: at most {MAX_DIGITS} are read.")


def _no_number(text: str) -> float:
    raise _Unreadable(f"has {text}, which is not JSON: send null or a text.")


def _check_levels(text: str, value: Any) -> None:
    if text.count("{") + text.count("[") <= MAX_LEVELS:
        return
    level = [value]
    for _ in range(MAX_LEVELS):
        level = [part for whole in level for part in _parts(whole) if isinstance(part, dict | list)]
        if not level:
            return
    raise _TooDeep


def _parts(whole: Any) -> Iterable[Any]:
    if isinstance(whole, dict):
        return whole.values()
    return whole if isinstance(whole, list) else ()


def _may_escape_a_surrogate(text: str) -> bool:
    return "\\ud" in text or "\\uD" in text


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_fraction, parse_constant=_no_number
)
