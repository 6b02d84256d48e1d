"""Errors for clients. Details that clients must not see go to the log only."""

import logging
import re
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

from graphql import GraphQLError, GraphQLSchema
from strawberry.permission import BasePermission
from strawberry.schema.schema_converter import GraphQLCoreConverter

from graphql_api.errors import (
    BadUserInput,
    Forbidden,
    InternalError,
    OutcomeUnknown,
    ShardQLError,
    StoreError,
    error_body,
)

log = logging.getLogger("shardql")

MAX_MESSAGE = 1_000
"""Characters of a message of graphql-core."""

REJECTED_FIELDS = "__rejected_fields__"
"""Attribute of input types: why a field of their records is not a field of the input, by name."""

_UNKNOWN_FIELD = re.compile(
    r"(?P<problem>Expected value of type '(?P<type>\w+)' not to include unknown field '(?P<field>\w+)')"
    r"(?:\. Did you mean [^?]+\? F|, f)ound: "
)


@dataclass(frozen=True, slots=True)
class ErrorFormatter:
    """Masks and formats the errors of one request."""

    correlation_id: str
    details: bool
    """Clients see the location of the store and the names of its tables."""
    suggestions: bool
    """Messages propose existing names."""

    def mask(self, problem: ShardQLError, *, retry_safe: bool = True) -> ShardQLError:
        """Return a copy of the error that clients may see. Without `retry_safe` it is not marked as retryable."""
        error = copy(problem) if self.suggestions else problem.without_suggestions()
        error.retryable = error.retryable and retry_safe
        if isinstance(error, StoreError) and error.status >= 500:
            log.warning("%s", error.message, extra={"correlation_id": self.correlation_id})
            if not self.details:
                hint = " Try again after a moment." if error.retryable else ""
                if isinstance(error, OutcomeUnknown):
                    hint = " Read the current state before you send it again."
                error.shard = None
                error.replace_message(f"{error.summary}{hint} The log has the details under {self.correlation_id}.")
        return error

    def format_field_errors(self, problems: Iterable[GraphQLError], *, retry_safe: bool) -> list[dict[str, Any]]:
        """Format the errors of fields. An unexpected exception is masked, and logged once.

        Without `retry_safe` no error is marked as retryable, because another part of the operation must not run twice.
        """
        logged: set[int] = set()
        errors = []
        for problem in problems:
            cause = original_error(problem)
            if isinstance(cause, ShardQLError):
                errors.append(error_body(self.mask(cause, retry_safe=retry_safe), position=_position(problem)))
            elif is_refusal(cause):
                errors.append(_format_graphql_error(problem, Forbidden(str(problem.message) or Forbidden.summary)))
            elif isinstance(cause, GraphQLError):
                errors.append(_format_graphql_error(problem, BadUserInput(problem.formatted["message"])))
            else:
                if id(cause) not in logged:
                    logged.add(id(cause))
                    path = ".".join(map(str, problem.path or ()))
                    correlation = {"correlation_id": self.correlation_id}
                    log.error("Unexpected error at %s", path, exc_info=cause, extra=correlation)
                errors.append(error_body(InternalError(self.correlation_id), position=_position(problem)))
        return errors


def original_error(problem: GraphQLError) -> BaseException:
    """Return the exception of a resolver, or the error itself."""
    cause: BaseException = problem
    while isinstance(cause, GraphQLError) and cause.original_error is not None:
        cause = cause.original_error
    return cause


def is_refusal(cause: BaseException) -> bool:
    """Return whether a Strawberry permission refused a field, by raising an error whose message is for clients."""
    for_clients = isinstance(cause, GraphQLError) or (isinstance(cause, PermissionError) and cause.errno is None)
    return for_clients and any(
        frame.f_code.co_name == BasePermission.on_unauthorized.__name__
        and isinstance(frame.f_locals.get("self"), BasePermission)
        for frame, _ in walk_tb(cause.__traceback__)
    )


def format_rejection(
    problem: GraphQLError, kind: type[ShardQLError], schema: GraphQLSchema, *, suggestions: bool
) -> dict[str, Any]:
    """Format an error of a document or its variables. Many messages of graphql-core repeat the input of the client."""
    message = _explain(problem.message, schema, suggestions=suggestions)
    if len(message) > MAX_MESSAGE:  # The reason is at the beginning and at the end.
        message = f"{message[: MAX_MESSAGE // 2]} … {message[-(MAX_MESSAGE // 2) :]}"
    return _format_graphql_error(problem, kind(message))


def _format_graphql_error(problem: GraphQLError, error: ShardQLError) -> dict[str, Any]:
    return error_body(error, position=_position(problem), extensions=problem.extensions or {})


def _explain(message: str, schema: GraphQLSchema, *, suggestions: bool) -> str:
    """Rewrite a message of GraphQL; the reason why an input rejects a field replaces suggested names.

    Without `suggestions`, the message does not reveal which fields a record has.
    """
    if message == "Validation aborted.":
        return (
            "The document selects the same fields too often, or spreads too many fragments, to be validated. "
            "Select each field once."
        )
    if message == "The mutation operation is not supported by the schema.":
        return "This schema has no mutations: the server is read-only, or the catalog allows no writes."
    if message.endswith("None."):
        return f"{message.removesuffix('None.')}null."
    unknown = _UNKNOWN_FIELD.search(message) if suggestions else None
    if unknown is not None:
        definition = schema.type_map[unknown["type"]].extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
        reason = getattr(getattr(definition, "origin", None), REJECTED_FIELDS, {}).get(unknown["field"])
        if reason is not None:
            return f"{message[: unknown.start()]}{unknown['problem']}: {reason}. Found: {message[unknown.end() :]}"
    return message


def _position(problem: GraphQLError) -> dict[str, Any]:
    return {name: value for name, value in problem.formatted.items() if name in ("locations", "path")}
