"""Servers that are killed at any moment while they write: what was acknowledged stands, and nothing is half done."""

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

from graphql_api.examples.issues import Issue, Project, Tenant
from graphql_api.opening import open_catalog
from tests.depth import depth, is_deep
from tests.faults.test_kills import check_entries
from tests.faults.timing import best_of
from tests.writes.audit import check_table
from tests.writes.fleet import ADDRESS, PATH, SETTINGS, Fleet, Place, client_of, fleet
from tests.writes.servers import Mother, Server, seconds_in_line
from tests.writes.world import CATALOG, Account

READY_SECONDS = 1.0
ROWS = 5
WRITERS = 3
"""of accounts; as many again create issues, and as many begin and end projects"""

CREATE = """mutation ($inputs: [CreateIssueInput!]!, $key: String) {
  createIssues(inputs: $inputs, idempotencyKey: $key) {
    results { issue { issueId num name state } error { code message } }
  }
}"""
SIGN_UP = """mutation ($input: CreateAccountInput!, $key: String) {
  createAccount(input: $input, idempotencyKey: $key) { account { accountId email note version } }
}"""
CHANGE = """mutation ($input: UpdateAccountInput!, $key: String) {
  updateAccount(input: $input, idempotencyKey: $key) { account { accountId email note version } }
}"""
BEGIN = """mutation ($input: CreateProjectInput!, $key: String) {
  createProject(input: $input, idempotencyKey: $key) { project { projectId name } }
}"""
OPEN = """mutation ($input: CreateIssueInput!, $key: String) {
  createIssue(input: $input, idempotencyKey: $key) { issue { issueId num name } }
}"""
SETTLE = """mutation ($id: ID!, $key: String) { deleteIssue(id: $id, idempotencyKey: $key) { deletedId } }"""
END = """mutation ($id: ID!, $key: String) { deleteProject(id: $id, idempotencyKey: $key) { deletedId } }"""
LEAVE = """mutation ($id: ID!, $key: String) { deleteAccount(id: $id, idempotencyKey: $key) { deletedId } }"""


@dataclass(frozen=True, slots=True)
class Request:
    """Something that is asked for under a key of its own."""

    query: str
    variables: dict[str, Any]
    expected: Callable[[Any], bool]
    """whether this is a right answer"""
    removes: bool = False


@dataclass
class Writers:
    """What several clients ask a server for until it dies, and what it has answered."""

    tenant: str
    project: str
    name: str
    answered: list[tuple[Request, Any]] = field(default_factory=list)
    lost: list[Request] = field(default_factory=list)
    """of each client the one request that was under way"""
    issues: dict[str, tuple[int, str]] = field(default_factory=dict)
    """what must stand: number and name, by id"""
    accounts: dict[str, Any] = field(default_factory=dict)
    """what must stand, by id"""
    projects: set[str] = field(default_factory=set)
    """ids of those that must stand"""
    cut: int = 0
    """batches of which some rows stood when the server was dead, and others did not"""

    enough: asyncio.Event = field(default_factory=asyncio.Event)
    """is set as soon as there are so many answers as are waited for"""
    wanted: int = 1

    async def write(self, client: httpx.AsyncClient) -> None:
        """All clients at once, until there is no server any more."""
        accounts = (self._accounts(client, f"{self.name}-{number}") for number in range(WRITERS))
        issues = (self._issues(client, f"{self.name}-{number}") for number in range(WRITERS))
        projects = (self._projects(client, f"{self.name}-{number}") for number in range(WRITERS))
        await asyncio.gather(*accounts, *issues, *projects)

    async def _issues(self, client: httpx.AsyncClient, who: str) -> None:
        for number in count():
            inputs = [
                {"issueId": str(uuid4()), "name": f"{who} {number}.{row}", "projectId": self.project}
                for row in range(ROWS)
            ]

            def expected(found: Any, inputs: list[Any] = inputs) -> bool:
                made = [row["issue"] for row in found["results"]]
                return [(one["issueId"], one["name"]) for one in made] == [
                    (one["issueId"], one["name"]) for one in inputs
                ]

            if not await self._ask(client, Request(CREATE, {"inputs": inputs, "key": f"{who}:{number}"}, expected)):
                return

    async def _accounts(self, client: httpx.AsyncClient, who: str) -> None:
        """Signs up, takes on another address, and leaves, over and over with the same two addresses; one stays."""
        for number in count():
            id = f"{who}:{number}"
            one, other = f"{who}-one@example.com", f"{who}-other@example.com"
            signs_up = {"accountId": id, "email": one, "note": "new"}
            changes = {"id": id, "email": other, "note": "moved"}
            begun = {"accountId": id, "email": one, "note": "new", "version": 1}
            moved = {"accountId": id, "email": other, "note": "moved", "version": 2}
            steps = [
                Request(SIGN_UP, {"input": signs_up, "key": f"{id}-a"}, _is({"account": begun})),
                Request(CHANGE, {"input": changes, "key": f"{id}-b"}, _is({"account": moved})),
                Request(LEAVE, {"id": id, "key": f"{id}-c"}, _is_gone, removes=True),
            ]
            for step in steps[: 2 if number == 9 else 3]:
                if not await self._ask(client, step):
                    return
            if number == 9:
                return

    async def _projects(self, client: httpx.AsyncClient, who: str) -> None:
        """Begins a project, opens and settles an issue in it, and ends it, over and over."""
        for number in count():
            key, project, issue = f"{who}/{number}", str(uuid4()), str(uuid4())
            begun = {"projectId": project, "name": who}
            # A number that was taken by a server which did not live to give it is left out.
            may_be = [{"issue": {"issueId": issue, "num": num, "name": key}} for num in (1, 2)]
            steps = [
                Request(
                    BEGIN, {"input": {**begun, "tenantId": self.tenant}, "key": f"{key}a"}, _is({"project": begun})
                ),
                Request(
                    OPEN,
                    {"input": {"issueId": issue, "name": key, "projectId": project}, "key": f"{key}b"},
                    may_be.__contains__,
                ),
                Request(SETTLE, {"id": issue, "key": f"{key}c"}, _is_gone, removes=True),
                Request(END, {"id": project, "key": f"{key}d"}, _is_gone, removes=True),
            ]
            for step in steps:
                if not await self._ask(client, step):
                    return

    async def _ask(self, client: httpx.AsyncClient, request: Request) -> bool:
        try:
            reply = await client.post(PATH, json={"query": request.query, "variables": request.variables})
            body = reply.json()
        except (httpx.TransportError, json.JSONDecodeError):
            self.lost.append(request)
            return False
        self.note(request, body)
        return True

    def note(self, request: Request, body: Any) -> None:
        """Keeps an answer, which must be right, and what must stand after it."""
        assert "errors" not in body, body
        (found,) = body["data"].values()
        assert request.expected(found), (request.variables, found)
        self.answered.append((request, body["data"]))
        if len(self.answered) >= self.wanted:
            self.enough.set()
        for row in found.get("results", [found] if "issue" in found else []):
            self.issues[row["issue"]["issueId"]] = row["issue"]["num"], row["issue"]["name"]
        if "account" in found:
            self.accounts[found["account"]["accountId"]] = found["account"]
        if "project" in found:
            self.projects.add(found["project"]["projectId"])
        if request.removes:
            gone = request.variables["id"]
            self.accounts.pop(gone, None)
            self.issues.pop(gone, None)
            self.projects.discard(gone)


def _is_gone(found: Any) -> bool:
    return found["deletedId"] is not None


def _is(wanted: Any) -> Callable[[Any], bool]:
    return lambda found: bool(found == wanted)


@pytest.fixture
async def witness(servers: Mother, on_file: Place) -> AsyncIterator[Fleet]:
    """A server that is not killed."""
    async with fleet(servers, on_file, count=1) as found:
        yield found


async def seconds_until_ready(servers: Mother, place: Place, number: str) -> float:
    """How long a server takes from its start, on the file as it was left, until it has written something.

    What it, and who asks it, had to wait for other processes of the machine does not count.
    """
    source, copy = place.folder / "written.db", place.folder / "copy.db"
    for suffix in ("", "-wal", "-shm"):
        if source.with_name(source.name + suffix).exists():
            shutil.copyfile(f"{source}{suffix}", f"{copy}{suffix}")
    now = asyncio.get_running_loop().time
    began = now() - seconds_in_line(os.getpid())
    server = await victim_of(servers, Place(place.folder, f"sqlite:///{copy}"))
    try:
        async with client_of(server) as client:
            values = {"accountId": f"ready{number}", "email": f"ready{number}@example.com"}
            reply = await client.post(PATH, json={"query": SIGN_UP, "variables": {"input": values, "key": None}})
        seconds = now() - seconds_in_line(os.getpid()) - seconds_in_line(server.pid) - began
        assert "errors" not in reply.json(), reply.json()
    finally:
        server.kill()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{copy}{suffix}").unlink(missing_ok=True)
    return seconds


async def victim_of(servers: Mother, place: Place) -> Server:
    """A server that will be killed."""
    words = (ADDRESS, "--production", "--store", place.url)
    return await asyncio.to_thread(servers.serve, place.folder, *words, **SETTINGS)


async def test_killed_servers(servers: Mother, on_file: Place, witness: Fleet, random: Random) -> None:
    """After each kill a server is ready within a second, everything whole, and retries get the first answers."""
    tenant, project = Tenant(name="Kills"), uuid4()
    async with open_catalog(CATALOG, on_file.url) as db:
        await db.put(tenant)
        await db.put(Project(project_id=project, name="Kills", tenant_id=tenant.tenant_id))
    issues: dict[str, tuple[int, str]] = {}
    accounts: dict[str, Any] = {}
    projects = {str(project)}
    under_way, cut = 0, 0
    for turn in range(depth(5, 200)):
        writers = Writers(str(tenant.tenant_id), str(project), f"t{turn}", wanted=random.randrange(1, 30))
        victim = await victim_of(servers, on_file)
        async with client_of(victim) as client:
            writing = asyncio.ensure_future(writers.write(client))
            await asyncio.wait([writing, asyncio.ensure_future(writers.enough.wait())], return_when=FIRST_COMPLETED)
            await asyncio.sleep(random.uniform(0, 0.02))
            victim.kill()
            await writing
            writers.enough.set()
        under_way += len(writers.lost)
        ready = await best_of(8, lambda: seconds_until_ready(servers, on_file, uuid4().hex), enough=READY_SECONDS)
        assert ready < READY_SECONDS
        await check_what_was_acknowledged(on_file, writers)
        cut += writers.cut
        restarted = await victim_of(servers, on_file)
        async with client_of(restarted) as client:
            await check_retries(writers, witness.clients[0], client, random)
        restarted.kill()
        issues |= writers.issues
        accounts |= writers.accounts
        projects |= writers.projects
    assert under_way
    assert cut or not is_deep(), "no server was killed in the middle of a batch"
    check_entries(on_file.folder / "written.db")
    async with open_catalog(CATALOG, on_file.url) as db:
        table = await check_table(db)
        stands = {item["issueId"]: (item["num"], item["name"]) for item in table.records["issue"]}
        assert stands == issues
        numbered = [(item["projectId"], item["num"]) for item in table.records["issue"]]
        assert len({*numbered}) == len(numbered)
        assert {item["projectId"] for item in table.records["project"]} == projects
        members = {item["accountId"]: item["email"] for item in table.records.get("account", [])}
        assert members == {id: account["email"] for id, account in accounts.items()}


async def check_what_was_acknowledged(place: Place, writers: Writers) -> None:
    """Before anything is retried: all that was acknowledged is there, and what was not is whole or not there."""
    check_entries(place.folder / "written.db")
    asked = [request.variables for request in writers.lost]
    under_way = {one.get("id") or one.get("input", {}).get("id") for one in asked}
    async with open_catalog(CATALOG, place.url) as db:
        await check_table(db, in_between=True)
        for project_id in writers.projects - under_way:
            assert await db.get(Project, UUID(project_id)) is not None
        for request in writers.lost:
            rows = [UUID(row["issueId"]) for row in request.variables.get("inputs", ())]
            whole = [issue is not None for issue in await db.get_many(Issue, rows)]
            writers.cut += any(whole) and not all(whole)
        for issue_id, (num, name) in writers.issues.items():
            found = await db.get(Issue, UUID(issue_id))
            if issue_id not in under_way:
                assert found is not None
                assert (found.num, found.name) == (num, name)
        for account_id, told in writers.accounts.items():
            account = await db.get(Account, account_id)
            if account_id not in under_way:
                assert account is not None
                assert (account.email, account.note, account.version) == (told["email"], told["note"], told["version"])


async def check_retries(
    writers: Writers, witness: httpx.AsyncClient, restarted: httpx.AsyncClient, random: Random
) -> None:
    """What was under way happens now, if it has not, at another process; everything is answered as it was at first."""
    for request in writers.lost:
        body = await retried(witness, request)
        writers.note(request, body)
    some = random.sample(writers.answered, min(10, len(writers.answered)))
    for request, first in [*some, *writers.answered[-len(writers.lost) :]]:
        assert (await retried(restarted, request))["data"] == first
        assert (await retried(witness, request))["data"] == first


async def retried(client: httpx.AsyncClient, request: Request) -> Any:
    """The answer to a request that is sent again, until nobody else is in its way."""
    while True:
        body = (await client.post(PATH, json={"query": request.query, "variables": request.variables})).json()
        if not any(error["extensions"].get("retryable") for error in body.get("errors", ())):
            return body
        await asyncio.sleep(0.02)
