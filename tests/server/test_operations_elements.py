"""What operators see of elements that are not ready: `/readyz`, metrics and the start-up log."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from graphql_api import Catalog, Entity, Id, Index, open_catalog
from graphql_api.evolution import TABLE_RECORD_KEY
from graphql_api.server import asgi
from graphql_api.storage.engines import opened_store
from graphql_api.storage.values import Put
from graphql_api.writes.entity_records import item_at
from tests.server.observed_server import parse_counts
from tests.server.server_processes import KEY, server_process
from tests.support.loopback import TIMEOUT, serve_app


class Place(Entity):
    """A record without indexes."""

    place_id: Id[str]
    town: str = ""
    country: str = ""


class PlaceByTown(Place, name="place"):
    """The same entity with an index."""

    by_town = Index(sort="town")


class PlaceByCountry(PlaceByTown, name="place"):
    """The same entity with two indexes."""

    by_country = Index(sort="country")


PLAIN, BY_TOWN, BY_COUNTRY = Catalog(Place), Catalog(PlaceByTown), Catalog(PlaceByCountry)
TOWN = {"element": "index place.town", "state": "announced"}
COUNTRY = {"element": "index place.country", "state": "announced"}


def open_table(catalog: Catalog, folder: Path) -> None:
    """Open the table once, which announces what the catalog adds."""

    async def opened() -> None:
        async with open_catalog(catalog, f"sqlite:///{folder}/places.db", migrate=False):
            pass

    asyncio.run(opened())


@contextmanager
def server(catalog: Catalog, folder: Path, **settings: bool) -> Iterator[httpx.Client]:
    """Serve a catalog, and build nothing."""
    app = asgi(catalog, f"sqlite:///{folder}/places.db", graphiql=False, migrate=False, **settings)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        yield client


def test_elements_of_a_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new index is listed by the readiness probe, counted, and logged once with the remedy. The server is ready."""
    open_table(PLAIN, tmp_path)
    with server(BY_TOWN, tmp_path) as client:
        ready = client.get("/readyz")
        counts = parse_counts(client.get("/metrics").text)
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "elements": [TOWN]})
    elements = {name: count for name, count in counts.items() if name.startswith("shardql_elements")}
    assert elements == {
        "shardql_elements announced": 1,
        "shardql_elements building": 0,
        "shardql_elements switching": 0,
        "shardql_elements ready": 3,
        "shardql_elements unchecked": 0,
        "shardql_elements closing": 0,
        "shardql_elements dropping": 0,
    }
    assert [message for message in caplog.messages if "place.town" in message] == [
        (
            "The index place.town is announced, and not built yet. "
            "Build it with: shardql migrate MODULE:CATALOG --store URL --apply"
        )
    ]


def test_a_table_without_pending_elements(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a table that has everything, nothing is listed or logged."""
    with server(BY_TOWN, tmp_path) as client:
        assert client.get("/readyz").json() == {"status": "ready", "elements": []}
        assert parse_counts(client.get("/metrics").text)["shardql_elements ready"] == 4
    assert not [record for record in caplog.records if record.name == "shardql"]


def test_elements_of_other_catalogs(tmp_path: Path) -> None:
    """What another process announces later is listed and counted too, after the next probe."""
    with server(BY_TOWN, tmp_path) as client:
        assert client.get("/readyz").json()["elements"] == []
        open_table(BY_COUNTRY, tmp_path)
        assert client.get("/readyz").json()["elements"] == [COUNTRY]
        assert parse_counts(client.get("/metrics").text)["shardql_elements announced"] == 1


def test_a_migration_by_another_process(tmp_path: Path) -> None:
    """Once another process has built an element, it is no longer listed."""
    open_table(PLAIN, tmp_path)
    with server(BY_TOWN, tmp_path) as client:
        assert client.get("/readyz").json()["elements"] == [TOWN]

        async def migrate() -> None:
            async with open_catalog(BY_TOWN, f"sqlite:///{tmp_path}/places.db"):
                pass

        asyncio.run(migrate())
        assert client.get("/readyz").json()["elements"] == []
        assert parse_counts(client.get("/metrics").text)["shardql_elements ready"] == 4


def test_automatic_migration(tmp_path: Path) -> None:
    """In development a server builds what is pending in a SQLite file before it starts; in production it does not."""
    for production, expected in ((True, [TOWN]), (False, [])):
        folder = tmp_path / f"{production}"
        folder.mkdir()
        open_table(PLAIN, folder)
        keys = {"token_keys": KEY, "record_key": KEY} if production else {}
        app = asgi(BY_TOWN, f"sqlite:///{folder}/places.db", graphiql=False, production=production, **keys)
        with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
            assert client.get("/readyz").json()["elements"] == expected


def test_a_read_only_server_announces_nothing(tmp_path: Path) -> None:
    """A read-only server leaves the table as it is, and lists what the table lacks."""
    open_table(PLAIN, tmp_path)
    with server(BY_TOWN, tmp_path, read_only=True) as client:
        ready = client.get("/readyz")
    assert ready.json() == {"status": "ready", "elements": [{**TOWN, "state": "absent"}]}
    with server(PLAIN, tmp_path) as client:
        assert client.get("/readyz").json()["elements"] == []


def test_unchecked_elements(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The elements of a table that an earlier release wrote are unchecked until a migration has verified them."""
    space = {"width": 2, "function": "blake2b", "generations": [{"size": 1}]}

    async def write_earlier_record() -> None:
        async with opened_store(f"sqlite:///{tmp_path}/places.db") as store:
            await store.ensure_table(BY_TOWN.table_definition())
            earlier = {"format": 1, "spaces": {"place": space}, "indexes": {}}
            assert not any(await store.write([Put(item_at(TABLE_RECORD_KEY, earlier))]))

    asyncio.run(write_earlier_record())
    with server(BY_TOWN, tmp_path) as client:
        assert client.get("/readyz").json()["elements"] == [{**TOWN, "state": "unchecked"}]
        assert parse_counts(client.get("/metrics").text)["shardql_elements unchecked"] == 1
    assert any("Verify it with: shardql migrate" in message for message in caplog.messages)


CATALOG = """from graphql_api import Catalog, Entity, Id, Index

class Place(Entity):
    place_id: Id[str]
    town: str = ""
    country: str = ""
    {index}

catalog = Catalog(Place)
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_start_up_log_of_workers(workers: str, tmp_path: Path) -> None:
    """The start-up log has one line per element, however many worker processes there are."""
    open_table(PLAIN, tmp_path)
    (tmp_path / "places.py").write_text(CATALOG.format(index='by_town = Index(sort="town")'))
    words = ["places:catalog", "--store", "sqlite:///places.db", "--no-migrate", "--workers", workers]
    with server_process(tmp_path, *words) as running:
        assert httpx.get(f"{running.address}/readyz", timeout=TIMEOUT).json()["elements"] == [TOWN]
        pages = [httpx.get(f"{running.address}/metrics", timeout=TIMEOUT).text for _ in range(6)]
        assert {parse_counts(page)["shardql_elements announced"] for page in pages} == {1}
        assert running.stop() == 0
    assert running.log.read_text().count("The index place.town is announced") == 1
