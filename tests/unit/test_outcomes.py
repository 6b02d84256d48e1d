"""Writes of which no answer was heard: what may be sent again, and what nobody knows."""

from collections.abc import Sequence

import pytest

from graphql_api.errors import (
    AlreadyExists,
    NotUnique,
    OutcomeUnknown,
    StoreDenied,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    Throttled,
    VersionConflict,
)
from graphql_api.storage.values import Put, TransactionWrite
from graphql_api.writes import transactions
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.transactions import MAX_SENDS
from tests.stores import WrappedStore
from tests.unit.shelf import CATALOG, Author, Diary, Shelf
from tests.unit.test_writes import Losing

AUTHOR, DIARY = CATALOG.entity(Author), CATALOG.entity(Diary)


@pytest.mark.parametrize(
    ("command", "is_idempotent"),
    [
        (Create(AUTHOR, {"author_id": "b", "name": "Bea"}), False),
        (Create(AUTHOR, {"author_id": "b", "name": "Bea"}, "k"), True),
        (Update(AUTHOR, ["a"], {"name": "Bea"}), True),
        (Update(AUTHOR, ["a"], {"name": "Bea"}, 1), False),
        (Update(AUTHOR, ["a"], {"name": "Bea"}, 1, "k"), True),
        (Replace(AUTHOR, {"author_id": "a", "name": "Bea"}), True),
        (Replace(AUTHOR, {"author_id": "a", "name": "Bea"}, 1), False),
        (Replace(AUTHOR, {"name": "Bea"}), False),
        (Remove(DIARY, ["d", 1]), True),
        (Remove(DIARY, ["d", 1], 1), True),
    ],
)
async def test_what_may_be_sent_again(on_file: Shelf, command: Command, is_idempotent: bool) -> None:
    """Where nobody knows, what comes to the same by being carried out twice may be sent again, and then succeeds."""
    await on_file.db.create(Author, author_id="a", name="Ada")
    await on_file.db.create(Diary, diary_id="d", at=1)
    was_done = command.idempotency_key is None  # Else the answer that is kept would tell.
    store = Losing(on_file.store, [(StoreUnavailable("No answer."), was_done)] * MAX_SENDS)
    with pytest.raises(StoreUnavailable, match="It is unknown whether the write was applied: No answer") as unknown:
        await on_file.through(store).apply(command)
    assert store.problems == []
    assert type(unknown.value) is (StoreUnavailable if is_idempotent else OutcomeUnknown)
    assert unknown.value.retryable is is_idempotent
    if is_idempotent:
        await on_file.db.apply(command)
    else:
        with pytest.raises((AlreadyExists, NotUnique, VersionConflict)):  # It has not failed, and is told so.
            await on_file.db.apply(command)
    await on_file.check()


async def test_a_denial_behind_silence(on_file: Shelf) -> None:
    """Who is let in no more, or finds the store closed, does not know what became of what was sent before."""
    for problem in (StoreDenied("Not any more."), StoreRefused("Closed.")):
        store = Losing(on_file.store, [(StoreUnavailable("No answer."), True), (problem, False)])
        with pytest.raises(OutcomeUnknown, match=problem.message):
            await on_file.through(store).create(Author, author_id=problem.code, name=problem.code)
        assert store.problems == []
        with pytest.raises(type(problem)):
            await on_file.through(Losing(on_file.store, [(problem, False)])).create(Author, author_id="a", name="Ada")


async def test_a_process_that_stood_still(on_file: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes back after a long while does not ask again: the store may have forgotten what it was asked."""

    class Long:
        @staticmethod
        def uniform(*_: float) -> float:
            return 0.1

    monkeypatch.setattr(transactions, "_RANDOM", Long)
    monkeypatch.setattr(transactions, "MAX_SECONDS", 0.05)
    store = Losing(on_file.store, [(StoreUnavailable("No answer."), True)])
    with pytest.raises(OutcomeUnknown):
        await on_file.through(store).create(Author, author_id="a", name="Ada")
    assert len(store.tokens) == 1


async def test_a_row_behind_one_that_comes_again(on_file: Shelf) -> None:
    """Where a write fails for the moment, those of its record behind it wait too: what comes again keeps its order."""
    await on_file.db.create(Author, author_id="a", name="Ada")
    rows = [Update(AUTHOR, ["a"], {"name": name}, None, name) for name in ("Bea", "Cleo", "Dora")]
    other = Create(AUTHOR, {"author_id": "b", "name": "Bob"}, "Bob")

    class Patient(WrappedStore):
        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            if any(isinstance(one, Put) and one.item.get("name") == "Cleo" for one in writes):
                raise Throttled("Not so fast.")
            await super().write_together(writes, token)

    answers = await on_file.through(Patient(on_file.store)).apply_each([*rows, other])
    assert [type(answer).__name__ for answer in answers] == ["Author", "Throttled", "Throttled", "Author"]
    late = answers[2]
    assert isinstance(late, Throttled)
    assert late.retryable
    assert late.message.startswith("Skipped, because an earlier write of the same record failed: ")
    again = await on_file.db.apply_each([*rows, other])
    assert [answer.name for answer in again if isinstance(answer, Author)] == ["Bea", "Cleo", "Dora", "Bob"]
    found = await on_file.db.get(Author, "a")
    assert found is not None
    assert (found.name, found.version) == ("Dora", 4)


def without_trace() -> StoreUnavailable:
    """What a store says that was not even reached."""
    problem = StoreUnavailable("No connection.")
    problem.certain = True
    return problem


@pytest.mark.parametrize("problem", [Throttled("Patience."), without_trace()])
async def test_nothing_was_written(on_file: Shelf, problem: StoreError) -> None:
    """Where the store has certainly written nothing, everything may be sent again; one doubt is enough to say so."""
    store = Losing(on_file.store, [(problem, False)] * MAX_SENDS)
    with pytest.raises(type(problem), match=problem.message) as told:
        await on_file.through(store).create(Author, author_id="a", name="Ada")
    assert told.value.retryable
    lost = [(StoreUnavailable("No answer."), False), *[(problem, False)] * (MAX_SENDS - 1)]
    with pytest.raises(OutcomeUnknown):
        await on_file.through(Losing(on_file.store, lost)).create(Author, author_id="a", name="Ada")
    assert await on_file.db.get(Author, "a") is None
