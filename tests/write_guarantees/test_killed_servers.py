"""Servers that are killed during writes: acknowledged writes are durable, and every write is atomic."""

import asyncio
import json
import os
import shutil
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from graphql_api.connection import open_catalog
from graphql_api.examples.issues import Issue, Project, Tenant
from tests.faults.test_kills import check_entries
from tests.faults.time_bounds import best_of
from tests.support.run_depth import depth, is_deep
from tests.write_guarantees.forked_servers import Server, ServerForker, cpu_wait_seconds
from tests.write_guarantees.served_catalog import CATALOG, Account
from tests.write_guarantees.server_cluster import (
    ADDRESS,
    PATH,
    SETTINGS,
    Cluster,
    TableLocation,
    client_of,
    start_cluster,
)
from tests.write_guarantees.table_audit import check_table

READY_SECONDS = 1.0
ROWS = 5
WRITERS = 3
"""writers of accounts; as many others create issues, and as many create and delete projects"""

CREATE_ISSUES = """mutation ($inputs: [IssueInput!]!, $key: String) {
  createIssues(inputs: $inputs, idempotencyKey: $key) {
    results { issue { issueId num name state } error { code message } }
  }
}"""
CREATE_ACCOUNT = """mutation ($input: AccountInput!, $key: String) {
  createAccount(input: $input, idempotencyKey: $key) { account { accountId email note version } }
}"""
UPDATE_ACCOUNT = """mutation ($input: AccountPatch!, $key: String) {
  updateAccount(input: $input, idempotencyKey: $key) { account { accountId email note version } }
}"""
CREATE_PROJECT = """mutation ($input: ProjectInput!, $key: String) {
  createProject(input: $input, idempotencyKey: $key) { project { projectId name } }
}"""
CREATE_ISSUE = """mutation ($input: IssueInput!, $key: String) {
  createIssue(input: $input, idempotencyKey: $key) { issue { issueId num name } }
}"""
DELETE_ISSUE = """mutation ($id: ID!, $key: String) { deleteIssue(id: $id, idempotencyKey: $key) { deletedId } }"""
WRITE_PROJECT = """mutation ($operations: [WriteOperation!]!, $key: String) {
    write(operations: $operations, idempotencyKey: $key) {
        results { record { ... on Project { projectId name } ... on Issue { issueId num name } } }
    }
}"""
DELETE_PROJECT = """mutation ($id: ID!, $key: String) { deleteProject(id: $id, idempotencyKey: $key) { deletedId } }"""
DELETE_ACCOUNT = """mutation ($id: ID!, $key: String) { deleteAccount(id: $id, idempotencyKey: $key) { deletedId } }"""


@dataclass(frozen=True, slots=True)
class Request:
    """A request with its own idempotency key."""

    query: str
    variables: dict[str, Any]
    expected: Callable[[Any], bool]
    """whether a response is correct"""
    removes: bool = False


@dataclass
class Writers:
    """Clients that write to one server until it is killed, and the responses that they got."""

    tenant: str
    project: str
    name: str
    completed: list[tuple[Request, Any]] = field(default_factory=list)
    in_progress: list[Request] = field(default_factory=list)
    """the request in progress of each client"""
    issues: dict[str, tuple[int, str]] = field(default_factory=dict)
    """stored number and name that are expected, by id"""
    accounts: dict[str, Any] = field(default_factory=dict)
    """expected accounts, by id"""
    projects: set[str] = field(default_factory=set)
    """ids of expected projects"""
    partial_batches: int = 0
    """batches of which only some rows were stored when the server was killed"""

    enough_responses: asyncio.Event = field(default_factory=asyncio.Event)
    """set when there are enough responses"""
    wanted_responses: int = 1

    async def write(self, client: httpx.AsyncClient) -> None:
        """Runs all clients until the server is killed."""
        accounts = (self._accounts(client, f"{self.name}-{number}") for number in range(WRITERS))
        issues = (self._issues(client, f"{self.name}-{number}") for number in range(WRITERS))
        projects = (self._projects(client, f"{self.name}-{number}") for number in range(WRITERS))
        writes = (self._writes(client, f"{self.name}-{number}w") for number in range(WRITERS))
        await asyncio.gather(*accounts, *issues, *projects, *writes)

    async def _issues(self, client: httpx.AsyncClient, client_name: str) -> None:
        for number in count():
            inputs = [
                {"issueId": str(uuid4()), "name": f"{client_name} {number}.{row}", "projectId": self.project}
                for row in range(ROWS)
            ]

            def expected(found: Any, inputs: list[Any] = inputs) -> bool:
                created = [row["issue"] for row in found["results"]]
                return [(one["issueId"], one["name"]) for one in created] == [
                    (one["issueId"], one["name"]) for one in inputs
                ]

            if not await self._send(
                client, Request(CREATE_ISSUES, {"inputs": inputs, "key": f"{client_name}:{number}"}, expected)
            ):
                return

    async def _accounts(self, client: httpx.AsyncClient, client_name: str) -> None:
        """Creates, updates and deletes accounts in turn, with the same two addresses. The last account remains."""
        for number in count():
            id = f"{client_name}:{number}"
            one, other = f"{client_name}-one@example.com", f"{client_name}-other@example.com"
            create_input = {"accountId": id, "email": one, "note": "new"}
            update_input = {"id": id, "email": other, "note": "moved"}
            initial = {"accountId": id, "email": one, "note": "new", "version": 1}
            updated = {"accountId": id, "email": other, "note": "moved", "version": 2}
            steps = [
                Request(CREATE_ACCOUNT, {"input": create_input, "key": f"{id}-a"}, _equals({"account": initial})),
                Request(UPDATE_ACCOUNT, {"input": update_input, "key": f"{id}-b"}, _equals({"account": updated})),
                Request(DELETE_ACCOUNT, {"id": id, "key": f"{id}-c"}, _is_deleted, removes=True),
            ]
            for step in steps[: 2 if number == 9 else 3]:
                if not await self._send(client, step):
                    return
            if number == 9:
                return

    async def _projects(self, client: httpx.AsyncClient, client_name: str) -> None:
        """Creates a project and an issue, and deletes both, repeatedly."""
        for number in count():
            key, project, issue = f"{client_name}/{number}", str(uuid4()), str(uuid4())
            initial = {"projectId": project, "name": client_name}
            # A number that a killed server had taken is skipped.
            allowed = [{"issue": {"issueId": issue, "num": num, "name": key}} for num in (1, 2)]
            steps = [
                Request(
                    CREATE_PROJECT,
                    {"input": {**initial, "tenantId": self.tenant}, "key": f"{key}a"},
                    _equals({"project": initial}),
                ),
                Request(
                    CREATE_ISSUE,
                    {"input": {"issueId": issue, "name": key, "projectId": project}, "key": f"{key}b"},
                    allowed.__contains__,
                ),
                Request(DELETE_ISSUE, {"id": issue, "key": f"{key}c"}, _is_deleted, removes=True),
                Request(DELETE_PROJECT, {"id": project, "key": f"{key}d"}, _is_deleted, removes=True),
            ]
            for step in steps:
                if not await self._send(client, step):
                    return

    async def _writes(self, client: httpx.AsyncClient, client_name: str) -> None:
        """Creates a project and its issues, all or none, repeatedly."""
        for number in count():
            key, project, issues = f"{client_name}/{number}", str(uuid4()), [str(uuid4()) for _ in range(ROWS)]
            create = {"projectId": project, "name": key, "tenantId": self.tenant}
            inputs = [{"issueId": issue, "name": key, "projectId": project} for issue in issues]
            operations = [{"createProject": create}, *({"createIssue": one} for one in inputs)]

            def expected(found: Any, project: str = project, issues: list[str] = issues) -> bool:
                records = [result["record"] for result in found["results"]]
                return records[0]["projectId"] == project and [one["issueId"] for one in records[1:]] == issues

            request = Request(WRITE_PROJECT, {"operations": operations, "key": key}, expected)
            if not await self._send(client, request):
                return

    async def _send(self, client: httpx.AsyncClient, request: Request) -> bool:
        try:
            reply = await client.post(PATH, json={"query": request.query, "variables": request.variables})
            body = reply.json()
        except (httpx.TransportError, json.JSONDecodeError):
            self.in_progress.append(request)
            return False
        self.record_response(request, body)
        return True

    def record_response(self, request: Request, body: Any) -> None:
        """Checks and records a response, and the state that is expected after it."""
        assert "errors" not in body, body
        (found,) = body["data"].values()
        assert request.expected(found), (request.variables, found)
        self.completed.append((request, body["data"]))
        if len(self.completed) >= self.wanted_responses:
            self.enough_responses.set()
        for row in found.get("results", [found] if "issue" in found else []):
            record = row.get("issue") or row["record"]
            if "issueId" in record:
                self.issues[record["issueId"]] = record["num"], record["name"]
            else:
                self.projects.add(record["projectId"])
        if "account" in found:
            self.accounts[found["account"]["accountId"]] = found["account"]
        if "project" in found:
            self.projects.add(found["project"]["projectId"])
        if request.removes:
            deleted_id = request.variables["id"]
            self.accounts.pop(deleted_id, None)
            self.issues.pop(deleted_id, None)
            self.projects.discard(deleted_id)


def _is_deleted(found: Any) -> bool:
    return found["deletedId"] is not None


def _equals(expected: Any) -> Callable[[Any], bool]:
    return lambda found: bool(found == expected)


@pytest.fixture
async def witness(server_forker: ServerForker, sqlite_location: TableLocation) -> AsyncIterator[Cluster]:
    """A server that is not killed."""
    async with start_cluster(server_forker, sqlite_location, count=1) as found:
        yield found


async def seconds_until_ready(server_forker: ServerForker, location: TableLocation, number: str) -> float:
    """Returns the time from the start of a server, on a copy of the file, until its first write.

    The time that server and client had to wait for a CPU does not count.
    """
    source, copy = location.folder / "table.db", location.folder / "copy.db"
    for suffix in ("", "-wal", "-shm"):
        if source.with_name(source.name + suffix).exists():
            shutil.copyfile(f"{source}{suffix}", f"{copy}{suffix}")
    now = asyncio.get_running_loop().time
    began = now() - cpu_wait_seconds(os.getpid())
    server = await start_victim(server_forker, TableLocation(location.folder, f"sqlite:///{copy}"))
    try:
        async with client_of(server) as client:
            values = {"accountId": f"ready{number}", "email": f"ready{number}@example.com"}
            reply = await client.post(PATH, json={"query": CREATE_ACCOUNT, "variables": {"input": values, "key": None}})
        seconds = now() - cpu_wait_seconds(os.getpid()) - cpu_wait_seconds(server.pid) - began
        assert "errors" not in reply.json(), reply.json()
    finally:
        server.kill()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{copy}{suffix}").unlink(missing_ok=True)
    return seconds


async def start_victim(server_forker: ServerForker, location: TableLocation) -> Server:
    """Starts a server that will be killed."""
    arguments = (ADDRESS, "--production", "--store", location.url)
    return await asyncio.to_thread(server_forker.serve, location.folder, *arguments, **SETTINGS)


async def test_killed_servers(
    server_forker: ServerForker, sqlite_location: TableLocation, witness: Cluster, random: Random
) -> None:
    """After a kill a server starts within a second, the table is consistent, and retries return the first responses."""
    tenant, project = Tenant(name="Kills"), uuid4()
    async with open_catalog(CATALOG, sqlite_location.url) as db:
        await db.put(tenant)
        await db.put(Project(project_id=project, name="Kills", tenant_id=tenant.tenant_id))
    issues: dict[str, tuple[int, str]] = {}
    accounts: dict[str, Any] = {}
    projects = {str(project)}
    in_progress_count, partial_batches = 0, 0
    for turn in range(depth(5, 200)):
        writers = Writers(str(tenant.tenant_id), str(project), f"t{turn}", wanted_responses=random.randrange(1, 30))
        victim = await start_victim(server_forker, sqlite_location)
        async with client_of(victim) as client:
            writing = asyncio.ensure_future(writers.write(client))
            await asyncio.wait(
                [writing, asyncio.ensure_future(writers.enough_responses.wait())], return_when=FIRST_COMPLETED
            )
            await asyncio.sleep(random.uniform(0, 0.02))
            victim.kill()
            await writing
            writers.enough_responses.set()
        in_progress_count += len(writers.in_progress)
        ready = await best_of(
            8, lambda: seconds_until_ready(server_forker, sqlite_location, uuid4().hex), enough=READY_SECONDS
        )
        assert ready < READY_SECONDS
        await check_acknowledged_writes(sqlite_location, writers)
        partial_batches += writers.partial_batches
        restarted = await start_victim(server_forker, sqlite_location)
        async with client_of(restarted) as client:
            await check_retries(writers, witness.clients[0], client, random)
        restarted.kill()
        issues |= writers.issues
        accounts |= writers.accounts
        projects |= writers.projects
    assert in_progress_count
    assert partial_batches or not is_deep(), "no server was killed in the middle of a batch"
    check_entries(sqlite_location.folder / "table.db")
    async with open_catalog(CATALOG, sqlite_location.url) as db:
        table = await check_table(db)
        stored = {item["issueId"]: (item["num"], item["name"]) for item in table.records["issue"]}
        assert stored == issues
        numbered = [(item["projectId"], item["num"]) for item in table.records["issue"]]
        assert len({*numbered}) == len(numbered)
        assert {item["projectId"] for item in table.records["project"]} == projects
        members = {item["accountId"]: item["email"] for item in table.records.get("account", [])}
        assert members == {id: account["email"] for id, account in accounts.items()}


async def check_acknowledged_writes(location: TableLocation, writers: Writers) -> None:
    """Before any retry, all acknowledged writes are stored, and others are stored completely or not at all."""
    check_entries(location.folder / "table.db")
    variables = [request.variables for request in writers.in_progress]
    in_progress_ids = {one.get("id") or one.get("input", {}).get("id") for one in variables}
    async with open_catalog(CATALOG, location.url) as db:
        await check_table(db, allow_delete_intents=True)
        for project_id in writers.projects - in_progress_ids:
            assert await db.get(Project, UUID(project_id)) is not None
        for request in writers.in_progress:
            rows = [UUID(row["issueId"]) for row in request.variables.get("inputs", ())]
            stored = [issue is not None for issue in await db.get_many(Issue, rows)]
            writers.partial_batches += any(stored) and not all(stored)
            operations = request.variables.get("operations")
            if operations is not None:
                issues = [UUID(one["createIssue"]["issueId"]) for one in operations[1:]]
                project = await db.get(Project, UUID(operations[0]["createProject"]["projectId"]))
                found_issues = await db.get_many(Issue, issues)
                assert {one is not None for one in (project, *found_issues)} in ({True}, {False})
        for issue_id, (num, name) in writers.issues.items():
            found = await db.get(Issue, UUID(issue_id))
            if issue_id not in in_progress_ids:
                assert found is not None
                assert (found.num, found.name) == (num, name)
        for account_id, expected in writers.accounts.items():
            account = await db.get(Account, account_id)
            if account_id not in in_progress_ids:
                assert account is not None
                assert (account.email, account.note, account.version) == (
                    expected["email"],
                    expected["note"],
                    expected["version"],
                )


async def check_retries(
    writers: Writers, witness: httpx.AsyncClient, restarted: httpx.AsyncClient, random: Random
) -> None:
    """Requests in progress succeed when they are retried at another server. All retries return the first response."""
    for request in writers.in_progress:
        body = await retry(witness, request)
        writers.record_response(request, body)
    samples = random.sample(writers.completed, min(10, len(writers.completed)))
    for request, first in [*samples, *writers.completed[-len(writers.in_progress) :]]:
        assert (await retry(restarted, request))["data"] == first
        assert (await retry(witness, request))["data"] == first


async def retry(client: httpx.AsyncClient, request: Request) -> Any:
    """Sends a request again until it is not in conflict."""
    while True:
        body = (await client.post(PATH, json={"query": request.query, "variables": request.variables})).json()
        if not any(error["extensions"].get("retryable") for error in body.get("errors", ())):
            return body
        await asyncio.sleep(0.02)
