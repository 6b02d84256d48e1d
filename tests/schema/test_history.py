"""Histories with current records in GraphQL: `history`, and the entry that is current."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLEnumType, GraphQLObjectType

from graphql_api import Catalog, Entity, HasMany, Id, Index, Shards, SubId, Union
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.graph import Graph
from tests.schema.asking import Asked, asked

CURRENT = "~current"


class Customer(Entity):
    """Who orders."""

    customer_id: Id[str]

    orders = HasMany("Order", via="by_customer")


class Order(Entity, shards=Shards(3), current=CURRENT):
    """Every version of an order, and the last of them once more."""

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
    """A history that keeps no current record."""

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
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    """Orders with their versions."""
    records = [*RECORDS, Customer(customer_id="c"), Note(order_id="o-1", number=1)]
    async with asked(CATALOG, tmp_path, *records) as found:
        yield found


async def test_every_search_takes_it(ask: Asked) -> None:
    """By id, by an index, over a union, as a list, as a join: each gives all, the entries, or the current records."""
    of_one = [*VERSIONS[:3], CURRENT, "é"]
    for history in ("ALL", "PAST", "CURRENT"):
        data = await ask.data(
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

        def kept(versions: list[str], history: str = history) -> list[str]:
            return [one for one in versions if history == "ALL" or (one == CURRENT) == (history == "CURRENT")]

        def found(page: Any) -> list[str]:
            return [one["version"] for one in page["items"]]

        assert found(data["byId"]) == kept(of_one)
        assert sorted(found(data["byStatus"])) == sorted(kept(["v2", CURRENT, "é"] * 2))
        assert sorted(found(data["any"])) == sorted(kept([CURRENT, "é"] * 2))
        assert data["any"]["totalCount"]["value"] == len(kept([CURRENT, "é"] * 2))
        assert sorted(found(data["list"])) == sorted(kept(of_one * 2))
        assert found(data["order"]["versions"]) == kept(of_one)[::-1]
        assert found(data["customer"]["orders"]) == kept([CURRENT] * 2)


async def test_pages_of_entries(ask: Asked) -> None:
    """Tokens lead through the entries alone, and are refused where other records are asked for."""
    query = """query ($token: String, $history: History) {
        orderById(id: "o-2", limit: 2, nextToken: $token, history: $history) { items { version } nextToken }
    }"""
    first = (await ask.data(query, {"history": "PAST"}))["orderById"]
    second = (await ask.data(query, {"history": "PAST", "token": first["nextToken"]}))["orderById"]
    assert [one["version"] for one in first["items"] + second["items"]] == VERSIONS
    assert second["nextToken"] is None
    for variables in ({}, {"history": "ALL"}, {"history": "CURRENT"}):
        error = await ask.error(query, {**variables, "token": first["nextToken"]})
        assert error["extensions"] == {"code": "TOKEN_MISMATCH", "argument": "nextToken"}
    whole = (await ask.data(query))["orderById"]
    assert (await ask.data(query, {"history": "ALL", "token": whole["nextToken"]}))["orderById"]["items"]
    assert (await ask.data(query, {"history": None}))["orderById"] == whole


async def test_one_record(ask: Asked) -> None:
    """Without its sub id an order is the current one, by one read of a key; with it, that very entry."""
    ask.forget()
    data = await ask.data('{ order(id: "o-1") { version total status } }')
    assert data == {"order": {"version": CURRENT, "total": "3", "status": "odd"}}
    assert (ask.counts.gets, ask.counts.reads) == (1, 0)
    assert await ask.data('{ order(id: "o-1", version: "v2") { version total } }') == {
        "order": {"version": "v2", "total": "1"}
    }
    assert await ask.data('{ order(id: "none") { version } }') == {"order": None}


async def test_words_that_are_none(ask: Asked) -> None:
    """What is no word of the enum does not fit the schema, nor does the argument where nothing is current."""
    for query in (
        '{ orderById(id: "o-1", history: OLD) { items { version } } }',
        '{ orderById(id: "o-1", history: "PAST") { items { version } } }',
        '{ noteById(id: "o-1", history: ALL) { items { number } } }',
    ):
        assert (await ask.error(query))["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"


async def test_a_property_of_that_name(ask: Asked) -> None:
    """A property called history is asked for with an underscore behind it, as ever."""
    data = await ask.data('{ noteByHistory(history_: "long") { items { number history } } }')
    assert data["noteByHistory"]["items"] == [{"number": "1", "history": "long"}]


def _type(catalog: Catalog, name: str) -> Any:
    return Graph(catalog).schema._schema.type_map.get(name)


def test_the_enum_is_there_where_it_is_needed() -> None:
    """Catalogs without current records keep the name for themselves; in others it is taken."""
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
