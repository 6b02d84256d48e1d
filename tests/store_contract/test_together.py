"""Transactions: all or none, checks, what a failure tells, and tokens."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphql_api.errors import ConditionFailed, StoreRefused
from graphql_api.storage.port import Store
from graphql_api.storage.values import Check, Delete, Expect, Key, Put, TransactionWrite, Write
from tests.clocks import Clock
from tests.store_contract.engines import Engine
from tests.store_contract.expectations import EXPECTATIONS, STANDING
from tests.store_contract.samples import page, put, reading, record

KEY = Key("h!", "r")
OTHER = Key("h!", "other")


async def test_all_or_none(store: Store) -> None:
    """Writes together all happen, or none if one expectation fails; the failure names its write and the old record."""
    await put(store, record(("h!", "2"), stands=True))
    writes: list[Write] = [
        Put(record(("h!", "0"), textHash="t!", text="v")),
        Delete(Key("h!", "2")),
        Put(record(("h!", "1")), Expect(attributes={"stands": True})),
    ]
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together(writes, "one")
    assert (caught.value.position, caught.value.old) == (2, None)
    keys = [Key("h!", place) for place in "012"]
    assert list(await store.get_many(keys, True)) == [None, None, record(("h!", "2"), stands=True)]
    assert list((await page(store, reading("byText", "t!"))).rows) == []

    await put(store, record(("h!", "1"), stands=True))
    await store.write_together(writes, "one")  # a transaction that failed has not used its token
    found = await store.get_many(keys, True)
    assert list(found) == [record(("h!", "0"), textHash="t!", text="v"), record(("h!", "1")), None]
    assert len((await page(store, reading("byText", "t!"))).rows) == 1


async def test_all_that_failed(store: Store) -> None:
    """A failure tells of every write that is not as expected, with what stands at its key, and first of the first."""
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
    assert list(await store.get_many([Key("h!", place) for place in "014"], True)) == [None, one, four]


# --- checks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expect", "holds_without", "holds_with"), EXPECTATIONS)
async def test_checks(store: Store, expect: Expect, holds_without: bool, holds_with: bool) -> None:
    """A transaction happens exactly if its check holds; the record that is checked stays as it is."""
    for before, holds in ((None, holds_without), (STANDING, holds_with)):
        if before is not None:
            await put(store, before)
        beside = record(("beside!", "with" if before else "without"))
        problem = None
        try:
            await store.write_together([Put(beside), Check(KEY, expect)], beside["rangeKey"])
        except ConditionFailed as caught:
            problem = caught
        after = await store.get_many([KEY, Key("beside!", beside["rangeKey"])], True)
        assert list(after) == [before, beside if holds else None]
        assert (problem and problem.failures) == (None if holds else {1: before})


async def test_checks_by_themselves(store: Store) -> None:
    """A transaction of nothing but checks tells whether all of them hold, of up to a hundred records."""
    await put(store, *(record(("h!", f"{place}")) for place in range(99)))
    checks = [Check(Key("h!", f"{place}"), Expect()) for place in range(99)]
    await store.write_together([*checks, Check(Key("h!", "99"), Expect(absent=True))], "one")
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together([*checks, Check(Key("h!", "99"), Expect())], "two")
    assert caught.value.failures == {99: None}
    with pytest.raises(StoreRefused):
        await store.write_together(
            [*checks, *(Check(Key("h!", place), Expect(absent=True)) for place in "xy")], "three"
        )


async def test_wrong_checks(store: Store) -> None:
    """A check is no write by itself, and shares its record with no other write of its transaction."""
    check = Check(KEY, Expect(absent=True))
    problems = await store.write([check, Put(record(OTHER))])  # type: ignore[list-item]
    assert isinstance(problems[0], StoreRefused)
    assert problems[1] is None
    for write in (Put(record(KEY)), Delete(KEY), Check(KEY, Expect(attributes={"a": 1}))):
        with pytest.raises(StoreRefused):
            await store.write_together([check, write], "token")
    for wrong in (Check(Key("", "r"), Expect()), Check(KEY, Expect(attributes={"a": 1.5}))):
        with pytest.raises(StoreRefused):
            await store.write_together([Put(record(("h!", "new"))), wrong], "token")
    assert list(await store.get_many([KEY, Key("h!", "new")], True)) == [None, None]


# --- tokens ----------------------------------------------------------------------------------------------------


@pytest.mark.needs("tokens")
async def test_same_token_same_effect(store: Store) -> None:
    """The same writes under the same token succeed again and change nothing, even if they would not hold any more."""
    writes = [Put(record(KEY, first=True), Expect(absent=True))]
    await store.write_together(writes, "token")
    await put(store, record(KEY, second=True))
    await store.write_together(writes, "token")
    assert list(await store.get_many([KEY], True)) == [record(KEY, second=True)]


@pytest.mark.needs("tokens")
async def test_same_token_other_writes(store: Store) -> None:
    """Other writes under a used token are refused: another record or value, another expectation, another kind."""
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
async def test_a_token_covers_what_is_expected(store: Store) -> None:
    """A deletion and a check with one expectation are not the same, nor are two expectations of one check."""
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
async def test_the_same_transaction_at_once(store: Store) -> None:
    """Of equal transactions under one token that arrive at once one takes effect, and all of them succeed."""
    for turn in range(5):
        key = Key("h!", f"{turn}")
        same = [store.write_together([Put(record(key), Expect(absent=True))], f"token{turn}") for _ in range(8)]
        assert await asyncio.gather(*same) == [None] * 8
    assert len((await page(store, reading(None, "h!"))).rows) == 5


@pytest.mark.needs("tokens", "reopen")
async def test_tokens_outlive_the_store(engine: Engine, store: Store, tmp_path: Path, clock: Clock) -> None:
    """Another opening of the store knows the token, at the same time and after the first one was closed."""
    sets = frozenset(f"{number}" for number in range(20))
    writes: list[TransactionWrite] = [
        Put(record(KEY, sets=sets), Expect(absent=True)),
        Check(OTHER, Expect(absent=True)),
    ]
    await store.write_together(writes, "token")
    other = await engine.open(tmp_path, clock)
    await put(other, record(KEY, changed=True), record(OTHER))
    await other.write_together(writes, "token")
    await store.close()
    await other.close()
    again = await engine.open(tmp_path, clock)
    await again.write_together(writes, "token")
    with pytest.raises(StoreRefused):
        await again.write_together(writes[:1], "token")
    assert list(await again.get_many([KEY, OTHER], True)) == [record(KEY, changed=True), record(OTHER)]
    await again.close()


@pytest.mark.needs("clock")
async def test_tokens_are_forgotten(store: Store, clock: Clock) -> None:
    """A token counts for ten minutes, and afterwards as one that was never used."""
    await store.write_together([Put(record(KEY, a=1))], "token")
    clock.now += 590
    with pytest.raises(StoreRefused):
        await store.write_together([Put(record(KEY, a=2))], "token")
    clock.now += 20
    await store.write_together([Put(record(KEY, a=2))], "token")
    assert list(await store.get_many([KEY], True)) == [record(KEY, a=2)]


async def test_a_hundred_together(store: Store) -> None:
    """A hundred writes are one transaction."""
    await store.write_together([Put(record(("h!", f"{place}"))) for place in range(100)], "token")
    assert len((await page(store, reading(None, "h!"))).rows) == 100
