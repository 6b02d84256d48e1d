"""A catalog as data: what was declared, resolved and frozen. Everything downstream reads these, never the classes."""

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphql_api.codecs import Codec, Column
from graphql_api.model.access_declarations import Rules
from graphql_api.model.join_declarations import Kind
from graphql_api.sharding import ShardSpace
from graphql_api.storage import Projection

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity


@dataclass(frozen=True)
class PropertySpec:
    """A property of an entity."""

    name: str
    """as Python calls it"""
    stored: str
    """the attribute in the record"""
    codec: Codec[Any] | None
    """how the value is stored and ordered; None for what can be no part of a key: lists, maps, models, bytes, sets"""
    nullable: bool
    description: str | None = None
    function: Callable[..., Any] | None = None
    """of a derived property: computes it from the sources"""
    sources: tuple[str, ...] = ()
    """of a derived property: Python names of what it is computed from"""
    null_is_stored: bool = False
    """null is kept in the record, since leaving it out would mean another default"""
    allow: Rules | None = None
    """who may read it; None: whoever may read the record"""
    immutable: bool = False
    """never changes once its record is there"""
    counts: tuple[str, ...] | None = None
    """of a counter: Python names of the properties whose values form a group; None: it is no counter"""

    @cached_property
    def column(self) -> Column:
        """The property as part of a key, in its natural order."""
        assert self.codec is not None, "the catalog's rules let no other property into a key"
        return Column(self.stored, self.codec)

    @property
    def given_by(self) -> tuple[str, ...]:
        """Python names of what says its value: what it is computed from, or itself."""
        return self.sources or (self.name,)

    @property
    def searched(self) -> Callable[[Any], Any] | None:
        """What is applied to a search argument, as it was to the stored value."""
        return self.function if len(self.sources) == 1 else None


@dataclass(frozen=True, slots=True)
class SortProperty:
    """A property in an index's order, and its direction there."""

    property: PropertySpec
    descending: bool = False

    @builtins.property
    def column(self) -> Column:
        """The property as part of a key, in its direction."""
        return replace(self.property.column, descending=self.descending)


@dataclass(frozen=True)
class IndexSpec:
    """One way to search an entity.

    The hash key is `head!shard|hash properties`, the range value `lead | sort | tail`, or on a raw index the one plain
    attribute.
    """

    entity: str
    """name of the entity, as in hash keys: `user`"""
    attribute: str
    """as Python calls it: `by_first_name`; `by_id` for the table itself"""
    name: str
    """as GraphQL calls it: `firstName`"""
    physical: str | None
    """the engine's index; None: the table itself"""
    hash_attribute: str
    range_attribute: str
    head: str
    """the entity whose name stands in front of the hash key: the own one, or the parent whose shards it shares"""
    space: ShardSpace
    """the shard generations of the head, or the space of one unnamed shard"""
    like_parent: bool
    """sharded by the hash properties, which are the parent's unique id, not by the record's own id"""
    hash: tuple[PropertySpec, ...]
    """part of the hash key: always given"""
    lead: tuple[PropertySpec, ...]
    """the unique id in front of the range value of `by_id` where records have a sub id: always given"""
    sort: tuple[SortProperty, ...]
    """the declared order, where conditions apply"""
    tail: tuple[PropertySpec, ...]
    """what makes the range value unique: the rest of the primary key"""
    raw: bool
    """the range value is the plain attribute: rows may tie"""
    projection: Projection = "ALL"
    """stored names where it is a tuple"""
    allow: Rules | None = None
    """who may search it; None: as the entity says"""

    @cached_property
    def range_parts(self) -> tuple[PropertySpec, ...]:
        """The properties that the range value is made of, in order."""
        return (*self.lead, *(part.property for part in self.sort), *self.tail)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The whole range value of an encoded index."""
        parts: tuple[PropertySpec | SortProperty, ...] = (*self.lead, *self.sort, *self.tail)
        return tuple(part.column for part in parts)


@dataclass(frozen=True, slots=True)
class UnionSpec:
    """Several indexes of an entity that are searched one after the other, none of their records twice."""

    attribute: str
    """as Python calls it: `by_name`"""
    name: str
    """as GraphQL calls it: `name`"""
    members: tuple[IndexSpec, ...]
    allow: Rules | None = None
    """who may search it; None: as the entity says"""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """Records of another entity, found by what a record holds."""

    name: str
    """as Python calls it"""
    kind: Kind
    target: str
    """name of the other entity, as in hash keys"""
    via: str | None
    """Python name of its index or union; None: by its primary key"""
    by: tuple[PropertySpec, ...]
    """own properties: their values are the other's key, or what its search is given"""
    gives: tuple[str, ...]
    """Python names of the other's properties that get these values, in the same order"""
    description: str | None = None


@dataclass(frozen=True, slots=True)
class UniqueSpec:
    """Properties whose values together belong to one record at most."""

    name: str
    """in records: the property's stored name, or the attribute in camelCase"""
    attribute: str
    """as Python calls it"""
    parts: tuple[PropertySpec, ...]


@dataclass(frozen=True, slots=True)
class ForeignKeySpec:
    """A record of another entity without which a record cannot be."""

    name: str
    """the attribute in camelCase"""
    parent: "EntitySpec"
    """the other entity, without what joins it and what must hold of it"""
    by: tuple[PropertySpec, ...]
    """own properties: their values are the other's id"""


@dataclass(frozen=True, slots=True)
class EntitySpec:
    """An entity of the catalog."""

    name: str
    """as in hash keys: `orderTracking`"""
    type_name: str
    """as GraphQL calls it: `OrderTracking`"""
    model: type["Entity"]
    description: str | None
    properties: Mapping[str, PropertySpec]
    """by Python name, in declared order"""
    ids: tuple[PropertySpec, ...]
    """none: a singleton"""
    sub_ids: tuple[PropertySpec, ...]
    created: PropertySpec | None
    """what decides the shard generation"""
    space: ShardSpace
    indexes: Mapping[str, IndexSpec]
    """by Python name; `by_id` first"""
    separator: str = "/"
    """between the parts of a composite id, outside"""
    unions: Mapping[str, UnionSpec] = field(default_factory=dict)
    """by Python name"""
    ttl: PropertySpec | None = None
    """the second from which on an engine may remove a record"""
    joins: Mapping[str, JoinSpec] = field(default_factory=dict)
    """by Python name"""
    allow: Rules | None = None
    """who may read its records; None: everybody"""
    current: str | None = None
    """the sub id of the entry that always holds the latest state of its id"""
    write: Rules | None = None
    """who may write its records; None: whoever may read them"""
    updated: PropertySpec | None = None
    """set by the server at every write"""
    version: PropertySpec | None = None
    """counts the writes of a record"""
    unique: tuple[UniqueSpec, ...] = ()
    foreign_keys: tuple[ForeignKeySpec, ...] = ()
    children: "tuple[EntitySpec, ...]" = ()
    """the entities that have foreign keys to this one, without their own children"""

    @property
    def primary(self) -> tuple[PropertySpec, ...]:
        """What tells one record from all others."""
        return self.ids + self.sub_ids

    @property
    def writers(self) -> Rules | None:
        """Who may write its records; None: everybody."""
        return self.allow if self.write is None else self.write

    @property
    def counters(self) -> tuple[PropertySpec, ...]:
        """What counts its records."""
        return tuple(part for part in self.properties.values() if part.counts is not None)

    @property
    def is_constrained(self) -> bool:
        """Whether it takes a look at other records, or at the one that stands there, to write one."""
        fixed = self.version is not None or any(part.immutable for part in self.properties.values())
        return fixed or bool(self.unique or self.foreign_keys or self.counters)
