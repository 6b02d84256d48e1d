"""`shardql compare` over real servers: a planted regression is in its first three lines."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, canonical, derived, open_catalog
from graphql_api.storage.values import Put
from tests.faults.dynamodb_requests import Request
from tests.faults.fault_proxy import FaultProxy
from tests.faults.fault_types import Delay
from tests.server.catalog_server import SECRETS
from tests.server.observed_server import ObservedServer, observed_server
from tests.support.cli_runner import run
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.store_doubles import all_items

SHARDS = 4
PEOPLE = 60
SLOW_PEOPLE = 20
"""people that are searched for when a shard is slow"""
SLOW_SECONDS = 1.0
CONCURRENCY = 12
"""slow requests at once: less than the limit per shard, so that they do not queue"""
PATIENCE = "deadline=60&connect_seconds=10&read_seconds=30&breaker_failures=100"
"""settings of the store, so that a loaded machine causes no errors"""


def changed_canonical(text: str) -> str:
    """Return another canonical form than the stored one, as after a careless change."""
    return canonical(text)[::-1]


def people_catalog(*, is_changed: bool = False) -> Catalog:
    """Return the catalog of one release."""
    function = changed_canonical if is_changed else canonical

    class Person(Entity, shards=Shards(SHARDS)):
        """A person."""

        person_id: Id[str]
        name: str
        town: str
        name_canonical: str = derived(function, "name")

        by_name = Index(sort="name_canonical")
        by_town = Index(sort="town")

    return Catalog(Person)


CATALOG = people_catalog()


def people(catalog: Catalog = CATALOG) -> list[Entity]:
    """Return the stored records."""
    model: Any = catalog.entities["person"].model
    return [
        model(person_id=f"p{number}", name=f"Émile {number:02}", town=f"Town {number:02}") for number in range(PEOPLE)
    ]


def send_requests(server: ObservedServer, seed: int, *, count: int = PEOPLE, threads: int = 1) -> None:
    """Send searches by name and by town, and reads by key, some for what does not exist, in random order."""
    queries = [
        *(f'{{ personByName(eq: "Émile {number:02}") {{ items {{ personId }} }} }}' for number in range(count)),
        *(f'{{ personByTown(eq: "Town {number - 3:02}") {{ items {{ personId }} }} }}' for number in range(count)),
        *(f'{{ person(id: "p{number - 6}") {{ name }} }}' for number in range(count)),
    ]
    Random(seed).shuffle(queries)
    with ThreadPoolExecutor(threads) as pool:
        for reply in pool.map(server.post, queries):
            assert "errors" not in reply.json()


def compare(before: str, server: ObservedServer, expected: Sequence[str]) -> None:
    """Compare a saved page with a server. All `expected` texts must be in one of the first three lines."""
    result = run("compare", before, str(server.client.base_url))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()[:3]
    assert any(all(text in line for text in expected) for line in lines), result.stdout


def save_page(server: ObservedServer, path: Path) -> str:
    """Save the metrics of a server."""
    path.write_text(server.client.get("/metrics").text, encoding="utf-8")
    return str(path)


def test_a_changed_derived_function_is_found(tmp_path: Path) -> None:
    """A release with another function of a derived property finds nothing by it. The comparison shows the index."""
    with observed_server(tmp_path, catalog=CATALOG, records=people()) as server:
        send_requests(server, 1)
        before = save_page(server, tmp_path / "before.txt")
    with observed_server(tmp_path, catalog=people_catalog(is_changed=True), records=()) as server:
        send_requests(server, 2)
        compare(before, server, ["worse", "empty_reads", 'index="name"', "0 % → 100 % of reads"])


async def lose_attribute(url: str, attribute: str) -> None:
    """Remove an index attribute from all stored records, as a faulty script would."""
    async with open_catalog(CATALOG, url, secrets=SECRETS) as database:
        items = [item for item in await all_items(database.store) if attribute in item]
        assert len(items) == PEOPLE
        writes = [Put({name: value for name, value in item.items() if name != attribute}) for item in items]
        assert not any(await database.store.write(writes))


def test_a_removed_index_attribute_is_found(tmp_path: Path) -> None:
    """If stored records lose the attribute of an index, its searches find nothing. The comparison shows the index."""
    attribute = CATALOG.entities["person"].indexes["by_town"].range_attribute
    with observed_server(tmp_path, catalog=CATALOG, records=people()) as server:
        send_requests(server, 1)
        before = save_page(server, tmp_path / "before.txt")
        asyncio.run(lose_attribute(f"sqlite:///{tmp_path}/observed.db", attribute))
        send_requests(server, 2)
        compare(before, server, ["worse", "empty_reads", 'index="town"', "→ 100 % of reads"])


async def test_a_slower_shard_is_found(dynamodb: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If DynamoDB answers slowly for one shard, the comparison shows this shard."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)

    def is_slow(request: Request) -> Delay | None:
        return Delay(SLOW_SECONDS) if request.operation == "Query" and "person!02" in request.hash_keys else None

    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as proxy:
        url = f"dynamodb://planted-regressions?region={REGION}&endpoint={proxy.endpoint}&{PATIENCE}"
        context = observed_server(tmp_path, catalog=CATALOG, records=people(), store=url)
        server = await asyncio.to_thread(context.__enter__)
        try:
            await asyncio.to_thread(partial(send_requests, server, 1, count=SLOW_PEOPLE))
            before = await asyncio.to_thread(save_page, server, tmp_path / "before.txt")
            proxy.rule = is_slow
            await asyncio.to_thread(partial(send_requests, server, 2, count=SLOW_PEOPLE, threads=CONCURRENCY))
            shard = 'shardql_shard_read_seconds{shard="person!02"}'
            await asyncio.to_thread(compare, before, server, ["worse", shard])
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)


def test_an_unchanged_server_has_no_empty_or_failing_reads(tmp_path: Path) -> None:
    """The same requests to the same server change no counter. Only durations depend on the machine."""
    with observed_server(tmp_path, catalog=CATALOG, records=people()) as server:
        send_requests(server, 1)
        before = save_page(server, tmp_path / "before.txt")
        send_requests(server, 2)
        lines = run("compare", before, str(server.client.base_url)).stdout.splitlines()
    assert not any("_total" in line for line in lines)
