"""Tries of a write that others come in between: how many there are, and how long they may take."""

import pytest

from graphql_api.errors import ConditionFailed, Conflict
from graphql_api.writes import optimistic_concurrency
from graphql_api.writes.optimistic_concurrency import MAX_ATTEMPTS, retry_on_conflict


async def test_a_few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails since others came in between is tried again, and after some tries it is a conflict."""
    monkeypatch.setattr(optimistic_concurrency, "FIRST_BACKOFF_SECONDS", 0.0)
    met = [ConditionFailed("met", position=0, old=None), Conflict("met")] * MAX_ATTEMPTS
    left = met[: MAX_ATTEMPTS - 1]

    async def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    assert await retry_on_conflict(attempt, "It") == "done"
    left = met[: MAX_ATTEMPTS + 1]
    with pytest.raises(Conflict, match=f"^Concurrent writes changed It: .* {MAX_ATTEMPTS} of {MAX_ATTEMPTS} attempts"):
        await retry_on_conflict(attempt, "It")
    assert len(left) == 1


async def test_no_try_after_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one try takes longer than all of them may, as on a locked file, it is the only one."""
    monkeypatch.setattr(optimistic_concurrency, "MAX_SECONDS", 0.0)
    tried = 0

    async def attempt() -> None:
        nonlocal tried
        tried += 1
        raise Conflict("locked")

    with pytest.raises(Conflict, match=f" 1 of {MAX_ATTEMPTS} attempts") as caught:
        await retry_on_conflict(attempt, "It")
    assert tried == 1
    assert isinstance(caught.value.__cause__, Conflict)
