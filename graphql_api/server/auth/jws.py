"""A signed token (JWS): its header, and its claims after a key has verified the signature."""

import re
from dataclasses import dataclass
from typing import Any

from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from graphql_api.codecs import base64url_decode
from graphql_api.errors import InvalidJson, Unauthenticated
from graphql_api.server import read_json
from graphql_api.server.auth.jwks import VerifyingKey

MAX_CHARACTERS = 16 << 10
"""Maximum length of a token."""
_COMPACT_JWS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_JWS = PyJWS()


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
    if len(token) > MAX_CHARACTERS:
        raise Unauthenticated(f"The token has {len(token):,} characters: at most {MAX_CHARACTERS:,} are accepted.")
    if not _COMPACT_JWS.fullmatch(token):
        raise Unauthenticated("The bearer token is not a signed JWT: it must have three parts separated by dots.")
    header = _json_object(
        base64url_decode(token.partition(".")[0], MAX_CHARACTERS) or b"", "The header of the token is"
    )
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
