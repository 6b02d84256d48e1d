"""Codecs for scalars, keys and record keys: every encoding that is stored or sent to a client."""

from graphql_api.codecs.base64url import from_text, to_text
from graphql_api.codecs.composite_ids import join_outside, split_outside, split_outside_prefix, split_outside_start
from graphql_api.codecs.hash_keys import hash_key, parse_hash_key
from graphql_api.codecs.key_ranges import (
    MAX_KEY_BYTES,
    Between,
    Column,
    Condition,
    Eq,
    KeyRange,
    Prefix,
    RangeValue,
    decode_tuple,
    encode_tuple,
    range_of,
    raw_range,
)
from graphql_api.codecs.key_segments import SEP, join, readable, segment
from graphql_api.codecs.number_codecs import DecimalNumber, Float64, Int32, Int64, Timestamp, TimestampMs
from graphql_api.codecs.record_key import LAST_GENERATION, RecordKey, RecordKeySeal, check_origin
from graphql_api.codecs.scalar_codec import Codec, shown
from graphql_api.codecs.text_codecs import Boolean, EnumCodec, Text, Uuid, enum_problem
from graphql_api.codecs.time_codecs import Date, DateTime, Duration

__all__ = [
    "LAST_GENERATION",
    "MAX_KEY_BYTES",
    "SEP",
    "Between",
    "Boolean",
    "Codec",
    "Column",
    "Condition",
    "Date",
    "DateTime",
    "DecimalNumber",
    "Duration",
    "EnumCodec",
    "Eq",
    "Float64",
    "Int32",
    "Int64",
    "KeyRange",
    "Prefix",
    "RangeValue",
    "RecordKey",
    "RecordKeySeal",
    "Text",
    "Timestamp",
    "TimestampMs",
    "Uuid",
    "check_origin",
    "decode_tuple",
    "encode_tuple",
    "enum_problem",
    "from_text",
    "hash_key",
    "join",
    "join_outside",
    "parse_hash_key",
    "range_of",
    "raw_range",
    "readable",
    "segment",
    "shown",
    "split_outside",
    "split_outside_prefix",
    "split_outside_start",
    "to_text",
]
