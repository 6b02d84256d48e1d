"""Declare properties, derived properties, indexes and shards of entities.

Property markers are aliases of `Annotated`, so pydantic, mypy and editors see the plain type.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypeVar

from graphql_api import codecs
from graphql_api.model.access_declarations import RulesArgument, normalize_rules
from graphql_api.sharding import Generation

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity

T = TypeVar("T")
E = TypeVar("E", bound="Entity")
E_co = TypeVar("E_co", bound="Entity", covariant=True, default=Any)

_REMOVED_CHARACTERS = re.compile(r"\W+")
"""Characters that are no letters, digits or underscores."""
_CANONICAL_PART = 64
"""Characters that are brought into canonical form at once."""

# --- properties ------------------------------------------------------------------------------------------------


RoleName = Literal["id", "sub id", "created", "updated", "version", "ttl", "unique", "immutable", "hidden"]


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a property in its entity, or a constraint on it."""

    name: RoleName


@dataclass(frozen=True, slots=True)
class Stored:
    """Store a property under another name than in camelCase: `amount: Annotated[int, stored("amt")]`."""

    name: str


stored = Stored


@dataclass(frozen=True, slots=True)
class StoredAs:
    """The codec of an integer, which also limits its values."""

    codec: codecs.IntegerCodec

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate the property's own type first, then the limits: pydantic keeps only the last of several bounds."""
        limits = core_schema.int_schema(ge=self.codec.minimum, le=self.codec.maximum)
        return core_schema.chain_schema([handler(source), limits])


Id = Annotated[T, Role("id")]
"""part of the unique id; several of them form a composite id, in declared order"""

SubId = Annotated[T, Role("sub id")]
"""distinguishes the entries of one id and orders them"""

Created = Annotated[T, Role("created")]
"""creation value: never changes, is set by the server if not provided, and determines the shard generation"""

Updated = Annotated[T, Role("updated")]
"""set by the server at every write"""

Version = Annotated[T, Role("version")]
"""counts the writes of a record, from 1; writers may pass the version that they expect"""

Ttl = Annotated[T, Role("ttl")]
"""expiry in seconds since 1970; from then on an engine may remove the record"""

Unique = Annotated[T, Role("unique")]
"""no two records have the same value, except null"""

Immutable = Annotated[T, Role("immutable")]
"""never changes after the record was created"""

Hidden = Annotated[T, Role("hidden")]
"""stored, and available in Python, but in no type, input or argument of the GraphQL schema"""

Timestamp = Annotated[int, StoredAs(codecs.Timestamp())]
"""seconds since 1970-01-01 UTC"""

TimestampMs = Annotated[int, StoredAs(codecs.TimestampMs())]
"""milliseconds since 1970-01-01 UTC"""

Int32 = Annotated[int, StoredAs(codecs.Int32())]
"""signed 32-bit integer, like GraphQL's `Int`"""


def value_of(record: Any, name: str) -> Any:
    """Return the value of a property, without pydantic's warning for deprecated properties."""
    values = vars(record)
    return values[name] if name in values else getattr(record, name)


def values_by_name(record: Any, names: KeysView[str]) -> Mapping[str, Any]:
    """Return the values of these properties, and maybe of others: as `value_of`, without a call for each."""
    values = vars(record)
    return values if names <= values.keys() else {name: value_of(record, name) for name in names}


# --- derived properties ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Derived:
    """The rule of a derived property. As a default factory, provide null until the rule is applied."""

    function: Callable[..., Any]
    sources: tuple[str, ...]
    version: int = 1
    previous: Callable[..., Any] | None = None

    def __call__(self) -> None:
        """Return the placeholder, null."""

    def compute(self, record: Any, function: Callable[..., Any] | None = None) -> Any:
        """Compute the value from the record's sources. It is null if one of the sources is null.

        `function`: of the version that the table maintains, if that is another one.
        """
        values = [value_of(record, source) for source in self.sources]
        return None if any(value is None for value in values) else (function or self.function)(*values)


def derived(
    function: Callable[..., Any],
    *sources: str,
    version: int = 1,
    previous: Callable[..., Any] | None = None,
    init: Literal[False] = False,  # noqa: ARG001 - for type checkers: constructors do not take the value
) -> Any:
    """Declare a property that `function` computes from other properties at every write. Provided values are ignored.

    If there is one source, the function is also applied to search arguments. A changed function needs the next
    `version`, and the `previous` function, which applies until `shardql migrate` rewrites the stored records.
    """
    return Field(default_factory=Derived(function, sources, version, previous))


def canonical(text: str) -> str:
    """Return the canonical form of a name for searching: case-folded, without accents, punctuation and spaces."""
    if text.isascii():
        return _REMOVED_CHARACTERS.sub("", text.casefold())
    # Ordering a run of combining marks takes quadratic time, and the form of a text is that of its parts.
    parts = (text[start : start + _CANONICAL_PART] for start in range(0, len(text), _CANONICAL_PART))
    return "".join(map(_canonical_part, parts))


def _canonical_part(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    folded = decomposed.casefold()
    if folded != decomposed:
        # Folding and decomposition can undo each other; applied twice, the result is stable (Unicode, section 3.13).
        decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", folded).casefold())
    without_spaces = decomposed.replace(" ", "")
    return without_spaces if without_spaces.isalnum() else _REMOVED_CHARACTERS.sub("", without_spaces)


# --- indexes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexRef(Generic[E_co]):
    """Reference to an index of an entity: the value of `User.by_first_name`."""

    entity: type[E_co]
    attribute: str

    if TYPE_CHECKING:  # Stubs declare the conditions of each index instead of `conditions`.

        def _search_arguments(
            self,
            *,
            reverse: bool | None = None,
            limit: int | None = None,
            next_token: str | None = None,
            first: int | None = None,
            after: str | None = None,
            last: int | None = None,
            before: str | None = None,
            on_shard_failure: Literal["FAIL", "PARTIAL"] = "FAIL",
            filter: Mapping[str, Any] | None = None,
            select: Collection[str] | None = None,
            order_by: "str | Descending | None" = None,
            history: Literal["ALL", "PAST", "CURRENT"] = "ALL",
            read_budget: int = ...,
            **conditions: Any,
        ) -> E_co: ...

        def _count_arguments(
            self,
            *,
            at_most: int = ...,
            filter: Mapping[str, Any] | None = None,
            history: Literal["ALL", "PAST", "CURRENT"] = "ALL",
            **conditions: Any,
        ) -> E_co: ...


@dataclass(frozen=True, slots=True)
class Descending:
    """A sort property in descending order."""

    property: str


def desc(name: str) -> Descending:
    """Sort an index by a property in descending order: `Index(sort=["state", desc("num")])`."""
    return Descending(name)


class Searchable:
    """A class attribute that declares an index. Reading it from the class returns an `IndexRef`."""

    attribute: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name

    def __get__(self, instance: "Entity | None", owner: type[E]) -> IndexRef[E]:
        return IndexRef(owner, self.attribute)


class Index(Searchable):
    """An index of an entity, declared as a class attribute `by_…`.

    `hash`: properties of which every search must provide a value.
    `sort`: properties that sort the results and accept conditions; `desc("x")` sorts in descending order.
    `sharded`: True for the entity's own shards, False for one shard, or a parent entity whose shards to use.
    The hash properties must then hold the parent's id.
    `raw`: use the stored attribute of the only sort property as range key; several records may have the same key.
    `projection`: the attributes of index entries: "ALL", "KEYS_ONLY", or a list of properties in addition to the keys.
    `allow`: who may search it, instead of the entity's rules.
    `order`: a short name for its order in GraphQL: `order="NAME"` offers `NAME_ASC` and `NAME_DESC`.
    `name`, `slot`, `hash_key`, `range_key`: physical names that replace the default ones.
    """

    def __init__(
        self,
        hash: str | Sequence[str] | None = None,
        sort: str | Descending | Sequence[str | Descending] | None = None,
        *,
        name: str | None = None,
        sharded: bool | str = True,
        raw: bool = False,
        projection: Literal["ALL", "KEYS_ONLY"] | Sequence[str] = "ALL",
        slot: str | None = None,
        hash_key: str | None = None,
        range_key: str | None = None,
        allow: RulesArgument = None,
        order: str | None = None,
    ) -> None:
        self.hash: tuple[str, ...] = _as_tuple(hash)
        self.sort: tuple[tuple[str, bool], ...] = tuple(
            (part.property, True) if isinstance(part, Descending) else (part, False) for part in _as_tuple(sort)
        )
        """names of properties, and whether they are in descending order"""
        self.name = name
        self.sharded = sharded
        self.raw = raw
        self.projection: Any = projection if isinstance(projection, str) else tuple(projection)
        self.slot = slot
        self.hash_key = hash_key
        self.range_key = range_key
        self.order = order
        self.allow = normalize_rules(allow)


class Union(Searchable):
    """Several indexes that are searched as one: `by_name = Union("by_first_name", "by_last_name")`.

    The results are the records of the first index in its order, then the further records of the next index, and so on.
    `allow`: who may search it, instead of the entity's rules.
    """

    def __init__(self, *members: str, allow: RulesArgument = None) -> None:
        self.members = members
        self.allow = normalize_rules(allow)


class Lookup(Searchable):
    """A lookup, declared as a class attribute `by_…`: a search for the records with certain values of properties.

    It keeps one mapping item for each record, under the values. A search is consistent, and reads the mapping items and
    the records of the page, at any number of shards. The order is that of the record keys.
    `name`: the name in the table, if another definition uses the default one.
    `allow`: who may search it, instead of the entity's rules.
    """

    def __init__(self, *properties: str, name: str | None = None, allow: RulesArgument = None) -> None:
        self.properties = properties
        self.name = name
        self.allow = normalize_rules(allow)


def _as_tuple(argument: Any) -> tuple[Any, ...]:
    """Convert an argument of one value, several values or None to a tuple."""
    if argument is None:
        return ()
    return (argument,) if isinstance(argument, str | Descending) else tuple(argument)


# --- shards ----------------------------------------------------------------------------------------------------

Since = str | int | date
"""begin of a shard generation: a date or datetime (also as ISO text), or a value of the creation property"""


@dataclass(frozen=True, slots=True)
class Shards:
    """The shard generations of an entity: `Shards(1).then(16, since="2026-01-01")`.

    `width` is the length of a shard's text in keys. It can never change and limits the number of shards to 36 ** width.
    """

    size: int
    width: int = 2
    function: str = "blake2b"
    growth: tuple[Generation, ...] = ()
    """further generations, whose `since` is as declared"""

    def then(self, size: int, *, since: Since) -> "Shards":
        """Add a generation: another number of shards for records created since a date."""
        return replace(self, growth=(*self.growth, Generation(since, size)))

    @property
    def generations(self) -> tuple[Generation, ...]:
        """All generations; the first one has no `since`."""
        return (Generation(None, self.size), *self.growth)
