"""Law: with leases, late requests, lagging indexes and frozen processes, every answer is right or refused."""

import asyncio
from asyncio import Runner
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.evolution.changing_catalogs import GUESTS, IDS, Release, queries_of
from tests.evolution.late_store import (
    LEASE,
    LIFE,
    START,
    Faults,
    ServerStore,
    VirtualLoop,
    memory_folder,
    seeded_pauses,
    virtual_time,
)
from tests.evolution.leased_world import LeasedWorld, Server
from tests.support.run_depth import depth

LONGEST = 500.0
"""virtual seconds of a schedule"""
FIRST, SECOND, OTHER = (3, int(START) + 180), (8, int(START) + 300), (5, int(START) + 220)
"""shard generations: sizes and beginnings"""


def random_release(random: Random, base: Release | None = None) -> Release:
    """A release; with a base, one that differs in some declarations."""
    other = Release(
        has_town=random.random() < 0.8,
        by_town=random.choice([0, 1, 1, 2, 3]),
        is_renamed=random.random() < 0.3,
        email=random.randrange(3),
        team=random.randrange(3),
        has_version=False,
        letter=random.choice([0, 0, 1, 2]),
        visits=random.choice([0, 1, 1, 2, 2, 3, 4]),
        growth=random.choice([(), (), (FIRST,), (FIRST, SECOND), (OTHER,)]),
        has_lookups=random.random() < 0.4,
    )
    if base is None:
        return other._replace(letter=min(other.letter, 1))
    kept = {name for name in Release._fields if random.random() < 0.4}
    return base._replace(**{name: getattr(other, name) for name in Release._fields if name not in kept})


class Schedule:
    """One random schedule."""

    def __init__(self, seed: int, **rules: Any) -> None:
        self.random = Random(seed)
        self.rules = rules
        choose = self.random.choice
        self.faults = Faults(
            slow=choose([0, 0.05, 0.4]),
            lost=choose([0, 0, 0.03]),
            slow_reads=choose([0, 0, 0.4]),
            lag=choose([0, 0, 3.0]),
        )
        self.pace = choose([0.5, 2.0, 4.0])
        self.impatience = choose([0.0, 0.2, 0.7])
        """share of the requests that their clients give up soon"""
        self.trouble = choose([0.0, 0.3, 0.6])
        """share of the servers that are disturbed when the table's record changes"""
        self.freezes, self.cuts = choose([0, 0.02, 0.06]), choose([0, 0.02, 0.06])
        self.world: LeasedWorld | None = None
        self.clients: list[asyncio.Task[None]] = []

    def run(self) -> LeasedWorld:
        """Runs the schedule. An assertion names what is wrong."""
        with memory_folder() as folder, seeded_pauses(self.random), Runner(loop_factory=VirtualLoop) as runner:
            try:
                return runner.run(self._run(folder))
            except AssertionError as problem:
                if self.world is not None:
                    problem.add_note("\n".join(self.world.events[-120:]))
                raise

    async def _run(self, folder: Path) -> LeasedWorld:
        random = self.random
        async with AsyncExitStack() as stack:
            world = self.world = LeasedWorld.open(folder, random, self.faults, stack, **self.rules)
            world.on_change = self._disturb_at_change
            first = random_release(random)
            server = await world.start(first)
            assert server is not None
            for user_id in ("u1", "u2", "u3"):
                await world.write(server, "create", ("user", user_id), world.random_values(("user", user_id)))
            await world.write_team(server, "red", removes=False)
            self._serve(server)
            others = [random_release(random, first), random.choice([first, random_release(random, first)])]
            tasks = [asyncio.create_task(self._grow(others))]
            await self._watch(tasks)
            await self._settle(world)
            return world

    async def _watch(self, tasks: list["asyncio.Task[None]"]) -> None:
        """Waits until the migrations have ended. The first wrong answer ends the schedule."""
        world = self.world
        assert world is not None
        while any(not task.done() for task in tasks):
            await asyncio.sleep(0.5)
            for task in (*tasks, *self.clients):
                if task.done() and not task.cancelled():
                    task.result()
            if world.engine.problems:
                raise world.engine.problems[0]
            assert virtual_time() < 4 * LONGEST, "the schedule does not end"
        await asyncio.sleep(self.random.uniform(0, LIFE))

    def _serve(self, server: Server) -> None:
        self.clients.append(asyncio.create_task(self._client(server)))

    async def _client(self, server: Server) -> None:
        world = self.world
        assert world is not None
        while True:
            await server.store.pause(self.random.expovariate(1 / self.pace))
            self._disturb(server.store)
            seconds = self.random.expovariate(2) if self.random.random() < self.impatience else None
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await world.act(server)

    def _disturb_at_change(self) -> None:
        """Disturbs servers at the moments that matter: when the table's record changes."""
        assert self.world is not None
        for server in self.world.servers if virtual_time() < LONGEST else ():
            if self.random.random() < self.trouble:
                seconds = self.random.choice([1.2, 3, 5, 25]) * LEASE * self.random.random()
                (server.store.freeze if self.random.random() < 0.4 else server.store.cut)(seconds)

    def _disturb(self, store: ServerStore) -> None:
        if virtual_time() > LONGEST:
            self.faults.slow_reads = 0.0
            return
        if self.random.random() < self.freezes:
            store.freeze(self.random.choice([1, 2, 4, 12]) * LEASE * self.random.random())
        if self.random.random() < self.cuts:
            store.cut(self.random.choice([1, 3, 20]) * LEASE * self.random.random())

    async def _grow(self, releases: list[Release]) -> None:
        """Starts servers and migrations, one after the other or at once."""
        world, random = self.world, self.random
        assert world is not None
        runs: list[asyncio.Task[None]] = []
        for release in releases:
            await asyncio.sleep(random.uniform(0, 2 * LEASE))
            server = await world.start(release)
            if server is None:
                continue
            self._serve(server)
            count = random.choice([1, 1, 2])
            runs += [asyncio.create_task(self._migrate(release)) for _ in range(count)]
            if random.random() < 0.5:
                await asyncio.gather(*runs)
        await asyncio.gather(*runs)

    async def _migrate(self, release: Release) -> None:
        """Runs a migration that may be killed and frozen, and once more."""
        world, random = self.world, self.random
        assert world is not None
        await asyncio.sleep(random.uniform(0, LEASE))
        drop = random.random() < 0.4
        while random.random() < 0.4:
            store = ServerStore(world.engine)
            run = asyncio.create_task(world.migrate(release, store, drop=drop))
            await asyncio.sleep(random.uniform(0, 10 * LEASE))
            run.cancel()
            with suppress(asyncio.CancelledError):
                await run
            world.log("migration is killed")
        store = ServerStore(world.engine)
        run = asyncio.create_task(world.migrate(release, store, drop=drop))
        while not run.done():
            await asyncio.sleep(random.uniform(0, LEASE))
            self._disturb(store)
        run.result()

    async def _settle(self, world: LeasedWorld) -> None:
        """Ends all clients, and compares every answer of all servers."""
        for client in self.clients:
            client.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)
        await asyncio.sleep(2 * LIFE + 12 * LEASE)
        world.engine.faults = Faults()
        for server in world.servers:
            server.store.cut_until = server.store.frozen_until = 0.0
        await asyncio.sleep(LEASE)
        for server in world.servers:
            for user_id in IDS:
                await world.get(server, ("user", user_id))
            for guest in GUESTS if server.release.visits else ():
                await world.get(server, ("visit", guest))
            for number in range(len(queries_of(server.release))):
                await world.search(server, number)
        if world.engine.problems:
            raise world.engine.problems[0]


def test_every_answer_is_right_or_refused_with_leases(random: Random) -> None:
    """Servers with leases write and search while elements are built and dropped: no answer is wrong."""
    answers, migrated, refusals = 0, set[str](), set[str]()
    for _ in range(depth(quick=12, deep=1_000)):
        seed = random.getrandbits(32)
        try:
            world = Schedule(seed).run()
        except Exception as problem:
            problem.add_note(f"Schedule({seed}).run() repeats it.")
            raise
        answers += world.answers
        migrated |= {*world.migrated}
        refusals |= world.refusals
    assert answers
    assert len(migrated) > 4
    assert "NOT_READY" in refusals
