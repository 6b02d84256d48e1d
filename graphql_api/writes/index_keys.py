"""The key attributes of a record's indexes. What they need of its entity is compiled once.

Indexes share values, segments, shards and hash keys. Each of them is derived once for a record, however many indexes
contain it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from graphql_api.codecs import MAX_KEY_BYTES, SEP, Column, hash_key, join_columns, join_segments
from graphql_api.errors import InvalidValue, KeyTooLong, PropertyName, SearchName
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec, compiled_once, stored_value
from graphql_api.sharding import ShardSpace
from graphql_api.storage import Item, RangeType, is_number

T = TypeVar("T")

_UNREADABLE = object()
"""in place of a value that another application wrote, and that the index of another catalog cannot contain"""


class RecordIdentity(NamedTuple):
    """What places a record in a shard."""

    own_id: str
    """encoded, as `encode_id` returns it"""
    created: Any
    tenant: str | None


@dataclass(frozen=True, slots=True)
class _IndexPlan:
    """How the keys of one index follow from a record. Numbers are positions among what all indexes share."""

    index: IndexSpec
    hash_attribute: str
    range_attribute: str
    range_type: RangeType
    hash_values: tuple[int, ...]
    range_values: tuple[int, ...]
    columns: Sequence[Column]
    segments: Callable[[Sequence[str]], Sequence[str]]
    """selects those of the range value"""
    space: int | None
    """the shard space of the record's own id; None if the hash values select the shard"""
    hash_key: int
    """indexes without hash properties share theirs"""
    contains_all: bool
    """no value can keep a record out of the index"""

    def contains(self, values: Sequence[Any], item: Item) -> bool:
        """Return whether the index contains a record."""
        hash_values = [values[at] for at in self.hash_values]
        range_values = [values[at] for at in self.range_values]
        if None in hash_values or "" in hash_values or (range_values and range_values[0] is None):
            return False
        if _UNREADABLE in hash_values or _UNREADABLE in range_values:
            return False
        return not self.index.raw or is_plain_key(item.get(self.range_attribute, range_values[0]), self.range_type)


class IndexKeys:
    """Derives the key attributes of all indexes that contain a record of one entity."""

    def __init__(self, entity: EntitySpec) -> None:
        self._entity = entity
        self._parts: list[PropertySpec] = []
        self._columns: list[tuple[int, Column]] = []
        self._spaces: list[ShardSpace] = []
        self._hash_keys: list[tuple[Any, ...]] = []
        self._plans = [self._plan(index) for index in entity.written_indexes]
        self._steps = [
            (plan, plan.contains_all, plan.hash_attribute, plan.range_attribute, plan.hash_key, plan.segments)
            for plan in self._plans
        ]
        self._names = [part.name if self._is_declared(part) else None for part in self._parts]
        self._segments = [(at, column.segment) for at, column in self._columns]
        names = [name for name in self._names if name is not None]
        self._all_names = names if len(names) == len(self._names) else None
        """None: some values must be read from the attributes, since only other catalogs declare their properties"""

    def add_to(self, item: dict[str, Any], values: Mapping[str, Any], identity: RecordIdentity) -> None:
        """Add the key attributes to the attributes of a record with these values."""
        if self._all_names is not None:
            found = [values[name] for name in self._all_names]
        else:
            named = zip(self._names, self._parts, strict=True)
            found = [_stored_value(part, item) if name is None else values[name] for name, part in named]
        segments = ["" if found[at] is _UNREADABLE else segment(found[at]) for at, segment in self._segments]
        ordinals: dict[int, int] = {}
        hash_keys: dict[int, str] = {}
        for plan, contains_all, hash_attribute, range_attribute, shared, select in self._steps:
            if not (contains_all or plan.contains(found, item)):
                continue
            # Indexes that share a key attribute derive it in the same way.
            hash_text = range_value = None
            lacks_hash = hash_attribute not in item
            try:
                if lacks_hash:
                    hash_text = hash_keys.get(shared)
                    if hash_text is None:
                        hash_text = hash_keys[shared] = self._hash_key(plan, found, identity, ordinals)
                if range_attribute not in item:
                    range_value = SEP.join(select(segments))
                    if len(range_value) > MAX_KEY_BYTES or not range_value.isascii() or not range_value:
                        range_value = self._range_value(plan, found, segments)
            except KeyTooLong:
                if self._is_longest_declared(plan, found, is_hash=lacks_hash and hash_text is None):
                    raise
                continue  # Only another catalog declares the property. `shardql migrate` reports the record.
            if hash_text is not None:
                item[hash_attribute] = hash_text
            if range_value is not None:
                item[range_attribute] = range_value

    # --- the keys of one index ---------------------------------------------------------------------------------

    def _hash_key(
        self, plan: _IndexPlan, found: Sequence[Any], identity: RecordIdentity, ordinals: dict[int, int]
    ) -> str:
        index, space = plan.index, plan.index.space
        parts = [(part, found[at]) for part, at in zip(index.hash, plan.hash_values, strict=True)]
        encoded = [part.column.encode(value) for part, value in parts]
        if plan.space is None:
            ordinal = space.ordinal(join_segments(encoded), space.generation_at(identity.created))
        elif plan.space in ordinals:
            ordinal = ordinals[plan.space]
        else:
            ordinal = space.ordinal(identity.own_id, space.generation_at(identity.created))
            ordinals[plan.space] = ordinal
        named_values = [(part.stored, text) for part, text in zip(index.hash, encoded, strict=True)]
        try:
            return hash_key(index.hash_entity, space.shard_text(ordinal), named_values, identity.tenant)
        except KeyTooLong as problem:
            raise self._too_long_error(index, index.hash, encoded, problem) from problem

    def _range_value(self, plan: _IndexPlan, found: Sequence[Any], segments: Sequence[str]) -> Any:
        index = plan.index
        if index.raw:
            return plan.columns[0].codec.store(found[plan.range_values[0]])
        try:
            return join_columns(plan.columns, plan.segments(segments))
        except KeyTooLong as problem:
            values = [found[at] for at in plan.range_values]
            raise self._too_long_error(index, index.range_properties, values, problem) from problem

    def _too_long_error(
        self, index: IndexSpec, parts: Sequence[PropertySpec], values: Sequence[Any], problem: KeyTooLong
    ) -> KeyTooLong:
        """Return the error about a key that is too long, with its index and the longest of its values."""
        name = SearchName(self._entity.type_name, index.attribute)
        argument = longest_input(parts, values) or "tenant"
        return KeyTooLong("{index}: {problem}", index=name, problem=problem, argument=argument)

    def _is_longest_declared(self, plan: _IndexPlan, found: Sequence[Any], *, is_hash: bool) -> bool:
        """Return whether the entity declares the longest property of a key, or the tenant is too long."""
        parts, places = (plan.index.range_properties, plan.range_values)
        if is_hash:
            parts, places = (plan.index.hash, plan.hash_values)
        longest = _longest(parts, [found[at] for at in places])
        return longest is None or any(part.stored == longest.stored for part in self._entity.properties.values())

    # --- compiling ---------------------------------------------------------------------------------------------

    def _plan(self, index: IndexSpec) -> _IndexPlan:
        hash_values = tuple(_number(self._parts, part) for part in index.hash)
        range_values = tuple(_number(self._parts, part) for part in index.range_properties)
        places = zip(range_values, () if index.raw else index.columns, strict=False)
        segments = tuple(_number(self._columns, place) for place in places)
        first = index.range_properties[0] if index.range_properties else None
        parts = (*index.hash, *index.range_properties)
        return _IndexPlan(
            index,
            index.hash_attribute,
            index.range_attribute,
            index.definition.range_type,
            hash_values,
            range_values,
            index.columns,
            itemgetter(*segments) if len(segments) > 1 else lambda texts: [texts[at] for at in segments],
            None if index.sharded_like_parent else _number(self._spaces, index.space),
            _number(self._hash_keys, (index.hash_entity, index.space, index.hash_attribute if index.hash else None)),
            contains_all=not (index.raw or index.hash or (first is not None and first.nullable))
            and all(map(self._is_declared, parts)),
        )

    def _is_declared(self, part: PropertySpec) -> bool:
        return self._entity.properties.get(part.name) is part


@compiled_once
def index_keys(entity: EntitySpec) -> IndexKeys:
    """Return what derives the key attributes of an entity's records."""
    return IndexKeys(entity)


def _number(known: list[T], one: T) -> int:
    """Return the position of a value among the known ones. It is added if it is new."""
    if one not in known:
        known.append(one)
    return known.index(one)


def _stored_value(part: PropertySpec, attributes: Item) -> Any:
    try:
        return stored_value(part, attributes)
    except InvalidValue:
        return _UNREADABLE


# --- values that do not fit ------------------------------------------------------------------------------------


def is_plain_key(value: Any, key_type: RangeType) -> bool:
    """Return whether engines accept a stored value as the key of a raw index."""
    if key_type == "N":
        return is_number(value)
    return isinstance(value, str) and 0 < len(value.encode()) <= MAX_KEY_BYTES


def longest_input(parts: Sequence[PropertySpec], values: Sequence[Any]) -> PropertyName | None:
    """Return the property with the longest value, or the source that a derived one is computed from."""
    longest = _longest(parts, values)
    return None if longest is None else PropertyName(longest.input_names[0])


def _longest(parts: Sequence[PropertySpec], values: Sequence[Any]) -> PropertySpec | None:
    """Return the property with the longest value."""
    sizes = [len(str(value).encode(errors="surrogatepass")) for value in values]
    return parts[sizes.index(max(sizes))] if sizes else None
