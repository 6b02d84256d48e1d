"""Lists the dead letters of a source, applies them after all, and drops them."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from graphql_api.codecs import KeyRange
from graphql_api.database import Database
from graphql_api.errors import CatalogBehind, ConditionFailed, NotFound, NotReady, ShardQLError, StoreError
from graphql_api.model import Catalog
from graphql_api.projections.event_envelopes import Envelope, read_envelope
from graphql_api.projections.event_sources import EventSource
from graphql_api.projections.projection_functions import Projection
from graphql_api.projections.stream_items import (
    DROPPED,
    DeadLetter,
    StreamPosition,
    letter_item,
    letters_hash_key,
    read_letter,
)
from graphql_api.projections.stream_projector import StreamProjector
from graphql_api.projections.stream_transactions import PositionMove, ProjectedStream, is_certain, projection_in_force
from graphql_api.storage import Delete, Put, RangeRead, TransactionWrite, resume_after
from graphql_api.writes import commit_transaction, expect_unchanged, with_new_write_id

PAGE = 100


class LetterOutcome(Enum):
    """The outcome of a retry or a drop."""

    APPLIED = "applied"
    FAILED = "failed"
    """the event cannot be applied yet"""
    LATE = "late"
    """later events of its stream were applied, and would be overwritten"""
    WAITING = "waiting"
    """the stream waits for an earlier event"""
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class LetterResult:
    """A dead letter, the outcome of a retry or a drop, and the reason."""

    letter: DeadLetter
    outcome: LetterOutcome
    reason: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the outcome as JSON."""
        return {"id": self.letter.id, "outcome": self.outcome.value, **({"reason": self.reason} if self.reason else {})}


class DeadLetters:
    """The dead letters of a source, for the tenant of a database."""

    def __init__(self, database: Database, source: EventSource) -> None:
        self._database = database
        self._source = source
        in_force = _in_force(source.projections, database.effective_catalog)
        self._projections = {projection.stored_name: projection for projection in in_force}

    async def all(self) -> list[DeadLetter]:
        """Return all dead letters, by projection, stream and number."""
        return [letter async for letter in self._read() if not letter.is_dropped]

    async def find(self, ids: Iterable[str]) -> list[DeadLetter]:
        """Return the dead letters with these ids. Raise `NotFound` for an id without one."""
        letters = {letter.id: letter for letter in await self.all()}
        for id in ids:
            if id not in letters:
                raise NotFound(f"There is no dead letter {id!r}: list them to see their ids.", argument="letter")
        return [letters[id] for id in dict.fromkeys(ids)]

    async def _read(self) -> AsyncIterator[DeadLetter]:
        hash_key = letters_hash_key(self._source.name, self._database.tenant)
        read: RangeRead | None = RangeRead(None, hash_key, 0, KeyRange(), limit=PAGE, consistent=True)
        while read is not None:
            (page,) = await self._database.store.read_ranges([read], want=PAGE)
            if isinstance(page, StoreError):
                raise page
            for row in page.rows:
                yield read_letter(row.item)
            read = None if page.scanned_to is None else resume_after(read, page.scanned_to, may_tie=False)

    # --- applying ----------------------------------------------------------------------------------------------

    async def retry(self, letter: DeadLetter, *, late: bool = False) -> LetterResult:
        """Apply a dead letter. `late`: although later events of its stream were applied.

        Retry the letters of a stream in their order.
        """
        projection = self._projections.get(letter.projection or "")
        if letter.projection is None:
            reason = "It is no event: correct it in its source, project it again, and drop this dead letter."
            return LetterResult(letter, LetterOutcome.FAILED, reason)
        if projection is None:
            return LetterResult(letter, LetterOutcome.FAILED, f"No projection is called {letter.projection!r}.")
        if letter.seq < projection.first_seq:
            return LetterResult(letter, LetterOutcome.FAILED, letter.reason)
        stream = ProjectedStream(self._database, projection, letter.stream)
        envelope, position = read_envelope(letter.event), await stream.read_position()
        if position.last_seq < letter.seq:
            return await self._retry_at_end(stream, letter, envelope, position)
        if not late and not await self._is_last(letter, position):
            return self._late(letter)
        return await self._retry_passed(stream, letter, envelope, position, late=late)

    async def _retry_at_end(
        self, stream: ProjectedStream, letter: DeadLetter, envelope: Envelope, position: StreamPosition
    ) -> LetterResult:
        """Apply the event at which its stream has stopped."""
        if position.stopped_at != letter.seq:
            return LetterResult(letter, LetterOutcome.WAITING, f"The stream waits for {position.last_seq + 1}.")
        result = await StreamProjector(self._database, stream.projection).apply(letter.stream, [envelope])
        if result.dead:
            return LetterResult(letter, LetterOutcome.FAILED, result.dead[0][1].message)
        return LetterResult(letter, LetterOutcome.APPLIED)

    async def _is_last(self, letter: DeadLetter, position: StreamPosition) -> bool:
        """Return whether only dead letters follow in the stream: then nothing later is overwritten."""
        of_stream = letter.projection, letter.stream
        later = [one for one in await self.all() if (one.projection, one.stream) == of_stream and one.seq > letter.seq]
        return position.last_seq - letter.seq == len(later)

    async def _retry_passed(
        self, stream: ProjectedStream, letter: DeadLetter, envelope: Envelope, position: StreamPosition, *, late: bool
    ) -> LetterResult:
        """Apply an event that its stream has passed."""
        try:
            commands = stream.commands(envelope)
            move = PositionMove(stream, position, None, len(commands), letter.key, is_late=late)
            await stream.commit(commands, move)
        except ShardQLError as problem:
            if not is_certain(problem):
                raise
            item = letter_item(letter.key, letter.event, problem, self._database.clock(), letter.attempts + 1)
            await self._database.store.write([Put(item, expect_unchanged(letter.item))])
            return LetterResult(letter, LetterOutcome.FAILED, problem.message)
        return self._late(letter) if move.is_outrun else LetterResult(letter, LetterOutcome.APPLIED)

    def _late(self, letter: DeadLetter) -> LetterResult:
        reason = "Later events of its stream were applied, and it would overwrite what they have written."
        return LetterResult(letter, LetterOutcome.LATE, reason)

    # --- dropping ----------------------------------------------------------------------------------------------

    async def drop(self, letter: DeadLetter) -> LetterResult:
        """Drop a dead letter. A stream that has stopped at it goes on with the next event."""
        projection = self._projections.get(letter.projection or "")
        writes: list[TransactionWrite] = [Delete(letter.key, expect_unchanged(letter.item))]
        if letter.projection is None or (projection is not None and letter.seq < projection.first_seq):
            # No position passes it. It stays, so that its event does not become a dead letter again.
            writes = [Put(with_new_write_id({**letter.item, DROPPED: True}), expect_unchanged(letter.item))]
        elif projection is not None:
            position = await ProjectedStream(self._database, projection, letter.stream).read_position()
            if position.stopped_at == letter.seq:
                writes.append(Put(position.moved(letter.seq), expect_unchanged(position.item)))
        try:
            await commit_transaction(self._database.store, writes)
        except ConditionFailed:
            reason = "Another process has changed it: list the dead letters again."
            return LetterResult(letter, LetterOutcome.FAILED, reason)
        return LetterResult(letter, LetterOutcome.DROPPED)


def _in_force(projections: Iterable[Projection], catalog: Catalog) -> Iterator[Projection]:
    """Yield the projections that this release of the application can apply."""
    for projection in projections:
        with suppress(NotReady, CatalogBehind):
            yield projection_in_force(projection, catalog)


def in_order(letters: Iterable[DeadLetter]) -> Sequence[DeadLetter]:
    """Return dead letters in the order in which to apply them."""
    return sorted(letters, key=lambda letter: (letter.projection or "", letter.stream, letter.seq))
