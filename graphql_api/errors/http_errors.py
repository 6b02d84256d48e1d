"""Errors of HTTP requests, before a GraphQL document is parsed."""

from typing import Any

from graphql_api.errors.base_error import ShardQLError


class InvalidJson(ShardQLError):
    """Raised by the strict JSON parser, which also rejects repeated keys and non-finite numbers."""

    code = "INVALID_JSON"
    summary = "A text is not valid JSON, or is JSON with more than one possible meaning."


class InvalidRequest(ShardQLError):
    """Raised for parameters that GraphQL over HTTP does not allow."""

    code = "INVALID_REQUEST"
    summary = "A parameter of GraphQL over HTTP is missing or has the wrong type."


class CrossSiteRequest(ShardQLError):
    """Raised by the CSRF check for requests that browsers send without a preflight."""

    code = "CROSS_SITE_REQUEST"
    status = 403
    summary = "Any page of a browser could have sent the request without a preflight."


class NotFound(ShardQLError):
    """Raised for paths that no route serves."""

    code = "NOT_FOUND"
    status = 404
    summary = "The server has no resource at this path."


class MethodNotAllowed(ShardQLError):
    """Raised for methods that a path does not support, and for mutations by GET."""

    code = "METHOD_NOT_ALLOWED"
    status = 405
    summary = "The path does not support this method; a GET only reads."


class NotAcceptable(ShardQLError):
    """Raised by content negotiation."""

    code = "NOT_ACCEPTABLE"
    status = 406
    summary = "The `Accept` header admits no media type that the server produces."


class BodyTooSlow(ShardQLError):
    """Raised when the client sends the body more slowly than the read timeout allows."""

    code = "BODY_TOO_SLOW"
    status = 408
    retryable = True
    summary = "The request body did not arrive in time."


class BodyTooLarge(ShardQLError):
    """Raised as soon as the declared or received size exceeds the limit."""

    code = "BODY_TOO_LARGE"
    status = 413
    summary = "The request body exceeds the limit of the server."


class UrlTooLong(ShardQLError):
    """Raised for long query strings."""

    code = "URL_TOO_LONG"
    status = 414
    summary = "The URL of the request exceeds the limit of the server."


class UnsupportedMediaType(ShardQLError):
    """Raised for bodies that are not uncompressed JSON in UTF-8."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415
    summary = "The server does not read this media type, charset or content encoding."


class ExpectationFailed(ShardQLError):
    """Raised for expectations that the server does not know."""

    code = "EXPECTATION_FAILED"
    status = 417
    summary = "The `Expect` header is something other than `100-continue`."


class InternalError(ShardQLError):
    """Masks an unexpected exception. The log has it under the correlation id."""

    code = "INTERNAL_ERROR"
    status = 500
    summary = "An internal error of the server; its log has the details."

    def __init__(self, correlation_id: str) -> None:
        super().__init__(f"Internal server error. The log has the details under {correlation_id}.")
        self.correlation_id = correlation_id

    @property
    def extensions(self) -> dict[str, Any]:
        """Return the machine-readable part, with the correlation id of the log."""
        return {**super().extensions, "correlationId": self.correlation_id}
