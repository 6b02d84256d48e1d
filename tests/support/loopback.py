"""Run applications on a real loopback server, with a client that controls every byte."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from threading import Thread
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"
TIMEOUT = 30.0
"""Seconds after which a waiting test fails."""


@contextmanager
def serve_app(app: ASGIApp, **settings: Any) -> Iterator[str]:
    """Serve an application in a separate thread, and yield its URL."""
    listener = socket.create_server((LOOPBACK, 0))
    server = uvicorn.Server(
        uvicorn.Config(app, **{"log_config": None, "access_log": False, "lifespan": "on", **settings})
    )
    problems: list[BaseException] = []

    def serve() -> None:
        try:
            server.run(sockets=[listener])
        except BaseException as problem:  # noqa: BLE001 - reported by the test
            problems.append(problem)

    thread = Thread(target=serve, name="server under test")
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive(), f"the server did not start: {problems}"
        yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(TIMEOUT)
        listener.close()
        assert not thread.is_alive(), "the server does not stop"


def free_port() -> int:
    """Return a port on which no server listens now."""
    with closing(socket.create_server((LOOPBACK, 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def codes(self) -> list[str]:
        """Return its error codes. The response must be JSON, with the right content type."""
        assert self.headers["content-type"] in {
            "application/json; charset=utf-8",
            "application/graphql-response+json; charset=utf-8",
        }
        assert all(error["message"] for error in self.json["errors"])
        return [error["extensions"]["code"] for error in self.json["errors"]]


class RawConnection:
    """A client of one TCP connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("http://").partition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self, method: str = "POST") -> Reply:
        with closing(HTTPResponse(self.socket, method=method)) as response:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, headers, response.read())

    def exchange(self, head: str, body: bytes = b"", /, **headers: str) -> Reply:
        """Send a request with a body and its length, and wait for the response."""
        self.send(request(head, body, **headers))
        return self.reply(head.partition(" ")[0])

    def post(self, body: bytes, /, **headers: str) -> Reply:
        """Send a JSON body to `/graphql`."""
        return self.exchange("POST /graphql", body, **{"content_type": "application/json", **headers})

    def is_closed(self) -> bool:
        """Wait until the server closes the connection. Return False if it sends data instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def request(head: str, body: bytes = b"", /, **headers: str) -> bytes:
    """Build the bytes of a request. Underscores in header names become hyphens."""
    sent = {"host": LOOPBACK, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if "transfer-encoding" not in sent and (body or head.startswith("POST")):
        sent.setdefault("content-length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"{head} HTTP/1.1\r\n{lines}\r\n".encode() + body
