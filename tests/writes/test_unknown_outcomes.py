"""Writes with an unknown outcome: which of them are safe to retry."""

from collections.abc import Sequence
from dataclasses import replace

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
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import Put, TransactionWrite
from graphql_api.writes import transactions
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.transactions import OUTCOME_RETRIES
from tests.writes.library_catalog import CATALOG, Author, Diary, Library
from tests.writes.test_executor import FailingTransactionStore

MAX_SENDS = OUTCOME_RETRIES.max_attempts

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
async def test_idempotent_writes_are_safe_to_retry(
    sqlite_library: Library, command: Command, is_idempotent: bool
) -> None:
    """A write with an unknown outcome is retryable if and only if it is idempotent. An idempotent retry succeeds."""
    await sqlite_library.db.create(Author, author_id="a", name="Ada")
    await sqlite_library.db.create(Diary, diary_id="d", at=1)
    is_applied = command.idempotency_key is None  # Otherwise the stored response would reveal the outcome.
    store = FailingTransactionStore(sqlite_library.store, [(StoreUnavailable("No reply."), is_applied)] * MAX_SENDS)
    with pytest.raises(StoreUnavailable, match="It is unknown whether the write was applied: No reply") as unknown:
        await sqlite_library.through(store).apply(command)
    assert store.problems == []
    assert type(unknown.value) is (StoreUnavailable if is_idempotent else OutcomeUnknown)
    assert unknown.value.retryable is is_idempotent
    if is_idempotent:
        await sqlite_library.db.apply(command)
    else:
        with pytest.raises((AlreadyExists, NotUnique, VersionConflict)):  # The first request was applied.
            await sqlite_library.db.apply(command)
    await sqlite_library.check()


async def test_a_denial_after_a_lost_reply_is_an_unknown_outcome(sqlite_library: Library) -> None:
    """If the store denies a retry after a lost reply, the outcome of the write is unknown."""
    for problem in (StoreDenied("Access denied."), StoreRefused("The store is closed.")):
        store = FailingTransactionStore(sqlite_library.store, [(StoreUnavailable("No reply."), True), (problem, False)])
        with pytest.raises(OutcomeUnknown, match=problem.message):
            await sqlite_library.through(store).create(Author, author_id=problem.code, name=problem.code)
        assert store.problems == []
        with pytest.raises(type(problem)):
            await sqlite_library.through(FailingTransactionStore(sqlite_library.store, [(problem, False)])).create(
                Author, author_id="a", name="Ada"
            )


async def test_a_late_retry_is_not_sent(sqlite_library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost reply is not retried after the time limit, because the store may have forgotten the token."""
    strategy = replace(OUTCOME_RETRIES, max_seconds=0.05, uniform=lambda *_: 0.1)
    monkeypatch.setattr(transactions, "OUTCOME_RETRIES", strategy)
    store = FailingTransactionStore(sqlite_library.store, [(StoreUnavailable("No reply."), True)])
    with pytest.raises(OutcomeUnknown):
        await sqlite_library.through(store).create(Author, author_id="a", name="Ada")
    assert len(store.tokens) == 1


async def test_batch_retries_keep_the_order_of_each_record(sqlite_library: Library) -> None:
    """After a temporary failure, later writes of the same record are skipped, so that a retry keeps their order."""
    await sqlite_library.db.create(Author, author_id="a", name="Ada")
    rows = [Update(AUTHOR, ["a"], {"name": name}, None, name) for name in ("Bea", "Cleo", "Dora")]
    other = Create(AUTHOR, {"author_id": "b", "name": "Bob"}, "Bob")

    class ThrottlingStore(ForwardingStore):
        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            if any(isinstance(one, Put) and one.item.get("name") == "Cleo" for one in writes):
                raise Throttled("Too many requests.")
            await super().write_together(writes, token)

    answers = await sqlite_library.through(ThrottlingStore(sqlite_library.store)).apply_each([*rows, other])
    assert [type(answer).__name__ for answer in answers] == ["Author", "Throttled", "Throttled", "Author"]
    late = answers[2]
    assert isinstance(late, Throttled)
    assert late.retryable
    assert late.message.startswith("Skipped, because an earlier write of the same record failed: ")
    again = await sqlite_library.db.apply_each([*rows, other])
    assert [answer.name for answer in again if isinstance(answer, Author)] == ["Bea", "Cleo", "Dora", "Bob"]
    found = await sqlite_library.db.get(Author, "a")
    assert found is not None
    assert (found.name, found.version) == ("Dora", 4)


def unreachable_store_error() -> StoreUnavailable:
    """Returns an error of a store that was not reached."""
    problem = StoreUnavailable("No connection.")
    problem.certain = True
    return problem


@pytest.mark.parametrize("problem", [Throttled("Too many requests."), unreachable_store_error()])
async def test_a_certain_failure_is_safe_to_retry(sqlite_library: Library, problem: StoreError) -> None:
    """A write that was certainly not applied is safe to retry. One lost reply makes its outcome unknown."""
    store = FailingTransactionStore(sqlite_library.store, [(problem, False)] * MAX_SENDS)
    with pytest.raises(type(problem), match=problem.message) as caught:
        await sqlite_library.through(store).create(Author, author_id="a", name="Ada")
    assert caught.value.retryable
    lost = [(StoreUnavailable("No reply."), False), *[(problem, False)] * (MAX_SENDS - 1)]
    with pytest.raises(OutcomeUnknown):
        await sqlite_library.through(FailingTransactionStore(sqlite_library.store, lost)).create(
            Author, author_id="a", name="Ada"
        )
    assert await sqlite_library.db.get(Author, "a") is None
