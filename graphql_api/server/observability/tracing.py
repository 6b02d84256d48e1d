"""Spans of OpenTelemetry: one for each operation, one for each call of the store in it, none for resolvers."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from graphql_api.errors import InvalidSettings
from graphql_api.storage import StoreCall

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer


class Span(Protocol):
    """What is told of an operation when it has ended."""

    def __call__(self, facts: Mapping[str, str | int], *, failed: bool) -> None: ...


class Tracing(Protocol):
    """Where spans go."""

    def request(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """What is traced within belongs to the trace that the headers of a request name, if they name one."""
        ...

    def operation(self, name: str | None) -> AbstractContextManager[Span]:
        """The span of an operation."""
        ...

    def store_call(self, call: StoreCall) -> None:
        """The span of a call that has ended, within that of its operation."""
        ...


class NoTracing:
    """No spans."""

    def request(self, _: Mapping[str, str]) -> AbstractContextManager[None]:
        return nullcontext()

    def operation(self, _: str | None) -> AbstractContextManager[Span]:
        return nullcontext(_said_to_nobody)

    def store_call(self, call: StoreCall) -> None:
        pass


def _said_to_nobody(facts: Mapping[str, str | int], *, failed: bool) -> None:
    """Nobody listens."""


def open_tracing() -> Tracing:
    """Spans for the tracer provider that the process has set up."""
    try:
        from opentelemetry import trace  # noqa: PLC0415 - of an extra, which need not be there
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            ["SHARDQL_TRACING is on, and OpenTelemetry is not installed: install shardql[opentelemetry]."]
        ) from missing
    return OpenTelemetry(trace.get_tracer("shardql"))


class OpenTelemetry:
    """Spans by a tracer."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    @contextmanager
    def request(self, headers: Mapping[str, str]) -> Iterator[None]:
        from opentelemetry import context, propagate  # noqa: PLC0415 - of an extra, which need not be there

        token = context.attach(propagate.extract(headers))
        try:
            yield
        finally:
            context.detach(token)

    @contextmanager
    def operation(self, name: str | None) -> Iterator[Span]:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - of an extra, which need not be there

        with self._tracer.start_as_current_span("GraphQL operation", kind=SpanKind.SERVER) as span:
            if name is not None:
                span.set_attribute("graphql.operation.name", name)
            yield _teller(span)

    def store_call(self, call: StoreCall) -> None:
        span = self._tracer.start_span(
            f"store {call.name}",
            start_time=call.began,
            attributes={"shardql.store.parts": call.parts, "shardql.store.records_read": call.records_read},
        )
        if call.failure is not None:
            span.set_attribute("error.type", call.failure)
            _mark_failed(span)
        span.end(call.began + round(call.seconds * 1e9))


def _teller(span: "OtelSpan") -> Span:
    def tell(facts: Mapping[str, str | int], *, failed: bool) -> None:
        span.set_attributes({f"shardql.{name}": value for name, value in facts.items()})
        if failed:
            _mark_failed(span)

    return tell


def _mark_failed(span: Any) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - of an extra, which need not be there

    span.set_status(StatusCode.ERROR)
