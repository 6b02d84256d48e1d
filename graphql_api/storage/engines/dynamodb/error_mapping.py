"""The mapping from errors of the driver to store errors, and how to handle each."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
from botocore import exceptions as driver

from graphql_api.errors import (
    ConditionFailed,
    Conflict,
    ItemTooLarge,
    MissingIndex,
    StoreDenied,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    Throttled,
    WrongTable,
)
from graphql_api.storage.engines.dynamodb.wire_format import decode_item

THROTTLES = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestLimitExceeded",
        "TooManyRequestsException",
        "SlowDown",
    }
)
DENIALS = frozenset(
    {
        "AccessDeniedException",
        "AccessDenied",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "InvalidClientTokenId",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "OptInRequired",
        "UnrecognizedClientException",
    }
)
CONFLICTS = frozenset({"TransactionConflictException", "ReplicatedWriteConflictException"})
CONFLICT = "TransactionConflict"
"""the code in the reasons of a cancelled transaction"""
IN_PROGRESS = "TransactionInProgressException"
BUSY_TABLE = frozenset({"ResourceInUseException", "LimitExceededException"})

MISSING = "ResourceNotFoundException"
FAILED_CONDITION = "ConditionalCheckFailedException"
CANCELED = "TransactionCanceledException"

_DENIAL_REMEDY = "Provide credentials with the permissions that `shardql table template` lists."


class InconsistentResponse(Exception):
    """A successful response that is truncated, damaged, or does not match the request."""


class NoConnection(OSError):
    """A connection that could not be opened: nothing was sent."""


class AttemptFailure(NamedTuple):
    """The outcome of one failed attempt."""

    error: StoreError
    retry: bool = False
    """the same request may succeed if retried"""
    outcome_unknown: bool = False
    """there was no response: the request may have been executed, and its shard may be failing"""
    is_conflict: bool = False
    """another write was first; resolves quickly, and does not count as a fault"""
    in_progress: bool = False
    """the conflicting write is an earlier attempt of this one"""


DRIVER_ERRORS = (
    driver.BotoCoreError,
    driver.ClientError,
    aiohttp.ClientError,
    OSError,
    UnicodeDecodeError,
    InconsistentResponse,
)
"""all exceptions of the driver for failed requests; other exceptions are bugs"""


def classify_error(problem: BaseException, where: str, table: str) -> AttemptFailure:
    """Classify an error of the driver. `where` names operation and shard."""
    failure = _classify_driver_error(problem, where, table)
    failure.error.__cause__ = problem
    return failure


def _classify_driver_error(problem: BaseException, where: str, table: str) -> AttemptFailure:
    match problem:
        case driver.ClientError():
            return _classify_reply(problem, where, table)
        case driver.NoCredentialsError() | driver.PartialCredentialsError() | driver.CredentialRetrievalError():
            return AttemptFailure(StoreDenied(f"{where}: no credentials: {problem}. {_DENIAL_REMEDY}"))
        case driver.ConnectTimeoutError():
            return _unavailable(f"{where}: no connection", outcome_unknown=False)
        case NoConnection():
            return _unavailable(f"{where}: no connection: {problem}", outcome_unknown=False)
        case driver.EndpointConnectionError() | driver.SSLError() if isinstance(
            problem.kwargs.get("error"), aiohttp.ClientConnectorError
        ):
            return _unavailable(f"{where}: no connection: {problem}", outcome_unknown=False)
        case driver.ReadTimeoutError() | asyncio.TimeoutError():
            return _unavailable(f"{where}: no response in time")
        case driver.HTTPClientError() | driver.ConnectionError() | aiohttp.ClientError() | OSError():
            return _unavailable(f"{where}: the connection failed: {problem}")
        case InconsistentResponse() | UnicodeDecodeError() | driver.IncompleteReadError():
            return _unavailable(f"{where}: inconsistent response: {problem}")
    return AttemptFailure(StoreRefused(f"{where}: the driver refused the request: {problem}."))


def _unavailable(message: str, *, outcome_unknown: bool = True) -> AttemptFailure:
    return AttemptFailure(StoreUnavailable(f"{message}. Try again."), retry=True, outcome_unknown=outcome_unknown)


def _classify_reply(problem: driver.ClientError, where: str, table: str) -> AttemptFailure:
    code, message = error_code(problem), _message(problem)
    status = int(problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in THROTTLES:
        return AttemptFailure(Throttled(f"{where} is throttled: {message or code}. Try again later."), retry=True)
    if code in CONFLICTS:
        return _conflict_failure(where)
    if code == IN_PROGRESS:
        error = StoreUnavailable(f"{where} is still in progress. Try again with the same token.")
        return AttemptFailure(error, retry=True, is_conflict=True, in_progress=True)
    if code in DENIALS:
        return AttemptFailure(StoreDenied(f"{where} is denied: {message or code}. {_DENIAL_REMEDY}"))
    if code == MISSING:
        return AttemptFailure(missing_table_error(table))
    if code == FAILED_CONDITION:
        return AttemptFailure(_condition_failed_error(where, {0: problem.response.get("Item")}))
    if code == CANCELED:
        return _classify_cancellation(problem, where)
    if status >= 500 or status < 400:
        return _unavailable(f"{where}: {code} {message}")
    if "not have the specified index" in message:
        return AttemptFailure(MissingIndex(f"{where}: {message}"))
    if "Item size" in message and "exceeded" in message:
        return AttemptFailure(ItemTooLarge(f"{where}: {message}. Make the record smaller."))
    return AttemptFailure(StoreRefused(f"{where} is refused: {code}: {message}"))


def missing_table_error(table: str) -> WrongTable:
    """Return the error for a missing table."""
    return WrongTable(
        f"The table {table!r} does not exist. Create it with `shardql table create`, or correct its name or region."
    )


def _classify_cancellation(problem: driver.ClientError, where: str) -> AttemptFailure:
    reasons: list[dict[str, Any]] = problem.response.get("CancellationReasons") or []
    codes = {reason.get("Code") for reason in reasons} - {None, "None"}
    failures = {
        position: reason.get("Item")
        for position, reason in enumerate(reasons)
        if reason.get("Code") in {"ConditionalCheckFailed", FAILED_CONDITION}
    }
    if failures:
        # These conditions were tested against the stored records, so a retry would not help, even after a conflict.
        return AttemptFailure(_condition_failed_error(where, failures))
    if CONFLICT in codes and codes <= {CONFLICT, *THROTTLES}:
        return _conflict_failure(where)
    if codes and codes <= THROTTLES:
        return AttemptFailure(Throttled(f"{where} is throttled. Try again later."), retry=True)
    messages = "; ".join(
        f"write {position}: {reason.get('Message')}" for position, reason in enumerate(reasons) if "Message" in reason
    )
    return AttemptFailure(StoreRefused(f"{where} is refused: {messages or _message(problem)}"))


def _conflict_failure(where: str) -> AttemptFailure:
    error = Conflict(f"{where} conflicts with another write of the same record, and nothing is written. Try again.")
    return AttemptFailure(error, retry=True, is_conflict=True)


def _condition_failed_error(where: str, failures: Mapping[int, Any]) -> ConditionFailed:
    """Return the failed conditions by position. The caller knows the conditions and completes the message."""
    old_items = {number: decode_item(old) if old else None for number, old in failures.items()}
    position = min(old_items)
    return ConditionFailed(
        f"{where}: a condition failed.", position=position, old=old_items[position], failures=old_items
    )


def error_code(problem: BaseException | None) -> str:
    """Return the error code of a response, or an empty text if there is none."""
    return str(problem.response.get("Error", {}).get("Code", "")) if isinstance(problem, driver.ClientError) else ""


def _message(problem: driver.ClientError) -> str:
    return str(problem.response.get("Error", {}).get("Message", ""))
