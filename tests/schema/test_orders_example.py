"""The example `orders` beyond the guide's queries: joins, ownership, singleton and current records."""

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
from tests.schema.graphql_client import GraphQLClient, open_client
from tests.schema.sample_lookup import records_with

GRAPH = Graph(catalog)
RECORDS = [*sample(12)]
TEAM = "team-logistics"
CUSTOMER = Caller("c-1", subject="cust-456")
STRANGER = Caller("c-1", subject="cust-457")
ADMIN = Caller("c-1", subject="root", groups=frozenset({"Admin"}))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client of the sample."""
    async with open_client(catalog, tmp_path, *RECORDS, graph=GRAPH) as client:
        yield client


def latest_versions() -> list[Order]:
    """The latest version of every order, sorted by the time of the order."""
    last = {order.order_id: order for order in records_with(RECORDS, Order)}
    return sorted(last.values(), key=lambda order: (order.placed_at, order.order_id))


async def test_orders_with_all_joins(client: GraphQLClient) -> None:
    """The newest orders are returned with their customers, products, lines and last changes."""
    found = await client.data(
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
    customers = {customer.customer_id: customer for customer in records_with(RECORDS, Customer)}
    products = {product.product_id: product for product in records_with(RECORDS, Product)}
    expected = []
    for order in latest_versions()[:-6:-1]:
        history = records_with(RECORDS, OrderHistory, order_id=order.order_id)
        lines = sorted(
            records_with(RECORDS, OrderLine, order_id=order.order_id), key=lambda line: (line.category, line.product_id)
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


async def test_orders_of_a_customer(client: GraphQLClient) -> None:
    """A customer's orders are returned in their current state, or in a given version."""
    found = await client.data(
        """{ Plugin_Customer(id: "cust-456") {
               now: orders(history: CURRENT, limit: 100) { items { orderId status } }
               same: orders(eq: "~current", limit: 100) { items { orderId status } }
               first: orders(eq: "v1", limit: 100) { items { orderId } }
             } }"""
    )
    own_orders = [order for order in latest_versions() if order.customer_id == "cust-456"]
    now = {"items": [{"orderId": order.order_id, "status": order.status} for order in own_orders]}
    assert found["Plugin_Customer"] == {
        "now": now,
        "same": now,
        "first": {"items": [{"orderId": order.order_id} for order in own_orders]},
    }
    assert len(own_orders) > 3


async def test_one_order(client: GraphQLClient) -> None:
    """An order without a version is its current record, and with a version that entry."""
    found = await client.data(
        """{ now: Plugin_Order(id: "order-123") { version status }
             third: Plugin_Order(id: "order-123", version: "v3") { version status }
             none: Plugin_Order(id: "order-1") { version } }"""
    )
    assert found == {
        "now": {"version": "~current", "status": "delivered"},
        "third": {"version": "v3", "status": "packed"},
        "none": None,
    }


async def test_history_without_the_current_record(client: GraphQLClient) -> None:
    """`history: PAST` includes versions that `to: "z"` excludes, such as `~draft`, but not the current record."""
    unusual_versions = [
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
    for order in unusual_versions:
        await client.db.put(order)
    found = await client.data(
        """{ past: Plugin_OrderById(id: "order-123", history: PAST, from: "v8") { items { version } }
             current: Plugin_OrderById(id: "order-123", history: CURRENT) { items { version status } }
             all: Plugin_OrderById(id: "order-123", history: ALL, from: "v8") { items { version } }
             z: Plugin_OrderById(id: "order-123", to: "z", from: "v8") { items { version } } }"""
    )
    assert _versions(found["past"]) == ["v8", "zebra", "~draft", "änderung"]
    assert _versions(found["all"]) == ["v8", "zebra", "~current", "~draft", "änderung"]
    assert found["current"] == {"items": [{"version": "~current", "status": "as änderung"}]}
    assert _versions(found["z"]) == ["v8"]


async def test_singleton(client: GraphQLClient) -> None:
    """The singleton is returned without arguments."""
    assert await client.data("{ Plugin_OrderCount { orders } }") == {"Plugin_OrderCount": {"orders": 12}}
    assert records_with(RECORDS, OrderCount) == [OrderCount(orders=12)]


# --- ownership -------------------------------------------------------------------------------------------------

OWNED = "query Owned($of: String!) { Plugin_OwnershipByOwnerId(ownerId: $of, limit: 100) { items { resourceId } } }"


def owned_by(owner: str) -> Sequence[str]:
    """The resources of an owner, sorted by id."""
    return sorted(ownership.resource_id for ownership in records_with(RECORDS, Ownership, owner_id=owner))


@pytest.mark.parametrize(
    ("caller", "of"), [(ADMIN, "cust-457"), (ADMIN, TEAM), (CUSTOMER, "cust-456"), (CUSTOMER, TEAM)]
)
async def test_allowed_ownership_lists(client: GraphQLClient, caller: Caller, of: str) -> None:
    """Admins may list every owner's resources, a customer their own, and an owner of a team those of the team."""
    found = await client.data(OWNED, {"of": of}, caller=caller)
    assert [item["resourceId"] for item in found["Plugin_OwnershipByOwnerId"]["items"]] == owned_by(of)
    assert owned_by(of)


@pytest.mark.parametrize(("caller", "of"), [(CUSTOMER, "cust-457"), (STRANGER, TEAM), (STRANGER, "cust-456")])
async def test_forbidden_ownership_lists(client: GraphQLClient, caller: Caller, of: str) -> None:
    """Other callers get an error, not an empty list."""
    error = await client.error(OWNED, {"of": of}, caller=caller)
    assert error["extensions"]["code"] == "FORBIDDEN"


async def test_ownership_of_an_order(client: GraphQLClient) -> None:
    """Admins and the owner of an order may read its ownership record; other callers are refused."""
    query = '{ Plugin_Ownership(id: "order-123") { ownerId } }'
    for caller in (CUSTOMER, ADMIN):
        assert await client.data(query, caller=caller) == {"Plugin_Ownership": {"ownerId": "cust-456"}}
    error = await client.error(query, caller=STRANGER)
    assert error["extensions"]["code"] == "FORBIDDEN"


async def test_anonymous_callers(client: GraphQLClient) -> None:
    """Anonymous callers may read orders but no ownership, and the refusal reads nothing."""
    anonymous = Caller("c-1")
    found = await client.data('{ Plugin_Order(id: "order-123") { customer { name } } }', caller=anonymous)
    assert found["Plugin_Order"]["customer"]["name"]
    client.reset_counts()
    error = await client.error(OWNED, {"of": "cust-456"}, caller=anonymous)
    assert error["extensions"]["code"] == "FORBIDDEN"
    assert (client.counts.rounds, client.counts.gets) == (0, 0)


def _versions(page: Any) -> list[str]:
    return [item["version"] for item in page["items"]]


(FIRST,) = records_with(RECORDS, Order, order_id="order-123", version="v1")
