"""Encrypt and authenticate page tokens for one tenant and principal (docs/reference/tokens.md).

AES-SIV is deterministic: equal cursors give equal tokens. Tenant and principal are separate strings of associated data,
so no two pairs can be confused.
"""

from collections.abc import Sequence
from hashlib import blake2b
from secrets import token_bytes

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from graphql_api.codecs import base64url_decode, base64url_encode
from graphql_api.errors import InvalidToken

VERSION = 1
MAX_TOKEN_CHARACTERS = 8192
MIN_SECRET_BYTES = 32
_MIN_SEALED_BYTES = 18


class TokenSeal:
    """Seal with the first secret and open with any of them, so that secrets can rotate."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        if not secrets or any(len(secret) < MIN_SECRET_BYTES for secret in secrets):
            raise ValueError(f"A seal needs at least one secret, each of at least {MIN_SECRET_BYTES} random bytes.")
        keys = [blake2b(secret, digest_size=64, person=b"shardql-token").digest() for secret in secrets]
        self._ciphers = [(blake2b(key, digest_size=1).digest(), AESSIV(key)) for key in keys]

    @staticmethod
    def new_secret() -> bytes:
        """Generate a random secret."""
        return token_bytes(MIN_SECRET_BYTES)

    def seal(self, payload: bytes, tenant: str | None, principal: str | None) -> str:
        """Encrypt a payload as a text that opens only for the same tenant and principal."""
        key_id, cipher = self._ciphers[0]
        header = bytes((VERSION,)) + key_id
        return base64url_encode(header + cipher.encrypt(payload, _associated_data(header, tenant, principal)))

    def open(self, token: str, tenant: str | None, principal: str | None, argument: str) -> bytes:
        """Decrypt the payload of a token. The error is the same for every cause, so that it reveals nothing."""
        sealed = base64url_decode(token, MAX_TOKEN_CHARACTERS)
        if sealed is not None and len(sealed) > _MIN_SEALED_BYTES and sealed[0] == VERSION:
            header = sealed[:2]
            for key_id, cipher in self._ciphers:
                if key_id == header[1:]:
                    try:
                        return cipher.decrypt(sealed[2:], _associated_data(header, tenant, principal))
                    except InvalidTag:
                        continue
        raise InvalidToken(
            f"{argument} is no token of this search service for you. Pass a nextToken or cursor exactly as you "
            "received it, or leave it out to start over.",
            argument=argument,
        )


def _associated_data(header: bytes, *names: str | None) -> list[bytes]:
    """Return what a token is bound to; a missing tenant or principal differs from an empty one."""
    return [header, *(b"-" if name is None else b"+" + name.encode("utf-8", "surrogatepass") for name in names)]
