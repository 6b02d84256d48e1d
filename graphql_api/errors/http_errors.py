"""Errors of HTTP requests, before a GraphQL document is parsed."""

from typing import Any

from graphql_api.errors.base_error import ShardQLError


class InvalidJson(ShardQLError, code="INVALID_JSON"):
    """A text is not valid JSON, or is JSON with more than one possible meaning."""


class InvalidRequest(ShardQLError, code="INVALID_REQUEST"):
    """A parameter of GraphQL over HTTP is missing or has the wrong type."""


class CrossSiteRequest(ShardQLError, code="CROSS_SITE_REQUEST", status=403):
    """Any page of a browser could have sent the request without a preflight."""


class HostNotAllowed(ShardQLError, code="HOST_NOT_ALLOWED", status=421):
    """The server does not answer under the host name of the request."""


class NotFound(ShardQLError, code="NOT_FOUND", status=404):
    """The server has no resource at this path."""


class MethodNotAllowed(ShardQLError, code="METHOD_NOT_ALLOWED", status=405):
    """The path does not support this method; a GET only reads."""


class NotAcceptable(ShardQLError, code="NOT_ACCEPTABLE", status=406):
    """The `Accept` header admits no media type that the server produces."""


class BodyTooSlow(ShardQLError, code="BODY_TOO_SLOW", status=408, retryable=True):
    """The request body did not arrive in time."""


class BodyTooLarge(ShardQLError, code="BODY_TOO_LARGE", status=413):
    """The request body exceeds the limit of the server."""


class UrlTooLong(ShardQLError, code="URL_TOO_LONG", status=414):
    """The URL of the request exceeds the limit of the server."""


class UnsupportedMediaType(ShardQLError, code="UNSUPPORTED_MEDIA_TYPE", status=415):
    """The server does not read this media type, charset or content encoding."""


class ExpectationFailed(ShardQLError, code="EXPECTATION_FAILED", status=417):
    """The `Expect` header is something other than `100-continue`."""


class Overloaded(ShardQLError, code="OVERLOADED", status=503, retryable=True):
    """The server has more operations than it can finish in time; this one was not executed."""

    def __init__(self, message: str, *, retry_after: int, **values: Any) -> None:
        super().__init__(message, **values)
        self.retry_after = retry_after


class TooManySubscriptions(ShardQLError, code="TOO_MANY_SUBSCRIPTIONS", status=503, retryable=True):
    """The connection or the server has as many open subscriptions as it accepts."""


class InternalError(ShardQLError, code="INTERNAL_ERROR", status=500):
    """Masks an unexpected exception. The log has it under the correlation id."""

    summary = "An internal error of the server; its log has the details."

    def __init__(self, correlation_id: str) -> None:
        super().__init__(f"Internal server error. The log has the details under {correlation_id}.")
        self.correlation_id = correlation_id

    @property
    def extensions(self) -> dict[str, Any]:
        return {**super().extensions, "correlationId": self.correlation_id}
