"""The retry budget: failed retries are a share of all requests above a floor, and successful retries are free."""

import asyncio

from graphql_api.runtime import RetryBudget
from tests.support.virtual_time import run_virtually


async def budget_with(*, share: float = 0.1, floor: float = 10) -> RetryBudget:
    """A budget that uses the time of the event loop."""
    return RetryBudget(share, floor, asyncio.get_running_loop().time)


async def withdrawn(budget: RetryBudget, requested: int, *, seconds: float = 0.0) -> int:
    """The number of retries that a budget grants within this time."""
    deadline = asyncio.get_running_loop().time() + seconds
    return sum(await asyncio.gather(*(budget.withdraw(deadline) for _ in range(requested))))


def test_a_new_budget_allows_its_floor() -> None:
    """A new retry budget allows ten retries."""

    async def run() -> int:
        return await withdrawn(await budget_with(), 11)

    assert run_virtually(run()) == 10


def test_the_budget_is_a_share_of_requests() -> None:
    """Beyond the floor, ten requests allow one retry."""

    async def run() -> int:
        budget = await budget_with()
        await withdrawn(budget, 10)
        for _ in range(101):
            budget.deposit()
        return await withdrawn(budget, 50)

    assert run_virtually(run()) == 10


def test_the_budget_refills_to_its_floor() -> None:
    """Each second adds ten retries, up to ten in total without requests."""

    async def run() -> list[int]:
        budget = await budget_with()
        await withdrawn(budget, 10)
        await asyncio.sleep(0.35)
        after_a_moment = await withdrawn(budget, 10)
        await asyncio.sleep(60)
        return [after_a_moment, await withdrawn(budget, 50)]

    assert run_virtually(run()) == [3, 10]


def test_the_budget_has_a_maximum() -> None:
    """A million successful requests save at most 100 retries, in addition to the floor."""

    async def run() -> int:
        budget = await budget_with()
        for _ in range(1_000_000):
            budget.deposit()
        return await withdrawn(budget, 1_000)

    assert run_virtually(run()) == 110


def test_the_floor_covers_the_fan_out() -> None:
    """While an operation of 150 requests is in progress, each of them may be retried once at the same time."""

    async def run() -> list[int]:
        budget = await budget_with()
        with budget.operation(16), budget.operation(150):
            wide = await withdrawn(budget, 200)
        await asyncio.sleep(1)
        return [wide, await withdrawn(budget, 200)]

    assert run_virtually(run()) == [150, 10]


def test_a_wide_operation_does_not_starve_others() -> None:
    """After a wide operation has used its floor, a narrow one waits a tenth of a second for its first retry."""

    async def run() -> float:
        budget = await budget_with()
        with budget.operation(150):
            await withdrawn(budget, 200)
        started = asyncio.get_running_loop().time()
        assert await budget.withdraw()
        return asyncio.get_running_loop().time() - started

    assert round(run_virtually(run()), 3) == 0.1


def test_a_withdrawal_waits_for_the_budget() -> None:
    """Retries beyond the budget wait in order, ten a second, until their deadline. Then they are refused."""

    async def run() -> list[int]:
        budget = await budget_with()
        return [await withdrawn(budget, 100, seconds=2.05), await withdrawn(budget, 5)]

    assert run_virtually(run()) == [30, 0]


def test_successful_retries_are_free() -> None:
    """Retries that succeed return their token: a thousand pass through a budget of ten, without waiting for time."""

    async def run() -> float:
        budget = await budget_with(share=0.0)
        started = asyncio.get_running_loop().time()

        async def retry() -> None:
            assert await budget.withdraw()
            await asyncio.sleep(0.001)
            budget.refund()

        await asyncio.gather(*(retry() for _ in range(1_000)))
        return asyncio.get_running_loop().time() - started

    assert run_virtually(run()) < 0.2


def test_a_cancelled_waiter_leaves_the_queue() -> None:
    """A cancelled wait takes no token, and does not delay the waiters after it."""

    async def run() -> list[object]:
        budget = await budget_with(floor=1)
        assert await budget.withdraw()
        waiting = [asyncio.ensure_future(budget.withdraw()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(1.01)
        return [one.done() and not one.cancelled() for one in waiting]

    assert run_virtually(run()) == [False, True, False]
