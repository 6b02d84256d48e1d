"""`shardql table` on DynamoDB servers and SQLite, and store URLs."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, Ttl, connection
from graphql_api.cli import app
from graphql_api.connection import open_catalog
from graphql_api.errors import StoreUnavailable, WrongTable
from graphql_api.evolution import TABLE_RECORD_KEY
from graphql_api.ops.cloudformation import cloudformation_template
from graphql_api.ops.record_capacity import entity_capacity
from graphql_api.ops.service_stack import service_template
from graphql_api.runtime import RetryStrategy
from graphql_api.storage.engines import open_store
from graphql_api.storage.item_rules import record_size
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Put, TableDefinition
from graphql_api.writes.entity_records import item_at
from graphql_api.writes.item_keys import to_item
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server, ServerUnavailable, moto, session

T = TypeVar("T")


class Visit(Entity, shards=Shards(1).then(4, since=100)):
    """A record with one index."""

    visit_id: Id[str]
    place: str
    created: Created[Timestamp]
    expires: Ttl[Timestamp] | None = None
    note: str = ""
    text: str = ""

    by_place = Index(hash="place", sort="created")


class MoreIndexes(Visit, name="visit"):
    """The same entity with further indexes, one of each kind."""

    by_created = Index(sort="created", raw=True)
    by_note = Index(sort="note", projection="KEYS_ONLY")
    by_expires = Index(sort="expires", projection=["note"])


class OtherIndex(Visit, name="visit"):
    """The same entity with another definition of its index."""

    by_place = Index(hash="place", sort="created", projection="KEYS_ONLY")


class MoreShards(Visit, name="visit", shards=Shards(1).then(4, since=100).then(8, since="2100-01-01")):
    """The same entity with one more shard generation."""


first, more, other, grown = Catalog(Visit), Catalog(MoreIndexes), Catalog(OtherIndex), Catalog(MoreShards)


@pytest.fixture(scope="module")
def server(local_dynamodb: Server | ServerUnavailable) -> Iterator[Server]:
    """A server that supports table operations: DynamoDB Local, or moto as a substitute."""
    if isinstance(local_dynamodb, Server):
        yield local_dynamodb
    elif os.environ.get("CI"):
        raise local_dynamodb
    else:
        with moto() as found:
            yield found


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory, with credentials for a local server."""
    monkeypatch.chdir(tmp_path)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    """The URL of a table that does not exist yet.

    It is deleted after the test: with some tables that expire records, DynamoDB Local completes no added index.
    """
    timeouts = "table_pause=0.05&connect_seconds=10&read_seconds=20&deadline=60"
    name = f"t-{uuid4().hex}"
    yield f"dynamodb://{name}?region={REGION}&endpoint={server.endpoint}&{timeouts}"
    asyncio.run(delete_table(server, name))


async def delete_table(server: Server, name: str) -> None:
    """Delete a table if it exists."""
    async with client_of(server) as client:
        with suppress(client.exceptions.ResourceNotFoundException):
            await client.delete_table(TableName=name)


def run(*words: str) -> Result:
    """Run a command. Unexpected exceptions are raised."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def table(command: str, catalog: str, url: str, *words: str) -> Result:
    """Run `shardql table` with a catalog of this module."""
    return run("table", command, f"{__name__}:{catalog}", "--store", url, *words)


def with_store(url: str, act: Callable[[Any], Awaitable[T]]) -> T:
    """Apply a function to the store with this URL."""

    async def run_it() -> T:
        store = await open_store(url)
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run_it())


def client_of(server: Server) -> Any:
    """Return the driver's client, as a context manager."""
    return session().client("dynamodb", endpoint_url=server.endpoint)


def table_name(url: str) -> str:
    """Return the name of the table from a URL."""
    return url.removeprefix("dynamodb://").partition("?")[0]


# --- create and describe on DynamoDB ---------------------------------------------------------------------------


def test_create_and_extend_a_table(url: str) -> None:
    """A missing table is created. The indexes of a later catalog are announced only, and reported as pending."""
    result = table("describe", "first", url)
    assert result.exit_code == 1
    assert result.stdout == f"! There is no table.\nCreate what is missing with: {create_command('first', url)}\n"

    result = table("create", "first", url)
    assert result.exit_code == 0
    assert result.stdout == (
        "Created the table with 1 index: place.\n"
        "Recorded format 2 and the shard generations visit: 1, 4 since 1970-01-01 00:01:40.\n"
    )
    assert table("create", "first", url).stdout == "Nothing to do: the table has everything that the catalog needs.\n"
    result = table("describe", "first", url)
    assert result.exit_code == 0
    assert "place   visitPlaceHashKey   placeRangeKey   ALL          fits" in result.stdout
    assert (
        "format 2\nshards of visit: 1, 4 since 1970-01-01 00:01:40\nelements: 9 ready\nremoves records by expires\n"
        in result.stdout
    )
    assert result.stdout.endswith("The table has everything that the catalog needs.\n")

    result = table("describe", "more", url)
    assert result.exit_code == 1
    assert marked(result.stdout) == [
        f"! The index visit.{name} is not recorded in the table yet." for name in ("created", "expires", "note")
    ]
    announced = [
        *(f"! The index visit.{name} is announced, and not built yet." for name in ("created", "expires", "note")),
        f'Build it with: shardql migrate {__name__}:more --store "{url}" --apply',
    ]
    result = table("create", "more", url)
    assert (result.exit_code, result.stdout.splitlines()) == (0, announced)
    assert table("create", "more", url).stdout.splitlines() == announced
    result = table("describe", "more", url)
    assert result.exit_code == 1
    assert marked(result.stdout) == announced[:-1]
    assert "created (number)" in result.stdout
    assert "INCLUDE note" in result.stdout
    assert result.stdout.count("missing") == 3
    assert "elements: 9 ready, 3 announced\n" in result.stdout
    result = table("describe", "first", url)
    assert result.exit_code == 1
    assert marked(result.stdout) == announced[:-1], "an element of another catalog is pending too"
    assert "declared only by other catalogs: 3\n" in result.stdout


def test_an_additional_index_is_no_difference(url: str) -> None:
    """A table with indexes that only another catalog declares matches."""
    table("create", "more", url)
    result = table("describe", "first", url)
    assert result.exit_code == 0
    assert result.stdout.count("not needed") == 3


def marked(output: str) -> list[str]:
    """Return the lines about differences."""
    return [line for line in output.splitlines() if line.startswith("!")]


def create_command(catalog: str, url: str) -> str:
    """Return the command that creates a table."""
    return f'shardql table create {__name__}:{catalog} --store "{url}"'


def test_json_output(url: str) -> None:
    """The JSON output has the same information, under stable names."""
    made = json.loads(table("create", "first", url, "--json").stdout)
    generations = [{"size": 1}, {"size": 4, "since": "100", "state": "ready"}]
    spaces = {"visit": {"width": 2, "function": "blake2b", "generations": generations}}
    assert made == {"madeTable": True, "addedIndexes": ["place"], "recorded": spaces, "pending": []}
    assert json.loads(table("create", "first", url, "--json").stdout) == {
        "madeTable": False,
        "addedIndexes": [],
        "recorded": {},
        "pending": [],
    }
    index = {"name": "place", "hashKey": "visitPlaceHashKey", "rangeKey": "placeRangeKey", "rangeType": "S"}
    described = json.loads(table("describe", "first", url, "--json").stdout)
    elements = described.pop("elements")
    assert described == {
        "exists": True,
        "format": 2,
        "epoch": 1,
        "leaseSeconds": 30,
        "ttlAttribute": "expires",
        "indexes": [{**index, "projection": "ALL", "status": "fits"}],
        "lookups": [],
        "spaces": spaces,
        "differences": [],
    }
    element = {"kind": "index", "entity": "visit", "name": "place", "progress": None}
    assert {**element, "state": "ready", "checked": True, "epoch": 1, "declared": True} in elements
    assert len(elements) == 9
    pending = json.loads(table("create", "more", url, "--json").stdout)["pending"]
    assert {"element": "index visit.note", "state": "announced"} in pending
    described = json.loads(table("describe", "first", url, "--json").stdout)
    element = {"kind": "index", "entity": "visit", "name": "note", "progress": None}
    assert {**element, "state": "announced", "checked": True, "epoch": 2, "declared": False} in described["elements"]
    assert described["differences"][-1] == "The index visit.note is announced, and not built yet."


def test_another_definition_in_json(url: str) -> None:
    """An index with another definition is a difference of the physical table and of the element."""
    table("create", "first", url)
    result = table("describe", "other", url, "--json")
    description = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(index["name"], index["status"]) for index in description["indexes"]] == [("place", "differs")]
    assert description["differences"] == [
        "Index place has the projection ALL, and the catalog needs KEYS_ONLY.",
        "The index visit.place has another definition in the table.",
    ]


def test_opening_creates_nothing_by_default(url: str) -> None:
    """Opening a catalog on DynamoDB creates neither table nor index. The error names the command."""

    async def opened(catalog: Catalog, **how: Any) -> None:
        async with open_catalog(catalog, url, **how):
            pass

    with pytest.raises(WrongTable, match=r"no table.*shardql table create MODULE:CATALOG --store URL"):
        asyncio.run(opened(first))
    assert with_store(url, lambda store: store.describe()) is None
    asyncio.run(opened(first, create_table=True))
    with pytest.raises(WrongTable, match=r"Index place has the projection ALL.*another name="):
        asyncio.run(opened(other))
    asyncio.run(opened(more, create_table=True))
    found = with_store(url, lambda store: store.describe())
    assert [index.name for index in found.indexes] == ["place"], "only a migration adds indexes of stored records"
    asyncio.run(opened(first))


def test_table_without_a_table_record(server: Server, url: str) -> None:
    """A table from CloudFormation has no table record until a server or `table create` writes it."""
    with_store(url, lambda store: store.ensure_table(first.table_definition()))
    result = table("describe", "first", url)
    assert result.exit_code == 1
    assert marked(result.stdout) == [
        "! The table has no record of its entities and elements yet. The first server writes it."
    ]
    assert table("create", "first", url).stdout == (
        "Recorded format 2 and the shard generations visit: 1, 4 since 1970-01-01 00:01:40.\n"
    )


def test_table_of_an_earlier_format(url: str) -> None:
    """A table of the first format is a difference until it is taken over. Then its elements are unchecked."""
    with_store(url, lambda store: store.ensure_table(first.table_definition()))
    spaces = {"visit": {"width": 2, "function": "blake2b", "generations": [{"size": 1}, {"size": 4, "since": "100"}]}}
    earlier = item_at(TABLE_RECORD_KEY, {"format": 1, "spaces": spaces, "indexes": {}})
    with_store(url, lambda store: store.write([Put(earlier)]))
    result = table("describe", "first", url)
    assert result.exit_code == 1
    assert marked(result.stdout) == [
        "! The table has format 1, which an earlier release wrote, and is not taken over yet."
    ]
    assert create_command("first", url) in result.stdout
    table("create", "first", url)
    result = table("describe", "first", url)
    assert result.exit_code == 1
    unchecked = "is unchecked: nothing has verified that all stored records comply with it."
    assert f"! The index visit.place {unchecked}" in marked(result.stdout)
    assert f'Verify it with: shardql migrate {__name__}:first --store "{url}" --apply' in result.stdout


def test_generations_are_compared(url: str) -> None:
    """A new shard generation is a difference, and `table create` announces it."""
    table("create", "first", url)
    result = table("describe", "grown", url)
    assert (result.exit_code, marked(result.stdout)) == (
        1,
        ["! The generation visit.2 is not recorded in the table yet."],
    )
    table("create", "grown", url)
    result = table("describe", "grown", url)
    assert "shards of visit: 1, 4 since 1970-01-01 00:01:40, 8 since 2100-01-01\n" in result.stdout
    assert marked(result.stdout) == ["! The generation visit.2 is announced, and not built yet."]


def test_expiry_is_compared(server: Server, url: str) -> None:
    """A table without expiry does not match a catalog with expiring records."""
    without = TableDefinition(first.table_definition().indexes)
    with_store(url, lambda store: store.ensure_table(without))
    assert (
        "! The table expires records by nothing, and the catalog needs expires."
        in table("describe", "first", url).stdout
    )
    table("create", "first", url)
    assert table("describe", "first", url).exit_code == 0


def test_a_deleted_index_is_created_again(server: Server, url: str) -> None:
    """A physical index that somebody has deleted is a difference. Records have its attributes, so it can be filled."""
    table("create", "first", url)

    async def delete_index() -> None:
        async with client_of(server) as client:
            change = {"Delete": {"IndexName": "place"}}
            await client.update_table(TableName=table_name(url), GlobalSecondaryIndexUpdates=[change])
            described = partial(client.describe_table, TableName=table_name(url))
            while (await described())["Table"].get("GlobalSecondaryIndexes"):  # noqa: ASYNC110 - the server sends no event
                await asyncio.sleep(0.05)

    asyncio.run(delete_index())
    described = table("describe", "first", url)
    assert (described.exit_code, marked(described.stdout)) == (1, ["! The table has no index place."])
    assert create_command("first", url) in described.stdout
    assert table("create", "first", url).stdout == "Added 1 index: place.\n"
    assert table("describe", "first", url).exit_code == 0


def test_different_index_is_refused(url: str) -> None:
    """`table create` does not change an existing index. It reports an error that names it."""
    table("create", "first", url)
    refused = table("create", "other", url)
    assert refused.exit_code == 3
    assert refused.stderr.startswith("shardql: Index place has the projection ALL, and the catalog needs KEYS_ONLY.")
    assert refused.stdout == ""


# --- template and capacity, compared with a server --------------------------------------------------------------


def test_template_equals_created_table(server: Server, url: str) -> None:
    """A table created from the template has the same description as one from `table create`."""
    name = f"t-{uuid4().hex}"
    properties = cloudformation_template(more.table_definition(), name)["Resources"]["Table"]["Properties"]
    recovery = properties.pop("PointInTimeRecoverySpecification")
    expiry = properties.pop("TimeToLiveSpecification")
    assert properties.pop("DeletionProtectionEnabled") is True
    assert recovery == {"PointInTimeRecoveryEnabled": True}
    table("create", "more", url)

    async def both() -> list[dict[str, Any]]:
        async with client_of(server) as client:
            await client.create_table(**properties)
            await client.update_time_to_live(TableName=name, TimeToLiveSpecification=expiry)
            return [await describe(client, each) for each in (name, table_name(url))]

    from_template, made = asyncio.run(both())
    assert from_template == made
    assert len(made["indexes"]) == 4


async def describe(client: Any, name: str) -> dict[str, Any]:
    """Describe a table without its name, age and contents."""
    description = (await client.describe_table(TableName=name))["Table"]
    expiry = (await client.describe_time_to_live(TableName=name))["TimeToLiveDescription"]
    indexes = description["GlobalSecondaryIndexes"]
    return {
        "keys": description["KeySchema"],
        "types": sorted((part["AttributeName"], part["AttributeType"]) for part in description["AttributeDefinitions"]),
        "billing": description["BillingModeSummary"]["BillingMode"],
        "indexes": {each["IndexName"]: (each["KeySchema"], each["Projection"]) for each in indexes},
        "expiry": expiry,
    }


def test_write_units_equal_consumed_capacity(dynamodb: Server, url: str) -> None:
    """Estimated write units of table and indexes equal the capacity that DynamoDB Local reports."""
    spec = more.entity("MoreIndexes")
    lengths = [(1, 0), (300, 0), (440, 0), (540, 0), (640, 0), (640, 290), (1_000, 0), (1, 1_200), (1_000, 5_000)]
    records = [
        MoreIndexes(
            visit_id="v", place="p" * 20, created=number, expires=1_800_000_000, note="n" * note, text="t" * text
        )
        for number, (note, text) in enumerate(lengths, 1_700_000_000)
    ]
    reports = [entity_capacity(more, spec, [record], "one") for record in records]
    table("create", "more", url)

    async def consumed() -> list[dict[str, Any]]:
        async with client_of(dynamodb) as client:
            return [
                await _put_and_remove(client, table_name(url), to_item(spec, one, None, "A" * 16)) for one in records
            ]

    for record, report, description in zip(records, reports, asyncio.run(consumed()), strict=True):
        assert description["CapacityUnits"] == report.write_units.create
        assert {name: each["CapacityUnits"] for name, each in description["GlobalSecondaryIndexes"].items()} == {
            index.name: index.write_units for index in report.indexes
        }
        assert description["Table"]["CapacityUnits"] == -(-record_size(to_item(spec, record, None, "A" * 16)) // 1024)
    drawn = {tuple(index.write_units for index in report.indexes) for report in reports}
    assert len(drawn) >= 4, "records on both sides of a kilobyte, in different indexes"


async def _put_and_remove(client: Any, name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the consumed capacity of a new record."""
    kinds = {str: "S", int: "N"}
    wire = {attribute: {kinds[type(value)]: str(value)} for attribute, value in item.items()}
    description: dict[str, Any] = await client.put_item(TableName=name, Item=wire, ReturnConsumedCapacity="INDEXES")
    await client.delete_item(TableName=name, Key={key: wire[key] for key in ("hashKey", "rangeKey")})
    consumed: dict[str, Any] = description["ConsumedCapacity"]
    return consumed


# --- SQLite ----------------------------------------------------------------------------------------------------


def test_sqlite_table() -> None:
    """The commands support SQLite, which needs no expiry setting."""
    store = "sqlite:///table.db"
    assert table("describe", "first", store).exit_code == 1
    assert not Path("table.db").exists(), "a description creates nothing"
    assert table("create", "first", store).stdout.startswith("Created the table with 1 index: place.")
    assert table("describe", "first", store).exit_code == 0
    assert len(marked(table("create", "more", store).stdout)) == 3


class StartingStore(ForwardingStore):
    """A store whose engine answers the third request first."""

    failures = 0

    async def describe(self) -> TableDefinition | None:
        if self.failures < 2:
            self.failures += 1
            raise StoreUnavailable("The engine does not answer. Try again.")
        return await super().describe()


def test_a_store_that_is_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """`table create` waits for an engine that is starting."""

    @asynccontextmanager
    async def opened_store(url: str, *, read_only: bool) -> AsyncIterator[Store]:
        assert not read_only
        store = await open_store(url)
        yield StartingStore(store)
        await store.close()

    monkeypatch.setattr(connection, "opened_store", opened_store)
    retries = RetryStrategy(first_backoff_seconds=0.001, max_backoff_seconds=0.001, max_seconds=60)
    monkeypatch.setattr(connection, "OPENING_RETRIES", retries)
    assert table("create", "first", "sqlite:///table.db").stdout.startswith("Created the table with 1 index: place.")


def test_sqlite_without_table_creation() -> None:
    """SQLite creates tables on opening, unless this is disabled."""

    async def opened(catalog: Catalog, **how: Any) -> None:
        async with open_catalog(catalog, "sqlite:///table.db", **how):
            pass

    with pytest.raises(WrongTable, match="no table"):
        asyncio.run(opened(first, create_table=False))
    asyncio.run(opened(first))
    asyncio.run(opened(more, create_table=False))


# --- the template command --------------------------------------------------------------------------------------


def test_template_command() -> None:
    """The template is written as YAML or JSON, with a given table name or without one."""
    address = f"{__name__}:first"
    plain, named = (
        json.loads(run("table", "template", address, *words, "--json").stdout) for words in ((), ("--table", "visits"))
    )
    assert plain == cloudformation_template(first.table_definition())
    assert named == cloudformation_template(first.table_definition(), "visits")
    text = run("table", "template", address, "--table", "visits").stdout
    assert "      TableName: visits\n" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_template_of_a_service() -> None:
    """With a service, the template serves the same catalog with the variables of the command. Keys are refused."""
    address = f"{__name__}:first"
    words = ("table", "template", address, "--with-service", "--json")
    written = json.loads(run(*words, "--env", "SHARDQL_LOG_LEVEL=debug", "--env", "A=b=c").stdout)
    variables = {"SHARDQL_LOG_LEVEL": "debug", "A": "b=c"}
    assert written == service_template(first.table_definition(), address, environment=variables)
    for refused, problem in (
        ((*words, "--env", "SHARDQL_TOKEN_KEYS=x"), "Secrets Manager"),
        ((*words, "--env", "novalue"), "NAME=VALUE"),
        (("table", "template", address, "--env", "A=b"), "--with-service"),
    ):
        result = run(*refused)
        assert result.exit_code == 2
        assert problem in result.stderr
