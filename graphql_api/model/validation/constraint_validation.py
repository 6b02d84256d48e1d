"""Validate constraints, counters and properties set by the server."""

from collections.abc import Mapping

from graphql_api.model.naming import NAME_PATTERN, camel_case
from graphql_api.model.relation_declarations import ForeignKey, Generated
from graphql_api.model.shard_declarations import CREATION_KINDS
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.model.violations import LETTERS_AND_DIGITS, Problems, Violations, duplicates, nearest_or_all

MAX_CONSTRAINTS = 20
"""unique constraints and foreign keys of one entity: a transaction must fit the old and the new items of all of them"""


def constraint_violations(spec: EntitySpec, specs: Mapping[str, EntitySpec]) -> Violations:
    """Yield the violations of the constraints, counters and server-set properties of one entity."""
    yield from _unique_violations(spec)
    if spec.updated is not None:
        yield from _server_set_violations(spec, spec.updated, "Updated")
        if spec.updated.kind not in CREATION_KINDS:
            remedy = "Make it a Timestamp, TimestampMs, datetime, date or str."
            yield spec.updated.name, "is Updated, and its type cannot hold a time.", remedy
    if spec.version is not None:
        yield from _server_set_violations(spec, spec.version, "Version")
        if spec.version == spec.updated:
            yield spec.version.name, "is Version and Updated.", "Keep one of the two."
        remedy = "Remove it: a late write adds an entry that is not the latest one."
        yield from _number_violations(spec, spec.version, "Version", remedy)
    for part in spec.counters:
        yield from _counter_violations(spec, part)
    for part in spec.properties.values():
        if part.is_server_set:
            yield from _server_set_default_violations(spec, part)
    for name, part in spec.properties.items():
        factory = spec.model.model_fields[name].default_factory
        if isinstance(factory, Generated) and not factory.select_factory(part.codec):
            remedy = "Make it a str or UUID, or declare a Field(default_factory=…)."
            yield name, "is generated, and is neither a str nor a UUID.", remedy
        if part.immutable and part.function is not None:
            remedy = f"Mark {' and '.join(part.sources)} with Immutable instead."
            yield name, "is Immutable and derived, so it changes with its sources.", remedy
    yield from _foreign_key_violations(spec, specs)


def _unique_violations(spec: EntitySpec) -> Violations:
    for unique in spec.unique:
        attribute, names = unique.attribute, [part.name for part in unique.parts]
        if not names:
            yield attribute, "is unique by no property.", "Name the properties whose values are unique together."
            continue
        if len({*names}) < len(names):
            yield attribute, "names a property twice.", "Name each property once."
        for part in unique.parts:
            if part.codec is None:
                yield attribute, f"is unique by {part.name}, which is no scalar.", "Name properties of scalar types."
        if spec.sub_ids and spec.current is None and {*names} <= {part.name for part in spec.ids}:
            remedy = "Remove it, or name a property that differs between the entries."
            yield attribute, "is unique by the id, which all entries of a history share.", remedy
        if not NAME_PATTERN.fullmatch(unique.name):
            yield attribute, "has an invalid name.", LETTERS_AND_DIGITS
    for name, attribute, _ in duplicates((unique.name, unique.attribute) for unique in spec.unique if unique.parts):
        yield attribute, f"has the name {name!r} of another unique constraint.", "Rename one of them."


# --- properties set by the server ------------------------------------------------------------------------------


def _server_set_violations(spec: EntitySpec, part: PropertySpec, marker: str) -> Violations:
    if part.nullable:
        yield part.name, f"is {marker} and may be null.", "Remove null from its type."
    conflicting_roles = {
        "derived": part.function is not None,
        "part of the primary key, which never changes": part in spec.primary_key,
        "Created, which never changes": part == spec.created,
        "Immutable": part.immutable,
        "a counter": part.counter_group is not None,
    }
    for role, is_set in conflicting_roles.items():
        if is_set:
            yield part.name, f"is {marker} and {role}.", "Keep one of the two."


def _server_set_default_violations(spec: EntitySpec, part: PropertySpec) -> Violations:
    if part not in (spec.created, spec.updated, spec.version):
        remedy = "Mark it with Created, Updated or Version, or declare another default."
        yield part.name, "is declared as server_set(), and the server sets no such value.", remedy
    elif part.nullable and part == spec.created:
        yield part.name, "is declared as server_set() and may be null.", "Remove null from its type."


def _number_violations(spec: EntitySpec, part: PropertySpec, marker: str, remedy: str) -> Violations:
    """Check a number that the server assigns. `remedy`: of a number in a history with a current record."""
    if part.kind != "integer":
        yield part.name, f"is {marker} and no integer.", "Make it an Int32 or an int."
    if spec.current is not None:
        yield part.name, f"is {marker} in a history with a current record.", remedy


def _counter_violations(spec: EntitySpec, part: PropertySpec) -> Violations:
    remedy = "Count the records of another entity, or remove current=."
    yield from _number_violations(spec, part, "a counter", remedy)
    if part.nullable:
        yield part.name, "is a counter and may be null.", "Remove null from its type."
    for group in (spec.properties[name] for name in part.counter_group or ()):
        if group.codec is None:
            yield part.name, f"counts records grouped by {group.name}, which is no scalar.", "Name a scalar property."
        elif group.counter_group is not None or group in (spec.updated, spec.version):
            remedy = "Name a property that callers provide."
            yield part.name, f"counts records grouped by {group.name}, which the server sets.", remedy


# --- foreign keys ----------------------------------------------------------------------------------------------


def _foreign_key_violations(spec: EntitySpec, specs: Mapping[str, EntitySpec]) -> Violations:
    constraints = spec.model.__declaration__.constraints
    foreign_keys = {name: one for name, one in constraints.items() if isinstance(one, ForeignKey)}
    count = len(spec.unique) + len(foreign_keys)
    if count > MAX_CONSTRAINTS:
        remedy = f"At most {MAX_CONSTRAINTS} fit into one transaction: remove some."
        yield None, f"has {count} unique constraints and foreign keys.", remedy
    for attribute, foreign_key in foreign_keys.items():
        if not NAME_PATTERN.fullmatch(camel_case(attribute)):
            yield attribute, "has an invalid name.", LETTERS_AND_DIGITS
        for problem, remedy in _foreign_key_problems(spec, foreign_key, specs):
            yield attribute, problem, remedy


def _foreign_key_problems(spec: EntitySpec, declared: ForeignKey, specs: Mapping[str, EntitySpec]) -> Problems:
    parent = specs.get(declared.entity)
    if parent is None:
        remedy = nearest_or_all(declared.entity, specs, "entities")
        yield f"references {declared.entity!r}, which is no entity of this catalog.", remedy
        return
    if parent.sub_ids:
        remedy = "Reference an entity without sub ids."
        yield f"references {parent.type_name}, which has several records for each id.", remedy
    if parent.ttl is not None:
        remedy = "Reference an entity without Ttl: engines remove expired records without checking foreign keys."
        yield f"references {parent.type_name}, whose records expire.", remedy
    if not parent.ids:
        yield f"references {parent.type_name}, which has only one record.", "Remove the foreign key."
    elif len(declared.properties) != len(parent.ids):
        remedy = f"Its id is {', '.join(part.name for part in parent.ids)}: name one property for each part."
        yield f"references {parent.type_name} by {', '.join(declared.properties) or 'no property'}.", remedy
        return
    for name, part in zip(declared.properties, parent.ids, strict=False):
        own = spec.properties[name]
        if own.codec is None:
            yield f"references a record by {name}, which is no scalar.", "Name a property that holds one id."
        elif part.codec is not None and own.codec != part.codec:
            types = f"which is {part.codec.name}, by {name}, which is {own.codec.name}"
            yield f"references {parent.type_name}.{part.name}, {types}.", "Give both properties the same type."
