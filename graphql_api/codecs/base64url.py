"""Base64url without padding, in canonical form: each byte string has exactly one encoding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error


def base64url_encode(octets: bytes) -> str:
    """Encode bytes as URL-safe text."""
    return urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")


def base64url_decode(text: object, max_characters: int) -> bytes | None:
    """Decode canonical text of at most `max_characters`. Return None for anything else."""
    if not isinstance(text, str) or len(text) > max_characters or not text.isascii():
        return None
    try:
        octets = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Base64Error, ValueError):
        return None
    # The decoder ignores foreign characters and unused bits, so only a round trip proves that the text is canonical.
    return octets if base64url_encode(octets) == text else None
