"""Properties that hold record keys: they are global ids in GraphQL, and keep their types in storage."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from graphql_api import Catalog, Entity, Id, Int32, RecordKey, SubId
from graphql_api.errors import InvalidCatalog, InvalidValue
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.values import Put
from tests.schema.graphql_client import GraphQLClient, open_client

NUMBER = UUID("12345678-1234-5678-1234-567812345678")
FIELDS = "subject others labels { about } maybe"


class Part(Entity):
    """A record with ids that JSON has no types for."""

    part_id: Id[UUID]
    number: SubId[Int32]


class Label(BaseModel):
    """A nested model with a record key."""

    about: RecordKey
    text: str = ""


class Link(Entity):
    """A record that names others by their keys."""

    link_id: Id[str]
    subject: RecordKey
    others: list[RecordKey] = Field(default_factory=list)
    labels: list[Label] = Field(default_factory=list)
    maybe: RecordKey | None = None


CATALOG = Catalog(Part, Link)
PART = Part(part_id=NUMBER, number=7)


@asynccontextmanager
async def open_links(folder: Path, tenant: str | None = "acme") -> AsyncIterator[GraphQLClient]:
    """Open a client for one tenant."""
    async with open_client(CATALOG, folder) as client:
        own = replace(client, db=client.db.scoped(tenant=tenant))
        await own.db.put(PART)
        yield own


async def test_record_keys_are_global_ids(tmp_path: Path) -> None:
    """Properties with record keys take and return the global ids of the records, also in lists and nested models."""
    async with open_links(tmp_path) as client:
        id = client.db.seal_key(PART)
        create = """mutation ($id: ID!) { createLink(input: {
            linkId: "l", subject: $id, others: [$id, $id], labels: [{about: $id}], maybe: null
        }) { link { FIELDS } } }""".replace("FIELDS", FIELDS)
        expected = {"subject": id, "others": [id, id], "labels": [{"about": id}], "maybe": None}
        assert (await client.data(create, {"id": id}))["createLink"]["link"] == expected
        assert (await client.data(f'{{ link(id: "l") {{ {FIELDS} }} }}'))["link"] == expected
        update = 'mutation ($id: ID!) { updateLink(input: {id: "l", maybe: $id}) { link { maybe } } }'
        assert (await client.data(update, {"id": id}))["updateLink"]["link"] == {"maybe": id}
        node = "query ($id: ID!) { node(id: $id) { ... on Part { partId number } } }"
        assert (await client.data(node, {"id": id}))["node"] == {"partId": str(NUMBER), "number": 7}


async def test_stored_keys_keep_their_types(tmp_path: Path) -> None:
    """A record returns the key that was stored, with the types of its parts and without a tenant."""
    async with open_links(tmp_path) as client:
        key = RecordKey("part", (NUMBER,), (7,), tenant="acme", generation=0)
        link = Link(link_id="l", subject=key, others=[key], labels=[Label(about=key)])
        await client.db.put(link)
        read = await client.db.get(Link, "l")
        assert read is not None
        for found in (read.subject, *read.others, read.labels[0].about):
            assert (found, found.generation) == (RecordKey("part", (NUMBER,), (7,)), 0)
        items = (await client.store.scan(0, 1, None)).items
        stored = next(item for item in items if item.get("linkId") == "l")
        assert "acme" not in str({name: value for name, value in stored.items() if name != "hashKey"})
        with pytest.raises(InvalidValue, match="cannot be stored"):
            await client.db.put(Link(link_id="m", subject=RecordKey.EMPTY))


async def test_keys_of_earlier_releases(tmp_path: Path) -> None:
    """Keys that an earlier release stored as maps are read."""
    async with open_links(tmp_path, None) as client:
        await client.db.put(Link(link_id="l", subject=RecordKey("part", (NUMBER,), (7,))))
        items = (await client.store.scan(0, 1, None)).items
        stored = next(item for item in items if item.get("linkId") == "l")
        old = {"origin": "link", "ids": ["l"], "children": [], "tenant": None, "generation": None}
        await client.store.write([Put({**stored, "subject": old})])
        read = await client.db.get(Link, "l")
        assert read is not None
        assert read.subject == RecordKey("link", ("l",))


@pytest.mark.parametrize("field", ["subject", "others", "labels"])
async def test_foreign_keys_are_refused(tmp_path: Path, field: str) -> None:
    """A key of another tenant, or a text that is no key, is refused and named by its property."""
    async with open_links(tmp_path) as client:
        own, foreign = client.db.seal_key(PART), client.db.scoped(tenant="other").seal_key(PART)
        for text in (foreign, "part/1", own[:-2]):
            values: dict[str, Any] = {"linkId": "l", "subject": own}
            values[field] = {"subject": text, "others": [own, text], "labels": [{"about": text}]}[field]
            error = await client.error(
                "mutation ($input: LinkInput!) { createLink(input: $input) { __typename } }",
                {"input": values},
                caller=Caller("c", tenant="acme"),
            )
            assert error["extensions"] == {"code": "INVALID_RECORD_KEY", "argument": field}
            assert "acme" not in error["message"]


@pytest.mark.parametrize("annotation", [dict[str, RecordKey], RecordKey | str, list[RecordKey | int]])
def test_keys_in_json_are_refused(annotation: Any) -> None:
    """A record key in a value that is JSON in GraphQL is a violation, because JSON would show its parts."""

    class Odd(Entity):
        """A record with a key in JSON."""

        odd_id: Id[str]
        value: annotation

    with pytest.raises(InvalidCatalog, match="holds record keys in a value that is JSON in GraphQL"):
        Graph(Catalog(Odd))
