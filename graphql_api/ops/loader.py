"""Loader of JSON lines: batched, with constant memory, and resumable after an interruption."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from graphql_api.errors import InvalidValue, ShardQLError, about
from graphql_api.model import Entity, EntitySpec
from graphql_api.ops.line_parser import NO_IDS, LineParser, read_lines
from graphql_api.runtime import RetryStrategy, without_old_objects

if sys.platform != "win32":
    import fcntl

DEFAULT_BATCH_SIZE = 1000
BATCH_BYTES = 8 * 2**20
"""bytes of lines per batch, so that a batch of long lines is written early"""
LINE_RETRIES = RetryStrategy(max_attempts=6, first_backoff_seconds=0.5, max_backoff_seconds=15.0)
"""of a batch of lines that the store does not write or read"""
_HEAD_BYTES = 4096

PutMany = Callable[[Sequence[Entity]], Awaitable[Sequence[ShardQLError | None]]]
"""writes records independently and returns the error or None of each"""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Progress of a load. Every line before `offset` is written or rejected."""

    head: str
    """digest of the beginning of the file and of the target, which identifies the load"""
    tail: str = ""
    """digest of the text before `offset`, which detects changes of the file"""
    offset: int = 0
    lines: int = 0
    written: int = 0
    rejected: int = 0
    rejects_bytes: int = 0
    made: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """generated ids of lines after `offset`, by line number; reused because such lines may be written already"""


@dataclass(frozen=True, slots=True)
class _Batch:
    offset: int
    line: int
    records: list[Entity] = field(default_factory=list)
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    rejects: list[tuple[int, bytes, str]] = field(default_factory=list)
    generated_ids: dict[str, Mapping[str, Any]] = field(default_factory=dict)


_PendingWrite = tuple[asyncio.Task[list[ShardQLError | None]], _Batch]


async def load_lines(
    put_many: PutMany,
    entity: EntitySpec,
    path: Path,
    *,
    show: Callable[[LoadProgress], None] = lambda _: None,
    batch: int = DEFAULT_BATCH_SIZE,
    into: str = "",
    resume: bool = True,
    new: bool = False,
) -> LoadProgress:
    """Write every line of a file as a record of the entity. Lines have stored names.

    A line that is not a valid record is written to `<file>.rejected` with the reason. `<file>.progress` exists while
    the load runs. An interrupted load continues after the last acknowledged batch if file, entity and `into`, the
    name of the store, are the same. Without `resume`, it starts from the beginning. With `new`, records without a
    creation time get the current time.
    """
    progress_path, rejects_path = _progress_path(path), path.with_name(f"{path.name}.rejected")
    with path.open("rb") as lines, rejects_path.open("ab") as rejects, without_old_objects():
        lock_for_writing(rejects, path)
        progress = _open_progress(lines, rejects, progress_path if resume else None, f"{entity.name} {into}")
        show(progress)
        pending_write: _PendingWrite | None = None
        try:
            # The next batch is read while the store writes the previous one.
            for next_batch in chain(_read_batches(entity, lines, progress, batch, new=new), [None]):
                if pending_write is not None:
                    progress = await _finish_batch(pending_write, progress, rejects, path)
                    show(progress)
                if next_batch is None:
                    break
                if next_batch.generated_ids:
                    progress = replace(progress, made={**progress.made, **next_batch.generated_ids})
                    save_progress(asdict(progress), progress_path)
                pending_write = asyncio.create_task(put_with_retries(put_many, next_batch.records)), next_batch
                await asyncio.sleep(0)
        finally:
            if pending_write is not None and not pending_write[0].done():
                pending_write[0].cancel()
                await asyncio.wait([pending_write[0]])
    progress_path.unlink(missing_ok=True)
    if not progress.rejects_bytes:
        rejects_path.unlink()
    return progress


# --- reading ---------------------------------------------------------------------------------------------------


def lock_for_writing(written: BinaryIO, path: Path) -> None:
    """Lock a file against concurrent loads, or exports, until `written` is closed.

    Concurrent processes would overwrite the files and the progress of each other.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(written, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise InvalidValue(
                f"{path} is being loaded or exported by another process. Wait for it, or name another file.",
                argument="file",
            ) from problem
        except OSError:  # The file system does not support locks.
            return


def _open_progress(lines: BinaryIO, rejects: BinaryIO, saved_in: Path | None, target: str) -> LoadProgress:
    """Seek to the position where an earlier load of the same file stopped, or to its beginning."""
    head = blake2b(lines.read(_HEAD_BYTES), digest_size=16, key=blake2b(target.encode()).digest()).hexdigest()
    progress = LoadProgress(head, digest_before(lines, 0))
    with suppress(FileNotFoundError, ValueError, TypeError):
        saved = LoadProgress(**json.loads(saved_in.read_bytes())) if saved_in is not None else progress
        if saved.head == head and saved.tail == digest_before(lines, saved.offset):
            progress = saved
    lines.seek(progress.offset)
    # Lines after the position will be rejected again.
    if rejects.seek(0, os.SEEK_END) > progress.rejects_bytes:
        rejects.truncate(progress.rejects_bytes)
        rejects.seek(0, os.SEEK_END)
    return progress


def digest_before(lines: BinaryIO, offset: int) -> str:
    """Return a digest of the text before a position, or an empty text if the file is shorter."""
    start = max(0, offset - _HEAD_BYTES)
    lines.seek(start)
    text = lines.read(offset - start)
    return blake2b(text, digest_size=16).hexdigest() if start + len(text) == offset else ""


def _read_batches(
    entity: EntitySpec, lines: BinaryIO, progress: LoadProgress, size: int, *, new: bool
) -> Iterator[_Batch]:
    parser = LineParser(entity, new=new)
    line, offset = progress.lines, progress.offset
    batch, batch_bytes = _Batch(offset, line), 0
    for text, length in read_lines(lines):
        line, offset, batch_bytes = line + 1, offset + length, batch_bytes + len(text)
        if text.strip():
            try:
                generated_ids = progress.made.get(str(line), NO_IDS)
                record = parser.parse(text, generated_ids)
                generated_ids = generated_ids or parser.find_generated_ids(record)
                if generated_ids:
                    batch.generated_ids[str(line)] = generated_ids
                batch.records.append(record)
                batch.lines.append((line, text))
            except ShardQLError as problem:
                batch.rejects.append((line, text, problem.message))
        if len(batch.records) + len(batch.rejects) >= size or batch_bytes >= BATCH_BYTES:
            yield replace(batch, offset=offset, line=line)
            batch, batch_bytes = _Batch(offset, line), 0
    yield replace(batch, offset=offset, line=line)


def read_records(entity: EntitySpec, path: Path, limit: int) -> Iterator[Entity]:
    """Yield the first records of a file of JSON lines. An invalid line is an error."""
    parser = LineParser(entity)
    with path.open("rb") as lines:
        non_empty = ((number, text) for number, (text, _) in enumerate(read_lines(lines), 1) if text.strip())
        for number, text in islice(non_empty, limit):
            with about(f"{path}, line {number}"):
                yield parser.parse(text)


# --- writing ---------------------------------------------------------------------------------------------------


async def put_with_retries(put_many: PutMany, records: Sequence[Entity]) -> list[ShardQLError | None]:
    """Write a batch. Retry records with retryable errors."""
    results: list[ShardQLError | None] = [None] * len(records)
    pending = [*range(len(records))]
    retries = LINE_RETRIES.start()
    while pending:
        try:
            problems = await put_many([records[index] for index in pending])
        except ShardQLError as error:  # A retryable error of the whole batch counts as the error of each record.
            if not error.retryable:
                raise
            problems = [error] * len(pending)
        for index, problem in zip(pending, problems, strict=True):
            results[index] = problem
        pending = [index for index in pending if (problem := results[index]) is not None and problem.retryable]
        if pending and not await retries.pause():
            break
    return results


async def _finish_batch(
    pending_write: _PendingWrite, progress: LoadProgress, rejects: BinaryIO, path: Path
) -> LoadProgress:
    """Wait for a batch, save its rejects, and then save the progress."""
    task, batch = pending_write
    rejected = list(batch.rejects)
    for (line, text), problem in zip(batch.lines, await task, strict=True):
        if problem is not None and problem.retryable:
            raise problem
        if problem is not None:
            rejected.append((line, text, problem.message))
    for line, text, reason in sorted(rejected):
        saved = {"line": line, "reason": reason, "record": text.decode(errors="replace").rstrip("\r\n")}
        # An unpaired surrogate in a reason is written as a JSON escape.
        rejects.write(json.dumps(saved, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")
    rejects.flush()
    os.fsync(rejects.fileno())
    with path.open("rb") as lines:
        tail = digest_before(lines, batch.offset)
    done = replace(
        progress,
        tail=tail,
        offset=batch.offset,
        lines=batch.line,
        written=progress.written + len(batch.lines) + len(batch.rejects) - len(rejected),
        rejected=progress.rejected + len(rejected),
        rejects_bytes=rejects.tell(),
        made={number: ids for number, ids in progress.made.items() if int(number) > batch.line},
    )
    save_progress(asdict(done), _progress_path(path))
    return done


def _progress_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.progress")


def save_progress(progress: Mapping[str, Any], progress_path: Path) -> None:
    """Replace the saved progress of a load or an export in one step."""
    temporary = progress_path.with_name(f"{progress_path.name}.new")
    temporary.write_text(json.dumps(progress))
    temporary.replace(progress_path)
