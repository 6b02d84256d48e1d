"""Files of events: lines, chunks, and the bound of what waits."""

import json
from pathlib import Path

import pytest

from graphql_api import open_catalog
from graphql_api.errors import EventGap
from graphql_api.projections import EventFile, ProjectionRun
from graphql_api.projections.event_files import CHUNK_LINES, MAX_LINE_BYTES
from tests.projections.account_projections import CATALOG
from tests.projections.read_models import BANK, chunks_of, letters_of


async def lines_of(path: Path) -> list[bytes]:
    """All lines of a file."""
    return [line async for chunk in EventFile(path).chunks() for line in chunk]


async def test_lines_end_with_or_without_a_line_break(tmp_path: Path) -> None:
    """Empty lines are left out, Windows line ends are accepted, and the last line needs no end."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\r\n\n  \ntwo\nthree")
    assert await lines_of(path) == [b"one", b"two", b"three"]


async def test_a_file_is_read_in_chunks(tmp_path: Path) -> None:
    """A long file is not read at once."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x\n" * (2 * CHUNK_LINES + 1))
    assert [len(chunk) async for chunk in EventFile(path).chunks()] == [CHUNK_LINES, CHUNK_LINES, 1]


async def test_a_line_that_is_too_long_is_a_dead_letter(tmp_path: Path) -> None:
    """It is cut, counts as one line, and the lines after it are read."""
    path = tmp_path / "events.jsonl"
    opened = {"stream": "a", "seq": 1, "type": "Opened", "data": {"accountId": "a", "owner": "ann", "at": "1"}}
    path.write_bytes(b'{"x":"' + b"y" * (2 * MAX_LINE_BYTES) + b'"}\n' + json.dumps(opened).encode())
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path / 'bank.db'}") as database:
        progress = await ProjectionRun(database, BANK).run(EventFile(path).chunks())
        assert (progress.unreadable, progress.projections["accounts"].applied) == (1, 1)
        (letter,) = await letters_of(database)
        assert "at most 262,144 are accepted" in letter.reason
        assert len(letter.event) <= 64 * 1024


async def test_waiting_events_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends with the missing event that most events wait for; a later run with it applies all of them."""
    monkeypatch.setattr("graphql_api.projections.projection_run.MAX_WAITING_BYTES", 1_000)
    data = {"accountId": "a", "owner": "ann", "at": "1"}
    lines = [
        json.dumps({"stream": "a", "seq": seq, "type": "Opened", "data": data}).encode() for seq in (1, *range(3, 30))
    ]
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path / 'bank.db'}") as database:
        with pytest.raises(EventGap, match="the event 2 of the stream 'a'") as caught:
            await ProjectionRun(database, BANK).run(chunks_of(lines, 5))
        assert caught.value.expected == 2
        missing = json.dumps({"stream": "a", "seq": 2, "type": "Opened", "data": data}).encode()
        progress = await ProjectionRun(database, BANK).run(chunks_of([missing, *lines], 5))
        assert progress.projections["accounts"].applied == 28
        assert not progress.has_findings
