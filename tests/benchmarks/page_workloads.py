"""Rows of the table: pages over HTTP, from SQLite."""

from collections.abc import Mapping, Sequence
from contextlib import closing

from tests.benchmarks.bench_sizes import Sizes
from tests.benchmarks.contestant_process import ServerContestant
from tests.benchmarks.contestants import Contestants
from tests.benchmarks.fast_path import fast_path_note
from tests.benchmarks.measurement import THIS_CODE, Costs, Row, Sample, Target, Turn, measured_row, take_turns
from tests.benchmarks.page_walk import GraphQLConnection, walk
from tests.benchmarks.plain_database import make_plain_database
from tests.benchmarks.sample_rows import Window, windows

AIOSQLITE, CACHED, YOGA_STATIC, SQLITE_FLOOR = (
    "Strawberry + aiosqlite",
    "Strawberry + aiosqlite, caches",
    "graphql-yoga, static rows",
    "floor: sqlite3 + orjson",
)
SHARD_COUNTS = (1, 16, 150)
PAGE_UNIT = "µs a page"


def walk_turn(server: ServerContestant, chosen: Sequence[Window], limit: int) -> Turn:
    """Return the turn of a server: in each round it answers a walk through another window."""

    def perform(number: int) -> Sample:
        # Each turn has a new connection: servers close those that were idle during the turns of others.
        with closing(GraphQLConnection(server.url)) as connection:
            found = walk(connection, chosen[number % len(chosen)], limit)
        return Sample(found.pages, found.rows)

    return Turn(server.cpu_seconds, perform)


def sqlite_pages(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Measure pages of 20 and of 100 rows on SQLite, at all numbers of shards."""
    rows = []
    for shards in SHARD_COUNTS:
        with contestants.stage():
            servers = sqlite_servers(contestants, sizes, shards)
            targets = [Target(AIOSQLITE, 10.0), Target(YOGA_STATIC, 1.0)] if shards == 16 else []
            name = f"page of 20 x 10, SQLite, {count_shards(shards)}, HTTP"
            costs = walk_turns(servers, sizes, limit=20)
            rows.append(measured_row(name, PAGE_UNIT, costs, targets, [fast_path_note(servers[THIS_CODE].url)]))
            if shards == 16:
                name = "page of 100 x 10, SQLite, 16 shards, HTTP"
                rows.append(measured_row(name, PAGE_UNIT, walk_turns(servers, sizes, limit=100)))
    return rows


def sqlite_shards(contestants: Contestants, sizes: Sizes) -> list[Row]:
    """Compare this code with itself at other numbers of shards, in one run."""
    servers = {
        f"{THIS_CODE}, {count_shards(shards)}": contestants.product_server(
            THIS_CODE, "users", contestants.sqlite_users(THIS_CODE, shards, sizes.users), shards
        )
        for shards in SHARD_COUNTS
    }
    names = [*servers]
    servers[THIS_CODE] = servers.pop(names[-1])
    targets = [Target(name, 0.9) for name in names[:-1]]
    return [measured_row("the same at 150 shards, SQLite", PAGE_UNIT, walk_turns(servers, sizes, limit=20), targets)]


def count_shards(number: int) -> str:
    """Return the number of shards as text."""
    return f"{number} shard{'s' if number > 1 else ''}"


def walk_turns(servers: Mapping[str, ServerContestant], sizes: Sizes, limit: int) -> dict[str, Costs]:
    """Let all servers answer walks in turns."""
    chosen = windows(sizes.users, sizes.pages * 20, sizes.windows)
    turns = {name: walk_turn(server, chosen, limit) for name, server in servers.items()}
    return take_turns(sizes.rounds, turns, sizes.warm_up)


def sqlite_servers(contestants: Contestants, sizes: Sizes, shards: int) -> dict[str, ServerContestant]:
    """Start all servers with SQLite."""
    plain = contestants.folder / f"plain-{shards}.db"
    if not plain.exists():
        make_plain_database(plain, sizes.users, shards)
    servers = {
        code: contestants.product_server(code, "users", contestants.sqlite_users(code, shards, sizes.users), shards)
        for code in contestants.codes
    }
    servers[SQLITE_FLOOR] = contestants.python_server(SQLITE_FLOOR, "floor_server", "sqlite", str(plain))
    if contestants.packages is not None:
        words = ("strawberry_server", "sqlite", str(plain))
        servers[AIOSQLITE] = contestants.python_server(AIOSQLITE, *words, shards=shards)
        servers[CACHED] = contestants.python_server(CACHED, *words, "--caches", shards=shards)
    if contestants.node is not None:
        file = str(contestants.rows_file(sizes.users))
        servers[YOGA_STATIC] = contestants.yoga_server(YOGA_STATIC, "static", file)
    return servers
