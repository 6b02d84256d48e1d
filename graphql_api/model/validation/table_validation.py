"""Validate the entities of a table together: names, physical indexes, attributes, expiry and parents."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from graphql_api.errors import Violation
from graphql_api.model.naming import NAME_PATTERN, capitalized
from graphql_api.model.physical_table import index_definition, raw_key_type
from graphql_api.model.specs import EntitySpec, IndexSpec, UnionSpec

MAX_INDEXES = 20
MAX_INCLUDED = 100
CATALOG = "Catalog"
"""entity of violations that belong to no single entity"""

DeclaredIndex = tuple[EntitySpec, IndexSpec]


def table_violations(specs: Sequence[EntitySpec], namespace: str | None) -> Iterator[Violation]:
    """Yield the violations between entities of one table, and those of the catalog itself."""
    if not specs:
        yield Violation(CATALOG, None, "declares no entity.", "Pass the entity classes: Catalog(User, Email).")
    if namespace is not None and not NAME_PATTERN.fullmatch(namespace):
        yield Violation(
            CATALOG,
            None,
            f"has the namespace {namespace!r}.",
            "Use ASCII letters, digits and underscores, a letter first.",
        )
    by_physical: dict[str, list[DeclaredIndex]] = defaultdict(list)
    for spec in specs:
        for index in spec.indexes.values():
            if index.physical is not None:
                by_physical[index.physical].append((spec, index))
    yield from _entity_name_violations(specs)
    yield from _field_name_violations(specs)
    yield from _limit_violations(by_physical)
    for physical, declared in by_physical.items():
        yield from _definition_violations(physical, declared)
        yield from _hash_entity_violations(physical, declared)
        yield from _foreign_record_violations(physical, declared, specs)
    yield from _key_attribute_violations(specs)
    yield from _raw_type_violations(specs)
    yield from _expiry_violations(specs)
    yield from _parent_violations(specs)


# --- names -----------------------------------------------------------------------------------------------------


def _entity_name_violations(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    names: dict[str, EntitySpec] = {}
    types: dict[str, EntitySpec] = {}
    for spec in specs:
        if names.setdefault(spec.name, spec).type_name != spec.type_name:
            yield Violation(
                spec.type_name,
                None,
                f"is called {spec.name!r} in hash keys, as {names[spec.name].type_name} is.",
                "Set another name= for one of them.",
            )
        if types.setdefault(spec.type_name, spec) is not spec:
            yield Violation(spec.type_name, None, "is declared twice.", "Rename one of the classes, or pass it once.")


def _field_name_violations(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """Check the GraphQL fields of all searches, which share one type."""
    first: dict[str, str] = {}
    for spec in {spec.type_name: spec for spec in specs}.values():
        searches: list[IndexSpec | UnionSpec] = [*spec.indexes.values(), *spec.unions.values()]
        fields = {spec.type_name: None} | {f"{spec.type_name}By{capitalized(each.name)}": each for each in searches}
        for field, index in fields.items():
            name = field[:1].lower() + field[1:]
            if name in first and first[name] != spec.type_name:
                yield Violation(
                    spec.type_name,
                    index.attribute if index else None,
                    f"becomes the field {name!r}, which {first[name]} has as well.",
                    "Rename one of them.",
                )
            first.setdefault(name, spec.type_name)


# --- physical indexes ------------------------------------------------------------------------------------------


def _limit_violations(by_physical: dict[str, list[DeclaredIndex]]) -> Iterator[Violation]:
    if len(by_physical) > MAX_INDEXES:
        yield Violation(
            CATALOG,
            None,
            f"needs {len(by_physical)} indexes, and a table has at most {MAX_INDEXES}.",
            'Let indexes of different entities share one by slot="gsi01".',
        )
    projections = [declared[0][1].projection for declared in by_physical.values()]
    included = sum(len(projection) for projection in projections if isinstance(projection, tuple))
    if included > MAX_INCLUDED:
        yield Violation(
            CATALOG,
            None,
            f"has projections of {included} named properties, and a table has at most {MAX_INCLUDED}.",
            'Set some projections to "ALL" or "KEYS_ONLY".',
        )


def _definition_violations(physical: str, declared: Sequence[DeclaredIndex]) -> Iterator[Violation]:
    """Check that all declarations of a physical index agree on its key attributes, their types and the projection."""
    first_spec, first = declared[0]
    expected = index_definition(physical, first)
    for spec, index in declared[1:]:
        actual = index_definition(physical, index)
        parts = (
            ("hash key", expected.hash_attribute, actual.hash_attribute, "Set the same hash_key= for both"),
            ("range key", expected.range_attribute, actual.range_attribute, "Set the same range_key= for both"),
            ("range key type", expected.range_type, actual.range_type, "Use properties of the same type for both"),
            ("projection", expected.projection, actual.projection, "Set the same projection= for both"),
        )
        for part, expected_value, actual_value, remedy in parts:
            if expected_value != actual_value:
                yield Violation(
                    spec.type_name,
                    index.attribute,
                    f"uses the physical index {physical!r} with the {part} {actual_value!r}, "
                    f"and {first_spec.type_name}.{first.attribute} with {expected_value!r}.",
                    f"{remedy}, or set another name= or slot=.",
                )


def _hash_entity_violations(physical: str, declared: Sequence[DeclaredIndex]) -> Iterator[Violation]:
    """Check that the hash keys of entities in a physical index differ, so no search finds records of another entity."""
    first: dict[str, DeclaredIndex] = {}
    for spec, index in declared:
        other, other_index = first.setdefault(index.hash_entity, (spec, index))
        if other is not spec:
            yield Violation(
                spec.type_name,
                index.attribute,
                f"uses the physical index {physical!r} with hash keys of {index.hash_entity!r}, "
                f"as {other.type_name}.{other_index.attribute} does.",
                "Set another name= or slot= for one of them.",
            )


def _foreign_record_violations(
    physical: str, declared: Sequence[DeclaredIndex], specs: Sequence[EntitySpec]
) -> Iterator[Violation]:
    """Check that a physical index gets no records of entities that do not declare it.

    Engines add every record that has both key attributes to an index.
    """
    hash_entities = {index.hash_entity for _, index in declared}
    owners = {spec.name for spec, _ in declared}
    hash_attribute, range_attribute = declared[0][1].hash_attribute, declared[0][1].range_attribute
    for spec in specs:
        if spec.name in owners or range_attribute not in _attributes(spec):
            continue
        for index in spec.indexes.values():
            if index.hash_attribute == hash_attribute and index.hash_entity in hash_entities:
                owner, owned = declared[0]
                yield Violation(
                    spec.type_name,
                    index.attribute,
                    f"adds its records to the physical index {physical!r} of {owner.type_name}: "
                    f"they have its key attributes {hash_attribute!r} and {range_attribute!r}.",
                    f"Set another hash_key= for this index or {owner.type_name}.{owned.attribute}.",
                )


def _attributes(spec: EntitySpec) -> set[str]:
    """Return all attributes that a record may have, except hash keys."""
    return {part.stored for part in spec.properties.values()} | {
        index.range_attribute for index in spec.indexes.values()
    }


# --- attributes ------------------------------------------------------------------------------------------------


def _key_attribute_violations(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """Check that no property is stored in a generated key attribute: engines require one type per key attribute."""
    index_by_attribute: dict[str, str] = {}
    for spec in specs:
        for index in spec.indexes.values():
            if index.physical is None:
                continue
            generated = (index.hash_attribute,) if index.raw else (index.hash_attribute, index.range_attribute)
            for attribute in generated:
                index_by_attribute.setdefault(attribute, f"{spec.type_name}.{index.attribute}")
    for spec in specs:
        for part in spec.properties.values():
            if part.stored in index_by_attribute and part.stored not in ("hashKey", "rangeKey"):
                yield Violation(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, where {index_by_attribute[part.stored]} stores a key.",
                    'Rename the property by stored("…"), or the key by hash_key= or range_key=.',
                )


def _raw_type_violations(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """Check that the sort property of a raw index has the same key type in all records and is never stored as null."""
    raw_attributes: dict[str, tuple[str, str]] = {}
    for spec in specs:
        for index in spec.indexes.values():
            if index.raw and len(index.sort) == 1:
                key_type = raw_key_type(index.sort[0].property)
                if key_type is not None:
                    raw_attributes.setdefault(index.range_attribute, (key_type, f"{spec.type_name}.{index.attribute}"))
    for spec in specs:
        for part in spec.properties.values():
            if part.stored not in raw_attributes:
                continue
            expected_type, raw_index = raw_attributes[part.stored]
            if raw_key_type(part) != expected_type:
                yield Violation(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, which {raw_index} sorts as "
                    f"{'text' if expected_type == 'S' else 'a number'}.",
                    'Use a type that is stored like that, or set another stored name by stored("…").',
                )
            if part.null_is_stored:
                yield Violation(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, which {raw_index} sorts by, and its default is not null.",
                    "Make null its default, or remove null from its type.",
                )


def _expiry_violations(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """Check that all entities use the same expiry attribute. Engines expire every record with a number in it."""
    first = next((spec for spec in specs if spec.ttl is not None), None)
    if first is None or first.ttl is None:
        return
    for spec in specs:
        if spec.ttl is not None and spec.ttl.stored != first.ttl.stored:
            yield Violation(
                spec.type_name,
                spec.ttl.name,
                f"is a Ttl stored as {spec.ttl.stored!r}, and {first.type_name}.{first.ttl.name} is stored as "
                f"{first.ttl.stored!r}: a table has only one expiry attribute.",
                'Set the same stored name for both by stored("…").',
            )
        for part in spec.properties.values():
            if part.stored == first.ttl.stored and part != spec.ttl and raw_key_type(part) != "S":
                yield Violation(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, the expiry attribute of {first.type_name}.{first.ttl.name}.",
                    'Mark it with Ttl[Timestamp], or set another stored name by stored("…").',
                )


# --- parents ---------------------------------------------------------------------------------------------------


def _parent_violations(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """Check indexes that are sharded like a parent: they are hashed by its id and need its creation property."""
    by_name = {spec.name: spec for spec in specs}
    for spec in specs:
        for index in spec.indexes.values():
            parent = by_name.get(index.hash_entity)
            if not index.sharded_like_parent or parent is None:
                continue
            hash_codecs = [part.codec for part in index.hash]
            if not parent.ids or hash_codecs != [part.codec for part in parent.ids]:
                ids = ", ".join(part.name for part in parent.ids) or "none"
                yield Violation(
                    spec.type_name,
                    index.attribute,
                    f"is sharded like {parent.type_name}, and its hash properties do not match its ids ({ids}).",
                    "Hash it by one property for each id, of the same type and in the same order.",
                )
            if parent.model.__declaration__.shards.growth:
                yield from _parent_creation_violations(spec, index, parent)


def _parent_creation_violations(spec: EntitySpec, index: IndexSpec, parent: EntitySpec) -> Iterator[Violation]:
    created, parent_created = spec.created, parent.created
    if created is None:
        problem, remedy = f"{spec.type_name} has no creation property.", "Mark one with Created[…]."
    elif created.nullable:
        problem, remedy = f"{created.name} may be null.", "Remove null from its type."
    elif parent_created is not None and created.codec != parent_created.codec:
        problem = f"{created.name} has another type than {parent.type_name}.{parent_created.name}."
        remedy = "Give both the same type."
    else:
        return
    yield Violation(
        spec.type_name,
        index.attribute,
        f"is sharded like {parent.type_name}, which has several shard generations, and {problem}",
        remedy,
    )
