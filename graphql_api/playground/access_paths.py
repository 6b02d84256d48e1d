"""The ways in which a catalog's records are found, each with the arguments that it cannot do without."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphql_api.codecs import Boolean, EnumCodec, join_outside
from graphql_api.model import Catalog, Entity, EntitySpec, IndexSpec, PropertySpec, UnionSpec, is_open
from graphql_api.schema import Kind, Names, example_range, kind_of, literal

_ANY_TEXT = '"…"'


@dataclass(frozen=True, slots=True)
class Needed:
    """An argument that has to be given."""

    name: str
    value: str
    """as it stands in the document"""
    known: bool
    """records with this value are in the store; else somebody has to put one in its place"""

    @property
    def text(self) -> str:
        """The argument as it stands in the document."""
        return f"{self.name}: {self.value}"


@dataclass(frozen=True, slots=True)
class Way:
    """A field of the schema that searches an index."""

    entity: EntitySpec
    index: IndexSpec
    field: str
    needed: tuple[Needed, ...]
    record: Entity | None
    """one that it finds, if one is known"""

    @property
    def gaps(self) -> list[str]:
        """Arguments for which somebody has to know a value."""
        return [one.name for one in self.needed if not one.known]

    @property
    def is_open(self) -> bool:
        """Whether it answers whoever asks."""
        return answers_everybody(self.entity, self.index)

    @property
    def first(self) -> PropertySpec | None:
        """What `from`, `to` and their like are about."""
        return self.index.sort[0].property if self.index.sort else None

    @property
    def kind(self) -> Kind | None:
        """What its order can show; None where nothing can be asked of it."""
        if self.first is None:
            return None
        # A composite key is asked for by its parts as one text, so bounds of the first part alone say nothing.
        composite = self.index.physical is None and len(self.index.sort) > 1
        return "other" if composite else kind_of(self.first.codec)


def answers_everybody(entity: EntitySpec, search: IndexSpec | UnionSpec | None) -> bool:
    """Whether a search of an entity, or a read by its key, is for whoever asks."""
    return is_open(entity.allow if search is None or search.allow is None else search.allow)


def ways_of(catalog: Catalog, names: Names, known: Mapping[str, Entity]) -> Iterator[Way]:
    """Every search that the schema offers. `known` holds a stored record of some entities, by the entity's name."""
    for spec in catalog.entities.values():
        record = known.get(spec.name)
        for index in spec.indexes.values():
            if index.physical is None and not spec.primary:
                continue  # There is one record, and the field that reads it is no search.
            if index.lead:
                needed = [needed_id(spec, record)]
            else:
                needed = [_needed(names.dialect.argument(part.name), part, record) for part in index.hash]
            yield Way(spec, index, names.search(spec, index), tuple(needed), record)


def needed_id(spec: EntitySpec, record: Entity | None) -> Needed:
    """The argument that names one record, or the history of one: a text, whatever the id is made of."""
    if record is None:
        return Needed("id", _ANY_TEXT, known=False)
    values = [getattr(record, part.name) for part in spec.ids]
    text = join_outside(values, [part.column.codec for part in spec.ids], spec.separator)
    return Needed("id", json.dumps(text, ensure_ascii=False), known=True)


def _needed(name: str, part: PropertySpec, record: Entity | None) -> Needed:
    codec = part.column.codec
    if record is not None and (value := getattr(record, part.name)) is not None:
        return Needed(name, literal(codec, value), known=True)
    if isinstance(codec, EnumCodec):
        return Needed(name, literal(codec, next(iter(codec.enum_class))), known=True)
    if isinstance(codec, Boolean):
        return Needed(name, literal(codec, True), known=True)
    any_value = example_range(codec)[0] if kind_of(codec) in ("time", "number") else _ANY_TEXT
    return Needed(name, any_value, known=False)
