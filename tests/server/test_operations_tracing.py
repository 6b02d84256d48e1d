"""Tracing: one span per operation, one per store call, in the trace of the request."""

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from graphql_api.errors import InvalidSettings
from graphql_api.examples.users import generate_users
from graphql_api.server.app import build_app
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.observability.tracing import Tracing, create_tracing
from graphql_api.server.settings import Settings
from tests.server.observed_server import observed_server
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import TIMEOUT, serve_app
from tests.support.store_doubles import FailingStore

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SEARCH = "query Search { userByCreated(limit: 3) { items { userId firstName phone nothing: lastName } } }"


class SpanRecorder:
    """Records finished spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(self._provider.get_tracer("test"))

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def close(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def spans() -> Iterator[SpanRecorder]:
    """A span recorder."""
    kept = SpanRecorder()
    yield kept
    kept.close()


def test_operation_span(spans: SpanRecorder, tmp_path: Path) -> None:
    """An operation is one span with its name and cost. Store calls are child spans, and fields have none."""
    with observed_server(tmp_path, tracing=spans.tracing) as server:
        reply = server.post(SEARCH)
    (operation,) = spans.named("GraphQL operation")
    calls = [span for span in spans.all if span is not operation]
    assert {span.name for span in calls} == {"store read_ranges"}
    assert operation.kind is SpanKind.SERVER
    assert operation.parent is None
    assert operation.attributes is not None
    assert dict(operation.attributes) == {
        "graphql.operation.name": "Search",
        "shardql.correlationId": reply.headers["x-request-id"],
        "shardql.storeCalls": len(calls),
        "shardql.recordsRead": sum(int(str((call.attributes or {})["shardql.store.records_read"])) for call in calls),
        "shardql.retries": 0,
        "shardql.hedges": 0,
        "shardql.queuedMilliseconds": 0,
        "shardql.searches": 1,
        "shardql.shardsAsked": 17,
        "shardql.recordsReturned": 3,
    }
    assert operation.status.status_code is StatusCode.UNSET
    for call in calls:
        assert call.parent is not None
        assert call.parent.span_id == operation.context.span_id
        assert operation.start_time is not None
        assert operation.end_time is not None
        assert call.start_time is not None
        assert call.end_time is not None
        assert call.start_time < call.end_time


def test_traceparent(spans: SpanRecorder, tmp_path: Path) -> None:
    """A `traceparent` header makes the spans of its request, and of no other, a part of that trace."""
    with observed_server(tmp_path, tracing=spans.tracing) as server:
        server.client.post("/graphql", json={"query": SEARCH}, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        server.post(SEARCH)
    inside, outside = spans.named("GraphQL operation")
    assert f"{inside.context.trace_id:032x}" == TRACE
    assert inside.parent is not None
    assert f"{inside.parent.span_id:016x}" == PARENT
    assert f"{outside.context.trace_id:032x}" != TRACE
    assert [f"{call.context.trace_id:032x}" for call in spans.named("store read_ranges")].count(TRACE) >= 1


def test_failures_are_marked(spans: SpanRecorder, tmp_path: Path) -> None:
    """Failed operations and calls have an error status. The call has the code of its error."""
    with observed_server(
        tmp_path, tracing=spans.tracing, wrap=lambda inner: FailingStore(inner, lambda read: True)
    ) as server:
        server.post(SEARCH)
    (operation,), (call,) = spans.named("GraphQL operation"), spans.named("store read_ranges")
    assert operation.status.status_code is call.status.status_code is StatusCode.ERROR
    assert (call.attributes or {})["error.type"] == "STORE_UNAVAILABLE"


def test_internal_errors_are_marked(spans: SpanRecorder) -> None:
    """An operation with an internal error has an ended span with an error status."""
    instrumentation = Instrumentation(Settings(), tracing=spans.tracing)
    app = build_app(
        instrumentation.instrument_executor(ScriptedExecutor()),
        no_database(),
        Settings(),
        middleware=[instrumentation.middleware()],
    )
    with serve_app(app) as address:
        httpx.post(f"{address}/graphql", json={"query": "fail"}, timeout=TIMEOUT)
    (operation,) = spans.all
    assert operation.status.status_code is StatusCode.ERROR


def test_nothing_secret_is_traced(spans: SpanRecorder, tmp_path: Path) -> None:
    """Spans contain no documents, variables or record keys."""
    secret = next(generate_users(1)).user_id
    with observed_server(tmp_path, tracing=spans.tracing) as server:
        server.post("query Q($id: ID!) { user(id: $id) { userId } }", variables={"id": secret})
        server.post(f'{{ user(id: "{secret}") {{ userId }} }}')
    assert len(spans.named("GraphQL operation")) == 2
    assert secret not in "".join(span.to_json() for span in spans.all)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """If tracing is enabled without OpenTelemetry installed, the server does not start, and says what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(InvalidSettings, match=r"install shardql\[opentelemetry\]"):
        create_tracing()


def test_package_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tracing, no module of OpenTelemetry is imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.setitem(sys.modules, name, None)
    with observed_server(tmp_path, tracing=None) as server:
        assert "errors" not in server.post(SEARCH).json()
