"""Checks of requests that every engine makes before it does anything (docs/reference/engine-contract.md)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NoReturn, Protocol, TypeVar

from graphql_api.codecs import KeyRange
from graphql_api.errors import StoreError, StoreRefused
from graphql_api.storage.item_rules import check_condition, check_number, is_number, record_size
from graphql_api.storage.shard_reads import RangeGroups, ReadGroups, index_of, is_descending
from graphql_api.storage.values import (
    Check,
    Delete,
    IndexDefinition,
    Item,
    Key,
    Put,
    RangeRead,
    RangeType,
    StartKey,
    TableDefinition,
    TransactionWrite,
)

MAX_HASH_BYTES = 2048
MAX_RANGE_BYTES = 1024
MAX_TRANSACTION_WRITES = 100
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_TOKEN_CHARACTERS = 36


# --- keys ------------------------------------------------------------------------------------------------------


def check_key(key: Key, where: str) -> None:
    """Refuse an invalid key of a record."""
    if not (_is_short_text(key.hash, MAX_HASH_BYTES) and _is_short_text(key.range, MAX_RANGE_BYTES)):
        _check_text(key.hash, MAX_HASH_BYTES, f"{where}: the hash key")
        _check_text(key.range, MAX_RANGE_BYTES, f"{where}: the range key")


def check_keys(keys: Sequence[Key], where: str) -> None:
    """Refuse invalid keys of records."""
    texts = [*chain.from_iterable(keys)]
    sizes = {*map(len, texts)} if {*map(type, texts)} <= {str} and all(map(str.isascii, texts)) else {0}
    if 0 in sizes or max(sizes, default=0) > min(MAX_HASH_BYTES, MAX_RANGE_BYTES):
        for key in keys:
            check_key(key, where)


def check_index_attributes(index: IndexDefinition, item: Item) -> None:
    """Refuse attributes that an index cannot contain, even if the index would not contain the record."""
    hash_attribute, range_attribute = index.hash_attribute, index.range_attribute
    if hash_attribute in item and not _is_short_text(item[hash_attribute], MAX_HASH_BYTES):
        _check_text(item[hash_attribute], MAX_HASH_BYTES, f"index {index.name!r}: attribute {hash_attribute!r}")
    if range_attribute in item:
        value, kind = item[range_attribute], index.range_type
        if kind != "S" or not _is_short_text(value, MAX_RANGE_BYTES):
            _check_range_value(value, kind, f"index {index.name!r}: attribute {range_attribute!r}")


def _is_short_text(value: Any, max_bytes: int) -> bool:
    """Return whether a value is text that certainly fits. Most keys are, and need no name for an error."""
    return type(value) is str and 0 < len(value) <= max_bytes and value.isascii()


def _check_text(value: Any, max_bytes: int, where: str) -> None:
    if not isinstance(value, str):
        _refuse_type(value, "text", where)
    if not value:
        raise StoreRefused(f"{where} is empty. Provide a non-empty text, or omit the index attribute.")
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError as problem:
        raise malformed_text_error(where) from problem
    if size > max_bytes:
        raise StoreRefused(f"{where} has {size:,} bytes, at most {max_bytes:,} are allowed. Shorten it.")


def _check_range_value(value: Any, kind: RangeType, where: str) -> None:
    if kind == "S":
        _check_text(value, MAX_RANGE_BYTES, where)
        return
    if not is_number(value):
        _refuse_type(value, "a number", where)
    check_number(value, where, "declare the property as text")


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


def check_reads(reads: Sequence[RangeRead], kind: RangeType) -> None:
    """Refuse reads that are invalid or do not fit together. `kind` is the type of the range values."""
    if isinstance(reads, ReadGroups):
        check_groups(reads)
        for group in reads.groups:
            check_reads(group.reads, kind)
        return
    seen: set[str] = set()
    last_range: KeyRange | None = None
    for read in reads:
        if read.index != reads[0].index or read.descending != reads[0].descending:
            raise StoreRefused("The reads of one call differ in index or direction. Make separate calls.")
        if read.limit < 1:
            raise StoreRefused(f"A read has the limit {read.limit}. Use a limit of at least 1.")
        if read.consistent and read.index is not None:
            raise StoreRefused(f"Index {read.index!r} does not support consistent reads. Read the table instead.")
        if read.range is not last_range:  # The reads of a search share their range.
            last_range = read.range
            _check_range(last_range, kind)
        _check_text(read.hash_key, MAX_HASH_BYTES, "the read: the hash key")
        if read.hash_key in seen:
            raise StoreRefused(f"{read.hash_key!r} is read twice in one call. Read each hash key once.")
        seen.add(read.hash_key)
        if read.start is not None:
            _check_start_key(read, read.start, kind)


def check_groups(reads: ReadGroups) -> None:
    """Refuse groups that do not fit together."""
    if isinstance(reads, RangeGroups):
        return
    if len({(index_of(group.reads), is_descending(group.reads)) for group in reads.groups}) > 1:
        raise StoreRefused("The groups of one call differ in index or direction. Make separate calls.")


def _check_range(key_range: KeyRange, kind: RangeType) -> None:
    for bound in (key_range.low, key_range.high):
        if bound is not None:
            _check_range_value(bound, kind, "the read: a bound")
    if key_range.is_empty:
        raise StoreRefused(
            f"The range from {key_range.low!r} to {key_range.high!r} is empty. Omit reads of empty ranges."
        )


def _check_start_key(read: RangeRead, start: StartKey, kind: RangeType) -> None:
    where = "the read: its start key"
    _check_range_value(start.value, kind, where)
    check_key(start.key, where)
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


class Prepared(Protocol):
    """A write that an engine has validated and encoded."""

    @property
    def key(self) -> Key: ...


P = TypeVar("P", bound=Prepared)


def check_write(table: TableDefinition, write: TransactionWrite) -> Key:
    """Refuse a write that is invalid whatever is stored. Return the key of its record."""
    key = check_record_key(table, write)
    if isinstance(write, Put):
        for index in table.indexes:
            check_index_attributes(index, write.item)
    return key


def check_record_key(table: TableDefinition, write: TransactionWrite) -> Key:
    """Refuse a write whose condition or key is invalid. Return the key of its record."""
    if write.expect is not None:
        check_condition(write.expect)
    if not isinstance(write, Put):
        check_key(write.key, "the deletion" if isinstance(write, Delete) else "the check")
        return write.key
    for attribute in (table.hash_attribute, table.range_attribute):
        if attribute not in write.item:
            raise StoreRefused(f"The record lacks the key attribute {attribute!r}. Provide both key attributes.")
    key = Key(write.item[table.hash_attribute], write.item[table.range_attribute])
    check_key(key, "the record")
    return key


def prepare_each(
    writes: Sequence[TransactionWrite], prepare: Callable[[int, TransactionWrite], P]
) -> tuple[list[P], list[StoreError | None]]:
    """Prepare independent writes. Return the valid ones, and the error or None of each."""
    prepared, problems = [], list[StoreError | None]()
    for position, write in enumerate(writes):
        problem = None
        try:
            if isinstance(write, Check):
                raise StoreRefused(
                    f"The record {tuple(write.key)!r} is checked outside a transaction. Use a transaction, or read the "
                    "record."
                )
            prepared.append(prepare(position, write))
        except StoreError as refusal:
            problem = refusal
        problems.append(problem)
    _check_distinct_keys(prepared)
    return prepared, problems


def prepare_transaction(
    writes: Sequence[TransactionWrite], token: str, prepare: Callable[[int, TransactionWrite], P]
) -> list[P]:
    """Prepare the writes of a transaction. One invalid write, or an invalid token, refuses the transaction."""
    if not 1 <= len(writes) <= MAX_TRANSACTION_WRITES:
        raise StoreRefused(f"A transaction has {len(writes)} writes. Send 1 to {MAX_TRANSACTION_WRITES}.")
    if not 1 <= len(token) <= MAX_TOKEN_CHARACTERS:
        raise StoreRefused(f"The token has {len(token)} characters. Use 1 to {MAX_TOKEN_CHARACTERS}.")
    prepared = []
    for position, write in enumerate(writes):
        try:
            prepared.append(prepare(position, write))
        except StoreError as problem:
            raise type(problem)(f"write {position}: {problem.message}") from problem
    _check_distinct_keys(prepared)
    return prepared


def _check_distinct_keys(writes: Iterable[Prepared]) -> None:
    """Refuse two writes of one record in one call, because their order would be undefined."""
    seen = set()
    for write in writes:
        if write.key in seen:
            raise StoreRefused(
                f"The record {tuple(write.key)!r} is written twice in one call. Send one write per record."
            )
        seen.add(write.key)


def check_transaction_size(writes: Iterable[TransactionWrite]) -> None:
    """Refuse a transaction whose records exceed the size limit in total."""
    size = sum(record_size(write.item) for write in writes if isinstance(write, Put))
    if size > MAX_TRANSACTION_BYTES:
        raise StoreRefused(
            f"A transaction has {size:,} bytes, at most {MAX_TRANSACTION_BYTES:,} are allowed. Send less."
        )
