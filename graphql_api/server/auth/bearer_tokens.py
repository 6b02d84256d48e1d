"""Bearer tokens: signed by an issuer whose keys are known, or minted for development."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from graphql_api.clock import Clock, system_clock
from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.identity import Identity
from graphql_api.server.auth.jwks_source import KeySource
from graphql_api.server.auth.jws import SignedText
from graphql_api.server.auth.token_claims import ClaimRules


class Bearer(Protocol):
    """One kind of tokens."""

    def is_for(self, signed: SignedText) -> bool:
        """Whether a token is of this kind, by its head alone."""

    async def identity(self, signed: SignedText) -> Identity:
        """Who a token stands for; refuses one that is not right."""


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """Tokens of an issuer, signed with one of its keys."""

    keys: KeySource
    rules: ClaimRules
    algorithms: Collection[str]
    clock: Clock = system_clock

    def is_for(self, signed: SignedText) -> bool:  # noqa: ARG002 - whatever is of no other kind
        """Every token may be one."""
        return True

    async def identity(self, signed: SignedText) -> Identity:
        """Who a token stands for."""
        if signed.algorithm not in self.algorithms:
            raise Unauthenticated(
                "The token is signed by an algorithm that this server does not accept, or not at all."
            )
        key = await self.keys.key_for(signed.algorithm, signed.kid)
        return self.rules.identity(signed.claims(key), self.clock())
