"""Rows and pictures of the cost over the page number, and over the number of shards, on SQLite."""

from collections.abc import Mapping, Sequence
from contextlib import closing

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestant_process import ServerContestant
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.measurement import THIS_CODE, Costs, Row, Sample, Target, Turn, measured_row, take_turns
from tests.benchmarks.page_walk import GraphQLConnection, walk
from tests.benchmarks.page_workloads import PAGE_UNIT, sqlite_servers, walk_turns
from tests.benchmarks.plain_database import make_plain_database
from tests.benchmarks.sample_rows import FIRST_CREATED, STEP_SECONDS, Window

OFFSET = "Strawberry + aiosqlite, OFFSET"
FIRST_PAGES = "this code, first pages"
_PAGES = 15
"""pages that are measured at each depth"""
PICTURED_SHARDS = (1, 4, 16, 64, 150)
PICTURED_PAGES = (1, 10, 100, 1_000, 5_000)
_SKIPPED_ROWS = 500
"""rows of a page on the way to a depth"""

Curves = dict[str, list[tuple[float, float]]]
"""cost in microseconds over a number, by contestant"""


def page_depths(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Compare a page with a large number with the first one."""
    deepest = sizes.deep_page
    costs = _costs_at_depths(contestants, sizes.rounds, [1, deepest])
    at_depth = {**costs[deepest], FIRST_PAGES: costs[1][THIS_CODE]}
    name = f"page {deepest:,} of 20 x 10, SQLite, 16 shards, HTTP"
    return [measured_row(name, PAGE_UNIT, at_depth, [Target(FIRST_PAGES, 0.9)])]


def depth_curves(contestants: Contestants, sizes: Sizes) -> Curves:
    """Measure the cost of a page over its number."""
    costs = _costs_at_depths(contestants, 2 * sizes.rounds, PICTURED_PAGES)
    return _curves({float(depth): each for depth, each in costs.items()})


def shard_curves(contestants: Contestants, sizes: Sizes) -> Curves:
    """Measure the cost of a page over the number of shards."""
    costs = {}
    for shards in PICTURED_SHARDS:
        with contestants.stage():
            costs[float(shards)] = walk_turns(sqlite_servers(contestants, sizes, shards), sizes, limit=20)
    return _curves(costs)


def _curves(costs: Mapping[float, Mapping[str, Costs]]) -> Curves:
    names = [*next(iter(costs.values()))]
    return {name: [(at, each[name].mean * 1e6) for at, each in costs.items()] for name in names}


def _costs_at_depths(contestants: Contestants, rounds: int, depths: Sequence[int]) -> dict[int, dict[str, Costs]]:
    users = (depths[-1] + _PAGES + 1) * 20
    plain = contestants.folder / f"plain-deep-{users}.db"
    if not plain.exists():
        make_plain_database(plain, users, 16)
    servers = {
        code: contestants.product_server(code, "users", contestants.sqlite_users(code, 16, users), 16)
        for code in contestants.codes
    }
    if contestants.packages is not None:
        servers[OFFSET] = contestants.python_server(OFFSET, "strawberry_server", "offset", str(plain))
    window = Window(FIRST_CREATED - 1, FIRST_CREATED + users * STEP_SECONDS)
    tokens = {name: _tokens(server, window, depths) for name, server in servers.items()}
    turns = {
        f"{name} {depth}": _turn_at(server, window, tokens[name][depth], depth)
        for name, server in servers.items()
        for depth in depths
    }
    measured = take_turns(rounds, turns)
    return {depth: {name: measured[f"{name} {depth}"] for name in servers} for depth in depths}


def _tokens(server: ServerContestant, window: Window, depths: Sequence[int]) -> dict[int, str | None]:
    """Walk to each depth and return the token of the page there."""
    found: dict[int, str | None] = {}
    skipped, token = 0, None
    with closing(GraphQLConnection(server.url)) as connection:
        for depth in depths:
            for limit in (_SKIPPED_ROWS, 20):
                pages = ((depth - 1) * 20 - skipped) // limit
                if pages:
                    token = walk(connection, window, limit, max_pages=pages, token=token).token
                    skipped += pages * limit
            found[depth] = token
    return found


def _turn_at(server: ServerContestant, window: Window, token: str | None, depth: int) -> Turn:
    def perform(_: int) -> Sample:
        with closing(GraphQLConnection(server.url)) as connection:
            found = walk(connection, window, 20, max_pages=_PAGES, token=token)
        return Sample(found.pages, found.rows)

    return Turn(server.cpu_seconds, perform, group=depth)
