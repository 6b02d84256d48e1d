"""Loads records from JSON lines: in batches, in flat memory, and from where it stopped when it is started again."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from graphql_api.clock import system_clock
from graphql_api.codecs import shown
from graphql_api.errors import InvalidRecord, InvalidValue, ShardQLError, UnknownArgument, about, nearest
from graphql_api.model import Entity, EntitySpec
from graphql_api.writes import FIRST_VERSION, moment

if sys.platform != "win32":
    import fcntl

BATCH = 1000
BATCH_BYTES = 8 * 2**20
"""of lines in a batch: a batch of long ones is written before it has all its records"""
MAX_LINE_LENGTH = 4 * 2**20
"""bytes; a record of 400 KB fits even if every character of it is escaped"""
RETRY_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0)
MAX_EXPONENT = 400
"""of a number; beyond it lies nothing that can be stored, and making an int of it would take for ever"""
_HEAD_BYTES = 4096
NOTHING: Mapping[str, Any] = {}

PutMany = Callable[[Sequence[Entity]], Awaitable[Sequence[ShardQLError | None]]]
"""writes records each by itself and tells for each whether it failed"""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load has come. Everything up to `offset` is written or rejected."""

    head: str
    """digest of how the file begins and where it goes, to know it again"""
    tail: str = ""
    """digest of what stands in front of `offset`: another one, if the file was changed"""
    offset: int = 0
    lines: int = 0
    written: int = 0
    rejected: int = 0
    rejects_bytes: int = 0
    made: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """ids of lines behind `offset` that lack them, by number: they may be written already, and are not made anew"""


@dataclass(frozen=True, slots=True)
class _Batch:
    offset: int
    line: int
    records: list[Entity] = field(default_factory=list)
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    rejects: list[tuple[int, bytes, str]] = field(default_factory=list)
    made: dict[str, Mapping[str, Any]] = field(default_factory=dict)


_Writing = tuple[asyncio.Task[list[ShardQLError | None]], _Batch]


async def load_lines(
    put_many: PutMany,
    entity: EntitySpec,
    path: Path,
    *,
    show: Callable[[LoadProgress], None] = lambda _: None,
    batch: int = BATCH,
    into: str = "",
    resume: bool = True,
    new: bool = False,
) -> LoadProgress:
    """Writes every line of a file as a record of the entity, under stored names.

    A line that cannot be a record goes to `<file>.rejected` with the reason. `<file>.progress` is kept while the load
    runs: one that was stopped goes on behind the last batch that the store acknowledged, if file, entity and `into`
    (the name of the store) are the same. Without `resume` it starts anew. `new`: the records are only now created.
    """
    progress_path, rejects_path = _progress_of(path), path.with_name(f"{path.name}.rejected")
    with path.open("rb") as lines, rejects_path.open("ab") as rejects:
        _refuse_others(rejects, path)
        kept = _kept(progress_path) if resume else None
        progress = _begin(lines, rejects, kept, f"{entity.name} {into}")
        show(progress)
        writing: _Writing | None = None
        try:
            # The next batch is read while the store writes the one before it.
            for now in _batches(entity, lines, progress, batch, new=new):
                if writing is not None:
                    progress = await _settle(writing, progress, rejects, path)
                    show(progress)
                if now.made:
                    progress = replace(progress, made={**progress.made, **now.made})
                    _keep(progress, progress_path)
                writing = asyncio.create_task(put_patiently(put_many, now.records)), now
                await asyncio.sleep(0)
            if writing is not None:
                progress = await _settle(writing, progress, rejects, path)
                show(progress)
        finally:
            if writing is not None and not writing[0].done():
                writing[0].cancel()
                await asyncio.wait([writing[0]])
    progress_path.unlink(missing_ok=True)
    if not progress.rejects_bytes:
        rejects_path.unlink()
    return progress


# --- reading ---------------------------------------------------------------------------------------------------


def _refuse_others(rejects: BinaryIO, path: Path) -> None:
    """Keeps everybody else from loading the same file meanwhile, until `rejects` is closed.

    Else what each of them rejects, and how far it has come, would be overwritten by the other.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(rejects, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise InvalidValue(
                f"{path} is just being loaded by another process. Wait for it, or load a copy of the file.",
                argument="file",
            ) from problem
        except OSError:  # There are no locks on this file system.
            return


def _begin(lines: BinaryIO, rejects: BinaryIO, kept: LoadProgress | None, target: str) -> LoadProgress:
    """Goes to where an earlier load of the same file stopped, or to its beginning."""
    head = blake2b(lines.read(_HEAD_BYTES), digest_size=16, key=blake2b(target.encode()).digest()).hexdigest()
    is_the_same = kept is not None and kept.head == head and kept.tail == _digest_before(lines, kept.offset)
    progress = kept if kept is not None and is_the_same else LoadProgress(head, _digest_before(lines, 0))
    lines.seek(progress.offset)
    # What was rejected behind that place will be rejected again.
    if rejects.seek(0, os.SEEK_END) > progress.rejects_bytes:
        rejects.truncate(progress.rejects_bytes)
        rejects.seek(0, os.SEEK_END)
    return progress


def _digest_before(lines: BinaryIO, offset: int) -> str:
    """What the lines before a place end with; another one, if the file has none so far behind its beginning."""
    begins = max(0, offset - _HEAD_BYTES)
    lines.seek(begins)
    text = lines.read(offset - begins)
    return blake2b(text, digest_size=16).hexdigest() if begins + len(text) == offset else ""


def _kept(progress_path: Path) -> LoadProgress | None:
    try:
        return LoadProgress(**json.loads(progress_path.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Each line and its size; of one that is too long only the beginning."""
    while text := file.readline(MAX_LINE_LENGTH + 1):
        size = len(text)
        while size > MAX_LINE_LENGTH and not text.endswith(b"\n") and (rest := file.readline(MAX_LINE_LENGTH)):
            size += len(rest)
            if rest.endswith(b"\n"):
                break
        yield text, size


def _batches(entity: EntitySpec, lines: BinaryIO, progress: LoadProgress, size: int, *, new: bool) -> Iterator[_Batch]:
    names = {part.stored: part.name for part in entity.properties.values()}
    line, offset = progress.lines, progress.offset
    now, held = _Batch(offset, line), 0
    for text, length in _lines(lines):
        line, offset, held = line + 1, offset + length, held + len(text)
        if text.strip():
            try:
                made = progress.made.get(str(line), NOTHING)
                record = _record(entity, names, text, made, new=new)
                made = made or _made_ids(entity, record)
                if made:
                    now.made[str(line)] = made
                now.records.append(record)
                now.lines.append((line, text))
            except ShardQLError as problem:
                now.rejects.append((line, text, problem.message))
        if len(now.records) + len(now.rejects) >= size or held >= BATCH_BYTES:
            yield replace(now, offset=offset, line=line)
            now, held = _Batch(offset, line), 0
    yield replace(now, offset=offset, line=line)


def read_records(entity: EntitySpec, path: Path, most: int) -> Iterator[Entity]:
    """The first records of a file of JSON lines; the first line that is none is an error."""
    names = {part.stored: part.name for part in entity.properties.values()}
    with path.open("rb") as lines:
        filled = ((number, text) for number, (text, _) in enumerate(_lines(lines), 1) if text.strip())
        for number, text in islice(filled, most):
            with about(f"{path}, line {number}"):
                yield _record(entity, names, text)


def _record(
    entity: EntitySpec, names: dict[str, str], text: bytes, made: Mapping[str, Any] = NOTHING, *, new: bool = False
) -> Entity:
    """The record that a line describes; as set counts in it what the line says, or what was `made` for it before."""
    if len(text) > MAX_LINE_LENGTH:
        raise InvalidRecord(f"The line has more than {MAX_LINE_LENGTH:,} bytes, and a record at most 400 KB.")
    try:
        # Decimal keeps all digits; pydantic makes of it what the property is.
        given = json.loads(text.decode("utf-8-sig"), parse_float=_number, parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        raise InvalidRecord(f"No JSON: {problem}") from problem
    if not isinstance(given, dict):
        raise InvalidRecord(f"A record is a JSON object, not {type(given).__name__}.")
    values: dict[str, Any] = {}
    for stored, value in {**made, **given}.items():
        if stored not in names:
            raise UnknownArgument(f"{entity.type_name} has no property {stored!r}.{nearest(stored, names)}")
        values[names[stored]] = value
    set_by_servers = _set_by_servers(entity, new=new)
    try:
        record = entity.model.model_validate(set_by_servers | values)
    except ValidationError as problem:
        stored_names = {name: stored for stored, name in names.items()}
        raise InvalidRecord("; ".join(_reasons(problem, stored_names))) from problem
    record.model_fields_set.difference_update(set_by_servers.keys() - values.keys())
    return record


def _set_by_servers(entity: EntitySpec, *, new: bool) -> dict[str, Any]:
    """What a record has that was just written, for lines that do not say so themselves."""
    values: dict[str, Any] = {}
    if new and entity.created is not None:
        values[entity.created.name] = moment(entity.created, system_clock())
    if entity.version is not None:
        values[entity.version.name] = FIRST_VERSION
    if entity.updated is not None:
        values[entity.updated.name] = moment(entity.updated, system_clock())
    return values


def _made_ids(entity: EntitySpec, record: Entity) -> Mapping[str, Any]:
    """What a record has for an id that its line lacks, under stored names."""
    lacking = {part.name: part.stored for part in entity.primary if part.name not in record.model_fields_set}
    if not lacking:
        return NOTHING
    return {lacking[name]: value for name, value in record.model_dump(mode="json", include=set(lacking)).items()}


def _reasons(problem: ValidationError, stored_names: dict[str, str]) -> Iterator[str]:
    """What is wrong with a record, in the names that its line uses."""
    for error in problem.errors(include_url=False, include_input=False, include_context=False):
        first, *rest = map(str, error["loc"]) if error["loc"] else ("record",)
        yield f"{'.'.join([stored_names.get(first, first), *rest])}: {error['msg']}"


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = None
    if number is None or abs(number.adjusted()) > MAX_EXPONENT:
        raise ValueError(f"{shown(text)} is beyond all numbers that can be stored")
    return number


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


# --- writing ---------------------------------------------------------------------------------------------------


async def put_patiently(put_many: PutMany, records: Sequence[Entity]) -> list[ShardQLError | None]:
    """Writes a batch; what the store could not take for the moment is tried again, in ever longer intervals."""
    results = await _attempt(put_many, records) if records else []
    for seconds in RETRY_SECONDS:
        again = [at for at, problem in enumerate(results) if problem is not None and problem.retryable]
        if not again:
            break
        await asyncio.sleep(seconds)
        for at, problem in zip(again, await _attempt(put_many, [records[at] for at in again]), strict=True):
            results[at] = problem
    return results


async def _attempt(put_many: PutMany, records: Sequence[Entity]) -> list[ShardQLError | None]:
    """Writes a batch once; what fails as a whole for the moment has failed for each record."""
    try:
        return [*await put_many(records)]
    except ShardQLError as problem:
        if not problem.retryable:
            raise
        return [problem] * len(records)


async def _settle(
    writing: _Writing,
    progress: LoadProgress,
    rejects: BinaryIO,
    path: Path,
) -> LoadProgress:
    """Waits for a batch, keeps what was rejected, and only then counts the batch as done."""
    task, batch = writing
    found = list(batch.rejects)
    for (line, text), problem in zip(batch.lines, await task, strict=True):
        if problem is not None and problem.retryable:
            raise problem
        if problem is not None:
            found.append((line, text, problem.message))
    for line, text, reason in sorted(found):
        kept = {"line": line, "reason": reason, "record": text.decode(errors="replace").rstrip("\r\n")}
        # A lone surrogate in a reason becomes the JSON escape that it was.
        rejects.write(json.dumps(kept, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")
    rejects.flush()
    os.fsync(rejects.fileno())
    with path.open("rb") as lines:
        tail = _digest_before(lines, batch.offset)
    done = replace(
        progress,
        tail=tail,
        offset=batch.offset,
        lines=batch.line,
        written=progress.written + len(batch.lines) + len(batch.rejects) - len(found),
        rejected=progress.rejected + len(found),
        rejects_bytes=rejects.tell(),
        made={number: ids for number, ids in progress.made.items() if int(number) > batch.line},
    )
    _keep(done, _progress_of(path))
    return done


def _progress_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.progress")


def _keep(progress: LoadProgress, progress_path: Path) -> None:
    scratch = progress_path.with_name(f"{progress_path.name}.new")
    scratch.write_text(json.dumps(asdict(progress)))
    scratch.replace(progress_path)
