"""Rows of the table: loading a file, and creating records with a unique property, on SQLite."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import orjson

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestant_process import WorkerContestant
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.measurement import RELEASE, Row, Sample, Target, Turn, measured_row, take_turns
from tests.benchmarks.sample_rows import user_rows

SQLITE_UTILS, EXECUTEMANY, SQLITE3 = "sqlite-utils", "floor: executemany", "floor: sqlite3, a commit per call"
_LOAD, _CREATE, _CREATE_BATCH = 243 / 50, 1_601 / 600, 372 / 100
_BATCH, _BATCHES = 100, 5


def _opening(worker: WorkerContestant, contestants: Contestants, catalog: str) -> Callable[[int], object]:
    """Return a function that opens a new database for each turn."""
    numbers = count()
    name = worker.name.replace(" ", "-")

    def open_new(_: int) -> object:
        url = f"sqlite:///{contestants.folder}/{catalog}-{name}-{next(numbers)}.db"
        return worker.call("open", catalog=catalog, url=url)

    return open_new


def loads(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure loading a file of users into a table with six indexes."""
    file = _lines_file(contestants.folder / "users.jsonl", sizes.load_records)
    turns = {}
    for code in contestants.codes:
        worker = contestants.product_worker(code)
        turns[code] = _counting_turn(worker, "load", file, _opening(worker, contestants, "users"))
    if contestants.packages is not None:
        for name, function in ((SQLITE_UTILS, "load_sqlite_utils"), (EXECUTEMANY, "load_executemany")):
            worker = contestants.library_worker(name)
            turns[name] = _counting_turn(worker, function, file, folder=contestants.folder)
    costs = take_turns(max(sizes.rounds // 2, 2), turns)
    return [measured_row("load, six indexes, SQLite, 16 shards", "µs a record", costs, [Target(RELEASE, _LOAD)])]


def _lines_file(file: Path, records: int) -> Path:
    lines = ({name: value for name, value in row.items() if value is not None} for row in user_rows(records))
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file


def _counting_turn(
    worker: WorkerContestant,
    function: str,
    file: Path,
    prepare: Callable[[int], object] = lambda _: None,
    folder: Path | None = None,
) -> Turn:
    arguments = {"file": str(file)} | ({} if folder is None else {"folder": str(folder)})

    def perform(_: int) -> Sample:
        written = worker.call(function, **arguments)
        return Sample(written, written)

    return Turn(worker.cpu_seconds, perform, prepare)


def creates(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure creating records with a unique property: one by one, and in a batch."""
    rows = []
    workers = {code: contestants.product_worker(code) for code in contestants.codes}
    if contestants.packages is not None:
        workers[SQLITE3] = contestants.library_worker(SQLITE3)
    opening = {code: _opening(workers[code], contestants, "accounts") for code in contestants.codes}
    opening[SQLITE3] = lambda _: workers[SQLITE3].call("open_accounts", folder=str(contestants.folder))
    for name, function, size, least in (
        ("create, unique property, SQLite", "create_accounts", sizes.calls, _CREATE),
        (
            f"create in a batch of {_BATCH}, unique property, SQLite",
            "create_account_batches",
            _BATCH * _BATCHES,
            _CREATE_BATCH,
        ),
    ):
        turns = {each: _create_turn(worker, function, size, opening[each]) for each, worker in workers.items()}
        costs = take_turns(sizes.rounds, turns)
        rows.append(measured_row(name, "µs a record", costs, [Target(RELEASE, least)]))
    return rows


def _create_turn(worker: WorkerContestant, function: str, size: int, prepare: Callable[[int], object]) -> Turn:
    def perform(_: int) -> Sample:
        written = worker.call(function, count=size)
        return Sample(written, written)

    return Turn(worker.cpu_seconds, perform, prepare)
