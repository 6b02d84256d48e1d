"""What each kind of key and index becomes: fields with exactly these arguments, which find what they should."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import strawberry

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp, desc, stored
from graphql_api.schema.graph import Graph, build_schema
from tests.schema.asking import asked


class Totals(Entity):
    """There is one."""

    orders: int = 0


class Product(Entity, shards=Shards(3)):
    """The present state of a thing."""

    product_id: Id[str]
    category: str
    price: float
    created: Created[Timestamp] = 0

    by_category = Index(hash="category", sort=desc("price"))
    by_price = Index(hash="category", sort=["created", "price"])
    by_created = Index(sort="created")
    by_name = Index(sort="product_id", raw=True, name="rawName")


class OrderTracking(Entity):
    """Every status an order went through."""

    order_id: Id[str]
    changed_at: SubId[str]
    customer_id: str | None = None
    status: str
    total: float

    by_customer_id = Index(hash="customer_id")
    by_status = Index(hash="status", sort="changed_at")


class Component(Entity):
    """Versions of a part of a system."""

    environment: Id[str]
    plugin_name: Id[str]
    category: SubId[str]
    number: SubId[int]
    note: str = ""


class Log(Entity):
    """One history for all."""

    at: SubId[int]
    text: str


CATALOG = Catalog(Totals, Product, OrderTracking, Component, Log)
PAGES = {"limit": "Int", "nextToken": "String", "first": "Int", "after": "String", "last": "Int", "before": "String"}
ENTITY_FILTERS = {"ProductFilter", "OrderTrackingFilter", "Plugin_OrderTrackingFilter", "ComponentFilter", "LogFilter"}
REST = {"reverse": "Boolean", **PAGES, "onShardFailure": "OnShardFailure"}


def fields_of(schema: strawberry.Schema) -> dict[str, dict[str, str]]:
    """The fields of the query, each with its arguments and their types; what every search takes is left out."""
    query = schema._schema.query_type
    assert query is not None
    found = {}
    for name, field in query.fields.items():
        arguments = {word: str(argument.type) for word, argument in field.args.items()}
        if "nextToken" in arguments:
            taken = REST if "reverse" in arguments else {**PAGES, "onShardFailure": "OnShardFailure"}
            taken = {**taken, "filter": arguments["filter"]}
            assert taken["filter"] in ENTITY_FILTERS
            assert {word: arguments.pop(word) for word in taken} == taken
        found[name] = arguments
    return found


def test_fields_and_arguments() -> None:
    """A singleton, an entity, a history and a composite have these fields; conditions fit the type of the property."""
    text = {"eq": "String", "prefix": "String", "from": "String", "to": "String"}
    assert fields_of(build_schema(CATALOG)) == {
        "totals": {},
        "product": {"id": "ID!"},
        "productById": {"id": "ID", **text, "productId": "StringCondition"},
        "productByCategory": {
            "category": "String!",
            **dict.fromkeys(("eq", "from", "to"), "Float"),
            "price": "FloatCondition",
        },
        "productByPrice": {
            "category": "String!",
            **dict.fromkeys(("eq", "from", "to"), "Timestamp"),
            "created": "TimestampCondition",
            "price": "FloatCondition",
        },
        "productByCreated": {
            **dict.fromkeys(("eq", "from", "to"), "Timestamp"),
            "created": "TimestampCondition",
        },
        "productByName": {**text, "productId": "StringCondition"},
        "products": {"category": "String!", "orderBy": "ProductOrder!"},
        "allProducts": {"orderBy": "AllProductsOrder!"},
        "orderTracking": {"id": "ID!", "changedAt": "String"},
        "orderTrackingById": {"id": "ID!", **text, "changedAt": "StringCondition"},
        "orderTrackingByCustomerId": {"customerId": "String!"},
        "orderTrackingByStatus": {"status": "String!", **text, "changedAt": "StringCondition"},
        "orderTrackings": {"customerId": "String!", "orderBy": "OrderTrackingOrder!"},
        "orderTrackingsByStatus": {"status": "String!", "orderBy": "OrderTrackingByStatusOrder!"},
        "component": {"id": "ID!", "category": "String", "number": "BigInt"},
        "componentById": {"id": "ID!", **text, "category": "StringCondition", "number": "BigIntCondition"},
        "log": {"at": "BigInt"},
        "logById": {**dict.fromkeys(("eq", "from", "to"), "BigInt"), "at": "BigIntCondition"},
        "logs": {"orderBy": "LogOrder!"},
        "node": {"id": "ID!"},
        "nodes": {"ids": "[ID!]!"},
    }


async def test_orders_of_lists(tmp_path: Path) -> None:
    """An enum names exactly the orders that an index can serve, each both ways, and a list comes in any of them."""
    products = [
        Product(product_id=f"p{number}", category="c", price=float(number % 3), created=-number) for number in range(7)
    ]
    orders = {
        "PRICE_DESC": lambda one: (-one.price, one.product_id),
        "CREATED_ASC_PRICE_ASC": lambda one: (one.created, one.price, one.product_id),
    }
    async with asked(CATALOG, tmp_path, *products) as ask:
        listed = await ask.data('{ __type(name: "ProductOrder") { enumValues { name } } }')
        names = [value["name"] for value in listed["__type"]["enumValues"]]
        assert names == ["PRICE_DESC", "PRICE_ASC", "CREATED_ASC_PRICE_ASC", "CREATED_DESC_PRICE_DESC"]
        for at, name in enumerate(names):
            forward = names[at - at % 2]
            found = await ask.data(f'{{ page: products(category: "c", orderBy: {name}) {{ items {{ productId }} }} }}')
            expected = [one.product_id for one in sorted(products, key=orders[forward])]
            ids = [item["productId"] for item in found["page"]["items"]]
            assert ids == (expected if name == forward else expected[::-1])


async def test_a_singleton(tmp_path: Path) -> None:
    """The one record of its entity is found without any argument, and is null before it is written."""
    async with asked(CATALOG, tmp_path) as ask:
        assert await ask.data("{ totals { orders } }") == {"totals": None}
        await ask.db.put(Totals(orders=3))
        assert await ask.data("{ totals { orders } }") == {"totals": {"orders": "3"}}


HISTORY = [OrderTracking(order_id="o-1", changed_at=f"2026-0{month}", status="paid", total=1) for month in range(1, 6)]


async def test_a_history(tmp_path: Path) -> None:
    """A history is found entry by entry, the last one without a sub id, and as a page under all conditions."""
    other = OrderTracking(order_id="o-2", changed_at="2026-09", customer_id="c", status="sent", total=1.5)
    async with asked(CATALOG, tmp_path, *HISTORY, other) as ask:
        entry = await ask.data(
            """{
              one: orderTracking(id: "o-1", changedAt: "2026-02") { changedAt }
              last: orderTracking(id: "o-1") { changedAt }
              none: orderTracking(id: "o-1", changedAt: "2020") { changedAt }
              nobody: orderTracking(id: "o-3") { total }
            }"""
        )
        assert entry == {
            "one": {"changedAt": "2026-02"},
            "last": {"changedAt": "2026-05"},
            "none": None,
            "nobody": None,
        }
        for given, months in (
            ("", "12345"),
            ("reverse: true, limit: 2", "54"),
            ('eq: "2026-03"', "3"),
            ('from: "2026-02", to: "2026-04"', "234"),
            ('changedAt: {between: {from: "2026-02", to: "2026-04"}}', "234"),
            ('prefix: "2026-0", first: 3', "123"),
            ("last: 2", "45"),
        ):
            page = await ask.data(f'{{ page: orderTrackingById(id: "o-1", {given}) {{ items {{ changedAt }} }} }}')
            assert [item["changedAt"][-1] for item in page["page"]["items"]] == [*months], given
        customer = await ask.data('{ page: orderTrackingByCustomerId(customerId: "c") { items { orderId } } }')
        assert customer == {"page": {"items": [{"orderId": "o-2"}]}}


async def test_a_composite(tmp_path: Path) -> None:
    """A composite id is one text with its parts between separators, and so is what is asked of a composite sub id."""
    parts = [
        Component(environment="prod/eu", plugin_name="100%", category=category, number=number)
        for category, number in (("electronics", 9), ("electronics", 10), ("elec", 1), ("tools", 2))
    ]
    async with asked(CATALOG, tmp_path, *parts) as ask:
        one = (
            '{ one: component(id: "prod%2Feu/100%25", category: "elec", number: 1) { environment pluginName number } }'
        )
        assert await ask.data(one) == {"one": {"environment": "prod/eu", "pluginName": "100%", "number": "1"}}
        for given, numbers in (
            ("", ["1", "9", "10", "2"]),
            ('prefix: "electronics/"', ["9", "10"]),
            ('prefix: "elec"', ["1", "9", "10"]),
            ('eq: "electronics/10"', ["10"]),
            ('from: "electronics/10"', ["10", "2"]),
            ('to: "electronics"', ["1", "9", "10"]),
            ('category: {eq: "electronics"}, number: {to: 9}', ["9"]),
            ('category: {eq: "electronics"}, number: {between: {from: "10", to: 11}}, reverse: true', ["10"]),
        ):
            page = await ask.data(
                f'{{ page: componentById(id: "prod%2Feu/100%25", {given}) {{ items {{ number }} }} }}'
            )
            assert [item["number"] for item in page["page"]["items"]] == numbers, given


async def test_one_history_for_all(tmp_path: Path) -> None:
    """An entity with a sub id alone is one history, whose last entry comes without any argument."""
    async with asked(CATALOG, tmp_path, *(Log(at=at, text=f"t{at}") for at in (3, -5, 12))) as ask:
        found = await ask.data("{ log { text } first: log(at: -5) { text } logById(from: 3) { items { at } } }")
        assert found == {
            "log": {"text": "t12"},
            "first": {"text": "t-5"},
            "logById": {"items": [{"at": "3"}, {"at": "12"}]},
        }


# --- namespaces ------------------------------------------------------------------------------------------------


def test_names_of_a_namespace() -> None:
    """With a namespace every field and type is called as its namespace, an underscore and the class."""
    graph = Graph(Catalog(OrderTracking, namespace="Plugin"))
    assert [*fields_of(graph.schema)] == [
        "Plugin_OrderTracking",
        "Plugin_OrderTrackingById",
        "Plugin_OrderTrackingByCustomerId",
        "Plugin_OrderTrackingByStatus",
        "Plugin_OrderTrackings",
        "Plugin_OrderTrackingsByStatus",
        "node",
        "nodes",
    ]
    own = {name for name in graph.read_only_schema._schema.type_map if name.startswith("Plugin_")}
    assert own == {
        "Plugin_OrderTracking",
        "Plugin_OrderTrackingConnection",
        "Plugin_OrderTrackingEdge",
        "Plugin_OrderTrackingFilter",
        "Plugin_OrderTrackingOrder",
        "Plugin_OrderTrackingByStatusOrder",
    }


async def test_queries_of_the_key_design_guide(tmp_path: Path) -> None:
    """Queries that clients of such read models have, run as they are."""
    catalog = Catalog(OrderTracking, Totals, namespace="Plugin")
    sent = [
        OrderTracking(order_id=f"order-{at}", changed_at=f"2026-0{at}", customer_id="cust-456", status="sent", total=at)
        for at in range(1, 4)
    ]
    async with asked(catalog, tmp_path, *HISTORY, *sent) as ask:
        found = await ask.data(
            """query {
              Plugin_OrderTrackingById(id: "o-1", reverse: true, limit: 1) { items { changedAt status } nextToken }
            }"""
        )
        page = found["Plugin_OrderTrackingById"]
        assert page["items"] == [{"changedAt": "2026-05", "status": "paid"}]
        assert page["nextToken"]
        found = await ask.data(
            """query {
              Plugin_OrderTrackingByStatus(status: "sent", reverse: true) { items { orderId changedAt } }
              Plugin_OrderTrackingByCustomerId(customerId: "cust-456") { items { orderId total } }
              Plugin_OrderTracking(id: "order-2") { orderId status total }
              Plugin_Totals { orders }
            }"""
        )
        assert [item["orderId"] for item in found["Plugin_OrderTrackingByStatus"]["items"]] == [
            "order-3",
            "order-2",
            "order-1",
        ]
        assert len(found["Plugin_OrderTrackingByCustomerId"]["items"]) == 3
        assert found["Plugin_OrderTracking"] == {"orderId": "order-2", "status": "sent", "total": 2.0}
        assert found["Plugin_Totals"] is None


async def test_two_catalogs_with_one_enum() -> None:
    """Catalogs that share an enum each have a type of their own for it, and the class is left as it was."""

    class Level(Enum):
        LOW = "low"
        HIGH = "high"

    class Task(Entity):
        task_id: Id[str]
        level: Level

        by_level = Index(sort="level")

    for namespace in ("One", "Two", None):
        types = build_schema(Catalog(Task, namespace=namespace))._schema.type_map
        prefix = f"{namespace}_" if namespace else ""
        assert f"{prefix}Level" in types
        assert f"{prefix}LevelCondition" in types
        assert f"{prefix}LevelFilter" in types
        assert sum("Level" in name for name in types) == 4
    assert "__strawberry_definition__" not in vars(Level)


# --- awkward names ---------------------------------------------------------------------------------------------


async def test_properties_called_like_arguments_and_keywords(tmp_path: Path) -> None:
    """A property may be called like an argument, a keyword of Python or the record's id; stored names play no part."""

    class Odd(Entity):
        id: Id[str]
        limit: int
        from_: str
        next_token: str
        class_: str
        info: str
        self_: str
        order_by: str
        filter: str
        amount: Annotated[int, stored("amt")]

        by_from = Index(hash="limit", sort=["from_", "next_token", "class_"], name="odd1")
        by_words = Index(hash="order_by", sort=["info", "self_", "filter"], name="odd2")
        by_amount = Index(sort="amount")

    texts = {"id": "i", "from_": "f", "next_token": "n", "class_": "c", "info": "i", "self_": "s", "order_by": "o"}
    odd = Odd.model_validate({**texts, "filter": "x", "limit": 1, "amount": 5})
    async with asked(Catalog(Odd), tmp_path, odd) as ask:
        found = await ask.data(
            """{
              odd(id: "i") { rowId limit from nextToken class info self orderBy filter amount }
              a: oddByFrom(limit_: 1, from_: {eq: "f"}, nextToken_: {eq: "n"}, class: {prefix: "c"}) { ...ids }
              b: oddByFrom(limit_: 1, from: "a", to: "g") { ...ids }
              c: oddByWords(orderBy_: "o", info_: {eq: "i"}, self: {eq: "s"}, filter_: {eq: "x"}) { ...ids }
              d: odds(limit_: 1, orderBy: FROM_ASC_NEXT_TOKEN_ASC_CLASS_ASC) { ...ids }
              e: oddsByOrderBy(orderBy_: "o", orderBy: INFO_ASC_SELF_ASC_FILTER_ASC) { ...ids }
              f: oddByAmount(amount: {eq: 5}) { ...ids }
              g: oddById(rowId: {eq: "i"}) { ...ids }
              h: oddById(id: "i") { ...ids }
            } fragment ids on OddConnection { items { rowId } }"""
        )
        assert found.pop("odd") == {
            "rowId": "i",
            "limit": "1",
            "from": "f",
            "nextToken": "n",
            "class": "c",
            "info": "i",
            "self": "s",
            "orderBy": "o",
            "filter": "x",
            "amount": "5",
        }
        assert [*found] == [*"abcdefgh"]
        assert all(page == {"items": [{"rowId": "i"}]} for page in found.values())
