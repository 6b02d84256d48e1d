"""Development tokens: minted by `shardql token` and accepted only by servers in development mode.

They are signed with a secret that is derived from the key of page tokens, so there is nothing to set up. Minting one
requires read access to that key.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson
from jwt.api_jws import PyJWS

from graphql_api.clock import Clock, system_clock
from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.identity import Identity
from graphql_api.server.auth.jwks import VerifyingKey
from graphql_api.server.auth.jws import SignedToken
from graphql_api.server.auth.token_claims import ClaimRules

ISSUER = "shardql-development"
ALGORITHM = "HS256"
_RULES = ClaimRules(issuer=ISSUER, audiences=frozenset([ISSUER]))
_TENANT_RULES = ClaimRules(issuer=ISSUER, audiences=frozenset([ISSUER]), tenant_claim="tenant")


def mint_token(secret: bytes, identity: Identity, *, now: float, seconds: float) -> str:
    """Mint a token for a principal that expires after these seconds."""
    key = _derive_key(secret)
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": ISSUER,
        "sub": identity.subject,
        "groups": sorted(identity.groups),
        "iat": int(now),
        "exp": int(now + seconds),
        **({} if identity.tenant is None else {"tenant": identity.tenant}),
    }
    return PyJWS().encode(orjson.dumps(claims), key.key, algorithm=ALGORITHM, headers={"kid": key.kid})


@dataclass(frozen=True, slots=True)
class DevelopmentTokenVerifier:
    """Verifies tokens that were minted with one of these secrets."""

    secrets: Sequence[bytes] = field(repr=False)
    has_tenants: bool = False
    """If true, each token must name a tenant. Otherwise none may."""
    clock: Clock = system_clock

    def accepts(self, token: SignedToken) -> bool:
        """Return whether the key id is that of a development token."""
        return token.kid is not None and token.kid.startswith(f"{ISSUER}-")

    async def verify(self, token: SignedToken) -> Identity:
        """Return the principal of a token."""
        key = next((key for key in map(_derive_key, self.secrets) if key.kid == token.kid), None)
        if key is None or token.algorithm != ALGORITHM:
            raise Unauthenticated(
                "The token was minted with another key: mint it with the store and the token keys of this server."
            )
        claims = token.verified_claims(key)
        if not self.has_tenants and "tenant" in claims:
            raise Unauthenticated(
                "The token names a tenant, but this server has none: set SHARDQL_TENANT_CLAIM, or mint a token without."
            )
        return (_TENANT_RULES if self.has_tenants else _RULES).verify(claims, self.clock())


def _derive_key(secret: bytes) -> VerifyingKey:
    """Derive the signing key of a secret. Its id identifies the key and reveals nothing about it."""
    key = blake2b(secret, digest_size=32, person=b"shardql-dev-auth").digest()
    fingerprint = blake2b(key, digest_size=4, person=b"shardql-dev-kid").hexdigest()
    return VerifyingKey(f"{ISSUER}-{fingerprint}", frozenset([ALGORITHM]), key)
