"""Loading records from JSON lines: batches, going on after a stop, and a store in trouble."""

import asyncio
import json
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Id, generated
from graphql_api.errors import InvalidValue, ShardQLError, StoreUnavailable, Throttled, WrongTable
from graphql_api.model.entity import Entity
from graphql_api.ops import loader as module
from graphql_api.ops.loader import LoadProgress, load_lines
from tests.depth import depth
from tests.unit.payments import PAYMENT, Payment, Sink, line, rejects_of


class Ticket(Entity):
    """A record that gets an id where none is given."""

    ticket_id: Id[str] = generated()
    name: str


TICKET = Catalog(Ticket).entity(Ticket)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the lines of a test are."""
    return tmp_path / "payments.jsonl"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow each other at once."""
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.0, 0.0, 0.0))


# --- batches and progress --------------------------------------------------------------------------------------


async def test_batches(file: Path) -> None:
    """Records reach the store in order, in batches of the given size; a rejected line takes its place in one."""
    file.write_text("\n".join([line(1), line(2), "x", line(3), line(4), line(5), line(6)]), encoding="utf-8")
    sink = Sink()
    shown: list[LoadProgress] = []
    await load_lines(sink.put_many, PAYMENT, file, batch=3, show=shown.append)
    assert sink.batches == [["p1", "p2"], ["p3", "p4", "p5"], ["p6"]]
    assert [(progress.written, progress.rejected, progress.lines) for progress in shown] == [
        (0, 0, 0),
        (2, 1, 3),
        (5, 1, 6),
        (6, 1, 7),
    ]
    assert shown[-1].offset == file.stat().st_size


async def test_long_lines_make_small_batches(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch ends before its time when its lines are long."""
    monkeypatch.setattr(module, "BATCH_BYTES", 50)
    file.write_text("\n".join(line(number) for number in range(7)), encoding="utf-8")
    sink = Sink()
    await load_lines(sink.put_many, PAYMENT, file)
    assert [len(batch) for batch in sink.batches] == [3, 3, 1]


class Stopped(Exception):
    """What stops a load from outside."""


def stop_at(write: int) -> Callable[[int], None]:
    """Fails one write as a whole."""

    def before(number: int) -> None:
        if number == write:
            raise Stopped

    return before


async def interrupted(file: Path, sink: Sink, batch: int = 4) -> None:
    """A load that is stopped on its way."""
    with pytest.raises(Stopped):
        await load_lines(sink.put_many, PAYMENT, file, batch=batch)


def mixed_lines(count: int) -> Iterable[str]:
    """Lines of which every third is rejected, in the middle of a batch as well as at its edges."""
    return (line(number) if number % 3 else f"bad {number}" for number in range(count))


@pytest.mark.parametrize("write", range(1, 8))
async def test_stopped_load_goes_on(file: Path, write: int) -> None:
    """A load that was stopped at any write ends, when it goes on, as if nothing had happened."""
    file.write_text("\n".join(mixed_lines(26)), encoding="utf-8")
    whole = Sink()
    expected = await load_lines(whole.put_many, PAYMENT, file, batch=4)
    expected_rejects = rejects_of(file)
    sink = Sink(before=stop_at(write))
    await interrupted(file, sink)
    shown: list[LoadProgress] = []
    done = await load_lines(sink.put_many, PAYMENT, file, batch=4, show=shown.append)
    assert sink.records == whole.records
    assert done == expected
    assert rejects_of(file) == expected_rejects
    assert shown[0].lines == (write - 1) * 4


async def test_stopped_time_and_again(file: Path) -> None:
    """A load that is stopped at every second write still ends, and lists no rejected line twice."""
    file.write_text("\n".join(mixed_lines(41)), encoding="utf-8")
    sink = Sink()
    for _ in range(10):
        sink.before = stop_at(len(sink.batches) + 2)
        await interrupted(file, sink)
    sink.before = lambda _: None
    done = await load_lines(sink.put_many, PAYMENT, file, batch=4)
    assert (done.written, done.rejected) == (27, 14)
    assert len(sink.records) == 27
    assert [kept["record"] for kept in rejects_of(file)] == [f"bad {number}" for number in range(0, 41, 3)]


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 2, 3), (3, 7, 1)])
async def test_ids_that_lines_lack_are_made_once(file: Path, sizes: Sequence[int]) -> None:
    """A record whose line lacks an id keeps the one that was made for it when a load goes on after a kill."""
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
async def test_stopped_before_progress_is_kept(file: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Lines that were rejected behind the last kept progress are listed once, in whatever batches they come again."""
    texts = [*mixed_lines(4), line(101), line(102), line(103), "bad in the second batch", *map(line, range(200, 210))]
    file.write_text("\n".join(texts), encoding="utf-8")
    replacing = Path.replace

    async def stopped_behind(lines: int) -> None:
        def replace(self: Path, target: Path) -> Path:
            if json.loads(self.read_bytes())["lines"] > lines:
                raise Stopped
            return replacing(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", replace)
            await interrupted(file, Sink())
        assert len(rejects_of(file)) == 3

    await stopped_behind(lines=4)
    await interrupted(file, Sink(before=stop_at(2)), size)
    await stopped_behind(lines=4 + size)
    sink = Sink()
    done = await load_lines(sink.put_many, PAYMENT, file, batch=4)
    assert [kept["record"] for kept in rejects_of(file)] == ["bad 0", "bad 3", "bad in the second batch"]
    assert (done.written, done.rejected) == (len(texts) - 3, 3)


async def test_cancelled_load_leaves_nothing_running(file: Path) -> None:
    """Cancelling a load cancels its write, and the load goes on later behind what was acknowledged."""
    file.write_text("\n".join(map(line, range(20))), encoding="utf-8")
    stuck = asyncio.Event()

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        stuck.set()
        await asyncio.Event().wait()
        return []

    loading = asyncio.create_task(load_lines(put_many, PAYMENT, file, batch=4))
    await stuck.wait()
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert asyncio.all_tasks() == {asyncio.current_task()}
    sink = Sink()
    assert (await load_lines(sink.put_many, PAYMENT, file)).written == 20


async def test_two_loads_of_one_file(file: Path) -> None:
    """While a file is loaded another load of it is refused, wherever that would go, and spoils nothing of the first."""
    file.write_text("\n".join(["bad", *map(line, range(8))]), encoding="utf-8")
    sink, other = Sink(), Sink()
    refused: list[str] = []

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        with pytest.raises(InvalidValue) as told:
            await load_lines(other.put_many, PAYMENT, file, into="sqlite:///other.db")
        refused.append(told.value.message)
        return await sink.put_many(records)

    done = await load_lines(put_many, PAYMENT, file, batch=4)
    assert (done.written, done.rejected, other.batches) == (8, 1, [])
    assert "is being loaded by another process. Wait for it, or load a copy" in refused[0]
    assert [kept["record"] for kept in rejects_of(file)] == ["bad"]
    assert (await load_lines(other.put_many, PAYMENT, file)).written == 8


async def test_unforeseen_end_leaves_nothing_running(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends a load while the store is writing ends the write, too."""
    file.write_text("\n".join(map(line, range(20))), encoding="utf-8")
    reading = module._parse_record

    def record(*arguments: Any, **more: Any) -> Entity:
        if f"{line(6)}\n".encode() in arguments:
            raise Stopped
        return reading(*arguments, **more)

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(module, "_parse_record", record)
    with pytest.raises(Stopped):
        await load_lines(put_many, PAYMENT, file, batch=4)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_another_store_starts_anew(file: Path) -> None:
    """Progress into one store says nothing about another one."""
    file.write_text("\n".join(map(line, range(12))), encoding="utf-8")
    with pytest.raises(Stopped):
        await load_lines(Sink(before=stop_at(3)).put_many, PAYMENT, file, batch=4, into="sqlite:///one.db")
    sink = Sink()
    await load_lines(sink.put_many, PAYMENT, file, batch=4, into="sqlite:///other.db")
    assert len(sink.records) == 12


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
async def test_progress_that_does_not_fit(file: Path, change: Callable[[Path], object]) -> None:
    """Progress of another file, beyond the file's end or unreadable counts for nothing."""
    file.write_text("\n".join(map(line, range(600))), encoding="utf-8")
    await interrupted(file, Sink(before=stop_at(3)), batch=200)
    change(file)
    sink = Sink()
    done = await load_lines(sink.put_many, PAYMENT, file)
    assert done.written == len(sink.records) == len(file.read_text(encoding="utf-8").splitlines())


async def test_start_over(file: Path) -> None:
    """A stopped load starts over when it is told to."""
    file.write_text("\n".join(map(line, range(12))), encoding="utf-8")
    await interrupted(file, Sink(before=stop_at(3)))
    sink = Sink()
    await load_lines(sink.put_many, PAYMENT, file, resume=False)
    assert len(sink.records) == 12


# --- a store in trouble ----------------------------------------------------------------------------------------


async def test_throttled_records_are_written_again(file: Path) -> None:
    """Records that the store could not take are written again, and only they."""
    file.write_text("\n".join(map(line, range(6))), encoding="utf-8")
    patience = {"p1": 2, "p4": 1}

    def answer(payment: Payment) -> ShardQLError | None:
        if patience.get(payment.payment_id, 0):
            patience[payment.payment_id] -= 1
            return Throttled("Slowly.")
        return None

    sink = Sink(answer=answer)
    done = await load_lines(sink.put_many, PAYMENT, file)
    assert sink.batches[1:] == [["p1", "p4"], ["p1"]]
    assert (done.written, done.rejected, len(sink.records)) == (6, 0, 6)


async def test_store_that_fails_as_a_whole_is_asked_again(file: Path) -> None:
    """A write that fails as a whole, but not for ever, is tried again."""
    file.write_text("\n".join(map(line, range(6))), encoding="utf-8")

    def before(number: int) -> None:
        if number < 3:
            raise StoreUnavailable("Asleep.")

    sink = Sink(before=before)
    done = await load_lines(sink.put_many, PAYMENT, file)
    assert (done.written, len(sink.batches), len(sink.records)) == (6, 3, 6)


async def test_patience_ends(file: Path) -> None:
    """A store that stays throttled stops the load, which rejects nothing for it and can go on later."""
    file.write_text("\n".join(map(line, range(6))), encoding="utf-8")
    busy = Sink(answer=lambda payment: Throttled("Slowly.") if payment.payment_id == "p4" else None)
    with pytest.raises(Throttled):
        await load_lines(busy.put_many, PAYMENT, file, batch=3)
    assert len(busy.batches) == 5
    assert rejects_of(file) == []
    sink = Sink()
    await load_lines(sink.put_many, PAYMENT, file, batch=3)
    assert [*sink.records] == ["p3", "p4", "p5"]


async def test_wrong_table_stops_at_once(file: Path) -> None:
    """A failure that no patience mends stops the load without a second try."""
    file.write_text(line(1), encoding="utf-8")

    def before(number: int) -> None:
        raise WrongTable("Of another format.")

    sink = Sink(before=before)
    with pytest.raises(WrongTable):
        await load_lines(sink.put_many, PAYMENT, file)
    assert len(sink.batches) == 1


# --- memory ----------------------------------------------------------------------------------------------------


async def peak_of(file: Path, count: int) -> int:
    """The most bytes that a load of so many lines holds at once."""

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


async def test_memory_is_flat(file: Path) -> None:
    """Three times as many lines take no more memory."""
    count = depth(quick=4_000, deep=20_000)
    await peak_of(file, 2_000)  # what is made once stays out of the comparison
    small = await peak_of(file, count)
    large = await peak_of(file, 3 * count)
    assert large < small * 1.1
