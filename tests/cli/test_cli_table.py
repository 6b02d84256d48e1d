"""`shardql table` on DynamoDB servers and SQLite, and store URLs."""

import ast
import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from inspect import getsource
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, Ttl
from graphql_api.cli import app
from graphql_api.connection import open_catalog
from graphql_api.errors import (
    ConflictingArguments,
    InvalidValue,
    ShardQLError,
    StoreRefused,
    UnknownArgument,
    WrongTable,
)
from graphql_api.ops.cloudformation import cloudformation_template
from graphql_api.ops.record_capacity import entity_capacity
from graphql_api.storage.engines import creates_tables, open_store
from graphql_api.storage.engines.dynamodb import DynamoSettings, DynamoStore
from graphql_api.storage.item_sizes import record_size
from graphql_api.storage.values import TableDefinition
from graphql_api.writes.item_keys import to_item
from tests.support.dynamodb_servers import CREDENTIALS, REGION, ROOT, Server, ServerUnavailable, moto, session

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
    """A missing table is created, and gets the indexes of a later catalog. Each command reports the differences."""
    result = table("describe", "first", url)
    assert (result.exit_code, result.stdout) == (1, "! There is no table.\n")

    result = table("create", "first", url)
    assert result.exit_code == 0
    assert result.stdout == (
        "Created the table with 1 index: place.\nRecorded format 1 and the shard generations visit: 1, 4 since 100.\n"
    )
    assert table("create", "first", url).stdout == "Nothing to do: the table has everything that the catalog needs.\n"
    result = table("describe", "first", url)
    assert result.exit_code == 0
    assert "place   visitPlaceHashKey   placeRangeKey   ALL          fits" in result.stdout
    assert "format 1\nshards of visit: 1, 4 since 100\nremoves records by expires\n" in result.stdout
    assert result.stdout.endswith("The table has everything that the catalog needs.\n")

    result = table("describe", "more", url)
    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if line.startswith("!")] == [
        "! The table has no index created.",
        "! The table has no index note.",
        "! The table has no index expires.",
    ]
    assert table("create", "more", url).stdout == "Added 3 indexes: created, expires, note.\n"
    result = table("describe", "more", url)
    assert result.exit_code == 0
    assert "created (number)" in result.stdout
    assert "INCLUDE note" in result.stdout
    result = table("describe", "first", url)
    assert result.exit_code == 0, "an additional index is no difference"
    assert result.stdout.count("not needed") == 3


def test_json_output(url: str) -> None:
    """The JSON output has the same information, under stable names."""
    made = json.loads(table("create", "first", url, "--json").stdout)
    spaces = {"visit": {"width": 2, "function": "blake2b", "generations": [{"size": 1}, {"size": 4, "since": "100"}]}}
    assert made == {"madeTable": True, "addedIndexes": ["place"], "recorded": spaces}
    assert json.loads(table("create", "first", url, "--json").stdout) == {
        "madeTable": False,
        "addedIndexes": [],
        "recorded": {},
    }
    index = {"name": "place", "hashKey": "visitPlaceHashKey", "rangeKey": "placeRangeKey", "rangeType": "S"}
    assert json.loads(table("describe", "first", url, "--json").stdout) == {
        "exists": True,
        "format": 1,
        "ttlAttribute": "expires",
        "indexes": [{**index, "projection": "ALL", "standing": "fits"}],
        "spaces": spaces,
        "differences": [],
    }
    result = table("describe", "other", url, "--json")
    description = json.loads(result.stdout)
    assert result.exit_code == 1
    assert description["indexes"] == [{**index, "projection": "ALL", "standing": "differs"}]
    assert description["differences"] == ["Index place has the projection ALL, and the catalog needs KEYS_ONLY."]


def test_opening_creates_nothing_by_default(url: str) -> None:
    """Opening a catalog on DynamoDB creates neither table nor index. The error names the command."""

    async def opened(catalog: Catalog, **how: Any) -> None:
        async with open_catalog(catalog, url, **how):
            pass

    with pytest.raises(WrongTable, match=r"no table.*shardql table create MODULE:CATALOG --store URL"):
        asyncio.run(opened(first))
    assert with_store(url, lambda store: store.describe()) is None
    asyncio.run(opened(first, create_table=True))
    with pytest.raises(WrongTable, match=r"no index created.*no index expires.*shardql table create"):
        asyncio.run(opened(more))
    with pytest.raises(WrongTable, match=r"Index place has the projection ALL.*another name="):
        asyncio.run(opened(other))
    found = with_store(url, lambda store: store.describe())
    assert [index.name for index in found.indexes] == ["place"]
    asyncio.run(opened(first))


def test_table_without_a_table_record(server: Server, url: str) -> None:
    """A table from CloudFormation has no table record until a server or `table create` writes it."""
    with_store(url, lambda store: store.ensure_table(first.table_definition()))
    result = table("describe", "first", url)
    assert result.exit_code == 1
    assert (
        "! The table does not record its format and shard generations yet. The first server records them."
        in result.stdout
    )
    assert table("create", "first", url).stdout == (
        "Recorded format 1 and the shard generations visit: 1, 4 since 100.\n"
    )


def test_generations_are_compared(url: str) -> None:
    """A new shard generation is a difference, and `table create` applies it. None can be removed."""
    table("create", "first", url)
    result = table("describe", "grown", url)
    assert result.exit_code == 1
    assert (
        "! MoreShards has the shard generations 1, 4 since 100 in the table, and 1, 4 since 100, 8 since 4102444800"
        " in the catalog." in result.stdout
    )
    assert "visit: 1, 4 since 100, 8 since 4102444800" in table("create", "grown", url).stdout
    assert table("describe", "grown", url).exit_code == 0
    refused = table("create", "first", url)
    assert refused.exit_code == 3
    assert "keep the applied generations" in refused.stderr
    assert table("describe", "first", url).exit_code == 1


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


def test_different_index_is_refused(url: str) -> None:
    """`table create` does not change an existing index. It reports an error that names it."""
    table("create", "first", url)
    refused = table("create", "other", url)
    assert refused.exit_code == 3
    assert refused.stderr.startswith("shardql: Index 'place' exists as")
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
    assert table("create", "first", store).stdout.startswith("Created the table with 1 index: place.")
    assert table("describe", "first", store).exit_code == 0
    assert table("create", "more", store).stdout == "Added 3 indexes: created, expires, note.\n"


def test_sqlite_without_table_creation() -> None:
    """SQLite creates tables on opening, unless this is disabled."""

    async def opened(catalog: Catalog, **how: Any) -> None:
        async with open_catalog(catalog, "sqlite:///table.db", **how):
            pass

    with pytest.raises(WrongTable, match="no table"):
        asyncio.run(opened(first, create_table=False))
    asyncio.run(opened(first))
    with pytest.raises(WrongTable, match="no index created"):
        asyncio.run(opened(more, create_table=False))
    asyncio.run(opened(more))
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


# --- URLs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("dynamo://users", UnknownArgument, "is not a store URL. Use sqlite:///"),
        ("dynamo://users?region=a", UnknownArgument, "Did you mean 'dynamodb://users?region=a'?"),
        ("dynamodb:users", UnknownArgument, "Did you mean 'dynamodb://users'?"),
        ("sqlite:///", UnknownArgument, "or dynamodb://table."),
        ("sqlite://users.db", UnknownArgument, "Did you mean 'sqlite:///users.db'?"),
        ("sqlit:////srv/users.db", UnknownArgument, "Did you mean 'sqlite:////srv/users.db'?"),
        ("dynamodb://", InvalidValue, "'' is not a valid table name"),
        ("dynamodb://ab", InvalidValue, "'ab' is not a valid table name"),
        ("dynamodb://users/more", InvalidValue, "'users/more' is not a valid table name"),
        ("dynamodb://users?region", InvalidValue, "The options 'region' are invalid"),
        ("dynamodb://users?regoin=eu-west-1", UnknownArgument, "Did you mean 'region'?"),
        ("dynamodb://users?dedline=1", UnknownArgument, "Did you mean 'deadline'?"),
        ("dynamodb://users?region=a&region=b", ConflictingArguments, "The option region is set twice"),
        ("dynamodb://users?endpoint=localhost:8000", InvalidValue, "endpoint is 'localhost:8000'"),
        ("dynamodb://users?deadline=soon", InvalidValue, "deadline is 'soon'. Use a number"),
        ("dynamodb://users?deadline=nan", InvalidValue, "deadline is 'nan'. Use a number"),
        ("dynamodb://users?attempts=2.5", InvalidValue, "attempts is '2.5'. Use a whole number"),
        ("dynamodb://users?region=eu-west-1&attempts=0", StoreRefused, "attempts is 0"),
    ],
)
async def test_invalid_store_urls(url: str, error: type[ShardQLError], message: str) -> None:
    """An invalid store URL is an argument error that says how to write it."""
    with pytest.raises(error) as caught:
        await open_store(url)
    assert message in caught.value.message
    assert caught.value.argument == "url"


async def test_settings_in_a_url() -> None:
    """A URL may contain region, endpoint and every DynamoDB setting."""
    store = await open_store("dynamodb://users?region=eu-west-1&endpoint=http%3A//127.0.0.1:9&deadline=0.25&attempts=2")
    try:
        assert isinstance(store, DynamoStore)
        settings, meta = store._api.settings, store._api._client.meta
        assert (settings.deadline, settings.attempts) == (0.25, 2)
        assert (type(settings.deadline), type(settings.attempts)) == (float, int)
        assert (meta.region_name, meta.endpoint_url) == ("eu-west-1", "http://127.0.0.1:9")
    finally:
        await store.close()


def test_settings_are_documented() -> None:
    """The table of DynamoDB settings equals the defaults and docstrings in the source."""
    (settings,) = (node for node in ast.parse(getsource(DynamoSettings)).body if isinstance(node, ast.ClassDef))
    rows = [
        f"| `{setting.target.id}` | {ast.literal_eval(setting.value):g} | {description.value.value} |"
        for setting, description in pairwise(settings.body)
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name) and setting.value is not None
        if isinstance(description, ast.Expr)
        and isinstance(description.value, ast.Constant)
        and isinstance(description.value.value, str)
    ]
    assert len(rows) == len(fields(DynamoSettings))
    page = (ROOT / "docs" / "dynamodb.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if re.match(r"\| `[a-z_]+` \| [\d.]+ \|", line)] == rows


def test_engines_that_create_tables() -> None:
    """SQLite creates tables on opening, DynamoDB does not."""
    assert creates_tables("sqlite:///users.db")
    assert not creates_tables("dynamodb://users?region=eu-west-1")
