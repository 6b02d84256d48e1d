"""HTTP/1.1 messages as bytes. Supports the part of the protocol that DynamoDB and its clients use."""

import asyncio
from dataclasses import dataclass, replace

_BLANK_LINE = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Message:
    """A request or a response. Its headers may contradict its body, because faults change both."""

    start: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the value of a header. Names are case-insensitive."""
        return next((value for known, value in self.headers if known.lower() == name.lower()), None)

    def with_header(self, name: str, value: str) -> "Message":
        """Return a copy with one header set."""
        others = tuple(header for header in self.headers if header[0].lower() != name.lower())
        return replace(self, headers=(*others, (name, value)))

    def with_body(self, body: bytes) -> "Message":
        """Return a copy with another body and its Content-Length. Other headers stay, also checksums."""
        return replace(self, body=body).with_header("Content-Length", str(len(body)))

    def encode(self) -> bytes:
        """Return the message as bytes."""
        lines = [self.start, *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join(lines).encode("latin-1") + _BLANK_LINE + self.body


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """Read the next message of a connection. Return None if the other side has closed it."""
    try:
        head = await reader.readuntil(_BLANK_LINE)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    start, *lines = head[: -len(_BLANK_LINE)].decode("latin-1").split("\r\n")
    headers = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    message = Message(start, tuple(headers), b"")
    if (message.header("Transfer-Encoding") or "").lower() == "chunked":
        plain = tuple(header for header in headers if header[0].lower() != "transfer-encoding")
        return replace(message, headers=plain).with_body(await _read_chunks(reader))
    length = int(message.header("Content-Length") or 0)
    return replace(message, body=await reader.readexactly(length))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # Trailers are ignored.
    return bytes(body)
