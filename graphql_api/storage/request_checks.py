"""Checks of requests that every engine makes before it does anything (docs/engines.md)."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal, NoReturn

from graphql_api.codecs import KeyRange
from graphql_api.errors import StoreRefused
from graphql_api.storage.item_rules import number_problem
from graphql_api.storage.item_sizes import record_size
from graphql_api.storage.values import Check, Put, RangeRead, TransactionWrite

MAX_HASH_BYTES = 2048
MAX_RANGE_BYTES = 1024
MAX_TRANSACTION_WRITES = 100
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_TOKEN_CHARACTERS = 36

RangeType = Literal["S", "N"]


# --- keys ------------------------------------------------------------------------------------------------------


def encode_key_text(value: Any, max_bytes: int, where: str) -> bytes:
    """Encode a text key as UTF-8. Refuse other types, empty text, and text of more than `max_bytes`."""
    if not isinstance(value, str):
        _refuse_type(value, "text", where)
    if not value:
        raise StoreRefused(f"{where} is empty. Provide a non-empty text, or omit the index attribute.")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as problem:
        raise malformed_text_error(where) from problem
    if len(encoded) > max_bytes:
        raise StoreRefused(f"{where} has {len(encoded):,} bytes, at most {max_bytes:,} are allowed. Shorten it.")
    return encoded


def check_key_number(value: Any, where: str) -> None:
    """Refuse a value that is not a valid numeric key."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        _refuse_type(value, "a number", where)
    problem = number_problem(value)
    if problem is not None:
        raise StoreRefused(f"{where}: the number {problem}. Round it, or declare the property as text.")


def check_range_value(value: Any, kind: RangeType, where: str) -> None:
    """Refuse a value that is not a valid range value of this type."""
    if kind == "N":
        check_key_number(value, where)
    else:
        encode_key_text(value, MAX_RANGE_BYTES, where)


def malformed_text_error(where: str) -> StoreRefused:
    """Return the error for text with an unpaired surrogate."""
    return StoreRefused(
        f"{where} contains an unpaired surrogate, which has no UTF-8 encoding. Provide well-formed text."
    )


def _refuse_type(value: Any, expected_type: str, where: str) -> NoReturn:
    raise StoreRefused(
        f"{where} is a {type(value).__name__}, and must be {expected_type}. Provide {expected_type}, or omit it."
    )


# --- reads -----------------------------------------------------------------------------------------------------


def check_want(want: int) -> None:
    """Refuse a call that requests no rows."""
    if want < 1:
        raise StoreRefused(f"{want} rows are requested. Request at least one.")


def check_read(read: RangeRead, first: RangeRead) -> None:
    """Refuse a read that differs from the first read in index or direction, or that no engine supports."""
    if read.index != first.index or read.descending != first.descending:
        raise StoreRefused("The reads of one call differ in index or direction. Make separate calls.")
    if read.limit < 1:
        raise StoreRefused(f"A read has the limit {read.limit}. Use a limit of at least 1.")
    if read.consistent and read.index is not None:
        raise StoreRefused(f"Index {read.index!r} does not support consistent reads. Read the table instead.")


def check_nonempty_range(key_range: KeyRange) -> None:
    """Refuse a range with valid bounds that contains no value."""
    if key_range.is_empty:
        raise StoreRefused(
            f"The range from {key_range.low!r} to {key_range.high!r} is empty. Omit reads of empty ranges."
        )


def check_start_key(read: RangeRead) -> None:
    """Refuse a start key with valid values that is not a position of this read."""
    start = read.start
    if start is None:
        return
    if not read.range.contains(start.value):
        raise StoreRefused(
            f"The start key {start.value!r} is outside the range of the read. Use a row within the range."
        )
    if read.index is None and start.key != (read.hash_key, start.value):
        raise StoreRefused(
            f"The start key {tuple(start.key)!r} is the key of another row. Use a row of {read.hash_key!r}."
        )


def check_segment(segment: int, of: int) -> None:
    """Refuse a segment that does not exist."""
    if not 0 <= segment < of:
        raise StoreRefused(f"Segment {segment} of {of} does not exist. Segments are numbered from 0.")


# --- writes ----------------------------------------------------------------------------------------------------


def check_distinct_keys(keys: Iterable[Any]) -> None:
    """Refuse two writes of one record in one call, because their order would be undefined."""
    seen = set()
    for key in keys:
        if key in seen:
            raise StoreRefused(f"The record {tuple(key)!r} is written twice in one call. Send one write per record.")
        seen.add(key)


def refuse_lone_check(write: TransactionWrite) -> None:
    """Refuse a check outside a transaction, where it has no effect."""
    if isinstance(write, Check):
        raise StoreRefused(
            f"The record {tuple(write.key)!r} is checked outside a transaction. Use a transaction, or read the record."
        )


def check_transaction(writes: int, token: str) -> None:
    """Refuse a transaction with too few or too many writes, or with an invalid token."""
    if not 1 <= writes <= MAX_TRANSACTION_WRITES:
        raise StoreRefused(f"A transaction has {writes} writes. Send 1 to {MAX_TRANSACTION_WRITES}.")
    if not 1 <= len(token) <= MAX_TOKEN_CHARACTERS:
        raise StoreRefused(f"The token has {len(token)} characters. Use 1 to {MAX_TOKEN_CHARACTERS}.")


def check_transaction_size(writes: Iterable[TransactionWrite]) -> None:
    """Refuse a transaction whose records exceed the size limit in total."""
    size = sum(record_size(write.item) for write in writes if isinstance(write, Put))
    if size > MAX_TRANSACTION_BYTES:
        raise StoreRefused(
            f"A transaction has {size:,} bytes, at most {MAX_TRANSACTION_BYTES:,} are allowed. Send less."
        )
