"""Law: while catalogs change on live data, every answer equals the oracle, or is refused."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphql_api import Catalog, Created, Entity, Id, Index, Timestamp, derived, open_catalog
from tests.evolution.changing_catalogs import (
    EMAILS,
    GUESTS,
    IDS,
    NAMES,
    NUMBERS,
    PLACES,
    TEAMS,
    TOWNS,
    Release,
    first_letter,
)
from tests.evolution.compared_world import START, World
from tests.evolution.late_store import memory_folder
from tests.support.run_depth import depth

MAX_SERVERS = 3
FIRST, SECOND, OTHER = (3, START + 1_000), (8, START + 2_000), (5, START + 1_500)
"""shard generations: sizes and beginnings"""

releases = st.builds(
    Release,
    has_town=st.booleans(),
    by_town=st.sampled_from([0, 1, 1, 2, 3]),
    is_renamed=st.booleans(),
    email=st.integers(0, 2),
    team=st.integers(0, 2),
    has_version=st.booleans(),
    letter=st.integers(0, 2),
    visits=st.sampled_from([0, 1, 1, 2, 2, 3, 4]),
    growth=st.sampled_from([(), (), (FIRST,), (FIRST, SECOND), (OTHER,)]),
    has_lookups=st.booleans(),
)
users = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "town": st.sampled_from(TOWNS),
        "email": st.sampled_from(EMAILS),
        "team_id": st.sampled_from(TEAMS),
        "moves": st.sampled_from([False, False, False, True]),
    }
)
visits = st.fixed_dictionaries({"place": st.sampled_from(PLACES), "note": st.sampled_from([None, "late"])})
number = st.integers(0, MAX_SERVERS - 1)
kinds = st.sampled_from(["create", "create", "put", "update", "delete"])
user_ids = st.tuples(st.just("user"), st.sampled_from(IDS))
visit_ids = st.tuples(st.just("visit"), st.sampled_from(GUESTS), st.sampled_from(NUMBERS))
write_user = st.tuples(st.just("write"), number, kinds, user_ids, users)
write_visit = st.tuples(st.just("write"), number, kinds, visit_ids, visits)
steps = st.one_of(
    st.tuples(st.just("open"), releases),
    st.tuples(st.just("migrate"), number),
    st.tuples(st.just("drop"), number),
    write_user,
    write_user,
    write_visit,
    write_visit,
    st.tuples(st.just("team"), number, st.sampled_from(["red", "blue"]), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([400, 700])),
)


async def run_schedule(first: Release, schedule: list[tuple[object, ...]], folder: Path) -> World:
    """Runs a schedule, and compares every answer of all servers after each step."""
    async with AsyncExitStack() as stack:
        world = World(f"sqlite:///{folder}/table.db", stack)
        assert await world.open(first)
        for step in schedule:
            await _take(world, step)
            for at in range(len(world.servers)):
                await world.check(at)
        return world


async def _take(world: World, step: tuple[object, ...]) -> None:
    match step:
        case "open", Release() as release:
            if len(world.servers) < MAX_SERVERS:
                await world.open(release)
        case "migrate", int() as at:
            await world.migrate(at % len(world.servers))
        case "drop", int() as at:
            await world.migrate(at % len(world.servers), drops=True)
        case "write", int() as at, str() as kind, tuple() as id, dict() as values:
            await world.write(at % len(world.servers), kind, id, values)
        case "team", int() as at, str() as team_id, bool() as removes:
            await world.write_team(at % len(world.servers), team_id, removes=removes)
        case "wait", int() as seconds:
            world.now += seconds
        case _:
            raise AssertionError(step)


ADA = {"name": "ada", "town": "Bern", "email": "a@x", "team_id": None}


@settings(max_examples=depth(35, 3_000), report_multiple_bugs=False)
@example(
    Release(has_town=True), [("write", 0, "create", ("user", "u1"), ADA), ("open", Release(has_town=True, by_town=1))]
)
@example(
    Release(),
    [
        ("open", Release(has_town=True, by_town=1)),
        ("write", 1, "create", ("user", "u1"), ADA),
        ("migrate", 1),
        ("write", 0, "update", ("user", "u1"), ADA),
        ("write", 0, "put", ("user", "u1"), ADA),
    ],
)
@given(releases, st.lists(steps, min_size=3, max_size=25))
def test_every_answer_is_right_or_refused(first: Release, schedule: list[tuple[object, ...]]) -> None:
    """Servers of any releases write and search while elements are built and dropped: no answer is wrong."""
    with memory_folder() as folder:
        asyncio.run(run_schedule(first, schedule, folder))


class UserWithLetter(Entity, name="user"):
    """A user with a derived property that is in no index."""

    user_id: Id[str]
    name: str
    created: Created[Timestamp]
    letter: str = derived(first_letter, "name")

    by_name = Index(sort="name")


async def test_an_older_server_leaves_no_stale_derived_value(tmp_path: Path) -> None:
    """After a server without a derived property has changed its source, filters use the value of the new source."""
    async with AsyncExitStack() as stack:
        world = World(f"sqlite:///{tmp_path}/table.db", stack)
        assert await world.open(Release())
        db = await stack.enter_async_context(open_catalog(Catalog(UserWithLetter), world.url))
        await db.create(UserWithLetter, user_id="u1", name="ada")
        older = world.servers[0]
        await older.update(older.catalog.entity("User").model, "u1", name="bob")
        for letter, found in (("a", []), ("b", ["u1"])):
            page = await db.search(UserWithLetter.by_name, filter={"letter": {"eq": letter}})
            assert [record.user_id for record in page.items] == found
