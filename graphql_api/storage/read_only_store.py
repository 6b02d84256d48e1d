"""A wrapper of a store that refuses writes."""

from collections.abc import Sequence

from graphql_api.errors import StoreDenied, StoreError
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import TableDefinition, TransactionWrite, Write


class ReadOnlyStore(ForwardingStore):
    """Forward reads to the inner store, and refuse everything else."""

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        raise read_only_error("The table")

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        raise read_only_error("The table")

    async def ensure_table(self, definition: TableDefinition) -> None:
        raise read_only_error("The table")

    async def drop_index(self, name: str) -> None:
        raise read_only_error("The table")


def read_only_error(subject: str) -> StoreDenied:
    """Return the error of a write to a store that is open read-only."""
    return StoreDenied(f"{subject} is open read-only. Open it without read_only to write.")
