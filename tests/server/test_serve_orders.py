"""The example `orders`, served by `shardql serve`."""

from pathlib import Path

import httpx

from tests.server.server_processes import server_process
from tests.support.loopback import TIMEOUT

ORDERS = "graphql_api.examples.orders:catalog"
QUERY = """query {
  Plugin_OrderTracking(id: "order-123") { orderId status customer { name email } }
  Plugin_OrderById(id: "order-123", eq: "~current") { items { status total } }
}"""


def test_orders_are_served_with_their_sample(tmp_path: Path) -> None:
    """With sample data, queries return records, ownership is restricted to owners, and GraphiQL has tabs."""
    with server_process(tmp_path, ORDERS, "--sample", "3") as server:
        found = server.execute(QUERY)["data"]
        refused = server.execute('{ Plugin_OwnershipByOwnerId(ownerId: "cust-456") { items { resourceId } } }')
        page = httpx.get(server.url, headers={"accept": "text/html"}, timeout=TIMEOUT).text
    assert found["Plugin_OrderTracking"]["orderId"] == "order-123"
    assert "@" in found["Plugin_OrderTracking"]["customer"]["email"]
    assert [item["status"] for item in found["Plugin_OrderById"]["items"]] == ["delivered"]
    assert [error["extensions"]["code"] for error in refused["errors"]] == ["FORBIDDEN"]
    assert "Plugin_OrderByCustomer" in page
    assert "order-123" in page
