"""Errors of GraphQL documents: parsing, validation, limits and execution."""

from collections.abc import Mapping
from typing import Any

from graphql_api.errors.base_error import ShardQLError


class ParseFailed(ShardQLError, code="GRAPHQL_PARSE_FAILED"):
    """The text is not a GraphQL document."""


class ValidationFailed(ShardQLError, code="GRAPHQL_VALIDATION_FAILED"):
    """The document does not fit the schema."""


class BadUserInput(ShardQLError, code="BAD_USER_INPUT"):
    """A variable or an argument has a value that its type does not admit."""


class OperationNotFound(ShardQLError, code="OPERATION_RESOLUTION_FAILURE"):
    """The document has no operation of this name, or several without a name to select one."""


class DocumentNotFound(ShardQLError, code="PERSISTED_QUERY_NOT_FOUND"):
    """No trusted document has this id."""


class DocumentRequired(ShardQLError, code="PERSISTED_QUERY_REQUIRED", status=403):
    """The server executes trusted documents only."""


class LimitExceeded(ShardQLError):
    """Base of errors about the size of a document, which are raised before it is executed."""

    summary = "The document exceeds a limit."

    def __init__(self, message: str, *, limit: float, found: float | None = None, **values: Any) -> None:
        super().__init__(message, **values)
        self.limit = limit
        self.found = found

    @property
    def extensions(self) -> dict[str, Any]:
        """Return the machine-readable part, with the limit, and the actual number if it was counted to the end."""
        found = {} if self.found is None else {"found": self.found}
        return {**super().extensions, "limit": self.limit, **found}


class QueryTooLong(LimitExceeded, code="QUERY_TOO_LONG"):
    """The document has more tokens than the server parses."""


class QueryTooDeep(LimitExceeded, code="QUERY_TOO_DEEP"):
    """Raised for nested fields, and for other nesting that would exhaust the stack."""

    summary = "The fields of the document are nested too deeply."


class InputTooLarge(LimitExceeded, code="INPUT_TOO_LARGE"):
    """The values in a request have more elements than the server reads."""


class TooManyAliases(LimitExceeded, code="TOO_MANY_ALIASES"):
    """The document has more aliases than the server allows."""


class TooManyDirectives(LimitExceeded, code="TOO_MANY_DIRECTIVES"):
    """The document has more directives than the server allows."""


class TooManyRootFields(LimitExceeded, code="TOO_MANY_ROOT_FIELDS"):
    """The operation has more root fields than the server allows."""


class QueryTooCostly(LimitExceeded, code="QUERY_TOO_COSTLY"):
    """Raised for the estimated cost of an operation, and for reads and writes beyond its capacity ceiling."""

    summary = "The operation could return more than the server allows in one response, or use too many capacity units."

    def __init__(
        self,
        message: str,
        *,
        limit: float,
        found: float | None = None,
        estimate: Mapping[str, float] | None = None,
        **values: Any,
    ) -> None:
        super().__init__(message, limit=limit, found=found, **values)
        self.estimate = estimate
        """the capacity units of the refused search or write"""

    @property
    def extensions(self) -> dict[str, Any]:
        """Return the machine-readable part, with the estimate if the price is why it is refused."""
        estimate = {} if self.estimate is None else {"estimate": {**self.estimate}}
        return {**super().extensions, **estimate}


class DeadlineExceeded(ShardQLError, code="DEADLINE_EXCEEDED", status=504, retryable=True):
    """The operation did not finish within its deadline."""
