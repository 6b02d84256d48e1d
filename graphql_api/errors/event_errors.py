"""Errors of events and of the streams that deliver them."""

from typing import Any

from graphql_api.errors.base_error import ShardQLError


class InvalidEvent(ShardQLError, code="INVALID_EVENT"):
    """An event has an invalid envelope, or a projection cannot make operations of it."""


class StreamError(ShardQLError):
    """Base of the errors about the position of a stream."""

    summary = "The events of a stream cannot be applied now."

    def __init__(self, message: str, *, stream: str, expected: int, **values: Any) -> None:
        super().__init__(message, **values)
        self.stream = stream
        self.expected = expected
        """the number of the event that the stream needs next"""

    @property
    def extensions(self) -> dict[str, Any]:
        return {**super().extensions, "stream": self.stream, "expected": self.expected}


class EventGap(StreamError, code="EVENT_GAP", status=409, retryable=True):
    """An event is missing in a stream. Events after it were not applied, and not stored."""


class StreamStopped(StreamError, code="STREAM_STOPPED", status=409):
    """A stream has stopped at a dead letter. Events after it were not applied, and not stored."""
