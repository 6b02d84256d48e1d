"""`shardql token`: tokens for development."""

import asyncio
import json
import os
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from graphql_api.server.auth.auth_configuration import build_authenticator
from graphql_api.server.auth.identity import Identity
from graphql_api.server.development_keys import resolve_secrets
from graphql_api.server.settings import read_settings
from tests.unit.shell import USERS, run

KEY = bytes(range(32)).hex()


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of its own, and no settings from where the tests run."""
    for name in [name for name in os.environ if name.upper().startswith("SHARDQL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def who(token: str, **settings: Any) -> Identity:
    """For whom a server with these settings takes a token."""
    chosen = read_settings(**settings)
    authenticator = build_authenticator(chosen, resolve_secrets(chosen)[0])
    return asyncio.run(authenticator.authenticate(Headers({"authorization": f"Bearer {token}"})))


def test_a_token_for_somebody() -> None:
    """The token alone is the output, for whoever was named; how to send it goes to the error stream."""
    result = run("token", USERS, "--subject", "alice", "--group", "Admin", "--group", "Site Staff")
    assert result.exit_code == 0
    assert who(result.stdout.strip()) == Identity("alice", frozenset({"Admin", "Site Staff"}))
    assert result.stdout.count("\n") == 1
    assert "curl http://127.0.0.1:8000/graphql" in result.stderr
    assert '"authorization": "Bearer TOKEN"' in result.stderr
    assert result.stdout.strip() not in result.stderr


def test_a_server_that_starts_later() -> None:
    """The key that the first start would make is made by the command, and the server finds it."""
    token = run("token", USERS, "--subject", "alice", "--store", "sqlite:///own.db").stdout.strip()
    assert Path("own.db.token-key").exists()
    assert not Path("own.db").exists()
    assert who(token, store="sqlite:///own.db").subject == "alice"


def test_a_token_of_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are tenants a token names one, and elsewhere none: anything else is told."""
    without = run("token", USERS, "--subject", "alice", "--tenant", "acme")
    assert (without.exit_code, without.stdout) == (2, "")
    assert "Leave --tenant out: SHARDQL_TENANT_CLAIM is not set." in without.stderr
    monkeypatch.setenv("SHARDQL_TENANT_CLAIM", "org")
    assert who(run("token", USERS, "--subject", "alice", "--tenant", "acme").stdout.strip()).tenant == "acme"
    lacking = run("token", USERS, "--subject", "alice")
    assert (lacking.exit_code, lacking.stdout) == (2, "")
    assert "Add --tenant: SHARDQL_TENANT_CLAIM is set." in lacking.stderr


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("7D", 604800), ("30d", 2592000)]
)
def test_how_long_it_is_good_for(text: str, seconds: int) -> None:
    """A token is good for as long as was asked for."""
    token = run("token", USERS, "--subject", "alice", "--expires", text).stdout
    body = token.split(".")[1]
    claims = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert claims["exp"] - claims["iat"] == seconds


@pytest.mark.parametrize("text", ["0s", "1", "h", "31d", "1.5h", "-1h", "1 week", "9999999999d", "\u0661h"])
def test_times_that_are_none(text: str) -> None:
    """What is no time, or too long a one, is told with what it may be."""
    result = run("token", USERS, "--subject", "alice", "--expires", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "use a duration such as 90s, 15m, 1h or 7d, at most 30d" in result.stderr


@pytest.mark.parametrize(
    "words", [("--subject", ""), ("--subject", "a\nb"), ("--subject", "a", "--group", ""), ("--subject", "a" * 256)]
)
def test_names_that_are_none(words: tuple[str, ...]) -> None:
    """Subject, groups and tenant are texts that can be printed."""
    result = run("token", USERS, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is not a text of 1 to 255 printable characters" in result.stderr


def test_no_tokens_for_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is minted for a server in production, which would not take it."""
    monkeypatch.setenv("SHARDQL_PRODUCTION", "1")
    result = run("token", USERS, "--subject", "alice")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Servers in production accept only tokens of their issuer" in result.stderr
    assert not [*Path().iterdir()]


def test_a_store_whose_servers_make_new_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a store without a place for a key one must be set, for the server and for the command."""
    result = run("token", USERS, "--subject", "alice", "--store", "dynamodb://users")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "set SHARDQL_TOKEN_KEYS for the server and here" in result.stderr
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", KEY)
    token = run("token", USERS, "--subject", "alice", "--store", "dynamodb://users").stdout.strip()
    assert who(token, store="dynamodb://users").subject == "alice"


def test_a_catalog_that_there_is_none_of() -> None:
    """A mistyped catalog is told before anything is made."""
    result = run("token", "graphql_api.examples.user:catalog", "--subject", "alice")
    assert (result.exit_code, result.stdout) == (4, "")
    assert not [*Path().iterdir()]


def test_keys_that_rotate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that was minted with an older key is taken as long as the server knows that key."""
    newer = bytes(range(32, 64)).hex()
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", KEY)
    token = run("token", USERS, "--subject", "alice").stdout.strip()
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", f"{newer},{KEY}")
    assert who(token).subject == "alice"
