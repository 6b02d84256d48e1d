"""Idempotency keys: a request is carried out once, and is given the first answer as often as it comes again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Int32, SubId, Timestamp, Ttl, Unique, Updated, Version, counter
from graphql_api.codecs.hash_keys import parse_hash_key
from graphql_api.database import Database
from graphql_api.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    IdempotencyMismatch,
    InvalidValue,
    ItemTooLarge,
    NotUnique,
    RecordNotFound,
    ShardQLError,
    StoreUnavailable,
    Throttled,
    VersionConflict,
)
from graphql_api.model.nested_values import MAX_NESTING
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, Put, TransactionWrite
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.idempotency import RESPONSE_SECONDS, SWEEP_GRACE_SECONDS, request_digest, idempotency_guard
from tests.clocks import Clock
from tests.stores import WrappedStore
from tests.unit.conftest import Opened
from tests.unit.engines import on_both_engines

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
KEY = "3c2ba3f0-8a32-4bb4-9d5d-6a1f6b6d3d6a"


class Kind(Enum):
    """What a note is."""

    plain = "plain"
    loud = "loud"


class Note(Entity):
    """Something with one of everything that a write looks at."""

    note_id: Id[str]
    slug: Unique[str]
    board: str = "b"
    num: Int32 = counter("board")
    kind: Kind = Kind.plain
    size: Decimal | None = None
    more: dict[str, Any] | None = None
    raw: bytes | None = None
    updated: Updated[Timestamp]
    version: Version[Int32]

    by_board = Index(hash="board", sort="num")


class Order(Entity, current="~current"):
    """A history with its current record."""

    order_id: Id[str]
    entry: SubId[str]
    status: str


class Passing(Entity):
    """Something that expires."""

    passing_id: Id[str]
    until: Ttl[Timestamp] | None = None


CATALOG = Catalog(Note, Order, Passing)
NOTE, ORDER, PASSING = CATALOG.entity(Note), CATALOG.entity(Order), CATALOG.entity(Passing)


class Spoiled(WrappedStore):
    """Does something before the next transaction that keeps an answer, or after each that was carried out."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.before: Callable[[], Awaitable[None]] | None = None
        self.after: Callable[[], Awaitable[None]] | None = None

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        keeps = any("once!" in one.item["hashKey"] for one in writes if isinstance(one, Put))
        if keeps and self.before is not None:
            before, self.before = self.before, None
            await before()
        await super().write_together(writes, token)
        if keeps and self.after is not None:
            await self.after()


@pytest.fixture
def clock() -> Clock:
    """The time."""
    return Clock()


@pytest.fixture
async def db(opened: Opened, clock: Clock) -> Database:
    """An empty database, as somebody sees it."""
    store = Spoiled(await opened())
    await store.ensure_table(CATALOG.table_definition())
    return Database(CATALOG, store, SEAL, clock, tenant="acme", principal="ann")


def spoiled(db: Database) -> Spoiled:
    """The store of the database."""
    assert isinstance(db.store, Spoiled)
    return db.store


def create(note_id: str = "n", key: str | None = KEY, **values: Any) -> Create:
    """A request for a new note."""
    return Create(NOTE, {"note_id": note_id, "slug": f"slug of {note_id}", **values}, idempotency_key=key)


async def made(db: Database, command: Command) -> Note:
    """The note that a request is answered."""
    found = await db.apply(command)
    assert isinstance(found, Note)
    return found


async def items(db: Database, head: str) -> list[Item]:
    """Everything that is stored under hash keys of this name."""
    found = (await db.store.scan(0, 1, None)).items
    return [item for item in found if parse_hash_key(item["hashKey"]).head == head]


# --- the first answer ------------------------------------------------------------------------------------------


@on_both_engines
async def test_a_creation_that_comes_again(db: Database, clock: Clock) -> None:
    """It makes one record, takes one number, and is given the very same answer, also when the record has changed."""
    first = await made(db, create(size=Decimal("1.50"), more={"a": [1, None, {"b": True}]}, raw=b"\x00\xff"))
    assert (first.num, first.version) == (1, 1)
    clock.now += 60
    assert await made(db, create(size=Decimal("1.50"), more={"a": [1, None, {"b": True}]}, raw=b"\x00\xff")) == first
    await db.apply(Update(NOTE, ["n"], {"kind": Kind.loud}))
    assert await made(db, create(size=Decimal("1.5"), more={"a": [1, None, {"b": True}]}, raw=b"\x00\xff")) == first
    await db.apply(Remove(NOTE, ["n"]))
    assert await made(db, create(size=Decimal("1.5"), more={"a": [1, None, {"b": True}]}, raw=b"\x00\xff")) == first
    assert await items(db, "note") == []
    assert (await made(db, create("other", None))).num == 2


async def test_an_id_that_is_made(db: Database) -> None:
    """Where the server sets values, the same request gets those of the first time."""
    first = await db.apply(Create(PASSING, {"passing_id": "p"}, KEY))
    assert await db.apply(Create(PASSING, {"passing_id": "p"}, KEY)) == first


@on_both_engines
async def test_changes_that_come_again(db: Database) -> None:
    """An update, a put and a removal happen once: the version is raised once, and nothing of others is undone."""
    await made(db, create(key=None))
    update = Update(NOTE, ["n"], {"size": Decimal(5)}, 1, "update")
    first = await made(db, update)
    assert (first.version, first.size) == (2, Decimal(5))
    assert (await made(db, Update(NOTE, ["n"], {"size": Decimal(7)}))).version == 3
    assert await made(db, update) == first
    put = Replace(NOTE, {"note_id": "n", "slug": "put"}, None, "put")
    replaced = await made(db, put)
    assert (replaced.version, replaced.num) == (4, 1)
    assert await made(db, put) == replaced
    assert (await made(db, Update(NOTE, ["n"], {}))).version == 5
    remove = Remove(NOTE, ["n"], None, "remove")
    removed = await made(db, remove)
    assert removed.version == 5
    await made(db, create(key=None))
    assert await made(db, remove) == removed
    assert await db.get(Note, "n") is not None


@on_both_engines
async def test_nothing_to_remove(db: Database) -> None:
    """That there was nothing is an answer as well: what is created since stays."""
    remove = Remove(NOTE, ["n"], None, KEY)
    assert await db.apply(remove) is None
    await made(db, create(key=None))
    assert await db.apply(remove) is None
    assert await db.get(Note, "n") is not None


@on_both_engines
async def test_histories(db: Database) -> None:
    """A new entry is made once, and its current record follows once."""
    await db.apply(Create(ORDER, {"order_id": "o", "entry": "v1", "status": "new"}, "one"))
    update = Update(ORDER, ["o", "v2"], {"status": "sent"}, None, "two")
    first = await db.apply(update)
    assert first == Order(order_id="o", entry="v2", status="sent")
    await db.apply(Update(ORDER, ["o", "v2"], {"status": "lost"}))
    assert await db.apply(update) == first
    assert (await db.get(Order, "o")) == Order(order_id="o", entry="~current", status="lost")
    remove = Remove(ORDER, ["o", "v2"], None, "three")
    assert await db.apply(remove) == Order(order_id="o", entry="v2", status="lost")
    await db.apply(Update(ORDER, ["o", "v2"], {"status": "found"}))
    assert await db.apply(remove) == Order(order_id="o", entry="v2", status="lost")
    assert (await db.get(Order, "o")) == Order(order_id="o", entry="~current", status="found")


@on_both_engines
async def test_rows_of_a_batch(db: Database) -> None:
    """Each row has its key; rows with one key are one request, and a row of another request under it fails alone."""
    rows = [create("a", "one"), create("a", "one"), create("b", "two"), create("c", "two"), create("d", None)]
    answers = await db.apply_each(rows)
    assert answers[0] == answers[1]
    assert isinstance(answers[0], Note)
    assert sorted(type(answer).__name__ for answer in answers[2:4]) == ["IdempotencyMismatch", "Note"]
    assert isinstance(answers[4], Note)
    assert len(await items(db, "note")) == 3


# --- another request -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        create("m"),
        create(size=Decimal(1)),
        create(kind=Kind.loud),
        Replace(NOTE, {"note_id": "n", "slug": "slug of n"}, None, KEY),
        Update(NOTE, ["n"], {"kind": Kind.loud}, None, KEY),
        Remove(NOTE, ["n"], None, KEY),
        Create(PASSING, {"passing_id": "n"}, KEY),
    ],
    ids=["id", "more", "value", "put", "update", "remove", "entity"],
)
async def test_another_request_under_the_key(db: Database, other: Command) -> None:
    """It is refused, and changes nothing, whatever it differs in."""
    first = await made(db, create())
    with pytest.raises(IdempotencyMismatch, match="used for another request") as caught:
        await db.apply(other)
    assert caught.value.argument == "idempotency_key"
    assert await db.get(Note, "n") == first
    assert len(await items(db, "note")) == 1


async def test_keys_of_others(db: Database) -> None:
    """A key belongs to its tenant and subject: others do not see its answer, nor that it was used."""
    assert (await made(db, create())).num == 1
    for number, principal in enumerate([None, "", "bob", "ann "], 2):
        other = db.scoped(tenant="acme", principal=principal)
        assert (await made(other, create(f"n{number}"))).num == number
        with pytest.raises(IdempotencyMismatch):
            await other.apply(create("n"))
    for tenant in ("other", None):
        elsewhere = db.scoped(tenant=tenant, principal="ann")
        assert await elsewhere.get(Note, "n") is None
        assert await made(elsewhere, create()) == await elsewhere.get(Note, "n")


async def test_the_same_one_with_other_rights(db: Database) -> None:
    """A key belongs to who it is, whatever they may do by now; where nobody says who it is, to the principal."""
    first = await made(db, create())
    renewed = db.scoped(tenant="acme", principal='["ann",["Admin"]]', subject="ann")
    assert await made(renewed, create()) == first
    other = db.scoped(tenant="acme", principal="ann", subject="bob")
    with pytest.raises(AlreadyExists):
        await other.apply(create())


def test_what_tells_requests_apart() -> None:
    """The order of values and the way in which one is written make no other request; everything else does."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    same = [
        create(size=Decimal("1.50"), kind=Kind.loud, more={"a": 1, "b": [now]}),
        create(more={"b": [now], "a": 1}, size=Decimal("1.5000"), kind="loud"),
        create(more={"b": [now], "a": Decimal("1.0")}, size=Decimal("1.5"), kind=Kind.loud),
    ]
    assert len({request_digest(command) for command in same}) == 1
    digits = "12345678901234567890123456789012345678"
    values: list[Any] = [None, 0, 1, True, "1", "", [], [1], ["1"], [[1]], {}, {"1": 1}, {"1": "1"}, b"1", {1}, {"1"}]
    values += [["number", "1"], ["bytes", "31"], ["set"], Decimal(digits), Decimal(digits) - 1, Decimal("1E+100"), now]
    commands: list[Command] = [create(more=value) for value in values]
    commands += [create(), Replace(NOTE, create().values), Replace(NOTE, create().values, 1)]
    commands += [Update(NOTE, ["n"], {}), Update(NOTE, ["m"], {}), Update(NOTE, ["n"], {}, 1), Remove(NOTE, ["n"])]
    commands += [
        Remove(NOTE, ["n"], 1),
        Remove(PASSING, ["n"]),
        Update(ORDER, ["a", "b"], {}),
        Update(NOTE, ["ab"], {}),
    ]
    assert len({request_digest(command) for command in commands}) == len(commands)


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "a\n", "é", "\x7f", " ", "a\x00"])
async def test_what_is_no_key(db: Database, key: str) -> None:
    """It is refused before anything is written."""
    with pytest.raises(InvalidValue, match="is not a valid idempotency key") as caught:
        await db.apply(create(key=key))
    assert caught.value.argument == "idempotency_key"
    assert (await db.store.scan(0, 1, None)).items == []


async def test_the_longest_key(db: Database) -> None:
    """255 visible characters are a key, whatever they are, and however long the principal is."""
    key = ("".join(map(chr, range(33, 127))) * 3)[:255]
    long = db.scoped(tenant="acme", principal="ann" * 5_000)
    assert await made(long, create(key=key)) == await made(long, create(key=key))


async def test_a_value_that_cannot_be_stored(db: Database) -> None:
    """It is an error of the request, which names the property, with a key as without one."""
    for value in (float("nan"), object(), "\ud800", {"\ud800": 1}):
        with pytest.raises(ShardQLError) as caught:
            await db.apply(create(more={"x": value}))
        assert caught.value.code in {"INVALID_VALUE", "INVALID_RECORD"}
        assert str(caught.value.argument).startswith("more")


# --- failures --------------------------------------------------------------------------------------------------


@on_both_engines
async def test_failures_are_not_kept(db: Database) -> None:
    """What could not be done is tried anew under the same key, and may succeed."""
    await made(db, create("m", None, slug="taken"))
    with pytest.raises(NotUnique):
        await db.apply(create(slug="taken"))
    with pytest.raises(AlreadyExists):
        await db.apply(create("m", "second"))
    with pytest.raises(VersionConflict):
        await db.apply(Update(NOTE, ["m"], {"kind": Kind.loud}, 7, "third"))
    with pytest.raises(RecordNotFound):
        await db.apply(Update(NOTE, ["o"], {"kind": Kind.loud}, None, "fourth"))
    assert await items(db, "shardql~once") == []
    await db.apply(Remove(NOTE, ["m"]))
    assert (await made(db, create(slug="taken"))).slug == "taken"
    assert (await made(db, create("m", "second"))).note_id == "m"
    assert (await made(db, create("o", "fifth"))).note_id == "o"
    assert (await made(db, Update(NOTE, ["o"], {"kind": Kind.loud}, None, "fourth"))).kind == Kind.loud


async def test_true_duplicates_are_refused(db: Database) -> None:
    """Under another key, or none, the same creation is another one, and its id is taken."""
    await made(db, create())
    for key in ("another", None):
        with pytest.raises(AlreadyExists):
            await db.apply(create(key=key))


@on_both_engines
async def test_two_at_once(db: Database) -> None:
    """Requests that come at the same time are carried out once, and all of them are given one answer."""
    for turn in range(5):
        answers = await asyncio.gather(
            *(made(db, create(f"n{turn}", f"key {turn}".replace(" ", "-"))) for _ in range(8))
        )
        assert len({answer.model_dump_json() for answer in answers}) == 1
    assert len(await items(db, "note")) == 5


@on_both_engines
async def test_the_same_request_gets_in_between(db: Database) -> None:
    """Whatever a request finds that the very same one has done a moment before is no failure, but its own answer."""
    await made(db, create("m", None))
    commands: list[Command] = [
        create(),
        Update(NOTE, ["m"], {"kind": Kind.loud}, 1, "update"),
        Replace(NOTE, {"note_id": "p", "slug": "p"}, None, "put"),
        Remove(NOTE, ["m"], 2, "remove"),
    ]
    for command in commands:
        answers: list[Entity | None] = []

        async def first(command: Command = command, answers: list[Entity | None] = answers) -> None:
            answers.append(await db.apply(command))

        spoiled(db).before = first
        assert await db.apply(command) == answers[0]
    assert {item["noteId"] for item in await items(db, "note")} == {"n", "p"}


@on_both_engines
async def test_a_refusal_that_may_be_its_own_doing(db: Database) -> None:
    """Where the very same request got in between and nobody can say so, it is no refusal, but may be sent again."""
    await made(db, create("m", None))
    commands: list[Command] = [
        Update(NOTE, ["m"], {"kind": Kind.loud}, 1, "update"),
        Replace(NOTE, {"note_id": "m", "slug": "m"}, 2, "put"),
        Create(ORDER, {"order_id": "o", "entry": "v1", "status": "new"}, "create"),
    ]
    for command in commands:
        store = Unheard(db.store, partial(db.apply, command))
        with pytest.raises(Throttled) as caught:
            await replace(db, store=store).apply(command)
        assert caught.value.retryable
        assert await db.apply(command) == store.answer


class UnderWay(WrappedStore):
    """Shows what a transaction has written but for the answer that it keeps, until another one meets it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.met = False

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        found = await super().get_many(keys, consistent)
        return [item if self.met or "once!" not in key.hash else None for key, item in zip(keys, found, strict=True)]

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        if not self.met:
            self.met = True
            raise Conflict("Another transaction is under way, by order: try again.")
        await super().write_together(writes, token)


@on_both_engines
async def test_its_own_doing_that_is_seen_in_parts(db: Database) -> None:
    """Whoever sees what the very same request has written, and its answer not yet, waits for that."""
    await made(db, create("m", None))
    commands: list[Command] = [
        Update(NOTE, ["m"], {"kind": Kind.loud}, 1, "update"),
        Create(ORDER, {"order_id": "o", "entry": "v1", "status": "new"}, "create"),
    ]
    for command in commands:
        answer = await db.apply(command)
        assert await replace(db, store=UnderWay(db.store)).apply(command) == answer


class Unheard(WrappedStore):
    """Has something done after the first look for a kept answer, and does not answer the second one."""

    def __init__(self, inner: Store, action: Callable[[], Awaitable[Entity | None]]) -> None:
        super().__init__(inner)
        self.action = action
        self.looks = 0
        self.answer: Entity | None = None

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        found = await super().get_many(keys, consistent)
        if any("once!" in key.hash for key in keys):
            self.looks += 1
            if self.looks == 1:
                self.answer = await self.action()
            else:
                raise Throttled("Not so fast.")
        return found


@on_both_engines
async def test_an_answer_that_is_lost(db: Database) -> None:
    """Where the store is silent about writes alone, the answer that was kept tells that it was carried out."""

    async def lost() -> None:
        raise StoreUnavailable("The answer is lost.")

    spoiled(db).after = lost
    first = await made(db, create())
    spoiled(db).after = None
    assert await made(db, create()) == first
    assert await db.get(Note, "n") == first
    assert len(await items(db, "note")) == 1


async def test_an_answer_that_nobody_hears(db: Database) -> None:
    """Where the store answers nothing any more, also no reads, it is an error that may be retried, and then right."""
    store = spoiled(db)
    inner = store.inner

    class Silent(WrappedStore):
        async def get_many(self, keys: Any, consistent: bool) -> Any:
            raise StoreUnavailable("No answer.")

        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            raise StoreUnavailable("No answer.")

    async def silence() -> None:
        store.inner = Silent(inner)
        raise StoreUnavailable("The answer is lost.")

    store.after = silence
    with pytest.raises(StoreUnavailable):
        await db.apply(Create(PASSING, {"passing_id": "p"}, KEY))
    store.inner, store.after = inner, None
    assert await db.apply(Create(PASSING, {"passing_id": "p"}, KEY)) == Passing(passing_id="p")
    assert len(await items(db, "passing")) == 1


async def test_who_may_have_the_answer(db: Database) -> None:
    """Rights are looked at anew before an answer is given again; what is refused is not kept."""
    seen: list[tuple[Entity | None, Entity | None]] = []

    async def refuse(old: Entity | None, new: Entity | None) -> None:
        seen.append((old, new))
        raise Forbidden("Not yours.")

    with pytest.raises(Forbidden):
        await db.apply(replace(create(), allow=refuse))
    assert await items(db, "note") == []
    first = await made(db, create())
    update = Update(NOTE, ["n"], {"kind": Kind.loud}, None, "update")
    second = await made(db, update)
    third = await made(db, Remove(NOTE, ["n"], None, "remove"))
    seen.clear()
    for command in (create(), update, Remove(NOTE, ["n"], None, "remove")):
        with pytest.raises(Forbidden):
            await db.apply(replace(command, allow=refuse))
    assert seen == [(None, first), (second, second), (third, None)]


@on_both_engines
async def test_a_record_with_no_room_for_its_answer(db: Database) -> None:
    """A record that an engine can just keep may be too large for a write with a key: the error says so, and of what."""
    large = create(more={"x": "y" * (399 * 1024)})
    with pytest.raises(ItemTooLarge):
        await db.apply(replace(large, values={**large.values, "raw": b"z" * 4096}))
    assert await items(db, "note") == []
    assert (await made(db, replace(large, idempotency_key=None))).note_id == "n"


@on_both_engines
async def test_the_deepest_record(db: Database) -> None:
    """A record with lists as deep as any may be is kept as an answer too."""
    deepest: Any = []
    for _ in range(MAX_NESTING - 1):
        deepest = [deepest]
    first = await made(db, create(more={"x": deepest}))
    assert await made(db, create(more={"x": deepest})) == first


# --- how long --------------------------------------------------------------------------------------------------


@on_both_engines
async def test_answers_are_kept_for_a_day(db: Database, clock: Clock) -> None:
    """A second before the end of 24 hours it is the same request, then another one."""
    first = await made(db, create())
    clock.now += RESPONSE_SECONDS - 1
    assert await made(db, create()) == first
    clock.now += 1
    with pytest.raises(AlreadyExists):
        await db.apply(create())
    second = await made(db, create("m"))
    assert await made(db, create("m")) == second
    with pytest.raises(IdempotencyMismatch):
        await db.apply(create())


async def test_when_the_engine_may_remove_it(db: Database) -> None:
    """An answer carries the second of its end under the table's attribute for that, where there is one."""
    await made(db, create())
    (kept,) = await items(db, "shardql~once")
    assert kept["until"] == kept["_until"] == 1_800_000_000 + RESPONSE_SECONDS
    without = idempotency_guard(db.store, create(), tenant=None, subject=None, now=0, ttl_attribute=None)
    assert without is not None
    await without.read_response()
    assert not without.response_write(None).item.keys() & {"until"}


async def test_expired_answers_go_by_themselves(db: Database, clock: Clock) -> None:
    """Writes with keys remove what has expired a while ago: it never becomes much more than what is alive."""
    for day in range(6):
        for number in range(100):
            await db.apply(Remove(PASSING, ["p"], None, f"key-{day}-{number}"))
        clock.now += RESPONSE_SECONDS + SWEEP_GRACE_SECONDS
    kept = await items(db, "shardql~once")
    assert len(kept) < 450
    assert sum(item["_until"] > clock.now - RESPONSE_SECONDS - SWEEP_GRACE_SECONDS for item in kept) == 100
    clock.now -= RESPONSE_SECONDS + SWEEP_GRACE_SECONDS
    for number in range(100):
        assert await db.apply(Remove(PASSING, ["p"], None, f"key-5-{number}")) is None
    assert len(await items(db, "shardql~once")) == len(kept)


async def test_nothing_else_sees_them(db: Database) -> None:
    """Kept answers and counters are of no entity: searches, counts and reads by id find the records alone."""
    await made(db, create())
    await made(db, create("m", "second"))
    assert [note.note_id for note in (await db.search(Note.by_board, board="b")).items] == ["n", "m"]
    assert len((await db.search(Note.by_id)).items) == 2
    assert (await db.count(Note.by_id)).value == 2
    heads = {parse_hash_key(item["hashKey"]).head for item in (await db.store.scan(0, 1, None)).items}
    assert heads - {"note"} == {"note~counter", "note~unique", "shardql~once"}
    assert not heads - {"note"} & CATALOG.entities.keys()
