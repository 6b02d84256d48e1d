"""Errors of stores. Engines map every foreign error to one of them."""

from collections.abc import Mapping
from typing import Any

from graphql_api.errors.base_error import ShardQLError


class StoreError(ShardQLError):
    """Base of the errors that a store raises. Clients see the message only where details are enabled."""

    status = 500
    summary = "The store reported an error."


class StoreUnavailable(StoreError):
    """Raised for timeouts and broken connections. A write may or may not have been applied, unless `certain` is set."""

    code = "STORE_UNAVAILABLE"
    status = 503
    retryable = True
    summary = "The store did not answer, or not in time."

    certain: bool = False
    """the request never reached the store, so nothing was applied"""


class OutcomeUnknown(StoreUnavailable):
    """Raised in place of `StoreUnavailable` for writes that are not idempotent and whose outcome is unknown."""

    code = "OUTCOME_UNKNOWN"
    status = 504
    retryable = False
    summary = "It is unknown whether a write that is not safe to retry was applied."


class Throttled(StoreError):
    """Raised when an engine limits the request rate. Nothing was applied."""

    code = "THROTTLED"
    status = 503
    retryable = True
    summary = "The store limits the request rate."


class StoreRefused(StoreError):
    """Raised for requests that break the rules of the storage port: a bug in the caller, never a transient fault."""

    code = "STORE_REFUSED"
    summary = "The store refused a malformed request."


class StoreDenied(StoreError):
    """Raised when the credentials of this process are missing, expired or lack a permission."""

    code = "STORE_DENIED"
    summary = "The store denied access to this server: its credentials are missing, expired, or lack a permission."


class ItemTooLarge(StoreError):
    """Raised before an item above the limit of DynamoDB is sent, on every engine."""

    code = "ITEM_TOO_LARGE"
    status = 400
    summary = "A record exceeds 400 KB."


class ConditionFailed(StoreError):
    """Raised by conditional writes and transactions. `old` is the item that is stored instead of the expected one."""

    code = "CONDITION_FAILED"
    status = 409
    summary = "The condition of a write failed: the stored record is not the expected one."

    def __init__(
        self,
        message: str,
        *,
        position: int,
        old: dict[str, Any] | None,
        failures: Mapping[int, dict[str, Any] | None] | None = None,
        **values: Any,
    ) -> None:
        super().__init__(message, **values)
        self.position = position
        self.old = old
        self.failures: Mapping[int, dict[str, Any] | None] = {position: old} if failures is None else failures
        """of a transaction: the stored item at each key whose condition failed, by the position of the write"""


class Conflict(StoreError):
    """Raised when every attempt of an optimistic write lost against other writers. Nothing was applied."""

    code = "CONFLICT"
    status = 409
    retryable = True
    summary = "Concurrent writes changed the same records at every attempt; nothing was written."


class WrongTable(StoreError):
    """Raised when a catalog is opened over a table that it cannot use."""

    code = "WRONG_TABLE"
    summary = "The table does not exist, has another format, or has shard generations that this catalog lacks."


class GenerationTooEarly(StoreError):
    """Raised when a catalog is opened whose new shard generation would move stored records to other shards."""

    code = "GENERATION_TOO_EARLY"
    summary = "A new shard generation would begin before now, or before a stored record."
