"""Rows of the table: searches from Python, GraphQL execution, and what HTTP adds to them."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestant_process import WorkerContestant
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.measurement import (
    RELEASE,
    Costs,
    Row,
    Sample,
    Target,
    Turn,
    difference,
    measured_row,
    take_turns,
)
from tests.benchmarks.page_walk import QUERY, GraphQLConnection
from tests.benchmarks.page_workloads import SHARD_COUNTS, count_shards, walk_turn
from tests.benchmarks.sample_rows import FIRST_CREATED, STEP_SECONDS, Window, windows

JIT, GRAPHQL_JS, STOCK, STOCK_CACHED = "graphql-jit", "graphql-js", "Strawberry", "Strawberry, caches"
EMPTY_ROUTE = "an empty Starlette route"
_SEARCH_TARGETS = {1: 311 / 150, 16: 974 / 150, 150: 2_890 / 150}
_EXECUTION_TARGETS = {20: 1 / 2, 100: 1.0}


def product_workers(contestants: Contestants, sizes: Sizes, shards: int) -> dict[str, WorkerContestant]:
    """Start workers with open databases of users on SQLite."""
    workers = {}
    for code in contestants.codes:
        url = contestants.sqlite_users(code, shards, sizes.users)
        workers[code] = contestants.product_worker(code, shards)
        workers[code].call("open", catalog="users", url=url)
    return workers


def search_turn(worker: WorkerContestant, chosen: Sequence[Window]) -> Turn:
    """Return the turn of a worker that reads all pages of a window."""

    def perform(number: int) -> Sample:
        window = chosen[number % len(chosen)]
        pages = worker.call("search", low=window.low, high=window.high, limit=20)
        return Sample(pages, lambda: worker.call("found_rows"))

    return Turn(worker.cpu_seconds, perform)


def searches(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure `db.search` with the items of its pages."""
    rows = []
    chosen = windows(sizes.users, sizes.pages * 20, sizes.windows)
    for shards in SHARD_COUNTS:
        with contestants.stage():
            workers = product_workers(contestants, sizes, shards)
            turns = {code: search_turn(each, chosen) for code, each in workers.items()}
            costs = take_turns(sizes.rounds, turns, sizes.warm_up)
            name = f"db.search of 20 from Python, SQLite, {count_shards(shards)}"
            rows.append(measured_row(name, "µs a page", costs, [Target(RELEASE, _SEARCH_TARGETS[shards])]))
    return rows


# --- execution -------------------------------------------------------------------------------------------------


def executions(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure the execution of the page query without its search: validation of variables, fields, and JSON."""
    rows = []
    workers = product_workers(contestants, sizes, 1)
    library = contestants.library_worker(STOCK) if contestants.packages is not None else None
    node = None
    if contestants.node is not None:
        node = contestants.node_worker(JIT, str(contestants.rows_file(sizes.users)))
        node.call("prepare", query=QUERY)
    for count in (20, 100):
        turns: dict[str, Turn] = {}
        for code, worker in workers.items():
            for function in ("execute_page", "search_page"):
                turns[f"{code}: {function}"] = _repeated(worker, function, count, sizes)
        if library is not None:
            for name, caches in ((STOCK, False), (STOCK_CACHED, True)):
                turns[name] = _stock_turn(library, count, sizes, caches=caches)
        if node is not None:
            for name, function in ((JIT, "jit"), (GRAPHQL_JS, "js")):
                turns[name] = _node_turn(node, function, count, sizes.calls)
        measured = take_turns(max(sizes.rounds // 2, 2), turns)
        costs: dict[str, Costs] = {}
        for code in workers:
            costs[code] = difference(measured.pop(f"{code}: execute_page"), measured.pop(f"{code}: search_page"))
        name = f"GraphQL execution of {count} x 10, without the search"
        rows.append(measured_row(name, "µs a page", costs | measured, [Target(JIT, _EXECUTION_TARGETS[count])]))
    return rows


def _first_window(count: int) -> dict[str, int]:
    return {"low": FIRST_CREATED - 1, "high": FIRST_CREATED + count * STEP_SECONDS - 1, "limit": count}


def _repeated(worker: WorkerContestant, function: str, count: int, sizes: Sizes) -> Turn:
    def perform(_: int) -> Sample:
        rows = worker.call(function, **_first_window(count), times=sizes.calls)
        return Sample(sizes.calls, rows)

    return Turn(worker.cpu_seconds, perform)


def _items(data: Any) -> list[list[Any]]:
    return [[*item.values()] for item in data["userByCreated"]["items"]]


def _stock_turn(worker: WorkerContestant, count: int, sizes: Sizes, *, caches: bool) -> Turn:
    def perform(_: int) -> Sample:
        values = {"count": count, "times": sizes.calls, "users": sizes.users, "caches": caches}
        return Sample(sizes.calls, _items(worker.call("execute", query=QUERY, **values)))

    return Turn(worker.cpu_seconds, perform)


def _node_turn(worker: WorkerContestant, function: str, count: int, calls: int) -> Turn:
    times = calls * 20  # It is that much faster.

    def perform(_: int) -> Sample:
        return Sample(times, _items(worker.call(function, count=count, times=times)))

    return Turn(worker.cpu_seconds, perform)


# --- HTTP ------------------------------------------------------------------------------------------------------


def http_added(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure what HTTP and GraphQL add to a search, in relation to an empty route."""
    chosen = windows(sizes.users, sizes.pages * 20, sizes.windows)
    turns = {}
    for code, worker in product_workers(contestants, sizes, 16).items():
        server = contestants.product_server(code, "users", contestants.sqlite_users(code, 16, sizes.users), 16)
        for name, turn in (("page", walk_turn(server, chosen, 20)), ("search", search_turn(worker, chosen))):
            turns[f"{code}: {name}"] = replace(turn, group=name)
    route = contestants.python_server(EMPTY_ROUTE, "empty_route")
    requests = sizes.calls * 5

    def perform(_: int) -> Sample:
        with closing(GraphQLConnection(route.url)) as connection:
            for _ in range(requests):
                connection.execute(QUERY, {"limit": 20})
        return Sample(requests)

    turns[EMPTY_ROUTE] = Turn(route.cpu_seconds, perform)
    measured = take_turns(sizes.rounds, turns, sizes.warm_up)
    costs = {
        code: difference(measured.pop(f"{code}: page"), measured.pop(f"{code}: search")) for code in contestants.codes
    }
    name = "HTTP + GraphQL added to a search of 20, SQLite, 16 shards"
    return [measured_row(name, "µs a page", costs | measured, [Target(EMPTY_ROUTE, 1 / 3)])]
