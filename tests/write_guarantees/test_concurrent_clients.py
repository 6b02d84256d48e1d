"""Many clients of four server processes that compete for the same values: all constraints hold."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from graphql_api.connection import open_catalog
from graphql_api.examples.issues import Issue, Project, Tenant
from graphql_api.examples.users import Email
from tests.faults.dynamodb_requests import Request
from tests.faults.fault_proxy import FaultProxy
from tests.faults.fault_rules import random_faults
from tests.faults.fault_types import TransactionConflict
from tests.support.dynamodb_servers import Server
from tests.support.run_depth import depth, is_deep
from tests.write_guarantees.forked_servers import ServerForker
from tests.write_guarantees.served_catalog import CATALOG, Account
from tests.write_guarantees.server_cluster import Cluster, Refused, TableLocation, start_cluster
from tests.write_guarantees.table_audit import check_table

CLIENTS = 64
PAIRS = 16
"""pairs of records that clients write, all or none: every write conflicts with those of three other clients"""
CONFLICTS = 0.3

Outcome = Any
"""the created record, or the error response"""


async def run_concurrently(operation: Callable[[int], Awaitable[Any]], count: int = CLIENTS) -> list[Outcome]:
    """Runs the same operation for many clients at once, and returns their results and errors."""

    async def run(client: int) -> Outcome:
        try:
            return await operation(client)
        except Refused as refused:
            return refused

    return await asyncio.gather(*map(run, range(count)))


def successes(outcomes: Sequence[Outcome]) -> list[Any]:
    """The results of the successful requests."""
    return [outcome for outcome in outcomes if not isinstance(outcome, Refused)]


def refusals(outcomes: Sequence[Outcome]) -> Counter[tuple[str, str | None]]:
    """The codes and arguments of the refused requests."""
    return Counter((outcome.code, outcome.argument) for outcome in outcomes if isinstance(outcome, Refused))


async def new_project(location: TableLocation) -> UUID:
    """Creates a project without issues, and returns its id."""
    tenant, project = uuid4(), uuid4()
    async with open_catalog(CATALOG, location.url) as db:
        await db.put(Tenant(tenant_id=tenant, name="Project"))
        await db.put(Project(project_id=project, name="Project", tenant_id=tenant))
    return project


async def create_one_email(cluster: Cluster, location: TableLocation, rounds: int) -> None:
    """All clients create the same address, as an id and as a unique property. Exactly one of each succeeds."""
    for round_number in range(rounds):
        address = f"wanted{round_number}@example.com"

        async def as_id(client: int, address: str = address) -> Any:
            values = {"email": address, "userId": f"u{client}", "created": 1_700_000_000 + client}
            return await cluster.create(client, "Email", values, "email userId created", location.new_key())

        async def as_unique(client: int, address: str = address) -> Any:
            values = {"accountId": f"{address}-{client}", "email": address}
            return await cluster.create(client, "Account", values, "accountId email", location.new_key())

        emails, accounts = await asyncio.gather(run_concurrently(as_id), run_concurrently(as_unique))
        (email,), (account,) = successes(emails), successes(accounts)
        assert refusals(emails) == {("ALREADY_EXISTS", "email"): CLIENTS - 1}
        assert refusals(accounts) == {("NOT_UNIQUE", "email"): CLIENTS - 1}
        async with open_catalog(CATALOG, location.url) as db:
            stored = await db.get(Email, address)
            assert stored is not None
            assert (stored.user_id, stored.created) == (email["userId"], email["created"])
            owners = [client for client in range(CLIENTS) if await db.get(Account, f"{address}-{client}") is not None]
            assert [f"{address}-{client}" for client in owners] == [account["accountId"]]


async def create_issues(cluster: Cluster, location: TableLocation, each: int) -> None:
    """All clients create issues in one project. Each issue gets a distinct number and is stored with it."""
    project = await new_project(location)

    async def create_several(client: int) -> Any:
        created = []
        for round_number in range(each):
            values = {"issueId": str(uuid4()), "name": f"{client} {round_number}", "projectId": str(project)}
            issue = await cluster.create(client, "Issue", values, "issueId num name state", location.new_key())
            created.append(issue)
        return created

    outcomes = await run_concurrently(create_several)
    assert not refusals(outcomes)
    acknowledged = {issue["issueId"]: (issue["num"], issue["name"]) for issues in outcomes for issue in issues}
    numbers = Counter(num for num, _ in acknowledged.values())
    assert len(acknowledged) == CLIENTS * each
    assert [num for num, times in numbers.items() if times > 1] == []
    assert min(numbers) >= 1
    stored: dict[str, tuple[int, str]] = {}
    async with open_catalog(CATALOG, location.url) as db:
        token = None
        while True:
            page = await db.search(Issue.by_num, project_id=project, limit=500, next_token=token)
            stored |= {str(issue.issue_id): (issue.num, issue.name) for issue in page.items}
            token = page.next_token
            if token is None:
                break
    assert stored == acknowledged


async def write_pairs(cluster: Cluster, location: TableLocation, each: int) -> None:
    """Clients write the same text to two accounts, all or none. The accounts never differ, and no write is lost."""
    async with open_catalog(CATALOG, location.url) as db:
        for number in range(PAIRS):
            for id in pair_of(number):
                await db.put(Account(account_id=id, email=f"{id}@example.com", version=1))
    query = """mutation ($operations: [WriteOperation!]!, $key: String) {
        write(operations: $operations, idempotencyKey: $key) { results { record { ... on Account { version } } } }
    }"""

    async def write(client: int) -> list[int]:
        versions = []
        for number in range(each):
            pair = pair_of(client % PAIRS)
            ids = pair if client // PAIRS % 2 else pair[::-1]
            operations = [{"updateAccount": {"id": id, "note": f"{client} {number}"}} for id in ids]
            found = await cluster.execute(client, query, {"operations": operations, "key": location.new_key()})
            one, other = (result["record"]["version"] for result in found["results"])
            assert one == other
            versions.append(one)
        return versions

    outcomes = await run_concurrently(write)
    assert not refusals(outcomes)
    async with open_catalog(CATALOG, location.url) as db:
        for number in range(PAIRS):
            one, other = await db.get_many(Account, pair_of(number))
            assert one is not None
            assert other is not None
            assert (one.note, one.version) == (other.note, other.version)
            written = sorted(version for versions in outcomes[number::PAIRS] for version in versions)
            assert written == [*range(2, 2 + CLIENTS // PAIRS * each)]
            assert one.version == written[-1]


def pair_of(number: int) -> list[str]:
    """Returns the ids of a pair of accounts."""
    return [f"one{number}", f"other{number}"]


async def delete_projects_during_creates(
    cluster: Cluster, location: TableLocation, random: Random, rounds: int
) -> set[bool]:
    """Some clients delete a project while others create issues in it. A deleted project has no issues."""
    deletions = set()
    for round_number in range(rounds):
        project = await new_project(location)
        delay = random.uniform(0, 0.1)

        async def create_or_delete(
            client: int, project: UUID = project, delay: float = delay, round_number: int = round_number
        ) -> Any:
            if bool(client % 4) == bool(round_number % 2):
                await asyncio.sleep(delay * (client % 3))
            if client % 4:
                values = {"name": f"{client}", "projectId": str(project)}
                return await cluster.create(client // 4, "Issue", values, "issueId", location.new_key())
            query = "mutation ($id: ID!, $key: String) { deleteProject(id: $id, idempotencyKey: $key) { deletedId } }"
            variables = {"id": str(project), "key": location.new_key()}
            return (await cluster.execute(client // 4, query, variables))["deletedId"]

        outcomes = await run_concurrently(create_or_delete)
        assert refusals(outcomes).keys() <= {("FOREIGN_KEY", "projectId"), ("FOREIGN_KEY", None)}
        removals = [deleted for deleted in successes(outcomes[::4]) if deleted is not None]
        created_ids = {
            issue["issueId"] for at, issue in enumerate(outcomes) if at % 4 and not isinstance(issue, Refused)
        }
        async with open_catalog(CATALOG, location.url) as db:
            page = await db.search(Issue.by_num, project_id=project, limit=500)
            assert {str(issue.issue_id) for issue in page.items} == created_ids
            exists = await db.get(Project, project) is not None
        assert len(removals) == (0 if exists else 1)
        assert exists or not created_ids
        deletions.add(not exists)
    return deletions


async def audit_table(location: TableLocation) -> None:
    """Checks the whole table."""
    async with open_catalog(CATALOG, location.url) as db:
        await check_table(db)


async def test_one_of_many_clients_creates_the_email(four_servers: Cluster, location: TableLocation) -> None:
    """Of 64 clients of four servers that create one address exactly one succeeds, and its record is stored."""
    await create_one_email(four_servers, location, rounds=depth(2, 20))
    await audit_table(location)


async def test_concurrent_creates_get_distinct_numbers(four_servers: Cluster, location: TableLocation) -> None:
    """64 clients of four servers create issues in one project. None is lost, and all numbers are distinct."""
    await create_issues(four_servers, location, each=depth(2, 20))
    await audit_table(location)


async def test_writes_of_two_records_are_applied_all_or_none(four_servers: Cluster, location: TableLocation) -> None:
    """Clients of four servers write two records, all or none. Neither record is ever written without the other."""
    await write_pairs(four_servers, location, each=depth(1, 10))
    await audit_table(location)


async def test_project_deletion_during_issue_creation(
    four_servers: Cluster, location: TableLocation, random: Random
) -> None:
    """If clients delete a project while others create issues in it, no issue remains without project."""
    deletions = await delete_projects_during_creates(four_servers, location, random, rounds=depth(2, 60))
    assert deletions == {True, False} or not is_deep(), "every deletion had the same result"
    await audit_table(location)


@pytest.fixture
async def conflicting_cluster(server_forker: ServerForker, location: TableLocation) -> AsyncIterator[Cluster]:
    """Four servers whose stores report random conflicts."""
    async with start_cluster(server_forker, location, conflicts=CONFLICTS) as found:
        yield found


@pytest.mark.parametrize(
    "location", ["sqlite_location", pytest.param("dynamodb_location", marks=pytest.mark.deep)], indirect=True
)
async def test_guarantees_under_random_conflicts(conflicting_cluster: Cluster, location: TableLocation) -> None:
    """With 30 % transaction conflicts the guarantees hold: one address, distinct numbers, nothing lost."""
    await create_one_email(conflicting_cluster, location, rounds=depth(1, 10))
    await create_issues(conflicting_cluster, location, each=depth(1, 10))
    await write_pairs(conflicting_cluster, location, each=1)
    check_few_conflicts_reach_clients(conflicting_cluster)
    await audit_table(location)


async def test_guarantees_under_dynamodb_conflicts(
    server_forker: ServerForker, dynamodb: Server, dynamodb_location: TableLocation
) -> None:
    """The same holds if DynamoDB reports conflicts for a fifth of the transactions."""
    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as proxy:
        proxy.rule = random_faults(0.2, Random(7), TransactionConflict(), matches=is_transaction)
        proxied = replace(dynamodb_location, url=dynamodb_location.url.replace(dynamodb.endpoint, proxy.endpoint))
        async with start_cluster(server_forker, proxied) as found:
            await create_one_email(found, dynamodb_location, rounds=depth(1, 10))
            await create_issues(found, dynamodb_location, each=depth(1, 10))
            check_few_conflicts_reach_clients(found)
        assert len(proxy.faulted) > CLIENTS / 10
    await audit_table(dynamodb_location)


def check_few_conflicts_reach_clients(cluster: Cluster) -> None:
    """Servers retry conflicts themselves. Only an overloaded machine may make a client retry."""
    assert cluster.early_retries <= cluster.reply_count / 20, cluster.retries


def is_transaction(request: Request) -> bool:
    """Whether a request is a transaction, which can conflict."""
    return request.operation == "TransactWriteItems"
