"""Global ids of records: `id`, `node`, `nodes` and the fields by id; invalid ids are refused."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any

import pytest
import strawberry
from graphql import GraphQLInterfaceType, GraphQLObjectType

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Graph,
    Id,
    Index,
    Shards,
    SubId,
    Timestamp,
    Union,
    derived,
    signed_in,
)
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import build_schema
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import GraphQLClient, client_for, open_client, write


class Town(Entity, shards=Shards(1)):
    """Has a property called `id`, and one shard generation."""

    town_id: Id[str]
    created: Created[Timestamp]
    id: str = "own"
    name: str = ""
    alias: str | None = None

    by_name = Index(sort="name", projection="KEYS_ONLY")
    by_created = Index(sort="created")
    by_alias = Index(sort="alias")
    by_any = Union("by_name", "by_alias")


class Grown(Town, name="town", shards=Shards(1).then(16, since=100).then(64, since=200)):
    """The same entity with more shard generations."""


class Step(Entity, shards=Shards(4)):
    """Entries of a history with a composite id."""

    order: Id[str]
    year: Id[int]
    at: SubId[str]
    status: str = ""


class Settings(Entity):
    """A singleton."""

    theme: str = "dark"


class Slug(Entity):
    """The id is derived from the title."""

    title: str
    slug: Id[str] = derived(lambda title: f"{title}-{len(title)}", "title")


CATALOG = Catalog(Town, Step, Settings, Slug)
GROWN = Catalog(Grown, Step, Settings, Slug)
TOWNS = [Town(town_id=f"t{number}", created=number, name=f"n{number}") for number in range(5)]
STEPS = [Step(order="o/1", year=2026, at=at, status=f"s{at}") for at in "abc"]
RECORDS: list[Entity] = [*TOWNS, *STEPS, Settings(), Slug(title="Ann")]
NODES = """query Nodes($ids: [ID!]!) {
  nodes(ids: $ids) { __typename id ... on Town { name rowId } ... on Step { at } ... on Settings { theme } }
}"""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """The catalog with its records."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as found:
        yield found


async def global_ids(client: GraphQLClient) -> list[str]:
    """The global ids of all towns, all steps and the settings, in response order."""
    found = await client.data(
        '{ townById { items { id } } stepById(id: "o%2F1/2026") { edges { node { id } } } settings { id } }'
    )
    towns = [item["id"] for item in found["townById"]["items"]]
    return [*towns, *(edge["node"]["id"] for edge in found["stepById"]["edges"]), found["settings"]["id"]]


# --- the schema ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", [None, "Plugin"])
def test_every_record_is_a_node(namespace: str | None) -> None:
    """Every record type implements `Node`, which has no namespace; `id` is the first field."""
    schema = build_schema(Catalog(Town, Step, Settings, namespace=namespace))._schema
    node = schema.type_map["Node"]
    assert isinstance(node, GraphQLInterfaceType)
    assert {name: str(field.type) for name, field in node.fields.items()} == {"id": "ID!"}
    prefix = f"{namespace}_" if namespace else ""
    assert {made.name for made in schema.get_possible_types(node)} == {
        f"{prefix}{n}" for n in ("Town", "Step", "Settings")
    }
    for made in schema.get_possible_types(node):
        assert isinstance(made, GraphQLObjectType)
        assert next(iter(made.fields)) == "id"
    query = schema.query_type
    assert query is not None
    assert str(query.fields["node"].type) == "Node"
    assert str(query.fields["nodes"].type) == "[Node]!"
    assert {name: str(argument.type) for name, argument in query.fields["nodes"].args.items()} == {"ids": "[ID!]!"}


def test_schema_text_is_deterministic() -> None:
    """The schema of one catalog is always printed as the same text."""
    assert build_schema(CATALOG).as_str() == build_schema(CATALOG).as_str()
    assert "type Town implements Node {" in build_schema(CATALOG).as_str()


# --- ids -------------------------------------------------------------------------------------------------------


async def test_id_is_the_same_in_every_field(client: GraphQLClient) -> None:
    """A record has the same id in every list and field, for covering and keys-only indexes."""
    found = await client.data(
        """{
          town(id: "t1") { id rowId } townByName(eq: "n1") { items { id } } townByAny(eq: "n1") { items { id } }
          townByCreated(eq: 1) { edges { node { id } } } towns(orderBy: CREATED_ASC) { items { id } }
        }"""
    )
    ids = {
        found["town"]["id"],
        found["townByName"]["items"][0]["id"],
        found["townByAny"]["items"][0]["id"],
        found["townByCreated"]["edges"][0]["node"]["id"],
        found["towns"]["items"][1]["id"],
        client.db.seal_key(TOWNS[1]),
    }
    assert len(ids) == 1
    assert found["town"]["rowId"] == "own"
    assert len({item["id"] for item in found["towns"]["items"]}) == 5


async def test_nodes_of_every_key_pattern(client: GraphQLClient) -> None:
    """Records of every key pattern are returned by global id, in input order, by one call, and none is read twice."""
    ids = await global_ids(client)
    assert len(set(ids)) == 9
    given = [*ids[::-1], ids[0]]
    client.reset_counts()
    answer = await client.execute(NODES, {"ids": given}, caller=Caller("c", explain=True))
    found = answer.body["data"]["nodes"]
    assert [node["id"] for node in found] == given
    assert [node["__typename"] for node in found] == ["Settings", *["Step"] * 3, *["Town"] * 5, "Town"]
    assert [node["at"] for node in found[1:4]] == ["c", "b", "a"]
    assert found[-1] == {"__typename": "Town", "id": ids[0], "name": "n0", "rowId": "own"}
    assert (client.counts.gets, client.counts.reads) == (9, 0)
    assert [
        (explained["records"], explained["read"]["fetched"]) for explained in answer.body["extensions"]["explain"]
    ] == [(9, 9)]
    one = await client.data("query ($id: ID!) { node(id: $id) { id ... on Settings { theme } } }", {"id": ids[-1]})
    assert one["node"] == {"id": ids[-1], "theme": "dark"}


async def test_deleted_record(client: GraphQLClient) -> None:
    """A deleted record is null in its position; other records are returned."""
    ids = await global_ids(client)
    await client.db.delete(Town, "t2")
    found = await client.data(NODES, {"ids": ids[:4]})
    assert [node and node["name"] for node in found["nodes"]] == ["n0", "n1", None, "n3"]
    assert await client.data("query ($id: ID!) { node(id: $id) { id } }", {"id": ids[2]}) == {"node": None}


async def test_ids_of_several_generations(tmp_path: Path) -> None:
    """Global ids find their records by one read each, before and after shard generations are added."""
    later = [Grown(town_id=f"g{created}", created=created, name="later") for created in (150, 250)]
    async with open_client(CATALOG, tmp_path, *TOWNS) as before:
        ids = [before.db.seal_key(town) for town in TOWNS]
        after = client_for(replace(before.db, catalog=GROWN))
        await write(after.db, later)
        data = await after.data('{ grownByName(eq: "later") { items { id } } }')
        ids += [item["id"] for item in data["grownByName"]["items"]]
        assert len(ids) == 7
        after.reset_counts()
        found = await after.data(
            "query ($ids: [ID!]!) { nodes(ids: $ids) { id ... on Grown { townId } } }", {"ids": ids}
        )
        assert [node["townId"] for node in found["nodes"]] == [*(town.town_id for town in TOWNS), "g150", "g250"]
        assert [node["id"] for node in found["nodes"]] == ids
        assert after.counts.gets == 7
        after.reset_counts()
        assert await after.data("query ($id: ID!) { grown(id: $id) { townId } }", {"id": ids[5]})
        assert after.counts.gets == 1
        await after.data('{ grown(id: "g150") { townId } }')
        assert after.counts.gets > 2  # The raw id does not determine the shard.
        before_rollout = await before.error("query ($id: ID!) { node(id: $id) { id } }", {"id": ids[6]})
        assert before_rollout["extensions"] == {"code": "TOKEN_AHEAD", "argument": "id", "retryable": True}


# --- fields by id ----------------------------------------------------------------------------------------------


async def test_fields_by_id_accept_global_ids(client: GraphQLClient) -> None:
    """Fields by id accept raw and global ids. For a history, `step` returns one entry, and `stepById` all entries."""
    ids = await global_ids(client)
    found = await client.data(
        """query ($town: ID!, $step: ID!) {
          town(id: $town) { name } townById(id: $town) { items { name } }
          step(id: $step) { at } last: step(id: "o%2F1/2026") { at } same: step(id: $step, at: "b") { at }
          stepById(id: $step) { items { at } } some: stepById(id: $step, from: "b") { items { at } }
        }""",
        {"town": ids[3], "step": ids[6]},
    )
    assert found == {
        "town": {"name": "n3"},
        "townById": {"items": [{"name": "n3"}]},
        "step": {"at": "b"},
        "last": {"at": "c"},
        "same": {"at": "b"},
        "stepById": {"items": [{"at": "a"}, {"at": "b"}, {"at": "c"}]},
        "some": {"items": [{"at": "b"}, {"at": "c"}]},
    }


async def test_pages_by_global_id(client: GraphQLClient) -> None:
    """A page token of a search by global id works with the raw id, and vice versa."""
    step = (await global_ids(client))[7]
    query = "query ($id: ID!, $t: String) { stepById(id: $id, limit: 1, nextToken: $t) { items { at } nextToken } }"
    token, seen = None, ""
    for id in (step, "o%2F1/2026", step):
        page = (await client.data(query, {"id": id, "t": token}))["stepById"]
        token, seen = page["nextToken"], seen + page["items"][0]["at"]
    assert (seen, token) == ("abc", None)


async def test_sub_id_must_match_the_global_id(client: GraphQLClient) -> None:
    """A sub id that differs from the entry of the global id is refused."""
    step = (await global_ids(client))[5]
    error = await client.error('query ($id: ID!) { step(id: $id, at: "b") { at } }', {"id": step})
    assert error["extensions"] == {"code": "CONFLICTING_ARGUMENTS", "argument": "at"}


async def test_derived_ids(client: GraphQLClient) -> None:
    """A raw id is derived as on write; the id in a global id is used unchanged."""
    id = client.db.seal_key(Slug(title="Ann"))
    query = "query ($id: ID!) { slug(id: $id) { slug } slugById(id: $id) { items { slug } } }"
    for given in ("Ann", id):
        assert await client.data(query, {"id": given}) == {
            "slug": {"slug": "Ann-3"},
            "slugById": {"items": [{"slug": "Ann-3"}]},
        }


async def test_invalid_signatures_are_raw_ids(client: GraphQLClient) -> None:
    """Fields by id treat a text with an invalid signature as a raw id, even if it resembles a global id."""
    id = client.db.seal_key(TOWNS[0])
    forged = id[:-1] + ("A" if id[-1] != "A" else "B")
    await client.db.put(Town(town_id=forged, created=9, name="odd"))
    assert await client.data("query ($id: ID!) { town(id: $id) { name } }", {"id": forged}) == {"town": {"name": "odd"}}
    assert await client.data("query ($id: ID!) { town(id: $id) { name } }", {"id": id[:-2]}) == {"town": None}


# --- invalid ids -----------------------------------------------------------------------------------------------


async def test_ids_of_other_entities_are_refused(client: GraphQLClient) -> None:
    """A global id of another entity is refused without a read, and the message names both entities."""
    town, step = client.db.seal_key(TOWNS[0]), client.db.seal_key(STEPS[0])
    client.reset_counts()
    for field in ("town(id: $id) { id }", "townById(id: $id) { items { id } }"):
        error = await client.error(f"query ($id: ID!) {{ {field} }}", {"id": step})
        assert error["extensions"] == {"code": "INVALID_RECORD_KEY", "argument": "id"}
        assert error["message"].startswith("id is the key of a record of 'step', and one of 'town' is expected")
    for field in ("step(id: $id) { id }", "stepById(id: $id) { items { id } }"):
        error = await client.error(f"query ($id: ID!) {{ {field} }}", {"id": town})
        assert error["extensions"]["code"] == "INVALID_RECORD_KEY"
    assert (client.counts.gets, client.counts.reads) == (0, 0)


async def test_ids_of_other_tenants_are_refused(client: GraphQLClient) -> None:
    """A global id of another tenant is invalid in every field, without a read and without naming the tenant."""
    acme, other = (replace(client, db=client.db.scoped(tenant=tenant)) for tenant in ("acme", "other"))
    await write(acme.db, RECORDS)
    ids = await global_ids(acme)
    none = await client.error("query ($id: ID!) { node(id: $id) { id } }", {"id": "no id"})
    for foreign in (other, client):
        foreign.reset_counts()
        for id in ids:
            error = await foreign.error("query ($id: ID!) { node(id: $id) { id } }", {"id": id})
            assert error == none
            for field in ("town(id: $id) { id }", "stepById(id: $id) { items { id } }"):
                error = await foreign.error(f"query ($id: ID!) {{ {field} }}", {"id": id})
                assert (error["message"], error["extensions"]) == (none["message"], none["extensions"])
        found = await foreign.execute(NODES, {"ids": ids})
        assert found.body["data"]["nodes"] == [None] * 9
        assert found.codes == ("INVALID_RECORD_KEY",) * 9
        assert (foreign.counts.gets, foreign.counts.reads) == (0, 0)


async def test_forged_ids_are_refused(client: GraphQLClient, random: Random) -> None:
    """Global ids with changed, swapped or cut characters are errors in their own positions; valid ids are returned."""
    ids = await global_ids(client)
    for _ in range(20):
        at = random.randrange(1, len(ids[0]) - 1)
        changed = f"{ids[0][:at]}{'A' if ids[0][at] != 'A' else 'B'}{ids[0][at + 1 :]}"
        swapped = f"{ids[1][:at]}{ids[2][at:]}"
        forged = [changed, ids[0][:at], ids[0][at:], *([swapped] if swapped not in ids else [])]
        client.reset_counts()
        found = await client.execute(NODES, {"ids": [ids[0], *forged, ids[1]]})
        assert [node and node["name"] for node in found.body["data"]["nodes"]] == ["n0", *[None] * len(forged), "n1"]
        assert [error["path"] for error in found.body["errors"]] == [
            ["nodes", index + 1] for index in range(len(forged))
        ]
        assert {*found.codes} == {"INVALID_RECORD_KEY"}
        assert client.counts.gets == 2


async def test_id_limit(client: GraphQLClient) -> None:
    """One field reads at most 100 ids; more are refused without a read."""
    ids = await global_ids(client)
    assert len((await client.data(NODES, {"ids": ids[:1] * 100}))["nodes"]) == 100
    client.reset_counts()
    error = await client.error(NODES, {"ids": ids[:1] * 101})
    assert error["extensions"] == {"code": "INVALID_LIMIT", "argument": "ids"}
    assert client.counts.gets == 0
    assert await client.data(NODES, {"ids": []}) == {"nodes": []}


@pytest.mark.parametrize("written", [True, False])
async def test_query_cost_of_nodes(written: bool, tmp_path: Path) -> None:
    """`nodes` costs one record for each id, as a literal or in a variable; `node` costs one record."""
    async with open_client(CATALOG, tmp_path, limits=Limits(cost=61)) as client:

        async def codes(count: int) -> Sequence[str]:
            ids = ["x"] * count
            if written:
                given = ", ".join(f'"{id}"' for id in ids)
                return (await client.execute(f"{{ nodes(ids: [{given}]) {{ id __typename }} }}")).codes
            return (
                await client.execute("query ($ids: [ID!]!) { nodes(ids: $ids) { id __typename } }", {"ids": ids})
            ).codes

        assert await codes(20) == ("INVALID_RECORD_KEY",) * 20
        assert await codes(21) == ("QUERY_TOO_COSTLY",)
        assert (await client.execute('{ node(id: "x") { id __typename } }')).codes == ("INVALID_RECORD_KEY",)


# --- extensions ------------------------------------------------------------------------------------------------


async def test_custom_fields_and_hooks(tmp_path: Path) -> None:
    """Custom fields are available through `node`, and a hook on the `id` of a type runs only for that type."""
    graph = Graph(CATALOG)

    @strawberry.type
    class More:
        @strawberry.field
        def shout(self, root: strawberry.Parent[Any]) -> str:
            return str(root.name.upper())

    graph.extend(Town, More)
    seen: list[Any] = []

    class Watch(strawberry.extensions.FieldExtension):
        def resolve(self, next_: Any, source: Any, info: Any, **given: Any) -> Any:
            seen.append(source)
            return next_(source, info, **given)

    graph.hook("Town.id", Watch())
    async with open_client(CATALOG, tmp_path, *RECORDS, graph=graph) as client:
        id = client.db.seal_key(TOWNS[1])
        found = await client.data(
            "query ($id: ID!) { node(id: $id) { id ... on Town { shout } } settings { id } }", {"id": id}
        )
    assert found["node"] == {"id": id, "shout": "N1"}
    assert seen == [TOWNS[1]]


async def test_custom_unions_of_record_types(tmp_path: Path) -> None:
    """A custom union of generated types resolves the type of each record by its class."""
    graph = Graph(CATALOG)
    town, step = graph.record_type(Town), graph.record_type(Step)
    either: Any = list[Annotated[town | step, strawberry.union("Found")]]  # type: ignore[valid-type]

    both: Any = strawberry.field(resolver=lambda: [STEPS[0], TOWNS[0]], graphql_type=either)
    graph.query(strawberry.type(type("Query", (), {"both": both})))
    async with open_client(CATALOG, tmp_path, *RECORDS, graph=graph) as client:
        found = await client.data("{ both { __typename ... on Node { id } } }")
    assert [one["__typename"] for one in found["both"]] == ["Step", "Town"]
    assert [one["id"] for one in found["both"]] == [client.db.seal_key(STEPS[0]), client.db.seal_key(TOWNS[0])]


# --- authorization ---------------------------------------------------------------------------------------------


class Memo(Entity, allow=signed_in):
    """Readable by authenticated principals only."""

    memo_id: Id[str]
    text: str = ""


async def test_access_rules_of_nodes(tmp_path: Path) -> None:
    """A record that the caller may not read is refused by `nodes` without a read; other records are returned."""
    memo = Memo(memo_id="m", text="x")
    async with open_client(Catalog(Memo, Settings), tmp_path, memo, Settings()) as client:
        ids = [client.db.seal_key(memo), client.db.seal_key(Settings())]
        query = "query ($ids: [ID!]!) { nodes(ids: $ids) { __typename ... on Memo { text } } }"
        client.reset_counts()
        found = await client.execute(query, {"ids": ids})
        assert found.codes == ("FORBIDDEN",)
        assert found.body["data"]["nodes"] == [None, {"__typename": "Settings"}]
        assert client.counts.gets == 1
        known = await client.data(query, {"ids": ids}, caller=Caller("c", subject="ann"))
        assert known["nodes"][0] == {"__typename": "Memo", "text": "x"}
