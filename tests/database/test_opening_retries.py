"""Opening a catalog while its store is not available yet."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import connection
from graphql_api.connection import OPENING_RETRIES, open_catalog
from graphql_api.errors import StoreDenied, StoreError, StoreUnavailable
from graphql_api.examples.users import User, catalog
from graphql_api.storage.engines import opened_store
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key


class StartingStore(ForwardingStore):
    """A store whose first reads by key fail."""

    def __init__(self, inner: Store, errors: Sequence[StoreError]) -> None:
        super().__init__(inner)
        self.errors = [*errors]

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        if self.errors:
            raise self.errors.pop(0)
        return await super().get_many(keys, consistent)


def fail_at_first(monkeypatch: pytest.MonkeyPatch, errors: Sequence[StoreError]) -> None:
    """Let the first reads of each opened store fail."""

    @asynccontextmanager
    async def opened(url: str, **options: Any) -> AsyncIterator[Store]:
        async with opened_store(url, **options) as store:
            yield StartingStore(store, errors)

    monkeypatch.setattr(connection, "opened_store", opened)
    monkeypatch.setattr(connection, "OPENING_RETRIES", replace(OPENING_RETRIES, max_backoff_seconds=0.01))


async def test_opening_waits_for_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors that are retryable do not end the opening of a catalog. The first one is logged."""
    fail_at_first(monkeypatch, [StoreUnavailable(f"attempt {number}") for number in range(30)])
    async with open_catalog(catalog, f"sqlite:///{tmp_path}/users.db") as db:
        assert await db.get(User, "nobody") is None
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["The store is not available yet, trying for 20 seconds: attempt 0"]


async def test_opening_ends_at_a_permanent_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is not retryable is raised at once."""
    fail_at_first(monkeypatch, [StoreUnavailable("starting"), StoreDenied("no credentials")])
    with pytest.raises(StoreDenied):
        async with open_catalog(catalog, f"sqlite:///{tmp_path}/users.db"):
            pass


async def test_opening_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not become available ends the opening with its error."""
    fail_at_first(monkeypatch, [StoreUnavailable(f"attempt {number}") for number in range(10_000)])
    monkeypatch.setattr(connection, "OPENING_RETRIES", replace(OPENING_RETRIES, max_seconds=0.3))
    with pytest.raises(StoreUnavailable):
        async with open_catalog(catalog, f"sqlite:///{tmp_path}/users.db"):
            pass
