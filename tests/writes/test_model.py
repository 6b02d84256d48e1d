"""The law of writes: whatever is done, one by one or at once, comes to what plain dictionaries say.

What is done at once must come to what some order of it would have come to. After every step the whole table is looked
over: keys, indexes, unique values, foreign keys, counters.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given

from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.model.record_codec import decode_record
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.item_keys import item_key
from tests.depth import examples
from tests.dynamodb_local import Server
from tests.faults.test_kills import check_entries
from tests.laws.search_world import new_tenant, seen
from tests.laws.test_search import in_batches
from tests.stores import all_items, on_a_loop
from tests.writes.audit import Table, check, sorted_out
from tests.writes.club import CATALOGS, INDEXES, KINDS, MEMBERS, SINCE, Team, told_by
from tests.writes.model import Model, Said, Step, Values
from tests.writes.moves import IDS, Move, Wish, some
from tests.writes.troubles import TroubledStore

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
MAX_ATTEMPTS = 20
"""of a client that is told to try again"""

CLASSES = [
    *("create", "update", "replace", "remove", "at once", "each", "again", "other request", "growth", "old and new"),
    *("ALREADY_EXISTS", "RECORD_NOT_FOUND", "NOT_UNIQUE", "FOREIGN_KEY", "IMMUTABLE", "VERSION_CONFLICT"),
    *(
        "exists in another generation",
        "IDEMPOTENCY_MISMATCH",
        "parent refused",
        "moved to another team",
        "number counted",
        "troubles",
    ),
]


@dataclass
class Play:
    """Random writes to an empty tenant, and the same in the model."""

    store: Store
    entries: Callable[[], None]
    """looks over what the engine itself keeps for its indexes"""
    tenant: str = field(default_factory=new_tenant)
    now: float = 10.0
    stage: int = 0
    """generations of shards that have been added"""
    model: Model = field(default_factory=lambda: Model(KINDS))
    done: list[Step] = field(default_factory=list)
    """what was carried out under idempotency keys"""
    keys: Iterator[int] = field(default_factory=count)
    processes: Sequence[TroubledStore] = ()
    """what two processes write through, each of which remembers what it has seen of counters"""

    def __post_init__(self) -> None:
        self.processes = [TroubledStore(self.store, Random(0)) for _ in range(2)]

    def db(self, stage: int | None = None, store: Store | None = None) -> Database:
        """The database as a process sees it, which may not know the last generation of shards yet."""
        catalog = CATALOGS[self.stage if stage is None else stage]
        return Database(catalog, store or self.store, SEAL, clock=lambda: self.now, tenant=self.tenant)

    # --- what is asked for

    def step(self, wish: Wish, move: Move) -> Step:
        """A command, as things stand."""
        values = {} if wish.does == "remove" else dict(wish.values)
        if wish.does == "update":
            values = {name: value for name, value in values.items() if name in wish.some}
        if wish.does == "create" and wish.kind == "member" and wish.created is not None and wish.created <= self.now:
            values["created"] = wish.created
        old = self.model.records[wish.kind].get(wish.id)
        expected = None
        if wish.does != "create" and wish.expects is not None:
            expected = (old["version"] if old else 1) + wish.expects
        # Where replies are lost, only with a key can anybody tell what became of a request.
        key = f"key{next(self.keys)}" if wish.keyed or "lost" in move.troubles else None
        return Step(wish.does, wish.kind, wish.id, values, expected, key)

    def command(self, step: Step, stage: int) -> Command:
        """The same in the words of the database."""
        spec = CATALOGS[stage].entity(Team if step.kind == "team" else MEMBERS[stage])
        whole = {spec.ids[0].name: step.id, **step.values}
        match step.does:
            case "create":
                return Create(spec, whole, step.key)
            case "update":
                return Update(spec, [step.id], step.values, step.expected_version, step.key)
            case "replace":
                return Replace(spec, whole, step.expected_version, step.key)
            case _:
                return Remove(spec, [step.id], step.expected_version, step.key)

    # --- what happens

    async def one(self, move: Move) -> None:
        """A command, over a store that may have troubles."""
        await self.do([self.step(move.wishes[0], move)], move)

    async def again(self, move: Move) -> None:
        """What was carried out before."""
        if self.done:
            seen["again"] += 1
            await self.do([self.done[move.pick % len(self.done)]], move)

    async def other(self, move: Move) -> None:
        """Something else under the key of what was carried out before."""
        if self.done:
            seen["other request"] += 1
            key = self.done[move.pick % len(self.done)].key
            await self.do([replace(self.step(move.wishes[0], move), key=key)], move)

    async def at_once(self, move: Move) -> None:
        """Several commands at once, by processes of which one may not know the last generation of shards yet."""
        steps = [self.step(wish, move) for wish in move.wishes]
        if move.twice:
            steps[-1] = steps[0]
        seen["at once"] += 1
        await self.do(steps, move)

    async def each(self, move: Move) -> None:
        """A batch, whose rows may meet."""
        steps = [self.step(wish, move) for wish in move.wishes]
        seen["each"] += 1
        answers = await self.db().apply_each([self.command(step, self.stage) for step in steps])
        await self.found(steps, [self.said(step, answer) for step, answer in zip(steps, answers, strict=True)])

    async def later(self, move: Move) -> None:
        """Time goes on, also beyond the beginning of a generation of shards."""
        self.now += move.seconds

    async def grow(self, _: Move) -> None:
        """A generation of shards is added, before it begins."""
        if self.stage < len(SINCE) and self.now < SINCE[self.stage]:
            seen["growth"] += 1
            self.stage += 1

    # --- what comes of it

    async def do(self, steps: Sequence[Step], move: Move) -> None:
        """Carries commands out, at once where there are several."""
        for number, process in enumerate(self.processes):
            process.begin_anew(Random(f"{move.seed} {number}"), **move.troubles)
        # A process that does not know a generation is right until that begins.
        stages = [max(0, self.stage - 1) if self.now < SINCE[max(0, self.stage - 1)] else self.stage, self.stage]
        seen["old and new"] += len(steps) > 1 and stages[0] != stages[1]

        async def execute_command(at: int, step: Step) -> Said:
            stage = stages[at % 2] if len(steps) > 1 else self.stage
            db = self.db(stage, self.processes[(at + move.pick) % 2])
            problems: list[str] = []
            for _ in range(MAX_ATTEMPTS):
                try:
                    answer: Any = await db.apply(self.command(step, stage))
                except ShardQLError as problem:
                    if problem.retryable and (step.key is not None or problem.code == "CONFLICT"):
                        problems.append(problem.message)
                        continue
                    answer = problem
                return self.said(step, answer)
            raise AssertionError(f"{step} finds no end: {problems}")

        said = await asyncio.gather(*(execute_command(at, step) for at, step in enumerate(steps)))
        seen["troubles"] += any(process.met for process in self.processes)
        await self.found(steps, said)

    def said(self, step: Step, answer: Any) -> Said:
        if isinstance(answer, ShardQLError):
            seen[answer.code] += 1
            seen["parent refused"] += step.does == "remove" and answer.code == "FOREIGN_KEY"
            seen["exists in another generation"] += answer.code == "ALREADY_EXISTS" and self.lies_elsewhere(step)
            return Said(code=answer.code)
        seen[step.does] += 1
        told = None if answer is None else told_by(answer)
        old = self.model.records[step.kind].get(step.id)
        seen["number counted"] += told is not None and step.kind == "member" and old is None
        seen["moved to another team"] += bool(old and told and told.get("team_id") != old.get("team_id"))
        return Said(told)

    def lies_elsewhere(self, step: Step) -> bool:
        """Whether a record stands in another generation of shards than the one that a command would make."""
        old = self.model.records[step.kind].get(step.id, {})
        moments = [old.get("created"), step.values.get("created", self.now)]
        generations = {
            sum(since <= moment for since in SINCE[: self.stage]) for moment in moments if moment is not None
        }
        return len(generations) > 1

    async def found(self, steps: Sequence[Step], said: Sequence[Said]) -> None:
        """Some order of what was done must explain every answer, and what stands now."""
        may_be: list[Model] = []
        for order in permutations(range(len(steps))):
            model = self.model.copy()
            if all(model.apply(steps[at], said[at], int(self.now)) for at in order):
                may_be.append(model)
        stands = await self.look()
        right = [model for model in may_be if model.records == stands]
        told = "\n".join(f"{step} -> {answer}" for step, answer in zip(steps, said, strict=True))
        assert right, f"before:\n{self.model.records}\n{told}\nafter:\n{stands}"
        self.model = right[0]
        self.done += [step for step in steps if step.key is not None and step.key in self.model.answers]
        await self.search(stands)

    async def look(self) -> dict[str, dict[str, Values]]:
        """What stands, after a look at everything that binds it."""
        self.entries()
        table: Table = sorted_out(await all_items(self.store), self.tenant)
        catalog = CATALOGS[self.stage]
        check(catalog, table, self.tenant)
        stands: dict[str, dict[str, Values]] = {name: {} for name in KINDS}
        for name, kind in KINDS.items():
            spec = next(spec for spec in catalog.entities.values() if spec.name == name)
            for item in table.records.get(name, []):
                record = decode_record(spec, item)
                stands[name][getattr(record, kind.id)] = told_by(record)
        return stands

    async def search(self, stands: Mapping[str, Mapping[str, Values]]) -> None:
        """Every index has exactly the records that it should, in order."""
        db = self.db()

        async def look(name: str, team: str | None) -> None:
            kind, hashed, order = INDEXES[name]
            records = [{**one, "nick_canonical": one.get("nick")} for one in stands[kind].values()]
            wanted = [one for one in records if one[order[0]] is not None and (hashed is None or one[hashed] == team)]
            index = getattr(Team if kind == "team" else MEMBERS[self.stage], name)
            page = await db.search(index, limit=100, **({} if hashed is None else {hashed: team}))
            ids = [one[order[-1]] for one in sorted(wanted, key=lambda one: tuple(one[part] for part in order))]
            assert [getattr(one, order[-1]) for one in page.items] == ids, f"{name} of {team}"

        asked = [
            (name, team) for name, (_, hashed, _) in INDEXES.items() for team in (IDS["team"] if hashed else [None])
        ]
        await asyncio.gather(*(look(name, team) for name, team in asked))


def not_to_be_seen() -> None:
    """An engine whose entries nobody sees but by searches."""


async def play(moves: Sequence[Move], store: Store, entries: Callable[[], None] = not_to_be_seen) -> None:
    """Writes, and a look at everything after each of them."""
    game = Play(store, entries)
    try:
        for move in moves:
            await getattr(game, move.what)(move)
    finally:
        await store.write([Delete(item_key(item)) for item in await all_items(store)])


def test_writes_come_to_what_dictionaries_say(tmp_path_factory: pytest.TempPathFactory, request: Any) -> None:
    """Creates, updates, replacements and removals, retried, refused and at once, leave what a model says."""
    folder: Path = tmp_path_factory.mktemp("writes")
    with on_a_loop(open_sqlite(folder / "club.db"), CATALOGS[0].table_definition()) as (runner, store):

        @examples(10)
        @given(moves=some(5, 20))
        def law(moves: list[Move]) -> None:
            runner.run(play(moves, store, lambda: check_entries(folder / "club.db")))

        seen.clear()
        in_batches(law, request, CLASSES)


@pytest.fixture
def remote(dynamodb: Server) -> Iterator[tuple[asyncio.Runner, Store]]:
    """DynamoDB Local on an event loop of its own."""
    with on_a_loop(dynamodb.open("write-laws"), CATALOGS[0].table_definition()) as made:
        yield made


def test_the_same_on_dynamodb(remote: tuple[asyncio.Runner, Store], request: pytest.FixtureRequest) -> None:
    """DynamoDB Local comes to the same."""
    runner, store = remote

    @examples(3, deep=150)
    @given(moves=some(2, 8))
    def law(moves: list[Move]) -> None:
        runner.run(play(moves, store))

    in_batches(law, request)
