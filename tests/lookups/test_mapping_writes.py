"""Mapping items after every kind of write: those that the stored records need, and no others."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Create, Delete, Put, Update
from graphql_api.database import Database
from graphql_api.errors import AlreadyExists, KeyTooLong, ShardQLError
from graphql_api.evolution import read_record
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.writes import commands as commands_of
from tests.evolution.late_store import memory_folder
from tests.lookups.phone_book import CATALOG, NOW, Call, House, Note, Person, check_mappings, counted, opened
from tests.support.run_depth import examples
from tests.support.store_doubles import all_items


def ann(**values: Any) -> Person:
    """A person with two mapping items."""
    return Person(**{"person_id": "ann", "created": 5, "version": 1, "name": "Ann", "phone": "17", **values})


async def test_every_write_keeps_the_mapping_items(tmp_path: Path) -> None:
    """Creates, updates, puts and deletes write and remove mapping items with their record."""
    async with opened(tmp_path) as db:
        await db.create(House, house_id="h")
        await db.create(Person, person_id="ann", created=5, name="Ann", phone="17")
        assert await check_mappings(db.store) == 2
        await db.update(Person, "ann", house_id="h")
        assert await check_mappings(db.store) == 3
        await db.update(Person, "ann", phone=None, name="Anna")
        assert await check_mappings(db.store) == 2
        await db.put(ann(phone="18"))
        assert await check_mappings(db.store) == 2
        assert await db.put_many([ann(phone="19"), Person(person_id="bob", created=2_000, version=1, name="B")])
        assert await check_mappings(db.store) == 3
        await db.delete(Person, "ann")
        assert await check_mappings(db.store) == 1
        await db.delete(Person, "ann")
        await db.delete(Person, "bob")
        assert await check_mappings(db.store) == 0


async def test_null_and_empty_values_have_no_mapping_item(tmp_path: Path) -> None:
    """A lookup does not contain records in which one of its properties is null or empty."""
    async with opened(tmp_path) as db:
        await db.put(ann(phone="", name="!"))
        assert await check_mappings(db.store) == 0


async def test_a_refused_write_changes_no_mapping_item(tmp_path: Path) -> None:
    """The mapping items of a record are those of the write that was accepted."""
    async with opened(tmp_path) as db:
        await db.create(Person, person_id="ann", created=5, name="Ann", phone="17")
        before = await all_items(db.store)
        with pytest.raises(AlreadyExists):
            await db.create(Person, person_id="ann", created=5, name="Other", phone="18")
        with pytest.raises(KeyTooLong) as refused:
            await db.update(Person, "ann", phone="1" * 3_000)
        assert refused.value.argument is not None
        assert await all_items(db.store) == before


async def test_histories_map_entries_and_current_records(tmp_path: Path) -> None:
    """Each entry of a history has its mapping items, and so has its current record."""
    async with opened(tmp_path) as db:
        await db.put_many([Call(call_id="c", at=f"{at:03}", created=5, number=f"{at % 3}") for at in range(100)])
        assert await check_mappings(db.store) == 101
        await db.put_many([Call(call_id="c", at=f"{at:03}", created=5, number="7") for at in range(50)])
        assert await check_mappings(db.store) == 101
        await db.update(Call, "c", at="099", number=None)
        assert await check_mappings(db.store) == 99
        await db.delete(Call, "c", at="099")
        assert await check_mappings(db.store) == 100
        await db.put(Note(note_id="n", at=1, phone="1"))
        await db.update(Note, "n", at=2, phone="2")
        assert await check_mappings(db.store) == 102


async def test_an_update_of_other_properties_writes_no_mapping_item(tmp_path: Path) -> None:
    """A transaction contains only mapping items that change, and reads none of them."""
    async with opened(tmp_path) as db:
        await db.create(Person, person_id="ann", created=5, name="Ann", phone="17")
        counting, store = counted(db)
        await counting.update(Person, "ann", email="a@x")
        assert store.counts.writes == 2, "the record and the unique item"
        store.counts.writes = store.counts.gets = 0
        await counting.update(Person, "ann", phone="18")
        assert store.counts.writes == 4, "the record, its unique item, and the mapping items of both phones"
        assert store.counts.gets == 3, "both keys of the record, and the unique item"


async def test_mapping_items_expire_with_their_record(tmp_path: Path) -> None:
    """A mapping item has the expiry of its record, so that engines remove both."""
    async with opened(tmp_path) as db:
        await db.put(ann(until=int(NOW) + 10))
        mappings = [item for item in await all_items(db.store) if "~lookup." in item["hashKey"]]
        assert [item["until"] for item in mappings] == [int(NOW) + 10] * 2
        await db.update(Person, "ann", until=int(NOW) + 20)
        mappings = [item for item in await all_items(db.store) if "~lookup." in item["hashKey"]]
        assert [item["until"] for item in mappings] == [int(NOW) + 20] * 2
    async with opened(tmp_path, now=NOW + 30) as db:
        assert (await db.search(Person.by_phone, phone="17")).items == []
        await db.create(Person, person_id="ann", created=2_000, name="Ann", phone="17")
        assert await check_mappings(db.store) == 2


async def test_combined_writes_keep_the_mapping_items(tmp_path: Path) -> None:
    """Operations of one write on the same record leave the mapping items of its last state."""
    async with opened(tmp_path) as db:
        await db.put(ann())
        await db.write([Update(Person, "ann", phone="18"), Update(Person, "ann", phone="17")])
        assert await check_mappings(db.store) == 2
        await db.write([Delete(Person, "ann"), Create(Person, person_id="ann", created=2_000, name="Ann", phone="19")])
        assert await check_mappings(db.store) == 2
        await db.write(
            [
                Create(Person, person_id="b", created=5, name="B", phone="1"),
                Put(ann(phone="2", created=2_000)),
                Delete(Person, "b"),
            ]
        )
        assert await check_mappings(db.store) == 2


phones = st.sampled_from([None, "", "1", "2", "a|b"])
steps = st.lists(
    st.tuples(
        st.sampled_from(["create", "put", "update", "delete", "call", "hang up"]),
        st.sampled_from(["a", "b"]),
        phones,
        st.sampled_from([5, 2_000]),
        st.sampled_from([None, int(NOW) - 5, int(NOW) + 5]),
    ),
    max_size=8,
)


async def _take(db: Database, kind: str, id: str, phone: str | None, created: int, until: int | None) -> None:
    match kind:
        case "create":
            await db.create(Person, person_id=id, created=created, name=id, phone=phone, until=until)
        case "put":
            await db.put(Person(person_id=id, created=created, version=1, name=id, phone=phone, until=until))
        case "update":
            await db.update(Person, id, phone=phone)
        case "delete":
            await db.delete(Person, id)
        case "call":
            await db.put(Call(call_id=id, at=phone or "0", created=created, number=phone))
        case _:
            await db.delete(Call, id, at=phone or "0")


@examples(quick=40)
@given(steps)
def test_any_sequence_of_writes_keeps_the_mapping_items(schedule: list[Any]) -> None:
    """After any writes, refused ones included, the mapping items are exactly those that the records need."""

    async def run(folder: str) -> None:
        async with opened(Path(folder)) as db:
            for step in schedule:
                try:
                    await _take(db, *step)
                except ShardQLError:
                    continue
            await check_mappings(db.store)

    with memory_folder() as folder:
        asyncio.run(run(f"{folder}"))


async def test_lookups_are_elements_of_the_table(tmp_path: Path) -> None:
    """The table's record has the definition of each lookup as data."""
    async with opened(tmp_path) as db:
        record = await read_record(db.store)
        assert record is not None
        recorded = record.elements["person lookup houseAndName"]
        assert recorded.state == "ready"
        assert [part["stored"] for part in recorded.element.definition["parts"]] == ["houseId", "name"]
        assert CATALOG.index(Person.by_house_and_name).lookup == "houseAndName"


async def test_charges_lie_within_estimates(tmp_path: Path) -> None:
    """The estimate of a write includes its mapping items; a create charges what is expected."""
    async with opened(tmp_path) as db:
        person, call = (db.effective_catalog.entity(entity) for entity in (Person, Call))
        values = {"person_id": "ann", "created": 5, "name": "Ann", "phone": "17"}
        commands: list[Any] = [
            commands_of.Create(person, values),
            commands_of.Update(person, ["ann"], {"phone": "18"}),
            commands_of.PutRecord(call, Call(call_id="c", at="1", created=5, number="1")),
            commands_of.PutRecord(call, Call(call_id="c", at="1", created=5, number="2")),
            commands_of.Remove(person, ["ann"]),
        ]
        for number, command in enumerate(commands):
            estimate = db.estimate_writes([command])
            with meter_capacity() as meter:
                (result,) = await db.apply_each([command])
            assert not isinstance(result, ShardQLError)
            assert meter.write_units is not None
            assert estimate.least <= meter.write_units <= estimate.most
            assert number or estimate.expected == meter.write_units
