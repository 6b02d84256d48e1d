"""The capacity units of reads are added to the meter of their request, and to no other."""

import asyncio

import pytest

from graphql_api.runtime.request_statistics import CapacityMeter, current_meter, meter_capacity, meter_part
from graphql_api.storage.capacity_units import read_units


@pytest.mark.parametrize(
    ("size", "consistent", "units"),
    [(0, False, 0.5), (1, False, 0.5), (4096, False, 0.5), (4097, False, 1.0), (4096, True, 1.0), (8193, True, 3.0)],
)
def test_read_units(size: int, consistent: bool, units: float) -> None:
    """A read costs half a unit for each 4 KB or part of it, and twice as much if it is consistent."""
    assert read_units(size, consistent=consistent) == units


def test_without_a_meter_nothing_is_metered() -> None:
    """Without an active meter there is no current meter, and no part of one."""
    assert current_meter() is None
    with meter_part() as part:
        assert part is None
    with meter_capacity():
        pass
    assert current_meter() is None


def test_nested_meters_add_up() -> None:
    """Units of a part are also added to the whole; later units are added to the whole only."""
    with meter_capacity() as whole:
        with meter_part() as part:
            assert part is not None
            assert current_meter() is part
            part.add(1.5)
        assert current_meter() is whole
        whole.add(2.0, estimated=True)
    assert (part.units, part.estimated) == (1.5, False)
    assert (whole.units, whole.estimated) == (3.5, True)


def test_an_unknown_cost_makes_the_total_unknown() -> None:
    """If an engine does not report the cost of a read, the total is unknown."""
    with meter_capacity() as whole:
        whole.add(1.0)
        with meter_capacity() as part:
            part.add(None)
        whole.add(1.0)
    assert whole.units is None


async def test_tasks_share_the_meter_of_their_request() -> None:
    """Reads of concurrent tasks are added to the meter of their own request only."""

    async def request(reads: int) -> CapacityMeter:
        async def read() -> None:
            await asyncio.sleep(0)
            meter = current_meter()
            assert meter is not None
            meter.add(0.5)

        with meter_capacity() as meter:
            await asyncio.gather(*(read() for _ in range(reads)))
            return meter

    first, second = await asyncio.gather(request(3), request(8))
    assert (first.units, second.units) == (1.5, 4.0)
