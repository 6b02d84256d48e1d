"""OpenTelemetry spans: one per operation and one per store call. Resolvers have none."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from graphql_api.errors import InvalidSettings
from graphql_api.storage import StoreCall

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

FinishSpan: TypeAlias = Callable[[Mapping[str, str | int], bool], None]
"""Records the attributes of an operation at its end, and whether it failed."""


def create_tracing() -> "Tracing":
    """Create spans with the tracer provider that the process has configured."""
    try:
        from opentelemetry import trace  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise InvalidSettings(
            ["SHARDQL_TRACING is on, but OpenTelemetry is not installed: install shardql[opentelemetry]."]
        ) from error
    return Tracing(trace.get_tracer("shardql"))


class Tracing:
    """Creates OpenTelemetry spans with a tracer."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    @contextmanager
    def request(self, headers: Mapping[str, str]) -> Iterator[None]:
        """Continue the trace that the request headers name, within the block."""
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

            def finish(attributes: Mapping[str, str | int], failed: bool) -> None:
                span.set_attributes({f"shardql.{key}": value for key, value in attributes.items()})
                if failed:
                    _mark_failed(span)

            yield finish

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


def _mark_failed(span: "Span") -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - optional dependency

    span.set_status(StatusCode.ERROR)
