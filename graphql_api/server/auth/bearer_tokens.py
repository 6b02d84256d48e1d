"""Bearer tokens: verified against the keys of an issuer, or minted for development."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from graphql_api.clock import Clock, system_clock
from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.identity import Identity
from graphql_api.server.auth.jwks_cache import JwksCache
from graphql_api.server.auth.jws import SignedToken
from graphql_api.server.auth.token_claims import ClaimRules


class TokenVerifier(Protocol):
    """Verifies one kind of bearer token."""

    def accepts(self, token: SignedToken) -> bool:
        """Return whether a token is of this kind, judged by its header alone."""

    async def verify(self, token: SignedToken) -> Identity:
        """Return the principal of a token. Raise Unauthenticated if the token is invalid."""


@dataclass(frozen=True, slots=True)
class IssuerTokenVerifier:
    """Verifies tokens that an issuer has signed with one of its keys."""

    keys: JwksCache
    rules: ClaimRules
    algorithms: Collection[str]
    clock: Clock = system_clock

    def accepts(self, token: SignedToken) -> bool:  # noqa: ARG002 - this verifier comes last and takes the rest
        """Return True: any token may come from the issuer."""
        return True

    async def verify(self, token: SignedToken) -> Identity:
        """Return the principal of a token."""
        if token.algorithm not in self.algorithms:
            raise Unauthenticated(
                "The token is unsigned, or signed with an algorithm that this server does not accept."
            )
        key = await self.keys.key_for(token.algorithm, token.kid)
        return self.rules.verify(token.verified_claims(key), self.clock())
