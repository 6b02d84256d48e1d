"""Records by unique values: two point reads at any number of shards, also while values move between records."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Id,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Unique,
    UniqueTogether,
    Update,
    canonical,
    derived,
    open_catalog,
)
from graphql_api.database import Database
from graphql_api.errors import Conflict, InvalidRecord, NotReady, ShardQLError
from graphql_api.evolution import unique_lookup
from graphql_api.query.token_seal import TokenSeal
from graphql_api.runtime import meter_capacity
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Expect, Item, Key, Put
from graphql_api.writes import constraint_keys, item_key
from tests.support.engine_params import on_both_engines
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore, all_items
from tests.writes.conftest import OpenTable

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
NOW = 1_800_000_000.0


class Account(Entity, shards=Shards(1).then(150, since=1_000)):
    """An account with unique values of several kinds."""

    account_id: Id[str]
    created: Created[Timestamp] = 2_000
    email: Unique[str | None] = None
    team: str = "red"
    number: int = 0
    handle: str = ""
    plain_handle: Unique[str] = derived(canonical, "handle")
    expires: Ttl[Timestamp | None] = None
    number_in_team = UniqueTogether("team", "number")


class Stage(Entity, current="latest"):
    """A history whose current record holds the unique value."""

    run_id: Id[str]
    at: SubId[str]
    label: Unique[str]


CATALOG = Catalog(Account, Stage)


class PausedReads(ForwardingStore):
    """Runs an action after each read by key."""

    def __init__(self, inner: Store, action: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self.action = action

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        items = await super().get_many(keys, consistent)
        await self.action()
        return items


@pytest.fixture
async def db(open_table: OpenTable) -> Database:
    """An empty database whose store counts its calls."""
    store = await open_table()
    await store.ensure_table(CATALOG.table_definition())
    return Database(CATALOG, CountingStore(store), SEAL, lambda: NOW)


@on_both_engines
async def test_a_record_by_a_unique_value_costs_two_point_reads_at_150_shards(db: Database) -> None:
    """A single value, values that are unique together, and a value that is derived each cost two reads."""
    ann = await db.create(Account, account_id="a", email="ann@x", team="red", number=7, handle="Ánn")
    await db.create(Account, account_id="b", email="bob@x", team="blue", number=7, handle="Bob")
    store = db.store
    assert isinstance(store, CountingStore)
    store.counts.gets = 0
    with meter_capacity() as meter:
        assert await db.get_by(Account, email="ann@x") == ann
    entity = CATALOG.entity(Account)
    estimate = unique_lookup(entity, entity.unique[0], ("ann@x",), None).estimate()
    assert meter.units == estimate.expected
    assert await db.get_by(Account, number=7, team="red") == ann
    assert await db.get_by(Account, plain_handle="ANN") == ann
    assert (store.counts.gets, store.counts.rounds) == (6, 0)
    assert await db.get_by(Account, email="eve@x") is None
    assert (store.counts.gets, store.counts.rounds) == (7, 0)


async def test_other_tenants_have_their_own_values(db: Database) -> None:
    """A value of one tenant names no record of another."""
    await db.create(Account, account_id="a", email="ann@x", handle="a")
    assert await db.scoped(tenant="t").get_by(Account, email="ann@x") is None


@on_both_engines
async def test_a_record_has_only_its_present_values(db: Database) -> None:
    """Values of before a change, of deleted records and of expired records name no record."""
    await db.create(Account, account_id="a", email="old@x", handle="a")
    await db.update(Account, "a", email="new@x")
    assert await db.get_by(Account, email="old@x") is None
    await db.create(Account, account_id="b", email="late@x", handle="b", number=1, expires=int(NOW) - 1)
    assert await db.get_by(Account, email="late@x") is None
    await db.delete(Account, "a")
    assert await db.get_by(Account, email="new@x") is None


async def test_the_value_of_a_history_names_its_current_record(db: Database) -> None:
    """The latest entry's value names the current record, and values of older entries name none."""
    await db.create(Stage, run_id="r", at="1", label="first")
    await db.update(Stage, "r", at="2", label="second")
    found = await db.get_by(Stage, label="second")
    assert found is not None
    assert (found.run_id, found.at) == ("r", "latest")
    assert await db.get_by(Stage, label="first") is None


@pytest.mark.parametrize(
    ("values", "code", "text"),
    [
        ({}, "MISSING_ARGUMENT", "email, or by plain_handle, or by team and number"),
        ({"team": "red"}, "MISSING_ARGUMENT", "team and number"),
        ({"emial": "x"}, "UNKNOWN_ARGUMENT", "Did you mean 'email'?"),
        ({"email": None}, "INVALID_VALUE", "email is None"),
        ({"email": 7}, "INVALID_VALUE", "email: int given"),
        ({"team": "red", "number": "7"}, "INVALID_VALUE", "number: str given"),
        ({"email": "x" * 3_000}, "KEY_TOO_LONG", "email"),
    ],
)
async def test_wrong_arguments_are_refused_with_the_choices(
    db: Database, values: dict[str, object], code: str, text: str
) -> None:
    """The error names the unique properties, or the value that no record can have."""
    with pytest.raises(ShardQLError) as caught:
        await db.get_by(Account, **values)
    assert caught.value.code == code
    assert text in caught.value.message


async def test_an_entity_without_unique_properties_says_so(db: Database) -> None:
    """The remedy names Unique, and reading by id."""

    class Plain(Entity):
        """A record without constraints."""

        plain_id: Id[str]

    catalog = Catalog(Plain)
    with pytest.raises(ShardQLError, match="no unique properties: declare one with Unique"):
        await Database(catalog, db.store, SEAL).get_by(Plain, name="x")


@on_both_engines
async def test_a_value_that_moves_between_the_reads_is_followed(db: Database) -> None:
    """The record that got the value meanwhile is returned; a value that was given up meanwhile names no record."""
    await db.create(Account, account_id="a", email="x@x", handle="a")
    await db.create(Account, account_id="b", handle="b", number=1)
    moves: list[Callable[[], Awaitable[object]]] = [
        lambda: db.write([Update(Account, "a", email=None), Update(Account, "b", email="x@x")])
    ]

    async def move() -> None:
        if moves:
            await moves.pop()()

    racing = Database(CATALOG, PausedReads(db.store, move), SEAL, lambda: NOW)
    found = await racing.get_by(Account, email="x@x")
    assert found is not None
    assert found.account_id == "b"
    moves.append(lambda: db.update(Account, "b", email=None))
    assert await racing.get_by(Account, email="x@x") is None


async def test_a_value_that_always_has_an_owner_is_always_found(db: Database, random: Random) -> None:
    """Whatever moves happen between reads, the record that is found has the value, and never is none found."""
    owners = ["a", "b", "c"]
    for number, owner in enumerate(owners):
        await db.create(Account, account_id=owner, handle=owner, number=number)
    await db.update(Account, "a", email="x@x")
    holder = "a"

    async def maybe_move() -> None:
        nonlocal holder
        if random.random() < 0.4:
            old, holder = holder, random.choice([owner for owner in owners if owner != holder])
            await db.write([Update(Account, old, email=None), Update(Account, holder, email="x@x")])

    racing = Database(CATALOG, PausedReads(db.store, maybe_move), SEAL, lambda: NOW)
    for _ in range(depth(quick=100, deep=3_000)):
        try:
            found = await racing.get_by(Account, email="x@x")
        except Conflict:
            continue  # It moved during each of ten attempts, which the error states.
        assert found is not None
        assert found.email == "x@x"


async def test_an_item_whose_owner_lacks_the_value_names_no_record(db: Database) -> None:
    """Another application removed the value from the record, and left the unique item behind."""
    await db.create(Account, account_id="a", email="x@x", handle="a")
    (item,) = [item for item in await all_items(db.store) if item.get("email") == "x@x"]
    unwritten = {name: value for name, value in item.items() if name != "email"}
    await db.store.write_together([Put(unwritten, Expect())], "t")
    assert await db.get_by(Account, email="x@x") is None
    await db.store.write_together([Delete(item_key(item), Expect())], "u")
    assert await db.get_by(Account, email="x@x") is None


async def test_an_invalid_record_is_an_error(db: Database) -> None:
    """A stored record that the entity cannot read is reported, and not taken for a missing one."""
    await db.create(Account, account_id="a", email="x@x", handle="a")
    (item,) = [item for item in await all_items(db.store) if item.get("email") == "x@x"]
    assert constraint_keys(CATALOG.entity(Account), item, None)
    await db.store.write_together([Put({**item, "team": 3}, Expect())], "t")
    with pytest.raises(InvalidRecord):
        await db.get_by(Account, email="x@x")


class OldMember(Entity, name="member"):
    """A release without the constraint."""

    member_id: Id[str]
    email: str | None = None


class Member(Entity):
    """The release with the constraint."""

    member_id: Id[str]
    email: Unique[str | None] = None


async def test_a_constraint_that_is_not_ready_refuses_reads_by_its_values(tmp_path: Path) -> None:
    """Before the migration reads are refused with NOT_READY; after it they find the records of before."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with open_catalog(Catalog(OldMember), url) as old:
        await old.put(OldMember(member_id="m", email="m@x"))
    async with open_catalog(Catalog(Member), url, migrate=False) as new:
        with pytest.raises(NotReady, match=r"unique member\.email"):
            await new.get_by(Member, email="m@x")
    async with open_catalog(Catalog(Member), url, migrate=True) as new:
        found = await new.get_by(Member, email="m@x")
        assert found is not None
        assert found.member_id == "m"
