"""Validates the claims of a token, and derives the principal from them. Signatures are checked elsewhere."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphql_api.errors import Unauthenticated
from graphql_api.server.auth.identity import Identity

MAX_CHARACTERS = 255
"""Maximum length of a subject, a group or a tenant. Subjects and tenants become part of keys."""
_GROUP_SEPARATORS = re.compile(r"[\s,]+")


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
        self._check_time(claims, now)
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise Unauthenticated("The token comes from another issuer than the one that this server trusts.")
        audience = self._cognito_audience(claims) if self.cognito else claims.get("aud")
        if self.audiences and not self.audiences & _text_set(audience, "The audience of the token"):
            raise Unauthenticated("The token is not for this server: it names another audience, or none.")
        subject = _required_name(claims.get("sub"), "sub", "the subject")
        return Identity(subject, self._groups(claims), self._tenant(claims))

    def _check_time(self, claims: Mapping[str, Any], now: float) -> None:
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

    def _cognito_audience(self, claims: Mapping[str, Any]) -> object:
        match claims.get("token_use"):
            case "access":
                return claims.get("client_id")
            case "id":
                return claims.get("aud")
        raise Unauthenticated("The claim token_use of the token is neither access nor id: send one of these two.")

    def _groups(self, claims: Mapping[str, Any]) -> frozenset[str]:
        groups = claims.get(self.groups_claim)
        if isinstance(groups, str):
            return frozenset(filter(None, _GROUP_SEPARATORS.split(groups)))
        return _text_set(groups, f"The claim {self.groups_claim} of the token")

    def _tenant(self, claims: Mapping[str, Any]) -> str | None:
        if self.tenant_claim is None:
            return None
        return _required_name(claims.get(self.tenant_claim), self.tenant_claim, "the tenant")


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


def _required_name(value: object, claim: str, meaning: str) -> str:
    if value is None:
        raise Unauthenticated(f"The token has no claim {claim}, which names {meaning}.")
    if not is_valid_name(value):
        raise Unauthenticated(
            f"The claim {claim} of the token is not a text of 1 to {MAX_CHARACTERS} printable characters."
        )
    return str(value)


def is_valid_name(value: object) -> bool:
    """Return whether a value can be a subject, a group or a tenant."""
    return isinstance(value, str) and 0 < len(value) <= MAX_CHARACTERS and value.isprintable()
