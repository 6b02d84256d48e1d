"""Seals page tokens: neither readable nor forgeable, and worthless to anybody else (docs/tokens.md).

AES-SIV is deterministic: the same position gives the same cursor. Tenant and principal are bound as associated data,
each a part of its own, so that no two pairs can be confused.
"""

from collections.abc import Sequence
from hashlib import blake2b
from secrets import token_bytes

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from graphql_api.codecs import from_text, to_text
from graphql_api.errors import InvalidToken

VERSION = 1
MAX_TOKEN_CHARACTERS = 8192
MIN_SECRET_BYTES = 32
_MIN_SEALED_BYTES = 18


class Seal:
    """Seals with the first of its secrets and opens with any of them, so that secrets can rotate."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        if not secrets or any(len(secret) < MIN_SECRET_BYTES for secret in secrets):
            raise ValueError(f"A seal needs at least one secret, each of at least {MIN_SECRET_BYTES} random bytes.")
        keys = [blake2b(secret, digest_size=64, person=b"shardql-token").digest() for secret in secrets]
        self._ciphers = [(blake2b(key, digest_size=1).digest(), AESSIV(key)) for key in keys]

    @staticmethod
    def new_secret() -> bytes:
        """A secret to keep and to configure."""
        return token_bytes(MIN_SECRET_BYTES)

    def seal(self, payload: bytes, tenant: str | None, principal: str | None) -> str:
        """The payload as a text that only the same tenant and principal can bring back."""
        key_id, cipher = self._ciphers[0]
        head = bytes((VERSION,)) + key_id
        return to_text(head + cipher.encrypt(payload, _bound(head, tenant, principal)))

    def open(self, token: str, tenant: str | None, principal: str | None, argument: str) -> bytes:
        """The payload of a token; whatever is wrong with it, the answer is the same."""
        sealed = from_text(token, MAX_TOKEN_CHARACTERS)
        if sealed is not None and len(sealed) > _MIN_SEALED_BYTES and sealed[0] == VERSION:
            head = sealed[:2]
            for key_id, cipher in self._ciphers:
                if key_id == head[1:]:
                    try:
                        return cipher.decrypt(sealed[2:], _bound(head, tenant, principal))
                    except InvalidTag:
                        continue
        raise InvalidToken(
            f"{argument} is no token of this search service for you. Pass a nextToken or cursor exactly as you "
            "received it, or leave it out to begin anew.",
            argument=argument,
        )


def _bound(head: bytes, tenant: str | None, principal: str | None) -> list[bytes]:
    """No tenant and an empty one differ, as do no principal and an empty one."""
    return [head, _known(tenant), _known(principal)]


def _known(part: str | None) -> bytes:
    return b"-" if part is None else b"+" + part.encode("utf-8", "surrogatepass")
