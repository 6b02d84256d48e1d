"""Design advice: valid but costly designs of a catalog, and their costs. Validation rules refuse, advice informs.

Some problems are visible in records only.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from graphql_api import codecs
from graphql_api.errors import ShardQLError
from graphql_api.model import Catalog, Entity, EntitySpec, IndexSpec, PropertySpec
from graphql_api.ops.index_capacity import IndexCapacity
from graphql_api.ops.record_capacity import EntityCapacity, entity_capacity
from graphql_api.ops.text_ordering import find_ordering_problem
from graphql_api.ops.typical_records import typical_record
from graphql_api.query import DEFAULT_LIMIT, RowView
from graphql_api.storage import READ_UNIT_BYTES, read_units

MIN_HASH_KEYS = 10
"""minimum number of hash keys over which the entries of an index should spread"""

MIN_RECORDS = 50
"""minimum number of records for which few distinct values are significant"""

MAX_INDEXES = 10
"""maximum number of indexes of an entity without advice about their write costs"""

PARTITION_WRITES = 1_000
"""write units per second that one hash key supports"""


@dataclass(frozen=True, slots=True)
class Advice:
    """One finding: where it is, what it costs, and what to do about it."""

    entity: str
    attribute: str | None
    problem: str
    cost: str
    remedy: str
    is_warning: bool = True
    """a likely future problem; otherwise a cost that may be acceptable"""

    def __str__(self) -> str:
        where = f"{self.entity}.{self.attribute}" if self.attribute else self.entity
        return f"{where}: {self.problem} {self.cost}"


def find_advice(catalog: Catalog, records: Mapping[str, Sequence[Entity]]) -> Iterator[Advice]:
    """Return advice about a catalog and sample records, which are mapped by the entity names in hash keys."""
    for spec in catalog.entities.values():
        advisor = _EntityAdvisor(
            spec, records.get(spec.name, ()), _sample_capacity(catalog, spec, records.get(spec.name, ()))
        )
        for index in spec.indexes.values():
            if index.physical is not None:
                yield from advisor.find_hot_index(index)
                yield from advisor.find_incomplete_projection(index)
        yield from advisor.find_many_indexes()
        yield from advisor.find_ordering_problems()


def _sample_capacity(catalog: Catalog, spec: EntitySpec, records: Sequence[Entity]) -> EntityCapacity | None:
    """Return the capacity of the records, or None if no typical record can be made or keys cannot be derived."""
    try:
        return entity_capacity(catalog, spec, records or [typical_record(spec)], "")
    except ShardQLError:
        return None


@dataclass(frozen=True, slots=True)
class _EntityAdvisor:
    spec: EntitySpec
    records: Sequence[Entity]
    capacity: EntityCapacity | None

    def find_hot_index(self, index: IndexSpec) -> Iterator[Advice]:
        """Find an index with too few hash keys: all entries of one hash key share the throughput of one partition."""
        shards = 1 if index.sharded_like_parent else max(generation.size for generation in index.space.generations)
        choices = [_count_choices(part) for part in index.hash]
        counted = [count for count in choices if count is not None]
        if index.hash and len(counted) == len(choices):
            count, distribution = prod(counted), f"of {prod(counted)} values"
        elif index.hash:
            entries, count = self._hash_values(index)
            distribution = f"which {'has one value' if count == 1 else f'have {count} values'} in {entries:,} records"
            if entries < MIN_RECORDS:
                return
        elif index.space != self.spec.space:
            count, distribution = 1, ""
        else:
            return
        if count * shards >= MIN_HASH_KEYS:
            return
        keys = f"{count * shards} hash key{'s' if count * shards > 1 else ''}"
        over = "one shard" if shards == 1 else f"{shards} shards"
        by = (
            f"hashed by {' and '.join(part.name for part in index.hash)}, {distribution}, over {over}"
            if index.hash
            else ""
        )
        writes = count * shards * PARTITION_WRITES / self._index_value(index, lambda filled: filled.write_units, 1)
        yield Advice(
            self.spec.type_name,
            index.attribute,
            f"is {by or 'not sharded'}: all its entries share {keys}.",
            f"Together they support at most about {writes:,.0f} writes per second.",
            "Add shards, or hash by another property too." if index.hash else "Use the shards of its entity.",
        )

    def _hash_values(self, index: IndexSpec) -> tuple[int, int]:
        """Return the number of records in an index, and the number of their distinct hash values."""
        needed = [part.name for part in (*index.hash, *(sort.property for sort in index.sort[:1]))]
        found = Counter(
            tuple(getattr(record, part.name) for part in index.hash)
            for record in self.records
            if all(getattr(record, name) is not None for name in needed)
        )
        return found.total(), len(found)

    def find_incomplete_projection(self, index: IndexSpec) -> Iterator[Advice]:
        """Find an index that does not cover the record: missing properties are read record by record."""
        known: dict[str, Any] = dict.fromkeys(part.name for part in (*index.hash, *index.id_prefix))
        view = RowView(self.spec, index, known)
        missing = [name for name in self.spec.properties if not view.provides(name)]
        if not missing or self.capacity is None:
            return
        record_units = read_units(round(self.capacity.bytes))
        entry_bytes = self._index_value(index, lambda filled: filled.bytes, 0)
        rows = read_units(round(entry_bytes * (DEFAULT_LIMIT + 1)))
        yield Advice(
            self.spec.type_name,
            index.attribute,
            f"does not project {_listed(missing)}: selecting or filtering by one of them reads each record by key.",
            f"A page of {DEFAULT_LIMIT} then takes about {_number((DEFAULT_LIMIT + 1) * record_units + rows)} "
            f"read units, not {_number(rows)}; with a filter, {_number(record_units)} more for each record that "
            "is examined.",
            "Add the properties that pages select and filter by to its projection.",
            is_warning=False,
        )

    def find_many_indexes(self) -> Iterator[Advice]:
        """Find an entity with many indexes: every write of a record also writes its entries."""
        filled = [index for index in self.spec.indexes.values() if index.physical is not None]
        if len(filled) > MAX_INDEXES and self.capacity is not None:
            units = self.capacity.write_units
            yield Advice(
                self.spec.type_name,
                None,
                f"has {len(filled)} indexes, and every write of a record writes to all of them.",
                f"Creating a record takes about {_number(units.create)} write units, updating it "
                f"{_number(units.update)} to {_number(units.move)}.",
                "Remove unused indexes, or reduce their attributes with projection=.",
            )

    def find_ordering_problems(self) -> Iterator[Advice]:
        """Find text properties with numbers, dates or versions, which are sorted as text."""
        spec = self.spec
        ordered = {part.name: (index, part) for index in spec.indexes.values() for part in index.range_properties}
        sorts = {part.name for part in spec.sub_ids}
        sorts |= {sort.property.name for index in spec.indexes.values() if index.physical for sort in index.sort}
        for name, (index, part) in ordered.items():
            if not isinstance(part.codec, codecs.Text):
                continue
            values = {getattr(record, name) for record in self.records} - {None}
            if part in spec.sub_ids:
                values.discard(spec.current)
            found = find_ordering_problem(values, sorts=name in sorts - {part.name for part in spec.ids})
            if found is not None:
                yield Advice(
                    spec.type_name,
                    name,
                    f"is a text and contains {found.description}.",
                    f"A range by value must read the whole index: {self._full_read_cost(index)}.",
                    found.remedy,
                )

    def _full_read_cost(self, index: IndexSpec) -> str:
        size = self._index_value(
            index, lambda filled: filled.bytes, self.capacity.bytes if self.capacity else READ_UNIT_BYTES
        )
        return f"about {_number(read_units(round(size * 1_000)))} read units for each 1,000 records"

    def _index_value(self, index: IndexSpec, get: Callable[[IndexCapacity], float], otherwise: float) -> float:
        """Return a value of the capacity of an index, or `otherwise` if the index is empty."""
        filled = self.capacity.indexes if self.capacity is not None else ()
        return next((get(one) for one in filled if one.name == index.physical), otherwise)


def _count_choices(part: PropertySpec) -> int | None:
    """Return the number of possible values of an enum or boolean property, otherwise None."""
    if isinstance(part.codec, codecs.EnumCodec):
        return len(part.codec.enum_class)
    return 2 if isinstance(part.codec, codecs.Boolean) else None


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])} and {len(names) - 3} more" if len(names) > 4 else ", ".join(names)


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
