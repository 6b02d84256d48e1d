"""Errors of authentication and authorization."""

from typing import Any

from graphql_api.errors.base_error import ShardQLError


class Unauthenticated(ShardQLError, code="UNAUTHENTICATED", status=401):
    """The request's credentials are missing, expired, forged, or not for this server."""

    def __init__(self, message: str, *, passing: bool = False, **values: Any) -> None:
        super().__init__(message, **values)
        self.retryable = passing
        """the credentials could not be checked now, and may be valid"""


class Forbidden(ShardQLError, code="FORBIDDEN", status=403):
    """Raised by access rules. The message never reveals whether a record exists."""

    summary = "The caller may not read or write this."
