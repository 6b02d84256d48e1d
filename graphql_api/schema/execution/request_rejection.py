"""Responses to operations that were refused before their execution, or whose hooks failed."""

from collections.abc import Mapping
from typing import Any

import graphql

from graphql_api.errors import ShardQLError, error_body
from graphql_api.schema.error_formatting import ErrorFormatter
from graphql_api.schema.execution.graphql_operation import ExecutionResponse


class RequestRejected(Exception):
    """graphql-core or an extension rejected the document or its variables, with these errors."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        self.response = ExecutionResponse({"errors": errors}, 400)


class FormattedError(graphql.GraphQLError):
    """An error as clients see it, for code that expects the errors of graphql-core."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__(body["message"], path=body.get("path"), extensions=dict(body["extensions"]))
        self._body = body

    @property
    def formatted(self) -> Any:
        return dict(self._body)


def refusal(problem: ShardQLError, errors: ErrorFormatter) -> ExecutionResponse:
    """Return the response to an operation that was refused."""
    return ExecutionResponse({"errors": [error_body(errors.mask(problem))]}, problem.status)


def failure(problem: Exception, errors: ErrorFormatter) -> ExecutionResponse:
    """Return the response to an operation for which an extension or the context getter failed."""
    located = problem if isinstance(problem, graphql.GraphQLError) else graphql.GraphQLError("", original_error=problem)
    status = 400 if isinstance(problem, graphql.GraphQLError) else 500
    return ExecutionResponse({"errors": errors.format_field_errors([located], retry_safe=False)}, status)
