"""The tables that the document of the example `issues` prints, and walks through a project of a hundred thousand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from graphql_api import Graph
from graphql_api.database import Database
from graphql_api.examples.issue_samples import ACME, BRIDGE, DAILY_NEWS, FIXED_RECORDS, GRID_VIEW, generate_issues
from graphql_api.examples.issues import Issue, IssueState, catalog, sample
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.depth import depth
from tests.dynamodb_local import Server
from tests.schema.asking import SEAL, Asked, asked, asking, opened, write
from tests.stores import Counts, ReadByRead

GRAPH = Graph(catalog)
PRINTED_DIGITS = 4
Row = dict[str, str]


def table(printed: str) -> list[Row]:
    """The rows of a table as the document prints it."""
    head, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in printed.split("\n")]
    return [dict(zip(head, row, strict=True)) for row in rows]


def rows(items: list[dict[str, Any]], kind: str) -> list[Row]:
    """Records as the document prints them: of an id its first digits, `issueId` as `id`, `projectId` as `project`."""
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
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    """The document's records and other projects, to be asked."""
    async with asked(catalog, tmp_path, *sample(20), graph=GRAPH) as asking:
        yield asking


async def walk(ask: Asked, project_id: UUID, order: str, limit: int) -> list[tuple[list[dict[str, Any]], Counts]]:
    """Every page of a project's issues in an order, and what each of them read."""
    pages, token = [], None
    while True:
        ask.forget()
        found = await ask.data(
            f"""query ($project: UUID!, $limit: Int, $token: String) {{
                  issues(projectId: $project, orderBy: {order}, limit: $limit, nextToken: $token) {{
                    items {COLUMNS} nextToken
                  }} }}""",
            {"project": str(project_id), "limit": limit, "token": token},
        )
        pages.append((found["issues"]["items"], ask.counts))
        token = found["issues"]["nextToken"]
        if token is None:
            return pages


# --- the printed tables ----------------------------------------------------------------------------------------


async def test_printed_records(tmp_path: Path) -> None:
    """The three tables of sample data come as they are printed, those of issues in order over all of their shards."""
    async with asked(catalog, tmp_path, *FIXED_RECORDS, graph=GRAPH) as ask:
        found = await ask.data(
            f"""{{ tenants: tenantById {{ items {{ tenantId name }} }}
                   projects: projectById {{ items {{ projectId name tenantId }} }}
                   issues: issueById {{ items {COLUMNS} }} }}"""
        )
    assert rows(found["tenants"]["items"], "tenant") == TENANTS
    assert rows(found["projects"]["items"], "project") == PROJECTS
    assert rows(found["issues"]["items"], "issue") == ISSUES


async def test_issues_in_a_project(ask: Asked) -> None:
    """`WHERE project = '7b7e'` gives the printed table, by number, which is the order if none is said."""
    found = await ask.data(
        f"""query ($project: UUID!) {{
              plain: issues(projectId: $project) {{ items {COLUMNS} nextToken }}
              ordered: issues(projectId: $project, orderBy: NUM_ASC) {{ items {COLUMNS} nextToken }}
              index: issueByNum(projectId: $project) {{ items {COLUMNS} nextToken }} }}""",
        {"project": str(DAILY_NEWS.project_id)},
    )
    for page in found.values():
        assert rows(page["items"], "issue") == OF_ONE_PROJECT
        assert page["nextToken"] is None


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_issues_grouped_by_state_and_ordered_by_number(ask: Asked, limit: int) -> None:
    """`ORDER BY state ASC, num DESC` gives the printed table, page by page, without a sort: no page reads beyond it."""
    pages = await walk(ask, BRIDGE.project_id, "STATE_ASC_NUM_DESC", limit)
    assert [row for items, _ in pages for row in rows(items, "issue")] == BY_STATE_AND_NUMBER
    assert [len(items) for items, _ in pages] == {1: [1, 1, 1], 2: [2, 1], 3: [3], 100: [3]}[limit]
    assert all(counts.records_read <= limit + 1 for _, counts in pages)


async def test_keyset_by_number(ask: Asked) -> None:
    """`num > 1 ORDER BY num LIMIT 1` gives one issue, as a condition on the number and as the page behind the first."""
    query = f"""query ($project: UUID!, $token: String) {{
        condition: issueByNum(projectId: $project, from: 2, limit: 1) {{ items {COLUMNS} }}
        page: issues(projectId: $project, orderBy: NUM_ASC, limit: 1, nextToken: $token) {{
          items {COLUMNS} nextToken
        }} }}"""
    project = str(BRIDGE.project_id)
    first = await ask.data(query, {"project": project})
    second = await ask.data(query, {"project": project, "token": first["page"]["nextToken"]})
    assert rows(first["page"]["items"], "issue") == [ISSUES[0]]
    assert rows(second["page"]["items"], "issue") == [ISSUES[2]]
    assert rows(first["condition"]["items"], "issue") == [ISSUES[2]]


async def test_keyset_by_state_and_number(ask: Asked) -> None:
    """`(state, num) > ('open', 3) LIMIT 1` gives the closed issue, as the page behind the open ones."""
    (_, _), (items, counts) = await walk(ask, BRIDGE.project_id, "STATE_ASC", 2)
    assert rows(items, "issue") == [ISSUES[2]]
    assert (counts.rounds, counts.reads, counts.scans, counts.records_read) == (1, 1, 0, 1)


def with_gaps() -> Iterator[Issue]:
    """Issues of which some were deleted, open or closed as they must be for pages to end where the document's do."""
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
    """Pages of a hundred end with 100 and 205 by number, by state with (open, 235), (closed, 57) and (closed, 211)."""
    async with asked(catalog, tmp_path, ACME, BRIDGE, *with_gaps(), graph=GRAPH) as ask:
        pages = await walk(ask, BRIDGE.project_id, order, 100)
    assert [(items[-1]["state"], items[-1]["num"]) for items, _ in pages[:3]] == ends
    assert [len(items) for items, _ in pages] == [100, 100, 100, 25]


# --- the orders ------------------------------------------------------------------------------------------------

KEYS: dict[str, Callable[[Issue], Any]] = {
    "NUM_ASC": lambda one: one.num,
    "NAME_ASC": lambda one: (one.name, one.issue_id.int),
    "STATE_ASC": lambda one: (one.state is IssueState.closed, one.issue_id.int),
    "STATE_ASC_NUM_DESC": lambda one: (one.state is IssueState.closed, -one.num),
}
"""what four orders of the grid mean, in plain Python"""

BACKWARDS = {
    "NUM_DESC": "NUM_ASC",
    "NAME_DESC": "NAME_ASC",
    "STATE_DESC": "STATE_ASC",
    "STATE_DESC_NUM_ASC": "STATE_ASC_NUM_DESC",
}
"""the other four, and of which each is the reverse"""

ORDERS = sorted([*KEYS, *BACKWARDS])


def in_order(issues: Iterable[Issue], order: str) -> list[Issue]:
    """Issues as an order has them."""
    return sorted(issues, key=KEYS[BACKWARDS.get(order, order)], reverse=order in BACKWARDS)


async def test_the_orders_are_those_that_indexes_have(ask: Asked) -> None:
    """The enum of orders has just the eight that an index can serve; any other order is refused."""
    found = await ask.data('{ __type(name: "IssueOrder") { enumValues { name } } }')
    assert sorted(value["name"] for value in found["__type"]["enumValues"]) == ORDERS
    for order in ("STATE_ASC_NUM_ASC", "STATE_DESC_NUM_DESC", "ISSUE_ID_ASC"):
        error = await ask.error(f'{{ issues(projectId: "{BRIDGE.project_id}", orderBy: {order}) {{ nextToken }} }}')
        assert error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"
        assert order in error["message"]


async def test_docstrings_are_descriptions(ask: Asked) -> None:
    """What the catalog says of entities, properties, joins and the enum of states is what the schema says of them."""
    words = "description fields { name description } enumValues { name }"
    types = await ask.data(
        f'{{ issue: __type(name: "Issue") {{ {words} }} state: __type(name: "IssueState") {{ {words} }} }}'
    )
    fields = {field["name"]: field["description"] for field in types["issue"]["fields"]}
    assert types["issue"]["description"] == "An issue of a project."
    assert fields["num"] == "Number of the issue, unique within its project."
    assert fields["project"] == "The project of the issue."
    assert types["state"]["description"] == IssueState.__doc__
    assert [value["name"] for value in types["state"]["enumValues"]] == ["open", "closed"]


@pytest.mark.parametrize("order", ORDERS)
async def test_issues_of_a_project_never_show_those_of_another(ask: Asked, order: str) -> None:
    """In every order, the issues of a project are those of the printed table that belong to it."""
    for project, printed in ((BRIDGE, "35e9"), (DAILY_NEWS, "7b7e")):
        mine = [one for one in FIXED_RECORDS if isinstance(one, Issue) and one.project_id == project.project_id]
        ((items, _),) = await walk(ask, project.project_id, order, 100)
        expected = [str(one.issue_id)[:PRINTED_DIGITS] for one in in_order(mine, order)]
        assert [row["id"] for row in rows(items, "issue")] == expected
        assert {row["project"] for row in rows(items, "issue")} == {printed}


async def test_a_grid_with_its_project_and_tenant(ask: Asked) -> None:
    """A page of open issues comes with the project and the tenant, and a tenant with its projects by name."""
    found = await ask.data(
        """query ($project: UUID!, $tenant: ID!) {
             issueByStateNum(projectId: $project, eq: open, limit: 2) {
               items { num name project { name tenant { name } } }
             }
             tenant(id: $tenant) { name projects { items { name issues(reverse: true, limit: 1) { items { num } } } } }
           }""",
        {"project": str(BRIDGE.project_id), "tenant": str(BRIDGE.tenant_id)},
    )
    project = {"name": "Forth Rail Bridge", "tenant": {"name": "ACME Engineering"}}
    assert found == {
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


# --- a project of any size -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> list[Issue]:
    """The issues of the large project."""
    return [*generate_issues(depth(quick=5_000, deep=100_000))]


@pytest.fixture(scope="module")
def file_of_large(large: list[Issue], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the large project and all others."""
    file = tmp_path_factory.mktemp("issues") / "x.db"

    async def fill() -> None:
        async with opened(catalog, await open_sqlite(file), *sample(0)) as db:
            for at in range(0, len(large), 1_000):
                await write(db, large[at : at + 1_000])

    asyncio.run(fill())
    return file


@pytest.mark.parametrize("order", ORDERS)
async def test_page_k_reads_what_page_one_reads(large: list[Issue], file_of_large: Path, order: str) -> None:
    """In every order a walk gives exactly the sorted issues, and each page reads itself and one more, by one read."""
    async with opened(catalog, await open_sqlite(file_of_large)) as db:
        await check_walk(asking(db, graph=GRAPH), large, order, depth(quick=250, deep=100))


@pytest.mark.parametrize("order", ORDERS)
async def test_page_k_on_an_engine_that_answers_read_by_read(
    large: list[Issue], file_of_large: Path, order: str
) -> None:
    """So it is where each read has its own limit, backwards with room for the record behind which a page begins."""
    async with opened(catalog, await open_sqlite(file_of_large)) as db:
        by_itself = Database(catalog, ReadByRead(db.store), SEAL, db.clock)
        await check_walk(asking(by_itself, graph=GRAPH), large, order, limit=250, again=order in BACKWARDS)


async def check_walk(ask: Asked, issues: list[Issue], order: str, limit: int, *, again: bool = False) -> None:
    """Walks through the large project, and looks at what came and at what each page has read."""
    pages = await walk(ask, GRID_VIEW.project_id, order, limit)
    found = [(item["issueId"], item["num"], item["name"], item["state"]) for items, _ in pages for item in items]
    expected = in_order(issues, order)
    assert found == [(str(one.issue_id), one.num, one.name, one.state.value) for one in expected]
    first, *others, last = [counts.without_lists() for _, counts in pages]
    one_read = {"rounds": 1, "reads": 1, "gets": 0, "writes": 0, "scans": 0}
    assert first == {**one_read, "records_read": limit + 1}
    assert others == [{**one_read, "records_read": limit + 1 + again}] * (len(issues) // limit - 2)
    assert last in [{**one_read, "records_read": limit + more} for more in {0, int(again)}]


async def test_pages_on_dynamodb(dynamodb: Server, tmp_path: Path) -> None:
    """DynamoDB gives the same pages in every order, and reads as much for each of them."""
    issues = [*generate_issues(depth(quick=400, deep=5_000))]
    store = await dynamodb.open(f"issues-{tmp_path.name}")
    async with opened(catalog, store, *sample(0), *issues) as db:
        for order in ORDERS:
            await check_walk(asking(db, graph=GRAPH), issues, order, limit=100, again=order in BACKWARDS)
