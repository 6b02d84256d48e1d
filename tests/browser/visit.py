"""GraphiQL as a person uses it: what they press and type, what they see, and what the browser complained of."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

SHOTS = Path(__file__).parent / "screenshots"
PATIENCE = 30.0
"""seconds after which what is waited for has failed"""

REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} refused ${event.blockedURI}`));
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """A page in a browser, at a site from which nothing may lead away."""

    page: Page
    site: str
    requests: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    """what stood in the console as an error or a warning, and errors that no script caught"""

    async def open(self, path: str) -> None:
        """Goes to the page and waits until it knows the schema."""
        async with self.page.expect_response(lambda response: response.request.method == "POST") as introspection:
            await self.page.goto(self.site + path)
        assert "errors" not in await (await introspection.value).json()
        await self.page.locator(".graphiql-execute-button").wait_for()

    async def reload(self) -> None:
        """Loads the page again."""
        async with self.page.expect_response(lambda response: response.request.method == "POST"):
            await self.page.reload()
        await self.page.locator(".graphiql-execute-button").wait_for()

    async def tabs(self) -> list[str]:
        """The titles of the tabs."""
        return [text.strip() for text in await self.page.locator(".graphiql-tab-button").all_inner_texts()]

    async def choose(self, title: str) -> None:
        """Goes to a tab."""
        await self.page.locator(".graphiql-tab-button").get_by_text(title, exact=True).click()

    async def press(self, label: str) -> None:
        """Presses a button of the sidebar or of the editor."""
        await self.page.get_by_role("button", name=label, exact=True).click()

    async def text(self, area: str) -> str:
        """What stands in `Query Editor`, `Variables`, `Headers` or `Result Window`."""
        found = await self.page.evaluate(
            "(area) => [...document.querySelectorAll(`[aria-label='${area}'] .CodeMirror`)]"
            ".find((editor) => !editor.closest('.hidden'))?.CodeMirror.getValue() ?? null",
            area,
        )
        assert found is not None, f"there is no {area}"
        return str(found)

    async def replace(self, area: str, text: str, *, key_by_key: bool = False) -> None:
        """Replaces what stands in an editor, pasted or typed."""
        await self.page.locator(f"[aria-label='{area}'] :not(.hidden) > .CodeMirror").click()
        await self.page.keyboard.press("ControlOrMeta+A")
        if key_by_key:
            await self.page.keyboard.type(text)
        else:
            await self.page.keyboard.insert_text(text)

    async def read(self, area: str, containing: str) -> str:
        """What stands in an area, as soon as it contains this."""
        return await self._seen(area, lambda text: containing in text)

    async def run(self, *, by_keys: bool = False) -> Any:
        """Runs the operation and reads the answer where it is shown."""
        async with self.page.expect_response(lambda response: response.request.method == "POST") as asked:
            if by_keys:
                await self.page.keyboard.press("ControlOrMeta+Enter")
            else:
                await self.page.locator(".graphiql-execute-button").click()
        answer = await (await asked.value).json()
        return json.loads(await self._seen("Result Window", lambda text: _is_json(text, answer)))

    async def _seen(self, area: str, wanted: Callable[[str], bool]) -> str:
        async with asyncio.timeout(PATIENCE):
            while not wanted(text := await self.text(area)):  # noqa: ASYNC110 - the page tells nobody when it is ready
                await asyncio.sleep(0.02)
        return text

    async def shoot(self, name: str) -> None:
        """Keeps a picture of what is seen."""
        SHOTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=SHOTS / f"{name}.png")

    def check(self) -> None:
        """Nothing was asked of another site, and the browser did not complain."""
        foreign = [url for url in self.requests if not url.startswith((f"{self.site}/", "data:"))]
        assert not foreign, f"the page asked other sites: {foreign}"
        assert not self.troubles, f"the browser complained: {self.troubles}"
        assert self.requests, "the page was not opened"


def _is_json(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except json.JSONDecodeError:
        return False


@asynccontextmanager
async def visiting(browser: Browser, site: str, **context: Any) -> AsyncIterator[Visit]:
    """A visit with a memory of its own, checked at its end."""
    async with await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **context}) as opened:
        await opened.add_init_script(REPORT_VIOLATIONS)
        page = await opened.new_page()
        visit = Visit(page, site)
        opened.on("request", lambda request: visit.requests.append(request.url))
        opened.on("requestfailed", lambda request: visit.troubles.append(f"{request.url}: {request.failure}"))
        page.on(
            "console",
            lambda message: visit.troubles.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda problem: visit.troubles.append(str(problem)))
        yield visit
        visit.check()
