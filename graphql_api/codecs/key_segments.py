"""Segments of a range value: `name#value` joined so that byte order is the order of the values (docs/key-format.md)."""

import re
from collections.abc import Iterable

from graphql_api.errors import InvalidValue

SEP = "\x01|"
"""between two segments: below everything that an encoded value can go on with"""

AFTER = "\x01}"
"""directly behind every key that goes on with `SEP`, still below every longer value"""

_ESCAPED = {"\x00": "\x020", "\x01": "\x021", "\x02": "\x022"}
_ESCAPES = str.maketrans(_ESCAPED)
_PLAIN = {escape: plain for plain, escape in _ESCAPED.items()}
_ESCAPE = re.compile("\x02[012]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LAST_CODE_POINT = "\U0010ffff"


def well_formed(text: str) -> str:
    """The text itself, refused if it has no UTF-8 form."""
    found = None if text.isascii() else _LONE_SURROGATE.search(text)
    if found:
        raise InvalidValue(
            f"The text holds a lone surrogate (U+{ord(found[0]):04X}) at position {found.start()}, "
            "which no store can keep. Give well-formed Unicode text."
        )
    return text


def enc(text: str) -> str:
    """Text as it stands in a segment: free of U+0000 and U+0001, in unchanged order."""
    # Printable text, which is nearly all of it, holds neither control characters nor surrogates.
    return text if text.isprintable() else well_formed(text).translate(_ESCAPES)


def readable(key: str) -> str:
    """A key as people read it: the separators stand for themselves, without their control character."""
    return key.replace(SEP, SEP[1]).replace(AFTER, AFTER[1])


def dec(text: str) -> str:
    """The inverse of `enc`."""
    plain = _ESCAPE.sub(lambda escape: _PLAIN[escape[0]], text)
    if enc(plain) != text:
        raise InvalidValue("The text is no encoded segment value. Read keys only from where ShardQL wrote them.")
    return plain


def segment(name: str, encoded: str | None) -> str:
    """One property of a range value; the bare name stands for null and sorts before every value."""
    return name if encoded is None else f"{name}#{encoded}"


def join(segments: Iterable[str]) -> str:
    """A range value from its segments."""
    return SEP.join(segments)


def split(text: str) -> list[tuple[str, str | None]]:
    """The names and encoded values of a range value; None where a bare name stands for null."""
    parts = (part.partition("#") for part in text.split(SEP))
    return [(name, encoded if mark else None) for name, mark, encoded in parts]


def successor(prefix: str) -> str | None:
    """The least text above everything that starts with the prefix; None where there is none."""
    stem = prefix.rstrip(_LAST_CODE_POINT)
    if not stem:
        return None
    raised = ord(stem[-1]) + 1
    return stem[:-1] + ("\ue000" if raised == 0xD800 else chr(raised))
