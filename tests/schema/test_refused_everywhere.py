"""A refused request, or one with what belongs to another tenant, reads nothing: through every field that there is."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLField, GraphQLNonNull, get_named_type

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
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult
from tests.schema.asking import Asked, asking, opened, write
from tests.stores import WrappedStore

GROWN = Shards(2).then(5, since=500)


class Deed(Entity, allow=[]):
    """Who owns what."""

    kept_id: Id[str]
    holder: SubId[str]


class Closed(Entity, shards=GROWN, allow=group("Admin")):
    """Something for administrators, found in every way there is."""

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
    """Something with a history, of whoever has a deed of it."""

    kept_id: Id[str]
    at: SubId[int] = 1
    created: Created[Timestamp] = 700
    colour: str = "x"

    by_colour = Index(hash="colour", sort="kept_id")
    by_kept = Index(hash="kept_id", sort="colour")


class Own(Entity, allow=owner("own_id")):
    """Somebody's settings."""

    own_id: Id[str]
    text: str = "-"

    by_text = Index(hash="own_id", sort="text")


class Only(Entity, allow=group("Admin")):
    """There is one of it."""

    text: str = "-"


class Hub(Entity):
    """Open to everyone, and joined with all the others."""

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


class KeyedStore(WrappedStore):
    """Knows under which hash keys it was asked for anything."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.asked: list[str] = []

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.asked += [read.hash_key for read in reads]
        return await super().read_ranges(reads, want)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.asked += [key.hash for key in keys]
        return await super().get_many(keys, consistent)


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Asked, list[str]]]:
    """The records, once without a tenant and once of the tenant `a`; and under which hash keys the store was asked."""
    async with opened(CATALOG, await open_sqlite(folder / "x.db"), *RECORDS) as db:
        await write(db.scoped(tenant="a"), RECORDS)
        keyed = KeyedStore(db.store)
        yield asking(replace(db, store=keyed), graph=GRAPH), keyed.asked


def asks(name: str, field: GraphQLField, **values: str) -> str:
    """A field with all that it cannot do without, and all that can be asked of its answer."""
    needed = {
        argument: values.get(argument) or VALUES[str(get_named_type(given.type))]
        for argument, given in field.args.items()
        if isinstance(given.type, GraphQLNonNull) and argument != "orderBy"
    } | values
    given = f"({', '.join(f'{argument}: {value}' for argument, value in needed.items())})" if needed else ""
    paged = str(get_named_type(field.type)).endswith("Connection")
    shown = "items { __typename } edges { cursor } totalCount { value } nextToken" if paged else "__typename"
    return f"{name}{given} {{ {shown} }}"


def guarded_fields() -> Iterator[str]:
    """The fields of the query that give what not everybody may see."""
    return (name for name in FIELDS if not name.lower().startswith("hub") and not name.startswith("node"))


def of_lookups(keys: Sequence[str]) -> bool:
    """Whether these are keys of access lookups alone."""
    return all(key.partition("!")[0] in ("deed", "a|deed") for key in keys)


NOBODY = Caller("c")
MALLORY = Caller("c", subject="mallory", groups=frozenset({"Staff"}))
ADMIN = Caller("c", subject="x", groups=frozenset({"Admin"}))
"""is also called as what the queries ask for"""


@pytest.mark.parametrize("name", [*guarded_fields()])
async def test_fields_of_the_query(tmp_path: Path, name: str) -> None:
    """No field answers somebody without rights, and none reads anything but what tells who owns what."""
    orders = FIELDS[name].args["orderBy"].type if "orderBy" in FIELDS[name].args else None
    choices = get_named_type(orders).values if orders is not None else [None]
    async with watched(tmp_path) as (ask, keys):
        for caller in (NOBODY, MALLORY, replace(NOBODY, tenant="a"), replace(MALLORY, tenant="a")):
            for choice in choices:
                query = asks(name, FIELDS[name], **({"orderBy": choice} if choice else {}))
                keys.clear()
                answer = await ask.answer(f"{{ {query} }}", caller=caller)
                if name == "ownById" and caller.subject:
                    assert answer.body["data"][name]["items"] == []  # Whoever may own something sees what that is.
                else:
                    assert answer.body["data"][name] is None
                    assert answer.codes == ("FORBIDDEN",)
                    assert of_lookups(keys)
                    assert not keys or (caller.subject and name.startswith(("kept", "keptBy")))


@pytest.mark.parametrize("name", [*JOINS])
async def test_joins(tmp_path: Path, name: str) -> None:
    """No join shows anything to somebody without rights, and none reads anything but what tells who owns what."""
    async with watched(tmp_path) as (ask, keys):
        for caller in (NOBODY, MALLORY):
            keys.clear()
            answer = await ask.answer(f'{{ hub(id: "x") {{ {asks(name, JOINS[name])} }} }}', caller=caller)
            shown = answer.body["data"]["hub"][name]
            assert shown is None or shown == [None]
            assert answer.codes == ("FORBIDDEN",)
            assert of_lookups([key for key in keys if not key.startswith("hub!")])


async def test_the_same_fields_answer_those_who_may(tmp_path: Path) -> None:
    """All these queries are answered to somebody with all rights: nothing but the rules refuses them."""
    async with watched(tmp_path) as (ask, _):
        for name in guarded_fields():
            answer = await ask.answer(f"{{ {asks(name, FIELDS[name])} }}", caller=ADMIN)
            refused = name.startswith("deed")
            assert answer.codes == (("FORBIDDEN",) if refused else ()), name
        for name, field in JOINS.items():
            assert await ask.data(f'{{ hub(id: "x") {{ {asks(name, field)} }} }}', caller=ADMIN)


async def test_nodes(tmp_path: Path) -> None:
    """No record is found by its `id` by somebody without rights, and nothing is read for it."""
    query = "query ($id: ID!, $ids: [ID!]!) { node(id: $id) { id } nodes(ids: $ids) { id } }"
    async with watched(tmp_path) as (ask, keys):
        ids = {ask.db.seal_key(record): record for record in RECORDS if not isinstance(record, Hub)}
        for id, record in ids.items():
            for caller in (NOBODY, MALLORY):
                keys.clear()
                answer = await ask.answer(query, {"id": id, "ids": [id]}, caller=caller)
                assert answer.body["data"] == {"node": None, "nodes": [None]}
                assert answer.codes == ("FORBIDDEN", "FORBIDDEN")
                assert of_lookups(keys)
                assert not keys or (caller is MALLORY and isinstance(record, Kept))


async def test_ids_of_another_tenant(tmp_path: Path) -> None:
    """An `id` of another tenant is none, for whoever shows it to whatever field; nothing is read for it."""
    async with watched(tmp_path) as (ask, keys):
        ids = [ask.db.scoped(tenant="a").seal_key(record) for record in RECORDS]
        taking = [name for name, field in FIELDS.items() if "id" in field.args]
        for id in ids:
            for tenant in (None, "b", "a|"):
                caller = replace(ADMIN, tenant=tenant)
                for name in taking:
                    query = asks(name, FIELDS[name], id=f'"{id}"')
                    told = await ask.error(f"{{ {query} }}", caller=caller)
                    assert told["extensions"]["code"] == "INVALID_RECORD_KEY"
                told = await ask.error(f'{{ nodes(ids: ["{id}"]) {{ id }} }}', caller=caller)
                assert told["extensions"]["code"] == "INVALID_RECORD_KEY"
        assert keys == []


async def test_tokens_of_another_tenant(tmp_path: Path) -> None:
    """A page token of another tenant is none, for whichever search; nothing is read for it."""
    async with watched(tmp_path) as (ask, keys):
        tried = 0
        for name, field in FIELDS.items():
            if "nextToken" not in field.args or name.startswith("deed"):
                continue
            query = asks(name, field, limit="1")
            page = (await ask.data(f"{{ {query} }}", caller=replace(ADMIN, tenant="a")))[name]
            for token in {edge["cursor"] for edge in page["edges"]} | {page["nextToken"]} - {None}:
                keys.clear()
                for tenant in (None, "b"):
                    again = asks(name, field, limit="1", nextToken=f'"{token}"')
                    told = await ask.error(f"{{ {again} }}", caller=replace(ADMIN, tenant=tenant))
                    assert told["extensions"]["code"] == "INVALID_TOKEN"
                assert keys == []
                tried += 1
        assert tried > 10


async def test_a_tenant_asks_for_its_own_keys(tmp_path: Path) -> None:
    """Whatever is asked for, the store is asked under hash keys of the caller's tenant alone."""
    async with watched(tmp_path) as (ask, keys):
        for tenant, begins in (("a", "a|"), ("b", "b|"), ("a|deed", "a%7Cdeed|")):
            for name in guarded_fields():
                keys.clear()
                await ask.answer(f"{{ {asks(name, FIELDS[name])} }}", caller=replace(ADMIN, tenant=tenant))
                assert keys or name.startswith("deed")
                assert all(key.startswith(begins) for key in keys)
