"""Rows of the table: commands, the start of a server, and schemas."""

from collections.abc import Callable

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestant_process import WorkerContestant, python_module
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.cpu_time import command_cpu_seconds
from tests.benchmarks.measurement import RELEASE, Row, Sample, Target, Turn, measured_row, take_turns

_VERSION, _HELP, _SERVE, _SCHEMA = 992 / 150, 1_116 / 250, 941 / 600, 14 / 5


class CommandClock:
    """The CPU time of processes that come and go."""

    def __init__(self, run: Callable[[], float]) -> None:
        self._run = run
        self._seconds = 0.0

    def turn(self) -> Turn:
        """Return the turn that runs one process."""

        def perform(_: int) -> Sample:
            self._seconds += self._run()
            return Sample(1)

        return Turn(lambda: self._seconds, perform)


def starts(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure the CPU time of commands that do nothing else than start, and of servers until they are ready."""
    rows, rounds = [], max(sizes.rounds // 3, 2)
    for word, least in (("--version", _VERSION), ("--help", _HELP)):
        turns = {code: CommandClock(_command(contestants, code, word)).turn() for code in contestants.codes}
        costs = take_turns(rounds, turns)
        rows.append(measured_row(f"shardql {word}", "µs", costs, [Target(RELEASE, least)]))
    turns = {code: CommandClock(_server(contestants, code, sizes)).turn() for code in contestants.codes}
    costs = take_turns(rounds, turns)
    rows.append(measured_row("shardql serve, until it is ready, SQLite", "µs", costs, [Target(RELEASE, _SERVE)]))
    return rows


def _command(contestants: Contestants, code: str, word: str) -> Callable[[], float]:
    command = python_module("graphql_api.cli", word)
    return lambda: command_cpu_seconds(command, contestants.environment(code), contestants.folder)


def _server(contestants: Contestants, code: str, sizes: Sizes) -> Callable[[], float]:
    url = contestants.sqlite_users(code, 16, sizes.users)

    def start() -> float:
        with contestants.stage():
            return contestants.product_server(code, "users", url, 16).cpu_seconds()

    return start


def schemas(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure building the schema of a catalog."""
    workers = {code: contestants.product_worker(code) for code in contestants.codes}
    costs = take_turns(max(sizes.rounds // 2, 2), {code: _schema_turn(worker) for code, worker in workers.items()})
    return [measured_row("schema of a catalog", "µs an entity", costs, [Target(RELEASE, _SCHEMA)])]


def _schema_turn(worker: WorkerContestant) -> Turn:
    def perform(_: int) -> Sample:
        return Sample(worker.call("build_schema"))

    return Turn(worker.cpu_seconds, perform)
