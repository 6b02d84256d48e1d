"""Validate the lookups of an entity: names, properties and key sizes."""

from graphql_api.model.naming import NAME_PATTERN
from graphql_api.model.specs import EntitySpec, IndexSpec
from graphql_api.model.violations import LETTERS_AND_DIGITS, Problems, Violations, duplicates
from graphql_api.storage import MAX_HASH_BYTES

MAX_LOOKUP_NAME = 100
"""characters of the name of a lookup in the table, which is part of each mapping item's key"""


def lookup_violations(spec: EntitySpec) -> Violations:
    """Yield the violations of the lookups of one entity. Those of their GraphQL names are found with the indexes."""
    lookups = [index for index in spec.indexes.values() if index.lookup is not None]
    if lookups and not spec.primary_key:
        remedy = "Remove it: a singleton is read by id."
        yield lookups[0].attribute, "is a lookup, and the entity has no id.", remedy
    for lookup in lookups:
        for problem, remedy in (*_name_problems(lookup), *_property_problems(lookup), *_size_problems(lookup)):
            yield lookup.attribute, problem, remedy
    for name, attribute, first in duplicates((lookup.lookup, lookup.attribute) for lookup in lookups):
        yield attribute, f"is called {name!r} in the table, as {first} is.", "Set another name= for one of them."


def _name_problems(lookup: IndexSpec) -> Problems:
    if not lookup.attribute.startswith("by_") or not NAME_PATTERN.fullmatch(lookup.name):
        remedy = f"Call it by_{lookup.attribute.lstrip('_')}."
        yield "is a lookup, and its name does not start with by_ and a letter.", remedy
    name = lookup.lookup
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name) or len(name) > MAX_LOOKUP_NAME:
        yield f"is called {name!r} in the table.", f"{LETTERS_AND_DIGITS} At most {MAX_LOOKUP_NAME} fit."


def _property_problems(lookup: IndexSpec) -> Problems:
    if not lookup.hash:
        yield "is a lookup of no properties.", "Name at least one property."
    for part in lookup.hash:
        if part.codec is None:
            yield f"looks up {part.name}, which is no scalar.", "Name a scalar property."
    for name, _, _ in duplicates((part.name, None) for part in lookup.hash):
        yield f"looks up {name} twice.", "Name it once."


def _size_problems(lookup: IndexSpec) -> Problems:
    """Check that names alone do not exceed the size of a key."""
    size = len(lookup.hash_entity.encode()) + 1 + sum(len(part.stored) + 2 for part in lookup.hash)
    if size > MAX_HASH_BYTES:
        yield f"has hash keys of at least {size} bytes.", f"At most {MAX_HASH_BYTES} fit: shorten the stored names."
