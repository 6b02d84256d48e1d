"""Samples: about equally many records of every shard, at even distances, and only a part of the table."""

from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Entity, Id, Index, Shards, open_catalog
from graphql_api.storage import Put
from graphql_api.verification import Damage, VerificationSettings, verify_table
from graphql_api.verification.table_sample import spread_positions
from tests.evolution.migration_support import opened
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.store_doubles import CountingStore, all_items
from tests.verification.damaged_tables import NOW, SECRETS


class User(Entity, shards=Shards(4)):
    """A user in one of four shards."""

    user_id: Id[str]
    town: str | None = None

    by_town = Index(sort="town")


CATALOG = Catalog(User)
USERS = [User(user_id=f"u{number:05}", town="Bern") for number in range(4_000)]


async def test_a_sample_reads_a_part_of_every_shard(tmp_path: Path) -> None:
    """A sample of 400 of 4,000 records reads about 100 of each of four shards, all over the range of their ids."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await db.put_many(USERS)
        counting = CountingStore(db.store)
        result = await verify_table(counting, CATALOG, VerificationSettings(sample=400))
        assert 350 <= result.items <= 450
        assert counting.counts.scans == 0
        assert result.shards == ()
        assert any("A sample" in line for line in result.left_out)
        assert {key.rpartition("!")[2] for key in counting.counts.hash_keys} == {"00", "01", "02", "03"}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
async def test_a_sample_reaches_each_part_of_a_shard(tmp_path: Path, share: float) -> None:
    """Damage of one record in ten is found wherever it is in the range of ids."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await db.put_many(USERS)
        first = int(share * len(USERS))
        damaged = {user.user_id for user in USERS[first : first + 400]}
        for item in await all_items(db.store):
            if item.get("userId") in damaged:
                await db.store.write([Put({name: value for name, value in item.items() if name != "townRangeKey"})])
        result = await verify_table(db.store, CATALOG, VerificationSettings(sample=400))
        assert result.counts[Damage.INDEX_KEY] > 5


async def test_a_sample_of_tenants(tmp_path: Path) -> None:
    """A sample contains records of the named tenants only."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await db.scoped(tenant="acme").put_many(USERS[:200])
        assert (await verify_table(db.store, CATALOG, VerificationSettings(sample=100))).items == 0
        settings = VerificationSettings(sample=100, tenants=("acme",))
        assert (await verify_table(db.store, CATALOG, settings)).items > 50


async def test_a_sample_of_dynamodb(dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of a table of DynamoDB reads about the requested number of records, and scans nothing."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://sampled-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}&deadline=60&read_seconds=30"
    async with open_catalog(CATALOG, url, secrets=SECRETS, create_table=True) as db:
        await db.put_many(USERS[:800])
        counting = CountingStore(db.store)
        result = await verify_table(counting, CATALOG, VerificationSettings(sample=160))
        assert result.findings == []
        assert 120 <= result.items <= 192
        assert counting.counts.scans == 0
        assert counting.counts.records_read <= 192 + 4 * 100


@given(
    st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=30),
    st.integers(1, 20),
    st.floats(0, 1, exclude_max=True),
)
def test_positions_are_ordered_and_inside(keys: list[str], count: int, offset: float) -> None:
    """Positions are distinct texts in order, from the least key on, and at most as many as requested."""
    positions = spread_positions(keys, count, offset)
    assert positions == sorted(set(positions))
    assert 1 <= len(positions) <= count
    assert all(len(position) <= max(map(len, keys)) + 8 for position in positions)


@given(st.integers(2, 50), st.floats(0, 1, exclude_max=True))
def test_positions_of_numbered_keys_are_even(count: int, offset: float) -> None:
    """The positions of numbered ids divide them into parts that are at most twice as large as the mean."""
    keys = [f"userId#u{number:06}" for number in range(0, 100_000, 7)]
    bounds = [bisect_left(keys, one) for one in spread_positions([*keys[:50], *keys[-50:]], count, offset)]
    assert len(bounds) == count
    assert max(end - start for start, end in pairwise([0, *bounds, len(keys)])) <= 2 * len(keys) / count + 1
