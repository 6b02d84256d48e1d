"""Records for mutations to be tried with: they are not there yet, and go with what is in the store."""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any, get_origin
from uuid import UUID

from pydantic import BaseModel

from graphql_api import codecs
from graphql_api.codecs import Codec
from graphql_api.errors import ShardQLError
from graphql_api.model import (
    Entity,
    EntitySpec,
    PropertySpec,
    camel_case,
    entity_name,
    is_open,
    read_annotation,
    value_of,
    without_id,
)
from graphql_api.schema import YEAR, changeable, may_be_left_out, naming, writable
from graphql_api.writes import draft

_FRESH = "example"
_NEW_YEAR = datetime(YEAR, 1, 1, tzinfo=UTC)
_FAR_FUTURE = datetime(2099, 12, 31, tzinfo=UTC)
_UNLIKELY = 1_999_999_999
"""fits into 32 bits, and hardly anybody has come so far in counting"""


@dataclass(frozen=True, slots=True)
class Example:
    """A record that somebody could create."""

    entity: EntitySpec
    record: Entity
    given: tuple[PropertySpec, ...]
    """what has to be said of it; its id is said too, so that it can be found again"""
    gaps: tuple[str, ...]
    """Python names of what only somebody who knows the data, or who they are, can say"""
    change: tuple[PropertySpec, Any] | None
    """something of it that can be changed, and into what"""

    @property
    def is_open(self) -> bool:
        """Whether everybody may write it and see it."""
        rules = (self.entity.writers, self.entity.allow, *(part.allow for part in self.given))
        return all(map(is_open, rules))


def example_of(entity: EntitySpec, known: Mapping[str, Sequence[Entity]], first: Sequence[str] = ()) -> Example | None:
    """A record that an entity could have; None where none can be made up, or where there is only one anyway.

    `known`: records of the store by the name of their entity. `first`: properties that would show best in a change.
    """
    same = known.get(entity.name, ())
    needed = [part for part in writable(entity) if part in entity.primary or not may_be_left_out(entity, part)]
    for careful in (False, True):
        making = _Making(entity, same[0] if same else None, known, careful)
        values = {part.name: making.value(part) for part in needed}
        if not any(part.name in making.fresh for part in entity.ids):
            return None  # Who tries to change it, or to remove it, would do so to what is there.
        record = _valid(entity, values)
        if record is not None:
            making.look_at_unique(values)
            change = next(_changes(entity, values, same[1:], first), None)
            return Example(entity, record, tuple(needed), tuple(dict.fromkeys(making.gaps)), change)
    return None


class _Making:
    """Values for one record, property by property."""

    def __init__(
        self, entity: EntitySpec, like: Entity | None, known: Mapping[str, Sequence[Entity]], careful: bool
    ) -> None:
        self._entity = entity
        self._like = like
        self._careful = careful
        self.fresh: set[str] = set()
        self.gaps: list[str] = []
        self._unique = [
            {name for part in unique.parts for name in part.given_by}
            for unique in entity.unique
            if not any(part.counts is not None for part in unique.parts)
        ]
        self._parents: dict[str, Any] = {}
        for key in entity.foreign_keys:
            parents = known.get(key.parent.name, ())
            if parents:
                ids = (value_of(parents[0], part.name) for part in key.parent.ids)
                self._parents |= zip((part.name for part in key.by), ids, strict=True)
        self._foreign = {part.name for key in entity.foreign_keys for part in key.by}
        self._owners = naming(entity.writers)

    def value(self, part: PropertySpec) -> Any:
        """What goes with the store, else with what a known record has, else with the property's type."""
        name = part.name
        if not is_open(self._entity.writers) and name in self._owners:
            self.gaps.append(name)
        if name in self._parents:
            return self._parents[name]
        if name in self._foreign:
            self.gaps.append(name)
        known = None if self._like is None else value_of(self._like, name)
        if part in self._entity.ids or any(name in names for names in self._unique):
            value = _fresh(self._entity, part, known if self._careful or part not in self._entity.ids else None)
            if value is not None:
                self.fresh.add(name)
                return value
        if known is not None and part is not self._entity.ttl:
            return known
        if part is self._entity.ttl:
            return int(_FAR_FUTURE.timestamp())
        if part.codec is not None:
            return _of_codec(part.codec, name)
        return _of_annotation(self._entity.model.model_fields[name].annotation, name)

    def look_at_unique(self, values: Mapping[str, Any]) -> None:
        """What has to be unique and is as it is elsewhere is for somebody else to say."""
        for names in self._unique:
            if names <= values.keys() and not names & self.fresh:
                self.gaps.extend(name for name in values if name in names)


def _changes(
    entity: EntitySpec, values: Mapping[str, Any], others: Sequence[Entity], first: Sequence[str]
) -> Iterator[tuple[PropertySpec, Any]]:
    """What can be changed without a thought for other records, and into what."""
    bound = {part.name for key in entity.foreign_keys for part in key.by}
    bound |= {name for unique in entity.unique for part in unique.parts for name in (part.name, *part.sources)}
    bound |= naming(entity.writers)
    free = [
        part
        for part in changeable(entity)
        if part.codec is not None and part.name not in bound and part is not entity.ttl and is_open(part.allow)
    ]
    named = {part.name for join in entity.joins.values() for part in join.by}
    ranked = sorted(
        free, key=lambda part: (part.name not in first, part.name in named, part.name not in values, free.index(part))
    )
    for part in ranked:
        now = values.get(part.name)
        elsewhere = [value_of(other, part.name) for other in others]
        for value in (*elsewhere, _other(part.column.codec, now, part.name)):
            if value is not None and value != now and _valid(entity, {**values, part.name: value}) is not None:
                yield part, value


def _valid(entity: EntitySpec, values: Mapping[str, Any]) -> Entity | None:
    # As in a mutation, what may be null is null where it is left out.
    nulls = {
        part.name: None
        for part in writable(entity)
        if part.nullable and part is not entity.created and entity.model.model_fields[part.name].is_required()
    }
    try:
        return draft(entity, {**nulls, **values}, None, _NEW_YEAR.timestamp())
    except ShardQLError:
        return None


# --- values ----------------------------------------------------------------------------------------------------


def _fresh(entity: EntitySpec, part: PropertySpec, known: Any) -> Any:
    """A value that no record has yet; None where a type has so few that some record has it."""
    codec = part.codec
    match codec:
        case codecs.Text():
            return _named(entity_name(entity.type_name)) if known is None else f"{_FRESH}-{known}"
        case codecs.Uuid():
            digest = blake2b(f"{entity.type_name}.{part.name}".encode(), digest_size=16).digest()
            return UUID(bytes=digest, version=4)
        case codecs.Int64() | codecs.Int32() | codecs.Float64():
            return _UNLIKELY
        case codecs.DecimalNumber():
            return Decimal(_UNLIKELY)
        case codecs.Timestamp() | codecs.TimestampMs() | codecs.Date() | codecs.DateTime():
            return _at(codec, _FAR_FUTURE)
        case codecs.Duration():
            return timedelta(seconds=_UNLIKELY)
    return None


def _of_codec(codec: Codec[Any], name: str) -> Any:
    """A value of a scalar; a text says what it is for."""
    match codec:
        case codecs.Text():
            of_id = without_id(camel_case(name))
            return _named(of_id) if name.endswith("_id") else name.replace("_", " ").strip().capitalize()
        case codecs.Uuid():
            return UUID(bytes=blake2b(name.encode(), digest_size=16).digest(), version=4)
        case codecs.Int64() | codecs.Int32() | codecs.Float64():
            return 1
        case codecs.DecimalNumber():
            return Decimal(1)
        case codecs.Boolean():
            return True
        case codecs.EnumCodec():
            return next(iter(codec.enum_class))
        case codecs.Duration():
            return timedelta(hours=1)
    return _at(codec, _NEW_YEAR)


def _named(camel: str) -> str:
    """An id that somebody could have thought of: `example-order-line`."""
    return f"{_FRESH}-{re.sub(r'(?<!^)(?=[A-Z])', '-', camel).lower()}"


def _other(codec: Codec[Any], value: Any, name: str) -> Any:
    """Another value than this one."""
    if value is None:
        return _of_codec(codec, name)
    match codec:
        case codecs.Text():
            return f"{value} 2"
        case codecs.Boolean():
            return not value
        case codecs.EnumCodec():
            return next((member for member in codec.enum_class if member is not value), None)
        case codecs.Uuid():
            return None
        case codecs.Date() | codecs.DateTime() | codecs.Duration():
            return value + timedelta(days=1)
    return value + 1


def _at(codec: Codec[Any], moment: datetime) -> int | date | datetime:
    match codec:
        case codecs.Timestamp():
            return int(moment.timestamp())
        case codecs.TimestampMs():
            return int(moment.timestamp()) * 1000
        case codecs.Date():
            return moment.date()
    return moment


def _of_annotation(annotation: Any, name: str) -> Any:
    """The least that an annotation allows, as pydantic can take it."""
    read = read_annotation(annotation)
    if read.codec is not None:
        return _of_codec(read.codec, name)
    if read.nullable:
        return None
    kind = get_origin(read.types[0]) or read.types[0]
    if not isinstance(kind, type):
        return None
    if issubclass(kind, BaseModel):
        return {
            name: _of_annotation(field.annotation, name)
            for name, field in kind.model_fields.items()
            if field.is_required()
        }
    if issubclass(kind, bytes):
        return _FRESH.encode()
    return [] if issubclass(kind, list | tuple | AbstractSet) else {}
