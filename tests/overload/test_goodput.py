"""Open-loop load beyond saturation: the server answers as many operations as it can, and refuses all others at once."""

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from graphql_api.errors import Overloaded
from tests.overload.load_generator import MAX_CONNECTIONS, Answers, LoadGenerator, post_request
from tests.server.server_processes import USERS, ServerProcess, server_process
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.run_depth import depth, is_deep

DEADLINE = 5.0
PATIENCE = 60.0
"""of the client in a quick run, on a machine that may give the server only a part of a CPU"""
PAGE = "{ userByCreated(limit: 20) { items { userId created firstName lastName phone } nextToken } }"
CLIENTS = (2, 8, 16)
"""of closed loops: enough to keep the server busy, without a queue"""
MIN_GOODPUT = 0.9
"""share of the best answers per CPU second"""
ENVIRONMENT = {"SHARDQL_LOG_LEVEL": "warning", "SHARDQL_MAX_CONNECTIONS": str(2 * MAX_CONNECTIONS)}
"""The number of connections is no subject here."""


@contextmanager
def separate_cpus(pid: int) -> Iterator[None]:
    """Keep the load generator off the CPU of the server. It would replace the contents of its caches."""
    own = os.sched_getaffinity(0)
    if len(own) > 1:
        last = max(own)
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {last})
        os.sched_setaffinity(0, own - {last})
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


@contextmanager
def sqlite_server(folder: Path) -> Iterator[ServerProcess]:
    """A server on SQLite."""
    with server_process(folder, USERS, "--sample", "500", **ENVIRONMENT) as server:
        yield server


@contextmanager
def dynamodb_server(folder: Path, dynamodb: Server) -> Iterator[ServerProcess]:
    """A server on DynamoDB Local. Its store has time, so that only admission control limits the load."""
    url = f"dynamodb://load?region={REGION}&endpoint={dynamodb.endpoint}&connect_seconds=5&read_seconds=5"
    words = (USERS, "--sample", "200", "--store", url, "--create-table")
    with server_process(folder, *words, **ENVIRONMENT, **CREDENTIALS) as server:
        yield server


def check_answers(answers: Answers) -> None:
    """All answers are complete pages, or refusals that say when to retry."""
    assert answers.broken == 0
    for answer in answers.all:
        if answer.status == 200:
            assert len(json.loads(answer.body)["data"]["userByCreated"]["items"]) == 20
        else:
            assert (answer.status, answer.codes) == (503, [Overloaded.code])
            assert int(answer.headers["retry-after"]) >= 1


async def measure(server: ServerProcess, rounds: int, requests: int, seconds: float, load: int, random: Random) -> None:
    """Compare the answers per CPU second of an open loop with the best of closed loops.

    They alternate, since other work on the machine changes how much a CPU second can do.
    """
    port = int(server.address.rpartition(":")[2])
    generator = LoadGenerator(port, server.process.pid, post_request("/graphql", {"query": PAGE}))
    within = DEADLINE if is_deep() else PATIENCE
    with separate_cpus(server.process.pid):
        await compare(generator, rounds, requests, seconds, load, random, within)


async def compare(
    generator: LoadGenerator, rounds: int, requests: int, seconds: float, load: int, random: Random, within: float
) -> None:
    """Measure both loads, and check all answers and their number."""
    peaks, overload = {clients: Answers() for clients in CLIENTS}, Answers()
    try:
        # The first requests fill caches, and open the connections of all loads.
        peak = await generator.closed_loop(requests, 4)
        await generator.open_loop(load * peak.per_cpu_second(within), 1, random)
        for _ in range(rounds):
            found = {clients: await generator.closed_loop(requests, clients) for clients in CLIENTS}
            saturation = max(peak.per_cpu_second(within) for peak in found.values())
            overload.add(await generator.open_loop(load * saturation, seconds, random))
            for clients, peak in found.items():
                peaks[clients].add(peak)
    finally:
        generator.close()
    for answers in (*peaks.values(), overload):
        check_answers(answers)
    assert overload.statuses[200] > 0
    assert overload.statuses[503] > 0
    best = max(peak.per_cpu_second(within) for peak in peaks.values())
    share, refusals = overload.per_cpu_second(within) / best, overload.statuses[503] / overload.successes(within)
    if is_deep():  # A quick run only counts: on a busy machine, its few seconds measure other work too.
        assert refusals > (load - 1) / 2, f"only {refusals:.1f} refusals for each answer"
        assert share >= MIN_GOODPUT, f"{share:.0%} of the best answers per CPU second, {refusals:.1f} refusals for each"


@pytest.mark.parametrize("load", [pytest.param(2, marks=pytest.mark.deep), 4])
def test_goodput_on_sqlite(load: int, tmp_path: Path, random: Random) -> None:
    """At two and four times saturation, a server on SQLite keeps 90 % of its answers per CPU second."""
    with sqlite_server(tmp_path) as server:
        asyncio.run(measure(server, depth(1, 6), depth(200, 400), depth(3, 5), load, random))


@pytest.mark.parametrize("load", [pytest.param(2, marks=pytest.mark.deep), 4])
def test_goodput_on_dynamodb(load: int, dynamodb: Server, tmp_path: Path, random: Random) -> None:
    """At two and four times saturation, a server on DynamoDB keeps 90 % of its answers per CPU second."""
    with dynamodb_server(tmp_path, dynamodb) as server:
        asyncio.run(measure(server, depth(1, 6), depth(40, 80), depth(4, 5), load, random))
