"""The memory budget: which operations wait for memory, in which order, and when they run alone."""

import asyncio
from dataclasses import dataclass, field

import pytest

from graphql_api.runtime import MemoryBudget, current_memory
from tests.support.virtual_time import run_virtually


class Refused(Exception):
    """The error of an operation that has waited too long."""


@dataclass
class Operations:
    """Operations that each reserve memory and hold it for a second."""

    budget: MemoryBudget = field(default_factory=lambda: MemoryBudget(100, 10.0, Refused))
    started: list[int] = field(default_factory=list)
    peak: int = 0

    async def run(self, size: int, seconds: float = 1.0) -> None:
        with self.budget.operation():
            memory = current_memory()
            assert memory is not None
            await memory.reserve(size)
            self.started.append(size)
            self.peak = max(self.peak, self.budget.used)
            await asyncio.sleep(seconds)


def test_operations_share_the_budget() -> None:
    """Operations run at the same time while they fit into the budget; the others wait in the order of arrival."""

    async def run() -> None:
        operations = Operations()
        sizes = [60, 50, 30, 40, 10]
        now = asyncio.get_running_loop().time
        started = now()
        await asyncio.gather(*map(operations.run, sizes))
        assert operations.started == sizes
        assert operations.peak <= 100
        assert operations.budget.used == 0
        assert now() - started == pytest.approx(3)  # 60; then 50, 30; then 40, 10

    run_virtually(run())


def test_a_larger_operation_runs_alone() -> None:
    """An operation that needs more than the budget waits until it is alone, and later ones wait for it."""

    async def run() -> None:
        operations = Operations()
        now = asyncio.get_running_loop().time
        started = now()
        await asyncio.gather(*map(operations.run, [60, 500, 10, 10]))
        assert operations.started == [60, 500, 10, 10]
        assert operations.peak == 500
        assert now() - started == pytest.approx(3)

    run_virtually(run())


def test_waiting_has_a_limit() -> None:
    """An operation that has waited too long is refused, and does not delay the next one."""

    async def run() -> None:
        operations = Operations(MemoryBudget(100, 0.5, Refused))
        first, second = (asyncio.ensure_future(operations.run(size)) for size in (60, 50))
        await asyncio.sleep(0.2)
        third = asyncio.ensure_future(operations.run(30))
        await asyncio.sleep(0.31)
        assert operations.started == [60, 30]
        with pytest.raises(Refused):
            await second
        await asyncio.gather(first, third)
        assert operations.budget.used == 0

    run_virtually(run())


def test_a_cancelled_operation_takes_no_memory() -> None:
    """An operation that is cancelled while it waits, or just after, leaves its memory to the others."""

    async def run() -> None:
        operations = Operations()
        first, second, third = (asyncio.ensure_future(operations.run(size)) for size in (60, 90, 30))
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.sleep(0.01)
        assert operations.started == [60, 30]
        first.cancel()
        fourth = asyncio.ensure_future(operations.run(80))
        await asyncio.sleep(0)
        fourth.cancel()
        await asyncio.gather(first, second, third, fourth, return_exceptions=True)
        assert operations.budget.used == 0

    run_virtually(run())


def test_further_reads_never_wait() -> None:
    """Operations that hold memory do not wait for each other. What they hold counts for new operations."""

    async def run() -> None:
        budget = MemoryBudget(100, 10.0, Refused)

        async def read_twice() -> None:
            with budget.operation() as memory:
                await memory.reserve(50)
                await asyncio.sleep(1)
                await memory.reserve(50)
                await asyncio.sleep(1)

        operations = Operations(budget)
        now = asyncio.get_running_loop().time
        started = now()
        reading = asyncio.gather(read_twice(), read_twice())
        await asyncio.sleep(0)
        await operations.run(10)
        assert now() - started == pytest.approx(3)
        await reading

    run_virtually(run())


def test_a_mutation_does_not_wait() -> None:
    """An operation that may have written something takes memory without waiting."""

    async def run() -> None:
        budget = MemoryBudget(100, 0.5, Refused)
        with budget.operation() as other:
            await other.reserve(100)
            with budget.operation() as mutation:
                mutation.may_wait = False
                await mutation.reserve(40)
                assert budget.used == 140
            assert budget.used == 100

    run_virtually(run())


def test_a_reservation_is_adjusted() -> None:
    """When the size of the replies is known, the rest of a reservation is free for others."""

    async def run() -> None:
        operations = Operations()
        with operations.budget.operation() as memory:
            await memory.reserve(90)
            waiting = asyncio.ensure_future(operations.run(50))
            await asyncio.sleep(0)
            assert operations.started == []
            memory.adjust(-70)
            await asyncio.sleep(0)
            assert operations.started == [50]
        await waiting
        assert operations.budget.used == 0

    run_virtually(run())


def test_nothing_is_bounded_outside_of_an_operation() -> None:
    """Outside of an operation there is no memory to reserve."""
    assert current_memory() is None
