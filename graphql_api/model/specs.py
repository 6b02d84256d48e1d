"""Specifications: the resolved, immutable form of a catalog. Other packages read these instead of the classes."""

import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from graphql_api.codecs import Codec, Column, ScalarKind
from graphql_api.model.access_declarations import Rules
from graphql_api.model.markers import RoleName
from graphql_api.model.naming import entity_and_version
from graphql_api.model.recorded_elements import ElementStatus, RecordedElements
from graphql_api.model.relation_declarations import JoinKind
from graphql_api.sharding import ShardSpace
from graphql_api.storage import MAX_RECORD_BYTES, IndexDefinition, Item, Projection

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity

T = TypeVar("T")


class DerivedFunctions(dict[str, Callable[..., Any]]):
    """Functions of derived properties, by Python name, whose version differs from that of the class."""


NO_OTHER_FUNCTIONS = DerivedFunctions()


@dataclass(frozen=True)
class PropertySpec:
    """A property of an entity."""

    name: str
    stored: str
    """the attribute in stored records; all other names are Python names"""
    codec: Codec[Any] | None
    """how the value is stored and ordered; None for lists, maps, models, bytes and sets, which cannot be in keys"""
    nullable: bool
    description: str | None = None
    function: Callable[..., Any] | None = None
    """computes a derived property from its sources"""
    sources: tuple[str, ...] = ()
    """the properties that a derived property is computed from"""
    null_is_stored: bool = False
    """null is stored explicitly, because a missing attribute means a default other than null"""
    allow: Rules | None = None
    """who may read it; None: every caller who may read the record"""
    roles: frozenset[RoleName] = frozenset()
    counter_group: tuple[str, ...] | None = None
    """the properties whose values form the group of a counter; None: it is no counter"""
    is_server_set: bool = False
    """constructors do not require the value, and stored records have it"""
    default: Any = None
    """the constant value of a scalar that a stored record lacks; None: null, or computed for each record"""
    version: int = 1
    """of the function of a derived property"""
    previous: Callable[..., Any] | None = None
    """the function of the version before, which applies until the table is rebuilt"""

    @cached_property
    def column(self) -> Column:
        """The property as a column of a key, in ascending order."""
        assert self.codec is not None, "validation allows only properties with a codec in keys"
        return Column(self.stored, self.codec)

    @property
    def kind(self) -> ScalarKind | None:
        """The kind of its values, or None if they are no scalars."""
        return None if self.codec is None else self.codec.kind

    @property
    def raw_key_type(self) -> Literal["S", "N"] | None:
        """The key type of the stored attribute: "S" for text, "N" for numbers, None if it cannot be a key."""
        stored_type = None if self.codec is None else self.codec.stored_type
        return "S" if stored_type == "text" else "N" if stored_type == "number" else None

    @property
    def immutable(self) -> bool:
        """Whether it never changes after the record was created."""
        return "immutable" in self.roles

    @property
    def is_hidden(self) -> bool:
        """Whether the GraphQL schema does not contain it."""
        return "hidden" in self.roles

    @property
    def input_names(self) -> tuple[str, ...]:
        """Python names of the properties that determine its value: its sources, or itself."""
        return self.sources or (self.name,)

    @property
    def search_function(self) -> Callable[[Any], Any] | None:
        """The function of a derived property with one source. Search arguments are converted by it as well."""
        return self.function if len(self.sources) == 1 else None


DEFAULT_RECORD_BYTES = 500
"""assumed size of a record whose entity declares none: the smallest design size"""


@dataclass(frozen=True, slots=True)
class SortProperty:
    """A sort property of an index, with its direction."""

    property: PropertySpec
    descending: bool = False

    @builtins.property
    def column(self) -> Column:
        """The property as a column of a key, in the direction of the index."""
        return replace(self.property.column, descending=True) if self.descending else self.property.column


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
    is_sharded: bool = True
    """whether its entries are spread over the shards of the hash entity"""
    sharded_like_parent: bool = False
    """whether the shard depends on the hash properties, which hold the parent's id, and not on the record's own id"""
    hash: tuple[PropertySpec, ...] = ()
    """properties in the hash key: required by every search"""
    id_prefix: tuple[PropertySpec, ...] = ()
    """the ids that begin the range value of `by_id` if records have sub ids: required by every search"""
    sort: tuple[SortProperty, ...] = ()
    """the declared sort order; conditions apply to these properties"""
    tie_breaker: tuple[PropertySpec, ...] = ()
    """the remaining properties of the primary key, which make the range value unique"""
    raw: bool = False
    """whether the range key is a stored attribute; several records may then have the same key"""
    projection: Projection = "ALL"
    """a tuple contains stored names"""
    allow: Rules | None = None
    """who may search it; None: the rules of the entity apply"""
    order: str | None = None
    """short name of its order in GraphQL; None: the names and directions of the sort properties"""
    lookup: str | None = None
    """name in the table, if it is a lookup: searches read its mapping items, and then the records"""
    lookup_store: str | None = None
    """the identity of the store that keeps the mapping items of a lookup; None: the table itself"""

    @property
    def is_primary(self) -> bool:
        """Whether it is the primary index, which is the table itself."""
        return self.physical is None and self.lookup is None

    @property
    def required(self) -> tuple[PropertySpec, ...]:
        """The properties of which every search must provide a value."""
        return (*self.hash, *self.id_prefix)

    @cached_property
    def range_properties(self) -> tuple[PropertySpec, ...]:
        """The properties in the range value, in order."""
        return (*self.id_prefix, *(part.property for part in self.sort), *self.tie_breaker)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the range value; on a raw index the only one, which is stored without encoding."""
        if self.raw:
            return tuple(part.column for part in self.sort[:1])
        parts: tuple[PropertySpec | SortProperty, ...] = (*self.id_prefix, *self.sort, *self.tie_breaker)
        return tuple(part.column for part in parts)

    @property
    def definition(self) -> IndexDefinition:
        """The definition of the physical index that this one needs. Indexes with the same physical name share it."""
        raw_type = self.sort[0].property.raw_key_type if self.raw and self.sort else None
        keys = (self.hash_attribute, self.range_attribute)
        projection = self.projection
        if isinstance(projection, tuple):
            projection = tuple(name for name in projection if name not in keys)  # Every index entry has the keys.
        return IndexDefinition(self.physical or "", *keys, raw_type or "S", projection or "KEYS_ONLY")


@dataclass(frozen=True, slots=True)
class UnionSpec:
    """Several indexes of an entity that are searched in order, without duplicate records."""

    attribute: str
    name: str
    """GraphQL name: `name` for the attribute `by_name`"""
    members: tuple[IndexSpec, ...]
    allow: Rules | None = None


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A join: related records of another entity."""

    name: str
    kind: JoinKind
    target: str
    """name of the other entity in hash keys"""
    via: str | None
    """attribute of the other entity's index or union; None: its primary key"""
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
    parts: tuple[PropertySpec, ...]
    is_ready: bool = True
    """false: stored records may still violate it, and keep their values"""


@dataclass(frozen=True, slots=True)
class ForeignKeySpec:
    """A reference to a record of another entity, which must exist."""

    name: str
    """the attribute in camelCase"""
    parent: "EntitySpec"
    """the other entity, without its joins and foreign keys"""
    by: tuple[PropertySpec, ...]
    """own properties, whose values are the parent's id"""
    allow: Rules | None = None
    """who may reference a parent"""
    is_ready: bool = True
    """false: stored records may still violate it, and keep their values"""


@dataclass(frozen=True)
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
    """by attribute, as unions and joins are; `by_id` first"""
    separator: str = "/"
    """between the parts of a composite id in text form"""
    unions: Mapping[str, UnionSpec] = field(default_factory=dict)
    ttl: PropertySpec | None = None
    """the expiry time, from which on an engine may remove a record"""
    joins: Mapping[str, JoinSpec] = field(default_factory=dict)
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
    record_bytes: int | None = None
    """the usual size of a stored record; None: not declared"""
    max_record_bytes: int = MAX_RECORD_BYTES
    """the greatest size of a record that writes accept"""
    recorded: RecordedElements | None = None
    """what the table's own record adds to the declaration; None: nothing"""

    @cached_property
    def compiled(self) -> dict[Any, Any]:
        """What is compiled of the entity, by the function that compiles it: see `compiled_once`."""
        return {}

    @cached_property
    def declared_name(self) -> str:
        """The name that the catalog declares: that of the first version of the records."""
        name, _ = entity_and_version(self.name)
        return name

    @cached_property
    def has_property_rules(self) -> bool:
        """Whether some properties are not for everyone who may read the records."""
        return any(part.allow is not None for part in self.properties.values())

    @property
    def declared_version(self) -> int:
        """The version of the records that the catalog declares."""
        return self.model.__declaration__.version

    @property
    def usual_record_bytes(self) -> int:
        """The declared size of a record, or an assumed one."""
        return self.record_bytes or min(DEFAULT_RECORD_BYTES, self.max_record_bytes)

    @property
    def primary_key(self) -> tuple[PropertySpec, ...]:
        """The properties that identify a record."""
        return self.ids + self.sub_ids

    @cached_property
    def written_indexes(self) -> tuple[IndexSpec, ...]:
        """The indexes whose entries each write stores."""
        own = tuple(index for index in self.indexes.values() if index.lookup is None)
        return own if self.recorded is None else self.recorded.indexes

    @cached_property
    def written_lookups(self) -> tuple[IndexSpec, ...]:
        """The lookups whose mapping items each write stores."""
        own = tuple(index for index in self.indexes.values() if index.lookup is not None)
        return own if self.recorded is None else self.recorded.lookups

    @property
    def write_blocker(self) -> ElementStatus | None:
        """The element of the table because of which this server cannot write the entity."""
        return None if self.recorded is None else self.recorded.write_blocker

    @property
    def written_current(self) -> str | None:
        """The sub id of the current records that writes keep, or None if they keep none."""
        return self.current if self.recorded is None or self.recorded.maintains_current else None

    @property
    def guards_first_entries(self) -> bool:
        """Whether first entries of histories also write the item that those without current records share."""
        return len(self.space.generations) > 1 and self.recorded is not None and self.recorded.changes_current

    @property
    def puts_need_stored_record(self) -> bool:
        """Whether a put depends on the stored record: on unknown properties, on mapping items, or on its creation."""
        recorded = self.recorded
        # Mapping items of the record that is replaced must be removed.
        return bool(self.written_lookups) or (
            recorded is not None and bool(recorded.has_unknown_properties or recorded.new_generations)
        )

    @property
    def hides_current(self) -> bool:
        """Whether searches leave current records out: they are incomplete, or only other catalogs declare them."""
        return self.recorded is not None and self.recorded.hides_current

    @property
    def declared_current(self) -> str | None:
        """The sub id of the current records that this catalog declares, whatever their state."""
        if self.recorded is not None and self.recorded.hides_current and self.recorded.current is None:
            return None
        return self.current

    @cached_property
    def derived_functions(self) -> DerivedFunctions:
        """The functions of derived properties whose version differs from that of the class."""
        declared = self.model.__declaration__.derived
        functions = ((part.name, part.function) for part in self.properties.values() if part.function is not None)
        other = {name: function for name, function in functions if function is not declared[name].function}
        return DerivedFunctions(other) if other else NO_OTHER_FUNCTIONS

    @cached_property
    def provided_properties(self) -> tuple[PropertySpec, ...]:
        """The properties that callers or the server provide."""
        return tuple(part for part in self.properties.values() if part.function is None)

    @cached_property
    def derived_properties(self) -> tuple[PropertySpec, ...]:
        """The properties that are computed from others."""
        return tuple(part for part in self.properties.values() if part.function is not None)

    @cached_property
    def has_only_scalars(self) -> bool:
        """Whether records have the fields of their class in the same order, and codecs load all that are stored."""
        scalars = all(part.codec is not None for part in self.provided_properties)
        return scalars and [*self.properties] == [*self.model.model_fields]

    @cached_property
    def raw_indexes(self) -> tuple[IndexSpec, ...]:
        """The declared indexes whose keys are plain values."""
        return tuple(index for index in self.indexes.values() if index.raw)

    @cached_property
    def known_attributes(self) -> frozenset[str]:
        """The attributes of stored records that writes compute. They keep all others, which other catalogs declare."""
        generated = {index.hash_attribute for index in self.indexes.values()}
        generated |= {index.range_attribute for index in self.indexes.values() if not index.raw}
        recorded = frozenset[str]() if self.recorded is None else self.recorded.generated_attributes
        return recorded | generated | {part.stored for part in self.properties.values()}

    def status_of(self, name: str) -> ElementStatus | None:
        """Return the status of an element that is not ready: see `RecordedElements.not_ready`."""
        return None if self.recorded is None else self.recorded.not_ready.get(name)

    @cached_property
    def shown_properties(self) -> Mapping[str, PropertySpec]:
        """The properties that the GraphQL schema contains, by Python name."""
        return {name: part for name, part in self.properties.items() if not part.is_hidden}

    @property
    def searches(self) -> tuple[IndexSpec | UnionSpec, ...]:
        """The indexes and unions."""
        return (*self.indexes.values(), *self.unions.values())

    @property
    def write_rules(self) -> Rules | None:
        """The rules that apply to writes; None: anyone may write."""
        return self.allow if self.write is None else self.write

    @property
    def visibility_properties(self) -> tuple[PropertySpec, ...]:
        """The properties that decide whether a record is visible. Reads must load them."""
        return () if self.ttl is None else (self.ttl,)

    def is_visible(self, item: Item, now: float) -> bool:
        """Whether a stored record has not expired. An invisible record counts as absent for every read and write.

        Engines remove expired items late. Attributes that `item` lacks hide nothing.
        """
        expires = None if self.ttl is None else item.get(self.ttl.stored)
        return not (isinstance(expires, (int, Decimal)) and expires <= now)

    def visible_item(self, items: Iterable[Item | None], now: float) -> Item | None:
        """Return the first item that exists and is visible. `items` are those at all possible keys of a record."""
        return next((item for item in items if item is not None and self.is_visible(item, now)), None)

    def requires(self, part: PropertySpec) -> bool:
        """Return whether records without a property are invalid."""
        must_exist = part.is_server_set or self.model.model_fields[part.name].is_required()
        return part.function is None and not part.nullable and must_exist

    @cached_property
    def counters(self) -> tuple[PropertySpec, ...]:
        """The counter properties."""
        return tuple(part for part in self.properties.values() if part.counter_group is not None)

    @cached_property
    def is_constrained(self) -> bool:
        """Whether writes must check the stored record or other records."""
        checks_stored_record = self.version is not None or any(part.immutable for part in self.properties.values())
        has_items = bool(self.unique or self.foreign_keys or self.counters or self.written_lookups)
        return checks_stored_record or has_items


def compiled_once(compile_entity: "Callable[[EntitySpec], T]") -> "Callable[[EntitySpec], T]":
    """Keep what a function compiles of an entity with its specification, which never changes."""

    def compiled(entity: EntitySpec) -> T:
        known: dict[Any, T] = entity.compiled
        found = known.get(compile_entity)
        if found is None:
            found = known[compile_entity] = compile_entity(entity)
        return found

    return compiled
