"""Reads the body of a request within limits of size and time."""

import asyncio
import re

from starlette.datastructures import Headers
from starlette.types import Receive

from graphql_api.errors import BodyTooLarge, BodyTooSlow, UnsupportedMediaType
from graphql_api.server.content_negotiation import JSON
from graphql_api.server.disconnect import ClientDisconnected

_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s";]*)"?', re.IGNORECASE)


def check_media_type(headers: Headers) -> None:
    """Refuse a body that is not JSON in UTF-8.

    This also protects against cross-site requests: without a preflight, a browser sends only other media types.
    """
    types = headers.getlist("content-type")
    if len(types) != 1:
        problem = "was sent more than once" if types else "is missing"
        raise UnsupportedMediaType(f"The content-type header {problem}: send content-type: {JSON}.")
    media_type, separator, parameters = types[0].partition(";")
    if media_type.strip().lower() != JSON:
        raise UnsupportedMediaType(f"The body is {media_type.strip()[:60]!r}: send content-type: {JSON}.")
    charset = _CHARSET.search(separator + parameters)
    if charset is not None and charset[1].lower() not in {"utf-8", "utf8"}:
        raise UnsupportedMediaType(f"The body is in {charset[1][:40]!r}: send it in UTF-8.")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise UnsupportedMediaType(f"The body has the content encoding {encoding[:40]!r}: send it without encoding.")


async def read_body(headers: Headers, receive: Receive, *, max_bytes: int, seconds: float) -> bytes:
    """Read the whole body. Raise BodyTooLarge or BodyTooSlow beyond these limits."""
    if (content_length := headers.get("content-length", "")).isdecimal() and int(content_length[:20]) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {seconds:g} s: send it faster, or send less.") from None
    return bytes(body)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {max_bytes:,} bytes: send less at once.")
