"""Writes to the example applications: which constraints they enforce."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from graphql_api import Catalog, Entity, ForeignKey, Id, Ref
from graphql_api.examples import issues, orders, users
from graphql_api.examples.issues import BRIDGE, DAILY_NEWS, FIXED_RECORDS
from graphql_api.schema.graph import Graph
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.schema.graphql_client import NOW, GraphQLClient, client_for, open_client, open_database
from tests.support.dynamodb_servers import Server

ISSUES = Graph(issues.catalog)
USERS = Graph(users.catalog)
NEW_USER = {"userId": "u1", "beneficiaryId": "b", "updated": 5, "firstName": "Ann", "lastName": "Löwe"}


@pytest.fixture(params=["sqlite", "dynamodb"])
async def tracker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client for the example issue tracker with its fixed records, on each engine."""
    if request.param == "sqlite":
        store: Any = await open_sqlite(tmp_path / "issues.db")
    else:
        server: Server = request.getfixturevalue("dynamodb")
        store = await server.open(f"tracker-{uuid4().hex}")
    async with open_database(issues.catalog, store, *FIXED_RECORDS) as db:
        yield client_for(db, graph=ISSUES)


# --- users -----------------------------------------------------------------------------------------------------


def test_users_and_orders_declare_no_foreign_keys() -> None:
    """The examples `users` and `orders` declare no foreign keys."""
    for catalog in (users.catalog, orders.catalog):
        specs = [*catalog.entities.values()]
        assert [spec.foreign_keys for spec in specs] == [()] * len(specs)
        assert not any(spec.children for spec in specs)


async def test_addresses_may_refer_to_missing_users(tmp_path: Path) -> None:
    """An address may refer to a missing user, and deleting a user keeps the addresses."""
    async with open_client(users.catalog, tmp_path, graph=USERS) as client:
        create = "mutation ($input: EmailInput!) { createEmail(input: $input) { email { email userId } } }"
        for user_id in ("missing", "u1"):
            created_record = await client.data(
                create, {"input": {"email": f"{user_id}@example.com", "userId": user_id}}
            )
            assert created_record["createEmail"]["email"]["userId"] == user_id
        await client.data(
            "mutation ($input: UserInput!) { createUser(input: $input) { user { userId } } }", {"input": NEW_USER}
        )
        deleted = await client.data('mutation { deleteUser(id: "u1") { deletedId } }')
        assert deleted["deleteUser"]["deletedId"]
        data = await client.data('{ emailById { items { userId } } user(id: "u1") { userId } }')
        assert data == {"emailById": {"items": [{"userId": "missing"}, {"userId": "u1"}]}, "user": None}


@pytest.mark.parametrize(("provided", "created"), [({}, int(NOW)), ({"created": 17}, 17)], ids=["omitted", "provided"])
async def test_clients_may_provide_the_creation_time(tmp_path: Path, provided: dict[str, int], created: int) -> None:
    """The creation time of a user is the provided value, or the current second. It never changes afterwards."""
    async with open_client(users.catalog, tmp_path, graph=USERS) as client:
        create = "mutation ($input: UserInput!) { createUser(input: $input) { user { created } } }"
        created_record = await client.data(create, {"input": {**NEW_USER, **provided}})
        assert created_record["createUser"]["user"] == {"created": created}
        for put, code in ((created + 1, "CREATION_CHANGED"), (created, None)):
            query = "mutation ($input: UserInput!) { putUser(input: $input) { user { created phone } } }"
            response = await client.execute(query, {"input": {**NEW_USER, "created": put, "phone": "1"}})
            assert response.codes == ((code,) if code else ())
        error = await client.error('mutation { updateUser(input: {id: "u1", created: 1}) { user { phone } } }')
        assert error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"
        data = await client.data('{ user(id: "u1") { created phone } }')
        assert data["user"] == {"created": created, "phone": "1"}


async def test_an_address_keeps_its_creation_time(tmp_path: Path) -> None:
    """The creation time of an address never changes either, although addresses have one shard generation."""
    async with open_client(users.catalog, tmp_path, graph=USERS) as client:
        put = "mutation ($input: EmailInput!) { putEmail(input: $input) { email { created userId } } }"
        address = {"email": "ann@example.com", "userId": "u1", "created": 17}
        await client.data(put, {"input": address})
        error = await client.error(put, {"input": {**address, "created": 18}})
        assert (error["extensions"]["code"], error["extensions"]["argument"]) == ("CREATION_CHANGED", "created")
        data = await client.data(put, {"input": {"email": "ann@example.com", "userId": "u2"}})
        assert data["putEmail"]["email"] == {"created": 17, "userId": "u2"}


# --- references ------------------------------------------------------------------------------------------------


class Shelf(Entity):
    """The target of the references."""

    shelf_id: Id[str]


class Thing(Entity):
    """Refers to a shelf without a foreign key."""

    thing_id: Id[str]
    shelf_id: str | None = None

    shelf = Ref("Shelf", by="shelf_id")


class Bound(Entity):
    """Refers to a shelf with a foreign key."""

    bound_id: Id[str]
    shelf_id: str | None = None

    of_shelf = ForeignKey("Shelf", by="shelf_id")

    shelf = Ref("Shelf", by="shelf_id")


async def test_a_reference_checks_nothing(tmp_path: Path) -> None:
    """The target of a `Ref` may be missing or deleted; the join is null then. Only a `ForeignKey` enforces it."""
    async with open_client(Catalog(Shelf, Thing), tmp_path) as client:
        for does in ("createThing(input: {thingId", "updateThing(input: {id", "putThing(input: {thingId"):
            query = f'mutation {{ {does}: "t", shelfId: "s"}}) {{ thing {{ shelfId shelf {{ shelfId }} }} }} }}'
            (response,) = (await client.data(query)).values()
            assert response == {"thing": {"shelfId": "s", "shelf": None}}
        await client.data('mutation { createShelf(input: {shelfId: "s"}) { shelf { shelfId } } }')
        read = '{ thing(id: "t") { shelf { shelfId } } }'
        assert await client.data(read) == {"thing": {"shelf": {"shelfId": "s"}}}
        assert (await client.data('mutation { deleteShelf(id: "s") { deletedId } }'))["deleteShelf"]["deletedId"]
        assert await client.data(read) == {"thing": {"shelf": None}}


async def test_a_foreign_key_checks(tmp_path: Path) -> None:
    """A foreign key refuses writes with a missing target and the deletion of a referenced record."""
    async with open_client(
        Catalog(Shelf, Bound), tmp_path, Shelf(shelf_id="r"), Bound(bound_id="b", shelf_id="r")
    ) as client:
        for query in (
            'createBound(input: {boundId: "c", shelfId: "s"}) { bound { boundId } }',
            'updateBound(input: {id: "b", shelfId: "s"}) { bound { boundId } }',
            'putBound(input: {boundId: "b", shelfId: "s"}) { bound { boundId } }',
            'deleteShelf(id: "r") { deletedId }',
        ):
            assert (await client.error(f"mutation {{ {query} }}"))["extensions"]["code"] == "FOREIGN_KEY"
        data = await client.data("{ boundById { items { boundId shelf { shelfId } } } }")
        assert data["boundById"]["items"] == [{"boundId": "b", "shelf": {"shelfId": "r"}}]


# --- issues ----------------------------------------------------------------------------------------------------


async def test_issues_are_numbered_in_their_project(tracker: GraphQLClient) -> None:
    """Each new issue gets the next number of its project, also in batches, and searches return it in order."""
    create = """mutation ($inputs: [IssueInput!]!) { createIssues(inputs: $inputs) {
        results { issue { num state } error { code argument } } } }"""
    projects = [BRIDGE.project_id, DAILY_NEWS.project_id, uuid4(), BRIDGE.project_id]
    inputs = [{"name": f"i{at}", "projectId": str(project)} for at, project in enumerate(projects)]
    results = (await tracker.data(create, {"inputs": inputs}))["createIssues"]["results"]
    assert results[2] == {"issue": None, "error": {"code": "FOREIGN_KEY", "argument": "projectId"}}
    assert results[1] == {"issue": {"num": 3, "state": "open"}, "error": None}
    assert sorted(row["issue"]["num"] for row in (results[0], results[3])) == [4, 5]
    page = await tracker.data(
        "query ($project: UUID!) { issues(projectId: $project, orderBy: STATE_ASC_NUM_DESC) { items { num } } }",
        {"project": str(BRIDGE.project_id)},
    )
    assert [item["num"] for item in page["issues"]["items"]] == [5, 4, 3, 1, 2]


async def test_refused_writes_of_issues(tracker: GraphQLClient) -> None:
    """Clients cannot set an issue number, move an issue, use a missing project, or delete a project with issues."""
    painting, rust = UUID("020e94b7-c8d1-4625-a7f0-3e5b81d6092f"), "67d10c5b-2ae4-4938-8d76-f1b9042e7ca3"
    put = "mutation ($input: IssueInput!) { putIssue(input: $input) { issue { num } } }"
    whole = {"issueId": str(painting), "name": "Needs Painting", "projectId": str(BRIDGE.project_id)}
    for change, code in (
        ({"projectId": str(DAILY_NEWS.project_id)}, "IMMUTABLE"),
        ({"projectId": str(uuid4())}, "IMMUTABLE"),
        ({"issueId": str(uuid4()), "projectId": str(uuid4())}, "FOREIGN_KEY"),
    ):
        assert (await tracker.error(put, {"input": {**whole, **change}}))["extensions"]["code"] == code
    again = {"issueId": str(painting), "name": "Again", "projectId": str(BRIDGE.project_id)}
    create = "mutation ($input: IssueInput!) { createIssue(input: $input) { issue { num } } }"
    assert (await tracker.error(create, {"input": again}))["extensions"]["code"] == "ALREADY_EXISTS"
    unknown = await tracker.error(create, {"input": {**again, "num": 2}})
    assert unknown["extensions"]["code"] == "BAD_USER_INPUT"
    for query in (
        f'deleteProject(id: "{BRIDGE.project_id}") {{ deletedId }}',
        f'deleteTenant(id: "{BRIDGE.tenant_id}") {{ deletedId }}',
    ):
        assert (await tracker.error(f"mutation {{ {query} }}"))["extensions"]["code"] == "FOREIGN_KEY"
    closed = await tracker.data(
        f'mutation {{ updateIssue(input: {{id: "{painting}", state: closed}}) {{ issue {{ num state }} }} }}'
    )
    assert closed["updateIssue"]["issue"] == {"num": 1, "state": "closed"}
    page = await tracker.data(
        "query ($project: UUID!) { issueByState(projectId: $project, eq: closed) { items { issueId num } } }",
        {"project": str(BRIDGE.project_id)},
    )
    assert page["issueByState"]["items"] == [{"issueId": str(painting), "num": 1}, {"issueId": rust, "num": 2}]
