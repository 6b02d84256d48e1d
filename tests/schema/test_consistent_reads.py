"""Which reads are consistent: reads of single records and access lookups."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Ref, SubId, owner_through
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult
from tests.schema.graphql_client import client_for, open_database


class Folder(Entity):
    """A folder of papers."""

    folder_id: Id[str]
    holder: str


class Step(Entity):
    """An entry of a history."""

    step_id: Id[str]
    at: SubId[int]


class Draft(Entity, current="~current"):
    """A history with its current record."""

    draft_id: Id[str]
    version: SubId[str]


class Paper(Entity):
    """A paper in a folder."""

    paper_id: Id[str]
    folder_id: str

    by_folder = Index(hash="folder_id", projection="KEYS_ONLY")
    folder = Ref("Folder", by="folder_id")


class Will(Entity, allow=owner_through("Folder", of="folder_id", owner="holder")):
    """A record that only the holder of its folder may read."""

    will_id: Id[str]
    folder_id: str

    by_folder = Index(hash="folder_id", name="willFolder")


CATALOG = Catalog(Folder, Step, Draft, Paper, Will)
GRAPH = Graph(CATALOG)
RECORDS: Sequence[Entity] = [
    Folder(folder_id="f", holder="ann"),
    Step(step_id="s", at=1),
    Draft(draft_id="d", version="v1"),
    Paper(paper_id="p", folder_id="f"),
    Will(will_id="x", folder_id="f"),
]


class ConsistencyRecorder(ForwardingStore):
    """Records for each read whether it is consistent."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.consistency: list[bool] = []

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.consistency += [read.consistent for read in reads]
        return await super().read_ranges(reads, want)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.consistency.append(consistent)
        return await super().get_many(keys, consistent)


@pytest.mark.parametrize(
    ("query", "consistent"),
    [
        ('{ paper(id: "p") { folderId } }', [True]),
        ('{ step(id: "s", at: 1) { at } }', [True]),
        ('{ step(id: "s") { at } }', [True]),
        ('{ draft(id: "d") { version } }', [True]),
        ('{ will(id: "x") { folderId } }', [True, True]),
        ('{ willByFolder(folderId: "f") { items { willId } } }', [True, False]),
        ('{ paper(id: "p") { folder { holder } } }', [True, False]),
        ('{ paperByFolder(folderId: "f") { items { paperId } } }', [False]),
        ("query ($id: ID!) { node(id: $id) { id } }", [True]),
        ("query ($id: ID!) { nodes(ids: [$id, $id]) { id } }", [True]),
    ],
)
async def test_reads_of_one_record_are_consistent(tmp_path: Path, query: str, consistent: list[bool]) -> None:
    """Point lookups, the last entry of a history and access lookups are consistent. Indexes and joins are not."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        store = ConsistencyRecorder(db.store)
        client = client_for(replace(db, store=store), graph=GRAPH)
        variables = {"id": db.seal_key(Paper(paper_id="p", folder_id="f"))} if "$id" in query else {}
        await client.data(query, variables, caller=Caller("c", subject="ann"))
        assert store.consistency == consistent
