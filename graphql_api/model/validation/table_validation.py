"""The rules of a whole catalog: names that meet, indexes that share a slot, attributes that share a name."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from graphql_api.errors import Violation
from graphql_api.model.naming import NAME, capitalized
from graphql_api.model.physical_table import index_definition, raw_key_type
from graphql_api.model.specs import EntitySpec, IndexSpec, UnionSpec

MAX_INDEXES = 20
MAX_INCLUDED = 100
CATALOG = "Catalog"
"""where a violation is that belongs to no single entity"""

Declared = tuple[EntitySpec, IndexSpec]


def table_violations(specs: Sequence[EntitySpec], namespace: str | None) -> Iterator[Violation]:
    """Everything in which entities of one table get into each other's way."""
    if not specs:
        yield Violation(CATALOG, None, "declares no entity.", "Pass the entity classes: Catalog(User, Email).")
    if namespace is not None and not NAME.fullmatch(namespace):
        yield Violation(
            CATALOG,
            None,
            f"has the namespace {namespace!r}.",
            "Use ASCII letters, digits and underscores, a letter first.",
        )
    slots: dict[str, list[Declared]] = defaultdict(list)
    for spec in specs:
        for index in spec.indexes.values():
            if index.physical is not None:
                slots[index.physical].append((spec, index))
    yield from _entity_names(specs)
    yield from _field_names(specs)
    yield from _sizes(slots)
    for physical, declared in slots.items():
        yield from _one_definition(physical, declared)
        yield from _one_head_each(physical, declared)
        yield from _no_strangers(physical, declared, specs)
    yield from _generated_names(specs)
    yield from _raw_types(specs)
    yield from _one_expiry(specs)
    yield from _parents(specs)


# --- names -----------------------------------------------------------------------------------------------------


def _entity_names(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    names: dict[str, EntitySpec] = {}
    types: dict[str, EntitySpec] = {}
    for spec in specs:
        if names.setdefault(spec.name, spec).type_name != spec.type_name:
            yield Violation(
                spec.type_name,
                None,
                f"is called {spec.name!r} in hash keys, as {names[spec.name].type_name} is.",
                "Give one of them another name=.",
            )
        if types.setdefault(spec.type_name, spec) is not spec:
            yield Violation(spec.type_name, None, "is declared twice.", "Rename one of the classes, or pass it once.")


def _field_names(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """The search fields of all entities stand side by side in GraphQL."""
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
                    f"becomes the field {name!r}, as something of {first[name]} does.",
                    "Rename one of them.",
                )
            first.setdefault(name, spec.type_name)


# --- physical indexes ------------------------------------------------------------------------------------------


def _sizes(slots: dict[str, list[Declared]]) -> Iterator[Violation]:
    if len(slots) > MAX_INDEXES:
        yield Violation(
            CATALOG,
            None,
            f"needs {len(slots)} indexes in the table; an engine allows {MAX_INDEXES}.",
            'Let indexes of different entities share one by slot="gsi01".',
        )
    carried = [declared[0][1].projection for declared in slots.values()]
    included = sum(len(projection) for projection in carried if isinstance(projection, tuple))
    if included > MAX_INCLUDED:
        yield Violation(
            CATALOG,
            None,
            f"has indexes that carry {included} properties by name; an engine allows {MAX_INCLUDED} over the table.",
            'Let some carry "ALL" or "KEYS_ONLY".',
        )


def _one_definition(physical: str, declared: Sequence[Declared]) -> Iterator[Violation]:
    """All entities in a physical index mean the same attributes, of the same type, carrying the same."""
    first_spec, first = declared[0]
    wanted = index_definition(physical, first)
    for spec, index in declared[1:]:
        found = index_definition(physical, index)
        parts = (
            ("hash key in", wanted.hash_attribute, found.hash_attribute, "Give both the same hash_key="),
            ("range key in", wanted.range_attribute, found.range_attribute, "Give both the same range_key="),
            ("range key of type", wanted.range_type, found.range_type, "Give both properties of one type"),
            ("projection", wanted.projection, found.projection, "Give both the same projection="),
        )
        for what, expected, got, remedy in parts:
            if expected != got:
                yield Violation(
                    spec.type_name,
                    index.attribute,
                    f"lies in {physical!r} of the table with the {what} {got!r}, "
                    f"and {first_spec.type_name}.{first.attribute} with {expected!r}.",
                    f"{remedy}, or another name= or slot=.",
                )


def _one_head_each(physical: str, declared: Sequence[Declared]) -> Iterator[Violation]:
    """Hash keys begin with the head: two indexes of one head would find each other's records."""
    first: dict[str, Declared] = {}
    for spec, index in declared:
        other, other_index = first.setdefault(index.head, (spec, index))
        if other is not spec:
            yield Violation(
                spec.type_name,
                index.attribute,
                f"lies in {physical!r} of the table under {index.head!r}, "
                f"as {other.type_name}.{other_index.attribute} does.",
                "Give one of them another name= or slot=.",
            )


def _no_strangers(physical: str, declared: Sequence[Declared], specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """A record is in a physical index as soon as it has both attributes, even if its entity declares no such index."""
    heads = {index.head for _, index in declared}
    owners = {spec.name for spec, _ in declared}
    hash_attribute, range_attribute = declared[0][1].hash_attribute, declared[0][1].range_attribute
    for spec in specs:
        if spec.name in owners or range_attribute not in _attributes(spec):
            continue
        for index in spec.indexes.values():
            if index.hash_attribute == hash_attribute and index.head in heads:
                owner, owned = declared[0]
                yield Violation(
                    spec.type_name,
                    index.attribute,
                    f"puts records into {physical!r} of the table, where only those of {owner.type_name} belong: "
                    f"they have both its attributes, {hash_attribute!r} and {range_attribute!r}.",
                    f"Give this index or {owner.type_name}.{owned.attribute} another hash_key=.",
                )


def _attributes(spec: EntitySpec) -> set[str]:
    """All attributes that a record may have, its hash keys aside."""
    return {part.stored for part in spec.properties.values()} | {
        index.range_attribute for index in spec.indexes.values()
    }


# --- attributes ------------------------------------------------------------------------------------------------


def _generated_names(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """What indexes write is no property of anybody's: an engine refuses key attributes of another type."""
    generated: dict[str, str] = {}
    for spec in specs:
        for index in spec.indexes.values():
            if index.physical is None:
                continue
            written = (index.hash_attribute,) if index.raw else (index.hash_attribute, index.range_attribute)
            for attribute in written:
                generated.setdefault(attribute, f"{spec.type_name}.{index.attribute}")
    for spec in specs:
        for part in spec.properties.values():
            if part.stored in generated and part.stored not in ("hashKey", "rangeKey"):
                yield Violation(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, where {generated[part.stored]} keeps a key.",
                    'Rename one of them, the property by stored("…") or the key by hash_key= or range_key=.',
                )


def _raw_types(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """The plain attribute of a raw index has one type in all records, and is never stored as null."""
    raw: dict[str, tuple[str, str]] = {}
    for spec in specs:
        for index in spec.indexes.values():
            if index.raw and len(index.sort) == 1:
                kind = raw_key_type(index.sort[0].property)
                if kind is not None:
                    raw.setdefault(index.range_attribute, (kind, f"{spec.type_name}.{index.attribute}"))
    for spec in specs:
        for part in spec.properties.values():
            if part.stored not in raw:
                continue
            wanted, user = raw[part.stored]
            if raw_key_type(part) != wanted:
                yield Violation(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, which {user} orders by {'text' if wanted == 'S' else 'number'}.",
                    'Give it a type of that kind, or another stored name by stored("…").',
                )
            if part.null_is_stored:
                yield Violation(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, which {user} orders by, and its null differs from its default.",
                    "Make null its default, or take null out of its type.",
                )


def _one_expiry(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """An engine removes records by one attribute of the table, whatever entity they are of, where it is a number."""
    first = next((spec for spec in specs if spec.ttl is not None), None)
    if first is None or first.ttl is None:
        return
    for spec in specs:
        if spec.ttl is not None and spec.ttl.stored != first.ttl.stored:
            yield Violation(
                spec.type_name,
                spec.ttl.name,
                f"is a Ttl stored as {spec.ttl.stored!r}, and {first.type_name}.{first.ttl.name} is one stored as "
                f"{first.ttl.stored!r}; an engine looks at one attribute of the table.",
                'Give both the same stored name by stored("…").',
            )
        for part in spec.properties.values():
            if part.stored == first.ttl.stored and part != spec.ttl and raw_key_type(part) != "S":
                yield Violation(
                    spec.type_name,
                    part.name,
                    f"is stored as {part.stored!r}, by which {first.type_name}.{first.ttl.name} lets records expire.",
                    'Mark it with Ttl[Timestamp], or give it another stored name by stored("…").',
                )


# --- parents ---------------------------------------------------------------------------------------------------


def _parents(specs: Sequence[EntitySpec]) -> Iterator[Violation]:
    """An index that is sharded like a parent is hashed by the parent's id and grows with the parent."""
    by_name = {spec.name: spec for spec in specs}
    for spec in specs:
        for index in spec.indexes.values():
            parent = by_name.get(index.head)
            if not index.like_parent or parent is None:
                continue
            given = [part.codec for part in index.hash]
            if not parent.ids or given != [part.codec for part in parent.ids]:
                ids = ", ".join(part.name for part in parent.ids) or "none"
                yield Violation(
                    spec.type_name,
                    index.attribute,
                    f"is sharded like {parent.type_name}, and its hash properties are not that entity's ids ({ids}).",
                    "Hash it by as many properties of the same types, in their order.",
                )
            if parent.model.__declaration__.shards.growth:
                yield from _follows(spec, index, parent)


def _follows(spec: EntitySpec, index: IndexSpec, parent: EntitySpec) -> Iterator[Violation]:
    created, wanted = spec.created, parent.created
    if created is None:
        problem, remedy = f"{spec.type_name} has no creation property.", "Mark one with Created[…]."
    elif created.nullable:
        problem, remedy = f"{created.name} may be null.", "Take null out of its type."
    elif wanted is not None and created.codec != wanted.codec:
        problem, remedy = f"{created.name} is of another type than {wanted.name} there.", "Give both the same type."
    else:
        return
    yield Violation(
        spec.type_name,
        index.attribute,
        f"is sharded like {parent.type_name}, which has several shard generations, and {problem}",
        remedy,
    )
