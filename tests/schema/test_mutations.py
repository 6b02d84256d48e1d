"""Generated mutations for every key pattern: names, inputs, results and errors."""

from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import strawberry
from graphql import GraphQLInputObjectType
from pydantic import BaseModel, Field
from strawberry.extensions import FieldExtension

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Id,
    Immutable,
    Index,
    Int32,
    SubId,
    Timestamp,
    Unique,
    Updated,
    Version,
    canonical,
    counter,
    derived,
    generated,
)
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import NOW, open_client
from tests.schema.staff_catalog import Info
from tests.support.store_doubles import Counts


class Level(Enum):
    """The level of knowledge."""

    LOW = "low"
    HIGH = "high"


class Member(Entity):
    """A member of a club."""

    member_id: Id[str] = generated()
    created: Created[Timestamp]
    updated: Updated[Timestamp]
    version: Version[Int32]
    number: Int32 = counter()
    mail: Unique[str]
    first_name: str
    name: str = derived(canonical, "first_name")
    level: Level = Level.LOW
    town: str | None = None
    country: Immutable[str] = "de"
    note: str | None = "-"

    by_name = Index(sort="name")


class Order(Entity, current="~current"):
    """Every version of an order, and a copy of the latest one."""

    order_id: Id[str]
    version: SubId[str]
    status: str
    total: float = 0

    by_status = Index(hash="status", sort="version")


class Part(Entity):
    """A part of a plugin."""

    environment: Id[str]
    plugin: Id[str]
    category: SubId[str]
    number: SubId[int]
    text: str = ""


class Log(Entity):
    """One history for the whole application."""

    at: SubId[int]
    text: str


class Settings(Entity):
    """A singleton."""

    theme: str = "dark"
    size: int | None = None


CATALOG = Catalog(Member, Order, Part, Log, Settings)
GRAPH = Graph(CATALOG)


def _input_fields(graph: Graph = GRAPH) -> dict[str, dict[str, str]]:
    types = graph.schema._schema.type_map
    return {
        name: {field: str(made.type) for field, made in kind.fields.items()}
        for name, kind in types.items()
        if isinstance(kind, GraphQLInputObjectType)
    }


# --- names and types -------------------------------------------------------------------------------------------


def test_mutations_of_each_key_pattern() -> None:
    """Every entity has four mutations, single and batch; a singleton has only single ones. All share `write`."""
    of = {
        "Member": "Members",
        "Order": "Orders",
        "Part": "Parts",
        "Log": "Logs",
    }
    verbs = ("create", "update", "put", "delete")
    expected = [f"{verb}{name}" for one, several in of.items() for verb in verbs for name in (one, several)]
    assert [*GRAPH.mutations] == [*expected, *(f"{verb}Settings" for verb in verbs), "write"]


def test_namespace() -> None:
    """A namespace is the prefix of every mutation and every type."""
    graph = Graph(Catalog(Order, namespace="Shop"))
    verbs = ("create", "update", "put", "delete")
    assert [*graph.mutations] == [
        *(f"Shop_{verb}Order{several}" for verb in verbs for several in ("", "s")),
        "Shop_write",
    ]
    made = {name for name in graph.schema._schema.type_map if name.endswith(("Input", "Patch", "Payload", "Result"))}
    assert made == {
        *(f"Shop_Order{suffix}" for suffix in ("Input", "Patch", "Payload", "BatchPayload", "Result")),
        *("DeleteInput", "DeletePayload", "DeleteBatchPayload", "DeleteResult", "WritePayload", "WriteResult"),
    }
    assert "order" in graph.schema._schema.type_map["Shop_OrderPayload"].fields  # type: ignore[attr-defined]


def test_inputs_of_a_record() -> None:
    """Input fields with a default, nullable or generated are optional; properties that only the server sets are absent.

    An update identifies the record by `id`, and accepts all mutable properties.
    """
    inputs = _input_fields()
    optional = {"level": "Level", "town": "String", "note": "String"}
    assert inputs["MemberInput"] == {
        "memberId": "String",
        "created": "Timestamp",
        "mail": "String!",
        "firstName": "String!",
        "country": "String",
        **optional,
        "expectedVersion": "Int",
    }
    assert inputs["MemberPatch"] == {
        "id": "ID!",
        "mail": "String",
        "firstName": "String",
        **optional,
        "expectedVersion": "Int",
    }
    assert inputs["DeleteInput"] == {"id": "ID!", "expectedVersion": "BigInt"}


def test_inputs_of_other_key_patterns() -> None:
    """A sub id is optional in addition to an id, and required without one. A singleton has neither."""
    inputs = _input_fields()
    assert inputs["OrderPatch"] == {"id": "ID!", "version": "String", "status": "String", "total": "Float"}
    assert inputs["PartPatch"] == {"id": "ID!", "category": "String", "number": "BigInt", "text": "String"}
    assert inputs["LogPatch"] == {"at": "BigInt!", "text": "String"}
    assert inputs["SettingsPatch"] == {"theme": "String", "size": "BigInt"}
    assert "DeleteInput" not in _input_fields(Graph(Catalog(Settings)))


def test_immutable_records_have_no_update() -> None:
    """An entity without mutable properties has no update. A create is possible if the server generates all values."""

    class Visit(Entity):
        visit_id: Id[str] = generated()
        at: Created[Timestamp]

    class Ticket(Entity):
        number: Id[str]
        version: Version[Int32]

    graph = Graph(Catalog(Visit, Ticket))
    assert not [name for name in graph.mutations if name.startswith("update")]
    assert _input_fields(graph)["VisitInput"] == {"visitId": "String", "at": "Timestamp"}


def test_read_only_entity() -> None:
    """An entity that no caller may write has no mutations, so that their names stay free."""

    class Kept(Entity, write=[]):
        kept_id: Id[str]

    assert Graph(Catalog(Kept)).mutations == []
    assert Graph(Catalog(Kept)).schema._schema.mutation_type is None


def test_name_collisions() -> None:
    """A batch mutation with the name of another entity's mutation is refused, with both names."""
    made = {"visits": (Entity,), "visit": (Entity,)}
    visit: Any = type("Visit", made["visit"], {"__annotations__": {"visit_id": Id[str]}, "__module__": __name__})
    visits: Any = type("Visits", made["visits"], {"__annotations__": {"at": SubId[int]}, "__module__": __name__})
    with pytest.raises(InvalidCatalog, match="becomes the mutation 'createVisits', which is taken by"):
        Graph(Catalog(visit, visits))


def test_entity_called_error() -> None:
    """In the result of a batch row, the field of an entity called `Error` has a trailing underscore."""
    error: Any = type("Error", (Entity,), {"__annotations__": {"error_id": Id[str]}, "__module__": __name__})
    types: Any = Graph(Catalog(error)).schema._schema.type_map
    assert set(types["ErrorResult"].fields) == {"error_", "error"}


# --- one record ------------------------------------------------------------------------------------------------

CREATE = """mutation ($input: MemberInput!, $key: String) {
  createMember(input: $input, idempotencyKey: $key) {
    member { id memberId created updated version number mail firstName name level town country note }
  }
}"""
NEW = {"memberId": "m-1", "mail": "ann@example.org", "firstName": "Änn"}


async def test_create(tmp_path: Path) -> None:
    """A create returns and stores the record with defaults, derived properties and values set by the server."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        made = (await client.data(CREATE, {"input": NEW}))["createMember"]["member"]
        global_id = made.pop("id")
        assert made == {
            **NEW,
            "created": NOW,
            "updated": NOW,
            "version": 1,
            "number": 1,
            "name": "ann",
            "level": "LOW",
            "town": None,
            "country": "de",
            "note": "-",
        }
        found = await client.data(
            "query ($id: ID!) { node(id: $id) { id ... on Member { mail name } } }", {"id": global_id}
        )
        assert found == {"node": {"id": global_id, "mail": NEW["mail"], "name": "ann"}}
        more = {"mail": "bo@example.org", "firstName": "Bo", "created": 5, "town": None, "note": None, "level": None}
        second = (await client.data(CREATE, {"input": more}))["createMember"]["member"]
        assert (second["created"], second["number"], second["note"], second["level"]) == (5, 2, None, "LOW")
        assert len(second["memberId"]) > 10


async def test_create_conflicts(tmp_path: Path) -> None:
    """A create of an existing record or a duplicate unique value is an error of its field, and changes nothing."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        await client.data(CREATE, {"input": NEW})
        answer = await client.execute(CREATE, {"input": {**NEW, "mail": "x@example.org"}})
        assert answer.body["data"] == {"createMember": None}
        (error,) = answer.body["errors"]
        assert (error["path"], error["extensions"]["code"]) == (["createMember"], "ALREADY_EXISTS")
        error = await client.error(CREATE, {"input": {**NEW, "memberId": "m-2"}})
        assert error["extensions"] == {"code": "NOT_UNIQUE", "argument": "mail"}
        assert await client.data('{ member(id: "m-2") { mail } }') == {"member": None}


async def test_invalid_records(tmp_path: Path) -> None:
    """All validation errors of a record are reported at once, under the GraphQL names of the properties."""
    catalog = Catalog(_visit_with_places())
    async with open_client(catalog, tmp_path) as client:
        query = "mutation ($input: VisitInput!) { createVisit(input: $input) { visit { visitId } } }"
        wrong = {"visitId": "v", "dayCount": 0, "placesSeen": [{"townName": "x" * 9}]}
        error = await client.error(query, {"input": wrong})
        extensions = error["extensions"]
        assert (extensions["code"], extensions["argument"]) == ("INVALID_RECORD", "dayCount")
        assert [one["field"] for one in extensions["fields"]] == ["dayCount", "placesSeen.0.townName"]
        assert "Visit.dayCount" in error["message"]
        assert "day_count" not in str(error)
        assert await client.data('{ visit(id: "v") { visitId } }') == {"visit": None}


def _visit_with_places() -> Any:
    class Place(BaseModel):
        town_name: str = Field(max_length=5)

    class Visit(Entity):
        visit_id: Id[str]
        day_count: int = Field(ge=1)
        places_seen: list[Place]

    return Visit


async def test_update(tmp_path: Path) -> None:
    """An update keeps omitted properties and clears null ones. It accepts the raw id and the global id."""
    query = """mutation ($input: MemberPatch!) {
      updateMember(input: $input) { member { firstName name town note version updated created number } }
    }"""
    at = [NOW]
    async with open_client(CATALOG, tmp_path, graph=GRAPH, clock=lambda: at[0]) as client:
        made = (await client.data(CREATE, {"input": {**NEW, "town": "Rom"}}))["createMember"]["member"]
        at[0] += 5
        first = (await client.data(query, {"input": {"id": "m-1", "firstName": "Bo", "note": None}}))["updateMember"]
        assert first["member"] == {
            "firstName": "Bo",
            "name": "bo",
            "town": "Rom",
            "note": None,
            "version": 2,
            "updated": NOW + 5,
            "created": NOW,
            "number": 1,
        }
        second = await client.data(query, {"input": {"id": made["id"], "town": None}})
        assert second["updateMember"]["member"]["town"] is None
        found = await client.data(
            '{ member(id: "m-1") { firstName town version } memberByName(eq: "bo") { items { mail } } }'
        )
        assert found["member"] == {"firstName": "Bo", "town": None, "version": 3}
        assert found["memberByName"]["items"] == [{"mail": NEW["mail"]}]
        error = await client.error(query, {"input": {"id": "m-9", "town": "Rom"}})
        assert error["extensions"]["code"] == "RECORD_NOT_FOUND"
        error = await client.error(query, {"input": {"id": "m-1", "firstName": None}})
        assert [one["field"] for one in error["extensions"]["fields"]] == ["firstName"]


async def test_put_and_delete(tmp_path: Path) -> None:
    """A put creates or replaces a whole record. A delete returns the id of the deleted record, or null without one."""
    put = "mutation ($input: MemberInput!) { putMember(input: $input) { member { id note town version number } } }"
    delete = "mutation ($id: ID!) { deleteMember(id: $id) { deletedId } }"
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        first = (await client.data(put, {"input": {**NEW, "town": "Rom", "note": "x"}}))["putMember"]["member"]
        again = (await client.data(put, {"input": NEW}))["putMember"]["member"]
        assert again == {"id": first["id"], "note": "-", "town": None, "version": 2, "number": 1}
        assert await client.data(delete, {"id": first["id"]}) == {"deleteMember": {"deletedId": first["id"]}}
        assert await client.data(delete, {"id": "m-1"}) == {"deleteMember": {"deletedId": None}}
        assert await client.data('{ member(id: "m-1") { mail } }') == {"member": None}
        # The deleted record has released its unique e-mail.
        await client.data(CREATE, {"input": {**NEW, "memberId": "m-2"}})


async def test_expected_versions(tmp_path: Path) -> None:
    """A write with an outdated expected version changes nothing, and reports the stored version."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        await client.data(CREATE, {"input": NEW})
        for given, inside in (("expectedVersion: 1", ""), ("", "expectedVersion: 2")):
            row = f'input: {{id: "m-1", town: "Rom" {inside}}}'
            await client.data(f"mutation {{ updateMember({row} {given}) {{ member {{ version }} }} }}")
        for field in (
            'updateMember(input: {id: "m-1", town: "Bonn"}, expectedVersion: 2) { member { town } }',
            'updateMember(input: {id: "m-1", town: "Bonn", expectedVersion: 2}) { member { town } }',
            'putMember(input: {memberId: "m-1", mail: "x", firstName: "x"}, expectedVersion: 2) { member { town } }',
            'deleteMember(id: "m-1", expectedVersion: 2) { deletedId }',
        ):
            error = await client.error(f"mutation {{ {field} }}")
            assert error["extensions"] == {"code": "VERSION_CONFLICT", "argument": "expectedVersion", "version": 3}
        both = 'updateMember(input: {id: "m-1", expectedVersion: 2}, expectedVersion: 3) { member { town } }'
        assert (await client.error(f"mutation {{ {both} }}"))["extensions"]["code"] == "CONFLICTING_ARGUMENTS"
        assert await client.data('{ member(id: "m-1") { town version } }') == {"member": {"town": "Rom", "version": 3}}


async def test_idempotency_keys(tmp_path: Path) -> None:
    """Requests with the same idempotency key take effect once and get the same response."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        ann = {"mail": "ann@example.org", "firstName": "Ann"}
        first = await client.data(CREATE, {"input": ann, "key": "k-1"})
        assert await client.data(CREATE, {"input": ann, "key": "k-1"}) == first
        assert (await client.error(CREATE, {"input": {**ann, "firstName": "Bo"}, "key": "k-1"}))["extensions"][
            "code"
        ] == "IDEMPOTENCY_MISMATCH"
        found = await client.data("{ memberByName { items { number } } }")
        assert found == {"memberByName": {"items": [{"number": 1}]}}


# --- other key patterns ----------------------------------------------------------------------------------------


async def test_histories(tmp_path: Path) -> None:
    """An update with a new sub id appends an entry, based on the latest one, and replaces the current record."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        made = await client.data(
            """mutation {
              createOrder(input: {orderId: "o-1", version: "v1", status: "placed", total: 9.5}) { order { id total } }
              updateOrder(input: {id: "o-1", version: "v2", status: "sent"}) { order { id version status total } }
            }"""
        )
        assert made["updateOrder"]["order"].items() >= {"version": "v2", "status": "sent", "total": 9.5}.items()
        first = made["createOrder"]["order"]["id"]
        current = '{ order(id: "o-1") { version status total } }'
        assert await client.data(current) == {"order": {"version": "~current", "status": "sent", "total": 9.5}}
        change = "mutation ($input: OrderPatch!) { updateOrder(input: $input) { order { version status } } }"
        # The global id identifies one entry; with another sub id the update appends an entry.
        changed = await client.data(change, {"input": {"id": first, "status": "paid"}})
        assert changed == {"updateOrder": {"order": {"version": "v1", "status": "paid"}}}
        await client.data(change, {"input": {"id": first, "version": "v3", "status": "lost"}})
        assert (await client.data(current))["order"]["status"] == "lost"
        error = await client.error(change, {"input": {"id": "o-1", "status": "x"}})
        assert error["extensions"] == {"code": "MISSING_ARGUMENT", "argument": "version"}
        deleted = await client.data('mutation { deleteOrder(id: "o-1", version: "v3") { deletedId } }')
        assert deleted["deleteOrder"]["deletedId"]
        assert (await client.data(current))["order"]["status"] == "sent"


async def test_composite_ids_and_sub_ids_alone(tmp_path: Path) -> None:
    """A composite id is one string with separators. Entities with only a sub id, and singletons, can be written."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        answer = await client.execute(
            """mutation {
              createPart(input: {environment: "prod/eu", plugin: "orders", category: "a", number: 7}) { part { id } }
              updatePart(input: {id: "prod%2Feu/orders", category: "a", number: "7", text: "x"}) { part { text } }
              createLog(input: {at: 3, text: "three"}) { log { text } }
              updateLog(input: {at: 3, text: "four"}) { log { text } }
              first: deleteLog(at: 3) { deletedId }
              again: deleteLog(at: 3) { deletedId }
              putSettings(input: {theme: "light", size: 3}) { settings { theme } }
              updateSettings(input: {size: null}) { settings { theme size } }
              createSettings(input: {}) { settings { theme } }
            }"""
        )
        made = answer.body["data"]
        assert answer.codes == ("ALREADY_EXISTS",)
        assert made["updatePart"] == {"part": {"text": "x"}}
        assert made["updateLog"] == {"log": {"text": "four"}}
        assert made["first"]["deletedId"]
        assert made["again"] == {"deletedId": None}
        assert made["updateSettings"] == {"settings": {"theme": "light", "size": None}}
        assert made["createSettings"] is None
        global_id = made["createPart"]["part"]["id"]
        deleted = await client.data("mutation ($id: ID!) { deletePart(id: $id) { deletedId } }", {"id": global_id})
        assert deleted == {"deletePart": {"deletedId": global_id}}
        deleted = await client.data("mutation { deleteSettings { deletedId } }")
        assert deleted["deleteSettings"]["deletedId"]


async def test_invalid_ids(tmp_path: Path) -> None:
    """The global id of another entity, a malformed id and an empty id are refused without any read."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        global_id = (await client.data(CREATE, {"input": NEW}))["createMember"]["member"]["id"]
        client.reset_counts()
        update = 'mutation ($id: ID!) { updatePart(input: {id: $id, category: "a", number: 1}) { part { text } } }'
        assert (await client.error(update, {"id": global_id}))["extensions"]["code"] == "INVALID_RECORD_KEY"
        assert (await client.error(update, {"id": "one"}))["extensions"] == {"code": "INVALID_VALUE", "argument": "id"}
        empty = 'mutation { deleteMember(id: "") { deletedId } }'
        assert (await client.error(empty))["extensions"] == {"code": "EMPTY_KEY", "argument": "id"}
        assert client.counts.scalar_counts() == Counts().scalar_counts()


# --- explain ---------------------------------------------------------------------------------------------------

EXPLAINED = Caller("c-1", explain=True)


async def test_explain_output(tmp_path: Path) -> None:
    """The explain output of a mutation reports the reads and writes of each field."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        answer = await client.execute(
            """mutation {
              updateOrder(input: {id: "o", version: "v1", status: "x"}) { order { status } }
              createOrder(input: {orderId: "o", version: "v1", status: "new"}) { order { status } }
              deleteParts(inputs: [{id: "a"}]) { results { deletedId } }
            }""",
            caller=EXPLAINED,
        )
        assert answer.codes == ("RECORD_NOT_FOUND",)
        explained = answer.body["extensions"]["explain"]
        by_field = {one["path"][0]: one for one in explained}
        shown = ("rounds", "writes", "capacityUnits")
        found = {
            name: (one["entity"], one["records"], *(one["write"][part] for part in shown))
            for name, one in by_field.items()
        }
        assert found == {
            "createOrder": ("Order", 1, 1, 2, 8),
            "deleteParts": ("Part", 0, 0, 0, 0),
            "updateOrder": ("Order", 1, 0, 0, 0),
        }
        write = by_field["createOrder"]["write"]
        assert write["estimated"]
        assert write["estimate"]["least"] <= write["capacityUnits"] <= write["estimate"]["most"]
        assert by_field["createOrder"]["why"] == "createOrder writes Order records by their keys."
        read = by_field["createOrder"]["read"]
        assert read["fetched"] == 2
        assert read["returned"] == 1
        assert read["capacityUnits"] > 0
        plain = await client.execute('mutation { deletePart(id: "a/b", category: "c", number: 1) { deletedId } }')
        assert "extensions" not in plain.body


# --- execution -------------------------------------------------------------------------------------------------


async def test_serial_execution(tmp_path: Path) -> None:
    """The fields of a mutation run serially. Each sees the previous writes, and a failure does not stop the next."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        answer = await client.execute(
            """mutation {
              a: createMember(input: {memberId: "m", mail: "a", firstName: "A"}) { member { version } }
              b: createMember(input: {memberId: "m", mail: "b", firstName: "B"}) { member { version } }
              c: updateMember(input: {id: "m", firstName: "C"}) { member { version firstName } }
              d: deleteMember(id: "m", expectedVersion: 2) { deletedId }
              e: createMember(input: {memberId: "m", mail: "a", firstName: "E"}) { member { version } }
            }"""
        )
        assert answer.codes == ("ALREADY_EXISTS",)
        data = answer.body["data"]
        assert data["b"] is None
        assert data["c"] == {"member": {"version": 2, "firstName": "C"}}
        assert data["d"]["deletedId"]
        assert data["e"] == {"member": {"version": 1}}


async def test_read_only_requests(tmp_path: Path) -> None:
    """A GET request cannot write, and the read-only schema has no mutations."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        answer = await client.execute(CREATE, {"input": NEW}, caller=Caller("c", read_only=True))
        assert (answer.status, answer.codes) == (405, ("METHOD_NOT_ALLOWED",))
        assert client.counts.scalar_counts() == Counts().scalar_counts()
    assert GRAPH.read_only_schema._schema.mutation_type is None
    assert "MemberInput" not in GRAPH.read_only_schema._schema.type_map


async def test_hooks(tmp_path: Path) -> None:
    """A hook wraps a generated mutation: it sees the input, and can change or refuse it."""

    class Lower(FieldExtension):
        async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
            given["input"].mail = given["input"].mail.lower()
            return await next_(source, info, **given)

    graph = Graph(CATALOG)
    graph.hook("createMember", Lower())
    async with open_client(CATALOG, tmp_path, graph=graph) as client:
        made = await client.data(CREATE, {"input": {**NEW, "mail": "ANN@example.org"}})
        assert made["createMember"]["member"]["mail"] == "ann@example.org"


def test_custom_mutation_name_conflict() -> None:
    """A custom mutation with the name of a generated one is refused, with its name."""

    @strawberry.type
    class Mutations:
        @strawberry.mutation
        def create_member(self) -> int:
            return 1

    with pytest.raises(InvalidCatalog, match="createMember: is added to the mutations"):
        Graph(CATALOG).mutation(Mutations)
