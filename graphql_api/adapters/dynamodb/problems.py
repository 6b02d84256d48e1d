"""The only map from errors of the driver to ours, and what may be done about each."""

import asyncio
from typing import Any, NamedTuple

import aiohttp
from botocore import exceptions as driver

from graphql_api.adapters.dynamodb.items import decode_item
from graphql_api.errors import (
    ConditionFailed,
    ItemTooLarge,
    StoreDenied,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    Throttled,
    WrongTable,
)

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
PASSING = frozenset(
    {"TransactionInProgressException", "TransactionConflictException", "ReplicatedWriteConflictException"}
)
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
    if code in PASSING:
        return Failure(StoreUnavailable(f"{where} meets another write: {message or code}. Try again."), retry=True)
    if code in DENIALS:
        return Failure(StoreDenied(f"{where} is not allowed: {message or code}. {_DENIAL_REMEDY}"))
    if code == MISSING:
        return Failure(missing_table(table))
    if code == FAILED_CONDITION:
        old = problem.response.get("Item")
        return Failure(_condition_failed(where, 0, old))
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
    codes = {reason.get("Code") for reason in reasons}
    for position, reason in enumerate(reasons):
        if reason.get("Code") in {"ConditionalCheckFailed", FAILED_CONDITION}:
            return Failure(_condition_failed(where, position, reason.get("Item")))
    if "TransactionConflict" in codes:
        return Failure(StoreUnavailable(f"{where} meets another transaction. Try again."), retry=True)
    if codes & THROTTLES:
        return Failure(Throttled(f"{where} is throttled. Try again a little later."), retry=True)
    told = "; ".join(
        f"write {place}: {reason.get('Message')}" for place, reason in enumerate(reasons) if "Message" in reason
    )
    return Failure(StoreRefused(f"{where} is refused: {told or _message(problem)}"))


def _condition_failed(where: str, position: int, old: Any) -> ConditionFailed:
    found = decode_item(old) if old else None
    stands = "no record stands" if found is None else "another record than expected stands"
    return ConditionFailed(f"{where}: {stands} at the key of write {position}.", position=position, old=found)


def code_of(problem: BaseException | None) -> str:
    """The code of a reply, or nothing for what is no reply."""
    return str(problem.response.get("Error", {}).get("Code", "")) if isinstance(problem, driver.ClientError) else ""


def _message(problem: driver.ClientError) -> str:
    return str(problem.response.get("Error", {}).get("Message", ""))


def _status(problem: driver.ClientError) -> int:
    return int(problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
