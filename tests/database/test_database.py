"""The Python interface: opening a catalog, reading records by id, tenants, and the round trip of values."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from graphql_api.connection import Secrets, open_catalog
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
from graphql_api.query.token_seal import TokenSeal
from graphql_api.sharding.shard_space import blake2b_number
from graphql_api.storage.engines import open_store
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, Put
from tests.support.distributed_store import open_lagging
from tests.support.store_doubles import CountingStore, Counts

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
NEW_YEAR_2026 = 1_767_225_600


class Size(StrEnum):
    SMALL = "s"
    LARGE = "l"


class Plain(Entity, shards=Shards(1).then(4, since=100)):
    """An entity with a text id, over two generations of shards."""

    plain_id: Id[str]
    created: Created[Timestamp] = 0
    text: str = ""

    by_text = Index(sort="text")


class Numbered(Entity):
    """An entity with an integer id."""

    number: Id[int]


class Component(Entity):
    """An entity with a composite id of two texts."""

    environment: Id[str]
    plugin: Id[str]
    note: str = ""


class Release(Entity, separator=":"):
    """A history with a composite id and a composite sub id."""

    environment: Id[str]
    build: Id[Int32]
    stage: SubId[Size]
    at: SubId[date]
    note: str = ""


class Step(Entity, shards=Shards(1).then(16, since=100)):
    """A history whose properties have the names of arguments."""

    limit: Id[str]
    prefix: SubId[int]
    created: Created[Timestamp] = 0


class Totals(Entity):
    """A singleton entity."""

    count: int


class Odd(Entity):
    """An entity with a property `id` that is only a part of its key."""

    entity: Id[str]
    id: SubId[int]


CATALOG = Catalog(Plain, Numbered, Component, Release, Step, Totals, Odd)


@asynccontextmanager
async def database_on(store: Store, catalog: Catalog = CATALOG) -> AsyncIterator[Database]:
    """A database of this catalog on this store."""
    await store.ensure_table(catalog.table_definition())
    try:
        yield Database(catalog, store, SEAL)
    finally:
        await store.close()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with an empty table."""
    async with database_on(await open_sqlite(tmp_path / "table.db")) as database:
        yield database


# --- get -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("created", [0, 99, 100, 500])
async def test_get_by_id(db: Database, created: int) -> None:
    """`get` finds a record by positional or named id, in any shard generation."""
    record = Plain(plain_id="a/b%", created=created, text="t")
    await db.put(record)
    assert await db.get(Plain, "a/b%") == record
    assert await db.get(Plain, plain_id="a/b%") == record
    assert await db.get(Plain, id="a/b%") == record
    assert await db.get(Plain, "a") is None
    assert await db.get(Numbered, 1) is None


async def test_get_reads_one_key_per_generation(tmp_path: Path) -> None:
    """A read by id reads one key of each generation in one call, without a search."""
    store = CountingStore(await open_sqlite(tmp_path / "table.db"))
    async with database_on(store) as db:
        await db.put(Plain(plain_id="a", created=200))
        store.counts = Counts()
        assert await db.get(Plain, "a") is not None
        assert store.counts.scalar_counts() == Counts(gets=2).scalar_counts()


@pytest.mark.parametrize(("given", "number"), [(7, 7), ("7", 7), ("-7", -7)])
async def test_get_by_a_number(db: Database, given: Any, number: int) -> None:
    """An id that is not text is accepted as a value or as text."""
    await db.put(Numbered(number=number))
    assert await db.get(Numbered, given) == Numbered(number=number)
    assert await db.get(Numbered, number=number) == Numbered(number=number)


@pytest.mark.parametrize(
    ("environment", "plugin", "text"),
    [
        ("prod", "orders", "prod/orders"),
        ("a/b", "c", "a%2Fb/c"),
        ("a%2Fb", "50%", "a%252Fb/50%25"),
        ("é|#!", "😀", "é|#!/😀"),
    ],
)
async def test_get_by_a_composite_id(db: Database, environment: str, plugin: str, text: str) -> None:
    """A composite id is accepted as one text with escaped separators, or as separate parts."""
    record = Component(environment=environment, plugin=plugin, note="n")
    await db.put(record)
    assert await db.get(Component, text) == record
    assert await db.get(Component, environment=environment, plugin=plugin) == record


async def test_composite_ids_with_equal_concatenation_are_different(db: Database) -> None:
    """Composite ids whose parts have equal concatenations are different."""
    records = [Component(environment=one, plugin=other) for one, other in [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c")]]
    await db.put_many(records)
    assert [await db.get(Component, text) for text in ("a/b%2Fc", "a%2Fb/c", "a%252Fb/c")] == records


async def test_get_an_entry(db: Database) -> None:
    """An entry of a history is found by id and sub id. Without a sub id, the last entry is returned."""
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
async def test_properties_with_names_of_arguments(db: Database, created: int) -> None:
    """Key properties with the names of arguments can be read, searched and deleted."""
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
    """A singleton is read without an id."""
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
async def test_invalid_ids_are_refused(
    db: Database,
    entity: type[Entity],
    id: Any,
    parts: dict[str, Any],
    error: type[ShardQLError],
    argument: str,
    match: str,
) -> None:
    """An invalid id is refused with the name of the argument, in `get` and `delete`."""
    with pytest.raises(error, match=match) as problem:
        await db.get(entity, id, **parts)
    assert problem.value.argument == argument
    with pytest.raises(error):
        await db.delete(entity, id, **parts)


async def test_delete_requires_the_whole_key(db: Database) -> None:
    """Deleting an entry of a history requires its sub id."""
    await db.put(Step(limit="x", prefix=1))
    with pytest.raises(MissingArgument, match="several records for each id: provide prefix too") as problem:
        await db.delete(Step, "x")
    assert problem.value.argument == "prefix"
    assert await db.get(Step, "x") is not None


# --- consistency -------------------------------------------------------------------------------------------------


class ConsistencyRecordingStore(ForwardingStore):
    """Records whether point lookups were consistent."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.consistent_reads: list[bool] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Records the consistency of the read."""
        self.consistent_reads.append(consistent)
        return await super().get_many(keys, consistent)


async def test_reads_by_id_are_consistent_by_default(tmp_path: Path) -> None:
    """Reads by id are consistent by default; a caller can disable that."""
    store = ConsistencyRecordingStore(await open_sqlite(tmp_path / "table.db"))
    async with database_on(store) as db:
        await db.get(Plain, "a")
        await db.get(Plain, "a", consistent=False)
        await db.put(Plain(plain_id="a"))
    assert store.consistent_reads == [True, False, True]


async def test_reads_by_id_see_every_write(tmp_path: Path) -> None:
    """Reads by id and the check of creation values see every write, even if index entries lag."""
    store = await open_lagging(tmp_path / "table.db", 100)
    async with database_on(store) as db:
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


# --- tenants -----------------------------------------------------------------------------------------------------


async def test_tenants_are_isolated(db: Database) -> None:
    """The same id in several tenants identifies different records, each visible to its own tenant only."""
    tenants = [None, "a", "a|plain", "plain", "A"]
    for tenant in tenants:
        scoped = db.scoped(tenant=tenant)
        await scoped.put_many([Plain(plain_id="same", text=str(tenant)), Plain(plain_id=f"of {tenant}", created=200)])
        await scoped.put(Step(limit="x", prefix=len(str(tenant))))
    for tenant in tenants:
        scoped = db.scoped(tenant=tenant)
        found = await scoped.get(Plain, "same")
        assert found is not None
        assert found.text == str(tenant)
        assert [each.plain_id for each in (await scoped.search(Plain.by_id)).items] == [f"of {tenant}", "same"]
        assert [each.text for each in (await scoped.search(Plain.by_text)).items] == ["", str(tenant)]
        assert [each.prefix for each in (await scoped.search(Step.by_id, limit_="x")).items] == [len(str(tenant))]
    await db.scoped(tenant="a").delete(Plain, "same")
    left = [await db.scoped(tenant=tenant).get(Plain, "same") for tenant in tenants]
    assert [found is None for found in left] == [False, True, False, False, False]


async def test_tokens_are_bound_to_tenant_and_principal(db: Database) -> None:
    """A page token opens only for the tenant and the principal that it was issued to."""
    for tenant in ("a", "b", None):
        await db.scoped(tenant=tenant).put_many([Plain(plain_id=f"p{number}") for number in range(3)])
    scoped = db.scoped(tenant="a", principal="jane")
    token = (await scoped.search(Plain.by_id, limit=1)).next_token
    assert token is not None
    assert [each.plain_id for each in (await scoped.search(Plain.by_id, next_token=token)).items] == ["p1", "p2"]
    for other in (
        db.scoped(tenant="b", principal="jane"),
        db.scoped(principal="jane"),
        db.scoped(tenant="a", principal="joe"),
        db.scoped(tenant="a"),
        db.scoped(tenant="jane", principal="a"),
    ):
        with pytest.raises(InvalidToken):
            await other.search(Plain.by_id, next_token=token)


# --- index sharded like a parent ---------------------------------------------------------------------------------


async def test_index_like_parent_reads_one_hash_key_per_generation(tmp_path: Path) -> None:
    """A search of an index sharded like its parent reads one hash key for each generation in the searched range."""
    store = CountingStore(await open_sqlite(tmp_path / "table.db"))
    async with database_on(store, users) as db:
        for number in range(40):
            at = NEW_YEAR_2026 - 20 + number
            await db.put(Email(email=f"{number:02}@x", user_id="u1", created=at))
            await db.put(Email(email=f"{number:02}@y", user_id=f"u{number + 2}", created=at))
        shard = f"0{'0123456789abcdef'[blake2b_number('u1') % 16]}"
        both = ["user!|userId#u1", f"user!{shard}|userId#u1"]
        cases: list[tuple[dict[str, Any], list[str], range]] = [
            ({}, both, range(40)),
            ({"to": NEW_YEAR_2026 - 1}, both[:1], range(20)),
            ({"from_": NEW_YEAR_2026}, both[1:], range(20, 40)),
            ({"from_": NEW_YEAR_2026 - 1, "to": NEW_YEAR_2026}, both, range(19, 21)),
        ]
        for bounds, keys, numbers in cases:
            store.counts = Counts()
            page = await db.search(Email.by_user, user_id="u1", **bounds)
            assert [each.email for each in page.items] == [f"{number:02}@x" for number in numbers]
            assert store.counts.hash_keys == keys
            assert store.counts.scans == store.counts.gets == 0


# --- round trip of values ----------------------------------------------------------------------------------------


class Colour(Enum):
    RED = 1
    BLUE = 2


class Address(BaseModel):
    """A nested model."""

    street_name: str
    floor: int | None = None
    tags: set[str] = set()


class Everything(Entity):
    """An entity with a property of every kind."""

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


async def test_values_are_read_as_written(tmp_path: Path) -> None:
    """Every kind of value is read as it was written, with equal types."""
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
    """Records of older and newer declarations are read: defaults fill new properties, and removed ones survive."""

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
        assert await db.get(Old, "t") == Old(thing_id="t", gone=1, amount=8)


async def test_unknown_attributes_are_ignored(db: Database) -> None:
    """Unknown attributes of a stored record are ignored."""
    extra = {"_v": 3, "other": {"x": [1]}, "hashKey": "plain!", "rangeKey": "plainId#a", "plainId": "a", "created": 0}
    await db.store.write([Put(extra)])
    assert await db.get(Plain, "a") == Plain(plain_id="a")


# --- opening -----------------------------------------------------------------------------------------------------


async def test_relative_and_absolute_urls_open_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative and an absolute URL of one file open the same table."""
    monkeypatch.chdir(tmp_path)
    async with open_catalog(CATALOG, "sqlite:///data.db") as db:
        await db.put(Plain(plain_id="a"))
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path / 'data.db'}") as db:
        assert await db.get(Plain, "a") == Plain(plain_id="a")


@pytest.mark.parametrize("url", ["", "data.db", "sqlite://data.db", "sqlite:///", "mysql:///data.db", "sqlite:data.db"])
async def test_invalid_urls_are_refused(url: str) -> None:
    """An invalid URL is refused, and the error shows the format."""
    with pytest.raises(UnknownArgument, match="Use sqlite:///relative") as problem:
        await open_store(url)
    assert problem.value.argument == "url"


async def test_store_is_closed_after_the_block(tmp_path: Path) -> None:
    """The store is closed after the block, also after an error."""
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


async def test_tokens_depend_on_the_token_secret(tmp_path: Path) -> None:
    """Page tokens open after a restart with the same secrets, and after a rotation that keeps the old secret."""
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
    """The string forms of secrets and databases contain no secret."""
    secrets = Secrets((b"t" * 32,), b"r" * 32)
    assert "ttt" not in repr(secrets)
    assert "rrr" not in repr(secrets)


async def test_records_of_other_entities_are_refused(db: Database) -> None:
    """A record of an unknown entity fails the whole batch; a record of another entity fails alone."""
    with pytest.raises(UnknownEntity, match="'User'"):
        await db.put(User.model_construct())
    found = await db.put_many([Plain(plain_id="a"), Numbered(number=1)])
    assert found[0] is None
    assert str(found[1]) == "A Numbered is no Plain: pass an instance of Plain."
    assert await db.get(Numbered, 1) is None


class Person(Entity):
    """An entity with a derived id, and a property derived from a date."""

    email: str
    born: date
    key: Id[str] = derived(canonical, "email")
    year: str = derived(lambda born: str(born.year), "born")

    by_year = Index(sort="year")


async def test_derived_properties_as_arguments(tmp_path: Path) -> None:
    """A derived id is derived in `get` and `search`.

    Conditions on a derived property accept source and derived values.
    """
    async with open_catalog(Catalog(Person), f"sqlite:///{tmp_path / 'table.db'}") as db:
        person = Person(email="José@example", born=date(2024, 5, 6))
        await db.put(person)
        assert await db.get(Person, "JOSÉ@example") == person
        assert await db.get(Person, key="José@Example") == person
        for arguments in ({"eq": date(2024, 1, 1)}, {"eq": "2024"}, {"prefix": "20"}, {"from_": "2023", "to": "2025"}):
            assert list((await db.search(Person.by_year, **arguments)).items) == [person]


async def test_calls_take_no_further_positional_arguments(db: Database) -> None:
    """Conditions, values and changes have names; a further positional argument is a `TypeError`, as in any call."""
    untyped: Any = db
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: untyped.search(User.by_id, 3),
        lambda: untyped.count(User.by_id, 3),
        lambda: untyped.get(User, "u1", 3),
        lambda: untyped.get_by(User, "u1"),
        lambda: untyped.create(User, "u1"),
        lambda: untyped.update(User, "u1", 3),
        lambda: untyped.delete(User, "u1", 3),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="positional argument"):
            await call()
