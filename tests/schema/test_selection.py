"""What a selection asks of records is what is fetched of them: nothing more by key, and never a null for a value."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import strawberry
from strawberry.extensions import FieldExtension

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp, Ttl, canonical, derived, desc
from graphql_api.database import Database
from graphql_api.schema.graph import Graph
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from tests.schema.asking import NOW, Asked, asking, opened
from tests.stores import WrappedStore


class State(Enum):
    """How far something is."""

    OPEN = "open"
    DONE = "done"


class Task(Entity, shards=Shards(3).then(5, since=500)):
    """Something to do."""

    task_id: Id[str]
    created: Created[Timestamp]
    owner: str
    title: str
    state: State = State.OPEN
    due: datetime | None = None
    cost: Decimal = Decimal(0)
    note: str | None = None
    tags: list[str] | None = None
    folded: str = derived(canonical, "title")

    by_owner = Index(hash="owner", sort=["state", desc("due"), "cost", "created"], projection="KEYS_ONLY")
    by_folded = Index(sort="folded", projection=["title", "note", "tags"])
    by_cost = Index(sort="cost", raw=True, projection="KEYS_ONLY")
    by_created = Index(sort="created")


class Passing(Entity):
    """Something that expires, one of several of its id."""

    passing_id: Id[str]
    at: SubId[int]
    until: Ttl[Timestamp | None] = None
    text: str = "-"

    by_at = Index(sort="at", projection="KEYS_ONLY", name="passingAt")


CATALOG = Catalog(Task, Passing)
TASKS = [
    Task(
        task_id=f"t{at:02d}",
        created=at * 50,
        owner="ann" if at % 4 else "bo",
        title=f"Títle {at % 5}",
        state=State.DONE if at % 3 else State.OPEN,
        due=None if at % 5 == 0 else datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=at),
        cost=Decimal(at % 4) / 8,
        note=None if at % 2 else f"note {at}",
        tags=None if at % 3 else ["x", str(at)],
    )
    for at in range(20)
]


class KeyedStore(WrappedStore):
    """Remembers what was fetched by key, call by call."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.fetched: list[int] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.fetched.append(len(keys))
        return await super().get_many(keys, consistent)


@asynccontextmanager
async def tasks(folder: Path, graph: Graph | None = None) -> AsyncIterator[tuple[Asked, KeyedStore]]:
    """All tasks, asked over a store that remembers what is fetched."""
    async with opened(CATALOG, await open_sqlite(folder / "x.db"), *TASKS) as db:
        store = KeyedStore(db.store)
        yield asking(Database(CATALOG, store, db.seal, db.clock), graph=graph), store


def tasks_of(owner: str) -> list[Task]:
    """The tasks of an owner in the order of their index."""

    def order(one: Task) -> Any:
        due = None if one.due is None else -one.due.timestamp()
        return list(State).index(one.state), due is not None, due, one.cost, one.created, one.task_id

    return sorted((one for one in TASKS if one.owner == owner), key=order)


# --- what is fetched -------------------------------------------------------------------------------------------

CARRIED = [
    ('taskByOwner(owner: "ann"', "taskId owner state due cost created"),
    ('taskByOwner(owner: "ann"', "__typename taskId"),
    ('taskByOwner(owner: "ann"', "id: taskId created: cost"),
    ("taskByFolded(", "taskId folded title note tags"),
    ("taskByCost(", "cost taskId"),
    ("taskByCreated(", "taskId note tags title due"),
]
LACKING = [
    ('taskByOwner(owner: "ann"', "taskId title"),
    ('taskByOwner(owner: "ann"', "taskId tags"),
    ("taskByFolded(", "taskId cost"),
    ("taskByCost(", "cost taskId created"),
]
SHAPES = [
    "{{ items {{ {0} }} }}",
    "{{ edges {{ node {{ {0} }} cursor }} }}",
    "{{ all: items {{ {0} }} nextToken totalCount {{ value }} shards {{ expected }} }}",
    "{{ items {{ __typename }} ... on TaskConnection {{ items {{ ... {{ {0} }} }} }} }}",
    "{{ ...page }} }} fragment page on TaskConnection {{ edges {{ node {{ ...t }} }} }} fragment t on Task {{ {0}",
]


def _query(call: str, fields: str, shape: str) -> str:
    """Five records of a search in one of several shapes; the one with fragments closes its operation itself."""
    arguments = call if call.endswith("(") else f"{call}, "
    return f"{{ page: {arguments}limit: 5) {shape.format(fields)} }}"


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_an_index_carries_is_not_fetched(tmp_path: Path, shape: str) -> None:
    """Properties that an index carries, or that its keys are made of, cost no read by key, in whatever shape."""
    async with tasks(tmp_path) as (ask, store):
        for call, fields in CARRIED:
            await ask.data(_query(call, fields, shape))
        assert store.fetched == []


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_an_index_lacks_is_fetched_at_once(tmp_path: Path, shape: str) -> None:
    """A property that an index lacks costs one read by key for the page and the record that proves a next one."""
    async with tasks(tmp_path) as (ask, store):
        for call, fields in LACKING:
            store.fetched.clear()
            await ask.data(_query(call, fields, shape))
            assert store.fetched == [6], (call, fields)


async def test_a_page_without_records_fetches_none(tmp_path: Path) -> None:
    """A query that asks for tokens and counts alone reads no record by key."""
    async with tasks(tmp_path) as (ask, store):
        await ask.data('{ taskByOwner(owner: "ann", limit: 2) { nextToken complete totalCount { value exact } } }')
        assert store.fetched == []


async def test_searches_side_by_side(tmp_path: Path) -> None:
    """Each field of an operation is looked at by itself; one that is asked for twice needs what both ask."""
    async with tasks(tmp_path) as (ask, store):
        await ask.data(
            '{ a: taskByOwner(owner: "ann", limit: 2) { items { taskId } } '
            'b: taskByOwner(owner: "ann", limit: 3) { items { title } } '
            'c: taskByOwner(owner: "bo", limit: 1) { items { taskId } } '
            'c: taskByOwner(owner: "bo", limit: 1) { edges { node { note } } } }'
        )
        assert sorted(store.fetched) == [2, 4]


async def test_a_filter_on_what_an_index_lacks(tmp_path: Path) -> None:
    """A filter on a property that an index lacks is tested on fetched records, though none of it was selected."""
    async with tasks(tmp_path) as (ask, store):
        query = '{ page: taskByOwner(owner: "ann", filter: {note: {exists: true}}) { items { taskId } } }'
        found = await ask.data(query)
        assert [item["taskId"] for item in found["page"]["items"]] == [
            one.task_id for one in tasks_of("ann") if one.note is not None
        ]
        assert len(store.fetched) == 1
        store.fetched.clear()
        carried = (
            '{ taskByOwner(owner: "ann", filter: {created: {ge: 500}, due: {exists: true}}) { items { taskId } } }'
        )
        assert await ask.data(carried)
        assert store.fetched == []


async def test_records_that_expire_are_looked_at(tmp_path: Path) -> None:
    """Where an index does not tell when a record expires, the record is fetched, and left out once it has."""
    records = [Passing(passing_id="p", at=at, until=None if at % 2 else int(NOW) + at - 3) for at in range(8)]
    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db"), *records) as db:
        store = KeyedStore(db.store)
        ask = asking(Database(CATALOG, store, db.seal, db.clock))
        found = await ask.data("{ page: passingByAt { items { at } } }")
        assert [item["at"] for item in found["page"]["items"]] == ["1", "3", "4", "5", "6", "7"]
        assert len(store.fetched) == 1


# --- what comes back -------------------------------------------------------------------------------------------


async def test_rows_tell_what_records_hold(tmp_path: Path) -> None:
    """What rows alone tell is what the records hold, nulls, moments, decimals and enums included."""
    async with tasks(tmp_path) as (ask, store):
        fields = "taskId owner state due cost created"
        by_row = (await ask.data(f'{{ page: taskByOwner(owner: "ann") {{ items {{ {fields} }} }} }}'))["page"]["items"]
        assert store.fetched == []
        by_key = (await ask.data(f'{{ page: taskByOwner(owner: "ann") {{ items {{ {fields} title }} }} }}'))["page"]
        assert [{name: item[name] for name in fields.split()} for item in by_key["items"]] == by_row
        assert [item["taskId"] for item in by_row] == [one.task_id for one in tasks_of("ann")]
        assert {item["due"] is None for item in by_row} == {True, False}
        included = (await ask.data("{ page: taskByFolded { items { taskId folded title note tags } } }"))["page"][
            "items"
        ]
        by_id = {one.task_id: one for one in TASKS}
        assert len(included) == len(TASKS)
        for item in included:
            one = by_id[item["taskId"]]
            assert (item["folded"], item["title"], item["note"], item["tags"]) == (
                one.folded,
                one.title,
                one.note,
                one.tags,
            )


async def test_selections_from_python(tmp_path: Path) -> None:
    """From Python `select` names what is needed; what neither it nor the index brings is missing, not a default."""
    async with tasks(tmp_path) as (ask, store):
        page = await ask.db.search(Task.by_owner, owner="ann", select=["task_id", "state"])
        assert [(one.task_id, one.state, one.due) for one in page.items] == [
            (one.task_id, one.state, one.due) for one in tasks_of("ann")
        ]
        assert store.fetched == []
        for name in ("title", "note", "tags", "folded"):
            assert not hasattr(page.items[0], name)
        whole = await ask.db.search(Task.by_owner, owner="ann", select=["note"])
        assert list(whole.items) == tasks_of("ann")
        assert store.fetched == [len(whole.items)]


# --- own fields and hooks --------------------------------------------------------------------------------------


class Told(FieldExtension):
    """Keeps what a field answers."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def resolve_async(self, next_: Any, source: Any, info: strawberry.Info, **given: Any) -> Any:
        answer = await next_(source, info, **given)
        self.notes += [one.note for one in answer.items]
        return answer


class Seen(FieldExtension):
    """Keeps the record that a field is of."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def resolve(self, next_: Any, source: Any, info: strawberry.Info, **given: Any) -> Any:
        self.notes.append(source.note)
        return next_(source, info, **given)


BY_OWNER = '{ page: taskByOwner(owner: "ann") { items { taskId } } }'
NOTES = [one.note for one in tasks_of("ann")]


async def test_own_fields_see_whole_records(tmp_path: Path) -> None:
    """A field of one's own may read any property of its record, whatever else was selected."""
    graph = Graph(CATALOG)

    @strawberry.type
    class Own:
        @strawberry.field
        def shouted(self, root: strawberry.Parent[Task]) -> str:
            return f"{root.title.upper()} {root.note}"

    graph.extend(Task, Own)
    async with tasks(tmp_path, graph) as (ask, _):
        found = await ask.data('{ page: taskByOwner(owner: "ann") { items { shouted } } }')
        assert [item["shouted"] for item in found["page"]["items"]] == [
            f"{one.title.upper()} {one.note}" for one in tasks_of("ann")
        ]


async def test_hooks_of_a_property_see_whole_records(tmp_path: Path) -> None:
    """What is put around a property may read any other one of its record."""
    graph, seen = Graph(CATALOG), Seen()
    graph.hook("Task.taskId", seen)
    async with tasks(tmp_path, graph) as (ask, _):
        await ask.data(BY_OWNER)
        assert seen.notes == NOTES


async def test_hooks_of_a_search_see_whole_records(tmp_path: Path) -> None:
    """What is put around a search may read any property of the records that it finds; other searches stay cheap."""
    graph, told = Graph(CATALOG), Told()
    graph.hook("taskByOwner", told)
    async with tasks(tmp_path, graph) as (ask, store):
        await ask.data(BY_OWNER)
        assert told.notes == NOTES
        store.fetched.clear()
        await ask.data("{ taskByFolded { items { taskId } } }")
        assert store.fetched == []
