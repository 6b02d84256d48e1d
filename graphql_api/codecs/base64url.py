"""Octets as text that fits into a URL: base64url without padding, one text for each octet string."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64


def to_text(octets: bytes) -> str:
    """The one text of these octets."""
    return urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")


def from_text(text: object, most_characters: int) -> bytes | None:
    """The octets, or None for anything that `to_text` would not have written."""
    if not isinstance(text, str) or len(text) > most_characters or not text.isascii():
        return None
    try:
        octets = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (NotBase64, ValueError):
        return None
    # The decoder passes over foreign characters and spare bits; only the one text that we would write counts.
    return octets if to_text(octets) == text else None
