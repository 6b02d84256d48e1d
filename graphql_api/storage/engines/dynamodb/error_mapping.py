"""The only map from errors of the driver to ours, and what may be done about each."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
from botocore import exceptions as driver

from graphql_api.errors import (
    ConditionFailed,
    Conflict,
    ItemTooLarge,
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
"""as the reason of a cancelled transaction"""
UNDER_WAY = "TransactionInProgressException"
BUSY_TABLE = frozenset({"ResourceInUseException", "LimitExceededException"})

MISSING = "ResourceNotFoundException"
FAILED_CONDITION = "ConditionalCheckFailedException"
CANCELED = "TransactionCanceledException"

_DENIAL_REMEDY = "Give the process credentials with the permissions that `shardql table template` lists."


class InconsistentAnswer(Exception):
    """An answer that says yes and is cut, damaged, or not what was asked for."""


class Failure(NamedTuple):
    """What came of one attempt that brought no answer."""

    error: StoreError
    retry: bool = False
    """the same request may succeed in a moment"""
    unheard: bool = False
    """nobody answered, so the request may have been carried out, and its shard may be out of order"""
    in_the_way: bool = False
    """another write was there first: no fault of anybody's, and over in a moment"""
    under_way: bool = False
    """the write that was there first is an earlier attempt of this one"""


NOTICED = (
    driver.BotoCoreError,
    driver.ClientError,
    aiohttp.ClientError,
    OSError,
    UnicodeDecodeError,
    InconsistentAnswer,
)
"""everything that the driver lets out for a request that went wrong; what else it raises is a mistake of ours"""


def judge(problem: BaseException, where: str, table: str) -> Failure:
    """What an error of the driver means to a caller; `where` names operation and shard."""
    failure = _judge(problem, where, table)
    failure.error.__cause__ = problem
    return failure


def _judge(problem: BaseException, where: str, table: str) -> Failure:
    match problem:
        case driver.ClientError():
            return _judge_reply(problem, where, table)
        case driver.NoCredentialsError() | driver.PartialCredentialsError() | driver.CredentialRetrievalError():
            return Failure(StoreDenied(f"{where}: no credentials: {problem}. {_DENIAL_REMEDY}"))
        case driver.ConnectTimeoutError():
            return Failure(StoreUnavailable(f"{where}: no connection. Try again."), retry=True)
        case driver.EndpointConnectionError() if isinstance(problem.kwargs.get("error"), aiohttp.ClientConnectorError):
            return Failure(StoreUnavailable(f"{where}: no connection: {problem}. Try again."), retry=True)
        case driver.ReadTimeoutError() | asyncio.TimeoutError():
            return Failure(StoreUnavailable(f"{where}: no answer in time. Try again."), retry=True, unheard=True)
        case driver.HTTPClientError() | driver.ConnectionError() | aiohttp.ClientError() | OSError():
            return Failure(
                StoreUnavailable(f"{where}: the connection failed: {problem}. Try again."), retry=True, unheard=True
            )
        case InconsistentAnswer() | UnicodeDecodeError() | driver.IncompleteReadError():
            return Failure(
                StoreUnavailable(f"{where}: inconsistent answer: {problem}. Try again."), retry=True, unheard=True
            )
    return Failure(StoreRefused(f"{where}: the driver refuses: {problem}."))


def _judge_reply(problem: driver.ClientError, where: str, table: str) -> Failure:
    code, message, status = code_of(problem), _message(problem), _status(problem)
    if code in THROTTLES:
        return Failure(Throttled(f"{where} is throttled: {message or code}. Try again a little later."), retry=True)
    if code in CONFLICTS:
        return _conflict(where)
    if code == UNDER_WAY:
        error = StoreUnavailable(f"{where} is still under way. Try again with the same token.")
        return Failure(error, retry=True, in_the_way=True, under_way=True)
    if code in DENIALS:
        return Failure(StoreDenied(f"{where} is not allowed: {message or code}. {_DENIAL_REMEDY}"))
    if code == MISSING:
        return Failure(missing_table(table))
    if code == FAILED_CONDITION:
        return Failure(_condition_failed(where, {0: problem.response.get("Item")}))
    if code == CANCELED:
        return _judge_cancellation(problem, where)
    if status >= 500 or status < 400:
        return Failure(StoreUnavailable(f"{where}: {code} {message}. Try again."), retry=True, unheard=True)
    if "Item size" in message and "exceeded" in message:
        return Failure(ItemTooLarge(f"{where}: {message}. Make the record smaller."))
    return Failure(StoreRefused(f"{where} is refused: {code}: {message}"))


def missing_table(table: str) -> WrongTable:
    """What a caller learns where there is no table."""
    return WrongTable(
        f"There is no table {table!r}. Make it with `shardql table create`, or look for a mistake in name and region."
    )


def _judge_cancellation(problem: driver.ClientError, where: str) -> Failure:
    reasons: list[dict[str, Any]] = problem.response.get("CancellationReasons") or []
    codes = {reason.get("Code") for reason in reasons} - {None, "None"}
    failures = {
        place: reason.get("Item")
        for place, reason in enumerate(reasons)
        if reason.get("Code") in {"ConditionalCheckFailed", FAILED_CONDITION}
    }
    if failures:  # Beside a conflict, too: it was tested against what stands, and trying again would not change that.
        return Failure(_condition_failed(where, failures))
    if CONFLICT in codes and codes <= {CONFLICT, *THROTTLES}:
        return _conflict(where)
    if codes and codes <= THROTTLES:
        return Failure(Throttled(f"{where} is throttled. Try again a little later."), retry=True)
    told = "; ".join(
        f"write {place}: {reason.get('Message')}" for place, reason in enumerate(reasons) if "Message" in reason
    )
    return Failure(StoreRefused(f"{where} is refused: {told or _message(problem)}"))


def _conflict(where: str) -> Failure:
    error = Conflict(f"{where} meets another write of the same record, and nothing is written. Try again.")
    return Failure(error, retry=True, in_the_way=True)


def _condition_failed(where: str, failures: Mapping[int, Any]) -> ConditionFailed:
    """The failed conditions by their places in the request; who made it knows what was expected."""
    found = {place: decode_item(old) if old else None for place, old in failures.items()}
    position = min(found)
    return ConditionFailed(f"{where}: a condition failed.", position=position, old=found[position], failures=found)


def code_of(problem: BaseException | None) -> str:
    """The code of a reply, or nothing for what is no reply."""
    return str(problem.response.get("Error", {}).get("Code", "")) if isinstance(problem, driver.ClientError) else ""


def _message(problem: driver.ClientError) -> str:
    return str(problem.response.get("Error", {}).get("Message", ""))


def _status(problem: driver.ClientError) -> int:
    return int(problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
