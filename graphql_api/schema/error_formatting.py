"""What a client is told of an error, and what only the log is told."""

import logging
import re
from collections.abc import Iterable
from typing import Any

from graphql import GraphQLError

from graphql_api.errors import BadUserInput, InternalError, OutcomeUnknown, ShardQLError, StoreError

log = logging.getLogger("shardql")

MAX_MESSAGE = 1_000
"""characters of a message of GraphQL's: many of them repeat what was sent"""

_HINT = re.compile(r""" Did you mean ('[^']*'|"[^"]*")\?""")


def without_hints(message: str) -> str:
    """A message of ours without what else there is: GraphQL's own leave that out by themselves."""
    return _HINT.sub("", message)


def shortened(message: str) -> str:
    """A message without the middle of what it repeats, if that is long: what is wrong stands at its ends."""
    half = MAX_MESSAGE // 2
    return message if len(message) <= MAX_MESSAGE else f"{message[:half]} … {message[-half:]}"


def told(problem: ShardQLError, correlation_id: str, *, details: bool, again: bool = True) -> dict[str, Any]:
    """An error of ours, in the shape of GraphQL's own.

    Without `details` a client does not learn where the store is and how its tables are called: the log does. Without
    `again` it stands beside what must not be done twice, and so does not say that all of it may be sent again.
    """
    extensions = {name: value for name, value in problem.extensions.items() if again or name != "retryable"}
    if not isinstance(problem, StoreError) or problem.status < 500:
        return {"message": problem.message, "extensions": extensions}
    log.warning("%s", problem.message, extra={"correlation_id": correlation_id})
    if details:
        return {"message": problem.message, "extensions": extensions}
    hint = " Try again after a moment." if "retryable" in extensions else ""
    if isinstance(problem, OutcomeUnknown):
        hint = " Look at what stands there before you send it again."
    extensions.pop("shard", None)
    return {
        "message": f"{type(problem).__doc__}{hint} The log tells more under {correlation_id}.",
        "extensions": extensions,
    }


def told_all(
    problems: Iterable[GraphQLError], correlation_id: str, *, details: bool, again: bool = True
) -> list[dict[str, Any]]:
    """The errors of fields; one that nobody foresaw is masked, and the log has it once."""
    seen: set[int] = set()
    return [_told_of_field(problem, correlation_id, seen, details=details, again=again) for problem in problems]


def _told_of_field(
    problem: GraphQLError, correlation_id: str, seen: set[int], *, details: bool, again: bool
) -> dict[str, Any]:
    cause = _cause(problem)
    formatted: dict[str, Any] = dict(problem.formatted)
    if isinstance(cause, ShardQLError):
        formatted |= told(cause, correlation_id, details=details, again=again)
    elif cause is None or isinstance(cause, GraphQLError):
        formatted["extensions"] = {"code": BadUserInput.code, **(problem.extensions or {})}
    else:
        if id(cause) not in seen:
            seen.add(id(cause))
            log.error(
                "An unforeseen error at %s",
                ".".join(map(str, problem.path or ())),
                exc_info=cause,
                extra={"correlation_id": correlation_id},
            )
        masked = InternalError(correlation_id)
        formatted["message"] = masked.message
        formatted["extensions"] = masked.extensions
    return formatted


def _cause(problem: GraphQLError) -> BaseException | None:
    """What a resolver raised; None where GraphQL itself complains."""
    cause: BaseException | None = problem
    while isinstance(cause, GraphQLError) and cause.original_error is not None:
        cause = cause.original_error
    return None if cause is problem else cause
