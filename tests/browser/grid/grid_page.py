"""Drive the data page in a browser as a user does, and record requests and problems."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from playwright.async_api import Browser, Locator, Page

from tests.browser.graphiql_page import BrowserLog, open_page

ROWS_ARE_READ = """() => {
  const grid = document.querySelector("[role=grid]");
  return grid && grid.getAttribute("aria-busy") !== "true" && !grid.querySelector(".row.waiting");
}"""

VISIBLE_ROWS = """() => {
  const grid = document.querySelector("[role=grid]");
  const view = grid.getBoundingClientRect();
  const head = grid.querySelector(".head").getBoundingClientRect().bottom;
  return [...grid.querySelectorAll(".rows .row[data-id]")]
    .map((row) => [row, row.getBoundingClientRect()])
    .filter(([, box]) => box.top >= head - 1 && box.bottom <= view.bottom + 1)
    .map(([row]) => [Number(row.id.slice(4)), [...row.children].map((cell) => cell.textContent)]);
}"""

SCROLL_POSITION = """() => {
  const grid = document.querySelector("[role=grid]");
  return [Number(grid.dataset.top), Number(grid.dataset.end)];
}"""

ROW_HEIGHT = 32

KEPT = """() => {
  const grid = document.querySelector("[role=grid]");
  return { rows: grid.querySelectorAll(".rows .row").length, elements: document.querySelectorAll("*").length,
    records: Number(grid.dataset.records), tokens: Number(grid.dataset.tokens), seen: Number(grid.dataset.seen),
    ended: grid.dataset.ended === "true" };
}"""


@dataclass(frozen=True, slots=True)
class GridPage:
    """A data page in a browser."""

    page: Page
    url: str
    """The URL of the page, without parameters."""

    async def open(self, *, token: str | None = None, **parameters: str) -> None:
        """Open a view, and wait until its records are read. `token`: bearer token to enter first."""
        if token is not None:
            await self.page.goto(self.url)
            await self.page.locator(".loading").wait_for(state="detached")
            await self.page.get_by_role("button", name="anonymous").click()
            await self.page.get_by_label("Bearer token").fill(token)
            await self.page.get_by_role("button", name="Use them").click()
        await self.page.goto(f"{self.url}?{urlencode(parameters)}")
        await self.page.locator(".loading").wait_for(state="detached")

    async def rows(self) -> list[tuple[int, list[str]]]:
        """Return the numbers and cells of the rows in view, once they are read."""
        await self.page.wait_for_function(ROWS_ARE_READ)
        return [(number, cells) for number, cells in await self.page.evaluate(VISIBLE_ROWS)]

    async def column(self, at: int = 0) -> list[str]:
        """Return the cells of one column in view."""
        return [cells[at] for _, cells in await self.rows()]

    async def kept(self) -> dict[str, Any]:
        """Return how many rows, records and tokens the page keeps."""
        kept: dict[str, Any] = await self.page.evaluate(KEPT)
        return kept

    async def turn_wheel(self, distance: int, *, least: int | None = None) -> None:
        """Turn the wheel over the grid, and wait until the grid has moved that far, or to its end.

        `least`: how far the grid must have moved at least, if it may lose a part of the distance.
        """
        top, end = await self.page.evaluate(SCROLL_POSITION)
        await self.page.mouse.wheel(0, distance)
        reached = min(top + (distance if least is None else least), end) - 1
        await self.page.wait_for_function(f"() => ({SCROLL_POSITION})()[0] >= {reached}")

    async def jump(self, row: int) -> None:
        """Move the scroll bar so that a row is the first one in view, and wait for the row."""
        await self.page.evaluate("(top) => document.querySelector('[role=grid]').scrollTo(0, top)", row * ROW_HEIGHT)
        await self.page.locator(f"#row-{row}[data-id]").wait_for()

    @property
    def grid(self) -> Locator:
        return self.page.get_by_role("grid")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    @property
    def alert(self) -> Locator:
        """Return the notices of problems."""
        return self.page.get_by_role("alert")

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.page.keyboard.press(key)


@asynccontextmanager
async def open_grid(
    browser: Browser, url: str, *, expected: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[GridPage]:
    """Open a browser page for a data page. At the end, check that the browser reported no unexpected problem.

    `expected`: parts of problems that the test causes, such as the status of a refused request.
    """
    async with open_page(browser, **options) as (page, log):
        yield GridPage(page, url)
        log.check(url.removesuffix("/grid"), expected)


__all__ = ["BrowserLog", "GridPage", "open_grid"]
