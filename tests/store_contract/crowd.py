"""Several processes that write to one store at the same time; each does what it reads, and tells what came of it."""

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
from tests.dynamodb_local import ROOT, Server
from tests.store_contract.samples import record

PROCESSES = 4
AT_ONCE = 16
"""writes of each process"""
GUARDS = 8
COUNTERS = 4

WANTED, TAKEN = Key("wanted!", "r"), Key("taken!", "r")

Address = Sequence[str]
"""`sqlite` and a file, or `dynamodb`, an endpoint and a table"""

Work = Callable[[Store, str], Awaitable[Any]]


async def open_address(address: Address) -> Store:
    """The store, as another process finds it."""
    if address[0] == "sqlite":
        return await open_sqlite(address[1])
    return await Server(address[1]).open(address[2])


def counter(number: int) -> Key:
    """Where a counter stands."""
    return Key("counter!", f"{number}")


def name_of(problem: StoreError | None) -> str:
    """An outcome, as it is told to the first process."""
    return "done" if problem is None else problem.code


# --- what each of many does ------------------------------------------------------------------------------------


async def create(store: Store, who: str) -> str:
    """Creates the one record that everybody wants to create."""
    (problem,) = await store.write([Put(record(WANTED, by=who, _w=who), Expect(absent=True))])
    return name_of(problem)


async def remove(store: Store, who: str) -> str:
    """Takes the one record away that everybody wants to take."""
    (problem,) = await store.write([Delete(TAKEN, Expect(attributes={"free": True}))])
    return name_of(problem)


async def claim(store: Store, who: str) -> str:
    """Creates a record of its own with a name that several want, and which another record guards."""
    guard = f"{int(who.rpartition('-')[2]) % GUARDS}"
    own = Put(record(("own!", who), guard=guard), Expect(absent=True))
    try:
        await store.write_together([own, Put(record(("guard!", guard), by=who), Expect(absent=True))], who)
    except ConditionFailed as problem:
        return problem.code if list(problem.failures) == [1] else f"{problem.code} at {[*problem.failures]}"
    return name_of(None)


async def step(store: Store, who: str) -> int:
    """Counts two counters up together, while a third one exists, as often as it takes until nobody came in between."""
    random = Random(who)
    one, other, third = (counter(number) for number in random.sample(range(COUNTERS), 3))
    tries = 0
    while True:
        tries += 1
        found = await store.get_many([one, other], True)
        writes = [
            Put(record(key, n=item["n"] + 1, w=f"{who} {tries}"), Expect(attributes={"w": item["w"]}))
            for key, item in zip((one, other), found, strict=True)
            if item is not None
        ]
        try:
            await store.write_together([*writes, Check(third, Expect())], f"{who} {tries}")
        except (ConditionFailed, Conflict):
            await asyncio.sleep(random.uniform(0, 0.02))
        else:
            return tries


WORK: dict[str, Work] = {"create": create, "remove": remove, "claim": claim, "step": step}


# --- the processes ---------------------------------------------------------------------------------------------


class Crowd:
    """The processes, seen from the first one."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    async def do(self, work: str, address: Address) -> dict[str, Any]:
        """Has everybody do the same at once, in each process by several; tells what came of it by who did it."""
        for number, process in enumerate(self._processes):
            assert process.stdin is not None
            process.stdin.write(json.dumps([work, list(address), number]) + "\n")
            process.stdin.flush()
        lines = await asyncio.gather(*(asyncio.to_thread(_answer, process) for process in self._processes))
        return {who: outcome for line in lines for who, outcome in json.loads(line).items()}


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "a process of the crowd has ended"
    return line


@contextmanager
def gathered() -> Iterator[Crowd]:
    """Starts the processes, and ends them."""
    command = (sys.executable, "-m", "tests.store_contract.crowd")
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)  # noqa: S603 - ours
        for _ in range(PROCESSES)
    ]
    try:
        yield Crowd(processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


async def _serve() -> None:
    """One of the processes: works off the lines that it reads."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        work, address, number = json.loads(line)
        store = await open_address(address)
        try:
            names = [f"{number}-{place}" for place in range(AT_ONCE)]
            outcomes = await asyncio.gather(*(WORK[work](store, who) for who in names))
        finally:
            await store.close()
        sys.stdout.write(json.dumps(dict(zip(names, outcomes, strict=True))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve())
