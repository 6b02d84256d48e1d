"""The example `orders` beyond the printed queries: its joins, its ownership, its singleton, its current entries."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Graph
from graphql_api.examples.orders import (
    Customer,
    Order,
    OrderCount,
    OrderHistory,
    OrderLine,
    Ownership,
    Product,
    catalog,
    sample,
)
from graphql_api.schema.request_context import Caller
from tests.schema.asking import Asked, asked
from tests.schema.sampled import all_of

GRAPH = Graph(catalog)
RECORDS = [*sample(12)]
TEAM = "team-logistics"
CUSTOMER = Caller("c-1", subject="cust-456")
STRANGER = Caller("c-1", subject="cust-457")
ADMIN = Caller("c-1", subject="root", groups=frozenset({"Admin"}))


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    """The sample, to be asked."""
    async with asked(catalog, tmp_path, *RECORDS, graph=GRAPH) as asking:
        yield asking


def last_versions() -> list[Order]:
    """Every order as it stands now, in the order in which they were placed."""
    last = {order.order_id: order for order in all_of(RECORDS, Order)}
    return sorted(last.values(), key=lambda order: (order.placed_at, order.order_id))


async def test_a_page_of_orders_with_all_that_belongs_to_them(ask: Asked) -> None:
    """The newest orders come with their customers, their products in the order of the list, and their last changes."""
    found = await ask.data(
        """{ Plugin_OrderByVersion(version: "~current", reverse: true, limit: 5) {
               items {
                 orderId status
                 customer { customerId name }
                 products { productId name }
                 lines { items { quantity product { productId } } }
                 history(reverse: true, limit: 3) { items { timestamp status } nextToken }
               }
             } }"""
    )
    customers = {customer.customer_id: customer for customer in all_of(RECORDS, Customer)}
    products = {product.product_id: product for product in all_of(RECORDS, Product)}
    expected = []
    for order in last_versions()[:-6:-1]:
        history = all_of(RECORDS, OrderHistory, order_id=order.order_id)
        lines = sorted(
            all_of(RECORDS, OrderLine, order_id=order.order_id), key=lambda line: (line.category, line.product_id)
        )
        customer = customers[order.customer_id]
        expected.append(
            {
                "orderId": order.order_id,
                "status": order.status,
                "customer": {"customerId": customer.customer_id, "name": customer.name},
                "products": [{"productId": one, "name": products[one].name} for one in order.product_ids],
                "lines": {
                    "items": [{"quantity": line.quantity, "product": {"productId": line.product_id}} for line in lines]
                },
                "history": {
                    "items": [{"timestamp": one.timestamp, "status": one.status} for one in history[:-4:-1]],
                    "nextToken": len(history) > 3,
                },
            }
        )
    items = found["Plugin_OrderByVersion"]["items"]
    for item in items:
        item["history"]["nextToken"] = item["history"]["nextToken"] is not None
    assert items == expected
    assert {item["history"]["nextToken"] for item in items} == {True, False}


async def test_orders_of_a_customer(ask: Asked) -> None:
    """A customer's orders come as they stand now, or with all of their versions."""
    found = await ask.data(
        """{ Plugin_Customer(id: "cust-456") {
               now: orders(history: CURRENT, limit: 100) { items { orderId status } }
               same: orders(eq: "~current", limit: 100) { items { orderId status } }
               first: orders(eq: "v1", limit: 100) { items { orderId } }
             } }"""
    )
    mine = [order for order in last_versions() if order.customer_id == "cust-456"]
    now = {"items": [{"orderId": order.order_id, "status": order.status} for order in mine]}
    assert found["Plugin_Customer"] == {
        "now": now,
        "same": now,
        "first": {"items": [{"orderId": order.order_id} for order in mine]},
    }
    assert len(mine) > 3


async def test_one_order_is_the_current_one(ask: Asked) -> None:
    """An order without a version is its current entry, with one it is that entry; each is equal to the last version."""
    found = await ask.data(
        """{ now: Plugin_Order(id: "order-123") { version status }
             third: Plugin_Order(id: "order-123", version: "v3") { version status }
             none: Plugin_Order(id: "order-1") { version } }"""
    )
    assert found == {
        "now": {"version": "~current", "status": "delivered"},
        "third": {"version": "v3", "status": "packed"},
        "none": None,
    }


async def test_history_without_the_current_entry(ask: Asked) -> None:
    """`history: PAST` finds `~draft` and versions in other scripts, which `to: "z"` loses, but not the current one."""
    odd = [
        Order(
            order_id="order-123",
            version=version,
            placed_at=FIRST.placed_at,
            customer_id="cust-456",
            status=f"as {version}",
            total=1,
            product_ids=[],
        )
        for version in ("zebra", "~draft", "änderung")
    ]
    for order in odd:
        await ask.db.put(order)
    found = await ask.data(
        """{ past: Plugin_OrderById(id: "order-123", history: PAST, from: "v8") { items { version } }
             current: Plugin_OrderById(id: "order-123", history: CURRENT) { items { version status } }
             all: Plugin_OrderById(id: "order-123", history: ALL, from: "v8") { items { version } }
             z: Plugin_OrderById(id: "order-123", to: "z", from: "v8") { items { version } } }"""
    )
    assert _versions(found["past"]) == ["v8", "zebra", "~draft", "änderung"]
    assert _versions(found["all"]) == ["v8", "zebra", "~current", "~draft", "änderung"]
    assert found["current"] == {"items": [{"version": "~current", "status": "as änderung"}]}
    assert _versions(found["z"]) == ["v8"]


async def test_how_many_orders_there_are(ask: Asked) -> None:
    """The singleton is found without any argument."""
    assert await ask.data("{ Plugin_OrderCount { orders } }") == {"Plugin_OrderCount": {"orders": 12}}
    assert all_of(RECORDS, OrderCount) == [OrderCount(orders=12)]


# --- ownership -------------------------------------------------------------------------------------------------

OWNED = "query Owned($of: String!) { Plugin_OwnershipByOwnerId(ownerId: $of, limit: 100) { items { resourceId } } }"


def owned_by(owner: str) -> Sequence[str]:
    """What somebody owns, in the order of ids."""
    return sorted(ownership.resource_id for ownership in all_of(RECORDS, Ownership, owner_id=owner))


@pytest.mark.parametrize(
    ("caller", "of"), [(ADMIN, "cust-457"), (ADMIN, TEAM), (CUSTOMER, "cust-456"), (CUSTOMER, TEAM)]
)
async def test_who_may_list_what_somebody_owns(ask: Asked, caller: Caller, of: str) -> None:
    """Admins may list anybody's, an owner their own, and whoever owns a team that of the team."""
    found = await ask.data(OWNED, {"of": of}, caller=caller)
    assert [item["resourceId"] for item in found["Plugin_OwnershipByOwnerId"]["items"]] == owned_by(of)
    assert owned_by(of)


@pytest.mark.parametrize(("caller", "of"), [(CUSTOMER, "cust-457"), (STRANGER, TEAM), (STRANGER, "cust-456")])
async def test_who_may_not(ask: Asked, caller: Caller, of: str) -> None:
    """Anybody else is refused, which is no empty list."""
    error = await ask.error(OWNED, {"of": of}, caller=caller)
    assert error["extensions"]["code"] == "FORBIDDEN"


async def test_owners_see_who_owns_their_orders(ask: Asked) -> None:
    """The owner of an order and admins read its record of ownership; it is nothing to others."""
    query = '{ Plugin_Ownership(id: "order-123") { ownerId } }'
    for caller in (CUSTOMER, ADMIN):
        assert await ask.data(query, caller=caller) == {"Plugin_Ownership": {"ownerId": "cust-456"}}
    error = await ask.error(query, caller=STRANGER)
    assert error["extensions"]["code"] == "FORBIDDEN"


async def test_everything_else_is_open(ask: Asked) -> None:
    """Whoever is not known at all finds orders, and no ownership."""
    nobody = Caller("c-1")
    found = await ask.data('{ Plugin_Order(id: "order-123") { customer { name } } }', caller=nobody)
    assert found["Plugin_Order"]["customer"]["name"]
    ask.forget()
    error = await ask.error(OWNED, {"of": "cust-456"}, caller=nobody)
    assert error["extensions"]["code"] == "FORBIDDEN"
    assert (ask.counts.rounds, ask.counts.gets) == (0, 0)


def _versions(page: Any) -> list[str]:
    return [item["version"] for item in page["items"]]


(FIRST,) = all_of(RECORDS, Order, order_id="order-123", version="v1")
