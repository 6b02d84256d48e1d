"""Spans: one for each operation and one for each call of the store in it, in the trace that the request names."""

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
from graphql_api.examples.user_samples import generate_users
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.observability.tracing import NoTracing, OpenTelemetryTracing, create_tracing
from tests.api.running import PATIENCE, running
from tests.api.scripted import ScriptedEngine, no_database
from tests.api.watched import watched
from tests.stores import FailingStore

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SEARCH = "query Search { userByCreated(limit: 3) { items { userId firstName phone nothing: lastName } } }"


class Spans:
    """What was traced."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = OpenTelemetryTracing(self._provider.get_tracer("test"))

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def close(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Spans that are kept for the test."""
    kept = Spans()
    yield kept
    kept.close()


def test_a_span_for_an_operation(spans: Spans, tmp_path: Path) -> None:
    """An operation is one span with its name and cost, its calls of the store are spans in it, and fields are none."""
    with watched(tmp_path, tracing=spans.tracing) as server:
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


def test_a_span_belongs_to_the_trace_of_its_request(spans: Spans, tmp_path: Path) -> None:
    """A `traceparent` makes the spans of its request, and of no other one, a part of that trace."""
    with watched(tmp_path, tracing=spans.tracing) as server:
        server.client.post("/graphql", json={"query": SEARCH}, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        server.post(SEARCH)
    inside, outside = spans.named("GraphQL operation")
    assert f"{inside.context.trace_id:032x}" == TRACE
    assert inside.parent is not None
    assert f"{inside.parent.span_id:016x}" == PARENT
    assert f"{outside.context.trace_id:032x}" != TRACE
    assert [f"{call.context.trace_id:032x}" for call in spans.named("store read_ranges")].count(TRACE) >= 1


def test_failures_show(spans: Spans, tmp_path: Path) -> None:
    """An operation with errors and a call that failed are marked, the call with the code of its error."""
    with watched(tmp_path, tracing=spans.tracing, wrap=lambda inner: FailingStore(inner, lambda read: True)) as server:
        server.post(SEARCH)
    (operation,), (call,) = spans.named("GraphQL operation"), spans.named("store read_ranges")
    assert operation.status.status_code is call.status.status_code is StatusCode.ERROR
    assert (call.attributes or {})["error.type"] == "STORE_UNAVAILABLE"


def test_mistakes_show(spans: Spans) -> None:
    """An operation that ends in a mistake of the server has an ended span all the same."""
    operations = Instrumentation(tracing=spans.tracing)
    app = build_app(
        operations.instrument_executor(ScriptedEngine()),
        no_database(),
        WebOptions(),
        middleware=[operations.middleware()],
    )
    with running(app) as address:
        httpx.post(f"{address}/graphql", json={"query": "fail"}, timeout=PATIENCE)
    (operation,) = spans.all
    assert operation.status.status_code is StatusCode.ERROR


def test_nothing_secret_is_traced(spans: Spans, tmp_path: Path) -> None:
    """Neither documents nor variables nor keys of records get into spans."""
    secret = next(generate_users(1)).user_id
    with watched(tmp_path, tracing=spans.tracing) as server:
        server.post("query Q($id: ID!) { user(id: $id) { userId } }", variables={"id": secret})
        server.post(f'{{ user(id: "{secret}") {{ userId }} }}')
    assert len(spans.named("GraphQL operation")) == 2
    assert secret not in "".join(span.to_json() for span in spans.all)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where spans are asked for and OpenTelemetry is not installed, the server does not start, and says what to do."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(InvalidSettings, match=r"install shardql\[opentelemetry\]"):
        create_tracing()


def test_the_package_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no spans are asked for, nothing of OpenTelemetry is loaded."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.setitem(sys.modules, name, None)
    with watched(tmp_path, tracing=NoTracing()) as server:
        assert "errors" not in server.post(SEARCH).json()
