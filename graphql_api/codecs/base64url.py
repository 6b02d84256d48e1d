"""Base64url without padding, in canonical form: each byte string has exactly one encoding."""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64

_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


def base64url_encode(octets: bytes) -> str:
    """Encode bytes as URL-safe text."""
    return b2a_base64(octets, newline=False).translate(_TO_URL).rstrip(b"=").decode("ascii")


def base64url_decode(text: object, max_characters: int) -> bytes | None:
    """Decode canonical text of at most `max_characters`. Return None for anything else."""
    if not isinstance(text, str) or len(text) > max_characters or not text.isascii():
        return None
    try:
        octets = a2b_base64(text.encode().translate(_FROM_URL) + b"=" * (-len(text) % 4))
    except (Base64Error, ValueError):
        return None
    # The decoder ignores foreign characters and unused bits, so only a round trip proves that the text is canonical.
    return octets if base64url_encode(octets) == text else None
