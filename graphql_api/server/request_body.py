"""The body of a request, read within its bounds of size and time."""

import asyncio
import re

from starlette.datastructures import Headers
from starlette.types import Receive

from graphql_api.errors import BodyTooLarge, BodyTooSlow, UnsupportedMediaType
from graphql_api.server.content_negotiation import JSON
from graphql_api.server.disconnect import ClientLeft

_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s";]*)"?', re.IGNORECASE)


def check_media_type(headers: Headers) -> None:
    """Refuses every body but JSON in UTF-8.

    This guards against foreign pages too: without asking first, a browser sends other types only.
    """
    types = headers.getlist("content-type")
    if len(types) != 1:
        how = "was sent more than once" if types else "is missing"
        raise UnsupportedMediaType(f"The content-type header {how}: send content-type: {JSON}.")
    media_type, mark, rest = types[0].partition(";")
    if media_type.strip().lower() != JSON:
        raise UnsupportedMediaType(f"The body is {media_type.strip()[:60]!r}: send content-type: {JSON}.")
    charset = _CHARSET.search(mark + rest)
    if charset is not None and charset[1].lower() not in {"utf-8", "utf8"}:
        raise UnsupportedMediaType(f"The body is in {charset[1][:40]!r}: send it in UTF-8.")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise UnsupportedMediaType(f"The body is encoded as {encoding[:40]!r}: send it as it is, without encoding.")


async def read_body(headers: Headers, receive: Receive, *, limit: int, within: float) -> bytes:
    """The whole body, of at most so many bytes, arriving within so many seconds."""
    if (declared := headers.get("content-length", "")).isdecimal() and int(declared[:20]) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(within):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientLeft
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {within:g} s: send it faster, or less of it.") from None
    return bytes(body)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {limit:,} bytes: send less at once.")
