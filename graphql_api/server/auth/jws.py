"""A signed token as it comes over the wire: its head, and its claims once a key has vouched for them."""

import re
from dataclasses import dataclass
from typing import Any

from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from graphql_api.codecs import from_text
from graphql_api.errors import InvalidJson, Unauthenticated
from graphql_api.server import read_json
from graphql_api.server.auth.jwks import VerifyingKey

MAX_CHARACTERS = 16 << 10
"""of a token: more than that is not looked at"""
_THREE_PARTS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_JWS = PyJWS()


@dataclass(frozen=True, slots=True)
class SignedText:
    """A token that has the form of one: nothing of it is to be believed yet."""

    text: str
    algorithm: str
    kid: str | None

    def claims(self, key: VerifyingKey) -> dict[str, Any]:
        """What it claims, if this key has signed it."""
        try:
            payload = _JWS.decode(self.text, key.key, algorithms=[self.algorithm])
        except (PyJWTError, ValueError, TypeError):
            raise Unauthenticated("The signature of the token is not right: get a new token.") from None
        return _object(payload, "The claims of the token are")


def read_signed(token: str) -> SignedText:
    """A token's head, of which only the algorithm and the id of the key are looked at."""
    if len(token) > MAX_CHARACTERS:
        raise Unauthenticated(f"The token has {len(token):,} characters: at most {MAX_CHARACTERS:,} are read.")
    if not _THREE_PARTS.fullmatch(token):
        raise Unauthenticated("The bearer token is no signed JWT: it must have three parts with dots between them.")
    head = _object(from_text(token.partition(".")[0], MAX_CHARACTERS) or b"", "The head of the token is")
    algorithm, kid, kind = head.get("alg"), head.get("kid"), head.get("typ", "JWT")
    if not isinstance(algorithm, str) or not isinstance(kid, str | None):
        raise Unauthenticated("The head of the token names no algorithm, or its key by something that is no text.")
    if "crit" in head or "b64" in head:
        raise Unauthenticated("The head of the token asks for extensions (crit, b64), of which this server knows none.")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise Unauthenticated("The head of the token says by typ that it is no JWT for access.")
    return SignedText(token, algorithm, kid)


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        found = read_json(data, "It")
    except InvalidJson:
        found = None
    if not isinstance(found, dict):
        raise Unauthenticated(f"{what} no JSON object.")
    return found
