"""Validate the indexes of an entity: names, properties, key sizes and key attributes."""

import re
from collections import defaultdict
from collections.abc import Iterator

from graphql_api.model.markers import Index
from graphql_api.model.naming import NAME_PATTERN
from graphql_api.model.physical_table import raw_key_type
from graphql_api.model.specs import EntitySpec, IndexSpec

Violations = Iterator[tuple[str | None, str, str]]
"""violations of one entity: index, problem, remedy"""

Problems = Iterator[tuple[str, str]]
"""violations of one index: problem, remedy"""

PHYSICAL_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
MAX_ATTRIBUTE_LENGTH = 255
MAX_RANGE_BYTES = 1020
MAX_HASH_BYTES = 2048


def index_violations(spec: EntitySpec) -> Violations:
    """Yield the violations of the indexes of one entity."""
    for index in _secondary_indexes(spec):
        declared = spec.model.__declaration__.indexes[index.attribute]
        problems = [
            *_name_problems(index, declared),
            *_property_problems(index),
            *_sort_problems(index),
            *_raw_problems(index, declared),
            *_size_problems(index),
        ]
        for problem, remedy in problems:
            yield index.attribute, problem, remedy
    yield from _duplicate_name_violations(spec)
    yield from _duplicate_physical_violations(spec)
    yield from _key_attribute_violations(spec)


def _secondary_indexes(spec: EntitySpec) -> list[IndexSpec]:
    return [index for index in spec.indexes.values() if index.physical is not None]


# --- single indexes --------------------------------------------------------------------------------------------


def _name_problems(index: IndexSpec, declared: Index) -> Problems:
    if not index.attribute.startswith("by_") or not NAME_PATTERN.fullmatch(index.name):
        yield (
            "is an index, and its name does not start with by_ and a letter.",
            f"Call it by_{index.attribute.lstrip('_')}.",
        )
    if not PHYSICAL_NAME_PATTERN.fullmatch(index.physical or ""):
        yield (
            f"is called {index.physical!r} in the table.",
            "Set a name= of 3 to 255 letters, digits, underscores, dots and hyphens.",
        )
    if declared.slot and declared.name:
        yield "has a slot and a name.", "The slot is its physical name: remove name=."
    for attribute in (index.hash_attribute, index.range_attribute):
        if not NAME_PATTERN.fullmatch(attribute) or len(attribute) > MAX_ATTRIBUTE_LENGTH:
            yield (
                f"stores a key in the attribute {attribute!r}.",
                f"A name has at most {MAX_ATTRIBUTE_LENGTH} ASCII letters, digits and underscores, a letter first.",
            )
    if index.projection == ():
        yield "has an empty projection.", 'Set projection="KEYS_ONLY".'


def _property_problems(index: IndexSpec) -> Problems:
    for part in index.hash:
        if part.codec is None:
            yield f"is hashed by {part.name}, which is no scalar.", "Name a scalar property."
    for name in _repeated([part.name for part in index.hash]):
        yield f"is hashed by {name} twice.", "Name it once."
    for name in _repeated([part.property.name for part in index.sort]):
        yield f"is sorted by {name} twice.", "Name it once."
    for name in {part.name for part in index.hash} & {part.property.name for part in index.sort}:
        yield f"is sorted by {name}, which is also a hash property.", "Remove it from sort=."
    if not index.raw and not index.sort and not index.tie_breaker:
        yield "has no sort property, and the entity has no id.", "Remove it: a singleton is read by id."


def _sort_problems(index: IndexSpec) -> Problems:
    for part in index.sort:
        codec = part.property.codec
        if codec is None:
            yield f"is sorted by {part.property.name}, which is no scalar.", "Name a scalar property."
        elif part.descending and not codec.fixed_width:
            yield (
                f"is sorted by {part.property.name} in descending order, which text does not support.",
                "Remove desc() and search with reverse, or sort by a property of fixed width.",
            )


def _raw_problems(index: IndexSpec, declared: Index) -> Problems:
    if not index.raw:
        return
    if len(index.sort) != 1:
        yield f"is raw and sorted by {len(index.sort)} properties.", "Name exactly one sort property."
        return
    part = index.sort[0]
    name = part.property.name
    if part.descending:
        yield f"is raw and sorted by {name} in descending order.", "Remove desc() and search with reverse."
    if part.property.codec is not None and raw_key_type(part.property) is None:
        yield f"is raw and sorted by {name}, which is stored neither as text nor as a number.", "Remove raw=."
    if declared.slot:
        yield "is raw and in a slot, whose range keys are generated.", "Remove slot= or raw=."
    if declared.range_key not in (None, part.property.stored):
        yield f"is raw and sorted by {name}, and sets range_key={declared.range_key!r}.", "Remove range_key=."


def _size_problems(index: IndexSpec) -> Problems:
    """Check that names alone do not exceed the size of a key."""
    columns = [*index.id_prefix, *(part.property for part in index.sort), *index.tie_breaker]
    range_bytes = 0 if index.raw else sum(len(part.stored) + 3 for part in columns) - 2
    if range_bytes > MAX_RANGE_BYTES:
        yield (
            f"has range values of at least {range_bytes} bytes.",
            f"At most {MAX_RANGE_BYTES} fit: shorten the stored names.",
        )
    hash_bytes = len(index.hash_entity) + 1 + index.space.width + sum(len(part.stored) + 2 for part in index.hash)
    if hash_bytes > MAX_HASH_BYTES:
        yield (
            f"has hash keys of at least {hash_bytes} bytes.",
            f"At most {MAX_HASH_BYTES} fit: shorten the stored names.",
        )


def _repeated(names: list[str]) -> list[str]:
    return [name for position, name in enumerate(names) if name in names[:position]]


# --- conflicts between indexes ---------------------------------------------------------------------------------


def _duplicate_name_violations(spec: EntitySpec) -> Violations:
    first: dict[str, str] = {}
    for index in spec.indexes.values():
        if index.name in first:
            yield (
                index.attribute,
                f"is called {index.name!r} in GraphQL, as {first[index.name]} is.",
                "Rename one of the attributes.",
            )
        first.setdefault(index.name, index.attribute)
    if "by_id" in spec.model.__declaration__.indexes:
        yield "by_id", "replaces the primary index of the entity.", "Rename it."


def _duplicate_physical_violations(spec: EntitySpec) -> Violations:
    first: dict[str, str] = {}
    for index in _secondary_indexes(spec):
        physical = index.physical or ""
        if physical in first:
            yield (
                index.attribute,
                f"uses the physical index {physical!r}, as {first[physical]} of the same entity does.",
                "Set another name= or slot= for one of them.",
            )
        first.setdefault(physical, index.attribute)


def _key_attribute_violations(spec: EntitySpec) -> Violations:
    """Check that indexes that share a key attribute store the same key in it."""
    keys_by_attribute: dict[str, list[tuple[str, object]]] = defaultdict(list)
    for index in spec.indexes.values():
        declared = spec.model.__declaration__.indexes.get(index.attribute)
        sharded = declared.sharded if declared else True
        hashed_by = tuple(part.stored for part in index.hash)
        hash_key = ("hash key", index.hash_entity, sharded, hashed_by)
        keys_by_attribute[index.hash_attribute].append((index.attribute, hash_key))
        if not index.raw:
            id_prefix = [(part.stored, False) for part in index.id_prefix]
            sorted_by = [(part.property.stored, part.descending) for part in index.sort]
            tie_breaker = [(part.stored, False) for part in index.tie_breaker]
            range_key = ("range key", *id_prefix, *sorted_by, *tie_breaker)
            keys_by_attribute[index.range_attribute].append((index.attribute, range_key))
    for attribute, keys in keys_by_attribute.items():
        first, first_key = keys[0]
        for index_attribute, key in keys[1:]:
            if key != first_key:
                yield (
                    index_attribute,
                    f"stores a key in the attribute {attribute!r}, where {first} stores a different key.",
                    "Set another hash_key= or range_key=.",
                )
