"""HTTP load on a server in another process: a closed loop, as fast as the server answers, or an open loop."""

import asyncio
import json
import os
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

MAX_CONNECTIONS = 2_000
_SECONDS_BETWEEN_RATES = 0.5


def post_request(path: str, body: Mapping[str, Any], **headers: str) -> bytes:
    """Build the bytes of a request."""
    content = json.dumps(body).encode()
    sent = {"host": "load", "content-type": "application/json", "content-length": str(len(content)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + content


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, with its duration."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def codes(self) -> list[str]:
        """The error codes in the body."""
        return [error["extensions"]["code"] for error in json.loads(self.body).get("errors", ())]


@dataclass(slots=True)
class Answers:
    """The responses to a load, and what the server needed for them."""

    all: list[Answer] = field(default_factory=list)
    broken: int = 0
    """requests without a complete response"""
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, other: "Answers") -> None:
        """Add those to another load."""
        self.all += other.all
        self.broken += other.broken
        self.seconds += other.seconds
        self.cpu_seconds += other.cpu_seconds

    def successes(self, within: float) -> int:
        """The number of successful responses within this number of seconds."""
        return sum(answer.status == 200 and answer.seconds <= within for answer in self.all)

    def per_cpu_second(self, within: float) -> float:
        """The number of successful responses for each second of CPU time of the server."""
        return self.successes(within) / self.cpu_seconds

    @property
    def statuses(self) -> Counter[int]:
        return Counter(answer.status for answer in self.all)


class RawClient(asyncio.Protocol):
    """A kept-alive connection with one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._response: asyncio.Future[tuple[int, dict[str, str], bytes]] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, rest = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if len(rest) < int(headers["content-length"]):
            return
        self._received = b""
        if headers.get("connection") == "close":
            self.is_open = False
        if self._response is not None and not self._response.done():
            self._response.set_result((int(status_line.split()[1]), headers, rest))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionResetError("the connection was closed without a response"))

    async def request(self, request: bytes) -> Answer:
        """Send a request and return its response."""
        loop = asyncio.get_running_loop()
        assert self._transport is not None
        started = loop.time()
        self._response = loop.create_future()
        self._transport.write(request)
        status, headers, body = await self._response
        return Answer(status, headers, body, loop.time() - started)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class LoadGenerator:
    """Sends one request again and again to a server, and measures the CPU time of its process.

    All loads use the same connections in turn. A server answers faster on few connections that are always in use.
    """

    def __init__(self, port: int, pid: int, request: bytes) -> None:
        self._port = port
        self._pid = pid
        self._request = request
        self._idle = deque[RawClient]()
        self._opened: list[RawClient] = []

    async def _send(self, answers: Answers, due: float) -> None:
        """Send a request that was due at a time. Whatever happens after it counts toward the duration."""
        loop = asyncio.get_running_loop()
        connection = next((one for one in iter(self._take, None) if one.is_open), None)
        try:
            if connection is None:
                _, connection = await loop.create_connection(RawClient, "127.0.0.1", self._port)
                self._opened.append(connection)
            answer = await connection.request(self._request)
            answers.all.append(replace(answer, seconds=loop.time() - due))
        except OSError:
            answers.broken += 1
        else:
            self._idle.append(connection)

    def _take(self) -> RawClient | None:
        return self._idle.popleft() if self._idle else None

    async def closed_loop(self, requests: int, clients: int) -> Answers:
        """Send this number of requests, each client one after the other."""
        loop, remaining = asyncio.get_running_loop(), iter(range(requests))
        answers = Answers()

        async def send() -> None:
            for _ in remaining:
                await self._send(answers, loop.time())

        async with _Measurement(answers, self._pid):
            await asyncio.gather(*(send() for _ in range(clients)))
        return answers

    async def open_loop(self, per_cpu_second: float, seconds: float, random: Random) -> Answers:
        """Send requests at random times, whether or not the server has answered earlier ones.

        Their rate follows the CPU time that the server gets, since other work on the machine changes its saturation.
        """
        loop, answers = asyncio.get_running_loop(), Answers()
        sending = set[asyncio.Task[None]]()
        async with _Measurement(answers, self._pid):
            next_at = started = rate_since = loop.time()
            used, per_second = cpu_seconds(self._pid), per_cpu_second
            while next_at < started + seconds:
                if loop.time() > rate_since + _SECONDS_BETWEEN_RATES:
                    now, used_now = loop.time(), cpu_seconds(self._pid)
                    per_second = max(1.0, per_cpu_second * (used_now - used) / (now - rate_since))
                    rate_since, used = now, used_now
                next_at += random.expovariate(per_second)
                if next_at > loop.time():
                    await asyncio.sleep(next_at - loop.time())
                if len(sending) < MAX_CONNECTIONS:
                    task = asyncio.ensure_future(self._send(answers, next_at))
                    sending.add(task)
                    task.add_done_callback(sending.discard)
            await asyncio.gather(*sending)
        return answers

    def close(self) -> None:
        """Close all connections."""
        for connection in self._opened:
            connection.close()


class _Measurement:
    """Measures the duration of a block, and the CPU time of a process."""

    def __init__(self, answers: Answers, pid: int) -> None:
        self._answers = answers
        self._pid = pid

    async def __aenter__(self) -> None:
        self._started, self._cpu = asyncio.get_running_loop().time(), cpu_seconds(self._pid)

    async def __aexit__(self, *_: object) -> None:
        self._answers.seconds = asyncio.get_running_loop().time() - self._started
        self._answers.cpu_seconds = cpu_seconds(self._pid) - self._cpu


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
