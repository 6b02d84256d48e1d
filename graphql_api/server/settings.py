"""Every setting of a server, listed once: docs/settings.md is compared with it.

A value comes from an argument of the command line, else from the variable SHARDQL_… of the environment, else from the
default. All that is wrong is told at once.
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
Chosen: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""a default out of the settings before it"""
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
SECRET = frozenset({"token_keys", "record_key"})
MACHINE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""where a server answers machines, and so nothing else"""


def _plain(default: Any, unit: str, description: str, *, said: str | None = None, **rules: Any) -> Any:
    """A setting; `said` is its default in words, where the value would not tell."""
    return Field(default=default, description=description, json_schema_extra={"unit": unit, "said": said}, **rules)


def _by_mode(
    choose: Callable[[Mapping[str, Any]], Any], unit: str, description: str, *, said: str, **rules: Any
) -> Any:
    """A setting whose default depends on the mode; `said` tells it in words."""
    return Field(
        default_factory=choose, description=description, json_schema_extra={"unit": unit, "said": said}, **rules
    )


class Settings(BaseSettings):
    """What can be chosen about a server."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, hide_input_in_errors=True, validate_default=False
    )
    _given: frozenset[str] = PrivateAttr(default=frozenset())

    # --- what is served

    production: bool = _plain(
        False,
        "yes or no",
        "Production mode: introspection, suggestions, GraphiQL are off; store, token key and record key must be named.",
    )
    store: str | None = _plain(
        None,
        "URL",
        "Where the records are: `sqlite:///relative.db`, `sqlite:////absolute.db` or `dynamodb://table?region=…`.",
        said="`sqlite:///shardql.db` in development",
    )
    create_table: bool | None = _plain(
        None,
        "yes or no",
        "Whether a missing table or index is made at the start.",
        said="on for SQLite, off for DynamoDB",
    )
    read_only: bool = _plain(False, "yes or no", "Nothing can be written: no mutations, and no table is made.")

    # --- where

    host: str = _plain("127.0.0.1", "address", "Address to listen at; `0.0.0.0` or `::` hears every network.")
    port: int = _plain(8000, "port", "Port to listen at; 0 takes a free one.", ge=0, le=65535)
    path: str = _plain("/graphql", "path", "Where GraphQL is answered.", pattern=r"^/[A-Za-z0-9._~/-]*$")
    root_path: str = _plain(
        "", "path", "Prefix under which a proxy shows the server to clients.", pattern=r"^(/[A-Za-z0-9._~/-]*[^/])?$"
    )
    workers: int = _plain(1, "processes", "How many processes answer, all at one port.", ge=1, le=256)

    # --- page tokens

    token_keys: Annotated[tuple[bytes, ...], NoDecode] = _plain(
        (),
        "keys",
        "What page tokens are sealed with: at least 32 random bytes each, in base64 or hex, with commas between them. "
        "The first one seals, all of them open.",
        said="made and kept in development",
        repr=False,
    )
    token_keys_file: Path | None = _plain(None, "file", "A file with the token keys, one a line, instead.")

    # --- record keys

    record_key: bytes | None = _plain(
        None,
        "key",
        "What record keys are signed with: at least 32 random bytes, in base64 or hex. It is never changed, since "
        "clients keep record keys for ever.",
        said="made and kept in development",
        repr=False,
    )
    record_key_file: Path | None = _plain(None, "file", "A file with the key of record keys instead.")

    # --- who asks

    jwks: str | None = _plain(
        None, "file or URL", "The public keys of whoever issues bearer tokens: a JWKS, in a file or at `https://…`."
    )
    cognito_user_pool: str | None = _plain(
        None,
        "id",
        "A user pool of Amazon Cognito, `eu-west-1_AbCdEfGhI`: keys, issuer and the claim of groups follow from it.",
        pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}_[A-Za-z0-9]{1,50}$",
    )
    jwt_issuer: str | None = _plain(None, "text", "What the claim `iss` of a token must be.", said="any")
    jwt_audiences: Annotated[tuple[str, ...], NoDecode] = _plain(
        (),
        "texts",
        "One of these must be in the claim `aud` of a token, with commas between them; for Cognito ids of app clients.",
        said="any",
    )
    jwt_algorithms: Annotated[tuple[str, ...], NoDecode] = _plain(
        (),
        "names",
        "What tokens may be signed by: `RS256,ES256`. `HS256` and its sisters, whose keys are secrets, only if named.",
        said="`RS…`, `PS…`, `ES…` and `EdDSA`",
    )
    jwt_skew_seconds: float = _plain(
        60.0, "seconds", "How far the clock of the issuer may be off.", ge=0, le=600, allow_inf_nan=False
    )
    jwks_fresh_seconds: float = _plain(
        600.0, "seconds", "How old keys from a URL may be before they are asked for anew.", ge=1, le=86400
    )
    jwks_plain_http: bool = _plain(
        False, "yes or no", "Whether keys may come over `http://` from another machine, unprotected."
    )
    groups_claim: str = _by_mode(
        _groups_claim,
        "claim",
        "Where a token names the groups of whom it stands for: a list, or a text with spaces or commas.",
        said="`groups`, of Cognito `cognito:groups`",
        min_length=1,
    )
    tenant_claim: str | None = _plain(
        None, "claim", "Where a token names the tenant. If it is set, every request needs one.", said="no tenants"
    )
    api_keys_file: Path | None = _plain(
        None, "file", "API keys for the header `x-api-key`: a JSON list with `sha256` or `key`, `subject`, `groups`."
    )

    # --- what clients may do

    graphiql: bool = _by_mode(_in_development, "yes or no", "The GraphiQL page for browsers.", said=ON_IN_DEVELOPMENT)
    introspection: bool = _by_mode(
        _in_development, "yes or no", "Whether clients may ask for the schema.", said=ON_IN_DEVELOPMENT
    )
    suggestions: bool = _by_mode(
        _in_development, "yes or no", "Whether errors propose names of fields.", said=ON_IN_DEVELOPMENT
    )
    explain_groups: Annotated[tuple[str, ...], NoDecode] = _plain(
        (),
        "groups",
        "Whose header `x-explain: 1` is heard: that of members of these groups, with commas between them.",
        said="everybody in development",
    )
    explain: bool = _by_mode(
        _explain,
        "yes or no",
        "Whether the header `x-explain: 1` is heard; in production only of members of named groups.",
        said="on in development, or if groups are named",
    )
    read_unit_price: float = _plain(
        0.125, "per million", "What a million read units cost, in any currency: explain tells what pages cost.", ge=0
    )
    documents: Path | None = _plain(
        None, "file", "Trusted documents: a JSON object of queries by their ids, which clients may send instead."
    )
    only_documents: bool = _plain(False, "yes or no", "Only trusted documents are executed.")
    cors_origins: Annotated[tuple[str, ...], NoDecode] = _plain(
        (),
        "origins",
        "Pages of these origins may ask: `https://app.example.com`, with commas between them; `*` for all.",
        said="none",
    )

    # --- limits of an operation

    max_depth: int = _plain(_LIMITS.depth, "levels", "How deep the fields of an operation may be nested.", ge=1)
    max_aliases: int = _plain(_LIMITS.aliases, "aliases", "How many aliases an operation may have.", ge=0)
    max_tokens: int = _plain(
        _LIMITS.tokens, "tokens", "How many words and signs of the query language a document may have.", ge=1
    )
    max_directives: int = _plain(_LIMITS.directives, "directives", "How many directives an operation may have.", ge=0)
    max_root_fields: int = _plain(
        _LIMITS.root_fields, "fields", "How many fields an operation may ask for at its root.", ge=1
    )
    max_cost: int = _plain(
        _LIMITS.cost, "fields", "How many fields and objects the largest answer of an operation may have.", ge=1
    )
    max_body_bytes: int = _plain(1 << 20, "bytes", "How large the body of a request may be.", ge=1)
    deadline_seconds: float = _plain(_LIMITS.deadline, "seconds", "How long an operation may take.", gt=0, le=3600)

    # --- operations

    log_level: LogLevel = _plain("info", "level", "What is logged: `debug`, `info`, `warning` or `error` and above.")
    log_format: LogFormat = _by_mode(
        _log_format, "format", "`json`, one object a line, or `text`.", said="`text` in development, else `json`"
    )
    metrics: bool = _plain(True, "yes or no", "Whether `/metrics` is answered.")
    tracing: bool = _plain(
        False, "yes or no", "Spans of OpenTelemetry; needs the extra `shardql[opentelemetry]` and an exporter."
    )
    ready_seconds: float = _plain(1.0, "seconds", "How long the store may take to answer `/readyz`.", gt=0, le=60)
    drain_seconds: float = _by_mode(
        _drain_seconds,
        "seconds",
        "How long requests are still accepted after a signal to stop, while `/readyz` answers 503.",
        said="0 in development, else 5",
        ge=0,
        le=3600,
    )
    stop_seconds: int = _plain(
        10, "seconds", "How long accepted requests may take to finish after that.", ge=1, le=3600
    )

    @field_validator("token_keys", mode="before")
    @classmethod
    def _read_keys(cls, value: object) -> object:
        return tuple(map(read_secret, _parts(value))) if isinstance(value, str) else value

    @field_validator("record_key", mode="before")
    @classmethod
    def _read_record_key(cls, value: object) -> object:
        return read_secret(value, "record key") if isinstance(value, str) else value

    @field_validator("cors_origins", "jwt_audiences", "jwt_algorithms", "explain_groups", mode="before")
    @classmethod
    def _read_list(cls, value: object) -> object:
        return tuple(_parts(value)) if isinstance(value, str) else value

    @property
    def store_url(self) -> str:
        """Where the records are."""
        return self.store if self.store is not None else "sqlite:///shardql.db"

    def limits(self) -> Limits:
        """What an operation may ask for."""
        return Limits(
            depth=self.max_depth,
            aliases=self.max_aliases,
            tokens=self.max_tokens,
            directives=self.max_directives,
            root_fields=self.max_root_fields,
            cost=self.max_cost,
            deadline=self.deadline_seconds,
        )

    def secrets(self) -> tuple[bytes, ...]:
        """The token keys, out of a variable or a file; none where none is given."""
        if self.token_keys_file is None:
            return self.token_keys
        try:
            lines = self.token_keys_file.read_text("ascii").split()
            keys = tuple(map(read_secret, lines))
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            raise InvalidSettings([f"{variable('token_keys_file')} names {self.token_keys_file}: {why}."]) from None
        if not keys:
            raise InvalidSettings([f"{variable('token_keys_file')} names {self.token_keys_file}, which holds no key."])
        return keys

    def listing(self) -> tuple["Listed", ...]:
        """Each setting with its value and where that comes from, for people to read."""
        return tuple(
            Listed(name, variable(name), _shown(name, getattr(self, name)), self._origin(name))
            for name in type(self).model_fields
        )

    def _origin(self, name: str) -> Origin:
        if name in self._given:
            return "argument"
        return "environment" if name in self.model_fields_set else "default"


@dataclass(frozen=True, slots=True)
class Listed:
    """One setting as it stands."""

    name: str
    variable: str
    value: str
    origin: Origin


def read_settings(**arguments: Any) -> Settings:
    """The settings of this process; an argument that is None is none."""
    given = {name: value for name, value in arguments.items() if value is not None}
    problems = list(_mistyped(os.environ))
    try:
        settings = Settings(**given)
    except ValidationError as refused:
        found = refused.errors(include_url=False, include_context=False)
        problems += [_told(problem, given) for problem in found if problem["type"] != "default_factory_not_called"]
        raise InvalidSettings(problems) from None
    if problems:
        raise InvalidSettings(problems)
    settings._given = frozenset(given)  # noqa: SLF001 - a note of our own, on our own
    return settings


def variable(name: str) -> str:
    """The variable of the environment that holds a setting."""
    return f"{PREFIX}{name.upper()}"


def read_secret(text: str, kind: str = "token key") -> bytes:
    """A key out of hex or base64, of either alphabet, with or without padding."""
    if re.fullmatch(r"(?:[0-9A-Fa-f]{2}){32,}", text):
        return bytes.fromhex(text)
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        secret = b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        raise ValueError(f"a {kind} is neither base64 nor hex; `openssl rand -base64 32` makes one") from None
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(
            f"a {kind} of {len(secret)} bytes is too short, at least {MIN_SECRET_BYTES} random bytes are needed; "
            "`openssl rand -base64 32` makes one"
        )
    return secret


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _shown(name: str, value: object) -> str:
    match value:
        case None | ():
            return ""
        case bool():
            return "yes" if value else "no"
        case tuple() if name in SECRET:
            return f"{len(value)} secret"
        case bytes():
            return "1 secret"
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def _mistyped(environment: Mapping[str, str]) -> Iterator[str]:
    """Variables that look like one of ours: a server must not start in another mode than somebody believes."""
    known = {variable(name) for name in Settings.model_fields}
    for name in environment:
        close = get_close_matches(name.upper(), known, n=1, cutoff=0.9) if name.upper().startswith(PREFIX) else []
        if close and name.upper() not in known:
            yield f"{name} is no setting. Did you mean {close[0]}?"


def _told(problem: ErrorDetails, given: Mapping[str, Any]) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else ""
    where = f"--{name.replace('_', '-')}" if name in given else variable(name)
    message = problem["msg"].removeprefix("Value error, ")
    is_value = "" if name in SECRET else f" is {problem['input']!r}"
    return f"{where}{is_value}: {message[0].lower()}{message[1:]}."
