"""Estimate the write units of commands before they run: the least, the expected and the most of a write that succeeds.

`most` follows from the greatest size of a record, and covers one attempt: a conflict with another write costs again.
`expected` is the charge of a create, and of an update that moves no index entry.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from graphql_api.errors import ShardQLError
from graphql_api.model import Catalog, EntitySpec, PropertySpec
from graphql_api.storage import (
    MAX_RECORD_BYTES,
    TRANSACTION_FACTOR,
    IndexDefinition,
    Item,
    UnitEstimate,
    change_units,
    sum_of_estimates,
    write_units,
)
from graphql_api.writes.commands import AnyCommand, Create, PutRecord, Remove, Replace
from graphql_api.writes.item_bounds import CONSTRAINT_ITEM_BYTES, entity_indexes
from graphql_api.writes.item_keys import to_item
from graphql_api.writes.record_builder import build_record

_WRITE_ID = "A" * 16
"""a write id of the usual length"""
_CONSTRAINT_UNITS = write_units(CONSTRAINT_ITEM_BYTES)


def estimate_writes(
    catalog: Catalog, commands: Sequence[AnyCommand], tenant: str | None, now: float, *, has_key: bool = False
) -> UnitEstimate:
    """Estimate commands that are executed independently or together. `has_key`: all share an idempotency key."""
    estimates = [_CommandEstimate(catalog, command.entity, command, tenant, now).estimate() for command in commands]
    if has_key:
        estimates.append(_response_units(max((command.entity.usual_record_bytes for command in commands), default=0)))
    return sum_of_estimates(estimates)


def explain_writes(entities: Iterable[EntitySpec], records: int, estimate: UnitEstimate) -> dict[str, Any]:
    """Return the writes of a number of records with the estimate of their units, for explain output."""
    names = dict.fromkeys(entity.type_name for entity in entities)
    return {"entity": ", ".join(names), "records": records, "write": {"estimate": estimate.describe()}}


def _response_units(size: int) -> UnitEstimate:
    """Estimate the stored response under an idempotency key, which contains the record."""
    expected, most = (TRANSACTION_FACTOR * write_units(each) for each in (size, MAX_RECORD_BYTES))
    return UnitEstimate(TRANSACTION_FACTOR, expected, most)


@dataclass(slots=True)
class _CommandEstimate:
    """The estimate of one command."""

    catalog: Catalog
    entity: EntitySpec
    command: AnyCommand
    tenant: str | None
    now: float

    def estimate(self) -> UnitEstimate:
        """Return the units of the record, its index entries, its current record and its constraint items."""
        entity, command, item = self.entity, self.command, self._item()
        indexes = entity_indexes(self.catalog, entity)
        greatest = write_units(entity.max_record_bytes)
        is_removed = isinstance(command, Remove)
        copies = self._copies
        expected = copies * self._expected_record(item, indexes) + self._expected_constraints(item)
        # Each copy of the record may replace another one, and move all of its index entries.
        most = copies * greatest * (1 + 2 * len(indexes)) + self._most_constraints()
        if isinstance(command, PutRecord) and not entity.is_constrained and copies == 1:
            return UnitEstimate(1, expected, TRANSACTION_FACTOR * most)
        least, expected, most = (TRANSACTION_FACTOR * units for units in (0 if is_removed else 1, expected, most))
        counters = 0 if is_removed else len(entity.counters)
        expected += counters
        most += counters * _CONSTRAINT_UNITS
        if is_removed and entity.children:
            # The delete intent is written before, and removed after a failure.
            expected += self._rewrite(entity.usual_record_bytes, indexes)
            most += 2 * TRANSACTION_FACTOR * greatest * (1 + len(indexes))
        own = UnitEstimate(least, expected, most)
        if command.idempotency_key is None:
            return own
        return sum_of_estimates([own, _response_units(entity.usual_record_bytes)])

    @property
    def _copies(self) -> int:
        """Return how many records a command writes: in a history also the current record."""
        return 1 if self.entity.written_current is None else 2

    def _item(self) -> Item | None:
        """Return the item that the command writes, if it shows the whole record."""
        command = self.command
        with suppress(ShardQLError):
            if isinstance(command, PutRecord):
                return to_item(self.entity, command.record, self.tenant, _WRITE_ID)
            if isinstance(command, Create | Replace):
                record = build_record(self.entity, command.values, None, self.now)
                return to_item(self.entity, record, self.tenant, _WRITE_ID)
        return None

    def _expected_record(self, item: Item | None, indexes: Sequence[IndexDefinition]) -> int:
        if item is not None:
            return change_units(self.catalog.table_definition(), None, item)
        size = self.entity.usual_record_bytes
        if isinstance(self.command, Remove | Create | Replace):
            return write_units(size) * (1 + len(indexes))
        return self._rewrite(size, indexes)

    def _rewrite(self, size: int, indexes: Sequence[IndexDefinition]) -> int:
        """Return the units of an update that moves no index entry. Indexes that project all attributes are written."""
        return write_units(size) * (1 + sum(index.projection == "ALL" for index in indexes))

    def _expected_constraints(self, item: Item | None) -> int:
        """Return the units of unique items, reference items, checks of parents, and checks of other generations."""
        entity, command = self.entity, self.command
        is_whole = isinstance(command, Create | Replace | PutRecord)
        if not is_whole and not (isinstance(command, Remove) or entity.ttl is not None):
            return 0
        units = sum(self._has_values(item, one.parts) for one in entity.unique)
        units += sum(self._has_values(item, one.hash) for one in entity.written_lookups) * self._copies
        for foreign_key in entity.foreign_keys:
            if self._has_values(item, foreign_key.by):
                parent = 0 if isinstance(command, Remove) else write_units(foreign_key.parent.record_bytes or 1)
                units += 1 + parent
        if is_whole:
            units += len(entity.space.generations) - 1
            units += bool(entity.sub_ids) and entity.current is None and len(entity.space.generations) > 1
        return units

    def _most_constraints(self) -> int:
        entity = self.entity
        parents = sum(
            len(one.parent.space.generations) * write_units(one.parent.max_record_bytes) for one in entity.foreign_keys
        )
        items = 2 * (len(entity.unique) + len(entity.foreign_keys) + len(entity.written_lookups) * self._copies)
        others = 2 * len(entity.space.generations) * write_units(entity.max_record_bytes)
        return items * _CONSTRAINT_UNITS + parents + others

    def _has_values(self, item: Item | None, parts: Sequence[PropertySpec]) -> bool:
        return item is None or all(item.get(part.stored) is not None for part in parts)
