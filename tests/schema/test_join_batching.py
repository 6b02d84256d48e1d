"""Batching of joins on every engine: one level of joins takes one step of concurrent store calls."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, HasMany, Id, Index, Ref, RefMany, Shards, SubId, Timestamp
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.schema.graphql_client import GraphQLClient, client_for, open_database
from tests.support.dynamodb_servers import ENGINE, Server
from tests.support.store_levels import LevelStore

GENERATIONS = Shards(1).then(4, since=1_000).then(16, since=2_000)


class Customer(Entity, shards=GENERATIONS):
    """A customer."""

    customer_id: Id[str]
    created: Created[Timestamp]
    name: str


class Product(Entity, shards=GENERATIONS):
    """A product."""

    product_id: Id[str]
    created: Created[Timestamp]
    name: str
    maker_id: str

    maker = Ref("Customer", by="maker_id")


class Change(Entity, shards=GENERATIONS):
    """An entry of the history of an order."""

    order_id: Id[str]
    at: SubId[int]
    created: Created[Timestamp]
    status: str


class Order(Entity, shards=GENERATIONS):
    """An order of a customer for some products."""

    order_id: Id[str]
    created: Created[Timestamp]
    shop: str
    customer_id: str
    product_ids: list[str]

    by_shop = Index(hash="shop", sort="created")
    customer = Ref("Customer", by="customer_id")
    products = RefMany("Product", by="product_ids")
    history = HasMany("Change", via="by_id")


CATALOG = Catalog(Customer, Product, Change, Order)
CUSTOMERS = [Customer(customer_id=f"c{at}", created=at * 75, name=f"Name {at}") for at in range(40)]
PRODUCTS = [
    Product(product_id=f"p{at}", created=at * 100, name=f"Thing {at}", maker_id=f"c{20 + at % 20}") for at in range(30)
]
ORDERS = [
    Order(
        order_id=f"o{at:02d}",
        created=at * 55,
        shop="rome",
        customer_id=f"c{at % 20}" if at % 11 else "c99",
        product_ids=[f"p{(at * step) % 33}" for step in (1, 2, 1)],
    )
    for at in range(55)
]
CHANGES = [
    Change(order_id=order.order_id, at=number, created=order.created, status=f"s{number}")
    for at, order in enumerate(ORDERS)
    for number in range(at % 9)
]
PAGE = """query ($t: String) { orderByShop(shop: "rome", limit: 50, nextToken: $t) { nextToken items {
  orderId customer { name } products { name maker { name } } history(reverse: true, limit: 3) { nextToken items { at } }
} } }"""


@dataclass(frozen=True)
class OpenOrders:
    """A client for the orders, and its store, which records the levels of concurrent calls."""

    client: GraphQLClient
    store: LevelStore


OrdersOpener = Callable[[], AbstractAsyncContextManager[OpenOrders]]


@pytest.fixture(params=["sqlite", ENGINE])
def open_orders(request: pytest.FixtureRequest, tmp_path: Path) -> OrdersOpener:
    """A function that opens the orders on an engine."""
    server: Server | None = request.getfixturevalue("dynamodb") if request.param == ENGINE else None

    @asynccontextmanager
    async def open_on_engine() -> AsyncIterator[OpenOrders]:
        inner = await (server.open(f"orders-{tmp_path.name}") if server else open_sqlite(tmp_path / "x.db"))
        async with open_database(CATALOG, inner, *CUSTOMERS, *PRODUCTS, *CHANGES, *ORDERS) as db:
            client = client_for(db)
            store = LevelStore(client.store.inner)
            client.store.inner = store
            yield OpenOrders(client, store)

    return open_on_engine


def customer_of(order: Order) -> Any:
    """Return the expected customer of an order."""
    return next(({"name": one.name} for one in CUSTOMERS if one.customer_id == order.customer_id), None)


def products_of(order: Order) -> list[Any]:
    """Return the expected products of an order."""
    known = {one.product_id: {"name": one.name, "maker": {"name": f"Name {one.maker_id[1:]}"}} for one in PRODUCTS}
    return [known.get(id) for id in order.product_ids]


def changes_of(order: Order) -> list[Any]:
    """Return the expected history of an order, last entry first."""
    return [{"at": str(one.at)} for one in CHANGES if one.order_id == order.order_id][::-1]


async def test_a_page_with_nested_joins(open_orders: OrdersOpener) -> None:
    """A page of 50 orders with customers, products, makers and history pages takes three steps of calls."""
    async with open_orders() as orders:
        data = (await orders.client.data(PAGE))["orderByShop"]
        assert len(data["items"]) == 50
        assert data["nextToken"]
        for item, order in zip(data["items"], ORDERS, strict=False):
            history = changes_of(order)
            assert item["orderId"] == order.order_id
            assert item["customer"] == customer_of(order)
            assert item["products"] == products_of(order)
            assert item["history"]["items"] == history[:3]
            assert (item["history"]["nextToken"] is None) == (len(history) <= 3)
        page, children, makers = orders.store.levels
        assert [len(call.reads) for call in page] == [17]
        by_key = [call for call in children if call.keys]
        histories = [call for call in children if call.reads]
        assert len(by_key) == 1, "customers and products are one call"
        assert len(histories) == 1, "the histories of all orders are one call"
        assert len(histories[0].reads) <= 3 * 50, "an id has at most one hash key in each generation"
        customers = {order.customer_id for order in ORDERS[:50]}
        products = {id for order in ORDERS[:50] for id in order.product_ids}
        assert len(by_key[0].keys) == len(set(by_key[0].keys)) <= 3 * (len(customers) + len(products))
        assert {key.range for key in by_key[0].keys} == {f"customerId#{id}" for id in customers} | {
            f"productId#{id}" for id in products
        }
        assert [bool(call.keys) for call in makers] == [True]


async def test_tokens_of_joined_pages_lead_to_the_last_page(open_orders: OrdersOpener) -> None:
    """The token of each joined page continues the page, in the joined field and in the root field."""
    async with open_orders() as orders:
        items = (await orders.client.data(PAGE))["orderByShop"]["items"]
        pages_read = 0
        for item, order in zip(items, ORDERS, strict=False):
            entries, token = item["history"]["items"], item["history"]["nextToken"]
            use_root_field = len(entries) % 2 == 0
            while token is not None:
                pages_read += 1
                history = "(id: $id, reverse: true, limit: 2, nextToken: $t) { nextToken items { at } }"
                if use_root_field := not use_root_field:
                    query = f"query ($id: ID!, $t: String) {{ page: changeById{history} }}"
                    page = (await orders.client.data(query, {"id": order.order_id, "t": token}))["page"]
                else:
                    history = history.replace("id: $id, ", "")
                    query = f"query ($id: ID!, $t: String) {{ order(id: $id) {{ page: history{history} }} }}"
                    page = (await orders.client.data(query, {"id": order.order_id, "t": token}))["order"]["page"]
                entries, token = entries + page["items"], page["nextToken"]
            assert entries == changes_of(order)
        assert pages_read > 40


async def test_records_of_one_level_are_one_call(open_orders: OrdersOpener) -> None:
    """Fields at different depths share one call per level, and each record is read once."""
    async with open_orders() as orders:
        query = """{
          a: orderByShop(shop: "rome", limit: 5) { items { customer { name } } }
          b: orderByShop(shop: "rome", limit: 5) {
            edges { node { customer { name } again: customer { customerId } products { name } } }
          }
        }"""
        data = await orders.client.data(query)
        assert [item["customer"] for item in data["a"]["items"]] == [customer_of(order) for order in ORDERS[:5]]
        page, children = orders.store.levels
        assert len(page) == 1, "two searches for the same are one"
        assert len(children) == 1
        ids = {order.customer_id for order in ORDERS[:5]} | {id for order in ORDERS[:5] for id in order.product_ids}
        assert len({key.range for key in children[0].keys}) == len(ids)


async def test_more_keys_than_one_batch_takes(open_orders: OrdersOpener) -> None:
    """More than 100 keys still take one step. The engine splits them into several requests."""
    async with open_orders() as orders:
        data = await orders.client.data('{ orderByShop(shop: "rome", last: 55) { items { products { name } } } }')
        names = [[name and {"name": name["name"]} for name in products_of(order)] for order in ORDERS]
        assert [item["products"] for item in data["orderByShop"]["items"]] == names
        _, (children,) = orders.store.levels
        assert len(children.keys) > 80
