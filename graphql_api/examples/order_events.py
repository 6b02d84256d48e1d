"""Example projections: the events of orders, and the read models of the catalog `orders` that they write.

`python -m graphql_api.examples.order_events 1000 > events.jsonl` prints the events of the first 1,000 orders of the
sample, as JSON lines for `shardql project`.
"""

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import orjson
from pydantic import Field

from graphql_api import Event, Graph, Set, Update, group, projection
from graphql_api.examples import orders
from graphql_api.examples.orders import (
    SEED,
    Order,
    OrderHistory,
    OrderPlan,
    OrderTracking,
    catalog,
    generate_products,
    plan_order,
)


class OrderPlaced(Event):
    """A customer has placed an order. It is the first event in the stream of the order."""

    type: Literal["OrderPlaced"] = "OrderPlaced"
    order_id: str
    customer_id: str
    total: float
    placed_at: str
    product_ids: list[str] = Field(default_factory=list)


class OrderStatusChanged(Event):
    """The status of an order has changed. The event does not carry the customer."""

    type: Literal["OrderStatusChanged"] = "OrderStatusChanged"
    order_id: str
    status: str
    total: float
    changed_at: str
    carrier: str | None = None
    """The carrier that reported the status, if it was one."""


OrderEvent = OrderPlaced | OrderStatusChanged


@projection(OrderTracking, source="orders")
def order_tracking(event: OrderEvent) -> list[Set | Update]:
    """Every status an order went through. What a carrier reports has no customer."""
    order_id, total = event.order_id, event.total
    match event:
        case OrderPlaced(placed_at=at, customer_id=customer):
            entry = OrderTracking(order_id=order_id, changed_at=at, customer_id=customer, status="placed", total=total)
            return [Set(entry)]
        case OrderStatusChanged(changed_at=at, status=status, carrier=None):
            # An update keeps the customer, which the event does not carry.
            return [Update(OrderTracking, order_id, changed_at=at, status=status, total=total)]
        case OrderStatusChanged(changed_at=at, status=status):
            return [Set(OrderTracking(order_id=order_id, changed_at=at, status=status, total=total))]


@projection(OrderHistory, source="orders")
def order_history(event: OrderEvent) -> list[Set]:
    """Every change of an order."""
    at, status = (event.placed_at, "placed") if isinstance(event, OrderPlaced) else (event.changed_at, event.status)
    return [Set(OrderHistory(order_id=event.order_id, timestamp=at, status=status, total=event.total))]


@projection(Order, source="orders")
def order_versions(event: OrderEvent, seq: int) -> list[Set | Update]:
    """Every version of an order. The server keeps the current record, `~current`, in the same transaction."""
    version = f"v{seq}"
    if isinstance(event, OrderStatusChanged):
        return [Update(Order, event.order_id, version=version, status=event.status, total=event.total)]
    order = Order(
        order_id=event.order_id,
        version=version,
        placed_at=datetime.fromisoformat(event.placed_at),
        customer_id=event.customer_id,
        status="placed",
        total=event.total,
        product_ids=event.product_ids,
    )
    return [Set(order)]


graph = Graph(
    catalog, projections=[order_tracking, order_history, order_versions], event_rules={"orders": group("Feed")}
)


# --- sample ----------------------------------------------------------------------------------------------------


sample = orders.sample


def generate_events(count: int, seed: int = SEED) -> Iterator[dict[str, object]]:
    """Yield the events of the first orders of the sample, by time. Each order is a stream."""
    products = [*generate_products(seed)]
    events = [event for number in range(count) for event in _events_of(plan_order(number, products, seed))]
    for _, envelope in sorted(events, key=lambda event: event[0]):
        yield envelope


def _events_of(plan: OrderPlan) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the events of an order, each after its time."""
    for seq, change in enumerate(plan.changes, 1):
        total = plan.total_at(change.status)
        event: OrderEvent
        if seq == 1:
            event = OrderPlaced(
                order_id=plan.order_id,
                customer_id=plan.buyer,
                total=total,
                placed_at=change.time,
                product_ids=[product.product_id for product, _ in plan.lines],
            )
        else:
            carrier = "Fast & Far" if change.by_carrier else None
            event = OrderStatusChanged(
                order_id=plan.order_id, status=change.status, total=total, changed_at=change.time, carrier=carrier
            )
        data = event.model_dump(by_alias=True, exclude_none=True)
        yield change.time, {"stream": plan.order_id, "seq": seq, "type": data.pop("type"), "data": data}


if __name__ == "__main__":
    for envelope in generate_events(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
        sys.stdout.buffer.write(orjson.dumps(envelope) + b"\n")
