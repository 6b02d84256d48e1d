"""Writes of an older release maintain what a newer release has added to the table, and keep what it has stored."""

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Entity, Id
from graphql_api.errors import (
    EmptyKey,
    ForeignKeyBroken,
    ImmutableChanged,
    KeyTooLong,
    NotUnique,
    ShardQLError,
)
from graphql_api.evolution import TableRecord, proposed
from graphql_api.evolution.catalog_merge import effective_catalog
from graphql_api.model import Immutable
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.values import Put
from graphql_api.writes.commands import PutRecord
from tests.support.run_depth import examples
from tests.support.store_doubles import store_with_runner
from tests.writes.two_releases import KNOWN, NEWER, OLDER, READY, Servers, model, read, with_state

OldPerson, OldTown = model(OLDER, "Person"), model(OLDER, "Town")
NewPerson, NewTown = model(NEWER, "Person"), model(NEWER, "Town")

PERSON = ("person!", "personId#p")


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """Servers of both releases over an empty table."""
    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(NEWER.table_definition())
    yield Servers(store)
    await store.close()


async def create_person(servers: Servers, **values: Any) -> None:
    """Create a person, and the town that it references, by the newer release."""
    await servers.newer.put(NewTown(town_id="Rome"))
    await servers.newer.create(NewPerson, person_id="p", name="Ann", **{"town": "Rome", "email": "a@b", **values})


# --- unknown properties ----------------------------------------------------------------------------------------


async def test_updates_keep_unknown_properties(servers: Servers) -> None:
    """An update by a server that does not know a property keeps it, and its index finds the record as updated."""
    await create_person(servers)
    await servers.older.update(OldPerson, "p", name="Bob")
    stored = await read(servers.newer, NewPerson, "p")
    assert (stored.name, stored.town, stored.email) == ("Bob", "Rome", "a@b")
    (found,) = (await servers.newer.search(NewPerson.by_town, town="Rome", prefix="B")).items
    assert found.person_id == "p"


@pytest.mark.parametrize("in_bulk", [False, True])
async def test_puts_keep_unknown_properties(servers: Servers, in_bulk: bool) -> None:
    """A put by a server that does not know a property keeps it, and replaces the declared ones."""
    await create_person(servers, note="hello")
    record = OldPerson(person_id="p", name="Bob")
    await servers.older.apply(PutRecord(servers.older.catalog.entity(OldPerson), record, in_bulk=in_bulk))
    stored = await read(servers.newer, NewPerson, "p")
    assert (stored.name, stored.town, stored.note) == ("Bob", "Rome", None)


async def test_cleared_properties_are_removed(servers: Servers) -> None:
    """Clearing a declared property removes its attribute, and the record from the index of another catalog."""
    await create_person(servers, note="hello")
    assert len((await servers.newer.search(NewPerson.by_note)).items) == 1
    await servers.older.update(OldPerson, "p", note=None)
    assert "note" not in await servers.item(*PERSON)
    assert not (await servers.newer.search(NewPerson.by_note)).items


def memos(**properties: Any) -> Catalog:
    """A catalog of memos without constraints, and with these optional texts."""
    annotations = {"memo_id": Id[str], **dict.fromkeys(properties, str)}
    return Catalog(type("Memo", (Entity,), {"__module__": __name__, "__annotations__": annotations, **properties}))


async def test_only_a_server_that_is_behind_reads_before_a_put(servers: Servers) -> None:
    """A put writes blindly only if no other catalog declares more properties: otherwise it keeps theirs."""
    old, new = memos(), memos(text="")
    servers.record = proposed(proposed(TableRecord(), old), new)
    memo = model(new, "Memo")
    await servers.server(new).put(memo(memo_id="m", text="hello"))
    await servers.server(old).put(model(old, "Memo")(memo_id="m"))
    assert (await read(servers.server(new), memo, "m")).text == "hello"
    assert not servers.server(new).catalog.entity("Memo").puts_need_stored_record


async def test_records_of_removed_indexes_lose_their_keys(servers: Servers) -> None:
    """Writes drop the keys of an index that is no longer maintained, so that removal ends."""
    await create_person(servers)
    assert "townRangeKey" in await servers.item(*PERSON)
    servers.record = with_state(servers.record, "dropping", ["person index town"])
    await servers.older.update(OldPerson, "p", name="Bob")
    item = await servers.item(*PERSON)
    assert item["town"] == "Rome"
    assert "townRangeKey" not in item


# --- indexes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["building", "ready", "closing"])
async def test_maintained_indexes_get_entries(servers: Servers, state: Any) -> None:
    """Servers store the entries of an index that only another catalog declares, also with the default of a property."""
    servers.record = with_state(KNOWN, state, ["person index rank"])
    await servers.older.create(OldPerson, person_id="p", name="Ann")
    item, expected = await servers.item(*PERSON), "rank#5\x01|name#Ann\x01|personId#p"
    assert item["personUnshardedHashKey"] == "person!"
    assert item["rankRangeKey"].endswith(expected.partition("\x01")[2])
    assert "rank" not in item


@pytest.mark.parametrize("state", ["announced", "dropping"])
async def test_other_indexes_get_no_entries(servers: Servers, state: Any) -> None:
    """Nobody stores entries of an index that is only announced, or is being removed, also if it is declared."""
    servers.record = with_state(KNOWN, state, ["person index rank"])
    await servers.newer.create(NewPerson, person_id="p", name="Ann")
    assert "rankRangeKey" not in await servers.item(*PERSON)


async def test_values_that_do_not_load_leave_the_record_out(servers: Servers) -> None:
    """A value that another application wrote in another type leaves the record out of the index, and stays."""
    await create_person(servers)
    (old,) = [item for key, item in (await servers.items()).items() if key == PERSON]
    await servers.store.write([Put({**old, "town": Decimal(7), "_w": "w"})])
    await servers.older.update(OldPerson, "p", name="Bob")
    item = await servers.item(*PERSON)
    assert item["town"] == 7
    assert "townRangeKey" not in item
    assert item["nameRangeKey"].startswith("name#Bob")


async def test_values_too_long_for_an_index_of_another_catalog(servers: Servers) -> None:
    """A provided value that does not fit into an index is refused; a stored one of another catalog is left out."""
    with pytest.raises(KeyTooLong):
        await servers.older.create(OldPerson, person_id="p", name="n" * 1_200)
    servers.record = KNOWN
    await servers.newer.create(NewPerson, person_id="p", name="Ann", town="t" * 2_100)
    servers.record = with_state(KNOWN, "building", ["person index town"])
    await servers.older.update(OldPerson, "p", name="Bob")
    item = await servers.item(*PERSON)
    assert len(item["town"]) == 2_100
    assert "townRangeKey" not in item


async def test_values_that_engines_refuse_as_keys(servers: Servers) -> None:
    """A raw index of another catalog refuses values that it cannot contain, unless the record reads alike without."""
    with pytest.raises(EmptyKey, match="plain key"):
        await servers.older.create(OldPerson, person_id="p", name="Ann", note="")

    class Memo(Entity):
        memo_id: Id[str]
        note: str = ""

    servers.record = proposed(servers.record, Catalog(Memo))
    memos = servers.server(Catalog(Memo))
    await memos.create(Memo, memo_id="m")
    assert "note" not in await servers.item("memo!", "memoId#m")
    assert await memos.get(Memo, "m") == Memo(memo_id="m", note="")
    with pytest.raises(KeyTooLong, match=r"Memo.note must be a text of 1 to 1,020 bytes"):
        await memos.create(Memo, memo_id="n", note="n" * 1_021)


# --- server-set properties -------------------------------------------------------------------------------------


async def test_inherited_versions_and_update_times(servers: Servers) -> None:
    """Servers count the version and set the update time that only another catalog declares."""
    await servers.older.create(OldPerson, person_id="p", name="Ann")
    assert (await read(servers.newer, NewPerson, "p")).version == 1
    servers.clock.now += 5
    await servers.older.update(OldPerson, "p", name="Bob")
    await servers.older.put(OldPerson(person_id="p", name="Cid"))
    stored = await read(servers.newer, NewPerson, "p")
    assert (stored.version, stored.updated) == (3, 1_800_000_005)
    changed = await servers.newer.update(NewPerson, "p", name="Dan", expected_version=3)
    assert changed.version == 4


async def test_inherited_expiry(servers: Servers) -> None:
    """A record that expires by a property of another catalog is absent for every server, and keeps its expiry."""
    await create_person(servers, expires=1_800_000_100)
    await servers.older.update(OldPerson, "p", name="Bob")
    claim = await servers.item("person~unique!|email#a@b", "email")
    assert (claim["_until"], claim["expires"]) == (1_800_000_100, 1_800_000_100)
    servers.clock.now = 1_800_000_100.0
    created = await servers.older.create(OldPerson, person_id="p", name="Eve")
    assert created.name == "Eve"
    assert (await read(servers.newer, NewPerson, "p")).expires is None


async def test_immutable_properties_of_another_catalog(servers: Servers) -> None:
    """A property that another catalog makes immutable is immutable for every server."""

    class Person(Entity):
        person_id: Id[str]
        name: Immutable[str]

    servers.record = with_state(proposed(servers.record, Catalog(Person)), "ready")
    await servers.older.create(OldPerson, person_id="p", name="Ann")
    with pytest.raises(ImmutableChanged):
        await servers.older.update(OldPerson, "p", name="Bob")
    with pytest.raises(ImmutableChanged):
        await servers.older.put(OldPerson(person_id="p", name="Bob"))


# --- constraints -----------------------------------------------------------------------------------------------


async def test_unique_values_of_another_catalog(servers: Servers) -> None:
    """A unique value that a server does not know stays reserved when it writes the record."""
    await create_person(servers)
    await servers.older.update(OldPerson, "p", name="Bob")
    with pytest.raises(NotUnique):
        await servers.newer.create(NewPerson, person_id="q", name="Eve", email="a@b")
    await servers.older.delete(OldPerson, "p")
    await servers.newer.create(NewPerson, person_id="q", name="Eve", email="a@b")


async def test_a_value_is_taken_only_if_its_record_has_it(servers: Servers) -> None:
    """While a constraint is being built, orphaned and missing items are corrected by the next write."""
    servers.record = with_state(KNOWN, "building", ["person unique email"])
    await servers.newer.create(NewPerson, person_id="p", name="Ann", email="a@b")
    servers.record = KNOWN  # A server whose copy is older changes the record, and leaves the item of the old value.
    await servers.newer.update(NewPerson, "p", email="c@d")
    servers.record = with_state(KNOWN, "building", ["person unique email"])
    await servers.newer.create(NewPerson, person_id="q", name="Eve", email="a@b")
    await servers.older.update(OldPerson, "p", name="Bob")
    owners = {key: item["_owner"] for key, item in (await servers.items()).items() if "_owner" in item}
    assert owners == {
        ("person~unique!|email#a@b", "email"): ["person!", "personId#q"],
        ("person~unique!|email#c@d", "email"): ["person!", "personId#p"],
    }
    with pytest.raises(NotUnique):
        await servers.newer.create(NewPerson, person_id="r", name="Eve", email="c@d")


async def test_violations_that_are_older_than_a_constraint(servers: Servers) -> None:
    """While constraints are being built, records that violate them already can be changed, but no new ones appear."""
    servers.record = KNOWN
    for person_id in "pq":
        await servers.newer.create(NewPerson, person_id=person_id, name="Ann", email="a@b", town="Nowhere")
    servers.record = with_state(KNOWN, "building", ["person unique email", "person foreign key ofTown"])
    for person_id in "pq":
        await servers.older.update(OldPerson, person_id, name="Bob")
    with pytest.raises(NotUnique):
        await servers.newer.create(NewPerson, person_id="r", name="Eve", email="a@b")
    with pytest.raises(ForeignKeyBroken):
        await servers.newer.update(NewPerson, "p", town="Elsewhere")


async def test_parents_of_another_catalogs_children(servers: Servers) -> None:
    """A record that only the child of another catalog references is not deleted."""
    await create_person(servers)
    towns = servers.server(Catalog(OldTown))
    with pytest.raises(ForeignKeyBroken, match=r"Person p references it by Person.town"):
        await towns.delete(OldTown, "Rome")
    await servers.older.delete(OldPerson, "p")
    await towns.delete(OldTown, "Rome")
    assert not await servers.items()


# --- all writes ------------------------------------------------------------------------------------------------

IDS, NAMES, TOWNS = st.sampled_from("pq"), st.sampled_from(["Ann", "Bob"]), st.sampled_from(["Rome", "Oslo", None])
OLD_VALUES = st.fixed_dictionaries({"person_id": IDS, "name": NAMES}, optional={"note": st.sampled_from(["n", None])})
NEW_VALUES = st.fixed_dictionaries(
    {"person_id": IDS},
    optional={"name": NAMES, "town": TOWNS, "email": st.sampled_from(["a@b", "c@d", None]), "rank": st.integers(1, 3)},
)
WRITES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["create", "put", "update"]), OLD_VALUES),
        st.tuples(st.just("amend"), NEW_VALUES),
        st.tuples(st.just("delete"), st.fixed_dictionaries({"person_id": IDS})),
        st.tuples(st.just("remove town"), st.fixed_dictionaries({"town_id": st.sampled_from(["Rome", "Oslo"])})),
    ),
    max_size=12,
)


async def perform(servers: Servers, catalog: Catalog, name: str, values: dict[str, Any]) -> str:
    """Perform a write by a server with this catalog, or as the newer release. Return the code of its error."""
    person = model(catalog, "Person")
    db = servers.server(catalog)
    try:
        match name:
            case "create":
                await db.create(person, **values)
            case "put":
                kept = await servers.newer.get(NewPerson, values["person_id"]) if catalog is NEWER else None
                unknown = {} if kept is None else {key: vars(kept)[key] for key in ("town", "rank", "email", "expires")}
                await db.put(person(**unknown, **values))
            case "update":
                person_id = values["person_id"]
                await db.update(person, person_id, **{key: values[key] for key in values if key != "person_id"})
            case "amend":
                changes = {key: values[key] for key in values if key != "person_id"}
                await servers.newer.update(NewPerson, values["person_id"], **changes)
            case "delete":
                await db.delete(person, values["person_id"])
            case "remove town":
                await db.delete(model(catalog, "Town"), values["town_id"])
    except ShardQLError as problem:
        return problem.code
    return ""


async def comparable_items(servers: Servers) -> dict[Any, Any]:
    """All items, in which missing properties have their defaults."""
    items = await servers.items()
    return {key: {"rank": 5, **item} if key[0] == "person!" else item for key, item in items.items()}


@given(writes=WRITES)
@examples(quick=40)
def test_older_servers_write_what_newer_ones_would(tmp_path_factory: pytest.TempPathFactory, writes: Any) -> None:
    """After any writes by both releases, the stored items equal those that the newer release alone writes."""
    folder = tmp_path_factory.mktemp("tables")
    definition = NEWER.table_definition()
    with (
        store_with_runner(open_sqlite(folder / "mixed.db"), definition) as (runner, mixed_store),
        store_with_runner(open_sqlite(folder / "newer.db"), definition) as (_, newer_store),
    ):
        mixed, alone = Servers(mixed_store), Servers(newer_store)
        for servers in (mixed, alone):
            runner.run(servers.newer.put_many([NewTown(town_id="Rome"), NewTown(town_id="Oslo")]))
        for name, values in writes:
            codes = [
                runner.run(perform(servers, catalog, name, values))
                for servers, catalog in ((mixed, OLDER), (alone, NEWER))
            ]
            assert codes[0] == codes[1]
        assert runner.run(comparable_items(mixed)) == runner.run(comparable_items(alone))


def test_an_effective_catalog_without_changes_needs_no_reads() -> None:
    """A server that declares all elements writes as it would without a record of the table."""
    entity = effective_catalog(NEWER, READY).entity("Person")
    assert replace(entity, recorded=None).is_constrained == NEWER.entity("Person").is_constrained
    assert {index.attribute for index in entity.written_indexes} == set(NEWER.entity("Person").indexes)
