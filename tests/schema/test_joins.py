"""Joins: single records, lists by ids, and pages; missing records, costs, failures, hooks and tenants."""

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
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import Item, Key, RangeRead
from tests.schema.graphql_client import GraphQLClient, client_for, open_client, open_database
from tests.support.store_doubles import FailingStore


class User(Entity, shards=Shards(1).then(4, since=100)):
    """A user with joins of every kind."""

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

    friend = Ref("User", by="friend_id", description="The best friend.")
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
    """An email address of a user."""

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
    """A team of users."""

    team_id: Id[int]
    name: str


class Place(Entity):
    """A place in a town, with a composite id."""

    town: Id[str]
    place: Id[str]
    size: int = 0


class Visit(Entity):
    """An entry of the history of a town."""

    town: Id[str]
    day: SubId[int]
    by: str = ""


class Settings(Entity):
    """A singleton."""

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


class KeyedStore(ForwardingStore):
    """Records the keys of each point lookup, and fails for keys that contain `fails`."""

    fails: str | None = None

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.fetched: list[Sequence[Key]] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.fetched.append(keys)
        if self.fails is not None and any(self.fails in key.range for key in keys):
            raise StoreUnavailable("The store is away: try again.")
        return await super().get_many(keys, consistent)


async def ann_fields(client: GraphQLClient, fields: str) -> Any:
    """Return fields of the user ann."""
    return (await client.data(f'{{ user(id: "ann") {{ {fields} }} }}'))["user"]


# --- one record ------------------------------------------------------------------------------------------------


async def test_one_record(tmp_path: Path) -> None:
    """A reference returns the record with that id, or null if the record or the id is missing."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        items = (await client.data("{ userByName { items { userId friend { name } } } }"))["userByName"]["items"]
        assert {one["userId"]: one["friend"] for one in items} == {
            "ann": {"name": "Bo"},
            "bo": None,
            "cy": None,
            "di": {"name": "Ann"},
        }


async def test_empty_references_read_nothing(tmp_path: Path) -> None:
    """A null or empty reference causes no read."""
    record = User(user_id="no", created=1, name="No", friend_id="")
    async with open_client(CATALOG, tmp_path, record) as client:
        client.reset_counts()
        fields = """friend { name } friends { name } inTeams { name } namesake { name } home { size } lastVisit { by }
          visits { items { by } nextToken complete stoppedBy totalCount { value exact } edges { cursor }
            shards { expected answered failed { shard } }
            pageInfo { hasNextPage hasPreviousPage startCursor endCursor } }"""
        assert (await client.data(f'{{ user(id: "no") {{ {fields} }} }}'))["user"] == {
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
        assert (client.counts.rounds, client.counts.gets) == (0, 2), "the user alone, in each of two generations"


async def test_references_by_composite_id(tmp_path: Path) -> None:
    """A reference by composite id uses one property for each part, with any characters."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        assert await ann_fields(client, "home { town place size }") == {
            "home": {"town": "rome", "place": "a/b", "size": "7"}
        }


async def test_references_to_a_singleton(tmp_path: Path) -> None:
    """A reference to a singleton needs no property."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        assert await ann_fields(client, "settings { text }") == {"settings": {"text": "one"}}


async def test_a_reference_to_a_history(tmp_path: Path) -> None:
    """A reference to a history by id returns its last entry, or null for an empty history."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        data = await client.data("{ userByName { items { userId lastVisit { day by } } } }")
        entries = {one["userId"]: one["lastVisit"] for one in data["userByName"]["items"]}
        last = {"day": "4", "by": "v4"}
        assert entries == {"ann": last, "bo": last, "cy": None, "di": None}


async def test_a_reference_through_an_index(tmp_path: Path) -> None:
    """A reference through an index returns the first record with the hash and sort values."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        data = await client.data(
            "{ userByName { items { userId firstEmail { email } namesake { userId friendId } } } }"
        )
        by_id = {one["userId"]: one for one in data["userByName"]["items"]}
        assert by_id["ann"]["firstEmail"] == {"email": "E11@x"}
        assert by_id["bo"]["firstEmail"] == {"email": "E9@x"}
        assert by_id["cy"]["firstEmail"] is None
        assert by_id["ann"]["namesake"] == {"userId": "ann", "friendId": "bo"}
        assert by_id["di"]["namesake"] is None


async def test_values_too_long_for_a_key(tmp_path: Path) -> None:
    """A value that is too long for a key refers to no record, by id and by index."""
    long = "é" * 600
    record = User(user_id="no", created=1, name="No", friend_id=long, friend_ids=[long, "no"], town=long, place=long)
    async with open_client(CATALOG, tmp_path) as client:
        spec = client.db.catalog.entity(User)
        assert spec.joins["friend"].by[0].name == "friend_id"
        record.town = None
        assert await client.db.put_many([record]) == [None]
        data = await client.data('{ user(id: "no") { friend { name } friends { name } home { size } } }')
        assert data["user"] == {"friend": None, "friends": [None, {"name": "No"}], "home": None}


# --- several records -------------------------------------------------------------------------------------------


async def test_several_records(tmp_path: Path) -> None:
    """A list of ids returns records in list order, with null for missing ones. Duplicates are read once."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        store = KeyedStore(db.store)
        client = client_for(db)
        client.store.inner = store
        user = await ann_fields(client, "friends { userId } friend { userId }")
        ids = [one and one["userId"] for one in user["friends"]]
        assert ids == ["bo", None, None, "bo", None, "ann"]
        assert user["friend"] == {"userId": "bo"}
        _, children = store.fetched
        assert sorted({key.range for key in children}) == ["userId#ann", "userId#bo", "userId#zoe"]
        assert len(children) == len(set(children))


async def test_several_records_of_a_set(tmp_path: Path) -> None:
    """A set of ids returns records in id order."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        user = await ann_fields(client, "teams inTeams { name }")
        assert user == {"teams": ["1", "2", "3"], "inTeams": [{"name": "Team 1"}, None, {"name": "Team 3"}]}


async def test_lists_of_too_many_ids(tmp_path: Path) -> None:
    """More than 10,000 listed ids in one operation are refused together with their page."""

    def user(at: int, listed: int) -> User:
        return User(user_id=f"u{at}", created=1, name=f"N{at}", friend_ids=[f"u{at}"] * listed)

    long_deadline = Limits(deadline=60)
    async with open_client(
        CATALOG, tmp_path, user(0, 4_000), user(1, 6_000), user(2, 1), limits=long_deadline
    ) as client:
        two, three = (f"{{ userByName(limit: {size}) {{ items {{ friends {{ userId }} }} }} }}" for size in (2, 3))
        items = (await client.data(two))["userByName"]["items"]
        assert [len(one["friends"]) for one in items] == [4_000, 6_000]
        response = await client.execute(three)
        (error,) = response.body["errors"]
        assert error["path"] == ["userByName", "items", 2, "friends"]
        assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 10_000}
        assert response.body["data"] == {"userByName": None}


# --- pages -----------------------------------------------------------------------------------------------------


def emails_of(user: str, *, reverse: bool = False) -> list[str]:
    """Return the emails of a user in index order."""
    emails = sorted((one for one in EMAILS if one.user_id == user), key=lambda one: one.at, reverse=reverse)
    return [one.email for one in emails]


async def test_joined_pages_take_the_arguments_of_the_search(tmp_path: Path) -> None:
    """A joined page takes all arguments of its search except those from the record, and has all fields of a page."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        expected = emails_of("ann")
        user = await ann_fields(
            client,
            """all: emails { items { email } totalCount { value exact } }
            flat: emails(from: "90", to: "95") { items { at } }
            own: emails(at: {eq: "99"}) { items { email } }
            filtered: emails(filter: {email: {contains: "0"}}, limit: 3) { items { email } }
            reverse: emails(reverse: true, limit: 2) { items { email } nextToken }
            last: emails(last: 2) { edges { node { email } cursor } pageInfo { hasPreviousPage } }
            partial: emails(onShardFailure: PARTIAL) { complete shards { expected answered } }""",
        )
        assert [one["email"] for one in user["all"]["items"]] == expected
        assert user["all"]["totalCount"] == {"value": len(expected), "exact": True}
        assert [one["at"] for one in user["flat"]["items"]] == ["90", "92", "93", "95"]
        assert user["own"]["items"] == [{"email": "E1@x"}]
        assert user["filtered"]["items"] == [{"email": "E10@x"}]
        assert [one["email"] for one in user["reverse"]["items"]] == emails_of("ann", reverse=True)[:2]
        assert user["reverse"]["nextToken"]
        assert [edge["node"]["email"] for edge in user["last"]["edges"]] == expected[-2:]
        assert user["last"]["pageInfo"] == {"hasPreviousPage": True}
        assert user["partial"] == {"complete": True, "shards": {"expected": 1, "answered": 1}}


async def test_joined_pages_and_searches_share_tokens(tmp_path: Path) -> None:
    """A page token works in the joined field and in the root field. For another record it is refused."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        token = (await ann_fields(client, "emails(limit: 2) { nextToken }"))["emails"]["nextToken"]
        rest = await client.data(
            '{ emailByUserId(userId: "ann", limit: 3, nextToken: "%s") { items { email } nextToken } }' % token  # noqa: UP031 - braces
        )
        page = rest["emailByUserId"]
        assert [one["email"] for one in page["items"]] == emails_of("ann")[2:5]
        more = await client.data(
            'query ($t: String) { user(id: "ann") { emails(nextToken: $t) { items { email } nextToken } } }',
            {"t": page["nextToken"]},
        )
        assert [one["email"] for one in more["user"]["emails"]["items"]] == emails_of("ann")[5:]
        assert more["user"]["emails"]["nextToken"] is None
        error = await client.error('{ user(id: "bo") { emails(nextToken: "%s") { items { email } } } }' % token)  # noqa: UP031 - braces
        assert error["extensions"]["code"] == "TOKEN_MISMATCH"
        assert error["path"] == ["user", "emails"]


async def test_pages_of_a_history(tmp_path: Path) -> None:
    """`HasMany` via `by_id` returns a page of history entries, with conditions on the sub id."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        user = await ann_fields(client, 'visits(from: "1", to: "3", reverse: true) { items { day by } }')
        assert [one["day"] for one in user["visits"]["items"]] == ["3", "2", "1"]


async def test_pages_of_a_union(tmp_path: Path) -> None:
    """`HasMany` via a union takes `orderBy` like the root field."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        user = await ann_fields(
            client, 'one: found(prefix: "E1") { items { email } } two: found(orderBy: AT_DESC) { items { at } }'
        )
        assert [one["email"] for one in user["one"]["items"]] == ["E10@x", "E11@x", "E1@x"]
        ats = [int(one["at"]) for one in user["two"]["items"]]
        assert ats == sorted(ats, reverse=True)
        assert len(ats) == 8


# --- nested joins ----------------------------------------------------------------------------------------------


async def test_joins_within_joins(tmp_path: Path) -> None:
    """Joins can be nested: emails of a user, the user of each email, and the friend of that user."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        user = await ann_fields(
            client, "emails(limit: 2) { items { email user { name friend { name emails { totalCount { value } } } } } }"
        )
        friend = {"name": "Bo", "emails": {"totalCount": {"value": 4}}}
        assert user["emails"]["items"] == [
            {"email": email, "user": {"name": "Ann", "friend": friend}} for email in emails_of("ann")[:2]
        ]


async def test_circular_joins_end_at_the_depth_limit(tmp_path: Path) -> None:
    """Circular joins are resolved up to the depth limit. One more level is refused before any read."""
    fields = "user { emails(limit: 1) { items { " * 3 + "email" + " } } }" * 3
    query = f'{{ email(id: "E1@x") {{ {fields} }} }}'
    async with open_client(CATALOG, tmp_path, *RECORDS, limits=Limits(depth=11)) as client:
        data = (await client.data(query))["email"]
        assert data["user"]["emails"]["items"][0]["user"]["emails"]["items"][0]["user"]["emails"]["items"]
        client.reset_counts()
        error = await client.error(query.replace("email }", "user { name } }"))
        assert error["extensions"]["code"] == "QUERY_TOO_DEEP"
        assert (client.counts.rounds, client.counts.gets) == (0, 0)


async def test_the_query_cost_of_joins(tmp_path: Path) -> None:
    """A reference costs one object, a list ten, and a page its size, multiplied by the enclosing page."""

    async def cost(selection: str) -> int:
        async with open_client(CATALOG, tmp_path, limits=Limits(cost=1)) as client:
            cost_found: int = (await client.error(f"{{ {selection} }}"))["extensions"]["found"]
            return cost_found

    assert await cost("userByName(limit: 10) { items { userId } }") == 1 + 1 + 10 * 2
    assert await cost("userByName(limit: 10) { items { friend { userId } } }") == 1 + 1 + 10 * 3
    assert await cost("userByName(limit: 10) { items { friends { userId } } }") == 1 + 1 + 10 * (2 + 10 * 2)
    page = "emails(limit: 3) { items { email } }"
    assert await cost(f"userByName(limit: 10) {{ items {{ {page} }} }}") == 1 + 1 + 10 * (1 + 2 + 3 * 2)
    page = "found(orderBy: AT_ASC) { items { email } }"
    assert await cost(f"userByName(limit: 1) {{ items {{ {page} }} }}") == 1 + 1 + 1 + 2 + 1000 * 2


# --- reads -----------------------------------------------------------------------------------------------------


async def test_join_properties_missing_from_the_index(tmp_path: Path) -> None:
    """Records are fetched only if the index lacks a property that the join needs."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        store = KeyedStore(db.store)
        client = client_for(db)
        client.store.inner = store
        query = '{ userByTown(town: "rome") { items { userId visits { items { by } } namesake { userId } } } }'
        items = (await client.data(query))["userByTown"]["items"]
        assert [len(one["visits"]["items"]) for one in items] == [5, 5]
        assert store.fetched == [], "the town and the name are in the index's keys"
        items = (await client.data('{ userByTown(town: "rome") { items { friend { name } } } }'))["userByTown"]["items"]
        assert items == [{"friend": {"name": "Bo"}}, {"friend": None}]
        assert len(store.fetched) == 2, "the page, and the friends"
        store.fetched.clear()
        query = '{ emailByUserId(userId: "ann") { items { email user { name } } } }'
        assert len((await client.data(query))["emailByUserId"]["items"]) == 8
        assert len(store.fetched) == 1, "the user of all of them"


async def test_equal_searches_run_once(tmp_path: Path) -> None:
    """Equal searches of one operation run once, at any path."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        query = """{ userByName { items { visits { items { day } } again: visits { items { by } } } }
          visitById(id: "rome") { items { by } } other: visitById(id: "rome", limit: 2) { items { by } } }"""
        client.reset_counts()
        data = await client.data(query)
        assert [len(one["visits"]["items"]) for one in data["userByName"]["items"]] == [5, 5, 0, 0]
        assert client.counts.hash_keys.count("visit!") == 4, (
            "rome and oslo once for all users, and the two of the query"
        )


async def test_explain_output_of_joins(tmp_path: Path) -> None:
    """The explain output has one entry for each joined page, and one for all lookups of a level."""
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        query = "{ userByName { items { friend { name } inTeams { name } emails(limit: 1) { nextToken } } } }"
        response = await client.execute(query, caller=Caller("c", explain=True))
        entries = {".".join(map(str, one["path"])): one for one in response.body["extensions"]["explain"]}
        pages = {f"userByName.items.{at}.emails" for at in range(4)}
        (batch,) = (one for path, one in entries.items() if path not in pages and path != "userByName")
        assert entries.keys() >= pages
        assert entries["userByName.items.0.emails"]["why"] == "User.emails is joined by the index userId."
        assert batch["entities"] == ["Team", "User"]
        assert batch["records"] == 3 + 3, "bo, zoe and ann, and three teams"
        assert batch["fields"] == ["userByName.items.friend", "userByName.items.inTeams"]
        assert batch["consistent"] is False
        assert batch["read"]["fetched"] == 3 * 2 + 3, "users may live in each of two generations"
        assert batch["read"]["returned"] == 4
        assert batch["read"]["capacityUnits"] > 0


# --- failures --------------------------------------------------------------------------------------------------


async def test_a_failing_joined_page(tmp_path: Path) -> None:
    """A failing search is an error at its own field. Its siblings are returned."""

    def fails(read: RangeRead) -> bool:
        return "bo" in read.hash_key

    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        client = client_for(db)
        client.store.inner = FailingStore(db.store, fails)
        response = await client.execute(
            "{ userByName { items { userId emails { items { email } } friend { name } } } }"
        )
        (error,) = response.body["errors"]
        assert error["path"] == ["userByName", "items", 1, "emails"]
        assert error["extensions"]["code"] == "STORE_UNAVAILABLE"
        items = response.body["data"]["userByName"]["items"]
        assert items[1]["emails"] is None
        assert len(items[0]["emails"]["items"]) == 8
        assert items[0]["friend"] == {"name": "Bo"}


async def test_failing_lookups(tmp_path: Path) -> None:
    """A failing lookup is an error at each of its fields, and the next operation reads again."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        store = KeyedStore(db.store)
        client = client_for(db)
        client.store.inner = store
        store.fails = "userId#bo"
        query = "{ userByName { items { friend { name } visits { items { by } } friends { name } } } }"
        response = await client.execute(query)
        paths = sorted(map(str, (error["path"][2:] for error in response.body["errors"])))
        assert paths == ["[0, 'friend']"] + [f"[0, 'friends', {at}]" for at in (0, 1, 3, 5)] + [
            "[1, 'friend']",
            "[3, 'friend']",
        ]
        items = response.body["data"]["userByName"]["items"]
        assert len(items[0]["visits"]["items"]) == 5
        assert items[0]["friends"] == [None] * 6
        store.fails = None
        assert (await client.data(query))["userByName"]["items"][0]["friend"] == {"name": "Bo"}


async def test_an_invalid_record_does_not_affect_others(tmp_path: Path) -> None:
    """An invalid stored record is an error at its fields. Other records of its batch are returned."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:

        class Broken(ForwardingStore):
            async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
                found = await super().get_many(keys, consistent)
                return [
                    {**item, "name": None} if item is not None and key.range == "userId#bo" else item
                    for key, item in zip(keys, found, strict=True)
                ]

        client = client_for(db)
        client.store.inner = Broken(db.store)
        response = await client.execute("{ userByName { items { friend { name } friends { name } } } }")
        assert {error["extensions"]["code"] for error in response.body["errors"]} == {"INVALID_RECORD"}
        items = response.body["data"]["userByName"]["items"]
        assert [one["friend"] for one in items] == [None, None, None, {"name": "Ann"}]
        assert items[0]["friends"] == [None] * 5 + [{"name": "Ann"}]


# --- hooks, mutations and tenants ------------------------------------------------------------------------------


class ResultRecorder(FieldExtension):
    """Records the results of a joined field."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def resolve_async(self, next_: Any, source: Any, info: strawberry.Info, **arguments: Any) -> Any:
        response = await next_(source, info, **{**arguments, "limit": 1})
        self.notes += [(source.name, one.at) for one in response.items]
        return response


async def test_hooks_on_joins(tmp_path: Path) -> None:
    """A hook on a joined field sees the whole record and result, and can change the arguments."""
    graph, recorder = Graph(CATALOG), ResultRecorder()
    graph.hook("User.emails", recorder)
    async with open_client(CATALOG, tmp_path, *RECORDS, graph=graph) as client:
        data = (await client.data('{ userByTown(town: "rome") { items { emails { items { email } } } } }'))[
            "userByTown"
        ]
        assert [len(one["emails"]["items"]) for one in data["items"]] == [1, 1]
        assert recorder.notes == [("Ann", 89), ("Bo", 91)]


async def test_joins_of_mutations_see_earlier_writes(tmp_path: Path) -> None:
    """Joins of a mutation field see the writes of earlier mutation fields."""
    graph = Graph(CATALOG)
    user: Any = graph.record_type(User)

    @graph.mutation
    @strawberry.type
    class Mutations:
        @strawberry.mutation
        async def rename(self, info: strawberry.Info, name: str) -> user:
            """Rename bo, and return ann, a friend of bo."""
            await info.context.database.put(USERS[1].model_copy(update={"name": name}))
            await info.context.database.put(Email(email=f"{name}@x", user_id="ann", at=0))
            return USERS[0]

    async with open_client(CATALOG, tmp_path, *RECORDS, graph=graph) as client:
        fields = "{ friend { name } emails(limit: 1) { items { email } } }"
        data = await client.data(f'mutation {{ a: rename(name: "X") {fields} b: rename(name: "Y") {fields} }}')
        assert [data[name]["friend"]["name"] for name in "ab"] == ["X", "Y"]
        assert data["a"]["emails"]["items"] == [{"email": "X@x"}]


@pytest.mark.parametrize("read_only", [False, True])
async def test_tenants_do_not_see_each_other(tmp_path: Path, read_only: bool) -> None:
    """Joins return only records of the tenant of the request."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *RECORDS) as db:
        other = db.scoped(tenant="t")
        await other.put(USERS[0].model_copy(update={"name": "Another Ann"}))
        client = client_for(other)
        caller = Caller("c", read_only=read_only, tenant="t")
        data = await client.data(
            '{ user(id: "ann") { name friend { name } emails { items { email } } } }', caller=caller
        )
        assert data["user"] == {"name": "Another Ann", "friend": None, "emails": {"items": []}}


# --- current records -------------------------------------------------------------------------------------------


class Article(Entity, current="~current"):
    """The versions of an article and its current record."""

    article_id: Id[str]
    version: SubId[str]
    title: str


class Comment(Entity):
    """A comment on an article."""

    comment_id: Id[str]
    article_id: str

    article = Ref("Article", by="article_id")


async def test_a_reference_to_a_current_record(tmp_path: Path) -> None:
    """A reference to a history with current records reads them by key, in one call for a page."""
    articles = [Article(article_id=f"a{at}", version=f"v{at}", title=f"Title {at}") for at in range(2)]
    comments = [Comment(comment_id=f"c{at}", article_id=f"a{at % 3}") for at in range(6)]
    catalog = Catalog(Article, Comment)
    async with open_database(catalog, await open_sqlite(tmp_path / "x.db"), *comments) as db:
        for article in articles:
            await db.put(article)
        store = KeyedStore(db.store)
        client = client_for(db)
        client.store.inner = store
        items = (await client.data("{ comments { items { article { version title } } } }"))["comments"]["items"]
        assert [one["article"] and one["article"]["title"] for one in items] == ["Title 0", "Title 1", None] * 2
        assert {one["article"]["version"] for one in items if one["article"]} == {"~current"}
        assert [len(keys) for keys in store.fetched] == [3]
