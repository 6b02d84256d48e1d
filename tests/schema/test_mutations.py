"""Mutations of every key pattern: what they are called and take, and that what they answer is what stands there."""

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
from tests.schema.asking import NOW, asked
from tests.schema.staff import Info
from tests.stores import Counts


class Level(Enum):
    """How much somebody knows."""

    LOW = "low"
    HIGH = "high"


class Member(Entity):
    """Somebody who belongs to it."""

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
    """Every version of an order, and the last of them once more."""

    order_id: Id[str]
    version: SubId[str]
    status: str
    total: float = 0

    by_status = Index(hash="status", sort="version")


class Part(Entity):
    """Part of a plugin."""

    environment: Id[str]
    plugin: Id[str]
    category: SubId[str]
    number: SubId[int]
    text: str = ""


class Log(Entity):
    """One history for all."""

    at: SubId[int]
    text: str


class Settings(Entity):
    """There is one."""

    theme: str = "dark"
    size: int | None = None


CATALOG = Catalog(Member, Order, Part, Log, Settings)
GRAPH = Graph(CATALOG)


def _inputs(graph: Graph = GRAPH) -> dict[str, dict[str, str]]:
    types = graph.schema._schema.type_map
    return {
        name: {field: str(made.type) for field, made in kind.fields.items()}
        for name, kind in types.items()
        if isinstance(kind, GraphQLInputObjectType)
    }


# --- names and types -------------------------------------------------------------------------------------------


def test_the_mutations_of_each_pattern() -> None:
    """Every entity is created, updated, put and deleted, one by one and in batches; of a singleton there is one."""
    of = {
        "Member": "Members",
        "Order": "Orders",
        "Part": "Parts",
        "Log": "Logs",
    }
    verbs = ("create", "update", "put", "delete")
    expected = [f"{verb}{name}" for one, several in of.items() for verb in verbs for name in (one, several)]
    assert [*GRAPH.mutations] == [*expected, *(f"{verb}Settings" for verb in verbs)]


def test_a_namespace() -> None:
    """With a namespace every mutation and every type of it stands behind it."""
    graph = Graph(Catalog(Order, namespace="Shop"))
    assert [*graph.mutations] == [
        f"Shop_{verb}Order{several}" for verb in ("create", "update", "put", "delete") for several in ("", "s")
    ]
    made = {name for name in graph.schema._schema.type_map if name.endswith(("Input", "Payload", "Result"))}
    assert made == {
        *(f"Shop_{verb}OrderInput" for verb in ("Create", "Update", "Put", "Delete")),
        *(f"Shop_{verb}Order{s}Payload" for verb in ("Create", "Update", "Put", "Delete") for s in ("", "s")),
        "Shop_OrderResult",
        "DeleteResult",
    }
    assert "order" in graph.schema._schema.type_map["Shop_CreateOrderPayload"].fields  # type: ignore[attr-defined]


def test_inputs_of_a_record() -> None:
    """What has a default, may be null or is set by the server may be left out; what the server alone sets is not there.

    An update names the record, and takes all that ever changes.
    """
    inputs = _inputs()
    optional = {"level": "Level", "town": "String", "note": "String"}
    assert inputs["CreateMemberInput"] == {
        "memberId": "String",
        "created": "Timestamp",
        "mail": "String!",
        "firstName": "String!",
        "country": "String",
        **optional,
    }
    assert inputs["PutMemberInput"] == {
        **inputs["CreateMemberInput"],
        "memberId": "String!",
        "expectedVersion": "Int",
    }
    assert inputs["UpdateMemberInput"] == {
        "id": "ID!",
        "mail": "String",
        "firstName": "String",
        **optional,
        "expectedVersion": "Int",
    }
    assert inputs["DeleteMemberInput"] == {"id": "ID!", "expectedVersion": "Int"}


def test_inputs_of_other_patterns() -> None:
    """A sub id stands beside the id, which may hold it; without an id it is always needed. A singleton has neither."""
    inputs = _inputs()
    assert inputs["UpdateOrderInput"] == {"id": "ID!", "version": "String", "status": "String", "total": "Float"}
    assert inputs["DeletePartInput"] == {"id": "ID!", "category": "String", "number": "BigInt"}
    assert inputs["UpdateLogInput"] == {"at": "BigInt!", "text": "String"}
    assert inputs["UpdateSettingsInput"] == {"theme": "String", "size": "BigInt"}
    assert "DeleteSettingsInput" not in inputs


def test_what_never_changes_has_no_update() -> None:
    """Where nothing of a record ever changes there is no update; a record that the server makes takes no input."""

    class Visit(Entity):
        visit_id: Id[str] = generated()
        at: Created[Timestamp]

    class Ticket(Entity):
        number: Id[str]
        version: Version[Int32]

    graph = Graph(Catalog(Visit, Ticket))
    assert not [name for name in graph.mutations if name.startswith("update")]
    assert _inputs(graph)["CreateVisitInput"] == {"visitId": "String", "at": "Timestamp"}


def test_who_may_not_be_written_at_all() -> None:
    """An entity that nobody may write has no mutations, and leaves their names to own ones."""

    class Kept(Entity, write=[]):
        kept_id: Id[str]

    assert Graph(Catalog(Kept)).mutations == []
    assert Graph(Catalog(Kept)).schema._schema.mutation_type is None


def test_names_that_collide() -> None:
    """A batch that is called as the mutation of another entity is refused with both."""
    made = {"visits": (Entity,), "visit": (Entity,)}
    visit: Any = type("Visit", made["visit"], {"__annotations__": {"visit_id": Id[str]}, "__module__": __name__})
    visits: Any = type("Visits", made["visits"], {"__annotations__": {"at": SubId[int]}, "__module__": __name__})
    with pytest.raises(InvalidCatalog, match="becomes the mutation 'createVisits', which is taken by"):
        Graph(Catalog(visit, visits))


def test_an_entity_called_error() -> None:
    """A record that is called as the error of a row has an underscore behind its name there."""
    error: Any = type("Error", (Entity,), {"__annotations__": {"error_id": Id[str]}, "__module__": __name__})
    types: Any = Graph(Catalog(error)).schema._schema.type_map
    assert set(types["ErrorResult"].fields) == {"error_", "error"}


# --- a record --------------------------------------------------------------------------------------------------

CREATE = """mutation ($input: CreateMemberInput!, $key: String) {
  createMember(input: $input, idempotencyKey: $key) {
    member { id memberId created updated version number mail firstName name level town country note }
  }
}"""
NEW = {"memberId": "m-1", "mail": "ann@example.org", "firstName": "Änn"}


async def test_create(tmp_path: Path) -> None:
    """A new record has its defaults, what is derived and what the server sets, and is there as it was answered."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        made = (await ask.data(CREATE, {"input": NEW}))["createMember"]["member"]
        sealed = made.pop("id")
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
        found = await ask.data("query ($id: ID!) { node(id: $id) { id ... on Member { mail name } } }", {"id": sealed})
        assert found == {"node": {"id": sealed, "mail": NEW["mail"], "name": "ann"}}
        more = {"mail": "bo@example.org", "firstName": "Bo", "created": 5, "town": None, "note": None, "level": None}
        second = (await ask.data(CREATE, {"input": more}))["createMember"]["member"]
        assert (second["created"], second["number"], second["note"], second["level"]) == (5, 2, None, "LOW")
        assert len(second["memberId"]) > 10


async def test_create_what_is_there(tmp_path: Path) -> None:
    """What is there already, or shares what only one may have, is an error of its field, and changes nothing."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        await ask.data(CREATE, {"input": NEW})
        answer = await ask.answer(CREATE, {"input": {**NEW, "mail": "x@example.org"}})
        assert answer.body["data"] == {"createMember": None}
        (error,) = answer.body["errors"]
        assert (error["path"], error["extensions"]["code"]) == (["createMember"], "ALREADY_EXISTS")
        error = await ask.error(CREATE, {"input": {**NEW, "memberId": "m-2"}})
        assert error["extensions"] == {"code": "NOT_UNIQUE", "argument": "mail"}
        assert await ask.data('{ member(id: "m-2") { mail } }') == {"member": None}


async def test_what_does_not_fit(tmp_path: Path) -> None:
    """Everything that is wrong with a record is told at once, by the names that its properties have here."""
    catalog = Catalog(_nested())
    async with asked(catalog, tmp_path) as ask:
        query = "mutation ($input: CreateVisitInput!) { createVisit(input: $input) { visit { visitId } } }"
        wrong = {"visitId": "v", "dayCount": 0, "placesSeen": [{"townName": "x" * 9}]}
        error = await ask.error(query, {"input": wrong})
        extensions = error["extensions"]
        assert (extensions["code"], extensions["argument"]) == ("INVALID_RECORD", "dayCount")
        assert [one["field"] for one in extensions["fields"]] == ["dayCount", "placesSeen.0.townName"]
        assert "Visit.dayCount" in error["message"]
        assert "day_count" not in str(error)
        assert await ask.data('{ visit(id: "v") { visitId } }') == {"visit": None}


def _nested() -> Any:
    class Place(BaseModel):
        town_name: str = Field(max_length=5)

    class Visit(Entity):
        visit_id: Id[str]
        day_count: int = Field(ge=1)
        places_seen: list[Place]

    return Visit


async def test_update(tmp_path: Path) -> None:
    """An update keeps what is left out and clears what is null; its record is named by the raw id or the sealed one."""
    query = """mutation ($input: UpdateMemberInput!) {
      updateMember(input: $input) { member { firstName name town note version updated created number } }
    }"""
    at = [NOW]
    async with asked(CATALOG, tmp_path, graph=GRAPH, clock=lambda: at[0]) as ask:
        made = (await ask.data(CREATE, {"input": {**NEW, "town": "Rom"}}))["createMember"]["member"]
        at[0] += 5
        first = (await ask.data(query, {"input": {"id": "m-1", "firstName": "Bo", "note": None}}))["updateMember"]
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
        second = await ask.data(query, {"input": {"id": made["id"], "town": None}})
        assert second["updateMember"]["member"]["town"] is None
        found = await ask.data(
            '{ member(id: "m-1") { firstName town version } memberByName(eq: "bo") { items { mail } } }'
        )
        assert found["member"] == {"firstName": "Bo", "town": None, "version": 3}
        assert found["memberByName"]["items"] == [{"mail": NEW["mail"]}]
        error = await ask.error(query, {"input": {"id": "m-9", "town": "Rom"}})
        assert error["extensions"]["code"] == "RECORD_NOT_FOUND"
        error = await ask.error(query, {"input": {"id": "m-1", "firstName": None}})
        assert [one["field"] for one in error["extensions"]["fields"]] == ["firstName"]


async def test_put_and_delete(tmp_path: Path) -> None:
    """A put replaces the whole record, or makes it; a removal tells the id of what is gone, and null for nothing."""
    put = "mutation ($input: PutMemberInput!) { putMember(input: $input) { member { id note town version number } } }"
    delete = "mutation ($id: ID!) { deleteMember(id: $id) { deletedId } }"
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        first = (await ask.data(put, {"input": {**NEW, "town": "Rom", "note": "x"}}))["putMember"]["member"]
        again = (await ask.data(put, {"input": NEW}))["putMember"]["member"]
        assert again == {"id": first["id"], "note": "-", "town": None, "version": 2, "number": 1}
        assert await ask.data(delete, {"id": first["id"]}) == {"deleteMember": {"deletedId": first["id"]}}
        assert await ask.data(delete, {"id": "m-1"}) == {"deleteMember": {"deletedId": None}}
        assert await ask.data('{ member(id: "m-1") { mail } }') == {"member": None}
        # Its e-mail is free again.
        await ask.data(CREATE, {"input": {**NEW, "memberId": "m-2"}})


async def test_expected_versions(tmp_path: Path) -> None:
    """A write that expects another version than there is changes nothing, and tells the present one."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        await ask.data(CREATE, {"input": NEW})
        for given, inside in (("expectedVersion: 1", ""), ("", "expectedVersion: 2")):
            row = f'input: {{id: "m-1", town: "Rom" {inside}}}'
            await ask.data(f"mutation {{ updateMember({row} {given}) {{ member {{ version }} }} }}")
        for field in (
            'updateMember(input: {id: "m-1", town: "Bonn"}, expectedVersion: 2) { member { town } }',
            'updateMember(input: {id: "m-1", town: "Bonn", expectedVersion: 2}) { member { town } }',
            'putMember(input: {memberId: "m-1", mail: "x", firstName: "x"}, expectedVersion: 2) { member { town } }',
            'deleteMember(id: "m-1", expectedVersion: 2) { deletedId }',
        ):
            error = await ask.error(f"mutation {{ {field} }}")
            assert error["extensions"] == {"code": "VERSION_CONFLICT", "argument": "expectedVersion", "version": 3}
        both = 'updateMember(input: {id: "m-1", expectedVersion: 2}, expectedVersion: 3) { member { town } }'
        assert (await ask.error(f"mutation {{ {both} }}"))["extensions"]["code"] == "CONFLICTING_ARGUMENTS"
        assert await ask.data('{ member(id: "m-1") { town version } }') == {"member": {"town": "Rom", "version": 3}}


async def test_the_same_request_again(tmp_path: Path) -> None:
    """A request under an idempotency key has its effect once, and its answer as often as it is sent."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        ann = {"mail": "ann@example.org", "firstName": "Ann"}
        first = await ask.data(CREATE, {"input": ann, "key": "k-1"})
        assert await ask.data(CREATE, {"input": ann, "key": "k-1"}) == first
        assert (await ask.error(CREATE, {"input": {**ann, "firstName": "Bo"}, "key": "k-1"}))["extensions"][
            "code"
        ] == "IDEMPOTENCY_MISMATCH"
        found = await ask.data("{ memberByName { items { number } } }")
        assert found == {"memberByName": {"items": [{"number": 1}]}}


# --- other patterns --------------------------------------------------------------------------------------------


async def test_a_history(tmp_path: Path) -> None:
    """An update under a new sub id is a new entry that goes on from the last one, and becomes the current one."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        made = await ask.data(
            """mutation {
              createOrder(input: {orderId: "o-1", version: "v1", status: "placed", total: 9.5}) { order { id total } }
              updateOrder(input: {id: "o-1", version: "v2", status: "sent"}) { order { id version status total } }
            }"""
        )
        assert made["updateOrder"]["order"].items() >= {"version": "v2", "status": "sent", "total": 9.5}.items()
        first = made["createOrder"]["order"]["id"]
        current = '{ order(id: "o-1") { version status total } }'
        assert await ask.data(current) == {"order": {"version": "~current", "status": "sent", "total": 9.5}}
        change = "mutation ($input: UpdateOrderInput!) { updateOrder(input: $input) { order { version status } } }"
        # The sealed id names the very entry; with another sub id it is a new one.
        changed = await ask.data(change, {"input": {"id": first, "status": "paid"}})
        assert changed == {"updateOrder": {"order": {"version": "v1", "status": "paid"}}}
        await ask.data(change, {"input": {"id": first, "version": "v3", "status": "lost"}})
        assert (await ask.data(current))["order"]["status"] == "lost"
        error = await ask.error(change, {"input": {"id": "o-1", "status": "x"}})
        assert error["extensions"] == {"code": "MISSING_ARGUMENT", "argument": "version"}
        gone = await ask.data('mutation { deleteOrder(id: "o-1", version: "v3") { deletedId } }')
        assert gone["deleteOrder"]["deletedId"]
        assert (await ask.data(current))["order"]["status"] == "sent"


async def test_composite_ids_and_sub_ids_alone(tmp_path: Path) -> None:
    """A composite id is one text with its parts between separators; an entity may have a sub id alone, or nothing."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        answer = await ask.answer(
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
        sealed = made["createPart"]["part"]["id"]
        gone = await ask.data("mutation ($id: ID!) { deletePart(id: $id) { deletedId } }", {"id": sealed})
        assert gone == {"deletePart": {"deletedId": sealed}}
        gone = await ask.data("mutation { deleteSettings { deletedId } }")
        assert gone["deleteSettings"]["deletedId"]


async def test_the_wrong_id(tmp_path: Path) -> None:
    """A sealed id of another entity is refused, and so is a text that is no id; nothing is read for it."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        sealed = (await ask.data(CREATE, {"input": NEW}))["createMember"]["member"]["id"]
        ask.forget()
        update = 'mutation ($id: ID!) { updatePart(input: {id: $id, category: "a", number: 1}) { part { text } } }'
        assert (await ask.error(update, {"id": sealed}))["extensions"]["code"] == "INVALID_RECORD_KEY"
        assert (await ask.error(update, {"id": "one"}))["extensions"] == {"code": "INVALID_VALUE", "argument": "id"}
        empty = 'mutation { deleteMember(id: "") { deletedId } }'
        assert (await ask.error(empty))["extensions"] == {"code": "EMPTY_KEY", "argument": "id"}
        assert ask.counts.without_lists() == Counts().without_lists()


# --- explain ---------------------------------------------------------------------------------------------------

EXPLAINED = Caller("c-1", explain=True)


async def test_explained(tmp_path: Path) -> None:
    """The explain of a mutation tells for each field what was written, and what was read to do it."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        answer = await ask.answer(
            """mutation {
              updateOrder(input: {id: "o", version: "v1", status: "x"}) { order { status } }
              createOrder(input: {orderId: "o", version: "v1", status: "new"}) { order { status } }
              deleteParts(inputs: [{id: "a/b", category: "c", number: 1}, {id: "a"}]) { results { deletedId } }
            }""",
            caller=EXPLAINED,
        )
        assert answer.codes == ("RECORD_NOT_FOUND",)
        explained = answer.body["extensions"]["explain"]
        by_field = {one["path"][0]: one for one in explained}
        assert {name: (one["entity"], one["records"], one["write"]) for name, one in by_field.items()} == {
            "createOrder": ("Order", 1, {"rounds": 1, "writes": 2}),
            "deleteParts": ("Part", 1, {"rounds": 0, "writes": 0}),
            "updateOrder": ("Order", 1, {"rounds": 0, "writes": 0}),
        }
        assert by_field["createOrder"]["why"] == "createOrder writes Order records by their keys."
        read = by_field["createOrder"]["read"]
        assert read["fetched"] == 2
        assert read["returned"] == 1
        assert read["capacityUnits"] > 0
        plain = await ask.answer('mutation { deletePart(id: "a/b", category: "c", number: 1) { deletedId } }')
        assert "extensions" not in plain.body


# --- around them -----------------------------------------------------------------------------------------------


async def test_one_after_the_other(tmp_path: Path) -> None:
    """The fields of one mutation run in turn, each over what those before it have written, failures aside."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        answer = await ask.answer(
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


async def test_reading_only(tmp_path: Path) -> None:
    """A GET writes nothing, and the schema that only reads has no mutations."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        answer = await ask.answer(CREATE, {"input": NEW}, caller=Caller("c", read_only=True))
        assert (answer.status, answer.codes) == (405, ("METHOD_NOT_ALLOWED",))
        assert ask.counts.without_lists() == Counts().without_lists()
    assert GRAPH.read_only_schema._schema.mutation_type is None
    assert "CreateMemberInput" not in GRAPH.read_only_schema._schema.type_map


async def test_hooks(tmp_path: Path) -> None:
    """A hook stands around a generated mutation: it sees the input, changes it, and may refuse."""

    class Lower(FieldExtension):
        async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
            given["input"].mail = given["input"].mail.lower()
            return await next_(source, info, **given)

    graph = Graph(CATALOG)
    graph.hook("createMember", Lower())
    async with asked(CATALOG, tmp_path, graph=graph) as ask:
        made = await ask.data(CREATE, {"input": {**NEW, "mail": "ANN@example.org"}})
        assert made["createMember"]["member"]["mail"] == "ann@example.org"


def test_own_mutations_of_the_same_name() -> None:
    """An own mutation that is called as a generated one is refused, with its name."""

    @strawberry.type
    class Mutations:
        @strawberry.mutation
        def create_member(self) -> int:
            return 1

    with pytest.raises(InvalidCatalog, match="createMember: is added to the mutations"):
        Graph(CATALOG).mutation(Mutations)
