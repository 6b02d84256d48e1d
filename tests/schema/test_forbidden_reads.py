"""Forbidden requests, and ids or tokens of other tenants, cause no reads through any field of the schema."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLField, get_named_type

from graphql_api import (
    Catalog,
    Created,
    Entity,
    HasMany,
    Id,
    Index,
    Ref,
    RefMany,
    Shards,
    SubId,
    Timestamp,
    Union,
    group,
    owner,
    owner_through,
)
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult
from tests.schema.graphql_client import GraphQLClient, client_for, open_database, write
from tests.schema.graphql_text import needed_arguments

GROWN = Shards(2).then(5, since=500)


class Deed(Entity, allow=[]):
    """The holders of a record."""

    kept_id: Id[str]
    holder: SubId[str]


class Closed(Entity, shards=GROWN, allow=group("Admin")):
    """Readable by administrators only, with indexes of every kind."""

    closed_id: Id[str]
    created: Created[Timestamp] = 700
    town: str = "x"
    name: str = "n"
    code: str = "c"

    by_town = Index(hash="town", sort="name")
    by_name = Index(sort="name")
    by_code = Index(sort="code", raw=True, projection="KEYS_ONLY")
    by_both = Union("by_name", "by_name_down")
    by_name_down = Index(sort=["code", "name"], name="nameDown")


class Kept(Entity, shards=GROWN, allow=[group("Admin"), owner_through("Deed", of="kept_id", owner="holder")]):
    """A history that is readable by its holders."""

    kept_id: Id[str]
    at: SubId[int] = 1
    created: Created[Timestamp] = 700
    colour: str = "x"

    by_colour = Index(hash="colour", sort="kept_id")
    by_kept = Index(hash="kept_id", sort="colour")


class Own(Entity, allow=owner("own_id")):
    """The settings of one owner."""

    own_id: Id[str]
    text: str = "-"

    by_text = Index(hash="own_id", sort="text")


class Only(Entity, allow=group("Admin")):
    """A singleton."""

    text: str = "-"


class Hub(Entity):
    """Readable by everyone, with joins to all other entities."""

    hub_id: Id[str]
    town: str = "x"
    several: list[str] = ["x"]  # noqa: RUF012 - pydantic copies it

    closed = Ref("Closed", by="town", description="One.")
    closed_first = Ref("Closed", via="by_town", by="town", description="The first.")
    closed_many = RefMany("Closed", by="several", description="Several.")
    closed_page = HasMany("Closed", via="by_town", by="town", description="A page.")
    kept = Ref("Kept", by=["town"], description="The last entry.")
    kept_page = HasMany("Kept", via="by_id", by="town", description="The history.")
    kept_by_kept = HasMany("Kept", via="by_kept", by="town", description="By an index.")
    kept_by_colour = HasMany("Kept", via="by_colour", by="town", description="All of a colour.")
    own = Ref("Own", by="town", description="The settings.")
    own_page = HasMany("Own", via="by_text", by="town", description="By an index.")


CATALOG = Catalog(Deed, Closed, Kept, Own, Only, Hub)
GRAPH = Graph(CATALOG)
RECORDS = (
    *(Closed(closed_id=id, created=created) for id, created in (("x", 100), ("y", 600))),
    *(Kept(kept_id=id, at=at) for id in "xy" for at in range(3)),
    *(Deed(kept_id=id, holder="ann") for id in "xy"),
    *(Own(own_id=id) for id in ("x", "ann")),
    Only(),
    *(Hub(hub_id=id) for id in "xy"),
)
FIELDS = GRAPH.schema._schema.query_type.fields  # type: ignore[union-attr]
JOINS = {
    name: field
    for name, field in GRAPH.schema._schema.type_map["Hub"].fields.items()  # type: ignore[attr-defined]
    if hasattr(get_named_type(field.type), "fields")
}
VALUES = {"ID": '"x"', "String": '"x"', "BigInt": "1"}


class KeyRecordingStore(ForwardingStore):
    """Records the hash key of every read."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.hash_keys_read: list[str] = []

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.hash_keys_read += [read.hash_key for read in reads]
        return await super().read_ranges(reads, want)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.hash_keys_read += [key.hash for key in keys]
        return await super().get_many(keys, consistent)


@asynccontextmanager
async def recording_client(folder: Path) -> AsyncIterator[tuple[GraphQLClient, list[str]]]:
    """A client, and the hash keys it reads. The records exist without a tenant and in tenant `a`."""
    async with open_database(CATALOG, await open_sqlite(folder / "x.db"), *RECORDS) as db:
        await write(db.scoped(tenant="a"), RECORDS)
        keyed = KeyRecordingStore(db.store)
        yield client_for(replace(db, store=keyed), graph=GRAPH), keyed.hash_keys_read


def field_call(name: str, field: GraphQLField, **values: str) -> str:
    """A field with the arguments that it needs and a selection of everything."""
    needed = needed_arguments({argument: given.type for argument, given in field.args.items()})
    arguments = {
        argument: values.get(argument) or VALUES[str(get_named_type(field.args[argument].type))]
        for argument in needed
        if argument != "orderBy"
    } | values
    given = f"({', '.join(f'{argument}: {value}' for argument, value in arguments.items())})" if arguments else ""
    is_page = str(get_named_type(field.type)).endswith("Connection")
    selection = "items { __typename } edges { cursor } totalCount { value } nextToken" if is_page else "__typename"
    return f"{name}{given} {{ {selection} }}"


def guarded_fields() -> Iterator[str]:
    """The query fields with access rules."""
    return (name for name in FIELDS if not name.lower().startswith("hub") and not name.startswith("node"))


def only_access_lookups(keys: Sequence[str]) -> bool:
    """Whether all keys belong to access lookups."""
    return all(key.partition("!")[0] in ("deed", "a|deed") for key in keys)


ANONYMOUS = Caller("c")
MALLORY = Caller("c", subject="mallory", groups=frozenset({"Staff"}))
ADMIN = Caller("c", subject="x", groups=frozenset({"Admin"}))
"""has the subject that the queries use as a value"""


@pytest.mark.parametrize("name", [*guarded_fields()])
async def test_query_fields(tmp_path: Path, name: str) -> None:
    """No field returns anything to an unauthorized caller, and only access lookups are read."""
    orders = FIELDS[name].args["orderBy"].type if "orderBy" in FIELDS[name].args else None
    choices = get_named_type(orders).values if orders is not None else [None]
    async with recording_client(tmp_path) as (client, keys):
        for caller in (ANONYMOUS, MALLORY, replace(ANONYMOUS, tenant="a"), replace(MALLORY, tenant="a")):
            for choice in choices:
                query = field_call(name, FIELDS[name], **({"orderBy": choice} if choice else {}))
                keys.clear()
                response = await client.execute(f"{{ {query} }}", caller=caller)
                if name == "ownById" and caller.subject:
                    assert response.body["data"][name]["items"] == []  # A caller may search their own records.
                else:
                    assert response.body["data"][name] is None
                    assert response.codes == ("FORBIDDEN",)
                    assert only_access_lookups(keys)
                    assert not keys or (caller.subject and name.startswith(("kept", "keptBy")))


@pytest.mark.parametrize("name", [*JOINS])
async def test_joins(tmp_path: Path, name: str) -> None:
    """No join returns anything to an unauthorized caller, and only access lookups are read."""
    async with recording_client(tmp_path) as (client, keys):
        for caller in (ANONYMOUS, MALLORY):
            keys.clear()
            response = await client.execute(f'{{ hub(id: "x") {{ {field_call(name, JOINS[name])} }} }}', caller=caller)
            selection = response.body["data"]["hub"][name]
            assert selection is None or selection == [None]
            assert response.codes == ("FORBIDDEN",)
            assert only_access_lookups([key for key in keys if not key.startswith("hub!")])


async def test_fields_return_data_to_authorized_callers(tmp_path: Path) -> None:
    """An authorized caller gets data for all these queries, so that only the access rules refuse them."""
    async with recording_client(tmp_path) as (client, _):
        for name in guarded_fields():
            response = await client.execute(f"{{ {field_call(name, FIELDS[name])} }}", caller=ADMIN)
            is_forbidden = name.startswith("deed")
            assert response.codes == (("FORBIDDEN",) if is_forbidden else ()), name
        for name, field in JOINS.items():
            assert await client.data(f'{{ hub(id: "x") {{ {field_call(name, field)} }} }}', caller=ADMIN)


async def test_nodes(tmp_path: Path) -> None:
    """No record is returned by its global id to an unauthorized caller, and only access lookups are read."""
    query = "query ($id: ID!, $ids: [ID!]!) { node(id: $id) { id } nodes(ids: $ids) { id } }"
    async with recording_client(tmp_path) as (client, keys):
        ids = {client.db.seal_key(record): record for record in RECORDS if not isinstance(record, Hub)}
        for id, record in ids.items():
            for caller in (ANONYMOUS, MALLORY):
                keys.clear()
                response = await client.execute(query, {"id": id, "ids": [id]}, caller=caller)
                assert response.body["data"] == {"node": None, "nodes": [None]}
                assert response.codes == ("FORBIDDEN", "FORBIDDEN")
                assert only_access_lookups(keys)
                assert not keys or (caller is MALLORY and isinstance(record, Kept))


async def test_ids_of_another_tenant(tmp_path: Path) -> None:
    """A global id of another tenant is invalid in every field, for every caller, without a read."""
    async with recording_client(tmp_path) as (client, keys):
        ids = [client.db.scoped(tenant="a").seal_key(record) for record in RECORDS]
        fields_by_id = [name for name, field in FIELDS.items() if "id" in field.args]
        for id in ids:
            for tenant in (None, "b", "a|"):
                caller = replace(ADMIN, tenant=tenant)
                for name in fields_by_id:
                    query = field_call(name, FIELDS[name], id=f'"{id}"')
                    error = await client.error(f"{{ {query} }}", caller=caller)
                    assert error["extensions"]["code"] == "INVALID_RECORD_KEY"
                error = await client.error(f'{{ nodes(ids: ["{id}"]) {{ id }} }}', caller=caller)
                assert error["extensions"]["code"] == "INVALID_RECORD_KEY"
        assert keys == []


async def test_tokens_of_another_tenant(tmp_path: Path) -> None:
    """A page token of another tenant is invalid for every search, without a read."""
    async with recording_client(tmp_path) as (client, keys):
        token_count = 0
        for name, field in FIELDS.items():
            if "nextToken" not in field.args or name.startswith("deed"):
                continue
            query = field_call(name, field, limit="1")
            page = (await client.data(f"{{ {query} }}", caller=replace(ADMIN, tenant="a")))[name]
            for token in {edge["cursor"] for edge in page["edges"]} | {page["nextToken"]} - {None}:
                keys.clear()
                for tenant in (None, "b"):
                    again = field_call(name, field, limit="1", nextToken=f'"{token}"')
                    error = await client.error(f"{{ {again} }}", caller=replace(ADMIN, tenant=tenant))
                    assert error["extensions"]["code"] == "INVALID_TOKEN"
                assert keys == []
                token_count += 1
        assert token_count > 10


async def test_reads_stay_within_the_tenant(tmp_path: Path) -> None:
    """Every read uses hash keys of the caller's tenant only."""
    async with recording_client(tmp_path) as (client, keys):
        for tenant, prefix in (("a", "a|"), ("b", "b|"), ("a|deed", "a%7Cdeed|")):
            for name in guarded_fields():
                keys.clear()
                await client.execute(f"{{ {field_call(name, FIELDS[name])} }}", caller=replace(ADMIN, tenant=tenant))
                assert keys or name.startswith("deed")
                assert all(key.startswith(prefix) for key in keys)
