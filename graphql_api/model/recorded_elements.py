"""What a table's own record adds to a declared entity."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphql_api.storage import RangeType

if TYPE_CHECKING:
    from graphql_api.model.specs import IndexSpec, PropertySpec


@dataclass(frozen=True, slots=True)
class ElementStatus:
    """An element of the table that is not ready: what uses it is refused."""

    element: str
    """kind and name: `index user.town`"""
    state: str
    """`absent` if the table does not know it, `replaced` if the table has another element of this name, `newer` if the
    catalog of this server cannot maintain it"""
    progress: str = ""
    """of its migration, such as `40 %`; set in reports only, since it changes without the catalog"""


@dataclass(frozen=True, slots=True)
class RecordedElements:
    """What a table's own record adds to a declared entity: elements of other catalogs, and states.

    An entity without it is maintained as declared.
    """

    indexes: "tuple[IndexSpec, ...]"
    """all indexes whose entries each write stores, `by_id` first"""
    lookups: "tuple[IndexSpec, ...]" = ()
    """all lookups whose mapping items each write stores"""
    not_ready: Mapping[str, ElementStatus] = field(default_factory=dict)
    """by the attribute of an index, and the stored name of a derived property"""
    unready_unique: Mapping[str, ElementStatus] = field(default_factory=dict)
    """by the name of a declared unique constraint: not all stored values have their items yet"""
    current: ElementStatus | None = None
    """the declared current record, if it is not ready"""
    version: ElementStatus | None = None
    """the declared version, if conditions on it are refused"""
    inherited: "tuple[tuple[str, PropertySpec], ...]" = ()
    """server-set properties that only other catalogs declare, with their role: `version`, `updated`"""
    has_unknown_properties: bool = False
    """records may have properties that only other catalogs declare, which a put must keep"""
    write_blocker: ElementStatus | None = None
    """an element because of which this server cannot write the entity: one that it cannot maintain, for example"""
    generated_attributes: frozenset[str] = frozenset()
    """keys of all recorded indexes, and derived properties, whatever their state: writes never keep stored ones"""
    raw_keys: Mapping[str, RangeType] = field(default_factory=dict)
    """attributes that raw indexes of the table use as keys, also those of other entities, with their types"""
    new_generations: tuple[tuple[Any, ElementStatus], ...] = ()
    """first creation value of each shard generation that is being built, also those of parents: see `writes`"""
    maintains_current: bool = False
    """writes keep current records"""
    changes_current: bool = False
    """some servers keep current records, and others do not: writes must be safe against those of both"""
    hides_current: bool = False
    """searches leave current records out: they are incomplete, or only other catalogs declare them"""
    unkept_properties: Mapping[str, ElementStatus] = field(default_factory=dict)
    """by stored name: properties whose values other servers may erase"""
