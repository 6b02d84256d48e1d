"""What every engine refuses, at the call and with nothing done."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import ItemTooLarge, StoreRefused, WrongTable
from graphql_api.storage.port import Store
from graphql_api.storage.values import Check, Delete, Expect, Key, Put, RangeRead, StartKey, Write
from tests.store_contract.samples import page, put, reading, record, refusal

KEY = Key("h!", "r")
SURROGATE = "\ud800"

DEEP: Any = 1
for _ in range(40):
    DEEP = [DEEP]

WRONG_RECORDS: dict[str, dict[str, Any]] = {
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


@pytest.mark.parametrize("item", WRONG_RECORDS.values(), ids=WRONG_RECORDS.keys())
async def test_wrong_records(store: Store, item: dict[str, Any]) -> None:
    """A record that no engine keeps is refused, alone and in a transaction, and nothing of it is stored."""
    other = Put(record(("h!", "other")))
    assert type(await refusal(store, Put(item))) is StoreRefused
    with pytest.raises(StoreRefused):
        await store.write_together([other, Put(item)], "token")
    assert list((await page(store, reading(None, "h!"))).rows) == []


FITTING_RECORDS: dict[str, dict[str, Any]] = {
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


@pytest.mark.parametrize("item", FITTING_RECORDS.values(), ids=FITTING_RECORDS.keys())
async def test_records_that_just_fit(store: Store, item: dict[str, Any]) -> None:
    """What lies on the right side of a limit is stored and comes back."""
    await put(store, item)
    assert list(await store.get_many([Key(item["hashKey"], item["rangeKey"])], True)) == [item]


@pytest.mark.needs("exact size")
async def test_record_size(store: Store) -> None:
    """A record has at most 400 KB, counted as names and values whatever the engine makes of them."""
    fixed = len("hashKey" + "h!" + "rangeKey" + "r" + "a")
    fitting = record(KEY, a="x" * (409_600 - fixed))
    await put(store, fitting)
    too_large = record(("h!", "s"), a="x" * (409_600 - fixed + 1))
    assert isinstance(await refusal(store, Put(too_large)), ItemTooLarge)
    control = record(KEY, a="\0" * (409_600 - fixed))  # much longer once it is escaped
    await put(store, control)
    assert list(await store.get_many([KEY], True)) == [control]
    numbers = record(("h!", "s"), a=[1] * 140_000)  # 3 bytes each, one for the place in the list
    assert isinstance(await refusal(store, Put(numbers)), ItemTooLarge)


WRONG_KEYS: dict[str, Any] = {
    "empty hash key": Key("", "r"),
    "empty range key": Key("h!", ""),
    "long hash key": Key("a" * 2049, "r"),
    "long range key": Key("h!", "a" * 1025),
    "number": Key("h!", 1),  # type: ignore[arg-type]
    "lone surrogate": Key("h!", SURROGATE),
}


@pytest.mark.parametrize("key", WRONG_KEYS.values(), ids=WRONG_KEYS.keys())
async def test_wrong_keys(store: Store, key: Key) -> None:
    """What can be no key is refused where a record is fetched or deleted too."""
    with pytest.raises(StoreRefused):
        await store.get_many([KEY, key], True)
    assert isinstance(await refusal(store, Delete(key)), StoreRefused)


async def test_one_key_twice(store: Store) -> None:
    """Two writes of one record in one call are refused as a whole, in whatever way they write it."""
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


async def test_wrong_transactions(store: Store) -> None:
    """A transaction has 1 to 100 writes, at most 4 MB, and a token of 1 to 36 characters."""
    one = [Put(record(KEY))]
    many = [Put(record(("h!", f"{place}"))) for place in range(101)]
    large = [Put(record(("h!", f"{place}"), a="x" * 400_000)) for place in range(11)]
    for writes, token in (([], "token"), (many, "token"), (large, "token"), (one, ""), (one, "t" * 37)):
        with pytest.raises(StoreRefused):
            await store.write_together(writes, token)
    assert list((await page(store, reading(None, "h!"))).rows) == []


WRONG_EXPECTATIONS: dict[str, Expect] = {
    "absent with a value": Expect(absent=True, attributes={"a": 1}),
    "absent without an attribute": Expect(absent=True, without=("a",)),
    "a value and missing": Expect(attributes={"a": 1, "b": 2}, without=("b",)),
    "a value that cannot be stored": Expect(attributes={"a": 1.5}),
    "no name": Expect(without=("",)),
    "lone surrogate": Expect(without=(SURROGATE,)),
    "too many": Expect(attributes=dict.fromkeys(map(str, range(60)), 1), without=(*map(str, range(60, 101)),)),
}


@pytest.mark.parametrize("expect", WRONG_EXPECTATIONS.values(), ids=WRONG_EXPECTATIONS.keys())
async def test_wrong_expectations(store: Store, expect: Expect) -> None:
    """An expectation that contradicts itself, names what cannot be stored, or names too much is refused."""
    assert type(await refusal(store, Put(record(KEY), expect))) is StoreRefused
    assert type(await refusal(store, Delete(KEY, expect))) is StoreRefused
    with pytest.raises(StoreRefused):
        await store.write_together([Check(KEY, expect)], "token")


async def test_an_expectation_of_full_size(store: Store) -> None:
    """A hundred attributes can be expected of one record, with values or missing."""
    names = [f"a long name of an attribute {number}" for number in range(50)]
    await put(store, record(KEY, **dict.fromkeys(names, "x")))
    missing = tuple(f"no {name}" for name in names)
    expect = Expect(attributes=dict.fromkeys(names, "x"), without=missing)
    assert await refusal(store, Put(record(KEY, done=True), expect)) is None
    assert await refusal(store, Put(record(KEY), Expect(without=(*names, *missing)))) is None


TEXT = reading("byText", "t!")
NUMBER = reading("byNumber", "n!")

WRONG_READS: dict[str, Sequence[RangeRead]] = {
    "limit 0": [replace(TEXT, limit=0)],
    "unknown index": [replace(TEXT, index="byTxt")],
    "empty hash key": [replace(TEXT, hash_key="")],
    "long hash key": [replace(TEXT, hash_key="a" * 2049)],
    "lone surrogate as hash key": [replace(TEXT, hash_key=SURROGATE)],
    "inverted range": [replace(TEXT, range=KeyRange("b", "a"))],
    "inverted numbers": [replace(NUMBER, range=KeyRange(Decimal("1.5"), 1))],
    "open at its only value": [replace(TEXT, range=KeyRange("a", "a", low_open=True))],
    "open above its only value": [replace(NUMBER, range=KeyRange(1, 1, high_open=True))],
    "empty bound": [replace(TEXT, range=KeyRange("", "a"))],
    "long bound": [replace(TEXT, range=KeyRange(None, "a" * 1025))],
    "lone surrogate as bound": [replace(TEXT, range=KeyRange(SURROGATE))],
    "number as text bound": [replace(TEXT, range=KeyRange(1))],
    "text as numeric bound": [replace(NUMBER, range=KeyRange("1"))],
    "bool as numeric bound": [replace(NUMBER, range=KeyRange(high=True))],
    "39 digits as bound": [replace(NUMBER, range=KeyRange(10**38 + 1))],
    "start outside of its range": [replace(TEXT, range=KeyRange("b"), start=StartKey("a", KEY))],
    "start at an open bound": [replace(TEXT, range=KeyRange("b", low_open=True), start=StartKey("b", KEY))],
    "start behind its range": [replace(NUMBER, range=KeyRange(1, 2), start=StartKey(3, KEY))],
    "start of the wrong type": [replace(NUMBER, start=StartKey("a", KEY))],
    "start with an empty key": [replace(TEXT, start=StartKey("a", Key("h!", "")))],
    "start of another hash key": [replace(TEXT, index=None, start=StartKey("r", KEY))],
    "start of another range key": [replace(TEXT, index=None, hash_key="h!", start=StartKey("a", KEY))],
    "consistent index": [replace(TEXT, consistent=True)],
    "two indexes": [TEXT, replace(TEXT, index="onlyKeys", hash_key="t!1", ordinal=2)],
    "two directions": [TEXT, replace(TEXT, descending=True, hash_key="t!1", ordinal=2)],
}


@pytest.mark.parametrize("reads", WRONG_READS.values(), ids=WRONG_READS.keys())
async def test_wrong_reads(store: Store, reads: Sequence[RangeRead]) -> None:
    """A read that makes no sense is refused at the call, before anything is looked at."""
    with pytest.raises(StoreRefused):
        await store.read_ranges(reads, 10)


async def test_nothing_wanted(store: Store) -> None:
    """A call that wants no rows is refused."""
    for want in (0, -1):
        with pytest.raises(StoreRefused):
            await store.read_ranges([TEXT], want)


async def test_no_table(bare_store: Store) -> None:
    """Without a table every call is refused but asking for it and making it."""
    assert await bare_store.describe() is None
    with pytest.raises(WrongTable):
        await bare_store.read_ranges([reading(None, "h!")], 1)
    with pytest.raises(WrongTable):
        await bare_store.get_many([KEY], True)
    with pytest.raises(WrongTable):
        await bare_store.write([Put(record(KEY))])
    with pytest.raises(WrongTable):
        await bare_store.write_together([Put(record(KEY))], "token")
    with pytest.raises(WrongTable):
        await bare_store.scan(0, 1, None)


async def test_wrong_segments(store: Store) -> None:
    """A segment is one of those there are."""
    for segment, of in ((0, 0), (1, 1), (-1, 2)):
        with pytest.raises(StoreRefused):
            await store.scan(segment, of, None)
