"""Invalid input that every engine rejects before it reads or writes."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import ItemTooLarge, StoreRefused, WrongTable
from graphql_api.storage.port import Store
from graphql_api.storage.values import Check, Delete, Expect, Key, Put, RangeRead, StartKey, Write
from tests.store_contract.samples import put, range_read, read_page, record, write_error

KEY = Key("h!", "r")
SURROGATE = "\ud800"

DEEP: Any = 1
for _ in range(40):
    DEEP = [DEEP]

INVALID_RECORDS: dict[str, dict[str, Any]] = {
    "no hash key": {"rangeKey": "r"},
    "no range key": {"hashKey": "h!"},
    "empty hash key": record(("", "r")),
    "empty range key": record(("h!", "")),
    "null key": {"hashKey": "h!", "rangeKey": None},
    "number as key": {"hashKey": "h!", "rangeKey": 1},
    "bytes as key": {"hashKey": b"h!", "rangeKey": "r"},
    "hash key of 2,049 bytes": record(("é" * 1024 + "a", "r")),
    "range key of 1,025 bytes": record(("h!", "é" * 512 + "a")),
    "lone surrogate in a key": record(("h!", SURROGATE)),
    "lone surrogate in a value": record(KEY, a=SURROGATE),
    "lone surrogate in a name": record(KEY, **{SURROGATE: 1}),
    "nameless attribute": record(KEY, **{"": 1}),
    "number as index hash": record(KEY, textHash=1, text="v"),
    "number as index text": record(KEY, textHash="t!", text=1),
    "wrong type in a sparse index": record(KEY, text=1),
    "wrong hash type in a sparse index": record(KEY, textHash=None),
    "null as index text": record(KEY, textHash="t!", text=None),
    "empty index hash": record(KEY, textHash="", text="v"),
    "empty index text": record(KEY, textHash="t!", text=""),
    "text as index number": record(KEY, numberHash="n!", number="1"),
    "bool as index number": record(KEY, numberHash="n!", number=True),
    "index hash of 2,049 bytes": record(KEY, textHash="a" * 2049, text="v"),
    "index text of 1,025 bytes": record(KEY, textHash="t!", text="a" * 1025),
    "float": record(KEY, a=1.5),
    "float in a list": record(KEY, a=[1, {"b": 1.5}]),
    "NaN": record(KEY, a=Decimal("NaN")),
    "infinity": record(KEY, a=Decimal("-Infinity")),
    "39 digits": record(KEY, a=10**38 + 1),
    "39 digits of a fraction": record(KEY, a=Decimal("1." + "0" * 37 + "1")),
    "1E+126": record(KEY, a=Decimal("1E+126")),
    "10**126": record(KEY, a=10**126),
    "10**5000": record(KEY, a=10**5000),
    "1E-131": record(KEY, a=Decimal("1E-131")),
    "39 digits in an index": record(KEY, numberHash="n!", number=10**38 + 1),
    "empty set": record(KEY, a=frozenset()),
    "mixed set": record(KEY, a=frozenset({"a", 1})),
    "set of bools": record(KEY, a=frozenset({True})),
    "mutable set": record(KEY, a={"a"}),
    "tuple": record(KEY, a=("a",)),
    "object": record(KEY, a=object()),
    "number as name": record(KEY, a={1: "x"}),
    "40 levels": record(KEY, a=DEEP),
}


@pytest.mark.parametrize("item", INVALID_RECORDS.values(), ids=INVALID_RECORDS.keys())
async def test_invalid_records(store: Store, item: dict[str, Any]) -> None:
    """An invalid record is rejected, alone and in a transaction, and nothing is stored."""
    other = Put(record(("h!", "other")))
    assert type(await write_error(store, Put(item))) is StoreRefused
    with pytest.raises(StoreRefused):
        await store.write_together([other, Put(item)], "token")
    assert list((await read_page(store, range_read(None, "h!"))).rows) == []


LARGEST_VALID_RECORDS: dict[str, dict[str, Any]] = {
    "hash key of 2,048 bytes": record(("é" * 1024, "r")),
    "range key of 1,024 bytes": record(("h!", "é" * 512)),
    "NUL in keys": record(("h!\0", "\0")),
    "index keys of full length": record(KEY, textHash="a" * 2048, text="a" * 1024),
    "38 digits": record(KEY, a=10**38 - 1, b=-(10**38) + 1),
    "38 digits and zeros": record(KEY, a=(10**38 - 1) * 10**80),
    "9.99E+125": record(KEY, a=Decimal("9.99E+125")),
    "1E-130": record(KEY, a=Decimal("1E-130")),
    "zero with an exponent": record(KEY, a=Decimal("0E+500"), numberHash="n!", number=Decimal("0E+500")),
    "empty texts, bytes, lists and maps": record(KEY, a="", b=b"", c=[], d={}),
    "empty text in a set": record(KEY, a=frozenset({"", "a"})),
}


@pytest.mark.parametrize("item", LARGEST_VALID_RECORDS.values(), ids=LARGEST_VALID_RECORDS.keys())
async def test_records_at_the_limits(store: Store, item: dict[str, Any]) -> None:
    """A record exactly at a limit is stored and read back unchanged."""
    await put(store, item)
    assert list(await store.get_many([Key(item["hashKey"], item["rangeKey"])], True)) == [item]


@pytest.mark.needs("exact size")
async def test_record_size(store: Store) -> None:
    """A record has at most 400 KB, counted by its names and values, independent of the storage format."""
    fixed = len("hashKey" + "h!" + "rangeKey" + "r" + "a")
    fitting = record(KEY, a="x" * (409_600 - fixed))
    await put(store, fitting)
    too_large = record(("h!", "s"), a="x" * (409_600 - fixed + 1))
    assert isinstance(await write_error(store, Put(too_large)), ItemTooLarge)
    control = record(KEY, a="\0" * (409_600 - fixed))  # much longer when escaped
    await put(store, control)
    assert list(await store.get_many([KEY], True)) == [control]
    numbers = record(("h!", "s"), a=[1] * 140_000)  # 3 bytes each, one of them for the list element
    assert isinstance(await write_error(store, Put(numbers)), ItemTooLarge)


INVALID_KEYS: dict[str, Any] = {
    "empty hash key": Key("", "r"),
    "empty range key": Key("h!", ""),
    "long hash key": Key("a" * 2049, "r"),
    "long range key": Key("h!", "a" * 1025),
    "number": Key("h!", 1),  # type: ignore[arg-type]
    "lone surrogate": Key("h!", SURROGATE),
}


@pytest.mark.parametrize("key", INVALID_KEYS.values(), ids=INVALID_KEYS.keys())
async def test_invalid_keys(store: Store, key: Key) -> None:
    """An invalid key is rejected by reads and deletes too."""
    with pytest.raises(StoreRefused):
        await store.get_many([KEY, key], True)
    assert isinstance(await write_error(store, Delete(key)), StoreRefused)


async def test_duplicate_keys(store: Store) -> None:
    """Two writes of one record in one call are rejected as a whole, in every combination of writes."""
    pairs: Sequence[Sequence[Write]] = [
        [Put(record(KEY, a=1)), Put(record(KEY, a=2))],
        [Put(record(KEY, a=1)), Delete(KEY)],
        [Delete(KEY), Delete(KEY)],
    ]
    for writes in pairs:
        with pytest.raises(StoreRefused):
            await store.write(writes)
        with pytest.raises(StoreRefused):
            await store.write_together(writes, "token")
    assert list(await store.get_many([KEY], True)) == [None]


async def test_invalid_transactions(store: Store) -> None:
    """A transaction has 1 to 100 writes, at most 4 MB, and a token of 1 to 36 characters."""
    one = [Put(record(KEY))]
    many = [Put(record(("h!", f"{number}"))) for number in range(101)]
    large = [Put(record(("h!", f"{number}"), a="x" * 400_000)) for number in range(11)]
    for writes, token in (([], "token"), (many, "token"), (large, "token"), (one, ""), (one, "t" * 37)):
        with pytest.raises(StoreRefused):
            await store.write_together(writes, token)
    assert list((await read_page(store, range_read(None, "h!"))).rows) == []


INVALID_CONDITIONS: dict[str, Expect] = {
    "absent with a value": Expect(absent=True, attributes={"a": 1}),
    "absent without an attribute": Expect(absent=True, without=("a",)),
    "a value and missing": Expect(attributes={"a": 1, "b": 2}, without=("b",)),
    "a value that cannot be stored": Expect(attributes={"a": 1.5}),
    "no name": Expect(without=("",)),
    "lone surrogate": Expect(without=(SURROGATE,)),
    "too many": Expect(attributes=dict.fromkeys(map(str, range(60)), 1), without=(*map(str, range(60, 101)),)),
}


@pytest.mark.parametrize("expect", INVALID_CONDITIONS.values(), ids=INVALID_CONDITIONS.keys())
async def test_invalid_conditions(store: Store, expect: Expect) -> None:
    """A condition that is contradictory, contains an invalid value, or has too many attributes is rejected."""
    assert type(await write_error(store, Put(record(KEY), expect))) is StoreRefused
    assert type(await write_error(store, Delete(KEY, expect))) is StoreRefused
    with pytest.raises(StoreRefused):
        await store.write_together([Check(KEY, expect)], "token")


async def test_a_condition_with_the_most_attributes(store: Store) -> None:
    """A condition may test 100 attributes, with values or absent."""
    names = [f"a long name of an attribute {number}" for number in range(50)]
    await put(store, record(KEY, **dict.fromkeys(names, "x")))
    missing = tuple(f"no {name}" for name in names)
    expect = Expect(attributes=dict.fromkeys(names, "x"), without=missing)
    assert await write_error(store, Put(record(KEY, done=True), expect)) is None
    assert await write_error(store, Put(record(KEY), Expect(without=(*names, *missing)))) is None


TEXT = range_read("byText", "t!")
NUMBER = range_read("byNumber", "n!")

INVALID_READS: dict[str, Sequence[RangeRead]] = {
    "limit 0": [TEXT._replace(limit=0)],
    "unknown index": [TEXT._replace(index="byTxt")],
    "empty hash key": [TEXT._replace(hash_key="")],
    "long hash key": [TEXT._replace(hash_key="a" * 2049)],
    "lone surrogate as hash key": [TEXT._replace(hash_key=SURROGATE)],
    "inverted range": [TEXT._replace(range=KeyRange("b", "a"))],
    "inverted numbers": [NUMBER._replace(range=KeyRange(Decimal("1.5"), 1))],
    "open at its only value": [TEXT._replace(range=KeyRange("a", "a", low_open=True))],
    "open above its only value": [NUMBER._replace(range=KeyRange(1, 1, high_open=True))],
    "empty bound": [TEXT._replace(range=KeyRange("", "a"))],
    "long bound": [TEXT._replace(range=KeyRange(None, "a" * 1025))],
    "lone surrogate as bound": [TEXT._replace(range=KeyRange(SURROGATE))],
    "number as text bound": [TEXT._replace(range=KeyRange(1))],
    "text as numeric bound": [NUMBER._replace(range=KeyRange("1"))],
    "bool as numeric bound": [NUMBER._replace(range=KeyRange(high=True))],
    "39 digits as bound": [NUMBER._replace(range=KeyRange(10**38 + 1))],
    "start outside of its range": [TEXT._replace(range=KeyRange("b"), start=StartKey("a", KEY))],
    "start at an open bound": [TEXT._replace(range=KeyRange("b", low_open=True), start=StartKey("b", KEY))],
    "start after its range": [NUMBER._replace(range=KeyRange(1, 2), start=StartKey(3, KEY))],
    "start of the wrong type": [NUMBER._replace(start=StartKey("a", KEY))],
    "start with an empty key": [TEXT._replace(start=StartKey("a", Key("h!", "")))],
    "start of another hash key": [TEXT._replace(index=None, start=StartKey("r", KEY))],
    "start of another range key": [TEXT._replace(index=None, hash_key="h!", start=StartKey("a", KEY))],
    "consistent index": [TEXT._replace(consistent=True)],
    "two indexes": [TEXT, TEXT._replace(index="onlyKeys", hash_key="t!1", ordinal=2)],
    "two directions": [TEXT, TEXT._replace(descending=True, hash_key="t!1", ordinal=2)],
}


@pytest.mark.parametrize("reads", INVALID_READS.values(), ids=INVALID_READS.keys())
async def test_invalid_reads(store: Store, reads: Sequence[RangeRead]) -> None:
    """An invalid read is rejected before anything is read."""
    with pytest.raises(StoreRefused):
        await store.read_ranges(reads, 10)


async def test_invalid_row_counts(store: Store) -> None:
    """A call that wants no rows is rejected."""
    for want in (0, -1):
        with pytest.raises(StoreRefused):
            await store.read_ranges([TEXT], want)


async def test_no_table(bare_store: Store) -> None:
    """Without a table, every call fails except `describe` and `ensure_table`."""
    assert await bare_store.describe() is None
    with pytest.raises(WrongTable):
        await bare_store.read_ranges([range_read(None, "h!")], 1)
    with pytest.raises(WrongTable):
        await bare_store.get_many([KEY], True)
    with pytest.raises(WrongTable):
        await bare_store.write([Put(record(KEY))])
    with pytest.raises(WrongTable):
        await bare_store.write_together([Put(record(KEY))], "token")
    with pytest.raises(WrongTable):
        await bare_store.scan(0, 1, None)


async def test_invalid_segments(store: Store) -> None:
    """A scan segment must be one of the existing segments."""
    for segment, of in ((0, 0), (1, 1), (-1, 2)):
        with pytest.raises(StoreRefused):
            await store.scan(segment, of, None)
