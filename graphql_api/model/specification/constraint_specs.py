"""Foreign keys as they are declared become specifications; whatever no constraint can be is reported together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from graphql_api import codecs
from graphql_api.errors import Violation, nearest
from graphql_api.model.constraint_declarations import ForeignKey, Generated
from graphql_api.model.naming import NAME, camel_case
from graphql_api.model.shard_declarations import CREATION_CODECS
from graphql_api.model.specs import EntitySpec, ForeignKeySpec, PropertySpec

Found = Iterator[tuple[str | None, str, str]]
"""violations of one entity: property or constraint, problem, remedy"""

MAX_CONSTRAINTS = 20
"""unique values and foreign keys of one entity: a transaction has room for all of them, old and new"""

_WHOLE = codecs.Int32 | codecs.Int64


def bound(specs: Sequence[EntitySpec], bare: Sequence[EntitySpec], problems: list[Violation]) -> list[EntitySpec]:
    """The same entities with their foreign keys, which lead to the bare ones; what is broken is reported."""
    parents = {spec.type_name: spec for spec in bare}
    with_keys = []
    for spec in specs:
        problems += [
            Violation(spec.type_name, place, problem, remedy)
            for rule in (_unique, _server_set, _counters, _generated, _immutable, _count)
            for place, problem, remedy in rule(spec)
        ]
        keys = []
        for attribute, word in spec.model.__declaration__.constraints.items():
            if not isinstance(word, ForeignKey):
                continue
            broken = [Violation(spec.type_name, attribute, *one) for one in _foreign_key(spec, word, parents)]
            problems += broken
            if not broken:
                by = tuple(spec.properties[name] for name in word.by)
                keys.append(ForeignKeySpec(camel_case(attribute), parents[word.entity], by))
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


# --- unique values ---------------------------------------------------------------------------------------------


def _unique(spec: EntitySpec) -> Found:
    names: dict[str, str] = {}
    for unique in spec.unique:
        place = unique.attribute
        if not unique.parts:
            yield place, "is unique by nothing.", "Name the properties whose values are unique together."
            continue
        if len({part.name for part in unique.parts}) < len(unique.parts):
            yield place, "names a property twice.", "Name each of them once."
        for part in unique.parts:
            if part.codec is None:
                yield (
                    place,
                    f"is unique by {part.name}, which is no plain value.",
                    "Name properties of one plain value.",
                )
        if spec.sub_ids and spec.current is None and {part.name for part in unique.parts} <= _names(spec.ids):
            yield (
                place,
                "is unique by the id, which all entries of a history share.",
                "Leave it out, or name a property that tells entries apart.",
            )
        if not NAME.fullmatch(unique.name):
            yield place, "has a name that no record of it can have.", "Use ASCII letters and digits, a letter first."
        if unique.name in names:
            yield place, f"is called {unique.name!r} as another unique value is.", "Give one of them another name."
        names.setdefault(unique.name, place)


def _count(spec: EntitySpec) -> Found:
    count = len(spec.unique) + sum(
        isinstance(one, ForeignKey) for one in spec.model.__declaration__.constraints.values()
    )
    if count > MAX_CONSTRAINTS:
        yield (
            None,
            f"has {count} unique values and foreign keys.",
            f"One transaction has room for {MAX_CONSTRAINTS}: leave some out.",
        )


# --- what the server sets --------------------------------------------------------------------------------------


def _server_set(spec: EntitySpec) -> Found:
    for part, word in ((spec.updated, "Updated"), (spec.version, "Version")):
        if part is not None:
            if part.nullable:
                yield part.name, f"is {word}, which every record has, and may be null.", "Take null out of its type."
            for what in _never_renewed(spec, part):
                yield part.name, f"is {word}, and {what}.", "Keep one of the two."
    updated, version = spec.updated, spec.version
    if updated is not None and not isinstance(updated.codec, CREATION_CODECS):
        yield (
            updated.name,
            "is Updated and holds no moment.",
            "Make it a Timestamp, TimestampMs, datetime, date or str.",
        )
    if version is not None:
        yield from _version(spec, version)


def _never_renewed(spec: EntitySpec, part: PropertySpec) -> Iterator[str]:
    """What a property is that cannot be set at every write."""
    if part.function is not None:
        yield "derived"
    if part in spec.primary:
        yield "part of the primary key, which never changes"
    if part == spec.created:
        yield "Created, which never changes"
    if part.immutable:
        yield "Immutable"
    if part.counts is not None:
        yield "a counter"


def _version(spec: EntitySpec, version: PropertySpec) -> Found:
    if version == spec.updated:
        yield version.name, "is Version and Updated.", "Keep one of the two."
    if not isinstance(version.codec, _WHOLE):
        yield version.name, "is Version and counts nothing.", "Make it an Int32 or an int."
    if spec.current is not None:
        yield (
            version.name,
            "is Version, and the entries of the history have their sub ids.",
            "Leave it out: whoever comes too late writes an entry that is not the last.",
        )


def _counters(spec: EntitySpec) -> Found:
    for part in spec.counters:
        if not isinstance(part.codec, _WHOLE):
            yield part.name, "is a counter and no whole number.", "Make it an Int32 or an int."
        if part.nullable:
            yield part.name, "is a counter and may be null.", "Take null out of its type."
        if spec.current is not None:
            yield (
                part.name,
                "is a counter, and entries are written by their sub ids.",
                "Count the records of another entity, or leave current= out.",
            )
        for name in part.counts or ():
            group = spec.properties[name]
            if group.codec is None:
                yield part.name, f"counts the records of one {name}, which is no plain value.", "Name one that is."
            elif name == part.name or group.counts is not None or name in _renewed(spec):
                yield part.name, f"counts the records of one {name}, which is set later.", "Name one that is given."


def _generated(spec: EntitySpec) -> Found:
    for name, part in spec.properties.items():
        factory = spec.model.model_fields[name].default_factory
        if isinstance(factory, Generated) and not factory.fit(part.codec):
            yield (
                name,
                "is generated, and is neither a str nor a UUID.",
                "Make it one of these, or give a Field(default_factory=…) that makes its values.",
            )


def _renewed(spec: EntitySpec) -> set[str]:
    """Names of what changes with every write."""
    return {part.name for part in (spec.updated, spec.version) if part is not None}


def _immutable(spec: EntitySpec) -> Found:
    for part in spec.properties.values():
        if part.immutable and part.function is not None:
            yield (
                part.name,
                "is derived, and changes with what it is derived from.",
                f"Mark {' and '.join(part.sources)} with Immutable instead.",
            )


# --- foreign keys ----------------------------------------------------------------------------------------------


def _foreign_key(spec: EntitySpec, word: ForeignKey, parents: dict[str, EntitySpec]) -> Iterator[tuple[str, str]]:
    parent = parents.get(word.entity)
    if not NAME.fullmatch(camel_case(word.attribute)):
        yield "has a name that no record of it can have.", "Use ASCII letters and digits, a letter first."
    if parent is None:
        yield (
            f"names a record of {word.entity!r}, which is no entity of this catalog.",
            nearest(word.entity, parents).strip() or f"Its entities are {', '.join(parents)}.",
        )
        return
    if parent.sub_ids:
        yield (
            f"names a record of {parent.type_name}, of which an id has several.",
            "Name an entity without sub ids.",
        )
    if parent.ttl is not None:
        yield (
            f"names a record of {parent.type_name}, which expires by itself.",
            "Name an entity without Ttl: an engine that removes a record asks nobody.",
        )
    if not parent.ids:
        yield f"names a record of {parent.type_name}, of which there is only one.", "Leave the foreign key out."
    elif len(word.by) != len(parent.ids):
        yield (
            f"names a record of {parent.type_name} by {', '.join(word.by) or 'nothing'}.",
            f"Its id is {', '.join(part.name for part in parent.ids)}: name one property for each part.",
        )
    else:
        yield from _types(spec, word, parent)


def _types(spec: EntitySpec, word: ForeignKey, parent: EntitySpec) -> Iterator[tuple[str, str]]:
    for name, part in zip(word.by, parent.ids, strict=True):
        own = spec.properties[name]
        if own.codec is None:
            yield f"names a record by {name}, which is no plain value.", "Name a property that holds one id."
        elif part.codec is not None and own.codec != part.codec:
            types = f"which is {part.codec.name}, by {name}, which is {own.codec.name}"
            yield f"names {parent.type_name}.{part.name}, {types}.", "Give both properties the same type."


def _names(parts: Iterable[PropertySpec]) -> set[str]:
    return {part.name for part in parts}
