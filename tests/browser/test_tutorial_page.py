"""The tutorial, from an empty folder to a page that scrolls in Chromium, by nothing but its code blocks."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.clients.conftest import client_packages
from tests.docs.pages import ROOT
from tests.docs.test_extras import link_distributions
from tests.docs.test_packaging import PROJECT
from tests.docs.tutorial_script import commands, script
from tests.support.loopback import TIMEOUT, free_port

BOOKS = 1000 + 4
"""the sample, and the books of `books.jsonl`"""
NPM = """#!/bin/sh
[ "$1" = install ] && ln -s {packages} node_modules
"""
"""It installs the packages that tests/clients/package-lock.json pins by hash, without the registry."""


@pytest.fixture
def clean_environment(tmp_path: Path) -> dict[str, str]:
    """An environment for the script: Python with pip and the locked dependencies, but without this package; an npm.

    pip itself is real, and so are the new virtual environment and the wheel that it builds. It finds the dependencies
    installed in `PYTHONPATH`, so it needs no index.
    """
    locked, programs = tmp_path / "locked", tmp_path / "programs"
    for folder in (locked, programs):
        folder.mkdir()
    link_distributions([*PROJECT["dependencies"], "hatchling"], locked)
    (programs / "npm").write_text(NPM.format(packages=shlex.quote(str(client_packages()))))
    (programs / "npm").chmod(0o755)
    (programs / "python3").symlink_to(getattr(sys, "_base_executable", sys.executable))
    (tmp_path / "shardql").symlink_to(ROOT)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHARDQL_", "PYTHON", "PIP_"))}
    path = os.pathsep.join([str(programs), kept["PATH"]])
    pip = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return {**kept, **pip, "PATH": path, "PYTHONPATH": str(locked), "HOME": str(tmp_path)}


@pytest.fixture
def site(tmp_path: Path, clean_environment: dict[str, str]) -> Iterator[str]:
    """Run the script in an empty folder. Yield the address of the page once all commands have run."""
    server_port, site_port = free_port(), free_port()
    folder, log = tmp_path / "library", tmp_path / "log"
    folder.mkdir()
    variables = {**clean_environment, "SHARDQL_PORT": str(server_port)}
    line = ["/bin/sh", "-c", script(server_port, site_port)]
    with (
        log.open("wb") as output,
        subprocess.Popen(  # noqa: S603 - the commands of our own page
            line, cwd=folder, env=variables, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
        ) as process,
    ):
        try:
            wait_for_lines(process, log, "complete", "Press Ctrl-C to stop", f":{site_port}/")
            yield f"http://localhost:{site_port}/"
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def wait_for_lines(process: subprocess.Popen[bytes], log: Path, *texts: str) -> None:
    """Wait until the log contains all these texts."""
    end = time.monotonic() + 4 * TIMEOUT
    while not all(text in (printed := log.read_text("utf-8")) for text in texts):
        assert process.poll() is None, printed
        assert time.monotonic() < end, printed
        time.sleep(0.05)


async def scroll_to_the_end(page: Page) -> list[int]:
    """Scroll until the page says that all books are there. Return the number of books after each step."""
    counts: list[int] = []
    status = page.get_by_role("status")
    while (text := await status.inner_text()) == "Loading …":
        await page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        shown = await page.locator("li").count()
        if not counts or shown > counts[-1]:
            counts.append(shown)
    assert text == f"All {BOOKS} books."
    return counts


async def test_the_tutorial_ends_at_a_page_that_scrolls(browser: Browser, site: str) -> None:
    """The page loads 50 books at a time while it is scrolled, and shows all books once, in order of their titles."""
    page = await browser.new_page()
    await page.goto(site)
    await page.get_by_text("Emma (1815)").wait_for()
    assert await page.locator("li").count() < BOOKS / 2
    counts = await scroll_to_the_end(page)
    assert len(counts) > 3
    assert all(count % 50 == 0 for count in counts if count < BOOKS)
    titles = [text.rpartition(" (")[0] for text in await page.locator("li").all_inner_texts()]
    assert len(titles) == BOOKS
    assert titles == sorted({*titles}, key=str.lower)


def test_the_tutorial_installs_what_is_pinned() -> None:
    """The versions that the tutorial asks npm for include those with which the page is tested."""
    (line,) = [words for line in commands() if (words := line.split())[:2] == ["npm", "install"]]
    pinned = json.loads((ROOT / "tests" / "clients" / "package.json").read_text("utf-8"))
    versions = {**pinned["dependencies"], **pinned["devDependencies"]}
    for name, _, wanted in (word.rpartition("@") for word in line[2:]):
        assert re.match(rf"{re.escape(wanted)}\.", versions[name])
