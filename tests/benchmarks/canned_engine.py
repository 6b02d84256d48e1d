"""An engine with the DynamoDB protocol that replays recorded replies: `python -m tests.benchmarks.canned_engine URL`.

It asks the server at the URL once for each different request that reads, and answers equal requests from memory. So the
engine costs nearly nothing while its clients are measured. Writes always go to the server. A request to `/counts`
returns how many replies were recorded and replayed.
"""

import json
import re
import sys
from collections import Counter

import aiohttp

from tests.benchmarks.loopback_server import Handler, response, serve

_TARGET = re.compile(rb"\r\nx-amz-target: *([^\r\n]+)", re.IGNORECASE)
_READS = frozenset({b"Query", b"GetItem", b"BatchGetItem", b"DescribeTable", b"DescribeTimeToLive"})
_FORWARDED = ("content-type", "x-amz-crc32", "x-amzn-requestid")
_MAX_ATTEMPTS = 3


class CannedEngine:
    """Replies by request."""

    def __init__(self, session: aiohttp.ClientSession, upstream: str) -> None:
        self._session = session
        self._upstream = upstream
        self._replies: dict[tuple[bytes, bytes], bytes] = {}
        self._counts = Counter[str]()

    async def handle(self, head: bytes, body: bytes) -> bytes:
        """Answer a request of the DynamoDB protocol."""
        found = _TARGET.search(head)
        if found is None:
            return response(json.dumps(self._counts).encode())
        target = found[1]
        recorded = self._replies.get((target, body))
        if recorded is not None:
            self._counts["replayed"] += 1
            return recorded
        status, reply = await self._forward(head, body)
        if target.rpartition(b".")[2] not in _READS:
            self._counts["written"] += 1
            self._replies.clear()  # It may have changed what was recorded.
        elif status == 200 and b'"UnprocessedKeys":{"' not in reply:
            self._counts["recorded"] += 1
            self._replies[target, body] = reply
        return reply

    async def _forward(self, head: bytes, body: bytes) -> tuple[int, bytes]:
        lines = head.decode("latin-1").split("\r\n")[1:]
        headers = dict(line.split(": ", 1) if ": " in line else line.split(":", 1) for line in lines)
        kept = {name: value for name, value in headers.items() if name.lower() not in {"accept-encoding", "connection"}}
        for attempt in range(_MAX_ATTEMPTS):
            try:
                async with self._session.post(self._upstream, data=body, headers=kept) as answer:
                    content = await answer.read()
                    sent = "".join(
                        f"{name}: {answer.headers[name]}\r\n" for name in _FORWARDED if name in answer.headers
                    )
                    reason = f"{answer.status} {answer.reason}".encode()
                    return answer.status, response(content, sent.encode(), reason)
            except aiohttp.ClientConnectionError:
                if attempt + 1 == _MAX_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")


async def _start() -> Handler:
    connector = aiohttp.TCPConnector(limit=16)
    session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
    return CannedEngine(session, sys.argv[1]).handle


if __name__ == "__main__":
    serve(_start)
