"""Settings: where their values come from, what they may be, and what a server needs together."""

import base64
import os
import pickle
import stat
from pathlib import Path

import pytest

from graphql_api.errors import InvalidSettings
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.server.auth.auth_configuration import Issuer, build_authenticator, configured_issuer
from graphql_api.server.auth.bearer_tokens import IssuerTokenVerifier
from graphql_api.server.auth.token_claims import ClaimRules
from graphql_api.server.development_keys import resolve_secrets
from graphql_api.server.observability.health import HEALTH, READY
from graphql_api.server.observability.metrics_endpoint import METRICS_PATH
from graphql_api.server.settings import Settings, parse_secret, read_settings
from graphql_api.server.settings_checks import settings_problems

SECRET = bytes(range(32))
OTHER = bytes(range(32, 72))
KEYS = Path("keys")
JWKS = "https://issuer.example/jwks.json"
POOL = "eu-west-1_Abc123"
KEYED = {"token_keys": (SECRET,), "record_key": OTHER}


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting comes from where the tests run."""
    for name in [name for name in os.environ if name.upper().startswith("SHARDQL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def refused(**arguments: object) -> list[str]:
    """What is said of settings that cannot be."""
    with pytest.raises(InvalidSettings) as caught:
        read_settings(**arguments)
    return list(caught.value.problems)


# --- where values come from ------------------------------------------------------------------------------------


def test_an_argument_counts_more_than_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument is taken before a variable, a variable before the default, and the listing says which it was."""
    monkeypatch.setenv("SHARDQL_PORT", "1234")
    monkeypatch.setenv("SHARDQL_HOST", "0.0.0.0")  # noqa: S104 - only read
    settings = read_settings(port=0, workers=None)
    listed = {one.name: (one.value, one.origin) for one in settings.list_values()}
    assert (listed["port"], listed["host"], listed["workers"]) == (
        ("0", "argument"),
        ("0.0.0.0", "environment"),  # noqa: S104 - only read
        ("1", "default"),
    )
    assert list(listed) == list(Settings.model_fields)


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable without a value is as good as none."""
    monkeypatch.setenv("SHARDQL_PORT", "")
    assert read_settings().port == 8000


@pytest.mark.parametrize("production", [False, True])
def test_defaults_by_mode(production: bool) -> None:
    """What helps in development is off in production, and each of them can be set by itself."""
    settings = read_settings(production=production)
    helps = (settings.introspection, settings.suggestions, settings.graphiql, settings.explain)
    assert helps == (not production,) * 4
    assert (settings.log_format, settings.drain_seconds) == (("json", 5.0) if production else ("text", 0.0))
    assert read_settings(production=production, introspection=production).introspection is production


def test_default_limits() -> None:
    """Limits that nobody sets are those that the engine has by itself, and each setting reaches its own limit."""
    assert read_settings().limits() == Limits()
    settings = read_settings(
        max_depth=1, max_aliases=2, max_tokens=3, max_directives=4, max_root_fields=5, max_cost=6, deadline_seconds=7
    )
    assert settings.limits() == Limits(1, 2, 3, 4, 5, 6, 7.0)


def test_settings_go_to_other_processes() -> None:
    """Another process gets the same settings, with their origins."""
    settings = read_settings(port=0, token_keys=(SECRET,))
    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301 - our own
    assert (copy, copy.list_values()) == (settings, settings.list_values())


def test_lists_have_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Origins stand one after the other with commas between them, and spaces do not matter."""
    monkeypatch.setenv("SHARDQL_CORS_ORIGINS", "https://a.example, https://b.example:8443,")
    assert read_settings().cors_origins == ("https://a.example", "https://b.example:8443")


# --- what they may be ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SHARDQL_PORT", "tcp://10.0.0.1:80", "SHARDQL_PORT is 'tcp://10.0.0.1:80': input should be a valid integer"),
        ("SHARDQL_PORT", "65536", "less than or equal to 65535"),
        ("SHARDQL_WORKERS", "0", "greater than or equal to 1"),
        ("SHARDQL_PRODUCTION", "perhaps", "SHARDQL_PRODUCTION is 'perhaps': input should be a valid boolean"),
        ("SHARDQL_LOG_FORMAT", "xml", "'json' or 'text'"),
        ("SHARDQL_PATH", "graphql", "SHARDQL_PATH is 'graphql'"),
        ("SHARDQL_ROOT_PATH", "/api/", "SHARDQL_ROOT_PATH is '/api/'"),
        ("SHARDQL_DEADLINE_SECONDS", "0", "greater than 0"),
        ("SHARDQL_DEADLINE_SECONDS", "nan", "SHARDQL_DEADLINE_SECONDS is 'nan'"),
        ("SHARDQL_TOKEN_KEYS", "c2hvcnQ=", "a token key of 5 bytes is too short, at least 32"),
        ("SHARDQL_TOKEN_KEYS", "not a key!", "neither base64 nor hex"),
        ("SHARDQL_PRODUCTON", "1", "SHARDQL_PRODUCTON is not a setting. Did you mean SHARDQL_PRODUCTION?"),
        ("SHARDQL_RECORD_KEY", "c2hvcnQ=", "a record key of 5 bytes is too short, at least 32"),
        ("SHARDQL_RECORD_KEYS", "x", "SHARDQL_RECORD_KEYS is not a setting. Did you mean SHARDQL_RECORD_KEY?"),
        ("shardql_token_key", "x", "shardql_token_key is not a setting. Did you mean SHARDQL_TOKEN_KEYS?"),
    ],
)
def test_wrong_variables(name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable with a value that cannot be, or nearly of one of our names, is told with what it may be."""
    monkeypatch.setenv(name, value)
    (problem,) = refused()
    assert said in problem


def test_wrong_arguments_are_told_as_options() -> None:
    """A wrong argument is called by the option that it came by."""
    assert refused(log_level="loud") == [
        "--log-level is 'loud': input should be 'debug', 'info', 'warning' or 'error'."
    ]


def test_everything_wrong_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All problems are listed, and nothing is listed that only follows from another problem."""
    monkeypatch.setenv("SHARDQL_PRODUCTION", "perhaps")
    monkeypatch.setenv("SHARDQL_PORTS", "1")
    problems = refused(port=-1)
    assert [problem.split()[0] for problem in problems] == ["SHARDQL_PORTS", "SHARDQL_PRODUCTION", "--port"]


def test_foreign_variables_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that only begins like ours is somebody else's."""
    monkeypatch.setenv("SHARDQL_SERVICE_PORT_HTTP", "80")
    monkeypatch.setenv("SHARDQL_DYNAMODB_LOCAL", "/somewhere")
    assert read_settings().port == 8000


# --- token keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        OTHER.hex(),
        OTHER.hex().upper(),
        base64.b64encode(OTHER).decode(),
        base64.urlsafe_b64encode(OTHER).decode(),
        base64.urlsafe_b64encode(OTHER).decode().rstrip("="),
    ],
)
def test_forms_of_a_key(text: str) -> None:
    """A token key is hex or base64, of either alphabet, with or without padding."""
    assert parse_secret(text) == OTHER


def test_alphabets_of_a_key() -> None:
    """The characters in which the two alphabets of base64 differ mean the same."""
    secret = b"\xfb\xff" * 16
    assert parse_secret(base64.urlsafe_b64encode(secret).decode()) == secret
    assert parse_secret(base64.b64encode(secret).decode()) == secret


def test_keys_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys keep their order, since the first one seals."""
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", f"{OTHER.hex()}, {base64.b64encode(SECRET).decode()}")
    assert read_settings().read_token_keys() == (OTHER, SECRET)


def test_keys_from_a_file() -> None:
    """A file holds one key a line."""
    KEYS.write_text(f"{OTHER.hex()}\n{base64.b64encode(SECRET).decode()}\n")
    assert read_settings(token_keys_file=KEYS).read_token_keys() == (OTHER, SECRET)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), ("", "contains no key"), ("abc\n", "too short"), ("ü", "ascii")]
)
def test_bad_key_files(content: str | None, why: str) -> None:
    """A file without a usable key is told with its name."""
    if content is not None:
        KEYS.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidSettings, match=f"SHARDQL_TOKEN_KEYS_FILE names keys.*{why}"):
        read_settings(token_keys_file=KEYS).read_token_keys()


def test_keys_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the listing nor the text of settings nor an error shows a key."""
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", SECRET.hex())
    settings = read_settings()
    shown = f"{settings!r} {settings} {settings.list_values()}"
    assert SECRET.hex() not in shown
    assert repr(SECRET) not in shown
    assert "1 secret" in shown
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", "secretsecret")
    assert "secretsecret" not in str(refused())


def test_development_keeps_a_key() -> None:
    """In development keys are made once beside the SQLite file, for its owner alone, and found there later."""
    settings = read_settings(store="sqlite:///users.db")
    first, said = resolve_secrets(settings)
    second, _ = resolve_secrets(settings)
    other, _ = resolve_secrets(read_settings(store="sqlite:///other.db"))
    assert first == second != other
    assert said == "sealed with the key in users.db.token-key"
    assert stat.S_IMODE(Path("users.db.token-key").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("users.db.record-key").stat().st_mode) == 0o600
    kept = [f"{name}.db.{kind}-key" for name in ("other", "users") for kind in ("record", "token")]
    assert sorted(path.name for path in Path().iterdir()) == kept
    assert first.record not in first.tokens


def test_development_without_a_file() -> None:
    """Where there is no file to keep keys beside, each start makes new ones, and says what that means."""
    settings = read_settings(store="dynamodb://users")
    first, said = resolve_secrets(settings)
    other, _ = resolve_secrets(settings)
    assert first.tokens != other.tokens
    assert first.record != other.record
    assert "they become invalid when this server stops" in said
    assert not [*Path().iterdir()]


@pytest.mark.parametrize(("kind", "setting"), [("token", "SHARDQL_TOKEN_KEYS"), ("record", "SHARDQL_RECORD_KEY")])
def test_damaged_key_file(kind: str, setting: str) -> None:
    """A damaged file of a key is not overwritten: what it sealed would end without anybody knowing why."""
    kept = Path(f"users.db.{kind}-key")
    kept.write_text("damaged\n")
    with pytest.raises(InvalidSettings, match=rf"The {kind} key in {kept} cannot be used.*set {setting}\."):
        resolve_secrets(read_settings(store="sqlite:///users.db"))
    assert kept.read_text() == "damaged\n"


# --- the record key --------------------------------------------------------------------------------------------


def test_the_record_key_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record key comes from a variable, an argument or a file, and beside a store nothing is made for it."""
    monkeypatch.setenv("SHARDQL_RECORD_KEY", OTHER.hex())
    KEYS.write_text(f"{base64.b64encode(SECRET).decode()}\n")
    store = {"store": "sqlite:///users.db", "token_keys": (SECRET,)}
    assert resolve_secrets(read_settings(**store))[0].record == OTHER
    assert resolve_secrets(read_settings(**store, record_key=SECRET))[0].record == SECRET
    assert resolve_secrets(read_settings(**store, record_key_file=KEYS))[0].record == SECRET
    assert [path.name for path in Path().iterdir()] == ["keys"]


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), ("", "too short"), (f"{SECRET.hex()}\n{OTHER.hex()}", "neither")]
)
def test_bad_files_of_the_record_key(content: str | None, why: str) -> None:
    """A file without the one record key is told with its name."""
    if content is not None:
        KEYS.write_text(content)
    with pytest.raises(InvalidSettings, match=f"SHARDQL_RECORD_KEY_FILE names keys.*{why}"):
        resolve_secrets(read_settings(record_key_file=KEYS))


def test_the_record_key_is_never_shown() -> None:
    """Neither the listing nor the text of settings nor an error shows the record key."""
    settings = read_settings(record_key=SECRET)
    shown = f"{settings!r} {settings} {settings.list_values()}"
    assert SECRET.hex() not in shown
    assert repr(SECRET) not in shown
    assert {one.name: one.value for one in settings.list_values()}["record_key"] == "1 secret"
    assert "secretsecret" not in str(refused(record_key="secretsecret"))


# --- credentials -----------------------------------------------------------------------------------------------


def test_explain_by_role() -> None:
    """Naming groups turns explain on, in production too."""
    assert read_settings(production=True, explain_groups=("Admin",)).explain
    assert not read_settings(production=True).explain


def test_a_user_pool_of_cognito() -> None:
    """The id of a user pool says where its keys are, who the issuer is, and where groups stand."""
    settings = read_settings(cognito_user_pool="eu-west-1_Abc123")
    issuer = "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Abc123"
    assert configured_issuer(settings) == Issuer(f"{issuer}/.well-known/jwks.json", issuer)
    assert settings.groups_claim == "cognito:groups"
    china = configured_issuer(read_settings(cognito_user_pool="cn-north-1_Abc123"))
    assert china is not None
    assert china.name == "https://cognito-idp.cn-north-1.amazonaws.com.cn/cn-north-1_Abc123"
    assert read_settings().groups_claim == "groups"
    assert read_settings(cognito_user_pool=POOL, groups_claim="roles").groups_claim == "roles"
    for wrong in ("Abc123", "eu-west-1", "eu-west-1_", "eu-west-1_a/b", "https://eu-west-1_Abc"):
        assert "--cognito-user-pool is" in refused(cognito_user_pool=wrong)[0]


def test_settings_reach_the_issuer() -> None:
    """What is said of tokens and keys is what tokens are checked by."""
    settings = read_settings(
        jwks=JWKS,
        jwt_issuer="me",
        jwt_audiences=("a", "b"),
        jwt_algorithms=("ES256",),
        jwt_skew_seconds=5,
        jwks_fresh_seconds=7,
        groups_claim="roles",
        tenant_claim="org",
    )
    authenticator = build_authenticator(settings)
    (issued,) = authenticator.token_verifiers
    assert isinstance(issued, IssuerTokenVerifier)
    assert issued.rules == ClaimRules("me", frozenset({"a", "b"}), 5, "roles", "org")
    assert (issued.algorithms, issued.keys.location, issued.keys.max_age) == ({"ES256"}, JWKS, 7)
    assert authenticator.needs_tenant
    (by_default,) = build_authenticator(read_settings(jwks=JWKS)).token_verifiers
    assert isinstance(by_default, IssuerTokenVerifier)
    assert not {name for name in by_default.algorithms if name.startswith("HS") or name.lower() == "none"}


# --- together --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"production": True, "store": "sqlite:///x.db", "record_key": OTHER},
            ["Production needs a key that seals page tokens"],
        ),
        (
            {"production": True, "store": "sqlite:///x.db", "token_keys": (SECRET,)},
            ["Production needs a key that signs record keys"],
        ),
        ({"production": True, **KEYED}, ["Production needs a store"]),
        ({"production": True}, ["Production needs a key", "Production needs a key", "Production needs a store"]),
        ({"record_key": OTHER, "record_key_file": "key"}, ["SHARDQL_RECORD_KEY and SHARDQL_RECORD_KEY_FILE"]),
        ({"token_keys": (SECRET,), "token_keys_file": "keys"}, ["SHARDQL_TOKEN_KEYS and SHARDQL_TOKEN_KEYS_FILE"]),
        (
            {"production": True, "store": "sqlite:///x.db", **KEYED, "explain": True},
            ["Production limits explain output to named groups"],
        ),
        ({"production": True, "store": "sqlite:///x.db", **KEYED, "explain_groups": ("Admin",)}, []),
        (
            {"explain": False, "explain_groups": ("Admin",)},
            ["SHARDQL_EXPLAIN_GROUPS names groups, but SHARDQL_EXPLAIN"],
        ),
        ({"jwt_issuer": "x"}, ["SHARDQL_JWT_ISSUER applies to bearer tokens, but no keys"]),
        (
            {"jwt_audiences": ("x",), "jwt_algorithms": ("RS256",), "jwks_plain_http": True},
            ["SHARDQL_JWT_AUDIENCES applies", "SHARDQL_JWT_ALGORITHMS applies", "SHARDQL_JWKS_PLAIN_HTTP applies"],
        ),
        ({"cognito_user_pool": POOL, "jwt_issuer": "x"}, ["SHARDQL_COGNITO_USER_POOL determines the issuer"]),
        ({"cognito_user_pool": POOL, "jwks": "jwks.json"}, []),
        (
            {"jwks": JWKS, "jwt_algorithms": ("RS257",)},
            ["SHARDQL_JWT_ALGORITHMS names 'RS257', which is not a supported algorithm. Did you"],
        ),
        (
            {"jwks": JWKS, "jwt_algorithms": ("none",)},
            ["SHARDQL_JWT_ALGORITHMS names 'none', which is not a supported algorithm."],
        ),
        ({"jwks": JWKS, "jwt_algorithms": ("HS256",)}, ["SHARDQL_JWT_ALGORITHMS names HS256, whose key is a secret"]),
        ({"cognito_user_pool": POOL, "jwt_algorithms": ("HS256",)}, ["SHARDQL_JWT_ALGORITHMS names HS256, whose key"]),
        ({"jwks": "jwks.json", "jwt_algorithms": ("HS256",)}, []),
        ({"jwks": "http://issuer.example/jwks"}, ["SHARDQL_JWKS is http://issuer.example/jwks: over plain http"]),
        ({"jwks": "http://issuer.example/jwks", "jwks_plain_http": True}, []),
        *(({"jwks": f"http://{host}:8080/jwks"}, []) for host in ("127.0.0.1", "localhost", "[::1]")),
        *(({"jwks": url}, [f"SHARDQL_JWKS is {url}: keys come from"]) for url in ("file:///jwks.json", "ftp://a/b")),
        *(
            ({"jwks": url}, [f"SHARDQL_JWKS is {url}: the URL of a JWKS must have a host"])
            for url in ("https://", "https://user:secret@issuer.example/jwks", "https://issuer.example/#keys")
        ),
        ({"jwks": "https://issuer.example:x/jwks"}, ["SHARDQL_JWKS is https://issuer.example:x/jwks: it is not a URL"]),
        *(({"path": path}, [f"SHARDQL_PATH is {path}, which is reserved"]) for path in (HEALTH, READY, METRICS_PATH)),
        ({"only_documents": True}, ["SHARDQL_ONLY_DOCUMENTS is on, but there are no trusted"]),
        ({"read_only": True, "create_table": True}, ["A read-only server creates no table"]),
        ({"production": True, "store": "sqlite:///x.db", **KEYED}, []),
        ({"read_only": True, "only_documents": True, "documents": "queries.json"}, []),
        ({}, []),
    ],
)
def test_what_does_not_go_together(arguments: dict[str, object], said: list[str]) -> None:
    """Settings that are right one by one may still keep a server from starting, and each reason is told."""
    problems = [*settings_problems(read_settings(**arguments))]
    assert [problem[: len(start)] for problem, start in zip(problems, said, strict=True)] == said
