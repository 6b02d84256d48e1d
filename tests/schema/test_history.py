"""Histories with current records in GraphQL: the argument `history` and lookups of the current record."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLEnumType, GraphQLObjectType

from graphql_api import Catalog, Entity, HasMany, Id, Index, Shards, SubId, Union
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.graph import Graph
from tests.schema.graphql_client import GraphQLClient, open_client

CURRENT = "~current"


class Customer(Entity):
    """A customer with orders."""

    customer_id: Id[str]

    orders = HasMany("Order", via="by_customer")


class Order(Entity, shards=Shards(3), current=CURRENT):
    """The versions of an order and its current record."""

    order_id: Id[str]
    version: SubId[str]
    customer_id: str = "c"
    status: str = "new"
    total: int = 0

    by_customer = Index(hash="customer_id", sort="version")
    by_status = Index(hash="status")
    by_total = Index(sort="total")
    by_version = Index(sort="version")
    by_any = Union("by_total", "by_either")
    by_either = Index(sort=["total", "status"])
    versions = HasMany("Order", via="by_id")


class Note(Entity):
    """A history without a current record."""

    order_id: Id[str]
    number: SubId[int]
    history: str = "long"

    by_history = Index(hash="history")


CATALOG = Catalog(Customer, Order, Note)
VERSIONS = ["v1", "v2", "zebra", "é"]
RECORDS = [
    *(
        Order(order_id=name, version=version, status="odd" if at % 2 else "even", total=at)
        for name in ("o-1", "o-2")
        for at, version in enumerate(VERSIONS)
    ),
]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client for orders with several versions."""
    records = [*RECORDS, Customer(customer_id="c"), Note(order_id="o-1", number=1)]
    async with open_client(CATALOG, tmp_path, *records) as client:
        yield client


async def test_every_search_takes_the_history_argument(client: GraphQLClient) -> None:
    """Searches by id, index, union, list and join return all records, only entries, or only current records."""
    of_one = [*VERSIONS[:3], CURRENT, "é"]
    for history in ("ALL", "PAST", "CURRENT"):
        data = await client.data(
            """query ($history: History) {
                byId: orderById(id: "o-1", history: $history) { items { version } }
                byStatus: orderByStatus(status: "odd", history: $history, limit: 10) { items { version } }
                any: orderByAny(eq: 3, history: $history) { items { orderId version } totalCount { value } }
                list: orders(customerId: "c", orderBy: VERSION_DESC, history: $history) { items { version } }
                order(id: "o-1") { versions(history: $history, reverse: true) { items { version } } }
                customer(id: "c") { orders(history: $history, prefix: "~") { items { orderId version } } }
            }""",
            {"history": history},
        )

        def expected(versions: list[str], history: str = history) -> list[str]:
            return [one for one in versions if history == "ALL" or (one == CURRENT) == (history == "CURRENT")]

        def versions_of(page: Any) -> list[str]:
            return [one["version"] for one in page["items"]]

        assert versions_of(data["byId"]) == expected(of_one)
        assert sorted(versions_of(data["byStatus"])) == sorted(expected(["v2", CURRENT, "é"] * 2))
        assert sorted(versions_of(data["any"])) == sorted(expected([CURRENT, "é"] * 2))
        assert data["any"]["totalCount"]["value"] == len(expected([CURRENT, "é"] * 2))
        assert sorted(versions_of(data["list"])) == sorted(expected(of_one * 2))
        assert versions_of(data["order"]["versions"]) == expected(of_one)[::-1]
        assert versions_of(data["customer"]["orders"]) == expected([CURRENT] * 2)


async def test_pages_of_entries(client: GraphQLClient) -> None:
    """Page tokens of entries continue with entries, and are refused with another `history` argument."""
    query = """query ($token: String, $history: History) {
        orderById(id: "o-2", limit: 2, nextToken: $token, history: $history) { items { version } nextToken }
    }"""
    first = (await client.data(query, {"history": "PAST"}))["orderById"]
    second = (await client.data(query, {"history": "PAST", "token": first["nextToken"]}))["orderById"]
    assert [one["version"] for one in first["items"] + second["items"]] == VERSIONS
    assert second["nextToken"] is None
    for variables in ({}, {"history": "ALL"}, {"history": "CURRENT"}):
        error = await client.error(query, {**variables, "token": first["nextToken"]})
        assert error["extensions"] == {"code": "TOKEN_MISMATCH", "argument": "nextToken"}
    whole = (await client.data(query))["orderById"]
    assert (await client.data(query, {"history": "ALL", "token": whole["nextToken"]}))["orderById"]["items"]
    assert (await client.data(query, {"history": None}))["orderById"] == whole


async def test_one_record(client: GraphQLClient) -> None:
    """A lookup without sub id reads the current record by its key. With a sub id it returns that entry."""
    client.reset_counts()
    data = await client.data('{ order(id: "o-1") { version total status } }')
    assert data == {"order": {"version": CURRENT, "total": "3", "status": "odd"}}
    assert (client.counts.gets, client.counts.reads) == (1, 0)
    assert await client.data('{ order(id: "o-1", version: "v2") { version total } }') == {
        "order": {"version": "v2", "total": "1"}
    }
    assert await client.data('{ order(id: "none") { version } }') == {"order": None}


async def test_invalid_history_arguments(client: GraphQLClient) -> None:
    """Unknown enum members are refused, and so is the argument on histories without current records."""
    for query in (
        '{ orderById(id: "o-1", history: OLD) { items { version } } }',
        '{ orderById(id: "o-1", history: "PAST") { items { version } } }',
        '{ noteById(id: "o-1", history: ALL) { items { number } } }',
    ):
        assert (await client.error(query))["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"


async def test_a_property_named_history(client: GraphQLClient) -> None:
    """The argument of a property named `history` gets a trailing underscore."""
    data = await client.data('{ noteByHistory(history_: "long") { items { number history } } }')
    assert data["noteByHistory"]["items"] == [{"number": "1", "history": "long"}]


def _type(catalog: Catalog, name: str) -> Any:
    return Graph(catalog).schema._schema.type_map.get(name)


def test_the_history_enum_exists_only_with_current_records() -> None:
    """The type name `History` is reserved only in catalogs with current records."""
    enum = _type(CATALOG, "History")
    assert isinstance(enum, GraphQLEnumType)
    assert [*enum.values] == ["ALL", "PAST", "CURRENT"]
    assert _type(Catalog(Note), "History") is None

    class History(Entity):
        """An entity of the same name."""

        history_id: Id[str]

    assert isinstance(_type(Catalog(History), "History"), GraphQLObjectType)
    with pytest.raises(InvalidCatalog, match="'History', which is taken"):
        Graph(Catalog(Order, Customer, Note, History))
