"""Execute several commands by one transaction: all of them, or none (docs/how-to/writing.md).

Commands are executed in order, each as if it were alone, on a store that collects their writes. So each one sees those
before it, and every rule of single commands applies. Then one transaction writes what they leave.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from graphql_api.clock import Clock
from graphql_api.errors import (
    ConditionFailed,
    Conflict,
    InvalidLimit,
    ItemTooLarge,
    ShardQLError,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
    for_operations,
)
from graphql_api.model import Entity
from graphql_api.storage import MAX_TRANSACTION_BYTES, MAX_TRANSACTION_WRITES, Put, TransactionWrite, record_size
from graphql_api.writes.command_transaction import CommandExecution
from graphql_api.writes.commands import Command, is_idempotent
from graphql_api.writes.entity_records import EntityRecords
from graphql_api.writes.preconditions import check_command, unwritable_error
from graphql_api.writes.staged_store import StagedStore
from graphql_api.writes.transactions import commit_transaction, retry_on_conflict

MAX_OPERATIONS = 25


def check_operation_count(count: int) -> None:
    """Refuse no operations, and too many."""
    if not 1 <= count <= MAX_OPERATIONS:
        raise InvalidLimit(f"A write has 1 to {MAX_OPERATIONS} operations, not {count:,}.", argument="operations")


ResultCheck = Callable[[int, Entity | None], None]
"""receives the position and the result of a command, and raises an error if the caller must not know it"""


class WriteCompanion(Protocol):
    """What makes a combined write idempotent: it decides whether to execute, and writes in the same transaction."""

    async def attempt(self, execute: Callable[[], Awaitable[Sequence[Entity | None]]]) -> Sequence[Entity | None]:
        """Execute the commands once, and return their results; or return others, if they have been executed."""
        ...

    def own_writes(self, results: Sequence[Entity | None]) -> Sequence[TransactionWrite]:
        """Return the writes by which a later attempt knows that the commands have been executed."""
        ...


@dataclass(slots=True)
class CombinedWrite:
    """The execution of several commands, all or none, over all of its attempts."""

    staged: StagedStore
    commands: Sequence[Command]
    tenant: str | None
    clock: Clock
    companion: WriteCompanion | None = None
    check_result: ResultCheck = lambda _, __: None
    _executions: list[CommandExecution] = field(default_factory=list, init=False)

    async def run(self) -> Sequence[Entity | None]:
        """Execute the commands. Return the result of each."""
        for position, command in enumerate(self.commands):
            with _of_operation(position):
                if command.entity.write_blocker is not None:
                    raise unwritable_error(command.entity)
                check_command(command)
            records = EntityRecords(self.staged, command.entity, self.tenant, self.clock)
            place_intent = self.staged.place_delete_intent
            self._executions.append(CommandExecution(records, command, place_delete_intent=place_intent))
        try:
            return await retry_on_conflict(self._attempt, "the records of this write")
        except ShardQLError as problem:
            # With an unknown outcome the delete intents stay, and are abandoned after a while.
            if not isinstance(problem, StoreUnavailable):
                await self.staged.withdraw_delete_intents()
            raise

    async def _attempt(self) -> Sequence[Entity | None]:
        return await (self._execute() if self.companion is None else self.companion.attempt(self._execute))

    async def _execute(self) -> list[Entity | None]:
        self.staged.begin()
        results = []
        for position, execution in enumerate(self._executions):
            try:
                with _of_operation(position):
                    results.append(await execution.attempt())
                    self.check_result(position, results[-1])
            except ShardQLError as problem:
                if problem.operations and position:
                    await self._verify()
                raise
        writes = self.staged.collected_writes()
        if self.companion is not None:
            writes += self.companion.own_writes(results)
        if writes:
            _check_size(writes)
            may_repeat = self.companion is not None or all(map(is_idempotent, self.commands))
            await commit_transaction(self.staged.inner, writes, is_idempotent=may_repeat)
        return results

    async def _verify(self) -> None:
        """Raise `ConditionFailed` if a rejection is based on what other writers have changed since it was read."""
        checks = self.staged.collected_checks()
        if checks:
            await commit_transaction(self.staged.inner, checks[:MAX_TRANSACTION_WRITES])


@contextmanager
def _of_operation(position: int) -> Iterator[None]:
    """Add the position of an operation to its errors, but not to those that concern all operations."""
    try:
        yield
    except (ConditionFailed, Conflict):
        raise
    except ShardQLError as problem:
        if isinstance(problem, StoreError) and not isinstance(problem, ItemTooLarge):
            raise
        raise for_operations({position: problem}) from problem


def _check_size(writes: Sequence[TransactionWrite]) -> None:
    """Refuse more than one transaction of an engine can hold."""
    size = sum(record_size(write.item) for write in writes if isinstance(write, Put))
    if len(writes) > MAX_TRANSACTION_WRITES or size > MAX_TRANSACTION_BYTES:
        raise TransactionTooLarge(
            f"The operations need {len(writes)} items with {size:,} bytes. A transaction holds at most "
            f"{MAX_TRANSACTION_WRITES} items and {MAX_TRANSACTION_BYTES:,} bytes. Send fewer operations at once.",
            argument="operations",
        )
