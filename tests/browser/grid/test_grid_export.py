"""Export from the data page: JSON lines and CSV, to a download or a file, complete and in order."""

import csv
import json
import shlex
from asyncio import to_thread
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from graphql_api import Graph
from graphql_api.cli.query_plans import search_request_of
from graphql_api.ops import Exporter
from tests.browser.grid.grid_page import open_grid
from tests.browser.grid.task_catalog import TASK_CATALOG, TASKS
from tests.browser.grid.task_server import TaskServer

pytestmark = pytest.mark.asyncio(loop_scope="session")
BY_TITLE = {"entity": "Task", "search": "taskByTitle", "reverse": "1", "panel": "export"}
TITLES = sorted((task.title for task in TASKS), reverse=True)

CHOOSE_FILE = """
window.written = [];
window.showSaveFilePicker = async ({ suggestedName }) => ({
  createWritable: async () => ({
    write: async (text) => { window.written.push(text); },
    close: async () => { window.closedFile = suggestedName; },
  }),
});
"""
"""Stands for the dialog in which a user chooses a file, which a test cannot operate."""


async def download(page: Page, folder: Path) -> Path:
    """Press Download, and return the file."""
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Download").press("Enter")
    file = folder / "downloaded"
    await (await downloading.value).save_as(file)
    return file


async def test_json_lines(shared_browser: Browser, tasks: TaskServer, tmp_path: Path) -> None:
    """A download as JSON lines has each record of the search once, in its order, with all properties."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE)
        file = await download(grid.page, tmp_path)
        await expect(grid.page.get_by_role("status").filter(has_text="Exported all")).to_be_visible()
    rows: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [row["title"] for row in rows] == TITLES
    assert rows[-1]["labels"] == ["a", "b"]
    assert rows[-1]["effort"] == {"planned": 2.5, "spent": 0.0}
    assert [*rows[0]][:4] == ["taskId", "title", "code", "teamId"]


async def test_csv_of_the_columns(shared_browser: Browser, tasks: TaskServer, tmp_path: Path) -> None:
    """CSV has a header and the columns of the grid. Cells with commas, quotes and lines are read back unchanged."""
    await tasks.database.update(type(TASKS[0]), "k239", title='Task 239, "quoted"\nline')
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE, columns="title,points,labels", filter="title.ge.Task 235")
        await grid.page.get_by_label("CSV").check()
        await grid.page.get_by_label("the columns of the grid").check()
        file = await download(grid.page, tmp_path)
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [*csv.reader(lines)]
    assert rows[0] == ["title", "points", "labels"]
    assert [row[0] for row in rows[1:]] == ['Task 239, "quoted"\nline', "Task 238", "Task 237", "Task 236", "Task 235"]
    assert rows[1][2] == "[]"


async def test_streaming_to_a_file_survives_a_failure(shared_browser: Browser, tasks: TaskServer) -> None:
    """An export to a file stops at a failed shard with what to do, and then goes on without a gap or a repetition."""
    async with open_grid(shared_browser, tasks.grid, expected=("503",)) as grid:
        await grid.page.add_init_script(CHOOSE_FILE)
        await grid.open(**BY_TITLE)
        await grid.rows()
        tasks.failing.add("task!01")
        await grid.button("Export to a file …").press("Enter")
        await expect(grid.alert).to_contain_text("STORE_UNAVAILABLE", timeout=20_000)
        await expect(grid.page.get_by_role("status").filter(has_text="stopped after 0 records")).to_be_visible()
        tasks.failing.clear()
        await grid.button("Try again").press("Enter")
        await expect(grid.page.get_by_role("status").filter(has_text="Exported all 240 records.")).to_be_visible()
        written = await grid.page.evaluate("window.written.join('')")
        closed = await grid.page.evaluate("window.closedFile")
    assert closed == "Task.jsonl"
    assert [json.loads(line)["title"] for line in written.splitlines()] == TITLES


async def test_a_download_names_its_limit_and_the_command_for_more(shared_browser: Browser, tasks: TaskServer) -> None:
    """The panel says how many records a download holds. The command beside it exports the records of the view."""
    async with open_grid(shared_browser, tasks.grid) as grid:
        await grid.open(**BY_TITLE, filter="level.eq.high")
        panel = grid.page.get_by_role("complementary")
        await expect(panel).to_contain_text("at most 100,000 records")
        command = await panel.locator("code").text_content()
    *words, search, _, file = shlex.split(command or "")
    assert (words, file) == (["shardql", "export", "MODULE:CATALOG", "Task"], "Task.jsonl")
    assert search == "taskByTitle(filter: {level: {eq: high}}, reverse: true)"
    request = await to_thread(search_request_of, Graph(TASK_CATALOG), search)
    out = BytesIO()
    await Exporter(tasks.database, replace(request, select=None)).write_to(out)
    high = sorted((task.title for task in TASKS if task.level.name == "high"), reverse=True)
    assert [json.loads(line)["title"] for line in out.getvalue().splitlines()] == high
