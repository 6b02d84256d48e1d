"""Rows of the table: pages and single queries of DynamoDB, answered by the canned engine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import boto3

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestant_process import ServerContestant, WorkerContestant
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.dynamodb_index import DynamoIndex
from tests.benchmarks.fast_path import fast_path_note
from tests.benchmarks.measured_catalog import users as catalog
from tests.benchmarks.measurement import THIS_CODE, Costs, Row, Sample, Target, Turn, measured_row, take_turns
from tests.benchmarks.page_workloads import PAGE_UNIT, count_shards, walk_turn
from tests.benchmarks.sample_rows import Window, windows
from tests.support.dynamodb_servers import CREDENTIALS, REGION, ServerUnavailable, dynamodb_local

YOGA, CLIENT, RESOURCE, CLIENT_CACHED, FLOOR = (
    "graphql-yoga + SDK v3",
    "Strawberry + aioboto3 client",
    "Strawberry + aioboto3 resource",
    "Strawberry + client, caches",
    "floor: aiohttp + orjson",
)
AIOBOTO3 = "aioboto3 client"
_TARGETS = {16: [Target(YOGA, 8.0)], 150: [Target(YOGA, 15.0)]}
_OPTIONS = "deadline=120&connect_seconds=20&read_seconds=60"
"""time enough for the engine that is recorded"""


@contextmanager
def canned_engine(contestants: Contestants) -> Iterator[ServerContestant | None]:
    """Run the canned engine in front of DynamoDB Local, or yield None if that does not run here."""
    try:
        with dynamodb_local() as local, contestants.stage():
            yield contestants.python_server("canned engine", "canned_engine", local.endpoint)
    except ServerUnavailable as problem:
        text = f"rows of DynamoDB: {problem}"
        if text not in contestants.skipped:
            contestants.skipped.append(text)
        yield None


def dynamodb_pages(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure pages of 20 rows through the DynamoDB protocol."""
    rows = []
    with canned_engine(contestants) as engine:
        if engine is not None:
            for shards, divisor in ((16, 2), (150, 6)):
                smaller = _fewer_pages(sizes, divisor)
                rows.append(canned_pages(contestants, engine, smaller, shards))
                if shards == 16:
                    rows.append(_records_read(contestants, engine, smaller, shards))
    return rows


def _records_read(contestants: Contestants, engine: ServerContestant, sizes: Sizes, shards: int) -> Row:
    worker = contestants.product_worker(THIS_CODE, shards)
    worker.call("open", catalog="users", url=table_url(engine, THIS_CODE, shards), create_table=False)
    (window, *_) = windows(sizes.dynamodb_users, sizes.pages * 20, sizes.windows)
    read = worker.call("count_records_read", low=window.low, high=window.high, limit=20)
    most = 2 * 20 + 3 * shards
    name = f"target: 2·L + 3·n = {most}"
    costs = {THIS_CODE: read, name: most, "floor: L + n": 20 + shards}
    title = f"records read by a page of 20, DynamoDB protocol, {count_shards(shards)}"
    return Row(title, "records", costs, [Target(name, 1.0)], scale=1)


def _fewer_pages(sizes: Sizes, divisor: int) -> Sizes:
    """Return sizes for pages that take long to record."""
    pages, rounds = max(sizes.pages // divisor, 2), max(sizes.rounds // 2 - 1, 2)
    return replace(sizes, pages=pages, rounds=rounds, warm_up=sizes.warm_up // 3, windows=min(sizes.windows, 2))


def canned_pages(contestants: Contestants, engine: ServerContestant, sizes: Sizes, shards: int) -> Row:
    """Measure pages of 20 rows at one number of shards."""
    with contestants.stage():
        servers = {
            code: contestants.product_server(code, "users", url, shards)
            for code in contestants.codes
            for url in [store_users(contestants, engine, code, shards, sizes)]
        }
        index = describe_index(engine, table_name(THIS_CODE, shards))
        servers[FLOOR] = contestants.python_server(FLOOR, "floor_server", "dynamodb", table=index)
        if contestants.packages is not None:
            for name, *words in ((CLIENT, "client"), (CLIENT_CACHED, "client", "--caches"), (RESOURCE, "resource")):
                servers[name] = contestants.python_server(name, "strawberry_server", *words, table=index)
        if contestants.node is not None:
            servers[YOGA] = contestants.yoga_server(YOGA, "dynamodb", table=index)
        chosen = windows(sizes.dynamodb_users, sizes.pages * 20, sizes.windows)
        turns = {name: walk_turn(server, chosen, 20) for name, server in servers.items()}
        costs, note = replayed_turns(engine, turns, len(chosen), sizes)
        notes = [note, fast_path_note(servers[THIS_CODE].url)]
    name = f"page of 20 x 10, DynamoDB protocol, {count_shards(shards)}, HTTP"
    return measured_row(name, PAGE_UNIT, costs, _TARGETS.get(shards, []), notes)


def replayed_turns(
    engine: ServerContestant, turns: dict[str, Turn], recorded: int, sizes: Sizes
) -> tuple[dict[str, Costs], str]:
    """Record the replies to all requests in this number of rounds, then measure. Return a note on the replies too."""
    take_turns(recorded, turns, warm_up=0)
    before = engine_counts(engine)
    costs = take_turns(sizes.rounds, turns, sizes.warm_up)
    after = engine_counts(engine)
    new = {name: count - before.get(name, 0) for name, count in after.items()}
    return costs, f"the canned engine replayed {new['replayed']:,} replies and passed on {_passed_on(new)}"


def _passed_on(counts: dict[str, int]) -> int:
    return counts.get("recorded", 0) + counts.get("written", 0)


def engine_counts(engine: ServerContestant) -> dict[str, int]:
    """Return how many replies the engine has recorded and replayed."""
    address = urlsplit(engine.url)
    connection = HTTPConnection(str(address.hostname), address.port)
    connection.request("POST", "/counts", b"")
    counts: dict[str, int] = json.loads(connection.getresponse().read())
    connection.close()
    return counts


def table_name(code: str, shards: int) -> str:
    """Return the name of the table of a code."""
    return f"bench-{code.replace(' ', '-')}-{shards}"


def table_url(engine: ServerContestant, code: str, shards: int) -> str:
    """Return the URL of that table."""
    return f"dynamodb://{table_name(code, shards)}?region={REGION}&endpoint={engine.url}&{_OPTIONS}"


def store_users(
    contestants: Contestants,
    engine: ServerContestant,
    code: str,
    shards: int,
    sizes: Sizes,
    **options: int,
) -> str:
    """Store users in a new table with the code that reads it. Return its URL."""
    url = table_url(engine, code, shards)
    worker = contestants.product_worker(code, shards)
    worker.call("open", catalog="users", url=url, create_table=True)
    worker.call("put_users", **{"count": sizes.dynamodb_users, **options})
    worker.call("close")
    worker.close()
    return url


def describe_index(engine: ServerContestant, table: str) -> DynamoIndex:
    """Return what a client needs to know of the index by creation time."""
    definition = catalog.table_definition()
    (index,) = (one for one in definition.indexes if one.range_attribute == "createdRangeKey" and one.name == "created")
    client = boto3.client(
        "dynamodb",
        endpoint_url=engine.url,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
    pages = client.get_paginator("scan").paginate(TableName=table, ProjectionExpression=index.hash_attribute)
    items: list[Any] = [item[index.hash_attribute]["S"] for page in pages for item in page["Items"]]
    client.close()
    keys = sorted({key for key in items if key.startswith("user!")})
    return DynamoIndex(engine.url, table, index.name, index.hash_attribute, index.range_attribute, tuple(keys))


# --- one query -------------------------------------------------------------------------------------------------


def dynamodb_query(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure one Query of 20 items at the client."""
    with canned_engine(contestants) as engine:
        if engine is None:
            return []
        (window,) = windows(sizes.dynamodb_users, 40, 1)
        workers = {code: contestants.product_worker(code, shards=1) for code in contestants.codes}
        for code, worker in workers.items():
            url = store_users(contestants, engine, code, 1, sizes)
            worker.call("open", catalog="users", url=url, create_table=False)
        index = describe_index(engine, table_name(THIS_CODE, 1))
        read = {"low": window.low, "high": window.high, "limit": 20}
        size = max(worker.call("first_read_limit", **read) for worker in workers.values())
        turns = {code: _product_query(worker, sizes.calls) for code, worker in workers.items()}
        for name, function in ((AIOBOTO3, "client_query"), (FLOOR, "floor_query")):
            worker = contestants.library_worker(name, table=index)
            turns[name] = _library_query(worker, function, index, window, size, sizes.calls)
        costs, note = replayed_turns(engine, turns, 1, sizes)
    targets = [Target(AIOBOTO3, 1 / 0.15)]
    return [measured_row(f"one Query of {size} items, client side", "µs a query", costs, targets, [note])]


def _product_query(worker: WorkerContestant, times: int) -> Turn:
    def perform(_: int) -> Sample:
        return Sample(times, worker.call("query_one_shard", times=times))

    return Turn(worker.cpu_seconds, perform)


def _library_query(
    worker: WorkerContestant, function: str, index: DynamoIndex, window: Window, size: int, times: int
) -> Turn:
    (hash_key,) = index.hash_keys

    def perform(_: int) -> Sample:
        values = {"hash_key": hash_key, "low": window.low, "high": window.high, "size": size, "times": times}
        return Sample(times, worker.call(function, **values))

    return Turn(worker.cpu_seconds, perform)
