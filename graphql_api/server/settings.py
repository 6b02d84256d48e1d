"""All settings of a server. A test compares docs/reference/settings.md with this module.

A value comes from a command-line argument, else from an environment variable SHARDQL_…, else from the default. All
problems are reported together.
"""

import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from graphql_api.errors import InvalidSettings
from graphql_api.query import MIN_SECRET_BYTES
from graphql_api.schema import Limits

PREFIX = "SHARDQL_"
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["json", "text"]
Origin: TypeAlias = Literal["argument", "environment", "default"]


def _in_development(earlier: Mapping[str, Any]) -> bool:
    return not earlier.get("production", False)


ON_IN_DEVELOPMENT = "on in development"
_LIMITS = Limits()
LOCAL_ORIGINS = ("http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*")
"""Pages that a developer serves on the same machine."""
SECRET_SETTINGS = frozenset({"token_keys", "record_key"})
RESERVED_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths of the operational endpoints. GraphQL cannot be served there."""
GRID_PATH = "/grid"
"""Path of the data page."""


def _setting(default: Any, unit: str, *, default_text: str | None = None, **rules: Any) -> Any:
    """Declare a setting. A function as default derives it from the settings before; `default_text` describes it."""
    extra: dict[str, Any] = {"unit": unit, "default_text": default_text}
    rules |= {"default_factory": default} if callable(default) else {"default": default}
    return Field(json_schema_extra=extra, **rules)


def parse_secret(text: str, kind: str = "token key") -> bytes:
    """Decode a key from hex or base64, in either alphabet, with or without padding."""
    if re.fullmatch(r"(?:[0-9A-Fa-f]{2}){32,}", text):
        return bytes.fromhex(text)
    unpadded = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        secret = b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except ValueError:
        raise ValueError(f"a {kind} is neither base64 nor hex; `openssl rand -base64 32` generates one") from None
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(
            f"a {kind} of {len(secret)} bytes is too short, at least {MIN_SECRET_BYTES} random bytes are needed; "
            "`openssl rand -base64 32` generates one"
        )
    return secret


def _parsed(parse: Callable[[str], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_Texts = Annotated[tuple[str, ...], NoDecode, _parsed(_split_list)]
_Secrets = Annotated[tuple[bytes, ...], NoDecode, _parsed(lambda text: tuple(map(parse_secret, _split_list(text))))]
_RecordKey = Annotated[bytes, _parsed(lambda text: parse_secret(text, "record key"))]


class Settings(BaseSettings):
    """The settings of a server."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
        use_attribute_docstrings=True,
    )
    _arguments: frozenset[str] = PrivateAttr(default=frozenset())

    # --- mode and store

    production: bool = _setting(False, "yes or no")
    """Production mode: introspection, suggestions and GraphiQL are off; a store, a token key and a record key are
    required."""
    store: str | None = _setting(None, "URL", default_text="`sqlite:///shardql.db` in development")
    """URL of the store: `sqlite:///relative.db`, `sqlite:////absolute.db` or `dynamodb://table?region=…`."""
    lookup_store: str | None = _setting(None, "URL", default_text="the store itself")
    """URL of a second store that keeps the mapping items of all lookups: see docs/how-to/lookups.md."""
    create_table: bool | None = _setting(None, "yes or no", default_text="on for SQLite, off for DynamoDB")
    """Whether to create a missing table, and the indexes of new entities at the start."""
    read_only: bool = _setting(False, "yes or no")
    """Read-only mode: there are no mutations, and the store refuses writes. A file or disk may be read-only too."""

    # --- changes of the catalog

    migrate: bool | None = _setting(None, "yes or no", default_text="on for SQLite in development")
    """Whether to build new elements of the table, such as indexes, before the server starts."""
    adopt_table: bool = _setting(False, "yes or no")
    """Whether to share a table that only other catalogs have used so far."""
    lease_seconds: float = _setting(30.0, "seconds", gt=0, le=3600, allow_inf_nan=False)
    """Age at which a copy of the table's record is too old for writes. Proposed for a new table, then stored in it."""
    lease_margin_seconds: float = _setting(5.0, "seconds", ge=0, le=3600, allow_inf_nan=False)
    """Time that changes wait beyond a lease, for requests that leave a moment after their check."""
    request_life_seconds: float = _setting(300.0, "seconds", ge=0, le=3600, allow_inf_nan=False)
    """How long the engine may still apply a request that its client has given up."""

    # --- network

    host: str = _setting("127.0.0.1", "address")
    """Address to listen on; `0.0.0.0` or `::` for all interfaces."""
    port: int = _setting(8000, "port", ge=0, le=65535)
    """Port to listen on; 0 chooses a free port."""
    path: str = _setting("/graphql", "path", pattern=r"^/[A-Za-z0-9._~/-]*$")
    """Path of the GraphQL endpoint."""
    root_path: str = _setting("", "path", pattern=r"^(/[A-Za-z0-9._~/-]*[^/])?$")
    """Path prefix that a reverse proxy adds."""
    allowed_hosts: _Texts = _setting((), "names", default_text="names without a dot")
    """Host names under which clients reach the server, such as `api.example.com` or `*.example.com`, separated by
    commas; `*` for all. Addresses are always allowed."""
    workers: int = _setting(1, "processes", ge=1, le=256)
    """Number of worker processes, which share one port."""

    # --- page tokens

    token_keys: _Secrets = _setting((), "keys", default_text="generated and stored in development", repr=False)
    """Keys that seal page tokens: at least 32 random bytes each, in base64 or hex, separated by commas. The first one
    seals, all of them open."""
    token_keys_file: Path | None = _setting(None, "file")
    """A file with the token keys, one per line, instead of `SHARDQL_TOKEN_KEYS`."""

    # --- record keys

    record_key: _RecordKey | None = _setting(
        None, "key", default_text="generated and stored in development", repr=False
    )
    """Key that signs record keys: at least 32 random bytes, in base64 or hex. Never change it: clients may store record
    keys forever."""
    record_key_file: Path | None = _setting(None, "file")
    """A file with the key of record keys, instead of `SHARDQL_RECORD_KEY`."""

    # --- authentication

    jwks: str | None = _setting(None, "file or URL")
    """JWKS with the public keys of the token issuer, in a file or at `https://…`."""
    cognito_user_pool: str | None = _setting(None, "id", pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}_[A-Za-z0-9]{1,50}$")
    """An Amazon Cognito user pool, `eu-west-1_AbCdEfGhI`. It determines the keys, the issuer and the groups claim."""
    jwt_issuer: str | None = _setting(None, "text", default_text="any")
    """Required value of the claim `iss`."""
    jwt_audiences: _Texts = _setting((), "texts", default_text="any")
    """Accepted values of the claim `aud`, separated by commas. For Cognito, the ids of app clients."""
    jwt_algorithms: _Texts = _setting((), "names", default_text="`RS…`, `PS…`, `ES…` and `EdDSA`")
    """Accepted signature algorithms, such as `RS256,ES256`. `HS256`, `HS384` and `HS512` use secret keys, so they are
    accepted only if named."""
    jwt_skew_seconds: float = _setting(60.0, "seconds", ge=0, le=600, allow_inf_nan=False)
    """Tolerated clock difference between issuer and server."""
    jwks_fresh_seconds: float = _setting(600.0, "seconds", ge=1, le=86400)
    """Age at which a JWKS from a URL is fetched again."""
    jwks_expiry_seconds: float = _setting(14_400.0, "seconds", ge=1, le=604800)
    """Age at which a JWKS is not used any more, although its URL does not answer."""
    jwks_plain_http: bool = _setting(False, "yes or no")
    """Whether a JWKS may be fetched over unprotected `http://` from another machine."""
    groups_claim: str = _setting(
        lambda earlier: "cognito:groups" if earlier.get("cognito_user_pool") else "groups",
        "claim",
        default_text="`groups`, for Cognito `cognito:groups`",
        min_length=1,
    )
    """Claim with the groups of the subject: a list, or a text separated by spaces or commas."""
    tenant_claim: str | None = _setting(None, "claim", default_text="no tenants")
    """Claim with the tenant. If set, every request needs a tenant."""
    api_keys_file: Path | None = _setting(None, "file")
    """API keys for the header `x-api-key`: a JSON list with `sha256` or `key`, `subject`, `groups`."""

    # --- client features

    graphiql: bool = _setting(_in_development, "yes or no", default_text=ON_IN_DEVELOPMENT)
    """Whether to serve GraphiQL to browsers."""
    introspection: bool = _setting(_in_development, "yes or no", default_text=ON_IN_DEVELOPMENT)
    """Whether clients may query the schema."""
    federation_sdl: bool = _setting(False, "yes or no")
    """Whether gateways may read the SDL of a subgraph, although introspection is off: see docs/how-to/federation.md."""
    suggestions: bool = _setting(_in_development, "yes or no", default_text=ON_IN_DEVELOPMENT)
    """Whether errors suggest field names."""
    explain_groups: _Texts = _setting((), "groups", default_text="all callers in development")
    """Groups whose members may use the header `x-explain: 1`, separated by commas."""
    explain: bool = _setting(
        lambda earlier: _in_development(earlier) or bool(earlier.get("explain_groups")),
        "yes or no",
        default_text="on in development, or if groups are named",
    )
    """Whether the header `x-explain: 1` is accepted. In production only from members of the named groups."""
    read_unit_price: float = _setting(0.125, "per million", ge=0)
    """Price of a million read units, in any currency, for the costs in explain output and of migrations."""
    write_unit_price: float = _setting(0.625, "per million", ge=0)
    """Price of a million write units, in the same currency, for the costs in explain output and of migrations."""
    documents: Path | None = _setting(None, "file")
    """Trusted documents: a JSON object of queries by id. Clients may send the id instead of the query."""
    only_documents: bool = _setting(False, "yes or no")
    """Whether only trusted documents are executed."""
    grid_groups: _Texts = _setting((), "groups", default_text="all callers in development")
    """Groups whose members may use the data page, separated by commas."""
    grid: bool = _setting(
        lambda earlier: (
            (_in_development(earlier) or bool(earlier.get("grid_groups"))) and not earlier.get("only_documents", False)
        ),
        "yes or no",
        default_text="on in development, or if groups are named; off with trusted documents only",
    )
    """Whether to serve the data page at `/grid`. In production only to members of the named groups."""
    compiled_documents: bool = _setting(True, "yes or no")
    """Whether compiled code completes the responses of queries. Responses are the same without it, and cost more."""
    cors_origins: _Texts = _setting(
        lambda earlier: LOCAL_ORIGINS if _in_development(earlier) else (),
        "origins",
        default_text="pages of localhost in development, else none",
    )
    """Allowed CORS origins, such as `https://app.example.com`, separated by commas; the port `*` means any port, and
    `*` alone all origins."""

    # --- limits of an operation

    max_depth: int = _setting(_LIMITS.depth, "levels", ge=1)
    """Maximum nesting depth of the fields of an operation."""
    max_aliases: int = _setting(_LIMITS.aliases, "aliases", ge=0)
    """Maximum number of aliases in an operation."""
    max_tokens: int = _setting(_LIMITS.tokens, "tokens", ge=1)
    """Maximum number of lexical tokens in a document."""
    max_directives: int = _setting(_LIMITS.directives, "directives", ge=0)
    """Maximum number of directives in an operation."""
    max_root_fields: int = _setting(_LIMITS.root_fields, "fields", ge=1)
    """Maximum number of root fields of an operation."""
    max_cost: int = _setting(_LIMITS.cost, "fields", ge=1)
    """Maximum number of fields and objects in the largest possible response."""
    max_elements: int = _setting(_LIMITS.elements, "elements", ge=1)
    """Maximum number of elements in the inputs of an operation, each time that a field uses them."""
    max_units: float | None = _setting(None, "units", default_text="no ceiling", gt=0, allow_inf_nan=False)
    """Maximum number of capacity units that the reads and writes of an operation charge. The header `x-max-units` can
    lower it."""
    max_body_bytes: int = _setting(1 << 20, "bytes", ge=1)
    """Maximum size of a request body."""
    deadline_seconds: float = _setting(_LIMITS.deadline, "seconds", gt=0, le=3600)
    """Maximum duration of an operation."""

    # --- overload

    max_in_flight: int = _setting(1000, "operations", ge=1)
    """Upper bound of the limit of operations in progress. The limit itself follows the measured delay."""
    queue_seconds: float = _setting(1.0, "seconds", ge=0, le=60, allow_inf_nan=False)
    """How long an operation may wait for others before it is refused. The time counts toward the deadline."""
    memory_budget: int = _setting(64 << 20, "bytes", ge=1 << 20)
    """Maximum size of the replies of the store that operations in progress hold, in each process."""
    max_connections: int = _setting(1000, "connections", ge=1)
    """Maximum number of open connections of each process of `shardql serve`. A new one replaces a silent one."""

    # --- subscriptions

    max_subscriptions: int = _setting(500, "subscriptions", ge=1)
    """Maximum number of open subscriptions of each process, and of its WebSocket connections."""
    max_connection_operations: int = _setting(50, "operations", ge=1)
    """Maximum number of subscriptions and other operations in progress of one WebSocket connection."""
    keep_alive_seconds: float = _setting(15.0, "seconds", ge=0.1, le=3600, allow_inf_nan=False)
    """Interval of the pings on idle connections, so that no proxy closes them. A WebSocket client that answers none
    within the same time is disconnected."""

    # --- operations

    log_level: LogLevel = _setting("info", "level")
    """Lowest level that is logged: `debug`, `info`, `warning`, `error`."""
    log_format: LogFormat = _setting(
        lambda earlier: "text" if _in_development(earlier) else "json",
        "format",
        default_text="`text` in development, else `json`",
    )
    """`json`, one object per line, or `text`."""
    metrics: bool = _setting(True, "yes or no")
    """Whether to serve `/metrics`."""
    tracing: bool = _setting(False, "yes or no")
    """Whether to create OpenTelemetry spans. Needs the extra `shardql[opentelemetry]` and an exporter."""
    ready_seconds: float = _setting(1.0, "seconds", gt=0, le=60)
    """Time limit for the response of the store to the readiness probe `/readyz`."""
    drain_seconds: float = _setting(
        lambda earlier: 0.0 if _in_development(earlier) else 5.0,
        "seconds",
        default_text="0 in development, else 5",
        ge=0,
        le=3600,
    )
    """How long the server accepts new requests after a stop signal, while `/readyz` returns 503."""
    stop_seconds: int = _setting(10, "seconds", ge=1, le=3600)
    """How long accepted requests may then take to finish."""

    @property
    def store_url(self) -> str:
        """The URL of the store, or its default in development."""
        return self.store if self.store is not None else "sqlite:///shardql.db"

    def limits(self) -> Limits:
        return Limits(
            depth=self.max_depth,
            aliases=self.max_aliases,
            tokens=self.max_tokens,
            directives=self.max_directives,
            root_fields=self.max_root_fields,
            cost=self.max_cost,
            elements=self.max_elements,
            deadline=self.deadline_seconds,
        )

    def admission_limits(self) -> tuple[int, float, int]:
        """Return the limits of admission control: operations, seconds of waiting, and bytes."""
        return self.max_in_flight, self.queue_seconds, self.memory_budget

    def read_token_keys(self) -> tuple[bytes, ...]:
        """Return the token keys from the variable or the file. The result is empty if none are set."""
        path = self.token_keys_file
        if path is None:
            return self.token_keys
        with errors_of_file("token_keys_file", path):
            keys = tuple(map(parse_secret, path.read_text("ascii").split()))
        if not keys:
            raise InvalidSettings([f"{variable_name('token_keys_file')} names {path}, which contains no key."])
        return keys

    def read_record_key(self) -> bytes | None:
        """Return the key of record keys from the variable or the file, or None if none is set."""
        path = self.record_key_file
        if path is None:
            return self.record_key
        with errors_of_file("record_key_file", path):
            return parse_secret(path.read_text("ascii").strip(), "record key")

    def list_values(self) -> tuple["SettingValue", ...]:
        """List each setting with its value and origin, without secrets."""
        origins: dict[str, Origin] = dict.fromkeys(self.model_fields_set, "environment")
        origins |= dict.fromkeys(self._arguments, "argument")
        return tuple(
            SettingValue(name, variable_name(name), _display_value(name, value), origins.get(name, "default"))
            for name, value in self
        )


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of one setting, as `shardql doctor` shows it."""

    name: str
    variable: str
    value: str
    origin: Origin


def read_settings(**arguments: Any) -> Settings:
    """Read the settings of this process. An argument that is None counts as absent."""
    provided = {name: value for name, value in arguments.items() if value is not None}
    known = {variable_name(name) for name in Settings.model_fields}
    # Ignoring a variable with nearly the name of a setting could start a server in the wrong mode.
    problems = [
        f"{name} is not a setting. Did you mean {close}?"
        for name in os.environ
        if name.upper().startswith(PREFIX) and name.upper() not in known
        for close in get_close_matches(name.upper(), known, n=1, cutoff=0.9)
    ]
    try:
        settings = Settings(**provided)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False, include_context=False)
        # A default that could not be derived only follows from another error.
        problems += [_format_error(one, provided) for one in errors if one["type"] != "default_factory_not_called"]
        raise InvalidSettings(problems) from None
    if problems:
        raise InvalidSettings(problems)
    settings._arguments = frozenset(provided)  # noqa: SLF001 - set by the factory of the class
    return settings


def variable_name(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


@contextmanager
def errors_of_file(setting: str, path: Path | str) -> Iterator[None]:
    """Report an error in the file of a setting as InvalidSettings, with the name of the setting."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).removesuffix(".")
        raise InvalidSettings([f"{variable_name(setting)} names {path}: {reason}."]) from None


def _display_value(name: str, value: object) -> str:
    if name in SECRET_SETTINGS and value:
        return f"{len(value) if isinstance(value, tuple) else 1} secret"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _format_error(error: ErrorDetails, provided: Mapping[str, Any]) -> str:
    name = str(error["loc"][0]) if error["loc"] else ""
    source = f"--{name.replace('_', '-')}" if name in provided else variable_name(name)
    message = error["msg"].removeprefix("Value error, ")
    value = "" if name in SECRET_SETTINGS else f" is {error['input']!r}"
    return f"{source}{value}: {message[0].lower()}{message[1:]}."
