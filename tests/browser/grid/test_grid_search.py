"""Searches in the data page: orders, values, filters, columns, and links that open the same view."""

import json
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, expect

from graphql_api.examples.issues import GRID_VIEW, generate_issues
from tests.browser.grid.conftest import IssueSite
from tests.browser.grid.grid_page import open_grid
from tests.browser.grid.task_catalog import TASKS, Level, Task
from tests.browser.grid.task_server import TaskServer

pytestmark = pytest.mark.asyncio(loop_scope="session")
BY_TITLE = {"entity": "Task", "search": "taskByTitle", "columns": "title,points,level,isDone"}


async def test_headers_offer_the_orders_of_indexes(shared_browser: Browser, issue_site: IssueSite) -> None:
    """A column header sorts by an index, and reverses it; one that no index serves says so."""
    issues = [*generate_issues(issue_site.issues)]
    by_name = sorted(issues, key=lambda issue: (issue.name, str(issue.issue_id)))
    async with open_grid(shared_browser, f"{issue_site.url}/grid") as grid:
        await grid.open(entity="Issue", search="issueByNum", **{"where.projectId": str(GRID_VIEW.project_id)})
        await grid.page.get_by_role("columnheader", name="name").get_by_role("button").press("Enter")
        await expect(grid.page.get_by_role("columnheader", name="name")).to_have_attribute("aria-sort", "ascending")
        assert (await grid.column())[:10] == [issue.name for issue in by_name[:10]]
        await grid.page.get_by_role("columnheader", name="name").get_by_role("button").press("Enter")
        await expect(grid.page.get_by_role("columnheader", name="name")).to_have_attribute("aria-sort", "descending")
        assert (await grid.column())[:10] == [issue.name for issue in by_name[::-1][:10]]
        unsorted = grid.page.get_by_role("columnheader", name="issueId").get_by_role("button")
        await expect(unsorted).to_have_attribute("aria-disabled", "true")
        await unsorted.press("Enter")
        await expect(grid.page.get_by_role("status").filter(has_text="Not offered here")).to_contain_text(
            "issueById has this order over all records."
        )
        options = await grid.page.get_by_label("Order").locator("option").all_inner_texts()
    assert "state ascending, num descending · for one projectId" in options
    assert len(options) == 2 * 5  # the primary key and four indexes, both ways


async def test_a_search_asks_for_its_value(shared_browser: Browser, tasks: TaskServer) -> None:
    """A search by a hash property shows which value it needs, and finds it through the referenced entity."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(entity="Task", search="taskByTeam")
        await expect(grid.page.locator(".notice")).to_contain_text("This order needs a value of teamId")
        await grid.page.get_by_label("teamId", exact=True).fill("t2")
        await grid.page.get_by_label("teamId", exact=True).press("Enter")
        assert (await grid.column())[:3] == ["Task 001", "Task 003", "Task 005"]
        await grid.button("Find …").press("Enter")
        assert await grid.column() == ["Bridge", "Paper"]
        await grid.grid.focus()
        await grid.press("Enter")
        await grid.page.get_by_role("button", name="Open tasks in the grid").press("Enter")
        assert (await grid.column())[:3] == ["Task 000", "Task 002", "Task 004"]
        assert await grid.page.get_by_label("teamId", exact=True).input_value() == "t1"


FilterEntry = tuple[str, str, str]
FILTERS: Sequence[tuple[Sequence[FilterEntry], Callable[[Task], bool]]] = [
    ([("title", "contains", "00")], lambda task: "00" in task.title),
    ([("points", "between", "2…3"), ("level", "eq", "high")], lambda task: task.points in (2, 3) and is_high(task)),
    ([("points", "in", "1, 5")], lambda task: task.points in (1, 5)),
    ([("isDone", "eq", "true")], lambda task: task.is_done),
    ([("due", "exists", "false"), ("title", "prefix", "Task 01")], lambda task: task.title.startswith("Task 01")),
]


def is_high(task: Task) -> bool:
    """Return whether a task is urgent."""
    return task.level is Level.high


@pytest.mark.parametrize(("filters", "expected"), FILTERS)
async def test_filters(
    shared_browser: Browser, tasks: TaskServer, filters: Sequence[FilterEntry], expected: Callable[[Task], bool]
) -> None:
    """Filters are entered by keyboard with the operators of the schema, and the grid shows exactly the matches."""
    wanted = [task.title for task in TASKS if expected(task)]
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE)
        await grid.button("Filter").press("Enter")
        for number, (name, operator, text) in enumerate(filters, 1):
            if number > 1:
                await grid.button("Add a filter").press("Enter")
            await grid.page.get_by_label(f"Property of filter {number}").select_option(name)
            await grid.page.get_by_label(f"Operator of filter {number}").select_option(operator)
            value = grid.page.get_by_label(f"Value of filter {number}", exact=True)
            if operator == "between":
                for part, bound in zip(("from", "to"), text.split("…"), strict=True):
                    await grid.page.get_by_label(f"Value of filter {number}, {part}").fill(bound)
            elif text in ("true", "false", "high"):
                await value.select_option(text)
            else:
                await value.fill(text)
        await grid.button("Apply").press("Enter")
        await expect(grid.button(f"Filter ({len(filters)})")).to_be_visible()
        shown = await grid.column()
        kept = await grid.kept()
    assert shown == wanted[: len(shown)]
    assert (kept["seen"], kept["ended"]) == (len(wanted), True)


async def test_an_invalid_filter_is_refused_before_it_is_sent(shared_browser: Browser, tasks: TaskServer) -> None:
    """A filter whose text is no value of its type says what to enter, and the search stays as it is."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE, panel="filter")
        await grid.page.get_by_label("Property of filter 1").select_option("points")
        await grid.page.get_by_label("Value of filter 1", exact=True).fill("many")
        await grid.button("Apply").press("Enter")
        await expect(grid.alert).to_have_text("Filter points: Enter a number.")
        assert (await grid.column())[0] == "Task 000"


async def test_columns(shared_browser: Browser, tasks: TaskServer) -> None:
    """Columns are chosen and moved by keyboard, and a column that the index lacks says that it costs more."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(entity="Task", search="taskByPoints", columns="points,title", panel="columns")
        unsorted = grid.page.get_by_role("columnheader", name="title").get_by_role("button")
        await expect(unsorted).to_have_attribute("aria-disabled", "false")
        code = grid.page.get_by_role("listitem").filter(has=grid.page.get_by_label("code String!"))
        await expect(code).to_contain_text("The index does not carry it")
        await code.get_by_role("checkbox").press("Space")
        await grid.page.get_by_role("button", name="Move code to the left").press("Enter")
        await grid.page.get_by_role("button", name="Move code to the left").press("Enter")
        headers = await grid.page.get_by_role("columnheader").all_inner_texts()
        first = (await grid.rows())[0][1]
    assert [text.split()[0] for text in headers] == ["code", "points", "title"]
    assert first[0].startswith("C-")
    assert first[1] == "0"


async def test_a_link_opens_the_same_view(shared_browser: Browser, tasks: TaskServer) -> None:
    """The address of a view opens it again, and the back button returns to the view before."""
    async with open_grid(shared_browser, tasks.grid, permissions=["clipboard-read", "clipboard-write"]) as grid:
        await grid.open(**BY_TITLE, filter="points.ge.5", reverse="1")
        before = await grid.rows()
        await grid.button("Columns").press("Enter")
        await grid.button("Copy link").press("Enter")
        await expect(grid.page.get_by_role("status").filter(has_text="clipboard")).to_be_visible()
        link = await grid.page.evaluate("navigator.clipboard.readText()")
        await grid.page.go_back()
        await expect(grid.page.get_by_role("complementary")).to_have_count(0)
        async with open_grid(shared_browser, tasks.grid) as other:
            await other.page.goto(link)
            await expect(other.page.get_by_role("heading", name="Columns")).to_be_visible()
            after = await other.rows()
            assert await other.button("Filter (1)").is_visible()
    assert before == after
    assert before[0][1][0] == max(task.title for task in TASKS if task.points >= 5)


async def test_open_in_graphiql(shared_browser: Browser, tasks: TaskServer) -> None:
    """GraphiQL opens the present search in a tab of its own, where it runs and returns the same records."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE, filter="points.eq.5")
        shown = await grid.column()
        link = await grid.page.get_by_role("link", name="Open in GraphiQL").get_attribute("href")
        assert link is not None
        sent = parse_qs(urlsplit(link).query)
        await grid.page.get_by_role("link", name="Open in GraphiQL").press("Enter")
        await grid.page.locator(".graphiql-tab-button").get_by_text("Grid", exact=True).wait_for()
        async with grid.page.expect_response(lambda response: "Grid" in (response.request.post_data or "")) as posted:
            await grid.page.locator(".graphiql-execute-button").click()
        body = await (await posted.value).json()
        assert "query" not in grid.page.url
        await grid.page.get_by_role("link", name="Data page").click()
        await grid.grid.wait_for()
    assert json.loads(sent["variables"][0])["filter"] == {"points": {"eq": 5}}
    found = [item["title"] for item in body["data"]["taskByTitle"]["items"]]
    assert found[: len(shown)] == shown
    assert shown


async def test_count(shared_browser: Browser, tasks: TaskServer) -> None:
    """The number of all records is counted on request."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE)
        await grid.button("Count").press("Enter")
        await expect(grid.page.get_by_role("status").filter(has_text="in total")).to_have_text("240 in total")
