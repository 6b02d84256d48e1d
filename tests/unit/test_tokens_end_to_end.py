"""Tokens as callers meet them: where each of them is good, and what it is told elsewhere."""

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
from tests.stores import on_a_loop

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
    """Has an index that looks exactly like one of User's."""

    pet_id: Id[str]
    created: Created[Timestamp]

    by_created = Index(sort="created", name="petCreated")


class Mail(Entity):
    """Belongs to a person, and lies in the person's shards."""

    key: Id[str]
    user_id: str
    created: Created[Timestamp]

    by_user = Index(hash="user_id", sort="created", sharded="User", name="userMail")


class Call(Entity):
    """Belongs to a person, with keys exactly like those of a mail."""

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
class Served:
    """A database that other tests left alone."""

    runner: asyncio.Runner
    store: Store
    db: Database

    def search(self, index: IndexRef, *, db: Database | None = None, **arguments: Any) -> Page[Any]:
        return self.runner.run((db or self.db).search(index, **arguments))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same people and pets for three tenants."""
    path = tmp_path_factory.mktemp("tokens") / "x.db"
    with on_a_loop(open_sqlite(path), CATALOG.table_definition()) as (runner, store):
        db = Database(CATALOG, store, TokenSeal([OLD]), clock=lambda: NOW)
        for tenant in (None, "acme", "other"):
            scoped = db.scoped(tenant=tenant)
            assert runner.run(scoped.put_many([_user(number) for number in range(PEOPLE)])) == [None] * PEOPLE
            mails = [Mail(key=f"m-{at}", user_id="person-001", created=at) for at in range(9)]
            assert runner.run(scoped.put_many(mails)) == [None] * 9
            assert runner.run(scoped.put_many([Pet(pet_id=f"pet-{at}", created=at) for at in range(9)])) == [None] * 9
        yield Served(runner, store, db)


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


def _whole(served: Served, index: IndexRef, arguments: dict[str, Any], **more: Any) -> list[str]:
    return _ids(served.search(index, **arguments, **more, limit=500))


def _problem(served: Served, index: IndexRef, *, db: Database | None = None, **arguments: Any) -> ShardQLError:
    with pytest.raises(ShardQLError) as caught:
        served.search(index, db=db, **arguments)
    return caught.value


def _token(served: Served, index: IndexRef = User.by_created, **arguments: Any) -> str:
    token = served.search(index, **arguments, limit=2).next_token
    assert token is not None
    return token


# --- good wherever the same search is meant --------------------------------------------------------------------


@of_every_search
def test_any_token_goes_on_in_either_direction(served: Served, index: IndexRef, arguments: dict[str, Any]) -> None:
    """Every cursor of a page, whichever way the page was walked, is good as after, before and next_token."""
    for reverse in (False, True):
        whole = _whole(served, index, arguments, reverse=reverse)
        assert len(whole) > 2
        forward = served.search(index, **arguments, reverse=reverse, limit=500)
        backward = served.search(index, **arguments, reverse=reverse, last=500)
        assert forward.cursors == backward.cursors
        for at, cursor in enumerate(forward.cursors):
            after = served.search(index, **arguments, reverse=reverse, after=cursor, first=3)
            going_on = served.search(index, **arguments, reverse=reverse, next_token=cursor, limit=4)
            before = served.search(index, **arguments, reverse=reverse, before=cursor, last=3)
            assert _ids(after) == whole[at + 1 : at + 4]
            assert _ids(going_on) == whole[at + 1 : at + 5]
            assert _ids(before) == whole[max(0, at - 3) : at]


@of_every_search
def test_tokens_are_deterministic(served: Served, index: IndexRef, arguments: dict[str, Any]) -> None:
    """One place has one cursor within an hour, whatever page it was on."""
    whole = served.search(index, **arguments, limit=500)
    assert len(set(whole.cursors)) == len(whole.cursors)
    token, walked = None, list[str]()
    while True:
        page = served.search(index, **arguments, limit=3, next_token=token)
        walked += page.cursors
        assert page.next_token in (None, page.end_cursor)
        token = page.next_token
        if token is None:
            break
    assert walked == whole.cursors
    later = replace(served.db, clock=lambda: NOW + HOUR - 1)
    assert served.search(index, db=later, **arguments, limit=500).cursors == whole.cursors
    next_hour = replace(served.db, clock=lambda: NOW + HOUR)
    assert not set(served.search(index, db=next_hour, **arguments, limit=500).cursors) & set(whole.cursors)


def test_arguments_that_mean_the_same_are_one_search(served: Served) -> None:
    """A token is bound to what is asked for, not to how it is written."""
    token = _token(served, User.by_name, prefix="jo")
    for same in (
        {"prefix": "JÓ"},
        {"name": {"prefix": "Jo"}},
        {"prefix": "jo", "reverse": False},
        {"prefix": "jo", "reverse": None},
    ):
        assert _ids(served.search(User.by_name, **same, next_token=token)) == _whole(served, User.by_name, same)[2:]


def test_null_tokens_are_no_tokens(served: Served) -> None:
    """A token of null asks for the first page."""
    first = _ids(served.search(User.by_created, limit=3))
    assert all(_ids(served.search(User.by_created, limit=3, next_token=None, after=None)) == first for _ in range(2))


# --- good after changes of the catalog -------------------------------------------------------------------------


FIVE = Shards(5)


def _grown_user(*, entity_shards: Shards = FIVE, richer: bool = False) -> type[Any]:
    """The same entity in a later release."""

    class User(Entity, shards=entity_shards):
        """A person, some time later."""

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

    if not richer:
        return User

    class Richer(User, name="user", shards=entity_shards):
        """A person of whom more is known."""

        nickname: str | None = None
        by_nickname = Index(sort="nickname")

    return Richer


CHANGES = {
    "a growth": _grown_user(entity_shards=Shards(5).then(16, since=5_000)),
    "two growths": _grown_user(entity_shards=Shards(5).then(3, since=5_000).then(150, since=6_000)),
    "a property and an index": _grown_user(richer=True),
    "everything at once": _grown_user(entity_shards=Shards(5).then(16, since=5_000), richer=True),
}


@of_every_search
@pytest.mark.parametrize("later", CHANGES.values(), ids=CHANGES.keys())
def test_changes_of_the_catalog_keep_tokens(
    served: Served, index: IndexRef, arguments: dict[str, Any], later: type[Entity]
) -> None:
    """A token from before a growth, an added property or an added index goes on exactly where it stood."""
    catalog = Catalog(later, Pet)
    served.runner.run(served.store.ensure_table(catalog.table_definition()))
    db = replace(served.db, catalog=catalog)
    there = IndexRef(later, index.attribute)
    for reverse in (False, True):
        whole = _whole(served, index, arguments, reverse=reverse)
        cursors = served.search(index, **arguments, reverse=reverse, limit=500).cursors
        for at in (0, len(whole) // 2, len(whole) - 1):
            page = served.search(there, db=db, **arguments, reverse=reverse, next_token=cursors[at], limit=500)
            assert _ids(page) == whole[at + 1 :]
            page = served.search(there, db=db, **arguments, reverse=reverse, before=cursors[at], last=500)
            assert _ids(page) == whole[:at]


async def test_growth_during_a_walk(tmp_path: Path) -> None:
    """Records of the new shards are found in their places behind the token, the old ones where they were."""
    store = await open_sqlite(tmp_path / "x.db")
    try:
        db = Database(CATALOG, store, TokenSeal([OLD]), clock=lambda: NOW)
        await store.ensure_table(CATALOG.table_definition())
        await db.put_many([_user(number) for number in range(20)])
        page = await db.search(User.by_name, limit=5)
        grown = _grown_user(entity_shards=Shards(5).then(16, since=5_000))
        db = replace(db, catalog=Catalog(grown, Pet))
        new = [_user(number).model_dump() | {"created": 5_000 + number} for number in range(20, 60)]
        assert await db.put_many([grown(**values) for values in new]) == [None] * 40
        rest = await db.search(IndexRef(grown, "by_name"), next_token=page.next_token, limit=500)
        everybody = [
            (one.name, one.created, one.user_id) for one in [*map(_user, range(20)), *(grown(**one) for one in new)]
        ]
        last = page.items[-1]
        expected = sorted(one for one in everybody if one > (last.name, last.created, last.user_id))
        assert [(one.name, one.created, one.user_id) for one in rest.items] == expected
        assert len(expected) > 15
    finally:
        await store.close()


def test_token_of_a_newer_server_may_be_tried_again(served: Served) -> None:
    """A token that knows more shard generations than this server is refused for the moment only."""
    grown = _grown_user(entity_shards=Shards(5).then(16, since=5_000))
    newer = replace(served.db, catalog=Catalog(grown, Pet))
    token = served.search(IndexRef(grown, "by_created"), db=newer, limit=2).next_token
    problem = _problem(served, User.by_created, next_token=token)
    assert isinstance(problem, TokenAhead)
    assert problem.extensions == {"code": "TOKEN_AHEAD", "argument": "next_token", "retryable": True}
    assert problem.status == 503
    assert "retry once this server has been updated" in problem.message


# --- good for one search only ----------------------------------------------------------------------------------

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
def test_other_searches_are_told_both(
    served: Served,
    index: IndexRef,
    arguments: dict[str, Any],
    other: IndexRef,
    others: dict[str, Any],
    made_for: str,
    used_with: str,
    argument: str,
) -> None:
    """An honest token used elsewhere is refused with the words of both searches."""
    token = _token(served, index, **arguments)
    for db in (served.db, replace(served.db, clock=lambda: NOW + HOUR)):
        problem = _problem(served, other, db=db, **others, **{argument: token})
        assert isinstance(problem, TokenMismatch)
        assert problem.extensions == {"code": "TOKEN_MISMATCH", "argument": argument}
        first, _, second = problem.message.partition("is used with")
        assert made_for in first
        assert used_with in f"with{second}"
        assert "omit it to start from the first page" in problem.message


def test_long_conditions_are_shown_cut(served: Served) -> None:
    """Two searches that begin alike are told apart by the one that is asked now, and the message stays short."""
    token = _token(served, User.by_name, **{"from": "a" * 300})
    other: dict[str, Any] = {"from": "a" * 299 + "b"}
    problem = _problem(served, User.by_name, **other, next_token=token)
    assert isinstance(problem, TokenMismatch)
    assert problem.message.count("…") == 2
    assert len(problem.message) < 400


class Sum(Entity):
    """An amount."""

    key: Id[str]
    amount: Decimal

    by_amount = Index(sort="amount", raw=True)


async def test_numbers_are_told_apart_to_the_last_digit(tmp_path: Path) -> None:
    """Bounds of 38 digits that differ in the last one are two searches, and equal ones are one however written."""
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


# --- good for one tenant and principal, for a day --------------------------------------------------------------


def test_strangers_and_forgers_are_told_the_same(served: Served) -> None:
    """Another tenant, another principal, a forger and a caller without a token's secret get one text."""
    ann = served.db.scoped(tenant="acme", principal="ann")
    token = served.search(User.by_name, db=ann, limit=2).next_token
    assert token is not None
    assert served.search(User.by_name, db=ann, next_token=token).items
    refused = [
        (served.db.scoped(tenant="other", principal="ann"), token),
        (served.db.scoped(principal="ann"), token),
        (served.db.scoped(tenant="acme", principal="bob"), token),
        (served.db.scoped(tenant="acme", principal=""), token),
        (served.db.scoped(tenant="acme"), token),
        (served.db.scoped(), token),
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
    problems = [_problem(served, User.by_name, db=db, next_token=given) for db, given in refused]
    assert {type(problem) for problem in problems} == {InvalidToken}
    assert len({(problem.message, problem.argument) for problem in problems}) == 1


def test_no_principal_and_an_empty_one_differ(served: Served) -> None:
    """A token made without a principal is nothing to an empty one, and the other way round."""
    nobody, empty = served.db.scoped(tenant="acme"), served.db.scoped(tenant="acme", principal="")
    for one, other in ((nobody, empty), (empty, nobody)):
        token = served.search(User.by_name, db=one, limit=2).next_token
        assert isinstance(_problem(served, User.by_name, db=other, next_token=token), InvalidToken)


def test_wrong_search_of_a_stranger_is_not_told_what_it_was(served: Served) -> None:
    """To another principal a token is invalid before it is expired or mismatched."""
    ann, bob = (served.db.scoped(tenant="acme", principal=name) for name in ("ann", "bob"))
    token = served.search(User.by_name, db=ann, prefix="jo", limit=2).next_token
    late = replace(bob, clock=lambda: NOW + 1000 * HOUR)
    assert isinstance(_problem(served, User.by_created, db=late, next_token=token), InvalidToken)


@pytest.mark.parametrize("made_at", [NOW, NOW + 1, NOW + HOUR - 1])
def test_tokens_live_for_a_day(served: Served, made_at: float) -> None:
    """A token is good for 24 hours at least and for 25 at most, and then says that it is too old."""
    maker = replace(served.db, clock=lambda: made_at)
    token = served.search(User.by_name, db=maker, limit=2).next_token
    whole = _whole(served, User.by_name, {})
    for age in (0, HOUR, 24 * HOUR):
        db = replace(served.db, clock=lambda age=age: made_at + age)  # type: ignore[misc]
        assert _ids(served.search(User.by_name, db=db, next_token=token)) == whole[2:]
    db = replace(served.db, clock=lambda: made_at + 25 * HOUR)
    problem = _problem(served, User.by_name, db=db, next_token=token)
    assert isinstance(problem, ExpiredToken)
    assert problem.extensions == {"code": "EXPIRED_TOKEN", "argument": "next_token"}
    assert "older than 24 hours: omit it to start from the first page" in problem.message


def test_walking_on_renews_tokens(served: Served) -> None:
    """Each page's token has a day of its own, so that a slow walk comes to its end."""
    whole, token, walked, now = _whole(served, User.by_name, {}), None, list[str](), NOW
    while True:
        db = replace(served.db, clock=lambda now=now: now)  # type: ignore[misc]
        page = served.search(User.by_name, db=db, next_token=token, limit=7)
        walked, token, now = walked + _ids(page), page.next_token, now + 24 * HOUR
        if token is None:
            break
    assert walked == whole


def test_clocks_of_servers_may_differ(served: Served) -> None:
    """A token from a server whose clock is ahead is good."""
    ahead = replace(served.db, clock=lambda: NOW + 2 * HOUR)
    token = served.search(User.by_name, db=ahead, limit=2).next_token
    assert _ids(served.search(User.by_name, next_token=token)) == _whole(served, User.by_name, {})[2:]


def test_secrets_rotate(served: Served) -> None:
    """While both secrets are known both tokens are good; a token of a removed one is invalid."""
    token = _token(served, User.by_name)
    rotating, rotated = replace(served.db, seal=TokenSeal([NEW, OLD])), replace(served.db, seal=TokenSeal([NEW]))
    page = served.search(User.by_name, db=rotating, next_token=token, limit=2)
    assert _ids(page) == _whole(served, User.by_name, {})[2:4]
    assert served.search(User.by_name, db=rotated, next_token=page.next_token).items
    assert isinstance(_problem(served, User.by_name, db=rotated, next_token=token), InvalidToken)
    assert isinstance(_problem(served, User.by_name, next_token=page.next_token), InvalidToken)


# --- small and unreadable --------------------------------------------------------------------------------------


@of_every_search
def test_tokens_show_nothing(served: Served, index: IndexRef, arguments: dict[str, Any]) -> None:
    """Neither ids nor values nor conditions can be read in a token."""
    page = served.search(index, **arguments, limit=500)
    secrets = [b"person", b"ohanna", b"Basel", b"+4179", b"name", b"every", b"acme", b"prefix"]
    for cursor in page.cursors:
        octets = base64url_decode(cursor, 8192)
        assert octets is not None
        assert not any(secret in octets or secret.decode() in cursor for secret in secrets)


class Line(Entity, shards=Shards(150)):
    """Lies in 150 shards."""

    line_id: Id[str]
    title: str
    phone: str

    by_title = Index(sort="title")
    by_phone = Index(sort="phone", raw=True)


@pytest.mark.parametrize(("title", "most"), [(30, 182), (77, 250), (997, 1471)])
async def test_size_over_150_shards(tmp_path: Path, title: int, most: int) -> None:
    """Over 150 shards a token is as long as its one place is, and no longer."""
    store = await open_sqlite(tmp_path / "x.db")
    db = Database(Catalog(Line), store, TokenSeal([OLD]), clock=lambda: NOW, tenant="acme", principal="ann")
    await store.ensure_table(db.catalog.table_definition())
    lines = [Line(line_id=f"c{at:04d}", title=f"{at:0{title - 14}d}", phone="+41791234567") for at in range(600)]
    assert await db.put_many(lines) == [None] * 600
    page = await db.search(Line.by_title, **{"from": "0" * 40}, limit=500)
    values = [hit.row.value for hit in page._result.matches]
    assert max(len(str(value).encode()) for value in values) == title - 14 + len("title#") + len("\x01|lineId#c0000")
    assert len({hit.row.ordinal for hit in page._result.matches}) > 100
    assert max(map(len, page.cursors)) <= most
    await store.close()


async def test_ties_do_not_make_tokens_longer(tmp_path: Path) -> None:
    """With all records tied on a raw index over 150 shards, a token is no longer for 900 records than for 3."""
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
    assert longest[1] <= longest[0] + 4  # an ordinal from 128 on takes a second octet, here and in the record's place
    assert longest[1] <= 182
    await store.close()
