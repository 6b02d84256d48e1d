"""Specifications: the resolved, immutable form of a catalog. Other packages read these instead of the classes."""

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphql_api.codecs import Codec, Column
from graphql_api.model.access_declarations import Rules
from graphql_api.model.join_declarations import JoinKind
from graphql_api.sharding import ShardSpace
from graphql_api.storage import Projection

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity


@dataclass(frozen=True)
class PropertySpec:
    """A property of an entity."""

    name: str
    """the Python name"""
    stored: str
    """the attribute in stored records"""
    codec: Codec[Any] | None
    """how the value is stored and ordered; None for lists, maps, models, bytes and sets, which cannot be in keys"""
    nullable: bool
    description: str | None = None
    function: Callable[..., Any] | None = None
    """computes a derived property from its sources"""
    sources: tuple[str, ...] = ()
    """Python names of the properties that a derived property is computed from"""
    null_is_stored: bool = False
    """null is stored explicitly, because a missing attribute means a default other than null"""
    allow: Rules | None = None
    """who may read it; None: every caller who may read the record"""
    immutable: bool = False
    """never changes after the record was created"""
    counter_group: tuple[str, ...] | None = None
    """Python names of the properties whose values form the group of a counter; None: it is no counter"""

    @cached_property
    def column(self) -> Column:
        """The property as a column of a key, in ascending order."""
        assert self.codec is not None, "validation allows only properties with a codec in keys"
        return Column(self.stored, self.codec)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Python names of the properties that determine its value: its sources, or itself."""
        return self.sources or (self.name,)

    @property
    def search_function(self) -> Callable[[Any], Any] | None:
        """The function of a derived property with one source. Search arguments are converted by it as well."""
        return self.function if len(self.sources) == 1 else None


@dataclass(frozen=True, slots=True)
class SortProperty:
    """A sort property of an index, with its direction."""

    property: PropertySpec
    descending: bool = False

    @builtins.property
    def column(self) -> Column:
        """The property as a column of a key, in the direction of the index."""
        return replace(self.property.column, descending=self.descending)


@dataclass(frozen=True)
class IndexSpec:
    """An index of an entity, or its primary index `by_id`.

    The hash key is `hash entity!shard|hash properties`. The range value is `id prefix | sort | tie-breaker`.
    The range key of a raw index is the stored attribute of its only sort property.
    """

    entity: str
    """name of the entity in hash keys: `user`"""
    attribute: str
    """Python name: `by_first_name`; `by_id` for the table itself"""
    name: str
    """GraphQL name: `firstName`"""
    physical: str | None
    """name of the engine's index; None for the table itself"""
    hash_attribute: str
    range_attribute: str
    hash_entity: str
    """the entity whose name begins the hash key: the index's own entity, or the parent whose shards it shares"""
    space: ShardSpace
    """the shard space of the hash entity, or one shard if the index is not sharded"""
    sharded_like_parent: bool
    """whether the shard depends on the hash properties, which hold the parent's id, and not on the record's own id"""
    hash: tuple[PropertySpec, ...]
    """properties in the hash key: required by every search"""
    id_prefix: tuple[PropertySpec, ...]
    """the ids that begin the range value of `by_id` if records have sub ids: required by every search"""
    sort: tuple[SortProperty, ...]
    """the declared sort order; conditions apply to these properties"""
    tie_breaker: tuple[PropertySpec, ...]
    """the remaining properties of the primary key, which make the range value unique"""
    raw: bool
    """whether the range key is a stored attribute; several records may then have the same key"""
    projection: Projection = "ALL"
    """a tuple contains stored names"""
    allow: Rules | None = None
    """who may search it; None: the rules of the entity apply"""

    @cached_property
    def range_properties(self) -> tuple[PropertySpec, ...]:
        """The properties in the range value, in order."""
        return (*self.id_prefix, *(part.property for part in self.sort), *self.tie_breaker)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the range value. Raw indexes do not use them."""
        parts: tuple[PropertySpec | SortProperty, ...] = (*self.id_prefix, *self.sort, *self.tie_breaker)
        return tuple(part.column for part in parts)


@dataclass(frozen=True, slots=True)
class UnionSpec:
    """Several indexes of an entity that are searched in order, without duplicate records."""

    attribute: str
    """Python name: `by_name`"""
    name: str
    """GraphQL name: `name`"""
    members: tuple[IndexSpec, ...]
    allow: Rules | None = None
    """who may search it; None: the rules of the entity apply"""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A join: related records of another entity."""

    name: str
    """Python name"""
    kind: JoinKind
    target: str
    """name of the other entity in hash keys"""
    via: str | None
    """Python name of the other entity's index or union; None: its primary key"""
    by: tuple[PropertySpec, ...]
    """own properties, whose values are the key or the search arguments of the other entity"""
    target_properties: tuple[str, ...]
    """Python names of the other entity's properties that match `by`, in the same order"""
    description: str | None = None


@dataclass(frozen=True, slots=True)
class UniqueSpec:
    """Properties whose values are unique together."""

    name: str
    """name in stored items: the property's stored name, or the attribute in camelCase"""
    attribute: str
    """Python name"""
    parts: tuple[PropertySpec, ...]


@dataclass(frozen=True, slots=True)
class ForeignKeySpec:
    """A reference to a record of another entity, which must exist."""

    name: str
    """the attribute in camelCase"""
    parent: "EntitySpec"
    """the other entity, without its joins and foreign keys"""
    by: tuple[PropertySpec, ...]
    """own properties, whose values are the parent's id"""


@dataclass(frozen=True, slots=True)
class EntitySpec:
    """An entity of the catalog."""

    name: str
    """name in hash keys: `orderTracking`"""
    type_name: str
    """class name and GraphQL name: `OrderTracking`"""
    model: type["Entity"]
    description: str | None
    properties: Mapping[str, PropertySpec]
    """by Python name, in declared order"""
    ids: tuple[PropertySpec, ...]
    """empty for a singleton"""
    sub_ids: tuple[PropertySpec, ...]
    created: PropertySpec | None
    """the creation property, which determines the shard generation"""
    space: ShardSpace
    indexes: Mapping[str, IndexSpec]
    """by Python name; `by_id` first"""
    separator: str = "/"
    """between the parts of a composite id in text form"""
    unions: Mapping[str, UnionSpec] = field(default_factory=dict)
    """by Python name"""
    ttl: PropertySpec | None = None
    """the expiry time, from which on an engine may remove a record"""
    joins: Mapping[str, JoinSpec] = field(default_factory=dict)
    """by Python name"""
    allow: Rules | None = None
    """who may read its records; None: anyone"""
    current: str | None = None
    """the sub id of the current record, which holds the latest state of a history"""
    write: Rules | None = None
    """who may write its records; None: every caller who may read them"""
    updated: PropertySpec | None = None
    """set by the server at every write"""
    version: PropertySpec | None = None
    """counts the writes of a record"""
    unique: tuple[UniqueSpec, ...] = ()
    foreign_keys: tuple[ForeignKeySpec, ...] = ()
    children: "tuple[EntitySpec, ...]" = ()
    """the entities with foreign keys to this one, without their own children"""

    @property
    def primary_key(self) -> tuple[PropertySpec, ...]:
        """The properties that identify a record."""
        return self.ids + self.sub_ids

    @property
    def write_rules(self) -> Rules | None:
        """The rules that apply to writes; None: anyone may write."""
        return self.allow if self.write is None else self.write

    @property
    def counters(self) -> tuple[PropertySpec, ...]:
        """The counter properties."""
        return tuple(part for part in self.properties.values() if part.counter_group is not None)

    @property
    def is_constrained(self) -> bool:
        """Whether writes must check the stored record or other records."""
        checks_stored_record = self.version is not None or any(part.immutable for part in self.properties.values())
        return checks_stored_record or bool(self.unique or self.foreign_keys or self.counters)
