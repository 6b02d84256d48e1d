"""Each rule of the protocol is needed: a schedule gives a wrong answer without it, and none with it."""

import asyncio
from asyncio import Runner, Task
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random

import pytest

from graphql_api.evolution.table_record import TABLE_RECORD_KEY, TableRecord
from graphql_api.storage import Put
from graphql_api.writes import item_key
from tests.evolution.changing_catalogs import CURRENT_ELEMENT, Release, queries_of
from tests.evolution.late_store import (
    LATEST,
    LEASE,
    LIFE,
    MARGIN,
    START,
    Faults,
    ServerStore,
    VirtualLoop,
    seeded_pauses,
    virtual_time,
)
from tests.evolution.leased_world import LeasedWorld, Server
from tests.evolution.removed_rules import REMOVALS, removed

OLD, NEW = Release(has_town=True), Release(has_town=True, by_town=1)
LETTER = Release(letter=1)
CREATED = int(START)
BERN = {"created": CREATED, "name": "ada", "town": "Bern", "email": None, "team_id": None}
OSLO = {**BERN, "name": "bob", "town": "Oslo"}
ADA, BOB = ("user", "u1"), ("user", "u2")
FOREVER = 10_000.0
FENCE = LEASE + MARGIN + LIFE
READERS = 10 * LEASE + MARGIN


class Stage:
    """A world with two servers, and a script that says what happens when."""

    def __init__(self, world: LeasedWorld) -> None:
        self.world = world
        self.runs: list[Task[None]] = []

    async def start(self, release: Release) -> Server:
        """Starts a server."""
        server = await self.world.start(release)
        assert server is not None
        return server

    async def fill(self, server: Server) -> None:
        """Stores two users."""
        await self.world.write(server, "create", ADA, BERN)
        await self.world.write(server, "create", BOB, OSLO)

    async def serve_both(self, older: Release = OLD, newer: Release = NEW) -> tuple[Server, Server]:
        """Starts two servers over a table with two users. The copy of the first one is fresh."""
        old = await self.start(older)
        await self.fill(old)
        new = await self.start(newer)
        assert old.db.schema is not None
        await old.db.schema.refresh()
        return old, new

    def migrate(self, release: Release, *, drop: bool = False) -> ServerStore:
        """Starts a migration."""
        store = ServerStore(self.world.engine)
        self.runs.append(asyncio.create_task(self.world.migrate(release, store, drop=drop)))
        return store

    async def reach(self, element: str, state: str) -> None:
        """Waits until an element has a state."""
        await self.until(lambda: self.world.states.get(element, "gone") == state)

    async def until(self, is_reached: Callable[[], bool]) -> None:
        """Waits until something is so."""
        while not is_reached():
            await asyncio.sleep(0.05)
            assert virtual_time() < FOREVER, "the script does not end"
            if (problem := next((run.exception() for run in self.runs if run.done()), None)) is not None:
                raise problem

    async def search_for(self, seconds: float, server: Server) -> None:
        """Lets a server, whose copy is fresh, search for a time."""
        assert server.db.schema is not None
        await server.db.schema.refresh()
        until = virtual_time() + seconds
        while virtual_time() < until:
            for number in range(4):
                await self.world.search(server, number)

    async def give_up(self, write: Awaitable[None]) -> None:
        """Lets a client give up a request soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await write

    async def end(self) -> None:
        """Compares all answers after all migrations."""
        await self.until(lambda: all(run.done() for run in self.runs))
        await asyncio.sleep(FENCE)
        for server in self.world.servers:
            server.store.cut_until = 0.0
        await asyncio.sleep(LEASE)
        for server in self.world.servers:
            for number in range(5):
                await self.world.search(server, number)
            for id in (ADA, BOB):
                await self.world.get(server, id)
        if self.world.engine.problems:
            raise self.world.engine.problems[0]


TOWN = "user index town"
Script = Callable[[Stage], Awaitable[None]]


async def latest_request(stage: Stage) -> None:
    """A server that has lost contact sends a write at the end of its lease, which is applied at the end of its life."""
    old, _ = await stage.serve_both()
    stage.migrate(NEW)
    await stage.reach(TOWN, "building")
    old.store.cut(FOREVER)
    assert old.db.schema is not None
    (asked_at,) = old.db.schema.latest.asked_at
    (now,) = old.store.clocks()
    await asyncio.sleep(asked_at + LEASE - 0.25 - now)
    stage.world.engine.next_delay = LATEST
    await stage.give_up(stage.world.write(old, "put", ADA, {**BERN, "town": "Oslo"}))


async def lost_contact(stage: Stage) -> None:
    """A server that has lost contact writes long after its lease has ended."""
    old, _ = await stage.serve_both()
    stage.migrate(NEW)
    await stage.reach(TOWN, "building")
    old.store.cut(FOREVER)
    await stage.reach(TOWN, "ready")
    await stage.world.write(old, "put", ADA, {**BERN, "town": "Oslo"})


async def late_reply(stage: Stage) -> None:
    """The reply to a renewal is late: what it tells is older than a lease when it arrives."""
    old, _ = await stage.serve_both()
    assert old.db.schema is not None
    old.store.next_reply = 2 * LEASE
    renewal = asyncio.create_task(old.db.schema.refresh())
    await asyncio.sleep(0.3)
    old.store.cut(FOREVER)
    stage.migrate(NEW)
    await renewal
    stage.world.engine.next_delay = LATEST
    await stage.give_up(stage.world.write(old, "put", ADA, {**BERN, "town": "Oslo"}))


async def frozen_server(stage: Stage) -> None:
    """A server is frozen between the plan of a write and its request, and continues when the element is ready."""
    old, _ = await stage.serve_both()
    stage.migrate(NEW)
    await stage.reach(TOWN, "building")
    old.store.cut(FOREVER)
    old.store.freeze(FENCE + LEASE)
    await stage.world.write(old, "put", ADA, {**BERN, "town": "Oslo"})


async def late_plan(stage: Stage) -> None:
    """What a write reads arrives late, and its server has learnt of the change meanwhile."""
    old, _ = await stage.serve_both()
    await stage.world.write(old, "put", ADA, {**BERN, "town": None})
    stage.migrate(NEW)
    old.store.next_reply = FENCE + 3
    await stage.world.write(old, "update", ADA, {**BERN, "town": "Oslo"})


async def lagging_index(stage: Stage) -> None:
    """The index of a table lags while it is built."""
    stage.world.engine.faults = Faults(lag=LEASE, least_lag=LEASE)
    _, new = await stage.serve_both()
    await asyncio.sleep(2 * LEASE)
    stage.migrate(NEW)
    await stage.reach(TOWN, "ready")
    await stage.search_for(LEASE, new)


async def lagging_version(stage: Stage) -> None:
    """The index of a derived property lags while a new version of it is built."""
    stage.world.engine.faults = Faults(lag=LEASE, least_lag=LEASE)
    _, new = await stage.serve_both(LETTER, LETTER._replace(letter=2))
    await stage.world.write(new, "update", ADA, {**BERN, "name": "cy"})
    await asyncio.sleep(2 * LEASE)
    stage.migrate(new.release)
    await stage.reach("user derived property letter@2", "ready")
    await stage.search_for(LEASE, new)


async def dropped_index(stage: Stage, moment: float) -> None:
    """A server that has lost contact searches by an index some time after it was closed."""
    old, _ = await stage.serve_both(NEW, OLD)
    await stage.world.search(old, 1)
    stage.migrate(OLD, drop=True)
    await stage.reach(TOWN, "closing")
    old.store.cut(FOREVER)
    await asyncio.sleep(moment)
    for number in range(3):
        await stage.world.search(old, number)


async def reader_in_its_lease(stage: Stage) -> None:
    """A server that has lost contact searches by a closing index near the end of its read lease."""
    await dropped_index(stage, READERS - MARGIN - 4)


async def reader_after_its_lease(stage: Stage) -> None:
    """A server that has lost contact searches by an index that has been removed."""
    await dropped_index(stage, READERS + FENCE + LEASE)


CURRENT_RELEASES = Release(visits=1), Release(visits=2)
GROWN = Release(growth=((3, CREATED + 300),))


async def reader_of(
    stage: Stage, releases: tuple[Release, Release], element: str, *, write: Script, knows_of_it: bool
) -> None:
    """A reader of the older release loses contact before or after the announcement of what is built and written."""
    old = await stage.start(releases[0])
    await write(stage)
    if not knows_of_it:
        old.store.cut(FOREVER)
    await stage.start(releases[1])
    stage.migrate(releases[1])
    await stage.until(lambda: virtual_time() > READERS - LEASE or stage.world.states[element] == "building")
    old.store.cut(FOREVER)
    while virtual_time() < 2 * READERS:
        await asyncio.sleep(LEASE)
        await write(stage)
        for number in range(len(queries_of(releases[0]))):
            await stage.world.search(old, number)


async def write_visit(stage: Stage) -> None:
    """The newest server appends an entry."""
    world = stage.world
    number = f"{len(world.stored) + 1:03}"
    await world.write(
        world.servers[-1], "put", ("visit", "g1", number), {"created": CREATED, "place": None, "note": None}
    )


async def write_late_user(stage: Stage) -> None:
    """The newest server of the grown release creates a user of the new generation."""
    world = stage.world
    if world.states.get("user generation 1") == "ready":
        await world.write(world.servers[-1], "put", BOB, {**OSLO, "created": CREATED + 300})


async def reader_of_announced_history(stage: Stage) -> None:
    """A reader that knows the announced current records searches while they are built."""
    await reader_of(stage, CURRENT_RELEASES, CURRENT_ELEMENT, write=write_visit, knows_of_it=True)


async def reader_of_unknown_history(stage: Stage) -> None:
    """A reader that does not know of current records searches after their announcement."""
    await reader_of(stage, CURRENT_RELEASES, CURRENT_ELEMENT, write=write_visit, knows_of_it=False)


async def reader_of_announced_shards(stage: Stage) -> None:
    """A reader that knows an announced generation searches when records are placed in it."""
    await reader_of(stage, (Release(), GROWN), "user generation 1", write=write_late_user, knows_of_it=True)


async def reader_of_unknown_shards(stage: Stage) -> None:
    """A reader that does not know of a generation searches after its announcement."""
    await reader_of(stage, (Release(), GROWN), "user generation 1", write=write_late_user, knows_of_it=False)


async def blind_put(stage: Stage) -> None:
    """A server that has not learnt of a new property replaces a record in which another one has just stored it."""
    old = await stage.start(Release())
    await stage.fill(old)
    old.store.cut(FOREVER)
    new = await stage.start(OLD)
    await stage.world.write(new, "put", ADA, BERN)
    await stage.world.write(old, "put", ADA, BERN)


async def earlier_version(stage: Stage) -> None:
    """A server that has lost contact searches by the earlier version of a derived property."""
    old, new = await stage.serve_both(LETTER, LETTER._replace(letter=2))
    await stage.world.write(old, "put", ADA, {**BERN, "name": "cy"})
    stage.migrate(new.release)
    await asyncio.sleep(0.3)
    old.store.cut(FOREVER)
    for _ in range(9):
        await asyncio.sleep(LEASE)
        for number in range(1, 4):
            await stage.world.search(old, number)


async def older_writer(stage: Stage) -> None:
    """A server that lacks the function of a derived property writes."""
    old, new = await stage.serve_both(LETTER, LETTER._replace(letter=2))
    stage.migrate(new.release)
    await stage.reach("user derived property letter@2", "ready")
    await asyncio.sleep(LEASE)
    await stage.world.write(old, "put", ADA, {**BERN, "name": "cy"})


async def delayed_migration(stage: Stage) -> None:
    """A migration is frozen before it makes an index ready, and another one removes the index meanwhile."""
    await stage.serve_both()
    store = stage.migrate(NEW)

    def freeze(writes: object) -> None:
        assert isinstance(writes, list | tuple)
        for write in writes:
            if isinstance(write, Put) and item_key(write.item) == TABLE_RECORD_KEY:
                state = TableRecord.from_item(write.item).elements[TOWN].state
                if state == "ready" and not store.frozen_until:
                    store.freeze(READERS + 2 * FENCE)

    store.before_send = freeze
    await stage.reach(TOWN, "building")
    await stage.until(lambda: store.frozen_until > 0)
    stage.migrate(OLD, drop=True)


async def unknown_property(stage: Stage) -> None:
    """A server updates a user, and does not know one of its properties."""
    first = await stage.start(Release(has_town=True))
    await stage.fill(first)
    other = await stage.start(Release())
    await stage.world.write(other, "update", ADA, {**BERN, "name": "cy"})


async def removed_property(stage: Stage) -> None:
    """A server stores a value of a property that has been removed: the next put of another server erases it."""
    server = await stage.start(OLD)
    await stage.fill(server)
    stage.migrate(Release(), drop=True)
    await stage.reach("user property town", "gone")
    await asyncio.sleep(LEASE)
    await stage.world.write(server, "update", ADA, {**BERN, "town": "Oslo"})
    await stage.world.get(server, ADA)


async def late_first_entry(stage: Stage) -> None:
    """A server with current records creates a first entry, which is applied after another server has dropped them."""
    late, early = CREATED + 400, CREATED
    old = await stage.start(Release(visits=2, growth=((3, CREATED + 300),)))
    await stage.fill(old)
    new = await stage.start(Release(visits=1, growth=((3, CREATED + 300),)))
    stage.migrate(new.release, drop=True)
    await stage.reach(CURRENT_ELEMENT, "closing")
    await asyncio.sleep(READERS - LEASE / 2)
    for server in (old, new):
        assert server.db.schema is not None
        await server.db.schema.refresh()
    old.store.cut(FOREVER)
    await stage.reach(CURRENT_ELEMENT, "dropping")
    stage.world.engine.next_delay = 2 * LEASE
    visit = {"place": "hall", "note": None}
    await stage.give_up(stage.world.write(old, "create", ("visit", "g1", "1"), {**visit, "created": late}))
    assert new.db.schema is not None
    await new.db.schema.refresh()
    await stage.world.write(new, "create", ("visit", "g1", "1"), {**visit, "created": early})


SCRIPTS: dict[str, Script] = {
    "a write needs a lease": lost_contact,
    "a write is planned with the newest copy": late_plan,
    "a read needs a read lease": reader_after_its_lease,
    "a lease counts from sending": late_reply,
    "the clock goes on while a process is frozen": frozen_server,
    "the final pass waits for a lease": latest_request,
    "the final pass waits for a margin": latest_request,
    "the final pass waits for the life of a request": latest_request,
    "the final pass waits at all": latest_request,
    "dropping waits for readers": reader_in_its_lease,
    "readers leave announced current records out": reader_of_announced_history,
    "readers search announced generations": reader_of_announced_shards,
    "current records are built after a read lease": reader_of_unknown_history,
    "generations are built after a read lease": reader_of_unknown_shards,
    "new properties are announced first": blind_put,
    "an earlier version waits for readers": earlier_version,
    "changes of the record are conditional": delayed_migration,
    "records are found in a new index": lagging_index,
    "records are found under new keys": lagging_version,
    "a server with an older catalog stops": older_writer,
    "unknown properties survive": unknown_property,
    "first entries are guarded while current records change": late_first_entry,
    "values of removed properties are refused": removed_property,
}


def play(script: Script, folder: Path) -> LeasedWorld:
    """Plays a script. An assertion names what is wrong."""
    random = Random(1)

    async def run() -> LeasedWorld:
        async with AsyncExitStack() as stack:
            world = LeasedWorld.open(folder, random, Faults(), stack)
            stage = Stage(world)
            try:
                await script(stage)
                await stage.end()
            except AssertionError as problem:
                problem.add_note("\n".join(world.events))
                raise
            return world

    with seeded_pauses(random), Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


def test_all_rules_have_a_script() -> None:
    """Each rule that can be removed has a script that needs it."""
    assert SCRIPTS.keys() == REMOVALS.keys()


@pytest.mark.parametrize("rule", SCRIPTS)
def test_each_rule_is_needed(rule: str, tmp_path: Path) -> None:
    """Without the rule the script gives a wrong answer, and with it none."""
    folders = tmp_path / "with", tmp_path / "without"
    for folder in folders:
        folder.mkdir()
    assert play(SCRIPTS[rule], folders[0]).answers
    with removed(rule), pytest.raises(AssertionError):
        play(SCRIPTS[rule], folders[1])
