"""Every response with a retryable error says after how many seconds to retry."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from graphql_api.errors import (
    BodyTooSlow,
    CatalogBehind,
    Conflict,
    NotReady,
    ShardQLError,
    StoreRefused,
    Throttled,
    error_body,
)
from graphql_api.server.responses import retry_headers
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import TransactionWrite
from tests.server.observed_server import observed_server
from tests.support.store_doubles import FailingStore


class BusyStore(ForwardingStore):
    """A store that throttles all transactions."""

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        raise Throttled("The store is busy: try again.")


PAGE = "{ userByCreated(limit: 5) { items { userId } } }"


@pytest.mark.parametrize(
    ("errors", "seconds"),
    [
        ([Throttled("slow down")], "1"),
        ([Conflict("busy")], "1"),
        ([BodyTooSlow("late")], "1"),
        ([NotReady("building", element="index user.town", state="building")], "10"),
        ([CatalogBehind("old"), Throttled("slow down")], "10"),
        ([StoreRefused("malformed")], None),
        ([], None),
    ],
    ids=["throttled", "conflict", "slow body", "not ready", "two errors", "permanent", "no error"],
)
def test_seconds_of_errors(errors: list[ShardQLError], seconds: str | None) -> None:
    """The header has the longest time of all retryable errors, a second by default."""
    assert retry_headers(map(error_body, errors)).get("retry-after") == seconds


def test_field_errors(tmp_path: Path) -> None:
    """A response whose fields have a retryable error has the header too."""
    with observed_server(tmp_path, wrap=lambda inner: FailingStore(inner, lambda _: True)) as server:
        failed = server.post(PAGE)
        refused = server.post("{ nothing }")
    assert failed.json()["errors"][0]["extensions"]["retryable"]
    assert failed.headers["retry-after"] == "1"
    assert "retry-after" not in refused.headers


def test_errors_of_rows(tmp_path: Path) -> None:
    """A response to a batch has the header if a row has a retryable error, and not if its error is permanent."""
    rows = """mutation ($inputs: [UserInput!]!) {
        createUsers(inputs: $inputs) { results { user { userId } error { code retryable } } }
    }"""
    names = {"beneficiaryId": "b", "updated": 1, "firstName": "Ada", "lastName": "Lovelace"}
    found = []
    for wrap in (BusyStore, ForwardingStore, ForwardingStore):
        with observed_server(tmp_path, wrap=wrap) as server:
            response = server.post(rows, variables={"inputs": [{"userId": "new", **names}]})
        (row,) = response.json()["data"]["createUsers"]["results"]
        found.append(((row["error"] or {}).get("code"), response.headers.get("retry-after")))
    assert found == [("THROTTLED", "1"), (None, None), ("ALREADY_EXISTS", None)]


def test_readiness(tmp_path: Path) -> None:
    """A failed readiness probe has the header."""
    with observed_server(tmp_path) as server:
        server.instrumentation.readiness.begin_shutdown()
        stopping = server.client.get("/readyz")
    assert (stopping.status_code, stopping.headers["retry-after"]) == (503, "1")
