"""`shardql token`: development tokens."""

import asyncio
import json
import os
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from graphql_api.server.auth.authenticator import build_authenticator
from graphql_api.server.auth.principals import Identity
from graphql_api.server.secret_keys import resolve_secrets
from graphql_api.server.settings import read_settings
from tests.support.cli_runner import USERS, run

KEY = bytes(range(32)).hex()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands run in an empty directory, without settings of the test run."""
    for name in [name for name in os.environ if name.upper().startswith("SHARDQL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def authenticate(token: str, **settings: Any) -> Identity:
    """Return the identity that a server with these settings authenticates."""
    chosen = read_settings(**settings)
    authenticator = build_authenticator(chosen, lambda: resolve_secrets(chosen)[0])
    return asyncio.run(authenticator.authenticate(Headers({"authorization": f"Bearer {token}"})))


def test_token() -> None:
    """The output is only the token. Its usage is printed to the error stream."""
    result = run("token", USERS, "--subject", "alice", "--group", "Admin", "--group", "Site Staff")
    assert result.exit_code == 0
    assert authenticate(result.stdout.strip()) == Identity("alice", frozenset({"Admin", "Site Staff"}))
    assert result.stdout.count("\n") == 1
    assert "curl http://127.0.0.1:8000/graphql" in result.stderr
    assert '"authorization": "Bearer TOKEN"' in result.stderr
    assert result.stdout.strip() not in result.stderr


def test_token_before_the_first_start() -> None:
    """The command creates the key if it does not exist, and the server uses it."""
    token = run("token", USERS, "--subject", "alice", "--store", "sqlite:///own.db").stdout.strip()
    assert Path("own.db.token-key").exists()
    assert not Path("own.db").exists()
    assert authenticate(token, store="sqlite:///own.db").subject == "alice"


def test_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """If tenants are configured, a token needs one. Otherwise it must have none."""
    without = run("token", USERS, "--subject", "alice", "--tenant", "acme")
    assert (without.exit_code, without.stdout) == (2, "")
    assert "Leave --tenant out: SHARDQL_TENANT_CLAIM is not set." in without.stderr
    monkeypatch.setenv("SHARDQL_TENANT_CLAIM", "org")
    assert authenticate(run("token", USERS, "--subject", "alice", "--tenant", "acme").stdout.strip()).tenant == "acme"
    lacking = run("token", USERS, "--subject", "alice")
    assert (lacking.exit_code, lacking.stdout) == (2, "")
    assert "Add --tenant: SHARDQL_TENANT_CLAIM is set." in lacking.stderr


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("7D", 604800), ("30d", 2592000)]
)
def test_expiry(text: str, seconds: int) -> None:
    """A token expires after the given duration."""
    token = run("token", USERS, "--subject", "alice", "--expires", text).stdout
    body = token.split(".")[1]
    claims = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert claims["exp"] - claims["iat"] == seconds


@pytest.mark.parametrize("text", ["0s", "1", "h", "31d", "1.5h", "-1h", "1 week", "9999999999d", "\u0661h"])
def test_invalid_durations(text: str) -> None:
    """An invalid or too long duration is an error that says what is valid."""
    result = run("token", USERS, "--subject", "alice", "--expires", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "use a duration such as 90s, 15m, 1h or 7d, at most 30d" in result.stderr


@pytest.mark.parametrize(
    "words", [("--subject", ""), ("--subject", "a\nb"), ("--subject", "a", "--group", ""), ("--subject", "a" * 256)]
)
def test_invalid_names(words: tuple[str, ...]) -> None:
    """Subject, groups and tenant must be printable texts."""
    result = run("token", USERS, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is not a text of 1 to 255 printable characters" in result.stderr


def test_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is refused in production, which accepts no development tokens."""
    monkeypatch.setenv("SHARDQL_PRODUCTION", "1")
    result = run("token", USERS, "--subject", "alice")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Servers in production accept only tokens of their issuer" in result.stderr
    assert not [*Path().iterdir()]


def test_store_without_a_key_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a store without a key file, a key must be set for server and command."""
    result = run("token", USERS, "--subject", "alice", "--store", "dynamodb://users")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "set SHARDQL_TOKEN_KEYS for the server and here" in result.stderr
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", KEY)
    token = run("token", USERS, "--subject", "alice", "--store", "dynamodb://users").stdout.strip()
    assert authenticate(token, store="dynamodb://users").subject == "alice"


def test_misspelled_catalog() -> None:
    """A misspelled catalog is an error, and no key is created."""
    result = run("token", "graphql_api.examples.user:catalog", "--subject", "alice")
    assert (result.exit_code, result.stdout) == (4, "")
    assert not [*Path().iterdir()]


def test_key_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of an older key is valid as long as the server has that key."""
    newer = bytes(range(32, 64)).hex()
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", KEY)
    token = run("token", USERS, "--subject", "alice").stdout.strip()
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", f"{newer},{KEY}")
    assert authenticate(token).subject == "alice"
