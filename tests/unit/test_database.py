"""The Python interface: opening a catalog, reading records by id, tenants, and values on their way through a store."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from graphql_api.database import Database
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidToken,
    InvalidValue,
    MissingArgument,
    ShardQLError,
    UnknownArgument,
    UnknownEntity,
)
from graphql_api.examples.users import Email, User
from graphql_api.examples.users import catalog as users
from graphql_api.model.catalog import Catalog
from graphql_api.model.entity import Entity
from graphql_api.model.markers import (
    Created,
    Id,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    canonical,
    derived,
    stored,
)
from graphql_api.opening import Secrets, open_catalog
from graphql_api.query.token_seal import TokenSeal
from graphql_api.sharding.shard_space import blake2b_number
from graphql_api.storage.engines import open_store
from graphql_api.storage.engines.sqlite import EngineQuirks, open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, Put
from tests.stores import CountingStore, Counts, WrappedStore

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
NEW_YEAR_2026 = 1_767_225_600


class Size(StrEnum):
    SMALL = "s"
    LARGE = "l"


class Plain(Entity, shards=Shards(1).then(4, since=100)):
    """Found by one text."""

    plain_id: Id[str]
    created: Created[Timestamp] = 0
    text: str = ""

    by_text = Index(sort="text")


class Numbered(Entity):
    """Found by one number."""

    number: Id[int]


class Component(Entity):
    """Found by two texts, or by both as one."""

    environment: Id[str]
    plugin: Id[str]
    note: str = ""


class Release(Entity, separator=":"):
    """Several entries an id, told apart by two properties."""

    environment: Id[str]
    build: Id[Int32]
    stage: SubId[Size]
    at: SubId[date]
    note: str = ""


class Step(Entity, shards=Shards(1).then(16, since=100)):
    """A history whose properties are called like arguments."""

    limit: Id[str]
    prefix: SubId[int]
    created: Created[Timestamp] = 0


class Totals(Entity):
    """A singleton."""

    count: int


class Odd(Entity):
    """Has a property `id` that is not the whole id."""

    entity: Id[str]
    id: SubId[int]


CATALOG = Catalog(Plain, Numbered, Component, Release, Step, Totals, Odd)


@asynccontextmanager
async def on(store: Store, catalog: Catalog = CATALOG) -> AsyncIterator[Database]:
    """A catalog on a store of the test's choice."""
    await store.ensure_table(catalog.table_definition())
    try:
        yield Database(catalog, store, SEAL)
    finally:
        await store.close()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """The catalog on an empty table."""
    async with on(await open_sqlite(tmp_path / "table.db")) as database:
        yield database


# --- get -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("created", [0, 99, 100, 500])
async def test_get_by_id(db: Database, created: int) -> None:
    """A record is found by its id, by position or by name, in whatever generation it was created."""
    record = Plain(plain_id="a/b%", created=created, text="t")
    await db.put(record)
    assert await db.get(Plain, "a/b%") == record
    assert await db.get(Plain, plain_id="a/b%") == record
    assert await db.get(Plain, id="a/b%") == record
    assert await db.get(Plain, "a") is None
    assert await db.get(Numbered, 1) is None


async def test_get_reads_one_key_a_generation(tmp_path: Path) -> None:
    """A read by id asks for one key of each generation in one call, and searches nothing."""
    store = CountingStore(await open_sqlite(tmp_path / "table.db"))
    async with on(store) as db:
        await db.put(Plain(plain_id="a", created=200))
        store.counts = Counts()
        assert await db.get(Plain, "a") is not None
        assert store.counts.without_lists() == Counts(gets=2).without_lists()


@pytest.mark.parametrize(("given", "number"), [(7, 7), ("7", 7), ("-7", -7)])
async def test_get_by_a_number(db: Database, given: Any, number: int) -> None:
    """An id that is no text is given as what it is, or as text."""
    await db.put(Numbered(number=number))
    assert await db.get(Numbered, given) == Numbered(number=number)
    assert await db.get(Numbered, number=number) == Numbered(number=number)


@pytest.mark.parametrize(
    ("environment", "plugin", "outside"),
    [
        ("prod", "orders", "prod/orders"),
        ("a/b", "c", "a%2Fb/c"),
        ("a%2Fb", "50%", "a%252Fb/50%25"),
        ("é|#!", "😀", "é|#!/😀"),
    ],
)
async def test_get_by_a_composite_id(db: Database, environment: str, plugin: str, outside: str) -> None:
    """A composite id is given as one text, with separators within its parts escaped, or part by part."""
    record = Component(environment=environment, plugin=plugin, note="n")
    await db.put(record)
    assert await db.get(Component, outside) == record
    assert await db.get(Component, environment=environment, plugin=plugin) == record


async def test_similar_composite_ids_are_different(db: Database) -> None:
    """Parts that look alike when put together are different ids."""
    records = [Component(environment=one, plugin=other) for one, other in [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c")]]
    await db.put_many(records)
    assert [await db.get(Component, text) for text in ("a/b%2Fc", "a%2Fb/c", "a%252Fb/c")] == records


async def test_get_an_entry(db: Database) -> None:
    """An entry of a history is found by id and sub id; without a sub id it is the last one."""
    entries = [
        Release(environment="prod", build=7, stage=stage, at=date(2026, 1, day))
        for stage, day in [(Size.SMALL, 2), (Size.SMALL, 3), (Size.LARGE, 1)]
    ]
    await db.put_many([*entries[::-1], Release(environment="prod", build=8, stage=Size.LARGE, at=date(2027, 1, 1))])
    assert await db.get(Release, "prod:7", stage=Size.SMALL, at=date(2026, 1, 2)) == entries[0]
    assert await db.get(Release, environment="prod", build=7, stage=Size.LARGE, at=date(2026, 1, 1)) == entries[2]
    assert await db.get(Release, "prod:7", stage=Size.LARGE, at=date(2026, 1, 2)) is None
    assert await db.get(Release, "prod:7") == entries[2]
    assert await db.get(Release, "prod:9") is None


@pytest.mark.parametrize("created", [0, 100])
async def test_properties_may_be_called_like_arguments(db: Database, created: int) -> None:
    """A primary key whose properties are called like arguments of ours is read, searched and deleted like any other."""
    await db.put_many([Step(limit="x", prefix=number, created=created) for number in (1, 10, 2)])
    assert await db.get(Step, "x") == Step(limit="x", prefix=10, created=created)
    assert await db.get(Step, limit="x", prefix=1) == Step(limit="x", prefix=1, created=created)
    await db.delete(Step, limit="x", prefix=10)
    assert await db.get(Step, limit="x") == Step(limit="x", prefix=2, created=created)
    await db.put_many([Odd(entity="e", id=number) for number in (1, 2)])
    assert await db.get(Odd, entity="e", id=1) == Odd(entity="e", id=1)
    await db.delete(Odd, "e", id=2)
    assert await db.get(Odd, "e") == Odd(entity="e", id=1)


async def test_get_a_singleton(db: Database) -> None:
    """A singleton needs no id."""
    assert await db.get(Totals) is None
    await db.put(Totals(count=1))
    await db.put(Totals(count=2))
    assert await db.get(Totals) == Totals(count=2)
    await db.delete(Totals)
    assert await db.get(Totals) is None


@pytest.mark.parametrize(
    ("entity", "id", "parts", "error", "argument", "match"),
    [
        (Plain, "", {}, EmptyKey, "plain_id", "Plain.plain_id"),
        (Plain, 7, {}, InvalidValue, "id", "str"),
        (Plain, None, {}, MissingArgument, "plain_id", "Plain is identified by its plain_id"),
        (Plain, "a", {"plain_id": "a"}, ConflictingArguments, "plain_id", "one of the two"),
        (Plain, None, {"plainid": "a"}, MissingArgument, "plain_id", "plain_id"),
        (Plain, "a", {"text": "t"}, UnknownArgument, "text", "not by 'text'"),
        (Numbered, "seven", {}, InvalidValue, "id", "int"),
        (Numbered, True, {}, InvalidValue, "id", "int"),
        (Component, "prod", {}, InvalidValue, "id", "1 of 2 parts"),
        (Component, "a/b/c", {}, InvalidValue, "id", "3 parts, and the id has 2"),
        (Component, None, {"environment": "prod"}, MissingArgument, "plugin", "plugin"),
        (Component, "/b", {}, EmptyKey, "id", "'/b' has an empty part"),
        (Component, None, {"environment": "", "plugin": "b"}, EmptyKey, "environment", "Component.environment"),
        (Release, "prod:7", {"stage": Size.SMALL}, MissingArgument, "at", "Release is identified by its at"),
        (Release, "prod:7", {"at": date(2026, 1, 1)}, MissingArgument, "stage", "stage"),
        (Release, "prod:x", {}, InvalidValue, "id", "int32"),
        (Release, "prod:7", {"stage": Size.SMALL, "at": "2026"}, InvalidValue, "at", "date"),
        (Totals, "x", {}, UnknownArgument, "id", "Totals has no id"),
        (Email, "x", {}, UnknownEntity, "entity", "no entity 'Email'"),
    ],
)
async def test_ids_that_name_nothing(
    db: Database,
    entity: type[Entity],
    id: Any,
    parts: dict[str, Any],
    error: type[ShardQLError],
    argument: str,
    match: str,
) -> None:
    """An id that cannot be one is refused with the argument that is wrong, reading and deleting alike."""
    with pytest.raises(error, match=match) as problem:
        await db.get(entity, id, **parts)
    assert problem.value.argument == argument
    with pytest.raises(error):
        await db.delete(entity, id, **parts)


async def test_deleting_needs_the_whole_key(db: Database) -> None:
    """Where an id has several entries, a deletion names one of them."""
    await db.put(Step(limit="x", prefix=1))
    with pytest.raises(MissingArgument, match="several records for each id: provide prefix too") as problem:
        await db.delete(Step, "x")
    assert problem.value.argument == "prefix"
    assert await db.get(Step, "x") is not None


# --- consistency -----------------------------------------------------------------------------------------------


class Remembering(WrappedStore):
    """Remembers how records were asked for."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.asked: list[bool] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Notes the kind of read."""
        self.asked.append(consistent)
        return await super().get_many(keys, consistent)


async def test_reads_by_id_are_consistent_unless_asked_otherwise(tmp_path: Path) -> None:
    """Reads by id ask the engine for the present state; a caller may do without."""
    store = Remembering(await open_sqlite(tmp_path / "table.db"))
    async with on(store) as db:
        await db.get(Plain, "a")
        await db.get(Plain, "a", consistent=False)
        await db.put(Plain(plain_id="a"))
    assert store.asked == [True, False, True]


async def test_reads_by_id_see_a_write_at_once(tmp_path: Path) -> None:
    """While index entries lag behind, reads by id see every write, the creation check included."""
    store = await open_sqlite(tmp_path / "table.db", quirks=EngineQuirks(index_lag=100))
    async with on(store) as db:
        await db.put(Plain(plain_id="a", text="old"))
        await db.put(Plain(plain_id="a", text="new"))
        await db.put(Step(limit="x", prefix=1))
        found = await db.get(Plain, "a")
        assert found is not None
        assert found.text == "new"
        assert await db.get(Step, "x") is not None
        assert (await db.search(Plain.by_text)).items == []
        with pytest.raises(ShardQLError, match="created at 0"):
            await db.put(Plain(plain_id="a", created=200))
        with pytest.raises(ShardQLError, match="created at 0"):
            await db.put(Step(limit="x", prefix=2, created=200))
        await db.delete(Plain, "a")
        assert await db.get(Plain, "a") is None
        await store.catch_up_indexes()
        assert (await db.search(Plain.by_text)).items == []


# --- tenants ---------------------------------------------------------------------------------------------------


async def test_tenants_never_see_each_other(db: Database) -> None:
    """The same id in two tenants, and in none, is a record each, which only its own tenant finds, lists and deletes."""
    tenants = [None, "a", "a|plain", "plain", "A"]
    for tenant in tenants:
        mine = db.scoped(tenant=tenant)
        await mine.put_many([Plain(plain_id="same", text=str(tenant)), Plain(plain_id=f"of {tenant}", created=200)])
        await mine.put(Step(limit="x", prefix=len(str(tenant))))
    for tenant in tenants:
        mine = db.scoped(tenant=tenant)
        found = await mine.get(Plain, "same")
        assert found is not None
        assert found.text == str(tenant)
        assert [each.plain_id for each in (await mine.search(Plain.by_id)).items] == [f"of {tenant}", "same"]
        assert [each.text for each in (await mine.search(Plain.by_text)).items] == ["", str(tenant)]
        assert [each.prefix for each in (await mine.search(Step.by_id, limit_="x")).items] == [len(str(tenant))]
    await db.scoped(tenant="a").delete(Plain, "same")
    left = [await db.scoped(tenant=tenant).get(Plain, "same") for tenant in tenants]
    assert [found is None for found in left] == [False, True, False, False, False]


async def test_tokens_of_one_tenant_are_worth_nothing_to_another(db: Database) -> None:
    """A token opens for the tenant and the principal that it was made for, and for nobody else."""
    for tenant in ("a", "b", None):
        await db.scoped(tenant=tenant).put_many([Plain(plain_id=f"p{number}") for number in range(3)])
    mine = db.scoped(tenant="a", principal="jane")
    token = (await mine.search(Plain.by_id, limit=1)).next_token
    assert token is not None
    assert [each.plain_id for each in (await mine.search(Plain.by_id, next_token=token)).items] == ["p1", "p2"]
    for other in (
        db.scoped(tenant="b", principal="jane"),
        db.scoped(principal="jane"),
        db.scoped(tenant="a", principal="joe"),
        db.scoped(tenant="a"),
        db.scoped(tenant="jane", principal="a"),
    ):
        with pytest.raises(InvalidToken):
            await other.search(Plain.by_id, next_token=token)


# --- an index sharded like the parent --------------------------------------------------------------------------


async def test_a_users_addresses_are_one_hash_key_a_generation(tmp_path: Path) -> None:
    """A search for a user's addresses asks one hash key for each generation of users, by the addresses' creation."""
    store = CountingStore(await open_sqlite(tmp_path / "table.db"))
    async with on(store, users) as db:
        for number in range(40):
            at = NEW_YEAR_2026 - 20 + number
            await db.put(Email(email=f"{number:02}@x", user_id="u1", created=at))
            await db.put(Email(email=f"{number:02}@y", user_id=f"u{number + 2}", created=at))
        shard = f"0{'0123456789abcdef'[blake2b_number('u1') % 16]}"
        both = ["user!|userId#u1", f"user!{shard}|userId#u1"]
        for bounds, keys, numbers in (
            ({}, both, range(40)),
            ({"to": NEW_YEAR_2026 - 1}, both[:1], range(20)),
            ({"from_": NEW_YEAR_2026}, both[1:], range(20, 40)),
            ({"from_": NEW_YEAR_2026 - 1, "to": NEW_YEAR_2026}, both, range(19, 21)),
        ):
            store.counts = Counts()
            page = await db.search(Email.by_user, user_id="u1", **bounds)
            assert [each.email for each in page.items] == [f"{number:02}@x" for number in numbers]
            assert store.counts.hash_keys == keys
            assert store.counts.scans == store.counts.gets == 0


# --- values ----------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = 1
    BLUE = 2


class Address(BaseModel):
    """Part of a record."""

    street_name: str
    floor: int | None = None
    tags: set[str] = set()


class Everything(Entity):
    """One property of every kind."""

    key: Id[UUID]
    whole: int
    small: Int32
    fraction: float
    exact: Decimal
    flag: bool
    day: date
    moment: datetime
    span: timedelta
    colour: Colour
    size: Size
    octets: bytes
    nothing: str | None
    ends: Ttl[Timestamp]
    address: Address
    addresses: list[Address]
    by_colour: dict[Colour, list[Decimal]]
    texts: set[str]
    numbers: frozenset[int]
    parts: set[bytes]
    empty: set[str]
    pair: tuple[int, str]
    anything: dict[str, Any]
    renamed: Annotated[int, stored("rn")]


EVERYTHING = Everything(
    key=UUID(int=2**127 + 1),
    whole=-(2**63),
    small=2**31 - 1,
    fraction=-0.1,
    exact=Decimal("123456789012345678901234567890.12345678"),
    flag=False,
    day=date(1, 1, 1),
    moment=datetime(2026, 1, 31, 12, 30, 0, 1, tzinfo=UTC),
    span=timedelta(days=-1, microseconds=1),
    colour=Colour.BLUE,
    size=Size.LARGE,
    octets=b"\x00\xff",
    nothing=None,
    ends=2**52,
    address=Address(street_name="Gómez 😀\x00", floor=-1, tags={"a", "b"}),
    addresses=[Address(street_name=""), Address(street_name="x", floor=2)],
    by_colour={Colour.RED: [Decimal("0.1"), Decimal(7)], Colour.BLUE: []},
    texts={"a", ""},
    numbers=frozenset({1, 2**62}),
    parts={b"", b"\x01"},
    empty=set(),
    pair=(1, "one"),
    anything={"deep": [{"er": [1, 1.5, "x", None, True]}], "": {}},
    renamed=5,
)


async def test_every_kind_of_value_comes_back(tmp_path: Path) -> None:
    """Scalars, nested models, lists, maps, sets and bytes come back from the store as they were, types included."""
    catalog = Catalog(Everything)
    async with open_catalog(catalog, f"sqlite:///{tmp_path / 'table.db'}") as db:
        await db.put(EVERYTHING)
    async with open_catalog(catalog, f"sqlite:///{tmp_path / 'table.db'}") as db:
        found = await db.get(Everything, EVERYTHING.key)
        assert found == EVERYTHING
        assert found is not None
        for name in Everything.model_fields:
            assert type(getattr(found, name)) is type(getattr(EVERYTHING, name)), name
        assert (await db.search(Everything.by_id)).items == [EVERYTHING]
        await db.put(found)
        assert await db.get(Everything, str(EVERYTHING.key)) == EVERYTHING


async def test_older_and_newer_records_are_read(tmp_path: Path) -> None:
    """A property added later has its default on old records, one that is gone is left alone, and names may differ."""

    class Old(Entity, name="thing"):
        thing_id: Id[str]
        gone: int
        amount: Annotated[int, stored("amt")]

    class New(Entity, name="thing"):
        thing_id: Id[str]
        total: Annotated[int, stored("amt")]
        colour: Colour = Colour.RED
        tags: list[str] = ["new"]  # noqa: RUF012 - pydantic copies defaults
        note: str | None = "none yet"

        by_total = Index(sort="total")

    url = f"sqlite:///{tmp_path / 'table.db'}"
    async with open_catalog(Catalog(Old), url) as db:
        await db.put(Old(thing_id="t", gone=1, amount=7))
    async with open_catalog(Catalog(New), url) as db:
        found = await db.get(New, "t")
        assert found == New(thing_id="t", total=7, colour=Colour.RED, tags=["new"], note="none yet")
        await db.put(New(thing_id="t", total=8, note=None))
        assert [(each.total, each.note) for each in (await db.search(New.by_total)).items] == [(8, None)]
    async with open_catalog(Catalog(Old), url) as db:
        with pytest.raises(ShardQLError, match=r"thing! / thingId#t: gone: .* default"):
            await db.get(Old, "t")


async def test_attributes_of_others_are_left_alone(db: Database) -> None:
    """What a table holds beyond a record's properties does not disturb reading it."""
    extra = {"_v": 3, "other": {"x": [1]}, "hashKey": "plain!", "rangeKey": "plainId#a", "plainId": "a", "created": 0}
    await db.store.write([Put(extra)])
    assert await db.get(Plain, "a") == Plain(plain_id="a")


# --- opening ---------------------------------------------------------------------------------------------------


async def test_records_are_there_after_opening_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative and an absolute address of one file open the same table."""
    monkeypatch.chdir(tmp_path)
    async with open_catalog(CATALOG, "sqlite:///data.db") as db:
        await db.put(Plain(plain_id="a"))
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path / 'data.db'}") as db:
        assert await db.get(Plain, "a") == Plain(plain_id="a")


@pytest.mark.parametrize("url", ["", "data.db", "sqlite://data.db", "sqlite:///", "mysql:///data.db", "sqlite:data.db"])
async def test_addresses_of_no_store(url: str) -> None:
    """An address that names no store is refused, and the error shows how to write one."""
    with pytest.raises(UnknownArgument, match="Use sqlite:///relative") as problem:
        await open_store(url)
    assert problem.value.argument == "url"


async def test_the_store_is_closed_in_the_end(tmp_path: Path) -> None:
    """After the block, also after an error within it, the store takes no more calls."""
    url = f"sqlite:///{tmp_path / 'table.db'}"
    async with open_catalog(CATALOG, url) as db:
        pass
    with pytest.raises(ShardQLError, match="closed"):
        await db.get(Plain, "a")
    block = open_catalog(CATALOG, url)
    db = await block.__aenter__()
    problem = RuntimeError("of the caller")
    assert not await block.__aexit__(type(problem), problem, None)
    with pytest.raises(ShardQLError, match="closed"):
        await db.get(Plain, "a")


async def test_secrets_decide_whose_tokens_are_read(tmp_path: Path) -> None:
    """Tokens outlive a restart with the same secrets, and a rotation that keeps the old secret; nothing else."""
    url = f"sqlite:///{tmp_path / 'table.db'}"
    one, two = Secrets.generate(), Secrets.generate()
    async with open_catalog(CATALOG, url, secrets=one) as db:
        await db.put_many([Plain(plain_id=f"p{number}") for number in range(3)])
        token = (await db.search(Plain.by_id, limit=2)).next_token
    for secrets in (one, Secrets((*two.tokens, *one.tokens))):
        async with open_catalog(CATALOG, url, secrets=secrets) as db:
            page = await db.search(Plain.by_id, next_token=token)
            assert [each.plain_id for each in page.items] == ["p2"]
    for other in (two, None):
        async with open_catalog(CATALOG, url, secrets=other) as db:
            with pytest.raises(InvalidToken):
                await db.search(Plain.by_id, next_token=token)


def test_secrets_are_never_printed() -> None:
    """The text form of secrets and of a database shows no secret."""
    secrets = Secrets((b"t" * 32,), b"r" * 32)
    assert "ttt" not in repr(secrets)
    assert "rrr" not in repr(secrets)


async def test_putting_what_is_no_record_of_the_catalog(db: Database) -> None:
    """A record of an entity that the catalog lacks is refused as a whole batch, one of another entity alone."""
    with pytest.raises(UnknownEntity, match="'User'"):
        await db.put(User.model_construct())
    found = await db.put_many([Plain(plain_id="a"), Numbered(number=1)])
    assert found[0] is None
    assert str(found[1]) == "A Numbered is no Plain: pass an instance of Plain."
    assert await db.get(Numbered, 1) is None


class Person(Entity):
    """Found by a derived id, and by what is derived from a day."""

    email: str
    born: date
    key: Id[str] = derived(canonical, "email")
    year: str = derived(lambda born: str(born.year), "born")

    by_year = Index(sort="year")


async def test_derived_properties_are_asked_for_as_they_were_given(tmp_path: Path) -> None:
    """A derived id is derived in get as in search; one derived from another type also takes its own values."""
    async with open_catalog(Catalog(Person), f"sqlite:///{tmp_path / 'table.db'}") as db:
        person = Person(email="José@example", born=date(2024, 5, 6))
        await db.put(person)
        assert await db.get(Person, "JOSÉ@example") == person
        assert await db.get(Person, key="José@Example") == person
        for arguments in ({"eq": date(2024, 1, 1)}, {"eq": "2024"}, {"prefix": "20"}, {"from_": "2023", "to": "2025"}):
            assert list((await db.search(Person.by_year, **arguments)).items) == [person]
