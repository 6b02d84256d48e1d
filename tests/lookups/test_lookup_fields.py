"""Lookups in GraphQL: fields, joins, access rules, explain output, the fast path, and fields that are not ready."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Lookup, anyone, owner, signed_in
from graphql_api.database import Database
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.request_context import Caller
from tests.lookups.phone_book import CATALOG, Call, House, Person
from tests.schema.graphql_client import open_client

RECORDS: list[Entity] = [
    *(House(house_id=f"h{at}", phone=f"{at}") for at in range(3)),
    *(Person(person_id=f"p{at}", created=5, version=1, name=f"n{at}", phone=f"{at % 3}") for at in range(7)),
    *(Call(call_id=f"c{at}", at="1", created=5, number=f"{at % 2}") for at in range(4)),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('{ personByPhone(phone: "1") { items { personId } nextToken } }', ["p1", "p4"]),
        ('{ personByPhone(phoneIn: ["1", "2"], first: 3) { edges { node { personId } } } }', ["p1", "p2", "p4"]),
        ('{ personByPhone(phone: "0", reverse: true) { items { personId } } }', ["p6", "p3", "p0"]),
        ('{ personByPhone(phone: "0", filter: {name: {gt: "n0"}}) { items { personId } } }', ["p3", "p6"]),
        ('{ personByName(nameCanonical: "N5") { items { personId } } }', ["p5"]),
        ('{ house(id: "h2") { people { items { personId } } } }', ["p2", "p5"]),
        ('{ callByNumber(number: "1", history: CURRENT) { items { callId } } }', ["c1", "c3"]),
    ],
)
async def test_fields(tmp_path: Path, query: str, expected: list[str]) -> None:
    """A lookup is a field like that of an index, and a join reads through it; compiled code completes both."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        response = await client.execute(query)
        assert response.codes == (), response.body
        assert response.path == "fast"
        assert _ids(response.body["data"]) == expected
        stock = await replace(client, executor=replace(client.executor, compiled=False)).execute(query)
        assert (stock.path, stock.body) == ("stock", response.body)


def _ids(data: Any) -> list[str]:
    if isinstance(data, list):
        return [id for one in data for id in _ids(one)]
    if isinstance(data, dict):
        return [id for one in data.values() for id in _ids(one)]
    return [data] if isinstance(data, str) else []


async def test_joins_of_one_level_share_equal_reads(tmp_path: Path) -> None:
    """Joins through a lookup read each mapping once, and for one record only its first one."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        client.reset_counts()
        query = '{ personByPhone(phone: "0") { items { personId lastCall { callId at } calls { items { callId } } } } }'
        data = await client.data(query)
        (first, *_) = people = data["personByPhone"]["items"]
        assert first["lastCall"] == {"callId": "c0", "at": "1"}
        assert [call["callId"] for call in first["calls"]["items"]] == ["c0", "c0", "c2", "c2"]
        assert all(person["calls"] == first["calls"] for person in people)
        assert len(client.counts.hash_keys) == 3, "one for people, and for equal joins of each kind"


async def test_total_counts_and_explain(tmp_path: Path) -> None:
    """Counts are exact, and explain output names the lookup."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        query = '{ personByPhone(phone: "0", first: 1) { totalCount { value exact } items { personId } } }'
        response = await client.execute(query, caller=Caller("c-1", explain=True))
        assert response.body["data"]["personByPhone"]["totalCount"] == {"value": 3, "exact": True}
        (search, *_) = response.body["extensions"]["explain"]
        assert (search["lookup"], search["hashKeys"]) == ("phone", ["person~lookup.phone!|phone#0"])


class Letter(Entity, allow=owner("recipient")):
    """A letter, which its recipient may read."""

    letter_id: Id[str]
    recipient: str
    town: str
    street: str

    by_town = Lookup("town")
    by_street = Lookup("street", allow=anyone)
    by_recipient = Lookup("recipient", allow=signed_in)


async def test_access_rules(tmp_path: Path) -> None:
    """The rules of the entity apply to a lookup, unless it has its own."""
    letters = [Letter(letter_id=f"l{at}", recipient=("ann", "bob")[at % 2], town="Bern", street="A") for at in range(6)]
    async with open_client(Catalog(Letter), tmp_path, *letters) as client:
        ann = Caller("c-1", subject="ann")
        data = await client.data('{ letterByTown(town: "Bern") { items { letterId } } }', caller=ann)
        assert _ids(data) == ["l0", "l2", "l4"]
        data = await client.data('{ letterByStreet(street: "A") { items { letterId } } }')
        assert len(_ids(data)) == 6
        error = await client.error('{ letterByRecipient(recipient: "ann") { items { letterId } } }')
        assert error["extensions"]["code"] == "FORBIDDEN"


def test_a_lookup_named_like_another_search_is_refused() -> None:
    """The field of a lookup must differ from those of indexes and other lookups."""

    class Twice(Entity):
        key: Id[str]
        phone: str

        by_phone = Index(hash="phone")
        by_phone_ = Lookup("phone")

    with pytest.raises(InvalidCatalog) as refused:
        Catalog(Twice)
    assert "is called 'phone' in GraphQL, as by_phone is" in str(refused.value)


def test_a_record_field_with_the_name_of_a_lookup_is_refused() -> None:
    """The field of a lookup must differ from the fields of other entities."""

    class Person(Entity):
        key: Id[str]
        phone: str

        by_phone = Lookup("phone")

    class PersonByPhone(Entity):
        key: Id[str]

    with pytest.raises(InvalidCatalog) as refused:
        Catalog(Person, PersonByPhone)
    assert "personByPhone" in str(refused.value)


async def test_python_and_graphql_tokens_are_equal(tmp_path: Path) -> None:
    """A token of the Python API continues a search in GraphQL."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        db: Database = client.db
        page = await db.search(Person.by_phone, phone="0", limit=1)
        query = 'query ($after: String) { personByPhone(phone: "0", nextToken: $after) { items { personId } } }'
        assert _ids(await client.data(query, {"after": page.next_token})) == ["p3", "p6"]
