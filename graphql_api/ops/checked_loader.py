"""Loads records of which something must hold: in turns where they may meet, and as clients write them where asked.

The rows of a batch are written several at once. Those that may meet are not: of two lines that want the same value the
first one has it, and a line may name the record of a line before it.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphql_api.errors import AlreadyExists, ShardQLError
from graphql_api.model import Entity, EntitySpec, PropertySpec, value_of
from graphql_api.ops.loader import PutMany
from graphql_api.writes import Command, Replace, given_values

Answer = Entity | ShardQLError | None
ApplyEach = Callable[[Sequence[Command]], Awaitable[Sequence[Answer]]]
"""carries commands out each by itself, and tells for each what came of it"""


def in_turns(put_many: PutMany, entity: EntitySpec) -> PutMany:
    """What writes records as `put_many` does, but those that may meet one after the other."""
    if not (entity.unique or entity.foreign_keys):
        return put_many

    async def put_some(records: Sequence[Entity]) -> list[ShardQLError | None]:
        in_order = turns(entity, records, whole_histories=entity.current is not None)
        return await _one_after_the_other(in_order, lambda turn: put_many([records[at] for at in turn]))

    return put_some


def checked(apply_each: ApplyEach, entity: EntitySpec) -> PutMany:
    """What writes records of an entity that are new, and refuses the others.

    One that stands there just so is no other: a load that was stopped may meet what it has written itself.
    """

    async def put_many(records: Sequence[Entity]) -> list[ShardQLError | None]:
        rows = [_Row(entity, record) for record in records]

        async def put_turn(turn: Sequence[int]) -> list[ShardQLError | None]:
            # The greatest numbers come first, so that counters need not be raised by each of the others.
            some = sorted((rows[at] for at in turn), key=_Row.numbers, reverse=True)
            for row, answer in zip(some, await apply_each([row.command() for row in some]), strict=True):
                row.problem = answer if isinstance(answer, ShardQLError) and not row.stands_so else None
            return [rows[at].problem for at in turn]

        return await _one_after_the_other(turns(entity, records), put_turn)

    return put_many


async def _one_after_the_other(
    all_turns: Sequence[Sequence[int]], put_turn: Callable[[Sequence[int]], Awaitable[Sequence[ShardQLError | None]]]
) -> list[ShardQLError | None]:
    """What becomes of each record; where one fails for the moment, the turns behind it are left for later as well.

    Else a line could take what one before it is to have, or be refused because that is not there yet.
    """
    results: list[ShardQLError | None] = [None] * sum(map(len, all_turns))
    late: ShardQLError | None = None
    for turn in all_turns:
        for at, problem in zip(turn, [late] * len(turn) if late else await put_turn(turn), strict=True):
            results[at] = problem
        late = late or next((found for at in turn if (found := results[at]) is not None and found.retryable), None)
    return results


@dataclass(slots=True)
class _Row:
    """A record, and what became of it."""

    entity: EntitySpec
    record: Entity
    stands_so: bool = False
    """the very same record stands there already"""
    problem: ShardQLError | None = None

    def numbers(self) -> tuple[int, ...]:
        """What it says of itself where counters count."""
        return tuple(value_of(self.record, part.name) or 0 for part in self.entity.counters)

    def command(self) -> Replace:
        """It is put, and not created, so that it keeps its number where it has one."""
        values = given_values(self.entity, self.record)
        if self.entity.created is not None and self._leaves_out(self.entity.created):
            del values[self.entity.created.name]
        return Replace(self.entity, values, allow=self._refuse_others)

    async def _refuse_others(self, old: Entity | None, _: Entity | None) -> None:
        entity = self.entity
        if old is None or _values(entity.primary, old) != _values(entity.primary, self.record):
            return  # Nothing stands there; what was shown is the entry that this one comes after.
        self.stands_so = not any(self._differs(old, part) for part in entity.properties.values())
        name = "/".join(str(value_of(self.record, part.name)) for part in entity.primary)
        raise AlreadyExists(
            f"There is another {entity.type_name} {name} already: load without --checked to write this one in its "
            "place.",
            argument=entity.primary[0].name if entity.primary else None,
        )

    def _differs(self, old: Entity, part: PropertySpec) -> bool:
        """Whether a property is another one; what the server sets is as it was set."""
        given = value_of(self.record, part.name)
        may_lack = part is self.entity.created or part.counts is not None
        set_anew = part in (self.entity.updated, self.entity.version)
        if set_anew or (may_lack and (given is None or self._leaves_out(part))):
            return False
        return bool(value_of(old, part.name) != given)

    def _leaves_out(self, part: PropertySpec) -> bool:
        return part.name not in self.record.model_fields_set


def turns(entity: EntitySpec, records: Sequence[Entity], *, whole_histories: bool = False) -> list[list[int]]:
    """The places of the records, in as few turns as it takes: what may meet comes one after the other.

    `whole_histories`: those of one id do not meet, since they are written together.
    """
    found: list[list[int]] = []
    last_taken: dict[Hashable, tuple[int, Hashable]] = {}
    """the turn, and who takes it there"""
    last_named: dict[Hashable, int] = {}
    for at, record in enumerate(records):
        taken, named = [*_taken(entity, record)], [*_named(entity, record)]
        who = taken[0] if whole_histories else at
        met = [last_taken[one] for one in (*taken, *named) if one in last_taken]
        behind = [before if other == who else before + 1 for before, other in met]
        behind += [last_named[one] + 1 for one in taken if one in last_named]
        turn = max(behind, default=0)
        last_taken |= dict.fromkeys(taken, (turn, who))
        last_named |= {one: max(turn, last_named.get(one, turn)) for one in named}
        if turn == len(found):
            found.append([])
        found[turn].append(at)
    return found


def _taken(entity: EntitySpec, record: Entity) -> Iterator[Hashable]:
    """What only one record can have: its id, and its unique values."""
    # Entries beside a current record are written one after the other: each of them writes that as well.
    yield "id", _values(entity.primary if entity.current is None else entity.ids, record)
    for unique in entity.unique:
        values = _values(unique.parts, record)
        if None not in values:
            yield unique.name, values


def _named(entity: EntitySpec, record: Entity) -> Iterator[Hashable]:
    """The ids of other records of the entity that it names."""
    for foreign_key in entity.foreign_keys:
        if foreign_key.parent.name == entity.name:
            yield "id", _values(foreign_key.by, record)


def _values(parts: Iterable[PropertySpec], record: Entity) -> tuple[Hashable, ...]:
    return tuple(value_of(record, part.name) for part in parts)
