"""Searches and joins with several values of a hash property."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, HasMany, Id, Index, Shards, open_catalog
from graphql_api.database import Database
from graphql_api.errors import InvalidCatalog, ShardQLError, TokenMismatch
from graphql_api.schema.graph import Graph
from tests.schema.graphql_client import open_client


class Order(Entity, shards=Shards(4)):
    """An order of a customer."""

    order_id: Id[str]
    customer_id: str
    state: str = "open"
    at: int

    by_customer = Index(hash="customer_id", sort="at")
    by_customer_state = Index(hash=["customer_id", "state"], sort="at")


class Team(Entity):
    """A team that looks after several customers."""

    team_id: Id[str]
    customer_ids: list[str] | None = None

    orders = HasMany("Order", via="by_customer", by="customer_ids")


CATALOG = Catalog(Order, Team)
ORDERS = [Order(order_id=f"o{at:02}", customer_id="abc"[at % 3], state="xy"[at % 2], at=at // 2) for at in range(30)]
TEAMS = [Team(team_id="1", customer_ids=["b", "a", "a", ""]), Team(team_id="2"), Team(team_id="3", customer_ids=[])]


async def all_pages(client: Any, field: str, arguments: str, path: Sequence[str] = ()) -> list[str]:
    """The ids of all pages of a field."""
    found: list[str] = []
    token = None
    while True:
        after = "" if token is None else f', nextToken: "{token}"'
        query = f"{field}({arguments}, limit: 4{after}) {{ items {{ orderId }} nextToken }}"
        for name in reversed(path):
            query = f"{name} {{ {query} }}"
        page: Any = await client.data(f"{{ {query} }}")
        for name in path:
            page = page[name.partition("(")[0]]
        page = page[field]
        found += [item["orderId"] for item in page["items"]]
        token = page["nextToken"]
        if token is None:
            return found


def ids_of(customers: str) -> list[str]:
    """The ids of the orders of some customers, in the order of the index."""
    wanted = [order for order in ORDERS if order.customer_id in customers]
    return [order.order_id for order in sorted(wanted, key=lambda order: (order.at, order.order_id))]


async def test_several_values(tmp_path: Path) -> None:
    """All pages of several values are the merged result of each value, in every field that takes the property."""
    async with open_client(CATALOG, tmp_path, *ORDERS) as client:
        for customers, values in (("ac", '["c", "a", "c"]'), ("b", '["b"]'), ("", "[]"), ("c", '["c", "nobody"]')):
            assert await all_pages(client, "orderByCustomer", f"customerIdIn: {values}") == ids_of(customers)
            listed = await all_pages(client, "orders", f"orderBy: AT_DESC, customerIdIn: {values}")
            assert listed == ids_of(customers)[::-1]
        count = await client.data('{ orderByCustomer(customerIdIn: ["a", "b"], limit: 1) { totalCount { value } } }')
        assert count["orderByCustomer"]["totalCount"]["value"] == 20


async def test_one_list_of_several_hash_properties(tmp_path: Path) -> None:
    """One hash property can have several values, the others one value each."""
    async with open_client(CATALOG, tmp_path, *ORDERS) as client:
        found = await all_pages(client, "orderByCustomerState", 'customerIdIn: ["a", "b"], state: "x"')
        assert found == [id for id in ids_of("ab") if int(id[1:]) % 2 == 0]
        error = await client.error(
            '{ orderByCustomerState(customerIdIn: ["a"], stateIn: ["x"]) { items { orderId } } }'
        )
        assert error["extensions"] == {"code": "CONFLICTING_ARGUMENTS", "argument": "stateIn"}


REFUSED: list[tuple[Mapping[str, Any], str, str]] = [
    ({}, "MISSING_ARGUMENT", "searched for one customer_id: give it, or customer_id_in."),
    ({"customer_id": "a", "customer_id_in": ["b"]}, "CONFLICTING_ARGUMENTS", "exclude each other"),
    ({"customer_id_in": "ab"}, "INVALID_VALUE", "is a list of values, not 'ab'"),
    ({"customer_id_in": ["a", ""]}, "EMPTY_KEY", "customer_id_in"),
    ({"customer_id_in": ["a", 5]}, "INVALID_VALUE", "customer_id_in"),
    ({"customer_id_in": [str(at) for at in range(251)]}, "QUERY_TOO_COSTLY", "251 values, for which 1,004 shards"),
]


@pytest.mark.parametrize(("arguments", "code", "text"), REFUSED)
async def test_refused_lists(tmp_path: Path, arguments: Mapping[str, Any], code: str, text: str) -> None:
    """A list with an invalid value, with a single value too, or of too many values is refused before any read."""
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path}/x.db") as db:
        with pytest.raises(ShardQLError) as caught:
            await db.search(Order.by_customer, **arguments)
        assert (caught.value.code, text in caught.value.message) == (code, True), caught.value.message


async def test_a_token_belongs_to_its_set_of_values(tmp_path: Path) -> None:
    """A token is valid for the same values in any order, and for no others."""
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path}/x.db") as db:
        await put(db)
        page = await db.search(Order.by_customer, customer_id_in=["a", "b"], limit=2)
        again = await db.search(Order.by_customer, customer_id_in=["b", "a", "b"], limit=2, next_token=page.next_token)
        assert [order.order_id for order in again.items] == ids_of("ab")[2:4]
        with pytest.raises(TokenMismatch, match=r'customerId in \["a", "b"\]'):
            await db.search(Order.by_customer, customer_id_in=["a", "c"], next_token=page.next_token)


async def put(db: Database) -> None:
    """Store the orders."""
    await db.put_many(ORDERS)


async def test_joins_by_a_list(tmp_path: Path) -> None:
    """`HasMany` by a list joins one ordered page of all its values; no list and an empty one join nothing."""
    async with open_client(CATALOG, tmp_path, *ORDERS, *TEAMS) as client:
        assert await all_pages(client, "orders", "reverse: false", ['team(id: "1")']) == ids_of("ab")
        for team in ("2", "3"):
            assert await all_pages(client, "orders", "reverse: false", [f'team(id: "{team}")']) == []


def test_invalid_joins_by_lists() -> None:
    """A join by several lists is refused when the catalog is created."""

    class Both(Entity):
        both_id: Id[str]
        customer_ids: list[str]
        states: list[str]
        orders = HasMany("Order", via="by_customer_state", by=["customer_ids", "states"])

    with pytest.raises(InvalidCatalog, match="joins Order by several lists, customer_ids, states"):
        Catalog(Order, Both)


def test_names_of_list_arguments() -> None:
    """A list argument gets a trailing underscore if a property has its name."""

    class Thing(Entity):
        thing_id: Id[str]
        town: str
        town_in: str
        by_town = Index(hash="town", sort="town_in")

    query: Any = Graph(Catalog(Thing)).schema._schema.query_type
    assert {"town", "townIn_", "townIn"} <= {*query.fields["thingByTown"].args}
