"""Errors of stores. Engines map every foreign error to one of them."""

from collections.abc import Mapping
from typing import Any

from graphql_api.errors.base_error import ShardQLError


class StoreError(ShardQLError, status=500):
    """Base of the errors that a store raises. Clients see the message only where details are enabled."""

    summary = "The store reported an error."


class StoreUnavailable(StoreError, code="STORE_UNAVAILABLE", status=503, retryable=True):
    """Raised for timeouts and broken connections. A write may or may not have been applied, unless `certain` is set."""

    summary = "The store did not answer, or not in time."

    certain: bool = False
    """the request never reached the store, so nothing was applied"""


class OutcomeUnknown(StoreUnavailable, code="OUTCOME_UNKNOWN", status=504, retryable=False):
    """It is unknown whether a write that is not safe to retry was applied."""


class Throttled(StoreError, code="THROTTLED", status=503, retryable=True):
    """Raised when an engine limits the request rate. Nothing was applied."""

    summary = "The store limits the request rate."


class StoreRefused(StoreError, code="STORE_REFUSED"):
    """Raised for requests that break the rules of the storage port: a bug in the caller, never a transient fault."""

    summary = "The store refused a malformed request."


class MissingIndex(StoreRefused):
    """Raised for a read of a physical index that the table lacks."""


class StoreDenied(StoreError, code="STORE_DENIED"):
    """The store denied access to this server: its credentials are missing, expired, or lack a permission."""


class StoreDamaged(StoreError, code="STORE_DAMAGED", status=503):
    """The files of the store are damaged, or are no longer those that the server opened."""


class ItemTooLarge(StoreError, code="ITEM_TOO_LARGE", status=400):
    """Raised before an item above the limit of DynamoDB is sent, on every engine."""

    summary = "A record exceeds 400 KB."


class ConditionFailed(StoreError, code="CONDITION_FAILED", status=409):
    """Raised by conditional writes and transactions. `old` is the item that is stored instead of the expected one."""

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


class Conflict(StoreError, code="CONFLICT", status=409, retryable=True):
    """Concurrent writes changed the same records at every attempt; nothing was written."""


class WrongTable(StoreError, code="WRONG_TABLE"):
    """The table does not exist, belongs to other catalogs, or is incompatible with this catalog or release."""


class CrossStoreWrite(StoreError, code="CROSS_STORE_WRITE", status=409):
    """A write needs a transaction over two stores, and nothing was written."""


class SchemaChanged(StoreError, code="SCHEMA_CHANGED", status=503):
    """The table's record changed after this request was planned; nothing was written."""


class NotReady(ShardQLError, code="NOT_READY", status=503, retryable=True):
    """An element of the table is not ready: an answer that uses it would be incomplete."""

    summary = "The table is being migrated, and the request needs what is not ready yet."
    retry_after = 10

    def __init__(self, message: str, *, element: str, state: str, progress: str = "", **values: Any) -> None:
        super().__init__(message, progress="", **values)
        self.element = element
        """kind and name: `index user.town`"""
        self.state = state
        self.set_progress(progress)

    def set_progress(self, progress: str) -> None:
        """Set the progress of the migration, such as `40 %`. The placeholder `{progress}` in the message shows it."""
        self.progress = progress
        self._message = self._message.with_value("progress", progress and f" ({progress})")
        self.args = (self.message,)

    @property
    def extensions(self) -> dict[str, Any]:
        progress = {"progress": self.progress} if self.progress else {}
        return {**super().extensions, "element": self.element, "state": self.state, **progress}


class CatalogBehind(ShardQLError, code="CATALOG_BEHIND", status=503, retryable=True):
    """The catalog of this server lacks the function of a derived property that the table needs."""

    retry_after = 10
