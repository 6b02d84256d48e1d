"""Authentication: determines the principal of a request from its headers, by the rules of the settings."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from starlette.datastructures import Headers

from graphql_api.connection import Secrets
from graphql_api.errors import InvalidSettings, Unauthenticated, nearest
from graphql_api.server import Settings, errors_of_file, variable_name
from graphql_api.server.auth.bearer_tokens import (
    ClaimRules,
    DevelopmentTokenVerifier,
    IssuerTokenVerifier,
    parse_signed_token,
)
from graphql_api.server.auth.jwks import (
    HMAC,
    KNOWN_ALGORITHMS,
    PUBLIC_KEY_ALGORITHMS,
    JwksCache,
    JwksUnavailable,
    KeySet,
    is_url,
    load_key_set,
    read_key_set_file,
    url_problem,
)
from graphql_api.server.auth.principals import ApiKey, Identity, authenticate_api_key, read_api_keys

AUTHORIZATION, API_KEY = "authorization", "x-api-key"
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)
FILE_MAX_AGE = 10.0
"""Seconds after which a JWKS file is read again."""
FILE_RETRY_INTERVAL = 1.0
"""The same after a failed read, or if a token names an unknown key."""


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Authenticates requests. Credentials that are sent must be valid, even if the operation needs none."""

    token_verifiers: Sequence[DevelopmentTokenVerifier | IssuerTokenVerifier] = ()
    """The first verifier of the kind of a token decides."""
    api_keys: Sequence[ApiKey] | None = None
    needs_tenant: bool = False

    async def authenticate(self, headers: Headers) -> Identity:
        """Return the principal. Raise Unauthenticated for invalid credentials, or if a required tenant is missing."""
        authorization, api_key = headers.getlist(AUTHORIZATION), headers.getlist(API_KEY)
        if authorization and api_key:
            raise Unauthenticated(f"Both {AUTHORIZATION} and {API_KEY} were sent: send one of them.")
        if len(authorization) > 1 or len(api_key) > 1:
            header = AUTHORIZATION if authorization else API_KEY
            raise Unauthenticated(f"The header {header} was sent twice: send it once.")
        identity = Identity()
        if api_key:
            if self.api_keys is None:
                raise Unauthenticated(f"This server accepts no API keys: leave the header {API_KEY} out.")
            identity = authenticate_api_key(api_key[0], self.api_keys)
        elif authorization:
            identity = await self._verify_bearer(authorization[0])
        if self.needs_tenant and identity.tenant is None:
            raise Unauthenticated("Every request to this server needs a tenant: send a credential that names one.")
        return identity

    async def _verify_bearer(self, value: str) -> Identity:
        if not self.token_verifiers:
            raise Unauthenticated(f"This server accepts no bearer tokens: leave the header {AUTHORIZATION} out.")
        match = _BEARER.fullmatch(value.strip())
        if not match:
            raise Unauthenticated(f"The header {AUTHORIZATION} must be the word Bearer, a space, and one token.")
        token = parse_signed_token(match[1])
        for verifier in self.token_verifiers:
            identity = await verifier.verify(token)
            if identity is not None:
                return identity
        raise Unauthenticated("This server does not accept tokens of this kind: `shardql token` mints one for it.")


# --- settings --------------------------------------------------------------------------------------------------


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


def build_authenticator(settings: Settings, secrets: Callable[[], Secrets] | None = None) -> Authenticator:
    """Build the authenticator. Files are read now, so that an invalid file prevents the start."""
    has_tenants = settings.tenant_claim is not None
    verifiers: list[DevelopmentTokenVerifier | IssuerTokenVerifier] = []
    if secrets is not None and not settings.production:
        verifiers.append(DevelopmentTokenVerifier(lambda: secrets().tokens, has_tenants))
    issuer = configured_issuer(settings)
    if issuer is not None:
        is_file = read_jwks_file(settings) is not None
        algorithms = accepted_algorithms(settings)
        cache = JwksCache(
            partial(load_key_set, issuer.jwks, algorithms),
            issuer.jwks,
            max_age=settings.jwks_fresh_seconds,
            expiry_age=settings.jwks_expiry_seconds,
        )
        if is_file:
            cache.max_age = FILE_MAX_AGE
            cache.unknown_key_interval = cache.retry_interval = FILE_RETRY_INTERVAL
        rules = ClaimRules(
            issuer=issuer.name,
            audiences=frozenset(settings.jwt_audiences),
            skew=settings.jwt_skew_seconds,
            groups_claim=settings.groups_claim,
            tenant_claim=settings.tenant_claim,
            cognito=settings.cognito_user_pool is not None,
        )
        verifiers.append(IssuerTokenVerifier(cache, rules, algorithms))
    return Authenticator(verifiers, read_api_keys_file(settings), needs_tenant=has_tenants)


def read_jwks_file(settings: Settings) -> KeySet | None:
    """Read the JWKS of the issuer if it is a file. Return None if it is a URL, or if there is no issuer."""
    issuer = configured_issuer(settings)
    if issuer is None or is_url(issuer.jwks):
        return None
    algorithms, location = accepted_algorithms(settings), f"{variable_name('jwks')} names {issuer.jwks}"
    try:
        keys = read_key_set_file(issuer.jwks, algorithms)
    except JwksUnavailable as error:
        raise InvalidSettings([f"{location}: {error}"]) from None
    if not keys.keys:
        accepted = ", ".join(sorted(algorithms))
        raise InvalidSettings([f"{location}, which has no usable key for any of {accepted}."])
    return keys


def read_api_keys_file(settings: Settings) -> Sequence[ApiKey] | None:
    """Read the accepted API keys. Return None if no file is set."""
    path = settings.api_keys_file
    if path is None:
        return None
    with errors_of_file("api_keys_file", path):
        return read_api_keys(path.read_bytes(), has_tenants=settings.tenant_claim is not None)


def describe_credentials(settings: Settings) -> str:
    """Describe the accepted credentials, for start-up messages."""
    issuer = configured_issuer(settings)
    kinds = [] if settings.tenant_claim is not None else ["anonymous"]
    if issuer is not None:
        kinds.append(f"bearer tokens of {issuer.name or 'any issuer'}, keys from {issuer.jwks}")
    if settings.api_keys_file is not None:
        kinds.append(f"API keys in {settings.api_keys_file}")
    if not settings.production:
        finds_key_by_default = settings.store is None or settings.read_token_keys()
        kinds.append(f"tokens of `shardql token{'' if finds_key_by_default else f' --store {settings.store}'}`")
    return "; ".join(kinds) or "none"


def credential_problems(settings: Settings) -> Iterator[str]:
    """Yield each reason why a server cannot start with these settings of credentials."""
    issuer, jwks, algorithms = configured_issuer(settings), variable_name("jwks"), variable_name("jwt_algorithms")
    if issuer is None:
        for name in ("jwt_issuer", "jwt_audiences", "jwt_algorithms", "jwks_plain_http"):
            if getattr(settings, name):
                yield (
                    f"{variable_name(name)} applies to bearer tokens, but no keys are configured to verify them: "
                    f"set {jwks}."
                )
    if settings.cognito_user_pool is not None and settings.jwt_issuer is not None:
        yield f"{variable_name('cognito_user_pool')} determines the issuer: leave {variable_name('jwt_issuer')} out."
    if settings.jwks is not None and is_url(settings.jwks):
        problem = url_problem(settings.jwks, plain_http=settings.jwks_plain_http)
        if problem is not None:
            yield f"{jwks} is {settings.jwks}: {problem}."
    if settings.jwks_expiry_seconds < settings.jwks_fresh_seconds:
        yield (
            f"{variable_name('jwks_expiry_seconds')} is less than {variable_name('jwks_fresh_seconds')}: "
            "keys would expire before they are fetched again."
        )
    for name in settings.jwt_algorithms:
        if name not in KNOWN_ALGORITHMS:
            yield f"{algorithms} names {name!r}, which is not a supported algorithm.{nearest(name, KNOWN_ALGORITHMS)}"
    secret = sorted(set(settings.jwt_algorithms) & set(HMAC))
    if secret and issuer is not None and is_url(issuer.jwks):
        yield (
            f"{algorithms} names {secret[0]}, whose key is a secret, and {issuer.jwks} would reveal it: "
            "keep the keys in a file, or remove the algorithm."
        )
