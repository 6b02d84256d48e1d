"""Design advice: valid but costly designs of a catalog, and their costs. Validation rules refuse, advice informs.

Some problems are visible in records only.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from math import prod
from typing import Any

from graphql_api.codecs import MAX_KEY_BYTES
from graphql_api.errors import ShardQLError
from graphql_api.model import Catalog, Entity, EntitySpec, IndexSpec
from graphql_api.ops.item_capacity import IndexCapacity
from graphql_api.ops.record_capacity import EntityCapacity, entity_capacity, typical_record
from graphql_api.query import DEFAULT_LIMIT, RowView
from graphql_api.storage import READ_UNIT_BYTES, read_units

MIN_HASH_KEYS = 10
"""minimum number of hash keys over which the entries of an index should spread"""

MIN_RECORDS = 50
"""minimum number of records for which few distinct values are significant"""

PARTITION_WRITES = 1_000
"""write units per second that one hash key supports"""


@dataclass(frozen=True, slots=True)
class Advice:
    """One finding: where it is, what it costs, and what to do about it."""

    entity: str
    attribute: str
    problem: str
    cost: str
    remedy: str
    is_warning: bool = True
    """a likely future problem; otherwise a cost that may be acceptable"""

    def __str__(self) -> str:
        return f"{self.entity}.{self.attribute}: {self.problem} {self.cost}"


def find_advice(catalog: Catalog, records: Mapping[str, Sequence[Entity]]) -> Iterator[Advice]:
    """Return advice about a catalog and sample records, which are mapped by the entity names in hash keys."""
    for spec in catalog.entities.values():
        samples = records.get(spec.name, ())
        try:
            capacity = entity_capacity(catalog, spec, samples or [typical_record(spec)], "")
        except ShardQLError:  # No typical record can be made, or keys cannot be derived.
            capacity = None
        advisor = _EntityAdvisor(spec, samples, capacity)
        for index in spec.indexes.values():
            if index.physical is not None:
                yield from advisor.find_hot_index(index)
                yield from advisor.find_incomplete_projection(index)
        yield from advisor.find_ordering_problems()
    yield from _find_shared_keys(catalog)


def _find_shared_keys(catalog: Catalog) -> Iterator[Advice]:
    """Find texts that are stored where a raw index of another entity has its key, which no engine accepts empty."""
    raw = {
        index.range_attribute: (spec, index)
        for spec in catalog.entities.values()
        for index in spec.indexes.values()
        if index.raw and index.physical is not None
    }
    for spec in catalog.entities.values():
        own = {index.range_attribute for index in spec.indexes.values() if index.raw}
        for part in spec.properties.values():
            owner, index = raw.get(part.stored, (None, None))
            if owner is not None and index is not None and part.kind == "text" and part.stored not in own:
                yield Advice(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, the plain key of {owner.type_name}.{index.attribute}.",
                    f"So its values can be neither empty nor longer than {MAX_KEY_BYTES:,} bytes.",
                    'Store it under another name by stored("…").',
                )


@dataclass(frozen=True, slots=True)
class _EntityAdvisor:
    spec: EntitySpec
    records: Sequence[Entity]
    capacity: EntityCapacity | None

    def find_hot_index(self, index: IndexSpec) -> Iterator[Advice]:
        """Find an index with too few hash keys: all entries of one hash key share the throughput of one partition."""
        shards = 1 if index.sharded_like_parent else max(generation.size for generation in index.space.generations)
        choices = [part.column.codec.cardinality for part in index.hash]
        count, design = 1, "is not sharded"
        if index.hash:
            if None not in choices:
                count = prod(filter(None, choices))
                distribution = f"of {count} values"
            else:
                entries, count = self._count_hash_values(index)
                values = "has one value" if count == 1 else f"have {count} values"
                distribution = f"which {values} in {entries:,} records"
                if entries < MIN_RECORDS:
                    return
            names = " and ".join(part.name for part in index.hash)
            over = "one shard" if shards == 1 else f"{shards} shards"
            design = f"is hashed by {names}, {distribution}, over {over}"
        elif index.space == self.spec.space:
            return
        hash_keys = count * shards
        if hash_keys >= MIN_HASH_KEYS:
            return
        capacity = self._index_capacity(index)
        writes = hash_keys * PARTITION_WRITES / (capacity.write_units if capacity else 1)
        yield Advice(
            self.spec.type_name,
            index.attribute,
            f"{design}: all its entries share {hash_keys} hash key{'s' if hash_keys > 1 else ''}.",
            f"Together they support at most about {writes:,.0f} writes per second.",
            "Add shards, or hash by another property too." if index.hash else "Use the shards of its entity.",
        )

    def _count_hash_values(self, index: IndexSpec) -> tuple[int, int]:
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
        view = RowView(self.spec, index, dict.fromkeys(part.name for part in index.required))
        missing = [name for name in self.spec.properties if not view.provides(name)]
        if not missing or self.capacity is None:
            return
        listed = f"{', '.join(missing[:3])} and {len(missing) - 3} more" if len(missing) > 4 else ", ".join(missing)
        record_units = read_units(round(self.capacity.bytes))
        entries = self._index_capacity(index)
        rows = read_units(round((entries.bytes if entries else 0) * (DEFAULT_LIMIT + 1)))
        yield Advice(
            self.spec.type_name,
            index.attribute,
            f"does not project {listed}: selecting or filtering by one of them reads each record by key.",
            f"A page of {DEFAULT_LIMIT} then takes about {_number((DEFAULT_LIMIT + 1) * record_units + rows)} "
            f"read units, not {_number(rows)}; with a filter, {_number(record_units)} more for each record that "
            "is examined.",
            "Add the properties that pages select and filter by to its projection.",
            is_warning=False,
        )

    def find_ordering_problems(self) -> Iterator[Advice]:
        """Find text properties with numbers or dates, which are sorted as text."""
        spec = self.spec
        ordered = {part.name: (index, part) for index in spec.indexes.values() for part in index.range_properties}
        sorts = {part.name for part in spec.sub_ids}
        sorts |= {sort.property.name for index in spec.indexes.values() if index.physical for sort in index.sort}
        sorts -= {part.name for part in spec.ids}
        for name, (index, part) in ordered.items():
            if part.codec is None or part.codec.kind != "text":
                continue
            values = {getattr(record, name) for record in self.records} - {None}
            if part in spec.sub_ids:
                values.discard(spec.current)
            found = find_ordering_problem(values, sorts=name in sorts)
            if found is not None:
                problem, remedy = found
                sized = self._index_capacity(index) or self.capacity
                units = _number(read_units(round((sized.bytes if sized else READ_UNIT_BYTES) * 1_000)))
                yield Advice(
                    spec.type_name,
                    name,
                    f"is a text and contains {problem}.",
                    f"A range by value must read the whole index: about {units} read units for each 1,000 records.",
                    remedy,
                )

    def _index_capacity(self, index: IndexSpec) -> IndexCapacity | None:
        """Return the capacity of an index, or None if the index is empty."""
        capacities = self.capacity.indexes if self.capacity is not None else ()
        return next((one for one in capacities if one.name == index.physical), None)


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


# --- texts that represent numbers, dates or times, and sort differently as texts --------------------------------

MAX_NUMBER_LENGTH = 10
"""digits; longer texts are identifiers such as phone numbers, which need no numeric order"""

_DECIMAL = re.compile(rf"\d{{1,{MAX_NUMBER_LENGTH}}}(\.\d{{1,{MAX_NUMBER_LENGTH}}})?", re.ASCII)
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}(?P<joint>[T ])\d{2}:\d{2}(?P<seconds>:\d{2})?(?P<fraction>[.,]\d+)?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)


def find_ordering_problem(texts: Collection[str], *, sorts: bool) -> tuple[str, str] | None:
    """Return the ordering problem of texts that are all of one kind, with an example, and its remedy.

    With `sorts`, the texts are sort values. Otherwise they are ids, which may look like decimals without meaning.
    """
    for kind, parse, remedy in _KINDS + (_SORT_KINDS if sorts else ()):
        values = {text: parse(text) for text in texts}
        if None not in values.values():
            for first, second in pairwise(sorted(values)):
                if values[first] > values[second]:
                    return f"{kind}: {first!r} comes before {second!r}", remedy
    examples = {_timestamp_format(text): text for text in sorted(texts, reverse=True)} if sorts else {}
    if len(examples) > 1 and None not in examples:
        first, second = sorted(examples.values())[:2]
        return f"{_TIMESTAMPS}: {first!r} and {second!r}", _USE_DATETIME
    return None


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_LENGTH else None


def _parse_decimal(text: str) -> Decimal | None:
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def _parse_date(text: str, month_group: int, day_group: int) -> tuple[int, int, int] | None:
    found = _DATE.fullmatch(text)
    if found is None or not 1 <= int(found[month_group]) <= 12 or not 1 <= int(found[day_group]) <= 31:
        return None
    return int(found[4]), int(found[month_group]), int(found[day_group])


def _parse_timestamp(text: str) -> datetime | None:
    try:
        timestamp = datetime.fromisoformat(text) if _TIMESTAMP.fullmatch(text) else None
    except ValueError:
        return None
    return timestamp.replace(tzinfo=UTC) if timestamp is not None and timestamp.tzinfo is None else timestamp


def _timestamp_format(text: str) -> tuple[str | int, ...] | None:
    """Return what distinguishes the format of a timestamp from other formats, or None for other texts."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None or _parse_timestamp(text) is None:
        return None
    return found["joint"], found["seconds"] is None, len(found["fraction"] or ""), found["zone"] or ""


_TIMESTAMPS = "timestamps in several formats"
_USE_DATE = "Declare it as date, or write the year first: 2026-01-31."
_USE_DATETIME = "Declare it as datetime, or use UTC with the same digits everywhere: 2026-01-31T10:30:00Z."
_KINDS: tuple[tuple[str, Callable[[str], Any], str], ...] = (
    ("numbers", _parse_number, "Declare it as int, or pad the numbers with zeros to one width."),
    ("dates that begin with the day", lambda text: _parse_date(text, 3, 1), _USE_DATE),
    ("dates that begin with the month", lambda text: _parse_date(text, 1, 3), _USE_DATE),
)
_SORT_KINDS: tuple[tuple[str, Callable[[str], Any], str], ...] = (
    ("decimal numbers", _parse_decimal, "Declare it as Decimal."),
    (_TIMESTAMPS, _parse_timestamp, _USE_DATETIME),
)
