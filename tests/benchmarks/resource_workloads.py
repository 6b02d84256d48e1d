"""Rows of the table: memory and goodput. Those with many large replies run with `--full` only."""

import asyncio
from contextlib import closing
from urllib.parse import urlsplit

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestant_process import ServerContestant
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.dynamodb_workloads import canned_engine, store_users
from tests.benchmarks.measurement import THIS_CODE, Row, Target
from tests.benchmarks.page_walk import QUERY, GraphQLConnection
from tests.benchmarks.sample_rows import FIRST_CREATED, STEP_SECONDS
from tests.overload.load_generator import Answers, LoadGenerator, post_request

_MEGABYTE = 1_000_000
_IDLE_TARGET, _GROWTH_TARGET, _GOODPUT_TARGET = 90 * _MEGABYTE, 256 * _MEGABYTE, 0.9
_SHARDS, _CLIENTS = 150, 50
_LARGE_NOTE, _LARGE_USERS = 60_000, 2_500
"""1 MB in each shard"""
_SECONDS_OF_SUCCESS = 60.0
_FEW_USERS = 100


def idle_memory(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure the memory of a DynamoDB server that has answered one request."""
    memory: dict[str, float] = {}
    with canned_engine(contestants) as engine:
        if engine is None:
            return []
        for code in contestants.codes:
            url = store_users(contestants, engine, code, 16, sizes, count=_FEW_USERS)
            server = contestants.product_server(code, "users", url, 16)
            with closing(GraphQLConnection(server.url)) as connection:
                connection.execute(QUERY, {"limit": 20})
            memory[code] = server.resident_bytes()
    name = f"target: {_IDLE_TARGET // _MEGABYTE} MB"
    memory[name] = _IDLE_TARGET
    return [Row("memory of an idle server, DynamoDB", "MB", memory, [Target(name, 1.0)], scale=1 / _MEGABYTE)]


def concurrent_pages(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure memory and goodput with many clients that read pages of large records from many shards."""
    with canned_engine(contestants) as engine:
        if engine is None:
            return []
        url = store_users(contestants, engine, THIS_CODE, _SHARDS, sizes, note=_LARGE_NOTE, count=_LARGE_USERS)
        server = contestants.product_server(THIS_CODE, "users", url, _SHARDS)
        idle = server.resident_bytes()
        requests = _CLIENTS * max(sizes.rounds // 4, 1)
        alone, many = asyncio.run(_alone_and_many(server, requests))
        peak, after = server.resident_bytes("VmHWM"), server.resident_bytes()
    name = f"target: {_GROWTH_TARGET // _MEGABYTE} MB"
    growth = {THIS_CODE: float(peak - idle), name: float(_GROWTH_TARGET), "kept afterwards": float(after - idle)}
    title = f"{_SHARDS} shards of 1 MB, {_CLIENTS} clients, DynamoDB"
    memory = Row(f"memory over idle, {title}", "MB", growth, [Target(name, 1.0)], scale=1 / _MEGABYTE)
    costs = {THIS_CODE: 1 / many.per_cpu_second(_SECONDS_OF_SUCCESS)}
    costs["one client at a time"] = 1 / alone.per_cpu_second(_SECONDS_OF_SUCCESS)
    note = f"statuses with {_CLIENTS} clients: {dict(many.statuses)}, connections that broke: {many.broken}"
    target = Target("one client at a time", _GOODPUT_TARGET)
    return [memory, Row(f"goodput, {title}", "µs a page that succeeded", costs, [target], notes=[note])]


async def _alone_and_many(server: ServerContestant, requests: int) -> tuple[Answers, Answers]:
    address = urlsplit(server.url)
    high = FIRST_CREATED + _LARGE_USERS * STEP_SECONDS
    body = {"query": QUERY, "variables": {"from": FIRST_CREATED, "to": high, "limit": 20}}
    generator = LoadGenerator(int(address.port or 0), server.pids[0], post_request(address.path, body))
    try:
        alone = await generator.closed_loop(max(requests // 5, 1), 1)
        many = await generator.closed_loop(requests, _CLIENTS)
    finally:
        generator.close()
    return alone, many
