"""Validate the indexes and unions of an entity: names, properties, key sizes and key attributes."""

import re
from collections.abc import Callable, Mapping

from graphql_api.codecs import MAX_KEY_BYTES
from graphql_api.model.markers import Index
from graphql_api.model.naming import MAX_NAME_LENGTH, NAME_PATTERN, is_attribute_name
from graphql_api.model.specs import EntitySpec, IndexSpec, SortProperty, UnionSpec
from graphql_api.model.validation.lookup_validation import lookup_violations
from graphql_api.model.violations import Problems, Violations, duplicates
from graphql_api.storage import MAX_HASH_BYTES

ORDER_PATTERN = re.compile(r"[A-Z][A-Z0-9_]{0,99}")
PHYSICAL_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_.-]{3,255}")


def index_violations(spec: EntitySpec) -> Violations:
    """Yield the violations of the indexes and unions of one entity."""
    declared = spec.model.__declaration__.indexes
    secondary = [index for index in spec.indexes.values() if index.physical is not None]
    for index in secondary:
        for problem, remedy in (
            *_name_problems(index, declared[index.attribute]),
            *_property_problems(index),
            *_raw_problems(index, declared[index.attribute]),
            *_size_problems(index),
        ):
            yield index.attribute, problem, remedy
    for name, attribute, first in duplicates((index.name, index.attribute) for index in spec.indexes.values()):
        yield attribute, f"is called {name!r} in GraphQL, as {first} is.", "Rename one of the attributes."
    if "by_id" in declared:
        yield "by_id", "replaces the primary index of the entity.", "Rename it."
    for physical, attribute, first in duplicates((index.physical, index.attribute) for index in secondary):
        remedy = "Set another name= or slot= for one of them."
        yield attribute, f"uses the physical index {physical!r}, as {first} of the same entity does.", remedy
    yield from lookup_violations(spec)
    yield from _key_attribute_violations(spec)
    attributes_by_name = {index.name: index.attribute for index in spec.indexes.values()}
    for union in spec.unions.values():
        for problem, remedy in _union_problems(union, attributes_by_name):
            yield union.attribute, problem, remedy


# --- single indexes --------------------------------------------------------------------------------------------


def _name_problems(index: IndexSpec, declared: Index) -> Problems:
    if not index.attribute.startswith("by_") or not NAME_PATTERN.fullmatch(index.name):
        remedy = f"Call it by_{index.attribute.lstrip('_')}."
        yield "is an index, and its name does not start with by_ and a letter.", remedy
    if not PHYSICAL_NAME_PATTERN.fullmatch(index.physical or ""):
        remedy = "Set a name= of 3 to 255 letters, digits, underscores, dots and hyphens."
        yield f"is called {index.physical!r} in the table.", remedy
    if declared.slot and declared.name:
        yield "has a slot and a name.", "The slot is its physical name: remove name=."
    for attribute in (index.hash_attribute, index.range_attribute):
        if not is_attribute_name(attribute):
            remedy = f"A name has at most {MAX_NAME_LENGTH} ASCII letters, digits and underscores, a letter first."
            yield f"stores a key in the attribute {attribute!r}.", remedy
    if declared.order is not None and not ORDER_PATTERN.fullmatch(str(declared.order)):
        remedy = 'Use capital letters, digits and underscores, a letter first: order="NAME".'
        yield f"has the order {declared.order!r}.", remedy
    if index.projection == ():
        yield "has an empty projection.", 'Set projection="KEYS_ONLY".'


def _property_problems(index: IndexSpec) -> Problems:
    for part in index.hash:
        if part.codec is None:
            yield f"is hashed by {part.name}, which is no scalar.", "Name a scalar property."
    for name, _, _ in duplicates((part.name, None) for part in index.hash):
        yield f"is hashed by {name} twice.", "Name it once."
    for name, _, _ in duplicates((order.property.name, None) for order in index.sort):
        yield f"is sorted by {name} twice.", "Name it once."
    for name in {part.name for part in index.hash} & {order.property.name for order in index.sort}:
        yield f"is sorted by {name}, which is also a hash property.", "Remove it from sort=."
    if not index.raw and not index.sort and not index.tie_breaker:
        yield "has no sort property, and the entity has no id.", "Remove it: a singleton is read by id."
    for order in index.sort:
        codec = order.property.codec
        if codec is None:
            yield f"is sorted by {order.property.name}, which is no scalar.", "Name a scalar property."
        elif order.descending and not codec.fixed_width:
            remedy = "Remove desc() and search with reverse, or sort by a property of fixed width."
            yield f"is sorted by {order.property.name} in descending order, which text does not support.", remedy


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
    if part.property.codec is not None and part.property.raw_key_type is None:
        yield f"is raw and sorted by {name}, which is stored neither as text nor as a number.", "Remove raw=."
    if declared.slot:
        yield "is raw and in a slot, whose range keys are generated.", "Remove slot= or raw=."
    if declared.range_key not in (None, part.property.stored):
        yield f"is raw and sorted by {name}, and sets range_key={declared.range_key!r}.", "Remove range_key=."


def _size_problems(index: IndexSpec) -> Problems:
    """Check that names alone do not exceed the size of a key."""
    range_bytes = 0 if index.raw else sum(len(part.stored) + 3 for part in index.range_properties) - 2
    if range_bytes > MAX_KEY_BYTES:
        remedy = f"At most {MAX_KEY_BYTES} fit: shorten the stored names."
        yield f"has range values of at least {range_bytes} bytes.", remedy
    hash_bytes = len(index.hash_entity) + 1 + index.space.width + sum(len(part.stored) + 2 for part in index.hash)
    if hash_bytes > MAX_HASH_BYTES:
        remedy = f"At most {MAX_HASH_BYTES} fit: shorten the stored names."
        yield f"has hash keys of at least {hash_bytes} bytes.", remedy


# --- conflicts between indexes ---------------------------------------------------------------------------------


def _key_attribute_violations(spec: EntitySpec) -> Violations:
    """Check that indexes that share a key attribute store the same key in it."""
    first_keys: dict[str, tuple[str, object]] = {}
    for index in spec.written_indexes:
        declared = spec.model.__declaration__.indexes.get(index.attribute)
        hashed_by = [part.stored for part in index.hash]
        hash_key = ("hash key", index.hash_entity, declared.sharded if declared else True, hashed_by)
        keys: list[tuple[str, object]] = [(index.hash_attribute, hash_key)]
        if not index.raw:
            orders = [*map(SortProperty, index.id_prefix), *index.sort, *map(SortProperty, index.tie_breaker)]
            keys.append((index.range_attribute, [(order.property.stored, order.descending) for order in orders]))
        for attribute, key in keys:
            first, first_key = first_keys.setdefault(attribute, (index.attribute, key))
            if key != first_key:
                problem = f"stores a key in the attribute {attribute!r}, where {first} stores a different key."
                remedy = "Set another hash_key= or range_key=."
                yield index.attribute, problem, remedy


# --- unions ----------------------------------------------------------------------------------------------------


def _union_problems(union: UnionSpec, attributes_by_name: Mapping[str, str]) -> Problems:
    if not union.attribute.startswith("by_") or not NAME_PATTERN.fullmatch(union.name):
        remedy = f"Call it by_{union.attribute.lstrip('_')}."
        yield "is a union, and its name does not start with by_ and a letter.", remedy
    if union.name in attributes_by_name:
        remedy = "Give one of them another name."
        yield f"is called {union.name!r} in GraphQL, as {attributes_by_name[union.name]} is.", remedy
    if len(union.members) < 2:
        yield "is a union of fewer than two indexes.", "Name the indexes that it searches, in order."
    if len({index.attribute for index in union.members}) < len(union.members):
        yield "names an index twice.", "Name each index once."
    # One search must fit all members, and duplicate records are recognized by their keys.
    for index in union.members[1:]:
        first = union.members[0]
        difference = next((text for text, aspect in _ALIGNED.items() if aspect(index) != aspect(first)), None)
        if difference is not None:
            remedy = "Search them by two fields, or declare the indexes alike."
            yield f"joins {first.attribute} and {index.attribute}, {difference}.", remedy
    for index in union.members[1:]:
        if index.projection != "ALL":
            remedy = 'Set projection="ALL", or name it first.'
            yield f"has {index.attribute} after other indexes, and its entries do not carry their keys.", remedy


_ALIGNED: Mapping[str, Callable[[IndexSpec], object]] = {
    "which are hashed by different properties": lambda index: [part.name for part in index.hash],
    "which are sharded differently": lambda index: (index.hash_entity, index.space, index.sharded_like_parent),
    "whose first sort properties have different types": lambda index: (
        index.sort[0].property.codec if index.sort else None
    ),
}
"""what the members of a union have in common"""
