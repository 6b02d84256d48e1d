"""Validate catalogs: run all rules, and check names, keys and derived properties of single entities."""

import graphlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from graphql_api import codecs
from graphql_api.errors import Violation
from graphql_api.model.naming import NAME_PATTERN, camel_case
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.model.validation.access_validation import access_violations
from graphql_api.model.validation.history_validation import history_violations
from graphql_api.model.validation.index_validation import index_violations
from graphql_api.model.validation.table_validation import table_violations
from graphql_api.model.validation.union_validation import union_violations

Violations = Iterator[tuple[str | None, str, str]]
"""violations of one entity: property, index or None, then problem and remedy"""

TABLE_KEYS = ("hashKey", "rangeKey")
RESERVED_ENTITY = "shardql"
"""prefix of the hash keys of the table's own items"""

MAX_SUB_IDS = 3
MAX_NAME_LENGTH = 255
SEPARATOR_PATTERN = re.compile(r"[!-$&-/:-@\[-`{-~]")
"""one printable ASCII character that is no letter, no digit and not the escape character `%`"""


def catalog_violations(specs: Sequence[EntitySpec], namespace: str | None) -> list[Violation]:
    """Return all violations of these entities, of each alone and of all together."""
    violations = [
        Violation(spec.type_name, attribute, problem, remedy)
        for spec in specs
        for rule in (
            _entity_name_violations,
            _stored_name_violations,
            _primary_key_violations,
            _creation_violations,
            _expiry_violations,
            _derived_violations,
            index_violations,
            union_violations,
            history_violations,
            lambda spec: access_violations(spec, specs),
        )
        for attribute, problem, remedy in rule(spec)
    ]
    return [*violations, *table_violations(specs, namespace)]


# --- names -----------------------------------------------------------------------------------------------------


def _entity_name_violations(spec: EntitySpec) -> Violations:
    if not NAME_PATTERN.fullmatch(spec.name) or len(spec.name) > MAX_NAME_LENGTH:
        yield (
            None,
            f"is called {spec.name!r} in hash keys.",
            f"Set name= to at most {MAX_NAME_LENGTH} letters, digits and underscores, a letter first.",
        )
    if spec.name.lower() == RESERVED_ENTITY:
        yield None, f"is called {spec.name!r}, which is reserved for the table's own items.", "Set another name=."
    if not NAME_PATTERN.fullmatch(spec.type_name):
        yield None, "has a class name that GraphQL does not allow.", "Use letters and digits, a letter first."
    if not SEPARATOR_PATTERN.fullmatch(spec.separator):
        yield (
            None,
            f"has the separator {spec.separator!r}.",
            'Set one ASCII character that is no letter, digit or "%", for instance "/".',
        )


def _stored_name_violations(spec: EntitySpec) -> Violations:
    for part in spec.properties.values():
        if part.stored in TABLE_KEYS:
            yield part.name, f"is stored as {part.stored!r}, a key of the table.", 'Rename it by stored("…").'
        elif not NAME_PATTERN.fullmatch(part.stored) or len(part.stored) > MAX_NAME_LENGTH:
            yield (
                part.name,
                f"is stored as {part.stored!r}.",
                f"A stored name has at most {MAX_NAME_LENGTH} ASCII letters, digits and underscores, a letter first.",
            )
        if not NAME_PATTERN.fullmatch(camel_case(part.name)):
            yield (
                part.name,
                "has a name that GraphQL does not allow.",
                "Use ASCII letters and digits, a letter first.",
            )
    properties = spec.properties.values()
    yield from _duplicate_names(properties, "is stored as", [part.stored for part in properties])
    yield from _duplicate_names(properties, "is called in GraphQL", [camel_case(part.name) for part in properties])


def _duplicate_names(properties: Iterable[PropertySpec], use: str, names: Sequence[str]) -> Violations:
    """Yield a violation for each property with the name of an earlier one."""
    first: dict[str, str] = {}
    for part, name in zip(properties, names, strict=True):
        if name in first:
            yield part.name, f"{use} {name!r}, as {first[name]} is.", "Give one of them another name."
        first.setdefault(name, part.name)


# --- keys ------------------------------------------------------------------------------------------------------


def _primary_key_violations(spec: EntitySpec) -> Violations:
    for part in spec.primary_key:
        if part.codec is None or isinstance(part.codec, codecs.Boolean | codecs.Float64):
            yield (
                part.name,
                "is part of the primary key, and its type cannot identify records.",
                "Make it a str, int, UUID, date, datetime, timedelta, Decimal or enum.",
            )
        if part.nullable:
            yield part.name, "is part of the primary key and may be null.", "Remove null from its type."
    for name, count in Counter(part.name for part in spec.primary_key).items():
        if count > 1:
            yield name, "is both Id and SubId.", "Keep one of the two."
    if len(spec.sub_ids) > MAX_SUB_IDS:
        yield None, f"has {len(spec.sub_ids)} sub ids.", f"A record key holds at most {MAX_SUB_IDS}."
    shards = spec.model.__declaration__.shards
    if not spec.ids and any(growth.size != 1 for growth in shards.generations):
        yield None, "has no Id, so all its records are in one shard.", "Mark its id with Id[…], or remove shards=."


def _creation_violations(spec: EntitySpec) -> Violations:
    if not spec.model.__declaration__.shards.growth:
        return
    created = spec.created
    if created is None:
        yield (
            None,
            "has several shard generations and no creation property that determines the one of a record.",
            "Mark the property that holds the creation time with Created[…].",
        )
    elif created.nullable:
        yield created.name, "determines the shard generation and may be null.", "Remove null from its type."
    elif any(part.name == created.name for part in spec.sub_ids):
        yield (
            created.name,
            "determines the shard generation and differs between the entries of one id.",
            "Mark a property that is the same in all of them with Created[…].",
        )


def _expiry_violations(spec: EntitySpec) -> Violations:
    if spec.ttl is not None and not isinstance(spec.ttl.codec, codecs.Timestamp):
        yield spec.ttl.name, "is a Ttl in another unit than seconds.", "Declare it as Ttl[Timestamp]."


# --- derived properties ----------------------------------------------------------------------------------------


def _derived_violations(spec: EntitySpec) -> Violations:
    derived = {name: part for name, part in spec.properties.items() if part.function is not None}
    for name, part in derived.items():
        if not callable(part.function):
            yield name, f"is derived by {part.function!r}, which cannot be called.", "Pass a function first."
        if not part.sources:
            yield name, "is derived from no property.", "Name the properties that it is computed from."
        nullable = [source for source in part.sources if spec.properties[source].nullable]
        if nullable and not part.nullable:
            yield (
                name,
                f"is null if {nullable[0]} is null, and its type does not allow null.",
                "Add | None to its type.",
            )
    try:
        graphlib.TopologicalSorter({name: part.sources for name, part in derived.items()}).prepare()
    except graphlib.CycleError as cycle:
        names = cycle.args[1]
        yield names[0], f"is derived from itself ({' → '.join(reversed(names))}).", "Remove the cycle."
