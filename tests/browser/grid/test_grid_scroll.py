"""Scrolling in the data page: every record once, in order, with bounded memory."""

import pytest
from playwright.async_api import Browser, expect

from graphql_api.examples.issues import GRID_VIEW, IssueState, generate_issues
from tests.browser.grid.conftest import IssueSite
from tests.browser.grid.grid_page import GridPage, open_grid

pytestmark = pytest.mark.asyncio(loop_scope="session")

WHERE = {"where.projectId": str(GRID_VIEW.project_id)}
BY_NUM = {"entity": "Issue", "search": "issueByNum", **WHERE}
MAX_ROWS = 60
"""rows of the document, at the size of the window"""
MAX_RECORDS = 2_500
MAX_TOKENS = 1_001


async def check_kept(grid: GridPage) -> None:
    """Assert that the page keeps only a bounded number of rows, records and tokens."""
    kept = await grid.kept()
    assert kept["rows"] <= MAX_ROWS
    assert kept["records"] <= MAX_RECORDS
    assert kept["tokens"] <= MAX_TOKENS


async def scroll_through(grid: GridPage, step: int, *, least: int | None = None) -> list[int]:
    """Scroll by the wheel to the end, and return the numbers of all issues in the order in which they appeared."""
    seen: list[int] = []
    await grid.page.mouse.move(400, 400)
    while True:
        rows = await grid.rows()
        for at, cells in rows:
            number = int(cells[0])
            assert at <= len(seen), f"row {at} is in view, and row {len(seen)} was not"
            if at == len(seen):
                seen.append(number)
            assert seen[at] == number
        kept = await grid.kept()
        if kept["ended"] and len(seen) == kept["seen"]:
            return seen
        await grid.turn_wheel(step, least=least)


async def test_wheel_shows_each_issue_once_in_order(shared_browser: Browser, issue_site: IssueSite) -> None:
    """Scrolling by the wheel through a project shows each issue once, in order, and keeps a bounded number of them."""
    async with open_grid(shared_browser, f"{issue_site.url}/grid") as grid:
        await grid.open(**BY_NUM)
        seen = await scroll_through(grid, 512)
        await check_kept(grid)
        await grid.grid.focus()
        await grid.press("Control+Home")
        assert (await grid.column())[:3] == ["1", "2", "3"]
        middle = issue_site.issues // 2
        await grid.jump(middle)
        assert (await grid.column())[0] == str(middle + 1)
        await grid.page.get_by_label("Go to row").fill("250")
        await grid.page.get_by_label("Go to row").press("Enter")
        await expect(grid.grid).to_have_attribute("aria-activedescendant", "cell-249-0")
        assert "250" in await grid.column()
        await grid.page.get_by_label("Go to row").fill("9999999")
        await grid.page.get_by_label("Go to row").press("Enter")
        await expect(grid.page.get_by_role("status").filter(has_text="is not read yet")).to_be_visible()
        await check_kept(grid)
    assert seen == [*range(1, issue_site.issues + 1)]


async def test_content_that_is_too_high_for_a_browser(shared_browser: Browser, issue_site: IssueSite) -> None:
    """If the rows are higher than the greatest height of an element, the wheel still shows each of them once."""
    async with open_grid(shared_browser, f"{issue_site.url}/grid") as grid:
        await grid.open(entity="Issue", search="issueByNum", filter="num.le.300", **WHERE)
        # The limit of browsers is millions of pixels, so the test sets a lower one.
        await grid.page.evaluate("document.documentElement.style.setProperty('--max-scroll-height', '3000')")
        await grid.button("Read again").press("Enter")
        # At an end of the scroll bar, a turn of the wheel may move the rows less far.
        seen = await scroll_through(grid, 250, least=2)
        assert await grid.page.evaluate("document.querySelector('.sizer').clientHeight") < 3_100
        await grid.grid.focus()
        await grid.press("Control+Home")
        assert (await grid.column())[0] == "1"
        await grid.press("Control+End")
        assert (await grid.column())[-1] == "300"
    assert seen == [*range(1, 301)]


async def test_keyboard_shows_each_issue_once_in_order(shared_browser: Browser, issue_site: IssueSite) -> None:
    """PageDown alone reaches every issue of an order by state and number, as the Python API returns them."""
    issues = [*generate_issues(issue_site.issues)][:400]
    expected = sorted((issue for issue in issues), key=lambda issue: (issue.state is IssueState.closed, -issue.num))
    async with open_grid(shared_browser, f"{issue_site.url}/grid") as grid:
        await grid.open(entity="Issue", search="issueByStateNum", filter="num.le.400", columns="num,state", **WHERE)
        await grid.rows()
        await grid.grid.focus()
        seen: dict[int, int] = {}
        while not ((await grid.kept())["ended"] and len(seen) == (await grid.kept())["seen"]):
            rows = await grid.rows()
            seen |= {at: int(cells[0]) for at, cells in rows}
            await grid.press("PageDown")
    assert [seen[at] for at in range(len(seen))] == [issue.num for issue in expected]
