"""Text form of composite ids, as clients write them: `prod/orders`.

Keys hold a composite id as segments. The text form joins the parts with a separator.
A separator or `%` within a part is percent-escaped. An id of a single part is never escaped.
"""

from collections.abc import Sequence
from typing import Any

from graphql_api.codecs.scalar_codec import Codec, short_repr
from graphql_api.errors import EmptyKey, InvalidValue


def format_composite_id(values: Sequence[Any], codecs: Sequence[Codec[Any]], separator: str) -> str:
    """Format the parts of an id as one string."""
    texts = [codec.format(value) for codec, value in zip(codecs, values, strict=True)]
    if len(texts) == 1:
        return texts[0]
    return separator.join(_escape(text, separator) for text in texts)


def parse_composite_id(id_value: Any, codecs: Sequence[Codec[Any]], separator: str) -> list[Any]:
    """Parse all parts of an id. An id of a single part may also be a value of its type instead of a string."""
    if len(codecs) == 1:
        codec = codecs[0]
        is_formatted = isinstance(id_value, str) and codec.kind != "text"
        return [codec.parse(id_value) if is_formatted else codec.check(id_value)]
    values = parse_leading_id_parts(id_value, codecs, separator)
    if len(values) < len(codecs):
        raise InvalidValue(
            f"{short_repr(id_value)} has {len(values)} of {len(codecs)} parts: "
            f"write all of them, separated by {separator!r}."
        )
    if "" in values:
        raise EmptyKey(f"{short_repr(id_value)} has an empty part. Keys cannot be empty: write a value for each part.")
    return values


def parse_leading_id_parts(id_value: Any, codecs: Sequence[Codec[Any]], separator: str) -> list[Any]:
    """Parse an id whose last parts may be missing. Return the parts that are present."""
    return [codec.parse(text) for codec, text in zip(codecs, _split(id_value, codecs, separator), strict=False)]


def parse_id_prefix(prefix: Any, codecs: Sequence[Codec[Any]], separator: str) -> tuple[list[Any], str]:
    """Parse a prefix of an id into its complete parts and the prefix of the next part, which must be text."""
    if prefix == "":
        return [], ""
    *complete, rest = _split(prefix, codecs, separator)
    codec = codecs[len(complete)]
    if rest and codec.kind != "text":
        raise InvalidValue(
            f"{short_repr(rest)} is a prefix of a {codec.name}, and only text supports prefixes. Write the whole part."
        )
    return [codec.parse(text) for codec, text in zip(codecs, complete, strict=False)], rest


def _split(id_value: Any, codecs: Sequence[Codec[Any]], separator: str) -> list[str]:
    if not isinstance(id_value, str):
        raise InvalidValue(
            f"{short_repr(id_value)} is no string: "
            f"write the {len(codecs)} parts of the id as one string, separated by {separator!r}."
        )
    if not id_value:
        raise EmptyKey("The id is empty. Keys cannot be empty: give a non-empty string.")
    texts = [_unescape(text, separator) for text in id_value.split(separator)]
    if len(texts) > len(codecs):
        raise InvalidValue(
            f"{short_repr(id_value)} has {len(texts)} parts, and the id has {len(codecs)}: "
            f"write a {separator!r} within a part as {_escape(separator, separator)!r}."
        )
    return texts


def _escape(text: str, separator: str) -> str:
    return text.replace("%", "%25").replace(separator, "".join(f"%{octet:02X}" for octet in separator.encode()))


def _unescape(text: str, separator: str) -> str:
    return text.replace("".join(f"%{octet:02X}" for octet in separator.encode()), separator).replace("%25", "%")
