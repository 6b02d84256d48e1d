"""Records that show others: one, several by their ids, or pages of them, whatever is missing and wherever they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import strawberry
from strawberry.extensions import FieldExtension

from graphql_api import (
    Catalog,
    Created,
    Entity,
    HasMany,
    Id,
    Index,
    Ref,
    RefMany,
    Shards,
    SubId,
    Timestamp,
    Union,
    canonical,
    derived,
)
from graphql_api.errors import StoreUnavailable
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.values import Item, Key, RangeRead
from tests.schema.asking import Asked, asked, asking, opened
from tests.stores import FailingStore, WrappedStore


class User(Entity, shards=Shards(1).then(4, since=100)):
    """Somebody."""

    user_id: Id[str]
    created: Created[Timestamp]
    name: str
    friend_id: str | None = None
    friend_ids: list[str | None] | None = None
    teams: frozenset[int] = frozenset()
    town: str | None = None
    place: str | None = None

    by_name = Index(sort="name")
    by_town = Index(hash="town", sort=["name"], projection="KEYS_ONLY")

    friend = Ref("User", by="friend_id", description="Whom they like best.")
    friends = RefMany("User", by="friend_ids")
    in_teams = RefMany("Team", by="teams")
    emails = HasMany("Email", via="by_user_id")
    first_email = Ref("Email", by="user_id", via="by_user_id")
    namesake = Ref("User", by=["town", "name"], via="by_town")
    home = Ref("Place", by=["town", "place"])
    visits = HasMany("Visit", via="by_id", by="town")
    last_visit = Ref("Visit", by="town")
    found = HasMany("Email", via="by_words", by="user_id")
    settings = Ref("Settings", by=())


class Email(Entity):
    """An address of a user."""

    email: Id[str]
    user_id: str
    at: int
    folded: str = derived(canonical, "email")

    by_user_id = Index(hash="user_id", sort="at", projection="KEYS_ONLY")
    by_folded = Index(hash="user_id", sort="folded")
    by_mail = Index(hash="user_id", sort="email")
    by_words = Union("by_folded", "by_mail")

    user = Ref("User", by="user_id")


class Team(Entity):
    """Some people."""

    team_id: Id[int]
    name: str


class Place(Entity):
    """A place of a town."""

    town: Id[str]
    place: Id[str]
    size: int = 0


class Visit(Entity):
    """An entry of the history of a town."""

    town: Id[str]
    day: SubId[int]
    by: str = ""


class Settings(Entity):
    """There is one of it."""

    text: str


CATALOG = Catalog(User, Email, Team, Place, Visit, Settings)
USERS = [
    User(
        user_id="ann",
        created=1,
        name="Ann",
        friend_id="bo",
        friend_ids=["bo", "zoe", None, "bo", "", "ann"],
        teams=frozenset({3, 1, 2}),
        town="rome",
        place="a/b",
    ),
    User(user_id="bo", created=200, name="Bo", friend_id="zoe", town="rome"),
    User(user_id="cy", created=300, name="Cy", friend_id="", town="oslo", place="x"),
    User(user_id="di", created=400, name="Di", friend_id="ann"),
]
EMAILS = [Email(email=f"E{at}@x", user_id="ann" if at % 3 else "bo", at=100 - at) for at in range(12)]
TEAMS = [Team(team_id=number, name=f"Team {number}") for number in (1, 3)]
PLACES = [Place(town="rome", place="a/b", size=7), Place(town="oslo", place="x", size=9)]
VISITS = [Visit(town="rome", day=day, by=f"v{day}") for day in range(5)]
RECORDS: Sequence[Entity] = [*USERS, *EMAILS, *TEAMS, *PLACES, *VISITS, Settings(text="one")]


class KeyedStore(WrappedStore):
    """Remembers what is read by key, call by call, and fails for keys that `fails` is part of."""

    fails: str | None = None

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.fetched: list[Sequence[Key]] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.fetched.append(keys)
        if self.fails is not None and any(self.fails in key.range for key in keys):
            raise StoreUnavailable("The store is away: try again.")
        return await super().get_many(keys, consistent)


async def ann(ask: Asked, fields: str) -> Any:
    """Fields of one user."""
    return (await ask.data(f'{{ user(id: "ann") {{ {fields} }} }}'))["user"]


# --- one record ------------------------------------------------------------------------------------------------


async def test_one_record(tmp_path: Path) -> None:
    """A reference gives the record with that id, null where there is none, and null where nothing is named."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        found = (await ask.data("{ userByName { items { userId friend { name } } } }"))["userByName"]["items"]
        assert {one["userId"]: one["friend"] for one in found} == {
            "ann": {"name": "Bo"},
            "bo": None,
            "cy": None,
            "di": {"name": "Ann"},
        }


async def test_nothing_is_read_for_nothing(tmp_path: Path) -> None:
    """Where a record names nothing, null or empty, nothing is read: no record, no search."""
    record = User(user_id="no", created=1, name="No", friend_id="")
    async with asked(CATALOG, tmp_path, record) as ask:
        ask.forget()
        fields = """friend { name } friends { name } inTeams { name } namesake { name } home { size } lastVisit { by }
          visits { items { by } nextToken complete stoppedBy totalCount { value exact } edges { cursor }
            shards { expected answered failed { shard } }
            pageInfo { hasNextPage hasPreviousPage startCursor endCursor } }"""
        assert (await ask.data(f'{{ user(id: "no") {{ {fields} }} }}'))["user"] == {
            "friend": None,
            "friends": [],
            "inTeams": [],
            "namesake": None,
            "home": None,
            "lastVisit": None,
            "visits": {
                "items": [],
                "nextToken": None,
                "complete": True,
                "stoppedBy": None,
                "totalCount": {"value": 0, "exact": True},
                "edges": [],
                "shards": {"expected": 0, "answered": 0, "failed": []},
                "pageInfo": {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None},
            },
        }
        assert (ask.counts.rounds, ask.counts.gets) == (0, 2), "the user alone, in each of two generations"


async def test_a_reference_with_several_parts(tmp_path: Path) -> None:
    """A composite id is given by one property for each part, whatever characters its values hold."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        assert await ann(ask, "home { town place size }") == {"home": {"town": "rome", "place": "a/b", "size": "7"}}


async def test_a_reference_to_the_only_record(tmp_path: Path) -> None:
    """A record of which there is one is referred to by nothing."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        assert await ann(ask, "settings { text }") == {"settings": {"text": "one"}}


async def test_a_reference_to_a_history(tmp_path: Path) -> None:
    """By its id alone a history gives its last entry, and null where it has none."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        found = await ask.data("{ userByName { items { userId lastVisit { day by } } } }")
        entries = {one["userId"]: one["lastVisit"] for one in found["userByName"]["items"]}
        last = {"day": "4", "by": "v4"}
        assert entries == {"ann": last, "bo": last, "cy": None, "di": None}


async def test_a_reference_through_an_index(tmp_path: Path) -> None:
    """Through an index a reference gives its first record, found by hash properties and then by sort properties."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        found = await ask.data("{ userByName { items { userId firstEmail { email } namesake { userId friendId } } } }")
        by_id = {one["userId"]: one for one in found["userByName"]["items"]}
        assert by_id["ann"]["firstEmail"] == {"email": "E11@x"}
        assert by_id["bo"]["firstEmail"] == {"email": "E9@x"}
        assert by_id["cy"]["firstEmail"] is None
        assert by_id["ann"]["namesake"] == {"userId": "ann", "friendId": "bo"}
        assert by_id["di"]["namesake"] is None


async def test_values_that_can_be_no_key(tmp_path: Path) -> None:
    """A value that is too long to be a key names nothing, by id and by index."""
    long = "é" * 600
    record = User(user_id="no", created=1, name="No", friend_id=long, friend_ids=[long, "no"], town=long, place=long)
    async with asked(CATALOG, tmp_path) as ask:
        spec = ask.db.catalog.entity(User)
        assert spec.joins["friend"].by[0].name == "friend_id"
        record.town = None
        assert await ask.db.put_many([record]) == [None]
        found = await ask.data('{ user(id: "no") { friend { name } friends { name } home { size } } }')
        assert found["user"] == {"friend": None, "friends": [None, {"name": "No"}], "home": None}


# --- several records -------------------------------------------------------------------------------------------


async def test_several_records(tmp_path: Path) -> None:
    """A list of ids gives its records in its order, null for what is not there; doubles stay, and are read once."""
    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        store = KeyedStore(db.store)
        ask = asking(db)
        ask.store.inner = store
        found = await ann(ask, "friends { userId } friend { userId }")
        ids = [one and one["userId"] for one in found["friends"]]
        assert ids == ["bo", None, None, "bo", None, "ann"]
        assert found["friend"] == {"userId": "bo"}
        _, children = store.fetched
        assert sorted({key.range for key in children}) == ["userId#ann", "userId#bo", "userId#zoe"]
        assert len(children) == len(set(children))


async def test_several_records_of_a_set(tmp_path: Path) -> None:
    """A set has no order of its own, and its records come in the order of their ids."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        found = await ann(ask, "teams inTeams { name }")
        assert found == {"teams": ["1", "2", "3"], "inTeams": [{"name": "Team 1"}, None, {"name": "Team 3"}]}


async def test_lists_that_name_too_much(tmp_path: Path) -> None:
    """Lists of ids that name more than 10,000 records together are refused, with the page that they are part of."""

    def user(at: int, listed: int) -> User:
        return User(user_id=f"u{at}", created=1, name=f"N{at}", friend_ids=[f"u{at}"] * listed)

    patient = Limits(deadline=60)
    async with asked(CATALOG, tmp_path, user(0, 4_000), user(1, 6_000), user(2, 1), limits=patient) as ask:
        two, three = (f"{{ userByName(limit: {size}) {{ items {{ friends {{ userId }} }} }} }}" for size in (2, 3))
        items = (await ask.data(two))["userByName"]["items"]
        assert [len(one["friends"]) for one in items] == [4_000, 6_000]
        answer = await ask.answer(three)
        (error,) = answer.body["errors"]
        assert error["path"] == ["userByName", "items", 2, "friends"]
        assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 10_000}
        assert answer.body["data"] == {"userByName": None}


# --- pages -----------------------------------------------------------------------------------------------------


def emails_of(user: str, *, reverse: bool = False) -> list[str]:
    """The emails of a user in the order of their index."""
    found = sorted((one for one in EMAILS if one.user_id == user), key=lambda one: one.at, reverse=reverse)
    return [one.email for one in found]


async def test_pages_take_what_the_search_takes(tmp_path: Path) -> None:
    """A page takes every argument of its index but those that the record gives, and tells all that a page tells."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        expected = emails_of("ann")
        found = await ann(
            ask,
            """all: emails { items { email } totalCount { value exact } }
            flat: emails(from: "90", to: "95") { items { at } }
            own: emails(at: {eq: "99"}) { items { email } }
            filtered: emails(filter: {email: {contains: "0"}}, limit: 3) { items { email } }
            reverse: emails(reverse: true, limit: 2) { items { email } nextToken }
            last: emails(last: 2) { edges { node { email } cursor } pageInfo { hasPreviousPage } }
            partial: emails(onShardFailure: PARTIAL) { complete shards { expected answered } }""",
        )
        assert [one["email"] for one in found["all"]["items"]] == expected
        assert found["all"]["totalCount"] == {"value": len(expected), "exact": True}
        assert [one["at"] for one in found["flat"]["items"]] == ["90", "92", "93", "95"]
        assert found["own"]["items"] == [{"email": "E1@x"}]
        assert found["filtered"]["items"] == [{"email": "E10@x"}]
        assert [one["email"] for one in found["reverse"]["items"]] == emails_of("ann", reverse=True)[:2]
        assert found["reverse"]["nextToken"]
        assert [edge["node"]["email"] for edge in found["last"]["edges"]] == expected[-2:]
        assert found["last"]["pageInfo"] == {"hasPreviousPage": True}
        assert found["partial"] == {"complete": True, "shards": {"expected": 1, "answered": 1}}


async def test_tokens_of_pages_are_those_of_the_search(tmp_path: Path) -> None:
    """A token goes from the joined field to the query's own and back, and is refused for another record's page."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        token = (await ann(ask, "emails(limit: 2) { nextToken }"))["emails"]["nextToken"]
        rest = await ask.data(
            '{ emailByUserId(userId: "ann", limit: 3, nextToken: "%s") { items { email } nextToken } }' % token  # noqa: UP031 - braces
        )
        page = rest["emailByUserId"]
        assert [one["email"] for one in page["items"]] == emails_of("ann")[2:5]
        more = await ask.data(
            'query ($t: String) { user(id: "ann") { emails(nextToken: $t) { items { email } nextToken } } }',
            {"t": page["nextToken"]},
        )
        assert [one["email"] for one in more["user"]["emails"]["items"]] == emails_of("ann")[5:]
        assert more["user"]["emails"]["nextToken"] is None
        error = await ask.error('{ user(id: "bo") { emails(nextToken: "%s") { items { email } } } }' % token)  # noqa: UP031 - braces
        assert error["extensions"]["code"] == "TOKEN_MISMATCH"
        assert error["path"] == ["user", "emails"]


async def test_pages_of_a_history(tmp_path: Path) -> None:
    """The entries of a history are a page through `by_id`, with the conditions of its sub id."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        found = await ann(ask, 'visits(from: "1", to: "3", reverse: true) { items { day by } }')
        assert [one["day"] for one in found["visits"]["items"]] == ["3", "2", "1"]


async def test_pages_of_a_union(tmp_path: Path) -> None:
    """A union is joined as an index is, with `orderBy` as in the query."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        found = await ann(
            ask, 'one: found(prefix: "E1") { items { email } } two: found(orderBy: AT_DESC) { items { at } }'
        )
        assert [one["email"] for one in found["one"]["items"]] == ["E10@x", "E11@x", "E1@x"]
        ats = [int(one["at"]) for one in found["two"]["items"]]
        assert ats == sorted(ats, reverse=True)
        assert len(ats) == 8


# --- nested ----------------------------------------------------------------------------------------------------


async def test_joins_within_joins(tmp_path: Path) -> None:
    """Joins nest: a user's emails, the user of each, and that one's friend."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        found = await ann(
            ask, "emails(limit: 2) { items { email user { name friend { name emails { totalCount { value } } } } } }"
        )
        friend = {"name": "Bo", "emails": {"totalCount": {"value": 4}}}
        assert found["emails"]["items"] == [
            {"email": email, "user": {"name": "Ann", "friend": friend}} for email in emails_of("ann")[:2]
        ]


async def test_circles_end_at_the_limit_of_depth(tmp_path: Path) -> None:
    """Circles of joins are followed as deep as the limit allows, and one level more is refused before any read."""
    fields = "user { emails(limit: 1) { items { " * 3 + "email" + " } } }" * 3
    query = f'{{ email(id: "E1@x") {{ {fields} }} }}'
    async with asked(CATALOG, tmp_path, *RECORDS, limits=Limits(depth=11)) as ask:
        found = (await ask.data(query))["email"]
        assert found["user"]["emails"]["items"][0]["user"]["emails"]["items"][0]["user"]["emails"]["items"]
        ask.forget()
        error = await ask.error(query.replace("email }", "user { name } }"))
        assert error["extensions"]["code"] == "QUERY_TOO_DEEP"
        assert (ask.counts.rounds, ask.counts.gets) == (0, 0)


async def test_what_joins_cost(tmp_path: Path) -> None:
    """A reference costs one object, a list of them ten, and a page its size, each within whatever stands around it."""

    async def cost(selection: str) -> int:
        async with asked(CATALOG, tmp_path, limits=Limits(cost=1)) as ask:
            found: int = (await ask.error(f"{{ {selection} }}"))["extensions"]["found"]
            return found

    assert await cost("userByName(limit: 10) { items { userId } }") == 1 + 1 + 10 * 2
    assert await cost("userByName(limit: 10) { items { friend { userId } } }") == 1 + 1 + 10 * 3
    assert await cost("userByName(limit: 10) { items { friends { userId } } }") == 1 + 1 + 10 * (2 + 10 * 2)
    page = "emails(limit: 3) { items { email } }"
    assert await cost(f"userByName(limit: 10) {{ items {{ {page} }} }}") == 1 + 1 + 10 * (1 + 2 + 3 * 2)
    page = "found(orderBy: AT_ASC) { items { email } }"
    assert await cost(f"userByName(limit: 1) {{ items {{ {page} }} }}") == 1 + 1 + 1 + 2 + 1000 * 2


# --- what is read ----------------------------------------------------------------------------------------------


async def test_parents_that_an_index_does_not_carry(tmp_path: Path) -> None:
    """A join needs the properties it is made of: what an index lacks is fetched with the page, the rest is not."""
    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        store = KeyedStore(db.store)
        ask = asking(db)
        ask.store.inner = store
        query = '{ userByTown(town: "rome") { items { userId visits { items { by } } namesake { userId } } } }'
        found = (await ask.data(query))["userByTown"]["items"]
        assert [len(one["visits"]["items"]) for one in found] == [5, 5]
        assert store.fetched == [], "the town and the name are in the index's keys"
        found = (await ask.data('{ userByTown(town: "rome") { items { friend { name } } } }'))["userByTown"]["items"]
        assert found == [{"friend": {"name": "Bo"}}, {"friend": None}]
        assert len(store.fetched) == 2, "the page, and the friends"
        store.fetched.clear()
        query = '{ emailByUserId(userId: "ann") { items { email user { name } } } }'
        assert len((await ask.data(query))["emailByUserId"]["items"]) == 8
        assert len(store.fetched) == 1, "the user of all of them"


async def test_equal_searches_run_once(tmp_path: Path) -> None:
    """Children that ask the same, wherever they stand, are one search; others are not."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        query = """{ userByName { items { visits { items { day } } again: visits { items { by } } } }
          visitById(id: "rome") { items { by } } other: visitById(id: "rome", limit: 2) { items { by } } }"""
        ask.forget()
        found = await ask.data(query)
        assert [len(one["visits"]["items"]) for one in found["userByName"]["items"]] == [5, 5, 0, 0]
        assert ask.counts.hash_keys.count("visit!") == 4, "rome and oslo once for all users, and the two of the query"


async def test_what_is_told_of_joins(tmp_path: Path) -> None:
    """Each child search is told at its path; the reads of a level are one entry, with how many and of what."""
    async with asked(CATALOG, tmp_path, *RECORDS) as ask:
        query = "{ userByName { items { friend { name } inTeams { name } emails(limit: 1) { nextToken } } } }"
        answer = await ask.answer(query, caller=Caller("c", explain=True))
        told = {".".join(map(str, one["path"])): one for one in answer.body["extensions"]["explain"]}
        pages = {f"userByName.items.{at}.emails" for at in range(4)}
        (batch,) = (one for path, one in told.items() if path not in pages and path != "userByName")
        assert told.keys() >= pages
        assert told["userByName.items.0.emails"]["why"] == "User.emails is joined by the index userId."
        assert batch["entities"] == ["Team", "User"]
        assert batch["records"] == 3 + 3, "bo, zoe and ann, and three teams"
        assert batch["fields"] == ["userByName.items.friend", "userByName.items.inTeams"]
        assert batch["consistent"] is False
        assert batch["read"]["fetched"] == 3 * 2 + 3, "users may live in each of two generations"
        assert batch["read"]["returned"] == 4
        assert batch["read"]["capacityUnits"] > 0


# --- what fails ------------------------------------------------------------------------------------------------


async def test_a_child_that_fails(tmp_path: Path) -> None:
    """A search that fails is an error at its own field; its siblings are answered."""

    def fails(read: RangeRead) -> bool:
        return "bo" in read.hash_key

    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        ask = asking(db)
        ask.store.inner = FailingStore(db.store, fails)
        answer = await ask.answer("{ userByName { items { userId emails { items { email } } friend { name } } } }")
        (error,) = answer.body["errors"]
        assert error["path"] == ["userByName", "items", 1, "emails"]
        assert error["extensions"]["code"] == "STORE_UNAVAILABLE"
        items = answer.body["data"]["userByName"]["items"]
        assert items[1]["emails"] is None
        assert len(items[0]["emails"]["items"]) == 8
        assert items[0]["friend"] == {"name": "Bo"}


async def test_reads_that_fail(tmp_path: Path) -> None:
    """Records that cannot be read are errors at each of their fields, and the next operation reads them again."""
    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        store = KeyedStore(db.store)
        ask = asking(db)
        ask.store.inner = store
        store.fails = "userId#bo"
        query = "{ userByName { items { friend { name } visits { items { by } } friends { name } } } }"
        answer = await ask.answer(query)
        paths = sorted(map(str, (error["path"][2:] for error in answer.body["errors"])))
        assert paths == ["[0, 'friend']"] + [f"[0, 'friends', {at}]" for at in (0, 1, 3, 5)] + [
            "[1, 'friend']",
            "[3, 'friend']",
        ]
        items = answer.body["data"]["userByName"]["items"]
        assert len(items[0]["visits"]["items"]) == 5
        assert items[0]["friends"] == [None] * 6
        store.fails = None
        assert (await ask.data(query))["userByName"]["items"][0]["friend"] == {"name": "Bo"}


async def test_a_broken_record_takes_no_other_with_it(tmp_path: Path) -> None:
    """A stored record that is none is an error where it is asked for, and the others of its batch are there."""
    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:

        class Broken(WrappedStore):
            async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
                found = await super().get_many(keys, consistent)
                return [
                    {**item, "name": None} if item is not None and key.range == "userId#bo" else item
                    for key, item in zip(keys, found, strict=True)
                ]

        ask = asking(db)
        ask.store.inner = Broken(db.store)
        answer = await ask.answer("{ userByName { items { friend { name } friends { name } } } }")
        assert {error["extensions"]["code"] for error in answer.body["errors"]} == {"INVALID_RECORD"}
        items = answer.body["data"]["userByName"]["items"]
        assert [one["friend"] for one in items] == [None, None, None, {"name": "Ann"}]
        assert items[0]["friends"] == [None] * 5 + [{"name": "Ann"}]


# --- own code --------------------------------------------------------------------------------------------------


class Seen(FieldExtension):
    """Keeps what a joined field answers."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def resolve_async(self, next_: Any, source: Any, info: strawberry.Info, **given: Any) -> Any:
        answer = await next_(source, info, **{**given, "limit": 1})
        self.notes += [(source.name, one.at) for one in answer.items]
        return answer


async def test_hooks_around_joins(tmp_path: Path) -> None:
    """A hook on a joined field sees its record and its answer whole, and may change its arguments."""
    graph, seen = Graph(CATALOG), Seen()
    graph.hook("User.emails", seen)
    async with asked(CATALOG, tmp_path, *RECORDS, graph=graph) as ask:
        found = (await ask.data('{ userByTown(town: "rome") { items { emails { items { email } } } } }'))["userByTown"]
        assert [len(one["emails"]["items"]) for one in found["items"]] == [1, 1]
        assert seen.notes == [("Ann", 89), ("Bo", 91)]


async def test_a_mutation_sees_what_was_written(tmp_path: Path) -> None:
    """Within one operation, what a mutation has written shows in the joins of the next one."""
    graph = Graph(CATALOG)
    user: Any = graph.record_type(User)

    @graph.mutation
    @strawberry.type
    class Mutations:
        @strawberry.mutation
        async def rename(self, info: strawberry.Info, name: str) -> user:
            """Renames bo, and gives ann, whose friend that is."""
            await info.context.database.put(USERS[1].model_copy(update={"name": name}))
            await info.context.database.put(Email(email=f"{name}@x", user_id="ann", at=0))
            return USERS[0]

    async with asked(CATALOG, tmp_path, *RECORDS, graph=graph) as ask:
        fields = "{ friend { name } emails(limit: 1) { items { email } } }"
        found = await ask.data(f'mutation {{ a: rename(name: "X") {fields} b: rename(name: "Y") {fields} }}')
        assert [found[name]["friend"]["name"] for name in "ab"] == ["X", "Y"]
        assert found["a"]["emails"]["items"] == [{"email": "X@x"}]


@pytest.mark.parametrize("read_only", [False, True])
async def test_tenants_do_not_see_each_other(tmp_path: Path, read_only: bool) -> None:
    """Joins stay within the tenant of the request."""
    async with opened(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        other = db.scoped(tenant="t")
        await other.put(USERS[0].model_copy(update={"name": "Another Ann"}))
        ask = asking(other)
        caller = Caller("c", read_only=read_only, tenant="t")
        found = await ask.data('{ user(id: "ann") { name friend { name } emails { items { email } } } }', caller=caller)
        assert found["user"] == {"name": "Another Ann", "friend": None, "emails": {"items": []}}


# --- current records -------------------------------------------------------------------------------------------


class Article(Entity, current="~current"):
    """A version of an article, and its present state."""

    article_id: Id[str]
    version: SubId[str]
    title: str


class Comment(Entity):
    """What somebody says of an article."""

    comment_id: Id[str]
    article_id: str

    article = Ref("Article", by="article_id")


async def test_a_reference_to_a_current_record(tmp_path: Path) -> None:
    """Where a history keeps its current record, a reference reads that one by its key, all of a page in one call."""
    articles = [Article(article_id=f"a{at}", version=f"v{at}", title=f"Title {at}") for at in range(2)]
    comments = [Comment(comment_id=f"c{at}", article_id=f"a{at % 3}") for at in range(6)]
    catalog = Catalog(Article, Comment)
    async with opened(catalog, await open_sqlite(tmp_path / "x.db"), *comments) as db:
        for article in articles:
            await db.put(article)
        store = KeyedStore(db.store)
        ask = asking(db)
        ask.store.inner = store
        found = (await ask.data("{ comments { items { article { version title } } } }"))["comments"]["items"]
        assert [one["article"] and one["article"]["title"] for one in found] == ["Title 0", "Title 1", None] * 2
        assert {one["article"]["version"] for one in found if one["article"]} == {"~current"}
        assert [len(keys) for keys in store.fetched] == [3]
