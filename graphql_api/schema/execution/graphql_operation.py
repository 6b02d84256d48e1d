"""A GraphQL operation as a client sends it, and the response to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from graphql_api.errors import error_code


@dataclass(frozen=True, slots=True)
class Operation:
    """One GraphQL request."""

    query: str | None
    """None if the request has the id of a trusted document instead."""
    name: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """As sent by the client."""
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class ExecutionResponse:
    """The response body for the client, and the values for metrics and logs."""

    body: dict[str, Any]
    status: int = 200
    explain_entries: tuple[Mapping[str, Any], ...] = ()
    """Explain output, if the response or the log needs it."""
    row_errors: Sequence[Mapping[str, Any]] = ()
    """The errors in rows of batches."""
    path: Literal["fast", "stock"] | None = None
    """How a query was completed: by compiled code, or at least partly by graphql-core. None for other operations."""

    @property
    def executed(self) -> bool:
        """Whether execution has started."""
        return "data" in self.body

    @property
    def errors(self) -> Sequence[Mapping[str, Any]]:
        """Return the errors in the body."""
        errors: Sequence[Mapping[str, Any]] = self.body.get("errors", ())
        return errors

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(map(error_code, self.errors))
