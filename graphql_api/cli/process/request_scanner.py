"""Recognize a plain GraphQL request in the bytes of one read, without a parser.

Under overload most requests are refused. A few searches in the header cost less than the callbacks of a parser.
"""

import re
from typing import NamedTuple

MAX_SCANNED_BYTES = 8 << 10
"""of a header; larger ones are left to the parser"""
_MAX_DIGITS = 9
_PRINTABLE = bytes(range(0x20, 0x7F))
_HEADERS = re.compile(
    rb"\n(accept:|connection:|content-length:|x-request-id:"
    rb"| |content-length|expect|origin|proxy-connection|transfer-encoding|upgrade)([^\r]*)"
)
"""the headers that decide about a refusal, in lower case, and the beginnings of those that only the parser handles"""
_ACCEPT, _CONNECTION, _LENGTH, _ID = (b"accept:", b"connection:", b"content-length:", b"x-request-id:")
_PLAIN_HEADERS = frozenset({_ACCEPT, _CONNECTION, _LENGTH, _ID})


class ScannedRequest(NamedTuple):
    """What a refusal needs to know of a request."""

    accept: tuple[str, ...]
    client_id: str
    """the correlation id of the client, or an empty text"""


class RequestScanner:
    """Recognizes requests to one path that are complete, use nothing but a body of known length, and stay connected."""

    def __init__(self, path: bytes) -> None:
        self._request_line = b"POST %b HTTP/1.1\r\n" % path

    def scan(self, data: bytes) -> ScannedRequest | None:
        """Return the request if the data is exactly one plain request. Otherwise return None: it needs the parser."""
        end = data.find(b"\r\n\r\n", 0, MAX_SCANNED_BYTES)
        if end < 0 or not data.startswith(self._request_line):
            return None
        head = data[: end + 2].lower()
        line_ends = head.translate(None, _PRINTABLE)
        if line_ends != b"\r\n" * (len(line_ends) // 2):
            return None
        found: list[tuple[bytes, bytes]] = _HEADERS.findall(head)
        values = dict(found)
        if len(values) < len(found) or not values.keys() <= _PLAIN_HEADERS:
            return None
        length = values.get(_LENGTH, b"").strip(b" ")
        if not length.isdigit() or len(length) > _MAX_DIGITS or len(data) != end + 4 + int(length):
            return None
        if values.get(_CONNECTION, b"keep-alive").strip(b" ") != b"keep-alive":
            return None
        accept, client_id = values.get(_ACCEPT), b""
        if _ID in values:
            start = head.index(b"\n" + _ID) + len(_ID) + 1
            client_id = data[start : start + len(values[_ID])].strip(b" ")
        preferences = () if accept is None else (accept.strip(b" ").decode("ascii"),)
        return ScannedRequest(preferences, client_id.decode("ascii"))
