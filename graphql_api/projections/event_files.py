"""Reads lines of a file of events in chunks, and what is added to the file later."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from graphql_api.projections.event_envelopes import MAX_EVENT_BYTES

CHUNK_LINES = 1_000
CHUNK_BYTES = 4 * 2**20
MAX_LINE_BYTES = 4 * MAX_EVENT_BYTES
"""a line keeps no more than these; it is too long for an event anyway"""
WATCH_SECONDS = 0.2
"""between two looks at a file that may grow"""


class EventFile:
    """A file of events, one JSON object on each line. It may grow, and may be replaced by another one."""

    def __init__(self, path: Path, *, watch: bool = False) -> None:
        self._path = path
        self._watch = watch
        self.offset = 0
        """bytes that were read"""

    async def chunks(self) -> AsyncIterator[Sequence[bytes]]:
        """Yield the lines that are not empty, in chunks. Empty chunks show that the file does not grow for now."""
        while True:
            with self._path.open("rb") as file:
                self.offset = 0
                while not (self._watch and self._is_replaced(file)):
                    lines = [*self._read_chunk(file)]
                    if lines or self._watch:
                        yield lines
                    if not lines and not self._watch:
                        return
                    if not lines:
                        await asyncio.sleep(WATCH_SECONDS)

    def _read_chunk(self, file: BinaryIO) -> Iterator[bytes]:
        count, end = 0, self.offset + CHUNK_BYTES
        while count < CHUNK_LINES and self.offset < end:
            start = self.offset
            line, size = _read_line(file)
            if self._watch and not line.endswith(b"\n"):
                file.seek(start)  # The rest of the line has not been written yet.
                return
            if not size:
                return
            self.offset = start + size
            if line.strip():
                count += 1
                yield line.rstrip(b"\r\n")

    def _is_replaced(self, file: BinaryIO) -> bool:
        """Return whether the path names another file now, or a shorter one. Its events are read from the beginning."""
        try:
            present = self._path.stat()
        except FileNotFoundError:
            return False
        return not os.path.samestat(present, os.fstat(file.fileno())) or present.st_size < self.offset


def _read_line(file: BinaryIO) -> tuple[bytes, int]:
    """Return the next line and its size. A line that is too long for an event is cut, and keeps its end."""
    line = file.readline(MAX_LINE_BYTES)
    size = len(line)
    while size >= MAX_LINE_BYTES and not line.endswith(b"\n") and (rest := file.readline(MAX_LINE_BYTES)):
        size += len(rest)
        if rest.endswith(b"\n"):
            line += b"\n"
    return line, size
