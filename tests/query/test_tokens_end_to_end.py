"""Page tokens from the caller's view: the searches, callers and times for which they are valid, and their errors."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, canonical, derived, desc
from graphql_api.codecs.base64url import base64url_decode
from graphql_api.database import Database
from graphql_api.errors import ExpiredToken, InvalidToken, ShardQLError, TokenAhead, TokenMismatch
from graphql_api.model.markers import IndexRef
from graphql_api.query.execution.result_page import Page
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.support.store_doubles import store_with_runner

OLD, NEW = b"the secret of yesterday, 32 bytes.", b"the secret of today is long enough"
HOUR = 3600
NOW = 490_000.0 * HOUR
PEOPLE = 40


class User(Entity, shards=Shards(5)):
    """A person."""

    user_id: Id[str]
    created: Created[Timestamp]
    city: str
    first_name: str
    phone: str | None = None
    score: int = 0
    name: str = derived(canonical, "first_name")

    by_name = Index(sort=["name", "created"])
    by_created = Index(sort="created")
    by_city = Index(hash="city", sort=["name", desc("score")])
    by_phone = Index(sort="phone", raw=True)
    by_score = Index(sort="score", raw=True)


class Pet(Entity, shards=Shards(5)):
    """Has an index that looks like one of User's."""

    pet_id: Id[str]
    created: Created[Timestamp]

    by_created = Index(sort="created", name="petCreated")


class Mail(Entity):
    """Belongs to a person, in the shards of that person."""

    key: Id[str]
    user_id: str
    created: Created[Timestamp]

    by_user = Index(hash="user_id", sort="created", sharded="User", name="userMail")


class Call(Entity):
    """Belongs to a person, with the same keys as a mail."""

    key: Id[str]
    user_id: str
    created: Created[Timestamp]

    by_user = Index(hash="user_id", sort="created", sharded="User", name="userCall", hash_key="userCallHashKey")


CATALOG = Catalog(User, Pet, Mail, Call)


def _user(number: int) -> User:
    return User(
        user_id=f"person-{number:03d}",
        created=1_000 + number % 7,
        city="Zürich" if number % 2 else "Basel",
        first_name=f"{'JKL'[number % 3]}ohanna {number % 4}",
        phone="+41791234567" if number % 3 else "+4179",
        score=number % 2,
    )


@dataclass
class SharedDatabase:
    """A database shared by the tests of this module, which do not write to it."""

    runner: asyncio.Runner
    store: Store
    db: Database

    def search(self, index: IndexRef, *, db: Database | None = None, **arguments: Any) -> Page[Any]:
        return self.runner.run((db or self.db).search(index, **arguments))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDatabase]:
    """The same people and pets for three tenants."""
    path = tmp_path_factory.mktemp("tokens") / "x.db"
    with store_with_runner(open_sqlite(path), CATALOG.table_definition()) as (runner, store):
        db = Database(CATALOG, store, TokenSeal([OLD]), clock=lambda: NOW)
        for tenant in (None, "acme", "other"):
            scoped = db.scoped(tenant=tenant)
            assert runner.run(scoped.put_many([_user(number) for number in range(PEOPLE)])) == [None] * PEOPLE
            mails = [Mail(key=f"m-{at}", user_id="person-001", created=at) for at in range(9)]
            assert runner.run(scoped.put_many(mails)) == [None] * 9
            assert runner.run(scoped.put_many([Pet(pet_id=f"pet-{at}", created=at) for at in range(9)])) == [None] * 9
        yield SharedDatabase(runner, store, db)


SEARCHES: dict[str, tuple[IndexRef, dict[str, Any]]] = {
    "all by name": (User.by_name, {}),
    "by prefix": (User.by_name, {"prefix": "j"}),
    "by first of two": (User.by_name, {"name": {"eq": "Johanna 0"}, "created": {"from": 1000, "to": 1005}}),
    "by hash": (User.by_city, {"city": "Basel"}),
    "by id": (User.by_id, {"prefix": "person-"}),
    "tied texts": (User.by_phone, {}),
    "tied numbers": (User.by_score, {"to": 1}),
}
of_every_search = pytest.mark.parametrize(("index", "arguments"), SEARCHES.values(), ids=SEARCHES.keys())


def _ids(page: Page[Any]) -> list[str]:
    return [item.user_id for item in page.items]


def _all_ids(shared: SharedDatabase, index: IndexRef, arguments: dict[str, Any], **more: Any) -> list[str]:
    return _ids(shared.search(index, **arguments, **more, limit=500))


def _error(shared: SharedDatabase, index: IndexRef, *, db: Database | None = None, **arguments: Any) -> ShardQLError:
    with pytest.raises(ShardQLError) as caught:
        shared.search(index, db=db, **arguments)
    return caught.value


def _token(shared: SharedDatabase, index: IndexRef = User.by_created, **arguments: Any) -> str:
    token = shared.search(index, **arguments, limit=2).next_token
    assert token is not None
    return token


# --- valid for the same search ---------------------------------------------------------------------------------


@of_every_search
def test_any_cursor_continues_in_either_direction(
    shared: SharedDatabase, index: IndexRef, arguments: dict[str, Any]
) -> None:
    """Every cursor of a page, read in either direction, is valid as after, before and next_token."""
    for reverse in (False, True):
        whole = _all_ids(shared, index, arguments, reverse=reverse)
        assert len(whole) > 2
        forward = shared.search(index, **arguments, reverse=reverse, limit=500)
        backward = shared.search(index, **arguments, reverse=reverse, last=500)
        assert forward.cursors == backward.cursors
        for at, cursor in enumerate(forward.cursors):
            after = shared.search(index, **arguments, reverse=reverse, after=cursor, first=3)
            continued = shared.search(index, **arguments, reverse=reverse, next_token=cursor, limit=4)
            before = shared.search(index, **arguments, reverse=reverse, before=cursor, last=3)
            assert _ids(after) == whole[at + 1 : at + 4]
            assert _ids(continued) == whole[at + 1 : at + 5]
            assert _ids(before) == whole[max(0, at - 3) : at]


@of_every_search
def test_tokens_are_deterministic(shared: SharedDatabase, index: IndexRef, arguments: dict[str, Any]) -> None:
    """Each position has one cursor within an hour, on any page."""
    whole = shared.search(index, **arguments, limit=500)
    assert len(set(whole.cursors)) == len(whole.cursors)
    token, cursors_read = None, list[str]()
    while True:
        page = shared.search(index, **arguments, limit=3, next_token=token)
        cursors_read += page.cursors
        assert page.next_token in (None, page.end_cursor)
        token = page.next_token
        if token is None:
            break
    assert cursors_read == whole.cursors
    later = replace(shared.db, clock=lambda: NOW + HOUR - 1)
    assert shared.search(index, db=later, **arguments, limit=500).cursors == whole.cursors
    next_hour = replace(shared.db, clock=lambda: NOW + HOUR)
    assert not set(shared.search(index, db=next_hour, **arguments, limit=500).cursors) & set(whole.cursors)


def test_equivalent_arguments_are_one_search(shared: SharedDatabase) -> None:
    """A token is bound to the meaning of the arguments, not to their spelling."""
    token = _token(shared, User.by_name, prefix="jo")
    for same in (
        {"prefix": "JÓ"},
        {"name": {"prefix": "Jo"}},
        {"prefix": "jo", "reverse": False},
        {"prefix": "jo", "reverse": None},
    ):
        assert _ids(shared.search(User.by_name, **same, next_token=token)) == _all_ids(shared, User.by_name, same)[2:]


def test_a_null_token_requests_the_first_page(shared: SharedDatabase) -> None:
    """A null token requests the first page."""
    first = _ids(shared.search(User.by_created, limit=3))
    assert all(_ids(shared.search(User.by_created, limit=3, next_token=None, after=None)) == first for _ in range(2))


# --- valid after changes of the catalog ------------------------------------------------------------------------


FIVE = Shards(5)


def _later_user(*, entity_shards: Shards = FIVE, more_properties: bool = False) -> type[Any]:
    """Returns the entity of a later release."""

    class User(Entity, shards=entity_shards):
        """A person in a later release."""

        user_id: Id[str]
        created: Created[Timestamp]
        city: str
        first_name: str
        phone: str | None = None
        score: int = 0
        name: str = derived(canonical, "first_name")

        by_name = Index(sort=["name", "created"])
        by_created = Index(sort="created")
        by_city = Index(hash="city", sort=["name", desc("score")])
        by_phone = Index(sort="phone", raw=True)
        by_score = Index(sort="score", raw=True)

    if not more_properties:
        return User

    class UserWithMoreProperties(User, name="user", shards=entity_shards):
        """A person with more properties."""

        nickname: str | None = None
        by_nickname = Index(sort="nickname")

    return UserWithMoreProperties


CHANGES = {
    "a growth": _later_user(entity_shards=Shards(5).then(16, since=5_000)),
    "two growths": _later_user(entity_shards=Shards(5).then(3, since=5_000).then(150, since=6_000)),
    "a property and an index": _later_user(more_properties=True),
    "everything at once": _later_user(entity_shards=Shards(5).then(16, since=5_000), more_properties=True),
}


@of_every_search
@pytest.mark.parametrize("later", CHANGES.values(), ids=CHANGES.keys())
def test_tokens_stay_valid_after_changes_of_the_catalog(
    shared: SharedDatabase, index: IndexRef, arguments: dict[str, Any], later: type[Entity]
) -> None:
    """After a new generation, property or index, an earlier token continues at exactly the same position."""
    catalog = Catalog(later, Pet)
    shared.runner.run(shared.store.ensure_table(catalog.table_definition()))
    db = replace(shared.db, catalog=catalog)
    later_index = IndexRef(later, index.attribute)
    for reverse in (False, True):
        whole = _all_ids(shared, index, arguments, reverse=reverse)
        cursors = shared.search(index, **arguments, reverse=reverse, limit=500).cursors
        for at in (0, len(whole) // 2, len(whole) - 1):
            page = shared.search(later_index, db=db, **arguments, reverse=reverse, next_token=cursors[at], limit=500)
            assert _ids(page) == whole[at + 1 :]
            page = shared.search(later_index, db=db, **arguments, reverse=reverse, before=cursors[at], last=500)
            assert _ids(page) == whole[:at]


async def test_a_generation_added_between_pages_is_searched(tmp_path: Path) -> None:
    """If a generation is added between two pages, later pages also return its records, and the old ones as before."""
    store = await open_sqlite(tmp_path / "x.db")
    try:
        db = Database(CATALOG, store, TokenSeal([OLD]), clock=lambda: NOW)
        await store.ensure_table(CATALOG.table_definition())
        await db.put_many([_user(number) for number in range(20)])
        page = await db.search(User.by_name, limit=5)
        grown = _later_user(entity_shards=Shards(5).then(16, since=5_000))
        db = replace(db, catalog=Catalog(grown, Pet))
        new = [_user(number).model_dump() | {"created": 5_000 + number} for number in range(20, 60)]
        assert await db.put_many([grown(**values) for values in new]) == [None] * 40
        rest = await db.search(IndexRef(grown, "by_name"), next_token=page.next_token, limit=500)
        all_users = [
            (one.name, one.created, one.user_id) for one in [*map(_user, range(20)), *(grown(**one) for one in new)]
        ]
        last = page.items[-1]
        expected = sorted(one for one in all_users if one > (last.name, last.created, last.user_id))
        assert [(one.name, one.created, one.user_id) for one in rest.items] == expected
        assert len(expected) > 15
    finally:
        await store.close()


def test_a_token_of_a_newer_server_is_retryable(shared: SharedDatabase) -> None:
    """A token with more shard generations than this server knows is rejected as retryable."""
    grown = _later_user(entity_shards=Shards(5).then(16, since=5_000))
    newer = replace(shared.db, catalog=Catalog(grown, Pet))
    token = shared.search(IndexRef(grown, "by_created"), db=newer, limit=2).next_token
    problem = _error(shared, User.by_created, next_token=token)
    assert isinstance(problem, TokenAhead)
    assert problem.extensions == {"code": "TOKEN_AHEAD", "argument": "next_token", "retryable": True}
    assert problem.status == 503
    assert "retry once this server has been updated" in problem.message


# --- valid for one search only ---------------------------------------------------------------------------------

BY_NAME: dict[str, Any] = {"prefix": "jo"}
OF_ONE: dict[str, Any] = {"user_id": "person-001"}
JOHN: dict[str, Any] = {"eq": "Johanna 0"}
REVERSE: dict[str, Any] = {"reverse": True}
OTHER_SEARCHES: dict[str, tuple[IndexRef, dict[str, Any], IndexRef, dict[str, Any], str, str]] = {
    "other prefix": (User.by_name, BY_NAME, User.by_name, {"prefix": "k"}, 'name prefix "jo"', 'name prefix "k"'),
    "no prefix": (User.by_name, BY_NAME, User.by_name, {}, 'name prefix "jo"', "every User by name"),
    "other kind": (User.by_name, {"prefix": "lo"}, User.by_name, {"eq": "lo"}, 'name prefix "lo"', 'name "lo"'),
    "other bound": (User.by_created, {"to": 1005}, User.by_created, {"to": 1006}, 'to "1005"', 'to "1006"'),
    "other side": (User.by_created, {"to": 1005}, User.by_created, {"from": 1005}, 'to "1005"', 'from "1005"'),
    "second property": (User.by_name, JOHN, User.by_name, JOHN | {"created": {"to": 1004}}, "", 'created to "1004"'),
    "other hash": (User.by_city, {"city": "Basel"}, User.by_city, {"city": "Zürich"}, 'city "Basel"', 'city "Zürich"'),
    "other number": (User.by_score, {"to": 1}, User.by_score, {"to": 2}, 'score to "1"', 'score to "2"'),
    "reverse": (User.by_name, BY_NAME, User.by_name, BY_NAME | REVERSE, "for name prefix", "with reversed name"),
    "not reverse": (User.by_name, REVERSE, User.by_name, {}, "for reversed every User", "with every User"),
    "other index": (User.by_name, {}, User.by_created, {}, "every User by name", "every User by created"),
    "raw index": (User.by_phone, {}, User.by_score, {}, "every User by phone", "every User by score"),
    "the table": (User.by_id, {}, User.by_created, {}, "every User by id", "every User by created"),
    "other entity": (User.by_created, {}, Pet.by_created, {}, "every User by created", "every Pet by created"),
    "same keys": (Mail.by_user, OF_ONE, Call.by_user, OF_ONE, 'another search (userId "person', "Call.by_user (userId"),
}


@pytest.mark.parametrize("argument", ["next_token", "after", "before"])
@pytest.mark.parametrize(
    ("index", "arguments", "other", "others", "made_for", "used_with"),
    OTHER_SEARCHES.values(),
    ids=OTHER_SEARCHES.keys(),
)
def test_a_token_of_another_search_is_rejected_with_both_descriptions(
    shared: SharedDatabase,
    index: IndexRef,
    arguments: dict[str, Any],
    other: IndexRef,
    others: dict[str, Any],
    made_for: str,
    used_with: str,
    argument: str,
) -> None:
    """A token of another search is rejected, and the error describes both searches."""
    token = _token(shared, index, **arguments)
    for db in (shared.db, replace(shared.db, clock=lambda: NOW + HOUR)):
        problem = _error(shared, other, db=db, **others, **{argument: token})
        assert isinstance(problem, TokenMismatch)
        assert problem.extensions == {"code": "TOKEN_MISMATCH", "argument": argument}
        first, _, second = problem.message.partition("is used with")
        assert made_for in first
        assert used_with in f"with{second}"
        assert "omit it to start from the first page" in problem.message


def test_long_conditions_are_cut_in_errors(shared: SharedDatabase) -> None:
    """Descriptions of long conditions are cut, so that the error stays short."""
    token = _token(shared, User.by_name, **{"from": "a" * 300})
    other: dict[str, Any] = {"from": "a" * 299 + "b"}
    problem = _error(shared, User.by_name, **other, next_token=token)
    assert isinstance(problem, TokenMismatch)
    assert problem.message.count("…") == 2
    assert len(problem.message) < 400


class Sum(Entity):
    """A record with a decimal amount."""

    key: Id[str]
    amount: Decimal

    by_amount = Index(sort="amount", raw=True)


async def test_numbers_differ_to_the_last_digit(tmp_path: Path) -> None:
    """Bounds of 38 digits that differ in the last digit are different searches; equal numbers are the same search."""
    store = await open_sqlite(tmp_path / "x.db")
    db = Database(Catalog(Sum), store, TokenSeal([OLD]), clock=lambda: NOW)
    await store.ensure_table(db.catalog.table_definition())
    await db.put_many([Sum(key=str(at), amount=Decimal(1)) for at in range(5)])
    token = (await db.search(Sum.by_amount, to=Decimal("9" * 38), limit=1)).next_token
    for same in ("9" * 38, "9" * 38 + ".00"):
        assert len((await db.search(Sum.by_amount, to=Decimal(same), next_token=token)).items) == 4
    with pytest.raises(TokenMismatch):
        await db.search(Sum.by_amount, to=Decimal("9" * 37 + "8"), next_token=token)
    await store.close()


async def test_values_of_in_are_a_set(tmp_path: Path) -> None:
    """A token continues with the same values of `in`, in any order and with duplicates, and not with other values."""
    store = await open_sqlite(tmp_path / "x.db")
    db = Database(Catalog(Sum), store, TokenSeal([OLD]), clock=lambda: NOW)
    await store.ensure_table(db.catalog.table_definition())
    await db.put_many([Sum(key=str(at), amount=Decimal(at)) for at in range(5)])

    async def rest(token: str | None, *values: str) -> list[str]:
        filter = {"amount": {"in": [*map(Decimal, values)]}}
        page = await db.search(Sum.by_id, filter=filter, limit=1, next_token=token)
        return [record.key for record in page.items]

    first = await db.search(Sum.by_id, filter={"amount": {"in": [Decimal(1), Decimal(3)]}}, limit=1)
    for same in (("1", "3"), ("3", "1"), ("3", "1.0", "3")):
        assert await rest(first.next_token, *same) == ["3"]
    for other in (("1",), ("1", "2"), ("1", "3", "4")):
        with pytest.raises(TokenMismatch):
            await rest(first.next_token, *other)
    await store.close()


# --- valid for one tenant and principal, for a day -------------------------------------------------------------


def test_foreign_and_forged_tokens_have_the_same_error(shared: SharedDatabase) -> None:
    """Another tenant, another principal, a forged token and an unknown secret have the same error."""
    ann = shared.db.scoped(tenant="acme", principal="ann")
    token = shared.search(User.by_name, db=ann, limit=2).next_token
    assert token is not None
    assert shared.search(User.by_name, db=ann, next_token=token).items
    refused = [
        (shared.db.scoped(tenant="other", principal="ann"), token),
        (shared.db.scoped(principal="ann"), token),
        (shared.db.scoped(tenant="acme", principal="bob"), token),
        (shared.db.scoped(tenant="acme", principal=""), token),
        (shared.db.scoped(tenant="acme"), token),
        (shared.db.scoped(), token),
        (replace(ann, seal=TokenSeal([NEW])), token),
        (ann, token[:-1]),
        (ann, token + "A"),
        (ann, "x" + token[1:]),
        (ann, ""),
        (ann, "é"),
        (ann, "\ud800"),
        (ann, "A" * 9000),
        (ann, 5),
        (ann, token.encode()),
    ]
    problems = [_error(shared, User.by_name, db=db, next_token=given) for db, given in refused]
    assert {type(problem) for problem in problems} == {InvalidToken}
    assert len({(problem.message, problem.argument) for problem in problems}) == 1


def test_no_principal_and_an_empty_one_differ(shared: SharedDatabase) -> None:
    """A token without principal is invalid for an empty principal, and vice versa."""
    no_principal, empty = shared.db.scoped(tenant="acme"), shared.db.scoped(tenant="acme", principal="")
    for one, other in ((no_principal, empty), (empty, no_principal)):
        token = shared.search(User.by_name, db=one, limit=2).next_token
        assert isinstance(_error(shared, User.by_name, db=other, next_token=token), InvalidToken)


def test_another_principal_learns_nothing_about_a_token(shared: SharedDatabase) -> None:
    """For another principal a token is invalid, even if it is also expired and of another search."""
    ann, bob = (shared.db.scoped(tenant="acme", principal=name) for name in ("ann", "bob"))
    token = shared.search(User.by_name, db=ann, prefix="jo", limit=2).next_token
    late = replace(bob, clock=lambda: NOW + 1000 * HOUR)
    assert isinstance(_error(shared, User.by_created, db=late, next_token=token), InvalidToken)


@pytest.mark.parametrize("made_at", [NOW, NOW + 1, NOW + HOUR - 1])
def test_tokens_are_valid_for_a_day(shared: SharedDatabase, made_at: float) -> None:
    """A token is valid for at least 24 and at most 25 hours, and then reported as expired."""
    maker = replace(shared.db, clock=lambda: made_at)
    token = shared.search(User.by_name, db=maker, limit=2).next_token
    whole = _all_ids(shared, User.by_name, {})
    for age in (0, HOUR, 24 * HOUR):
        db = replace(shared.db, clock=lambda age=age: made_at + age)  # type: ignore[misc]
        assert _ids(shared.search(User.by_name, db=db, next_token=token)) == whole[2:]
    db = replace(shared.db, clock=lambda: made_at + 25 * HOUR)
    problem = _error(shared, User.by_name, db=db, next_token=token)
    assert isinstance(problem, ExpiredToken)
    assert problem.extensions == {"code": "EXPIRED_TOKEN", "argument": "next_token"}
    assert "older than 24 hours: omit it to start from the first page" in problem.message


def test_each_page_renews_the_token(shared: SharedDatabase) -> None:
    """Each page renews its token, so that a slow traversal reaches its end."""
    whole, token, ids_read, now = _all_ids(shared, User.by_name, {}), None, list[str](), NOW
    while True:
        db = replace(shared.db, clock=lambda now=now: now)  # type: ignore[misc]
        page = shared.search(User.by_name, db=db, next_token=token, limit=7)
        ids_read, token, now = ids_read + _ids(page), page.next_token, now + 24 * HOUR
        if token is None:
            break
    assert ids_read == whole


def test_clocks_of_servers_may_differ(shared: SharedDatabase) -> None:
    """A token from a server whose clock is ahead is valid."""
    ahead = replace(shared.db, clock=lambda: NOW + 2 * HOUR)
    token = shared.search(User.by_name, db=ahead, limit=2).next_token
    assert _ids(shared.search(User.by_name, next_token=token)) == _all_ids(shared, User.by_name, {})[2:]


def test_secrets_rotate(shared: SharedDatabase) -> None:
    """While both secrets are known, tokens of both are valid; tokens of a removed secret are invalid."""
    token = _token(shared, User.by_name)
    rotating, rotated = replace(shared.db, seal=TokenSeal([NEW, OLD])), replace(shared.db, seal=TokenSeal([NEW]))
    page = shared.search(User.by_name, db=rotating, next_token=token, limit=2)
    assert _ids(page) == _all_ids(shared, User.by_name, {})[2:4]
    assert shared.search(User.by_name, db=rotated, next_token=page.next_token).items
    assert isinstance(_error(shared, User.by_name, db=rotated, next_token=token), InvalidToken)
    assert isinstance(_error(shared, User.by_name, next_token=page.next_token), InvalidToken)


# --- short and opaque ------------------------------------------------------------------------------------------


@of_every_search
def test_tokens_reveal_nothing(shared: SharedDatabase, index: IndexRef, arguments: dict[str, Any]) -> None:
    """A token reveals no ids, values or conditions."""
    page = shared.search(index, **arguments, limit=500)
    secrets = [b"person", b"ohanna", b"Basel", b"+4179", b"name", b"every", b"acme", b"prefix"]
    for cursor in page.cursors:
        data = base64url_decode(cursor, 8192)
        assert data is not None
        assert not any(secret in data or secret.decode() in cursor for secret in secrets)


class Line(Entity, shards=Shards(150)):
    """A record in one of 150 shards."""

    line_id: Id[str]
    title: str
    phone: str

    by_title = Index(sort="title")
    by_phone = Index(sort="phone", raw=True)


@pytest.mark.parametrize(("title", "most"), [(30, 182), (77, 250), (997, 1471)])
async def test_token_size_over_150_shards(tmp_path: Path, title: int, most: int) -> None:
    """Over 150 shards the length of a token depends only on its position."""
    store = await open_sqlite(tmp_path / "x.db")
    db = Database(Catalog(Line), store, TokenSeal([OLD]), clock=lambda: NOW, tenant="acme", principal="ann")
    await store.ensure_table(db.catalog.table_definition())
    lines = [Line(line_id=f"c{at:04d}", title=f"{at:0{title - 14}d}", phone="+41791234567") for at in range(600)]
    assert await db.put_many(lines) == [None] * 600
    from_start: dict[str, Any] = {"from": "0" * 40}
    page = await db.search(Line.by_title, **from_start, limit=500)
    values = [hit.row.value for hit in page._result.matches]
    assert max(len(str(value).encode()) for value in values) == title - 14 + len("title#") + len("\x01|lineId#c0000")
    assert len({hit.row.ordinal for hit in page._result.matches}) > 100
    assert max(map(len, page.cursors)) <= most
    await store.close()


async def test_ties_do_not_make_tokens_longer(tmp_path: Path) -> None:
    """If all records tie on a raw index over 150 shards, tokens for 900 records are as short as for 3."""
    store = await open_sqlite(tmp_path / "x.db")
    db = Database(Catalog(Line), store, TokenSeal([OLD]), clock=lambda: NOW)
    await store.ensure_table(db.catalog.table_definition())
    longest = []
    for start, end in ((0, 3), (3, 900)):
        await db.put_many([Line(line_id=f"c{at:04d}", title="t", phone="+41791234567") for at in range(start, end)])
        token, found = None, set[str]()
        lengths = []
        while True:
            page = await db.search(Line.by_phone, eq="+41791234567", limit=400, next_token=token)
            found |= {line.line_id for line in page.items}
            lengths += [*map(len, page.cursors)]
            token = page.next_token
            if token is None:
                break
        assert len(found) == end
        longest.append(max(lengths))
    assert longest[1] <= longest[0] + 4  # ordinals from 128 take a second byte, here and in the position of the record
    assert longest[1] <= 182
    await store.close()
