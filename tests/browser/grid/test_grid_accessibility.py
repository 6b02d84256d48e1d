"""The data page for everyone: screen readers, keyboard, light and dark, from a phone to a large screen."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from graphql_api.examples.issues import GRID_VIEW
from tests.browser.graphiql_page import SCREENSHOTS
from tests.browser.grid.conftest import IssueSite
from tests.browser.grid.grid_page import GridPage, open_grid
from tests.browser.grid.task_server import TaskServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

VIEWS: Mapping[str, Mapping[str, str]] = {
    "map": {"page": "map"},
    "grid": {"entity": "Task", "search": "taskByTitle"},
    "missing-value": {"entity": "Task", "search": "taskByTeam"},
    "filter": {"entity": "Task", "search": "taskByTitle", "panel": "filter", "filter": "points.between.2…3"},
    "columns": {"entity": "Task", "search": "taskByPoints", "panel": "columns"},
    "cost": {"entity": "Task", "search": "taskByTitle", "panel": "cost"},
    "export": {"entity": "Task", "search": "taskByTitle", "panel": "export"},
    "create": {"entity": "Task", "search": "taskByTitle", "panel": "create"},
}
SERIOUS = {"serious", "critical"}


async def check_axe(grid: GridPage, axe: Path) -> None:
    """Assert that axe finds nothing serious on the page."""
    await grid.page.evaluate(axe.read_text(encoding="utf-8"))
    result = await grid.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    found = [
        (violation["id"], node["html"][:200], node["failureSummary"])
        for violation in result["violations"]
        if violation["impact"] in SERIOUS
        for node in violation["nodes"]
    ]
    assert found == []


async def take_screenshot(grid: GridPage, name: str) -> None:
    """Save a screenshot."""
    SCREENSHOTS.mkdir(exist_ok=True)
    await grid.page.screenshot(path=SCREENSHOTS / f"grid-{name}.png")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.deep)])
async def test_axe_finds_nothing_serious(shared_browser: Browser, tasks: TaskServer, axe: Path, scheme: str) -> None:
    """Axe finds no serious problem: in each view in light, and in those with all colours in dark."""
    async with open_grid(shared_browser, tasks.grid, color_scheme=scheme) as grid:
        for name, view in [*VIEWS.items()][: 2 if scheme == "dark" else None]:
            await grid.open(**view)
            if "search" in view and name != "missing-value":
                await grid.rows()
            await check_axe(grid, axe)
            await take_screenshot(grid, f"{name}-{scheme}")
        await grid.open(entity="Task", search="taskByTitle")
        await grid.rows()
        await grid.grid.focus()
        await grid.press("Enter")
        await grid.page.locator(".properties").wait_for()
        await check_axe(grid, axe)
        await take_screenshot(grid, f"record-{scheme}")
        await grid.button("Edit").press("Enter")
        await check_axe(grid, axe)
        tasks.failing.add("task!01")
        await grid.button("Read again").press("Enter")
        await grid.alert.wait_for()
        await check_axe(grid, axe)
        await take_screenshot(grid, f"failed-{scheme}")
        tasks.failing.clear()


@pytest.mark.parametrize(
    ("width", "height"),
    [
        (360, 640),
        (3840, 2160),
        pytest.param(800, 600, marks=pytest.mark.deep),
        pytest.param(1920, 1080, marks=pytest.mark.deep),
    ],
)
async def test_every_width(shared_browser: Browser, issue_site: IssueSite, width: int, height: int) -> None:
    """At every width the page itself does not scroll sideways, rows are in view, and panels fit."""
    view = {"entity": "Issue", "search": "issueByStateNum", "where.projectId": str(GRID_VIEW.project_id)}
    expected = ("503",)
    async with open_grid(
        shared_browser, f"{issue_site.url}/grid", viewport={"width": width, "height": height}, expected=expected
    ) as grid:
        for panel in ("", "cost") if width in (360, 3840) else ("filter",):
            await grid.open(**view, panel=panel)
            rows = await grid.rows()
            assert len(rows) >= 5
            assert await grid.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await grid.page.evaluate("document.documentElement.scrollHeight <= innerHeight")
            await take_screenshot(grid, f"{width}-{panel or 'plain'}")
        await grid.open(page="map")
        assert await grid.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await take_screenshot(grid, f"{width}-map")


async def test_rows_are_reached_by_keyboard_alone(shared_browser: Browser, issue_site: IssueSite) -> None:
    """Tab reaches the grid, and arrows move the active cell, which screen readers follow."""
    view = {"entity": "Issue", "search": "issueByNum", "where.projectId": str(GRID_VIEW.project_id)}
    async with open_grid(shared_browser, f"{issue_site.url}/grid") as grid:
        await grid.open(**view)
        await grid.rows()
        for _ in range(40):
            await grid.press("Tab")
            if await grid.page.evaluate("document.activeElement.getAttribute('role') === 'grid'"):
                break
        await expect(grid.grid).to_be_focused()
        await expect(grid.grid).to_have_attribute("aria-activedescendant", "cell-0-0")
        await grid.press("ArrowDown", "ArrowDown", "ArrowRight")
        await expect(grid.grid).to_have_attribute("aria-activedescendant", "cell-2-1")
        await expect(grid.page.locator("#row-2")).to_have_attribute("aria-selected", "true")
        await expect(grid.page.locator("#row-2")).to_have_attribute("aria-rowindex", "4")
        await grid.press("Control+End")
        await expect(grid.grid).to_have_attribute("aria-activedescendant", "cell-99-1")
        await grid.press("ArrowDown")
        await grid.rows()
        await expect(grid.grid).to_have_attribute("aria-activedescendant", "cell-100-1")
        await grid.press("PageUp", "Home")
        assert (await grid.kept())["seen"] == 200
        await grid.press("Control+Home", "Enter")
        await expect(grid.page.get_by_role("complementary")).to_be_visible()
        await grid.press("Escape")
        await expect(grid.grid).to_be_focused()
