"""The example projections of orders: their events lead to the records of the sample."""

import json
import subprocess
import sys
from pathlib import Path

from graphql_api import Entity, Set, Update
from graphql_api.examples.order_events import (
    OrderPlaced,
    OrderStatusChanged,
    generate_events,
    graph,
    order_tracking,
    order_versions,
)
from graphql_api.examples.orders import Order, OrderHistory, OrderTracking, catalog, sample
from graphql_api.projections import project_events

ROOT = Path(__file__).parents[2]
PLACED = OrderPlaced(order_id="o", customer_id="c", total=5.0, placed_at="2024-01-15T10:30:00Z")
PACKED = OrderStatusChanged(order_id="o", status="packed", total=5.0, changed_at="2024-01-16T00:00:00Z")
SHIPPED = OrderStatusChanged(order_id="o", status="shipped", total=5.0, changed_at="2024-01-17T00:00:00Z", carrier="x")


async def test_the_events_of_the_sample_lead_to_its_records() -> None:
    """Tracking, history and versions of the sample are what the projections make of its events."""
    projected = await project_events(catalog, graph.sources["orders"].projections, generate_events(60))
    assert projected.dead_letters == {}
    records = [*sample(60)]
    for kind in (OrderTracking, OrderHistory, Order):
        expected = [record for record in records if isinstance(record, kind)]
        entries = [one for one in projected.records_of(kind) if "~current" not in vars(one).values()]
        assert sorted(map(repr, entries)) == sorted(map(repr, expected))
    current = {order.order_id: order for order in projected.records_of(Order) if order.version == "~current"}
    latest = {order.order_id: order for order in records if isinstance(order, Order)}
    assert current == {id: order.model_copy(update={"version": "~current"}) for id, order in latest.items()}


async def test_some_carriers_leave_the_customer_out() -> None:
    """The sample has tracking entries without a customer, as the sparse index and the null join of the guide need."""
    tracking: list[Entity] = [record for record in sample(300) if isinstance(record, OrderTracking)]
    unknown = [one for one in tracking if isinstance(one, OrderTracking) and one.customer_id is None]
    assert 10 <= len(unknown) <= len(tracking) // 10


def test_an_update_keeps_the_customer() -> None:
    """A status change of the shop keeps what it does not carry; that of a carrier has no customer."""
    assert order_tracking(PACKED) == [
        Update(OrderTracking, "o", changed_at="2024-01-16T00:00:00Z", status="packed", total=5.0)
    ]
    assert order_tracking(SHIPPED) == [
        Set(OrderTracking(order_id="o", changed_at="2024-01-17T00:00:00Z", status="shipped", total=5.0))
    ]
    assert order_versions(PACKED, seq=2) == [Update(Order, "o", version="v2", status="packed", total=5.0)]


async def test_the_current_record_follows_the_versions() -> None:
    """The record `~current` has everything that the events together carry."""
    projected = await project_events(catalog, order_versions, [PLACED, PACKED])
    assert [(order.version, order.status, order.customer_id) for order in projected.records_of(Order)] == [
        ("v1", "placed", "c"),
        ("v2", "packed", "c"),
        ("~current", "packed", "c"),
    ]


def test_the_generator_prints_json_lines() -> None:
    """The module prints the events that it generates."""
    command = [sys.executable, "-m", "graphql_api.examples.order_events", "3"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: S603 - our own command
    assert [*map(json.loads, printed.stdout.splitlines())] == [*generate_events(3)]
