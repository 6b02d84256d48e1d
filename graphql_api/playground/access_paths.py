"""The access paths of a catalog: its search fields, each with the arguments that it requires."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphql_api.codecs import Boolean, EnumCodec, format_composite_id
from graphql_api.model import Catalog, Entity, EntitySpec, IndexSpec, PropertySpec, UnionSpec, allows_anyone
from graphql_api.schema import GraphQLNames, ValueKind, example_range, scalar_literal, value_kind

_PLACEHOLDER = '"…"'


@dataclass(frozen=True, slots=True)
class RequiredArgument:
    """A required argument of a search, with a value for a sample operation."""

    name: str
    value: str
    """A GraphQL literal."""
    is_known: bool
    """Records with this value are stored. Otherwise the value is a placeholder."""

    @property
    def text(self) -> str:
        """Return the argument as GraphQL text: `name: value`."""
        return f"{self.name}: {self.value}"


@dataclass(frozen=True, slots=True)
class AccessPath:
    """A field of the schema that searches one index."""

    entity: EntitySpec
    index: IndexSpec
    field: str
    required: tuple[RequiredArgument, ...]
    sample: Entity | None
    """A stored record that the search finds, if one is known."""

    @property
    def placeholders(self) -> list[str]:
        """Return the arguments that have a placeholder as value."""
        return [argument.name for argument in self.required if not argument.is_known]

    @property
    def is_open(self) -> bool:
        """Return whether any caller may use the search."""
        return is_open_to_all(self.entity, self.index)

    @property
    def sort_property(self) -> PropertySpec | None:
        """Return the property that range conditions such as `from` and `to` apply to."""
        return self.index.sort[0].property if self.index.sort else None

    @property
    def sort_kind(self) -> ValueKind | None:
        """Return the kind of values that the results are ordered by; None if the index has no sort property."""
        if self.sort_property is None:
            return None
        # The parts of a composite key are one string in conditions, so bounds of the first part mean nothing.
        is_composite = self.index.physical is None and len(self.index.sort) > 1
        return "other" if is_composite else value_kind(self.sort_property.codec)


def is_open_to_all(entity: EntitySpec, search: IndexSpec | UnionSpec | None) -> bool:
    """Return whether any caller may search the entity by this index, or read its records by key if `search` is None."""
    return allows_anyone(entity.allow if search is None or search.allow is None else search.allow)


def find_access_paths(catalog: Catalog, names: GraphQLNames, samples: Mapping[str, Entity]) -> Iterator[AccessPath]:
    """Return every search of the schema. `samples` holds a stored record of some entities, by entity name."""
    for spec in catalog.entities.values():
        sample = samples.get(spec.name)
        for index in spec.indexes.values():
            if index.physical is None and not spec.primary_key:
                continue  # The entity has a single record; the field that reads it is not a search.
            if index.id_prefix:
                required = [id_argument(spec, sample)]
            else:
                argument_name = names.naming.property_argument
                required = [_hash_argument(argument_name(part.name), part, sample) for part in index.hash]
            yield AccessPath(spec, index, names.search_field(spec, index), tuple(required), sample)


def id_argument(spec: EntitySpec, record: Entity | None) -> RequiredArgument:
    """Return the argument that identifies one record, or one history. It is a string, whatever the id consists of."""
    if record is None:
        return RequiredArgument("id", _PLACEHOLDER, is_known=False)
    values = [getattr(record, part.name) for part in spec.ids]
    text = format_composite_id(values, [part.column.codec for part in spec.ids], spec.separator)
    return RequiredArgument("id", json.dumps(text, ensure_ascii=False), is_known=True)


def _hash_argument(name: str, part: PropertySpec, record: Entity | None) -> RequiredArgument:
    codec = part.column.codec
    if record is not None and (value := getattr(record, part.name)) is not None:
        return RequiredArgument(name, scalar_literal(codec, value), is_known=True)
    if isinstance(codec, EnumCodec):
        return RequiredArgument(name, scalar_literal(codec, next(iter(codec.enum_class))), is_known=True)
    if isinstance(codec, Boolean):
        return RequiredArgument(name, scalar_literal(codec, True), is_known=True)
    placeholder = example_range(codec)[0] if value_kind(codec) in ("time", "number") else _PLACEHOLDER
    return RequiredArgument(name, placeholder, is_known=False)
