"""OpenTelemetry spans: one per operation and one per store call. Resolvers have none."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from graphql_api.errors import InvalidSettings
from graphql_api.storage import StoreCall

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


class FinishSpan(Protocol):
    """Records the attributes and the outcome of an operation at its end."""

    def __call__(self, attributes: Mapping[str, str | int], *, failed: bool) -> None: ...


class Tracing(Protocol):
    """Creates spans."""

    def request(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Continue the trace that the request headers name, within the block."""
        ...

    def operation(self, name: str | None) -> AbstractContextManager[FinishSpan]:
        """Open the span of an operation."""
        ...

    def record_store_call(self, call: StoreCall) -> None:
        """Create the span of a completed store call, within the span of its operation."""
        ...


class NoTracing:
    """Creates no spans."""

    def request(self, _: Mapping[str, str]) -> AbstractContextManager[None]:
        return nullcontext()

    def operation(self, _: str | None) -> AbstractContextManager[FinishSpan]:
        return nullcontext(_discard)

    def record_store_call(self, call: StoreCall) -> None:
        pass


def _discard(attributes: Mapping[str, str | int], *, failed: bool) -> None:
    """Discard the attributes of a span that does not exist."""


def create_tracing() -> Tracing:
    """Create spans with the tracer provider that the process has configured."""
    try:
        from opentelemetry import trace  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise InvalidSettings(
            ["SHARDQL_TRACING is on, but OpenTelemetry is not installed: install shardql[opentelemetry]."]
        ) from error
    return OpenTelemetryTracing(trace.get_tracer("shardql"))


class OpenTelemetryTracing:
    """Creates OpenTelemetry spans with a tracer."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    @contextmanager
    def request(self, headers: Mapping[str, str]) -> Iterator[None]:
        from opentelemetry import context, propagate  # noqa: PLC0415 - optional dependency

        token = context.attach(propagate.extract(headers))
        try:
            yield
        finally:
            context.detach(token)

    @contextmanager
    def operation(self, name: str | None) -> Iterator[FinishSpan]:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - optional dependency

        with self._tracer.start_as_current_span("GraphQL operation", kind=SpanKind.SERVER) as span:
            if name is not None:
                span.set_attribute("graphql.operation.name", name)
            yield _span_finisher(span)

    def record_store_call(self, call: StoreCall) -> None:
        span = self._tracer.start_span(
            f"store {call.name}",
            start_time=call.began,
            attributes={"shardql.store.parts": call.parts, "shardql.store.records_read": call.records_read},
        )
        if call.failure is not None:
            span.set_attribute("error.type", call.failure)
            _mark_failed(span)
        span.end(call.began + round(call.seconds * 1e9))


def _span_finisher(span: "Span") -> FinishSpan:
    def finish(attributes: Mapping[str, str | int], *, failed: bool) -> None:
        span.set_attributes({f"shardql.{name}": value for name, value in attributes.items()})
        if failed:
            _mark_failed(span)

    return finish


def _mark_failed(span: Any) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - optional dependency

    span.set_status(StatusCode.ERROR)
