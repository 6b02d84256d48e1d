"""Validate access rules: the names in them, and that no search or property bypasses them. Find missing rules."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphql_api.errors import nearest
from graphql_api.model.access_declarations import Anyone, Group, Owner, OwnerThrough, Rules, SignedIn, allows_anyone
from graphql_api.model.relation_declarations import ForeignKey
from graphql_api.model.specs import EntitySpec, IndexSpec, UnionSpec
from graphql_api.model.violations import Problems, Violations


def access_violations(spec: EntitySpec, specs: Sequence[EntitySpec]) -> Violations:
    """Yield the violations of the access rules of one entity, its indexes, unions and properties."""
    declared: list[tuple[str | None, EntitySpec, Rules | None]] = [
        (None, spec, spec.allow),
        (None, spec, spec.write),
        *((search.attribute, spec, search.allow) for search in spec.searches),
        *((part.name, spec, part.allow) for part in spec.properties.values()),
        *_foreign_key_rules(spec, specs),
    ]
    for attribute, owned, rules in declared:
        for rule in rules or ():
            yield from ((attribute, *problem) for problem in _rule_problems(owned, specs, rule))
    for part in spec.properties.values():
        if part.allow is not None and part in spec.primary_key:
            problem = "has access rules and is part of the primary key, which every record's id contains."
            yield part.name, problem, "Move the rules to the entity."
        restricted = next((name for name in part.sources if spec.properties[name].allow is not None), None)
        if part.allow is None and restricted is not None:
            problem = f"has no access rule and is derived from {restricted}, which has one."
            yield part.name, problem, "Add allow(…) to it."
    for search in spec.searches if spec.allow is None else ():
        if search.allow is None:
            yield from _bypassed_search_violations(spec, search)


def _foreign_key_rules(spec: EntitySpec, specs: Sequence[EntitySpec]) -> Iterator[tuple[str, EntitySpec, Rules | None]]:
    """Yield the rules of foreign keys, whose properties are those of the referenced entity."""
    for name, declared in spec.model.__declaration__.constraints.items():
        if isinstance(declared, ForeignKey):
            yield from ((name, parent, declared.allow) for parent in specs if parent.type_name == declared.entity)


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
            remedy = "Use anyone, signed_in, group(…), owner(…) or owner_through(…)."
            yield f"has {rule!r} instead of a rule.", remedy


def _owner_problems(spec: EntitySpec, name: str) -> Problems:
    part = spec.properties.get(name)
    if part is None:
        remedy = nearest(name, spec.properties).strip() or "Name the property that holds the owner of the record."
        yield f"names the owner property {name!r}, which {spec.type_name} does not have.", remedy
    elif part.kind != "text" or part.function is not None:
        remedy = "Name a str that is not derived: callers are identified by strings."
        yield f"names the owner property {spec.type_name}.{name}, which is derived or no str.", remedy


def _owner_through_problems(spec: EntitySpec, specs: Sequence[EntitySpec], rule: OwnerThrough) -> Problems:
    target = next((one for one in specs if rule.entity in (one.type_name, one.name)), None)
    if target is None:
        names = [one.type_name for one in specs]
        remedy = nearest(rule.entity, names).strip() or "Add it to the catalog."
        yield f"names the ownership entity {rule.entity!r}, which the catalog does not declare.", remedy
        return
    supported_key = [*target.ids, *(part for part in target.sub_ids if part.name == rule.owner)]
    if len(target.ids) != 1 or len(target.primary_key) != len(supported_key):
        key = " and ".join(part.name for part in target.primary_key)
        remedy = "Declare its key as one Id, or as one Id and the owner as its SubId."
        yield f"looks up one record of {target.type_name}, whose key is {key or 'empty'}.", remedy
    yield from _owner_problems(target, rule.owner)
    of = spec.properties.get(rule.of)
    if of is None:
        remedy = (
            nearest(rule.of, spec.properties).strip() or f"Name the property that holds an id of {target.type_name}."
        )
        yield f"looks up {target.type_name} by {rule.of!r}, which {spec.type_name} does not have.", remedy
    elif target.ids and of.codec != target.ids[0].codec:
        remedy = "Give both properties the same type."
        yield f"looks up {target.type_name} by {of.name}, whose type differs from that of {target.ids[0].name}.", remedy


def _bypassed_search_violations(spec: EntitySpec, search: IndexSpec | UnionSpec) -> Violations:
    if isinstance(search, UnionSpec):
        use = "searches"
        restricted = [index.attribute for index in search.members if index.allow is not None]
    else:
        use = "searched by"
        parts = [*search.hash, *(sort.property for sort in search.sort)]
        restricted = [part.name for part in parts if part.allow is not None and part not in spec.primary_key]
    if restricted:
        problem = f"is open to anyone and {use} {restricted[0]}, which is restricted."
        yield search.attribute, problem, "Add allow= to it."


# --- missing rules ---------------------------------------------------------------------------------------------

_MISSING_RULES = {
    "read and write": (
        "no access rule is declared.",
        "Set allow=, and write= if other callers may write. If anyone may, set allow=anyone.",
    ),
    "read": ("allow= is not set.", "Set allow=, or allow=anyone if that is intended."),
    "write": ("allow= allows anyone, and write= is not set.", "Set write=, or write=anyone if that is intended."),
}
"""reason and remedy, by what anyone may do"""


class UnrestrictedAccess(NamedTuple):
    """Entities that lack the same access rule, as a message and its remedy."""

    description: str
    remedy: str


def find_unrestricted_access(specs: Sequence[EntitySpec], *, is_written: bool = True) -> list[UnrestrictedAccess]:
    """Report missing access rules that leave entities open to anyone. `is_written`: the server offers mutations."""
    found: dict[str, list[EntitySpec]] = defaultdict(list)
    for spec in specs:
        is_open = {"read": spec.allow is None, "write": is_written and spec.write is None and allows_anyone(spec.allow)}
        found[" and ".join(action for action in is_open if is_open[action])].append(spec)
    return [
        UnrestrictedAccess(f"Anyone who reaches the server can {actions} {join_type_names(affected)}: {reason}", remedy)
        for actions, (reason, remedy) in _MISSING_RULES.items()
        if (affected := found[actions])
    ]


def join_type_names(specs: Sequence[EntitySpec]) -> str:
    """Return the type names of entities, separated by commas."""
    return ", ".join(spec.type_name for spec in specs)
