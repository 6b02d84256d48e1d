"""Every query that the key design guide of read models prints, over the example `orders`, with the guide's meaning.

The queries stand as they are printed, but for placeholders: a selection of `...` names fields here, `"abc..."` is the
token of the page before. Where the guide leaves out the namespace, `Plugin_` is put in front of the field.
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
from tests.schema.asking import Asked, asked, opened
from tests.schema.sampled import all_of

GRAPH = Graph(catalog)
RECORDS = [*sample(14)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the sample."""
    file = tmp_path_factory.mktemp("orders") / "x.db"

    async def write() -> None:
        async with opened(catalog, await open_sqlite(file), *RECORDS):
            pass

    asyncio.run(write())
    return file


@pytest.fixture
async def ask(written: Path, tmp_path: Path) -> AsyncIterator[Asked]:
    """The sample, to be asked."""
    shutil.copy(written, tmp_path / "x.db")
    async with asked(catalog, tmp_path, graph=GRAPH) as asking:
        yield asking


def shown(records: Sequence[Entity], *names: str) -> list[dict[str, Any]]:
    """Some properties of records, as GraphQL gives them."""
    return [{_camel(name): getattr(record, name) for name in names} for record in records]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


HISTORY = sorted(all_of(RECORDS, OrderHistory, order_id="order-123"), key=lambda entry: entry.timestamp)
LINES = sorted(all_of(RECORDS, OrderLine, order_id="order-123"), key=lambda line: (line.category, line.product_id))
TRACKING = sorted(all_of(RECORDS, OrderTracking, order_id="order-123"), key=lambda entry: entry.changed_at)
VERSIONS = sorted(all_of(RECORDS, Order, order_id="order-123"), key=lambda order: order.version)


# --- sort keys -------------------------------------------------------------------------------------------------


async def test_all_changes_of_one_order(ask: Asked) -> None:
    """All status changes of one order come in their order, by a single query of its key and no scan."""
    found = await ask.data(
        """# All status changes for one order — single DynamoDB Query, not a scan
        query {
          Plugin_OrderHistoryById(id: "order-123") {
            items { timestamp status total }
          }
        }"""
    )
    assert found == {"Plugin_OrderHistoryById": {"items": shown(HISTORY, "timestamp", "status", "total")}}
    assert len(HISTORY) == 8
    assert (ask.counts.rounds, ask.counts.reads, ask.counts.gets, ask.counts.scans) == (1, 1, 0, 0)


async def test_last_changes_of_one_order(ask: Asked) -> None:
    """The last five status changes of an order come newest first."""
    found = await ask.data(
        """# Last 5 status changes
        query {
          Plugin_OrderHistoryById(id: "order-123", reverse: true, limit: 5) {
            items { timestamp status }
          }
        }"""
    )
    assert found == {"Plugin_OrderHistoryById": {"items": shown(HISTORY[:-6:-1], "timestamp", "status")}}


async def test_lines_of_an_order(ask: Asked) -> None:
    """The lines of an order lie by category, and a beginning of the composite sub id gives those of one category."""
    found = await ask.data(
        """# All line items for an order
        { all: Plugin_OrderLineById(id: "order-123") { items { category productId quantity } }
        # Only electronics line items — prefix on first segment
          electronics: Plugin_OrderLineById(id: "order-123", prefix: "electronics/") {
            items { category productId quantity }
          } }"""
    )
    electronics = [line for line in LINES if line.category == "electronics"]
    assert found == {
        "all": {"items": shown(LINES, "category", "product_id", "quantity")},
        "electronics": {"items": shown(electronics, "category", "product_id", "quantity")},
    }
    assert 0 < len(electronics) < len(LINES)


@pytest.mark.parametrize("way", ["", ", reverse: true"])
async def test_products_of_a_category(ask: Asked, way: str) -> None:
    """All products of a category come without a scan, those that are newest first in reverse."""
    found = await ask.data(f'{{ Plugin_ProductByCategory(category: "electronics"{way}) {{ items {{ productId }} }} }}')
    products = sorted(
        all_of(RECORDS, Product, category="electronics"), key=lambda product: product.created_at, reverse=bool(way)
    )
    assert found == {"Plugin_ProductByCategory": {"items": shown(products, "product_id")}}
    assert len(products) == 6
    assert ask.counts.scans == 0


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
@pytest.mark.parametrize("way", ["", ", reverse: true", ", limit: 2", ", reverse: true, limit: 2"])
async def test_conditions_on_the_sort_key(ask: Asked, condition: str, way: str) -> None:
    """Each condition on a sort key means what the guide's table says, with reverse and limit as with none."""
    found = await ask.data(
        f'{{ Plugin_OrderHistoryById(id: "order-123", {condition}{way}) {{ items {{ timestamp }} nextToken }} }}'
    )
    expected = [entry for entry in HISTORY if CONDITIONS[condition](entry.timestamp)][:: -1 if "reverse" in way else 1]
    page = found["Plugin_OrderHistoryById"]
    assert expected
    assert page["items"] == shown(expected[: 2 if "limit" in way else None], "timestamp")
    assert (page["nextToken"] is not None) == ("limit" in way and len(expected) > 2)


async def test_entries_of_a_month(ask: Asked) -> None:
    """A beginning with a separator gives one month where the sub id is composite, as the guide's `2024-01/` has it."""
    found = await ask.data(
        """{ Plugin_SchemaChangeById(id: "prod/orders", prefix: "2024-01/") { items { month version } }
             one: Plugin_SchemaChangeById(id: "prod/orders", eq: "2024-02/001.010.000") { items { summary } } }"""
    )
    changes = sorted(
        all_of(RECORDS, SchemaChange, environment="prod", plugin_name="orders", month="2024-01"),
        key=lambda one: one.version,
    )
    assert found["Plugin_SchemaChangeById"] == {"items": shown(changes, "month", "version")}
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
async def test_conditions_that_exclude_each_other(ask: Asked, mixed: str) -> None:
    """`eq`, `prefix` and `from` with `to` exclude each other, and the error names what was mixed."""
    error = await ask.error(f'{{ Plugin_OrderHistoryById(id: "order-123", {mixed}) {{ nextToken }} }}')
    assert error["extensions"]["code"] == "CONFLICTING_ARGUMENTS"
    assert all(given.partition(":")[0] in error["message"] for given in mixed.split(", "))


async def test_next_page(ask: Asked) -> None:
    """The printed queries for the last five changes and for the next page give all changes, newest first."""
    found = await ask.data(
        """# Last 5 status changes for an order
        { page: Plugin_OrderHistoryById(id: "order-123", reverse: true, limit: 5) {
          items { timestamp status total }
          nextToken
        } }"""
    )
    token = found["page"]["nextToken"]
    following = await ask.data(
        """# Next page
        { page: Plugin_OrderHistoryById(id: "order-123", reverse: true, limit: 5, nextToken: "abc...") {
          items { timestamp status total }
          nextToken
        } }""".replace("abc...", token)
    )
    assert len(found["page"]["items"]) == 5
    assert found["page"]["items"] + following["page"]["items"] == shown(HISTORY[::-1], "timestamp", "status", "total")
    assert following["page"]["nextToken"] is None


# --- current state and history ---------------------------------------------------------------------------------


async def test_history_beside_the_current_state(ask: Asked) -> None:
    """One query gives all versions with the current one behind them, one just the current one, one just the history."""
    found = await ask.data(
        """query {
        # Full history + current state
        full: Plugin_OrderById(id: "order-123") { items { version status } }
        # Just current state
        current: Plugin_OrderById(id: "order-123", eq: "~current") { items { status total } }
        # History only (tilde sorts after all alphanumeric values)
        past: Plugin_OrderById(id: "order-123", to: "z") { items { version status } }
        }"""
    )
    past = shown(VERSIONS, "version", "status")
    assert [entry["version"] for entry in past] == [f"v{number}" for number in range(1, 9)]
    assert found == {
        "full": {"items": [*past, {"version": "~current", "status": "delivered"}]},
        "current": {"items": shown(VERSIONS[-1:], "status", "total")},
        "past": {"items": past},
    }


# --- the complete example --------------------------------------------------------------------------------------


async def test_timeline_of_one_order(ask: Asked) -> None:
    """The full timeline of an order comes by the moment of the change, its last entry by reverse and a limit of one."""
    found = await ask.data(
        """# Full timeline for one order — all entries sorted by changedAt ascending
        query {
          Plugin_OrderTrackingById(id: "order-123") {
            items { changedAt status total }
          }
        }"""
    )
    assert found == {"Plugin_OrderTrackingById": {"items": shown(TRACKING, "changed_at", "status", "total")}}
    found = await ask.data(
        """# Last status change — reverse sort, limit 1
        query {
          Plugin_OrderTrackingById(id: "order-123", reverse: true, limit: 1) {
            items { changedAt status }
          }
        }"""
    )
    assert found == {"Plugin_OrderTrackingById": {"items": shown(TRACKING[-1:], "changed_at", "status")}}


async def test_all_orders_by_a_customer(ask: Asked) -> None:
    """All orders of a customer come by the index on the customer, with every entry that knows the customer."""
    found = await ask.data(
        """# All orders by a customer (via standalone secondary index on customerId)
        query {
          Plugin_OrderTrackingByCustomerId(customerId: "cust-456") {
            items { orderId status total }
          }
        }"""
    )
    entries = sorted(
        all_of(RECORDS, OrderTracking, customer_id="cust-456"), key=lambda entry: (entry.order_id, entry.changed_at)
    )
    items = found["Plugin_OrderTrackingByCustomerId"]["items"]
    assert items == shown(entries, "order_id", "status", "total")[:50]
    assert {item["orderId"] for item in items} == {
        order.order_id for order in all_of(RECORDS, Order, customer_id="cust-456")
    }


async def test_all_shipped_orders(ask: Asked) -> None:
    """All orders that were shipped come newest first, by the index on the status."""
    found = await ask.data(
        """# All "shipped" orders, newest first (via named secondary index "byStatus" with changedAt sort key)
        query {
          Plugin_OrderTrackingByStatus(status: "shipped", reverse: true) {
            items { orderId changedAt }
          }
        }"""
    )
    shipped = sorted(all_of(RECORDS, OrderTracking, status="shipped"), key=lambda entry: entry.changed_at, reverse=True)
    assert found == {"Plugin_OrderTrackingByStatus": {"items": shown(shipped, "order_id", "changed_at")}}
    assert len(shipped) > 5


async def test_one_order_with_its_customer(ask: Asked) -> None:
    """One order comes as it stands now, with the customer that it names."""
    found = await ask.data(
        """# Single order with expanded customer object (via @resolves)
        query {
          Plugin_OrderTracking(id: "order-123") {
            orderId status total
            customer { name email }
          }
        }"""
    )
    (customer,) = all_of(RECORDS, Customer, customer_id="cust-456")
    (order,) = shown(TRACKING[-1:], "order_id", "status", "total")
    assert found == {"Plugin_OrderTracking": {**order, "customer": {"name": customer.name, "email": customer.email}}}


def test_generated_queries() -> None:
    """The fields of the guide's table are there, with the arguments and types that it prints; further ones may be."""
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
        assert {word: kind for word, kind in arguments.items() if kind.endswith("!")} == required
    conditions = {"eq": "String", "prefix": "String", "from": "String", "to": "String"}
    paging = {"reverse": "Boolean", "limit": "Int", "nextToken": "String"}
    by_id = {word: str(argument.type) for word, argument in query.fields["Plugin_OrderTrackingById"].args.items()}
    assert by_id.items() >= {**conditions, **paging}.items()


async def test_pages_have_items_and_a_token(ask: Asked) -> None:
    """A page has the guide's two fields, of the guide's types."""
    found = await ask.data(
        """{ __type(name: "Plugin_OrderHistoryConnection") {
             fields { name type { kind name ofType { kind ofType { ofType { name } } } } } } }"""
    )
    fields = {field["name"]: field["type"] for field in found["__type"]["fields"]}
    assert fields["items"]["ofType"]["kind"] == "LIST"
    assert fields["items"]["ofType"]["ofType"]["ofType"]["name"] == "Plugin_OrderHistory"
    assert (fields["nextToken"]["kind"], fields["nextToken"]["name"]) == ("SCALAR", "String")
