"""Export of the records of a search, page by page, to a file that an interrupted export continues."""

import csv
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO, Literal

from graphql_api.database import Database
from graphql_api.errors import InvalidValue
from graphql_api.model import EntitySpec, encode_record
from graphql_api.ops.loader import LINE_RETRIES, digest_before, lock_for_writing, save_progress
from graphql_api.ops.record_lines import json_text, record_line, record_values
from graphql_api.query import MAX_LIMIT, SearchRequest
from graphql_api.query.execution import Page
from graphql_api.storage import Item
from graphql_api.writes import unknown_attributes

Format = Literal["jsonl", "csv"]


@dataclass(frozen=True, slots=True)
class ExportProgress:
    """Progress of an export. The records of all pages before `token` are in the first `offset` bytes of the file."""

    search: str
    """digest of what is exported, which identifies the export"""
    tail: str = ""
    """digest of the text before `offset`, which detects changes of the file"""
    offset: int = 0
    records: int = 0
    token: str | None = None
    left_out: Sequence[str] = ()
    """stored attributes that the catalog does not declare, and lines therefore lack"""


ShowProgress = Callable[[ExportProgress], None]


def every_record(entity: EntitySpec) -> SearchRequest:
    """Return the search for all records of an entity, in the order of their keys."""
    return SearchRequest(entity.name, "by_id", all_ids=True, consistent=True)


@dataclass(frozen=True)
class Exporter:
    """Exports the records that a search finds."""

    db: Database
    request: SearchRequest
    format: Format = "jsonl"
    show: ShowProgress = field(default=lambda _: None)

    async def write_to(self, out: BinaryIO) -> ExportProgress:
        """Write all records to a stream."""
        progress = ExportProgress("")
        async for text, position in self._pages(progress):
            out.write(text)
            progress = position
        out.flush()
        return progress

    async def write_file(self, path: Path, source: str, *, restart: bool = False) -> ExportProgress:
        """Write all records to a file, or continue an interrupted export of the same search from the same source.

        `<file>.progress` exists while the export runs. With `restart`, an existing file is overwritten.
        """
        progress_path = path.with_name(f"{path.name}.progress")
        search = blake2b(f"{source} {self.format} {self.request!r}".encode(), digest_size=16).hexdigest()
        with path.open("ab+") as file:
            lock_for_writing(file, path)
            beginning = ExportProgress(search, digest_before(file, 0))
            progress = beginning if restart else _resumed(file, path, progress_path, beginning)
            save_progress(asdict(progress), progress_path)  # From now on, the file is that of this export.
            file.truncate(progress.offset)
            async for text, position in self._pages(progress):
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                progress = replace(position, tail=digest_before(file, position.offset))
                save_progress(asdict(progress), progress_path)
        progress_path.unlink(missing_ok=True)
        return progress

    # --- pages -------------------------------------------------------------------------------------------------

    async def _pages(self, progress: ExportProgress) -> AsyncIterator[tuple[bytes, ExportProgress]]:
        """Yield the text of each further page, and the progress after it."""
        entity, is_first = self.db.effective_catalog.entity(self.request.entity), not progress.offset
        text = _csv_text([_columns(entity)]) if self.format == "csv" and is_first else b""
        while is_first or progress.token is not None:
            page = await self._read(progress.token)
            items = [*_stored_records(entity, page)]
            text += self._text(entity, items)
            left_out = {name for item in items for name in unknown_attributes(entity, item)}
            progress = replace(
                progress,
                offset=progress.offset + len(text),
                records=progress.records + len(items),
                token=page.next_token,
                left_out=sorted(left_out.union(progress.left_out)),
            )
            yield text, progress
            self.show(progress)
            text, is_first = b"", False

    async def _read(self, token: str | None) -> Page[Any]:
        limit = None if self.request.order_by is not None else MAX_LIMIT
        return await LINE_RETRIES.run(partial(self.db.page, replace(self.request, limit=limit, next_token=token)))

    def _text(self, entity: EntitySpec, items: Iterable[Item]) -> bytes:
        if self.format == "csv":
            return _csv_text(_row(entity, item) for item in items)
        return b"".join(record_line(entity, item) for item in items)


def _stored_records(entity: EntitySpec, page: Page[Any]) -> Iterator[Item]:
    stored = page.stored_records
    if stored is not None:
        yield from stored.items
    else:
        for record in page.items:
            yield encode_record(entity, record)


def _resumed(file: BinaryIO, path: Path, progress_path: Path, beginning: ExportProgress) -> ExportProgress:
    """Return the progress of an interrupted export of this file, or the beginning. Refuse other files that exist."""
    if not progress_path.exists():
        if file.seek(0, os.SEEK_END):
            raise InvalidValue(f"{path} exists already: name another file, or overwrite it with --restart.")
        return beginning
    saved = ExportProgress(**json.loads(progress_path.read_bytes()))
    if saved.search != beginning.search:
        raise InvalidValue(f"{progress_path} belongs to another export of {path}: finish it, or begin with --restart.")
    if saved.tail != digest_before(file, saved.offset):
        raise InvalidValue(f"{path} was changed since its export was interrupted: begin again with --restart.")
    return saved


# --- CSV -------------------------------------------------------------------------------------------------------


def _columns(entity: EntitySpec) -> list[str]:
    return [part.stored for part in entity.properties.values() if part.function is None]


def _row(entity: EntitySpec, item: Item) -> list[str]:
    """Return the cells of a record: text as it is, all other values as JSON, and nothing for null."""
    values = record_values(entity, item)
    return [_cell(values.get(name)) for name in _columns(entity)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value).decode()


def _csv_text(rows: Iterable[Sequence[str]]) -> bytes:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
