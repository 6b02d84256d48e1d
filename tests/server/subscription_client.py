"""A client of `graphql-transport-ws` that sends and receives each message of the protocol."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.support.loopback import TIMEOUT

PROTOCOL = Subprotocol("graphql-transport-ws")


class SubscriptionClient:
    """One connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def receive(self) -> Any:
        return json.loads(self.connection.recv(TIMEOUT))

    def init(self, **payload: Any) -> Any:
        """Send the first message, and return the payload of its acknowledgement."""
        self.send(type="connection_init", payload=payload)
        message = self.receive()
        assert message["type"] == "connection_ack", message
        return message["payload"]

    def subscribe(self, id: str, query: str, **more: Any) -> None:
        self.send(type="subscribe", id=id, payload={"query": query, **more})

    def next(self, id: str) -> Any:
        """Return the payload of the next response to an operation."""
        message = self.receive()
        assert (message["type"], message["id"]) == ("next", id), message
        return message["payload"]

    def error_codes(self, id: str) -> list[str]:
        """Return the codes of the errors with which an operation is refused."""
        message = self.receive()
        assert (message["type"], message["id"]) == ("error", id), message
        return [error["extensions"]["code"] for error in message["payload"]]

    def completed(self, id: str) -> None:
        assert self.receive() == {"type": "complete", "id": id}

    def closed(self) -> tuple[int, str]:
        """Wait until the server closes the connection, and return the code and the reason."""
        with pytest.raises(ConnectionClosed) as closed:
            self._receive_all()
        received = closed.value.rcvd
        assert received is not None, closed
        return received.code, received.reason

    def _receive_all(self) -> None:
        while True:
            self.connection.recv(TIMEOUT)


@contextmanager
def subscription_client(url: str, path: str = "/graphql", **options: Any) -> Iterator[SubscriptionClient]:
    """Connect to a server. Options are those of `websockets`."""
    options = {"subprotocols": [PROTOCOL], "open_timeout": TIMEOUT, "max_size": None, "proxy": None, **options}
    with connect(f"ws{url.removeprefix('http')}{path}", **options) as connection:
        yield SubscriptionClient(connection)
