"""What reads cost is added up for whoever asks, and for nobody else."""

import asyncio

import pytest

from graphql_api.runtime.capacity_meter import Bill, billed, itemised, present_bill
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
    assert present_bill() is None
    with itemised() as part:
        assert part is None
    with billed():
        pass
    assert present_bill() is None


def test_a_bill_within_a_bill() -> None:
    """What a part costs is on the whole bill too, and what comes after it on the whole one alone."""
    with billed() as whole:
        with itemised() as part:
            assert part is not None
            assert present_bill() is part
            part.add(1.5)
        assert present_bill() is whole
        whole.add(2.0, estimated=True)
    assert (part.units, part.estimated) == (1.5, False)
    assert (whole.units, whole.estimated) == (3.5, True)


def test_a_price_that_is_not_known() -> None:
    """Where an engine does not say what a read costs, nobody knows what all of them cost."""
    with billed() as whole:
        whole.add(1.0)
        with billed() as part:
            part.add(None)
        whole.add(1.0)
    assert whole.units is None


async def test_tasks_share_the_bill_of_their_request() -> None:
    """What tasks of a request read is on its bill, and not on that of another request at the same time."""

    async def request(reads: int) -> Bill:
        async def read() -> None:
            await asyncio.sleep(0)
            bill = present_bill()
            assert bill is not None
            bill.add(0.5)

        with billed() as bill:
            await asyncio.gather(*(read() for _ in range(reads)))
            return bill

    first, second = await asyncio.gather(request(3), request(8))
    assert (first.units, second.units) == (1.5, 4.0)
