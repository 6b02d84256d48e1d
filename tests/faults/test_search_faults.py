"""Every fault on the first and on a later page, under both policies: the result is correct, or an error is reported."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import TypeVar

import pytest

from graphql_api.errors import StoreError
from graphql_api.model.markers import IndexRef
from graphql_api.query.execution.result_page import Page
from graphql_api.storage.engines.dynamodb import DynamoSettings
from tests.faults.conftest import ProxiedStores
from tests.faults.dynamodb_requests import Request
from tests.faults.fault_proxy import no_fault
from tests.faults.fault_rules import always, first_attempts, random_faults, reads_shard
from tests.faults.fault_settings import (
    HARMFUL_FAULTS,
    HARMLESS_FAULTS,
    IMMEDIATE_FAULTS,
    LONG_TIMEOUTS,
    SHORT_TIMEOUTS,
    UNANSWERED_FAULTS,
    more_patient,
    settings_for,
)
from tests.faults.proxied_catalog import LIMIT, SHARDS, Policy, Thing, Traversal, expected_things, shard_of
from tests.support.run_depth import depth

T = TypeVar("T")

POLICIES: list[Policy] = ["FAIL", "PARTIAL"]
MAX_SECONDS = 5 * SHORT_TIMEOUTS.deadline
"""until an error, also on a slow machine"""
MAX_RECOVERY_SECONDS = 60.0
"""until the rest of a search is read with short timeouts, also on a slow machine"""
FAILING_SHARD = "07"

INDEXES = {"place": Thing.by_place, "word, which ties": Thing.by_word}


def all_faults(*, both: bool) -> pytest.MarkDecorator:
    """Every fault on each index. Slow and similar combinations run in deep runs only."""
    return pytest.mark.parametrize(
        ("name", "index"),
        [
            pytest.param(name, index, id=f"{name} by {index_name}", marks=[pytest.mark.deep] if is_rare else [])
            for index_name, index in INDEXES.items()
            for name in HARMFUL_FAULTS
            for is_rare in [
                name == "long delay" or (index == Thing.by_word and (name in UNANSWERED_FAULTS or not both))
            ]
        ],
    )


both_indexes = pytest.mark.parametrize("index", [*INDEXES.values()], ids=[*INDEXES])
both_policies = pytest.mark.parametrize("policy", POLICIES)
on_first_and_later_page = pytest.mark.parametrize("pages_before", [0, 1], ids=["first page", "later page"])


def _repeated_requests(requests: list[Request]) -> list[str]:
    """Return the repeated queries, each as often as it was repeated."""
    bodies = sorted(repr(request.body) for request in requests if request.operation == "Query")
    return [one for one, next_one in pairwise(bodies) if one == next_one]


async def _start_traversal(
    proxied: ProxiedStores,
    settings: DynamoSettings,
    index: IndexRef,
    policy: Policy,
    pages: int,
    *,
    reverse: bool = False,
) -> Traversal:
    """Read some pages without faults, then switch to a store with these settings."""
    traversal = Traversal(await proxied.open_database(LONG_TIMEOUTS), index, policy, reverse=reverse)
    for _ in range(pages):
        await traversal.read_page()
    if settings != LONG_TIMEOUTS:
        traversal.db = await proxied.open_database(settings)
    proxied.proxy.reset_counts()
    return traversal


@all_faults(both=False)
@on_first_and_later_page
@both_policies
async def test_passing_faults_are_retried(
    proxied: ProxiedStores, name: str, policy: Policy, pages_before: int, index: IndexRef
) -> None:
    """If three shards fail once each, one retry each completes the page, and the search returns every record."""
    proxy = proxied.proxy
    traversal = await _start_traversal(proxied, settings_for(name, lasting=False), index, policy, pages_before)
    proxy.rule = first_attempts(HARMFUL_FAULTS[name], reads_shard("02", "07", "0c"))
    page = await traversal.read_page()
    assert (page.complete, page.shards.failed, page.stopped_by) == (True, (), None)
    assert len(page.items) == LIMIT
    assert len(proxy.faulted) >= 3
    repeated = len(_repeated_requests(proxy.requests))
    # A busy machine may cause further timeouts.
    assert repeated == len(proxy.faulted) or (name in UNANSWERED_FAULTS and repeated > len(proxy.faulted))
    proxy.rule = no_fault
    await traversal.read_rest(max_seconds=MAX_RECOVERY_SECONDS)
    assert traversal.errors == []
    traversal.verify()


@both_indexes
@on_first_and_later_page
@both_policies
@pytest.mark.parametrize("name", [*HARMLESS_FAULTS])
async def test_harmless_faults_cause_no_retries(
    proxied: ProxiedStores, name: str, policy: Policy, pages_before: int, index: IndexRef
) -> None:
    """Delayed and duplicated responses cost no extra call, and the search returns every record."""
    proxy = proxied.proxy
    traversal = await _start_traversal(proxied, LONG_TIMEOUTS, index, policy, pages_before, reverse=True)
    proxy.rule = always(HARMLESS_FAULTS[name])
    for _ in range(3):
        proxy.reset_counts()
        page = await traversal.read_page()
        assert page.complete
        assert len(proxy.faulted) >= SHARDS
        assert _repeated_requests(proxy.requests) == []
    await traversal.read_rest()
    assert traversal.errors == []
    traversal.verify()


@all_faults(both=True)
@on_first_and_later_page
async def test_lasting_faults_fail_the_search_under_fail(
    proxied: ProxiedStores, name: str, pages_before: int, index: IndexRef
) -> None:
    """Under FAIL, the error names the shard and is retryable. The same token continues once the fault is gone."""
    proxy, settings = proxied.proxy, settings_for(name)
    traversal = await _start_traversal(proxied, settings, index, "FAIL", pages_before)
    proxy.rule = always(HARMFUL_FAULTS[name], reads_shard(FAILING_SHARD))
    error = await _read_until_undisturbed(
        proxied,
        traversal,
        settings,
        lambda used: _read_error(traversal, MAX_SECONDS * used.deadline / settings.deadline),
        lambda error: FAILING_SHARD in str(error.shard),
    )
    assert error.retryable
    assert FAILING_SHARD in str(error.shard)
    assert 1 <= len(proxy.faulted) <= settings.attempts
    proxy.rule = no_fault
    await traversal.read_rest(max_seconds=MAX_RECOVERY_SECONDS)
    traversal.verify()


@all_faults(both=False)
@on_first_and_later_page
@both_policies
async def test_a_fault_of_all_shards_is_an_error_under_both_policies(
    proxied: ProxiedStores, name: str, policy: Policy, pages_before: int, index: IndexRef
) -> None:
    """If all shards fail, the search fails after a limited number of calls, and its token stays valid."""
    proxy, settings = proxied.proxy, settings_for(name)
    traversal = await _start_traversal(proxied, settings, index, policy, pages_before)
    proxy.rule = always(HARMFUL_FAULTS[name])
    error = await _read_error(traversal)
    assert error.retryable
    assert max(proxy.calls_by_hash_key().values()) <= settings.attempts
    proxy.rule = no_fault
    await traversal.read_rest(max_seconds=MAX_RECOVERY_SECONDS)
    traversal.verify()


async def _read_error(traversal: Traversal, max_seconds: float = MAX_SECONDS) -> StoreError:
    now = asyncio.get_running_loop().time
    started = now()
    with pytest.raises(StoreError) as found:
        await traversal.read_page()
    assert now() - started < max_seconds
    return found.value


@all_faults(both=True)
@on_first_and_later_page
async def test_records_of_a_failed_shard_follow_on_later_pages(
    proxied: ProxiedStores, name: str, pages_before: int, index: IndexRef
) -> None:
    """Under PARTIAL, pages name the failed shard, and its records follow once it responds again."""
    proxy, settings = proxied.proxy, settings_for(name)
    traversal = await _start_traversal(proxied, settings, index, "PARTIAL", pages_before)
    seen = {thing.key for thing in traversal.results}
    others = [thing for thing in expected_things(index, without=[FAILING_SHARD]) if thing.key not in seen]
    proxy.rule = always(HARMFUL_FAULTS[name], reads_shard(FAILING_SHARD))
    for number in range(3):
        page = await _read_until_undisturbed(
            proxied,
            traversal,
            settings,
            lambda _: _read_page_or_error(traversal),
            lambda page: not isinstance(page, StoreError) and len(page.shards.failed) == 1,
        )
        assert not isinstance(page, StoreError)
        assert not page.complete
        assert [failed.shard for failed in page.shards.failed] == [f"thing!{FAILING_SHARD}"]
        assert all(failed.retryable for failed in page.shards.failed)
        assert page.shards.answered == page.shards.expected - 1
        assert page.stopped_by is None
        assert _sort_values(index, page.items) == _sort_values(index, others[number * LIMIT : (number + 1) * LIMIT])
        assert not [thing for thing in page.items if shard_of(thing) == FAILING_SHARD]
        assert len(proxy.faulted) <= settings.attempts
    proxy.rule = no_fault
    await traversal.read_rest(max_seconds=MAX_RECOVERY_SECONDS)
    traversal.verify()
    assert traversal.pages[-1].complete


async def _read_page_or_error(traversal: Traversal) -> Page[Thing] | StoreError:
    try:
        return await traversal.read_page()
    except StoreError as error:
        return error


async def _read_until_undisturbed(
    proxied: ProxiedStores,
    traversal: Traversal,
    settings: DynamoSettings,
    read: Callable[[DynamoSettings], Awaitable[T]],
    is_undisturbed: Callable[[T], bool],
) -> T:
    """Return the result of a read.

    If a busy machine caused timeouts of healthy shards, repeat the read with the same token and longer timeouts. With
    the longest ones, every result is returned.
    """
    token, pages = traversal.token, len(traversal.pages)
    while True:
        proxied.proxy.reset_counts()
        result = await read(settings)
        if is_undisturbed(result) or settings.read_seconds > LONG_TIMEOUTS.read_seconds / 4:
            return result
        settings = more_patient(settings)
        traversal.token, traversal.pages[pages:] = token, []
        traversal.db = await proxied.open_database(settings)


def _sort_values(index: IndexRef, things: Sequence[Thing]) -> list[object]:
    """Return the sort values of some records. The order of tied records is engine-specific."""
    return [getattr(thing, index.attribute.removeprefix("by_")) for thing in things]


@both_indexes
async def test_partial_pages_end_with_an_error_until_the_failed_shard_recovers(
    proxied: ProxiedStores, index: IndexRef
) -> None:
    """Under PARTIAL, all other shards are read first. Then the search fails, and its last token continues later."""
    proxy = proxied.proxy
    traversal = await _start_traversal(proxied, LONG_TIMEOUTS, index, "PARTIAL", 0, reverse=True)
    proxy.rule = always(HARMFUL_FAULTS["reset"], reads_shard(FAILING_SHARD))
    others = {thing.key for thing in expected_things(index, without=[FAILING_SHARD])}
    assert len(others) % LIMIT
    for _ in range(len(others) // LIMIT + 1):
        page = await traversal.read_page()
        assert not page.complete
    assert traversal.pages[-1].stopped_by == "SHARDS"
    assert {thing.key for thing in traversal.results} == others
    with pytest.raises(StoreError):
        await traversal.read_page()
    proxy.rule = no_fault
    await traversal.read_rest(max_seconds=MAX_RECOVERY_SECONDS)
    traversal.verify()


@both_policies
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("seed", range(depth(3, 30)))
async def test_random_faults_lose_no_records(proxied: ProxiedStores, policy: Policy, seed: int, attempts: int) -> None:
    """With random faults in 8 % of all reads, a search returns every record exactly once."""
    random = Random(seed)
    index = [*INDEXES.values()][seed % 2]
    db = await proxied.open_database(replace(LONG_TIMEOUTS, attempts=attempts))
    traversal = Traversal(db, index, policy, reverse=random.random() < 0.5)
    proxied.proxy.rule = random_faults(0.08, random, *IMMEDIATE_FAULTS.values(), *HARMLESS_FAULTS.values())
    await traversal.read_rest(random.choice([7, 12, 20]), max_seconds=60)
    assert proxied.proxy.faulted
    if attempts == 1:
        # Without retries nearly every page has a failure, which the pages or errors must show.
        assert traversal.errors if policy == "FAIL" else not all(page.complete for page in traversal.pages)
    traversal.verify()
