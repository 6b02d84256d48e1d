"""The example `orders` as `shardql serve` serves it."""

from pathlib import Path

import httpx

from tests.api.processes import serving
from tests.api.running import PATIENCE

ORDERS = "graphql_api.examples.orders:catalog"
PRINTED = """query {
  Plugin_OrderTracking(id: "order-123") { orderId status customer { name email } }
  Plugin_OrderById(id: "order-123", eq: "~current") { items { status total } }
}"""


def test_orders_are_served_with_their_sample(tmp_path: Path) -> None:
    """A server with the sample answers printed queries, keeps ownership to owners, and has tabs that find something."""
    with serving(tmp_path, ORDERS, "--sample", "3") as server:
        found = server.ask(PRINTED)["data"]
        refused = server.ask('{ Plugin_OwnershipByOwnerId(ownerId: "cust-456") { items { resourceId } } }')
        page = httpx.get(server.url, headers={"accept": "text/html"}, timeout=PATIENCE).text
    assert found["Plugin_OrderTracking"]["orderId"] == "order-123"
    assert "@" in found["Plugin_OrderTracking"]["customer"]["email"]
    assert [item["status"] for item in found["Plugin_OrderById"]["items"]] == ["delivered"]
    assert [error["extensions"]["code"] for error in refused["errors"]] == ["FORBIDDEN"]
    assert "Plugin_OrderByCustomer" in page
    assert "order-123" in page
