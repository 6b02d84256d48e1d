"""Bearer tokens: signed tokens (JWS) of an issuer, or minted by `shardql token` for servers in development mode.

Development tokens are signed with a secret that is derived from the key of page tokens, so there is nothing to set up.
Minting one requires read access to that key.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson
from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from graphql_api.clock import system_clock
from graphql_api.codecs import base64url_decode, read_json
from graphql_api.errors import InvalidJson, Unauthenticated
from graphql_api.server.auth.jwks import JwksCache, VerifyingKey
from graphql_api.server.auth.principals import MAX_CHARACTERS, Identity, is_valid_name

MAX_TOKEN_LENGTH = 16 << 10
DEVELOPMENT_ISSUER = "shardql-development"
_DEVELOPMENT_ALGORITHM = "HS256"
_COMPACT_JWS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_JWS = PyJWS()
_LATEST = 2.0**53
"""seconds since 1970; claims may name larger numbers than a float can represent"""
_GROUP_SEPARATORS = re.compile(r"[\s,]+")
_COGNITO_AUDIENCE_CLAIMS = {"access": "client_id", "id": "aud"}
"""The claim with the audience, by the use of a token."""


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A well-formed token. Nothing in it can be trusted before its signature is verified."""

    text: str
    algorithm: str
    kid: str | None

    def verified_claims(self, key: VerifyingKey) -> dict[str, Any]:
        """Return the claims, after verifying the signature with this key."""
        try:
            payload = _JWS.decode(self.text, key.key, algorithms=[self.algorithm])
        except (PyJWTError, ValueError, TypeError):
            raise Unauthenticated("The signature of the token is invalid: get a new token.") from None
        return _json_object(payload, "The claims of the token are")


def parse_signed_token(token: str) -> SignedToken:
    """Parse the header of a token. Only the algorithm, the key id and the type are used."""
    if len(token) > MAX_TOKEN_LENGTH:
        raise Unauthenticated(f"The token has {len(token):,} characters: at most {MAX_TOKEN_LENGTH:,} are accepted.")
    if not _COMPACT_JWS.fullmatch(token):
        raise Unauthenticated("The bearer token is not a signed JWT: it must have three parts separated by dots.")
    text = base64url_decode(token.partition(".")[0], MAX_TOKEN_LENGTH)
    header = _json_object(text or b"", "The header of the token is")
    algorithm, kid, token_type = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or not isinstance(kid, str | None):
        raise Unauthenticated("The header of the token has no algorithm (alg), or a key id (kid) that is not a text.")
    if "crit" in header or "b64" in header:
        raise Unauthenticated("The header of the token requires extensions (crit, b64), which this server rejects.")
    if not isinstance(token_type, str) or token_type.lower() not in _TYPES:
        raise Unauthenticated("The header of the token has a typ that is neither JWT nor at+jwt.")
    return SignedToken(token, algorithm, kid)


def _json_object(data: bytes, subject: str) -> dict[str, Any]:
    try:
        value = read_json(data, "The token")
    except InvalidJson:
        value = None
    if not isinstance(value, dict):
        raise Unauthenticated(f"{subject} not a JSON object.")
    return value


# --- claims ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The rules that the claims of a token must satisfy."""

    issuer: str | None = None
    """None accepts any issuer."""
    audiences: frozenset[str] = frozenset()
    """The token must name one of these. Empty accepts any audience."""
    skew: float = 60.0
    """Tolerated clock difference, in seconds."""
    groups_claim: str = "groups"
    tenant_claim: str | None = None
    """None means that there are no tenants."""
    cognito: bool = False
    """Whether tokens follow the conventions of Amazon Cognito for the audience and the use of a token."""

    def verify(self, claims: Mapping[str, Any], now: float) -> Identity:
        """Return the principal. Raise Unauthenticated if the claims are not valid now and for this server."""
        expires = self._check_time(claims, now)
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise Unauthenticated("The token comes from another issuer than the one that this server trusts.")
        audience_claim = _COGNITO_AUDIENCE_CLAIMS.get(str(claims.get("token_use"))) if self.cognito else "aud"
        if audience_claim is None:
            raise Unauthenticated("The claim token_use of the token is neither access nor id: send one of these two.")
        if self.audiences and not self.audiences & _text_set(claims.get(audience_claim), "The audience of the token"):
            raise Unauthenticated("The token is not for this server: it names another audience, or none.")
        subject, groups = _required_name(claims, "sub", "the subject"), claims.get(self.groups_claim)
        if isinstance(groups, str):
            groups = [name for name in _GROUP_SEPARATORS.split(groups) if name]
        groups = _text_set(groups, f"The claim {self.groups_claim} of the token")
        tenant = None if self.tenant_claim is None else _required_name(claims, self.tenant_claim, "the tenant")
        return Identity(subject, groups, tenant, min(expires, _LATEST) + self.skew)

    def _check_time(self, claims: Mapping[str, Any], now: float) -> float:
        """Return when the token expires. Raise Unauthenticated if it is not valid now."""
        # Claims are compared, never used in arithmetic: huge numbers would overflow.
        expires, not_before, issued = (_timestamp(claims, name) for name in ("exp", "nbf", "iat"))
        if expires is None:
            raise Unauthenticated("The token has no claim exp: this server accepts no token that never expires.")
        if now - self.skew >= expires:
            raise Unauthenticated("The token has expired: get a new one.")
        if not_before is not None and not_before > now + self.skew:
            raise Unauthenticated("The token is not valid yet: its claim nbf is ahead of the clock of this server.")
        if issued is not None and issued > now + self.skew:
            raise Unauthenticated(
                "The token was issued in the future: its claim iat is ahead of the clock of this server."
            )
        return expires


def _timestamp(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(f"The claim {name} of the token is not a number: it must be seconds since 1970.")
    return value


def _text_set(value: object, subject: str) -> frozenset[str]:
    match value:
        case None:
            return frozenset()
        case str():
            return frozenset([value])
        case list() if all(isinstance(part, str) for part in value):
            return frozenset(value)
    raise Unauthenticated(f"{subject} is neither a text nor a list of texts.")


def _required_name(claims: Mapping[str, Any], claim: str, meaning: str) -> str:
    value = claims.get(claim)
    if value is None:
        raise Unauthenticated(f"The token has no claim {claim}, which names {meaning}.")
    if not is_valid_name(value):
        raise Unauthenticated(
            f"The claim {claim} of the token is not a text of 1 to {MAX_CHARACTERS} printable characters."
        )
    return str(value)


# --- verifiers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IssuerTokenVerifier:
    """Verifies tokens that an issuer has signed with one of its keys. Any token may come from the issuer."""

    keys: JwksCache
    rules: ClaimRules
    algorithms: Collection[str]

    async def verify(self, token: SignedToken) -> Identity:
        if token.algorithm not in self.algorithms:
            raise Unauthenticated(
                "The token is unsigned, or signed with an algorithm that this server does not accept."
            )
        key = await self.keys.key_for(token.algorithm, token.kid)
        return self.rules.verify(token.verified_claims(key), system_clock())


@dataclass(frozen=True, slots=True)
class DevelopmentTokenVerifier:
    """Verifies tokens that were minted with one of these secrets."""

    secrets: Callable[[], Sequence[bytes]] = field(repr=False)
    has_tenants: bool = False
    """If true, each token must name a tenant. Otherwise none may."""

    async def verify(self, token: SignedToken) -> Identity | None:
        """Return the principal, or None if the key id is not that of a development token."""
        if token.kid is None or not token.kid.startswith(f"{DEVELOPMENT_ISSUER}-"):
            return None
        key = next((key for key in map(_derive_key, self.secrets()) if key.kid == token.kid), None)
        if key is None or token.algorithm != _DEVELOPMENT_ALGORITHM:
            raise Unauthenticated(
                "The token was minted with another key: mint it with the store and the token keys of this server."
            )
        claims = token.verified_claims(key)
        if not self.has_tenants and "tenant" in claims:
            raise Unauthenticated(
                "The token names a tenant, but this server has none: set SHARDQL_TENANT_CLAIM, or mint a token without."
            )
        tenant_claim = "tenant" if self.has_tenants else None
        rules = ClaimRules(DEVELOPMENT_ISSUER, frozenset([DEVELOPMENT_ISSUER]), tenant_claim=tenant_claim)
        return rules.verify(claims, system_clock())


def _derive_key(secret: bytes) -> VerifyingKey:
    """Derive the signing key of a secret. Its id identifies the key and reveals nothing about it."""
    key = blake2b(secret, digest_size=32, person=b"shardql-dev-auth").digest()
    fingerprint = blake2b(key, digest_size=4, person=b"shardql-dev-kid").hexdigest()
    return VerifyingKey(f"{DEVELOPMENT_ISSUER}-{fingerprint}", frozenset([_DEVELOPMENT_ALGORITHM]), key)


def mint_token(secret: bytes, identity: Identity, *, now: float, seconds: float) -> str:
    """Mint a token for a principal that expires after these seconds."""
    key = _derive_key(secret)
    claims: dict[str, Any] = {
        "iss": DEVELOPMENT_ISSUER,
        "aud": DEVELOPMENT_ISSUER,
        "sub": identity.subject,
        "groups": sorted(identity.groups),
        "iat": int(now),
        "exp": int(now + seconds),
        **({} if identity.tenant is None else {"tenant": identity.tenant}),
    }
    return _JWS.encode(orjson.dumps(claims), key.key, algorithm=_DEVELOPMENT_ALGORITHM, headers={"kid": key.kid})
