"""The rules of an entity's indexes: names, what they are made of, and the attributes that they write."""

import re
from collections import defaultdict
from collections.abc import Iterator

from graphql_api.model.markers import Index
from graphql_api.model.naming import NAME
from graphql_api.model.physical_table import raw_key_type
from graphql_api.model.specs import EntitySpec, IndexSpec

Found = Iterator[tuple[str | None, str, str]]
"""violations of one entity: index, problem, remedy"""

PHYSICAL_NAME = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
MAX_ATTRIBUTE_LENGTH = 255
MAX_RANGE_BYTES = 1020
MAX_HASH_BYTES = 2048


def index_violations(spec: EntitySpec) -> Found:
    """Everything that is wrong with the indexes of one entity."""
    for index in _secondary(spec):
        declared = spec.model.__declaration__.indexes[index.attribute]
        found = [*_named(index, declared), *_made_of(index), *_sorted(index), *_raw(index, declared), *_fitting(index)]
        for problem, remedy in found:
            yield index.attribute, problem, remedy
    yield from _one_name_each(spec)
    yield from _one_slot_each(spec)
    yield from _one_meaning_each(spec)


def _secondary(spec: EntitySpec) -> list[IndexSpec]:
    return [index for index in spec.indexes.values() if index.physical is not None]


Problems = Iterator[tuple[str, str]]
"""violations of one index: problem, remedy"""


def _named(index: IndexSpec, declared: Index) -> Problems:
    if not index.attribute.startswith("by_") or not NAME.fullmatch(index.name):
        yield (
            "is an index whose name does not begin with by_ and a letter.",
            f"Call it by_{index.attribute.lstrip('_')}.",
        )
    if not PHYSICAL_NAME.fullmatch(index.physical or ""):
        yield (
            f"is called {index.physical!r} in the table.",
            "Give a name= of 3 to 255 characters out of letters, digits, underscore, dot and hyphen.",
        )
    if declared.slot and declared.name:
        yield "has a slot and a name.", "The slot is its name in the table: leave name= out."
    for attribute in (index.hash_attribute, index.range_attribute):
        if not NAME.fullmatch(attribute) or len(attribute) > MAX_ATTRIBUTE_LENGTH:
            yield (
                f"keeps a key in the attribute {attribute!r}.",
                f"Such a name has at most {MAX_ATTRIBUTE_LENGTH} ASCII letters, digits and underscores, a letter first.",
            )
    if index.projection == ():
        yield "carries no property.", 'Say projection="KEYS_ONLY".'


def _made_of(index: IndexSpec) -> Problems:
    for part in index.hash:
        if part.codec is None:
            yield f"is hashed by {part.name}, which is no scalar.", "Hash by a text, number, date or the like."
    for name in _repeated([part.name for part in index.hash]):
        yield f"is hashed by {name} twice.", "Name it once."
    for name in _repeated([part.property.name for part in index.sort]):
        yield f"is sorted by {name} twice.", "Name it once."
    for name in {part.name for part in index.hash} & {part.property.name for part in index.sort}:
        yield f"is sorted by {name}, of which every search gives one value.", "Leave it out of sort=."
    if not index.raw and not index.sort and not index.tail:
        yield "has nothing to sort by, since the entity has no id.", "A singleton is read by id and needs no index."


def _sorted(index: IndexSpec) -> Problems:
    for part in index.sort:
        codec = part.property.codec
        if codec is None:
            yield f"is sorted by {part.property.name}, which is no scalar.", "Sort by a text, number, date or the like."
        elif part.descending and not codec.fixed_width:
            yield (
                f"is sorted by {part.property.name} backwards, and texts of any length cannot be turned round.",
                "Sort it forward and search with reverse, or turn a property of fixed width round.",
            )


def _raw(index: IndexSpec, declared: Index) -> Problems:
    if not index.raw:
        return
    if len(index.sort) != 1:
        yield f"is raw and sorted by {len(index.sort)} properties.", "A raw index keeps one plain property: name one."
        return
    part = index.sort[0]
    if part.descending:
        yield f"is raw and turns {part.property.name} round.", "Leave desc() out and search with reverse."
    if part.property.codec is not None and raw_key_type(part.property) is None:
        yield f"is raw over {part.property.name}, which is stored neither as text nor as number.", "Leave raw out."
    if declared.slot:
        yield "is raw and in a slot, whose range attribute holds generated texts.", "Leave slot= or raw= out."
    if declared.range_key not in (None, part.property.stored):
        yield (
            f"is raw over {part.property.name} and names another range attribute, {declared.range_key!r}.",
            "Leave range_key= out.",
        )


def _fitting(index: IndexSpec) -> Problems:
    """Names alone can fill a key."""
    columns = [*index.lead, *(part.property for part in index.sort), *index.tail]
    range_bytes = 0 if index.raw else sum(len(part.stored) + 3 for part in columns) - 2
    if range_bytes > MAX_RANGE_BYTES:
        yield f"has range values of at least {range_bytes} bytes.", f"{MAX_RANGE_BYTES} fit: shorten the stored names."
    hash_bytes = len(index.head) + 1 + index.space.width + sum(len(part.stored) + 2 for part in index.hash)
    if hash_bytes > MAX_HASH_BYTES:
        yield f"has hash keys of at least {hash_bytes} bytes.", f"{MAX_HASH_BYTES} fit: shorten the stored names."


def _repeated(names: list[str]) -> list[str]:
    return [name for at, name in enumerate(names) if name in names[:at]]


# --- indexes beside each other ---------------------------------------------------------------------------------


def _one_name_each(spec: EntitySpec) -> Found:
    first: dict[str, str] = {}
    for index in spec.indexes.values():
        if index.name in first:
            yield (
                index.attribute,
                f"is called {index.name!r} in GraphQL, as {first[index.name]} is.",
                "Give one of them another attribute.",
            )
        first.setdefault(index.name, index.attribute)
    if "by_id" in spec.model.__declaration__.indexes:
        yield "by_id", "takes the place of the index that every entity has.", "Call it otherwise."


def _one_slot_each(spec: EntitySpec) -> Found:
    first: dict[str, str] = {}
    for index in _secondary(spec):
        physical = index.physical or ""
        if physical in first:
            yield (
                index.attribute,
                f"lies in {physical!r} of the table, as {first[physical]} of the same entity does.",
                "Give one of them another name= or slot=.",
            )
        first.setdefault(physical, index.attribute)


def _one_meaning_each(spec: EntitySpec) -> Found:
    """An attribute that several indexes write must hold the same for all of them."""
    meanings: dict[str, list[tuple[str, object]]] = defaultdict(list)
    for index in spec.indexes.values():
        declared = spec.model.__declaration__.indexes.get(index.attribute)
        sharded = declared.sharded if declared else True
        hashed_by = tuple(part.stored for part in index.hash)
        meanings[index.hash_attribute].append((index.attribute, ("hash key", index.head, sharded, hashed_by)))
        if not index.raw:
            sorted_by = [(part.property.stored, part.descending) for part in index.sort]
            ids = [(part.stored, False) for part in index.lead], [(part.stored, False) for part in index.tail]
            meanings[index.range_attribute].append((index.attribute, ("range key", *ids[0], *sorted_by, *ids[1])))
    for attribute, uses in meanings.items():
        first, meaning = uses[0]
        for index_attribute, other in uses[1:]:
            if other != meaning:
                yield (
                    index_attribute,
                    f"keeps a key in the attribute {attribute!r}, where {first} keeps a different one.",
                    "Give it another hash_key= or range_key=.",
                )
