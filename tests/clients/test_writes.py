"""Writes by Apollo Client and urql, configured as in docs/how-to/client-writes.md, against a real server."""

import asyncio
import json
import runpy
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, open_catalog
from graphql_api.errors import StoreUnavailable
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import TransactionWrite
from tests.clients.conftest import HERE, run, tool
from tests.clients.recipes import write_recipe
from tests.server.catalog_server import SECRETS, start_server

LATER = ("latest", "bare")
"""The notes that were written after the list was read."""
RECIPES = {"apollo": ["client.mjs", "notes.mjs"], "urql": ["notes.urql.mjs"]}


class UnavailableStore(ForwardingStore):
    """Fails writes without applying them, as often as a file says."""

    def __init__(self, inner: Any, silent: Path) -> None:
        super().__init__(inner)
        self._silent = silent

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        left = int(self._silent.read_text()) if self._silent.exists() else 0
        if left:
            self._silent.write_text(str(left - 1))
            raise StoreUnavailable("The store does not answer: try again.")
        await super().write_together(writes, token)


async def stored_notes(catalog: Catalog, note: Any, store: str) -> list[Entity]:
    """Return the notes, newest first."""
    async with open_catalog(catalog, store, secrets=SECRETS) as database:
        return [*(await database.search(note.by_created, reverse=True, limit=500)).items]


@pytest.fixture(scope="module", params=RECIPES)
def report(request: pytest.FixtureRequest, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a client, and the stored notes at the end."""
    folder = tmp_path_factory.mktemp(request.param)
    declared = runpy.run_path(str(write_recipe("notes.py", folder, "")))
    store = f"sqlite:///{folder}/notes.db"
    with start_server(
        declared["catalog"], store, wrap=lambda inner: UnavailableStore(inner, folder / "silent")
    ) as server:
        (folder / "node_modules").symlink_to(packages)
        for name in RECIPES[request.param]:
            write_recipe(name, folder, server.address)
        for program in ("writing.mjs", "fetch_control.mjs"):
            shutil.copy(HERE / program, folder)
        found: dict[str, Any] = json.loads(run([tool("node"), "writing.mjs", request.param, server.url], folder))
    assert (folder / "silent").read_text() == "0"
    found["client"] = request.param
    found["stored"] = asyncio.run(stored_notes(declared["catalog"], declared["Note"], store))
    return found


def test_created_note_is_listed(report: dict[str, Any]) -> None:
    """A new note is first in the list, added locally or by one refetch."""
    assert report["texts"] == ["two", "one"]
    refetches = {"apollo": 0, "urql": 1}[report["client"]]
    for one in (report["first"], report["second"]):
        assert one["code"] is None
        assert len(one["keys"]) == 1
        assert one["sent"] == 1 + refetches
    assert report["first"]["keys"] != report["second"]["keys"]


@pytest.mark.parametrize("lost", ["replyLost", "storeSilent"])
def test_retry_with_idempotency_key(report: dict[str, Any], lost: str) -> None:
    """A create whose reply is lost, or whose store is unavailable, is retried and applied once."""
    first, *others = report[lost]["keys"]
    assert report[lost]["code"] is None
    assert others == [first, first]
    text = {"replyLost": "three", "storeSilent": "four"}[lost]
    assert [note.text for note in report["stored"]].count(text) == 1


def test_optimistic_update(report: dict[str, Any]) -> None:
    """A change appears in the list with its next version before the response confirms it."""
    assert report["before"] == [2, "no answer yet"]
    assert report["changed"] == [None, 2]


def test_retried_update_is_no_conflict(report: dict[str, Any]) -> None:
    """With an idempotency key, a retried update does not conflict with itself."""
    assert report["changeLost"] == [None, 3]


def test_version_conflict(report: dict[str, Any]) -> None:
    """An update of a record that another client has changed is refused. The list shows the other version."""
    assert report["conflict"] == "VERSION_CONFLICT"
    assert report["afterConflict"] == [4, False]


def test_no_retry_without_idempotency_key(report: dict[str, Any]) -> None:
    """A mutation without a key is not retried, because its outcome is unknown."""
    assert report["withoutKey"]
    assert report["withoutKeySent"] == 1
    assert [note.text for note in report["stored"]].count("bare") == 1


@pytest.mark.parametrize("report", ["apollo"], indirect=True)
def test_next_pages_after_a_create(report: dict[str, Any]) -> None:
    """Pages that follow a locally added note contain no record twice."""
    assert report["grown"] == [note.text for note in report["stored"]]


def test_list_and_store_agree(report: dict[str, Any]) -> None:
    """At the end, the list equals the stored notes, without the deleted one."""
    held = [{"text": note.text, "version": note.version, "done": note.done} for note in report["stored"]]
    assert [one["text"] for one in held if one["text"] not in LATER] == ["four", "three", "theirs"]
    assert report["shown"] == [one for one in held if one["text"] not in LATER]
