"""GraphQL over a table that serves a later version of an entity: every way to its records answers from that version."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from graphql_api import (
    Catalog,
    Entity,
    Event,
    Graph,
    HasMany,
    Id,
    Index,
    Int32,
    Lookup,
    Ref,
    Secrets,
    Set,
    Shards,
    Union,
    Unique,
    Version,
    open_catalog,
    owner,
    projection,
)
from graphql_api.projections import ProjectionRun, replay
from graphql_api.runtime import collect_statistics
from graphql_api.schema.request_context import Caller
from tests.projections.read_models import chunks_of
from tests.schema.graphql_client import client_for

SECRETS = Secrets.generate()


class Town(Entity):
    """A town, with those who live there."""

    town_id: Id[str]

    people = HasMany("Person", via="by_town")
    callers = HasMany("Person", via="by_phone", by="town_id")


class Letter(Entity):
    """A letter to a person."""

    letter_id: Id[str]
    person_id: str

    person = Ref("Person", by="person_id")


class Person(Entity, name="person", version=2, shards=Shards(5), allow=owner("reader")):
    """A person."""

    person_id: Id[str]
    version: Version[Int32] = 1
    email: Unique[str]
    town_id: str
    phone: str
    reader: str

    by_town = Index(hash="town_id", sort="email")
    by_town_and_phone = Index(hash="town_id", sort=["phone", "person_id"])
    by_any = Union("by_town", "by_town_and_phone")
    by_phone = Lookup("phone")


FIRST: Any = type("Person", (Person,), {"__doc__": "As the release before declares it.", "__module__": __name__})


class Moved(Event):
    """A person has moved."""

    type: Literal["Moved"] = "Moved"
    person_id: str


@projection(Person, source="people")
def people(event: Moved) -> list[Set]:
    """The people."""
    id = event.person_id
    return [Set(Person(person_id=id, email=f"{id}@x", town_id="t", phone="t", reader="ann"))]


@projection(FIRST, source="people", name="people")
def first_people(event: Moved) -> list[Set]:
    """The people, as the release before projects them."""
    return [Set(FIRST(person_id=id, email=f"{id}@y", town_id="t", phone="t", reader="ann")) for id in ("p1", "old")]


CATALOG = Catalog(Town, Letter, Person)
GRAPH = Graph(CATALOG, projections=[people])
LINES = [
    json.dumps({"stream": "", "seq": seq, "type": "Moved", "data": {"personId": f"p{seq}"}}).encode()
    for seq in range(1, 4)
]
ALL = ["p1", "p2", "p3"]
QUERIES: dict[str, list[str]] = {
    '{ person(id: "p1") { personId } }': ["p1"],
    '{ person(email: "p2@x") { personId } }': ["p2"],
    '{ personByTown(townId: "t") { items { personId } } }': ALL,
    '{ personByTown(townId: "t", reverse: true, first: 2) { edges { node { personId } } } }': ["p3", "p2"],
    '{ personByTownAndPhone(townId: "t", eq: "t", reverse: true) { items { personId } } }': ALL[::-1],
    '{ personByAny(townId: "t", prefix: "p2") { items { personId } } }': ["p2"],
    '{ personByPhone(phone: "t") { items { personId } } }': ALL,
    "{ personById { items { personId } } }": ALL,
    '{ town(id: "t") { people { items { personId } } callers { items { personId } } } }': [*ALL, *ALL],
    '{ letter(id: "l") { person { personId } } }': ["p1"],
}


async def test_every_query_answers_from_the_served_version(tmp_path: Path) -> None:
    """Reads by id, unique value, index, lookup, union and join, on both paths, also of rows of another owner."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    first = Catalog(Town, Letter, FIRST)
    async with open_catalog(first, url, secrets=SECRETS) as db:
        await ProjectionRun(db, Graph(first, projections=[first_people]).sources["people"]).run(chunks_of(LINES))
        await db.put(Town(town_id="t"))
        await db.put(Letter(letter_id="l", person_id="p1"))
        result = await replay(
            lambda catalog: open_catalog(catalog, url, secrets=SECRETS),
            CATALOG,
            GRAPH.sources["people"],
            lambda: chunks_of(LINES),
        )
        assert result is not None
        assert result.is_switched
        for catalog in (first, CATALOG):
            async with open_catalog(catalog, url, secrets=SECRETS) as opened:
                client = client_for(opened, graph=Graph(catalog))
                for text, expected in QUERIES.items():
                    fast = await client.execute(text, caller=Caller("c", subject="ann"))
                    assert (fast.codes, _ids(fast.body["data"])) == ((), expected), text
                    stock = replace(client, executor=replace(client.executor, compiled=False))
                    assert (await stock.execute(text, caller=Caller("c", subject="ann"))).body == fast.body
                    hidden = await client.execute(text, caller=Caller("c", subject="bob"))
                    assert _ids(hidden.body["data"]) == []


async def test_mutations_and_ids_refer_to_the_served_version(tmp_path: Path) -> None:
    """Mutations change the served version, and global ids, counts and explain output are of that version."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with open_catalog(CATALOG, url, secrets=SECRETS) as db:
        caller = Caller("c", subject="ann", explain=True)
        client = client_for(db, graph=Graph(CATALOG))
        values = 'personId: "p1", email: "a@x", townId: "t", phone: "1", reader: "ann"'
        made = await client.execute(
            f"mutation {{ createPerson(input: {{{values}}}) {{ person {{ id }} }} }}", caller=caller
        )
        id = made.body["data"]["createPerson"]["person"]["id"]
        changed = await client.execute(
            'mutation { updatePerson(input: {id: "p1", phone: "2"}) { person { phone version } } }', caller=caller
        )
        assert changed.codes == (), changed.body
        assert changed.body["data"]["updatePerson"]["person"] == {"phone": "2", "version": 2}
        query = '{ node(id: "%s") { ... on Person { phone } } personByTown(townId: "t") { totalCount { value } } }'
        found = await client.execute(query % id, caller=caller)
        assert found.body["data"] == {"node": {"phone": "2"}, "personByTown": {"totalCount": {"value": 1}}}
        explained = await client.execute('{ personByTown(townId: "t") { items { personId } } }', caller=caller)
        assert explained.body["extensions"]["explain"][0]["hashKeys"][0].startswith("person@2!")
        with collect_statistics() as statistics:
            await db.search(Person.by_town, town_id="t")
        assert [*statistics.indexes] == [("person", "town")], "metrics have the declared names"
        gone = await client.execute('mutation { deletePerson(id: "p1") { deletedId } }', caller=caller)
        assert gone.codes == ()
        assert await db.get(Person, "p1") is None


def _ids(data: Any) -> list[str]:
    if isinstance(data, list):
        return [id for one in data for id in _ids(one)]
    if isinstance(data, dict):
        return [id for one in data.values() for id in _ids(one)]
    return [data] if isinstance(data, str) else []
