"""Record keys in Python: the identity of records for every type of id, and operations that accept keys."""

from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import create_model

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Id,
    Index,
    Int32,
    RecordKey,
    Secrets,
    Shards,
    SubId,
    Timestamp,
    TimestampMs,
    derived,
    merge,
    open_catalog,
    record_key,
)
from graphql_api.codecs import EnumCodec
from graphql_api.codecs.record_key import MAX_KEY_CHARACTERS, RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import ConflictingArguments, InvalidRecordKey, InvalidValue, KeyTooLong, TokenAhead
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.writes import possible_keys
from tests.laws.key_strategies import DATETIMES, DECIMALS, DURATIONS, UUIDS, integers, texts
from tests.support.run_depth import examples
from tests.support.store_doubles import CountingStore

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
KEY_SEAL = RecordKeySeal(b"this secret never changes at all")


class Level(IntEnum):
    """The order of the members differs from the order of their values."""

    LOW = 10
    HIGH = 5


class Colour(Enum):
    """One value is longer than any key."""

    RED = "red"
    BLUE = "b" * 20_000


class User(Entity, shards=Shards(1).then(4, since=100).then(16, since=200)):
    """An entity with several shard generations."""

    user_id: Id[str]
    created: Created[Timestamp]
    name: str = ""

    by_name = Index(sort="name", projection="KEYS_ONLY")


class Line(Entity, shards=Shards(4)):
    """An entity with a composite id and a composite sub id."""

    order: Id[str]
    year: Id[int]
    category: SubId[str]
    num: SubId[int]
    note: str = ""


class Settings(Entity):
    """A singleton entity."""

    theme: str = "dark"


class Keyed(Entity):
    """An entity with a property called `key`."""

    key: Id[str]
    text: str = ""


class Slug(Entity):
    """An entity with a derived id that is not idempotent."""

    title: str
    slug: Id[str] = derived(lambda title: f"{title}-{len(title)}", "title")
    at: SubId[int] = 0


CATALOG = Catalog(User, Line, Settings, Keyed, Slug)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with a counting store."""
    store = await open_sqlite(tmp_path / "x.db")
    await store.ensure_table(CATALOG.table_definition())
    yield Database(CATALOG, CountingStore(store), SEAL, key_seal=KEY_SEAL)
    await store.close()


def counting(db: Database) -> CountingStore:
    """The counting store of the database."""
    assert isinstance(db.store, CountingStore)
    return db.store


# --- identity --------------------------------------------------------------------------------------------------


def test_record_key_parts() -> None:
    """A record key has entity name, ids and sub ids in declared order, and the generation of the creation value."""
    line = Line(order="o-1", year=2026, category="books", num=3, note="x")
    assert line.key == RecordKey("line", ("o-1", 2026), ("books", 3))
    assert [User(user_id="u", created=at).key.generation for at in (-5, 99, 100, 199, 200)] == [0, 0, 1, 1, 2]
    assert Settings().key == RecordKey("settings", ())
    assert record_key(Keyed(key="k")) == RecordKey("keyed", ("k",))


def test_equal_keys_name_the_same_record() -> None:
    """Records with equal ids of one entity have equal keys; other properties do not count."""
    one, same = User(user_id="u", created=5, name="a"), User(user_id="u", created=500, name="b")
    assert one.key == same.key
    assert len({one.key, same.key, User(user_id="v", created=5).key, record_key(Keyed(key="u"))}) == 3


def test_property_called_key_hides_the_record_key() -> None:
    """If an entity has a property `key`, the attribute `key` is that property."""
    assert Keyed(key="k").key == "k"
    assert not hasattr(Keyed, "key")
    with pytest.raises(AttributeError):
        _ = Keyed.model_construct(text="no key").key


def test_classes_have_no_key() -> None:
    """Only records have a key; classes have no such attribute, so that declarations can use the name."""
    assert not hasattr(User, "key")


# --- types of ids ------------------------------------------------------------------------------------------------

IDS: list[tuple[Any, Any]] = [
    (str, "é/#|\x00"),
    (int, -(2**63)),
    (Int32, 2**31 - 1),
    (Timestamp, 1_700_000_000),
    (TimestampMs, -1),
    (UUID, UUID(int=5)),
    (date, date(1, 1, 1)),
    (datetime, datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=14)))),
    (timedelta, timedelta.min),
    (Decimal, Decimal("-1.2345678901234567890123456789012345678E+125")),
    (Decimal, Decimal("2.50")),
    (Level, Level.HIGH),
    (Colour, Colour.BLUE),
]


@pytest.mark.parametrize(("kind", "value"), IDS, ids=map(str, range(len(IDS))))
async def test_ids_of_every_type(kind: Any, value: Any, tmp_path: Path) -> None:
    """Ids and sub ids of every supported type keep type and value in a sealed key."""
    id, sub_id = cast(Any, Id), cast(Any, SubId)
    thing: Any = create_model("Thing", __base__=Entity, one=(id[kind], ...), other=(sub_id[kind], ...))
    async with open_catalog(Catalog(thing), f"sqlite:///{tmp_path}/x.db") as db:
        await db.put(thing(one=value, other=value))
        (found,) = (await db.search(thing.by_id, one=value)).items
        key = db.open_key(db.seal_key(found), thing)
        assert key == found.key == thing(one=value, other=value).key
        assert [type(part) for part in (*key.ids, *key.children)] == [type(found.one), type(found.other)]
        assert await db.get(thing, key) == found


class Stage(Entity):
    """An entity with an enum id."""

    level: Id[Level]


class Everything(Entity):
    """An entity with an id of every type."""

    text: Id[str]
    whole: Id[int]
    number: Id[Decimal]
    uuid: Id[UUID]
    day: Id[date]
    moment: Id[datetime]
    span: Id[timedelta]
    level: SubId[Level]


EVERYTHING = Database(Catalog(Everything), None, SEAL, key_seal=KEY_SEAL)  # type: ignore[arg-type]  # not used


@examples(200)
@given(
    record=st.builds(
        Everything,
        text=texts(min_size=1),
        whole=integers(-(2**63), 2**63 - 1),
        number=DECIMALS,
        uuid=UUIDS,
        day=st.dates(),
        moment=DATETIMES,
        span=DURATIONS,
        level=st.sampled_from(Level),
    )
)
def test_ids_of_any_value(record: Everything) -> None:
    """A sealed key of any id values opens to the key of the record, with the same types."""
    key = EVERYTHING.open_key(EVERYTHING.seal_key(record))
    assert key == record.key
    assert [*map(type, key.ids)] == [str, int, Decimal, UUID, date, datetime, timedelta]
    assert [*map(type, key.children)] == [Level]
    assert (key.ids, key.children) == (tuple(vars(record).values())[:7], (record.level,))


@examples(200)
@given(text=texts(max_size=200).filter(bool), tenant=texts(max_size=200).filter(bool))
def test_every_storable_key_can_be_sealed(text: str, tenant: str) -> None:
    """The key of any storable record can be sealed, with any tenant."""
    db = Database(CATALOG, None, SEAL, tenant=tenant, key_seal=KEY_SEAL)  # type: ignore[arg-type]
    key = User(user_id=text, created=1).key
    assert db.open_key(db.seal_key(key)) == key


async def test_longest_id_can_be_sealed(db: Database) -> None:
    """The longest id of the longest tenant can be stored, sealed and opened."""
    longest = Keyed(key="\U0010ffff" * 254)
    scoped = db.scoped(tenant="t" * 2_000)
    await scoped.put(longest)
    text = scoped.seal_key(longest)
    assert len(text) <= MAX_KEY_CHARACTERS
    assert await scoped.get(Keyed, scoped.open_key(text)) == longest
    with pytest.raises(KeyTooLong):
        await scoped.put(Keyed(key="\U0010ffff" * 255))


def test_enum_ids_are_sealed_by_ordinal() -> None:
    """A sealed enum id contains the ordinal of the member, so that appended members do not change older keys."""
    codec = EnumCodec(Level)
    assert [codec.encode(level) for level in Level] == ["000", "001"]
    db = Database(Catalog(Stage), None, SEAL, key_seal=KEY_SEAL)  # type: ignore[arg-type]  # not used
    text = db.seal_key(Stage(level=Level.HIGH))
    assert KEY_SEAL.open(text, tenant=None).ids == (1,)
    beyond = KEY_SEAL.seal(RecordKey("stage", (2,)))
    with pytest.raises(InvalidRecordKey, match="declared with another id"):
        db.open_key(beyond)


# --- sealed keys -------------------------------------------------------------------------------------------------


async def test_sealed_key_opens_for_its_tenant_and_secret(db: Database) -> None:
    """A sealed key opens for the same tenant and secret only."""
    user = User(user_id="u", created=150)
    acme = db.scoped(tenant="acme")
    text = acme.seal_key(user)
    assert acme.open_key(text) == acme.open_key(text, User) == user.key
    assert acme.open_key(text).generation == 1
    others = [db, db.scoped(tenant="other"), Database(CATALOG, db.store, SEAL, tenant="acme")]
    for other in others:
        with pytest.raises(InvalidRecordKey, match=r"^text is no record key"):
            other.open_key(text)
    with pytest.raises(InvalidRecordKey, match="'user', and one of 'line' is expected"):
        acme.open_key(text, Line)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (RecordKey.EMPTY, "of is an empty key"),
        (RecordKey("person", ("u",)), "of is the key of a record of 'person', which the catalog does not declare"),
        (RecordKey("user", ("u", "v")), r"user\(u, v\) is no key of a User: it needs 1 id and 0 child ids"),
        (RecordKey("line", ("o", 2026)), "it needs 2 ids and 2 child ids"),
        (RecordKey("user", (5,)), "int given where text is declared"),
    ],
)
async def test_invalid_keys_cannot_be_sealed(key: RecordKey, message: str, db: Database) -> None:
    """Sealing refuses the empty key, keys of unknown entities, and keys with the wrong parts."""
    with pytest.raises((InvalidRecordKey, InvalidValue), match=message):
        db.seal_key(key)


async def test_keys_of_another_declaration(db: Database) -> None:
    """A key that was sealed for another declaration of the entity is refused with a specific message."""
    unknown = KEY_SEAL.seal(RecordKey("person", ("u",)))
    with pytest.raises(InvalidRecordKey, match="'person', which the catalog does not declare"):
        db.open_key(unknown)
    for key in (RecordKey("user", (5,)), RecordKey("user", ("u", "v")), RecordKey("user", ("u",), (1,))):
        with pytest.raises(InvalidRecordKey, match="declared with another id"):
            db.open_key(KEY_SEAL.seal(key))


async def test_keys_depend_on_the_record_secret(tmp_path: Path) -> None:
    """Sealed keys open after a restart with the same record secret, also if the token secret was rotated."""
    url = f"sqlite:///{tmp_path / 'table.db'}"
    one, two = Secrets.generate(), Secrets.generate()
    async with open_catalog(CATALOG, url, secrets=one) as db:
        text = db.seal_key(Settings())
    async with open_catalog(CATALOG, url, secrets=Secrets(two.tokens, one.record)) as db:
        assert db.open_key(text) == Settings().key
    for other in (two, Secrets(one.tokens), None):
        async with open_catalog(CATALOG, url, secrets=other) as db:
            with pytest.raises(InvalidRecordKey):
                db.open_key(text)


# --- reading by key ----------------------------------------------------------------------------------------------


async def test_key_with_generation_reads_one_item(db: Database) -> None:
    """A read by a key with a generation reads one item; without it, one item for each generation."""
    for at in (50, 150, 250):
        user = User(user_id=f"u{at}", created=at)
        await db.put(user)
        key = db.open_key(db.seal_key(user))
        without_generation = RecordKey(key.origin, key.ids)
        for requested, reads in (
            (key, 1),
            (without_generation, len(possible_keys(CATALOG.entity(User), without_generation.ids, None))),
        ):
            before = counting(db).counts.gets
            assert await db.get(User, requested) == user
            assert counting(db).counts.gets - before == reads


async def test_key_of_an_unknown_generation_is_retryable(db: Database) -> None:
    """A key of a generation that this server does not know yet raises the retryable `TokenAhead`."""
    ahead = RecordKey("user", ("u",), generation=3)
    for reading in (db.get(User, ahead), db.get(User, db.open_key(db.seal_key(ahead)))):
        with pytest.raises(TokenAhead) as caught:
            await reading
        assert caught.value.retryable
    with pytest.raises(TokenAhead):
        db.foreign_shards([ahead], "user!")


async def test_operations_accept_a_key_as_id(db: Database) -> None:
    """Reads, searches by id and deletes accept a key.

    Additional id parts must match it, and the entity must be right.
    """
    lines = [Line(order="o-1", year=2026, category="books", num=num) for num in range(3)]
    await db.put_many(lines)
    key = lines[1].key
    assert await db.get(Line, key) == lines[1]
    assert await db.get(Line, key, num=1, category="books", year=2026) == lines[1]
    assert list((await db.search(Line.by_id, id=key)).items) == lines
    with pytest.raises(ConflictingArguments, match="num differs from the record key") as caught:
        await db.get(Line, key, num=2)
    assert caught.value.argument == "num"
    with pytest.raises(InvalidRecordKey, match="a record of 'line', and one of 'user'"):
        await db.get(User, key)
    with pytest.raises(InvalidRecordKey, match="a record of 'line', and one of 'user'"):
        await db.search(User.by_id, id=key)
    await db.delete(Line, key)
    assert await db.get(Line, key) is None
    await db.put(Settings(theme="light"))
    assert await db.get(Settings, Settings().key) == Settings(theme="light")


async def test_derived_id_in_a_key_is_not_derived_again(db: Database) -> None:
    """A derived id in a key is used as stored, and is not derived again."""
    slugs = [Slug(title="Ann", at=at) for at in (1, 2)]
    await db.put_many(slugs)
    assert slugs[0].key.ids == ("Ann-3",)
    assert await db.get(Slug, slugs[0].key) == slugs[0]
    assert await db.get(Slug, "Ann") == slugs[1]
    assert list((await db.search(Slug.by_id, id=slugs[0].key)).items) == slugs


async def test_key_of_a_partially_loaded_record(db: Database) -> None:
    """A partially loaded record has the same key, without the generation if the creation value is not loaded."""
    await db.put(User(user_id="u", created=150, name="a"))
    (part,) = (await db.search(User.by_name, select=["name"])).items
    assert part.key == User(user_id="u", created=150).key
    assert part.key.generation is None
    assert await db.get(User, part.key) is not None


# --- several keys ------------------------------------------------------------------------------------------------


def test_merge() -> None:
    """`merge` replaces records with equal keys; other new records are added only with `append=True`."""
    old = [User(user_id=id, created=1, name="old") for id in "abc"]
    new = [User(user_id=id, created=1, name="new") for id in "dbe"]
    assert [(user.user_id, user.name) for user in merge(old, new)] == [("a", "old"), ("b", "new"), ("c", "old")]
    added = [("a", "old"), ("b", "new"), ("c", "old"), ("d", "new"), ("e", "new")]
    assert [(user.user_id, user.name) for user in merge(old, new, append=True)] == added
    assert [user.name for user in old] == ["old"] * 3
    assert merge([], new) == []
    assert merge([], iter(new), append=True) == new
    assert merge(old, []) == old


def test_merge_of_equal_keys_and_several_entities() -> None:
    """If several new records have the same key, the last one is used.

    Records of different entities are never merged.
    """
    old: list[Entity] = [Keyed(key="u"), User(user_id="u", created=1)]
    new: list[Entity] = [Keyed(key="u", text="first"), Keyed(key="u", text="last")]
    assert merge(old, new, append=True) == [new[1], old[1]]


async def test_foreign_shards(db: Database) -> None:
    """`foreign_shards` returns each shard of the records once, except the given one."""
    users = [User(user_id=f"u{number}", created=250) for number in range(200)]
    await db.put_many(users)
    first, *others = db.foreign_shards(users, "none")
    assert sorted([first, *others]) == [f"user!0{digit}" for digit in "0123456789abcdef"]
    assert db.foreign_shards(users, first) == others
    assert db.foreign_shards([user.key for user in users], first) == others
    assert db.foreign_shards([users[0]], first) == []
    assert db.foreign_shards([], first) == []


async def test_foreign_shards_of_generations(db: Database) -> None:
    """A key with a generation is in one shard; without it, in one shard of each generation."""
    key = User(user_id="u", created=250).key
    found = db.foreign_shards([key], "")
    assert len(found) == 1
    assert db.foreign_shards([User(user_id="u", created=50)], "") == ["user!"]
    everywhere = db.foreign_shards([RecordKey("user", ("u",))], "")
    assert {"user!", *found} <= {*everywhere}
    assert len(everywhere) in (2, 3)
    assert db.foreign_shards([RecordKey("user", ("u",)), Settings()], "user!")[-1] == "settings!"
