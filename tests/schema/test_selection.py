"""A search fetches by key only what its selection needs beyond the index, and never returns null for a stored value."""

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
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from tests.schema.graphql_client import NOW, GraphQLClient, client_for, open_database


class State(Enum):
    """The state of a task."""

    OPEN = "open"
    DONE = "done"


class Task(Entity, shards=Shards(3).then(5, since=500)):
    """A task."""

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
    """Entries that may expire."""

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


class FetchCountingStore(ForwardingStore):
    """Records the number of records that each call fetches by key."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.fetched: list[int] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.fetched.append(len(keys))
        return await super().get_many(keys, consistent)


@asynccontextmanager
async def open_tasks(
    folder: Path, graph: Graph | None = None
) -> AsyncIterator[tuple[GraphQLClient, FetchCountingStore]]:
    """A client of all tasks, and the store that counts its fetches."""
    async with open_database(CATALOG, await open_sqlite(folder / "x.db"), *TASKS) as db:
        store = FetchCountingStore(db.store)
        yield client_for(Database(CATALOG, store, db.seal, db.clock), graph=graph), store


def tasks_of(owner: str) -> list[Task]:
    """The tasks of an owner, in index order."""

    def order(one: Task) -> Any:
        due = None if one.due is None else -one.due.timestamp()
        return list(State).index(one.state), due is not None, due, one.cost, one.created, one.task_id

    return sorted((one for one in TASKS if one.owner == owner), key=order)


# --- fetches by key --------------------------------------------------------------------------------------------

COVERED = [
    ('taskByOwner(owner: "ann"', "taskId owner state due cost created"),
    ('taskByOwner(owner: "ann"', "__typename taskId"),
    ('taskByOwner(owner: "ann"', "id: taskId created: cost"),
    ("taskByFolded(", "taskId folded title note tags"),
    ("taskByCost(", "cost taskId"),
    ("taskByCreated(", "taskId note tags title due"),
]
NOT_COVERED = [
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
    """A search for five records in one of several selection shapes."""
    arguments = call if call.endswith("(") else f"{call}, "
    return f"{{ page: {arguments}limit: 5) {shape.format(fields)} }}"


@pytest.mark.parametrize("shape", SHAPES)
async def test_covered_properties_are_not_fetched(tmp_path: Path, shape: str) -> None:
    """Properties that the index or its keys contain cause no fetch, in any shape of selection."""
    async with open_tasks(tmp_path) as (client, store):
        for call, fields in COVERED:
            await client.data(_query(call, fields, shape))
        assert store.fetched == []


@pytest.mark.parametrize("shape", SHAPES)
async def test_other_properties_are_fetched_in_one_call(tmp_path: Path, shape: str) -> None:
    """A property outside the index causes one fetch for the page, including the record that proves a next page."""
    async with open_tasks(tmp_path) as (client, store):
        for call, fields in NOT_COVERED:
            store.fetched.clear()
            await client.data(_query(call, fields, shape))
            assert store.fetched == [6], (call, fields)


async def test_page_without_records(tmp_path: Path) -> None:
    """A selection of tokens and counts only causes no fetch."""
    async with open_tasks(tmp_path) as (client, store):
        await client.data('{ taskByOwner(owner: "ann", limit: 2) { nextToken complete totalCount { value exact } } }')
        assert store.fetched == []


async def test_several_searches(tmp_path: Path) -> None:
    """Each search field has its own selection; the selections of a repeated field are merged."""
    async with open_tasks(tmp_path) as (client, store):
        await client.data(
            '{ a: taskByOwner(owner: "ann", limit: 2) { items { taskId } } '
            'b: taskByOwner(owner: "ann", limit: 3) { items { title } } '
            'c: taskByOwner(owner: "bo", limit: 1) { items { taskId } } '
            'c: taskByOwner(owner: "bo", limit: 1) { edges { node { note } } } }'
        )
        assert sorted(store.fetched) == [2, 4]


async def test_filter_outside_the_index(tmp_path: Path) -> None:
    """A filter on a property outside the index fetches the records, even if the property is not selected."""
    async with open_tasks(tmp_path) as (client, store):
        query = '{ page: taskByOwner(owner: "ann", filter: {note: {exists: true}}) { items { taskId } } }'
        found = await client.data(query)
        assert [item["taskId"] for item in found["page"]["items"]] == [
            one.task_id for one in tasks_of("ann") if one.note is not None
        ]
        assert len(store.fetched) == 1
        store.fetched.clear()
        covered = (
            '{ taskByOwner(owner: "ann", filter: {created: {ge: 500}, due: {exists: true}}) { items { taskId } } }'
        )
        assert await client.data(covered)
        assert store.fetched == []


async def test_expiring_records_are_fetched(tmp_path: Path) -> None:
    """If the index does not contain the expiry, records are fetched, and expired ones are omitted."""
    records = [Passing(passing_id="p", at=at, until=None if at % 2 else int(NOW) + at - 3) for at in range(8)]
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *records) as db:
        store = FetchCountingStore(db.store)
        client = client_for(Database(CATALOG, store, db.seal, db.clock))
        found = await client.data("{ page: passingByAt { items { at } } }")
        assert [item["at"] for item in found["page"]["items"]] == ["1", "3", "4", "5", "6", "7"]
        assert len(store.fetched) == 1


# --- values ----------------------------------------------------------------------------------------------------


async def test_index_rows_equal_records(tmp_path: Path) -> None:
    """Index rows have the values of the records, including nulls, datetimes, decimals and enums."""
    async with open_tasks(tmp_path) as (client, store):
        fields = "taskId owner state due cost created"
        by_row = (await client.data(f'{{ page: taskByOwner(owner: "ann") {{ items {{ {fields} }} }} }}'))["page"][
            "items"
        ]
        assert store.fetched == []
        by_key = (await client.data(f'{{ page: taskByOwner(owner: "ann") {{ items {{ {fields} title }} }} }}'))["page"]
        assert [{name: item[name] for name in fields.split()} for item in by_key["items"]] == by_row
        assert [item["taskId"] for item in by_row] == [one.task_id for one in tasks_of("ann")]
        assert {item["due"] is None for item in by_row} == {True, False}
        included = (await client.data("{ page: taskByFolded { items { taskId folded title note tags } } }"))["page"][
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


async def test_select_in_python(tmp_path: Path) -> None:
    """In Python, `select` names the needed properties. Properties outside `select` and the index are missing."""
    async with open_tasks(tmp_path) as (client, store):
        page = await client.db.search(Task.by_owner, owner="ann", select=["task_id", "state"])
        assert [(one.task_id, one.state, one.due) for one in page.items] == [
            (one.task_id, one.state, one.due) for one in tasks_of("ann")
        ]
        assert store.fetched == []
        for name in ("title", "note", "tags", "folded"):
            assert not hasattr(page.items[0], name)
        whole = await client.db.search(Task.by_owner, owner="ann", select=["note"])
        assert list(whole.items) == tasks_of("ann")
        assert store.fetched == [len(whole.items)]


# --- custom fields and hooks -----------------------------------------------------------------------------------


class ResultRecorder(FieldExtension):
    """Records the notes of the records that a search returns."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def resolve_async(self, next_: Any, source: Any, info: strawberry.Info, **given: Any) -> Any:
        answer = await next_(source, info, **given)
        self.notes += [one.note for one in answer.items]
        return answer


class SourceRecorder(FieldExtension):
    """Records the note of the record that a field belongs to."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def resolve(self, next_: Any, source: Any, info: strawberry.Info, **given: Any) -> Any:
        self.notes.append(source.note)
        return next_(source, info, **given)


BY_OWNER = '{ page: taskByOwner(owner: "ann") { items { taskId } } }'
NOTES = [one.note for one in tasks_of("ann")]


async def test_custom_fields_get_whole_records(tmp_path: Path) -> None:
    """A custom field may read any property of its record, whatever else is selected."""
    graph = Graph(CATALOG)

    @strawberry.type
    class Own:
        @strawberry.field
        def shouted(self, root: strawberry.Parent[Task]) -> str:
            return f"{root.title.upper()} {root.note}"

    graph.extend(Task, Own)
    async with open_tasks(tmp_path, graph) as (client, _):
        found = await client.data('{ page: taskByOwner(owner: "ann") { items { shouted } } }')
        assert [item["shouted"] for item in found["page"]["items"]] == [
            f"{one.title.upper()} {one.note}" for one in tasks_of("ann")
        ]


async def test_property_hooks_get_whole_records(tmp_path: Path) -> None:
    """A hook on a property may read any other property of its record."""
    graph, recorder = Graph(CATALOG), SourceRecorder()
    graph.hook("Task.taskId", recorder)
    async with open_tasks(tmp_path, graph) as (client, _):
        await client.data(BY_OWNER)
        assert recorder.notes == NOTES


async def test_search_hooks_get_whole_records(tmp_path: Path) -> None:
    """A hook on a search may read any property of its records; searches without hooks remain covered."""
    graph, recorder = Graph(CATALOG), ResultRecorder()
    graph.hook("taskByOwner", recorder)
    async with open_tasks(tmp_path, graph) as (client, store):
        await client.data(BY_OWNER)
        assert recorder.notes == NOTES
        store.fetched.clear()
        await client.data("{ taskByFolded { items { taskId } } }")
        assert store.fetched == []
