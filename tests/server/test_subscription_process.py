"""Subscriptions of `shardql serve`: the drain, pings, and limits on connections."""

import json
import signal
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.server.server_processes import ServerProcess, server_process
from tests.server.subscription_client import subscription_client
from tests.support.loopback import TIMEOUT, RawConnection

CHANGES = 'subscription { noteChanges(first: "n1") { text } }'
FOREVER = "subscription { forever }"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of notes."""
    variables = {
        "SHARDQL_DRAIN_SECONDS": "0.2",
        "SHARDQL_STOP_SECONDS": "20",
        "SHARDQL_KEEP_ALIVE_SECONDS": "0.2",
        "SHARDQL_MAX_SUBSCRIPTIONS": "3",
        "SHARDQL_MAX_BODY_BYTES": "5000",
    }
    with server_process(tmp_path, "tests.server.notes_app:graph", **variables) as process:
        yield process


def test_stop(server: ServerProcess) -> None:
    """After a stop signal, streams are cut off, WebSocket connections close with 1012, and the process ends at once."""
    headers = {"accept": "text/event-stream"}
    with (
        subscription_client(server.address) as client,
        httpx.stream("POST", server.url, json={"query": CHANGES}, headers=headers, timeout=TIMEOUT) as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "event: next"
        client.init()
        client.subscribe("1", CHANGES)
        client.next("1")
        server.process.send_signal(signal.SIGTERM)
        assert client.closed() == (1012, "The server stops: connect again")
        assert "event: complete" not in [*lines]
    assert server.process.wait(10.0) == 0
    log = server.log.read_text()
    assert "Traceback" not in log, log
    assert "WEBSOCKET /graphql 101" in log, log


def test_mutations_in_progress(server: ServerProcess) -> None:
    """A mutation that is in progress when the server stops gets its response before the connection closes."""
    with subscription_client(server.address) as client:
        client.init()
        client.subscribe("1", CHANGES)
        client.next("1")
        client.subscribe("2", "mutation { waitForStop }")
        client.send(type="ping")
        assert client.receive() == {"type": "pong"}
        server.process.send_signal(signal.SIGTERM)
        assert client.next("2") == {"data": {"waitForStop": "written"}}
        client.completed("2")
        assert client.closed()[0] == 1012
    assert server.process.wait(10.0) == 0


def test_connections(server: ServerProcess) -> None:
    """Connections beyond the limit are refused; messages beyond the limit, and silent clients, are disconnected."""
    with subscription_client(server.address) as client, subscription_client(server.address) as other:
        client.init()
        other.init()
        with subscription_client(server.address) as third:
            with pytest.raises(InvalidStatus) as refused, subscription_client(server.address):
                pass
            assert refused.value.response.status_code == 503
            assert b"TOO_MANY_SUBSCRIPTIONS" in (refused.value.response.body or b"")
            third.send(type="ping", payload={"x": "x" * 5_000})
            assert third.closed()[0] == 1009
        client.subscribe("1", CHANGES)
        client.next("1")
        metrics = httpx.get(f"{server.address}/metrics", timeout=TIMEOUT).text
        assert "shardql_subscriptions 1.0" in metrics
        assert 'shardql_subscription_events_total{outcome="ok"} 1.0' in metrics


def test_silent_clients(server: ServerProcess) -> None:
    """A client that reads and answers nothing is cut off, although the server has more to send."""
    with RawConnection(server.address) as raw:
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        key = b64encode(bytes(16)).decode()
        raw.send(
            f"GET /graphql HTTP/1.1\r\nhost: {server.address[7:]}\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            f"sec-websocket-key: {key}\r\nsec-websocket-version: 13\r\n"
            "sec-websocket-protocol: graphql-transport-ws\r\n\r\n".encode()
        )
        for message in (
            {"type": "connection_init"},
            {"type": "subscribe", "id": "1", "payload": {"query": FOREVER}},
        ):
            text = json.dumps(message).encode()
            raw.send(bytes([0x81, 0x80 | len(text)]) + bytes(4) + text)
        while "WEBSOCKET /graphql 101" not in server.log.read_text():
            assert httpx.post(server.url, json={"query": "{ __typename }"}, timeout=TIMEOUT).status_code == 200
    assert server.stop() == 0
