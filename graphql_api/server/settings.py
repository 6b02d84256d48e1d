"""All settings of a server. A test compares docs/settings.md with this module.

A value comes from a command-line argument, else from an environment variable SHARDQL_…, else from the default. All
problems are reported together.
"""

import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PrivateAttr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from graphql_api.errors import InvalidSettings
from graphql_api.query import MIN_SECRET_BYTES
from graphql_api.schema import Limits

PREFIX = "SHARDQL_"
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["json", "text"]
Origin: TypeAlias = Literal["argument", "environment", "default"]


def _in_development(settings: Mapping[str, Any]) -> bool:
    return not settings.get("production", False)


def _log_format(settings: Mapping[str, Any]) -> LogFormat:
    return "text" if _in_development(settings) else "json"


def _drain_seconds(settings: Mapping[str, Any]) -> float:
    return 0.0 if _in_development(settings) else 5.0


def _explain(settings: Mapping[str, Any]) -> bool:
    return _in_development(settings) or bool(settings.get("explain_groups"))


def _groups_claim(settings: Mapping[str, Any]) -> str:
    return "cognito:groups" if settings.get("cognito_user_pool") else "groups"


ON_IN_DEVELOPMENT = "on in development"
_LIMITS = Limits()
SECRET_SETTINGS = frozenset({"token_keys", "record_key"})
RESERVED_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths of the operational endpoints. GraphQL cannot be served there."""


def _setting(default: Any, unit: str, description: str, *, default_text: str | None = None, **rules: Any) -> Any:
    """Declare a setting. `default_text` describes the default where its value would not explain it."""
    extra: dict[str, Any] = {"unit": unit, "default_text": default_text}
    return Field(default=default, description=description, json_schema_extra=extra, **rules)


def _derived_setting(
    derive_default: Callable[[Mapping[str, Any]], Any],
    unit: str,
    description: str,
    *,
    default_text: str,
    **rules: Any,
) -> Any:
    """Declare a setting whose default is derived from the settings before it. `default_text` describes it."""
    extra: dict[str, Any] = {"unit": unit, "default_text": default_text}
    return Field(default_factory=derive_default, description=description, json_schema_extra=extra, **rules)


class Settings(BaseSettings):
    """The settings of a server."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, hide_input_in_errors=True, validate_default=False
    )
    _arguments: frozenset[str] = PrivateAttr(default=frozenset())

    # --- mode and store

    production: bool = _setting(
        False,
        "yes or no",
        "Production mode: introspection, suggestions and GraphiQL are off; a store, a token key and a record key are "
        "required.",
    )
    store: str | None = _setting(
        None,
        "URL",
        "URL of the store: `sqlite:///relative.db`, `sqlite:////absolute.db` or `dynamodb://table?region=…`.",
        default_text="`sqlite:///shardql.db` in development",
    )
    create_table: bool | None = _setting(
        None,
        "yes or no",
        "Whether to create a missing table or index at the start.",
        default_text="on for SQLite, off for DynamoDB",
    )
    read_only: bool = _setting(False, "yes or no", "Read-only mode: there are no mutations, and no table is created.")

    # --- network

    host: str = _setting("127.0.0.1", "address", "Address to listen on; `0.0.0.0` or `::` for all interfaces.")
    port: int = _setting(8000, "port", "Port to listen on; 0 chooses a free port.", ge=0, le=65535)
    path: str = _setting("/graphql", "path", "Path of the GraphQL endpoint.", pattern=r"^/[A-Za-z0-9._~/-]*$")
    root_path: str = _setting(
        "", "path", "Path prefix that a reverse proxy adds.", pattern=r"^(/[A-Za-z0-9._~/-]*[^/])?$"
    )
    workers: int = _setting(1, "processes", "Number of worker processes, which share one port.", ge=1, le=256)

    # --- page tokens

    token_keys: Annotated[tuple[bytes, ...], NoDecode] = _setting(
        (),
        "keys",
        "Keys that seal page tokens: at least 32 random bytes each, in base64 or hex, separated by commas. "
        "The first one seals, all of them open.",
        default_text="generated and stored in development",
        repr=False,
    )
    token_keys_file: Path | None = _setting(
        None, "file", "A file with the token keys, one per line, instead of `SHARDQL_TOKEN_KEYS`."
    )

    # --- record keys

    record_key: bytes | None = _setting(
        None,
        "key",
        "Key that signs record keys: at least 32 random bytes, in base64 or hex. Never change it: clients may store "
        "record keys forever.",
        default_text="generated and stored in development",
        repr=False,
    )
    record_key_file: Path | None = _setting(
        None, "file", "A file with the key of record keys, instead of `SHARDQL_RECORD_KEY`."
    )

    # --- authentication

    jwks: str | None = _setting(
        None, "file or URL", "JWKS with the public keys of the token issuer, in a file or at `https://…`."
    )
    cognito_user_pool: str | None = _setting(
        None,
        "id",
        "An Amazon Cognito user pool, `eu-west-1_AbCdEfGhI`. It determines the keys, the issuer and the groups claim.",
        pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}_[A-Za-z0-9]{1,50}$",
    )
    jwt_issuer: str | None = _setting(None, "text", "Required value of the claim `iss`.", default_text="any")
    jwt_audiences: Annotated[tuple[str, ...], NoDecode] = _setting(
        (),
        "texts",
        "Accepted values of the claim `aud`, separated by commas. For Cognito, the ids of app clients.",
        default_text="any",
    )
    jwt_algorithms: Annotated[tuple[str, ...], NoDecode] = _setting(
        (),
        "names",
        "Accepted signature algorithms, such as `RS256,ES256`. `HS256`, `HS384` and `HS512` use secret keys, so they "
        "are accepted only if named.",
        default_text="`RS…`, `PS…`, `ES…` and `EdDSA`",
    )
    jwt_skew_seconds: float = _setting(
        60.0, "seconds", "Tolerated clock difference between issuer and server.", ge=0, le=600, allow_inf_nan=False
    )
    jwks_fresh_seconds: float = _setting(
        600.0, "seconds", "Age at which a JWKS from a URL is fetched again.", ge=1, le=86400
    )
    jwks_plain_http: bool = _setting(
        False, "yes or no", "Whether a JWKS may be fetched over unprotected `http://` from another machine."
    )
    groups_claim: str = _derived_setting(
        _groups_claim,
        "claim",
        "Claim with the groups of the subject: a list, or a text separated by spaces or commas.",
        default_text="`groups`, for Cognito `cognito:groups`",
        min_length=1,
    )
    tenant_claim: str | None = _setting(
        None, "claim", "Claim with the tenant. If set, every request needs a tenant.", default_text="no tenants"
    )
    api_keys_file: Path | None = _setting(
        None, "file", "API keys for the header `x-api-key`: a JSON list with `sha256` or `key`, `subject`, `groups`."
    )

    # --- client features

    graphiql: bool = _derived_setting(
        _in_development, "yes or no", "Whether to serve GraphiQL to browsers.", default_text=ON_IN_DEVELOPMENT
    )
    introspection: bool = _derived_setting(
        _in_development, "yes or no", "Whether clients may query the schema.", default_text=ON_IN_DEVELOPMENT
    )
    suggestions: bool = _derived_setting(
        _in_development, "yes or no", "Whether errors suggest field names.", default_text=ON_IN_DEVELOPMENT
    )
    explain_groups: Annotated[tuple[str, ...], NoDecode] = _setting(
        (),
        "groups",
        "Groups whose members may use the header `x-explain: 1`, separated by commas.",
        default_text="all callers in development",
    )
    explain: bool = _derived_setting(
        _explain,
        "yes or no",
        "Whether the header `x-explain: 1` is accepted. In production only from members of the named groups.",
        default_text="on in development, or if groups are named",
    )
    read_unit_price: float = _setting(
        0.125, "per million", "Price of a million read units, in any currency, for the costs in explain output.", ge=0
    )
    documents: Path | None = _setting(
        None, "file", "Trusted documents: a JSON object of queries by id. Clients may send the id instead of the query."
    )
    only_documents: bool = _setting(False, "yes or no", "Whether only trusted documents are executed.")
    cors_origins: Annotated[tuple[str, ...], NoDecode] = _setting(
        (),
        "origins",
        "Allowed CORS origins, such as `https://app.example.com`, separated by commas; `*` for all.",
        default_text="none",
    )

    # --- limits of an operation

    max_depth: int = _setting(_LIMITS.depth, "levels", "Maximum nesting depth of the fields of an operation.", ge=1)
    max_aliases: int = _setting(_LIMITS.aliases, "aliases", "Maximum number of aliases in an operation.", ge=0)
    max_tokens: int = _setting(_LIMITS.tokens, "tokens", "Maximum number of lexical tokens in a document.", ge=1)
    max_directives: int = _setting(
        _LIMITS.directives, "directives", "Maximum number of directives in an operation.", ge=0
    )
    max_root_fields: int = _setting(
        _LIMITS.root_fields, "fields", "Maximum number of root fields of an operation.", ge=1
    )
    max_cost: int = _setting(
        _LIMITS.cost, "fields", "Maximum number of fields and objects in the largest possible response.", ge=1
    )
    max_body_bytes: int = _setting(1 << 20, "bytes", "Maximum size of a request body.", ge=1)
    deadline_seconds: float = _setting(_LIMITS.deadline, "seconds", "Maximum duration of an operation.", gt=0, le=3600)

    # --- operations

    log_level: LogLevel = _setting("info", "level", "Lowest level that is logged: `debug`, `info`, `warning`, `error`.")
    log_format: LogFormat = _derived_setting(
        _log_format,
        "format",
        "`json`, one object per line, or `text`.",
        default_text="`text` in development, else `json`",
    )
    metrics: bool = _setting(True, "yes or no", "Whether to serve `/metrics`.")
    tracing: bool = _setting(
        False,
        "yes or no",
        "Whether to create OpenTelemetry spans. Needs the extra `shardql[opentelemetry]` and an exporter.",
    )
    ready_seconds: float = _setting(
        1.0, "seconds", "Time limit for the response of the store to the readiness probe `/readyz`.", gt=0, le=60
    )
    drain_seconds: float = _derived_setting(
        _drain_seconds,
        "seconds",
        "How long the server accepts new requests after a stop signal, while `/readyz` returns 503.",
        default_text="0 in development, else 5",
        ge=0,
        le=3600,
    )
    stop_seconds: int = _setting(10, "seconds", "How long accepted requests may then take to finish.", ge=1, le=3600)

    @field_validator("token_keys", mode="before")
    @classmethod
    def _parse_keys(cls, value: object) -> object:
        return tuple(map(parse_secret, _split_list(value))) if isinstance(value, str) else value

    @field_validator("record_key", mode="before")
    @classmethod
    def _parse_record_key(cls, value: object) -> object:
        return parse_secret(value, "record key") if isinstance(value, str) else value

    @field_validator("cors_origins", "jwt_audiences", "jwt_algorithms", "explain_groups", mode="before")
    @classmethod
    def _parse_list(cls, value: object) -> object:
        return tuple(_split_list(value)) if isinstance(value, str) else value

    @property
    def store_url(self) -> str:
        """The URL of the store, or its default in development."""
        return self.store if self.store is not None else "sqlite:///shardql.db"

    def limits(self) -> Limits:
        """Return the limits of an operation."""
        return Limits(
            depth=self.max_depth,
            aliases=self.max_aliases,
            tokens=self.max_tokens,
            directives=self.max_directives,
            root_fields=self.max_root_fields,
            cost=self.max_cost,
            deadline=self.deadline_seconds,
        )

    def read_token_keys(self) -> tuple[bytes, ...]:
        """Return the token keys from the variable or the file. The result is empty if none are set."""
        path = self.token_keys_file
        if path is None:
            return self.token_keys
        try:
            keys = tuple(map(parse_secret, path.read_text("ascii").split()))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidSettings([f"{variable_name('token_keys_file')} names {path}: {reason}."]) from None
        if not keys:
            raise InvalidSettings([f"{variable_name('token_keys_file')} names {path}, which contains no key."])
        return keys

    def list_values(self) -> tuple["SettingValue", ...]:
        """List each setting with its value and origin, without secrets."""
        return tuple(
            SettingValue(name, variable_name(name), _display_value(name, getattr(self, name)), self._origin(name))
            for name in type(self).model_fields
        )

    def _origin(self, name: str) -> Origin:
        if name in self._arguments:
            return "argument"
        return "environment" if name in self.model_fields_set else "default"


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
    problems = list(_mistyped_variables(os.environ))
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


def _split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _display_value(name: str, value: object) -> str:
    match value:
        case None | ():
            return ""
        case bool():
            return "yes" if value else "no"
        case tuple() if name in SECRET_SETTINGS:
            return f"{len(value)} secret"
        case bytes():
            return "1 secret"
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def _mistyped_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Report variables with nearly the name of a setting: ignoring one could start a server in the wrong mode."""
    known = {variable_name(name) for name in Settings.model_fields}
    for name in environment:
        close = get_close_matches(name.upper(), known, n=1, cutoff=0.9) if name.upper().startswith(PREFIX) else []
        if close and name.upper() not in known:
            yield f"{name} is not a setting. Did you mean {close[0]}?"


def _format_error(error: ErrorDetails, provided: Mapping[str, Any]) -> str:
    name = str(error["loc"][0]) if error["loc"] else ""
    source = f"--{name.replace('_', '-')}" if name in provided else variable_name(name)
    message = error["msg"].removeprefix("Value error, ")
    value = "" if name in SECRET_SETTINGS else f" is {error['input']!r}"
    return f"{source}{value}: {message[0].lower()}{message[1:]}."
