"""The fields and arguments generated for each kind of key and index, and their results."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import strawberry

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp, desc, stored
from graphql_api.schema.graph import Graph, build_schema
from tests.schema.graphql_client import open_client


class Totals(Entity):
    """A singleton."""

    orders: int = 0


class Product(Entity, shards=Shards(3)):
    """A product with indexes of several sort properties."""

    product_id: Id[str]
    category: str
    price: float
    created: Created[Timestamp] = 0

    by_category = Index(hash="category", sort=desc("price"))
    by_price = Index(hash="category", sort=["created", "price"])
    by_created = Index(sort="created")
    by_name = Index(sort="product_id", raw=True, name="rawName")


class OrderTracking(Entity):
    """The status history of an order."""

    order_id: Id[str]
    changed_at: SubId[str]
    customer_id: str | None = None
    status: str
    total: float

    by_customer_id = Index(hash="customer_id")
    by_status = Index(hash="status", sort="changed_at")


class Component(Entity):
    """The versions of a component, with composite ids."""

    environment: Id[str]
    plugin_name: Id[str]
    category: SubId[str]
    number: SubId[int]
    note: str = ""


class Log(Entity):
    """An entity with only a sub id."""

    at: SubId[int]
    text: str


CATALOG = Catalog(Totals, Product, OrderTracking, Component, Log)
PAGES = {"limit": "Int", "nextToken": "String", "first": "Int", "after": "String", "last": "Int", "before": "String"}
ENTITY_FILTERS = {"ProductFilter", "OrderTrackingFilter", "Plugin_OrderTrackingFilter", "ComponentFilter", "LogFilter"}
COMMON_ARGUMENTS = {"reverse": "Boolean", **PAGES, "onShardFailure": "OnShardFailure"}


def fields_of(schema: strawberry.Schema) -> dict[str, dict[str, str]]:
    """Return the query fields with the types of their arguments, without the arguments common to all searches."""
    query = schema._schema.query_type
    assert query is not None
    fields = {}
    for name, field in query.fields.items():
        arguments = {word: str(argument.type) for word, argument in field.args.items()}
        if "nextToken" in arguments:
            taken = COMMON_ARGUMENTS if "reverse" in arguments else {**PAGES, "onShardFailure": "OnShardFailure"}
            taken = {**taken, "filter": arguments["filter"]}
            assert taken["filter"] in ENTITY_FILTERS
            assert {word: arguments.pop(word) for word in taken} == taken
        fields[name] = arguments
    return fields


def one_or_more(hash_property: str) -> dict[str, str]:
    """Return the arguments of a hash property: one value, or a list of values."""
    return {hash_property: "String", f"{hash_property}In": "[String!]"}


def test_fields_and_arguments() -> None:
    """Each kind of entity has exactly these fields, and conditions have the type of their property."""
    text = {"eq": "String", "prefix": "String", "from": "String", "to": "String"}
    assert fields_of(build_schema(CATALOG)) == {
        "totals": {},
        "product": {"id": "ID!"},
        "productById": {"id": "ID", **text, "productId": "StringCondition"},
        "productByCategory": {
            **one_or_more("category"),
            **dict.fromkeys(("eq", "from", "to"), "Float"),
            "price": "FloatCondition",
        },
        "productByPrice": {
            **one_or_more("category"),
            **dict.fromkeys(("eq", "from", "to"), "Timestamp"),
            "created": "TimestampCondition",
            "price": "FloatCondition",
        },
        "productByCreated": {
            **dict.fromkeys(("eq", "from", "to"), "Timestamp"),
            "created": "TimestampCondition",
        },
        "productByName": {**text, "productId": "StringCondition"},
        "products": {**one_or_more("category"), "orderBy": "ProductOrder!"},
        "allProducts": {"orderBy": "AllProductsOrder!"},
        "orderTracking": {"id": "ID!", "changedAt": "String"},
        "orderTrackingById": {"id": "ID!", **text, "changedAt": "StringCondition"},
        "orderTrackingByCustomerId": {**one_or_more("customerId")},
        "orderTrackingByStatus": {**one_or_more("status"), **text, "changedAt": "StringCondition"},
        "orderTrackings": {**one_or_more("customerId"), "orderBy": "OrderTrackingOrder!"},
        "orderTrackingsByStatus": {**one_or_more("status"), "orderBy": "OrderTrackingByStatusOrder!"},
        "component": {"id": "ID!", "category": "String", "number": "BigInt"},
        "componentById": {"id": "ID!", **text, "category": "StringCondition", "number": "BigIntCondition"},
        "log": {"at": "BigInt"},
        "logById": {**dict.fromkeys(("eq", "from", "to"), "BigInt"), "at": "BigIntCondition"},
        "logs": {"orderBy": "LogOrder!"},
        "node": {"id": "ID!"},
        "nodes": {"ids": "[ID!]!"},
    }


async def test_orders_of_lists(tmp_path: Path) -> None:
    """The order enum contains exactly the index orders in both directions, and lists support each."""
    products = [
        Product(product_id=f"p{number}", category="c", price=float(number % 3), created=-number) for number in range(7)
    ]
    orders = {
        "PRICE_DESC": lambda one: (-one.price, one.product_id),
        "CREATED_ASC_PRICE_ASC": lambda one: (one.created, one.price, one.product_id),
    }
    async with open_client(CATALOG, tmp_path, *products) as client:
        listed = await client.data('{ __type(name: "ProductOrder") { enumValues { name } } }')
        names = [value["name"] for value in listed["__type"]["enumValues"]]
        assert names == ["PRICE_DESC", "PRICE_ASC", "CREATED_ASC_PRICE_ASC", "CREATED_DESC_PRICE_DESC"]
        for at, name in enumerate(names):
            forward = names[at - at % 2]
            data = await client.data(
                f'{{ page: products(category: "c", orderBy: {name}) {{ items {{ productId }} }} }}'
            )
            expected = [one.product_id for one in sorted(products, key=orders[forward])]
            ids = [item["productId"] for item in data["page"]["items"]]
            assert ids == (expected if name == forward else expected[::-1])


async def test_a_singleton(tmp_path: Path) -> None:
    """A singleton is returned without arguments, and is null before its first write."""
    async with open_client(CATALOG, tmp_path) as client:
        assert await client.data("{ totals { orders } }") == {"totals": None}
        await client.db.put(Totals(orders=3))
        assert await client.data("{ totals { orders } }") == {"totals": {"orders": "3"}}


HISTORY = [OrderTracking(order_id="o-1", changed_at=f"2026-0{month}", status="paid", total=1) for month in range(1, 6)]


async def test_a_history(tmp_path: Path) -> None:
    """A history returns one entry by sub id, the last entry without, and pages with all conditions."""
    other = OrderTracking(order_id="o-2", changed_at="2026-09", customer_id="c", status="sent", total=1.5)
    async with open_client(CATALOG, tmp_path, *HISTORY, other) as client:
        entry = await client.data(
            """{
              one: orderTracking(id: "o-1", changedAt: "2026-02") { changedAt }
              last: orderTracking(id: "o-1") { changedAt }
              none: orderTracking(id: "o-1", changedAt: "2020") { changedAt }
              missing: orderTracking(id: "o-3") { total }
            }"""
        )
        assert entry == {
            "one": {"changedAt": "2026-02"},
            "last": {"changedAt": "2026-05"},
            "none": None,
            "missing": None,
        }
        for arguments, months in (
            ("", "12345"),
            ("reverse: true, limit: 2", "54"),
            ('eq: "2026-03"', "3"),
            ('from: "2026-02", to: "2026-04"', "234"),
            ('changedAt: {between: {from: "2026-02", to: "2026-04"}}', "234"),
            ('prefix: "2026-0", first: 3', "123"),
            ("last: 2", "45"),
        ):
            page = await client.data(
                f'{{ page: orderTrackingById(id: "o-1", {arguments}) {{ items {{ changedAt }} }} }}'
            )
            assert [item["changedAt"][-1] for item in page["page"]["items"]] == [*months], arguments
        customer = await client.data('{ page: orderTrackingByCustomerId(customerId: "c") { items { orderId } } }')
        assert customer == {"page": {"items": [{"orderId": "o-2"}]}}


async def test_composite_ids(tmp_path: Path) -> None:
    """Composite ids, and conditions on composite sub ids, are texts of parts joined by separators."""
    parts = [
        Component(environment="prod/eu", plugin_name="100%", category=category, number=number)
        for category, number in (("electronics", 9), ("electronics", 10), ("elec", 1), ("tools", 2))
    ]
    async with open_client(CATALOG, tmp_path, *parts) as client:
        one = (
            '{ one: component(id: "prod%2Feu/100%25", category: "elec", number: 1) { environment pluginName number } }'
        )
        assert await client.data(one) == {"one": {"environment": "prod/eu", "pluginName": "100%", "number": "1"}}
        for arguments, numbers in (
            ("", ["1", "9", "10", "2"]),
            ('prefix: "electronics/"', ["9", "10"]),
            ('prefix: "elec"', ["1", "9", "10"]),
            ('eq: "electronics/10"', ["10"]),
            ('from: "electronics/10"', ["10", "2"]),
            ('to: "electronics"', ["1", "9", "10"]),
            ('category: {eq: "electronics"}, number: {to: 9}', ["9"]),
            ('category: {eq: "electronics"}, number: {between: {from: "10", to: 11}}, reverse: true', ["10"]),
        ):
            page = await client.data(
                f'{{ page: componentById(id: "prod%2Feu/100%25", {arguments}) {{ items {{ number }} }} }}'
            )
            assert [item["number"] for item in page["page"]["items"]] == numbers, arguments


async def test_an_entity_with_only_a_sub_id(tmp_path: Path) -> None:
    """An entity with only a sub id is one history. Its last entry is returned without arguments."""
    async with open_client(CATALOG, tmp_path, *(Log(at=at, text=f"t{at}") for at in (3, -5, 12))) as client:
        data = await client.data("{ log { text } first: log(at: -5) { text } logById(from: 3) { items { at } } }")
        assert data == {
            "log": {"text": "t12"},
            "first": {"text": "t-5"},
            "logById": {"items": [{"at": "3"}, {"at": "12"}]},
        }


# --- namespaces ------------------------------------------------------------------------------------------------


def test_names_of_a_namespace() -> None:
    """With a namespace, names of fields and types are namespace, underscore and class name."""
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
    """The example queries of the key design guide run unchanged."""
    catalog = Catalog(OrderTracking, Totals, namespace="Plugin")
    sent = [
        OrderTracking(order_id=f"order-{at}", changed_at=f"2026-0{at}", customer_id="cust-456", status="sent", total=at)
        for at in range(1, 4)
    ]
    async with open_client(catalog, tmp_path, *HISTORY, *sent) as client:
        data = await client.data(
            """query {
              Plugin_OrderTrackingById(id: "o-1", reverse: true, limit: 1) { items { changedAt status } nextToken }
            }"""
        )
        page = data["Plugin_OrderTrackingById"]
        assert page["items"] == [{"changedAt": "2026-05", "status": "paid"}]
        assert page["nextToken"]
        data = await client.data(
            """query {
              Plugin_OrderTrackingByStatus(status: "sent", reverse: true) { items { orderId changedAt } }
              Plugin_OrderTrackingByCustomerId(customerId: "cust-456") { items { orderId total } }
              Plugin_OrderTracking(id: "order-2") { orderId status total }
              Plugin_Totals { orders }
            }"""
        )
        assert [item["orderId"] for item in data["Plugin_OrderTrackingByStatus"]["items"]] == [
            "order-3",
            "order-2",
            "order-1",
        ]
        assert len(data["Plugin_OrderTrackingByCustomerId"]["items"]) == 3
        assert data["Plugin_OrderTracking"] == {"orderId": "order-2", "status": "sent", "total": 2.0}
        assert data["Plugin_Totals"] is None


async def test_two_catalogs_with_one_enum() -> None:
    """Catalogs that share an enum class each have their own GraphQL type, and the class stays unchanged."""

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


# --- property names --------------------------------------------------------------------------------------------


async def test_properties_named_like_arguments_and_keywords(tmp_path: Path) -> None:
    """A property may have the name of an argument, a Python keyword or `id`. Stored names have no effect."""

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
    async with open_client(Catalog(Odd), tmp_path, odd) as client:
        data = await client.data(
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
        assert data.pop("odd") == {
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
        assert [*data] == [*"abcdefgh"]
        assert all(page == {"items": [{"rowId": "i"}]} for page in data.values())
