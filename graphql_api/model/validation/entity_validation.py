"""The rules of a single entity, and the way through all rules of a catalog. Nothing stops at the first violation."""

import graphlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from graphql_api import codecs
from graphql_api.errors import Violation
from graphql_api.model.naming import NAME, camel_case
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.model.validation.access_validation import access_violations
from graphql_api.model.validation.history_validation import history_violations
from graphql_api.model.validation.index_validation import index_violations
from graphql_api.model.validation.table_validation import table_violations
from graphql_api.model.validation.union_validation import union_violations

Found = Iterator[tuple[str | None, str, str]]
"""violations of one entity: property (or index, or neither), problem, remedy"""

TABLE_KEYS = ("hashKey", "rangeKey")
RESERVED_ENTITY = "shardql"
"""stands in front of the table's own records"""

MAX_SUB_IDS = 3
MAX_NAME_LENGTH = 255
SEPARATOR = re.compile(r"[!-$&-/:-@\[-`{-~]")
"""one printable ASCII character that is neither letter nor digit, nor the `%` that escapes it"""


def violations_of(specs: Sequence[EntitySpec], namespace: str | None) -> list[Violation]:
    """Everything in which these entities break the rules of a catalog, alone and together."""
    found = [
        Violation(spec.type_name, place, problem, remedy)
        for spec in specs
        for rule in (
            _names,
            _stored_names,
            _primary_key,
            _creation,
            _expiry,
            _derived,
            index_violations,
            union_violations,
            history_violations,
            lambda spec: access_violations(spec, specs),
        )
        for place, problem, remedy in rule(spec)
    ]
    return [*found, *table_violations(specs, namespace)]


# --- names -----------------------------------------------------------------------------------------------------


def _names(spec: EntitySpec) -> Found:
    if not NAME.fullmatch(spec.name) or len(spec.name) > MAX_NAME_LENGTH:
        yield (
            None,
            f"is called {spec.name!r} in hash keys.",
            f"Give name= at most {MAX_NAME_LENGTH} letters, digits and underscores, a letter first.",
        )
    if spec.name.lower() == RESERVED_ENTITY:
        yield None, f"is called {spec.name!r}, which the table keeps for itself.", "Give it another name=."
    if not NAME.fullmatch(spec.type_name):
        yield None, "has a class name that GraphQL cannot write.", "Use letters and digits, a letter first."
    if not SEPARATOR.fullmatch(spec.separator):
        yield (
            None,
            f"has the separator {spec.separator!r}.",
            'Give one ASCII character that is no letter, digit or "%", for instance "/".',
        )


def _stored_names(spec: EntitySpec) -> Found:
    for part in spec.properties.values():
        if part.stored in TABLE_KEYS:
            yield part.name, f"is stored as {part.stored!r}, a key of the table.", 'Rename it by stored("…").'
        elif not NAME.fullmatch(part.stored) or len(part.stored) > MAX_NAME_LENGTH:
            yield (
                part.name,
                f"is stored as {part.stored!r}.",
                f"A stored name has at most {MAX_NAME_LENGTH} ASCII letters, digits and underscores, a letter first.",
            )
        if not NAME.fullmatch(camel_case(part.name)):
            yield part.name, "has a name that GraphQL cannot write.", "Use ASCII letters and digits, a letter first."
    yield from _doubles(spec.properties.values(), "is stored as", [part.stored for part in spec.properties.values()])
    yield from _doubles(
        spec.properties.values(), "is called in GraphQL", [camel_case(part.name) for part in spec.properties.values()]
    )


def _doubles(properties: Iterable[PropertySpec], what: str, names: Sequence[str]) -> Found:
    """Properties whose name another one had before."""
    first: dict[str, str] = {}
    for part, name in zip(properties, names, strict=True):
        if name in first:
            yield part.name, f"{what} {name!r}, as {first[name]} is.", "Give one of them another name."
        first.setdefault(name, part.name)


# --- keys ------------------------------------------------------------------------------------------------------


def _primary_key(spec: EntitySpec) -> Found:
    for part in spec.primary:
        if part.codec is None or isinstance(part.codec, codecs.Boolean | codecs.Float64):
            yield (
                part.name,
                "is part of the primary key and of a type that identifies nothing.",
                "Make it a str, int, UUID, date, datetime, timedelta, Decimal or enum.",
            )
        if part.nullable:
            yield part.name, "is part of the primary key and may be null.", "Take null out of its type."
    for name, times in Counter(part.name for part in spec.primary).items():
        if times > 1:
            yield name, "is both Id and SubId.", "Keep one of the two."
    if len(spec.sub_ids) > MAX_SUB_IDS:
        yield None, f"has {len(spec.sub_ids)} sub ids.", f"A record key carries at most {MAX_SUB_IDS}."
    shards = spec.model.__declaration__.shards
    if not spec.ids and any(growth.size != 1 for growth in shards.generations):
        yield None, "has no Id, so all its records lie in one shard.", "Mark its id, or leave shards= out."


def _creation(spec: EntitySpec) -> Found:
    if not spec.model.__declaration__.shards.growth:
        return
    created = spec.created
    if created is None:
        yield (
            None,
            "has several shard generations and nothing that tells which one a record belongs to.",
            "Mark the property that holds the moment of creation with Created[…].",
        )
    elif created.nullable:
        yield created.name, "decides the shard generation and may be null.", "Take null out of its type."
    elif any(part.name == created.name for part in spec.sub_ids):
        yield (
            created.name,
            "decides the shard generation and differs between the entries of one id.",
            "Mark a property that is the same in all of them with Created[…].",
        )


def _expiry(spec: EntitySpec) -> Found:
    if spec.ttl is not None and not isinstance(spec.ttl.codec, codecs.Timestamp):
        yield spec.ttl.name, "is a Ttl in another unit than seconds.", "Declare it as Ttl[Timestamp]."


# --- derived properties ----------------------------------------------------------------------------------------


def _derived(spec: EntitySpec) -> Found:
    rules = {name: part for name, part in spec.properties.items() if part.function is not None}
    for name, part in rules.items():
        if not callable(part.function):
            yield name, f"is derived by {part.function!r}, which cannot be called.", "Name a function first."
        if not part.sources:
            yield name, "is derived from nothing.", "Name the properties that it is computed from."
        nullable = [source for source in part.sources if spec.properties[source].nullable]
        if nullable and not part.nullable:
            yield name, f"is null where {nullable[0]} is, and its type does not say so.", "Add | None to its type."
    try:
        graphlib.TopologicalSorter({name: part.sources for name, part in rules.items()}).prepare()
    except graphlib.CycleError as circle:
        names = circle.args[1]
        yield names[0], f"is derived from itself ({' → '.join(reversed(names))}).", "Break the circle."
