"""Writes give the same results as the reference model, sequentially and concurrently, with faults and retries.

Concurrent writes must equal some sequential order. After each step the whole table is audited: keys, indexes, unique
items, reference items and counters.
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
from tests.faults.test_kills import check_entries
from tests.laws.search_catalogs import new_tenant, seen
from tests.laws.test_search import run_in_batches
from tests.support.dynamodb_servers import Server
from tests.support.run_depth import examples
from tests.support.store_doubles import all_items, store_with_runner
from tests.write_guarantees.faulty_store import FaultyStore
from tests.write_guarantees.reference_model import (
    ModelCommand,
    ModelWrite,
    ReferenceModel,
    Response,
    Values,
    WriteResponse,
)
from tests.write_guarantees.table_audit import Table, check, classify_items
from tests.write_guarantees.team_catalog import CATALOGS, ENTITY_RULES, INDEXES, MEMBERS, SINCE, Team, to_model
from tests.write_guarantees.write_steps import IDS, CommandDraft, ScenarioStep, scenarios

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
MAX_ATTEMPTS = 20
"""attempts of a client that gets retryable errors"""

CLASSES = [
    *(
        "create",
        "update",
        "replace",
        "remove",
        "concurrent",
        "batch",
        "together",
        "together applied",
        "together refused",
        "repeated",
        "reused key",
        "new generation",
        "mixed generations",
    ),
    *("ALREADY_EXISTS", "RECORD_NOT_FOUND", "NOT_UNIQUE", "FOREIGN_KEY", "IMMUTABLE", "VERSION_CONFLICT"),
    *(
        "exists in another generation",
        "IDEMPOTENCY_MISMATCH",
        "parent refused",
        "moved to another team",
        "number counted",
        "faults",
    ),
]


@dataclass
class WriteScenario:
    """Random writes to an empty tenant, mirrored in the reference model."""

    store: Store
    check_engine: Callable[[], None]
    """checks the index entries of the engine itself"""
    tenant: str = field(default_factory=new_tenant)
    now: float = 10.0
    generation: int = 0
    """number of added shard generations"""
    model: ReferenceModel = field(default_factory=lambda: ReferenceModel(ENTITY_RULES))
    completed: list[ModelCommand] = field(default_factory=list)
    """completed commands with idempotency keys"""
    keys: Iterator[int] = field(default_factory=count)
    processes: Sequence[FaultyStore] = ()
    """faulty stores of two processes, each with its own counter cache"""

    def __post_init__(self) -> None:
        self.processes = [FaultyStore(self.store, Random(0)) for _ in range(2)]

    def db(self, generation: int | None = None, store: Store | None = None) -> Database:
        """The database of a process, which may not have the latest shard generation yet."""
        catalog = CATALOGS[self.generation if generation is None else generation]
        return Database(catalog, store or self.store, SEAL, clock=lambda: self.now, tenant=self.tenant)

    # --- commands

    def model_command(self, draft: CommandDraft, step: ScenarioStep) -> ModelCommand:
        """Completes a draft with the current state."""
        values = {} if draft.action == "remove" else dict(draft.values)
        if draft.action == "update":
            values = {name: value for name, value in values.items() if name in draft.changed_names}
        if (
            draft.action == "create"
            and draft.kind == "member"
            and draft.created is not None
            and draft.created <= self.now
        ):
            values["created"] = draft.created
        old = self.model.records[draft.kind].get(draft.id)
        expected = None
        if draft.action != "create" and draft.version_offset is not None:
            expected = (old["version"] if old else 1) + draft.version_offset
        # If replies are lost, only a key makes the outcome of a request certain.
        key = f"key{next(self.keys)}" if draft.has_key or "lost" in step.faults else None
        return ModelCommand(draft.action, draft.kind, draft.id, values, expected, key)

    def database_command(self, command: ModelCommand, generation: int) -> Command:
        """Returns the database command of a model command."""
        spec = CATALOGS[generation].entity(Team if command.kind == "team" else MEMBERS[generation])
        values = {spec.ids[0].name: command.id, **command.values}
        match command.action:
            case "create":
                return Create(spec, values, command.key)
            case "update":
                return Update(spec, [command.id], command.values, command.expected_version, command.key)
            case "replace":
                return Replace(spec, values, command.expected_version, command.key)
            case _:
                return Remove(spec, [command.id], command.expected_version, command.key)

    # --- steps

    async def single(self, step: ScenarioStep) -> None:
        """Executes a command."""
        await self.execute([self.model_command(step.drafts[0], step)], step)

    async def repeat(self, step: ScenarioStep) -> None:
        """Repeats a completed command."""
        if self.completed:
            seen["repeated"] += 1
            await self.execute([self.completed[step.pick % len(self.completed)]], step)

    async def reuse_key(self, step: ScenarioStep) -> None:
        """Executes another command with the key of a completed one."""
        if self.completed:
            seen["reused key"] += 1
            key = self.completed[step.pick % len(self.completed)].key
            await self.execute([replace(self.model_command(step.drafts[0], step), key=key)], step)

    async def concurrent(self, step: ScenarioStep) -> None:
        """Executes commands concurrently in two processes, of which one may lack the latest shard generation."""
        commands = [self.model_command(draft, step) for draft in step.drafts]
        if step.repeat_first:
            commands[-1] = commands[0]
        seen["concurrent"] += 1
        await self.execute(commands, step)

    async def batch(self, step: ScenarioStep) -> None:
        """Executes commands as a batch."""
        commands = [self.model_command(draft, step) for draft in step.drafts]
        seen["batch"] += 1
        answers = await self.db().apply_each([self.database_command(command, self.generation) for command in commands])
        await self.check_outcome(
            commands, [self.to_response(command, answer) for command, answer in zip(commands, answers, strict=True)]
        )

    async def together(self, step: ScenarioStep) -> None:
        """Executes commands all or none, and another command or a copy of the write at the same time."""
        commands = [replace(self.model_command(draft, step), key=None) for draft in step.drafts]
        keyed = step.drafts[0].has_key or "lost" in step.faults
        write = ModelWrite(tuple(commands), f"key{next(self.keys)}" if keyed else None)
        others: list[ModelCommand | ModelWrite] = [write] if step.repeat_first and keyed else []
        if not step.repeat_first and step.pick % 2:
            others = [self.model_command(step.drafts[0], step)]
        seen["together"] += 1
        await self.execute([write, *others], step)

    async def advance_clock(self, step: ScenarioStep) -> None:
        """Advances the clock, possibly past the start of a shard generation."""
        self.now += step.seconds

    async def add_generation(self, _: ScenarioStep) -> None:
        """Adds a shard generation before its start."""
        if self.generation < len(SINCE) and self.now < SINCE[self.generation]:
            seen["new generation"] += 1
            self.generation += 1

    # --- results

    async def execute(self, commands: Sequence[ModelCommand | ModelWrite], step: ScenarioStep) -> None:
        """Executes commands concurrently."""
        for number, process in enumerate(self.processes):
            process.reset(Random(f"{step.seed} {number}"), **step.faults)
        # A process without the latest generation is correct until that generation starts.
        generations = [
            max(0, self.generation - 1) if self.now < SINCE[max(0, self.generation - 1)] else self.generation,
            self.generation,
        ]
        seen["mixed generations"] += len(commands) > 1 and generations[0] != generations[1]

        async def execute_command(at: int, command: ModelCommand | ModelWrite) -> Response | WriteResponse:
            generation = generations[at % 2] if len(commands) > 1 else self.generation
            db = self.db(generation, self.processes[(at + step.pick) % 2])
            problems: list[str] = []
            for _ in range(MAX_ATTEMPTS):
                try:
                    answer: Any = await self.apply(db, command, generation)
                except ShardQLError as problem:
                    if problem.retryable and (command.key is not None or problem.code == "CONFLICT"):
                        problems.append(problem.message)
                        continue
                    answer = problem
                if isinstance(command, ModelWrite):
                    return self.to_write_response(command, answer)
                return self.to_response(command, answer)
            raise AssertionError(f"{command} exceeded its attempts: {problems}")

        responses = await asyncio.gather(*(execute_command(at, command) for at, command in enumerate(commands)))
        seen["faults"] += any(process.fault_count for process in self.processes)
        await self.check_outcome(commands, responses)

    async def apply(self, db: Database, command: ModelCommand | ModelWrite, generation: int) -> Any:
        """Executes a command, or a write."""
        if isinstance(command, ModelWrite):
            commands = [self.database_command(one, generation) for one in command.commands]
            return await db.apply_together(commands, command.key)
        return await db.apply(self.database_command(command, generation))

    def to_write_response(self, write: ModelWrite, answer: Any) -> WriteResponse:
        if isinstance(answer, ShardQLError):
            ((failed, problem),) = answer.operations
            seen["together refused"] += failed > 0
            return WriteResponse(failed=failed, code=problem.code)
        seen["together applied"] += 1
        records = (None if record is None else to_model(record) for record in answer)
        return WriteResponse(tuple(map(Response, records)))

    def to_response(self, command: ModelCommand, answer: Any) -> Response:
        if isinstance(answer, ShardQLError):
            seen[answer.code] += 1
            seen["parent refused"] += command.action == "remove" and answer.code == "FOREIGN_KEY"
            seen["exists in another generation"] += answer.code == "ALREADY_EXISTS" and self.is_in_another_generation(
                command
            )
            return Response(code=answer.code)
        seen[command.action] += 1
        record = None if answer is None else to_model(answer)
        old = self.model.records[command.kind].get(command.id)
        seen["number counted"] += record is not None and command.kind == "member" and old is None
        seen["moved to another team"] += bool(old and record and record.get("team_id") != old.get("team_id"))
        return Response(record)

    def is_in_another_generation(self, command: ModelCommand) -> bool:
        """Whether the stored record and the new one have different shard generations."""
        old = self.model.records[command.kind].get(command.id, {})
        moments = [old.get("created"), command.values.get("created", self.now)]
        generations = {
            sum(since <= moment for since in SINCE[: self.generation]) for moment in moments if moment is not None
        }
        return len(generations) > 1

    async def check_outcome(
        self, commands: Sequence[ModelCommand | ModelWrite], responses: Sequence[Response | WriteResponse]
    ) -> None:
        """Checks that some sequential order explains all responses and the stored records."""
        candidates: list[ReferenceModel] = []
        for order in permutations(range(len(commands))):
            model = self.model.copy()
            if all(self.explains(model, commands[at], responses[at]) for at in order):
                candidates.append(model)
        stored = await self.stored_records()
        matching = [model for model in candidates if model.records == stored]
        history = "\n".join(f"{command} -> {answer}" for command, answer in zip(commands, responses, strict=True))
        assert matching, f"before:\n{self.model.records}\n{history}\nafter:\n{stored}"
        self.model = matching[0]
        self.completed += [
            command
            for command in commands
            if isinstance(command, ModelCommand) and command.key is not None and command.key in self.model.responses
        ]
        await self.search(stored)

    def explains(
        self, model: ReferenceModel, command: ModelCommand | ModelWrite, response: Response | WriteResponse
    ) -> bool:
        """Applies a command or write to a model, and returns whether the response is correct."""
        if isinstance(command, ModelWrite):
            assert isinstance(response, WriteResponse)
            return model.apply_write(command, response, int(self.now))
        assert isinstance(response, Response)
        return model.apply(command, response, int(self.now))

    async def stored_records(self) -> dict[str, dict[str, Values]]:
        """Audits the table and returns its records in terms of the model."""
        self.check_engine()
        table: Table = classify_items(await all_items(self.store), self.tenant)
        catalog = CATALOGS[self.generation]
        check(catalog, table, self.tenant)
        stored: dict[str, dict[str, Values]] = {name: {} for name in ENTITY_RULES}
        for name, kind in ENTITY_RULES.items():
            spec = next(spec for spec in catalog.entities.values() if spec.name == name)
            for item in table.records.get(name, []):
                record = decode_record(spec, item)
                stored[name][getattr(record, kind.id)] = to_model(record)
        return stored

    async def search(self, stored: Mapping[str, Mapping[str, Values]]) -> None:
        """Checks that each index returns exactly the expected records in order."""
        db = self.db()

        async def check_index(name: str, team: str | None) -> None:
            kind, hashed, order = INDEXES[name]
            records = [{**record, "nick_canonical": record.get("nick")} for record in stored[kind].values()]
            expected = [
                record
                for record in records
                if record[order[0]] is not None and (hashed is None or record[hashed] == team)
            ]
            index = getattr(Team if kind == "team" else MEMBERS[self.generation], name)
            page = await db.search(index, limit=100, **({} if hashed is None else {hashed: team}))
            ids = [
                record[order[-1]]
                for record in sorted(expected, key=lambda record: tuple(record[part] for part in order))
            ]
            assert [getattr(record, order[-1]) for record in page.items] == ids, f"{name} of {team}"

        searches = [
            (name, team) for name, (_, hashed, _) in INDEXES.items() for team in (IDS["team"] if hashed else [None])
        ]
        await asyncio.gather(*(check_index(name, team) for name, team in searches))


def no_engine_check() -> None:
    """Does nothing: this engine's index entries are visible by searches only."""


async def run_scenario(
    steps: Sequence[ScenarioStep], store: Store, check_engine: Callable[[], None] = no_engine_check
) -> None:
    """Runs a scenario and checks the state after each step."""
    scenario = WriteScenario(store, check_engine)
    try:
        for step in steps:
            await getattr(scenario, step.action)(step)
    finally:
        await store.write([Delete(item_key(item)) for item in await all_items(store)])


def test_writes_match_the_reference_model(tmp_path_factory: pytest.TempPathFactory, request: Any) -> None:
    """Sequential, concurrent, retried and refused writes give the results of the reference model."""
    folder: Path = tmp_path_factory.mktemp("writes")
    with store_with_runner(open_sqlite(folder / "table.db"), CATALOGS[0].table_definition()) as (runner, store):

        @examples(10)
        @given(steps=scenarios(5, 20))
        def law(steps: list[ScenarioStep]) -> None:
            runner.run(run_scenario(steps, store, lambda: check_entries(folder / "table.db")))

        seen.clear()
        run_in_batches(law, request, CLASSES)


@pytest.fixture
def dynamodb_store(dynamodb: Server) -> Iterator[tuple[asyncio.Runner, Store]]:
    """DynamoDB Local on its own event loop."""
    with store_with_runner(dynamodb.open("write-laws"), CATALOGS[0].table_definition()) as opened:
        yield opened


def test_writes_on_dynamodb_match_the_reference_model(
    dynamodb_store: tuple[asyncio.Runner, Store], request: pytest.FixtureRequest
) -> None:
    """The same holds on DynamoDB Local."""
    runner, store = dynamodb_store

    @examples(3, deep=150)
    @given(steps=scenarios(2, 8))
    def law(steps: list[ScenarioStep]) -> None:
        runner.run(run_scenario(steps, store))

    run_in_batches(law, request)
