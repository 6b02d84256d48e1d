"""The mutation `write`: operations on records of several types, all or none, with rules and errors by position."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from graphql_api import (
    Catalog,
    Entity,
    ForeignKey,
    Id,
    Int32,
    SubId,
    Unique,
    Version,
    allow,
    anyone,
    group,
    owner,
    owner_through,
)
from graphql_api.schema.graph import Graph
from graphql_api.schema.sdl import print_sdl
from tests.schema.graphql_client import GraphQLClient, open_client
from tests.schema.guarded_catalog import ADMIN, ANN, BOB
from tests.support.store_doubles import all_items

WRITE = """mutation ($operations: [WriteOperation!]!, $key: String) {
  write(operations: $operations, idempotencyKey: $key) {
    results { deletedId record { id __typename ... on Project { name owner version } ... on Issue { title salary } } }
  }
}"""
ADMIN_WITH_EXPLAIN = replace(ADMIN, explain=True)
PLAIN = WRITE.replace(" salary", "")


class Project(Entity, allow=[group("Admin"), owner("owner")]):
    """A project of its owner."""

    project_id: Id[str]
    owner: str
    name: Unique[str]
    version: Version[Int32]


class Issue(Entity, allow=[group("Admin"), owner_through("Project", of="project_id", owner="owner")]):
    """An issue of a project, for the owner of the project."""

    issue_id: Id[str]
    project_id: str
    title: str = "-"
    salary: Annotated[str, allow(group("Admin"))] = "-"

    of_project = ForeignKey("Project", by="project_id")


class Entry(Entity, allow=anyone):
    """An entry of a log."""

    log: Id[str]
    number: SubId[int]
    text: str = "-"


class Settings(Entity, allow=anyone):
    """A singleton."""

    theme: str = "-"


class Sealed(Entity, allow=anyone, write=[]):
    """A record that nobody writes."""

    sealed_id: Id[str]


CATALOG = Catalog(Project, Issue, Entry, Settings, Sealed)
PROJECT = Project(project_id="p", owner="ann", name="first", version=1)


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[GraphQLClient]:
    """Open a client for a project of Ann's with an issue."""
    async with open_client(CATALOG, folder, PROJECT, **options) as client:
        await client.db.create(Issue, issue_id="i", project_id="p")
        yield client


def project(id: str, **values: Any) -> dict[str, Any]:
    """Return the operation that creates a project of Ann's."""
    return {"createProject": {"projectId": id, "owner": "ann", "name": id, **values}}


def issue(id: str, of: str, **values: Any) -> dict[str, Any]:
    """Return the operation that creates an issue."""
    return {"createIssue": {"issueId": id, "projectId": of, **values}}


async def write(client: GraphQLClient, *operations: Any, query: str = PLAIN, **options: Any) -> Any:
    """Return the results of a write."""
    return (await client.data(query, {"operations": operations}, **options))["write"]["results"]


async def refused(client: GraphQLClient, *operations: Any, query: str = PLAIN, **options: Any) -> Any:
    """Return the error of a write, which writes nothing."""
    before = await all_items(client.store)
    error = await client.error(query, {"operations": operations}, **options)
    assert await all_items(client.store) == before
    return error


async def test_records_of_several_types(tmp_path: Path) -> None:
    """Operations create, update, put and delete records of any types, and return them by their interface."""
    async with opened(tmp_path) as client:
        results = await write(
            client,
            project("q"),
            issue("j", "q", title="new"),
            {"updateProject": {"id": "q", "name": "renamed", "expectedVersion": 1}},
            {"putEntry": {"log": "l", "number": 1, "text": "one"}},
            {"createSettings": {"theme": "dark"}},
            {"updateSettings": {"theme": "light"}},
            {"deleteIssue": {"id": "i"}},
            {"deleteProject": {"id": "p", "expectedVersion": 1}},
            {"deleteProject": {"id": "none"}},
            caller=ADMIN,
        )
        types = [result["record"] and result["record"]["__typename"] for result in results]
        assert types == ["Project", "Issue", "Project", "Entry", "Settings", "Settings", None, None, None]
        assert results[2]["record"]["name"] == "renamed"
        assert results[2]["record"]["version"] == 2
        assert [result["deletedId"] is not None for result in results] == [False] * 6 + [True, True, False]
        key = client.db.open_key(results[7]["deletedId"])
        assert (key.origin, key.ids) == ("project", ("p",))
        assert (await client.db.get(Project, "q")).name == "renamed"  # type: ignore[union-attr]
        assert await client.db.get(Project, "p") is None


async def test_a_key_makes_a_write_repeatable(tmp_path: Path) -> None:
    """A repeated write with an idempotency key returns the first results."""
    async with opened(tmp_path) as client:
        variables = {"operations": [project("q"), {"deleteIssue": {"id": "i"}}], "key": "k"}
        first = await client.data(PLAIN, variables, caller=ADMIN)
        assert await client.data(PLAIN, variables, caller=ADMIN) == first
        error = await client.error(PLAIN, {**variables, "key": "k k"}, caller=ADMIN)
        assert error["extensions"]["code"] == "INVALID_VALUE"
        assert error["extensions"]["argument"] == "idempotencyKey"


# --- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "code", "argument"),
    [
        (project("p"), "ALREADY_EXISTS", "projectId"),
        (project("x", name="first"), "NOT_UNIQUE", "name"),
        (issue("x", "none"), "FOREIGN_KEY", "projectId"),
        ({"updateProject": {"id": "none", "name": "x"}}, "RECORD_NOT_FOUND", None),
        ({"deleteProject": {"id": "p", "expectedVersion": 4}}, "VERSION_CONFLICT", "expectedVersion"),
        ({"putEntry": {"number": 1}}, None, None),
        ({"deleteEntry": {"id": "l"}}, "MISSING_ARGUMENT", "id"),
        ({"putProject": {"owner": "ann", "name": "x"}}, None, None),
    ],
)
async def test_an_error_names_its_operation(
    tmp_path: Path, operation: Any, code: str | None, argument: str | None
) -> None:
    """A failed operation is named by its index, with the code and argument of its own mutation."""
    async with opened(tmp_path) as client:
        error = await refused(client, project("q"), operation, caller=ADMIN)
        if code is None:  # The input type refuses it.
            assert error["extensions"]["code"] == "BAD_USER_INPUT"
            return
        extensions = error["extensions"]
        assert extensions["code"] == code
        assert extensions.get("argument") == argument
        assert error["message"].startswith("operations[1]: ")
        assert error["path"] == ["write"]
        (one,) = extensions["operations"]
        assert {"index": 1, "code": code} == {name: one[name] for name in ("index", "code")}
        assert error["message"] == f"operations[1]: {one['message']}"
        assert await client.db.get(Project, "q") is None


async def test_invalid_inputs_are_listed_together(tmp_path: Path) -> None:
    """All operations that cannot be executed at all are listed in one error."""
    async with opened(tmp_path) as client:
        entry = {"deleteEntry": {"id": "l"}}
        error = await refused(client, entry, project("q"), entry, caller=ADMIN)
        assert [one["index"] for one in error["extensions"]["operations"]] == [0, 2]


async def test_numbers_of_operations(tmp_path: Path) -> None:
    """A write has 1 to 25 operations, each with exactly one field."""
    async with opened(tmp_path) as client:
        assert (await refused(client, caller=ADMIN))["extensions"]["code"] == "INVALID_LIMIT"
        many = [project(f"{number}") for number in range(26)]
        assert (await refused(client, *many, caller=ADMIN))["extensions"]["code"] == "INVALID_LIMIT"
        for operation in ({}, {**project("q"), **issue("j", "q")}, {"createProject": None}):
            error = await refused(client, operation, caller=ADMIN)
            assert error["extensions"]["code"] == "BAD_USER_INPUT"


# --- access rules ----------------------------------------------------------------------------------------------


async def test_rules_see_what_the_write_creates(tmp_path: Path) -> None:
    """An owner may add issues to a project that the same write creates; others may not."""
    async with opened(tmp_path) as client:
        results = await write(client, project("q"), issue("j", "q"), caller=ANN)
        assert [result["record"]["__typename"] for result in results] == ["Project", "Issue"]
        for operations in ([issue("k", "q")], [issue("k", "p"), issue("l", "q")]):
            error = await refused(client, *operations, caller=BOB)
            assert error["extensions"]["code"] == "FORBIDDEN"
        error = await refused(client, project("r"), caller=BOB)
        assert error["extensions"]["code"] == "FORBIDDEN"
        own = [project("r", owner="bob"), issue("k", "r")]
        assert len(await write(client, *own, caller=BOB)) == 2
        error = await refused(client, issue("l", "r"), issue("z", "q"), caller=BOB)
        assert error["extensions"]["operations"][0]["index"] == 1


async def test_a_missing_record_looks_like_that_of_another_owner(tmp_path: Path) -> None:
    """Updates and deletes of a missing record and of one of another owner have the same error."""
    async with opened(tmp_path) as client:
        for verb, values in (("updateProject", {"name": "x"}), ("deleteProject", {})):
            errors = [
                await refused(client, project("r", owner="bob"), {verb: {"id": id, **values}}, caller=BOB)
                for id in ("p", "none")
            ]
            assert errors[0] == errors[1]
            assert errors[0]["extensions"]["code"] == "FORBIDDEN"
        assert await client.db.get(Project, "r") is None


async def test_selected_properties_need_rights(tmp_path: Path) -> None:
    """A write is refused before it reads anything if the caller may not read what it selects of the records."""
    async with opened(tmp_path) as client:
        error = await refused(client, project("q"), issue("j", "q"), query=WRITE, caller=ANN)
        assert error["extensions"]["code"] == "FORBIDDEN"
        assert "Issue.salary" in error["message"]
        assert len(await write(client, project("q"), query=WRITE, caller=ANN)) == 1
        error = await refused(client, issue("j", "q", salary="s"), caller=ANN)
        assert error["extensions"]["operations"][0]["code"] == "FORBIDDEN"


# --- the schema ------------------------------------------------------------------------------------------------


def test_fields_of_operations() -> None:
    """`WriteOperation` has the mutations of all entities that are written, but no deletion of a singleton."""
    schema = Graph(CATALOG).schema._schema
    operations: Any = schema.type_map["WriteOperation"]
    assert operations.is_one_of
    verbs = ("create", "update", "put", "delete")
    expected = [f"{verb}{kind}" for kind in ("Project", "Issue", "Entry", "Settings") for verb in verbs]
    assert [*operations.fields] == [name for name in expected if name != "deleteSettings"]


def test_catalogs_without_mutations() -> None:
    """Without mutations there is no `write`, and with some it has only these."""
    assert "write" not in Graph(Catalog(Project, mutations=())).mutations
    some: Any = Graph(Catalog(Project, mutations=("create", "delete"), batches=False)).schema._schema
    assert [*some.type_map["WriteOperation"].fields] == ["createProject", "deleteProject"]


def test_namespaces_and_merged_schemas() -> None:
    """A namespace prefixes the mutation and its input. Printed together, several catalogs share one input type."""
    plugin = Graph(Catalog(Entry, namespace="Plugin"))
    assert "Plugin_write" in plugin.mutations
    graphs = {"a": Graph(Catalog(Entry)).schema, "b": Graph(Catalog(Sealed, Project)).schema, "c": plugin.schema}
    sdl = print_sdl(graphs)
    (merged,) = [part for part in sdl.split("\n\n") if "input WriteOperation @oneOf" in part]
    assert "createEntry: EntryInput" in merged
    assert "createProject: ProjectInput" in merged
    assert "input Plugin_WriteOperation @oneOf" in sdl


async def test_explain(tmp_path: Path) -> None:
    """Explain output names the types and counts the operations of a write."""
    async with opened(tmp_path) as client:
        response = await client.execute(
            PLAIN, {"operations": [project("q"), issue("j", "q")]}, caller=ADMIN_WITH_EXPLAIN
        )
        (entry,) = [one for one in response.body["extensions"]["explain"] if "write" in one]
        assert (entry["entity"], entry["records"], entry["write"]["rounds"]) == ("Project, Issue", 2, 1)
