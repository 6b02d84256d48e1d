"""Clients that lose every second reply of servers that are killed: each request is applied exactly once."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import pytest

from graphql_api.connection import open_catalog
from tests.faults.fault_proxy import FaultProxy
from tests.faults.fault_rules import is_write, random_faults
from tests.faults.fault_types import AppliedThenReset
from tests.support.run_depth import depth
from tests.write_guarantees.forked_servers import ServerForker
from tests.write_guarantees.lossy_proxy import LossyClients, open_lossy_clients
from tests.write_guarantees.served_catalog import CATALOG
from tests.write_guarantees.server_cluster import Cluster, Refused, TableLocation, start_cluster
from tests.write_guarantees.table_audit import Table, check_table
from tests.write_guarantees.test_concurrent_clients import new_project

WORKERS = 8
WRITES_PER_TURN = 9
"""creates, updates and counter increments of one turn"""

CREATE_ACCOUNT = """mutation ($input: AccountInput!, $key: String) {
  createAccount(input: $input, idempotencyKey: $key) { account { accountId email note version } }
}"""
UPDATE_ACCOUNT = """mutation ($input: AccountPatch!, $version: Int, $key: String) {
  updateAccount(input: $input, expectedVersion: $version, idempotencyKey: $key) {
    account { accountId email note version }
  }
}"""
DELETE_ACCOUNT = """mutation ($id: ID!, $key: String) { deleteAccount(id: $id, idempotencyKey: $key) { deletedId } }"""
CREATE_ISSUE = """mutation ($input: IssueInput!, $key: String) {
  createIssue(input: $input, idempotencyKey: $key) { issue { issueId num name } }
}"""
WRITE = """mutation ($operations: [WriteOperation!]!, $key: String) {
  write(operations: $operations, idempotencyKey: $key) {
    results { record { ... on Issue { issueId num name } ... on Account { accountId email note version } } }
  }
}"""
CREATE_ISSUES = """mutation ($inputs: [IssueInput!]!, $key: String) {
  createIssues(inputs: $inputs, idempotencyKey: $key) {
    results { issue { issueId num name } error { code retryable message } }
  }
}"""


@dataclass
class Worker:
    """A client, and the state that is expected after its writes."""

    lossy_clients: LossyClients
    name: str
    random: Random
    project: str
    accounts: dict[str, Any] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    issues: dict[str, tuple[int, str]] = field(default_factory=dict)
    """number and name, by id"""
    completed: list[tuple[str, Mapping[str, Any], Any]] = field(default_factory=list)
    response_count: int = 0
    """expected number of stored responses: one per request, or one per row of a batch"""

    async def work(self, turns: int) -> None:
        """Writes accounts and issues."""
        for turn in range(turns):
            await self.write_account(f"{self.name}-{turn}")
            await self.create_issues(f"{self.name}-{turn}")
            await self.write_all_or_none(f"{self.name}-{turn}")

    async def write_account(self, id: str) -> None:
        """Creates and updates an account, expects the refusal of invalid writes, and sometimes deletes the account."""
        email = f"{id}@example.com"
        new = {"accountId": id, "email": email, "note": "new"}
        account = (await self.execute_with_key(CREATE_ACCOUNT, {"input": new}))["account"]
        assert account == {**new, "version": 1}
        await self.expect_error(CREATE_ACCOUNT, {"input": {**new, "email": f"other-{email}"}}, "ALREADY_EXISTS")
        await self.expect_error(CREATE_ACCOUNT, {"input": {**new, "accountId": f"other-{id}"}}, "NOT_UNIQUE")
        for version, change in ((1, {"note": "changed"}), (2, {"email": f"new-{email}"})):
            changed = await self.execute_with_key(UPDATE_ACCOUNT, {"input": {"id": id, **change}, "version": version})
            account = {**account, **change, "version": version + 1}
            assert changed["account"] == account
        await self.expect_error(UPDATE_ACCOUNT, {"input": {"id": id, "note": "late"}, "version": 1}, "VERSION_CONFLICT")
        self.accounts[id] = account
        if self.random.random() < 0.2:
            assert (await self.execute_with_key(DELETE_ACCOUNT, {"id": id}))["deletedId"]
            assert (await self.execute_with_key(DELETE_ACCOUNT, {"id": id}))["deletedId"] is None
            del self.accounts[id]
            self.deleted.add(id)

    async def create_issues(self, name: str) -> None:
        """Creates an issue, and two more in a batch. Each has a distinct number."""
        one, *others = [{"issueId": str(uuid4()), "name": f"{name} {at}", "projectId": self.project} for at in range(3)]
        created = [(await self.execute_with_key(CREATE_ISSUE, {"input": one}))["issue"]]
        created += await self.create_batch(others)
        assert [(issue["issueId"], issue["name"]) for issue in created] == [
            (provided["issueId"], provided["name"]) for provided in (one, *others)
        ]
        self.issues |= {issue["issueId"]: (issue["num"], issue["name"]) for issue in created}

    async def write_all_or_none(self, id: str) -> None:
        """Creates an issue and an account together, and expects the refusal of a write of which one part fails."""
        issue, account = str(uuid4()), {"accountId": f"both-{id}", "email": f"both-{id}@example.com", "note": "both"}
        new_issue = {"issueId": issue, "name": id, "projectId": self.project}
        operations = [{"createIssue": new_issue}, {"createAccount": account}]
        written = await self.execute_with_key(WRITE, {"operations": operations})
        created, stored = (result["record"] for result in written["results"])
        assert stored == {**account, "version": 1}
        self.issues[issue] = created["num"], created["name"]
        again = [{"createIssue": {**new_issue, "issueId": str(uuid4())}}, {"createAccount": account}]
        await self.expect_error(WRITE, {"operations": again}, "ALREADY_EXISTS")
        self.accounts[stored["accountId"]] = stored

    async def create_batch(self, inputs: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Creates issues in a batch, which is repeated while one of its rows has a retryable error."""
        variables = {"inputs": inputs, "key": str(uuid4())}
        while True:
            results = (await self.lossy_clients.execute(CREATE_ISSUES, variables))["results"]
            problems = [row["error"] for row in results if row["error"] is not None]
            assert all(problem["retryable"] for problem in problems), problems
            if not problems:
                self.completed.append((CREATE_ISSUES, variables, {"results": results}))
                self.response_count += len(inputs)
                return [row["issue"] for row in results]
            self.lossy_clients.problems.update(problem["code"] for problem in problems)

    async def execute_with_key(self, query: str, variables: Mapping[str, Any]) -> Any:
        """Executes a request with a new key. Sometimes it repeats an earlier request too."""
        keyed = {**variables, "key": str(uuid4())}
        answer = await self.lossy_clients.execute(query, keyed)
        self.completed.append((query, keyed, answer))
        self.response_count += 1
        if self.random.random() < 0.3:
            query, earlier, first = self.random.choice(self.completed)
            assert await self.lossy_clients.execute(query, earlier) == first
        return answer

    async def expect_error(self, query: str, variables: Mapping[str, Any], code: str) -> None:
        """Executes a request that must fail with this code."""
        with pytest.raises(Refused) as caught:
            await self.lossy_clients.execute(query, {**variables, "key": str(uuid4())})
        assert caught.value.code == code


async def run_lossy_clients(cluster: Cluster, location: TableLocation, random: Random, *, turns: int) -> LossyClients:
    """Runs clients that lose every second reply. Checks that each request was applied exactly once."""
    project = str(await new_project(location))
    async with open_lossy_clients(cluster, random, kill_every=depth(50, 300)) as lossy_clients:
        workers = [Worker(lossy_clients, f"w{at}", Random(f"{random.random()}"), project) for at in range(WORKERS)]
        await asyncio.gather(*(worker.work(turns) for worker in workers))
        assert lossy_clients.kills
        assert lossy_clients.lost_replies > turns * WORKERS * WRITES_PER_TURN / 4
        for query, variables, first in random.sample(
            [one for worker in workers for one in worker.completed], depth(15, 500)
        ):
            assert await lossy_clients.execute(query, variables) == first
    async with open_catalog(CATALOG, location.url) as db:
        check_stored_records(await check_table(db), workers)
    return lossy_clients


def check_stored_records(table: Table, workers: Sequence[Worker]) -> None:
    """Checks that the table contains exactly the acknowledged records, and one stored response per request."""
    accounts = {id: account for worker in workers for id, account in worker.accounts.items()}
    shown = ("accountId", "email", "note", "version")
    assert {item["accountId"]: {name: item[name] for name in shown} for item in table.records["account"]} == accounts
    issues = {id: issue for worker in workers for id, issue in worker.issues.items()}
    assert {item["issueId"]: (item["num"], item["name"]) for item in table.records["issue"]} == issues
    assert len({num for num, _ in issues.values()}) == len(issues)
    assert len(table.responses) == sum(worker.response_count for worker in workers)


@asynccontextmanager
async def start_servers_with_lost_replies(
    server_forker: ServerForker, location: TableLocation, random: Random
) -> AsyncIterator[Cluster]:
    """Starts four servers. On DynamoDB they lose every second reply of the store to a write."""
    async with AsyncExitStack() as stack:
        endpoint = dict(parse_qsl(urlsplit(location.url).query)).get("endpoint")
        if endpoint is None:
            yield await stack.enter_async_context(start_cluster(server_forker, location))
            return
        proxy = await stack.enter_async_context(FaultProxy(int(endpoint.rpartition(":")[2])))
        proxy.rule = random_faults(0.5, random, AppliedThenReset(), matches=is_write)
        proxied = replace(location, url=location.url.replace(endpoint, proxy.endpoint))
        yield await stack.enter_async_context(start_cluster(server_forker, proxied))
        assert len(proxy.faulted) > len(proxy.requests) / 10


async def test_every_request_is_applied_exactly_once(
    server_forker: ServerForker, location: TableLocation, random: Random
) -> None:
    """With lost replies and killed servers, creates, updates and counter increments happen exactly once.

    A retry at any server returns the first response. Conflicting values are refused.
    """
    async with start_servers_with_lost_replies(server_forker, location, random) as cluster:
        lossy_clients = await run_lossy_clients(cluster, location, random, turns=depth(1, 70))
    assert lossy_clients.problems.total() >= lossy_clients.lost_replies


async def test_an_applied_write_is_never_reported_as_failed(
    server_forker: ServerForker, dynamodb_location: TableLocation, random: Random
) -> None:
    """Without keys, an applied write is reported as successful or unknown, never as failed.

    The servers lose every second reply of DynamoDB, and retry with the same transaction token.
    """
    acknowledged: dict[str, Any] = {}
    unknown: set[str] = set()

    async with start_servers_with_lost_replies(server_forker, dynamodb_location, random) as found:

        async def work(client_number: int) -> None:
            for turn in range(depth(2, 60)):
                id = f"k{client_number}-{turn}"
                new = {"accountId": id, "email": f"{id}@example.com", "note": "new"}
                steps: list[tuple[str, dict[str, Any]]] = [
                    (CREATE_ACCOUNT, {"input": new}),
                    (UPDATE_ACCOUNT, {"input": {"id": id, "note": "first"}, "version": 1}),
                    (UPDATE_ACCOUNT, {"input": {"id": id, "note": "second"}, "version": 2}),
                ]
                for query, variables in steps:
                    try:
                        acknowledged[id] = (await found.execute(client_number, query, variables))["account"]
                    except Refused as refused:
                        if refused.code not in {"OUTCOME_UNKNOWN", "STORE_UNAVAILABLE"}:
                            raise
                        unknown.add(id)
                        break

        await asyncio.gather(*(work(client_number) for client_number in range(WORKERS)))
    assert len(unknown) < WORKERS * depth(2, 60) / 2
    async with open_catalog(CATALOG, dynamodb_location.url) as db:
        stored = {item["accountId"]: item for item in (await check_table(db)).records["account"]}
    for id, account in acknowledged.items():
        item = stored.pop(id)
        known = {"note": item["note"], "version": item["version"]}
        assert known == {name: account[name] for name in known} or (
            id in unknown and item["version"] == account["version"] + 1
        )
    assert stored.keys() <= unknown
