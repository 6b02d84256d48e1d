"""Two tenants in one table are isolated, whatever their names and their requests are."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, HasMany, Id, Index, Ref, Shards, SubId, Timestamp, Union
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.schema.execution.graphql_operation import ExecutionResponse
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.schema.graphql_client import GraphQLClient, client_for, open_database
from tests.support.run_depth import depth

OPERATION_COUNTS = (1_200, 10_000)
"""of both tenants together, quick and deep"""

PAIRS: Sequence[tuple[str | None, str | None]] = (
    ("a", "a|"),
    ("a", "a|note"),
    ("a|", "a%7C"),
    ("a%", "a%25"),
    ("note", "note!0"),
    ("a|note!0|town#x", None),
    ("\x00", "\x01"),
    ("é", "e\u0301"),
    ("A", "a"),
)
"""names that a missing escape would make equal"""

TEXTS = (
    *("|", "#", "!", "/", "%", "%7C", "%25", "\x00", "\x01", "\x02", "\x01|", "\x01}", "~", " "),
    *("note", "note!", "noteId#", "town#x", "0", "00", "01", "a", "A", "é", "e\u0301", "😀", "\uffff"),
)


class Note(Entity, shards=Shards(1).then(3, since=500)):
    """A note of one tenant."""

    note_id: Id[str]
    created: Created[Timestamp]
    town: str
    text: str
    other: str | None = None

    by_town = Index(hash="town", sort="text")
    by_text = Index(sort="text", projection="KEYS_ONLY")
    by_alone = Index(sort="created", sharded=False, raw=True, name="alone")
    by_made = Index(sort=["text", "created"], name="made")
    by_any = Union("by_text", "by_made")
    by_alone_text = Index(sort=["text", "created"], sharded=False, name="aloneText")

    next = Ref("Note", by="other", description="The next one.")
    entries = HasMany("Entry", via="by_id", by="note_id", description="Its entries.")


class Entry(Entity):
    """An entry of a note's history."""

    note_id: Id[str]
    at: SubId[str]
    text: str


CATALOG = Catalog(Note, Entry)
NOTE = (
    "noteId town text other id next { text } entries(limit: 3) { items { at text } totalCount(atMost: 99) { value } }"
)
PAGE = f"{{ items {{ {NOTE} }} nextToken totalCount(atMost: 999) {{ value }} edges {{ cursor }} }}"


@dataclass
class Tenant:
    """The records that one tenant has written, and the ids and tokens that it has received."""

    name: str | None
    marker: str
    """part of every text that this tenant writes, and of no text of the other tenant"""
    client: GraphQLClient
    notes: dict[str, Note] = field(default_factory=dict)
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    """record keys"""
    tokens: list[str] = field(default_factory=list)

    @property
    def db(self) -> Database:
        """The database scoped to this tenant."""
        return self.client.db.scoped(tenant=self.name)

    async def execute(self, query: str, variables: dict[str, Any]) -> ExecutionResponse:
        """Executes an operation; the callers of both tenants have the same subject and groups."""
        caller = Caller("c", tenant=self.name, subject="ann", explain=True)
        return await self.client.execute(query, variables, caller=caller)

    def shown(self, note: Note) -> dict[str, Any]:
        """Returns the expected result for a note."""
        entries = sorted(at for id, at in self.entries if id == note.note_id)
        following = self.notes.get(note.other) if note.other else None
        return {
            "noteId": note.note_id,
            "town": note.town,
            "text": note.text,
            "other": note.other,
            "next": None if following is None else {"text": following.text},
            "entries": {
                "items": [{"at": at, "text": self.entries[note.note_id, at].text} for at in entries[:3]],
                "totalCount": {"value": len(entries)},
            },
        }


@dataclass
class TwoTenants:
    """Random operations of two tenants."""

    random: Random
    tenants: tuple[Tenant, Tenant]
    ids: tuple[str, ...]
    """few, so that both tenants have records with the same ids"""
    action_counts: dict[str, int] = field(default_factory=dict)

    async def step(self) -> None:
        """Runs a random operation of one tenant."""
        own, other = self.random.sample(self.tenants, 2)
        name = self.random.choice([*ACTIONS, "put", "put_entry"])
        response = await ACTIONS[name](self, own, other)
        self.action_counts[name] = self.action_counts.get(name, 0) + 1
        if response is not None:
            assert other.marker not in json.dumps(response.body, ensure_ascii=False)
            assert set(response.codes) <= {"INVALID_RECORD_KEY", "INVALID_TOKEN"}, response.body

    @property
    def is_covered(self) -> bool:
        """Whether every action has run, and each tenant has received record keys and tokens."""
        return self.action_counts.keys() == ACTIONS.keys() and all(
            tenant.tokens and tenant.ids for tenant in self.tenants
        )

    @property
    def id(self) -> str:
        """An id that both tenants may use."""
        return self.random.choice(self.ids)

    # --- writes ------------------------------------------------------------------------------------------------

    async def put(self, own: Tenant, _: Tenant) -> None:
        """Creates or replaces a note of the tenant."""
        id = self.id
        created = own.notes[id].created if id in own.notes else self.random.choice([100, 900])
        text, other = f"{self.random.choice(TEXTS)}{own.marker}", self.random.choice([None, self.id])
        note = Note(note_id=id, created=created, town=self.random.choice(TEXTS), text=text, other=other)
        await own.db.put(note)
        own.notes[id] = note

    async def put_entry(self, own: Tenant, _: Tenant) -> None:
        """Writes an entry of a note's history."""
        entry = Entry(note_id=self.id, at=self.random.choice(TEXTS), text=own.marker)
        await own.db.put(entry)
        own.entries[entry.note_id, entry.at] = entry

    async def delete(self, own: Tenant, _: Tenant) -> None:
        """Removes a note; the other tenant may have one with the same id."""
        id = self.id
        await own.db.delete(Note, id)
        own.notes.pop(id, None)

    # --- reads -------------------------------------------------------------------------------------------------

    async def get(self, own: Tenant, _: Tenant) -> ExecutionResponse:
        """Reads one note by an id that both tenants may use."""
        id = self.id
        response = await own.execute(f"query ($id: ID!) {{ note(id: $id) {{ {NOTE} }} }}", {"id": id})
        found = response.body["data"]["note"]
        if found is not None:
            own.ids.append(found.pop("id"))
        note = own.notes.get(id)
        assert found == (None if note is None else own.shown(note))
        return response

    async def search(self, own: Tenant, _: Tenant) -> ExecutionResponse:
        """Runs a search that both tenants may run, with its total count."""
        town, prefix = self.random.choice(TEXTS), self.random.choice([None, *TEXTS])
        search_field, matches = self.random.choice(
            (
                ("noteByTown(town: $town, prefix: $prefix, limit: 100)", lambda note: note.town == town),
                ("noteByText(prefix: $prefix, limit: 100)", lambda _: True),
                ("noteByAny(prefix: $prefix, limit: 100)", lambda _: True),
                (
                    "noteByAloneText(prefix: $prefix, filter: { town: { eq: $town } }, limit: 100)",
                    lambda note: note.town == town,
                ),
            )
        )
        return await self._check_page(
            own,
            search_field,
            {"town": town, "prefix": prefix},
            [note for note in own.notes.values() if matches(note) and note.text.startswith(prefix or "")],
        )

    async def everything(self, own: Tenant, _: Tenant) -> ExecutionResponse:
        """Reads all notes of the tenant through an index with one hash key."""
        return await self._check_page(own, "noteByAlone(limit: 100)", {}, [*own.notes.values()])

    async def _check_page(
        self, own: Tenant, search_field: str, variables: dict[str, Any], expected: list[Note]
    ) -> ExecutionResponse:
        variable_types = "".join(
            f"${name}: String{'!' if name == 'town' else ''} " for name in variables if f"${name}" in search_field
        )
        query = f"query {f'({variable_types})' if variable_types else ''} {{ found: {search_field} {PAGE} }}"
        response = await own.execute(
            query, {name: value for name, value in variables.items() if f"${name}" in search_field}
        )
        assert response.codes == (), response.body
        found = response.body["data"]["found"]
        own.tokens += [edge["cursor"] for edge in found["edges"][:1]]
        own.ids += [item.pop("id") for item in found["items"]][:1]
        by_id = {item["noteId"]: item for item in found["items"]}
        assert len(by_id) == len(found["items"])
        assert by_id == {note.note_id: own.shown(note) for note in expected}
        assert found["totalCount"]["value"] == len(expected)
        return response

    async def entries(self, own: Tenant, _: Tenant) -> ExecutionResponse:
        """Reads the latest entry of a note, and counts its entries."""
        id = self.id
        query = (
            "query ($id: ID!) { entry(id: $id) { at text } entryById(id: $id) { items { at } totalCount { value } } }"
        )
        response = await own.execute(query, {"id": id})
        times = sorted(entry.at for entry in own.entries.values() if entry.note_id == id)
        last = {"at": times[-1], "text": own.marker} if times else None
        assert response.body["data"] == {
            "entry": last,
            "entryById": {"items": [{"at": at} for at in times[:50]], "totalCount": {"value": len(times)}},
        }
        return response

    # --- identifiers of the other tenant -------------------------------------------------------------------------

    async def foreign_id(self, own: Tenant, other: Tenant) -> ExecutionResponse | None:
        """A record key of the other tenant is invalid; an own record key finds the own record, or none."""
        if not other.ids or not own.ids:
            return None
        theirs, ours = self.random.choice(other.ids), self.random.choice(own.ids)
        query = """query ($theirs: ID!, $ours: ID!) {
            a: node(id: $theirs) { id }
            b: note(id: $theirs) { id }
            c: nodes(ids: [$ours, $theirs]) { ... on Note { id text } }
            d: noteById(id: $theirs) { items { id } } }"""
        response = await own.execute(query, {"theirs": theirs, "ours": ours})
        data = response.body["data"]
        assert (data["a"], data["b"], data["c"][1], data["d"]) == (None, None, None, None)
        assert response.codes == ("INVALID_RECORD_KEY",) * 4
        assert data["c"][0] is None or own.marker in data["c"][0]["text"]
        return response

    async def foreign_token(self, own: Tenant, other: Tenant) -> ExecutionResponse | None:
        """A page token of the other tenant is invalid for every search."""
        if not other.tokens:
            return None
        field_name = self.random.choice(["noteByAlone", "noteByText", "noteByAny"])
        argument = self.random.choice(["nextToken", "after", "before"])
        token = self.random.choice(other.tokens)
        response = await own.execute(
            f"query ($token: String) {{ {field_name}({argument}: $token) {PAGE} }}", {"token": token}
        )
        assert response.codes == ("INVALID_TOKEN",)
        return response

    async def foreign_texts(self, own: Tenant, other: Tenant) -> ExecutionResponse:
        """The name, ids and tokens of the other tenant are ordinary texts as arguments."""
        text = self.random.choice(
            [other.name or "-", *other.tokens[-3:], *(f"{other.name}|{id}" for id in self.ids[:3])]
        )
        query = "query ($text: String!) { noteByTown(town: $text) { items { text } totalCount { value } } }"
        response = await own.execute(query, {"text": text})
        texts = [{"text": note.text} for note in own.notes.values() if note.town == text]
        assert response.body["data"]["noteByTown"]["totalCount"]["value"] == len(texts)
        return response

    async def rejected_writes(self, own: Tenant, other: Tenant) -> None:
        """Errors of the Python API contain no text of the other tenant."""
        for id in (f"{self.id}{'x' * 1020}", ""):
            with pytest.raises(ShardQLError) as caught:
                await own.db.put(Note(note_id=id, created=100, town="x", text=own.marker))
            assert other.marker not in caught.value.message


ACTIONS = {
    name: getattr(TwoTenants, name)
    for name in (
        *("put", "put_entry", "delete", "get", "search", "everything", "entries"),
        *("foreign_id", "foreign_token", "foreign_texts", "rejected_writes"),
    )
}


@asynccontextmanager
async def two_tenants(
    folder: Path, random: Random, names: tuple[str | None, str | None], graph: Graph
) -> AsyncIterator[TwoTenants]:
    """Two tenants with these names in one empty table."""
    async with open_database(CATALOG, await open_sqlite(folder / "x.db")) as db:
        client = client_for(db, graph=graph, details=True)
        first, second = (
            Tenant(name, f"❰{marker}❱", client) for name, marker in zip(names, ("one", "two"), strict=True)
        )
        ids = tuple("".join(random.choices(TEXTS, k=random.randint(1, 3))) for _ in range(12))
        yield TwoTenants(random, (first, second), (*ids, *(name for name in names if name)))


@pytest.mark.parametrize("names", PAIRS)
async def test_tenants_are_isolated(names: tuple[str | None, str | None], tmp_path: Path, random: Random) -> None:
    """No operation of a tenant returns a record, count or text of the other tenant."""
    async with two_tenants(tmp_path, random, names, Graph(CATALOG)) as tenants:
        wanted_operations = ceil(depth(*OPERATION_COUNTS) / len(PAIRS))
        while sum(tenants.action_counts.values()) < wanted_operations or not tenants.is_covered:
            await tenants.step()
            assert sum(tenants.action_counts.values()) < wanted_operations + 1_000
