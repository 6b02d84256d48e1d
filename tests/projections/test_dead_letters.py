"""Dead letters: what their streams do after them, how they are applied after all, and dropped."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from graphql_api import open_catalog
from graphql_api.database import Database
from graphql_api.errors import NotFound, StoreUnavailable
from graphql_api.projections import DeadLetters, EventSource, LetterOutcome, ProjectionRun, parse_envelope
from graphql_api.projections.projection_functions import Projection
from graphql_api.projections.stream_projector import StreamProjector
from graphql_api.runtime import RetryStrategy
from graphql_api.storage import ForwardingStore, Store, TransactionWrite
from tests.projections.account_projections import CATALOG, GRAPH, Account, Opened, accounts, careful_accounts
from tests.projections.read_models import chunks_of
from tests.support.dynamodb_servers import ENGINE

on_both_stores = pytest.mark.parametrize("store_url", ["sqlite", ENGINE], indirect=True)


@pytest.fixture
async def db(store_url: str) -> AsyncIterator[Database]:
    """An empty table."""
    async with open_catalog(CATALOG, store_url, create_table=True) as database:
        yield database


async def apply(db: Database, projection: Projection, *events: tuple[int, str, dict[str, Any]]) -> Any:
    """Apply events of the stream `a`, given as number, type and data."""
    envelopes = [
        parse_envelope({"stream": "a", "seq": seq, "type": type, "data": {"accountId": "a", "at": "1", **data}})
        for seq, type, data in events
    ]
    return await StreamProjector(db, projection).apply("a", envelopes)


def letters(db: Database, projection: Projection) -> DeadLetters:
    """The dead letters of a projection."""
    return DeadLetters(db, EventSource(projection.source, (projection,), None))


async def balance(db: Database) -> int | None:
    """The balance of the account."""
    account = await db.get(Account, "a")
    return None if account is None else account.balance


@on_both_stores
async def test_a_stream_goes_on_after_a_dead_letter(db: Database) -> None:
    """The event and the reason are kept in the table, and the events after it are applied."""
    result = await apply(
        db,
        accounts,
        (1, "Opened", {"owner": "ann"}),
        (2, "Moved", {"balance": 13}),
        (3, "Moved", {"balance": 7}),
    )
    assert (result.applied, len(result.dead), await balance(db)) == (2, 1, 7)
    (letter,) = await letters(db, accounts).all()
    assert letter.id == "accounts:2:a"
    assert letter.reason == "accounts raised an error for Moved: ValueError: event 2 has an unlucky balance"
    assert letter.as_json()["event"] == (
        '{"stream":"a","seq":2,"type":"Moved","data":{"accountId":"a","at":"1","balance":13}}'
    )


@on_both_stores
async def test_a_dead_letter_does_not_overwrite_later_events(db: Database) -> None:
    """Once later events were applied, a dead letter is only applied with `late`."""
    await apply(db, accounts, (1, "Moved", {"balance": 3}), (2, "Opened", {"owner": "ann"}))
    dead = letters(db, accounts)
    (letter,) = await dead.all()
    assert (await dead.retry(letter)).outcome is LetterOutcome.LATE
    assert await balance(db) == 0
    assert (await dead.retry(letter, late=True)).outcome is LetterOutcome.APPLIED
    assert await balance(db) == 3
    assert await dead.all() == []
    assert (await apply(db, accounts, (1, "Moved", {"balance": 3}))).repeated == 1


@on_both_stores
async def test_dead_letters_at_the_end_of_a_stream_are_applied_in_order(db: Database) -> None:
    """Only dead letters follow them, so they overwrite nothing; the stream then goes on."""
    await apply(db, accounts, (1, "Moved", {"balance": 3}), (2, "Moved", {"balance": 4}))
    await db.create(Account, account_id="a", owner="ann")
    dead = letters(db, accounts)
    first, second = await dead.all()
    assert (await dead.retry(first)).outcome is LetterOutcome.APPLIED
    assert await balance(db) == 3
    assert (await dead.retry(second)).outcome is LetterOutcome.APPLIED
    assert await balance(db) == 4
    assert (await dead.retry(second)).outcome is LetterOutcome.LATE, "it is no dead letter any longer"
    assert (await apply(db, accounts, (3, "Moved", {"balance": 5}))).applied == 1


async def test_a_retry_that_fails_again_keeps_the_letter(db: Database) -> None:
    """Its attempts are counted, and its reason is that of the last one."""
    await apply(db, accounts, (1, "Moved", {"balance": 3}))
    dead = letters(db, accounts)
    (letter,) = await dead.all()
    result = await dead.retry(letter)
    assert result.outcome is LetterOutcome.FAILED
    assert "does not exist" in result.reason
    assert [one.attempts for one in await dead.all()] == [2]


class InterruptedStore(ForwardingStore):
    """A store on which another process acts before the first transaction."""

    def __init__(self, inner: Store, interrupt: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._interrupt: Callable[[], Awaitable[object]] | None = interrupt

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            await interrupt()
        await super().write_together(writes, token)


@on_both_stores
async def test_a_retry_does_not_overwrite_an_event_that_arrives_meanwhile(db: Database) -> None:
    """The position is a condition of the retry: once it has moved, the dead letter is late."""
    await apply(db, accounts, (1, "Moved", {"balance": 3}))
    await db.create(Account, account_id="a", owner="ann")
    (letter,) = await letters(db, accounts).all()
    store = InterruptedStore(db.store, lambda: apply(db, accounts, (2, "Moved", {"balance": 4})))
    result = await letters(replace(db, store=store), accounts).retry(letter)
    assert (result.outcome, await balance(db)) == (LetterOutcome.LATE, 4)


@on_both_stores
async def test_two_retries_apply_a_dead_letter_once(db: Database) -> None:
    """The letter is deleted in the transaction that applies it, so the second retry finds none."""
    await apply(db, accounts, (1, "Moved", {"balance": 3}))
    await db.create(Account, account_id="a", owner="ann")
    (letter,) = await letters(db, accounts).all()
    for late in (False, True):
        store = InterruptedStore(db.store, lambda: letters(db, accounts).retry(letter))
        result = await letters(replace(db, store=store), accounts).retry(letter, late=late)
        assert result.outcome is LetterOutcome.LATE
    account = await db.get(Account, "a")
    assert account is not None
    assert (account.balance, account.version) == (3, 2)


# --- streams that stop -----------------------------------------------------------------------------------------


@on_both_stores
async def test_a_stream_that_stops_waits_for_its_dead_letter(db: Database) -> None:
    """Later events wait, a corrected retry applies the event, and the stream goes on after it."""
    first = await apply(db, careful_accounts, (0, "Moved", {"balance": 3}), (1, "Moved", {"balance": 4}))
    assert (first.applied, len(first.dead), len(first.waiting), first.is_stopped) == (0, 1, 1, True)
    second = await apply(db, careful_accounts, (1, "Moved", {"balance": 4}))
    assert (second.expected, len(second.waiting), second.is_stopped) == (0, 1, True)
    dead = letters(db, careful_accounts)
    (letter,) = await dead.all()
    assert (await dead.retry(letter)).outcome is LetterOutcome.FAILED
    await db.create(Account, account_id="a", owner="ann")
    (letter,) = await dead.all()
    assert letter.attempts == 2
    assert (await dead.retry(letter)).outcome is LetterOutcome.APPLIED
    assert (await dead.all(), await balance(db)) == ([], 3)
    third = await apply(db, careful_accounts, (1, "Moved", {"balance": 4}))
    assert (third.applied, third.is_stopped, await balance(db)) == (1, False, 4)


async def test_an_event_at_which_a_stream_has_stopped_is_tried_again_when_it_is_repeated(db: Database) -> None:
    """If it can be applied now, its dead letter disappears in the same transaction."""
    await apply(db, careful_accounts, (0, "Moved", {"balance": 3}))
    await db.create(Account, account_id="a", owner="ann")
    result = await apply(db, careful_accounts, (0, "Moved", {"balance": 3}), (1, "Moved", {"balance": 4}))
    assert (result.applied, result.is_stopped, await balance(db)) == (2, False, 4)
    assert await letters(db, careful_accounts).all() == []


@on_both_stores
async def test_a_stream_goes_on_when_its_dead_letter_is_dropped(db: Database) -> None:
    """The event is never applied, also if it is repeated."""
    await apply(db, careful_accounts, (0, "Moved", {"balance": 3}))
    dead = letters(db, careful_accounts)
    (letter,) = await dead.all()
    assert (await dead.drop(letter)).outcome is LetterOutcome.DROPPED
    assert (await dead.drop(letter)).outcome is LetterOutcome.FAILED
    result = await apply(db, careful_accounts, (0, "Opened", {"owner": "bob"}), (1, "Opened", {"owner": "ann"}))
    assert (result.repeated, result.applied) == (1, 1)
    account = await db.get(Account, "a")
    assert account is not None
    assert account.owner == "ann"


async def test_a_number_before_the_first_one_is_a_dead_letter(db: Database) -> None:
    """It is no event that was applied before, so it is not skipped in silence."""
    result = await apply(db, accounts, (0, "Opened", {"owner": "ann"}), (1, "Opened", {"owner": "bob"}))
    assert (result.applied, len(result.dead), result.repeated) == (1, 1, 0)
    (letter,) = await letters(db, accounts).all()
    assert letter.reason == "seq is 0, and the streams of this projection begin with 1."
    dead = letters(db, accounts)
    assert (await dead.retry(letter)).outcome is LetterOutcome.FAILED
    assert (await dead.drop(letter)).outcome is LetterOutcome.DROPPED
    again = await apply(db, accounts, (0, "Opened", {"owner": "ann"}))
    assert (again.repeated, again.dead, await dead.all()) == (1, [], [])


# --- texts that are no events ----------------------------------------------------------------------------------


async def test_a_text_that_is_no_event_is_a_dead_letter_once(db: Database) -> None:
    """It is kept by its digest, and does not come back after it was dropped."""
    source = GRAPH.sources["bank"]
    lines = [b'{"seq": 1}', b"\xff", b'{"seq": 1}']
    progress = await ProjectionRun(db, source).run(chunks_of(lines))
    assert progress.unreadable == 2
    dead = DeadLetters(db, source)
    for letter in await dead.all():
        assert letter.projection is None
        assert letter.code == "INVALID_EVENT"
        assert (await dead.retry(letter)).outcome is LetterOutcome.FAILED
        assert (await dead.drop(letter)).outcome is LetterOutcome.DROPPED
    assert (await ProjectionRun(db, source).run(chunks_of(lines))).unreadable == 0
    assert await dead.all() == []


async def test_an_unknown_letter_is_refused(db: Database) -> None:
    """A letter is named by its id."""
    with pytest.raises(NotFound, match="no dead letter 'accounts:1:a'"):
        await letters(db, accounts).find(["accounts:1:a"])


# --- what is no dead letter ------------------------------------------------------------------------------------


class DownStore(ForwardingStore):
    """A store that applies no transaction."""

    async def write_together(self, writes: Any, token: str) -> None:
        problem = StoreUnavailable("The store is down.")
        problem.certain = True
        raise problem


async def test_a_failure_of_the_store_is_no_dead_letter(db: Database) -> None:
    """Retryable failures are retried, and end the run when retries are exhausted; the event stays where it is."""
    event = Opened(account_id="a", owner="ann", at="1")
    envelope = parse_envelope({"stream": "a", "seq": 1, "type": "Opened", "data": event.model_dump(exclude={"type"})})
    down = replace(db, store=DownStore(db.store))
    retries = RetryStrategy(first_backoff_seconds=0, max_backoff_seconds=0, max_attempts=3)
    with pytest.raises(StoreUnavailable):
        await StreamProjector(down, accounts, retries=retries).apply("a", [envelope])
    assert await letters(db, accounts).all() == []
    assert (await StreamProjector(db, accounts).apply("a", [envelope])).applied == 1
