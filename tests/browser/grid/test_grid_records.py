"""Records in the data page: joins, history, and writes with rules, versions and violations."""

import json

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.browser.grid.grid_page import GridPage, open_grid
from tests.browser.grid.task_catalog import EVENTS, NOTES, Note, Task
from tests.browser.grid.task_server import TaskServer, bearer_token

pytestmark = pytest.mark.asyncio(loop_scope="session")
BY_TITLE = {"entity": "Task", "search": "taskByTitle"}
REFUSED = ("400", "403", "409")
"""The browser reports these statuses in its console."""


async def open_first(grid: GridPage, **view: str) -> Locator:
    """Open the first record of a view by keyboard, and return the panel."""
    await grid.open(**view)
    await grid.rows()
    await grid.grid.focus()
    await grid.press("Enter")
    panel = grid.page.get_by_role("complementary")
    await panel.locator(".properties").wait_for()
    return panel


async def test_a_record_with_its_joins(shared_browser: Browser, tasks: TaskServer) -> None:
    """Enter opens a record with all properties and links to joined records; Escape returns to the grid."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        panel = await open_first(grid, **BY_TITLE)
        await expect(panel.get_by_role("heading", name="Task Task 000")).to_be_focused()
        names, texts = [await panel.locator(tag).all_inner_texts() for tag in ("dt", "dd")]
        facts = {name.split()[0]: text for name, text in zip(names, texts, strict=True)}
        await panel.get_by_role("button", name="Task 002").press("Enter")
        await expect(panel.get_by_role("heading", name="Task Task 002")).to_be_visible()
        await panel.get_by_role("button", name="Bridge").press("Enter")
        await expect(panel.get_by_role("heading", name="Team Bridge")).to_be_visible()
        await panel.get_by_role("button", name="Show tasks").press("Enter")
        await expect(panel.get_by_role("listitem")).to_have_count(5)
        await panel.get_by_role("button", name="More tasks").press("Enter")
        await expect(panel.get_by_role("listitem")).to_have_count(10)
        await grid.press("Escape")
        await expect(grid.grid).to_be_focused()
    assert (facts["labels"], facts["effort"], facts["due"]) == ('["a","b"]', '{"planned":2.5,"spent":0}', "no value")
    assert (facts["team"], facts["waiting"].split()) == ("Bridge", ["Task", "001", "Task", "002"])


async def test_history(shared_browser: Browser, tasks: TaskServer) -> None:
    """The panel of an entry lists the history of its id, the latest entry first, page by page."""
    assert not any(await tasks.database.put_many(EVENTS))
    async with open_grid(shared_browser, tasks.grid) as grid:
        panel = await open_first(grid, entity="Event", search="eventByWhat")
        await panel.get_by_role("button", name="Show History").press("Enter")
        await panel.get_by_role("button", name="More History").press("Enter")
        await expect(panel.get_by_role("listitem")).to_have_count(10)
        texts = await panel.get_by_role("listitem").all_inner_texts()
        await panel.get_by_role("button", name="Open History in the grid").press("Enter")
        assert await grid.page.get_by_label("id", exact=True).input_value() == "door"
        ats = [cells[0] for _, cells in await grid.rows()]
    assert [text.split(" · ")[0] for text in texts] == [f"opened {at}" for at in range(11, 1, -1)]
    assert ats == [str(at) for at in range(11, -1, -1)]


async def test_create(shared_browser: Browser, tasks: TaskServer) -> None:
    """A new record is entered by keyboard. Violations appear at their fields, and the grid shows the record."""
    async with open_grid(shared_browser, tasks.grid, expected=REFUSED) as grid:
        await grid.open(**BY_TITLE)
        await grid.button("New").press("Enter")
        panel = grid.page.get_by_role("complementary")
        await panel.get_by_role("button", name="Create").press("Enter")
        await expect(panel.locator("[aria-invalid=true]").first).to_be_visible()
        for name, text in (("taskId", "new"), ("title", "A"), ("code", "C-1"), ("teamId", "t9"), ("points", "3")):
            await panel.locator(f"#input-{name}").fill(text)
        await panel.locator("#input-title").press("Enter")
        title = panel.locator("#input-title")
        await expect(title).to_have_attribute("aria-invalid", "true")
        await expect(title).to_be_focused()
        await expect(panel.locator("#input-title-hint")).to_contain_text("at least 3 characters")
        await title.fill("A new task")
        await title.press("Enter")
        await expect(panel.locator("#input-teamId-hint")).to_contain_text("does not exist")
        await panel.locator("#input-teamId").fill("t1")
        await panel.locator("#input-teamId").press("Enter")
        await expect(panel.locator("#input-code")).to_have_attribute("aria-invalid", "true")
        await panel.locator("#input-code").fill("C-new")
        await panel.locator("#input-labels").fill("x, y")
        await panel.locator("#input-level").select_option("high")
        await panel.get_by_role("button", name="Create").press("Enter")
        await expect(panel).to_have_count(0)
        await expect(grid.page.locator("#row-0")).to_contain_text("A new task")
        assert (await grid.column())[:2] == ["A new task", "Task 000"]
    stored = await tasks.database.get(Task, "new")
    assert stored is not None
    assert (stored.title, stored.points, stored.labels, stored.level.name, stored.due) == (
        "A new task",
        3,
        ["x", "y"],
        "high",
        None,
    )


async def test_edit_sends_only_changes(shared_browser: Browser, tasks: TaskServer) -> None:
    """An edit changes the fields that were changed, clears a value on request, and the grid shows the new record."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        panel = await open_first(grid, **BY_TITLE)
        await panel.get_by_role("button", name="Edit").press("Enter")
        await expect(panel.locator("#input-title")).to_be_focused()
        assert await panel.locator("#input-reporter").count() == 0  # It never changes.
        await panel.locator("#input-title").fill("Zebra")
        await panel.locator(".field", has_text="effort").get_by_role("checkbox").press("Space")
        async with grid.page.expect_request(lambda request: "updateTask" in (request.post_data or "")) as posted:
            await panel.get_by_role("button", name="Save").press("Enter")
        sent = json.loads((await posted.value).post_data or "")["variables"]["input"]
        await expect(panel.get_by_role("heading", name="Task Zebra")).to_be_visible()
        assert (await grid.column())[0] == "Task 001"
    assert {**sent, "id": ""} == {"id": "", "expectedVersion": 1, "title": "Zebra", "effort": None}
    stored = await tasks.database.get(Task, "k000")
    assert stored is not None
    assert (stored.title, stored.effort, stored.labels, stored.version) == ("Zebra", None, ["a", "b"], 2)


async def test_an_edit_conflict(shared_browser: Browser, tasks: TaskServer) -> None:
    """After another write, saving shows what was changed meanwhile; own changes are kept on top of it, or dropped."""
    async with open_grid(shared_browser, tasks.grid, expected=REFUSED) as grid:
        panel = await open_first(grid, **BY_TITLE)
        await panel.get_by_role("button", name="Edit").press("Enter")
        await panel.locator("#input-title").fill("Task 000 mine")
        await tasks.database.update(Task, "k000", points=6)
        await panel.get_by_role("button", name="Save").press("Enter")
        await expect(grid.alert).to_contain_text("VERSION_CONFLICT")
        await expect(panel.locator(".conflict")).to_contain_text("points: was")
        await panel.get_by_role("button", name="Keep my changes, on top of what is stored").press("Enter")
        assert await panel.locator("#input-points").input_value() == "6"
        await panel.get_by_role("button", name="Save").press("Enter")
        await expect(panel.get_by_role("heading", name="Task Task 000 mine")).to_be_visible()
        await panel.get_by_role("button", name="Delete").press("Enter")
        await tasks.database.update(Task, "k000", points=5)
        question = panel.get_by_role("group", name="Delete")
        await question.get_by_role("button", name="Delete").press("Enter")
        await expect(grid.alert).to_contain_text("VERSION_CONFLICT")
        await panel.get_by_role("button", name="Show the present record").press("Enter")
        await expect(panel.locator(".properties div").filter(has_text="points").locator("dd")).to_have_text("5")
        await panel.get_by_role("button", name="Delete").press("Enter")
        await question.get_by_role("button", name="Delete").press("Enter")
        await expect(panel).to_have_count(0)
        assert (await grid.column())[0] == "Task 001"
    assert await tasks.database.get(Task, "k000") is None


async def test_a_refused_write(shared_browser: Browser, tasks: TaskServer) -> None:
    """Rules decide what is offered. A write that a rule refuses says for whom it is allowed, and how to go on."""
    assert not any(await tasks.database.put_many(NOTES))
    async with open_grid(shared_browser, tasks.grid, expected=REFUSED) as grid:
        panel = await open_first(grid, entity="Note", search="noteByText")
        await expect(panel.get_by_role("button", name="Edit")).to_have_count(0)
        await expect(panel).to_contain_text(
            "Allowed for members of Writers or the owner (author). You are not allowed."
        )
        await grid.open(token=bearer_token("bob"), entity="Note", search="noteByText")
        panel = await open_first(grid, entity="Note", search="noteByText")
        await panel.get_by_role("button", name="Edit").press("Enter")
        await panel.locator("#input-text").fill("By Bob, now")
        await panel.get_by_role("button", name="Save").press("Enter")
        await expect(grid.alert).to_contain_text("FORBIDDEN")
        await grid.button("Credentials …").press("Enter")
        await grid.page.get_by_label("Bearer token").fill(bearer_token("ann"))
        await grid.button("Use them").press("Enter")
        await expect(grid.button("ann")).to_be_visible()
        panel = await open_first(grid, entity="Note", search="noteByText")
        await panel.get_by_role("button", name="Edit").press("Enter")
        await panel.locator("#input-text").fill("By Ann, now")
        await panel.get_by_role("button", name="Save").press("Enter")
        await expect(panel.locator(".properties")).to_contain_text("By Ann, now")
    stored = await tasks.database.get(Note, "n1")
    assert stored is not None
    assert stored.text == "By Ann, now"
