"""Runs every query of the key design guide on the example `orders`.

The queries are copied from the guide, except for placeholders: fields replace a selection of `...`, and the token of
the previous page replaces `"abc..."`. If the guide omits the namespace, `Plugin_` is added to the field.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Entity, Graph
from graphql_api.examples.orders import (
    Customer,
    Order,
    OrderHistory,
    OrderLine,
    OrderTracking,
    Product,
    SchemaChange,
    catalog,
    sample,
)
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.schema.graphql_client import GraphQLClient, open_client, open_database
from tests.schema.sample_lookup import records_with

GRAPH = Graph(catalog)
RECORDS = [*sample(14)]


@pytest.fixture(scope="module")
def sample_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the sample."""
    file = tmp_path_factory.mktemp("orders") / "x.db"

    async def write() -> None:
        async with open_database(catalog, await open_sqlite(file), *RECORDS):
            pass

    asyncio.run(write())
    return file


@pytest.fixture
async def client(sample_file: Path, tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client of the sample."""
    shutil.copy(sample_file, tmp_path / "x.db")
    async with open_client(catalog, tmp_path, graph=GRAPH) as client:
        yield client


def in_graphql(records: Sequence[Entity], *names: str) -> list[dict[str, Any]]:
    """The given properties of records, under their GraphQL names."""
    return [{_camel_case(name): getattr(record, name) for name in names} for record in records]


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


HISTORY = sorted(records_with(RECORDS, OrderHistory, order_id="order-123"), key=lambda entry: entry.timestamp)
LINES = sorted(
    records_with(RECORDS, OrderLine, order_id="order-123"), key=lambda line: (line.category, line.product_id)
)
TRACKING = sorted(records_with(RECORDS, OrderTracking, order_id="order-123"), key=lambda entry: entry.changed_at)
VERSIONS = sorted(records_with(RECORDS, Order, order_id="order-123"), key=lambda order: order.version)


# --- sort keys -------------------------------------------------------------------------------------------------


async def test_all_changes_of_one_order(client: GraphQLClient) -> None:
    """All status changes of an order are returned in order, by one range read and no scan."""
    found = await client.data(
        """# All status changes for one order — single DynamoDB Query, not a scan
        query {
          Plugin_OrderHistoryById(id: "order-123") {
            items { timestamp status total }
          }
        }"""
    )
    assert found == {"Plugin_OrderHistoryById": {"items": in_graphql(HISTORY, "timestamp", "status", "total")}}
    assert len(HISTORY) == 8
    assert (client.counts.rounds, client.counts.reads, client.counts.gets, client.counts.scans) == (1, 1, 0, 0)


async def test_last_changes_of_one_order(client: GraphQLClient) -> None:
    """`reverse` and `limit` return the last five status changes, newest first."""
    found = await client.data(
        """# Last 5 status changes
        query {
          Plugin_OrderHistoryById(id: "order-123", reverse: true, limit: 5) {
            items { timestamp status }
          }
        }"""
    )
    assert found == {"Plugin_OrderHistoryById": {"items": in_graphql(HISTORY[:-6:-1], "timestamp", "status")}}


async def test_lines_of_an_order(client: GraphQLClient) -> None:
    """Order lines are sorted by category, and a prefix of the composite sub id selects one category."""
    found = await client.data(
        """# All line items for an order
        { all: Plugin_OrderLineById(id: "order-123") { items { category productId quantity } }
        # Only electronics line items — prefix on first segment
          electronics: Plugin_OrderLineById(id: "order-123", prefix: "electronics/") {
            items { category productId quantity }
          } }"""
    )
    electronics = [line for line in LINES if line.category == "electronics"]
    assert found == {
        "all": {"items": in_graphql(LINES, "category", "product_id", "quantity")},
        "electronics": {"items": in_graphql(electronics, "category", "product_id", "quantity")},
    }
    assert 0 < len(electronics) < len(LINES)


@pytest.mark.parametrize("paging", ["", ", reverse: true"])
async def test_products_of_a_category(client: GraphQLClient, paging: str) -> None:
    """All products of a category are returned without a scan, ascending or descending."""
    found = await client.data(
        f'{{ Plugin_ProductByCategory(category: "electronics"{paging}) {{ items {{ productId }} }} }}'
    )
    products = sorted(
        records_with(RECORDS, Product, category="electronics"),
        key=lambda product: product.created_at,
        reverse=bool(paging),
    )
    assert found == {"Plugin_ProductByCategory": {"items": in_graphql(products, "product_id")}}
    assert len(products) == 6
    assert client.counts.scans == 0


CONDITIONS: dict[str, Any] = {
    'eq: "2024-03-04T12:44:09Z"': lambda at: at == "2024-03-04T12:44:09Z",
    'prefix: "2024-01"': lambda at: at.startswith("2024-01"),
    'from: "2024-01-01"': lambda at: at >= "2024-01-01",
    'from: "2024-02-02"': lambda at: at >= "2024-02-02",
    'to: "2024-06-30"': lambda at: at <= "2024-06-30",
    'to: "2024-02-02T08:00:00Z"': lambda at: at <= "2024-02-02T08:00:00Z",
    'from: "2024-01-01", to: "2024-03-31"': lambda at: "2024-01-01" <= at <= "2024-03-31",
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("paging", ["", ", reverse: true", ", limit: 2", ", reverse: true, limit: 2"])
async def test_conditions_on_the_sort_key(client: GraphQLClient, condition: str, paging: str) -> None:
    """Each condition on the sort key has the meaning of the guide's table, with any `reverse` and `limit`."""
    found = await client.data(
        f'{{ Plugin_OrderHistoryById(id: "order-123", {condition}{paging}) {{ items {{ timestamp }} nextToken }} }}'
    )
    expected = [entry for entry in HISTORY if CONDITIONS[condition](entry.timestamp)][
        :: -1 if "reverse" in paging else 1
    ]
    page = found["Plugin_OrderHistoryById"]
    assert expected
    assert page["items"] == in_graphql(expected[: 2 if "limit" in paging else None], "timestamp")
    assert (page["nextToken"] is not None) == ("limit" in paging and len(expected) > 2)


async def test_entries_of_a_month(client: GraphQLClient) -> None:
    """A prefix with a separator selects one month of a composite sub id, such as `2024-01/` in the guide."""
    found = await client.data(
        """{ Plugin_SchemaChangeById(id: "prod/orders", prefix: "2024-01/") { items { month version } }
             one: Plugin_SchemaChangeById(id: "prod/orders", eq: "2024-02/001.010.000") { items { summary } } }"""
    )
    changes = sorted(
        records_with(RECORDS, SchemaChange, environment="prod", plugin_name="orders", month="2024-01"),
        key=lambda one: one.version,
    )
    assert found["Plugin_SchemaChangeById"] == {"items": in_graphql(changes, "month", "version")}
    assert len(changes) == 2
    assert found["one"] == {"items": [{"summary": "Orders list their products."}]}


MIXED = [
    'eq: "a", prefix: "a"',
    'eq: "a", from: "a"',
    'eq: "a", to: "a"',
    'prefix: "a", from: "a"',
    'prefix: "a", to: "b"',
]


@pytest.mark.parametrize("mixed", [*MIXED, 'eq: "a", from: "a", to: "b"', 'eq: "a", prefix: "a", from: "a", to: "b"'])
async def test_mutually_exclusive_conditions(client: GraphQLClient, mixed: str) -> None:
    """`eq`, `prefix` and `from`/`to` are mutually exclusive, and the error names the conflicting arguments."""
    error = await client.error(f'{{ Plugin_OrderHistoryById(id: "order-123", {mixed}) {{ nextToken }} }}')
    assert error["extensions"]["code"] == "CONFLICTING_ARGUMENTS"
    assert all(given.partition(":")[0] in error["message"] for given in mixed.split(", "))


async def test_next_page(client: GraphQLClient) -> None:
    """The guide's queries for the last five changes and the next page return all changes, newest first."""
    found = await client.data(
        """# Last 5 status changes for an order
        { page: Plugin_OrderHistoryById(id: "order-123", reverse: true, limit: 5) {
          items { timestamp status total }
          nextToken
        } }"""
    )
    token = found["page"]["nextToken"]
    following = await client.data(
        """# Next page
        { page: Plugin_OrderHistoryById(id: "order-123", reverse: true, limit: 5, nextToken: "abc...") {
          items { timestamp status total }
          nextToken
        } }""".replace("abc...", token)
    )
    assert len(found["page"]["items"]) == 5
    assert found["page"]["items"] + following["page"]["items"] == in_graphql(
        HISTORY[::-1], "timestamp", "status", "total"
    )
    assert following["page"]["nextToken"] is None


# --- current state and history ---------------------------------------------------------------------------------


async def test_history_and_current_record(client: GraphQLClient) -> None:
    """A search returns all versions and the current record, only the current record, or only the history."""
    found = await client.data(
        """query {
        # Full history + current state
        full: Plugin_OrderById(id: "order-123") { items { version status } }
        # Just current state
        current: Plugin_OrderById(id: "order-123", eq: "~current") { items { status total } }
        # History only (tilde sorts after all alphanumeric values)
        past: Plugin_OrderById(id: "order-123", to: "z") { items { version status } }
        }"""
    )
    past = in_graphql(VERSIONS, "version", "status")
    assert [entry["version"] for entry in past] == [f"v{number}" for number in range(1, 9)]
    assert found == {
        "full": {"items": [*past, {"version": "~current", "status": "delivered"}]},
        "current": {"items": in_graphql(VERSIONS[-1:], "status", "total")},
        "past": {"items": past},
    }


# --- the complete example --------------------------------------------------------------------------------------


async def test_timeline_of_one_order(client: GraphQLClient) -> None:
    """The timeline of an order is sorted by `changedAt`; `reverse` with a limit of 1 returns its last entry."""
    found = await client.data(
        """# Full timeline for one order — all entries sorted by changedAt ascending
        query {
          Plugin_OrderTrackingById(id: "order-123") {
            items { changedAt status total }
          }
        }"""
    )
    assert found == {"Plugin_OrderTrackingById": {"items": in_graphql(TRACKING, "changed_at", "status", "total")}}
    found = await client.data(
        """# Last status change — reverse sort, limit 1
        query {
          Plugin_OrderTrackingById(id: "order-123", reverse: true, limit: 1) {
            items { changedAt status }
          }
        }"""
    )
    assert found == {"Plugin_OrderTrackingById": {"items": in_graphql(TRACKING[-1:], "changed_at", "status")}}


async def test_all_orders_by_a_customer(client: GraphQLClient) -> None:
    """The index on the customer returns every entry of the customer's orders."""
    found = await client.data(
        """# All orders by a customer (via standalone secondary index on customerId)
        query {
          Plugin_OrderTrackingByCustomerId(customerId: "cust-456") {
            items { orderId status total }
          }
        }"""
    )
    entries = sorted(
        records_with(RECORDS, OrderTracking, customer_id="cust-456"),
        key=lambda entry: (entry.order_id, entry.changed_at),
    )
    items = found["Plugin_OrderTrackingByCustomerId"]["items"]
    assert items == in_graphql(entries, "order_id", "status", "total")[:50]
    assert {item["orderId"] for item in items} == {
        order.order_id for order in records_with(RECORDS, Order, customer_id="cust-456")
    }


async def test_all_shipped_orders(client: GraphQLClient) -> None:
    """The index on the status returns all shipped orders, newest first."""
    found = await client.data(
        """# All "shipped" orders, newest first (via named secondary index "byStatus" with changedAt sort key)
        query {
          Plugin_OrderTrackingByStatus(status: "shipped", reverse: true) {
            items { orderId changedAt }
          }
        }"""
    )
    shipped = sorted(
        records_with(RECORDS, OrderTracking, status="shipped"), key=lambda entry: entry.changed_at, reverse=True
    )
    assert found == {"Plugin_OrderTrackingByStatus": {"items": in_graphql(shipped, "order_id", "changed_at")}}
    assert len(shipped) > 5


async def test_one_order_with_its_customer(client: GraphQLClient) -> None:
    """One order is returned in its latest state, with its customer."""
    found = await client.data(
        """# Single order with expanded customer object (via @resolves)
        query {
          Plugin_OrderTracking(id: "order-123") {
            orderId status total
            customer { name email }
          }
        }"""
    )
    (customer,) = records_with(RECORDS, Customer, customer_id="cust-456")
    (order,) = in_graphql(TRACKING[-1:], "order_id", "status", "total")
    assert found == {"Plugin_OrderTracking": {**order, "customer": {"name": customer.name, "email": customer.email}}}


def test_generated_queries() -> None:
    """The fields of the guide's table accept the printed arguments and types; further arguments are allowed."""
    query = GRAPH.schema._schema.query_type
    assert query is not None
    printed = {
        "Plugin_OrderTracking": {"id": "ID!"},
        "Plugin_OrderTrackingById": {"id": "ID!"},
        "Plugin_OrderTrackingByCustomerId": {"customerId": "String!"},
        "Plugin_OrderTrackingByStatus": {"status": "String!"},
    }
    for name, required in printed.items():
        arguments = {word: str(argument.type) for word, argument in query.fields[name].args.items()}
        # An argument of a nullable type accepts a variable of the printed type. A list can replace hash properties.
        assert {word: f"{kind.rstrip('!')}!" for word, kind in arguments.items() if word in required} == required
        assert {word for word, kind in arguments.items() if kind.endswith("!")} <= required.keys()
    conditions = {"eq": "String", "prefix": "String", "from": "String", "to": "String"}
    paging = {"reverse": "Boolean", "limit": "Int", "nextToken": "String"}
    by_id = {word: str(argument.type) for word, argument in query.fields["Plugin_OrderTrackingById"].args.items()}
    assert by_id.items() >= {**conditions, **paging}.items()


async def test_pages_have_items_and_a_token(client: GraphQLClient) -> None:
    """A page has the two fields of the guide, with the types of the guide."""
    found = await client.data(
        """{ __type(name: "Plugin_OrderHistoryConnection") {
             fields { name type { kind name ofType { kind ofType { ofType { name } } } } } } }"""
    )
    fields = {field["name"]: field["type"] for field in found["__type"]["fields"]}
    assert fields["items"]["ofType"]["kind"] == "LIST"
    assert fields["items"]["ofType"]["ofType"]["ofType"]["name"] == "Plugin_OrderHistory"
    assert (fields["nextToken"]["kind"], fields["nextToken"]["name"]) == ("SCALAR", "String")
