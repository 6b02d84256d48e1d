"""What the claims of a token must say, and who they say it is. Time is passed in; nothing here knows of signatures."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.identity import Identity

MAX_CHARACTERS = 255
"""of a subject or a tenant: both get into keys"""
_BETWEEN_GROUPS = re.compile(r"[\s,]+")


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What a server asks of the claims of a token."""

    issuer: str | None = None
    """None: any"""
    audiences: frozenset[str] = frozenset()
    """one of them must be named; none: any"""
    skew: float = 60.0
    """seconds by which clocks may differ"""
    groups_claim: str = "groups"
    tenant_claim: str | None = None
    """None: there are no tenants"""
    cognito: bool = False
    """access tokens name their audience as Amazon Cognito does, and say what they are for"""

    def identity(self, claims: Mapping[str, Any], now: float) -> Identity:
        """Who the claims say it is; refuses claims that do not hold now and here."""
        self._check_time(claims, now)
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise Unauthenticated("The token comes from another issuer than the one that this server trusts.")
        audience = self._cognito_audience(claims) if self.cognito else claims.get("aud")
        if self.audiences and not self.audiences & _texts(audience, "The audience of the token"):
            raise Unauthenticated("The token is not for this server: it names another audience, or none.")
        return Identity(
            _one_text(claims.get("sub"), "sub", "who it stands for"), self._groups(claims), self._tenant(claims)
        )

    def _check_time(self, claims: Mapping[str, Any], now: float) -> None:
        # Claims are only compared: what is too large to be added to is no special case.
        expires, begins, issued = (_moment(claims, name) for name in ("exp", "nbf", "iat"))
        if expires is None:
            raise Unauthenticated("The token has no claim exp: this server takes no token that never expires.")
        if now - self.skew >= expires:
            raise Unauthenticated("The token has expired: get a new one.")
        if begins is not None and begins > now + self.skew:
            raise Unauthenticated("The token is not valid yet: its claim nbf lies ahead of the clock of this server.")
        if issued is not None and issued > now + self.skew:
            raise Unauthenticated(
                "The token was issued in the future: its claim iat lies ahead of this server's clock."
            )

    def _cognito_audience(self, claims: Mapping[str, Any]) -> object:
        match claims.get("token_use"):
            case "access":
                return claims.get("client_id")
            case "id":
                return claims.get("aud")
        raise Unauthenticated("The token says by token_use neither access nor id: send one of these two.")

    def _groups(self, claims: Mapping[str, Any]) -> frozenset[str]:
        named = claims.get(self.groups_claim)
        if isinstance(named, str):
            return frozenset(filter(None, _BETWEEN_GROUPS.split(named)))
        return _texts(named, f"The claim {self.groups_claim} of the token")

    def _tenant(self, claims: Mapping[str, Any]) -> str | None:
        if self.tenant_claim is None:
            return None
        return _one_text(claims.get(self.tenant_claim), self.tenant_claim, "its tenant")


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(f"The claim {name} of the token is no number: it must be seconds since 1970.")
    return value


def _texts(value: object, what: str) -> frozenset[str]:
    match value:
        case None:
            return frozenset()
        case str():
            return frozenset([value])
        case list() if all(isinstance(part, str) for part in value):
            return frozenset(value)
    raise Unauthenticated(f"{what} is neither a text nor a list of texts.")


def _one_text(value: object, name: str, told: str) -> str:
    if value is None:
        raise Unauthenticated(f"The token has no claim {name}, which tells {told}.")
    if not is_name(value):
        raise Unauthenticated(
            f"The claim {name} of the token is no text of 1 to {MAX_CHARACTERS} printable characters."
        )
    return str(value)


def is_name(value: object) -> bool:
    """Whether it can be a subject, a group or a tenant."""
    return isinstance(value, str) and 0 < len(value) <= MAX_CHARACTERS and value.isprintable()
