"""Processes that write to one store concurrently. Each reads a request from stdin and writes the outcomes to stdout."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from graphql_api.errors import ConditionFailed, Conflict, StoreError
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Check, Delete, Expect, Key, Put
from tests.store_contract.samples import record
from tests.support.dynamodb_servers import ROOT, Server

PROCESSES = 4
WRITERS_PER_PROCESS = 16
"""concurrent writers in each process"""
GUARDS = 8
COUNTERS = 4

WANTED, TAKEN = Key("wanted!", "r"), Key("taken!", "r")

Address = Sequence[str]
"""`sqlite` and a file, or `dynamodb`, an endpoint and a table"""

WriterTask = Callable[[Store, str], Awaitable[Any]]


async def open_address(address: Address) -> Store:
    """Open the store of an address."""
    if address[0] == "sqlite":
        return await open_sqlite(address[1])
    return await Server(address[1]).open(address[2])


def counter(number: int) -> Key:
    """The key of a counter."""
    return Key("counter!", f"{number}")


def name_of(error: StoreError | None) -> str:
    """Return the outcome of a write as text: the error code, or `done`."""
    return "done" if error is None else error.code


# --- the work of a writer ----------------------------------------------------------------------------------------


async def create(store: Store, writer: str) -> str:
    """Create the record that all writers create."""
    (error,) = await store.write([Put(record(WANTED, by=writer, _w=writer), Expect(absent=True))])
    return name_of(error)


async def remove(store: Store, writer: str) -> str:
    """Delete the record that all writers delete."""
    (error,) = await store.write([Delete(TAKEN, Expect(attributes={"free": True}))])
    return name_of(error)


async def claim(store: Store, writer: str) -> str:
    """Create a record with a name that several writers claim, and a guard item that makes the name unique."""
    guard = f"{int(writer.rpartition('-')[2]) % GUARDS}"
    own_record = Put(record(("own!", writer), guard=guard), Expect(absent=True))
    try:
        await store.write_together([own_record, Put(record(("guard!", guard), by=writer), Expect(absent=True))], writer)
    except ConditionFailed as error:
        return error.code if list(error.failures) == [1] else f"{error.code} at {[*error.failures]}"
    return name_of(None)


async def step(store: Store, writer: str) -> int:
    """Increment two counters in one transaction that also checks a third one. Return the attempts that it took."""
    random = Random(writer)
    first, second, checked = (counter(number) for number in random.sample(range(COUNTERS), 3))
    attempts = 0
    while True:
        attempts += 1
        stored = await store.get_many([first, second], True)
        writes = [
            Put(record(key, n=item["n"] + 1, w=f"{writer} {attempts}"), Expect(attributes={"w": item["w"]}))
            for key, item in zip((first, second), stored, strict=True)
            if item is not None
        ]
        try:
            await store.write_together([*writes, Check(checked, Expect())], f"{writer} {attempts}")
        except (ConditionFailed, Conflict):
            await asyncio.sleep(random.uniform(0, 0.02))
        else:
            return attempts


WRITER_TASKS: dict[str, WriterTask] = {"create": create, "remove": remove, "claim": claim, "step": step}


# --- the processes ---------------------------------------------------------------------------------------------


class WriterProcesses:
    """The writer processes, as seen from the test process."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    async def run(self, work: str, address: Address) -> dict[str, Any]:
        """Run the same work in all writers of all processes concurrently. Return the outcome of each writer."""
        for number, process in enumerate(self._processes):
            assert process.stdin is not None
            process.stdin.write(json.dumps([work, list(address), number]) + "\n")
            process.stdin.flush()
        lines = await asyncio.gather(*(asyncio.to_thread(_read_line, process) for process in self._processes))
        return {writer: outcome for line in lines for writer, outcome in json.loads(line).items()}


def _read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "a writer process has ended"
    return line


@contextmanager
def start_writer_processes() -> Iterator[WriterProcesses]:
    """Start the processes, and end them on exit."""
    command = (sys.executable, "-m", "tests.store_contract.writer_processes")
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)  # noqa: S603 - ours
        for _ in range(PROCESSES)
    ]
    try:
        yield WriterProcesses(processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


async def _serve() -> None:
    """Execute the requests from stdin. Runs in a writer process."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        work, address, number = json.loads(line)
        store = await open_address(address)
        try:
            names = [f"{number}-{number_in_process}" for number_in_process in range(WRITERS_PER_PROCESS)]
            outcomes = await asyncio.gather(*(WRITER_TASKS[work](store, writer) for writer in names))
        finally:
            await store.close()
        sys.stdout.write(json.dumps(dict(zip(names, outcomes, strict=True))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve())
