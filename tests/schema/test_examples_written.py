"""The examples as clients write them: what is checked of them, and what is not."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from graphql_api import Catalog, Entity, ForeignKey, Id, Ref
from graphql_api.examples import issues, orders, users
from graphql_api.examples.issue_samples import BRIDGE, DAILY_NEWS, FIXED_RECORDS
from graphql_api.schema.graph import Graph
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.dynamodb_local import Server
from tests.schema.asking import NOW, Asked, asked, asking, opened

ISSUES = Graph(issues.catalog)
USERS = Graph(users.catalog)
NEW_USER = {"userId": "u1", "beneficiaryId": "b", "updated": 5, "firstName": "Ann", "lastName": "Löwe"}


@pytest.fixture(params=["sqlite", "dynamodb"])
async def tracker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Asked]:
    """The issue tracker with the document's rows, on each engine in turn."""
    if request.param == "sqlite":
        store: Any = await open_sqlite(tmp_path / "issues.db")
    else:
        server: Server = request.getfixturevalue("dynamodb")
        store = await server.open(f"tracker-{uuid4().hex}")
    async with opened(issues.catalog, store, *FIXED_RECORDS) as db:
        yield asking(db, graph=ISSUES)


# --- users -----------------------------------------------------------------------------------------------------


def test_users_and_orders_declare_no_foreign_keys() -> None:
    """Nothing of the examples `users` and `orders` is kept by a foreign key, nor keeps anything."""
    for catalog in (users.catalog, orders.catalog):
        specs = [*catalog.entities.values()]
        assert [spec.foreign_keys for spec in specs] == [()] * len(specs)
        assert not any(spec.children for spec in specs)


async def test_an_address_of_nobody(tmp_path: Path) -> None:
    """An address may be of a user who is not there, and a user who has addresses can be removed: they stay."""
    async with asked(users.catalog, tmp_path, graph=USERS) as ask:
        create = "mutation ($input: CreateEmailInput!) { createEmail(input: $input) { email { email userId } } }"
        for user_id in ("nobody", "u1"):
            made = await ask.data(create, {"input": {"email": f"{user_id}@example.com", "userId": user_id}})
            assert made["createEmail"]["email"]["userId"] == user_id
        await ask.data(
            "mutation ($input: CreateUserInput!) { createUser(input: $input) { user { userId } } }", {"input": NEW_USER}
        )
        gone = await ask.data('mutation { deleteUser(id: "u1") { deletedId } }')
        assert gone["deleteUser"]["deletedId"]
        found = await ask.data('{ emailById { items { userId } } user(id: "u1") { userId } }')
        assert found == {"emailById": {"items": [{"userId": "nobody"}, {"userId": "u1"}]}, "user": None}


@pytest.mark.parametrize(("given", "created"), [({}, int(NOW)), ({"created": 17}, 17)], ids=["left out", "given"])
async def test_created_may_be_given(tmp_path: Path, given: dict[str, int], created: int) -> None:
    """Who creates a user may say since when; else it is the server's present second. It never changes then."""
    async with asked(users.catalog, tmp_path, graph=USERS) as ask:
        create = "mutation ($input: CreateUserInput!) { createUser(input: $input) { user { created } } }"
        made = await ask.data(create, {"input": {**NEW_USER, **given}})
        assert made["createUser"]["user"] == {"created": created}
        for put, code in ((created + 1, "CREATION_CHANGED"), (created, None)):
            query = "mutation ($input: PutUserInput!) { putUser(input: $input) { user { created phone } } }"
            answer = await ask.answer(query, {"input": {**NEW_USER, "created": put, "phone": "1"}})
            assert answer.codes == ((code,) if code else ())
        error = await ask.error('mutation { updateUser(input: {id: "u1", created: 1}) { user { phone } } }')
        assert error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"
        found = await ask.data('{ user(id: "u1") { created phone } }')
        assert found["user"] == {"created": created, "phone": "1"}


async def test_an_address_keeps_its_moment(tmp_path: Path) -> None:
    """So it is of an address, which has lain in the same shards from the first day."""
    async with asked(users.catalog, tmp_path, graph=USERS) as ask:
        put = "mutation ($input: PutEmailInput!) { putEmail(input: $input) { email { created userId } } }"
        address = {"email": "ann@example.com", "userId": "u1", "created": 17}
        await ask.data(put, {"input": address})
        error = await ask.error(put, {"input": {**address, "created": 18}})
        assert (error["extensions"]["code"], error["extensions"]["argument"]) == ("CREATION_CHANGED", "created")
        found = await ask.data(put, {"input": {"email": "ann@example.com", "userId": "u2"}})
        assert found["putEmail"]["email"] == {"created": 17, "userId": "u2"}


# --- references ------------------------------------------------------------------------------------------------


class Shelf(Entity):
    """Where things lie."""

    shelf_id: Id[str]


class Thing(Entity):
    """Lies on a shelf, or is said to."""

    thing_id: Id[str]
    shelf_id: str | None = None

    shelf = Ref("Shelf", by="shelf_id")


class Bound(Entity):
    """Lies on a shelf that is there."""

    bound_id: Id[str]
    shelf_id: str | None = None

    of_shelf = ForeignKey("Shelf", by="shelf_id")

    shelf = Ref("Shelf", by="shelf_id")


async def test_a_reference_checks_nothing(tmp_path: Path) -> None:
    """What a `Ref` names need not be there, and may go: the join is null then. A foreign key is declared apart."""
    async with asked(Catalog(Shelf, Thing), tmp_path) as ask:
        for does in ("createThing(input: {thingId", "updateThing(input: {id", "putThing(input: {thingId"):
            query = f'mutation {{ {does}: "t", shelfId: "s"}}) {{ thing {{ shelfId shelf {{ shelfId }} }} }} }}'
            (answer,) = (await ask.data(query)).values()
            assert answer == {"thing": {"shelfId": "s", "shelf": None}}
        await ask.data('mutation { createShelf(input: {shelfId: "s"}) { shelf { shelfId } } }')
        read = '{ thing(id: "t") { shelf { shelfId } } }'
        assert await ask.data(read) == {"thing": {"shelf": {"shelfId": "s"}}}
        assert (await ask.data('mutation { deleteShelf(id: "s") { deletedId } }'))["deleteShelf"]["deletedId"]
        assert await ask.data(read) == {"thing": {"shelf": None}}


async def test_a_foreign_key_checks(tmp_path: Path) -> None:
    """Where it is declared beside the reference, every one of these writes is refused."""
    async with asked(Catalog(Shelf, Bound), tmp_path, Shelf(shelf_id="r"), Bound(bound_id="b", shelf_id="r")) as ask:
        for query in (
            'createBound(input: {boundId: "c", shelfId: "s"}) { bound { boundId } }',
            'updateBound(input: {id: "b", shelfId: "s"}) { bound { boundId } }',
            'putBound(input: {boundId: "b", shelfId: "s"}) { bound { boundId } }',
            'deleteShelf(id: "r") { deletedId }',
        ):
            assert (await ask.error(f"mutation {{ {query} }}"))["extensions"]["code"] == "FOREIGN_KEY"
        found = await ask.data("{ boundById { items { boundId shelf { shelfId } } } }")
        assert found["boundById"]["items"] == [{"boundId": "b", "shelf": {"shelfId": "r"}}]


# --- issues ----------------------------------------------------------------------------------------------------


async def test_issues_are_numbered_in_their_project(tracker: Asked) -> None:
    """The next issue of each project has its next number, one by one and in batches, and stands in its place."""
    create = """mutation ($inputs: [CreateIssueInput!]!) { createIssues(inputs: $inputs) {
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


async def test_what_is_refused_of_an_issue(tracker: Asked) -> None:
    """Nobody gives an issue its number or another project, nor one that is not there; a project with issues stays."""
    painting, rust = UUID("020e94b7-c8d1-4625-a7f0-3e5b81d6092f"), "67d10c5b-2ae4-4938-8d76-f1b9042e7ca3"
    put = "mutation ($input: PutIssueInput!) { putIssue(input: $input) { issue { num } } }"
    whole = {"issueId": str(painting), "name": "Needs Painting", "projectId": str(BRIDGE.project_id)}
    for change, code in (
        ({"projectId": str(DAILY_NEWS.project_id)}, "IMMUTABLE"),
        ({"projectId": str(uuid4())}, "IMMUTABLE"),
        ({"issueId": str(uuid4()), "projectId": str(uuid4())}, "FOREIGN_KEY"),
    ):
        assert (await tracker.error(put, {"input": {**whole, **change}}))["extensions"]["code"] == code
    again = {"issueId": str(painting), "name": "Again", "projectId": str(BRIDGE.project_id)}
    create = "mutation ($input: CreateIssueInput!) { createIssue(input: $input) { issue { num } } }"
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
