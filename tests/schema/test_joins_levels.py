"""How many steps, calls and keys joined records take, on every engine: siblings are read together."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, HasMany, Id, Index, Ref, RefMany, Shards, SubId, Timestamp
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.dynamodb_local import ENGINE, Server
from tests.levels import LevelStore
from tests.schema.asking import Asked, asking, opened

GENERATIONS = Shards(1).then(4, since=1_000).then(16, since=2_000)


class Customer(Entity, shards=GENERATIONS):
    """Somebody who orders."""

    customer_id: Id[str]
    created: Created[Timestamp]
    name: str


class Product(Entity, shards=GENERATIONS):
    """Something that is ordered."""

    product_id: Id[str]
    created: Created[Timestamp]
    name: str
    maker_id: str

    maker = Ref("Customer", by="maker_id")


class Change(Entity, shards=GENERATIONS):
    """An entry of an order's history."""

    order_id: Id[str]
    at: SubId[int]
    created: Created[Timestamp]
    status: str


class Order(Entity, shards=GENERATIONS):
    """Something that was ordered."""

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
class Opened:
    """All of it on an engine, asked through a store that shows levels."""

    ask: Asked
    store: LevelStore


Open = Callable[[], AbstractAsyncContextManager[Opened]]


@pytest.fixture(params=["sqlite", ENGINE])
def open_orders(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the orders on an engine."""
    server: Server | None = request.getfixturevalue("dynamodb") if request.param == ENGINE else None

    @asynccontextmanager
    async def open_one() -> AsyncIterator[Opened]:
        inner = await (server.open(f"orders-{tmp_path.name}") if server else open_sqlite(tmp_path / "x.db"))
        async with opened(CATALOG, inner, *CUSTOMERS, *PRODUCTS, *CHANGES, *ORDERS) as db:
            ask = asking(db)
            store = LevelStore(ask.store.inner)
            ask.store.inner = store
            yield Opened(ask, store)

    return open_one


def customer_of(order: Order) -> Any:
    """What the answer says of an order's customer."""
    return next(({"name": one.name} for one in CUSTOMERS if one.customer_id == order.customer_id), None)


def products_of(order: Order) -> list[Any]:
    """What the answer says of an order's products."""
    known = {one.product_id: {"name": one.name, "maker": {"name": f"Name {one.maker_id[1:]}"}} for one in PRODUCTS}
    return [known.get(id) for id in order.product_ids]


def changes_of(order: Order) -> list[Any]:
    """The history of an order, the last entry first."""
    return [{"at": str(one.at)} for one in CHANGES if one.order_id == order.order_id][::-1]


async def test_a_page_with_all_that_it_joins(open_orders: Open) -> None:
    """50 orders with customers, products and their makers, and the ends of histories, take three steps of calls."""
    async with open_orders() as orders:
        found = (await orders.ask.data(PAGE))["orderByShop"]
        assert len(found["items"]) == 50
        assert found["nextToken"]
        for item, order in zip(found["items"], ORDERS, strict=False):
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
        assert len(histories) == 50
        assert all(len(call.reads) <= 3 for call in histories), "an id has at most one place in each generation"
        customers = {order.customer_id for order in ORDERS[:50]}
        products = {id for order in ORDERS[:50] for id in order.product_ids}
        assert len(by_key[0].keys) == len(set(by_key[0].keys)) <= 3 * (len(customers) + len(products))
        assert {key.range for key in by_key[0].keys} == {f"customerId#{id}" for id in customers} | {
            f"productId#{id}" for id in products
        }
        assert [bool(call.keys) for call in makers] == [True]


async def test_every_token_of_a_child_walks_to_its_end(open_orders: Open) -> None:
    """The token of each child goes on where the child ended, in the joined field and in the query's own, to the end."""
    async with open_orders() as orders:
        found = (await orders.ask.data(PAGE))["orderByShop"]["items"]
        walked = 0
        for item, order in zip(found, ORDERS, strict=False):
            entries, token = item["history"]["items"], item["history"]["nextToken"]
            rooted = len(entries) % 2 == 0
            while token is not None:
                walked += 1
                history = "(id: $id, reverse: true, limit: 2, nextToken: $t) { nextToken items { at } }"
                if rooted := not rooted:
                    query = f"query ($id: ID!, $t: String) {{ page: changeById{history} }}"
                    page = (await orders.ask.data(query, {"id": order.order_id, "t": token}))["page"]
                else:
                    history = history.replace("id: $id, ", "")
                    query = f"query ($id: ID!, $t: String) {{ order(id: $id) {{ page: history{history} }} }}"
                    page = (await orders.ask.data(query, {"id": order.order_id, "t": token}))["order"]["page"]
                entries, token = entries + page["items"], page["nextToken"]
            assert entries == changes_of(order)
        assert walked > 40


async def test_records_of_one_level_are_one_call(open_orders: Open) -> None:
    """Fields that lie differently deep in pages of records still read together, and every record once."""
    async with open_orders() as orders:
        query = """{
          a: orderByShop(shop: "rome", limit: 5) { items { customer { name } } }
          b: orderByShop(shop: "rome", limit: 5) {
            edges { node { customer { name } again: customer { customerId } products { name } } }
          }
        }"""
        found = await orders.ask.data(query)
        assert [item["customer"] for item in found["a"]["items"]] == [customer_of(order) for order in ORDERS[:5]]
        page, children = orders.store.levels
        assert len(page) == 1, "two searches for the same are one"
        assert len(children) == 1
        ids = {order.customer_id for order in ORDERS[:5]} | {id for order in ORDERS[:5] for id in order.product_ids}
        assert len({key.range for key in children[0].keys}) == len(ids)


async def test_more_keys_than_one_batch_takes(open_orders: Open) -> None:
    """More than a hundred keys are one step too: the engine sends them in as many requests as it needs."""
    async with open_orders() as orders:
        found = await orders.ask.data('{ orderByShop(shop: "rome", last: 55) { items { products { name } } } }')
        names = [[name and {"name": name["name"]} for name in products_of(order)] for order in ORDERS]
        assert [item["products"] for item in found["orderByShop"]["items"]] == names
        _, (children,) = orders.store.levels
        assert len(children.keys) > 80
