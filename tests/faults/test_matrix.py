"""Every fault, on the first page and on a later one, under both policies: the right answer, or an honest error."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from graphql_api.errors import StoreError
from graphql_api.model.markers import IndexRef
from graphql_api.query.execution.result_page import Page
from graphql_api.storage.engines.dynamodb import DynamoSettings
from tests.depth import depth
from tests.faults.conftest import Behind
from tests.faults.proxy import no_fault
from tests.faults.requests import Request
from tests.faults.rules import always, first_try, now_and_then, of_shard
from tests.faults.troubles import CALM, HARMFUL, HARMLESS, HASTY, LOUD, SILENT, settings_for
from tests.faults.world import LIMIT, SHARDS, Policy, Thing, Walk, answer, shard_of

POLICIES: list[Policy] = ["FAIL", "PARTIAL"]
MAX_SECONDS = 5 * HASTY.deadline
"""until an error, on a slow machine too; calls are counted strictly"""
FAILING = "07"

WAYS = {"place": Thing.by_place, "word, which ties": Thing.by_word}


def _cells(*, both: bool) -> pytest.MarkDecorator:
    """Every fault on each index; what takes a second to notice, and what differs little, is left to the deep run."""
    return pytest.mark.parametrize(
        ("name", "index"),
        [
            pytest.param(name, index, id=f"{name} by {way}", marks=[pytest.mark.deep] if is_rare else [])
            for way, index in WAYS.items()
            for name in HARMFUL
            for is_rare in [name == "long delay" or (index == Thing.by_word and (name in SILENT or not both))]
        ],
    )


both_indexes = pytest.mark.parametrize("index", [*WAYS.values()], ids=[*WAYS])
both_policies = pytest.mark.parametrize("policy", POLICIES)
first_and_later = pytest.mark.parametrize("pages_before", [0, 1], ids=["first page", "later page"])


def _twice(requests: list[Request]) -> list[str]:
    """Requests that came more than once, each as often as it came again."""
    bodies = sorted(repr(request.body) for request in requests if request.operation == "Query")
    return [one for one, next_one in pairwise(bodies) if one == next_one]


async def _walk(
    behind: Behind, settings: DynamoSettings, index: IndexRef, policy: Policy, pages: int, *, reverse: bool = False
) -> Walk:
    """A walk that has come so far without trouble, and goes on with these settings."""
    walk = Walk(await behind.database(CALM), index, policy, reverse=reverse)
    for _ in range(pages):
        await walk.step()
    if settings != CALM:
        walk.db = await behind.database(settings)
    behind.proxy.forget()
    return walk


@_cells(both=False)
@first_and_later
@both_policies
async def test_a_fault_that_passes_is_not_seen(
    behind: Behind, name: str, policy: Policy, pages_before: int, index: IndexRef
) -> None:
    """Three shards fail once, and cost one call more each; the page is whole, and the walk is the oracle's."""
    proxy = behind.proxy
    walk = await _walk(behind, settings_for(name, lasting=False), index, policy, pages_before)
    proxy.rule = first_try(HARMFUL[name], of_shard("02", "07", "0c"))
    page = await walk.step()
    assert (page.complete, page.shards.failed, page.stopped_by) == (True, (), None)
    assert len(page.items) == LIMIT
    assert len(proxy.spoiled) >= 3
    again = len(_twice(proxy.requests))
    # A machine that is busy for half a second is another fault of this kind.
    assert again == len(proxy.spoiled) or (name in SILENT and again > len(proxy.spoiled))
    proxy.rule = no_fault
    await walk.on()
    assert walk.errors == []
    walk.check()


@both_indexes
@first_and_later
@both_policies
@pytest.mark.parametrize("name", [*HARMLESS])
async def test_what_does_no_harm_is_not_taken_for_a_fault(
    behind: Behind, name: str, policy: Policy, pages_before: int, index: IndexRef
) -> None:
    """Late and doubled answers cost no call more, and the walk is the oracle's."""
    proxy = behind.proxy
    walk = await _walk(behind, CALM, index, policy, pages_before, reverse=True)
    proxy.rule = always(HARMLESS[name])
    for _ in range(3):
        proxy.forget()
        page = await walk.step()
        assert page.complete
        assert len(proxy.spoiled) >= SHARDS
        assert _twice(proxy.requests) == []
    await walk.on()
    assert walk.errors == []
    walk.check()


@_cells(both=True)
@first_and_later
async def test_under_fail_a_lasting_fault_is_a_typed_error_in_time(
    behind: Behind, name: str, pages_before: int, index: IndexRef
) -> None:
    """The error names the shard and may be retried; the same token goes on as soon as the fault is gone."""
    proxy, settings = behind.proxy, settings_for(name)
    walk = await _walk(behind, settings, index, "FAIL", pages_before)
    proxy.rule = always(HARMFUL[name], of_shard(FAILING))
    error = await _error_in_time(walk)
    assert error.retryable
    assert FAILING in str(error.shard)
    assert 1 <= len(proxy.spoiled) <= settings.attempts
    proxy.rule = no_fault
    await walk.on()
    walk.check()


@_cells(both=False)
@first_and_later
@both_policies
async def test_when_all_shards_fail_it_is_an_error_under_both_policies(
    behind: Behind, name: str, policy: Policy, pages_before: int, index: IndexRef
) -> None:
    """No page is made of nothing, the calls are bounded, and the token stays good."""
    proxy, settings = behind.proxy, settings_for(name)
    walk = await _walk(behind, settings, index, policy, pages_before)
    proxy.rule = always(HARMFUL[name])
    error = await _error_in_time(walk)
    assert error.retryable
    assert max(proxy.calls().values()) <= settings.attempts
    proxy.rule = no_fault
    await walk.on()
    walk.check()


async def _error_in_time(walk: Walk) -> StoreError:
    now = asyncio.get_running_loop().time
    began = now()
    with pytest.raises(StoreError) as found:
        await walk.step()
    assert now() - began < MAX_SECONDS
    return found.value


@_cells(both=True)
@first_and_later
async def test_under_partial_a_failed_shard_comes_on_later_pages(
    behind: Behind, name: str, pages_before: int, index: IndexRef
) -> None:
    """Pages of the others go on in order and say who is missing; what the failed shard has comes when it is back."""
    proxy, settings = behind.proxy, settings_for(name)
    walk = await _walk(behind, settings, index, "PARTIAL", pages_before)
    seen = {thing.key for thing in walk.found}
    others = [thing for thing in answer(index, without=[FAILING]) if thing.key not in seen]
    proxy.rule = always(HARMFUL[name], of_shard(FAILING))
    for number in range(3):
        page = await _page_without_one_shard(behind, walk, name)
        assert not page.complete
        assert [failed.shard for failed in page.shards.failed] == [f"thing!{FAILING}"]
        assert all(failed.retryable for failed in page.shards.failed)
        assert page.shards.answered == page.shards.expected - 1
        assert page.stopped_by is None
        assert _sorted_by(index, page.items) == _sorted_by(index, others[number * LIMIT : (number + 1) * LIMIT])
        assert not [thing for thing in page.items if shard_of(thing) == FAILING]
        assert len(proxy.spoiled) <= settings.attempts
    proxy.rule = no_fault
    await walk.on()
    walk.check()
    assert walk.pages[-1].complete


async def _page_without_one_shard(behind: Behind, walk: Walk, name: str) -> Page[Thing]:
    """The next page, asked for again by the same token where the machine itself was silent for too long meanwhile."""
    token = walk.token
    for _ in range(3 if name in SILENT else 0):
        behind.proxy.forget()
        page = await walk.step()
        if len(page.shards.failed) == 1:
            return page
        walk.pages.pop()
        walk.token = token
    behind.proxy.forget()
    return await walk.step()


def _sorted_by(index: IndexRef, things: Sequence[Thing]) -> list[object]:
    """What is certain of some records of an answer: those that tie come in an order of the engine's own."""
    return [getattr(thing, index.attribute.removeprefix("by_")) for thing in things]


@both_indexes
async def test_under_partial_what_the_others_have_comes_first_and_the_rest_is_not_dropped(
    behind: Behind, index: IndexRef
) -> None:
    """With one shard silent the others come to their end, then it is an error, and the last token gets the rest."""
    proxy = behind.proxy
    walk = await _walk(behind, CALM, index, "PARTIAL", 0, reverse=True)
    proxy.rule = always(HARMFUL["reset"], of_shard(FAILING))
    others = {thing.key for thing in answer(index, without=[FAILING])}
    assert len(others) % LIMIT
    for _ in range(len(others) // LIMIT + 1):
        page = await walk.step()
        assert not page.complete
    assert walk.pages[-1].stopped_by == "SHARDS"
    assert {thing.key for thing in walk.found} == others
    with pytest.raises(StoreError):
        await walk.step()
    proxy.rule = no_fault
    await walk.on()
    walk.check()


@both_policies
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("seed", range(depth(3, 30)))
async def test_a_walk_through_a_storm_arrives(behind: Behind, policy: Policy, seed: int, attempts: int) -> None:
    """One read in twelve meets one fault or another, in every round of every page, and nothing is lost or doubled."""
    random = Random(seed)
    index = [*WAYS.values()][seed % 2]
    db = await behind.database(replace(CALM, attempts=attempts))
    walk = Walk(db, index, policy, reverse=random.random() < 0.5)
    behind.proxy.rule = now_and_then(0.08, random, *LOUD.values(), *HARMLESS.values())
    await walk.on(random.choice([7, 12, 20]), patience=60)
    assert behind.proxy.spoiled
    if attempts == 1:
        # Without a second attempt nearly every page meets a failure, and the walk has to show it.
        assert walk.errors if policy == "FAIL" else not all(page.complete for page in walk.pages)
    walk.check()
