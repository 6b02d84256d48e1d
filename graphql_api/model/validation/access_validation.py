"""Validate access rules: the names in them, and that no search or property bypasses them."""

from collections.abc import Iterator, Sequence

from graphql_api.codecs import Text
from graphql_api.errors import nearest
from graphql_api.model.access_declarations import Anyone, Group, Owner, OwnerThrough, Rules, SignedIn
from graphql_api.model.specs import EntitySpec, IndexSpec, PropertySpec, UnionSpec

Problems = Iterator[tuple[str, str]]
"""violations of one entity, index, union or property: problem, remedy"""


def access_violations(spec: EntitySpec, specs: Sequence[EntitySpec]) -> Iterator[tuple[str | None, str, str]]:
    """Yield the violations of the access rules of one entity, its indexes, unions and properties."""
    for attribute, rules in _declared_rules(spec):
        for rule in rules or ():
            for problem, remedy in _rule_problems(spec, specs, rule):
                yield attribute, problem, remedy
    for part in spec.properties.values():
        for problem, remedy in _property_problems(spec, part):
            yield part.name, problem, remedy
    for search in _searches(spec):
        for problem, remedy in _search_problems(spec, search):
            yield search.attribute, problem, remedy


def _searches(spec: EntitySpec) -> Iterator[IndexSpec | UnionSpec]:
    yield from spec.indexes.values()
    yield from spec.unions.values()


def _declared_rules(spec: EntitySpec) -> Iterator[tuple[str | None, Rules | None]]:
    """Yield all rules with the attribute that declares them, or None for those of the entity."""
    yield None, spec.allow
    yield None, spec.write
    for search in _searches(spec):
        yield search.attribute, search.allow
    for part in spec.properties.values():
        yield part.name, part.allow


# --- names in rules --------------------------------------------------------------------------------------------


def _rule_problems(spec: EntitySpec, specs: Sequence[EntitySpec], rule: object) -> Problems:
    """Check one rule. Catalogs may be untyped code, so a rule can be any object."""
    match rule:
        case Anyone() | SignedIn():
            return
        case Group(names):
            untyped_names: Sequence[object] = names
            if not untyped_names or not all(isinstance(name, str) and name for name in untyped_names):
                yield "has a group rule without a name.", 'Name at least one group: group("Admin").'
        case Owner(name):
            yield from _owner_problems(spec, name)
        case OwnerThrough():
            yield from _owner_through_problems(spec, specs, rule)
        case _:
            yield (
                f"has {rule!r} instead of a rule.",
                "Use anyone, signed_in, group(…), owner(…) or owner_through(…).",
            )


def _owner_problems(spec: EntitySpec, name: str) -> Problems:
    part = spec.properties.get(name)
    if part is None:
        yield (
            f"names the owner property {name!r}, which {spec.type_name} does not have.",
            nearest(name, spec.properties).strip() or "Name the property that holds the owner of the record.",
        )
    elif not _can_hold_subject(part):
        yield (
            f"names the owner property {spec.type_name}.{name}, which is derived or no str.",
            "Name a str that is not derived: callers are identified by strings.",
        )


def _can_hold_subject(part: PropertySpec) -> bool:
    return isinstance(part.codec, Text) and part.function is None


def _owner_through_problems(spec: EntitySpec, specs: Sequence[EntitySpec], rule: OwnerThrough) -> Problems:
    target = next((one for one in specs if rule.entity in (one.type_name, one.name)), None)
    if target is None:
        names = [one.type_name for one in specs]
        yield (
            f"names the ownership entity {rule.entity!r}, which the catalog does not declare.",
            nearest(rule.entity, names).strip() or "Add it to the catalog.",
        )
        return
    supported_key = [*target.ids, *(part for part in target.sub_ids if part.name == rule.owner)]
    if len(target.ids) != 1 or len(target.primary_key) != len(supported_key):
        yield (
            f"looks up one record of {target.type_name}, whose key is {_join_names(target.primary_key)}.",
            "Declare its key as one Id, or as one Id and the owner as its SubId.",
        )
    yield from _owner_problems(target, rule.owner)
    of = spec.properties.get(rule.of)
    if of is None:
        yield (
            f"looks up {target.type_name} by {rule.of!r}, which {spec.type_name} does not have.",
            nearest(rule.of, spec.properties).strip() or f"Name the property that holds an id of {target.type_name}.",
        )
    elif target.ids and of.codec != target.ids[0].codec:
        yield (
            f"looks up {target.type_name} by {of.name}, whose type differs from that of {target.ids[0].name}.",
            "Give both properties the same type.",
        )


def _join_names(parts: Sequence[PropertySpec]) -> str:
    return " and ".join(part.name for part in parts) or "empty"


# --- bypassed rules --------------------------------------------------------------------------------------------


def _property_problems(spec: EntitySpec, part: PropertySpec) -> Problems:
    if part.allow is not None and part in spec.primary_key:
        yield (
            "has access rules and is part of the primary key, which every record's id contains.",
            "Move the rules to the entity.",
        )
    restricted = [name for name in part.sources if spec.properties[name].allow is not None]
    if part.allow is None and restricted:
        yield f"has no access rule and is derived from {restricted[0]}, which has one.", "Add allow(…) to it."


def _search_problems(spec: EntitySpec, search: IndexSpec | UnionSpec) -> Problems:
    if search.allow is not None or spec.allow is not None:
        return
    if isinstance(search, UnionSpec):
        restricted = [index.attribute for index in search.members if index.allow is not None]
        if restricted:
            yield f"is open to anyone and searches {restricted[0]}, which is restricted.", "Add allow= to it."
        return
    parts = [*search.hash, *(sort.property for sort in search.sort)]
    restricted = [part.name for part in parts if part.allow is not None and part not in spec.primary_key]
    if restricted:
        yield f"is open to anyone and searched by {restricted[0]}, which is restricted.", "Add allow= to it."
