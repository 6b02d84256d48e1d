"""`shardql table` on servers that speak DynamoDB's protocol and on SQLite, and how stores are named by URLs."""

import ast
import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
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
from graphql_api.errors import (
    ConflictingArguments,
    InvalidValue,
    ShardQLError,
    StoreRefused,
    UnknownArgument,
    WrongTable,
)
from graphql_api.opening import open_catalog
from graphql_api.ops.cloudformation import cloudformation_template
from graphql_api.ops.record_capacity import entity_capacity
from graphql_api.storage.engines import creates_tables, open_store
from graphql_api.storage.engines.dynamodb import DynamoSettings, DynamoStore
from graphql_api.storage.item_sizes import record_size
from graphql_api.storage.values import TableDefinition
from graphql_api.writes.item_keys import to_item
from tests.dynamodb_local import CREDENTIALS, REGION, ROOT, NoServer, Server, moto, session

T = TypeVar("T")


class Visit(Entity, shards=Shards(1).then(4, since=100)):
    """Somebody was here."""

    visit_id: Id[str]
    place: str
    created: Created[Timestamp]
    expires: Ttl[Timestamp] | None = None
    note: str = ""
    text: str = ""

    by_place = Index(hash="place", sort="created")


class More(Visit, name="visit"):
    """The same with further indexes, one of each kind."""

    by_created = Index(sort="created", raw=True)
    by_note = Index(sort="note", projection="KEYS_ONLY")
    by_expires = Index(sort="expires", projection=["note"])


class Other(Visit, name="visit"):
    """Another index under the same name."""

    by_place = Index(hash="place", sort="created", projection="KEYS_ONLY")


class Grown(Visit, name="visit", shards=Shards(1).then(4, since=100).then(8, since="2100-01-01")):
    """More shards, from some day on."""


first, more, other, grown = Catalog(Visit), Catalog(More), Catalog(Other), Catalog(Grown)


@pytest.fixture(scope="module")
def server(local_dynamodb: Server | NoServer) -> Iterator[Server]:
    """A server that makes tables: DynamoDB Local, and moto's where it is not."""
    if isinstance(local_dynamodb, Server):
        yield local_dynamodb
    elif os.environ.get("CI"):
        raise local_dynamodb
    else:
        with moto() as found:
            yield found


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run where nothing is, and find credentials that a local server takes."""
    monkeypatch.chdir(tmp_path)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def url(server: Server) -> str:
    """A table that does not exist yet."""
    patient = "table_pause=0.05&connect_seconds=10&read_seconds=20&deadline=60"
    return f"dynamodb://t-{uuid4().hex}?region={REGION}&endpoint={server.endpoint}&{patient}"


def run(*words: str) -> Result:
    """A command as a shell would run it; whatever it did not foresee comes through."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def table(command: str, catalog: str, url: str, *words: str) -> Result:
    """`shardql table` with one of the catalogs of this module."""
    return run("table", command, f"{__name__}:{catalog}", "--store", url, *words)


def in_store(url: str, act: Callable[[Any], Awaitable[T]]) -> T:
    """What comes of acting on the store that a URL names."""

    async def run_it() -> T:
        store = await open_store(url)
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run_it())


def client_of(server: Server) -> Any:
    """The driver's own client, to be entered."""
    return session().client("dynamodb", endpoint_url=server.endpoint)


def name_in(url: str) -> str:
    """The table that a URL names."""
    return url.removeprefix("dynamodb://").partition("?")[0]


# --- create and describe on DynamoDB ---------------------------------------------------------------------------


def test_from_nothing_to_more(url: str) -> None:
    """A table is missing, is made, fits, and gets the indexes of a later catalog; each command says what it found."""
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
    assert result.exit_code == 0, "an index too many does no harm"
    assert result.stdout.count("not needed") == 3


def test_as_json(url: str) -> None:
    """As JSON both commands say the same by names that programs can rely on."""
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
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert told["indexes"] == [{**index, "projection": "ALL", "standing": "differs"}]
    assert told["differences"] == ["Index place has the projection ALL, and the catalog needs KEYS_ONLY."]


def test_nothing_is_made_without_being_told(url: str) -> None:
    """Opening a catalog on DynamoDB makes neither a table nor an index, and says how it is done."""

    async def opened(catalog: Catalog, **how: Any) -> None:
        async with open_catalog(catalog, url, **how):
            pass

    with pytest.raises(WrongTable, match=r"no table.*shardql table create MODULE:CATALOG --store URL"):
        asyncio.run(opened(first))
    assert in_store(url, lambda store: store.describe()) is None
    asyncio.run(opened(first, create_table=True))
    with pytest.raises(WrongTable, match=r"no index created.*no index expires.*shardql table create"):
        asyncio.run(opened(more))
    with pytest.raises(WrongTable, match=r"Index place has the projection ALL.*another name="):
        asyncio.run(opened(other))
    found = in_store(url, lambda store: store.describe())
    assert [index.name for index in found.indexes] == ["place"]
    asyncio.run(opened(first))


def test_a_table_from_elsewhere_is_recorded(server: Server, url: str) -> None:
    """A table that CloudFormation made has no record of itself until the first server or `table create` writes it."""
    in_store(url, lambda store: store.ensure_table(first.table_definition()))
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
    """A generation that is not applied yet is a difference, and `table create` applies it; none can go again."""
    table("create", "first", url)
    result = table("describe", "grown", url)
    assert result.exit_code == 1
    assert (
        "! Grown has the shard generations 1, 4 since 100 in the table, and 1, 4 since 100, 8 since 4102444800 in the"
        " catalog." in result.stdout
    )
    assert "visit: 1, 4 since 100, 8 since 4102444800" in table("create", "grown", url).stdout
    assert table("describe", "grown", url).exit_code == 0
    refused = table("create", "first", url)
    assert refused.exit_code == 3
    assert "keep the applied generations" in refused.stderr
    assert table("describe", "first", url).exit_code == 1


def test_expiry_is_compared(server: Server, url: str) -> None:
    """A table that removes nothing does not fit a catalog whose records expire."""
    without = TableDefinition(first.table_definition().indexes)
    in_store(url, lambda store: store.ensure_table(without))
    assert (
        "! The table expires records by nothing, and the catalog needs expires."
        in table("describe", "first", url).stdout
    )
    table("create", "first", url)
    assert table("describe", "first", url).exit_code == 0


def test_an_index_of_another_kind_is_refused(url: str) -> None:
    """`table create` changes no index that stands; it says which, as an error of the store."""
    table("create", "first", url)
    refused = table("create", "other", url)
    assert refused.exit_code == 3
    assert refused.stderr.startswith("shardql: Index 'place' exists as")
    assert refused.stdout == ""


# --- the template, and what is counted, against a server -------------------------------------------------------


def test_the_template_and_create_make_one_table(server: Server, url: str) -> None:
    """Made from the template's properties, a table is described as one that `table create` made."""
    name = f"t-{uuid4().hex}"
    asked = cloudformation_template(more.table_definition(), name)["Resources"]["Table"]["Properties"]
    recovery = asked.pop("PointInTimeRecoverySpecification")
    expiry = asked.pop("TimeToLiveSpecification")
    assert asked.pop("DeletionProtectionEnabled") is True
    assert recovery == {"PointInTimeRecoveryEnabled": True}
    table("create", "more", url)

    async def both() -> list[dict[str, Any]]:
        async with client_of(server) as client:
            await client.create_table(**asked)
            await client.update_time_to_live(TableName=name, TimeToLiveSpecification=expiry)
            return [await described(client, each) for each in (name, name_in(url))]

    from_template, made = asyncio.run(both())
    assert from_template == made
    assert len(made["indexes"]) == 4


async def described(client: Any, name: str) -> dict[str, Any]:
    """What a table is, without its name, its age and its contents."""
    told = (await client.describe_table(TableName=name))["Table"]
    expiry = (await client.describe_time_to_live(TableName=name))["TimeToLiveDescription"]
    indexes = told["GlobalSecondaryIndexes"]
    return {
        "keys": told["KeySchema"],
        "types": sorted((part["AttributeName"], part["AttributeType"]) for part in told["AttributeDefinitions"]),
        "billing": told["BillingModeSummary"]["BillingMode"],
        "indexes": {each["IndexName"]: (each["KeySchema"], each["Projection"]) for each in indexes},
        "expiry": expiry,
    }


def test_units_are_those_that_the_engine_counts(dynamodb: Server, url: str) -> None:
    """Write units of records, on the table and on each index, are those that DynamoDB Local says it consumed."""
    spec = more.entity("More")
    lengths = [(1, 0), (300, 0), (440, 0), (540, 0), (640, 0), (640, 290), (1_000, 0), (1, 1_200), (1_000, 5_000)]
    records = [
        More(visit_id="v", place="p" * 20, created=number, expires=1_800_000_000, note="n" * note, text="t" * text)
        for number, (note, text) in enumerate(lengths, 1_700_000_000)
    ]
    reports = [entity_capacity(more, spec, [record], "one") for record in records]
    table("create", "more", url)

    async def consumed() -> list[dict[str, Any]]:
        async with client_of(dynamodb) as client:
            return [await _put_and_remove(client, name_in(url), to_item(spec, one, None, "A" * 16)) for one in records]

    for record, report, told in zip(records, reports, asyncio.run(consumed()), strict=True):
        assert told["CapacityUnits"] == report.write_units.create
        assert {name: each["CapacityUnits"] for name, each in told["GlobalSecondaryIndexes"].items()} == {
            index.name: index.write_units for index in report.indexes
        }
        assert told["Table"]["CapacityUnits"] == -(-record_size(to_item(spec, record, None, "A" * 16)) // 1024)
    drawn = {tuple(index.write_units for index in report.indexes) for report in reports}
    assert len(drawn) >= 4, "records on both sides of a kilobyte, in different indexes"


async def _put_and_remove(client: Any, name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """What a new record consumed."""
    kinds = {str: "S", int: "N"}
    wire = {attribute: {kinds[type(value)]: str(value)} for attribute, value in item.items()}
    told: dict[str, Any] = await client.put_item(TableName=name, Item=wire, ReturnConsumedCapacity="INDEXES")
    await client.delete_item(TableName=name, Key={key: wire[key] for key in ("hashKey", "rangeKey")})
    consumed: dict[str, Any] = told["ConsumedCapacity"]
    return consumed


# --- SQLite ----------------------------------------------------------------------------------------------------


def test_tables_in_a_file() -> None:
    """The commands serve SQLite as well, which removes no expired record and is not asked to."""
    store = "sqlite:///table.db"
    assert table("describe", "first", store).exit_code == 1
    assert table("create", "first", store).stdout.startswith("Created the table with 1 index: place.")
    assert table("describe", "first", store).exit_code == 0
    assert table("create", "more", store).stdout == "Added 3 indexes: created, expires, note.\n"


def test_a_file_can_be_kept_as_it_is() -> None:
    """SQLite makes tables by itself, unless it is told not to."""

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
    """The template is written as YAML or JSON, for a table of a given name or one that CloudFormation names."""
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
    ("url", "error", "said"),
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
async def test_urls_that_name_no_store(url: str, error: type[ShardQLError], said: str) -> None:
    """A URL that names no store is refused in words that say how to write it, and as an argument of the caller."""
    with pytest.raises(error) as caught:
        await open_store(url)
    assert said in caught.value.message
    assert caught.value.argument == "url"


async def test_settings_in_a_url() -> None:
    """Region, endpoint and every setting of the adapter may stand in the URL."""
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
    """The table of settings says of each its name, its default and its meaning, as the source does."""
    (settings,) = (node for node in ast.parse(getsource(DynamoSettings)).body if isinstance(node, ast.ClassDef))
    rows = [
        f"| `{knob.target.id}` | {ast.literal_eval(knob.value):g} | {told.value.value} |"
        for knob, told in pairwise(settings.body)
        if isinstance(knob, ast.AnnAssign) and isinstance(knob.target, ast.Name) and knob.value is not None
        if isinstance(told, ast.Expr) and isinstance(told.value, ast.Constant) and isinstance(told.value.value, str)
    ]
    assert len(rows) == len(fields(DynamoSettings))
    page = (ROOT / "docs" / "dynamodb.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if re.match(r"\| `[a-z_]+` \| [\d.]+ \|", line)] == rows


def test_who_makes_tables() -> None:
    """SQLite makes tables by itself, DynamoDB does not."""
    assert creates_tables("sqlite:///users.db")
    assert not creates_tables("dynamodb://users?region=eu-west-1")
