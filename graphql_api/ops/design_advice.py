"""What a catalog may do and seldom should, and what it costs: rules refuse, this advises.

Some of it shows in records alone.
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
from graphql_api.ops.text_ordering import wrong_order
from graphql_api.ops.typical_records import typical_record
from graphql_api.query import DEFAULT_LIMIT, RowView
from graphql_api.storage import READ_BYTES, read_units

MIN_HASH_KEYS = 10
"""over which the entries of an index should be able to spread"""

MIN_RECORDS = 50
"""in which few different values are no accident"""

MAX_INDEXES = 10
"""of one entity, before what they cost on every write is told"""

PARTITION_WRITES = 1_000
"""write units a second that one hash key takes"""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that stands out: where it is, what it costs, and what to do about it."""

    entity: str
    place: str | None
    problem: str
    cost: str
    remedy: str
    hurts: bool = True
    """it will be a nuisance some day; otherwise it is a price that one may well choose to pay"""

    def __str__(self) -> str:
        where = f"{self.entity}.{self.place}" if self.place else self.entity
        return f"{where}: {self.problem} {self.cost}"


def advice(catalog: Catalog, records: Mapping[str, Sequence[Entity]]) -> Iterator[Advice]:
    """What stands out in a catalog and in some records of its entities, by their names in hash keys."""
    for spec in catalog.entities.values():
        look = _Look(spec, records.get(spec.name, ()), _capacity(catalog, spec, records.get(spec.name, ())))
        for index in spec.indexes.values():
            if index.physical is not None:
                yield from look.hot(index)
                yield from look.partial(index)
        yield from look.many()
        yield from look.texts()


def _capacity(catalog: Catalog, spec: EntitySpec, records: Sequence[Entity]) -> EntityCapacity | None:
    """What records cost; None where none can be made up, or where they are older than the keys that they would get."""
    try:
        return entity_capacity(catalog, spec, records or [typical_record(spec)], "")
    except ShardQLError:
        return None


@dataclass(frozen=True, slots=True)
class _Look:
    spec: EntitySpec
    records: Sequence[Entity]
    capacity: EntityCapacity | None

    def hot(self, index: IndexSpec) -> Iterator[Advice]:
        """All entries with the same hash key share what one partition can take."""
        shards = 1 if index.like_parent else max(generation.size for generation in index.space.generations)
        choices = [_choices(part) for part in index.hash]
        counted = [count for count in choices if count is not None]
        if index.hash and len(counted) == len(choices):
            count, told = prod(counted), f"of {prod(counted)} values"
        elif index.hash:
            entries, count = self._hash_values(index)
            told = f"which {'has one value' if count == 1 else f'have {count} values'} in {entries:,} records"
            if entries < MIN_RECORDS:
                return
        elif index.space != self.spec.space:
            count, told = 1, ""
        else:
            return
        if count * shards >= MIN_HASH_KEYS:
            return
        keys = f"{count * shards} hash key{'s' if count * shards > 1 else ''}"
        over = "one shard" if shards == 1 else f"{shards} shards"
        by = f"hashed by {' and '.join(part.name for part in index.hash)}, {told}, over {over}" if index.hash else ""
        writes = count * shards * PARTITION_WRITES / self._of_index(index, lambda filled: filled.write_units, 1)
        yield Advice(
            self.spec.type_name,
            index.attribute,
            f"is {by or 'not sharded'}: all its entries lie under {keys}.",
            f"Together they take at most about {writes:,.0f} writes a second.",
            "Give it more shards, or hash by another property too."
            if index.hash
            else "Let its entity's shards be its.",
        )

    def _hash_values(self, index: IndexSpec) -> tuple[int, int]:
        """How many of the records are in an index, and under how many values."""
        needed = [part.name for part in (*index.hash, *(sort.property for sort in index.sort[:1]))]
        found = Counter(
            tuple(getattr(record, part.name) for part in index.hash)
            for record in self.records
            if all(getattr(record, name) is not None for name in needed)
        )
        return found.total(), len(found)

    def partial(self, index: IndexSpec) -> Iterator[Advice]:
        """What an index does not carry is fetched record by record."""
        known: dict[str, Any] = dict.fromkeys(part.name for part in (*index.hash, *index.lead))
        view = RowView(self.spec, index, known)
        lacking = [name for name in self.spec.properties if not view.tells(name)]
        if not lacking or self.capacity is None:
            return
        each = read_units(round(self.capacity.bytes))
        carried = self._of_index(index, lambda filled: filled.bytes, 0)
        rows = read_units(round(carried * (DEFAULT_LIMIT + 1)))
        yield Advice(
            self.spec.type_name,
            index.attribute,
            f"does not carry {_listed(lacking)}: records are fetched by key as soon as one is selected or filtered by.",
            f"A page of {DEFAULT_LIMIT} then takes about {_number((DEFAULT_LIMIT + 1) * each + rows)} read units, not "
            f"{_number(rows)}; under a filter, {_number(each)} more for each record that is looked at.",
            "List what pages show and filter by in its projection.",
            hurts=False,
        )

    def many(self) -> Iterator[Advice]:
        """Every write of a record writes its entries too."""
        filled = [index for index in self.spec.indexes.values() if index.physical is not None]
        if len(filled) > MAX_INDEXES and self.capacity is not None:
            units = self.capacity.write_units
            yield Advice(
                self.spec.type_name,
                None,
                f"has {len(filled)} indexes, all of which are written with a record.",
                f"Creating one takes about {_number(units.create)} write units, changing it {_number(units.update)} to "
                f"{_number(units.move)}.",
                "Leave out indexes that nobody searches, or carry less in them by projection=.",
            )

    def texts(self) -> Iterator[Advice]:
        """Texts that are numbers, dates or versions come in the order of texts."""
        spec = self.spec
        ordered = {part.name: (index, part) for index in spec.indexes.values() for part in index.range_parts}
        sorts = {part.name for part in spec.sub_ids}
        sorts |= {sort.property.name for index in spec.indexes.values() if index.physical for sort in index.sort}
        for name, (index, part) in ordered.items():
            if not isinstance(part.codec, codecs.Text):
                continue
            values = {getattr(record, name) for record in self.records} - {None}
            if part in spec.sub_ids:
                values.discard(spec.current)
            found = wrong_order(values, sorts=name in sorts - {part.name for part in spec.ids})
            if found is not None:
                yield Advice(
                    spec.type_name,
                    name,
                    f"is a text and holds {found.told}.",
                    f"A range by value has to look at all of them: {self._whole(index)}.",
                    found.remedy,
                )

    def _whole(self, index: IndexSpec) -> str:
        size = self._of_index(index, lambda filled: filled.bytes, self.capacity.bytes if self.capacity else READ_BYTES)
        return f"about {_number(read_units(round(size * 1_000)))} read units for each 1,000 records"

    def _of_index(self, index: IndexSpec, get: Callable[[IndexCapacity], float], otherwise: float) -> float:
        """A number of an index as the records fill it."""
        filled = self.capacity.indexes if self.capacity is not None else ()
        return next((get(one) for one in filled if one.name == index.physical), otherwise)


def _choices(part: PropertySpec) -> int | None:
    """How many values a property can have, where they are few."""
    if isinstance(part.codec, codecs.EnumCodec):
        return len(part.codec.enum_class)
    return 2 if isinstance(part.codec, codecs.Boolean) else None


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])} and {len(names) - 3} more" if len(names) > 4 else ", ".join(names)


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
