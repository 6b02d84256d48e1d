"""`open_catalog(read_only=True)`: reads work on each engine, and writes are refused."""

from pathlib import Path
from uuid import uuid4

import pytest

from graphql_api import Catalog, Entity, Id, Index, open_catalog
from graphql_api.errors import StoreDenied
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server


class Note(Entity):
    """A text."""

    note_id: Id[str]
    text: str

    by_text = Index(sort="text")


CATALOG = Catalog(Note)


@pytest.fixture(params=["sqlite", "dynamodb"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/notes.db"
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    server: Server = request.getfixturevalue("dynamodb")
    return f"dynamodb://notes-{uuid4().hex}?region={REGION}&endpoint={server.endpoint}&deadline=60"


async def test_a_read_only_database(url: str) -> None:
    """Records and searches are read, every kind of write is refused, and nothing is written."""
    async with open_catalog(CATALOG, url, create_table=True) as db:
        await db.put(Note(note_id="n1", text="a"))
    async with open_catalog(CATALOG, url, read_only=True) as db:
        for write in (
            db.put(Note(note_id="n1", text="b")),
            db.create(Note, note_id="n2", text="b"),
            db.update(Note, "n1", text="b"),
            db.delete(Note, "n1"),
            db.put_many([Note(note_id="n3", text="b")]),
        ):
            with pytest.raises(StoreDenied, match="open read-only"):
                await write
        assert await db.get(Note, "n1") == Note(note_id="n1", text="a")
        assert [note.note_id for note in (await db.search(Note.by_text)).items] == ["n1"]
