"""The file with the progress of a comparison: the keys and digests of the items that were read, page by page.

Each page is a block: the length of its content, a checksum, and the compressed content. A block that is incomplete,
because the process was killed, is dropped. Keys compress well: a block needs about 25 bytes for each item.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO
from zlib import compress, crc32, decompress

import orjson

from graphql_api.errors import InvalidSettings
from graphql_api.storage import Key

_HEAD = Struct(">II")
"""length and checksum of a block"""
_MAX_BLOCK_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class DigestedPage:
    """The keys and digests of one page of one store."""

    side: int
    """0: the first store; 1: the second one"""
    segment: int
    after: Key | None
    """where the next page begins; None: the segment is complete"""
    read: int
    """number of items in the page, also of those without a digest"""
    digests: Mapping[Key, int]


class ComparisonLog:
    """The pages that a comparison has read. Use it as a context manager."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = 0
        """the end of the last complete block"""

    @classmethod
    def open(cls, path: Path, title: Mapping[str, Any]) -> "ComparisonLog":
        """Open the file of a comparison, or create it. `title` says what is compared: a file of another is refused."""
        path.touch()
        log = cls(path.open("r+b"))
        try:
            log._begin(title, f"{path}")
        except InvalidSettings:
            log.close()
            raise
        return log

    @classmethod
    def temporary(cls, file: BinaryIO, title: Mapping[str, Any]) -> "ComparisonLog":
        """Use an empty file that nothing else reads."""
        log = cls(file)
        log._append(title)
        return log

    def _begin(self, title: Mapping[str, Any], name: str) -> None:
        """Find the end of the last complete block, or write the title into an empty file."""
        stored = next(self._blocks(), None)
        if stored is not None and orjson.loads(stored) == orjson.loads(orjson.dumps(title)):
            for _ in self._blocks():
                pass
            self._file.truncate(self._end)
        elif self._file.seek(0, SEEK_END):
            content = "something else" if stored is None else "the progress of another comparison"
            raise InvalidSettings([f"{name} holds {content}. Name another file, or delete this one."])
        else:
            self._append(title)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def add(self, page: DigestedPage) -> None:
        """Append a page."""
        items = [[*key, f"{digest:x}"] for key, digest in page.digests.items()]
        after = None if page.after is None else [*page.after]
        self._append({"side": page.side, "segment": page.segment, "after": after, "read": page.read, "items": items})

    def pages(self) -> Iterator[DigestedPage]:
        """Yield all complete pages, in the order of reading."""
        blocks = self._blocks()
        next(blocks, None)
        for block in blocks:
            data = orjson.loads(block)
            after = None if data["after"] is None else Key(*data["after"])
            digests = {Key(hash_text, range_text): int(text, 16) for hash_text, range_text, text in data["items"]}
            yield DigestedPage(data["side"], data["segment"], after, data["read"], digests)

    def _append(self, content: Any) -> None:
        block = compress(orjson.dumps(content), 1)
        self._file.seek(self._end)
        self._file.write(_HEAD.pack(len(block), crc32(block)) + block)
        self._file.flush()
        self._end = self._file.tell()

    def _blocks(self) -> Iterator[bytes]:
        position = 0
        while True:
            self._file.seek(position)
            head = self._file.read(_HEAD.size)
            length, checksum = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
            block = self._file.read(length) if length <= _MAX_BLOCK_BYTES else b""
            if not length or len(block) < length or crc32(block) != checksum:
                return
            position += _HEAD.size + length
            self._end = max(self._end, position)
            yield decompress(block)
