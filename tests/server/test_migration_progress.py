"""The progress of a migration, wherever clients and operators meet an element that is not ready."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from graphql_api import Catalog, Entity, HasMany, Id, Index, Int32, SubId, Union, Version, open_catalog
from graphql_api.connection import Secrets
from graphql_api.evolution.table_record import PassProgress, read_record, save_progress, save_record
from graphql_api.server import asgi
from graphql_api.storage.engines import opened_store
from tests.server.observed_server import parse_counts
from tests.support.cli_runner import run
from tests.support.loopback import TIMEOUT, serve_app


def releases() -> tuple[Catalog, Catalog]:
    """Two releases of an application: the second one adds indexes, a version and current records."""

    class Town(Entity):
        town_id: Id[str]

    class Place(Entity):
        place_id: Id[str]
        town_id: str = "t"
        name: str = ""
        other_name: str = ""
        changes: Int32 = 0

    class Step(Entity):
        order_id: Id[str]
        number: SubId[str]

    first = Catalog(Town, Place, Step)

    class Town(Town, name="town"):  # type: ignore[no-redef]
        places = HasMany("Place", via="by_town")

    class Place(Place, name="place"):  # type: ignore[no-redef]
        changes: Version[Int32] = 0

        by_town = Index(hash="town_id", sort="name")
        by_name = Index(sort="name")
        by_other_name = Index(sort="other_name")
        by_any_name = Union("by_name", "by_other_name")

    class Step(Step, name="step", current="~"):  # type: ignore[no-redef]
        pass

    return first, Catalog(Town, Place, Step)


PLAIN, NEXT = releases()
SECRETS = Secrets.generate()
BUILDING = (
    "index place.name",
    "index place.otherName",
    "index place.town",
    "server-set place.changes.version",
    "current record step.current",
)
REQUESTS = {
    "index": '{ placeByTown(townId: "t") { items { placeId } } }',
    "list": "{ allPlaces(orderBy: NAME_ASC) { items { placeId } } }",
    "list with a hash": '{ places(townId: "t", orderBy: NAME_DESC) { items { placeId } } }',
    "union": '{ placeByAnyName(prefix: "a") { items { placeId } } }',
    "order": '{ placeByAnyName(prefix: "a", orderBy: NAME_ASC) { items { placeId } } }',
    "count": '{ placeByTown(townId: "t") { totalCount(atMost: 5) { value } } }',
    "join": '{ town(id: "t") { places { items { placeId } } } }',
    "joins in a list": "{ towns(limit: 5) { items { places(limit: 5) { items { name } } } } }",
    "history": '{ stepById(id: "o", history: CURRENT) { items { number } } }',
    "record": '{ step(id: "o", number: "~") { number } }',
    "version": 'mutation { updatePlace(input: {id: "p", name: "x", expectedVersion: 1}) { place { name } } }',
    "batch": (
        'mutation { updatePlaces(inputs: [{id: "p", name: "x", expectedVersion: 1}]) '
        "{ results { place { name } error { code message } } } }"
    ),
}


async def begin_building(folder: Path, percent: int | None) -> None:
    """Announce the next release, begin to build it, and report a progress."""
    url = f"sqlite:///{folder}/places.db"
    async with open_catalog(PLAIN, url, secrets=SECRETS) as db:
        models: dict[str, Any] = {name: entity.model for name, entity in db.catalog.entities.items()}
        await db.put(models["town"](town_id="t"))
        await db.put(models["place"](place_id="p"))
        await db.put(models["step"](order_id="o", number="1"))
    async with open_catalog(NEXT, url, migrate=False):
        pass
    async with opened_store(url) as store:
        record = await read_record(store)
        assert record is not None
        announced = [one for one in record.elements.values() if one.state == "announced"]
        building = record.changed(*(replace(one, state="building") for one in announced))
        assert await save_record(store, record, building)
        if percent is not None:
            await report(store, percent)


async def report(store: Any, percent: int) -> None:
    """Report a progress of what is being built."""
    record = await read_record(store)
    assert record is not None
    epochs = frozenset(one.epoch for one in record.elements.values() if one.state == "building")
    await save_progress(store, record, PassProgress(percent, epochs))


@contextmanager
def server(folder: Path) -> Iterator[httpx.Client]:
    """Serve the next release, and build nothing."""
    app = asgi(NEXT, f"sqlite:///{folder}/places.db", graphiql=False, migrate=False)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        yield client


def ask(client: httpx.Client, request: str) -> Any:
    """The response to a request."""
    return client.post("/graphql", json={"query": request}).json()


@pytest.mark.parametrize("percent", [None, 40])
def test_clients_learn_the_progress(tmp_path: Path, percent: int | None) -> None:
    """Wherever an element is reached, NOT_READY names it, its state, its progress if it is known, and the command."""
    asyncio.run(begin_building(tmp_path, percent))
    known = {} if percent is None else {"progress": "40 %"}
    with server(tmp_path) as client:
        for name, request in REQUESTS.items():
            answer = ask(client, request)
            if name == "batch":
                (problem,) = (result["error"] for result in answer["data"]["updatePlaces"]["results"])
                assert (problem["code"], "(40 %)" in problem["message"]) == ("NOT_READY", percent is not None)
                continue
            (problem,) = answer["errors"]
            extensions = problem["extensions"]
            assert extensions["code"] == "NOT_READY", name
            assert {key: extensions[key] for key in ("state", "progress") if key in extensions} == {
                "state": "building",
                **known,
            }
            assert f"needs the {extensions['element']}, which is being built" in problem["message"]
            assert ("(40 %)" in problem["message"]) == (percent is not None)
            assert problem["message"].endswith("shardql migrate MODULE:CATALOG --store URL --apply")


def progress_of(client: httpx.Client) -> dict[str, str | None]:
    """The progress of each element in the body of the readiness probe."""
    return {one["element"]: one.get("progress") for one in client.get("/readyz").json()["elements"]}


def report_now(folder: Path, percent: int) -> None:
    """Report a progress, as a migration does while servers run."""

    async def now() -> None:
        async with opened_store(f"sqlite:///{folder}/places.db") as store:
            await report(store, percent)

    asyncio.run(now())


def test_operators_see_the_progress(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readiness probe, the metrics, the start-up log, `table describe` and `doctor` show the progress."""
    asyncio.run(begin_building(tmp_path, 40))
    with server(tmp_path) as client:
        assert progress_of(client) == dict.fromkeys(BUILDING, "40 %")
        assert parse_counts(client.get("/metrics").text)["shardql_migration_progress"] == 0.4
        report_now(tmp_path, 65)
        assert parse_counts(client.get("/metrics").text)["shardql_migration_progress"] == 0.65
        assert progress_of(client) == dict.fromkeys(BUILDING, "65 %")
        report_now(tmp_path, 70)
        assert ask(client, REQUESTS["index"])["errors"][0]["extensions"]["progress"] == "70 %"
    assert sum("is being built (40 %)." in message for message in caplog.messages) == len(BUILDING)
    monkeypatch.chdir(tmp_path)
    address = f"{__name__}:NEXT"
    described = run("table", "describe", address, "--store", "sqlite:///places.db")
    assert "! The index place.town is being built (70 %)." in described.stdout.splitlines()
    elements = orjson.loads(run("table", "describe", address, "--store", "sqlite:///places.db", "--json").stdout)
    progress = {f"{one['kind']} {one['entity']}.{one['name']}": one["progress"] for one in elements["elements"]}
    assert {name for name, known in progress.items() if known == "70 %"} == {*BUILDING}
    assert {known for name, known in progress.items() if name not in BUILDING} == {None}
    assert (
        "The index place.town is being built (70 %)." in run("doctor", address, "--store", "sqlite:///places.db").stdout
    )


def test_an_unknown_progress(tmp_path: Path) -> None:
    """If the progress is not known, elements have none, and the metric is not a number."""
    asyncio.run(begin_building(tmp_path, None))
    with server(tmp_path) as client:
        assert progress_of(client) == dict.fromkeys(BUILDING)
        assert isnan(parse_counts(client.get("/metrics").text)["shardql_migration_progress"])


def test_a_change_of_the_record_voids_the_progress(tmp_path: Path) -> None:
    """After a change of the table's record, nothing shows the progress from before it."""
    asyncio.run(begin_building(tmp_path, 40))

    async def change() -> None:
        async with opened_store(f"sqlite:///{tmp_path}/places.db") as store:
            record = await read_record(store)
            assert record is not None
            assert await save_record(store, record, record.changed())
            await save_progress(store, record, PassProgress(80, frozenset({record.epoch})))

    with server(tmp_path) as client:
        assert set(progress_of(client).values()) == {"40 %"}
        asyncio.run(change())
        assert set(progress_of(client).values()) == {None}
