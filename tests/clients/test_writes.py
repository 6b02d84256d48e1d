"""Apollo Client and urql write, as docs/client-writes.md sets them up, against a real server."""

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
from graphql_api.storage.values import TransactionWrite
from tests.api.server import SECRETS, served
from tests.clients.conftest import HERE, run, tool
from tests.clients.recipes import write_recipe
from tests.stores import WrappedStore

LATER = ("latest", "bare")
"""what was written when the list was not looked at any more"""
RECIPES = {"apollo": ["client.mjs", "notes.mjs"], "urql": ["notes.urql.mjs"]}


class SilentStore(WrappedStore):
    """Hears of no write as often as a file says."""

    def __init__(self, inner: Any, silent: Path) -> None:
        super().__init__(inner)
        self._silent = silent

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        left = int(self._silent.read_text()) if self._silent.exists() else 0
        if left:
            self._silent.write_text(str(left - 1))
            raise StoreUnavailable("The store does not answer: try again.")
        await super().write_together(writes, token)


async def stored(catalog: Catalog, note: Any, store: str) -> list[Entity]:
    """The notes, newest first."""
    async with open_catalog(catalog, store, secrets=SECRETS) as database:
        return [*(await database.search(note.by_created, reverse=True, limit=500)).items]


@pytest.fixture(scope="module", params=RECIPES)
def told(request: pytest.FixtureRequest, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a client has told, and what stands in the store at the end."""
    folder = tmp_path_factory.mktemp(request.param)
    declared = runpy.run_path(str(write_recipe("notes.py", folder, "")))
    store = f"sqlite:///{folder}/notes.db"
    with served(declared["catalog"], store, wrap=lambda inner: SilentStore(inner, folder / "silent")) as server:
        (folder / "node_modules").symlink_to(packages)
        for name in RECIPES[request.param]:
            write_recipe(name, folder, server.address)
        for program in ("writing.mjs", "wire.mjs"):
            shutil.copy(HERE / program, folder)
        found: dict[str, Any] = json.loads(run([tool("node"), "writing.mjs", request.param, server.url], folder))
    assert (folder / "silent").read_text() == "0"
    found["client"] = request.param
    found["stored"] = asyncio.run(stored(declared["catalog"], declared["Note"], store))
    return found


def test_the_list_shows_what_was_created(told: dict[str, Any]) -> None:
    """A new note stands first in the list: put there without asking again, or found by asking once."""
    assert told["texts"] == ["two", "one"]
    asked = {"apollo": 0, "urql": 1}[told["client"]]
    for one in (told["first"], told["second"]):
        assert one["code"] is None
        assert len(one["keys"]) == 1
        assert one["sent"] == 1 + asked
    assert told["first"]["keys"] != told["second"]["keys"]


@pytest.mark.parametrize("lost", ["replyLost", "storeSilent"])
def test_sent_again_under_its_key(told: dict[str, Any], lost: str) -> None:
    """A create whose reply is lost, or whose store falls silent, is sent until it is answered, and is done once."""
    first, *others = told[lost]["keys"]
    assert told[lost]["code"] is None
    assert others == [first, first]
    text = {"replyLost": "three", "storeSilent": "four"}[lost]
    assert [note.text for note in told["stored"]].count(text) == 1


def test_shown_before_it_is_answered(told: dict[str, Any]) -> None:
    """A change stands in the list with its next version while the answer is awaited, which then agrees."""
    assert told["before"] == [2, "no answer yet"]
    assert told["changed"] == [None, 2]


def test_a_change_does_not_meet_itself(told: dict[str, Any]) -> None:
    """Under its key a change whose reply is lost is no conflict with the version that it has made itself."""
    assert told["changeLost"] == [None, 3]


def test_a_conflict_shows_what_others_wrote(told: dict[str, Any]) -> None:
    """A change of what somebody else has changed is refused and taken back, and the list shows theirs."""
    assert told["conflict"] == "VERSION_CONFLICT"
    assert told["afterConflict"] == [4, False]


def test_without_a_key_nothing_is_sent_again(told: dict[str, Any]) -> None:
    """A mutation without a key fails with its reply, since nobody knows what became of it."""
    assert told["withoutKey"]
    assert told["withoutKeySent"] == 1
    assert [note.text for note in told["stored"]].count("bare") == 1


@pytest.mark.parametrize("told", ["apollo"], indirect=True)
def test_a_list_grows_behind_what_was_created(told: dict[str, Any]) -> None:
    """Pages that follow come behind a note that was put in front of the first one, and none of them twice."""
    assert told["grown"] == [note.text for note in told["stored"]]


def test_list_and_store_agree(told: dict[str, Any]) -> None:
    """In the end the list shows what the store holds, without what was removed."""
    held = [{"text": note.text, "version": note.version, "done": note.done} for note in told["stored"]]
    assert [one["text"] for one in held if one["text"] not in LATER] == ["four", "three", "theirs"]
    assert told["shown"] == [one for one in held if one["text"] not in LATER]
