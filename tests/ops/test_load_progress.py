"""Loading records from JSON lines: batches, resuming after a stop, retries and memory use."""

import asyncio
import json
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Id, generated
from graphql_api.errors import InvalidValue, ShardQLError, StoreUnavailable, Throttled, WrongTable
from graphql_api.model.entity import Entity
from graphql_api.ops import loader as module
from graphql_api.ops.line_parser import LineParser
from graphql_api.ops.loader import LoadProgress, load_lines
from tests.ops.payments import PAYMENT, Payment, RecordingWriter, line, rejects_of
from tests.support.run_depth import depth


class Ticket(Entity):
    """An entity with a generated id."""

    ticket_id: Id[str] = generated()
    name: str


TICKET = Catalog(Ticket).entity(Ticket)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The load file of a test."""
    return tmp_path / "payments.jsonl"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables the pauses between retries."""
    monkeypatch.setattr(module, "LINE_RETRIES", replace(module.LINE_RETRIES, max_attempts=4, max_backoff_seconds=0))


# --- batches and progress ----------------------------------------------------------------------------------------


async def test_batches(file: Path) -> None:
    """Records are written in order, in batches of the given size. Rejected lines count for the batch size."""
    file.write_text("\n".join([line(1), line(2), "x", line(3), line(4), line(5), line(6)]), encoding="utf-8")
    writer = RecordingWriter()
    shown: list[LoadProgress] = []
    await load_lines(writer.put_many, PAYMENT, file, batch=3, show=shown.append)
    assert writer.batches == [["p1", "p2"], ["p3", "p4", "p5"], ["p6"]]
    assert [(progress.written, progress.rejected, progress.lines) for progress in shown] == [
        (0, 0, 0),
        (2, 1, 3),
        (5, 1, 6),
        (6, 1, 7),
    ]
    assert shown[-1].offset == file.stat().st_size


async def test_long_lines_make_small_batches(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch with long lines ends early."""
    monkeypatch.setattr(module, "BATCH_BYTES", 50)
    file.write_text("\n".join(line(number) for number in range(7)), encoding="utf-8")
    writer = RecordingWriter()
    await load_lines(writer.put_many, PAYMENT, file)
    assert [len(batch) for batch in writer.batches] == [3, 3, 1]


class Stopped(Exception):
    """Interrupts a load."""


def stop_at(write: int) -> Callable[[int], None]:
    """Fails the write with this number."""

    def before(number: int) -> None:
        if number == write:
            raise Stopped

    return before


async def interrupted(file: Path, writer: RecordingWriter, batch: int = 4) -> None:
    """Runs a load that is interrupted."""
    with pytest.raises(Stopped):
        await load_lines(writer.put_many, PAYMENT, file, batch=batch)


def mixed_lines(count: int) -> Iterable[str]:
    """Lines of which every third is rejected, within batches and at their edges."""
    return (line(number) if number % 3 else f"bad {number}" for number in range(count))


@pytest.mark.parametrize("write", range(1, 8))
async def test_stopped_load_is_resumed(file: Path, write: int) -> None:
    """A load that was stopped at any write and resumed has the same result as an uninterrupted load."""
    file.write_text("\n".join(mixed_lines(26)), encoding="utf-8")
    whole = RecordingWriter()
    expected = await load_lines(whole.put_many, PAYMENT, file, batch=4)
    expected_rejects = rejects_of(file)
    writer = RecordingWriter(before_write=stop_at(write))
    await interrupted(file, writer)
    shown: list[LoadProgress] = []
    done = await load_lines(writer.put_many, PAYMENT, file, batch=4, show=shown.append)
    assert writer.records == whole.records
    assert done == expected
    assert rejects_of(file) == expected_rejects
    assert shown[0].lines == (write - 1) * 4


async def test_load_is_stopped_repeatedly(file: Path) -> None:
    """A load that is stopped at every second write completes, and lists no rejected line twice."""
    file.write_text("\n".join(mixed_lines(41)), encoding="utf-8")
    writer = RecordingWriter()
    for _ in range(10):
        writer.before_write = stop_at(len(writer.batches) + 2)
        await interrupted(file, writer)
    writer.before_write = lambda _: None
    done = await load_lines(writer.put_many, PAYMENT, file, batch=4)
    assert (done.written, done.rejected) == (27, 14)
    assert len(writer.records) == 27
    assert [kept["record"] for kept in rejects_of(file)] == [f"bad {number}" for number in range(0, 41, 3)]


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 2, 3), (3, 7, 1)])
async def test_generated_ids_are_stable(file: Path, sizes: Sequence[int]) -> None:
    """A generated id of a record stays the same if the load is killed and resumed."""
    lines = [json.dumps({"name": f"n{at}", **({"ticketId": f"t{at}"} if at % 3 == 0 else {})}) for at in range(12)]
    file.write_text("\n".join([*lines, "bad"]), encoding="utf-8")
    stored: dict[str, str] = {}
    writes_left = 0

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        nonlocal writes_left
        stored.update({one.ticket_id: one.name for one in records if isinstance(one, Ticket)})
        writes_left -= 1
        if not writes_left:
            raise Stopped
        return [None] * len(records)

    for size, writes in zip(sizes, (1, 2, 2), strict=True):
        writes_left = writes
        with pytest.raises(Stopped):
            await load_lines(put_many, TICKET, file, batch=size)
    done = await load_lines(put_many, TICKET, file, batch=5)
    assert (done.written, done.rejected, len(stored)) == (12, 1, 12)
    assert sorted(stored.values()) == sorted(f"n{at}" for at in range(12))
    assert {f"t{at}" for at in range(0, 12, 3)} < stored.keys()


@pytest.mark.parametrize("size", [4, 2], ids=["rejects-follow-at-once", "rejects-follow-later"])
async def test_stopped_before_progress_is_saved(file: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Rejected lines after the last saved progress are listed once, even if the resumed load has other batches."""
    texts = [*mixed_lines(4), line(101), line(102), line(103), "bad in the second batch", *map(line, range(200, 210))]
    file.write_text("\n".join(texts), encoding="utf-8")
    replacing = Path.replace

    async def stop_after(lines: int) -> None:
        def replace(self: Path, target: Path) -> Path:
            if json.loads(self.read_bytes())["lines"] > lines:
                raise Stopped
            return replacing(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", replace)
            await interrupted(file, RecordingWriter())
        assert len(rejects_of(file)) == 3

    await stop_after(lines=4)
    await interrupted(file, RecordingWriter(before_write=stop_at(2)), size)
    await stop_after(lines=4 + size)
    writer = RecordingWriter()
    done = await load_lines(writer.put_many, PAYMENT, file, batch=4)
    assert [kept["record"] for kept in rejects_of(file)] == ["bad 0", "bad 3", "bad in the second batch"]
    assert (done.written, done.rejected) == (len(texts) - 3, 3)


async def test_cancelled_load_cancels_its_write(file: Path) -> None:
    """Cancelling a load cancels its write. A resumed load continues after the last acknowledged write."""
    file.write_text("\n".join(map(line, range(20))), encoding="utf-8")
    writing = asyncio.Event()

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        writing.set()
        await asyncio.Event().wait()
        return []

    loading = asyncio.create_task(load_lines(put_many, PAYMENT, file, batch=4))
    await writing.wait()
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert asyncio.all_tasks() == {asyncio.current_task()}
    writer = RecordingWriter()
    assert (await load_lines(writer.put_many, PAYMENT, file)).written == 20


async def test_concurrent_load_of_one_file_is_refused(file: Path) -> None:
    """A second load of a file is refused while the file is being loaded, and does not affect the first load."""
    file.write_text("\n".join(["bad", *map(line, range(8))]), encoding="utf-8")
    writer, other = RecordingWriter(), RecordingWriter()
    refused: list[str] = []

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        with pytest.raises(InvalidValue) as error:
            await load_lines(other.put_many, PAYMENT, file, into="sqlite:///other.db")
        refused.append(error.value.message)
        return await writer.put_many(records)

    done = await load_lines(put_many, PAYMENT, file, batch=4)
    assert (done.written, done.rejected, other.batches) == (8, 1, [])
    assert "is being loaded or exported by another process. Wait for it, or name another file" in refused[0]
    assert [kept["record"] for kept in rejects_of(file)] == ["bad"]
    assert (await load_lines(other.put_many, PAYMENT, file)).written == 8


async def test_exception_cancels_the_write(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any exception during a load cancels the write in progress."""
    file.write_text("\n".join(map(line, range(20))), encoding="utf-8")
    reading = LineParser.parse

    def parse(*arguments: Any) -> Entity:
        if f"{line(6)}\n".encode() in arguments:
            raise Stopped
        return reading(*arguments)

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(LineParser, "parse", parse)
    with pytest.raises(Stopped):
        await load_lines(put_many, PAYMENT, file, batch=4)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_progress_is_saved_for_each_store(file: Path) -> None:
    """Progress is saved for each store: a load into another store starts from the beginning."""
    file.write_text("\n".join(map(line, range(12))), encoding="utf-8")
    with pytest.raises(Stopped):
        await load_lines(
            RecordingWriter(before_write=stop_at(3)).put_many, PAYMENT, file, batch=4, into="sqlite:///one.db"
        )
    writer = RecordingWriter()
    await load_lines(writer.put_many, PAYMENT, file, batch=4, into="sqlite:///other.db")
    assert len(writer.records) == 12


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_text("\n".join(line(number, paid=1) for number in range(12)), encoding="utf-8"),
        lambda file: file.write_text("\n".join(map(line, range(250))), encoding="utf-8"),
        lambda file: file.write_text(file.read_text(encoding="utf-8").replace("p300", "p30000"), encoding="utf-8"),
        lambda file: file.with_name(f"{file.name}.progress").write_bytes(b"\x00"),
        lambda file: file.with_name(f"{file.name}.progress").write_text("[1]"),
    ],
    ids=["another-file", "shorter-file", "mended-file", "torn-progress", "foreign-progress"],
)
async def test_invalid_progress_is_ignored(file: Path, change: Callable[[Path], object]) -> None:
    """Progress of another file, past the end of the file, or unreadable is ignored."""
    file.write_text("\n".join(map(line, range(600))), encoding="utf-8")
    await interrupted(file, RecordingWriter(before_write=stop_at(3)), batch=200)
    change(file)
    writer = RecordingWriter()
    done = await load_lines(writer.put_many, PAYMENT, file)
    assert done.written == len(writer.records) == len(file.read_text(encoding="utf-8").splitlines())


async def test_load_without_resume(file: Path) -> None:
    """With `resume=False`, a stopped load starts from the beginning."""
    file.write_text("\n".join(map(line, range(12))), encoding="utf-8")
    await interrupted(file, RecordingWriter(before_write=stop_at(3)))
    writer = RecordingWriter()
    await load_lines(writer.put_many, PAYMENT, file, resume=False)
    assert len(writer.records) == 12


# --- failing stores --------------------------------------------------------------------------------------------


async def test_throttled_records_are_written_again(file: Path) -> None:
    """Throttled records are written again, without the others."""
    file.write_text("\n".join(map(line, range(6))), encoding="utf-8")
    remaining_failures = {"p1": 2, "p4": 1}

    def answer(payment: Payment) -> ShardQLError | None:
        if remaining_failures.get(payment.payment_id, 0):
            remaining_failures[payment.payment_id] -= 1
            return Throttled("Slowly.")
        return None

    writer = RecordingWriter(result_for=answer)
    done = await load_lines(writer.put_many, PAYMENT, file)
    assert writer.batches[1:] == [["p1", "p4"], ["p1"]]
    assert (done.written, done.rejected, len(writer.records)) == (6, 0, 6)


async def test_failed_write_is_retried(file: Path) -> None:
    """A write that fails as a whole with a retryable error is retried."""
    file.write_text("\n".join(map(line, range(6))), encoding="utf-8")

    def before(number: int) -> None:
        if number < 3:
            raise StoreUnavailable("Asleep.")

    writer = RecordingWriter(before_write=before)
    done = await load_lines(writer.put_many, PAYMENT, file)
    assert (done.written, len(writer.batches), len(writer.records)) == (6, 3, 6)


async def test_persistent_throttling_stops_the_load(file: Path) -> None:
    """A store that stays throttled stops the load. No line is rejected, and the load can be resumed."""
    file.write_text("\n".join(map(line, range(6))), encoding="utf-8")
    throttled = RecordingWriter(result_for=lambda payment: Throttled("Slowly.") if payment.payment_id == "p4" else None)
    with pytest.raises(Throttled):
        await load_lines(throttled.put_many, PAYMENT, file, batch=3)
    assert len(throttled.batches) == 5
    assert rejects_of(file) == []
    writer = RecordingWriter()
    await load_lines(writer.put_many, PAYMENT, file, batch=3)
    assert [*writer.records] == ["p3", "p4", "p5"]


async def test_permanent_error_is_not_retried(file: Path) -> None:
    """A permanent error stops the load without a retry."""
    file.write_text(line(1), encoding="utf-8")

    def before(number: int) -> None:
        raise WrongTable("Of another format.")

    writer = RecordingWriter(before_write=before)
    with pytest.raises(WrongTable):
        await load_lines(writer.put_many, PAYMENT, file)
    assert len(writer.batches) == 1


# --- memory ----------------------------------------------------------------------------------------------------


async def peak_memory(file: Path, count: int) -> int:
    """The peak memory of a load of this many lines, in bytes."""

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        return [None] * len(records)

    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(text + "\n" for text in mixed_lines(count))
    tracemalloc.start()
    try:
        await load_lines(put_many, PAYMENT, file)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_memory_use_is_constant(file: Path) -> None:
    """Loading three times as many lines needs no more memory."""
    count = depth(quick=4_000, deep=20_000)
    await peak_memory(file, 2_000)  # allocates what is allocated only once
    small = await peak_memory(file, count)
    large = await peak_memory(file, 3 * count)
    assert large < small * 1.1
