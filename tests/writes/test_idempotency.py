"""Idempotency keys: a request is applied once, and a repeated request gets the first response."""

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
from graphql_api.model.record_codec import MAX_NESTING
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, Put, TransactionWrite
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.idempotency import RESPONSE_SECONDS, SWEEP_GRACE_SECONDS, IdempotencyGuard, IdempotentRequest
from tests.support.engine_params import on_both_engines
from tests.support.fake_clock import FakeClock
from tests.writes.conftest import OpenTable

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
KEY = "3c2ba3f0-8a32-4bb4-9d5d-6a1f6b6d3d6a"


class Kind(Enum):
    """The kind of a note."""

    plain = "plain"
    loud = "loud"


class Note(Entity):
    """A note with unique, counted, typed and versioned properties."""

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
    """A history with a current record."""

    order_id: Id[str]
    entry: SubId[str]
    status: str


class Passing(Entity):
    """A record that may expire."""

    passing_id: Id[str]
    until: Ttl[Timestamp] | None = None


CATALOG = Catalog(Note, Order, Passing)
NOTE, ORDER, PASSING = CATALOG.entity(Note), CATALOG.entity(Order), CATALOG.entity(Passing)


class HookedStore(ForwardingStore):
    """Runs hooks before the next transaction that stores a response, and after each such transaction."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.before: Callable[[], Awaitable[None]] | None = None
        self.after: Callable[[], Awaitable[None]] | None = None

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        stores_response = any("once!" in one.item["hashKey"] for one in writes if isinstance(one, Put))
        if stores_response and self.before is not None:
            before, self.before = self.before, None
            await before()
        await super().write_together(writes, token)
        if stores_response and self.after is not None:
            await self.after()


@pytest.fixture
def clock() -> FakeClock:
    """The clock of the database."""
    return FakeClock()


@pytest.fixture
async def db(open_table: OpenTable, clock: FakeClock) -> Database:
    """An empty database of one tenant and principal."""
    store = HookedStore(await open_table())
    await store.ensure_table(CATALOG.table_definition())
    return Database(CATALOG, store, SEAL, clock, tenant="acme", principal="ann")


def hooked_store(db: Database) -> HookedStore:
    """Returns the store of the database."""
    assert isinstance(db.store, HookedStore)
    return db.store


def create(note_id: str = "n", key: str | None = KEY, **values: Any) -> Create:
    """Returns a create of a note."""
    return Create(NOTE, {"note_id": note_id, "slug": f"slug of {note_id}", **values}, idempotency_key=key)


async def apply_note(db: Database, command: Command) -> Note:
    """Runs a command and returns the resulting note."""
    found = await db.apply(command)
    assert isinstance(found, Note)
    return found


async def items(db: Database, head: str) -> list[Item]:
    """Returns all items whose hash keys start with this name."""
    found = (await db.store.scan(0, 1, None)).items
    return [item for item in found if parse_hash_key(item["hashKey"]).head == head]


# --- repeated requests -----------------------------------------------------------------------------------------


@on_both_engines
async def test_repeated_create(db: Database, clock: FakeClock) -> None:
    """A repeated create makes one record, takes one number, and returns the first response even after changes."""
    first = await apply_note(db, create(size=Decimal("1.50"), more={"a": [1, None, {"b": True}]}, raw=b"\x00\xff"))
    assert (first.num, first.version) == (1, 1)
    clock.now += 60
    assert (
        await apply_note(db, create(size=Decimal("1.50"), more={"a": [1, None, {"b": True}]}, raw=b"\x00\xff")) == first
    )
    await db.apply(Update(NOTE, ["n"], {"kind": Kind.loud}))
    assert (
        await apply_note(db, create(size=Decimal("1.5"), more={"a": [1, None, {"b": True}]}, raw=b"\x00\xff")) == first
    )
    await db.apply(Remove(NOTE, ["n"]))
    assert (
        await apply_note(db, create(size=Decimal("1.5"), more={"a": [1, None, {"b": True}]}, raw=b"\x00\xff")) == first
    )
    assert await items(db, "note") == []
    assert (await apply_note(db, create("other", None))).num == 2


async def test_repeated_create_with_server_set_values(db: Database) -> None:
    """A repeated create returns the server-set values of the first response."""
    first = await db.apply(Create(PASSING, {"passing_id": "p"}, KEY))
    assert await db.apply(Create(PASSING, {"passing_id": "p"}, KEY)) == first


@on_both_engines
async def test_repeated_changes(db: Database) -> None:
    """Repeated updates, puts and deletions are applied once, and do not undo later writes."""
    await apply_note(db, create(key=None))
    update = Update(NOTE, ["n"], {"size": Decimal(5)}, 1, "update")
    first = await apply_note(db, update)
    assert (first.version, first.size) == (2, Decimal(5))
    assert (await apply_note(db, Update(NOTE, ["n"], {"size": Decimal(7)}))).version == 3
    assert await apply_note(db, update) == first
    put = Replace(NOTE, {"note_id": "n", "slug": "put"}, None, "put")
    replaced = await apply_note(db, put)
    assert (replaced.version, replaced.num) == (4, 1)
    assert await apply_note(db, put) == replaced
    assert (await apply_note(db, Update(NOTE, ["n"], {}))).version == 5
    remove = Remove(NOTE, ["n"], None, "remove")
    removed = await apply_note(db, remove)
    assert removed.version == 5
    await apply_note(db, create(key=None))
    assert await apply_note(db, remove) == removed
    assert await db.get(Note, "n") is not None


@on_both_engines
async def test_repeated_deletion_of_a_missing_record(db: Database) -> None:
    """A response without a record is stored too: a repeated deletion does not delete a newer record."""
    remove = Remove(NOTE, ["n"], None, KEY)
    assert await db.apply(remove) is None
    await apply_note(db, create(key=None))
    assert await db.apply(remove) is None
    assert await db.get(Note, "n") is not None


@on_both_engines
async def test_repeated_writes_of_a_history(db: Database) -> None:
    """A repeated write of an entry creates it once and updates the current record once."""
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
    """Rows of a batch with one key are one request. A different row with the same key fails alone."""
    rows = [create("a", "one"), create("a", "one"), create("b", "two"), create("c", "two"), create("d", None)]
    responses = await db.apply_each(rows)
    assert responses[0] == responses[1]
    assert isinstance(responses[0], Note)
    assert sorted(type(response).__name__ for response in responses[2:4]) == ["IdempotencyMismatch", "Note"]
    assert isinstance(responses[4], Note)
    assert len(await items(db, "note")) == 3


# --- different requests with one key ---------------------------------------------------------------------------


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
    """A different request with a used key is refused and changes nothing."""
    first = await apply_note(db, create())
    with pytest.raises(IdempotencyMismatch, match="used for another request") as caught:
        await db.apply(other)
    assert caught.value.argument == "idempotency_key"
    assert await db.get(Note, "n") == first
    assert len(await items(db, "note")) == 1


async def test_keys_are_separate_per_tenant_and_subject(db: Database) -> None:
    """A key belongs to its tenant and subject. Others see neither its response nor its use."""
    assert (await apply_note(db, create())).num == 1
    for number, principal in enumerate([None, "", "bob", "ann "], 2):
        other = db.scoped(tenant="acme", principal=principal)
        assert (await apply_note(other, create(f"n{number}"))).num == number
        with pytest.raises(IdempotencyMismatch):
            await other.apply(create("n"))
    for tenant in ("other", None):
        other_tenant = db.scoped(tenant=tenant, principal="ann")
        assert await other_tenant.get(Note, "n") is None
        assert await apply_note(other_tenant, create()) == await other_tenant.get(Note, "n")


async def test_keys_belong_to_the_subject(db: Database) -> None:
    """A key belongs to the subject, independent of its groups. Without a subject it belongs to the principal."""
    first = await apply_note(db, create())
    renewed = db.scoped(tenant="acme", principal='["ann",["Admin"]]', subject="ann")
    assert await apply_note(renewed, create()) == first
    other = db.scoped(tenant="acme", principal="ann", subject="bob")
    with pytest.raises(AlreadyExists):
        await other.apply(create())


def test_request_digest() -> None:
    """The order and notation of values do not change the digest of a request. Any other difference does."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    same = [
        create(size=Decimal("1.50"), kind=Kind.loud, more={"a": 1, "b": [now]}),
        create(more={"b": [now], "a": 1}, size=Decimal("1.5000"), kind="loud"),
        create(more={"b": [now], "a": Decimal("1.0")}, size=Decimal("1.5"), kind=Kind.loud),
    ]
    assert len({IdempotentRequest("k", [command]).digest for command in same}) == 1
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
    assert len({IdempotentRequest("k", [command]).digest for command in commands}) == len(commands)


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "a\n", "é", "\x7f", " ", "a\x00"])
async def test_invalid_keys_are_refused(db: Database, key: str) -> None:
    """An invalid key is refused before any write."""
    with pytest.raises(InvalidValue, match="is not a valid idempotency key") as caught:
        await db.apply(create(key=key))
    assert caught.value.argument == "idempotency_key"
    assert (await db.store.scan(0, 1, None)).items == []


async def test_keys_of_maximum_length(db: Database) -> None:
    """A key of 255 visible characters is accepted, with a principal of any length."""
    key = ("".join(map(chr, range(33, 127))) * 3)[:255]
    long = db.scoped(tenant="acme", principal="ann" * 5_000)
    assert await apply_note(long, create(key=key)) == await apply_note(long, create(key=key))


async def test_a_value_that_cannot_be_stored(db: Database) -> None:
    """A value that cannot be stored is an error with its property, as without a key."""
    for value in (float("nan"), object(), "\ud800", {"\ud800": 1}):
        with pytest.raises(ShardQLError) as caught:
            await db.apply(create(more={"x": value}))
        assert caught.value.code in {"INVALID_VALUE", "INVALID_RECORD"}
        assert str(caught.value.argument).startswith("more")


# --- failures and races ----------------------------------------------------------------------------------------


@on_both_engines
async def test_failures_store_no_response(db: Database) -> None:
    """A failed request stores no response, so that a later request with the key can succeed."""
    await apply_note(db, create("m", None, slug="taken"))
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
    assert (await apply_note(db, create(slug="taken"))).slug == "taken"
    assert (await apply_note(db, create("m", "second"))).note_id == "m"
    assert (await apply_note(db, create("o", "fifth"))).note_id == "o"
    assert (await apply_note(db, Update(NOTE, ["o"], {"kind": Kind.loud}, None, "fourth"))).kind == Kind.loud


async def test_a_duplicate_without_the_key_is_refused(db: Database) -> None:
    """A repeated create without the same key is refused, because the id exists."""
    await apply_note(db, create())
    for key in ("another", None):
        with pytest.raises(AlreadyExists):
            await db.apply(create(key=key))


@on_both_engines
async def test_concurrent_requests_with_one_key(db: Database) -> None:
    """Concurrent requests with one key are applied once and get the same response."""
    for turn in range(5):
        responses = await asyncio.gather(
            *(apply_note(db, create(f"n{turn}", f"key {turn}".replace(" ", "-"))) for _ in range(8))
        )
        assert len({response.model_dump_json() for response in responses}) == 1
    assert len(await items(db, "note")) == 5


@on_both_engines
async def test_a_conflict_with_a_copy_of_the_request(db: Database) -> None:
    """A request that conflicts with a concurrent copy of itself returns the response of that copy."""
    await apply_note(db, create("m", None))
    commands: list[Command] = [
        create(),
        Update(NOTE, ["m"], {"kind": Kind.loud}, 1, "update"),
        Replace(NOTE, {"note_id": "p", "slug": "p"}, None, "put"),
        Remove(NOTE, ["m"], 2, "remove"),
    ]
    for command in commands:
        responses: list[Entity | None] = []

        async def first(command: Command = command, responses: list[Entity | None] = responses) -> None:
            responses.append(await db.apply(command))

        hooked_store(db).before = first
        assert await db.apply(command) == responses[0]
    assert {item["noteId"] for item in await items(db, "note")} == {"n", "p"}


@on_both_engines
async def test_an_unreadable_response_after_a_conflict_is_retryable(db: Database) -> None:
    """If the stored response cannot be read after a conflict, the request fails with a retryable error."""
    await apply_note(db, create("m", None))
    commands: list[Command] = [
        Update(NOTE, ["m"], {"kind": Kind.loud}, 1, "update"),
        Replace(NOTE, {"note_id": "m", "slug": "m"}, 2, "put"),
        Create(ORDER, {"order_id": "o", "entry": "v1", "status": "new"}, "create"),
    ]
    for command in commands:
        store = ThrottledResponseStore(db.store, partial(db.apply, command))
        with pytest.raises(Throttled) as caught:
            await replace(db, store=store).apply(command)
        assert caught.value.retryable
        assert await db.apply(command) == store.response


class HiddenResponseStore(ForwardingStore):
    """Hides stored responses until the first transaction, which fails with a conflict."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.has_conflicted = False

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        found = await super().get_many(keys, consistent)
        return [
            item if self.has_conflicted or "once!" not in key.hash else None
            for key, item in zip(keys, found, strict=True)
        ]

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        if not self.has_conflicted:
            self.has_conflicted = True
            raise Conflict("Another transaction is in progress.")
        await super().write_together(writes, token)


@on_both_engines
async def test_a_conflict_before_the_response_is_visible(db: Database) -> None:
    """A request that sees the writes of its concurrent copy, but not its response yet, waits for the response."""
    await apply_note(db, create("m", None))
    commands: list[Command] = [
        Update(NOTE, ["m"], {"kind": Kind.loud}, 1, "update"),
        Create(ORDER, {"order_id": "o", "entry": "v1", "status": "new"}, "create"),
    ]
    for command in commands:
        response = await db.apply(command)
        assert await replace(db, store=HiddenResponseStore(db.store)).apply(command) == response


class ThrottledResponseStore(ForwardingStore):
    """Runs an action after the first read of a stored response, and throttles later reads."""

    def __init__(self, inner: Store, action: Callable[[], Awaitable[Entity | None]]) -> None:
        super().__init__(inner)
        self.action = action
        self.reads = 0
        self.response: Entity | None = None

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        found = await super().get_many(keys, consistent)
        if any("once!" in key.hash for key in keys):
            self.reads += 1
            if self.reads == 1:
                self.response = await self.action()
            else:
                raise Throttled("Too many requests.")
        return found


@on_both_engines
async def test_a_lost_reply_is_resolved_by_the_stored_response(db: Database) -> None:
    """After a lost reply, the stored response shows that the write was applied."""

    async def lose_reply() -> None:
        raise StoreUnavailable("The reply is lost.")

    hooked_store(db).after = lose_reply
    first = await apply_note(db, create())
    hooked_store(db).after = None
    assert await apply_note(db, create()) == first
    assert await db.get(Note, "n") == first
    assert len(await items(db, "note")) == 1


async def test_a_failing_store_is_a_retryable_error(db: Database) -> None:
    """If the store fails completely, the error is retryable, and a retry returns the correct response."""
    store = hooked_store(db)
    inner = store.inner

    class UnavailableStore(ForwardingStore):
        async def get_many(self, keys: Any, consistent: bool) -> Any:
            raise StoreUnavailable("No reply.")

        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            raise StoreUnavailable("No reply.")

    async def become_unavailable() -> None:
        store.inner = UnavailableStore(inner)
        raise StoreUnavailable("The reply is lost.")

    store.after = become_unavailable
    with pytest.raises(StoreUnavailable):
        await db.apply(Create(PASSING, {"passing_id": "p"}, KEY))
    store.inner, store.after = inner, None
    assert await db.apply(Create(PASSING, {"passing_id": "p"}, KEY)) == Passing(passing_id="p")
    assert len(await items(db, "passing")) == 1


async def test_stored_responses_are_authorized_again(db: Database) -> None:
    """Authorization is checked again before a stored response is returned. A refused request stores no response."""
    seen: list[tuple[Entity | None, Entity | None]] = []

    async def refuse(old: Entity | None, new: Entity | None) -> None:
        seen.append((old, new))
        raise Forbidden("Access denied.")

    with pytest.raises(Forbidden):
        await db.apply(replace(create(), allow=refuse))
    assert await items(db, "note") == []
    first = await apply_note(db, create())
    update = Update(NOTE, ["n"], {"kind": Kind.loud}, None, "update")
    second = await apply_note(db, update)
    third = await apply_note(db, Remove(NOTE, ["n"], None, "remove"))
    seen.clear()
    for command in (create(), update, Remove(NOTE, ["n"], None, "remove")):
        with pytest.raises(Forbidden):
            await db.apply(replace(command, allow=refuse))
    assert seen == [(None, first), (second, second), (third, None)]


@on_both_engines
async def test_a_record_too_large_for_its_stored_response(db: Database) -> None:
    """A record near the maximum item size may be too large with a stored response. The error reports this."""
    large = create(more={"x": "y" * (399 * 1024)})
    with pytest.raises(ItemTooLarge):
        await db.apply(replace(large, values={**large.values, "raw": b"z" * 4096}))
    assert await items(db, "note") == []
    assert (await apply_note(db, replace(large, idempotency_key=None))).note_id == "n"


@on_both_engines
async def test_a_record_with_maximum_nesting(db: Database) -> None:
    """A record with maximum nesting can be stored as a response."""
    deepest: Any = []
    for _ in range(MAX_NESTING - 1):
        deepest = [deepest]
    first = await apply_note(db, create(more={"x": deepest}))
    assert await apply_note(db, create(more={"x": deepest})) == first


# --- expiry of responses ---------------------------------------------------------------------------------------


@on_both_engines
async def test_responses_expire_after_a_day(db: Database, clock: FakeClock) -> None:
    """A response is stored for 24 hours. After that the same key starts a new request."""
    first = await apply_note(db, create())
    clock.now += RESPONSE_SECONDS - 1
    assert await apply_note(db, create()) == first
    clock.now += 1
    with pytest.raises(AlreadyExists):
        await db.apply(create())
    second = await apply_note(db, create("m"))
    assert await apply_note(db, create("m")) == second
    with pytest.raises(IdempotencyMismatch):
        await db.apply(create())


async def test_expiry_attribute_of_responses(db: Database) -> None:
    """A stored response has an expiry attribute if the table has one."""
    await apply_note(db, create())
    (stored,) = await items(db, "shardql~once")
    assert stored["until"] == stored["_until"] == 1_800_000_000 + RESPONSE_SECONDS
    without = IdempotencyGuard(IdempotentRequest("k", [create()]), db.store, None, None, db.clock(), None)
    await without.read_response()
    assert not without.response_write([None]).item.keys() & {"until"}


async def test_expired_responses_are_swept(db: Database, clock: FakeClock) -> None:
    """Writes with keys remove expired responses, so that these do not accumulate."""
    for day in range(6):
        for number in range(100):
            await db.apply(Remove(PASSING, ["p"], None, f"key-{day}-{number}"))
        clock.now += RESPONSE_SECONDS + SWEEP_GRACE_SECONDS
    stored = await items(db, "shardql~once")
    assert len(stored) < 450
    assert sum(item["_until"] > clock.now - RESPONSE_SECONDS - SWEEP_GRACE_SECONDS for item in stored) == 100
    clock.now -= RESPONSE_SECONDS + SWEEP_GRACE_SECONDS
    for number in range(100):
        assert await db.apply(Remove(PASSING, ["p"], None, f"key-5-{number}")) is None
    assert len(await items(db, "shardql~once")) == len(stored)


async def test_searches_do_not_find_responses(db: Database) -> None:
    """Stored responses and counters are not part of any entity: searches, counts and reads find records only."""
    await apply_note(db, create())
    await apply_note(db, create("m", "second"))
    assert [note.note_id for note in (await db.search(Note.by_board, board="b")).items] == ["n", "m"]
    assert len((await db.search(Note.by_id)).items) == 2
    assert (await db.count(Note.by_id)).value == 2
    heads = {parse_hash_key(item["hashKey"]).head for item in (await db.store.scan(0, 1, None)).items}
    assert heads - {"note"} == {"note~counter", "note~unique", "shardql~once"}
    assert not heads - {"note"} & CATALOG.entities.keys()
