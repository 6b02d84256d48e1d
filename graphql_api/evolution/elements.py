"""Elements: everything declared whose effect is stored or enforced, as data.

The table's record keeps the definition of each element. So a server maintains elements of other catalogs too: it
builds their specifications from the recorded definitions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from hashlib import blake2b
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import orjson

from graphql_api.codecs import CODECS, Codec, EnumCodec
from graphql_api.errors import CatalogBehind, InvalidValue
from graphql_api.model import (
    Catalog,
    EntitySpec,
    ForeignKeySpec,
    IndexSpec,
    PropertySpec,
    SortProperty,
    UniqueSpec,
    lookup_spec,
)
from graphql_api.sharding import ONE_SHARD, ShardSpace

ElementKind = Literal[
    "property",
    "index",
    "lookup",
    "unique",
    "foreign key",
    "current record",
    "generation",
    "derived property",
    "server-set",
    "entity version",
]
State = Literal["announced", "building", "switching", "ready", "closing", "dropping"]

MAINTAINED: frozenset[State] = frozenset({"building", "ready", "closing"})
"""states in which all servers maintain and enforce an element"""

Data = Mapping[str, Any]
"""a definition: text, whole numbers, booleans, lists and maps, as the table stores them"""

WITHOUT_EFFECT = frozenset({"attribute", "members"})
"""names of indexes are only for messages, and enums grow: `Element.fits` compares their members"""


@dataclass(frozen=True)
class Element:
    """An element of the table."""

    kind: ElementKind
    entity: str
    """name of the entity in hash keys"""
    name: str
    definition: Data = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """The key of the element in the table's record."""
        return f"{self.entity} {self.kind} {self.name}"

    @property
    def concerned(self) -> tuple[str, ...]:
        """Return the entities whose writes the element concerns."""
        return (self.entity, self.definition["parent"]) if self.kind == "foreign key" else (self.entity,)

    @cached_property
    def digest(self) -> str:
        """A digest of what determines how servers maintain the element, but the members of enums."""
        text = orjson.dumps(_effect(self.definition), option=orjson.OPT_SORT_KEYS)
        return blake2b(text, digest_size=12).hexdigest()

    @cached_property
    def derived(self) -> frozenset[str]:
        """The stored names of the derived properties that the element uses."""
        return frozenset(part["stored"] for part in _parts(self.definition) if part.get("derived"))

    def fits(self, other: "Element") -> bool:
        """Return whether servers maintain two definitions equally: an enum may have further members in one of them."""
        return self.digest == other.digest and have_same_members(self.definition, other.definition)

    def is_apart_from(self, other: "Element") -> bool:
        """Return whether two lookups keep their mapping items in different stores."""
        return self.kind == "lookup" and self.definition.get("store") != other.definition.get("store")

    def __str__(self) -> str:
        return f"{self.kind} {self.entity}.{self.name}"


def element_of_id(id: str, definition: Data | None = None) -> Element:
    """Return the element with an id, such as `user index town`."""
    entity, _, rest = id.partition(" ")
    kind: ElementKind = next(kind for kind in get_args(ElementKind) if rest.startswith(f"{kind} "))
    return Element(kind, entity, rest.removeprefix(f"{kind} "), definition or {})


def _effect(value: Any) -> Any:
    """Return what of a definition determines how servers maintain it, in one form for all engines."""
    if isinstance(value, Mapping):
        return {name: _effect(part) for name, part in value.items() if name not in WITHOUT_EFFECT}
    if isinstance(value, list | tuple):
        return [*map(_effect, value)]
    return value if value is None or isinstance(value, str | bool) else int(value)


def _parts(data: Data) -> Iterator[Data]:
    """Yield the properties in a definition, in a fixed order."""
    lists = (data[name] for name in sorted(data) if isinstance(data[name], list | tuple))
    return (part for parts in lists for part in parts if isinstance(part, Mapping))


def _enums(data: Data) -> list[list[Any]]:
    return [[*part["members"]] for part in _parts(data) if "members" in part]


def have_same_members(one: Data, two: Data) -> bool:
    """Return whether the enums of two definitions have the same members in the same order, as far as both go."""
    enums = zip(_enums(one), _enums(two), strict=True)
    return all(first[: len(second)] == second[: len(first)] for first, second in enums)


def with_more_members(stored: Data, declared: Data) -> Data:
    """Return a stored definition, with the members that enums of a fitting declared one have in addition."""

    def extended(old: Any, new: Any) -> Any:
        if not isinstance(old, Mapping):
            return old
        return {**old, "members": max(old["members"], new["members"], key=len)} if "members" in old else old

    merged = {
        name: [*map(extended, value, declared[name])] if isinstance(value, list | tuple) else value
        for name, value in stored.items()
    }
    return merged if _enums(merged) != _enums(stored) else stored


# --- definitions of declared elements --------------------------------------------------------------------------


_declared: WeakKeyDictionary[Catalog, Mapping[str, Element]] = WeakKeyDictionary()


def declared_elements(catalog: Catalog) -> Mapping[str, Element]:
    """Return all elements of a catalog, by id."""
    if catalog not in _declared:
        elements = (element for entity in catalog.entities.values() for element in _elements_of(entity))
        _declared[catalog] = {element.id: element for element in elements}
    return _declared[catalog]


def _elements_of(entity: EntitySpec) -> Iterator[Element]:
    for part in entity.properties.values():
        yield Element("property", entity.name, part.stored)
        if part.function is not None:
            yield derived_element(entity.name, part.stored, part.version)
        for role in sorted(server_set_roles(entity, part)):
            yield Element("server-set", entity.name, f"{part.stored}.{role}", _role_data(entity, part))
    for index in entity.indexes.values():
        if index.physical is not None:
            yield Element("index", entity.name, index.physical, _index_data(index))
        elif index.lookup is not None:
            yield Element("lookup", entity.name, index.lookup, _lookup_data(index))
    for unique in entity.unique:
        yield Element("unique", entity.name, unique.name, {"parts": parts_data(unique.parts)})
    for foreign_key in entity.foreign_keys:
        definition: Data = {"parent": foreign_key.parent.name, "by": parts_data(foreign_key.by)}
        yield Element("foreign key", entity.name, foreign_key.name, definition)
    if entity.current is not None:
        yield Element("current record", entity.name, "current", {"subId": entity.current})
    for number, generation in enumerate(entity.space.generations):
        if number:
            assert entity.created is not None, "catalog validation requires a creation property for generations"
            since = entity.created.column.codec.format(generation.since)
            definition = {"since": since, "size": generation.size, "created": part_data(entity.created)}
            yield Element("generation", entity.name, f"{number}", definition)


def derived_element(entity: str, stored: str, version: int) -> Element:
    """Return the element of one version of a derived property."""
    return Element("derived property", entity, f"{stored}@{version}", {"stored": stored, "version": version})


def server_set_roles(entity: EntitySpec, part: PropertySpec) -> set[str]:
    """Return what servers do with a property at each write."""
    roles = {"version": entity.version, "updated": entity.updated, "expiry": entity.ttl}
    found = {role for role, has_role in roles.items() if has_role is part}
    found |= {"counter"} if part.counter_group is not None else set()
    return found | ({"immutable"} if part.immutable else set())


def _role_data(entity: EntitySpec, part: PropertySpec) -> dict[str, Any]:
    group = parts_data(entity.properties[name] for name in part.counter_group or ())
    parts = [] if part.codec is None else parts_data([part])
    return {"stored": part.stored, "parts": parts, **({"group": group} if group else {})}


def _index_data(index: IndexSpec) -> dict[str, Any]:
    definition = index.definition
    return {
        "attribute": index.attribute,
        "hashAttribute": index.hash_attribute,
        "rangeAttribute": index.range_attribute,
        "rangeType": definition.range_type,
        "projection": _projection_data(definition.projection),
        "hashEntity": index.hash_entity,
        "isSharded": index.is_sharded,
        "isShardedLikeParent": index.sharded_like_parent,
        "isRaw": index.raw,
        "hash": parts_data(index.hash),
        "sort": [{**part_data(part.property), "descending": part.descending} for part in index.sort],
        "tieBreaker": parts_data(index.tie_breaker),
    }


def _lookup_data(lookup: IndexSpec) -> dict[str, Any]:
    store = {} if lookup.lookup_store is None else {"store": lookup.lookup_store}
    return {"parts": parts_data(lookup.hash), **store}


def _projection_data(projection: Any) -> Any:
    return sorted(projection) if isinstance(projection, tuple) else projection


def parts_data(parts: Iterable[PropertySpec]) -> list[dict[str, Any]]:
    """Return the definitions of properties in keys, in order."""
    return [part_data(part) for part in parts]


def part_data(part: PropertySpec) -> dict[str, Any]:
    """Return the definition of a property in a key."""
    assert part.codec is not None, "validation allows only properties with a codec in keys"
    data: dict[str, Any] = {"stored": part.stored, "codec": part.codec.name}
    if isinstance(part.codec, EnumCodec):
        data["members"] = [member.value for member in part.codec.enum_class]
    default = _default_text(part)
    if default is not None:
        data["default"] = default
    if part.function is not None:
        data["derived"] = True
    return data


def _default_text(part: PropertySpec) -> str | None:
    """Return the default as text, which all engines keep unchanged; None if it is no value of the property."""
    try:
        return None if part.default is None else part.column.codec.format(part.default)
    except InvalidValue:
        return None


# --- specifications of recorded elements -----------------------------------------------------------------------

_CODEC_BY_NAME: Mapping[str, Codec[Any]] = {codec.name: codec for codec in CODECS}


def part_from_data(data: Data) -> PropertySpec:
    """Return a property of a recorded element. It need not be a property of this server's catalog."""
    name, members = data["codec"], data.get("members")
    codec = _CODEC_BY_NAME.get(name) if members is None else _enum_codec(tuple(members))
    if codec is None:
        raise CatalogBehind(
            f"The table stores {data['stored']} as {name}, which this release does not know: update it."
        )
    default = None if data.get("default") is None else codec.parse(data["default"])
    return PropertySpec(data["stored"], data["stored"], codec, nullable=True, default=default)


_functional_enum: Any = Enum


@cache
def _enum_codec(values: tuple[Any, ...]) -> Codec[Any]:
    members = {f"member_{number}": value for number, value in enumerate(values)}
    return EnumCodec(_functional_enum("RecordedEnum", members))


def parts_from_data(parts: Sequence[Data]) -> tuple[PropertySpec, ...]:
    """Return the properties of a recorded element, in order."""
    return tuple(map(part_from_data, parts))


def index_from_data(element: Element, space: ShardSpace) -> IndexSpec:
    """Return the specification of a recorded index. `space`: the shard space of its hash entity."""
    data = element.definition
    projection = data["projection"]
    return IndexSpec(
        entity=element.entity,
        attribute=data["attribute"],
        name=element.name,
        physical=element.name,
        hash_attribute=data["hashAttribute"],
        range_attribute=data["rangeAttribute"],
        hash_entity=data["hashEntity"],
        space=space if data["isSharded"] else ONE_SHARD,
        is_sharded=data["isSharded"],
        sharded_like_parent=data["isShardedLikeParent"],
        hash=parts_from_data(data["hash"]),
        sort=tuple(SortProperty(part_from_data(part), part["descending"]) for part in data["sort"]),
        tie_breaker=parts_from_data(data["tieBreaker"]),
        raw=data["isRaw"],
        projection=tuple(projection) if isinstance(projection, list) else projection,
    )


def lookup_from_data(element: Element) -> IndexSpec:
    """Return the specification of a recorded lookup, as far as writes need it."""
    return lookup_spec(element.entity, element.name, parts_from_data(element.definition["parts"]))


def unique_from_data(element: Element) -> UniqueSpec:
    """Return the specification of a recorded unique constraint."""
    return UniqueSpec(element.name, element.name, parts_from_data(element.definition["parts"]))


def foreign_key_from_data(element: Element, parent: EntitySpec) -> ForeignKeySpec:
    """Return the specification of a recorded foreign key."""
    return ForeignKeySpec(element.name, parent, parts_from_data(element.definition["by"]))
