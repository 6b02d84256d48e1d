"""The helpers for tests of applications: databases in memory, the client, and the pytest plugin."""

import asyncio
from collections.abc import AsyncGenerator
from textwrap import dedent
from typing import Any

import pytest
import strawberry

from graphql_api import Catalog, Entity, Graph, Id, Index, Shards, Unique, group, owner
from graphql_api.errors import NotUnique, StoreRefused
from graphql_api.testing import GraphQLClient, GraphQLFailed, in_memory, open_in_memory

pytest_plugins = ["pytester"]


class Note(Entity, shards=Shards(16), allow=[group("Admin"), owner("author")]):
    """A note that only its author may read."""

    note_id: Id[str]
    author: str
    title: Unique[str]
    by_author = Index(hash="author", sort="title")


CATALOG = Catalog(Note)
GRAPH = Graph(CATALOG)
NOTES = [Note(note_id=f"n{number}", author="ann" if number % 2 else "bob", title=f"t{number}") for number in range(6)]


async def test_a_database_in_memory_has_all_guarantees() -> None:
    """It is empty at first, keeps constraints, pages over shards, and refuses calls after its end."""
    async with in_memory(CATALOG) as db:
        assert (await db.search(Note.by_id)).items == []
    async with in_memory(CATALOG, *NOTES) as db:
        with pytest.raises(NotUnique):
            await db.put(Note(note_id="x", author="ann", title="t1"))
        first = await db.search(Note.by_author, author="ann", limit=2)
        rest = await db.search(Note.by_author, author="ann", limit=2, next_token=first.next_token)
        assert [note.title for note in (*first.items, *rest.items)] == ["t1", "t3", "t5"]
        assert rest.next_token is None
    with pytest.raises(StoreRefused, match="closed"):
        await db.get(Note, "n1")


async def test_clients_subscribe() -> None:
    """A client yields the response to each event of a subscription, with the rules of its caller."""
    graph = Graph(CATALOG)
    note: Any = graph.record_type(Note)

    @graph.subscription
    @strawberry.type
    class Subscriptions:
        @strawberry.subscription
        async def notes(self, first: int) -> AsyncGenerator[note, None]:
            for number in range(first, len(NOTES)):
                yield NOTES[number]

    async with in_memory(CATALOG) as db:
        client = GraphQLClient(graph, db, subject="ann")
        document = "subscription ($first: Int!) { notes(first: $first) { title } }"
        found = [response async for response in client.subscribe(document, {"first": 4})]
        assert found == [{"data": {"notes": {"title": "t4"}}}, {"data": {"notes": {"title": "t5"}}}]
        (refused,) = [response async for response in client.subscribe("subscription { notes }")]
        assert "data" not in refused


async def test_records_that_are_refused_fail_the_test() -> None:
    """The first record that is refused raises its error."""
    with pytest.raises(NotUnique):
        async with in_memory(CATALOG, NOTES[0], Note(note_id="x", author="ann", title="t0")):
            pass


def test_a_database_belongs_to_no_event_loop() -> None:
    """It may be opened in one event loop and used in others."""
    db = asyncio.run(open_in_memory(CATALOG, *NOTES))
    asyncio.run(db.delete(Note, "n1"))
    assert asyncio.run(db.get(Note, "n1")) is None
    assert asyncio.run(db.get_by(Note, title="t2")) == NOTES[2]


async def test_the_client_applies_the_rules_of_each_caller() -> None:
    """Anonymous callers, owners and groups get what a server would give them."""
    async with in_memory(CATALOG, *NOTES) as db:
        client = GraphQLClient(GRAPH, db)
        search = "query ($who: String) { noteByAuthor(author: $who) { items { title } } }"
        with pytest.raises(GraphQLFailed, match="FORBIDDEN: ") as failure:
            await client.query(search, {"who": "ann"})
        assert failure.value.codes == ["FORBIDDEN"]
        ann = client.as_caller("ann")
        found = await ann.query(search, {"who": "ann"})
        assert [note["title"] for note in found["noteByAuthor"]["items"]] == ["t1", "t3", "t5"]
        body = await ann.execute(search, {"who": "bob"})
        assert [error["extensions"]["code"] for error in body["errors"]] == ["FORBIDDEN"]
        admin = GraphQLClient(GRAPH, db, subject="root", groups=["Admin"])
        create = 'mutation { createNote(input: {author: "bob", title: "new", noteId: "n"}) { note { title } } }'
        created = await admin.query(create)
        assert created == {"createNote": {"note": {"title": "new"}}}
        elsewhere = GraphQLClient(GRAPH, db, "root", ["Admin"], tenant="t")
        assert await elsewhere.query("{ noteById { items { title } } }") == {"noteById": {"items": []}}


APP = """
from graphql_api import Catalog, Entity, Graph, Id, Unique

class Pet(Entity):
    pet_id: Id[str]
    name: Unique[str]

graph = Graph(Catalog(Pet))
"""
TESTS = """
import asyncio
from pets import Pet

async def adopt(client):
    return await client.query('mutation { createPet(input: {petId: "p", name: "Rex"}) { pet { name } } }')

def test_create(shardql_client, shardql_db):
    assert asyncio.run(adopt(shardql_client)) == {"createPet": {"pet": {"name": "Rex"}}}
    assert asyncio.run(shardql_db.get(Pet, "p")).name == "Rex"

def test_each_test_has_its_own_database(shardql_client):
    assert asyncio.run(adopt(shardql_client))
"""


def test_fixtures_serve_the_graph_that_the_setting_names(pytester: pytest.Pytester) -> None:
    """The setting names a graph; each test has its own database and client."""
    pytester.makepyfile(pets=APP, test_pets=TESTS)
    pytester.makeini("[pytest]\nshardql = pets:graph\npythonpath = .\n")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_fixture_may_name_the_graph(pytester: pytest.Pytester) -> None:
    """The fixture `shardql_graph` of a test module replaces the setting."""
    fixture = "import pytest\nimport pets\n\n@pytest.fixture\ndef shardql_graph():\n    return pets.graph\n"
    pytester.makepyfile(pets=APP, test_pets=fixture + TESTS)
    pytester.makeini("[pytest]\npythonpath = .\n")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_missing_setting_is_explained(pytester: pytest.Pytester) -> None:
    """Without setting and fixture, the error names both."""
    pytester.makepyfile(pets=APP, test_pets=TESTS)
    pytester.makeini("[pytest]\npythonpath = .\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=2)
    assert "Name the catalog or graph under test" in result.stdout.str()


def test_the_plugin_imports_nothing_before_it_is_used(pytester: pytest.Pytester) -> None:
    """Test runs that use no fixture of the plugin do not import the package."""
    pytester.makepyfile(
        dedent("""
        import sys

        def test_imports():
            loaded = {name for name in sys.modules if name.startswith("graphql_api.")}
            assert loaded <= {"graphql_api.lazy_exports", "graphql_api.testing", "graphql_api.testing.pytest_plugin"}
        """)
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
