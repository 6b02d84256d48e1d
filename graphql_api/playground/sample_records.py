"""Sample records for mutation tabs. They do not exist yet, and are consistent with the stored records."""

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
    allows_anyone,
    camel_case,
    entity_name,
    parse_annotation,
    strip_id_suffix,
    value_of,
)
from graphql_api.schema import (
    EXAMPLE_YEAR,
    is_optional_input,
    ownership_properties,
    updatable_properties,
    writable_properties,
)
from graphql_api.writes import build_record

_ID_PREFIX = "example"
_NEW_YEAR = datetime(EXAMPLE_YEAR, 1, 1, tzinfo=UTC)
_FAR_FUTURE = datetime(2099, 12, 31, tzinfo=UTC)
_UNUSED_NUMBER = 1_999_999_999
"""Fits into 32 bits. Ids that are counted upward hardly ever reach it."""


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A record that does not exist yet and can be created."""

    entity: EntitySpec
    record: Entity
    provided: tuple[PropertySpec, ...]
    """The required properties, and the id, so that later mutations can name the record."""
    placeholders: tuple[str, ...]
    """Python names of properties with a placeholder. Their value depends on the data or on the caller."""
    change: tuple[PropertySpec, Any] | None
    """A property to update, with its new value."""

    @property
    def is_open(self) -> bool:
        """Return whether any caller may write the record and read it."""
        rules = (self.entity.write_rules, self.entity.allow, *(part.allow for part in self.provided))
        return all(map(allows_anyone, rules))


def make_sample_record(
    entity: EntitySpec, stored: Mapping[str, Sequence[Entity]], preferred: Sequence[str] = ()
) -> SampleRecord | None:
    """Return a new record of an entity; None if no valid one is found, or if the id could belong to a stored record.

    `stored`: stored records by entity name. `preferred`: properties to update if possible.
    """
    same = stored.get(entity.name, ())
    provided = [
        part
        for part in writable_properties(entity)
        if part in entity.primary_key or not is_optional_input(entity, part)
    ]
    for derives_ids in (False, True):
        builder = _ValueBuilder(entity, same[0] if same else None, stored, derives_ids=derives_ids)
        values = {part.name: builder.value(part) for part in provided}
        if not any(part.name in builder.new_values for part in entity.ids):
            return None  # Update and Delete would change a stored record.
        record = _validate(entity, values)
        if record is not None:
            builder.mark_taken_unique_values(values)
            change = next(_changes(entity, values, same[1:], preferred), None)
            placeholders = tuple(dict.fromkeys(builder.placeholders))
            return SampleRecord(entity, record, tuple(provided), placeholders, change)
    return None


class _ValueBuilder:
    """Builder of the values of one record, property by property.

    `template`: a stored record of the entity. `derives_ids`: derive new ids from the ids of the template, since ids may
    have to match a pattern.
    """

    def __init__(
        self,
        entity: EntitySpec,
        template: Entity | None,
        stored: Mapping[str, Sequence[Entity]],
        *,
        derives_ids: bool,
    ) -> None:
        self._entity = entity
        self._template = template
        self._derives_ids = derives_ids
        self.new_values: set[str] = set()
        """Names of properties with a value that no stored record has."""
        self.placeholders: list[str] = []
        self._unique = [
            {name for part in unique.parts for name in part.input_names}
            for unique in entity.unique
            if not any(part.counter_group is not None for part in unique.parts)
        ]
        self._parents: dict[str, Any] = {}
        for key in entity.foreign_keys:
            parents = stored.get(key.parent.name, ())
            if parents:
                ids = (value_of(parents[0], part.name) for part in key.parent.ids)
                self._parents |= zip((part.name for part in key.by), ids, strict=True)
        self._foreign = {part.name for key in entity.foreign_keys for part in key.by}
        self._owners = ownership_properties(entity.write_rules)

    def value(self, part: PropertySpec) -> Any:
        """Return a value: of a stored parent, a new one, of the template, or any value of the type."""
        name = part.name
        if not allows_anyone(self._entity.write_rules) and name in self._owners:
            self.placeholders.append(name)
        if name in self._parents:
            return self._parents[name]
        if name in self._foreign:
            self.placeholders.append(name)
        template_value = None if self._template is None else value_of(self._template, name)
        if part in self._entity.ids or any(name in names for names in self._unique):
            derives = self._derives_ids or part not in self._entity.ids
            value = _new_value(self._entity, part, template_value if derives else None)
            if value is not None:
                self.new_values.add(name)
                return value
        if template_value is not None and part is not self._entity.ttl:
            return template_value
        if part is self._entity.ttl:
            return int(_FAR_FUTURE.timestamp())
        if part.codec is not None:
            return _codec_value(part.codec, name)
        return _annotation_value(self._entity.model.model_fields[name].annotation, name)

    def mark_taken_unique_values(self, values: Mapping[str, Any]) -> None:
        """Mark unique values that a stored record may have as placeholders."""
        for names in self._unique:
            if names <= values.keys() and not names & self.new_values:
                self.placeholders.extend(name for name in values if name in names)


def _changes(
    entity: EntitySpec, values: Mapping[str, Any], others: Sequence[Entity], preferred: Sequence[str]
) -> Iterator[tuple[PropertySpec, Any]]:
    """Return properties that can change without regard to constraints and owners, each with a new value."""
    constrained = {part.name for key in entity.foreign_keys for part in key.by}
    constrained |= {name for unique in entity.unique for part in unique.parts for name in (part.name, *part.sources)}
    constrained |= ownership_properties(entity.write_rules)
    candidates = [
        part
        for part in updatable_properties(entity)
        if part.codec is not None
        and part.name not in constrained
        and part is not entity.ttl
        and allows_anyone(part.allow)
    ]
    joined_by = {part.name for join in entity.joins.values() for part in join.by}
    ranked = sorted(
        candidates,
        key=lambda part: (
            part.name not in preferred,
            part.name in joined_by,
            part.name not in values,
            candidates.index(part),
        ),
    )
    for part in ranked:
        current = values.get(part.name)
        stored_values = [value_of(other, part.name) for other in others]
        for value in (*stored_values, _different_value(part.column.codec, current, part.name)):
            if value is not None and value != current and _validate(entity, {**values, part.name: value}) is not None:
                yield part, value


def _validate(entity: EntitySpec, values: Mapping[str, Any]) -> Entity | None:
    """Return the record with these values; None if it is invalid."""
    # As in a mutation, omitted nullable properties are null.
    nulls = {
        part.name: None
        for part in writable_properties(entity)
        if part.nullable and part is not entity.created and entity.model.model_fields[part.name].is_required()
    }
    try:
        return build_record(entity, {**nulls, **values}, None, _NEW_YEAR.timestamp())
    except ShardQLError:
        return None


# --- values ----------------------------------------------------------------------------------------------------


def _new_value(entity: EntitySpec, part: PropertySpec, template_value: Any) -> Any:
    """Return a value that no record has yet; None if the type has too few values."""
    codec = part.codec
    match codec:
        case codecs.Text():
            if template_value is None:
                return _example_id(entity_name(entity.type_name))
            return f"{_ID_PREFIX}-{template_value}"
        case codecs.Uuid():
            digest = blake2b(f"{entity.type_name}.{part.name}".encode(), digest_size=16).digest()
            return UUID(bytes=digest, version=4)
        case codecs.Int64() | codecs.Int32() | codecs.Float64():
            return _UNUSED_NUMBER
        case codecs.DecimalNumber():
            return Decimal(_UNUSED_NUMBER)
        case codecs.Timestamp() | codecs.TimestampMs() | codecs.Date() | codecs.DateTime():
            return _time_value(codec, _FAR_FUTURE)
        case codecs.Duration():
            return timedelta(seconds=_UNUSED_NUMBER)
    return None


def _codec_value(codec: Codec[Any], name: str) -> Any:
    """Return any value of a scalar. A string contains the name of its property."""
    match codec:
        case codecs.Text():
            entity_part = strip_id_suffix(camel_case(name))
            return _example_id(entity_part) if name.endswith("_id") else name.replace("_", " ").strip().capitalize()
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
    return _time_value(codec, _NEW_YEAR)


def _example_id(camel: str) -> str:
    """Return a readable id such as `example-order-line`."""
    return f"{_ID_PREFIX}-{re.sub(r'(?<!^)(?=[A-Z])', '-', camel).lower()}"


def _different_value(codec: Codec[Any], value: Any, name: str) -> Any:
    """Return a value different from this one; None if there is none."""
    if value is None:
        return _codec_value(codec, name)
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


def _time_value(codec: Codec[Any], moment: datetime) -> int | date | datetime:
    match codec:
        case codecs.Timestamp():
            return int(moment.timestamp())
        case codecs.TimestampMs():
            return int(moment.timestamp()) * 1000
        case codecs.Date():
            return moment.date()
    return moment


def _annotation_value(annotation: Any, name: str) -> Any:
    """Return a minimal value that pydantic accepts for an annotation."""
    read = parse_annotation(annotation)
    if read.codec is not None:
        return _codec_value(read.codec, name)
    if read.nullable:
        return None
    kind = get_origin(read.types[0]) or read.types[0]
    if not isinstance(kind, type):
        return None
    if issubclass(kind, BaseModel):
        return {
            name: _annotation_value(field.annotation, name)
            for name, field in kind.model_fields.items()
            if field.is_required()
        }
    if issubclass(kind, bytes):
        return _ID_PREFIX.encode()
    return [] if issubclass(kind, list | tuple | AbstractSet) else {}
