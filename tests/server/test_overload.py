"""A real server that has more operations than it may run: refusals, health checks, deadlines, metrics, the log."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from graphql_api.cli.process.connection_guard import ConnectionGuard
from graphql_api.cli.process.early_refusal import EarlyRefusal
from graphql_api.cli.process.http_protocol import LimitedHttpProtocol
from graphql_api.errors import Overloaded
from graphql_api.server.admission_control import AdmissionController
from graphql_api.server.app import build_app
from graphql_api.server.settings import Settings, read_settings
from graphql_api.storage.port import Store
from tests.server.gated_store import GatedStore
from tests.server.observed_server import ObservedServer, observed_server
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import TIMEOUT, RawConnection, Reply, request, serve_app

PAGE = "{ userByCreated(limit: 5) { items { userId } } }"
WAIT, GOOD = b'{"query": "wait"}', b'{"query": "{ a }"}'
ORIGIN = "https://app.example"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


# --- searches that wait for a place ----------------------------------------------------------------------------


@dataclass
class LoadedServer:
    """A server with searches in progress that wait for their store."""

    observed: ObservedServer
    store: GatedStore
    searches: list[Future[httpx.Response]]
    threads: ThreadPoolExecutor

    def search(self) -> Future[httpx.Response]:
        """Send another search."""
        self.searches.append(self.threads.submit(self.observed.post, PAGE))
        return self.searches[-1]

    def gauge(self, name: str) -> float:
        return self.observed.counts()[name]

    def release(self) -> list[httpx.Response]:
        """Let all searches pass, and return their responses."""
        self.store.gate.set()
        return [search.result(TIMEOUT) for search in self.searches]


@contextmanager
def loaded_server(folder: Path, searches: int, **settings: object) -> Iterator[LoadedServer]:
    """Start a server for one operation at a time, and send searches until one runs and the others wait."""
    stores: list[GatedStore] = []

    def wrap(inner: Store) -> Store:
        stores.append(GatedStore(inner))
        return stores[-1]

    options = read_settings(**{"graphiql": False, "max_in_flight": 1, "queue_seconds": 60.0, **settings})
    with observed_server(folder, wrap=wrap, settings=options) as observed, ThreadPoolExecutor(searches + 20) as threads:
        observed.client.get("/readyz")
        loaded = LoadedServer(observed, stores[0], [], threads)
        try:
            for _ in range(searches):
                loaded.search()
            wait_until(lambda: stores[0].waiting == 1)
            yield loaded
        finally:
            loaded.release()


def test_health_checks_are_answered_before_queued_searches(tmp_path: Path) -> None:
    """While searches wait for a place, health checks and metrics are answered. All searches are answered later."""
    with loaded_server(tmp_path, searches=15) as server:
        wait_until(lambda: server.gauge("shardql_operations_queued") == 14)
        client = server.observed.client
        health = [client.get(path).status_code for path in ("/healthz", "/readyz", "/metrics")]
        assert not any(search.done() for search in server.searches)
        assert health == [200, 200, 200]
        assert server.gauge("shardql_operations_limit") == 1
        assert server.gauge("shardql_operations_in_flight") == 1
        responses = server.release()
    assert [response.status_code for response in responses] == [200] * 15
    assert all(len(response.json()["data"]["userByCreated"]["items"]) == 5 for response in responses)


def test_an_operation_that_waits_too_long_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After the time of the queue, an operation is refused with the code and the header for a retry. It is logged."""
    with loaded_server(tmp_path, searches=1, queue_seconds=0.05) as server:
        before = server.observed.counts()
        refused = server.search().result(TIMEOUT)
        after = server.observed.counts()
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    (error,) = refused.json()["errors"]
    assert error["extensions"] == {
        "code": Overloaded.code,
        "retryable": True,
        "retryAfter": int(refused.headers["retry-after"]),
    }
    assert after["shardql_errors_total OVERLOADED"] - before.get("shardql_errors_total OVERLOADED", 0) == 1
    assert any("operations were refused" in message for message in caplog.messages)


def test_the_time_in_the_queue_counts_toward_the_deadline(tmp_path: Path) -> None:
    """An operation that gets its place late has only the rest of its deadline."""
    with loaded_server(tmp_path, searches=2, deadline_seconds=0.6) as server:
        responses = [search.result(TIMEOUT) for search in server.searches]
        server.store.gate.set()
        codes = [error["extensions"]["code"] for response in responses for error in response.json()["errors"]]
        in_time = server.search().result(TIMEOUT)
    assert codes == ["DEADLINE_EXCEEDED"] * 2
    assert [response.status_code for response in responses] == [504, 504]
    assert all(response.headers["retry-after"] == "1" for response in responses)
    assert in_time.status_code == 200


def test_a_search_that_waits_too_long_for_memory_is_refused(tmp_path: Path) -> None:
    """A search for which there is no memory is refused as a whole. Mutations do not wait for memory."""
    with (
        loaded_server(tmp_path, searches=1, max_in_flight=10, queue_seconds=0.05, memory_budget=1 << 20) as server,
        ExitStack() as stack,
    ):
        memory = server.observed.admission.memory
        memory.change(memory.max_bytes)
        stack.callback(memory.change, -memory.max_bytes)
        refused = server.search().result(TIMEOUT)
        deleted = server.observed.post('mutation { deleteUser(id: "nobody") { deletedId } }')
    assert (refused.status_code, [error["extensions"]["code"] for error in refused.json()["errors"]]) == (
        503,
        [Overloaded.code],
    )
    assert "data" not in refused.json()
    assert int(refused.headers["retry-after"]) >= 1
    assert deleted.json()["data"]["deleteUser"] == {"deletedId": None}


# --- refusals without the application --------------------------------------------------------------------------


@dataclass
class FullServer:
    """A server whose only place is taken, without a queue."""

    address: str
    refused_early: list[None]
    executor: ScriptedExecutor


@contextmanager
def full_server(*, early: bool = True) -> Iterator[FullServer]:
    """Start a server, and take its place."""
    executor, refused = ScriptedExecutor(), list[None]()
    settings = Settings(max_in_flight=1, queue_seconds=0.0, cors_origins=(ORIGIN,))
    admission = AdmissionController(*settings.admission_limits())
    app = build_app(executor, no_database(), settings, admission=admission)
    refusal = EarlyRefusal(admission, settings.path, lambda: refused.append(None))
    protocol = LimitedHttpProtocol.guarded(ConnectionGuard(refusal=refusal)) if early else LimitedHttpProtocol
    with serve_app(app, http=protocol) as address, RawConnection(address) as holder:
        holder.send(request("POST /graphql", WAIT, content_type="application/json"))
        assert executor.waiting.wait(TIMEOUT)
        yield FullServer(address, refused, executor)


@pytest.fixture(scope="module")
def full() -> Iterator[FullServer]:
    """A full server that refuses early."""
    with full_server() as server:
        yield server


@pytest.fixture(scope="module")
def slow() -> Iterator[FullServer]:
    """A full server whose application refuses."""
    with full_server(early=False) as server:
        yield server


def comparable(reply: Reply) -> tuple[int, dict[str, str], str, dict[str, object]]:
    """A reply without what differs between two requests."""
    headers = dict(reply.headers)
    retry_after = headers.pop("retry-after")
    assert headers.pop("x-request-id")
    headers.pop("date")
    headers.pop("content-length")
    body = json.loads(reply.body)
    (error,) = body["errors"]
    assert error["extensions"].pop("retryAfter") == int(retry_after)
    message = error.pop("message").replace(retry_after, "N")
    return reply.status, headers, message, body


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"accept": "application/graphql-response+json"},
        {"accept": "application/json;q=0.5, application/graphql-response+json"},
        {"connection": "close"},
        {"x_request_id": "my-id"},
        {"x_request_id": "not plain!"},
        {"origin": ORIGIN},
        {"origin": "https://other.example"},
    ],
    ids=["plain", "new media type", "preference", "close", "id", "odd id", "origin", "other origin"],
)
def test_early_refusals_equal_those_of_the_application(
    full: FullServer, slow: FullServer, headers: dict[str, str]
) -> None:
    """A refusal without the application has the same status, headers and body. The application adds CORS headers."""
    count = len(full.refused_early)
    with RawConnection(full.address) as fast_connection, RawConnection(slow.address) as slow_connection:
        fast, usual = fast_connection.post(GOOD, **headers), slow_connection.post(GOOD, **headers)
    assert comparable(fast) == comparable(usual)
    assert fast.codes == [Overloaded.code]
    assert (len(full.refused_early) > count) == ("origin" not in headers)
    assert ("access-control-allow-origin" in fast.headers) == (headers.get("origin") == ORIGIN)
    if headers.get("x_request_id") == "my-id":
        assert fast.headers["x-request-id"] == usual.headers["x-request-id"] == "my-id"


class RecordingTransport(asyncio.Transport):
    """A connection to no client, which keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False


def test_a_refusal_costs_few_calls() -> None:
    """A plain request is refused with at most 70 calls of functions, without parser, task or random bytes."""
    executor, refused, calls = ScriptedExecutor(), list[None](), Counter[str]()
    admission = AdmissionController(1, 0.0, 1 << 20)
    admission.in_flight = 1
    app = build_app(executor, no_database(), Settings(), admission=admission)
    refusal = EarlyRefusal(admission, "/graphql", lambda: refused.append(None))

    def count(_: object, event: str, function: object) -> None:
        if event in {"call", "c_call"}:
            calls[getattr(function, "__qualname__", "") if event == "c_call" else "Python function"] += 1

    async def run() -> list[bytes]:
        transport, state = RecordingTransport(), ServerState()
        state.default_headers = [(b"date", b"today")]
        create = LimitedHttpProtocol.guarded(ConnectionGuard(refusal=refusal))
        protocol = create(uvicorn.Config(app, log_config=None), state, {})
        protocol.connection_made(transport)
        data = request("POST /graphql", GOOD, content_type="application/json", accept="*/*")
        protocol.data_received(data)
        sys.setprofile(count)
        for _ in range(10):
            protocol.data_received(data)
        sys.setprofile(None)
        assert (len(asyncio.all_tasks()), state.tasks) == (1, set())
        protocol.connection_lost(ConnectionResetError())
        return transport.written

    written = asyncio.run(run())
    assert all(response.startswith(b"HTTP/1.1 503 ") for response in written)
    assert (len(written), len(refused), admission.total_refused) == (11, 11, 11)
    assert calls.total() <= 10 * 70, calls.most_common(20)
    assert not {"HttpParser.feed_data", "urandom"} & calls.keys()
    assert executor.operations == []


def test_an_early_refusal_keeps_its_connection_open(full: FullServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for the first request ends with an early refusal, as with any response."""
    monkeypatch.setattr(LimitedHttpProtocol, "head_timeout", 0.1)
    with RawConnection(full.address) as connection:
        assert connection.post(GOOD).status == 503
        time.sleep(0.2)
        assert connection.post(GOOD).status == 503


def test_a_connection_stays_usable_after_an_early_refusal(full: FullServer) -> None:
    """Requests on one connection are refused one after the other, with large bodies too. Other requests are served."""
    with RawConnection(full.address) as connection:
        for body in (GOOD, b'{"query": "' + b"#" * 200_000 + b'"}', GOOD):
            assert connection.post(body).status == 503
        assert connection.exchange("GET /nowhere").status == 404
        assert connection.post(GOOD).status == 503


def test_a_connection_closes_after_an_early_refusal(full: FullServer) -> None:
    """If the client asks for it, the connection closes after the refusal, as soon as the body has arrived."""
    count = len(full.refused_early)
    with RawConnection(full.address) as connection:
        sent = request("POST /graphql", GOOD, content_type="application/json", connection="close")
        connection.send(sent[:-5])
        reply = connection.reply()
        assert (reply.status, reply.headers["connection"]) == (503, "close")
        connection.send(sent[-5:])
        assert connection.is_closed()
    assert len(full.refused_early) == count + 1


def test_pipelined_requests_are_refused_in_order(full: FullServer) -> None:
    """Several requests in one packet get one refusal each."""
    one = request("POST /graphql", GOOD, content_type="application/json")
    with RawConnection(full.address) as connection:
        connection.send(one * 20)
        received = b""
        while received.count(b"HTTP/1.1 503") < 20 or not received.endswith(b"}"):
            received += connection.socket.recv(1 << 16)


def test_a_body_that_is_not_sent(full: FullServer) -> None:
    """A client that waits for `100 Continue` is refused by the application, which closes the connection."""
    with RawConnection(full.address) as connection:
        head = "content-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n"
        connection.send(f"POST /graphql HTTP/1.1\r\nhost: a\r\n{head}".encode())
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.socket.recv(1 << 16)
    assert received.startswith(b"HTTP/1.1 100 Continue") or b"connection: close" in received.lower()


def test_other_requests_are_not_refused_early(full: FullServer) -> None:
    """The application answers requests that accept no JSON, or do not use POST."""
    count = len(full.refused_early)
    with RawConnection(full.address) as connection:
        assert connection.post(GOOD, accept="text/plain").status == 406
    with RawConnection(full.address) as connection:
        assert connection.exchange("OPTIONS /graphql").status == 204
        query = connection.exchange("GET /graphql?query=%7Ba%7D", apollo_require_preflight="1")
        assert query.codes == [Overloaded.code]
    assert len(full.refused_early) == count


def test_early_refusals_end_with_the_overload() -> None:
    """When the place is free again, requests on the same connection are executed."""
    executor = ScriptedExecutor()
    settings = Settings(max_in_flight=2, queue_seconds=0.0)
    admission = AdmissionController(*settings.admission_limits())
    app = build_app(executor, no_database(), settings, admission=admission)
    refusal = EarlyRefusal(admission, settings.path, lambda: None)
    with (
        serve_app(app, http=LimitedHttpProtocol.guarded(ConnectionGuard(refusal=refusal))) as address,
        RawConnection(address) as connection,
    ):
        with RawConnection(address) as first, RawConnection(address) as second:
            for holder in (first, second):
                executor.waiting.clear()
                holder.send(request("POST /graphql", WAIT, content_type="application/json"))
                assert executor.waiting.wait(TIMEOUT)
            assert connection.post(GOOD).status == 503
        wait_until(lambda: admission.in_flight == 0)
        wait_until(lambda: connection.post(GOOD).status == 200)
