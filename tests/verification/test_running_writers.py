"""Verifications while writers run: nothing is reported of healthy data, and repairs harm no write."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from graphql_api import open_catalog
from graphql_api.database import Database
from graphql_api.storage import ForwardingStore, Item, Key, Put, Store
from graphql_api.verification import VerificationResult, VerificationSettings, table_verification, verify_table
from graphql_api.writes import expect_unchanged
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore, all_items
from tests.verification.damaged_tables import CATALOG, SECRETS, Email, Person
from tests.verification.running_writers import Writer

WRITERS = 4


@asynccontextmanager
async def databases(url: str) -> AsyncIterator[list[Database]]:
    """Opens the table as several servers do."""
    async with AsyncExitStack() as stack:
        opened = [open_catalog(CATALOG, url, secrets=SECRETS, create_table=True) for _ in range(WRITERS)]
        yield [await stack.enter_async_context(one) for one in opened]


async def verify_while_writing(
    dbs: list[Database], random: Random, writes: int, store: Store, settings: VerificationSettings
) -> list[VerificationResult]:
    """Verifies the table again and again while writers run, and once afterwards. Returns what each pass found."""
    writers = [Writer(db, Random(random.random())) for db in dbs]
    tasks = [asyncio.ensure_future(writer.run(writes // WRITERS)) for writer in writers]
    results = []
    while not all(task.done() for task in tasks):
        results.append(await verify_table(store, CATALOG, settings))
    for task in tasks:
        task.result()
    results.append(await verify_table(store, CATALOG, settings))
    refused = sum(sum(writer.refused.values()) for writer in writers)
    assert refused < writes / 2, "most writes are accepted"
    return results


def assert_nothing_found(results: list[VerificationResult]) -> None:
    """Checks that no pass found anything, and that each item held still long enough to be verified."""
    assert [one for result in results for one in result.findings] == []
    assert [key for result in results for key in result.unsettled] == []


async def test_writers_cause_no_findings(tmp_path: Path, random: Random) -> None:
    """Healthy data that writers change all the time has no findings."""
    async with databases(f"sqlite:///{tmp_path / 'table.db'}") as dbs:
        writes = depth(quick=1_200, deep=100_000)
        results = await verify_while_writing(dbs, random, writes, dbs[0].store, VerificationSettings())
        assert_nothing_found(results)


async def test_writers_cause_no_findings_on_dynamodb(
    dynamodb: Server, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Healthy data on DynamoDB that writers change all the time has no findings."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://writers-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}&deadline=60&read_seconds=30"
    async with databases(url) as dbs:
        writes = depth(quick=120, deep=10_000)
        results = await verify_while_writing(dbs, random, writes, dbs[0].store, VerificationSettings())
        assert_nothing_found(results)


async def test_a_repair_of_healthy_data_writes_nothing(tmp_path: Path, random: Random) -> None:
    """A verification with repair writes nothing while writers change healthy data."""
    async with databases(f"sqlite:///{tmp_path / 'table.db'}") as dbs:
        counting = CountingStore(dbs[0].store)
        settings = VerificationSettings(repair=True)
        results = await verify_while_writing(dbs, random, depth(quick=400, deep=10_000), counting, settings)
        assert_nothing_found(results)
        assert counting.counts.writes == 0


async def test_the_first_look_alone_would_report_healthy_data(
    tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look finds states that writers are changing: only the second one distinguishes them from damage."""
    suspects = 0
    original: Callable[..., object] = table_verification.TableVerification._look

    async def counted(self: object, key: Key, is_last: bool) -> object:
        nonlocal suspects
        suspects += 1
        return await original(self, key, is_last)  # type: ignore[misc]

    monkeypatch.setattr(table_verification.TableVerification, "_look", counted)
    async with databases(f"sqlite:///{tmp_path / 'table.db'}") as dbs:
        store = YieldingStore(dbs[0].store)
        while not suspects:
            assert_nothing_found(await verify_while_writing(dbs, random, 200, store, VerificationSettings()))


class YieldingStore(ForwardingStore):
    """Lets other tasks run before each read by key, as an engine on another machine does."""

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        for _ in range(20):
            await asyncio.sleep(0)
        return await self.inner.get_many(keys, consistent)


async def test_damage_is_repaired_while_writers_run(tmp_path: Path, random: Random) -> None:
    """Index keys that are removed again and again are restored, while writers change the same records."""
    async with databases(f"sqlite:///{tmp_path / 'table.db'}") as dbs:
        store = dbs[0].store
        # Writers may delete all other addresses before the first of them is damaged.
        await dbs[0].create(Person, person_id="kept", created=5, name="n", town="Bern", row=2, seat=0)
        await dbs[0].put(Email(email="kept", person_id="kept", label="l"))
        writer = Writer(dbs[1], Random(random.random()))
        await writer.run(100)
        running = asyncio.ensure_future(writer.run(depth(quick=300, deep=5_000)))
        repaired = 0
        while not (running.done() and repaired):
            for item in await all_items(store):
                if "personRangeKey" in item and random.random() < 0.3:
                    await damage(store, item)
            result = await verify_table(store, CATALOG, VerificationSettings(repair=True))
            assert not result.remaining
            repaired += result.repaired.total()
        running.result()
        await verify_table(store, CATALOG, VerificationSettings(repair=True))
        assert repaired > 0
        assert (await verify_table(store, CATALOG)).findings == []


async def damage(store: Store, item: Item) -> None:
    """Removes an index key, unless a writer has changed the record since."""
    rest = {name: value for name, value in item.items() if name != "personRangeKey"}
    await store.write([Put(rest, expect_unchanged(item))])
