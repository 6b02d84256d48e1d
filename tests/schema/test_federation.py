"""Federation: generated entities by their keys, and the SDL of a subgraph."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import graphql
import pytest
import strawberry

from graphql_api import Catalog, Entity, Graph, Id, SubId, Timestamp, Ttl, allow, group, owner
from graphql_api.schema.federated_schema import MAX_REPRESENTATIONS
from graphql_api.schema.request_context import Caller
from graphql_api.schema.sdl import compare_schemas, print_sdl
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from tests.schema.graphql_client import GraphQLClient, client_for, open_client, open_database
from tests.support.dynamodb_servers import Server


class Kind(Enum):
    """A kind of accounts."""

    SAVINGS = "s"
    CURRENT = "c"


class Member(Entity):
    """Has one id, and a restricted property."""

    member_id: Id[str]
    name: str
    salary: Annotated[int | None, allow(group("Payroll"))] = None
    expires: Ttl[Timestamp] | None = None


class Account(Entity):
    """Has ids of several types."""

    kind: Id[Kind]
    number: Id[int]
    rate: Id[Decimal]
    note: str = ""


class Change(Entity):
    """Has a sub id."""

    change_id: Id[str]
    changed_at: SubId[str]
    text: str


class Letter(Entity, allow=[owner("owner")]):
    """Belongs to somebody."""

    letter_id: Id[str]
    owner: str


class Secret(Entity):
    """Has no id: there is one record."""

    text: str


@strawberry.federation.type(keys=["code"])
class Country:
    """An entity of the application."""

    code: str
    name: str

    @classmethod
    async def resolve_reference(cls, code: str) -> "Country":
        return cls(code=code, name=code.upper())


RECORDS = [
    *(Member(member_id=f"m{number}", name=f"Name {number}", salary=number) for number in range(150)),
    Member(member_id="gone", name="Gone", expires=1),
    Account(kind=Kind.CURRENT, number=2**60, rate=Decimal("1.50"), note="main"),
    Change(change_id="c1", changed_at="1", text="first"),
    Change(change_id="c1", changed_at="2", text="second"),
    Letter(letter_id="l1", owner="ann"),
    Secret(text="shown"),
]
ENTITIES = """query ($representations: [_Any!]!) { _entities(representations: $representations) { __typename
  ... on Member { name } ... on Account { note number } ... on Change { text } ... on Letter { owner }
  ... on Secret { text } ... on Country { name } } }"""
SALARIES = "query ($of: [_Any!]!) { _entities(representations: $of) { ... on Member { name salary } } }"


def subgraph(**options: Any) -> Graph:
    """Return a subgraph."""
    catalog = Catalog(Member, Account, Change, Letter, Secret)
    return Graph(catalog, federation=True, types=[Country], **options)


@asynccontextmanager
async def open_subgraph(folder: Path, **options: Any) -> AsyncIterator[GraphQLClient]:
    """Open a client with all records."""
    graph = subgraph()
    async with open_client(graph.catalog, folder, *RECORDS, graph=graph, **options) as client:
        yield client


def test_sdl() -> None:
    """The SDL declares the id and the properties of the primary key as keys, and parses without other definitions."""
    sdl = subgraph().schema.subgraph_sdl  # type: ignore[attr-defined]
    document = graphql.parse(sdl)
    keys = {
        one.name.value: [
            value.value.value
            for directive in one.directives or ()
            if directive.name.value == "key"
            for value in directive.arguments or ()
            if value.name.value == "fields" and isinstance(value.value, graphql.StringValueNode)
        ]
        for one in document.definitions
        if isinstance(one, graphql.ObjectTypeDefinitionNode)
    }
    assert {name: found for name, found in keys.items() if found} == {
        "Member": ["id", "memberId"],
        "Account": ["id", "kind number rate"],
        "Change": ["id", "changeId changedAt"],
        "Letter": ["id", "letterId"],
        "Secret": ["id"],
        "Country": ["code"],
    }
    assert "@link(" in sdl
    assert "type PageInfo @federation__shareable" in sdl


def test_without_federation() -> None:
    """Without federation, the schema has no keys and no fields of federation."""
    sdl = Graph(Catalog(Member)).schema.as_str()
    assert not any(word in sdl for word in ("_entities", "_service", "_Any", "@key", "federation"))


def test_printed_sdl() -> None:
    """The command line prints and compares the SDL of a subgraph, with its directives."""
    printed = print_sdl({"app:graph": subgraph().schema})
    assert compare_schemas(printed, printed).differs is False
    changed = printed.replace('@key(fields: "memberId", resolvable: true)', "")
    assert compare_schemas(changed, printed).differs is True
    less = compare_schemas(printed, printed.replace("  owner: String!\n", "", 1))
    assert less.breaking == ("Field Letter.owner was removed.",)


async def check_entities(client: GraphQLClient) -> None:
    """Assert what representations of each entity return."""
    ids = await client.data('{ member(id: "m7") { id } secret { id } }')
    representations = [
        {"__typename": "Member", "memberId": "m3"},
        {"__typename": "Member", "id": ids["member"]["id"]},
        {"__typename": "Account", "kind": "CURRENT", "number": str(2**60), "rate": "1.5"},
        {"__typename": "Change", "changeId": "c1", "changedAt": "1"},
        {"__typename": "Secret", "id": ids["secret"]["id"]},
        {"__typename": "Country", "code": "it"},
        {"__typename": "Member", "memberId": "none"},
        {"__typename": "Member", "memberId": "gone"},
    ]
    data = await client.data(ENTITIES, {"representations": representations})
    assert data["_entities"] == [
        {"__typename": "Member", "name": "Name 3"},
        {"__typename": "Member", "name": "Name 7"},
        {"__typename": "Account", "note": "main", "number": str(2**60)},
        {"__typename": "Change", "text": "first"},
        {"__typename": "Secret", "text": "shown"},
        {"__typename": "Country", "name": "IT"},
        None,
        None,
    ]


@pytest.mark.parametrize("compiled", [True, False])
async def test_entities(tmp_path: Path, compiled: bool) -> None:
    """Records are read by their global id, or by all properties of their key, in the order of the representations."""
    async with open_subgraph(tmp_path, compiled=compiled) as client:
        await check_entities(client)


async def test_entities_on_dynamodb(dynamodb: Server, tmp_path: Path) -> None:
    """The same on DynamoDB, where each batch has at most 100 keys."""
    graph = subgraph()
    store = await dynamodb.open(f"federation-{tmp_path.name}")
    async with open_database(graph.catalog, store, *RECORDS) as db:
        client = client_for(db, graph=graph)
        await check_entities(client)
        representations = [{"__typename": "Member", "memberId": f"m{number}"} for number in range(150)]
        data = await client.data(ENTITIES, {"representations": representations})
        assert [one["name"] for one in data["_entities"]] == [f"Name {number}" for number in range(150)]


class Batches(ForwardingStore):
    """Notes the number of keys of each call."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.sizes: list[int] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.sizes.append(len(keys))
        return await super().get_many(keys, consistent)


async def test_batches(tmp_path: Path) -> None:
    """Representations of one request are read by one call of the store, with each key once."""
    async with open_subgraph(tmp_path) as client:
        client.reset_counts()
        representations = [{"__typename": "Member", "memberId": f"m{number % 150}"} for number in range(300)]
        batches = Batches(client.db.store)
        counted = replace(client, db=replace(client.db, store=batches))
        data = await counted.data(ENTITIES, {"representations": representations})
        assert [one["name"] for one in data["_entities"]] == [f"Name {number % 150}" for number in range(300)]
        assert batches.sizes == [150]
        assert client.counts.reads == 0


async def test_rules(tmp_path: Path) -> None:
    """Rules of entities and properties apply: what the caller may not see is null, with an error at its path."""
    async with open_subgraph(tmp_path) as client:
        letter = {"__typename": "Letter", "letterId": "l1"}
        response = await client.execute(ENTITIES, {"representations": [letter]}, caller=Caller("c", subject="bob"))
        assert (response.body["data"], response.codes) == ({"_entities": [None]}, ("FORBIDDEN",))
        assert response.body["errors"][0]["path"] == ["_entities", 0]
        response = await client.execute(ENTITIES, {"representations": [letter]}, caller=Caller("c", subject="ann"))
        assert response.body["data"] == {"_entities": [{"__typename": "Letter", "owner": "ann"}]}
        member = {"__typename": "Member", "memberId": "m3"}
        payroll = Caller("c", subject="eve", groups=frozenset({"Payroll"}))
        assert await client.data(SALARIES, {"of": [member]}, caller=payroll) == {
            "_entities": [{"name": "Name 3", "salary": "3"}]
        }
        response = await client.execute(SALARIES, {"of": [member]})
        assert "FORBIDDEN" in response.codes
        assert "'3'" not in str(response.body)


@pytest.mark.parametrize(
    ("representation", "code", "words"),
    [
        (5, "INVALID_VALUE", "representations[1] must be an object"),
        ([], "INVALID_VALUE", "representations[1] must be an object"),
        ({}, "INVALID_VALUE", "representations[1] must be an object"),
        ({"__typename": 5}, "INVALID_VALUE", "representations[1] must be an object"),
        ({"__typename": "Membre", "memberId": "m3"}, "INVALID_VALUE", "Did you mean 'Member'?"),
        ({"__typename": "Query"}, "INVALID_VALUE", "no entity of this subgraph"),
        ({"__typename": "Member"}, "MISSING_ARGUMENT", "identified by id, or by memberId"),
        ({"__typename": "Member", "memberId": None}, "MISSING_ARGUMENT", "identified by id, or by memberId"),
        ({"__typename": "Member", "memberId": {"a": 1}}, "INVALID_VALUE", "representations[1].memberId"),
        ({"__typename": "Member", "memberId": 5}, "INVALID_VALUE", "representations[1].memberId"),
        ({"__typename": "Member", "id": "x"}, "INVALID_RECORD_KEY", "representations[1].id"),
        ({"__typename": "Account", "kind": "X", "number": 1, "rate": 1}, "INVALID_VALUE", "representations[1].kind"),
        ({"__typename": "Account", "kind": "SAVINGS", "number": "x", "rate": 1}, "INVALID_VALUE", "[1].number"),
        ({"__typename": "Change", "changeId": "c1"}, "MISSING_ARGUMENT", "changeId and changedAt"),
        ({"__typename": "Country", "name": "x"}, "INVALID_VALUE", "representations[1] is no key of a Country"),
    ],
)
async def test_malformed_representations(tmp_path: Path, representation: Any, code: str, words: str) -> None:
    """A malformed representation has an error at its path that says what is wrong; the others are read."""
    async with open_subgraph(tmp_path) as client:
        good = {"__typename": "Member", "memberId": "m3"}
        response = await client.execute(ENTITIES, {"representations": [good, representation]})
        assert response.body["data"]["_entities"] == [{"__typename": "Member", "name": "Name 3"}, None]
        (error,) = response.body["errors"]
        assert (error["path"], error["extensions"]["code"]) == (["_entities", 1], code)
        assert words in error["message"]


async def test_keys_of_other_types(tmp_path: Path) -> None:
    """The global id of another type is refused."""
    async with open_subgraph(tmp_path) as client:
        id = (await client.data("{ secret { id } }"))["secret"]["id"]
        error = await client.error(ENTITIES, {"representations": [{"__typename": "Member", "id": id}]})
        assert error["extensions"]["code"] == "INVALID_RECORD_KEY"


async def test_literals(tmp_path: Path) -> None:
    """Representations may be literals, with variables in them."""
    async with open_subgraph(tmp_path) as client:
        query = (
            'query ($id: String) { _entities(representations: [{__typename: "Member", memberId: $id}]) { __typename } }'
        )
        assert await client.data(query, {"id": "m1"}) == {"_entities": [{"__typename": "Member"}]}


async def test_limits(tmp_path: Path) -> None:
    """The number of representations is limited, and the cost counts each of them."""
    async with open_subgraph(tmp_path) as client:
        member = {"__typename": "Member", "memberId": "m1"}
        client.reset_counts()
        error = await client.error(ENTITIES, {"representations": [member] * (MAX_REPRESENTATIONS + 1)})
        assert error["extensions"]["code"] == "INVALID_LIMIT"
        fields = " ".join(f"a{number}: name" for number in range(40))
        query = f"query ($of: [_Any!]!) {{ _entities(representations: $of) {{ ... on Member {{ {fields} }} }} }}"
        error = await client.error(query, {"of": [member] * 400})
        assert error["extensions"]["code"] == "QUERY_TOO_COSTLY"
        assert (client.counts.gets, client.counts.reads) == (0, 0)


async def test_service(tmp_path: Path) -> None:
    """`_service` returns the SDL as introspection does, or if a setting permits it."""
    query = "{ _service { sdl } }"
    async with open_subgraph(tmp_path) as client:
        sdl = (await client.data(query))["_service"]["sdl"]
        assert sdl == client.executor.schema.subgraph_sdl  # type: ignore[attr-defined]
    for number, allows in enumerate([False, True]):
        (tmp_path / str(number)).mkdir()
        options = {"introspection": False, "federation_sdl": allows}
        async with open_subgraph(tmp_path / str(number), **options) as client:
            response = await client.execute(query)
            assert response.codes == (() if allows else ("GRAPHQL_VALIDATION_FAILED",))
            assert (await client.execute("{ __schema { types { name } } }")).codes != ()
            assert (await client.execute(ENTITIES, {"representations": []})).codes == ()
