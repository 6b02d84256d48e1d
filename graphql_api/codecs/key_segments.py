"""Segments of a range value: `name#value` joined so that byte order is the order of the values (docs/key-format.md)."""

import re
from collections.abc import Iterable

from graphql_api.errors import InvalidValue

SEP = "\x01|"
"""separates two segments; sorts below every character that an encoded value can contain"""

AFTER = "\x01}"
"""upper bound of all keys that continue with `SEP`; sorts below every longer value"""

_ESCAPE_BY_CHARACTER = {"\x00": "\x020", "\x01": "\x021", "\x02": "\x022"}
_CHARACTER_BY_ESCAPE = {escape: character for character, escape in _ESCAPE_BY_CHARACTER.items()}
_ESCAPE_TABLE = str.maketrans(_ESCAPE_BY_CHARACTER)
_ESCAPE_PATTERN = re.compile("\x02[012]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LAST_CODE_POINT = "\U0010ffff"


def check_well_formed(text: str) -> str:
    """Return the text unchanged. Raise `InvalidValue` if it cannot be encoded as UTF-8."""
    surrogate = None if text.isascii() else _LONE_SURROGATE.search(text)
    if surrogate:
        raise InvalidValue(
            f"The text holds a lone surrogate (U+{ord(surrogate[0]):04X}) at position {surrogate.start()}, "
            "which cannot be stored. Give well-formed Unicode text."
        )
    return text


def escape_text(text: str) -> str:
    """Escape U+0000, U+0001 and U+0002 for a segment. Escaping keeps the order of texts."""
    # Fast path: printable text has neither control characters nor surrogates.
    return text if text.isprintable() else check_well_formed(text).translate(_ESCAPE_TABLE)


def readable_key(key: str) -> str:
    """Format a key for people: show separators without their control character."""
    return key.replace(SEP, SEP[1]).replace(AFTER, AFTER[1])


def unescape_text(text: str) -> str:
    """Unescape the text of a segment; the inverse of `escape_text`."""
    unescaped = _ESCAPE_PATTERN.sub(lambda escape: _CHARACTER_BY_ESCAPE[escape[0]], text)
    if escape_text(unescaped) != text:
        raise InvalidValue("The text is no encoded segment value. Read only keys that ShardQL wrote.")
    return unescaped


def key_segment(name: str, encoded: str | None) -> str:
    """Format one property of a range value. The bare name represents null and sorts before every value."""
    return name if encoded is None else f"{name}#{encoded}"


def join_segments(segments: Iterable[str]) -> str:
    """Join segments to a range value."""
    return SEP.join(segments)


def split_segments(text: str) -> list[tuple[str, str | None]]:
    """Split a range value into names and encoded values; a bare name has the value None."""
    parts = (part.partition("#") for part in text.split(SEP))
    return [(name, encoded if hash_sign else None) for name, hash_sign, encoded in parts]


def successor(prefix: str) -> str | None:
    """Return the smallest text above all texts that start with the prefix, or None if there is none."""
    stem = prefix.rstrip(_LAST_CODE_POINT)
    if not stem:
        return None
    next_code_point = ord(stem[-1]) + 1
    return stem[:-1] + ("\ue000" if next_code_point == 0xD800 else chr(next_code_point))
