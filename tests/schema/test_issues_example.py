"""The printed tables of the design document of the example `issues`, and paging through a large project."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from graphql_api import Graph
from graphql_api.database import Database
from graphql_api.examples.issues import (
    ACME,
    BRIDGE,
    DAILY_NEWS,
    FIXED_RECORDS,
    GRID_VIEW,
    Issue,
    IssueState,
    catalog,
    generate_issues,
    sample,
)
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.schema.graphql_client import SEAL, GraphQLClient, client_for, open_client, open_database, write
from tests.support.dynamodb_servers import Server
from tests.support.run_depth import depth
from tests.support.store_doubles import Counts, IndependentReadsStore

GRAPH = Graph(catalog)
PRINTED_DIGITS = 4
Row = dict[str, str]


def table(printed: str) -> list[Row]:
    """Parse a printed table into rows."""
    head, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in printed.split("\n")]
    return [dict(zip(head, row, strict=True)) for row in rows]


def rows(items: list[dict[str, Any]], kind: str) -> list[Row]:
    """Convert records to printed rows: shortened ids, `issueId` as `id`, `projectId` as `project`."""
    return [{_column(name, kind): _cell(name, value) for name, value in item.items()} for item in items]


def _column(name: str, kind: str) -> str:
    return "id" if name == f"{kind}Id" else name.removesuffix("Id")


def _cell(name: str, value: Any) -> str:
    return str(value)[:PRINTED_DIGITS] if name.endswith("Id") else str(value)


COLUMNS = "{ issueId name projectId num state }"

TENANTS = table("""\
| id | name |
| --   | ---- |
| 0807 | ACME Engineering |
| 3cc8 | Big Media |""")

PROJECTS = table("""\
| id | name | tenant |
| --   | ---- | -|
| 35e9 | Forth Rail Bridge | 0807 |
| 7b7e | The Daily News | 3cc8 |""")

ISSUES = table("""\
| id | name | project | num | state |
|-|-|-|-|-|
| 020e | Needs Painting | 35e9 | 1 | open |
| 3544 | Launch new newspaper! | 7b7e | 1 | closed |
| 67d1 | Check for rust | 35e9 | 2 | closed |
| 83a4 | Hire reporter for showbiz desk | 7b7e | 2 | open |
| af34 | Girder needs replacing | 35e9 | 3 | open |""")

OF_ONE_PROJECT = table("""\
| id | name | project | num | state |
|-|-|-|-|-|
| 3544 | Launch new newspaper! | 7b7e | 1 | closed |
| 83a4 | Hire reporter for showbiz desk | 7b7e | 2 | open |""")

BY_STATE_AND_NUMBER = table("""\
| id | name | project | num | state |
|-|-|-|-|-|
| af34 | Girder needs replacing | 35e9 | 3 | open |
| 020e | Needs Painting | 35e9 | 1 | open |
| 67d1 | Check for rust | 35e9 | 2 | closed |""")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client with the records of the document and other projects."""
    async with open_client(catalog, tmp_path, *sample(20), graph=GRAPH) as client:
        yield client


async def read_all_pages(
    client: GraphQLClient, project_id: UUID, order: str, limit: int
) -> list[tuple[list[dict[str, Any]], Counts]]:
    """Return every page of a project's issues in an order, with the store calls of each page."""
    pages, token = [], None
    while True:
        client.reset_counts()
        data = await client.data(
            f"""query ($project: UUID!, $limit: Int, $token: String) {{
                  issues(projectId: $project, orderBy: {order}, limit: $limit, nextToken: $token) {{
                    items {COLUMNS} nextToken
                  }} }}""",
            {"project": str(project_id), "limit": limit, "token": token},
        )
        pages.append((data["issues"]["items"], client.counts))
        token = data["issues"]["nextToken"]
        if token is None:
            return pages


# --- the printed tables ----------------------------------------------------------------------------------------


async def test_printed_records(tmp_path: Path) -> None:
    """Searches return the three printed tables of sample data, issues in order across all shards."""
    async with open_client(catalog, tmp_path, *FIXED_RECORDS, graph=GRAPH) as client:
        data = await client.data(
            f"""{{ tenants: tenantById {{ items {{ tenantId name }} }}
                   projects: projectById {{ items {{ projectId name tenantId }} }}
                   issues: issueById {{ items {COLUMNS} }} }}"""
        )
    assert rows(data["tenants"]["items"], "tenant") == TENANTS
    assert rows(data["projects"]["items"], "project") == PROJECTS
    assert rows(data["issues"]["items"], "issue") == ISSUES


async def test_issues_in_a_project(client: GraphQLClient) -> None:
    """`WHERE project = '7b7e'` returns the printed table, ordered by number, which is the default."""
    data = await client.data(
        f"""query ($project: UUID!) {{
              plain: issues(projectId: $project) {{ items {COLUMNS} nextToken }}
              ordered: issues(projectId: $project, orderBy: NUM_ASC) {{ items {COLUMNS} nextToken }}
              index: issueByNum(projectId: $project) {{ items {COLUMNS} nextToken }} }}""",
        {"project": str(DAILY_NEWS.project_id)},
    )
    for page in data.values():
        assert rows(page["items"], "issue") == OF_ONE_PROJECT
        assert page["nextToken"] is None


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_issues_grouped_by_state_and_ordered_by_number(client: GraphQLClient, limit: int) -> None:
    """`ORDER BY state ASC, num DESC` returns the printed table. Each page reads at most one extra record."""
    pages = await read_all_pages(client, BRIDGE.project_id, "STATE_ASC_NUM_DESC", limit)
    assert [row for items, _ in pages for row in rows(items, "issue")] == BY_STATE_AND_NUMBER
    assert [len(items) for items, _ in pages] == {1: [1, 1, 1], 2: [2, 1], 3: [3], 100: [3]}[limit]
    assert all(counts.records_read <= limit + 1 for _, counts in pages)


async def test_keyset_by_number(client: GraphQLClient) -> None:
    """`num > 1 ORDER BY num LIMIT 1` returns one issue, as a condition and as the second page."""
    query = f"""query ($project: UUID!, $token: String) {{
        condition: issueByNum(projectId: $project, from: 2, limit: 1) {{ items {COLUMNS} }}
        page: issues(projectId: $project, orderBy: NUM_ASC, limit: 1, nextToken: $token) {{
          items {COLUMNS} nextToken
        }} }}"""
    project = str(BRIDGE.project_id)
    first = await client.data(query, {"project": project})
    second = await client.data(query, {"project": project, "token": first["page"]["nextToken"]})
    assert rows(first["page"]["items"], "issue") == [ISSUES[0]]
    assert rows(second["page"]["items"], "issue") == [ISSUES[2]]
    assert rows(first["condition"]["items"], "issue") == [ISSUES[2]]


async def test_keyset_by_state_and_number(client: GraphQLClient) -> None:
    """`(state, num) > ('open', 3) LIMIT 1` returns the closed issue, as the page after the open ones."""
    (_, _), (items, counts) = await read_all_pages(client, BRIDGE.project_id, "STATE_ASC", 2)
    assert rows(items, "issue") == [ISSUES[2]]
    assert (counts.rounds, counts.reads, counts.scans, counts.records_read) == (1, 1, 0, 1)


def issues_with_gaps() -> Iterator[Issue]:
    """Return issues without the deleted ones, with states that reproduce the page ends of the document."""
    closed = {*range(28, 58), *range(107, 212), *range(306, 331)}
    for one in generate_issues(330, BRIDGE.project_id):
        if one.num not in {110, 120, 130, 140, 150}:
            yield one.model_copy(update={"state": IssueState.closed if one.num in closed else IssueState.open})


@pytest.mark.parametrize(
    ("order", "ends"),
    [
        ("NUM_ASC", [("open", 100), ("closed", 205), ("open", 305)]),
        ("STATE_ASC", [("open", 235), ("closed", 57), ("closed", 211)]),
    ],
)
async def test_pages_end_where_the_document_says(tmp_path: Path, order: str, ends: list[tuple[str, int]]) -> None:
    """Pages of a hundred issues end at the positions of the document, by number and by state."""
    async with open_client(catalog, tmp_path, ACME, BRIDGE, *issues_with_gaps(), graph=GRAPH) as client:
        pages = await read_all_pages(client, BRIDGE.project_id, order, 100)
    assert [(items[-1]["state"], items[-1]["num"]) for items, _ in pages[:3]] == ends
    assert [len(items) for items, _ in pages] == [100, 100, 100, 25]


# --- the orders ------------------------------------------------------------------------------------------------

KEYS: dict[str, Callable[[Issue], Any]] = {
    "NUM_ASC": lambda one: one.num,
    "NAME_ASC": lambda one: (one.name, one.issue_id.int),
    "STATE_ASC": lambda one: (one.state is IssueState.closed, one.issue_id.int),
    "STATE_ASC_NUM_DESC": lambda one: (one.state is IssueState.closed, -one.num),
}
"""the sort keys of four orders in plain Python"""

BACKWARDS = {
    "NUM_DESC": "NUM_ASC",
    "NAME_DESC": "NAME_ASC",
    "STATE_DESC": "STATE_ASC",
    "STATE_DESC_NUM_ASC": "STATE_ASC_NUM_DESC",
}
"""the other four orders, each with the order that it reverses"""

ORDERS = sorted([*KEYS, *BACKWARDS])


def in_order(issues: Iterable[Issue], order: str) -> list[Issue]:
    """Return issues sorted by an order."""
    return sorted(issues, key=KEYS[BACKWARDS.get(order, order)], reverse=order in BACKWARDS)


async def test_the_order_enum_lists_the_index_orders(client: GraphQLClient) -> None:
    """The order enum contains exactly the eight orders that an index supports. Other orders are refused."""
    data = await client.data('{ __type(name: "IssueOrder") { enumValues { name } } }')
    assert sorted(value["name"] for value in data["__type"]["enumValues"]) == ORDERS
    for order in ("STATE_ASC_NUM_ASC", "STATE_DESC_NUM_DESC", "ISSUE_ID_ASC"):
        error = await client.error(f'{{ issues(projectId: "{BRIDGE.project_id}", orderBy: {order}) {{ nextToken }} }}')
        assert error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"
        assert order in error["message"]


async def test_docstrings_are_descriptions(client: GraphQLClient) -> None:
    """Descriptions of the catalog become descriptions of types, fields, joins and enums in the schema."""
    words = "description fields { name description } enumValues { name }"
    types = await client.data(
        f'{{ issue: __type(name: "Issue") {{ {words} }} state: __type(name: "IssueState") {{ {words} }} }}'
    )
    fields = {field["name"]: field["description"] for field in types["issue"]["fields"]}
    assert types["issue"]["description"] == "An issue of a project."
    assert fields["num"] == "Number of the issue, unique within its project."
    assert fields["project"] == "The project of the issue."
    assert types["state"]["description"] == IssueState.__doc__
    assert [value["name"] for value in types["state"]["enumValues"]] == ["open", "closed"]


@pytest.mark.parametrize("order", ORDERS)
async def test_issues_of_a_project_never_show_those_of_another(client: GraphQLClient, order: str) -> None:
    """In every order, the issues of a project are exactly its rows of the printed table."""
    for project, printed in ((BRIDGE, "35e9"), (DAILY_NEWS, "7b7e")):
        mine = [one for one in FIXED_RECORDS if isinstance(one, Issue) and one.project_id == project.project_id]
        ((items, _),) = await read_all_pages(client, project.project_id, order, 100)
        expected = [str(one.issue_id)[:PRINTED_DIGITS] for one in in_order(mine, order)]
        assert [row["id"] for row in rows(items, "issue")] == expected
        assert {row["project"] for row in rows(items, "issue")} == {printed}


async def test_a_grid_with_its_project_and_tenant(client: GraphQLClient) -> None:
    """A page of open issues joins project and tenant, and a tenant joins its projects by name."""
    data = await client.data(
        """query ($project: UUID!, $tenant: ID!) {
             issueByStateNum(projectId: $project, eq: open, limit: 2) {
               items { num name project { name tenant { name } } }
             }
             tenant(id: $tenant) { name projects { items { name issues(reverse: true, limit: 1) { items { num } } } } }
           }""",
        {"project": str(BRIDGE.project_id), "tenant": str(BRIDGE.tenant_id)},
    )
    project = {"name": "Forth Rail Bridge", "tenant": {"name": "ACME Engineering"}}
    assert data == {
        "issueByStateNum": {
            "items": [
                {"num": 3, "name": "Girder needs replacing", "project": project},
                {"num": 1, "name": "Needs Painting", "project": project},
            ]
        },
        "tenant": {
            "name": "ACME Engineering",
            "projects": {"items": [{"name": "Forth Rail Bridge", "issues": {"items": [{"num": 3}]}}]},
        },
    }


# --- a large project -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large_project() -> list[Issue]:
    """The issues of the large project."""
    return [*generate_issues(depth(quick=5_000, deep=100_000))]


@pytest.fixture(scope="module")
def large_project_file(large_project: list[Issue], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the large project and all others."""
    file = tmp_path_factory.mktemp("issues") / "x.db"

    async def fill() -> None:
        async with open_database(catalog, await open_sqlite(file), *sample(0)) as db:
            for at in range(0, len(large_project), 1_000):
                await write(db, large_project[at : at + 1_000])

    asyncio.run(fill())
    return file


@pytest.mark.parametrize("order", ORDERS)
async def test_page_k_reads_what_page_one_reads(
    large_project: list[Issue], large_project_file: Path, order: str
) -> None:
    """In every order all pages form the sorted issues. Each page makes one read with one extra record."""
    async with open_database(catalog, await open_sqlite(large_project_file)) as db:
        await check_all_pages(client_for(db, graph=GRAPH), large_project, order, depth(quick=250, deep=100))


@pytest.mark.parametrize("order", ORDERS)
async def test_page_k_on_an_engine_with_independent_reads(
    large_project: list[Issue], large_project_file: Path, order: str
) -> None:
    """The same holds for independent read limits. Reversed orders read one more record for the start position."""
    async with open_database(catalog, await open_sqlite(large_project_file)) as db:
        independent = Database(catalog, IndependentReadsStore(db.store), SEAL, db.clock)
        await check_all_pages(
            client_for(independent, graph=GRAPH), large_project, order, limit=250, reads_start_record=order in BACKWARDS
        )


async def check_all_pages(
    client: GraphQLClient, issues: list[Issue], order: str, limit: int, *, reads_start_record: bool = False
) -> None:
    """Page through the large project, and check the issues and the store calls of each page."""
    pages = await read_all_pages(client, GRID_VIEW.project_id, order, limit)
    issues_read = [(item["issueId"], item["num"], item["name"], item["state"]) for items, _ in pages for item in items]
    expected = in_order(issues, order)
    assert issues_read == [(str(one.issue_id), one.num, one.name, one.state.value) for one in expected]
    first, *others, last = [counts.scalar_counts() for _, counts in pages]
    one_read = {"rounds": 1, "reads": 1, "gets": 0, "writes": 0, "scans": 0}
    assert first == {**one_read, "records_read": limit + 1}
    assert others == [{**one_read, "records_read": limit + 1 + reads_start_record}] * (len(issues) // limit - 2)
    assert last in [{**one_read, "records_read": limit + more} for more in {0, int(reads_start_record)}]


async def test_pages_on_dynamodb(dynamodb: Server, tmp_path: Path) -> None:
    """DynamoDB returns the same pages in every order, with the same store calls."""
    issues = [*generate_issues(depth(quick=400, deep=5_000))]
    store = await dynamodb.open(f"issues-{tmp_path.name}")
    async with open_database(catalog, store, *sample(0), *issues) as db:
        for order in ORDERS:
            await check_all_pages(
                client_for(db, graph=GRAPH), issues, order, limit=100, reads_start_record=order in BACKWARDS
            )
