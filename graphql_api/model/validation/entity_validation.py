"""Validate catalogs: run all rules, and check single entities: names, keys, shards, derived properties, histories."""

import graphlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from graphql_api import codecs
from graphql_api.errors import InvalidValue, Violation
from graphql_api.model.markers import RoleName, canonical
from graphql_api.model.naming import MAX_NAME_LENGTH, NAME_PATTERN, TABLE_KEYS, camel_case, is_attribute_name
from graphql_api.model.property_specs import parse_annotation, with_role
from graphql_api.model.record_codec import property_adapter
from graphql_api.model.shard_declarations import creation_codec, shard_problems
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.model.validation.access_validation import access_violations
from graphql_api.model.validation.constraint_validation import constraint_violations
from graphql_api.model.validation.index_validation import index_violations
from graphql_api.model.validation.table_validation import table_violations
from graphql_api.model.violations import LETTERS_AND_DIGITS, Problems, Violations, duplicates
from graphql_api.storage import MAX_RECORD_BYTES

RESERVED_ENTITY = "shardql"
"""prefix of the hash keys of the table's own items"""

MAX_SUB_IDS = 3
SEPARATOR_PATTERN = re.compile(r"[!-$&-/:-@\[-`{-~]")
"""one printable ASCII character that is no letter, no digit and not the escape character `%`"""

SINGLE_ROLES: tuple[RoleName, ...] = ("created", "ttl", "updated", "version")
"""roles of at most one property"""


def catalog_violations(specs: Sequence[EntitySpec], namespace: str | None, max_indexes: int) -> Iterator[Violation]:
    """Yield all violations of these entities, of each alone and of all together."""
    specs_by_type = {spec.type_name: spec for spec in specs}
    for spec in specs:
        for attribute, problem, remedy in (
            *_annotation_violations(spec),
            *constraint_violations(spec, specs_by_type),
            *_entity_name_violations(spec),
            *_stored_name_violations(spec),
            *_primary_key_violations(spec),
            *_shard_violations(spec),
            *_derived_violations(spec),
            *index_violations(spec),
            *_history_violations(spec),
            *_hidden_violations(spec),
            *_size_violations(spec),
            *_version_violations(spec),
            *access_violations(spec, specs),
        ):
            yield Violation(spec.type_name, attribute, problem, remedy)
    yield from table_violations(specs, namespace, max_indexes)


def _version_violations(spec: EntitySpec) -> Violations:
    version: Any = spec.model.__declaration__.version
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        yield None, f"has version={version!r}.", "Use a whole number of 1 or more, which grows with each replay."


def _size_violations(spec: EntitySpec) -> Violations:
    """Check the declared sizes of records."""
    sizes: dict[str, Any] = {"record_bytes": spec.record_bytes, "max_record_bytes": spec.max_record_bytes}
    remedy = f"Set a whole number from 1 to {MAX_RECORD_BYTES:,}."
    invalid = [name for name, size in sizes.items() if size is not None and not _is_size(size)]
    for name in invalid:
        yield None, f"declares {name}={sizes[name]!r}, which is no size of a record.", remedy
    if not invalid and spec.record_bytes is not None and spec.record_bytes > spec.max_record_bytes:
        yield None, "declares a record_bytes above its max_record_bytes.", "Set the usual size below the greatest."


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_RECORD_BYTES


# --- annotations -----------------------------------------------------------------------------------------------


def _annotation_violations(spec: EntitySpec) -> Violations:
    for name, field in spec.model.model_fields.items():
        invalid_enum = parse_annotation(field.annotation, field.metadata).invalid_enum
        if invalid_enum:
            enum_class, problem = invalid_enum
            remedy = "An enum needs 1 to 1,000 members with distinct values of type str or int."
            yield name, f"is of {enum_class.__name__}, which {problem}", remedy
    if not spec.model.__pydantic_fields_complete__:
        yield None, "has annotations that Python cannot resolve.", "Import the types in its module."
    for role in SINGLE_ROLES:
        for duplicate in with_role(spec.properties, role)[1:]:
            marker = role.capitalize()
            yield duplicate.name, f"is a second {marker}.", f"Mark only one property with {marker}."
    if spec.ttl is not None and not isinstance(spec.ttl.codec, codecs.Timestamp):
        yield spec.ttl.name, "is a Ttl in another unit than seconds.", "Declare it as Ttl[Timestamp]."


# --- names -----------------------------------------------------------------------------------------------------


def _entity_name_violations(spec: EntitySpec) -> Violations:
    if not is_attribute_name(spec.name):
        remedy = f"Set name= to at most {MAX_NAME_LENGTH} letters, digits and underscores, a letter first."
        yield None, f"is called {spec.name!r} in hash keys.", remedy
    if spec.name.lower() == RESERVED_ENTITY:
        yield None, f"is called {spec.name!r}, which is reserved for the table's own items.", "Set another name=."
    if not NAME_PATTERN.fullmatch(spec.type_name):
        yield None, "has a class name that GraphQL does not allow.", "Use letters and digits, a letter first."
    if not SEPARATOR_PATTERN.fullmatch(spec.separator):
        remedy = 'Set one ASCII character that is no letter, digit or "%", for instance "/".'
        yield None, f"has the separator {spec.separator!r}.", remedy


def _stored_name_violations(spec: EntitySpec) -> Violations:
    for part in spec.properties.values():
        if part.stored in TABLE_KEYS:
            yield part.name, f"is stored as {part.stored!r}, a key of the table.", 'Rename it by stored("…").'
        elif not is_attribute_name(part.stored):
            remedy = (
                f"A stored name has at most {MAX_NAME_LENGTH} ASCII letters, digits and underscores, a letter first."
            )
            yield part.name, f"is stored as {part.stored!r}.", remedy
        if not NAME_PATTERN.fullmatch(camel_case(part.name)):
            yield part.name, "has a name that GraphQL does not allow.", LETTERS_AND_DIGITS
    for name, part, first in duplicates((part.stored, part) for part in spec.properties.values()):
        yield part.name, f"is stored as {name!r}, as {first.name} is.", "Give one of them another name."
    for name, part, first in duplicates((camel_case(part.name), part) for part in spec.properties.values()):
        yield part.name, f"is called in GraphQL {name!r}, as {first.name} is.", "Give one of them another name."


# --- keys ------------------------------------------------------------------------------------------------------


def _primary_key_violations(spec: EntitySpec) -> Violations:
    for part in spec.primary_key:
        if part.codec is None or part.codec.key_tag is None:
            types = ", ".join(kind.__name__ for kind, codec in codecs.CODEC_BY_TYPE.items() if codec.key_tag)
            remedy = f"Make it a {types} or enum."
            yield part.name, "is part of the primary key, and its type cannot identify records.", remedy
        if part.nullable:
            yield part.name, "is part of the primary key and may be null.", "Remove null from its type."
        if part in spec.ids and part in spec.sub_ids:
            yield part.name, "is both Id and SubId.", "Keep one of the two."
    if len(spec.sub_ids) > MAX_SUB_IDS:
        yield None, f"has {len(spec.sub_ids)} sub ids.", f"A record key holds at most {MAX_SUB_IDS}."
    shards = spec.model.__declaration__.shards
    if not spec.ids and any(growth.size != 1 for growth in shards.generations):
        yield None, "has no Id, so all its records are in one shard.", "Mark its id with Id[…], or remove shards=."


def _shard_violations(spec: EntitySpec) -> Violations:
    shards, created = spec.model.__declaration__.shards, spec.created
    codec = creation_codec(created)
    if created is not None and codec is None:
        remedy = "Make it a Timestamp, TimestampMs, datetime, date, int or str."
        yield created.name, "is Created, and its type cannot determine a shard generation.", remedy
    for problem, remedy in shard_problems(shards, codec):
        yield None, problem, remedy
    if not shards.growth:
        return
    if created is None:
        problem = "has several shard generations and no creation property that determines the one of a record."
        remedy = "Mark the property that holds the creation time with Created[…]."
        yield None, problem, remedy
    elif created.nullable:
        yield created.name, "determines the shard generation and may be null.", "Remove null from its type."
    elif any(part.name == created.name for part in spec.sub_ids):
        remedy = "Mark a property that is the same in all of them with Created[…]."
        yield created.name, "determines the shard generation and differs between the entries of one id.", remedy


# --- derived properties ----------------------------------------------------------------------------------------


def _derived_violations(spec: EntitySpec) -> Violations:
    derived = {name: part for name, part in spec.properties.items() if part.function is not None}
    for name, part in derived.items():
        if not callable(part.function):
            yield name, f"is derived by {part.function!r}, which cannot be called.", "Pass a function first."
        if not part.sources:
            yield name, "is derived from no property.", "Name the properties that it is computed from."
        sources = [spec.properties[source] for source in part.sources]
        no_text = next((one for one in sources if one.codec and not issubclass(one.codec.python_type, str)), None)
        if part.function is canonical and no_text is not None:
            yield name, f"is the canonical form of {no_text.name}, which is no text.", "Name a property of type str."
        yield from ((name, *problem) for problem in _version_problems(spec, part))
        nullable = next((one for one in sources if one.nullable), None)
        if nullable is not None and not part.nullable:
            problem = f"is null if {nullable.name} is null, and its type does not allow null."
            yield name, problem, "Add | None to its type."
    try:
        graphlib.TopologicalSorter({name: part.sources for name, part in derived.items()}).prepare()
    except graphlib.CycleError as cycle:
        names = cycle.args[1]
        yield names[0], f"is derived from itself ({' → '.join(reversed(names))}).", "Remove the cycle."


def _version_problems(spec: EntitySpec, part: PropertySpec) -> Problems:
    """Check the version of a derived property, and the function of the version before."""
    version: Any = part.version
    previous: Any = part.previous
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        yield f"has the version {version!r}.", "Count the versions of its function from 1."
    elif version > 1 and part in spec.primary_key:
        yield "is part of the record's key, which never changes.", "Keep the function, or declare another entity."
    elif version == 1 and previous is not None:
        yield "has a previous function and the version 1.", "Set version=2, or remove previous=."
    if previous is not None and not callable(previous):
        yield f"has the previous function {previous!r}, which cannot be called.", "Pass a function."


def _hidden_violations(spec: EntitySpec) -> Violations:
    """Yield hidden properties without which GraphQL cannot name, search or create records."""
    hashes = {part.name: index.attribute for index in spec.indexes.values() for part in index.hash}
    for name, part in spec.properties.items():
        if not part.is_hidden:
            continue
        if part in spec.primary_key:
            yield name, "is Hidden, and part of the primary key, which identifies records.", "Remove Hidden."
        if name in hashes:
            yield name, f"is Hidden, and searches of {hashes[name]} need it as an argument.", "Remove Hidden."
        set_by_server = part.function is not None or part in (spec.created, spec.updated, spec.version)
        if spec.model.model_fields[name].is_required() and not (part.nullable or set_by_server):
            yield name, "is Hidden and required, so that GraphQL cannot create records.", "Give it a default."


# --- histories with a current record ---------------------------------------------------------------------------


def _history_violations(spec: EntitySpec) -> Violations:
    if spec.current is None:
        return
    if not spec.sub_ids:
        yield None, f"has current={spec.current!r} and no SubId.", "Mark the property that distinguishes entries."
    elif len(spec.sub_ids) > 1:
        names = " and ".join(part.name for part in spec.sub_ids)
        remedy = "Keep one SubId of str, or remove current=."
        yield None, f"has current={spec.current!r} and several sub ids, {names}.", remedy
    else:
        for problem, remedy in _current_problems(spec, spec.sub_ids[0]):
            yield spec.sub_ids[0].name, problem, remedy


def _current_problems(spec: EntitySpec, sub_id: PropertySpec) -> Problems:
    """Check that the sub id of the current record can differ from that of the latest entry, and is a valid value."""
    if sub_id.kind != "text":
        remedy = "Make the SubId a str, or remove current=."
        yield f"is no text, and the current record needs the value {spec.current!r}.", remedy
    if sub_id.function is not None:
        remedy = "Mark a property with SubId that is not derived."
        yield f"is derived, and the current record needs the value {spec.current!r}.", remedy
    if spec.created is not None and spec.created.name == sub_id.name:
        remedy = "Mark a property that is the same in all entries of an id with Created[…]."
        yield "is both Created and the SubId that the current record changes.", remedy
    if sub_id.kind == "text":
        for problem in _current_value_problems(spec, sub_id):
            yield problem, 'Declare another current=, for instance "~current".'


def _current_value_problems(spec: EntitySpec, sub_id: PropertySpec) -> Iterator[str]:
    current: Any = spec.current
    if not isinstance(current, str) or not current:
        yield f"needs a non-empty string, and current={current!r} is none."
        return
    try:
        size = len(sub_id.column.segment(current).encode())
        if size >= codecs.MAX_KEY_BYTES:
            most = f"at most {codecs.MAX_KEY_BYTES:,} fit with the id"
            yield f"takes {size:,} bytes in the current record's key, where {most}."
        validated = property_adapter(spec.model, sub_id.name).validate_python(current)
    except InvalidValue as invalid:
        yield f"cannot be {current!r}: {invalid.message}"
    except ValidationError as invalid:
        reason = invalid.errors(include_url=False, include_input=False)[0]["msg"]
        yield f"does not accept current={current!r}: {reason}."
    else:
        if validated != current:
            yield f"does not accept current={current!r}: its type changes it to {validated!r}."
