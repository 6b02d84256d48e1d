"""Many clients of four server processes that want the same at the same time: one gets it, and no promise is broken."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from graphql_api.examples.issues import Issue, Project, Tenant
from graphql_api.examples.users import Email
from graphql_api.opening import open_catalog
from tests.depth import depth, is_deep
from tests.dynamodb_local import Server
from tests.faults.faults import MeetsOthers
from tests.faults.proxy import FaultProxy
from tests.faults.requests import Request
from tests.faults.rules import now_and_then
from tests.writes.audit import check_table
from tests.writes.fleet import Fleet, Place, Refused, fleet
from tests.writes.servers import Mother
from tests.writes.world import CATALOG, Account

CROWD = 64
CONFLICTS = 0.3

Outcome = Any
"""what was created, or what the server said instead"""


async def all_at_once(doing: Callable[[int], Awaitable[Any]], count: int = CROWD) -> list[Outcome]:
    """What comes of the same thing, done by so many clients at once."""

    async def one(who: int) -> Outcome:
        try:
            return await doing(who)
        except Refused as refused:
            return refused

    return await asyncio.gather(*map(one, range(count)))


def created(outcomes: Sequence[Outcome]) -> list[Any]:
    """What was acknowledged."""
    return [outcome for outcome in outcomes if not isinstance(outcome, Refused)]


def refusals(outcomes: Sequence[Outcome]) -> Counter[tuple[str, str | None]]:
    """The codes and arguments of what was refused."""
    return Counter((outcome.code, outcome.argument) for outcome in outcomes if isinstance(outcome, Refused))


async def new_project(place: Place) -> UUID:
    """A project without issues, written by none of the servers."""
    tenant, project = uuid4(), uuid4()
    async with open_catalog(CATALOG, place.url) as db:
        await db.put(Tenant(tenant_id=tenant, name="Crowd"))
        await db.put(Project(project_id=project, name="Crowd", tenant_id=tenant))
    return project


async def want_one_email(servers: Fleet, place: Place, rounds: int) -> None:
    """Everybody creates the same address, as an id and as a unique property: one of them each."""
    for turn in range(rounds):
        address = f"wanted{turn}@example.com"

        async def as_id(who: int, address: str = address) -> Any:
            values = {"email": address, "userId": f"u{who}", "created": 1_700_000_000 + who}
            return await servers.create(who, "Email", values, "email userId created", place.new_key())

        async def as_unique(who: int, address: str = address) -> Any:
            values = {"accountId": f"{address}-{who}", "email": address}
            return await servers.create(who, "Account", values, "accountId email", place.new_key())

        emails, accounts = await asyncio.gather(all_at_once(as_id), all_at_once(as_unique))
        (email,), (account,) = created(emails), created(accounts)
        assert refusals(emails) == {("ALREADY_EXISTS", "email"): CROWD - 1}
        assert refusals(accounts) == {("NOT_UNIQUE", "email"): CROWD - 1}
        async with open_catalog(CATALOG, place.url) as db:
            kept = await db.get(Email, address)
            assert kept is not None
            assert (kept.user_id, kept.created) == (email["userId"], email["created"])
            owners = [one for one in range(CROWD) if await db.get(Account, f"{address}-{one}") is not None]
            assert [f"{address}-{one}" for one in owners] == [account["accountId"]]


async def number_issues(servers: Fleet, place: Place, each: int) -> None:
    """Everybody creates issues in one project: each gets a number of its own, and is there under it."""
    project = await new_project(place)

    async def some(who: int) -> Any:
        made = []
        for turn in range(each):
            values = {"issueId": str(uuid4()), "name": f"{who} {turn}", "projectId": str(project)}
            issue = await servers.create(who, "Issue", values, "issueId num name state", place.new_key())
            made.append(issue)
        return made

    outcomes = await all_at_once(some)
    assert not refusals(outcomes)
    told = {one["issueId"]: (one["num"], one["name"]) for issues in outcomes for one in issues}
    numbers = Counter(num for num, _ in told.values())
    assert len(told) == CROWD * each
    assert [num for num, times in numbers.items() if times > 1] == []
    assert min(numbers) >= 1
    stands: dict[str, tuple[int, str]] = {}
    async with open_catalog(CATALOG, place.url) as db:
        token = None
        while True:
            page = await db.search(Issue.by_num, project_id=project, limit=500, next_token=token)
            stands |= {str(one.issue_id): (one.num, one.name) for one in page.items}
            token = page.next_token
            if token is None:
                break
    assert stands == told


async def end_projects_while_issues_come(servers: Fleet, place: Place, random: Random, rounds: int) -> set[bool]:
    """Some remove a project into which others put issues: it is gone and none of them is there, or it stays."""
    ended = set()
    for turn in range(rounds):
        project = await new_project(place)
        late = random.uniform(0, 0.1)

        async def open_or_end(who: int, project: UUID = project, late: float = late, turn: int = turn) -> Any:
            if bool(who % 4) == bool(turn % 2):
                await asyncio.sleep(late * (who % 3))
            if who % 4:
                values = {"name": f"{who}", "projectId": str(project)}
                return await servers.create(who // 4, "Issue", values, "issueId", place.new_key())
            query = "mutation ($id: ID!, $key: String) { deleteProject(id: $id, idempotencyKey: $key) { deletedId } }"
            variables = {"id": str(project), "key": place.new_key()}
            return (await servers.ask(who // 4, query, variables))["deletedId"]

        outcomes = await all_at_once(open_or_end)
        assert refusals(outcomes).keys() <= {("FOREIGN_KEY", "projectId"), ("FOREIGN_KEY", None)}
        removals = [one for one in created(outcomes[::4]) if one is not None]
        opened = {issue["issueId"] for at, issue in enumerate(outcomes) if at % 4 and not isinstance(issue, Refused)}
        async with open_catalog(CATALOG, place.url) as db:
            page = await db.search(Issue.by_num, project_id=project, limit=500)
            assert {str(issue.issue_id) for issue in page.items} == opened
            stays = await db.get(Project, project) is not None
        assert len(removals) == (0 if stays else 1)
        assert stays or not opened
        ended.add(not stays)
    return ended


async def check_everything(place: Place) -> None:
    """What the table holds fits together."""
    async with open_catalog(CATALOG, place.url) as db:
        await check_table(db)


async def test_one_of_many_gets_the_email(four: Fleet, place: Place) -> None:
    """Of 64 clients at four servers that create one e-mail one is told that it did, and that one's record stands."""
    await want_one_email(four, place, rounds=depth(2, 20))
    await check_everything(place)


async def test_no_number_twice(four: Fleet, place: Place) -> None:
    """64 clients at four servers create issues of one project: none is lost, and no two have the same number."""
    await number_issues(four, place, each=depth(2, 20))
    await check_everything(place)


async def test_a_project_ends_while_issues_come(four: Fleet, place: Place, random: Random) -> None:
    """Of clients at four servers some remove a project and others put issues into it: no issue is left without one."""
    ended = await end_projects_while_issues_come(four, place, random, rounds=depth(2, 60))
    assert ended == {True, False} or not is_deep(), "it always ended alike"
    await check_everything(place)


@pytest.fixture
async def troubled(servers: Mother, place: Place) -> AsyncIterator[Fleet]:
    """Four servers whose transactions meet others that are not there."""
    async with fleet(servers, place, conflicts=CONFLICTS) as found:
        yield found


async def test_conflicts_cost_time_alone(troubled: Fleet, place: Place) -> None:
    """Where a third of all transactions meet others, the same holds: one e-mail, no number twice, nothing lost."""
    await want_one_email(troubled, place, rounds=depth(1, 10))
    await number_issues(troubled, place, each=depth(1, 10))
    check_that_few_heard_of_it(troubled)
    await check_everything(place)


async def test_conflicts_as_dynamodb_tells_them(servers: Mother, dynamodb: Server, on_dynamodb: Place) -> None:
    """The same where it is DynamoDB that says of a fifth of all transactions that they have met others."""
    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as proxy:
        proxy.rule = now_and_then(0.2, Random(7), MeetsOthers(), which=is_transaction)
        behind = replace(on_dynamodb, url=on_dynamodb.url.replace(dynamodb.endpoint, proxy.endpoint))
        async with fleet(servers, behind) as found:
            await want_one_email(found, on_dynamodb, rounds=depth(1, 10))
            await number_issues(found, on_dynamodb, each=depth(1, 10))
            check_that_few_heard_of_it(found)
        assert len(proxy.spoiled) > CROWD / 10
    await check_everything(on_dynamodb)


def check_that_few_heard_of_it(servers: Fleet) -> None:
    """Servers try again by themselves; only where a machine is so busy that this takes too long a client has to."""
    assert servers.hasty <= servers.answered / 20, servers.retries


def is_transaction(request: Request) -> bool:
    """What may meet others."""
    return request.operation == "TransactWriteItems"
