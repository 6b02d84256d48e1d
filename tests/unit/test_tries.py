"""Tries of a write that others come in between: how many there are, and how long they may take."""

import pytest

from graphql_api.errors import ConditionFailed, Conflict
from graphql_api.writes import optimistic_concurrency
from graphql_api.writes.optimistic_concurrency import MAX_TRIES, in_some_tries


async def test_a_few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails since others came in between is tried again, and after some tries it is a conflict."""
    monkeypatch.setattr(optimistic_concurrency, "FIRST_PAUSE", 0.0)
    met = [ConditionFailed("met", position=0, old=None), Conflict("met")] * MAX_TRIES
    left = met[: MAX_TRIES - 1]

    async def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    assert await in_some_tries(attempt, "It") == "done"
    left = met[: MAX_TRIES + 1]
    with pytest.raises(Conflict, match=f"^It .*{MAX_TRIES} of {MAX_TRIES} tries"):
        await in_some_tries(attempt, "It")
    assert len(left) == 1


async def test_no_try_after_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one try takes longer than all of them may, as on a locked file, it is the only one."""
    monkeypatch.setattr(optimistic_concurrency, "MAX_SECONDS", 0.0)
    tried = 0

    async def attempt() -> None:
        nonlocal tried
        tried += 1
        raise Conflict("locked")

    with pytest.raises(Conflict, match=f"1 of {MAX_TRIES} tries") as caught:
        await in_some_tries(attempt, "It")
    assert tried == 1
    assert isinstance(caught.value.__cause__, Conflict)
