"""The demo: shards grow in mid scroll, and only the right list is complete."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from playwright.async_api import Browser, Locator

from demo.application import demo_app
from demo.places import City
from tests.support.loopback import serve_app

CITIES = 1500


@pytest.fixture
def site(tmp_path: Path, random: Random) -> Iterator[str]:
    """The demo with random names instead of real places."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cities = [City(f"c{n}", "".join(random.choices(letters, k=6)).title(), "XX") for n in range(CITIES)]
    with serve_app(demo_app(cities, tmp_path / "places.db")) as address:
        yield address


async def counters(section: Locator) -> dict[str, int]:
    """The counters of a list that is complete."""
    await section.get_by_text(re.compile("complete|stopped")).wait_for()
    cells = await section.locator("td").all()
    return {str(await cell.get_attribute("data-n")): int(await cell.inner_text()) for cell in cells}


async def test_shards_grow_in_mid_scroll(browser: Browser, site: str) -> None:
    """Per-shard paging repeats places, misses others, and loses their order. The other list has all of them once."""
    page = await browser.new_page()
    await page.goto(site)
    usual, own = page.locator("#usual"), page.locator("#shardql")
    for section in (usual, own):
        await section.locator("li").nth(199).wait_for()
        await section.locator("ol").evaluate("list => list.scrollTop = list.scrollHeight")
        await section.locator("li").nth(399).wait_for()
    await page.get_by_role("button", name="Grow").click()
    await page.get_by_text(f"150 shards, {CITIES // 10} new places").wait_for()
    await page.get_by_role("button", name="Walk").click()
    found = await counters(own)
    assert {**found, "shown": 0} == {"shown": 0, "repeated": 0, "missing": 0, "unordered": 0}
    assert found["shown"] > CITIES * 0.95
    left = await counters(usual)
    assert left["repeated"] > 0
    assert left["missing"] > 0
    assert left["unordered"] > 0
