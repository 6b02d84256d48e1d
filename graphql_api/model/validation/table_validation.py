"""Validate the entities of a table together: names, physical indexes, attributes, expiry and parents."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from graphql_api.errors import Violation
from graphql_api.model.naming import NAME_PATTERN, TABLE_KEYS, capitalized
from graphql_api.model.specs import EntitySpec, IndexSpec, PropertySpec
from graphql_api.model.violations import Problems, Violations, duplicates, nearest_or_all
from graphql_api.storage import MAX_INCLUDED

DEFAULT_MAX_INDEXES = 20
"""the default quota of AWS"""
CATALOG = "Catalog"
"""entity of violations that belong to no single entity"""

DeclaredIndex = tuple[EntitySpec, IndexSpec]
DeclaredProperty = tuple[EntitySpec, PropertySpec]


def table_violations(specs: Sequence[EntitySpec], namespace: str | None, max_indexes: int) -> Iterator[Violation]:
    """Yield the violations between entities of one table, and those of the catalog itself."""
    indexes = [(spec, index) for spec in specs for index in spec.indexes.values() if index.physical is not None]
    by_physical: dict[str, list[DeclaredIndex]] = defaultdict(list)
    for spec, index in indexes:
        by_physical[index.physical or ""].append((spec, index))
    for problem, remedy in _catalog_problems(specs, namespace, by_physical, max_indexes):
        yield Violation(CATALOG, None, problem, remedy)
    yield from _name_violations(specs)
    for physical, declared in by_physical.items():
        yield from _definition_violations(physical, declared)
        yield from _hash_entity_violations(physical, declared)
        yield from _foreign_record_violations(physical, declared, specs)
    properties = [(spec, part) for spec in specs for part in spec.properties.values()]
    yield from _attribute_violations(properties, indexes)
    yield from _expiry_violations(properties)
    for spec in specs:
        yield from (Violation(spec.type_name, *violation) for violation in _parent_violations(spec, specs))


def _catalog_problems(
    specs: Sequence[EntitySpec],
    namespace: str | None,
    by_physical: Mapping[str, Sequence[DeclaredIndex]],
    max_indexes: int,
) -> Problems:
    if not specs:
        yield "declares no entity.", "Pass the entity classes: Catalog(User, Email)."
    if namespace is not None and not NAME_PATTERN.fullmatch(namespace):
        yield f"has the namespace {namespace!r}.", "Use ASCII letters, digits and underscores, a letter first."
    if max_indexes < 0:
        yield f"has max_indexes={max_indexes!r}.", "Pass the quota of global secondary indexes of one table."
    elif len(by_physical) > max_indexes:
        remedy = (
            'Let indexes of different entities share one by slot="gsi01". If AWS has raised your quota of global '
            f"secondary indexes, declare it: Catalog(…, max_indexes={len(by_physical)})."
        )
        yield f"needs {len(by_physical)} indexes, and a table has at most {max_indexes}.", remedy
    projections = [declared[0][1].projection for declared in by_physical.values()]
    included = sum(len(projection) for projection in projections if isinstance(projection, tuple))
    if included > MAX_INCLUDED:
        remedy = 'Set some projections to "ALL" or "KEYS_ONLY".'
        yield f"has projections of {included} named properties, and a table has at most {MAX_INCLUDED}.", remedy


# --- names -----------------------------------------------------------------------------------------------------


def _name_violations(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """Check the names of entities, and the GraphQL fields of all searches, which share one type."""
    for name, type_name, first in duplicates((spec.name, spec.type_name) for spec in specs):
        if type_name != first:
            remedy = "Set another name= for one of them."
            yield Violation(type_name, None, f"is called {name!r} in hash keys, as {first} is.", remedy)
    for type_name, _, _ in duplicates((spec.type_name, spec) for spec in specs):
        yield Violation(type_name, None, "is declared twice.", "Rename one of the classes, or pass it once.")
    fields: list[tuple[str, tuple[str, str | None]]] = []
    for spec in {spec.type_name: spec for spec in specs}.values():
        field = spec.type_name[:1].lower() + spec.type_name[1:]
        fields.append((field, (spec.type_name, None)))
        fields += [(f"{field}By{capitalized(each.name)}", (spec.type_name, each.attribute)) for each in spec.searches]
    for name, (type_name, attribute), (first, _) in duplicates(fields):
        if type_name != first:
            remedy = "Rename one of them."
            yield Violation(type_name, attribute, f"becomes the field {name!r}, which {first} has as well.", remedy)


# --- physical indexes ------------------------------------------------------------------------------------------


def _definition_violations(physical: str, declared: Sequence[DeclaredIndex]) -> Iterator[Violation]:
    """Check that all declarations of a physical index agree on its key attributes, their types and the projection."""
    first_spec, first = declared[0]
    expected = first.definition
    for spec, index in declared[1:]:
        actual = index.definition
        parts = (
            ("hash key", expected.hash_attribute, actual.hash_attribute, "Set the same hash_key= for both"),
            ("range key", expected.range_attribute, actual.range_attribute, "Set the same range_key= for both"),
            ("range key type", expected.range_type, actual.range_type, "Use properties of the same type for both"),
            ("projection", expected.projection, actual.projection, "Set the same projection= for both"),
        )
        for part, expected_value, actual_value, remedy in parts:
            if expected_value != actual_value:
                use = f"uses the physical index {physical!r} with the {part} {actual_value!r}"
                problem = f"{use}, and {first_spec.type_name}.{first.attribute} with {expected_value!r}."
                yield Violation(spec.type_name, index.attribute, problem, f"{remedy}, or set another name= or slot=.")


def _hash_entity_violations(physical: str, declared: Sequence[DeclaredIndex]) -> Iterator[Violation]:
    """Check that the hash keys of entities in a physical index differ, so no search finds records of another entity."""
    by_hash_entity = ((index.hash_entity, (spec, index)) for spec, index in declared)
    for name, (spec, index), (other, other_index) in duplicates(by_hash_entity):
        if other is not spec:
            use = f"uses the physical index {physical!r} with hash keys of {name!r}"
            problem = f"{use}, as {other.type_name}.{other_index.attribute} does."
            yield Violation(spec.type_name, index.attribute, problem, "Set another name= or slot= for one of them.")


def _foreign_record_violations(
    physical: str, declared: Sequence[DeclaredIndex], specs: Sequence[EntitySpec]
) -> Iterator[Violation]:
    """Check that a physical index gets no records of entities that do not declare it.

    Engines add every record that has both key attributes to an index.
    """
    owner, owned = declared[0]
    hash_entities = {index.hash_entity for _, index in declared}
    names = {spec.name for spec, _ in declared}
    for spec in specs:
        attributes = {part.stored for part in spec.properties.values()}
        attributes |= {index.range_attribute for index in spec.indexes.values()}
        if spec.name in names or owned.range_attribute not in attributes:
            continue
        for index in spec.indexes.values():
            if index.hash_attribute == owned.hash_attribute and index.hash_entity in hash_entities:
                reason = f"they have its key attributes {owned.hash_attribute!r} and {owned.range_attribute!r}"
                problem = f"adds its records to the physical index {physical!r} of {owner.type_name}: {reason}."
                remedy = f"Set another hash_key= for this index or {owner.type_name}.{owned.attribute}."
                yield Violation(spec.type_name, index.attribute, problem, remedy)


# --- attributes ------------------------------------------------------------------------------------------------


def _attribute_violations(
    properties: Sequence[DeclaredProperty], indexes: Sequence[DeclaredIndex]
) -> Iterator[Violation]:
    """Check the attributes of properties against keys of indexes: engines require one type per key attribute."""
    generated: dict[str, str] = {}
    """the first index that stores a generated key in an attribute"""
    raw: dict[str, tuple[str, str]] = {}
    """the key type of an attribute that is a raw key, and the first index that uses it"""
    for owner, index in indexes:
        name = f"{owner.type_name}.{index.attribute}"
        for attribute in (index.hash_attribute,) if index.raw else (index.hash_attribute, index.range_attribute):
            generated.setdefault(attribute, name)
        key_type = index.sort[0].property.raw_key_type if index.raw and len(index.sort) == 1 else None
        if key_type is not None:
            raw.setdefault(index.range_attribute, (key_type, name))
    for spec, part in properties:
        use = f"is stored as {part.stored!r}"
        if part.stored in generated and part.stored not in TABLE_KEYS:
            remedy = 'Rename the property by stored("…"), or the key by hash_key= or range_key=.'
            yield Violation(spec.type_name, part.name, f"{use}, where {generated[part.stored]} stores a key.", remedy)
        expected_type, index_name = raw.get(part.stored, (None, ""))
        if expected_type not in (None, part.raw_key_type):
            type_text = "text" if expected_type == "S" else "a number"
            remedy = 'Use a type that is stored like that, or set another stored name by stored("…").'
            yield Violation(spec.type_name, part.name, f"{use}, which {index_name} sorts as {type_text}.", remedy)
        if expected_type is not None and part.null_is_stored:
            problem = f"{use}, which {index_name} sorts by, and its default is not null."
            remedy = "Make null its default, or remove null from its type."
            yield Violation(spec.type_name, part.name, problem, remedy)


def _expiry_violations(properties: Sequence[DeclaredProperty]) -> Iterator[Violation]:
    """Check that all entities use the same expiry attribute. Engines expire every record with a number in it."""
    owner, ttl = next(((spec, part) for spec, part in properties if part == spec.ttl), (None, None))
    if owner is None or ttl is None:
        return
    first = f"{owner.type_name}.{ttl.name}"
    for spec, part in properties:
        if part == spec.ttl and part.stored != ttl.stored:
            other = f"{first} is stored as {ttl.stored!r}"
            problem = f"is a Ttl stored as {part.stored!r}, and {other}: a table has only one expiry attribute."
            remedy = 'Set the same stored name for both by stored("…").'
            yield Violation(spec.type_name, part.name, problem, remedy)
        if part != spec.ttl and part.stored == ttl.stored and part.raw_key_type != "S":
            problem = f"is stored as {part.stored!r}, the expiry attribute of {first}."
            remedy = 'Mark it with Ttl[Timestamp], or set another stored name by stored("…").'
            yield Violation(spec.type_name, part.name, problem, remedy)


# --- parents ---------------------------------------------------------------------------------------------------


def _parent_violations(spec: EntitySpec, specs: Sequence[EntitySpec]) -> Violations:
    """Check indexes that are sharded like a parent: they are hashed by its id and need its creation property."""
    parents = {each.type_name: each for each in specs}
    for attribute, declared in spec.model.__declaration__.indexes.items():
        if not isinstance(declared.sharded, str):
            continue
        parent = parents.get(declared.sharded)
        if parent is None:
            remedy = nearest_or_all(declared.sharded, parents, "entities")
            yield attribute, f"is sharded like {declared.sharded!r}, which is no entity of this catalog.", remedy
            continue
        if not parent.ids or [spec.properties[name].codec for name in declared.hash] != [
            part.codec for part in parent.ids
        ]:
            ids = ", ".join(part.name for part in parent.ids) or "none"
            problem = f"is sharded like {parent.type_name}, and its hash properties do not match its ids ({ids})."
            remedy = "Hash it by one property for each id, of the same type and in the same order."
            yield attribute, problem, remedy
        if parent.model.__declaration__.shards.growth:
            reason = f"is sharded like {parent.type_name}, which has several shard generations, and"
            for problem, remedy in _creation_problems(spec, parent):
                yield attribute, f"{reason} {problem}", remedy


def _creation_problems(spec: EntitySpec, parent: EntitySpec) -> Problems:
    created, parent_created = spec.created, parent.created
    if created is None:
        yield f"{spec.type_name} has no creation property.", "Mark one with Created[…]."
    elif created.nullable:
        yield f"{created.name} may be null.", "Remove null from its type."
    elif parent_created is not None and created.codec != parent_created.codec:
        remedy = "Give both the same type."
        yield f"{created.name} has another type than {parent.type_name}.{parent_created.name}.", remedy
