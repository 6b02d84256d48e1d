"""Versions of derived properties and shard generations: the table's record decides what servers compute and place."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Create, Created, Delete, Entity, Id, Index, Shards, Timestamp, derived
from graphql_api.errors import CatalogBehind, InvalidCatalog, NotReady
from graphql_api.evolution import TableRecord, proposed
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.writes.two_releases import NEWER, Servers, model, read, with_state


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """Servers over an empty table."""
    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(NEWER.table_definition())
    yield Servers(store)
    await store.close()


# --- derived versions ------------------------------------------------------------------------------------------


def tagged(version: int, *, has_previous: bool = True) -> Catalog:
    """A catalog with a derived property of this version."""
    functions = {1: str.lower, 2: str.upper, 3: str.title}
    previous = functions[version - 1] if has_previous and version > 1 else None

    class Tag(Entity):
        tag_id: Id[str]
        text: str
        key: str = derived(functions[version], "text", version=version, previous=previous)

        by_key = Index(sort="key")

    return Catalog(Tag)


async def test_the_record_decides_which_function_computes(servers: Servers) -> None:
    """Until a new version of a derived property is being built, its records have the values of the previous one."""
    old, new = tagged(1), tagged(2)
    await servers.store.ensure_table(new.table_definition())
    servers.record = proposed(proposed(TableRecord(), old), new)
    tag = model(new, "Tag")
    created = await servers.server(new).create(tag, tag_id="t", text="aB")
    assert created.key == "ab"
    assert (await servers.item("tag!", "tagId#t"))["key"] == "ab"
    assert (await read(servers.server(new), tag, "t")).key == "ab"
    page = await servers.server(new).search(tag.by_key, eq="AB")
    assert [record.tag_id for record in page.items] == ["t"]
    given = tag(tag_id="u", text="cD")
    await servers.server(new).put(given)
    assert given.key == "cd"

    servers.record = with_state(servers.record, "building")
    assert (await read(servers.server(new), tag, "t")).key == "AB"
    assert (await servers.server(new).update(tag, "t", text="ef")).key == "EF"
    assert (await servers.item("tag!", "tagId#t"))["keyRangeKey"].startswith("key#EF")
    with pytest.raises(CatalogBehind, match="newer catalog") as refused:
        await servers.server(old).update(model(old, "Tag"), "t", text="gh")
    assert refused.value.retryable


async def test_every_write_of_an_entity_that_cannot_be_computed_is_refused(servers: Servers) -> None:
    """A server that lacks the function of a derived property refuses creates, puts, updates and deletes."""
    servers.record = with_state(proposed(proposed(TableRecord(), tagged(1)), tagged(2)), "ready")
    old = tagged(1)
    db, tag = servers.server(old), model(old, "Tag")
    record = tag(tag_id="t", text="a")
    for write in (db.create(record), db.put(record), db.update(tag, "t", text="b"), db.delete(tag, "t")):
        with pytest.raises(CatalogBehind):
            await write
    with pytest.raises(CatalogBehind) as refused:
        await db.write([Create(record), Delete(tag, "t")])
    assert [position for position, _ in refused.value.operations] == [0]
    assert [type(result) for result in await db.put_many([record])] == [CatalogBehind]
    assert not await servers.items()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"version": 0}, "has the version 0"),
        ({"version": True}, "has the version True"),
        ({"previous": str.upper}, "has a previous function and the version 1"),
        ({"version": 2, "previous": "upper"}, "has the previous function 'upper'"),
    ],
)
def test_invalid_versions(options: Any, problem: str) -> None:
    """A version is a number from 1, and the previous function belongs to a version above 1."""
    default: Any = partial(derived, str.lower, "text", **options)

    class Tag(Entity):
        tag_id: Id[str]
        text: str
        key: str = default()

    with pytest.raises(InvalidCatalog, match=problem):
        Catalog(Tag)


# --- generations -----------------------------------------------------------------------------------------------


def growing(*, is_grown: bool) -> Catalog:
    """A catalog of cars, with a second generation of shards."""
    shards = Shards(1).then(4, since=1_000) if is_grown else Shards(1)

    class Car(Entity, shards=shards):
        car_id: Id[str]
        created: Created[Timestamp]
        name: str = ""

    return Catalog(Car)


async def test_creations_wait_for_a_generation_that_is_being_built(servers: Servers) -> None:
    """While a generation is being built, creations from its beginning on are refused, and all other writes are not."""
    old, new = growing(is_grown=False), growing(is_grown=True)
    car = model(old, "Car")
    servers.record = proposed(proposed(TableRecord(), old), new)
    await servers.server(old).create(car, car_id="late", created=2_000)
    assert {key for key, _ in await servers.items()} == {"car!"}
    servers.record = with_state(servers.record, "building")
    db = servers.server(old)
    with pytest.raises(NotReady, match=r"since 1000 need the generation \S+, which is being built") as refused:
        await db.create(car, car_id="new", created=1_000)
    assert refused.value.extensions["state"] == "building"
    (problem,) = await db.put_many([car(car_id="new", created=1_000)])
    assert isinstance(problem, NotReady)
    await db.create(car, car_id="early", created=999)
    await db.update(car, "late", name="n")
    await db.put(car(car_id="late", created=2_000, name="m"))
    assert {key for key, _ in await servers.items()} == {"car!"}
    servers.record = with_state(servers.record, "ready", ["car generation 1"])
    await servers.server(old).create(car, car_id="new", created=1_000)
    assert {key.partition("!")[2] for key, _ in await servers.items()} > {""}
