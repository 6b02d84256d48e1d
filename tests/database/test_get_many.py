"""`get_many`: point lookups of several records from Python."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from graphql_api import Catalog, Created, Entity, Id, Shards, SubId, Timestamp
from graphql_api.errors import EmptyKey, InvalidRecord, MissingArgument, UnknownArgument
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import Item, Key
from tests.schema.graphql_client import client_for, open_database


class User(Entity, shards=Shards(1).then(4, since=100)):
    """A user."""

    user_id: Id[str]
    created: Created[Timestamp]


class Line(Entity):
    """A line of an order."""

    order: Id[str]
    shop: Id[str]
    number: SubId[int]


class Version(Entity, current="~now"):
    """A version of a text."""

    text_id: Id[str]
    version: SubId[str]


CATALOG = Catalog(User, Line, Version)
USERS = [User(user_id=f"u{at}", created=at * 50) for at in range(6)]
LINES = [Line(order="o", shop="a/b", number=number) for number in range(3)]
NOW = Version(text_id="t", version="~now")


async def test_records_in_the_order_of_their_ids(tmp_path: Path) -> None:
    """Records are returned in the order of their ids, with None for missing records; duplicate ids are read once."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *USERS, *LINES) as db:
        client = client_for(db)
        found: list[User | None] = await client.db.get_many(User, ["u3", "no", "u1", "u3"])
        assert found == [USERS[3], None, USERS[1], USERS[3]]
        assert client.counts.gets == 3 * 2, "three ids, each in two generations"
        assert await client.db.get_many(User, []) == []
        assert await client.db.get_many(Line, [("o", "a/b", 1), ("o", "a/b", 7)], consistent=False) == [LINES[1], None]


async def test_current_record_of_a_history(tmp_path: Path) -> None:
    """For a history, an id alone returns the current record, and a complete key returns that entry."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db")) as db:
        await db.put(Version(text_id="t", version="v1"))
        found = await db.get_many(Version, ["t", ("t", "v1"), ("t", "v9")])
        assert found == [NOW, Version(text_id="t", version="v1"), None]
        assert await db.get(Version, "t") == NOW


async def test_invalid_ids_are_refused(tmp_path: Path) -> None:
    """An id with missing, extra or empty parts is refused before any read."""
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db")) as db:
        client = client_for(db)
        with pytest.raises(MissingArgument, match="several records for each id: provide number too"):
            await client.db.get_many(Line, ["o/a%2Fb"])
        with pytest.raises(UnknownArgument, match="has a key of 1 parts, not of 2"):
            await client.db.get_many(User, [("u1", "u2")])
        with pytest.raises(EmptyKey):
            await client.db.get_many(User, ["u1", ""])
        assert client.counts.gets == 0


async def test_undecodable_record_is_reported(tmp_path: Path) -> None:
    """A stored record that cannot be decoded raises `InvalidRecord`, as in `get`."""

    class Broken(ForwardingStore):
        async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
            return [item and {**item, "created": None} for item in await super().get_many(keys, consistent)]

    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *USERS) as db:
        client = client_for(db)
        client.store.inner = Broken(db.store)
        with pytest.raises(InvalidRecord, match="The stored User user! / userId#u1: created"):
            await client.db.get_many(User, ["u1"])
        with pytest.raises(InvalidRecord, match="created"):
            await client.db.get(User, "u1")
