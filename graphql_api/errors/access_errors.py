"""Errors of authentication and authorization."""

from typing import Any

from graphql_api.errors.base_error import ShardQLError
from graphql_api.errors.name_references import Localizable


class Unauthenticated(ShardQLError):
    """Raised before a request is parsed further, by every kind of credential."""

    code = "UNAUTHENTICATED"
    status = 401
    summary = "The request's credentials are missing, expired, forged, or not for this server."

    def __init__(
        self,
        message: str,
        *,
        argument: str | Localizable | None = None,
        shard: str | None = None,
        passing: bool = False,
        **values: Any,
    ) -> None:
        super().__init__(message, argument=argument, shard=shard, **values)
        self.passing = passing
        """the credentials could not be checked now, and may be valid"""

    @property
    def extensions(self) -> dict[str, Any]:
        """Return the machine-readable part, with `retryable` if the credentials could not be checked now."""
        return {**super().extensions, **({"retryable": True} if self.passing else {})}


class Forbidden(ShardQLError):
    """Raised by access rules. The message never reveals whether a record exists."""

    code = "FORBIDDEN"
    status = 403
    summary = "The caller may not read or write this."
