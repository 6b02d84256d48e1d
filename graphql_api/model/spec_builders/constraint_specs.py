"""Build the specifications of foreign keys, and validate constraints, counters and properties set by the server."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from graphql_api import codecs
from graphql_api.errors import Violation, nearest
from graphql_api.model.constraint_declarations import ForeignKey, Generated
from graphql_api.model.naming import NAME_PATTERN, camel_case
from graphql_api.model.shard_declarations import CREATION_CODECS
from graphql_api.model.specs import EntitySpec, ForeignKeySpec, PropertySpec

Violations = Iterator[tuple[str | None, str, str]]
"""violations of one entity: property or constraint, problem, remedy"""

MAX_CONSTRAINTS = 20
"""unique constraints and foreign keys of one entity: a transaction must fit the old and the new items of all of them"""

_INTEGER_CODECS = codecs.Int32 | codecs.Int64


def with_constraints(
    specs: Sequence[EntitySpec], unlinked_specs: Sequence[EntitySpec], violations: list[Violation]
) -> list[EntitySpec]:
    """Add foreign keys and children to entities. Foreign keys refer to the unlinked specifications of parents."""
    parents = {spec.type_name: spec for spec in unlinked_specs}
    with_keys = []
    for spec in specs:
        violations += [
            Violation(spec.type_name, attribute, problem, remedy)
            for rule in _RULES
            for attribute, problem, remedy in rule(spec)
        ]
        keys = []
        for attribute, declared in spec.model.__declaration__.constraints.items():
            if not isinstance(declared, ForeignKey):
                continue
            problems = [*_foreign_key_problems(spec, declared, parents)]
            violations += [Violation(spec.type_name, attribute, *problem) for problem in problems]
            if not problems:
                by = tuple(spec.properties[name] for name in declared.by)
                keys.append(ForeignKeySpec(camel_case(attribute), parents[declared.entity], by))
        with_keys.append(replace(spec, foreign_keys=tuple(keys)))
    return [
        replace(
            spec,
            children=tuple(
                child for child in with_keys if any(key.parent.name == spec.name for key in child.foreign_keys)
            ),
        )
        for spec in with_keys
    ]


# --- unique constraints ----------------------------------------------------------------------------------------


def _unique_violations(spec: EntitySpec) -> Violations:
    attributes_by_name: dict[str, str] = {}
    for unique in spec.unique:
        attribute = unique.attribute
        if not unique.parts:
            yield attribute, "is unique by no property.", "Name the properties whose values are unique together."
            continue
        if len({part.name for part in unique.parts}) < len(unique.parts):
            yield attribute, "names a property twice.", "Name each property once."
        for part in unique.parts:
            if part.codec is None:
                yield attribute, f"is unique by {part.name}, which is no scalar.", "Name properties of scalar types."
        if spec.sub_ids and spec.current is None and {part.name for part in unique.parts} <= _names(spec.ids):
            yield (
                attribute,
                "is unique by the id, which all entries of a history share.",
                "Remove it, or name a property that differs between the entries.",
            )
        if not NAME_PATTERN.fullmatch(unique.name):
            yield attribute, "has an invalid name.", "Use ASCII letters and digits, a letter first."
        if unique.name in attributes_by_name:
            yield attribute, f"has the name {unique.name!r} of another unique constraint.", "Rename one of them."
        attributes_by_name.setdefault(unique.name, attribute)


def _count_violations(spec: EntitySpec) -> Violations:
    count = len(spec.unique) + sum(
        isinstance(one, ForeignKey) for one in spec.model.__declaration__.constraints.values()
    )
    if count > MAX_CONSTRAINTS:
        yield (
            None,
            f"has {count} unique constraints and foreign keys.",
            f"At most {MAX_CONSTRAINTS} fit into one transaction: remove some.",
        )


# --- properties set by the server ------------------------------------------------------------------------------


def _server_set_violations(spec: EntitySpec) -> Violations:
    for part, marker in ((spec.updated, "Updated"), (spec.version, "Version")):
        if part is not None:
            if part.nullable:
                yield part.name, f"is {marker} and may be null.", "Remove null from its type."
            for role in _conflicting_roles(spec, part):
                yield part.name, f"is {marker} and {role}.", "Keep one of the two."
    updated, version = spec.updated, spec.version
    if updated is not None and not isinstance(updated.codec, CREATION_CODECS):
        yield (
            updated.name,
            "is Updated, and its type cannot hold a time.",
            "Make it a Timestamp, TimestampMs, datetime, date or str.",
        )
    if version is not None:
        yield from _version_violations(spec, version)


def _conflicting_roles(spec: EntitySpec, part: PropertySpec) -> Iterator[str]:
    """Yield the roles of a property because of which the server cannot set it at every write."""
    if part.function is not None:
        yield "derived"
    if part in spec.primary_key:
        yield "part of the primary key, which never changes"
    if part == spec.created:
        yield "Created, which never changes"
    if part.immutable:
        yield "Immutable"
    if part.counter_group is not None:
        yield "a counter"


def _version_violations(spec: EntitySpec, version: PropertySpec) -> Violations:
    if version == spec.updated:
        yield version.name, "is Version and Updated.", "Keep one of the two."
    if not isinstance(version.codec, _INTEGER_CODECS):
        yield version.name, "is Version and no integer.", "Make it an Int32 or an int."
    if spec.current is not None:
        yield (
            version.name,
            "is Version in a history with a current record.",
            "Remove it: a late write adds an entry that is not the latest one.",
        )


def _counter_violations(spec: EntitySpec) -> Violations:
    for part in spec.counters:
        if not isinstance(part.codec, _INTEGER_CODECS):
            yield part.name, "is a counter and no integer.", "Make it an Int32 or an int."
        if part.nullable:
            yield part.name, "is a counter and may be null.", "Remove null from its type."
        if spec.current is not None:
            yield (
                part.name,
                "is a counter in a history with a current record.",
                "Count the records of another entity, or remove current=.",
            )
        for name in part.counter_group or ():
            group = spec.properties[name]
            if group.codec is None:
                yield part.name, f"counts records grouped by {name}, which is no scalar.", "Name a scalar property."
            elif name == part.name or group.counter_group is not None or name in _rewritten_names(spec):
                yield (
                    part.name,
                    f"counts records grouped by {name}, which the server sets.",
                    "Name a property that callers provide.",
                )


def _generated_violations(spec: EntitySpec) -> Violations:
    for name, part in spec.properties.items():
        factory = spec.model.model_fields[name].default_factory
        if isinstance(factory, Generated) and not factory.select_factory(part.codec):
            yield (
                name,
                "is generated, and is neither a str nor a UUID.",
                "Make it a str or UUID, or declare a Field(default_factory=…).",
            )


def _rewritten_names(spec: EntitySpec) -> set[str]:
    """Return the names of the properties that the server sets at every write."""
    return {part.name for part in (spec.updated, spec.version) if part is not None}


def _immutable_violations(spec: EntitySpec) -> Violations:
    for part in spec.properties.values():
        if part.immutable and part.function is not None:
            yield (
                part.name,
                "is Immutable and derived, so it changes with its sources.",
                f"Mark {' and '.join(part.sources)} with Immutable instead.",
            )


_RULES = (
    _unique_violations,
    _server_set_violations,
    _counter_violations,
    _generated_violations,
    _immutable_violations,
    _count_violations,
)


# --- foreign keys ----------------------------------------------------------------------------------------------


def _foreign_key_problems(
    spec: EntitySpec, declared: ForeignKey, parents: dict[str, EntitySpec]
) -> Iterator[tuple[str, str]]:
    parent = parents.get(declared.entity)
    if not NAME_PATTERN.fullmatch(camel_case(declared.attribute)):
        yield "has an invalid name.", "Use ASCII letters and digits, a letter first."
    if parent is None:
        yield (
            f"references {declared.entity!r}, which is no entity of this catalog.",
            nearest(declared.entity, parents).strip() or f"Its entities are {', '.join(parents)}.",
        )
        return
    if parent.sub_ids:
        yield (
            f"references {parent.type_name}, which has several records for each id.",
            "Reference an entity without sub ids.",
        )
    if parent.ttl is not None:
        yield (
            f"references {parent.type_name}, whose records expire.",
            "Reference an entity without Ttl: engines remove expired records without checking foreign keys.",
        )
    if not parent.ids:
        yield f"references {parent.type_name}, which has only one record.", "Remove the foreign key."
    elif len(declared.by) != len(parent.ids):
        yield (
            f"references {parent.type_name} by {', '.join(declared.by) or 'no property'}.",
            f"Its id is {', '.join(part.name for part in parent.ids)}: name one property for each part.",
        )
    else:
        yield from _type_problems(spec, declared, parent)


def _type_problems(spec: EntitySpec, declared: ForeignKey, parent: EntitySpec) -> Iterator[tuple[str, str]]:
    for name, part in zip(declared.by, parent.ids, strict=True):
        own = spec.properties[name]
        if own.codec is None:
            yield f"references a record by {name}, which is no scalar.", "Name a property that holds one id."
        elif part.codec is not None and own.codec != part.codec:
            types = f"which is {part.codec.name}, by {name}, which is {own.codec.name}"
            yield f"references {parent.type_name}.{part.name}, {types}.", "Give both properties the same type."


def _names(parts: Iterable[PropertySpec]) -> set[str]:
    return {part.name for part in parts}
