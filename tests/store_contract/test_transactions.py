"""Transactions: atomicity, checks, failed conditions, and idempotency tokens."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphql_api.errors import ConditionFailed, StoreRefused
from graphql_api.storage.port import Store
from graphql_api.storage.values import Check, Delete, Expect, Key, Put, TransactionWrite, Write
from tests.store_contract.condition_samples import EXPECTATIONS, STORED_RECORD
from tests.store_contract.contract_engines import Engine
from tests.store_contract.samples import put, range_read, read_page, record
from tests.support.fake_clock import FakeClock

KEY = Key("h!", "r")
OTHER = Key("h!", "other")


async def test_transactions_are_atomic(store: Store) -> None:
    """Either all writes of a transaction happen or none. A condition error has the position and the stored record."""
    await put(store, record(("h!", "2"), free=True))
    writes: list[Write] = [
        Put(record(("h!", "0"), textHash="t!", text="v")),
        Delete(Key("h!", "2")),
        Put(record(("h!", "1")), Expect(attributes={"free": True})),
    ]
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together(writes, "one")
    assert (caught.value.position, caught.value.old) == (2, None)
    keys = [Key("h!", number) for number in "012"]
    assert list(await store.get_many(keys, True)) == [None, None, record(("h!", "2"), free=True)]
    assert list((await read_page(store, range_read("byText", "t!"))).rows) == []

    await put(store, record(("h!", "1"), free=True))
    await store.write_together(writes, "one")  # a failed transaction does not use its token
    found = await store.get_many(keys, True)
    assert list(found) == [record(("h!", "0"), textHash="t!", text="v"), record(("h!", "1")), None]
    assert len((await read_page(store, range_read("byText", "t!"))).rows) == 1


async def test_all_failed_conditions_are_reported(store: Store) -> None:
    """The error lists every failed condition with its stored record. Its position is that of the first one."""
    await put(store, record(("h!", "1"), a=1), record(("h!", "2"), a=1), record(("h!", "4"), a=4))
    writes: list[TransactionWrite] = [
        Put(record(("h!", "0"))),
        Put(record(("h!", "1")), Expect(absent=True)),
        Check(Key("h!", "2"), Expect(attributes={"a": 1})),
        Check(Key("h!", "3"), Expect()),
        Delete(Key("h!", "4"), Expect(without=("a",))),
    ]
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together(writes, "token")
    one, four = record(("h!", "1"), a=1), record(("h!", "4"), a=4)
    assert (caught.value.position, caught.value.old) == (1, one)
    assert caught.value.failures == {1: one, 3: None, 4: four}
    assert "('h!', '1')" in caught.value.message
    assert list(await store.get_many([Key("h!", number) for number in "014"], True)) == [None, one, four]


# --- checks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expect", "holds_without", "holds_with"), EXPECTATIONS)
async def test_checks(store: Store, expect: Expect, holds_without: bool, holds_with: bool) -> None:
    """A transaction succeeds exactly if its check holds. The checked record stays unchanged."""
    for before, holds in ((None, holds_without), (STORED_RECORD, holds_with)):
        if before is not None:
            await put(store, before)
        written = record(("written!", "with" if before else "without"))
        error = None
        try:
            await store.write_together([Put(written), Check(KEY, expect)], written["rangeKey"])
        except ConditionFailed as caught:
            error = caught
        after = await store.get_many([KEY, Key("written!", written["rangeKey"])], True)
        assert list(after) == [before, written if holds else None]
        assert (error and error.failures) == (None if holds else {1: before})


async def test_transactions_of_checks_only(store: Store) -> None:
    """A transaction of checks only verifies conditions of up to 100 records."""
    await put(store, *(record(("h!", f"{number}")) for number in range(99)))
    checks = [Check(Key("h!", f"{number}"), Expect()) for number in range(99)]
    await store.write_together([*checks, Check(Key("h!", "99"), Expect(absent=True))], "one")
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together([*checks, Check(Key("h!", "99"), Expect())], "two")
    assert caught.value.failures == {99: None}
    with pytest.raises(StoreRefused):
        await store.write_together(
            [*checks, *(Check(Key("h!", number), Expect(absent=True)) for number in "xy")], "three"
        )


async def test_invalid_checks(store: Store) -> None:
    """A check is valid only in a transaction, and its record must not be in another write of the transaction."""
    check = Check(KEY, Expect(absent=True))
    problems = await store.write([check, Put(record(OTHER))])  # type: ignore[list-item]
    assert isinstance(problems[0], StoreRefused)
    assert problems[1] is None
    for write in (Put(record(KEY)), Delete(KEY), Check(KEY, Expect(attributes={"a": 1}))):
        with pytest.raises(StoreRefused):
            await store.write_together([check, write], "token")
    for invalid in (Check(Key("", "r"), Expect()), Check(KEY, Expect(attributes={"a": 1.5}))):
        with pytest.raises(StoreRefused):
            await store.write_together([Put(record(("h!", "new"))), invalid], "token")
    assert list(await store.get_many([KEY, Key("h!", "new")], True)) == [None, None]


# --- tokens ----------------------------------------------------------------------------------------------------


@pytest.mark.needs("tokens")
async def test_a_repeated_token_has_no_further_effect(store: Store) -> None:
    """The same writes with the same token succeed again without effect, even if their conditions no longer hold."""
    writes = [Put(record(KEY, first=True), Expect(absent=True))]
    await store.write_together(writes, "token")
    await put(store, record(KEY, second=True))
    await store.write_together(writes, "token")
    assert list(await store.get_many([KEY], True)) == [record(KEY, second=True)]


@pytest.mark.needs("tokens")
async def test_a_token_rejects_different_writes(store: Store) -> None:
    """Different writes with a used token are rejected: another record, value, condition or type of write."""
    await store.write_together([Put(record(KEY, a=1))], "token")
    others: list[TransactionWrite] = [
        Put(record(KEY, a=2)),
        Put(record(("h!", "s"), a=1)),
        Put(record(KEY, a=1), Expect()),
        Delete(KEY),
        Check(KEY, Expect()),
    ]
    for write in others:
        with pytest.raises(StoreRefused):
            await store.write_together([write], "token")
    await store.write_together([Put({"a": 1, **record(KEY)})], "token")
    assert list(await store.get_many([KEY, Key("h!", "s")], True)) == [record(KEY, a=1), None]


@pytest.mark.needs("tokens")
async def test_a_token_covers_the_conditions(store: Store) -> None:
    """A token distinguishes a delete from a check, and different conditions of one check."""
    await store.write_together([Check(KEY, Expect(absent=True)), Delete(OTHER, Expect(absent=True))], "token")
    others: list[Sequence[TransactionWrite]] = [
        [Delete(KEY, Expect(absent=True)), Delete(OTHER, Expect(absent=True))],
        [Check(KEY, Expect(absent=True)), Check(OTHER, Expect(absent=True))],
        [Check(KEY, Expect(without=("a",))), Delete(OTHER, Expect(absent=True))],
        [Check(KEY, Expect(absent=True))],
    ]
    for writes in others:
        with pytest.raises(StoreRefused):
            await store.write_together(writes, "token")


@pytest.mark.needs("tokens")
async def test_concurrent_transactions_with_one_token(store: Store) -> None:
    """Of equal concurrent transactions with one token, one takes effect and all succeed."""
    for attempt in range(5):
        key = Key("h!", f"{attempt}")
        transactions = [
            store.write_together([Put(record(key), Expect(absent=True))], f"token{attempt}") for _ in range(8)
        ]
        assert await asyncio.gather(*transactions) == [None] * 8
    assert len((await read_page(store, range_read(None, "h!"))).rows) == 5


@pytest.mark.needs("tokens", "reopen")
async def test_tokens_survive_reopening(engine: Engine, store: Store, tmp_path: Path, clock: FakeClock) -> None:
    """A second store on the same table knows a used token, concurrently and after the first one was closed."""
    texts = frozenset(f"{number}" for number in range(20))
    writes: list[TransactionWrite] = [
        Put(record(KEY, texts=texts), Expect(absent=True)),
        Check(OTHER, Expect(absent=True)),
    ]
    await store.write_together(writes, "token")
    other = await engine.open(tmp_path, clock)
    await put(other, record(KEY, changed=True), record(OTHER))
    await other.write_together(writes, "token")
    await store.close()
    await other.close()
    reopened = await engine.open(tmp_path, clock)
    await reopened.write_together(writes, "token")
    with pytest.raises(StoreRefused):
        await reopened.write_together(writes[:1], "token")
    assert list(await reopened.get_many([KEY, OTHER], True)) == [record(KEY, changed=True), record(OTHER)]
    await reopened.close()


@pytest.mark.needs("clock")
async def test_tokens_expire(store: Store, clock: FakeClock) -> None:
    """A token is valid for ten minutes. Afterwards it may be used again."""
    await store.write_together([Put(record(KEY, a=1))], "token")
    clock.now += 590
    with pytest.raises(StoreRefused):
        await store.write_together([Put(record(KEY, a=2))], "token")
    clock.now += 20
    await store.write_together([Put(record(KEY, a=2))], "token")
    assert list(await store.get_many([KEY], True)) == [record(KEY, a=2)]


async def test_a_transaction_of_100_writes(store: Store) -> None:
    """A transaction may have 100 writes."""
    await store.write_together([Put(record(("h!", f"{number}"))) for number in range(100)], "token")
    assert len((await read_page(store, range_read(None, "h!"))).rows) == 100
