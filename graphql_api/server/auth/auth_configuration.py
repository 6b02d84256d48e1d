"""Which credentials a server takes, out of its settings."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from graphql_api.errors import InvalidSettings, nearest
from graphql_api.opening import Secrets
from graphql_api.server import Settings, variable
from graphql_api.server.auth.api_keys import ApiKeys, NoApiKeys, read_api_keys
from graphql_api.server.auth.authenticator import Identify
from graphql_api.server.auth.bearer_tokens import Bearer, IssuedTokens
from graphql_api.server.auth.development_tokens import MintedTokens
from graphql_api.server.auth.jwks import (
    HMAC,
    KNOWN_ALGORITHMS,
    PUBLIC_KEY_ALGORITHMS,
    KeySet,
    NoKeySet,
    read_key_set,
)
from graphql_api.server.auth.jwks_loading import address_problem, is_address, load_from, read_file
from graphql_api.server.auth.jwks_source import KeySource, KeysUnavailable
from graphql_api.server.auth.token_claims import ClaimRules

FILE_SECONDS = 10.0
"""after which a file of keys is looked at anew"""
UNKNOWN_FILE_SECONDS = 1.0
"""the same, where a token names a key that was not in it"""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose bearer tokens are taken."""

    jwks: str
    name: str | None
    """what its tokens say in `iss`"""


def issuer_of(settings: Settings) -> Issuer | None:
    """The issuer that settings name, if they name one."""
    pool = settings.cognito_user_pool
    if pool is None:
        return None if settings.jwks is None else Issuer(settings.jwks, settings.jwt_issuer)
    region = pool.partition("_")[0]
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    issuer = f"https://cognito-idp.{region}.{domain}/{pool}"
    return Issuer(settings.jwks or f"{issuer}/.well-known/jwks.json", issuer)


def algorithms_of(settings: Settings) -> Collection[str]:
    """What tokens may be signed by."""
    return frozenset(settings.jwt_algorithms or PUBLIC_KEY_ALGORITHMS)


def identify_of(settings: Settings, secrets: Secrets | None = None) -> Identify:
    """What knows who asks; files are read now, so that what is wrong with them is told at the start."""
    has_tenants = settings.tenant_claim is not None
    bearers: list[Bearer] = []
    if secrets is not None and not settings.production:
        bearers.append(MintedTokens(secrets.tokens, has_tenants))
    issuer = issuer_of(settings)
    if issuer is not None:
        read_keys_at_start(settings)
        bearers.append(IssuedTokens(_source(settings, issuer), _rules(settings, issuer), algorithms_of(settings)))
    return Identify(bearers, read_api_keys_file(settings), needs_tenant=has_tenants)


def read_keys_at_start(settings: Settings) -> KeySet | None:
    """The keys of the issuer, where they are in a file; None where they will be fetched, or nobody issues tokens."""
    issuer = issuer_of(settings)
    if issuer is None or is_address(issuer.jwks):
        return None
    try:
        keys = read_key_set(read_file(Path(issuer.jwks)), algorithms_of(settings))
    except (KeysUnavailable, NoKeySet) as problem:
        raise InvalidSettings([f"{variable('jwks')} names {issuer.jwks}: {problem}"]) from None
    if not keys.keys:
        accepted = ", ".join(sorted(algorithms_of(settings)))
        raise InvalidSettings([f"{variable('jwks')} names {issuer.jwks}, where no key serves any of {accepted}."])
    return keys


def read_api_keys_file(settings: Settings) -> ApiKeys | None:
    """The API keys that are taken; None where there is no file of them."""
    path = settings.api_keys_file
    if path is None:
        return None
    try:
        return read_api_keys(path.read_bytes(), has_tenants=settings.tenant_claim is not None)
    except (OSError, NoApiKeys) as problem:
        why = f"{problem.strerror}." if isinstance(problem, OSError) else problem
        raise InvalidSettings([f"{variable('api_keys_file')} names {path}: {why}"]) from None


def credentials_in_words(settings: Settings) -> str:
    """Whom the server knows, for the one who starts it."""
    issuer = issuer_of(settings)
    kinds = [
        *(() if issuer is None else (f"bearer tokens of {issuer.name or 'any issuer'}, keys from {issuer.jwks}",)),
        *(() if settings.api_keys_file is None else (f"API keys in {settings.api_keys_file}",)),
        *(() if settings.production else (f"tokens of `{_minting(settings)}`",)),
    ]
    if settings.tenant_claim is None:
        kinds.insert(0, "anonymous")
    return "; ".join(kinds) or "nobody"


def _minting(settings: Settings) -> str:
    """The command whose tokens such a server takes, in whichever shell it is given."""
    finds_the_key = settings.store is None or settings.secrets()
    return "shardql token" if finds_the_key else f"shardql token --store {settings.store}"


def credential_mistakes(settings: Settings) -> Iterator[str]:
    """What keeps a server from starting with settings of credentials that are right one by one."""
    if issuer_of(settings) is None:
        alone = [
            name
            for name in ("jwt_issuer", "jwt_audiences", "jwt_algorithms", "jwks_plain_http")
            if getattr(settings, name)
        ]
        for name in alone:
            yield f"{variable(name)} is about bearer tokens, and there is no key to check any: set {variable('jwks')}."
    if settings.cognito_user_pool is not None and settings.jwt_issuer is not None:
        yield f"{variable('cognito_user_pool')} says who the issuer is: leave {variable('jwt_issuer')} out."
    if settings.jwks is not None and is_address(settings.jwks):
        problem = address_problem(settings.jwks, plain_http=settings.jwks_plain_http)
        if problem is not None:
            yield f"{variable('jwks')} is {settings.jwks}: {problem}."
    yield from _algorithm_mistakes(settings)


def _algorithm_mistakes(settings: Settings) -> Iterator[str]:
    for name in settings.jwt_algorithms:
        if name not in KNOWN_ALGORITHMS:
            yield f"{variable('jwt_algorithms')} names {name!r}, which is none.{nearest(name, KNOWN_ALGORITHMS)}"
    secret = sorted(set(settings.jwt_algorithms) & set(HMAC))
    issuer = issuer_of(settings)
    if secret and issuer is not None and is_address(issuer.jwks):
        yield (
            f"{variable('jwt_algorithms')} names {secret[0]}, whose key is a secret, and {issuer.jwks} would show it: "
            "keep the keys in a file, or leave it out."
        )


def _rules(settings: Settings, issuer: Issuer) -> ClaimRules:
    return ClaimRules(
        issuer=issuer.name,
        audiences=frozenset(settings.jwt_audiences),
        skew=settings.jwt_skew_seconds,
        groups_claim=settings.groups_claim,
        tenant_claim=settings.tenant_claim,
        cognito=settings.cognito_user_pool is not None,
    )


def _source(settings: Settings, issuer: Issuer) -> KeySource:
    load = load_from(issuer.jwks, algorithms_of(settings))
    if is_address(issuer.jwks):
        return KeySource(load, issuer.jwks, fresh=settings.jwks_fresh_seconds)
    return KeySource(load, issuer.jwks, fresh=FILE_SECONDS, unknown=UNKNOWN_FILE_SECONDS, again=UNKNOWN_FILE_SECONDS)
