"""Writers of the loader for entities with constraints.

The records of a batch are written concurrently, except for records that may conflict. Of two lines with one unique
value, the first line gets it. A line may reference the record of an earlier line.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphql_api.errors import AlreadyExists, ShardQLError
from graphql_api.model import Entity, EntitySpec, PropertySpec, value_of
from graphql_api.ops.loader import PutMany
from graphql_api.writes import Command, Replace, record_values

CommandResult = Entity | ShardQLError | None
ApplyEach = Callable[[Sequence[Command]], Awaitable[Sequence[CommandResult]]]
"""executes commands independently and returns the result of each"""


def conflict_free_writer(put_many: PutMany, entity: EntitySpec) -> PutMany:
    """Return a writer like `put_many` that writes records that may conflict one after another."""
    if not (entity.unique or entity.foreign_keys):
        return put_many
    return _write_in_groups(put_many, entity, whole_histories=entity.current is not None)


def create_only_writer(apply_each: ApplyEach, entity: EntitySpec) -> PutMany:
    """Return a writer that creates records, and refuses a record whose id is taken by a different record.

    An equal stored record is accepted, because an interrupted load may meet the records that it wrote itself.
    """

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        rows = [_Row(entity, record) for record in records]
        # Write the greatest numbers first, so that most commands need not raise a counter.
        ordered_rows = sorted(rows, key=_Row.counter_values, reverse=True)
        results = await apply_each([row.command() for row in ordered_rows])
        for row, result in zip(ordered_rows, results, strict=True):
            row.problem = result if isinstance(result, ShardQLError) and not row.is_stored_already else None
        return [row.problem for row in rows]

    return _write_in_groups(put_many, entity, whole_histories=False)


def _write_in_groups(put_many: PutMany, entity: EntitySpec, *, whole_histories: bool) -> PutMany:
    """Return a writer that writes conflict-free groups in order.

    After a retryable error, all later groups get the same error. Otherwise a later line could take a unique value of an
    earlier line, or be refused because the record of an earlier line is missing.
    """

    async def put_in_groups(records: Sequence[Entity]) -> list[ShardQLError | None]:
        results: list[ShardQLError | None] = [None] * len(records)
        retryable_error: ShardQLError | None = None
        for group in conflict_free_groups(entity, records, whole_histories=whole_histories):
            in_group = [records[index] for index in group]
            problems = [retryable_error] * len(group) if retryable_error else await put_many(in_group)
            for index, problem in zip(group, problems, strict=True):
                results[index] = problem
                if problem is not None and problem.retryable:
                    retryable_error = retryable_error or problem
        return results

    return put_in_groups


@dataclass(slots=True)
class _Row:
    entity: EntitySpec
    record: Entity
    is_stored_already: bool = False
    """an equal record is already stored"""
    problem: ShardQLError | None = None

    def counter_values(self) -> tuple[int, ...]:
        """Return its values of counter properties."""
        return tuple(value_of(self.record, part.name) or 0 for part in self.entity.counters)

    def command(self) -> Replace:
        """Return the command. It replaces instead of creating, so that a provided number is kept."""
        values = record_values(self.entity, self.record)
        if self.entity.created is not None and self._is_omitted(self.entity.created):
            del values[self.entity.created.name]
        return Replace(self.entity, values, allow=self._refuse_different_record)

    async def _refuse_different_record(self, old: Entity | None, _: Entity | None) -> None:
        entity = self.entity
        if old is None or _values(entity.primary_key, old) != _values(entity.primary_key, self.record):
            return  # No record exists; `old` is the entry before this one.
        self.is_stored_already = not any(self._differs(old, part) for part in entity.properties.values())
        name = "/".join(str(value_of(self.record, part.name)) for part in entity.primary_key)
        raise AlreadyExists(
            f"A different {entity.type_name} {name} already exists. Load without --checked to replace it.",
            argument=entity.primary_key[0].name if entity.primary_key else None,
        )

    def _differs(self, old: Entity, part: PropertySpec) -> bool:
        """Return whether a property differs from the stored record. Values that servers set do not count."""
        value = value_of(self.record, part.name)
        is_optional = part is self.entity.created or part.counter_group is not None
        is_set_by_every_write = part in (self.entity.updated, self.entity.version)
        if is_set_by_every_write or (is_optional and (value is None or self._is_omitted(part))):
            return False
        return bool(value_of(old, part.name) != value)

    def _is_omitted(self, part: PropertySpec) -> bool:
        return part.name not in self.record.model_fields_set


def conflict_free_groups(
    entity: EntitySpec, records: Sequence[Entity], *, whole_histories: bool = False
) -> list[list[int]]:
    """Return the indexes of the records in as few groups as possible, with conflicting records in successive groups.

    With `whole_histories`, records of one id do not conflict, because they are written in one transaction.
    """
    groups: list[list[int]] = []
    last_claimed: dict[Hashable, tuple[int, Hashable]] = {}
    """the last group that claims the key, and the owner in it"""
    last_referenced: dict[Hashable, int] = {}
    for index, record in enumerate(records):
        claimed = [*_claimed_keys(entity, record)]
        own_keys = (one for one in entity.foreign_keys if one.parent.name == entity.name)
        referenced = [("id", _values(foreign_key.by, record)) for foreign_key in own_keys]
        owner = claimed[0] if whole_histories else index
        conflicts = [last_claimed[key] for key in (*claimed, *referenced) if key in last_claimed]
        candidates = [earlier if claimant == owner else earlier + 1 for earlier, claimant in conflicts]
        candidates += [last_referenced[key] + 1 for key in claimed if key in last_referenced]
        group = max(candidates, default=0)
        last_claimed |= dict.fromkeys(claimed, (group, owner))
        last_referenced |= {key: max(group, last_referenced.get(key, group)) for key in referenced}
        if group == len(groups):
            groups.append([])
        groups[group].append(index)
    return groups


def _claimed_keys(entity: EntitySpec, record: Entity) -> Iterator[Hashable]:
    """Yield the keys that only one record can have: its id and its unique values."""
    # Each entry also writes the current record, so the entries of one id conflict.
    yield "id", _values(entity.primary_key if entity.current is None else entity.ids, record)
    for unique in entity.unique:
        values = _values(unique.parts, record)
        if None not in values:
            yield unique.name, values


def _values(parts: Iterable[PropertySpec], record: Entity) -> tuple[Hashable, ...]:
    return tuple(value_of(record, part.name) for part in parts)
