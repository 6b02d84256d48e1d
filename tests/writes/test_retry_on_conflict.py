"""Limits of retries on conflict: the number of attempts and the total time."""

from dataclasses import replace
from math import inf

import pytest

from graphql_api.errors import ConditionFailed, Conflict
from graphql_api.writes import transactions
from graphql_api.writes.transactions import CONFLICT_RETRIES, retry_on_conflict

MAX_ATTEMPTS = CONFLICT_RETRIES.max_attempts


async def test_conflicts_are_retried_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict is retried a limited number of times, and is then re-raised as `Conflict`."""
    without_pauses = replace(CONFLICT_RETRIES, first_backoff_seconds=0.0, max_seconds=inf)
    monkeypatch.setattr(transactions, "CONFLICT_RETRIES", without_pauses)
    conflicts = [ConditionFailed("changed", position=0, old=None), Conflict("changed")] * MAX_ATTEMPTS
    remaining = conflicts[: MAX_ATTEMPTS - 1]

    async def attempt() -> str:
        if remaining:
            raise remaining.pop()
        return "done"

    assert await retry_on_conflict(attempt, "It") == "done"
    remaining = conflicts[: MAX_ATTEMPTS + 1]
    with pytest.raises(Conflict, match=f"^Concurrent writes changed It: .* {MAX_ATTEMPTS} of {MAX_ATTEMPTS} attempts"):
        await retry_on_conflict(attempt, "It")
    assert len(remaining) == 1


async def test_no_retry_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No further attempt starts after the time limit."""
    monkeypatch.setattr(transactions, "CONFLICT_RETRIES", replace(CONFLICT_RETRIES, max_seconds=0.0))
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise Conflict("locked")

    with pytest.raises(Conflict, match=f" 1 of {MAX_ATTEMPTS} attempts") as caught:
        await retry_on_conflict(attempt, "It")
    assert attempts == 1
    assert isinstance(caught.value.__cause__, Conflict)
