"""Encoding of records as items with keys, and the effects of put and delete."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest

from graphql_api.connection import open_catalog
from graphql_api.database import Database
from graphql_api.errors import (
    AlreadyExists,
    CreationChanged,
    EmptyKey,
    InvalidRecord,
    InvalidValue,
    ItemTooLarge,
    KeyTooLong,
    ShardQLError,
)
from graphql_api.model.catalog import Catalog
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Created, Id, Index, Shards, SubId, Timestamp, canonical, derived, desc, stored
from graphql_api.query.token_seal import TokenSeal
from graphql_api.sharding.shard_space import blake2b_number
from graphql_api.storage.metered_store import MeteredStore
from graphql_api.storage.values import Item
from graphql_api.writes.commands import Create, PutRecord, Remove
from graphql_api.writes.item_keys import to_item
from tests.support.run_depth import depth
from tests.support.store_doubles import all_items

SEP = "\x01|"


class State(Enum):
    NEW = "n"
    DONE = "d"


class Account(Entity, shards=Shards(1).then(16, since=1_000)):
    """An account with an index of each kind."""

    account_id: Id[str]
    created: Created[Timestamp]
    owner: str | None = None
    title: str | None = None
    state: State = State.NEW
    rank: int | None = None
    phone: str | None = None
    code: Annotated[str | None, stored("cd")] = None
    title_canonical: str | None = derived(canonical, "title")

    by_title = Index(sort=["title_canonical", "rank", "created"])
    by_owner = Index(hash="owner", sort=["state", desc("rank")])
    by_place = Index(hash=["owner", "state"], sharded=False, name="place")
    by_phone = Index(sort="phone", raw=True)
    by_code = Index(hash="owner", sort="code", raw=True, hash_key="codeHashKey")


class Note(Entity):
    """A history that is sharded like its account."""

    account_id: Id[str]
    number: SubId[int]
    created: Created[Timestamp]

    by_account = Index(hash="account_id", sort="created", sharded="Account")


class Line(Entity, shards=Shards(1).then(4, since=1_000)):
    """A history with a composite id and a composite sub id."""

    order: Id[str]
    part: Id[int]
    category: SubId[str]
    at: SubId[datetime]
    created: Created[Timestamp]


class Totals(Entity):
    """A singleton."""

    count: int = 0


CATALOG = Catalog(Account, Note, Line, Totals)


def item(record: Entity, tenant: str | None = None) -> Item:
    """Returns the stored item of a record."""
    return to_item(CATALOG.entity(type(record)), record, tenant, "w")


def account(own_id: str = "a1", created: int = 1, **values: Any) -> Account:
    """Returns an account with its required properties."""
    return Account(account_id=own_id, created=created, **values)


def shard(own_id: str, size: int = 16) -> str:
    """Returns the shard text of an id, for fewer than 37 shards."""
    return f"0{'0123456789abcdefghijklmnopqrstuvwxyz'[blake2b_number(own_id) % size]}"


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database on an empty table."""
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path / 'table.db'}", clock=lambda: 0) as database:
        yield database


async def stored_items(db: Database) -> list[Item]:
    """Returns all items of the table except the table record."""
    return [item for item in await all_items(db.store) if not item["hashKey"].startswith("shardql!")]


# --- keys ------------------------------------------------------------------------------------------------------


def test_an_item_has_properties_keys_and_write_id() -> None:
    """An item holds the record's properties, its primary key, its index keys and its write id."""
    record = account("a1", 1_000, owner="o/1", title="Gómez-Juárez", state=State.DONE, rank=-1, phone="177", code="c")
    home = f"account!{shard('a1')}"
    assert dict(item(record)) == {
        "accountId": "a1",
        "created": 1_000,
        "owner": "o/1",
        "title": "Gómez-Juárez",
        "state": "d",
        "rank": -1,
        "phone": "177",
        "cd": "c",
        "titleCanonical": "gomezjuarez",
        "hashKey": home,
        "rangeKey": "accountId#a1",
        "titleRangeKey": SEP.join(
            [
                "titleCanonical#gomezjuarez",
                "rank#09223372036854775807",
                "created#09223372036854776808",
                "accountId#a1",
            ]
        ),
        "accountOwnerHashKey": f"{home}|owner#o%2F1",
        "ownerRangeKey": f"state#001{SEP}rank#90776627963145224192{SEP}accountId#a1",
        "accountOwnerStateUnshardedHashKey": "account!|owner#o%2F1|state#001",
        "placeRangeKey": "accountId#a1",
        "codeHashKey": f"{home}|owner#o%2F1",
        "_w": "w",
    }


def test_keys_of_a_record_without_shards() -> None:
    """The hash key of an unsharded record keeps the `!`, and a singleton has a sentinel as range key."""
    assert item(account())["hashKey"] == "account!"
    assert (item(Totals())["hashKey"], item(Totals())["rangeKey"]) == ("totals!", "#")


def test_range_key_contains_ids_and_sub_ids_in_declared_order() -> None:
    """A composite id selects the shard, and the range key contains ids and sub ids in declared order."""
    at = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
    line = item(Line(order="a/b", part=7, category="x", at=at, created=1_000))
    assert line["hashKey"] == f"line!{shard(f'a/b{SEP}09223372036854775815', 4)}"
    assert line["rangeKey"] == SEP.join(
        ["order#a/b", "part#09223372036854775815", "category#x", "at#2026-01-31T12:30:00.000000Z"]
    )


def test_an_index_sharded_like_the_parent_uses_its_shards() -> None:
    """Such an index entry has the parent's name and shard, selected by the record's own creation value."""
    assert item(Note(account_id="a1", number=1, created=999))["accountHashKey"] == "account!|accountId#a1"
    later = item(Note(account_id="a1", number=1, created=1_000))
    assert later["accountHashKey"] == f"account!{shard('a1')}|accountId#a1"
    assert later["hashKey"] == "note!"
    assert later["accountRangeKey"] == f"created#09223372036854776808{SEP}accountId#a1{SEP}number#09223372036854775809"


def test_the_tenant_is_in_every_hash_key() -> None:
    """Each hash key of a tenant starts with the escaped tenant name."""
    record = account("a1", 1_000, owner="o", title="t", phone="1", code="c")
    plain, mine = item(record), item(record, "acme|1")
    hash_names = {name for name in plain if name.endswith(("hashKey", "HashKey"))}
    assert len(hash_names) == 4
    for name in hash_names:
        assert mine[name] == f"acme%7C1|{plain[name]}"
    assert {name: mine[name] for name in mine.keys() - hash_names} == {
        name: plain[name] for name in plain.keys() - hash_names
    }


TITLE = {"titleRangeKey"}
OWNER = {"accountOwnerHashKey", "ownerRangeKey", "accountOwnerStateUnshardedHashKey", "placeRangeKey"}


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ({}, set()),
        ({"title": "t"}, TITLE),
        ({"title": "---"}, TITLE),
        ({"rank": 1}, set()),
        ({"owner": ""}, set()),
        ({"owner": "o"}, OWNER),
        ({"owner": "o", "code": "c"}, {*OWNER, "codeHashKey"}),
        ({"code": "c"}, set()),
        ({"phone": "1"}, set()),
    ],
)
def test_index_attributes_are_sparse(values: dict[str, Any], written: set[str]) -> None:
    """A record without the hash property or the first sort property has no attributes of that index."""
    found = item(account(**values))
    assert {name for name in found if name.endswith(("HashKey", "RangeKey"))} == written


def test_a_later_null_sorts_first() -> None:
    """A later sort property with a null value is encoded as its bare name, which sorts before every value."""
    none, some = item(account(owner="o", title="t")), item(account(owner="o", title="t", rank=-(2**63)))
    assert none["titleRangeKey"].startswith(f"titleCanonical#t{SEP}rank{SEP}created#")
    assert none["titleRangeKey"] < some["titleRangeKey"]
    assert none["ownerRangeKey"] == f"state#000{SEP}rank{SEP}accountId#a1"
    assert none["ownerRangeKey"] < item(account(owner="o", rank=2**63 - 1))["ownerRangeKey"]


# --- invalid keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "error", "argument", "match"),
    [
        (account(""), EmptyKey, "account_id", "Account.account_id"),
        (
            Line(order="", part=1, category="c", at=datetime(2026, 1, 31, tzinfo=UTC), created=1),
            EmptyKey,
            "order",
            "Line.order",
        ),
        (
            Line(order="o", part=1, category="", at=datetime(2026, 1, 31, tzinfo=UTC), created=1),
            EmptyKey,
            "category",
            "Line.category",
        ),
        (account(phone=""), EmptyKey, "phone", "by_phone stores it as a plain key"),
        (account(code=""), EmptyKey, "code", "by_code stores it as a plain key"),
        (account(title="t" * 1_000), KeyTooLong, "title", "Account.by_title: .* 1,065 bytes"),
        (account("é" * 506), KeyTooLong, "account_id", "Account.by_id: .* 1,022 bytes"),
        (account(phone="1" * 1_021), KeyTooLong, "phone", "by_phone .* 1,020 fit"),
        (account(owner="o" * 2_100), KeyTooLong, "owner", "Account.by_owner: The hash key .* Shorten owner"),
        (account("\ud800"), InvalidValue, "account_id", "surrogate"),
        (account(owner="a\udfff"), InvalidValue, "owner", "surrogate"),
    ],
)
def test_invalid_keys_are_refused(record: Entity, error: type[ShardQLError], argument: str, match: str) -> None:
    """Empty keys, keys that are too long, and invalid text are refused with the property or the index."""
    with pytest.raises(error, match=match) as problem:
        item(record)
    assert problem.value.argument == argument


def test_keys_of_maximum_size_are_written() -> None:
    """Keys of exactly the maximum size are written."""
    assert len(item(account("é" * 505))["rangeKey"].encode()) == 1_020
    assert len(item(account(phone="1" * 1_020))["phone"]) == 1_020


def test_an_empty_tenant_is_refused() -> None:
    """An empty tenant is refused. It is not the same as no tenant."""
    with pytest.raises(EmptyKey, match="tenant"):
        item(account(), "")


# --- put -------------------------------------------------------------------------------------------------------


async def test_put_replaces_by_record_key(db: Database) -> None:
    """A second put of an id replaces the whole record."""
    await db.put(account(title="first", rank=1, phone="1"))
    await db.put(account(title="second", owner="o"))
    (only,) = await stored_items(db)
    assert (only["title"], only["owner"], "rank" in only, "phone" in only) == ("second", "o", False, False)


async def test_every_write_has_a_new_write_id(db: Database) -> None:
    """Each write stores a new write id in `_w`, even if the record is unchanged."""
    write_ids: set[str] = set()
    for _ in range(5):
        await db.put_many([account("a1"), account("a2"), Account(account_id="a1", created=1)])
        write_ids.update(each["_w"] for each in await stored_items(db))
    assert len(write_ids) == 10
    assert {len(name) for name in write_ids} == {16}


async def test_index_entries_move_with_the_values(db: Database) -> None:
    """A record with changed indexed values is found by the new values only."""
    await db.put(account(title="Old", owner="x", phone="1", code="c"))
    await db.put(account(title="New", owner="y", phone="2"))
    searches: list[tuple[Any, dict[str, Any], int]] = [
        (Account.by_title, {"eq": "old"}, 0),
        (Account.by_title, {"eq": "NEW"}, 1),
        (Account.by_title, {}, 1),
        (Account.by_owner, {"owner": "x"}, 0),
        (Account.by_owner, {"owner": "y"}, 1),
        (Account.by_place, {"owner": "x", "state": State.NEW}, 0),
        (Account.by_place, {"owner": "y", "state": State.NEW}, 1),
        (Account.by_phone, {"eq": "1"}, 0),
        (Account.by_phone, {}, 1),
        (Account.by_code, {"owner": "x"}, 0),
        (Account.by_code, {"owner": "y"}, 0),
    ]
    for index, arguments, count in searches:
        assert len((await db.search(index, **arguments)).items) == count, (index, arguments)


async def test_the_last_duplicate_of_a_batch_is_written(db: Database) -> None:
    """Of several records with one key in a batch the last is written, and none is reported as failed."""
    batch = [account("a", title="1"), account("b", title="2"), account("a", title="3"), account("a", title="4")]
    assert await db.put_many(batch) == [None] * 4
    assert {each["accountId"]: each["title"] for each in await stored_items(db)} == {"a": "4", "b": "2"}


async def test_entries_with_different_sub_ids_are_no_duplicates(db: Database) -> None:
    """Entries with one id and different sub ids are different records."""
    notes = [Note(account_id="a", number=number, created=number) for number in (2, 1, 2)]
    assert await db.put_many(notes) == [None] * 3
    assert len(await stored_items(db)) == 2


async def test_an_invalid_record_does_not_affect_the_others(db: Database) -> None:
    """Each record of a batch succeeds or fails alone, and the results are in input order."""
    batch: list[Entity] = [
        account("a"),
        account(""),
        account("b", title="t" * 1_020),
        Totals(),
        account("c", phone=""),
        account("fits", owner="o" * 1_000),
        account("d"),
    ]
    found = await db.put_many(batch)
    assert [type(each) for each in found] == [
        *(type(None), EmptyKey, KeyTooLong, InvalidRecord, EmptyKey, type(None), type(None))
    ]
    assert {each["accountId"] for each in await stored_items(db)} == {"a", "fits", "d"}


async def test_a_record_that_is_too_large_fails_alone(db: Database) -> None:
    """A record that the engine refuses is reported, also for its duplicates, and the others are written."""

    class Text(Entity):
        text_id: Id[str]
        body: str

    catalog = Catalog(Text)
    texts = Database(catalog, db.store, TokenSeal([TokenSeal.new_secret()]))
    huge = Text(text_id="huge", body="x" * 500_000)
    found = await texts.put_many([Text(text_id="a", body=""), Text(text_id="huge", body="small"), huge])
    assert [type(each) for each in found] == [type(None), ItemTooLarge, ItemTooLarge]
    assert [each["textId"] for each in await stored_items(db)] == ["a"]


async def test_an_empty_batch_does_nothing(db: Database) -> None:
    """An empty batch does nothing."""
    assert await db.put_many([]) == []
    assert await stored_items(db) == []


@pytest.mark.usefixtures("no_backoff")  # The retry of the create must not depend on the time that it takes.
async def test_commands_of_one_call_take_their_cheapest_paths_in_order(db: Database) -> None:
    """Consecutive plain writes are one call without reads. Other commands run as transactions, in their place."""
    calls: list[str] = []
    metered = replace(db, store=MeteredStore(db.store, lambda call: calls.append(call.name)))
    spec = CATALOG.entity(Note)
    first, changed, second = (Note(account_id="a", number=at, created=on) for at, on in ((1, 1), (1, 5), (2, 7)))
    *plain, created, removed, last = await metered.apply_each(
        [
            PutRecord(spec, first),
            Remove(spec, ["a", 1], returns_record=False),
            PutRecord(spec, second),
            PutRecord(spec, changed),
            Create(spec, {"account_id": "a", "number": 2, "created": 9}),
            Remove(spec, ["a", 2]),
            PutRecord(spec, changed, idempotency_key="k"),
        ]
    )
    assert plain == [None] * 4
    assert isinstance(created, AlreadyExists)
    assert (removed, last) == (second, changed)
    assert (calls[0], calls.count("write")) == ("write", 1)
    assert await db.get(Note, "a", number=1) == changed
    assert await db.get(Note, "a", number=2) is None
    calls.clear()
    await metered.delete(Note, "a", number=1)
    await metered.put(changed)
    assert calls == ["write", "write"]


async def test_derived_properties_are_computed_on_write(db: Database) -> None:
    """Derived properties are computed when the record is written, from its values at that time."""
    record = account(title="Old")
    record.title = "Ñew"
    await db.put(record)
    (only,) = await stored_items(db)
    assert only["titleCanonical"] == "new"
    assert [each.title for each in (await db.search(Account.by_title, eq="ñEW")).items] == ["Ñew"]


# --- the creation value ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other"), [(1, 2_000), (2_000, 1), (1, 2), (2_000, 2_001)])
async def test_another_creation_value_is_refused(db: Database, one: int, other: int) -> None:
    """A put with another creation value is refused in any shard generation, and the record is unchanged."""
    await db.put(account("a", one, title="kept"))
    with pytest.raises(CreationChanged, match=f"Account a was created at {one},.* cannot become {other}") as problem:
        await db.put(account("a", other, title="lost"))
    assert problem.value.argument == "created"
    (only,) = await stored_items(db)
    assert (only["created"], only["title"]) == (one, "kept")
    await db.put(account("a", one, title="changed"))
    assert [each["title"] for each in await stored_items(db)] == ["changed"]


async def test_another_creation_value_within_a_batch(db: Database) -> None:
    """Within a batch the first record of an id decides its creation value. Records with other values are refused."""
    batch = [account("a", 1), account("b", 2_000), account("a", 2_000), account("a", 1, title="last")]
    found = await db.put_many(batch)
    assert [type(each) for each in found] == [type(None), type(None), CreationChanged, type(None)]
    assert {each["accountId"]: (each["created"], each.get("title")) for each in await stored_items(db)} == {
        "a": (1, "last"),
        "b": (2_000, None),
    }


@pytest.mark.parametrize(("one", "other"), [(1, 2_000), (2_000, 1)])
async def test_another_creation_value_of_a_history(db: Database, one: int, other: int) -> None:
    """All entries of an id have the same creation value. Another id may have another one."""

    def line(category: str, created: int, part: int = 1) -> Line:
        return Line(order="o", part=part, category=category, at=datetime(2026, 1, 1, tzinfo=UTC), created=created)

    await db.put_many([line("a", one), line("b", one)])
    found = await db.put_many([line("c", other), line("a", other), line("c", one), line("a", other, part=2)])
    assert [type(each) for each in found] == [CreationChanged, CreationChanged, type(None), type(None)]
    assert "Line o/1 was" in str(found[0])
    page = await db.search(Line.by_id, order="o", part=1)
    assert [(each.category, each.created) for each in page.items] == [("a", one), ("b", one), ("c", one)]


async def test_a_deleted_id_can_have_another_creation_value(db: Database) -> None:
    """A deleted id can be created again with another creation value."""
    await db.put(account("a", 1))
    await db.delete(Account, "a")
    await db.put(account("a", 2_000))
    assert [each["hashKey"] for each in await stored_items(db)] == [f"account!{shard('a')}"]


async def test_creation_value_can_change_in_a_single_generation(db: Database) -> None:
    """With a single shard generation the creation value can change, and the index entry moves."""
    await db.put(Note(account_id="a", number=1, created=1))
    await db.put(Note(account_id="a", number=1, created=2_000))
    (only,) = await stored_items(db)
    assert only["accountHashKey"] == f"account!{shard('a')}|accountId#a"
    assert len((await db.search(Note.by_account, account_id="a")).items) == 1
    assert len((await db.search(Note.by_account, account_id="a", to=1_999)).items) == 0


async def test_creation_values_are_separate_per_tenant(db: Database) -> None:
    """Each tenant has its own records and creation values."""
    await db.scoped(tenant="a").put(account("a", 1))
    await db.scoped(tenant="b").put(account("a", 2_000))
    assert len(await stored_items(db)) == 2


# --- delete ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("created", [1, 2_000])
async def test_a_deleted_record_is_removed_from_every_index(db: Database, created: int) -> None:
    """A deleted record is found by no index and not by key, and other records remain."""
    for own_id in ("a", "b"):
        await db.put(account(own_id, created, title="t", owner="o", phone="1", code="c"))
    await db.delete(Account, "a")
    assert await db.get(Account, "a") is None
    for index, arguments in (
        (Account.by_id, {}),
        (Account.by_title, {"eq": "t"}),
        (Account.by_owner, {"owner": "o"}),
        (Account.by_place, {"owner": "o", "state": State.NEW}),
        (Account.by_phone, {}),
        (Account.by_code, {"owner": "o"}),
    ):
        page = await db.search(index, **arguments)
        assert [each.account_id for each in page.items] == ["b"], index


async def test_deleting_a_missing_record_is_no_error(db: Database) -> None:
    """Deleting a record twice, or one that never existed, is not an error."""
    await db.put(account("a"))
    for own_id in ("a", "a", "never"):
        await db.delete(Account, own_id)
    await db.delete(Totals)
    assert await stored_items(db) == []


async def test_history_entries_are_deleted_one_by_one(db: Database) -> None:
    """Deleting an entry of a history keeps the other entries."""
    await db.put_many([Note(account_id="a", number=number, created=1) for number in (1, 2, 3)])
    await db.delete(Note, "a", number=2)
    assert [each.number for each in (await db.search(Note.by_id, account_id="a")).items] == [1, 3]


# --- large batches ---------------------------------------------------------------------------------------------


async def test_a_large_batch(db: Database) -> None:
    """A batch of thousands of records over two shard generations is written and found completely."""
    count = depth(2_000, 50_000)
    batch = [account(f"a{number:05}", 999 + number % 2, title=f"{number % 7}") for number in range(count)]
    assert await db.put_many(batch) == [None] * count
    assert await db.put_many(batch[::-1]) == [None] * count
    assert len(await stored_items(db)) == count


def test_values_of_other_types_keep_their_stored_form() -> None:
    """Keys contain encoded values, and attributes contain plain ones: numbers as numbers, instants in UTC."""

    class Reading(Entity):
        sensor: Id[UUID]
        at: SubId[datetime]
        value: Decimal

        by_value = Index(sort=desc("value"))

    reading = Reading(
        sensor=UUID(int=1), at=datetime.fromisoformat("2026-01-01T02:00:00+02:00"), value=Decimal("-2.50")
    )
    found = to_item(Catalog(Reading).entity(Reading), reading, None, "w")
    assert (found["sensor"], found["at"]) == ("00000000-0000-0000-0000-000000000001", "2026-01-01T00:00:00.000000Z")
    assert found["value"] == Decimal("-2.5")
    assert found["rangeKey"] == f"sensor#{UUID(int=1)}{SEP}at#2026-01-01T00:00:00.000000Z"
    assert found["valueRangeKey"].startswith("value#9")
