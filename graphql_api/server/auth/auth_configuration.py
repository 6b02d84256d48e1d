"""Builds the authenticator of a server from its settings."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from graphql_api.connection import Secrets
from graphql_api.errors import InvalidSettings, nearest
from graphql_api.server import Settings, variable_name
from graphql_api.server.auth.api_keys import ApiKeySet, InvalidApiKeys, read_api_keys
from graphql_api.server.auth.authenticator import Authenticator
from graphql_api.server.auth.bearer_tokens import IssuerTokenVerifier, TokenVerifier
from graphql_api.server.auth.development_tokens import DevelopmentTokenVerifier
from graphql_api.server.auth.jwks import (
    HMAC,
    KNOWN_ALGORITHMS,
    PUBLIC_KEY_ALGORITHMS,
    InvalidKeySet,
    KeySet,
    read_key_set,
)
from graphql_api.server.auth.jwks_cache import JwksCache, JwksUnavailable
from graphql_api.server.auth.jwks_loading import is_url, jwks_loader, read_limited_file, url_problem
from graphql_api.server.auth.token_claims import ClaimRules

FILE_MAX_AGE = 10.0
"""Seconds after which a JWKS file is read again."""
FILE_RETRY_INTERVAL = 1.0
"""The same after a failed read, or if a token names an unknown key."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """The issuer whose bearer tokens are accepted."""

    jwks: str
    name: str | None
    """Required value of the claim `iss`. None accepts any."""


def configured_issuer(settings: Settings) -> Issuer | None:
    """Return the issuer in the settings, if there is one."""
    pool = settings.cognito_user_pool
    if pool is None:
        return None if settings.jwks is None else Issuer(settings.jwks, settings.jwt_issuer)
    region = pool.partition("_")[0]
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    issuer = f"https://cognito-idp.{region}.{domain}/{pool}"
    return Issuer(settings.jwks or f"{issuer}/.well-known/jwks.json", issuer)


def accepted_algorithms(settings: Settings) -> Collection[str]:
    """Return the accepted signature algorithms."""
    return frozenset(settings.jwt_algorithms or PUBLIC_KEY_ALGORITHMS)


def build_authenticator(settings: Settings, secrets: Secrets | None = None) -> Authenticator:
    """Build the authenticator. Files are read now, so that an invalid file prevents the start."""
    has_tenants = settings.tenant_claim is not None
    verifiers: list[TokenVerifier] = []
    if secrets is not None and not settings.production:
        verifiers.append(DevelopmentTokenVerifier(secrets.tokens, has_tenants))
    issuer = configured_issuer(settings)
    if issuer is not None:
        read_jwks_file(settings)
        verifiers.append(
            IssuerTokenVerifier(
                _jwks_cache(settings, issuer), _claim_rules(settings, issuer), accepted_algorithms(settings)
            )
        )
    return Authenticator(verifiers, read_api_keys_file(settings), needs_tenant=has_tenants)


def read_jwks_file(settings: Settings) -> KeySet | None:
    """Read the JWKS of the issuer if it is a file. Return None if it is a URL, or if there is no issuer."""
    issuer = configured_issuer(settings)
    if issuer is None or is_url(issuer.jwks):
        return None
    algorithms = accepted_algorithms(settings)
    try:
        keys = read_key_set(read_limited_file(Path(issuer.jwks)), algorithms)
    except (JwksUnavailable, InvalidKeySet) as error:
        raise InvalidSettings([f"{variable_name('jwks')} names {issuer.jwks}: {error}"]) from None
    if not keys.keys:
        accepted = ", ".join(sorted(algorithms))
        raise InvalidSettings(
            [f"{variable_name('jwks')} names {issuer.jwks}, which has no usable key for any of {accepted}."]
        )
    return keys


def read_api_keys_file(settings: Settings) -> ApiKeySet | None:
    """Read the accepted API keys. Return None if no file is set."""
    path = settings.api_keys_file
    if path is None:
        return None
    try:
        return read_api_keys(path.read_bytes(), has_tenants=settings.tenant_claim is not None)
    except (OSError, InvalidApiKeys) as error:
        reason = f"{error.strerror}." if isinstance(error, OSError) else error
        raise InvalidSettings([f"{variable_name('api_keys_file')} names {path}: {reason}"]) from None


def describe_credentials(settings: Settings) -> str:
    """Describe the accepted credentials, for start-up messages."""
    issuer = configured_issuer(settings)
    kinds = [
        *(() if issuer is None else (f"bearer tokens of {issuer.name or 'any issuer'}, keys from {issuer.jwks}",)),
        *(() if settings.api_keys_file is None else (f"API keys in {settings.api_keys_file}",)),
        *(() if settings.production else (f"tokens of `{_token_command(settings)}`",)),
    ]
    if settings.tenant_claim is None:
        kinds.insert(0, "anonymous")
    return "; ".join(kinds) or "none"


def _token_command(settings: Settings) -> str:
    """Return the command that mints tokens for this server, with the option that locates its key."""
    finds_key_by_default = settings.store is None or settings.read_token_keys()
    return "shardql token" if finds_key_by_default else f"shardql token --store {settings.store}"


def credential_problems(settings: Settings) -> Iterator[str]:
    """Yield each reason why a server cannot start with these settings of credentials."""
    if configured_issuer(settings) is None:
        unused = [
            name
            for name in ("jwt_issuer", "jwt_audiences", "jwt_algorithms", "jwks_plain_http")
            if getattr(settings, name)
        ]
        for name in unused:
            yield (
                f"{variable_name(name)} applies to bearer tokens, but no keys are configured to verify them: "
                f"set {variable_name('jwks')}."
            )
    if settings.cognito_user_pool is not None and settings.jwt_issuer is not None:
        yield (f"{variable_name('cognito_user_pool')} determines the issuer: leave {variable_name('jwt_issuer')} out.")
    if settings.jwks is not None and is_url(settings.jwks):
        problem = url_problem(settings.jwks, plain_http=settings.jwks_plain_http)
        if problem is not None:
            yield f"{variable_name('jwks')} is {settings.jwks}: {problem}."
    yield from _algorithm_problems(settings)


def _algorithm_problems(settings: Settings) -> Iterator[str]:
    setting = variable_name("jwt_algorithms")
    for name in settings.jwt_algorithms:
        if name not in KNOWN_ALGORITHMS:
            yield f"{setting} names {name!r}, which is not a supported algorithm.{nearest(name, KNOWN_ALGORITHMS)}"
    secret = sorted(set(settings.jwt_algorithms) & set(HMAC))
    issuer = configured_issuer(settings)
    if secret and issuer is not None and is_url(issuer.jwks):
        yield (
            f"{setting} names {secret[0]}, whose key is a secret, and {issuer.jwks} would reveal it: "
            "keep the keys in a file, or remove the algorithm."
        )


def _claim_rules(settings: Settings, issuer: Issuer) -> ClaimRules:
    return ClaimRules(
        issuer=issuer.name,
        audiences=frozenset(settings.jwt_audiences),
        skew=settings.jwt_skew_seconds,
        groups_claim=settings.groups_claim,
        tenant_claim=settings.tenant_claim,
        cognito=settings.cognito_user_pool is not None,
    )


def _jwks_cache(settings: Settings, issuer: Issuer) -> JwksCache:
    load = jwks_loader(issuer.jwks, accepted_algorithms(settings))
    if is_url(issuer.jwks):
        return JwksCache(load, issuer.jwks, max_age=settings.jwks_fresh_seconds)
    return JwksCache(
        load,
        issuer.jwks,
        max_age=FILE_MAX_AGE,
        unknown_key_interval=FILE_RETRY_INTERVAL,
        retry_interval=FILE_RETRY_INTERVAL,
    )
