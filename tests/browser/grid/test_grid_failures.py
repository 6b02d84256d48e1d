"""Failures in the data page: each shows what happened, and how to go on."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from graphql_api import Catalog, Entity, Id, Index, open_catalog
from tests.browser.grid.grid_page import GridPage, open_grid
from tests.browser.grid.task_catalog import TASKS, Task
from tests.browser.grid.task_server import TaskServer, bearer_token, start_task_server
from tests.server.catalog_server import SECRETS

pytestmark = pytest.mark.asyncio(loop_scope="session")
BY_TITLE = {"entity": "Task", "search": "taskByTitle", "columns": "title,points"}
FAILED = ("400", "401", "503", "net::ERR_")
"""The browser reports these in its console."""
SHARD = "task!02"


async def all_titles(grid: GridPage) -> list[str]:
    """Scroll to the end by keyboard, and return all titles in order."""
    titles: dict[int, str] = {}
    await grid.grid.focus()
    await grid.press("Control+Home")
    for _ in range(100):
        titles |= {at: cells[0] for at, cells in await grid.rows()}
        kept = await grid.kept()
        if kept["ended"] and len(titles) == kept["seen"]:
            return [titles[at] for at in sorted(titles)]
        await grid.press("PageDown")
    raise AssertionError(f"the end is not reached: {len(titles)} rows")


async def test_a_failed_shard(shared_browser: Browser, tasks: TaskServer) -> None:
    """A failed shard is named. The others' records are shown on request, and the missing ones once it answers."""
    async with open_grid(shared_browser, tasks.grid, expected=FAILED) as grid:
        tasks.failing.add(SHARD)
        await grid.open(**BY_TITLE)
        await expect(grid.alert).to_contain_text("STORE_UNAVAILABLE")
        assert (await grid.kept())["seen"] == 0
        await grid.button("Show the records of the other shards").press("Enter")
        await expect(grid.alert).to_contain_text(f"1 shard did not answer ({SHARD}: STORE_UNAVAILABLE)")
        partial = await grid.column()
        await grid.button("Cost").press("Enter")
        bars = grid.page.locator(".shards li")
        await expect(bars).to_have_count(4)
        await expect(grid.page.locator(".shards li.failed")).to_contain_text(f"{SHARD}STORE_UNAVAILABLE")
        tasks.failing.clear()
        await grid.press("Escape")
        titles = await all_titles(grid)
        await expect(grid.alert).to_have_count(0)
        await grid.button("Read again").press("Enter")
        again = await all_titles(grid)
    assert partial == sorted(partial)
    assert sorted(titles) == again == sorted(task.title for task in TASKS)


async def test_a_shard_that_fails_while_scrolling(shared_browser: Browser, tasks: TaskServer) -> None:
    """If a shard fails on a later page, the rows that were read stay, and trying again continues in exact order."""
    async with open_grid(shared_browser, tasks.grid, expected=FAILED) as grid:
        await grid.open(**BY_TITLE)
        assert (await grid.column())[0] == "Task 000"
        tasks.failing.add(SHARD)
        await grid.jump(60)
        await grid.page.evaluate("document.querySelector('[role=grid]').scrollTo(0, 1e6)")
        await expect(grid.alert).to_contain_text("STORE_UNAVAILABLE")
        tasks.failing.clear()
        await grid.button("Try again").press("Enter")
        await expect(grid.alert).to_have_count(0)
        await expect(grid.grid).to_be_focused()
        titles = await all_titles(grid)
    assert titles == sorted(task.title for task in TASKS)


async def test_an_expired_page_token(shared_browser: Browser, tasks: TaskServer) -> None:
    """After a day the page tokens are expired. The page says so, and starts again from the first record."""
    async with open_grid(shared_browser, tasks.grid, expected=FAILED) as grid:
        await grid.open(**BY_TITLE)
        await grid.rows()
        tasks.hours = 25.0
        await grid.page.evaluate("document.querySelector('[role=grid]').scrollTo(0, 1e6)")
        await expect(grid.alert).to_contain_text("EXPIRED_TOKEN")
        await expect(grid.button("Try again")).to_have_count(0)
        await grid.button("Start again").press("Enter")
        await expect(grid.alert).to_have_count(0)
        assert await all_titles(grid) == sorted(task.title for task in TASKS)


async def test_an_expired_credential(shared_browser: Browser, tasks: TaskServer) -> None:
    """A bearer token that the server refuses leads to the form for another one, and then back to the records."""
    async with open_grid(shared_browser, tasks.grid, expected=FAILED) as grid:
        await grid.open(token=bearer_token("ann", seconds=-200), **BY_TITLE)
        await expect(grid.alert).to_contain_text("UNAUTHENTICATED")
        await grid.button("Credentials …").press("Enter")
        await grid.page.get_by_label("Bearer token").fill(bearer_token("ann"))
        await grid.button("Use them").press("Enter")
        await expect(grid.button("ann")).to_be_visible()
        assert (await grid.column())[0] == "Task 000"


async def test_a_lost_server(shared_browser: Browser, tasks: TaskServer) -> None:
    """Without a server the rows stay on the page. Trying again once it answers continues."""
    async with open_grid(shared_browser, tasks.grid, expected=FAILED) as grid:
        await grid.open(**BY_TITLE)
        await grid.rows()
        await grid.page.context.set_offline(True)
        await grid.page.evaluate("document.querySelector('[role=grid]').scrollTo(0, 1e6)")
        await expect(grid.alert).to_contain_text("SERVER_LOST The server does not answer")
        await grid.grid.focus()
        await grid.press("Control+Home", "Enter")
        await expect(grid.page.get_by_role("complementary").get_by_role("alert")).to_contain_text("SERVER_LOST")
        await grid.page.context.set_offline(False)
        panel = grid.page.get_by_role("complementary")
        await panel.get_by_role("button", name="Try again").press("Enter")
        await expect(panel.get_by_role("heading", name="Task Task 000")).to_be_visible()
        await grid.press("Escape")
        await grid.button("Try again").press("Enter")
        await expect(grid.alert).to_have_count(0)
        assert await all_titles(grid) == sorted(task.title for task in TASKS)


class Place(Entity):
    """A record without indexes."""

    place_id: Id[str]
    town: str = ""


class PlaceByTown(Place, name="place"):
    """The same entity with an index."""

    by_town = Index(sort="town")


async def test_an_element_that_is_not_ready(shared_browser: Browser, tmp_path: Path) -> None:
    """An index that is not built is not offered, and says why. A link to it shows the state, and how to build it."""
    records = [PlaceByTown(place_id=f"p{at}", town=f"Town {at}") for at in range(3)]
    async with open_catalog(Catalog(Place), f"sqlite:///{tmp_path}/tasks.db", secrets=SECRETS) as database:
        assert not any(await database.put_many([Place(place_id=one.place_id, town=one.town) for one in records]))
    async with (
        start_task_server(Catalog(PlaceByTown), tmp_path, [], migrate=False) as server,
        open_grid(shared_browser, server.grid, expected=FAILED) as grid,
    ):
        await grid.open(entity="PlaceByTown", search="placeByTownByTown")
        await expect(grid.alert).to_contain_text("NOT_READY")
        await expect(grid.alert).to_contain_text("shardql migrate")
        option = grid.page.get_by_label("Order").locator("option").filter(has_text="town ascending")
        assert await option.is_disabled()
        await grid.page.get_by_role("link", name="Map").press("Enter")
        await expect(grid.page.locator(".entity .notice")).to_contain_text("is announced, and not built yet")
        await grid.page.go_back()
        await expect(grid.alert).to_contain_text("NOT_READY")
        async with open_catalog(Catalog(PlaceByTown), f"sqlite:///{tmp_path}/tasks.db", secrets=SECRETS, migrate=True):
            pass
        await grid.button("Try again").press("Enter")
        assert await grid.column() == ["Town 0", "Town 1", "Town 2"]


async def test_a_search_with_rare_matches(shared_browser: Browser, tasks: TaskServer) -> None:
    """A filter without matches ends with the statement that there are none, and not with an endless search."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE, filter="title.contains.nowhere")
        await expect(grid.page.locator(".status")).to_contain_text("No records match.")


async def test_records_that_change_while_scrolling(shared_browser: Browser, tasks: TaskServer) -> None:
    """Rows that are read again have each stored record once, in order, although others were deleted and created."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE)
        await all_titles(grid)
        for number in (5, 99, 100, 199):  # in the middle of pages, and at their ends
            await tasks.database.delete(Task, f"k{number:03}")
        created = [
            TASKS[1].model_copy(update={"task_id": f"n{at}", "title": f"Task 0{at}5 b", "code": f"N-{at}"})
            for at in range(4)
        ]
        assert not any(await tasks.database.put_many(created))
        await grid.page.evaluate("document.querySelector('[role=grid]').scrollTo(0, 0)")
        await grid.button("New").press("Enter")
        panel = grid.page.get_by_role("complementary")
        for name, text in (("taskId", "x"), ("title", "Task 000 a"), ("code", "X"), ("teamId", "t1")):
            await panel.locator(f"#input-{name}").fill(text)
        await panel.get_by_role("button", name="Create").press("Enter")
        await expect(grid.page.locator("#row-1")).to_contain_text("Task 000 a")
        await grid.grid.focus()
        await grid.press("Control+Home")
        titles = await all_titles(grid)
    stored = await tasks.database.search(Task.by_title, limit=500)
    assert titles == [task.title for task in stored.items]
    assert len(titles) == 240 - 4 + 4 + 1
