"""Store URLs: which are valid, and what they set."""

import ast
import re
from dataclasses import fields
from inspect import getsource
from itertools import pairwise

import pytest

from graphql_api.errors import ConflictingArguments, InvalidValue, ShardQLError, StoreRefused, UnknownArgument
from graphql_api.storage.engines import creates_tables, open_store
from graphql_api.storage.engines.dynamodb import DynamoSettings, DynamoStore
from graphql_api.storage.engines.dynamodb.direct_transport import DirectTransport
from graphql_api.storage.engines.dynamodb.driver_client import ClientTransport
from tests.support.dynamodb_servers import CREDENTIALS, ROOT


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are opened with credentials for a local server."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


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
        (
            "dynamodb://users?region=eu-west-1&transport=http",
            StoreRefused,
            "Use direct or aioboto3.",
        ),
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
        settings, meta = store._api.settings, store._api._transport._client.meta  # type: ignore[attr-defined]
        assert (settings.deadline, settings.attempts) == (0.25, 2)
        assert (type(settings.deadline), type(settings.attempts)) == (float, int)
        assert (meta.region_name, meta.endpoint_url) == ("eu-west-1", "http://127.0.0.1:9")
    finally:
        await store.close()


def documented_default(value: ast.expr) -> str:
    """A default as the documents write it."""
    default = ast.literal_eval(value)
    return default if isinstance(default, str) else f"{default:g}"


def test_settings_are_documented() -> None:
    """The table of DynamoDB settings equals the defaults and docstrings in the source."""
    (settings,) = (node for node in ast.parse(getsource(DynamoSettings)).body if isinstance(node, ast.ClassDef))
    rows = [
        f"| `{setting.target.id}` | {documented_default(setting.value)} | {' '.join(description.value.value.split())} |"
        for setting, description in pairwise(settings.body)
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name) and setting.value is not None
        if isinstance(description, ast.Expr)
        and isinstance(description.value, ast.Constant)
        and isinstance(description.value.value, str)
    ]
    assert len(rows) == len(fields(DynamoSettings))
    page = (ROOT / "docs" / "how-to" / "dynamodb.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if re.match(r"\| `[a-z_]+` \| [\w.]+ \|", line)] == rows


def test_engines_that_create_tables() -> None:
    """SQLite creates tables on opening, DynamoDB does not."""
    assert creates_tables("sqlite:///users.db")
    assert not creates_tables("dynamodb://users?region=eu-west-1")


async def test_the_transport_in_a_url() -> None:
    """A URL may choose the transport."""
    for transport, kind in (("direct", DirectTransport), ("aioboto3", ClientTransport)):
        store = await open_store(f"dynamodb://users?region=eu-west-1&transport={transport}")
        assert isinstance(store, DynamoStore)
        assert isinstance(store._api._transport, kind)
        await store.close()
