"""The capacity ceiling of a request: what is reserved and what is charged together never exceed it."""

from graphql_api.runtime.capacity_ceiling import CapacityCeiling, current_reservation
from graphql_api.runtime.request_statistics import CapacityMeter


def test_reservations_count_until_they_are_settled() -> None:
    """A reservation takes its units; settled, only the charge is taken."""
    ceiling = CapacityCeiling(10)
    first = ceiling.reserve(7)
    assert first is not None
    assert ceiling.left == 3
    assert ceiling.reserve(4) is None
    assert ceiling.left == 3
    first.settle(2)
    assert (ceiling.charged, ceiling.reserved, ceiling.left) == (2, 0, 8)
    assert ceiling.reserve(8) is not None


def test_a_reservation_is_extended_only_within_the_ceiling() -> None:
    """An extension that does not fit reserves nothing."""
    ceiling = CapacityCeiling(10)
    reservation = ceiling.reserve(6)
    assert reservation is not None
    assert reservation.extend(4)
    assert not reservation.extend(0.5)
    assert (reservation.units, ceiling.left) == (10, 0)


def test_a_reservation_is_settled_by_all_that_a_meter_counted() -> None:
    """Reads, writes and attempts in doubt count; without a report of the engine, all reserved units count."""
    ceiling = CapacityCeiling(100)
    known, unknown = ceiling.reserve(20), ceiling.reserve(30)
    assert known is not None
    assert unknown is not None
    meter = CapacityMeter()
    meter.add(1.5)
    meter.add_write(4)
    meter.add_in_doubt(2)
    known.settle_by(meter)
    assert ceiling.charged == 7.5
    meter.add_write(None)
    unknown.settle_by(meter)
    assert ceiling.charged == 37.5


def test_a_reservation_is_current_only_while_it_is_active() -> None:
    """Engines find the reservation of the current store call, and none outside of it."""
    reservation = CapacityCeiling(1).reserve(1)
    assert reservation is not None
    with reservation.active():
        assert current_reservation() is reservation
    assert current_reservation() is None
