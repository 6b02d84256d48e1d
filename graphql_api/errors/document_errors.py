"""Errors of GraphQL documents: parsing, validation, limits and execution."""

from typing import Any

from graphql_api.errors.base_error import ShardQLError


class ParseFailed(ShardQLError):
    """Raised by the parser."""

    code = "GRAPHQL_PARSE_FAILED"
    summary = "The text is not a GraphQL document."


class ValidationFailed(ShardQLError):
    """Raised by the validation of a document against the schema."""

    code = "GRAPHQL_VALIDATION_FAILED"
    summary = "The document does not fit the schema."


class BadUserInput(ShardQLError):
    """Raised by the coercion of variables and arguments."""

    code = "BAD_USER_INPUT"
    summary = "A variable or an argument has a value that its type does not admit."


class OperationNotFound(ShardQLError):
    """Raised when `operationName` is missing or unknown."""

    code = "OPERATION_RESOLUTION_FAILURE"
    summary = "The document has no operation of this name, or several without a name to select one."


class DocumentNotFound(ShardQLError):
    """Raised for unknown ids of trusted documents."""

    code = "PERSISTED_QUERY_NOT_FOUND"
    summary = "No trusted document has this id."


class DocumentRequired(ShardQLError):
    """Raised where the server executes trusted documents only, for requests that send a document."""

    code = "PERSISTED_QUERY_REQUIRED"
    status = 403
    summary = "The server executes trusted documents only."


class LimitExceeded(ShardQLError):
    """Base of errors about the size of a document, which are raised before it is executed."""

    summary = "The document exceeds a limit."

    def __init__(self, message: str, *, limit: int, found: int | None = None, **values: Any) -> None:
        super().__init__(message, **values)
        self.limit = limit
        self.found = found

    @property
    def extensions(self) -> dict[str, Any]:
        """Return the machine-readable part, with the limit, and the actual number if it was counted to the end."""
        found = {} if self.found is None else {"found": self.found}
        return {**super().extensions, "limit": self.limit, **found}


class QueryTooLong(LimitExceeded):
    """Raised by the parser's token limit."""

    code = "QUERY_TOO_LONG"
    summary = "The document has more tokens than the server parses."


class QueryTooDeep(LimitExceeded):
    """Raised for nested fields, and for other nesting that would exhaust the stack."""

    code = "QUERY_TOO_DEEP"
    summary = "The fields of the document are nested too deeply."


class TooManyAliases(LimitExceeded):
    """Raised by the document limits."""

    code = "TOO_MANY_ALIASES"
    summary = "The document has more aliases than the server allows."


class TooManyDirectives(LimitExceeded):
    """Raised by the document limits."""

    code = "TOO_MANY_DIRECTIVES"
    summary = "The document has more directives than the server allows."


class TooManyRootFields(LimitExceeded):
    """Raised by the document limits."""

    code = "TOO_MANY_ROOT_FIELDS"
    summary = "The operation has more root fields than the server allows."


class QueryTooCostly(LimitExceeded):
    """Raised for the estimated cost of an operation, and for its actual reads beyond the budget."""

    code = "QUERY_TOO_COSTLY"
    summary = "The operation could return more than the server allows in one response."


class DeadlineExceeded(ShardQLError):
    """Raised when an operation is cancelled at its deadline."""

    code = "DEADLINE_EXCEEDED"
    status = 504
    retryable = True
    summary = "The operation did not finish within its deadline."
