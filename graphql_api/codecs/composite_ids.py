"""A composite id as one text, as people and clients write it: `prod/orders`.

Inside, a composite is segments; outside, its parts stand between separators, and a separator or `%` within a part is
percent-escaped. A single part is never escaped.
"""

from collections.abc import Sequence
from typing import Any

from graphql_api.codecs.scalar_codec import Codec, shown
from graphql_api.codecs.text_codecs import Text
from graphql_api.errors import EmptyKey, InvalidValue


def join_outside(values: Sequence[Any], codecs: Sequence[Codec[Any]], separator: str) -> str:
    """The parts of an id as one text."""
    texts = [codec.format(value) for codec, value in zip(codecs, values, strict=True)]
    if len(texts) == 1:
        return texts[0]
    return separator.join(_escape(text, separator) for text in texts)


def split_outside(given: Any, codecs: Sequence[Codec[Any]], separator: str) -> list[Any]:
    """All parts of an id; a single one may also be given as the value it is."""
    if len(codecs) == 1:
        only = codecs[0]
        return [only.parse(given) if isinstance(given, str) and not isinstance(only, Text) else only.check(given)]
    values = split_outside_start(given, codecs, separator)
    if len(values) < len(codecs):
        raise InvalidValue(
            f"{shown(given)} has {len(values)} of {len(codecs)} parts: write them all, with {separator!r} between."
        )
    if "" in values:
        raise EmptyKey(f"{shown(given)} has an empty part, and empty keys hold no records: give a text for each part.")
    return values


def split_outside_start(given: Any, codecs: Sequence[Codec[Any]], separator: str) -> list[Any]:
    """The first parts of an id, as many as are written."""
    return [codec.parse(text) for codec, text in zip(codecs, _parts(given, codecs, separator), strict=False)]


def split_outside_prefix(given: Any, codecs: Sequence[Codec[Any]], separator: str) -> tuple[list[Any], str]:
    """The parts that are whole, and the beginning of the next one (maybe nothing), which must be a text."""
    if given == "":
        return [], ""
    *whole, start = _parts(given, codecs, separator)
    codec = codecs[len(whole)]
    if start and not isinstance(codec, Text):
        raise InvalidValue(f"{shown(start)} would be the beginning of a {codec.name}, and only texts have beginnings.")
    return [codec.parse(text) for codec, text in zip(codecs, whole, strict=False)], start


def _parts(given: Any, codecs: Sequence[Codec[Any]], separator: str) -> list[str]:
    if not isinstance(given, str):
        raise InvalidValue(
            f"{shown(given)} is given for an id of {len(codecs)} parts: give one text with {separator!r} between them."
        )
    if not given:
        raise EmptyKey("The id is empty, and empty keys hold no records: give a text.")
    texts = [_unescape(text, separator) for text in given.split(separator)]
    if len(texts) > len(codecs):
        raise InvalidValue(
            f"{shown(given)} has {len(texts)} parts, and the id has {len(codecs)}: "
            f"write a {separator!r} within a part as {_escape(separator, separator)!r}."
        )
    return texts


def _escape(text: str, separator: str) -> str:
    return text.replace("%", "%25").replace(separator, "".join(f"%{octet:02X}" for octet in separator.encode()))


def _unescape(text: str, separator: str) -> str:
    return text.replace("".join(f"%{octet:02X}" for octet in separator.encode()), separator).replace("%25", "%")
