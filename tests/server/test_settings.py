"""Settings: their sources, validation, and combinations."""

import base64
import os
import pickle
import stat
from pathlib import Path

import pytest

from graphql_api.errors import InvalidSettings
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.server.app import settings_problems
from graphql_api.server.auth.authenticator import Issuer, build_authenticator, configured_issuer
from graphql_api.server.auth.bearer_tokens import ClaimRules, IssuerTokenVerifier
from graphql_api.server.secret_keys import resolve_secrets
from graphql_api.server.settings import Settings, parse_secret, read_settings

SECRET = bytes(range(32))
OTHER = bytes(range(32, 72))
KEYS = Path("keys")
JWKS = "https://issuer.example/jwks.json"
POOL = "eu-west-1_Abc123"
KEYED = {"token_keys": (SECRET,), "record_key": OTHER}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting comes from the environment of the test run."""
    for name in [name for name in os.environ if name.upper().startswith("SHARDQL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def setting_errors(**arguments: object) -> list[str]:
    """Return the problems of invalid settings."""
    with pytest.raises(InvalidSettings) as caught:
        read_settings(**arguments)
    return list(caught.value.problems)


# --- sources ---------------------------------------------------------------------------------------------------


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments override variables, which override defaults. The listing names the source of each value."""
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


def test_empty_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable counts as not set."""
    monkeypatch.setenv("SHARDQL_PORT", "")
    assert read_settings().port == 8000


@pytest.mark.parametrize("production", [False, True])
def test_defaults_by_mode(production: bool) -> None:
    """Development features are off in production, and each can be set separately."""
    settings = read_settings(production=production)
    helps = (settings.introspection, settings.suggestions, settings.graphiql, settings.explain)
    assert helps == (not production,) * 4
    assert (settings.log_format, settings.drain_seconds) == (("json", 5.0) if production else ("text", 0.0))
    assert read_settings(production=production, introspection=production).introspection is production


def test_default_limits() -> None:
    """The default limits are those of the executor, and each setting sets its own limit."""
    assert read_settings().limits() == Limits()
    settings = read_settings(
        max_depth=1,
        max_aliases=2,
        max_tokens=3,
        max_directives=4,
        max_root_fields=5,
        max_cost=6,
        max_elements=7,
        deadline_seconds=8,
    )
    assert settings.limits() == Limits(1, 2, 3, 4, 5, 6, 7, 8.0)


def test_settings_are_picklable() -> None:
    """Another process gets equal settings with their sources."""
    settings = read_settings(port=0, token_keys=(SECRET,))
    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301 - trusted data
    assert (copy, copy.list_values()) == (settings, settings.list_values())


def test_lists_are_comma_separated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are separated by commas. Spaces are ignored."""
    monkeypatch.setenv("SHARDQL_CORS_ORIGINS", "https://a.example, https://b.example:8443,")
    assert read_settings().cors_origins == ("https://a.example", "https://b.example:8443")


# --- validation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
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
def test_invalid_variables(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid value, or a name that is similar to a setting, is an error with the remedy."""
    monkeypatch.setenv(name, value)
    (problem,) = setting_errors()
    assert message in problem


def test_invalid_arguments_are_named_as_options() -> None:
    """An invalid argument is named as its command-line option."""
    assert setting_errors(log_level="loud") == [
        "--log-level is 'loud': input should be 'debug', 'info', 'warning' or 'error'."
    ]


def test_all_problems_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All problems are listed at once, without problems that follow from others."""
    monkeypatch.setenv("SHARDQL_PRODUCTION", "perhaps")
    monkeypatch.setenv("SHARDQL_PORTS", "1")
    problems = setting_errors(port=-1)
    assert [problem.split()[0] for problem in problems] == ["SHARDQL_PORTS", "SHARDQL_PRODUCTION", "--port"]


def test_other_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that only shares the prefix is ignored."""
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
def test_key_encodings(text: str) -> None:
    """A token key is hex or base64, of either alphabet, with or without padding."""
    assert parse_secret(text) == OTHER


def test_base64_alphabets() -> None:
    """Both base64 alphabets decode to the same key."""
    secret = b"\xfb\xff" * 16
    assert parse_secret(base64.urlsafe_b64encode(secret).decode()) == secret
    assert parse_secret(base64.b64encode(secret).decode()) == secret


def test_keys_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys keep their order, because the first one seals."""
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", f"{OTHER.hex()}, {base64.b64encode(SECRET).decode()}")
    assert read_settings().read_token_keys() == (OTHER, SECRET)


def test_keys_from_a_file() -> None:
    """A key file contains one key per line."""
    KEYS.write_text(f"{OTHER.hex()}\n{base64.b64encode(SECRET).decode()}\n")
    assert read_settings(token_keys_file=KEYS).read_token_keys() == (OTHER, SECRET)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), ("", "contains no key"), ("abc\n", "too short"), ("ü", "ascii")]
)
def test_invalid_key_files(content: str | None, why: str) -> None:
    """An invalid key file is an error that names the file."""
    if content is not None:
        KEYS.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidSettings, match=f"SHARDQL_TOKEN_KEYS_FILE names keys.*{why}"):
        read_settings(token_keys_file=KEYS).read_token_keys()


def test_keys_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the listing, nor the text of settings, nor an error contains a key."""
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", SECRET.hex())
    settings = read_settings()
    shown = f"{settings!r} {settings} {settings.list_values()}"
    assert SECRET.hex() not in shown
    assert repr(SECRET) not in shown
    assert "1 secret" in shown
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", "secretsecret")
    assert "secretsecret" not in str(setting_errors())


def test_development_stores_keys() -> None:
    """In development, keys are created once next to the SQLite file, readable by its owner only."""
    settings = read_settings(store="sqlite:///users.db")
    first, message = resolve_secrets(settings)
    second, _ = resolve_secrets(settings)
    other, _ = resolve_secrets(read_settings(store="sqlite:///other.db"))
    assert first == second != other
    assert message == "sealed with the key in users.db.token-key"
    assert stat.S_IMODE(Path("users.db.token-key").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("users.db.record-key").stat().st_mode) == 0o600
    kept = [f"{name}.db.{kind}-key" for name in ("other", "users") for kind in ("record", "token")]
    assert sorted(path.name for path in Path().iterdir()) == kept
    assert first.record not in first.tokens


def test_development_without_a_file() -> None:
    """Without a SQLite file, each start creates new keys, and the report says so."""
    settings = read_settings(store="dynamodb://users")
    first, message = resolve_secrets(settings)
    other, _ = resolve_secrets(settings)
    assert first.tokens != other.tokens
    assert first.record != other.record
    assert "they become invalid when this server stops" in message
    assert not [*Path().iterdir()]


@pytest.mark.parametrize(("kind", "setting"), [("token", "SHARDQL_TOKEN_KEYS"), ("record", "SHARDQL_RECORD_KEY")])
def test_damaged_key_file(kind: str, setting: str) -> None:
    """A damaged key file is an error, and is not overwritten."""
    kept = Path(f"users.db.{kind}-key")
    kept.write_text("damaged\n")
    with pytest.raises(InvalidSettings, match=rf"The {kind} key in {kept} cannot be used.*set {setting}\."):
        resolve_secrets(read_settings(store="sqlite:///users.db"))
    assert kept.read_text() == "damaged\n"


# --- the record key --------------------------------------------------------------------------------------------


def test_configured_record_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record key comes from a variable, an argument or a file. Then no key file is created."""
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
def test_invalid_record_key_files(content: str | None, why: str) -> None:
    """A file without exactly one record key is an error that names the file."""
    if content is not None:
        KEYS.write_text(content)
    with pytest.raises(InvalidSettings, match=f"SHARDQL_RECORD_KEY_FILE names keys.*{why}"):
        resolve_secrets(read_settings(record_key_file=KEYS))


def test_the_record_key_is_never_shown() -> None:
    """Neither the listing, nor the text of settings, nor an error contains the record key."""
    settings = read_settings(record_key=SECRET)
    shown = f"{settings!r} {settings} {settings.list_values()}"
    assert SECRET.hex() not in shown
    assert repr(SECRET) not in shown
    assert {one.name: one.value for one in settings.list_values()}["record_key"] == "1 secret"
    assert "secretsecret" not in str(setting_errors(record_key="secretsecret"))


# --- credentials -----------------------------------------------------------------------------------------------


def test_explain_groups() -> None:
    """Configured groups enable explain output, even in production."""
    assert read_settings(production=True, explain_groups=("Admin",)).explain
    assert not read_settings(production=True).explain


def test_cognito_user_pool() -> None:
    """The id of a Cognito user pool determines JWKS URL, issuer, and groups claim."""
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
        assert "--cognito-user-pool is" in setting_errors(cognito_user_pool=wrong)[0]


def test_settings_reach_the_authenticator() -> None:
    """The settings of tokens and keys determine how tokens are verified."""
    settings = read_settings(
        jwks=JWKS,
        jwt_issuer="me",
        jwt_audiences=("a", "b"),
        jwt_algorithms=("ES256",),
        jwt_skew_seconds=5,
        jwks_fresh_seconds=7,
        jwks_expiry_seconds=70,
        groups_claim="roles",
        tenant_claim="org",
    )
    authenticator = build_authenticator(settings)
    (issued,) = authenticator.token_verifiers
    assert isinstance(issued, IssuerTokenVerifier)
    assert issued.rules == ClaimRules("me", frozenset({"a", "b"}), 5, "roles", "org")
    assert (issued.algorithms, issued.keys.location, issued.keys.max_age) == ({"ES256"}, JWKS, 7)
    assert issued.keys.expiry_age == 70
    assert authenticator.needs_tenant
    (by_default,) = build_authenticator(read_settings(jwks=JWKS)).token_verifiers
    assert isinstance(by_default, IssuerTokenVerifier)
    assert not {name for name in by_default.algorithms if name.startswith("HS") or name.lower() == "none"}


# --- combinations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "messages"),
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
        ({"jwks": JWKS, "jwks_fresh_seconds": 20_000}, ["SHARDQL_JWKS_EXPIRY_SECONDS is less than"]),
        ({"jwks": "http://issuer.example/jwks"}, ["SHARDQL_JWKS is http://issuer.example/jwks: over plain http"]),
        ({"jwks": "http://issuer.example/jwks", "jwks_plain_http": True}, []),
        *(({"jwks": f"http://{host}:8080/jwks"}, []) for host in ("127.0.0.1", "localhost", "[::1]")),
        *(({"jwks": url}, [f"SHARDQL_JWKS is {url}: keys come from"]) for url in ("file:///jwks.json", "ftp://a/b")),
        *(
            ({"jwks": url}, [f"SHARDQL_JWKS is {url}: the URL of a JWKS must have a host"])
            for url in ("https://", "https://user:secret@issuer.example/jwks", "https://issuer.example/#keys")
        ),
        ({"jwks": "https://issuer.example:x/jwks"}, ["SHARDQL_JWKS is https://issuer.example:x/jwks: it is not a URL"]),
        *(
            ({"path": path}, [f"SHARDQL_PATH is {path}, which is reserved"])
            for path in ("/healthz", "/readyz", "/metrics")
        ),
        ({"only_documents": True}, ["SHARDQL_ONLY_DOCUMENTS is on, but there are no trusted"]),
        ({"read_only": True, "create_table": True}, ["A read-only server creates no table"]),
        ({"production": True, "store": "sqlite:///x.db", **KEYED}, []),
        ({"read_only": True, "only_documents": True, "documents": "queries.json"}, []),
        ({}, []),
    ],
)
def test_conflicting_settings(arguments: dict[str, object], messages: list[str]) -> None:
    """Valid settings may conflict and prevent the start. Each reason is listed."""
    problems = [*settings_problems(read_settings(**arguments))]
    assert [problem[: len(start)] for problem, start in zip(problems, messages, strict=True)] == messages
