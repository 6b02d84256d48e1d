"""What every engine refuses at the call, with nothing done (docs/engines.md)."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal, NoReturn

from graphql_api.codecs import KeyRange
from graphql_api.errors import StoreRefused
from graphql_api.storage.item_rules import number_problem
from graphql_api.storage.item_sizes import record_size
from graphql_api.storage.values import Check, Put, RangeRead, TogetherWrite

MAX_HASH_BYTES = 2048
MAX_RANGE_BYTES = 1024
MAX_TOGETHER = 100
MAX_TOGETHER_BYTES = 4 * 1024 * 1024
MAX_TOKEN_CHARACTERS = 36

RangeType = Literal["S", "N"]


# --- keys ------------------------------------------------------------------------------------------------------


def key_text(value: Any, most: int, where: str) -> bytes:
    """A text key in UTF-8; refuses what is none."""
    if not isinstance(value, str):
        _wrong_type(value, "text", where)
    if not value:
        raise StoreRefused(f"{where} is empty, and no key may be. Give a text, or leave an index attribute out.")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as problem:
        raise malformed_text(where) from problem
    if len(encoded) > most:
        raise StoreRefused(f"{where} has {len(encoded):,} bytes, at most {most:,} are allowed. Shorten it.")
    return encoded


def check_key_number(value: Any, where: str) -> None:
    """Refuses what is no numeric key."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        _wrong_type(value, "a number", where)
    problem = number_problem(value)
    if problem is not None:
        raise StoreRefused(f"{where}: the number {problem}. Round it, or declare the property as text.")


def check_range_value(value: Any, kind: RangeType, where: str) -> None:
    """Refuses what is no range value of this kind."""
    if kind == "N":
        check_key_number(value, where)
    else:
        key_text(value, MAX_RANGE_BYTES, where)


def malformed_text(where: str) -> StoreRefused:
    """What a caller learns of text with half of a surrogate pair."""
    return StoreRefused(f"{where} holds half of a surrogate pair, which has no UTF-8 form. Give well-formed text.")


def _wrong_type(value: Any, wanted: str, where: str) -> NoReturn:
    raise StoreRefused(f"{where} is a {type(value).__name__} and has to be {wanted}. Give {wanted}, or leave it out.")


# --- reads -----------------------------------------------------------------------------------------------------


def check_want(want: int) -> None:
    """Refuses a call that wants no rows."""
    if want < 1:
        raise StoreRefused(f"{want} rows are wanted. Ask for at least one.")


def check_company(read: RangeRead, first: RangeRead) -> None:
    """Refuses a read that does not fit the first one of its call, or asks for what no engine has."""
    if read.index != first.index or read.descending != first.descending:
        raise StoreRefused("The reads of one call differ in index or direction. Make one call for each.")
    if read.limit < 1:
        raise StoreRefused(f"A read has the limit {read.limit}. Ask for at least one row.")
    if read.consistent and read.index is not None:
        raise StoreRefused(f"Index {read.index!r} is asked to be consistent, which only the table is. Read the table.")


def check_room(asked: KeyRange) -> None:
    """Refuses a range of proper bounds that leaves no room for any value."""
    if asked.is_empty:
        raise StoreRefused(f"The range from {asked.low!r} to {asked.high!r} holds nothing. Leave such reads out.")


def check_start(read: RangeRead) -> None:
    """Refuses a start key of proper values that is no place of this read."""
    start = read.start
    if start is None:
        return
    if not read.range.contains(start.value):
        raise StoreRefused(f"The start key {start.value!r} lies outside of its range. Give a row of that range.")
    if read.index is None and start.key != (read.hash_key, start.value):
        raise StoreRefused(f"The start key {tuple(start.key)!r} is of another row. Give a row of {read.hash_key!r}.")


def check_segment(segment: int, of: int) -> None:
    """Refuses a segment that there is none of."""
    if not 0 <= segment < of:
        raise StoreRefused(f"Segment {segment} of {of} does not exist. Count segments from 0.")


# --- writes ----------------------------------------------------------------------------------------------------


def refuse_doubles(keys: Iterable[Any]) -> None:
    """Refuses two writes of one record in one call, of which none could be said to come last."""
    seen = set()
    for key in keys:
        if key in seen:
            raise StoreRefused(
                f"The record {tuple(key)!r} is written twice in one call. Send one write for each record."
            )
        seen.add(key)


def refuse_check(write: TogetherWrite) -> None:
    """Refuses a check outside of a transaction, where it would decide about nothing."""
    if isinstance(write, Check):
        raise StoreRefused(f"The record {tuple(write.key)!r} is checked alone. Check it in a transaction, or read it.")


def check_together(writes: int, token: str) -> None:
    """Refuses a transaction of too few or too many writes, or with a token that is none."""
    if not 1 <= writes <= MAX_TOGETHER:
        raise StoreRefused(f"{writes} writes are asked for together. Send 1 to {MAX_TOGETHER}.")
    if not 1 <= len(token) <= MAX_TOKEN_CHARACTERS:
        raise StoreRefused(f"The token has {len(token)} characters. Give 1 to {MAX_TOKEN_CHARACTERS}.")


def check_together_size(writes: Iterable[TogetherWrite]) -> None:
    """Refuses a transaction of proper records that are too many bytes together."""
    size = sum(record_size(write.item) for write in writes if isinstance(write, Put))
    if size > MAX_TOGETHER_BYTES:
        raise StoreRefused(f"{size:,} bytes are written together, {MAX_TOGETHER_BYTES:,} are allowed. Send less.")
