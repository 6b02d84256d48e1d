"""Build the specifications of entities from their classes, and validate joins.

The specification of an invalid class serves only to find its violations.
"""

import inspect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from graphql_api.errors import Violation, nearest
from graphql_api.model.entity import Entity
from graphql_api.model.mapping_keys import lookup_spec
from graphql_api.model.markers import Index, Lookup, RoleName
from graphql_api.model.naming import (
    HASH_ATTRIBUTE,
    NAME_PATTERN,
    RANGE_ATTRIBUTE,
    camel_case,
    capitalized,
    strip_id_suffix,
)
from graphql_api.model.property_specs import item_codec, property_specs, with_role
from graphql_api.model.relation_declarations import ForeignKey, Join, UniqueTogether
from graphql_api.model.shard_declarations import shard_space_of
from graphql_api.model.specs import (
    EntitySpec,
    ForeignKeySpec,
    IndexSpec,
    JoinSpec,
    PropertySpec,
    SortProperty,
    UnionSpec,
    UniqueSpec,
)
from graphql_api.model.violations import LETTERS_AND_DIGITS, Problems, nearest_or_all
from graphql_api.sharding import ONE_SHARD
from graphql_api.storage import MAX_RECORD_BYTES

Models = Mapping[str, type[Entity]]
Properties = Sequence[PropertySpec]

_RESERVED_FIELD = "id"
"""the field that every record type has"""


def build_specs(models: Sequence[type[Entity]], violations: list[Violation]) -> list[EntitySpec]:
    """Build the specifications of all entities of a catalog. Invalid joins are reported and omitted."""
    by_class_name = {model.__name__: model for model in models}
    unlinked_specs = [_entity_spec(model, by_class_name) for model in models]
    return _with_foreign_keys(_with_joins(unlinked_specs, violations), unlinked_specs)


def _entity_spec(model: type[Entity], models: Models) -> EntitySpec:
    declared = model.__declaration__
    properties = property_specs(model)
    ids, sub_ids = with_role(properties, "id"), with_role(properties, "sub id")
    space = shard_space_of(model)
    primary = IndexSpec(
        entity=declared.name,
        attribute="by_id",
        name="id",
        physical=None,
        hash_attribute=HASH_ATTRIBUTE,
        range_attribute=RANGE_ATTRIBUTE,
        hash_entity=declared.name,
        space=space,
        id_prefix=ids if sub_ids else (),
        sort=tuple(map(SortProperty, sub_ids or ids)),
    )
    secondary = {name: _index_spec(model, models, name, index, properties) for name, index in declared.indexes.items()}
    lookups = {name: _lookup_spec(model, name, lookup, properties) for name, lookup in declared.lookups.items()}
    indexes = {"by_id": primary, **secondary, **lookups}
    unions = {
        name: UnionSpec(name, _search_name(name), tuple(map(indexes.__getitem__, union.members)), union.allow)
        for name, union in declared.unions.items()
    }
    # An id is unique without a constraint.
    unique = [UniqueSpec(part.stored, part.name, (part,)) for part in with_role(properties, "unique") if (part,) != ids]
    unique_together = [
        UniqueSpec(camel_case(name), name, tuple(map(properties.__getitem__, constraint.properties)))
        for name, constraint in declared.constraints.items()
        if isinstance(constraint, UniqueTogether)
    ]

    def first(role: RoleName) -> PropertySpec | None:
        return next(iter(with_role(properties, role)), None)

    return EntitySpec(
        name=declared.name,
        type_name=model.__name__,
        model=model,
        description=inspect.cleandoc(model.__doc__) if model.__doc__ else None,
        properties=MappingProxyType(properties),
        ids=ids,
        sub_ids=sub_ids,
        created=first("created"),
        space=space,
        indexes=MappingProxyType(indexes),
        unions=MappingProxyType(unions),
        separator=declared.separator,
        ttl=first("ttl"),
        allow=declared.allow,
        current=declared.current,
        write=declared.write,
        updated=first("updated"),
        version=first("version"),
        unique=(*unique, *unique_together),
        record_bytes=declared.record_bytes,
        max_record_bytes=MAX_RECORD_BYTES if declared.max_record_bytes is None else declared.max_record_bytes,
    )


def _index_spec(
    model: type[Entity], models: Models, attribute: str, index: Index, properties: Mapping[str, PropertySpec]
) -> IndexSpec:
    entity = model.__declaration__.name
    sharded_like = models.get(index.sharded) if isinstance(index.sharded, str) else model
    hash_entity = sharded_like.__declaration__.name if sharded_like else str(index.sharded)
    hash_properties = tuple(map(properties.__getitem__, index.hash))
    physical = index.slot or index.name or _search_name(attribute)
    sort = tuple(SortProperty(properties[name], descending) for name, descending in index.sort)
    raw_attribute = sort[0].property.stored if index.raw and sort else None
    sorted_by = {name for name, _ in index.sort}
    primary_key = () if index.raw else (*with_role(properties, "id"), *with_role(properties, "sub id"))
    projection = index.projection
    if isinstance(projection, tuple):
        projection = tuple(sorted({properties[name].stored for name in projection}))
    return IndexSpec(
        entity=entity,
        attribute=attribute,
        name=_search_name(attribute),
        physical=physical,
        hash_attribute=index.hash_key or _hash_attribute(entity, index, hash_properties, hash_entity),
        range_attribute=raw_attribute or index.range_key or f"{physical}RangeKey",
        hash_entity=hash_entity,
        space=shard_space_of(sharded_like) if sharded_like and index.sharded else ONE_SHARD,
        is_sharded=bool(index.sharded),
        sharded_like_parent=isinstance(index.sharded, str),
        hash=hash_properties,
        sort=sort,
        tie_breaker=tuple(part for part in primary_key if part.name not in sorted_by),
        raw=index.raw,
        projection=projection,
        allow=index.allow,
        order=index.order,
    )


def _lookup_spec(
    model: type[Entity], attribute: str, lookup: Lookup, properties: Mapping[str, PropertySpec]
) -> IndexSpec:
    primary_key = (*with_role(properties, "id"), *with_role(properties, "sub id"))
    return lookup_spec(
        model.__declaration__.name,
        lookup.name or _search_name(attribute),
        tuple(map(properties.__getitem__, lookup.properties)),
        attribute=attribute,
        search_name=_search_name(attribute),
        primary_key=primary_key,
        allow=lookup.allow,
    )


def _search_name(attribute: str) -> str:
    return camel_case(attribute.removeprefix("by_"))


def _hash_attribute(entity: str, index: Index, hash_properties: Sequence[PropertySpec], hash_entity: str) -> str:
    if index.slot:
        return f"{index.slot}HashKey"
    if isinstance(index.sharded, str):
        return f"{hash_entity}HashKey"
    if not index.hash and index.sharded:
        return HASH_ATTRIBUTE
    parts = "".join(capitalized(strip_id_suffix(part.stored)) for part in hash_properties)
    return f"{entity}{parts}{'' if index.sharded else 'Unsharded'}HashKey"


# --- foreign keys ----------------------------------------------------------------------------------------------


def _with_foreign_keys(specs: Sequence[EntitySpec], unlinked_specs: Sequence[EntitySpec]) -> list[EntitySpec]:
    """Add foreign keys and children to entities. Foreign keys refer to the unlinked specifications of parents."""
    parents = {spec.type_name: spec for spec in unlinked_specs}
    with_keys = []
    for spec in specs:
        own = spec.properties
        keys = [
            _link_foreign_key(name, key, own, parents[key.entity])
            for name, key in spec.model.__declaration__.constraints.items()
            if isinstance(key, ForeignKey) and key.entity in parents
        ]
        with_keys.append(replace(spec, foreign_keys=tuple(keys)))
    children: dict[str, list[EntitySpec]] = defaultdict(list)
    for child in with_keys:
        for name in {key.parent.name for key in child.foreign_keys}:
            children[name].append(child)
    return [replace(spec, children=tuple(children[spec.name])) for spec in with_keys]


def _link_foreign_key(
    name: str, key: ForeignKey, own: Mapping[str, PropertySpec], parent: EntitySpec
) -> ForeignKeySpec:
    allow = parent.allow if key.allow is None else key.allow
    return ForeignKeySpec(camel_case(name), parent, tuple(own[part] for part in key.properties), allow)


# --- joins -----------------------------------------------------------------------------------------------------


def _with_joins(specs: Sequence[EntitySpec], violations: list[Violation]) -> list[EntitySpec]:
    entities = {spec.type_name: spec for spec in specs}
    joined_specs = []
    for spec in specs:
        joins = {}
        used_by = {camel_case(name): f"the property {name!r}" for name in spec.properties}
        for name, join in spec.model.__declaration__.joins.items():
            violations += [Violation(spec.type_name, name, *problem) for problem in _name_problems(name, used_by)]
            used_by.setdefault(camel_case(name), f"the join {name!r}")
            try:
                joins[name] = _join_spec(spec, name, join, entities)
            except _InvalidJoin as invalid:
                violations.append(Violation(spec.type_name, name, *invalid.args))
        joined_specs.append(replace(spec, joins=MappingProxyType(joins)))
    return joined_specs


def _name_problems(name: str, used_by: Mapping[str, str]) -> Problems:
    """Check the field name of a join, which must differ from those of other joins and of properties."""
    field = camel_case(name)
    if not NAME_PATTERN.fullmatch(field):
        yield "has a name that GraphQL does not allow.", LETTERS_AND_DIGITS
    elif field == _RESERVED_FIELD:
        yield f"becomes the field {field!r}, which every record type has.", "Rename it."
    elif field in used_by:
        yield f"becomes the field {field!r}, which {used_by[field]} uses.", "Rename one of the two."


class _InvalidJoin(Exception):
    """An invalid join, with problem and remedy as arguments."""


def _join_spec(spec: EntitySpec, name: str, join: Join, entities: Mapping[str, EntitySpec]) -> JoinSpec:
    target = entities.get(join.entity)
    if target is None:
        remedy = nearest_or_all(join.entity, entities, "entities")
        raise _InvalidJoin(f"joins {join.entity!r}, which is no entity of this catalog.", remedy)
    by = tuple(spec.properties[own] for own in join.by or ())  # `Entity` has checked that they exist.
    if join.kind == "many":
        matched = _match_item_ids(spec, by[0], target)
    elif join.via is None:
        matched = _match_key(by, target)
    else:
        by, matched = _match_index(spec, join, join.via, by, target)
    return JoinSpec(name, join.kind, target.name, join.via, by, tuple(part.name for part in matched), join.description)


def _match_key(by: Properties, target: EntitySpec) -> Properties:
    if len(by) not in (len(target.ids), len(target.primary_key)):
        or_sub_ids = f", or with {_list_names(target.sub_ids)} too" if target.sub_ids else ""
        remedy = f"Its id is {_list_names(target.ids) or 'empty'}: name one property for each part{or_sub_ids}."
        raise _InvalidJoin(f"joins {target.type_name} by {_describe_properties(by)}.", remedy)
    return _with_same_types(by, target, target.primary_key)


def _match_item_ids(spec: EntitySpec, part: PropertySpec, target: EntitySpec) -> Properties:
    if len(target.primary_key) != 1:
        key, remedy = _list_names(target.primary_key), "RefMany needs a key of one part: use HasMany with an index."
        raise _InvalidJoin(f"joins several {target.type_name} by id, and its key is {key or 'empty'}.", remedy)
    codec = item_codec(spec.model.model_fields[part.name].annotation)
    if codec is None:
        remedy = "Name a list, tuple or set of ids, or use Ref for a single id."
        raise _InvalidJoin(f"joins {target.type_name} by {part.name}, which is no list of scalars.", remedy)
    return _with_same_types([replace(part, codec=codec)], target, target.primary_key)


def _match_index(
    spec: EntitySpec, join: Join, via: str, by: tuple[PropertySpec, ...], target: EntitySpec
) -> tuple[tuple[PropertySpec, ...], Properties]:
    """Return the own properties too: those of a page are by default those with the names of the target's."""
    index, own = _index(join, via, target), spec.properties
    if join.kind == "page" and not index.required:
        problem = f"joins all {target.type_name} records, because {index.attribute} has no hash properties."
        raise _InvalidJoin(problem, "Name an index whose hash properties match properties of this entity.")
    search = f"searches {target.type_name}.{index.attribute} by"
    if join.by is None:
        missing = next((part.name for part in index.required if part.name not in own), None)
        if missing is not None:
            remedy = f"Name the property with by=….{nearest(missing, own)}"
            raise _InvalidJoin(f"{search} {missing!r}, which is no property of {spec.type_name}.", remedy)
        by = tuple(own[part.name] for part in index.required)
    if join.kind == "page":
        by = _with_listed_values(spec, by, index, target)
    optional = () if join.kind == "page" else tuple(order.property for order in index.sort)
    possible, minimum = (*index.required, *optional), max(1, len(index.required))
    if not minimum <= len(by) <= len(possible):
        at_least = f", at least {minimum}" if optional else ""
        remedy = f"Name one property for each of {_list_names(possible)}{at_least}."
        raise _InvalidJoin(f"{search} {_describe_properties(by)}.", remedy)
    return by, _with_same_types(by, target, possible)


def _with_listed_values(
    spec: EntitySpec, by: tuple[PropertySpec, ...], index: IndexSpec, target: EntitySpec
) -> tuple[PropertySpec, ...]:
    """Give a list of scalars the codec of its items. A page is joined by any of them."""
    items = {part.name: item_codec(spec.model.model_fields[part.name].annotation) for part in by if part.codec is None}
    listed = [name for name, codec in items.items() if codec is not None]
    if len(listed) > 1:
        raise _InvalidJoin(f"joins {target.type_name} by several lists, {', '.join(listed)}.", "Name one list.")
    if listed and index.id_prefix:
        remedy = "Use RefMany, or an index with this hash property."
        raise _InvalidJoin(f"joins {target.type_name} by several ids, {listed[0]}.", remedy)
    return tuple(replace(part, codec=items.get(part.name, part.codec)) for part in by)


def _index(join: Join, via: str, target: EntitySpec) -> IndexSpec:
    union = target.unions.get(via)
    if union is not None and union.members:
        if join.kind == "one":
            remedy = f"Name one of its indexes: {', '.join(member.attribute for member in union.members)}."
            raise _InvalidJoin(f"joins one {target.type_name} through the union {via}.", remedy)
        return union.members[0]
    index = target.indexes.get(via)
    if index is None:
        remedy = nearest_or_all(via, [*target.indexes, *target.unions], "indexes")
        problem = f"joins {target.type_name} through {via!r}, which is no index of {target.type_name}."
        raise _InvalidJoin(problem, remedy)
    if index.is_primary and not target.sub_ids:
        remedy = "Use Ref without via."
        raise _InvalidJoin(f"joins {target.type_name} through by_id, which finds only one record.", remedy)
    return index


def _with_same_types(by: Properties, target: EntitySpec, possible: Properties) -> Properties:
    """Check that properties have the types of target properties, or of the sources of derived ones."""
    matched = possible[: len(by)]
    for own, part in zip(by, matched, strict=True):
        if own.codec is None:
            remedy = "Name a scalar property, or use RefMany for a list of ids."
            raise _InvalidJoin(f"joins {target.type_name} by {own.name}, which is no scalar.", remedy)
        source = target.properties[part.sources[0]].codec if part.search_function is not None else None
        if part.codec is not None and own.codec not in (part.codec, source):
            problem = f"matches {target.type_name}.{part.name}, which is {part.codec.name}, with {own.name}, which is"
            raise _InvalidJoin(f"{problem} {own.codec.name}.", "Give both properties the same type.")
    return matched


def _describe_properties(by: Properties) -> str:
    if not by:
        return "no property"
    return f"{len(by)} propert{'y' if len(by) == 1 else 'ies'} ({_list_names(by)})"


def _list_names(parts: Properties) -> str:
    return ", ".join(part.name for part in parts)
