"""A server on a SQLite file that is removed, full, damaged or read-only: errors of mutations, and `/readyz`."""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from graphql_api import Catalog, Entity, Id, open_catalog
from graphql_api.server import asgi
from graphql_api.server.settings import Settings
from graphql_api.storage import ForwardingStore
from graphql_api.storage.engines.sqlite import SqliteStore
from graphql_api.storage.engines.sqlite.file_health import FRESH_SECONDS
from tests.support.small_disks import fill, make_read_only, small_disk

CREATE = 'mutation {{ createNote(input: {{noteId: "{}", text: "{}"}}) {{ note {{ id }} }} }}'
COUNT = "{ notes { totalCount { value } } }"


class Note(Entity):
    """A text."""

    note_id: Id[str]
    text: str


catalog = Catalog(Note)


def notes(count: int) -> list[Note]:
    """Return notes."""
    return [Note(note_id=f"n{number}", text="a note") for number in range(count)]


class FileServer:
    """A server in this process, and its store."""

    def __init__(self, app: Starlette, client: httpx.AsyncClient, store: SqliteStore) -> None:
        self.app, self.client, self.store = app, client, store

    async def execute(self, query: str) -> dict[str, Any]:
        """Return the response to an operation."""
        response = await self.client.post("/graphql", json={"query": query})
        body: dict[str, Any] = response.json()
        return body

    async def error(self, query: str) -> dict[str, Any]:
        """Return the extensions of the error of an operation."""
        (error,) = (await self.execute(query))["errors"]
        extensions: dict[str, Any] = error["extensions"]
        return extensions

    async def readiness(self) -> tuple[int, str | None]:
        """Return status and code of `/readyz`, as if the last probe was long ago."""
        self.store._health._checked_at = float("-inf")
        response = await self.client.get("/readyz")
        return response.status_code, response.json().get("code")


@asynccontextmanager
async def file_server(path: Path, **settings: Any) -> AsyncIterator[FileServer]:
    """Serve notes from a file."""
    app = asgi(catalog, f"sqlite:///{path}", production=True, token_keys="ab" * 32, record_key="cd" * 32, **settings)
    database = await app.state.opened.get()
    store = database.store
    while isinstance(store, ForwardingStore):
        store = store.inner
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        try:
            yield FileServer(app, client, store)
        finally:
            await app.state.opened.close()


async def add_notes(path: Path) -> None:
    """Create the file with twenty notes."""
    async with open_catalog(catalog, f"sqlite:///{path}") as database:
        assert not any(await database.put_many(notes(20)))


def remove(path: Path) -> None:
    """Remove the file and its log."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def replace(path: Path) -> None:
    """Replace the file by an empty one."""
    path.unlink()
    path.touch()


def truncate(path: Path) -> None:
    """Empty the file."""
    os.truncate(path, 0)


def overwrite(path: Path) -> None:
    """Overwrite the file with random bytes."""
    path.write_bytes(os.urandom(path.stat().st_size))


@pytest.mark.parametrize("lose", [remove, replace, truncate, overwrite])
async def test_lost_file(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    """After the file is lost or damaged, no mutation is acknowledged, and the server is not ready."""
    path = tmp_path / "notes.db"
    await add_notes(path)
    async with file_server(path) as server:
        assert "errors" not in await server.execute(CREATE.format("u1", "1"))
        assert await server.readiness() == (200, None)
        lose(path)
        assert await server.readiness() == (503, "STORE_DAMAGED")
        assert await server.error(CREATE.format("u2", "2")) == {"code": "STORE_DAMAGED"}
        if lose is not overwrite:  # A cache may still have the pages.
            assert await server.error(COUNT) == {"code": "STORE_DAMAGED"}


async def check_full(server: FileServer, free: Callable[[], object]) -> None:
    """Check a server whose disk is full, until `free` makes space."""
    large = CREATE.format("u1", "x" * 90_000)
    assert await server.error(large) == {"code": "STORE_UNAVAILABLE", "retryable": True}
    assert await server.readiness() == (503, "STORE_UNAVAILABLE")
    assert await server.execute(COUNT) == {"data": {"notes": {"totalCount": {"value": 20}}}}
    free()
    assert await server.readiness() == (200, None)
    assert "errors" not in await server.execute(CREATE.format("u1", "1"))


async def test_full_file(tmp_path: Path) -> None:
    """A mutation that finds no space certainly wrote nothing, and may be retried. The server is not ready."""
    await add_notes(tmp_path / "notes.db")
    async with file_server(tmp_path / "notes.db") as server:
        sql = server.store.writer._sql
        (pages,) = sql.execute("PRAGMA page_count").fetchone()
        sql.execute(f"PRAGMA max_page_count = {pages}")
        await check_full(server, lambda: sql.execute("PRAGMA max_page_count = 1000000"))


async def test_full_disk(tmp_path: Path) -> None:
    """The same holds on a full disk, also before any mutation has failed."""
    with small_disk(tmp_path / "disk", 8) as disk:
        await add_notes(disk / "notes.db")
        async with file_server(disk / "notes.db") as server:
            filler = fill(disk)
            assert await server.readiness() == (503, "STORE_UNAVAILABLE")
            await check_full(server, filler.unlink)


def test_readiness_is_right_within_two_seconds() -> None:
    """The age of a result that is used again, and the time limit of a check, are two seconds together."""
    assert FRESH_SECONDS + Settings().ready_seconds <= 2


async def test_read_only_file(tmp_path: Path) -> None:
    """A read-only server serves a file on a read-only disk, and is ready."""
    with small_disk(tmp_path / "disk", 8) as disk:
        await add_notes(disk / "notes.db")
        make_read_only(disk)
        async with file_server(disk / "notes.db", read_only=True) as server:
            assert await server.readiness() == (200, None)
            assert await server.execute(COUNT) == {"data": {"notes": {"totalCount": {"value": 20}}}}


async def test_read_only_server(tmp_path: Path) -> None:
    """A read-only server shows what another process writes, is ready, and writes nothing."""
    path = tmp_path / "notes.db"
    await add_notes(path)
    async with file_server(path, read_only=True) as server, open_catalog(catalog, f"sqlite:///{path}") as database:
        await database.put_many(notes(25))
        version = data_version(path)
        assert await server.readiness() == (200, None)
        assert await server.execute(COUNT) == {"data": {"notes": {"totalCount": {"value": 25}}}}
        assert data_version(path) == version


def data_version(path: Path) -> tuple[object, ...]:
    """Return what a write would change."""
    sql = sqlite3.connect(path)
    version = (*sql.execute("SELECT * FROM meta").fetchall(), path.with_name(f"{path.name}-wal").stat().st_mtime_ns)
    sql.close()
    return version
