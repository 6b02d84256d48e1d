"""Exports: complete, in order, resumable after every page, and equal after a load into another store."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import Field

from graphql_api import Catalog, Entity, Id, Index, Shards, SubId, Union
from graphql_api.database import Database
from graphql_api.errors import InvalidValue, StoreUnavailable
from graphql_api.ops import exporter
from graphql_api.ops.exporter import Exporter, ExportProgress, every_record
from graphql_api.ops.loader import LINE_RETRIES
from graphql_api.query.search_request import SearchRequest
from tests.schema.graphql_client import open_database
from tests.support.engine_params import on_both_engines
from tests.support.store_doubles import FailingStore
from tests.writes.conftest import OpenTable, open_table

__all__ = ["open_table"]


class Home(Entity, shards=Shards(5)):
    """A home in a town."""

    home_id: Id[str]
    town: str
    street: str | None = None
    rooms: list[str] = Field(default_factory=list)
    by_town = Index(hash="town", sort="street", projection="KEYS_ONLY")
    by_street = Index(sort="street", projection=["town"])
    by_home = Index(sort="home_id")
    by_any = Union("by_street", "by_home")


class Stay(Entity, shards=Shards(3)):
    """Records with sub ids, without current records."""

    visitor: Id[str]
    number: SubId[int]


CATALOG = Catalog(Home, Stay)
HOMES = [
    Home(home_id=f"h{number:03d}", town="AB"[number % 2], street=None if number % 7 == 0 else f"s{number % 10}")
    for number in range(60)
]
STAYS = [Stay(visitor=f"v{number % 4}", number=number) for number in range(30)]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports read pages of seven records."""
    monkeypatch.setattr(exporter, "MAX_LIMIT", 7)


async def exported(db: Database, request: SearchRequest, **options: Any) -> list[dict[str, Any]]:
    """Return the lines of an export as values."""
    out = io.BytesIO()
    await Exporter(db, request, **options).write_to(out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@on_both_engines
async def test_an_export_has_each_record_once_in_the_order_of_keys(open_table: OpenTable) -> None:
    """All shards are read, also those of records with sub ids, of which a search needs the id."""
    async with open_database(CATALOG, await open_table(), *HOMES, *STAYS) as db:
        homes = await exported(db, every_record(CATALOG.entity(Home)))
        assert [home["homeId"] for home in homes] == [home.home_id for home in HOMES]
        stays = await exported(db, every_record(CATALOG.entity(Stay)))
        assert [(stay["visitor"], stay["number"]) for stay in stays] == sorted(
            (stay.visitor, stay.number) for stay in STAYS
        )


async def test_an_export_of_a_search_has_its_order_and_whole_records(open_table: OpenTable) -> None:
    """Also an index that holds keys only gives all properties; unions give each record once."""
    async with open_database(CATALOG, await open_table(), *HOMES) as db:
        found = await exported(db, SearchRequest("home", "by_town", {"town": "A"}, reverse=True))
        expected = [home for home in HOMES if home.town == "A" and home.street is not None]
        expected.sort(key=lambda home: (home.street, home.home_id), reverse=True)
        assert [home["homeId"] for home in found] == [home.home_id for home in expected]
        assert all(home.keys() == {"homeId", "town", "street", "rooms"} for home in found)
        every = await exported(db, SearchRequest("home", "by_any"))
        assert sorted(home["homeId"] for home in every) == [home.home_id for home in HOMES]


async def test_an_interrupted_export_continues_where_it_stopped(
    open_table: OpenTable, tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever read fails, and whatever the file holds after the last saved page, the result is that of one run."""
    monkeypatch.setattr(exporter, "LINE_RETRIES", replace(LINE_RETRIES, max_attempts=1))
    async with open_database(CATALOG, await open_table(), *HOMES) as db:
        whole, target = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
        request = every_record(CATALOG.entity(Home))
        await Exporter(db, request).write_file(whole, "s")
        failing = FailingStore(db.store, lambda _: random.random() < 0.2)
        unreliable = Exporter(Database(CATALOG, failing, db.seal, db.clock), request)
        failures, progress = 0, None
        while progress is None:
            try:
                progress = await unreliable.write_file(target, "s")
            except StoreUnavailable:
                failures += 1
                with target.open("ab") as file:
                    file.write(b'{"homeId": "unfin')  # Written before a kill, and not saved as progress.
        assert failures > 0
        assert target.read_bytes() == whole.read_bytes()
        assert progress.records == len(HOMES)
        assert sorted(path.name for path in tmp_path.glob("*.jsonl*")) == ["parts.jsonl", "whole.jsonl"]


async def test_retryable_errors_are_retried(open_table: OpenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that fails for a moment does not end the export."""
    monkeypatch.setattr(exporter, "LINE_RETRIES", replace(LINE_RETRIES, max_backoff_seconds=0))
    failures = iter([True, True, True])
    async with open_database(CATALOG, await open_table(), *HOMES) as db:
        failing = Database(CATALOG, FailingStore(db.store, lambda _: next(failures, False)), db.seal, db.clock)
        assert len(await exported(failing, every_record(CATALOG.entity(Home)))) == len(HOMES)


async def _interrupted(db: Database, request: SearchRequest, path: Path) -> None:
    """Begin an export, and stop it after two pages."""
    shown: list[ExportProgress] = []

    def stop(progress: ExportProgress) -> None:
        shown.append(progress)
        if len(shown) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await Exporter(db, request, show=stop).write_file(path, "s")


async def test_a_file_that_does_not_fit_is_refused(open_table: OpenTable, tmp_path: Path) -> None:
    """A finished export, another search, and a changed file are refused, unless the export begins again."""
    path = tmp_path / "homes.jsonl"
    async with open_database(CATALOG, await open_table(), *HOMES) as db:
        request = every_record(CATALOG.entity(Home))
        await _interrupted(db, request, path)
        with pytest.raises(InvalidValue, match="belongs to another export"):
            await Exporter(db, SearchRequest("home", "by_street")).write_file(path, "s")
        with pytest.raises(InvalidValue, match="belongs to another export"):
            await Exporter(db, request).write_file(path, "another store")
        content = path.read_bytes()
        path.write_bytes(b"x" * len(content))
        with pytest.raises(InvalidValue, match="was changed"):
            await Exporter(db, request).write_file(path, "s")
        assert (await Exporter(db, request).write_file(path, "s", restart=True)).records == len(HOMES)
        with pytest.raises(InvalidValue, match="exists already"):
            await Exporter(db, request).write_file(path, "s")


async def test_csv_has_a_header_and_a_row_for_each_record(open_table: OpenTable, tmp_path: Path) -> None:
    """Cells hold text as it is, other values as JSON, and nothing for null; a resumed file has one header."""
    path = tmp_path / "homes.csv"
    homes = [*HOMES, Home(home_id="z", town='a "b", c\nd', street="=1", rooms=["kitchen", "é"])]
    async with open_database(CATALOG, await open_table(), *homes) as db:
        await Exporter(db, every_record(CATALOG.entity(Home)), "csv").write_file(path, "s")
    with path.open(newline="", encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == len(homes)
    assert rows[0] == {"homeId": "h000", "town": "A", "street": "", "rooms": "[]"}
    assert rows[-1] == {"homeId": "z", "town": 'a "b", c\nd', "street": "=1", "rooms": '["kitchen","é"]'}
