"""Tokens for development, minted on the command line and taken by development servers alone.

They are signed with a secret that is derived from the key of page tokens, so a developer has nothing to set up, and
whoever can mint one has read that key.
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
from graphql_api.server.auth.jws import SignedText
from graphql_api.server.auth.token_claims import ClaimRules

ISSUER = "shardql-development"
ALGORITHM = "HS256"
_RULES = ClaimRules(issuer=ISSUER, audiences=frozenset([ISSUER]))
_TENANT_RULES = ClaimRules(issuer=ISSUER, audiences=frozenset([ISSUER]), tenant_claim="tenant")


def mint(secret: bytes, who: Identity, *, now: float, seconds: float) -> str:
    """A token for somebody, good for so long."""
    key = _key(secret)
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": ISSUER,
        "sub": who.subject,
        "groups": sorted(who.groups),
        "iat": int(now),
        "exp": int(now + seconds),
        **({} if who.tenant is None else {"tenant": who.tenant}),
    }
    return PyJWS().encode(orjson.dumps(claims), key.key, algorithm=ALGORITHM, headers={"kid": key.kid})


@dataclass(frozen=True, slots=True)
class MintedTokens:
    """Tokens that were minted with one of these secrets."""

    secrets: Sequence[bytes] = field(repr=False)
    has_tenants: bool = False
    """each token must name one; else none may"""
    clock: Clock = system_clock

    def is_for(self, signed: SignedText) -> bool:
        """Whether a token says by the id of its key that it was minted."""
        return signed.kid is not None and signed.kid.startswith(f"{ISSUER}-")

    async def identity(self, signed: SignedText) -> Identity:
        """Who a token stands for."""
        key = next((key for key in map(_key, self.secrets) if key.kid == signed.kid), None)
        if key is None or signed.algorithm != ALGORITHM:
            raise Unauthenticated(
                "The token was minted with another key: mint it with the store and the token keys of this server."
            )
        claims = signed.claims(key)
        if not self.has_tenants and "tenant" in claims:
            raise Unauthenticated(
                "The token names a tenant, and this server has none: set SHARDQL_TENANT_CLAIM, or mint it without."
            )
        return (_TENANT_RULES if self.has_tenants else _RULES).identity(claims, self.clock())


def _key(secret: bytes) -> VerifyingKey:
    """The key of a secret, under an id that tells it from others and nothing about it."""
    key = blake2b(secret, digest_size=32, person=b"shardql-dev-auth").digest()
    fingerprint = blake2b(key, digest_size=4, person=b"shardql-dev-kid").hexdigest()
    return VerifyingKey(f"{ISSUER}-{fingerprint}", frozenset([ALGORITHM]), key)
