"""Format errors for clients. Details that clients must not see go to the log only."""

import logging
from collections.abc import Iterable
from typing import Any

from graphql import GraphQLError

from graphql_api.errors import BadUserInput, InternalError, OutcomeUnknown, ShardQLError, StoreError

log = logging.getLogger("shardql")

MAX_MESSAGE = 1_000
"""Characters of a message of graphql-core. Many of them repeat the input of the client."""


def truncate_message(message: str) -> str:
    """Cut the middle out of a long message: the reason is at its beginning and at its end."""
    half = MAX_MESSAGE // 2
    return message if len(message) <= MAX_MESSAGE else f"{message[:half]} … {message[-half:]}"


def format_error(
    problem: ShardQLError,
    correlation_id: str,
    *,
    details: bool,
    retry_safe: bool = True,
    suggestions: bool = True,
) -> dict[str, Any]:
    """Format a ShardQL error as a GraphQL error.

    Without `details` the location of the store and the names of its tables appear in the log only. Without `retry_safe`
    the error is not marked as retryable, because another part of the operation must not run twice.
    Without `suggestions` the message does not propose existing names.
    """
    problem = problem if suggestions else problem.without_suggestions()
    extensions = {name: value for name, value in problem.extensions.items() if retry_safe or name != "retryable"}
    if not isinstance(problem, StoreError) or problem.status < 500:
        return {"message": problem.message, "extensions": extensions}
    log.warning("%s", problem.message, extra={"correlation_id": correlation_id})
    if details:
        return {"message": problem.message, "extensions": extensions}
    hint = " Try again after a moment." if "retryable" in extensions else ""
    if isinstance(problem, OutcomeUnknown):
        hint = " Read the current state before you send it again."
    extensions.pop("shard", None)
    return {
        "message": f"{problem.summary}{hint} The log has the details under {correlation_id}.",
        "extensions": extensions,
    }


def format_errors(
    problems: Iterable[GraphQLError],
    correlation_id: str,
    *,
    details: bool,
    retry_safe: bool = True,
    suggestions: bool = True,
) -> list[dict[str, Any]]:
    """Format the errors of fields. An unexpected exception is masked, and logged once."""
    logged: set[int] = set()
    return [
        _format_field_error(
            problem, correlation_id, logged, details=details, retry_safe=retry_safe, suggestions=suggestions
        )
        for problem in problems
    ]


def _format_field_error(
    problem: GraphQLError, correlation_id: str, logged: set[int], *, details: bool, retry_safe: bool, suggestions: bool
) -> dict[str, Any]:
    cause = _cause(problem)
    formatted: dict[str, Any] = dict(problem.formatted)
    if isinstance(cause, ShardQLError):
        formatted |= format_error(
            cause, correlation_id, details=details, retry_safe=retry_safe, suggestions=suggestions
        )
    elif cause is None or isinstance(cause, GraphQLError):
        formatted["extensions"] = {"code": BadUserInput.code, **(problem.extensions or {})}
    else:
        if id(cause) not in logged:
            logged.add(id(cause))
            log.error(
                "Unexpected error at %s",
                ".".join(map(str, problem.path or ())),
                exc_info=cause,
                extra={"correlation_id": correlation_id},
            )
        masked = InternalError(correlation_id)
        formatted["message"] = masked.message
        formatted["extensions"] = masked.extensions
    return formatted


def _cause(problem: GraphQLError) -> BaseException | None:
    """Return the exception that a resolver raised; None if graphql-core reported the error itself."""
    cause: BaseException | None = problem
    while isinstance(cause, GraphQLError) and cause.original_error is not None:
        cause = cause.original_error
    return None if cause is problem else cause
