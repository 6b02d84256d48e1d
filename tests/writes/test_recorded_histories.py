"""Current records that only a newer release declares: when servers write them, and which constraints hold by them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Created, Entity, ForeignKey, Id, Shards, SubId, Timestamp, Unique
from graphql_api.errors import ForeignKeyBroken, InvalidRecord, NotUnique, ShardQLError
from graphql_api.evolution import TableRecord, proposed
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.support.run_depth import examples
from tests.support.store_doubles import store_with_runner
from tests.writes.two_releases import KNOWN, NEWER, OLDER, Servers, model, read, with_state

OldOrder, NewOrder = model(OLDER, "Order"), model(NEWER, "Order")

CURRENT = "order current record current"


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """Servers of both releases over an empty table."""
    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(NEWER.table_definition())
    yield Servers(store)
    await store.close()


async def sub_ids(servers: Servers) -> dict[str, str]:
    """The stored entries and current records by sub id, with the entry that a current record is a copy of."""
    items = (await servers.items()).values()
    return {item["at"]: item.get("_of", "") for item in items if "at" in item}


# --- who writes current records --------------------------------------------------------------------------------


async def test_servers_keep_current_records_of_another_catalog(servers: Servers) -> None:
    """A server that declares no current records writes them too, with the properties that it does not know."""
    await servers.newer.create(NewOrder, order_id="o", at="1", total=1, customer="Ann")
    await servers.older.update(OldOrder, "o", at="2", total=2)
    current = await read(servers.newer, NewOrder, "o", at="~current")
    assert (current.total, current.customer) == (2, "Ann")
    assert (await read(servers.newer, NewOrder, "o", at="2")).customer == "Ann"
    await servers.older.put(OldOrder(order_id="o", at="3", total=3))
    assert await sub_ids(servers) == {"1": "", "2": "", "3": "", "~current": "3"}
    assert (await read(servers.newer, NewOrder, "o", at="~current")).customer is None
    await servers.older.delete(OldOrder, "o", at="3")
    assert (await read(servers.newer, NewOrder, "o", at="~current")).customer == "Ann"


async def test_put_entries_keep_unknown_properties(servers: Servers) -> None:
    """A put of a stored entry keeps what the server does not know of it, in the current record too."""
    await servers.newer.create(NewOrder, order_id="o", at="1", customer="Ann")
    await servers.older.put_many([OldOrder(order_id="o", at="1", total=7), OldOrder(order_id="o", at="0", total=6)])
    for at in ("1", "~current"):
        order = await read(servers.newer, NewOrder, "o", at=at)
        assert (order.total, order.customer) == (7, "Ann")
    assert (await read(servers.newer, NewOrder, "o", at="0")).customer is None


@pytest.mark.parametrize("catalog", [OLDER, NEWER], ids=["older", "newer"])
@pytest.mark.parametrize(
    ("state", "is_written"),
    [("announced", False), ("building", True), ("ready", True), ("closing", True), ("dropping", False)],
)
async def test_the_state_decides_who_writes(servers: Servers, catalog: Catalog, state: Any, is_written: bool) -> None:
    """All servers write current records from `building` to `closing`, and none does before and after."""
    servers.record = with_state(KNOWN, state, [CURRENT])
    order, db = model(catalog, "Order"), servers.server(catalog)
    await db.create(order, order_id="o", at="1")
    await db.put(order(order_id="o", at="2"))
    expected = {"1": "", "2": "", "~current": "2"} if is_written else {"1": "", "2": ""}
    assert await sub_ids(servers) == expected


async def test_histories_without_a_current_record_get_one(servers: Servers) -> None:
    """The first write of a history while current records are being built creates the current record."""
    servers.record = KNOWN
    await servers.older.create(OldOrder, order_id="o", at="5", total=5)
    servers.record = with_state(KNOWN, "building", [CURRENT])
    await servers.older.put(OldOrder(order_id="o", at="4", total=4))
    assert await sub_ids(servers) == {"4": "", "5": "", "~current": "5"}


class Trip(Entity, shards=Shards(1).then(4, since=100), current="~current"):
    """A history over two shard generations."""

    trip_id: Id[str]
    at: SubId[str]
    created: Created[Timestamp]


@pytest.mark.parametrize("in_bulk", [False, True], ids=["create", "put_many"])
async def test_current_records_that_are_left_are_no_entries(servers: Servers, in_bulk: bool) -> None:
    """While current records are dropped, one that is left without entries does not determine the creation value."""
    catalog = Catalog(Trip)
    ready = with_state(proposed(TableRecord(), catalog), "ready")
    servers.record = ready
    await servers.server(catalog).create(Trip, trip_id="t", at="1", created=5)
    servers.record = with_state(ready, "dropping", ["trip current record current"])
    db = servers.server(catalog)
    await db.delete(Trip, "t", at="1")
    assert await sub_ids(servers) == {"~current": "1"}
    if in_bulk:
        assert not any(await db.put_many([Trip(trip_id="t", at="2", created=150)]))
    else:
        await db.create(Trip, trip_id="t", at="2", created=150)
    assert (await read(db, Trip, "t", at="2")).created == 150


async def test_the_sub_id_of_current_records_is_reserved(servers: Servers) -> None:
    """No server writes an entry under the sub id of current records that another catalog declares."""
    for write in (
        servers.older.create(OldOrder, order_id="o", at="~current"),
        servers.older.put(OldOrder(order_id="o", at="~current")),
        servers.older.delete(OldOrder, "o", at="~current"),
    ):
        with pytest.raises(InvalidRecord, match="names the current record"):
            await write


# --- constraints -----------------------------------------------------------------------------------------------


def with_constraints(*, current: str | None) -> Catalog:
    """A catalog of histories with a unique property and a foreign key."""

    class Shop(Entity):
        shop_id: Id[str]

    class Visit(Entity, current=current):
        visit_id: Id[str]
        at: SubId[str]
        card: Unique[str | None] = None
        shop: str | None = None

        of_shop = ForeignKey("Shop", by="shop")

    return Catalog(Shop, Visit)


WITHOUT, WITH = with_constraints(current=None), with_constraints(current="~current")
ENTRIES = proposed(proposed(TableRecord(), WITHOUT), WITH)
"""constraints hold by the entries, and current records are announced"""

HEADS = with_state(ENTRIES, "building")
Visit, Shop = model(WITH, "Visit"), model(WITH, "Shop")


async def owners(servers: Servers) -> dict[str, str]:
    """The sub ids of the entries that own constraint items, by the value of the unique item or of the reference."""
    items = await servers.items()
    return {
        f"{key.hash.rpartition('#')[2]} {item['_owner'][1].rpartition('|')[2]}": item["_owner"][1].partition("\x01")[0]
        for key, item in items.items()
        if "_owner" in item
    }


async def test_entries_own_constraint_items_before_current_records_exist(servers: Servers) -> None:
    """Until current records are being built, each entry owns its constraint items, on servers that declare them too."""
    servers.record = ENTRIES
    db = servers.server(WITH)
    await db.put(Shop(shop_id="s"))
    await db.create(Visit, visit_id="v", at="1", card="red", shop="s")
    assert await owners(servers) == {"red at#1": "visitId#v", "s at#1": "visitId#v"}
    with pytest.raises(NotUnique):
        await db.create(Visit, visit_id="v", at="2", card="red")


async def test_current_records_take_over_constraint_items(servers: Servers) -> None:
    """While current records are being built, the items of a history's entries count as own, and are taken over."""
    servers.record = ENTRIES
    db = servers.server(WITHOUT)
    visit = model(WITHOUT, "Visit")
    await db.put(model(WITHOUT, "Shop")(shop_id="s"))
    await db.create(visit, visit_id="v", at="1", card="red", shop="s")
    servers.record = HEADS
    db = servers.server(WITHOUT)
    with pytest.raises(NotUnique):
        await db.create(visit, visit_id="w", at="1", card="red")
    with pytest.raises(ForeignKeyBroken):
        await db.delete(model(WITHOUT, "Shop"), "s")
    await db.update(visit, "v", at="2")
    assert (await owners(servers))["red at#~current"] == "visitId#v"
    with pytest.raises(NotUnique):
        await db.create(visit, visit_id="w", at="1", card="red")
    await db.update(visit, "v", at="3", card="blue", shop=None)
    await db.create(visit, visit_id="w", at="1", card="red")
    await db.delete(model(WITHOUT, "Shop"), "s")
    assert await owners(servers) == {"red at#~current": "visitId#w", "blue at#~current": "visitId#v"}


async def test_values_of_older_entries_are_free(servers: Servers) -> None:
    """A value that only an older entry of a history with a current record has is free, though the entry owns it."""
    servers.record = ENTRIES
    await servers.server(WITH).create(Visit, visit_id="v", at="1", card="red")
    await servers.server(WITH).create(Visit, visit_id="v", at="2", card="blue")
    servers.record = HEADS
    await servers.server(WITH).create(Visit, visit_id="v", at="0")
    await servers.server(WITH).create(Visit, visit_id="w", at="1", card="red")
    with pytest.raises(NotUnique):
        await servers.server(WITH).create(Visit, visit_id="x", at="1", card="blue")


async def test_children_that_only_another_catalog_declares(servers: Servers) -> None:
    """A history of another catalog references a record by its current record, for servers without that entity too."""
    servers.record = replace(HEADS)
    await servers.server(WITH).put(Shop(shop_id="s"))
    await servers.server(WITH).create(Visit, visit_id="v", at="1", shop="s")
    shops = Catalog(Shop)
    with pytest.raises(ForeignKeyBroken, match=r"Visit v/~current references it by Visit.shop"):
        await servers.server(shops).delete(Shop, "s")
    await servers.server(WITH).update(Visit, "v", at="2", shop=None)
    await servers.server(shops).delete(Shop, "s")


# --- all writes ------------------------------------------------------------------------------------------------

KEYS = {"order_id": st.sampled_from("op"), "at": st.sampled_from("123")}
TOTALS, CUSTOMERS = st.integers(0, 3), st.sampled_from(["Ann", "Bob", None])
WRITES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["create", "put", "update"]), st.fixed_dictionaries({**KEYS, "total": TOTALS})),
        st.tuples(st.just("amend"), st.fixed_dictionaries({**KEYS, "customer": CUSTOMERS})),
        st.tuples(st.just("delete"), st.fixed_dictionaries(KEYS)),
    ),
    max_size=12,
)


async def perform(servers: Servers, catalog: Catalog, name: str, values: dict[str, Any]) -> str:
    """Perform a write by a server with this catalog, or as the newer release. Return the code of its error."""
    order, db = model(catalog, "Order"), servers.server(catalog)
    order_id, changes = values["order_id"], {key: values[key] for key in values if key != "order_id"}
    try:
        match name:
            case "create":
                await db.create(order, **values)
            case "put":
                kept = await servers.newer.get(NewOrder, order_id, at=values["at"]) if catalog is NEWER else None
                await db.put(order(**values, **({} if kept is None else {"customer": kept.customer})))
            case "update":
                await db.update(order, order_id, **changes)
            case "amend":
                await servers.newer.update(NewOrder, order_id, **changes)
            case "delete":
                await db.delete(order, order_id, **changes)
    except ShardQLError as problem:
        return problem.code
    return ""


@given(writes=WRITES)
@examples(quick=40)
def test_older_servers_write_what_newer_ones_would(tmp_path_factory: pytest.TempPathFactory, writes: Any) -> None:
    """After any writes of histories by both releases, the stored items equal those that the newer one writes."""
    folder = tmp_path_factory.mktemp("tables")
    definition = NEWER.table_definition()
    with (
        store_with_runner(open_sqlite(folder / "mixed.db"), definition) as (runner, mixed_store),
        store_with_runner(open_sqlite(folder / "newer.db"), definition) as (_, newer_store),
    ):
        mixed, alone = Servers(mixed_store), Servers(newer_store)
        for name, values in writes:
            code = runner.run(perform(mixed, OLDER, name, values))
            assert code == runner.run(perform(alone, NEWER, name, values))
        assert runner.run(mixed.items()) == runner.run(alone.items())
