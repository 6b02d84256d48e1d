"""Two tenants in one table never learn of each other, whatever they are called and whatever they ask for."""

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
from graphql_api.schema.execution.document_executor import ExecutionResponse
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.depth import depth
from tests.schema.asking import Asked, asking, opened

OPERATIONS = (1_200, 10_000)
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
"""what an escape that was forgotten would make one of"""

PIECES = (
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
    """What one tenant has written, and what it was given to ask with later."""

    name: str | None
    mark: str
    """stands in every text that it writes, and in nothing that the other one writes"""
    ask: Asked
    notes: dict[str, Note] = field(default_factory=dict)
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    """sealed ones"""
    tokens: list[str] = field(default_factory=list)

    @property
    def db(self) -> Database:
        """The database as this tenant's own code has it."""
        return self.ask.db.scoped(tenant=self.name)

    async def answer(self, query: str, variables: dict[str, Any]) -> ExecutionResponse:
        """What the server answers; everybody is called the same, in the same groups."""
        caller = Caller("c", tenant=self.name, subject="ann", explain=True)
        return await self.ask.answer(query, variables, caller=caller)

    def shown(self, note: Note) -> dict[str, Any]:
        """What a query is to give of a note."""
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
class World:
    """The two tenants, and chance."""

    random: Random
    tenants: tuple[Tenant, Tenant]
    ids: tuple[str, ...]
    """few, so that both have records with the same ones"""
    done: dict[str, int] = field(default_factory=dict)

    async def step(self) -> None:
        """Lets one of the two do something."""
        own, other = self.random.sample(self.tenants, 2)
        name = self.random.choice([*ACTIONS, "put", "put_entry"])
        answer = await ACTIONS[name](self, own, other)
        self.done[name] = self.done.get(name, 0) + 1
        if answer is not None:
            assert other.mark not in json.dumps(answer.body, ensure_ascii=False)
            assert set(answer.codes) <= {"INVALID_RECORD_KEY", "INVALID_TOKEN"}, answer.body

    @property
    def has_seen_all(self) -> bool:
        """Whether everything was done, and each had something that is worth nothing to the other."""
        return self.done.keys() == ACTIONS.keys() and all(tenant.tokens and tenant.ids for tenant in self.tenants)

    @property
    def id(self) -> str:
        """An id that either may have."""
        return self.random.choice(self.ids)

    # --- writing -----------------------------------------------------------------------------------------------

    async def put(self, own: Tenant, _: Tenant) -> None:
        """Writes a note in place of the tenant's own one of that id."""
        id = self.id
        created = own.notes[id].created if id in own.notes else self.random.choice([100, 900])
        text, other = f"{self.random.choice(PIECES)}{own.mark}", self.random.choice([None, self.id])
        note = Note(note_id=id, created=created, town=self.random.choice(PIECES), text=text, other=other)
        await own.db.put(note)
        own.notes[id] = note

    async def put_entry(self, own: Tenant, _: Tenant) -> None:
        """Writes an entry of a note's history."""
        entry = Entry(note_id=self.id, at=self.random.choice(PIECES), text=own.mark)
        await own.db.put(entry)
        own.entries[entry.note_id, entry.at] = entry

    async def delete(self, own: Tenant, _: Tenant) -> None:
        """Removes a note, which the other tenant may have too."""
        id = self.id
        await own.db.delete(Note, id)
        own.notes.pop(id, None)

    # --- reading -----------------------------------------------------------------------------------------------

    async def one(self, own: Tenant, _: Tenant) -> ExecutionResponse:
        """One note by an id that either may have."""
        id = self.id
        answer = await own.answer(f"query ($id: ID!) {{ note(id: $id) {{ {NOTE} }} }}", {"id": id})
        found = answer.body["data"]["note"]
        if found is not None:
            own.ids.append(found.pop("id"))
        note = own.notes.get(id)
        assert found == (None if note is None else own.shown(note))
        return answer

    async def search(self, own: Tenant, _: Tenant) -> ExecutionResponse:
        """A search that both may ask, with the count of all that it has."""
        town, prefix = self.random.choice(PIECES), self.random.choice([None, *PIECES])
        asked, wanted = self.random.choice(
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
        return await self._page(
            own,
            asked,
            {"town": town, "prefix": prefix},
            [note for note in own.notes.values() if wanted(note) and note.text.startswith(prefix or "")],
        )

    async def everything(self, own: Tenant, _: Tenant) -> ExecutionResponse:
        """All that the tenant has, by an index that one hash key holds."""
        return await self._page(own, "noteByAlone(limit: 100)", {}, [*own.notes.values()])

    async def _page(self, own: Tenant, asked: str, variables: dict[str, Any], wanted: list[Note]) -> ExecutionResponse:
        needed = "".join(
            f"${name}: String{'!' if name == 'town' else ''} " for name in variables if f"${name}" in asked
        )
        query = f"query {f'({needed})' if needed else ''} {{ found: {asked} {PAGE} }}"
        answer = await own.answer(query, {name: value for name, value in variables.items() if f"${name}" in asked})
        assert answer.codes == (), answer.body
        found = answer.body["data"]["found"]
        own.tokens += [edge["cursor"] for edge in found["edges"][:1]]
        own.ids += [item.pop("id") for item in found["items"]][:1]
        by_id = {item["noteId"]: item for item in found["items"]}
        assert len(by_id) == len(found["items"])
        assert by_id == {note.note_id: own.shown(note) for note in wanted}
        assert found["totalCount"]["value"] == len(wanted)
        return answer

    async def entries(self, own: Tenant, _: Tenant) -> ExecutionResponse:
        """The last entry of a note, and how many there are."""
        id = self.id
        query = (
            "query ($id: ID!) { entry(id: $id) { at text } entryById(id: $id) { items { at } totalCount { value } } }"
        )
        answer = await own.answer(query, {"id": id})
        kept = sorted(entry.at for entry in own.entries.values() if entry.note_id == id)
        last = {"at": kept[-1], "text": own.mark} if kept else None
        assert answer.body["data"] == {
            "entry": last,
            "entryById": {"items": [{"at": at} for at in kept[:50]], "totalCount": {"value": len(kept)}},
        }
        return answer

    # --- with what belongs to the other one ----------------------------------------------------------------------

    async def foreign_id(self, own: Tenant, other: Tenant) -> ExecutionResponse | None:
        """A sealed id of the other tenant is none; one of its own finds its own record, or none any more."""
        if not other.ids or not own.ids:
            return None
        theirs, ours = self.random.choice(other.ids), self.random.choice(own.ids)
        query = """query ($theirs: ID!, $ours: ID!) {
            a: node(id: $theirs) { id }
            b: note(id: $theirs) { id }
            c: nodes(ids: [$ours, $theirs]) { ... on Note { id text } }
            d: noteById(id: $theirs) { items { id } } }"""
        answer = await own.answer(query, {"theirs": theirs, "ours": ours})
        data = answer.body["data"]
        assert (data["a"], data["b"], data["c"][1], data["d"]) == (None, None, None, None)
        assert answer.codes == ("INVALID_RECORD_KEY",) * 4
        assert data["c"][0] is None or own.mark in data["c"][0]["text"]
        return answer

    async def foreign_token(self, own: Tenant, other: Tenant) -> ExecutionResponse | None:
        """A page token of the other tenant is none, whatever it is used with."""
        if not other.tokens:
            return None
        asked = self.random.choice(["noteByAlone", "noteByText", "noteByAny"])
        argument = self.random.choice(["nextToken", "after", "before"])
        token = self.random.choice(other.tokens)
        answer = await own.answer(f"query ($token: String) {{ {asked}({argument}: $token) {PAGE} }}", {"token": token})
        assert answer.codes == ("INVALID_TOKEN",)
        return answer

    async def foreign_words(self, own: Tenant, other: Tenant) -> ExecutionResponse:
        """What the other tenant calls itself, its ids and its tokens are texts like any others."""
        word = self.random.choice(
            [other.name or "-", *other.tokens[-3:], *(f"{other.name}|{id}" for id in self.ids[:3])]
        )
        query = "query ($word: String!) { noteByTown(town: $word) { items { text } totalCount { value } } }"
        answer = await own.answer(query, {"word": word})
        texts = [{"text": note.text} for note in own.notes.values() if note.town == word]
        assert answer.body["data"]["noteByTown"]["totalCount"]["value"] == len(texts)
        return answer

    async def refusals(self, own: Tenant, other: Tenant) -> None:
        """What the Python API refuses tells nothing of the other tenant either."""
        for id in (f"{self.id}{'x' * 1020}", ""):
            with pytest.raises(ShardQLError) as refused:
                await own.db.put(Note(note_id=id, created=100, town="x", text=own.mark))
            assert other.mark not in refused.value.message


ACTIONS = {
    name: getattr(World, name)
    for name in (
        *("put", "put_entry", "delete", "one", "search", "everything", "entries"),
        *("foreign_id", "foreign_token", "foreign_words", "refusals"),
    )
}


@asynccontextmanager
async def world(
    folder: Path, random: Random, names: tuple[str | None, str | None], graph: Graph
) -> AsyncIterator[World]:
    """Two tenants of these names in one empty table."""
    async with opened(CATALOG, await open_sqlite(folder / "x.db")) as db:
        ask = asking(db, graph=graph, details=True)
        first, second = (Tenant(name, f"❰{mark}❱", ask) for name, mark in zip(names, ("one", "two"), strict=True))
        ids = tuple("".join(random.choices(PIECES, k=random.randint(1, 3))) for _ in range(12))
        yield World(random, (first, second), (*ids, *(name for name in names if name)))


@pytest.mark.parametrize("names", PAIRS)
async def test_tenants_do_not_meet(names: tuple[str | None, str | None], tmp_path: Path, random: Random) -> None:
    """Of many operations of two tenants none shows a record, a count or a word of the other one."""
    async with world(tmp_path, random, names, Graph(CATALOG)) as both:
        enough = ceil(depth(*OPERATIONS) / len(PAIRS))
        while sum(both.done.values()) < enough or not both.has_seen_all:
            await both.step()
            assert sum(both.done.values()) < enough + 1_000
