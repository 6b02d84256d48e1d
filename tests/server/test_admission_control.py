"""Admission control in virtual time: the limit under different loads, the queue, and what is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest

from graphql_api.errors import Overloaded
from graphql_api.runtime import RequestTurn, collect_statistics
from graphql_api.server import admission_control
from graphql_api.server.admission_control import (
    FIRST_LIMIT,
    MAX_QUEUE,
    MAX_RETRY_SECONDS,
    AdmissionController,
)
from tests.support.virtual_time import VirtualTimeLoop, run_virtually, virtual_cpu_time, work

MEGABYTE = 1 << 20
STEP, STEPS = 0.0003, 10
"""CPU seconds of each step of an operation"""
PARSE, REFUSE = 0.00015, 0.00003
"""CPU seconds for reading a request, and for refusing it early"""
CAPACITY = 1 / (STEP * STEPS + PARSE)
"""operations for each CPU second"""
DEADLINE = 5.0


@pytest.fixture(autouse=True)
def cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU time is that of the virtual event loop."""
    monkeypatch.setattr(admission_control, "thread_time", virtual_cpu_time)


def controller(*, queue_seconds: float = 1.0, max_operations: int = 1000) -> AdmissionController:
    """A controller with the default limits."""
    return AdmissionController(max_operations, queue_seconds, MEGABYTE)


@dataclass
class Service:
    """A server whose operations use CPU in small steps, and wait for a store."""

    admission: AdmissionController
    store_seconds: float = 0.0
    connections: int = 1_000_000
    """of the store; each operation needs one"""
    succeeded: int = 0
    late: int = 0
    refused: int = 0
    arriving: int = 0
    most_in_flight: int = 0

    def __post_init__(self) -> None:
        self._random = Random(3)
        self._connections = asyncio.Semaphore(self.connections)

    async def serve(self, arrived: float) -> None:
        """Execute one operation, unless it is refused."""
        now = asyncio.get_running_loop().time
        if self.admission.is_full(self.arriving):
            work(REFUSE)
            self.admission.refuse()
            self.refused += 1
            return
        self.arriving += 1
        await asyncio.sleep(0)
        work(PARSE)
        self.arriving -= 1
        try:
            with collect_statistics():
                async with self.admission.admit(), asyncio.timeout(DEADLINE - (now() - arrived)):
                    self.most_in_flight = max(self.most_in_flight, self.admission.in_flight)
                    await self._execute()
        except Overloaded:
            self.refused += 1
        except TimeoutError:
            self.late += 1
        else:
            self.succeeded += now() - arrived <= DEADLINE
            self.late += now() - arrived > DEADLINE

    async def _execute(self) -> None:
        if self.store_seconds:
            with RequestTurn() as turn:
                async with self._connections:
                    turn.begin()
                    await asyncio.sleep(self.store_seconds * self._random.uniform(0.7, 1.3))
        for _ in range(STEPS):
            work(STEP)
            await asyncio.sleep(0)

    async def load(self, per_second: float, seconds: float) -> None:
        """Send operations at random times, whether or not earlier ones have ended."""
        loop, random = asyncio.get_running_loop(), Random(5)
        next_at = started = loop.time()
        tasks = set[asyncio.Task[None]]()
        while next_at < started + seconds:
            next_at += random.expovariate(per_second)
            if next_at > loop.time():
                await asyncio.sleep(next_at - loop.time())
            tasks.add(asyncio.ensure_future(self.serve(next_at)))
        await asyncio.gather(*tasks)


def cpu_seconds() -> float:
    """The CPU time that all operations have used."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop.worked


@pytest.mark.parametrize("store_seconds", [0.0, 0.03, 0.2, 1.0])
@pytest.mark.parametrize("load", [2, 4])
def test_goodput_under_overload(load: int, store_seconds: float) -> None:
    """At two and four times saturation, 90 % of the possible answers per CPU second arrive within the deadline.

    All other operations are refused, and the server stays busy.
    """

    async def run() -> None:
        service = Service(controller(), store_seconds)
        started = asyncio.get_running_loop().time()
        await service.load(load * CAPACITY, 12)
        assert service.late == 0
        assert service.refused > (load - 1.2) * service.succeeded
        assert service.succeeded / cpu_seconds() >= 0.9 * CAPACITY
        assert cpu_seconds() / (asyncio.get_running_loop().time() - started) > 0.5

    run_virtually(run())


@pytest.mark.parametrize("store_seconds", [0.0, 0.03, 0.2])
def test_no_refusals_without_overload(store_seconds: float) -> None:
    """At 60 % of saturation nothing is refused or late, also if that needs many operations at the same time."""

    async def run() -> None:
        service = Service(controller(), store_seconds)
        await service.load(0.6 * CAPACITY, 12)
        assert (service.refused, service.late) == (0, 0)
        if store_seconds == 0.2:
            assert service.most_in_flight > 2 * FIRST_LIMIT

    run_virtually(run())


def test_a_slow_store_raises_the_limit() -> None:
    """While the CPU has nothing to do, the limit grows with the number of operations that wait for the store."""

    async def run() -> None:
        service = Service(controller(), store_seconds=2.0)
        await service.load(100, 20)
        assert service.late == 0
        assert service.most_in_flight > 150

    run_virtually(run())


def test_waiting_for_connections_lowers_the_limit() -> None:
    """Operations that would only wait for the connections of the store are refused, not admitted."""

    async def run() -> None:
        service = Service(controller(), store_seconds=0.5, connections=20)
        await service.load(160, 20)
        assert service.late == 0
        assert service.most_in_flight <= 80
        assert service.succeeded > 0.7 * 20 * 20 / 0.5

    run_virtually(run())


def test_a_burst_waits() -> None:
    """A burst that the server can finish in the time of the queue is not refused."""

    async def run() -> None:
        service = Service(controller())
        now = asyncio.get_running_loop().time()
        await asyncio.gather(*(service.serve(now) for _ in range(FIRST_LIMIT + MAX_QUEUE)))
        assert (service.succeeded, service.refused) == (FIRST_LIMIT + MAX_QUEUE, 0)
        assert service.most_in_flight <= 4 * FIRST_LIMIT

    run_virtually(run())


# --- the queue -------------------------------------------------------------------------------------------------


@dataclass
class Holders:
    """Operations that hold their place until they are released."""

    admission: AdmissionController
    release: asyncio.Event = field(default_factory=asyncio.Event)
    admitted: list[int] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    async def hold(self, number: int) -> None:
        async with self.admission.admit() as waited:
            self.admitted.append(number)
            self.waited.append(waited)
            await self.release.wait()

    def start(self, count: int) -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(self.hold(number)) for number in range(count)]


@asynccontextmanager
async def holders(count: int, *, queue_seconds: float = 1.0) -> AsyncIterator[tuple[Holders, list[asyncio.Task[None]]]]:
    """Start operations with one place. At the end, all of them are released."""
    holding = Holders(controller(queue_seconds=queue_seconds, max_operations=1))
    tasks = holding.start(count)
    await asyncio.sleep(0)
    yield holding, tasks
    holding.release.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (holding.admission.in_flight, holding.admission.queued) == (0, 0)


def test_operations_wait_in_order() -> None:
    """Places are given in the order of arrival, with the time of waiting."""

    async def run() -> None:
        async with holders(3) as (holding, _):
            assert (holding.admitted, holding.admission.queued) == ([0], 2)
            await asyncio.sleep(0.5)
            holding.release.set()
        assert holding.admitted == [0, 1, 2]
        assert holding.waited == pytest.approx([0.0, 0.5, 0.5])

    run_virtually(run())


def test_waiting_has_a_limit() -> None:
    """An operation that has waited for the time of the queue is refused, with the time for a retry."""

    async def run() -> None:
        async with holders(2, queue_seconds=0.7) as (holding, (_, second)):
            await asyncio.sleep(0.69)
            assert not second.done()
            await asyncio.sleep(0.02)
            with pytest.raises(Overloaded) as refused:
                await second
            assert refused.value.retryable
            assert 1 <= (refused.value.retry_after or 0) <= MAX_RETRY_SECONDS
            assert holding.admission.queued == 0

    run_virtually(run())


def test_a_full_queue_refuses_at_once() -> None:
    """Beyond the queue an operation is refused at once; without a queue, beyond the limit."""

    async def run() -> None:
        async with holders(1 + MAX_QUEUE) as (holding, _):
            assert holding.admission.is_full()
            with pytest.raises(Overloaded):
                await holding.hold(-1)
        async with holders(1, queue_seconds=0) as (holding, _):
            with pytest.raises(Overloaded):
                await holding.hold(-1)

    run_virtually(run())


def test_requests_that_have_not_been_read_count() -> None:
    """Operations whose requests are being read take places of the queue."""

    async def run() -> None:
        admission = controller()
        assert not admission.is_full(FIRST_LIMIT + MAX_QUEUE - 1)
        assert admission.is_full(FIRST_LIMIT + MAX_QUEUE)

    run_virtually(run())


@pytest.mark.parametrize("admitted", [False, True], ids=["waiting", "just admitted"])
def test_a_cancelled_operation_leaves_its_place(admitted: bool) -> None:
    """A cancelled operation leaves the queue, also if it was given its place at the same time."""

    async def run() -> None:
        async with holders(3) as (holding, tasks):
            if admitted:
                tasks[0].cancel()
                await asyncio.sleep(0)
                assert holding.admission.in_flight == 1
            tasks[1].cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert holding.admitted == ([0, 2] if admitted else [0])
            assert holding.admission.queued == (0 if admitted else 1)

    run_virtually(run())


def test_failed_operations_leave_their_place() -> None:
    """An operation that raises an exception frees its place."""

    async def run() -> None:
        admission = controller(max_operations=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                async with admission.admit():
                    raise ZeroDivisionError
        assert admission.in_flight == 0

    run_virtually(run())


def test_retries_are_spread_with_the_load() -> None:
    """The more operations are refused, the later they are to be tried again, at different times."""

    async def run() -> tuple[set[int], set[int]]:
        admission = controller()
        idle = {admission.refuse() for _ in range(200)}
        service = Service(admission)
        await service.load(6 * CAPACITY, 5)
        return idle, {admission.refuse() for _ in range(200)}

    idle, loaded = run_virtually(run())
    assert idle == {1, 2}
    assert len(loaded) >= 4
    assert 4 <= min(loaded) < max(loaded) <= MAX_RETRY_SECONDS


def test_nothing_is_measured_without_operations() -> None:
    """After the last operation, no timer remains."""

    async def run() -> int:
        async with controller().admit():
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        return len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]

    assert run_virtually(run()) == 0
