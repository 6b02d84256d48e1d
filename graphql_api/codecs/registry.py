"""The registry of codecs. A scalar is a codec class, and one line here."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from graphql_api.codecs.number_codecs import DecimalNumber, Float64, Int32, Int64
from graphql_api.codecs.scalar_codec import Codec
from graphql_api.codecs.text_codecs import Boolean, EnumCodec, Text, Uuid, enum_problem
from graphql_api.codecs.time_codecs import Date, DateTime, Duration, Timestamp, TimestampMs

CODECS: tuple[Codec[Any], ...] = (
    Text(),
    Int64(),
    Int32(),
    Timestamp(),
    TimestampMs(),
    Uuid(),
    Date(),
    DateTime(),
    Duration(),
    DecimalNumber(),
    Float64(),
    Boolean(),
)
"""All codecs except those of enums. The first codec of a Python type is the codec of its plain annotations."""


def index_by_type(codecs: Sequence[Codec[Any]]) -> Mapping[type, Codec[Any]]:
    """Return the codec of plain annotations of each Python type. Raise `ValueError` if codecs share a unique part."""
    by_type: dict[type, Codec[Any]] = {}
    for codec in codecs:
        plain = by_type.setdefault(codec.python_type, codec)
        if plain.key_tag != codec.key_tag:
            raise ValueError(f"{plain} and {codec} have one Python type and different key_tags: use one.")
        if codec.key_tag is not None and not (len(codec.key_tag) == 1 and codec.key_tag.isascii()):
            raise ValueError(f"{codec} has the key_tag {codec.key_tag!r}: use one ASCII character.")
    unique_parts = {
        "name": [codec.name for codec in codecs],
        "GraphQL name": [codec.graphql.name for codec in codecs if codec.graphql is not None],
        "key_tag": [codec.key_tag for codec in by_type.values() if codec.key_tag is not None],
    }
    for part, values in unique_parts.items():
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f"Two codecs have the {part} {value}: rename one of them.")
    return by_type


CODEC_BY_TYPE = index_by_type(CODECS)
CODEC_BY_TAG = {codec.key_tag: codec for codec in CODEC_BY_TYPE.values() if codec.key_tag is not None}


def codec_of_type(kind: Any) -> Codec[Any] | None:
    """Return the codec of a plain Python type, or None if it is no scalar."""
    if not isinstance(kind, type):
        return None
    if issubclass(kind, Enum):
        return None if enum_problem(kind) else EnumCodec(kind)
    return CODEC_BY_TYPE.get(kind)
