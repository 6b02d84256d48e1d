"""What `shardql doctor` says of the credentials that a server takes."""

import json
from pathlib import Path

import pytest

from tests.api.processes import KEY
from tests.issuer import Issuer, jwks, part, private_key, public_jwk, publishing
from tests.unit.shell import USERS, run

API_KEY = "a-key-of-more-than-twenty-characters"


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run where nothing is."""
    monkeypatch.chdir(tmp_path)


def examined(monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[int, list[str]]:
    """The exit code, and what is said of callers, with these settings."""
    for name, value in variables.items():
        monkeypatch.setenv(f"SHARDQL_{name.upper()}", value)
    result = run("doctor", USERS)
    lines = [line for line in result.stdout.splitlines() if line[2:].startswith("callers")]
    return result.exit_code, [f"{line[0]} {line[2:].removeprefix('callers').strip()}" for line in lines]


def test_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a setting everybody is let in as nobody, which is well."""
    assert examined(monkeypatch) == (0, ["✓ Accepted callers: anonymous; tokens of `shardql token`."])


def test_an_issuer_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are fetched once, and what they serve is told."""
    with publishing(Issuer()) as issuer:
        code, lines = examined(monkeypatch, jwks=issuer.address, jwt_issuer="me", jwt_audiences="shop")
        assert issuer.asked == 1
    assert code == 0
    assert all(line.startswith("✓ ") for line in lines)
    assert lines[-1].endswith(f"Usable keys of {issuer.address}: 1, for PS256, PS384, PS512, RS256, RS384, RS512.")


def test_an_issuer_that_is_taken_at_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither issuer nor audience, and keys that do not come, are findings."""
    with publishing(Issuer(answers=[(500, b"", {})])) as issuer:
        code, lines = examined(monkeypatch, jwks=issuer.address)
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


def test_keys_of_other_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that serve nothing, algorithms that no key serves, and secrets are told."""
    secret = {"kty": "oct", "k": part(b"s" * 32)}
    weak = public_jwk("RS256", private_key("RS256", bits=1024))
    Path("jwks.json").write_bytes(jwks(secret, weak))
    named = {"jwks": "jwks.json", "jwt_issuer": "me", "jwt_audiences": "shop", "jwt_algorithms": "HS256,ES256"}
    code, lines = examined(monkeypatch, **named)
    assert code == 0
    assert lines[1] == "✓ Usable keys of jwks.json: 1, for HS256. Of other types or too weak: 1."
    assert lines[2] == "· No key supports ES256. Remove it from SHARDQL_JWT_ALGORITHMS."
    assert lines[3].startswith(
        "· Anyone who can verify a token signed with a secret can also create one. Share the key file"
    )


def test_files_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of keys that keeps the server from starting is told as what cannot work."""
    Path("keys.json").write_text(json.dumps([{"key": API_KEY}]))
    code, lines = examined(monkeypatch, jwks="none.json", api_keys_file="keys.json")
    assert code == 2
    wrong = [line for line in lines if line.startswith("✗ ")]
    assert wrong == [
        "✗ SHARDQL_JWKS names none.json: No such file or directory.",
        "✗ SHARDQL_API_KEYS_FILE names keys.json: Entry 1 has no subject: set a text of printable characters.",
    ]


def test_api_keys_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys in a file that everybody may read are a finding; in one of its owner's they are worth a note."""
    Path("keys.json").write_text(json.dumps([{"key": API_KEY, "subject": "robot"}]))
    Path("keys.json").chmod(0o644)
    code, lines = examined(monkeypatch, api_keys_file="keys.json")
    assert code == 1
    assert "! Every user of this machine can read keys.json. Run chmod 600 keys.json." in lines
    Path("keys.json").chmod(0o600)
    code, lines = examined(monkeypatch, api_keys_file="keys.json")
    assert code == 0
    assert lines[1] == "✓ API keys in keys.json: 1."
    assert lines[2].startswith("· API keys stored in plain text: 1. Store digests instead")
    assert API_KEY not in "".join(lines)


def test_somebody_who_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Production that asks for a tenant or groups, where nobody can have any, is a finding."""
    _, lines = examined(
        monkeypatch, production="1", token_keys=KEY, record_key=KEY, tenant_claim="org", explain_groups="Admin"
    )
    assert [line.split(",")[0] for line in lines] == [
        "✓ Accepted callers: none.",
        "! SHARDQL_TENANT_CLAIM requires a tenant",
        "! SHARDQL_EXPLAIN_GROUPS names groups",
    ]


def test_settings_that_do_not_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the settings are told for already is not told twice, and nothing is fetched."""
    code, lines = examined(monkeypatch, jwks="http://issuer.example/jwks.json")
    assert (code, lines) == (2, [])
