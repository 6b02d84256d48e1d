"""Clients that hear every second answer only, of servers that are killed meanwhile: each request counts once."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import pytest

from graphql_api.opening import open_catalog
from tests.depth import depth
from tests.faults.faults import AppliedThenReset
from tests.faults.proxy import FaultProxy
from tests.faults.rules import is_write, now_and_then
from tests.writes.audit import Table, check_table
from tests.writes.fleet import Fleet, Place, Refused, fleet
from tests.writes.lossy import Lines, lossy
from tests.writes.servers import Mother
from tests.writes.test_crowds import new_project
from tests.writes.world import CATALOG

WORKERS = 8
STEPS_A_TURN = 9
"""creates, updates and steps of a counter"""

SIGN_UP = """mutation ($input: CreateAccountInput!, $key: String) {
  createAccount(input: $input, idempotencyKey: $key) { account { accountId email note version } }
}"""
CHANGE = """mutation ($input: UpdateAccountInput!, $version: Int, $key: String) {
  updateAccount(input: $input, expectedVersion: $version, idempotencyKey: $key) {
    account { accountId email note version }
  }
}"""
LEAVE = """mutation ($id: ID!, $key: String) { deleteAccount(id: $id, idempotencyKey: $key) { deletedId } }"""
OPEN = """mutation ($input: CreateIssueInput!, $key: String) {
  createIssue(input: $input, idempotencyKey: $key) { issue { issueId num name } }
}"""
OPEN_SOME = """mutation ($inputs: [CreateIssueInput!]!, $key: String) {
  createIssues(inputs: $inputs, idempotencyKey: $key) {
    results { issue { issueId num name } error { code retryable message } }
  }
}"""


@dataclass
class Worker:
    """One client, and what must stand after it."""

    lines: Lines
    name: str
    random: Random
    project: str
    accounts: dict[str, Any] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    issues: dict[str, tuple[int, str]] = field(default_factory=dict)
    """number and name, by id"""
    answered: list[tuple[str, Mapping[str, Any], Any]] = field(default_factory=list)
    kept: int = 0
    """answers that the servers must keep: one for each request, and of a batch one for each row"""

    async def work(self, turns: int) -> None:
        """Writes, is refused what must be refused, and asks at times for what was answered before."""
        for turn in range(turns):
            await self.keep_account(f"{self.name}-{turn}")
            await self.open_issues(f"{self.name}-{turn}")

    async def keep_account(self, id: str) -> None:
        """An account that is made, refused a second time, changed twice, and perhaps given up again."""
        email = f"{id}@example.com"
        new = {"accountId": id, "email": email, "note": "new"}
        account = (await self.insist(SIGN_UP, {"input": new}))["account"]
        assert account == {**new, "version": 1}
        await self.refused(SIGN_UP, {"input": {**new, "email": f"other-{email}"}}, "ALREADY_EXISTS")
        await self.refused(SIGN_UP, {"input": {**new, "accountId": f"other-{id}"}}, "NOT_UNIQUE")
        for version, change in ((1, {"note": "changed"}), (2, {"email": f"new-{email}"})):
            changed = await self.insist(CHANGE, {"input": {"id": id, **change}, "version": version})
            account = {**account, **change, "version": version + 1}
            assert changed["account"] == account
        await self.refused(CHANGE, {"input": {"id": id, "note": "late"}, "version": 1}, "VERSION_CONFLICT")
        self.accounts[id] = account
        if self.random.random() < 0.2:
            assert (await self.insist(LEAVE, {"id": id}))["deletedId"]
            assert (await self.insist(LEAVE, {"id": id}))["deletedId"] is None
            del self.accounts[id]
            self.gone.add(id)

    async def open_issues(self, name: str) -> None:
        """An issue by itself, and two in a batch: each has a number of its own."""
        one, *others = [{"issueId": str(uuid4()), "name": f"{name} {at}", "projectId": self.project} for at in range(3)]
        made = [(await self.insist(OPEN, {"input": one}))["issue"]]
        made += await self.insist_on_rows(others)
        assert [(issue["issueId"], issue["name"]) for issue in made] == [
            (given["issueId"], given["name"]) for given in (one, *others)
        ]
        self.issues |= {issue["issueId"]: (issue["num"], issue["name"]) for issue in made}

    async def insist_on_rows(self, inputs: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The issues of a batch, which is sent again as long as one of its rows has to be tried again."""
        variables = {"inputs": inputs, "key": str(uuid4())}
        while True:
            results = (await self.lines.ask(OPEN_SOME, variables))["results"]
            problems = [row["error"] for row in results if row["error"] is not None]
            assert all(problem["retryable"] for problem in problems), problems
            if not problems:
                self.answered.append((OPEN_SOME, variables, {"results": results}))
                self.kept += len(inputs)
                return [row["issue"] for row in results]
            self.lines.problems.update(problem["code"] for problem in problems)

    async def insist(self, query: str, variables: Mapping[str, Any]) -> Any:
        """The answer to a request of one record; now and then an answer of before is asked for once more."""
        keyed = {**variables, "key": str(uuid4())}
        answer = await self.lines.ask(query, keyed)
        self.answered.append((query, keyed, answer))
        self.kept += 1
        if self.random.random() < 0.3:
            query, before, first = self.random.choice(self.answered)
            assert await self.lines.ask(query, before) == first
        return answer

    async def refused(self, query: str, variables: Mapping[str, Any], code: str) -> None:
        """Something that must fail, by this and nothing else."""
        with pytest.raises(Refused) as caught:
            await self.lines.ask(query, {**variables, "key": str(uuid4())})
        assert caught.value.code == code


async def write_and_lose(servers: Fleet, place: Place, random: Random, *, turns: int) -> Lines:
    """Many clients over lines that lose every second answer; afterwards all of it has happened, and once."""
    project = str(await new_project(place))
    async with lossy(servers, random, kill_every=depth(50, 300)) as lines:
        workers = [Worker(lines, f"w{at}", Random(f"{random.random()}"), project) for at in range(WORKERS)]
        await asyncio.gather(*(worker.work(turns) for worker in workers))
        assert lines.kills
        assert lines.lost > turns * WORKERS * STEPS_A_TURN / 4
        for query, variables, first in random.sample(
            [one for worker in workers for one in worker.answered], depth(15, 500)
        ):
            assert await lines.ask(query, variables) == first
    async with open_catalog(CATALOG, place.url) as db:
        check_what_stands(await check_table(db), workers)
    return lines


def check_what_stands(table: Table, workers: Sequence[Worker]) -> None:
    """The table has what was answered, nothing beside it, and one kept answer for each request."""
    accounts = {id: account for worker in workers for id, account in worker.accounts.items()}
    shown = ("accountId", "email", "note", "version")
    assert {item["accountId"]: {name: item[name] for name in shown} for item in table.records["account"]} == accounts
    issues = {id: told for worker in workers for id, told in worker.issues.items()}
    assert {item["issueId"]: (item["num"], item["name"]) for item in table.records["issue"]} == issues
    assert len({num for num, _ in issues.values()}) == len(issues)
    assert len(table.kept) == sum(worker.kept for worker in workers)


@asynccontextmanager
async def deaf_to_half(servers: Mother, place: Place, random: Random) -> AsyncIterator[Fleet]:
    """Four servers; where there is a line between them and their store, they hear every second answer to a write."""
    async with AsyncExitStack() as stack:
        endpoint = dict(parse_qsl(urlsplit(place.url).query)).get("endpoint")
        if endpoint is None:
            yield await stack.enter_async_context(fleet(servers, place))
            return
        proxy = await stack.enter_async_context(FaultProxy(int(endpoint.rpartition(":")[2])))
        proxy.rule = now_and_then(0.5, random, AppliedThenReset(), which=is_write)
        behind = replace(place, url=place.url.replace(endpoint, proxy.endpoint))
        yield await stack.enter_async_context(fleet(servers, behind))
        assert len(proxy.spoiled) > len(proxy.requests) / 10


async def test_every_request_counts_once(servers: Mother, place: Place, random: Random) -> None:
    """Every second answer is lost, and servers are killed: creates, updates and numbers happen once, and no others.

    Whoever asks again, at whichever server, is answered as the first time; what is taken is refused.
    """
    async with deaf_to_half(servers, place, random) as fleet_of_four:
        lines = await write_and_lose(fleet_of_four, place, random, turns=depth(1, 70))
    assert lines.problems.total() >= lines.lost


async def test_nobody_is_told_a_failure_that_was_none(servers: Mother, on_dynamodb: Place, random: Random) -> None:
    """Without keys a write that the store has done is told to be done, or not to be known: never to be refused.

    The server hears every second answer of DynamoDB, and asks again under the token of its transaction.
    """
    told: dict[str, Any] = {}
    unknown: set[str] = set()

    async with deaf_to_half(servers, on_dynamodb, random) as found:

        async def work(who: int) -> None:
            for turn in range(depth(2, 60)):
                id = f"k{who}-{turn}"
                new = {"accountId": id, "email": f"{id}@example.com", "note": "new"}
                steps: list[tuple[str, dict[str, Any]]] = [
                    (SIGN_UP, {"input": new}),
                    (CHANGE, {"input": {"id": id, "note": "first"}, "version": 1}),
                    (CHANGE, {"input": {"id": id, "note": "second"}, "version": 2}),
                ]
                for query, variables in steps:
                    try:
                        told[id] = (await found.ask(who, query, variables))["account"]
                    except Refused as refused:
                        if refused.code not in {"OUTCOME_UNKNOWN", "STORE_UNAVAILABLE"}:
                            raise
                        unknown.add(id)
                        break

        await asyncio.gather(*(work(who) for who in range(WORKERS)))
    assert len(unknown) < WORKERS * depth(2, 60) / 2
    async with open_catalog(CATALOG, on_dynamodb.url) as db:
        stands = {item["accountId"]: item for item in (await check_table(db)).records["account"]}
    for id, account in told.items():
        item = stands.pop(id)
        known = {"note": item["note"], "version": item["version"]}
        assert known == {name: account[name] for name in known} or (
            id in unknown and item["version"] == account["version"] + 1
        )
    assert stands.keys() <= unknown
