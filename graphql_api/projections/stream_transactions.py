"""The transactions that move the position of a stream: with the operations of events, or with a dead letter."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from graphql_api.database import Database
from graphql_api.errors import ConditionFailed, ItemTooLarge, ShardQLError, StoreError
from graphql_api.model import NEWER, Catalog, ElementStatus, Entity, entity_and_version, unready_error
from graphql_api.projections.event_envelopes import Envelope
from graphql_api.projections.projection_functions import Projection
from graphql_api.projections.stream_items import ATTEMPTS, StreamPosition, letter_item, letter_key, stream_key
from graphql_api.storage import Delete, Expect, Item, Key, Put, TransactionWrite
from graphql_api.writes import Command, Update, WriteCompanion, commit_transaction, expect_unchanged, retry_on_conflict

Results = Sequence[Entity | None]


def is_certain(problem: ShardQLError) -> bool:
    """Return whether an error would occur again, whenever the event is applied: then it becomes a dead letter."""
    return not problem.retryable and (isinstance(problem, ItemTooLarge) or not isinstance(problem, StoreError))


class VersionSwitched(StoreError):
    """Servers read and write another version of the records than the one that a stream was projected for."""


def projection_in_force(projection: Projection, catalog: Catalog) -> Projection:
    """Return the projection for the version of the records that servers read and write.

    Raise `NotReady` or `CatalogBehind` if only another release of the application has its function.
    """
    served = _served_versions(projection, catalog)
    versions = {*served.values()}
    found = projection.at_version(versions.pop()) if len(versions) == 1 else None
    if found is not None:
        return found
    name, version = max(served.items(), key=lambda pair: pair[1])
    status = ElementStatus(f"entity version {name}.{version}", NEWER)
    if version <= projection.version:
        name = min(served, key=served.__getitem__)
        status = ElementStatus(f"entity version {name}.{projection.version}", "absent")
    raise unready_error(status, f"The projection {projection.name} needs")


def _served_versions(projection: Projection, catalog: Catalog) -> dict[str, int]:
    """Return the version of each entity of a projection that servers read and write, by declared name."""
    return dict(entity_and_version(catalog.entity(model).name) for model in projection.models)


@dataclass(frozen=True, slots=True)
class ProjectedStream:
    """A stream, as one projection reads it for the tenant of a database."""

    database: Database
    projection: Projection
    """for one version of the records"""
    stream: str

    def check_version(self, catalog: Catalog) -> None:
        """Raise an error if servers read and write another version of the records, or if no server may write."""
        if {*_served_versions(self.projection, catalog).values()} != {self.projection.version}:
            raise VersionSwitched("Another version of the records is served: apply the events again.")
        for model in self.projection.models:
            blocking = catalog.entity(model).write_blocker
            if blocking is not None and blocking.state == "switching":
                raise unready_error(blocking, f"The projection {self.projection.name} needs")

    @property
    def key(self) -> Key:
        """Return the key of its position."""
        return stream_key(self.projection, self.stream, self.database.tenant)

    async def read_position(self) -> StreamPosition:
        """Read its position."""
        (item,) = await self.database.store.get_many([self.key], consistent=True)
        return StreamPosition.of(self.projection, self.key, item)

    def letter_key(self, seq: int) -> Key:
        """Return the key of the dead letter of an event."""
        return letter_key(self.projection, self.stream, seq, self.database.tenant)

    def commands(self, envelope: Envelope) -> list[Command]:
        """Return the commands of an event. Raise an error if it cannot have any."""
        catalog = self.database.effective_catalog
        commands = [operation.to_command(catalog) for operation in self.projection.operations(envelope)]
        # An entry of a history continues the one before it, even if the events arrive in another order.
        return [replace(one, continues_preceding=True) if isinstance(one, Update) else one for one in commands]

    async def commit(self, commands: Sequence[Command], companion: WriteCompanion) -> None:
        """Execute commands by one transaction, together with the writes of the companion."""
        if commands:
            await self.database.apply_together(commands, companion=companion)
            return

        async def execute() -> Results:
            await self._commit_own(companion.own_writes(()))
            return ()

        await retry_on_conflict(lambda: companion.attempt(execute), f"the position of the stream {self.stream!r}")

    async def _commit_own(self, writes: Sequence[TransactionWrite]) -> None:
        async def plan(catalog: Catalog) -> Sequence[TransactionWrite]:
            self.check_version(catalog)
            return writes

        await self.database.commit_own(plan)

    async def bury(self, envelope: Envelope, problem: ShardQLError, position: StreamPosition) -> StreamPosition:
        """Store the dead letter of an event, and move the position past it or stop there. Return the new position."""
        key = self.letter_key(envelope.seq)
        (earlier,) = await self.database.store.get_many([key], consistent=True)
        attempts = 1 if earlier is None else int(earlier[ATTEMPTS]) + 1
        letter = letter_item(key, envelope.text, problem, self.database.clock(), attempts)
        stops = self.projection.stops
        moved = position.moved(envelope.seq - 1 if stops else envelope.seq, envelope.seq if stops else None)
        await self._commit_own([Put(letter), Put(moved, expect_unchanged(position.item))])
        return StreamPosition.of(self.projection, self.key, moved)

    async def bury_early(self, envelope: Envelope, problem: ShardQLError) -> bool:
        """Store the dead letter of an event before the first one. Return False if it is stored, or was dropped."""
        letter = letter_item(self.letter_key(envelope.seq), envelope.text, problem, self.database.clock(), 1)
        return await add_letter(self.database, letter)


async def add_letter(database: Database, letter: Item) -> bool:
    """Store a dead letter that no position accounts for. Return False if it is stored, or was dropped."""
    try:
        await commit_transaction(database.store, [Put(letter, Expect(absent=True))])
    except ConditionFailed:
        return False
    return True


@dataclass(slots=True)
class PositionMove:
    """Moves the position of a stream in the transaction that applies events: a companion of combined writes."""

    stream: ProjectedStream
    position: StreamPosition
    """before the events"""
    last_seq: int | None
    """of the events; None: the event is a dead letter that the position has passed"""
    commands: int
    letter: Key | None = None
    """the dead letter that is applied, and so deleted"""
    is_late: bool = False
    """the event is applied although later ones were"""
    is_outrun: bool = field(default=False, init=False)
    """another projector has moved the position meanwhile, or applied the dead letter; nothing was applied"""
    _attempts: int = field(default=0, init=False)
    _moved: StreamPosition | None = field(default=None, init=False)

    @property
    def moved(self) -> StreamPosition | None:
        """Return the position after the events; None if another projector has moved it."""
        return None if self.is_outrun else self._moved

    async def attempt(self, execute: Callable[[], Awaitable[Results]]) -> Results:
        """Execute, unless another projector was first. What it may have changed is read for every attempt but one."""
        self.stream.check_version(self.stream.database.effective_catalog)
        self._attempts += 1
        if self._attempts > 1 and not await self._is_first():
            self.is_outrun = True
            return [None] * self.commands
        return await execute()

    async def _is_first(self) -> bool:
        stored = await self.stream.read_position()
        has_moved = not stored.equals(self.position)
        self.position = stored
        if self.letter is not None:
            (letter,) = await self.stream.database.store.get_many([self.letter], consistent=True)
            return letter is not None and (self.is_late or not has_moved)
        return not has_moved

    def own_writes(self, results: Results) -> Sequence[TransactionWrite]:  # noqa: ARG002 - of the protocol
        """Return the write of the position, and the deletion of the dead letter that is applied after all."""
        before = self.position
        item = (
            before.moved(before.last_seq, before.stopped_at) if self.last_seq is None else before.moved(self.last_seq)
        )
        self._moved = StreamPosition.of(self.stream.projection, self.stream.key, item)
        writes: list[TransactionWrite] = [Put(item, expect_unchanged(before.item))]
        if self.letter is not None:
            writes.append(Delete(self.letter, Expect()))
        return writes
