"""Ids of records: what `id` is, what `node`, `nodes` and the fields by id do with it, and whose ids are refused."""

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
from tests.schema.asking import Asked, asked, asking, write


class Town(Entity, shards=Shards(1)):
    """Has a property called `id`, and has not grown yet."""

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
    """The same later."""


class Step(Entity, shards=Shards(4)):
    """Entries of a history under a composite id."""

    order: Id[str]
    year: Id[int]
    at: SubId[str]
    status: str = ""


class Settings(Entity):
    """There is one."""

    theme: str = "dark"


class Slug(Entity):
    """Its id is made of its title."""

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
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    """The catalog with its records."""
    async with asked(CATALOG, tmp_path, *RECORDS) as found:
        yield found


async def ids_of(ask: Asked) -> list[str]:
    """The ids of all towns, all steps and the settings, as clients get them."""
    found = await ask.data(
        '{ townById { items { id } } stepById(id: "o%2F1/2026") { edges { node { id } } } settings { id } }'
    )
    towns = [item["id"] for item in found["townById"]["items"]]
    return [*towns, *(edge["node"]["id"] for edge in found["stepById"]["edges"]), found["settings"]["id"]]


# --- the schema ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", [None, "Plugin"])
def test_every_record_is_a_node(namespace: str | None) -> None:
    """Every type of records implements `Node`, whose name and fields no namespace changes; `id` comes first."""
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


def test_the_schema_is_printed_alike() -> None:
    """The schema of one catalog is printed in one form, however often it is made."""
    assert build_schema(CATALOG).as_str() == build_schema(CATALOG).as_str()
    assert "type Town implements Node {" in build_schema(CATALOG).as_str()


# --- ids -------------------------------------------------------------------------------------------------------


async def test_an_id_is_the_same_wherever_it_is_asked_for(ask: Asked) -> None:
    """A record has one id in every list and field, whether an index tells all of it or only its keys."""
    found = await ask.data(
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
        ask.db.seal_key(TOWNS[1]),
    }
    assert len(ids) == 1
    assert found["town"]["rowId"] == "own"
    assert len({item["id"] for item in found["towns"]["items"]}) == 5


async def test_every_record_is_found_by_its_id(ask: Asked) -> None:
    """Records of every key pattern come back by their ids, in the given order, by one call, and none is read twice."""
    ids = await ids_of(ask)
    assert len(set(ids)) == 9
    given = [*ids[::-1], ids[0]]
    ask.forget()
    answer = await ask.answer(NODES, {"ids": given}, caller=Caller("c", explain=True))
    found = answer.body["data"]["nodes"]
    assert [node["id"] for node in found] == given
    assert [node["__typename"] for node in found] == ["Settings", *["Step"] * 3, *["Town"] * 5, "Town"]
    assert [node["at"] for node in found[1:4]] == ["c", "b", "a"]
    assert found[-1] == {"__typename": "Town", "id": ids[0], "name": "n0", "rowId": "own"}
    assert (ask.counts.gets, ask.counts.reads) == (9, 0)
    assert [(told["records"], told["read"]["fetched"]) for told in answer.body["extensions"]["explain"]] == [(9, 9)]
    one = await ask.data("query ($id: ID!) { node(id: $id) { id ... on Settings { theme } } }", {"id": ids[-1]})
    assert one["node"] == {"id": ids[-1], "theme": "dark"}


async def test_a_record_that_is_gone(ask: Asked) -> None:
    """Where a record is gone its place is null, and nothing else is."""
    ids = await ids_of(ask)
    await ask.db.delete(Town, "t2")
    found = await ask.data(NODES, {"ids": ids[:4]})
    assert [node and node["name"] for node in found["nodes"]] == ["n0", "n1", None, "n3"]
    assert await ask.data("query ($id: ID!) { node(id: $id) { id } }", {"id": ids[2]}) == {"node": None}


async def test_one_read_whatever_has_grown_since(tmp_path: Path) -> None:
    """Ids from before a growth find their records after it by one read each, and so do the ids of later records."""
    later = [Grown(town_id=f"g{created}", created=created, name="later") for created in (150, 250)]
    async with asked(CATALOG, tmp_path, *TOWNS) as before:
        ids = [before.db.seal_key(town) for town in TOWNS]
        after = asking(replace(before.db, catalog=GROWN))
        await write(after.db, later)
        data = await after.data('{ grownByName(eq: "later") { items { id } } }')
        ids += [item["id"] for item in data["grownByName"]["items"]]
        assert len(ids) == 7
        after.forget()
        found = await after.data(
            "query ($ids: [ID!]!) { nodes(ids: $ids) { id ... on Grown { townId } } }", {"ids": ids}
        )
        assert [node["townId"] for node in found["nodes"]] == [*(town.town_id for town in TOWNS), "g150", "g250"]
        assert [node["id"] for node in found["nodes"]] == ids
        assert after.counts.gets == 7
        after.forget()
        assert await after.data("query ($id: ID!) { grown(id: $id) { townId } }", {"id": ids[5]})
        assert after.counts.gets == 1
        await after.data('{ grown(id: "g150") { townId } }')
        assert after.counts.gets > 2  # The raw id leaves open where it is.
        early = await before.error("query ($id: ID!) { node(id: $id) { id } }", {"id": ids[6]})
        assert early["extensions"] == {"code": "TOKEN_AHEAD", "argument": "id", "retryable": True}


# --- fields by id ----------------------------------------------------------------------------------------------


async def test_fields_by_id_take_sealed_ids(ask: Asked) -> None:
    """A field that takes `id` takes the raw and the sealed one; of a history that is the very entry, or all entries."""
    ids = await ids_of(ask)
    found = await ask.data(
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


async def test_pages_by_a_sealed_id_go_on(ask: Asked) -> None:
    """A walk that was begun with the sealed id goes on with the raw one, and the other way round."""
    step = (await ids_of(ask))[7]
    query = "query ($id: ID!, $t: String) { stepById(id: $id, limit: 1, nextToken: $t) { items { at } nextToken } }"
    token, seen = None, ""
    for id in (step, "o%2F1/2026", step):
        page = (await ask.data(query, {"id": id, "t": token}))["stepById"]
        token, seen = page["nextToken"], seen + page["items"][0]["at"]
    assert (seen, token) == ("abc", None)


async def test_another_sub_id_beside_a_sealed_id(ask: Asked) -> None:
    """A sub id beside a sealed id has to be that of the entry which it names."""
    step = (await ids_of(ask))[5]
    error = await ask.error('query ($id: ID!) { step(id: $id, at: "b") { at } }', {"id": step})
    assert error["extensions"] == {"code": "CONFLICTING_ARGUMENTS", "argument": "at"}


async def test_nothing_is_derived_from_a_sealed_id(ask: Asked) -> None:
    """A raw id is derived as the stored one was, and a sealed one is the stored one."""
    id = ask.db.seal_key(Slug(title="Ann"))
    query = "query ($id: ID!) { slug(id: $id) { slug } slugById(id: $id) { items { slug } } }"
    for given in ("Ann", id):
        assert await ask.data(query, {"id": given}) == {
            "slug": {"slug": "Ann-3"},
            "slugById": {"items": [{"slug": "Ann-3"}]},
        }


async def test_what_is_not_sealed_is_raw(ask: Asked) -> None:
    """A text with another signature, however much it looks like an id, is the raw id of some record, or of none."""
    id = ask.db.seal_key(TOWNS[0])
    forged = id[:-1] + ("A" if id[-1] != "A" else "B")
    await ask.db.put(Town(town_id=forged, created=9, name="odd"))
    assert await ask.data("query ($id: ID!) { town(id: $id) { name } }", {"id": forged}) == {"town": {"name": "odd"}}
    assert await ask.data("query ($id: ID!) { town(id: $id) { name } }", {"id": id[:-2]}) == {"town": None}


# --- what is refused -------------------------------------------------------------------------------------------


async def test_ids_of_other_entities_are_refused(ask: Asked) -> None:
    """A sealed id of another entity is refused by every field of one entity, by naming both, and nothing is read."""
    town, step = ask.db.seal_key(TOWNS[0]), ask.db.seal_key(STEPS[0])
    ask.forget()
    for field in ("town(id: $id) { id }", "townById(id: $id) { items { id } }"):
        error = await ask.error(f"query ($id: ID!) {{ {field} }}", {"id": step})
        assert error["extensions"] == {"code": "INVALID_RECORD_KEY", "argument": "id"}
        assert error["message"].startswith("id is the key of a record of 'step', and one of 'town' is expected")
    for field in ("step(id: $id) { id }", "stepById(id: $id) { items { id } }"):
        error = await ask.error(f"query ($id: ID!) {{ {field} }}", {"id": town})
        assert error["extensions"]["code"] == "INVALID_RECORD_KEY"
    assert (ask.counts.gets, ask.counts.reads) == (0, 0)


async def test_ids_of_other_tenants_are_refused(ask: Asked) -> None:
    """An id of another tenant is none here, whatever it is given to; nothing is read, and nothing tells whose it is."""
    acme, other = (replace(ask, db=ask.db.scoped(tenant=tenant)) for tenant in ("acme", "other"))
    await write(acme.db, RECORDS)
    ids = await ids_of(acme)
    none = await ask.error("query ($id: ID!) { node(id: $id) { id } }", {"id": "no id"})
    for foreign in (other, ask):
        foreign.forget()
        for id in ids:
            error = await foreign.error("query ($id: ID!) { node(id: $id) { id } }", {"id": id})
            assert error == none
            for field in ("town(id: $id) { id }", "stepById(id: $id) { items { id } }"):
                error = await foreign.error(f"query ($id: ID!) {{ {field} }}", {"id": id})
                assert (error["message"], error["extensions"]) == (none["message"], none["extensions"])
        found = await foreign.answer(NODES, {"ids": ids})
        assert found.body["data"]["nodes"] == [None] * 9
        assert found.codes == ("INVALID_RECORD_KEY",) * 9
        assert (foreign.counts.gets, foreign.counts.reads) == (0, 0)


async def test_forged_ids_are_refused(ask: Asked, random: Random) -> None:
    """Ids with a changed, swapped or cut character are refused, each in its own place beside those that are right."""
    ids = await ids_of(ask)
    for _ in range(20):
        at = random.randrange(1, len(ids[0]) - 1)
        changed = f"{ids[0][:at]}{'A' if ids[0][at] != 'A' else 'B'}{ids[0][at + 1 :]}"
        swapped = f"{ids[1][:at]}{ids[2][at:]}"
        forged = [changed, ids[0][:at], ids[0][at:], *([swapped] if swapped not in ids else [])]
        ask.forget()
        found = await ask.answer(NODES, {"ids": [ids[0], *forged, ids[1]]})
        assert [node and node["name"] for node in found.body["data"]["nodes"]] == ["n0", *[None] * len(forged), "n1"]
        assert [error["path"] for error in found.body["errors"]] == [
            ["nodes", place + 1] for place in range(len(forged))
        ]
        assert {*found.codes} == {"INVALID_RECORD_KEY"}
        assert ask.counts.gets == 2


async def test_the_most_ids(ask: Asked) -> None:
    """At most 100 ids are read by one field; more of them read nothing."""
    ids = await ids_of(ask)
    assert len((await ask.data(NODES, {"ids": ids[:1] * 100}))["nodes"]) == 100
    ask.forget()
    error = await ask.error(NODES, {"ids": ids[:1] * 101})
    assert error["extensions"] == {"code": "INVALID_LIMIT", "argument": "ids"}
    assert ask.counts.gets == 0
    assert await ask.data(NODES, {"ids": []}) == {"nodes": []}


@pytest.mark.parametrize("written", [True, False])
async def test_what_nodes_cost(written: bool, tmp_path: Path) -> None:
    """`nodes` costs as many records as there are ids, written out or in a variable; `node` costs one."""
    async with asked(CATALOG, tmp_path, limits=Limits(cost=61)) as ask:

        async def codes(count: int) -> Sequence[str]:
            ids = ["x"] * count
            if written:
                given = ", ".join(f'"{id}"' for id in ids)
                return (await ask.answer(f"{{ nodes(ids: [{given}]) {{ id __typename }} }}")).codes
            return (await ask.answer("query ($ids: [ID!]!) { nodes(ids: $ids) { id __typename } }", {"ids": ids})).codes

        assert await codes(20) == ("INVALID_RECORD_KEY",) * 20
        assert await codes(21) == ("QUERY_TOO_COSTLY",)
        assert (await ask.answer('{ node(id: "x") { id __typename } }')).codes == ("INVALID_RECORD_KEY",)


# --- with what is added ----------------------------------------------------------------------------------------


async def test_own_fields_and_hooks(tmp_path: Path) -> None:
    """Own fields on a type are there behind `node` too, and a hook on the `id` of one type sees that one alone."""
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
    async with asked(CATALOG, tmp_path, *RECORDS, graph=graph) as ask:
        id = ask.db.seal_key(TOWNS[1])
        found = await ask.data(
            "query ($id: ID!) { node(id: $id) { id ... on Town { shout } } settings { id } }", {"id": id}
        )
    assert found["node"] == {"id": id, "shout": "N1"}
    assert seen == [TOWNS[1]]


async def test_unions_of_own_types_know_records(tmp_path: Path) -> None:
    """An own union of generated types tells records apart by their classes."""
    graph = Graph(CATALOG)
    town, step = graph.record_type(Town), graph.record_type(Step)
    either: Any = list[Annotated[town | step, strawberry.union("Found")]]  # type: ignore[valid-type]

    both: Any = strawberry.field(resolver=lambda: [STEPS[0], TOWNS[0]], graphql_type=either)
    graph.query(strawberry.type(type("Query", (), {"both": both})))
    async with asked(CATALOG, tmp_path, *RECORDS, graph=graph) as ask:
        found = await ask.data("{ both { __typename ... on Node { id } } }")
    assert [one["__typename"] for one in found["both"]] == ["Step", "Town"]
    assert [one["id"] for one in found["both"]] == [ask.db.seal_key(STEPS[0]), ask.db.seal_key(TOWNS[0])]


# --- rules -----------------------------------------------------------------------------------------------------


class Memo(Entity, allow=signed_in):
    """Only for those who are known."""

    memo_id: Id[str]
    text: str = ""


async def test_rules_hold_for_nodes(tmp_path: Path) -> None:
    """What a caller may not read is not to be had by its id, and is not read; others at its side are."""
    memo = Memo(memo_id="m", text="x")
    async with asked(Catalog(Memo, Settings), tmp_path, memo, Settings()) as ask:
        ids = [ask.db.seal_key(memo), ask.db.seal_key(Settings())]
        query = "query ($ids: [ID!]!) { nodes(ids: $ids) { __typename ... on Memo { text } } }"
        ask.forget()
        found = await ask.answer(query, {"ids": ids})
        assert found.codes == ("FORBIDDEN",)
        assert found.body["data"]["nodes"] == [None, {"__typename": "Settings"}]
        assert ask.counts.gets == 1
        known = await ask.data(query, {"ids": ids}, caller=Caller("c", subject="ann"))
        assert known["nodes"][0] == {"__typename": "Memo", "text": "x"}
