"""Drive GraphiQL in a browser as a user does, and record requests and console errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, Request

SCREENSHOTS = Path(__file__).parent / "screenshots"
TIMEOUT = 30.0
"""Seconds to wait for a text to appear."""

REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} refused ${event.blockedURI}`));
"""


@dataclass(frozen=True, slots=True)
class BrowserLog:
    """What a page requested, and what the browser reported."""

    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Errors and warnings of the console, failed requests, and uncaught exceptions."""

    def note_failure(self, request: Request) -> None:
        """Note a request that failed, unless the browser has left its page meanwhile."""
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"{request.url}: {request.failure}")

    def check(self, site: str, expected: Sequence[str] = ()) -> None:
        """Assert that no request went to another site, and that the browser reported no problem but the expected."""
        foreign = [url for url in self.requests if not url.startswith((f"{site}/", "data:", "blob:"))]
        assert not foreign, f"the page sent requests to other sites: {foreign}"
        problems = [problem for problem in self.problems if not any(part in problem for part in expected)]
        assert not problems, f"the browser reported problems: {problems}"
        assert self.requests, "the page was not opened"


@dataclass(frozen=True, slots=True)
class GraphiQLPage:
    """A GraphiQL page in a browser. It must not send requests to other sites."""

    page: Page
    site: str

    async def open(self, path: str) -> None:
        """Open the page and wait until it has loaded the schema."""
        async with self.page.expect_response(lambda response: response.request.method == "POST") as introspection:
            await self.page.goto(self.site + path)
        assert "errors" not in await (await introspection.value).json()
        await self.page.locator(".graphiql-execute-button").wait_for()

    async def reload(self) -> None:
        """Reload the page."""
        async with self.page.expect_response(lambda response: response.request.method == "POST"):
            await self.page.reload()
        await self.page.locator(".graphiql-execute-button").wait_for()

    async def tabs(self) -> list[str]:
        """Return the titles of the tabs."""
        return [text.strip() for text in await self.page.locator(".graphiql-tab-button").all_inner_texts()]

    async def select_tab(self, title: str) -> None:
        """Select a tab."""
        await self.page.locator(".graphiql-tab-button").get_by_text(title, exact=True).click()

    async def press(self, label: str) -> None:
        """Press a button of the sidebar or the editor."""
        await self.page.get_by_role("button", name=label, exact=True).click()

    async def text(self, area: str) -> str:
        """Return the text of `Query Editor`, `Variables`, `Headers` or `Result Window`."""
        text = await self.page.evaluate(
            "(area) => [...document.querySelectorAll(`[aria-label='${area}'] .CodeMirror`)]"
            ".find((editor) => !editor.closest('.hidden'))?.CodeMirror.getValue() ?? null",
            area,
        )
        assert text is not None, f"there is no {area}"
        return str(text)

    async def replace(self, area: str, text: str, *, key_by_key: bool = False) -> None:
        """Replace the text of an editor, by pasting or by typing."""
        await self.page.locator(f"[aria-label='{area}'] :not(.hidden) > .CodeMirror").click()
        await self.page.keyboard.press("ControlOrMeta+A")
        if key_by_key:
            await self.page.keyboard.type(text)
        else:
            await self.page.keyboard.insert_text(text)

    async def wait_for_text(self, area: str, containing: str) -> str:
        """Wait until an area contains a text, and return all of its text."""
        return await self._wait_for(area, lambda text: containing in text)

    async def run(self, *, by_keyboard: bool = False) -> Any:
        """Run the operation and return the response once it is displayed."""
        async with self.page.expect_response(lambda response: response.request.method == "POST") as posted:
            if by_keyboard:
                await self.page.keyboard.press("ControlOrMeta+Enter")
            else:
                await self.page.locator(".graphiql-execute-button").click()
        body = await (await posted.value).json()
        return json.loads(await self._wait_for("Result Window", lambda text: _is_json(text, body)))

    async def _wait_for(self, area: str, condition: Callable[[str], bool]) -> str:
        async with asyncio.timeout(TIMEOUT):
            while not condition(text := await self.text(area)):  # noqa: ASYNC110 - the page has no event for this
                await asyncio.sleep(0.02)
        return text

    async def take_screenshot(self, name: str) -> None:
        """Save a screenshot."""
        SCREENSHOTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png")


def _is_json(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except json.JSONDecodeError:
        return False


@asynccontextmanager
async def open_page(browser: Browser, **options: Any) -> AsyncIterator[tuple[Page, BrowserLog]]:
    """Open a page with empty browser storage, and log its requests and problems."""
    async with await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options}) as context:
        await context.add_init_script(REPORT_VIOLATIONS)
        page, log = await context.new_page(), BrowserLog()
        context.on("request", lambda request: log.requests.append(request.url))
        context.on("requestfailed", lambda request: log.note_failure(request))  # noqa: PLW0108 - the driver cannot wrap the bound method
        page.on(
            "console",
            lambda message: log.problems.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda problem: log.problems.append(str(problem)))
        yield page, log


@asynccontextmanager
async def open_graphiql(browser: Browser, site: str, **options: Any) -> AsyncIterator[GraphiQLPage]:
    """Open a GraphiQL page. Check it at the end."""
    async with open_page(browser, **options) as (page, log):
        yield GraphiQLPage(page, site)
        log.check(site)
