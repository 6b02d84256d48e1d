"""`shardql doctor`: checks of credentials."""

import json
from pathlib import Path

import pytest

from tests.server.server_processes import KEY
from tests.support.cli_runner import USERS, run
from tests.support.token_issuer import Issuer, jwks, private_key, public_jwk, serve_jwks, token_segment

API_KEY = "a-key-of-more-than-twenty-characters"


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory."""
    monkeypatch.chdir(tmp_path)


def examine(monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[int, list[str]]:
    """Return the exit code, and the report lines about callers, with these settings."""
    for name, value in variables.items():
        monkeypatch.setenv(f"SHARDQL_{name.upper()}", value)
    result = run("doctor", USERS)
    lines = [line for line in result.stdout.splitlines() if line[2:].startswith("callers")]
    return result.exit_code, [f"{line[0]} {line[2:].removeprefix('callers').strip()}" for line in lines]


def test_default_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings, anonymous callers are accepted, which is no finding."""
    assert examine(monkeypatch) == (0, ["✓ Accepted callers: anonymous; tokens of `shardql token`."])


def test_available_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are fetched once, and their algorithms are reported."""
    with serve_jwks(Issuer()) as issuer:
        code, lines = examine(monkeypatch, jwks=issuer.address, jwt_issuer="me", jwt_audiences="shop")
        assert issuer.request_count == 1
    assert code == 0
    assert all(line.startswith("✓ ") for line in lines)
    assert lines[-1].endswith(f"Usable keys of {issuer.address}: 1, for PS256, PS384, PS512, RS256, RS384, RS512.")


def test_unchecked_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing issuer, a missing audience, and an unavailable key set are findings."""
    with serve_jwks(Issuer(responses=[(500, b"", {})])) as issuer:
        code, lines = examine(monkeypatch, jwks=issuer.address)
    assert code == 1
    assert [line for line in lines if line.startswith("! ")] == [
        "! Tokens of any issuer are accepted if their key is in the key set. Set SHARDQL_JWT_ISSUER.",
        (
            "! Tokens that the issuer created for other services are accepted too. "
            "Set SHARDQL_JWT_AUDIENCES to the audience of this service."
        ),
        (
            f"! {issuer.address} is unavailable: The response has status 500. "
            "Until it responds, no bearer token is accepted."
        ),
    ]


def test_unusable_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report counts unusable keys, and names the algorithms of the others."""
    secret = {"kty": "oct", "k": token_segment(b"s" * 32)}
    weak = public_jwk("RS256", private_key("RS256", bits=1024))
    Path("jwks.json").write_bytes(jwks(secret, weak))
    named = {"jwks": "jwks.json", "jwt_issuer": "me", "jwt_audiences": "shop", "jwt_algorithms": "HS256,ES256"}
    code, lines = examine(monkeypatch, **named)
    assert code == 0
    assert lines[1] == "✓ Usable keys of jwks.json: 1, for HS256. Of other types or too weak: 1."
    assert len(lines) == 2


def test_invalid_key_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key file that prevents the start is an error."""
    Path("keys.json").write_text(json.dumps([{"key": API_KEY}]))
    code, lines = examine(monkeypatch, jwks="none.json", api_keys_file="keys.json")
    assert code == 2
    wrong = [line for line in lines if line.startswith("✗ ")]
    assert wrong == [
        "✗ SHARDQL_JWKS names none.json: No such file or directory.",
        "✗ SHARDQL_API_KEYS_FILE names keys.json: Entry 1 has no subject: set a text of printable characters.",
    ]


def test_permissions_of_the_key_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key file readable by all users is a finding. Keys in plain text are a note."""
    Path("keys.json").write_text(json.dumps([{"key": API_KEY, "subject": "robot"}]))
    Path("keys.json").chmod(0o644)
    code, lines = examine(monkeypatch, api_keys_file="keys.json")
    assert code == 1
    assert "! Every user of this machine can read keys.json. Run chmod 600 keys.json." in lines
    Path("keys.json").chmod(0o600)
    code, lines = examine(monkeypatch, api_keys_file="keys.json")
    assert code == 0
    assert lines[1] == "✓ API keys in keys.json: 1."
    assert lines[2].startswith("· API keys stored in plain text: 1. Store digests instead")
    assert API_KEY not in "".join(lines)


def test_required_but_impossible_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requiring a tenant or groups without any authentication is a finding."""
    _, lines = examine(
        monkeypatch, production="1", token_keys=KEY, record_key=KEY, tenant_claim="org", explain_groups="Admin"
    )
    assert [line.split(",")[0] for line in lines] == [
        "✓ Accepted callers: none.",
        "! SHARDQL_TENANT_CLAIM requires a tenant",
        "! SHARDQL_EXPLAIN_GROUPS names groups",
    ]


def test_conflicting_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems of settings are not repeated for callers, and nothing is fetched."""
    code, lines = examine(monkeypatch, jwks="http://issuer.example/jwks.json")
    assert (code, lines) == (2, [])
