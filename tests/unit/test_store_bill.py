"""What reads cost is added up for whoever asks, and for nobody else."""

import asyncio

import pytest

from graphql_api.runtime.capacity_meter import CapacityMeter, meter_capacity, meter_part, current_meter
from graphql_api.storage.item_sizes import read_units


@pytest.mark.parametrize(
    ("size", "consistent", "units"),
    [(0, False, 0.5), (1, False, 0.5), (4096, False, 0.5), (4097, False, 1.0), (4096, True, 1.0), (8193, True, 3.0)],
)
def test_read_units(size: int, consistent: bool, units: float) -> None:
    """Each 4 KB that a read begins costs half a unit, a whole one if it is consistent; none is for nothing."""
    assert read_units(size, consistent=consistent) == units


def test_no_bill() -> None:
    """Without a bill there is none to put reads on, and no part of one."""
    assert current_meter() is None
    with meter_part() as part:
        assert part is None
    with meter_capacity():
        pass
    assert current_meter() is None


def test_a_bill_within_a_bill() -> None:
    """What a part costs is on the whole bill too, and what comes after it on the whole one alone."""
    with meter_capacity() as whole:
        with meter_part() as part:
            assert part is not None
            assert current_meter() is part
            part.add(1.5)
        assert current_meter() is whole
        whole.add(2.0, estimated=True)
    assert (part.units, part.estimated) == (1.5, False)
    assert (whole.units, whole.estimated) == (3.5, True)


def test_a_price_that_is_not_known() -> None:
    """Where an engine does not say what a read costs, nobody knows what all of them cost."""
    with meter_capacity() as whole:
        whole.add(1.0)
        with meter_capacity() as part:
            part.add(None)
        whole.add(1.0)
    assert whole.units is None


async def test_tasks_share_the_bill_of_their_request() -> None:
    """What tasks of a request read is on its bill, and not on that of another request at the same time."""

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
