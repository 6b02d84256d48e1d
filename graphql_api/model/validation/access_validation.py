"""What must hold of the rules that say who may read: whom they name, and that nothing leads around them."""

from collections.abc import Iterator, Sequence

from graphql_api.codecs import Text
from graphql_api.errors import nearest
from graphql_api.model.access_declarations import Anyone, Group, Owner, OwnerThrough, Rules, SignedIn
from graphql_api.model.specs import EntitySpec, IndexSpec, PropertySpec, UnionSpec

Problems = Iterator[tuple[str, str]]
"""violations of one place: problem, remedy"""


def access_violations(spec: EntitySpec, specs: Sequence[EntitySpec]) -> Iterator[tuple[str | None, str, str]]:
    """Everything that is wrong with the rules of one entity, its indexes, unions and properties."""
    for place, rules in _places(spec):
        for rule in rules or ():
            for problem, remedy in _rule(spec, specs, rule):
                yield place, problem, remedy
    for part in spec.properties.values():
        for problem, remedy in _property(spec, part):
            yield part.name, problem, remedy
    for search in _searches(spec):
        for problem, remedy in _search(spec, search):
            yield search.attribute, problem, remedy


def _searches(spec: EntitySpec) -> Iterator[IndexSpec | UnionSpec]:
    yield from spec.indexes.values()
    yield from spec.unions.values()


def _places(spec: EntitySpec) -> Iterator[tuple[str | None, Rules | None]]:
    yield None, spec.allow
    yield None, spec.write
    for search in _searches(spec):
        yield search.attribute, search.allow
    for part in spec.properties.values():
        yield part.name, part.allow


# --- what a rule names -----------------------------------------------------------------------------------------


def _rule(spec: EntitySpec, specs: Sequence[EntitySpec], rule: object) -> Problems:
    """A catalog is read before a type checker has seen it: what stands here may be anything."""
    match rule:
        case Anyone() | SignedIn():
            return
        case Group(names):
            given: Sequence[object] = names
            if not given or not all(isinstance(name, str) and name for name in given):
                yield "is for members of a group without a name.", 'Name at least one: group("Admin").'
        case Owner(name):
            yield from _owner(spec, name)
        case OwnerThrough():
            yield from _owner_through(spec, specs, rule)
        case _:
            yield (
                f"is for {rule!r}, which is no rule.",
                "Give anyone, signed_in, group(…), owner(…) or owner_through(…).",
            )


def _owner(spec: EntitySpec, name: str) -> Problems:
    part = spec.properties.get(name)
    if part is None:
        yield (
            f"is for the owner that {name!r} names, and {spec.type_name} has no such property.",
            nearest(name, spec.properties).strip() or "Name the property that holds who owns the record.",
        )
    elif not _names_somebody(part):
        yield (
            f"is for the owner that {spec.type_name}.{name} names, which is no text that is stored as it was given.",
            "Name a str that is not derived: callers are known by texts.",
        )


def _names_somebody(part: PropertySpec) -> bool:
    return isinstance(part.codec, Text) and part.function is None


def _owner_through(spec: EntitySpec, specs: Sequence[EntitySpec], rule: OwnerThrough) -> Problems:
    target = next((one for one in specs if rule.entity in (one.type_name, one.name)), None)
    if target is None:
        names = [one.type_name for one in specs]
        yield (
            f"is for owners that {rule.entity!r} names, and the catalog declares no such entity.",
            nearest(rule.entity, names).strip() or "Add it to the catalog.",
        )
        return
    shape = [*target.ids, *(part for part in target.sub_ids if part.name == rule.owner)]
    if len(target.ids) != 1 or len(target.primary) != len(shape):
        yield (
            f"looks up one record of {target.type_name}, whose key is {_named(target.primary)}.",
            "Declare the key of such an entity as one Id, or as one Id and the owner as its SubId.",
        )
    yield from _owner(target, rule.owner)
    of = spec.properties.get(rule.of)
    if of is None:
        yield (
            f"is for owners of {rule.of!r}, and {spec.type_name} has no such property.",
            nearest(rule.of, spec.properties).strip() or f"Name the property that holds an id of {target.type_name}.",
        )
    elif target.ids and of.codec != target.ids[0].codec:
        yield (
            f"looks up {target.type_name} by {of.name}, which is of another type than {target.ids[0].name}.",
            "Declare both of one type.",
        )


def _named(parts: Sequence[PropertySpec]) -> str:
    return " and ".join(part.name for part in parts) or "none"


# --- what would lead around a rule -----------------------------------------------------------------------------


def _property(spec: EntitySpec, part: PropertySpec) -> Problems:
    if part.allow is not None and part in spec.primary:
        yield (
            "carries rules and is part of the primary key, which every record's id holds.",
            "Put the rules on the entity.",
        )
    told = [name for name in part.sources if spec.properties[name].allow is not None]
    if part.allow is None and told:
        yield f"carries no rule and is derived from {told[0]}, which does.", "Give it allow(…) too."


def _search(spec: EntitySpec, search: IndexSpec | UnionSpec) -> Problems:
    if search.allow is not None or spec.allow is not None:
        return
    if isinstance(search, UnionSpec):
        ruled = [index.attribute for index in search.members if index.allow is not None]
        if ruled:
            yield f"is open to everyone and searches {ruled[0]}, which is not.", "Give it allow= too."
        return
    parts = [*search.hash, *(sort.property for sort in search.sort)]
    told = [part.name for part in parts if part.allow is not None and part not in spec.primary]
    if told:
        yield f"is open to everyone and searched by {told[0]}, which is not.", "Give it allow= too."
