"""Migrations of each kind of element: current records, generations, derived versions, unchecked tables, dropping."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import (
    Catalog,
    Created,
    ForeignKey,
    Id,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Unique,
    Updated,
    Version,
    counter,
    derived,
)
from graphql_api.errors import CreationChanged, ForeignKeyBroken, NotUnique
from graphql_api.evolution import State, proposed
from graphql_api.evolution.migration_plan import leaves_nothing
from graphql_api.evolution.table_record import RecordedElement, TableRecord, read_record, save_record
from graphql_api.storage.values import Put
from tests.evolution.migration_support import (
    NOW,
    ROWS,
    bookkeeping,
    change_states,
    entity,
    migrated,
    model_of,
    opened,
    opened_store,
    put_all,
    states,
    stored_items,
    stored_record,
    teams,
    users,
)
from tests.support.store_doubles import all_items

BEFORE = Catalog(users())


async def test_computed_attributes_change_and_nothing_else(tmp_path: Path) -> None:
    """A repair gives a record a new write id and leaves its version, update time and unknown attributes."""
    annotations = {"version": Version[Int32], "changed": Updated[Timestamp]}
    async with opened(tmp_path, Catalog(users(annotations))) as db:
        await db.create(model_of(db), **ROWS[0])
        (before, *_) = [item for item in await all_items(db.store) if item["hashKey"] == "user!"]
        await db.store.write([Put({**before, "legacy": frozenset({"a", "b"}), "userTownHashKey": "wrong"})])
    assert (await migrated(tmp_path, Catalog(users(annotations, by_town=Index(hash="town"))), NOW + 9)).is_complete
    async with opened_store(tmp_path) as store:
        (after, *_) = [item for item in await all_items(store) if item["hashKey"] == "user!"]
    assert after == {**before, "legacy": {"a", "b"}, "_w": after["_w"]} | {
        name: after[name] for name in ("userTownHashKey", "townRangeKey")
    }
    assert after["userTownHashKey"] == "user!|town#Bern"
    assert after["_w"] != before["_w"]


async def test_entries_that_no_longer_apply_are_removed(tmp_path: Path) -> None:
    """A repair removes key attributes of an index that does not contain the record."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", {"user_id": "u", "name": "n"})
        (item,) = [item for item in await all_items(db.store) if item["hashKey"] == "user!"]
        await db.store.write([Put({**item, "userTownHashKey": "user!|town#Rome", "townRangeKey": "x"})])
    await migrated(tmp_path, Catalog(users(by_town=Index(hash="town"))))
    (stored,) = await stored_items(tmp_path)
    assert not {"userTownHashKey", "townRangeKey"} & stored.keys()


async def test_raw_indexes_contain_records_that_lack_the_property(tmp_path: Path) -> None:
    """A raw index of a new property contains the stored records, under the default of the property."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS[:3])
    by_rank = Index(sort="rank", raw=True, sharded=False)
    catalog = Catalog(users({"rank": int}, rank=5, by_rank=by_rank))
    assert (await migrated(tmp_path, catalog)).is_complete
    async with opened(tmp_path, catalog) as db:
        model = model_of(db)
        assert len((await db.search(model.by_rank, eq=5)).items) == 3


# --- derived properties ----------------------------------------------------------------------------------------


def first_letter(name: str) -> str:
    """The first version."""
    return name[:1]


def last_letter(name: str) -> str:
    """The second version."""
    return name[-1:]


def letters(**options: Any) -> Catalog:
    """A catalog with a derived property in an index and a unique constraint over it and the id."""
    function = last_letter if options else first_letter
    letter = derived(function, "name", **options)
    return Catalog(users({"letter": str | None}, letter=letter, by_letter=Index(hash="letter", sort="name")))


async def test_a_new_version_of_a_derived_property_rewrites_its_entries(tmp_path: Path) -> None:
    """A new version of a derived property is computed for all records, with the entries of its index."""
    async with opened(tmp_path, letters()) as db:
        await put_all(db, "User", *ROWS)
    newer = letters(version=2, previous=first_letter)
    result = await migrated(tmp_path, newer)
    assert result.is_complete
    assert result.written == len(ROWS)
    async with opened(tmp_path, newer) as db:
        model = model_of(db)
        found = [user.name for user in (await db.search(model.by_letter, letter="n07")).items]
        assert found == ["n07", "n17", "n27"]
    result = await migrated(tmp_path, newer, drop=True)
    assert result.dropped == ["user derived property letter@1"]
    result = await migrated(tmp_path, letters(), drop=True)
    assert result.dropped == []


@pytest.mark.parametrize(("later", "leaves"), [("announced", False), ("building", True), ("ready", True)])
def test_a_version_is_forgotten_once_a_later_one_is_maintained(later: State, leaves: bool) -> None:
    """A version that is dropped is closed first if the next one is only announced: servers still read by it."""
    record = proposed(proposed(TableRecord(), letters()), letters(version=2, previous=first_letter))
    first, second = (record.elements[f"user derived property letter@{version}"] for version in (1, 2))
    record = record.changed(replace(second, state=later))
    assert leaves_nothing(first, record) is leaves


async def test_an_older_catalog_builds_nothing_that_it_cannot_compute(tmp_path: Path) -> None:
    """A catalog without the present version of a derived property leaves the elements of its entity to a newer one."""
    async with opened(tmp_path, letters()) as db:
        await put_all(db, "User", *ROWS)
    await migrated(tmp_path, letters(version=2, previous=first_letter))
    before = await stored_items(tmp_path)
    letter = derived(first_letter, "name")
    by_letter = Index(hash="letter", sort="name")
    older = users({"letter": str | None}, letter=letter, by_letter=by_letter, by_town=Index(hash="town"))
    result = await migrated(tmp_path, Catalog(older))
    assert not result.is_complete
    assert "requires a newer catalog" in result.withdrawn["user index town"]
    assert (await states(tmp_path))["user index town"] == "announced"
    assert await stored_items(tmp_path) == before


# --- histories -------------------------------------------------------------------------------------------------


def steps(annotations: dict[str, Any] | None = None, *, current: str | None = None, **body: Any) -> Catalog:
    """A catalog of histories."""
    own = {"order_id": Id[str], "number": SubId[str], "place": str, **(annotations or {})}
    options = {} if current is None else {"current": current}
    return Catalog(entity("Step", own, options, **body, by_place=Index(hash="place")))


ENTRIES = [
    {"order_id": f"o{order}", "number": f"{number}", "place": f"p{number}"} for order in range(5) for number in range(3)
]


async def test_current_records_of_stored_histories(tmp_path: Path) -> None:
    """Current records that are added to stored histories equal those that writes would have stored."""
    (tmp_path / "new").mkdir()
    for folder, catalog in ((tmp_path, steps()), (tmp_path / "new", steps(current="now"))):
        async with opened(folder, catalog) as db:
            await put_all(db, "Step", *ENTRIES)
            await put_all(db.scoped(tenant="acme"), "Step", *ENTRIES[:3])
    result = await migrated(tmp_path, steps(current="now"))
    assert result.is_complete
    assert result.written == 6
    assert await stored_items(tmp_path) == await stored_items(tmp_path / "new")
    async with opened(tmp_path, steps(current="now")) as db:
        step = await db.get(model_of(db, "Step"), "o3")
        assert step is not None
        assert step.place == "p2"


async def test_wrong_current_records_are_corrected(tmp_path: Path) -> None:
    """A pass compares current records with the last entries, and does not only create them."""
    catalog = steps(current="now")
    async with opened(tmp_path, catalog) as db:
        await put_all(db, "Step", *ENTRIES)
        expected = await stored_items(tmp_path)
        current = [item for item in await all_items(db.store) if "_of" in item]
        await db.store.write([Put({**current[0], "place": "wrong", "placeHashKey": "step!|place#wrong"})])
    await uncheck(tmp_path, "step current record current")
    assert (await migrated(tmp_path, catalog)).written == 1
    assert await stored_items(tmp_path) == expected


async def test_an_entry_with_the_reserved_sub_id_is_a_violation(tmp_path: Path) -> None:
    """An entry that has the sub id of the new current record is reported, and not overwritten."""
    async with opened(tmp_path, steps()) as db:
        await put_all(db, "Step", *ENTRIES[:3], {"order_id": "o0", "number": "now", "place": "elsewhere"})
    before = await stored_items(tmp_path)
    result = await migrated(tmp_path, steps(current="now"))
    assert [one.record.range for one in result.violations] == ["orderId#o0\x01|number#now"]
    assert await stored_items(tmp_path) == before


async def test_constraints_of_a_history_belong_to_its_current_record(tmp_path: Path) -> None:
    """A unique constraint and current records that are added together hold for the heads of the histories."""
    unique = {"place": Unique[str]}
    rows = [{**row, "place": f"{row['order_id']}-{row['number']}"} for row in ENTRIES]
    async with opened(tmp_path, steps()) as db:
        await put_all(db, "Step", *rows)
    catalog = steps(unique, current="now")
    assert (await migrated(tmp_path, catalog)).is_complete
    async with opened(tmp_path, catalog) as db:
        with pytest.raises(NotUnique):
            await put_all(db, "Step", {"order_id": "new", "number": "1", "place": "o1-2"})
        await put_all(db, "Step", {"order_id": "new", "number": "1", "place": "o1-0"})


async def test_current_records_take_over_the_constraints_of_entries(tmp_path: Path) -> None:
    """Constraint items that entries own go over to the current record, and back when current records are dropped."""
    unique = {"place": Unique[str]}
    rows = [{**row, "place": f"{row['order_id']}-{row['number']}"} for row in ENTRIES]
    async with opened(tmp_path, steps(unique)) as db:
        await put_all(db, "Step", *rows)
    before = await stored_items(tmp_path)
    assert (await migrated(tmp_path, steps(unique, current="now"))).is_complete
    assert (await migrated(tmp_path, steps(unique), drop=True)).is_complete
    assert await stored_items(tmp_path) == before


@pytest.mark.parametrize("options", [{}, {"current": "now"}], ids=["older", "newer"])
async def test_entries_do_not_continue_current_records_that_are_dropped(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """While current records are dropped, an update continues the last entry, not a current record that is left."""
    own = {"note": str | None}
    async with opened(tmp_path, steps(own, current="now", note=None)) as db:
        await put_all(db, "Step", {**ENTRIES[0], "note": "old"})
        await change_states(db, {"step current record current": "dropping"})
    async with opened(tmp_path, steps(own, note=None, **options)) as db:
        await put_all(db, "Step", {**ENTRIES[0], "note": "new"})
        await db.update(model_of(db, "Step"), "o0", number="1", place="p1")
        entry = await db.get(model_of(db, "Step"), "o0", number="1")
        assert entry is not None
        assert (entry.place, entry.note) == ("p1", "new")


@pytest.mark.parametrize(("state", "guarded"), [("building", ["o1", "o2"]), ("ready", []), ("closing", ["o1", "o2"])])
async def test_first_entries_while_current_records_change(tmp_path: Path, state: State, guarded: list[str]) -> None:
    """First entries, single and in batches, also write the item that writers without current records share."""
    own = {"order_id": Id[str], "number": SubId[str], "created": Created[Timestamp]}
    options = {"current": "now", "shards": Shards(1).then(3, since=5_000)}
    async with opened(tmp_path, Catalog(entity("Step", own, options))) as db:
        step = model_of(db, "Step")
        await change_states(db, {"step current record current": state})
        await db.create(step, order_id="o1", number="1", created=1)
        for _ in range(2):
            batch = [step(order_id="o2", number=f"{number}", created=1) for number in range(3)]
            assert await db.put_many(batch) == [None] * 3
        with pytest.raises(CreationChanged):
            await db.put(step(order_id="o2", number="9", created=9_000))
        found = [item["rangeKey"] for item in await all_items(db.store) if item["hashKey"] == "step~home!"]
        assert found == [f"id#{order_id}" for order_id in guarded]


async def test_current_records_that_are_dropped_hold_no_values(tmp_path: Path) -> None:
    """While current records are dropped, the values of their entries count, and not their own."""

    def catalog(current: str | None = None) -> Catalog:
        own = {"order_id": Id[str], "number": SubId[str], "place": Unique[str], "team_id": str | None}
        options = {} if current is None else {"current": current}
        return Catalog(teams(), entity("Step", own, options, team_id=None, of_team=ForeignKey("Team", by="team_id")))

    async with opened(tmp_path, catalog("now")) as db:
        await put_all(db, "Team", {"team_id": "red"}, {"team_id": "blue"})
        await put_all(db, "Step", {"order_id": "o0", "number": "0", "place": "roof", "team_id": "red"})
        states: dict[str, State] = {
            "step current record current": "dropping",
            "step unique place": "building",
            "step foreign key ofTeam": "building",
        }
        await change_states(db, states)
    async with opened(tmp_path, catalog()) as db:
        step, team = model_of(db, "Step"), model_of(db, "Team")
        for row in (
            {"order_id": "o1", "number": "0", "place": "roof"},
            {"order_id": "o0", "number": "1", "place": "roof"},
        ):
            with pytest.raises(NotUnique):
                await put_all(db, "Step", row)
        with pytest.raises(ForeignKeyBroken):
            await db.delete(team, "red")
        await db.update(step, "o0", number="0", place="hall", team_id="blue")
        await put_all(db, "Step", {"order_id": "o1", "number": "0", "place": "roof"})
        await db.delete(team, "red")
        with pytest.raises(NotUnique):
            await put_all(db, "Step", {"order_id": "o2", "number": "0", "place": "hall"})
        with pytest.raises(ForeignKeyBroken):
            await db.delete(team, "blue")
    result = await migrated(tmp_path, catalog(), drop=True)
    assert result.is_complete
    owners = [item["_owner"][1] for item in await stored_items(tmp_path) if "_owner" in item]
    assert sorted(owners) == ["orderId#o0\x01|number#0"] * 2 + ["orderId#o1\x01|number#0"]


# --- generations -----------------------------------------------------------------------------------------------


def growing(shards: Shards) -> Catalog:
    """A catalog of users with shards, and of notes in the shards of their users."""
    own = {"note_id": Id[str], "user_id": str, "created": Created[Timestamp]}
    note = entity("Note", own, by_user=Index(hash="user_id", sort="created", sharded="User"))
    return Catalog(users({"created": Created[Timestamp]}, {"shards": shards}), note)


async def test_a_generation_becomes_ready(tmp_path: Path) -> None:
    """A generation that begins after all stored records and after now is built."""
    async with opened(tmp_path, growing(Shards(1))) as db:
        await put_all(db, "User", *({**row, "created": 900} for row in ROWS))
    grown = growing(Shards(1).then(4, since=2_000))
    assert (await migrated(tmp_path, grown)).ready == ["user generation 1"]
    async with opened(tmp_path, grown, now=2_001) as db:
        await put_all(
            db, "User", *({**row, "user_id": f"v{number}", "created": 2_001} for number, row in enumerate(ROWS))
        )
    hashes = {item["hashKey"] for item in await stored_items(tmp_path)}
    assert hashes == {"user!", "user!00", "user!01", "user!02", "user!03"}


@pytest.mark.parametrize("name", ["User", "Note"])
async def test_a_generation_before_a_stored_record_is_withdrawn(tmp_path: Path, name: str) -> None:
    """A generation that begins before a stored record is announced again. The message names the record."""
    rows = {"User": {**ROWS[0], "created": 2_500}, "Note": {"note_id": "x", "user_id": "u", "created": 2_500}}
    async with opened(tmp_path, growing(Shards(1))) as db:
        await put_all(db, name, rows[name])
    result = await migrated(tmp_path, growing(Shards(1).then(4, since=2_000).then(8, since=3_000)))
    assert result.violations == []
    assert "it was created at 1970-01-01 00:41:40" in result.withdrawn["user generation 1"]
    assert "follows" in result.withdrawn["user generation 2"]
    assert (await states(tmp_path))["user generation 1"] == "announced"
    async with opened(tmp_path, growing(Shards(1).then(4, since=2_501))):
        pass
    assert (await migrated(tmp_path, growing(Shards(1).then(4, since=2_501)))).is_complete


async def test_a_generation_that_begins_too_soon_is_withdrawn(tmp_path: Path) -> None:
    """A generation that begins now or earlier is not built; other elements are."""
    async with opened(tmp_path, growing(Shards(1))) as db:
        await put_all(db, "User", {**ROWS[0], "created": 5})
    result = await migrated(tmp_path, growing(Shards(1).then(4, since=1_000)))
    assert "begins 1970-01-01 00:16:40, and building it takes until 1970" in result.withdrawn["user generation 1"]
    assert (await states(tmp_path))["user generation 1"] == "announced"


# --- unchecked tables, expiry ----------------------------------------------------------------------------------


async def uncheck(folder: Path, *ids: str) -> None:
    """Marks elements as unchecked."""
    async with opened_store(folder) as store:
        record = await read_record(store)
        assert record is not None
        unchecked = [RecordedElement(record.elements[key].element, "ready", 0, is_checked=False) for key in ids]
        assert await save_record(store, record, record.changed(*unchecked))


async def test_unchecked_elements_are_verified_and_repaired(tmp_path: Path) -> None:
    """A pass verifies unchecked elements, repairs what it finds, and marks them as checked."""
    catalog = Catalog(users({"email": Unique[str] | None}, email=None, by_town=Index(hash="town")))
    async with opened(tmp_path, catalog) as db:
        await put_all(db, "User", *({**row, "email": row["name"]} for row in ROWS))
        right = await stored_items(tmp_path)
        for item in await all_items(db.store):
            if item["rangeKey"] == "userId#u07":
                await db.store.write([Put({**item, "userTownHashKey": "user!|town#Rome"})])
    await uncheck(tmp_path, "user index town", "user unique email")
    result = await migrated(tmp_path, catalog)
    assert (result.is_complete, result.written) == (True, 1)
    assert await stored_items(tmp_path) == right
    assert all(one.is_checked for one in (await stored_record(tmp_path)).elements.values())


async def test_expired_records_hold_no_values(tmp_path: Path) -> None:
    """An expired record neither holds a unique value nor is a violation."""
    own = {"email": str | None, "until": Ttl[Timestamp] | None}
    async with opened(tmp_path, Catalog(users(own, email=None, until=None))) as db:
        await put_all(db, "User", {**ROWS[0], "email": "x", "until": 999}, {**ROWS[1], "email": "x", "until": 9_999})
    catalog = Catalog(users({**own, "email": Unique[str] | None}, email=None, until=None))
    assert (await migrated(tmp_path, catalog)).is_complete
    (item,) = [item for item in await stored_items(tmp_path) if item["hashKey"].startswith("user~unique")]
    assert item["_owner"] == ["user!", "userId#u01"]
    await uncheck(tmp_path, "user unique email")
    assert (await migrated(tmp_path, catalog)).written == 0


# --- dropping --------------------------------------------------------------------------------------------------


async def test_dropped_elements_leave_no_trace(tmp_path: Path) -> None:
    """Items after dropping equal those of a table that never had the elements, but for values that callers gave."""
    full = Catalog(teams(), users(
        {"email": Unique[str] | None, "letter": str | None, "number": int, "note": str | None},
        email=None, note=None, letter=derived(first_letter, "name"), number=counter("town"),
        by_town=Index(hash="town", sort="name"), by_letter=Index(hash="letter"),
        of_team=ForeignKey("Team", by="team_id"),
    ))  # fmt: skip
    plain = Catalog(teams(), users(by_town=Index(hash="town", sort="name")))
    (tmp_path / "never").mkdir()
    for folder, first in ((tmp_path, full), (tmp_path / "never", plain)):
        async with opened(folder, first) as db:
            await put_all(db, "Team", {"team_id": "red"})
            model = model_of(db)
            for row in ROWS:
                extra = {"email": row["name"], "note": "x"} if first is full else {}
                await db.create(model, **row, team_id="red", **extra)
    async with opened(tmp_path, plain):
        pass
    kept = {key for key, state in (await states(tmp_path / "never")).items() if state == "ready"}
    result = await migrated(tmp_path, plain, drop=True)
    assert result.is_complete
    assert len(result.dropped) >= 7
    given = {"email", "note", "number"}
    left = [{name: item[name] for name in item.keys() - given} for item in await stored_items(tmp_path)]
    assert left == await stored_items(tmp_path / "never")
    assert {*await states(tmp_path)} == kept
    assert await bookkeeping(tmp_path) == ["table#epoch", "table#meta"]
    async with opened_store(tmp_path) as store:
        table = await store.describe()
    assert table is not None
    assert [index.name for index in table.indexes] == ["town"]


async def test_attributes_that_another_index_uses_stay(tmp_path: Path) -> None:
    """Dropping an index leaves the attributes that another index of the entity uses."""
    both = Catalog(
        users(by_town=Index(hash="town", sort="name"), by_home=Index(hash="town", hash_key="userTownHashKey"))
    )
    one = Catalog(users(by_home=Index(hash="town", hash_key="userTownHashKey")))
    (tmp_path / "never").mkdir()
    for folder, first in ((tmp_path, both), (tmp_path / "never", one)):
        async with opened(folder, first) as db:
            await put_all(db, "User", *ROWS)
    assert (await migrated(tmp_path, one, drop=True)).dropped == ["user index town"]
    assert await stored_items(tmp_path) == await stored_items(tmp_path / "never")
