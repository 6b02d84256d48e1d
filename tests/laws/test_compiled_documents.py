"""Compiled code and graphql-core give the same answers, errors, explain output and counts, for random queries."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Entity
from graphql_api.codecs import RecordKeySeal
from graphql_api.codecs.strict_json import write_json
from graphql_api.database import Database
from graphql_api.examples import issues, orders, users
from graphql_api.model import camel_case, value_of
from graphql_api.runtime import collect_statistics
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.execution.graphql_operation import ExecutionResponse, Operation
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.values import Item, Put
from tests.laws import completion_catalogs
from tests.laws.filter_catalogs import build, records, shapes
from tests.laws.random_documents import RandomDocuments, literal_pools
from tests.laws.search_catalogs import NOW as DRAWN_NOW
from tests.schema import guarded_catalog
from tests.schema.graphql_client import write
from tests.schema.graphql_text import argument_value, literal
from tests.support import all_types_catalog
from tests.support.run_depth import depth, examples
from tests.support.store_doubles import FailingStore, all_items, store_with_runner

LIMITS = Limits(aliases=1_000, root_fields=100, cost=10**8, deadline=600.0)
SEAL = all_types_catalog.SEAL
KEY_SEAL = RecordKeySeal(b"a secret of thirty-two bytes only")
NOW = all_types_catalog.NOW
ANONYMOUS = Caller("c-1", explain=True)


@dataclass
class World:
    """A database, and two executors of its queries."""

    db: Database
    stock: DocumentExecutor
    compiled: DocumentExecutor
    documents: RandomDocuments
    callers: Sequence[Caller] = (ANONYMOUS,)
    paths: Counter[str] = field(default_factory=Counter)

    async def compare(self, count: int) -> None:
        """Execute random queries on both paths, and on the compiled path again, with the plan of the first time."""
        for _ in range(count):
            query, variables = self.documents.draw()
            caller = self.documents.random.choice(self.callers)
            # Without explain output, compiled code reads a field for several records at once.
            caller = replace(caller, explain=self.documents.random.random() < 0.4)
            expected, response = await self._outcome(self.stock, query, variables, caller)
            assert response.path in ("stock", None)
            other = response
            for _ in range(2):
                found, other = await self._outcome(self.compiled, query, variables, caller)
                assert found == expected, (query, variables, caller.subject)
            self.paths[other.path or "refused"] += 1
            self.paths["errors"] += bool(response.codes)
            self.paths["records"] += b'":[{' in expected[0]
            self.documents.note(response.body)

    async def _outcome(
        self, executor: DocumentExecutor, query: str, variables: dict[str, Any], caller: Caller
    ) -> tuple[tuple[bytes, ...], ExecutionResponse]:
        with collect_statistics() as statistics:
            response = await executor.run(Operation(query, variables=variables), self.db, caller)
        indexes = {
            " ".join(labels): [one.reads, one.empty_reads, one.shards_asked, one.records_read, one.records_returned]
            for labels, one in sorted(statistics.indexes.items())
        }
        parts = response.body, [*response.explain_entries], response.status, statistics.totals(), indexes
        texts = tuple(map(write_json, parts))
        # A field of the application that fails can end its page before compiled code has started the same reads.
        return texts[:1] if b"INTERNAL" in texts[0] and not caller.explain else texts, response


def world_of(
    db: Database, graph: Graph, records: Iterable[Entity], random: Random, callers: Sequence[Caller] = (ANONYMOUS,)
) -> World:
    """Return the world of a database that has these records."""
    pools = literal_pools(_literals(db.catalog, records))
    stock, compiled = (DocumentExecutor(graph.schema, LIMITS, compiled=compiled) for compiled in (False, True))
    return World(db, stock, compiled, RandomDocuments(graph.schema._schema, random, pools), callers)


def _literals(catalog: Catalog, records: Iterable[Entity]) -> Iterator[tuple[str, str]]:
    """Yield the names of scalars and properties with literals of the values of records."""
    for record in records:
        entity = catalog.entity(type(record))
        for part in entity.properties.values():
            value = value_of(record, part.name)
            if part.codec is None or value is None or part.codec.graphql is None:
                continue
            text = literal(argument_value(part.codec, value))
            yield camel_case(part.name), text
            yield part.codec.graphql.name, text
            if part.codec.kind == "text":
                yield part.codec.graphql.name, literal(value[:2])
                yield "ID", text
        ids = [part.column.codec.format(value_of(record, part.name)) for part in entity.ids]
        yield "ID", literal(entity.separator.join(ids))


@dataclass(frozen=True)
class Sample:
    """A catalog with records, and the callers of its queries."""

    records: Sequence[Entity]
    make_graph: Callable[[], Graph]
    callers: Sequence[Caller] = (ANONYMOUS,)


SAMPLES: Mapping[str, Sample] = {
    "users": Sample([*users.sample(12)], lambda: Graph(users.catalog)),
    "orders": Sample([*islice(orders.sample(6), 150)], lambda: Graph(orders.catalog)),
    "issues": Sample([*islice(issues.sample(10), 80)], lambda: Graph(issues.catalog)),
    "all types": Sample(
        [
            *(
                all_types_catalog.Thing(
                    thing_id=f"t-{at}",
                    created=at,
                    first_name=("Jo", "Zoé", "")[at % 3],
                    owner="o" if at % 2 else None,
                    whole=at * 10**17,
                    real=at / 3,
                    state=[*all_types_catalog.State][at % 3],
                    note=("x", None)[at % 2],
                )
                for at in range(12)
            ),
            *(all_types_catalog.Line(order="o", year=1, category="c", num=at) for at in range(4)),
            all_types_catalog.Digits(digits_id="d", text="7"),
            all_types_catalog.Settings(),
        ],
        lambda: Graph(all_types_catalog.CATALOG),
    ),
    "rules": Sample(
        guarded_catalog.RECORDS,
        guarded_catalog.graph,
        [
            replace(caller, explain=True)
            for caller in (
                *(guarded_catalog.ANONYMOUS, guarded_catalog.ANN, guarded_catalog.BOB),
                *(guarded_catalog.CLERK, guarded_catalog.ADMIN, guarded_catalog.ROBOT),
            )
        ],
    ),
    "custom": Sample(completion_catalogs.RECORDS, completion_catalogs.make_graph),
}
EXAMPLES = ("users", "orders", "issues")
QUERIES = (40, 10_000 // 6)
"""of one sample, quick and deep"""


@pytest.fixture(params=[*SAMPLES])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, random: Random
) -> Iterator[tuple[str, asyncio.Runner, World]]:
    """A database of a sample."""
    sample = SAMPLES[request.param]
    graph = sample.make_graph()
    with store_with_runner(open_sqlite(tmp_path / "x.db"), graph.catalog.table_definition()) as (runner, store):
        db = Database(graph.catalog, store, SEAL, clock=lambda: NOW, key_seal=KEY_SEAL)
        runner.run(write(db, sample.records))
        yield request.param, runner, world_of(db, graph, sample.records, random, sample.callers)


def test_both_paths_answer_alike(world: tuple[str, asyncio.Runner, World]) -> None:
    """Answers, errors, paths, explain output and counts are equal, and the examples take the fast path."""
    name, runner, found = world
    runner.run(found.compare(depth(*QUERIES)))
    assert found.paths["records"] > 0
    if name in EXAMPLES:
        assert found.paths["stock"] == 0


def test_both_paths_answer_alike_without_some_shards(world: tuple[str, asyncio.Runner, World]) -> None:
    """The same holds if some shards do not answer."""
    _, runner, found = world
    store = FailingStore(found.db.store, lambda read: crc32(read.hash_key.partition("|")[0].encode()) % 3 == 0)
    found.db = replace(found.db, store=store)
    runner.run(found.compare(depth(*QUERIES) // 2))
    assert sum(found.paths[path] for path in ("fast", "stock")) > 0


def test_both_paths_refuse_damaged_records_alike(world: tuple[str, asyncio.Runner, World]) -> None:
    """The same holds if stored records lack properties, or hold values of other types."""
    _, runner, found = world
    random, catalog = found.documents.random, found.db.catalog
    fields = [
        (part, entity.model.model_fields[part.name])
        for entity in catalog.entities.values()
        for part in entity.properties.values()
    ]
    scalars = {part.stored for part, _ in fields if part.codec is not None and part.function is None}
    scalars -= {part.stored for part, info in fields if info.default_factory is not None}  # Random at each reading.

    async def damage_some() -> None:
        for item in await all_items(found.db.store):
            if random.random() < 0.3:
                await found.db.store.write([Put(_damaged(item, scalars, random))])

    for _ in range(3):
        runner.run(damage_some())
        runner.run(found.compare(depth(*QUERIES) // 3))
    assert found.paths["errors"] > 0


def _damaged(item: Item, names: Collection[str], random: Random) -> Item:
    """Return an item without a property, or with a value of another type."""
    name = random.choice(sorted(names & item.keys()) or sorted(names))
    other = (None, True, 7 if isinstance(item.get(name), str | bool) else "x")
    changed = {**item, name: random.choice(other)}
    if random.random() < 0.4:
        del changed[name]
    return changed


def test_both_paths_answer_alike_on_random_catalogs(tmp_path: Path) -> None:
    """The same holds for random catalogs, with records that are older than some of their properties."""
    paths = Counter[str]()

    @examples(6, deep=150)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        drawn = build(data.draw(shapes(), label="shape"))
        written = data.draw(records(drawn.shape), label="records")
        graph = Graph(drawn.catalog)
        file = tmp_path / f"{next(numbers)}.db"
        with store_with_runner(open_sqlite(file), drawn.catalog.table_definition()) as (runner, store):
            older = Database(drawn.older, store, SEAL, clock=lambda: DRAWN_NOW)
            db = Database(drawn.catalog, store, SEAL, clock=lambda: DRAWN_NOW, key_seal=KEY_SEAL)
            new = [drawn.thing(**one.provided_fields) for one in written if not one.is_old]
            runner.run(write(older, [drawn.old_thing(**one.provided_fields) for one in written if one.is_old]))
            runner.run(write(db, new))
            found = world_of(db, graph, new, Random(data.draw(st.integers(0, 1_000), label="seed")))
            runner.run(found.compare(8))
        paths.update(found.paths)

    numbers = count()
    law()
    assert paths["fast"] > 0
    assert paths["stock"] == 0
