"""Codecs for scalars, keys and record keys: every encoding that is stored or sent to a client."""

from graphql_api.codecs.base64url import base64url_decode, base64url_encode
from graphql_api.codecs.composite_ids import (
    format_composite_id,
    parse_composite_id,
    parse_id_prefix,
    parse_leading_id_parts,
)
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
    encoded_range,
    raw_range,
)
from graphql_api.codecs.key_segments import SEP, join_segments, key_segment, readable_key
from graphql_api.codecs.number_codecs import DecimalNumber, Float64, Int32, Int64, Timestamp, TimestampMs
from graphql_api.codecs.record_key import MAX_GENERATION, RecordKey, RecordKeySeal, check_origin
from graphql_api.codecs.scalar_codec import Codec, short_repr
from graphql_api.codecs.text_codecs import Boolean, EnumCodec, Text, Uuid, enum_problem
from graphql_api.codecs.time_codecs import Date, DateTime, Duration

__all__ = [
    "MAX_GENERATION",
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
    "base64url_decode",
    "base64url_encode",
    "check_origin",
    "decode_tuple",
    "encode_tuple",
    "encoded_range",
    "enum_problem",
    "format_composite_id",
    "hash_key",
    "join_segments",
    "key_segment",
    "parse_composite_id",
    "parse_hash_key",
    "parse_id_prefix",
    "parse_leading_id_parts",
    "raw_range",
    "readable_key",
    "short_repr",
]
