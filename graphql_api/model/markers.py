"""The words of a declaration: what a property is, how an entity is searched, and over how many shards it lies.

The markers of properties are aliases of `Annotated`, so that pydantic, mypy and editors see the plain type behind them.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from graphql_api import codecs
from graphql_api.model.access_declarations import Allow, rules_of

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity

T = TypeVar("T")

# --- what a property is ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Role:
    """What a property does for its entity, or what holds of it."""

    name: Literal["id", "sub id", "created", "updated", "version", "ttl", "unique", "immutable"]


@dataclass(frozen=True, slots=True)
class Stored:
    """The name that a property has in the record, where it is not the camelCase of the Python name."""

    name: str


@dataclass(frozen=True, slots=True)
class StoredAs:
    """Which of several codecs stores a property, where the Python type alone leaves it open."""

    codec: codecs.Codec[Any]


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a whole number, beside those of its property: of two in `Field` pydantic keeps the last."""

    low: int
    high: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """What the property admits, and of that what lies within."""
        return core_schema.chain_schema([handler(source), core_schema.int_schema(ge=self.low, le=self.high)])


Id = Annotated[T, Role("id")]
"""part of the unique id; several of them form a composite one, in declared order"""

SubId = Annotated[T, Role("sub id")]
"""tells the entries of one id apart and orders them"""

Created = Annotated[T, Role("created")]
"""set once, by the server where nobody else does; decides the shard generation of the record"""

Updated = Annotated[T, Role("updated")]
"""set by the server, at every write"""

Version = Annotated[T, Role("version")]
"""counts the writes of the record, from 1: who changes it may say which version they have seen"""

Ttl = Annotated[T, Role("ttl")]
"""the second from which on an engine may remove the record"""

Unique = Annotated[T, Role("unique")]
"""no two records have the same value; null is none"""

Immutable = Annotated[T, Role("immutable")]
"""never changes once the record is there"""

Timestamp = Annotated[int, StoredAs(codecs.Timestamp()), Within(-(2**53), 2**53)]
"""seconds since 1970-01-01 UTC"""

TimestampMs = Annotated[int, StoredAs(codecs.TimestampMs()), Within(-(2**53), 2**53)]
"""milliseconds since 1970-01-01 UTC"""

Int32 = Annotated[int, StoredAs(codecs.Int32()), Within(-(2**31), 2**31 - 1)]
"""a whole number that GraphQL's `Int` can hold"""


def stored(name: str) -> Stored:
    """Gives a property another name in the record: `amount: Annotated[int, stored("amt")]`."""
    return Stored(name)


def value_of(record: Any, name: str) -> Any:
    """The value of a property; that one is deprecated is told to clients, and no reason for a warning in here."""
    values = vars(record)
    return values[name] if name in values else getattr(record, name)


# --- derived properties ----------------------------------------------------------------------------------------


class Derived:
    """How a property is computed from others; pydantic's placeholder for it until the record is complete."""

    __slots__ = ("function", "sources")

    def __init__(self, function: Callable[..., Any], sources: tuple[str, ...]) -> None:
        self.function = function
        self.sources = sources

    def __call__(self) -> None:
        """The placeholder."""

    def of(self, record: Any) -> Any:
        """The value from the record's present properties; null as soon as one of them is."""
        values = [value_of(record, source) for source in self.sources]
        return None if any(value is None for value in values) else self.function(*values)


def derived(function: Callable[..., Any], *sources: str) -> Any:
    """A property that `function` computes from other properties, at every write and whatever was given.

    With one source the same function is applied to search arguments.
    """
    return Field(default_factory=Derived(function, sources))


def canonical(text: str) -> str:
    """What is left of a name for searching: no case, no accents, only letters, digits and underscores."""
    # Folding can undo a decomposition and the other way round; twice is a fixed point (Unicode, section 3.13).
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()).casefold()
    return "".join(mark for mark in unicodedata.normalize("NFKD", folded) if mark.isalnum() or mark == "_")


# --- indexes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexRef:
    """Names an index of an entity: what `User.by_first_name` is."""

    entity: type["Entity"]
    attribute: str


@dataclass(frozen=True, slots=True)
class Descending:
    """A property that an index orders from the greatest to the least."""

    property: str


def desc(name: str) -> Descending:
    """Orders an index by a property backwards: `Index(sort=["state", desc("num")])`."""
    return Descending(name)


class Searchable:
    """A class attribute that stands for an index; on the class it reads as an `IndexRef`."""

    attribute: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name

    def __get__(self, instance: "Entity | None", owner: type["Entity"]) -> IndexRef:
        return IndexRef(owner, self.attribute)


class Primary(Searchable):
    """The index that every entity has: the table itself, by id."""


class Index(Searchable):
    """A way to search an entity, declared as a class attribute `by_…`.

    `hash`: properties that every search gives exactly; without any, a search goes over the entity's shards.
    `sort`: properties that order the answer and take conditions; `desc("x")` turns one round.
    `sharded`: over the entity's own shards, not at all (False), or like the parent whose id the hash properties are.
    `raw`: the range key is the plain attribute of the one sort property; records may tie.
    `projection`: what the index carries: "ALL", "KEYS_ONLY", or the keys and these properties.
    `allow`: who may search it, instead of what the entity says.
    `name`, `slot`, `hash_key`, `range_key`: physical names, where the ordinary ones do not fit.
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
        allow: Allow = None,
    ) -> None:
        self.hash: tuple[str, ...] = _listed(hash, str)
        self.sort = tuple(_sort_word(word) for word in _listed(sort, (str, Descending)))
        self.name = name
        self.sharded = sharded
        self.raw = raw
        self.projection: str | tuple[str, ...] = projection if isinstance(projection, str) else tuple(projection)
        self.slot = slot
        self.hash_key = hash_key
        self.range_key = range_key
        self.allow = rules_of(allow)


class Union(Searchable):
    """Several indexes as one search: `by_name = Union("by_first_name", "by_last_name")`.

    The answer has the records of the first index in its order, then those of the next one that were not there, and so
    on. `allow`: who may search it, instead of what the entity says.
    """

    def __init__(self, *members: str, allow: Allow = None) -> None:
        self.members = members
        self.allow = rules_of(allow)


def _listed(words: Any, single: type | tuple[type, ...]) -> tuple[Any, ...]:
    """One word, several or none, as a tuple."""
    if words is None:
        return ()
    return (words,) if isinstance(words, single) else tuple(words)


def _sort_word(word: str | Descending) -> tuple[str, bool]:
    return (word.property, True) if isinstance(word, Descending) else (word, False)


# --- shards ----------------------------------------------------------------------------------------------------

Since = str | int | date
"""when a shard generation begins: a date or datetime (also as text), or a value as the creation property holds it"""


@dataclass(frozen=True, slots=True)
class Growth:
    """A declared shard generation: how many shards, for records created since when."""

    size: int
    since: Since | None


@dataclass(frozen=True, slots=True)
class Shards:
    """Over how many shards an entity lies: `Shards(1).then(16, since="2026-01-01")`.

    `width` is the length of a shard's text and can never change: it bounds the shards for ever (36 ** width).
    """

    size: int
    width: int = 2
    function: str = "blake2b"
    growth: tuple[Growth, ...] = ()

    def then(self, size: int, *, since: Since) -> "Shards":
        """The same, with another number of shards for records created since a date."""
        return replace(self, growth=(*self.growth, Growth(size, since)))

    @property
    def generations(self) -> tuple[Growth, ...]:
        """All generations, the first one without a beginning."""
        return (Growth(self.size, None), *self.growth)
