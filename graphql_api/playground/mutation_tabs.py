"""Sample mutations for the tabs of GraphiQL. They create, update and delete one new record, and touch no other."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, get_origin

from graphql import GraphQLArgument, GraphQLField, GraphQLInputField, GraphQLSchema, get_named_type
from pydantic import BaseModel

from graphql_api.codecs import Codec, Timestamp
from graphql_api.model import (
    Entity,
    EntitySpec,
    IndexSpec,
    PropertySpec,
    allows_anyone,
    camel_case,
    entity_name,
    parse_annotation,
    strip_id_suffix,
    value_of,
)
from graphql_api.playground.tab_text import Tab, block, id_argument, join_names, operation_tab
from graphql_api.schema import (
    EXPECTED_VERSION,
    ID,
    Graph,
    GraphQLNames,
    NotRepresentable,
    input_field_name,
    input_literal,
    is_optional_input,
    ownership_properties,
    record_field_name,
    updatable_properties,
    with_article,
    writable_properties,
)
from graphql_api.writes import build_record

MAX_LISTED_PROPERTIES = 3
"""Optional properties that a comment names. If there are more, it shows their number."""

StoredRecords = Mapping[str, Sequence[Entity]]
"""Stored records by entity name."""

InputFields = Mapping[str, GraphQLInputField] | Mapping[str, GraphQLArgument]
"""The fields of an input type, or the arguments of a mutation, by name."""

_ID_PREFIX = "example"


def mutation_tabs(
    graph: Graph,
    schema: GraphQLSchema,
    stored: StoredRecords,
    main: IndexSpec | None,
    record_fields: Callable[[EntitySpec], list[str]],
) -> Iterator[Tab]:
    """Return the tabs, preferably of an entity that any caller can write without placeholders.

    `main`: the index of the first tab. `record_fields`: fields to select of an entity.
    """
    mutations = {} if schema.mutation_type is None else schema.mutation_type.fields
    samples = []
    for entity in graph.catalog.entities.values():
        if entity.write_rules != () and graph.names.mutation_field("create", entity) in mutations:
            order = main.sort if main is not None and main.entity == entity.name else ()
            preferred = [name for part in order for name in part.property.input_names]
            sample = make_sample_record(entity, stored, preferred)
            samples += [sample] if sample is not None else []
    samples.sort(
        key=lambda sample: (
            not sample.is_open,
            len(sample.placeholders),
            sample.change is None,
            main is None or sample.entity.name != main.entity,
        )
    )
    for sample in samples:
        try:
            yield from [*_EntityTabs(graph.names, mutations, sample, record_fields(sample.entity)).tabs()]
        except NotRepresentable:
            continue
        return


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A record that does not exist yet and can be created."""

    entity: EntitySpec
    record: Entity
    provided: Sequence[PropertySpec]
    """The required properties, and the id, so that later mutations can name the record."""
    placeholders: Sequence[str]
    """Python names of properties with a placeholder. Their value depends on the data or on the caller."""
    change: tuple[PropertySpec, Any] | None
    """A property to update, with its new value."""

    @property
    def is_open(self) -> bool:
        """Return whether any caller may write the record and read it."""
        rules = (self.entity.write_rules, self.entity.allow, *(part.allow for part in self.provided))
        return all(map(allows_anyone, rules))


@dataclass(frozen=True, slots=True)
class _EntityTabs:
    names: GraphQLNames
    mutations: Mapping[str, GraphQLField]
    sample: SampleRecord
    fields: Sequence[str]

    def tabs(self) -> Iterator[Tab]:
        """Return the tabs in the order in which they are run."""
        yield self.create()
        if self.sample.change is not None:
            yield self.update(*self.sample.change)
        yield self.delete()

    def create(self) -> Tab:
        fields = self._input_fields("create")
        values = {input_field_name(part.name): value_of(self.sample.record, part.name) for part in self.sample.provided}
        optional = [name for name in fields if name not in values]
        listed = join_names(optional) if len(optional) <= MAX_LISTED_PROPERTIES else f"{len(optional)} properties"
        entity = self.sample.entity
        return self._tab(
            "create",
            f"Creates {with_article(entity.type_name)} that searches can find. "
            "Running it again is the error ALREADY_EXISTS.",
            f"Also possible in input: {listed}. Press Ctrl-Space to list all fields." if optional else "",
            f"{self.names.mutation_field('create', entity, several=True)} creates many records at once.",
            arguments=_input_argument(_arguments(fields, values)),
            selection=self._selection(),
            placeholders=[input_field_name(name) for name in self.sample.placeholders],
            open_to_all=self.sample.is_open,
        )

    def update(self, part: PropertySpec, value: Any) -> Tab:
        """Return a mutation that changes one property of the sample record."""
        entity, fields = self.sample.entity, self._input_fields("update")
        hints = [f"With {EXPECTED_VERSION} in input, a concurrent change is an error."] * bool(entity.version)
        if entity.sub_ids:
            sub_ids = join_names([input_field_name(sub.name) for sub in entity.sub_ids])
            hints.append(f"With a new {sub_ids}, it appends an entry based on the last one.")
        changes = _arguments(fields, {input_field_name(part.name): value})
        return self._tab(
            "update",
            "Updates the record from Create. Omitted fields keep their values; null clears a field. "
            "Searches find the record by its new values.",
            " ".join(hints),
            arguments=_input_argument([*self._key_arguments(fields), *changes]),
            selection=self._selection(part),
            open_to_all=allows_anyone(entity.write_rules) and allows_anyone(entity.allow),
        )

    def delete(self) -> Tab:
        return self._tab(
            "delete",
            "Deletes the record from Create, and no other. "
            "deletedId is the id of the deleted record, or null if the record does not exist.",
            arguments=self._key_arguments(self.mutations[self._name("delete")].args),
            selection=["deletedId"],
            open_to_all=allows_anyone(self.sample.entity.write_rules),
        )

    # --- parts of a tab ----------------------------------------------------------------------------------------

    def _tab(self, verb: str, *comments: str, placeholders: Sequence[str] | None = None, **parts: Any) -> Tab:
        title = verb.capitalize()  # Short, so that all tabs are visible. The field names the entity.
        if placeholders is None:
            placeholders = [ID] * any(part.name in self.sample.placeholders for part in self.sample.entity.ids)
        return operation_tab("mutation", title, self._name(verb), *comments, placeholders=placeholders, **parts)

    def _name(self, verb: str) -> str:
        return self.names.mutation_field(verb, self.sample.entity)

    def _input_fields(self, verb: str) -> Mapping[str, GraphQLInputField]:
        input_type: Any = get_named_type(self.mutations[self._name(verb)].args["input"].type)
        fields: Mapping[str, GraphQLInputField] = input_type.fields
        return fields

    def _selection(self, *changed: PropertySpec) -> list[str]:
        """Return the selection of the written record; only `__typename` if no caller may read the entity."""
        entity = self.sample.entity
        if entity.allow == ():
            return ["__typename"]
        affected = [part for part in (*changed, *entity.counters, entity.version) if part is not None]
        names = dict.fromkeys([*self.fields, *(self.names.naming.property_name(part.name) for part in affected)])
        return block(record_field_name(entity), [*names])

    def _key_arguments(self, fields: InputFields) -> list[str]:
        """Return the arguments that identify the record: its id, and its sub ids."""
        entity, record = self.sample.entity, self.sample.record
        sub_ids = {input_field_name(part.name): value_of(record, part.name) for part in entity.sub_ids}
        return [str(id_argument(entity, record)), *_arguments(fields, sub_ids)]


def _arguments(fields: InputFields, values: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {input_literal(fields[name].type, value)}" for name, value in values.items()]


def _input_argument(fields: Sequence[str]) -> list[str]:
    return ["\n".join(block("input:", fields))]


# --- the sample record -----------------------------------------------------------------------------------------


def make_sample_record(entity: EntitySpec, stored: StoredRecords, preferred: Sequence[str]) -> SampleRecord | None:
    """Return a new record, consistent with the stored records. `preferred`: properties to update if possible.

    Return None if no valid record is found, or if the id could belong to a stored record.
    """
    same = stored.get(entity.name, ())
    template = same[0] if same else None
    provided = [
        part
        for part in writable_properties(entity)
        if part in entity.primary_key or not is_optional_input(entity, part)
    ]
    unique = [
        {name for part in unique.parts for name in part.input_names}
        for unique in entity.unique
        if not any(part.counter_group is not None for part in unique.parts)
    ]
    parent_ids = {
        part.name: value_of(parent, parent_part.name)
        for key in entity.foreign_keys
        for parent in stored.get(key.parent.name, ())[:1]
        for part, parent_part in zip(key.by, key.parent.ids, strict=True)
    }
    renewed = [part for part in provided if part in entity.ids or any(part.name in names for names in unique)]
    for derives_ids in (False, True):  # A derived id matches the pattern that ids may have to match.
        new_values: dict[str, Any] = {}
        for part in renewed:
            derives = template is not None and (derives_ids or part not in entity.ids)
            value = _new_value(entity, part, value_of(template, part.name) if derives else None)
            if value is not None and part.name not in parent_ids:
                new_values[part.name] = value
        if not any(part.name in new_values for part in entity.ids):
            return None  # Update and Delete would change a stored record.
        known = new_values | parent_ids
        values = {
            part.name: known[part.name] if part.name in known else _any_value(entity, part, template)
            for part in provided
        }
        record = _validate(entity, values)
        if record is not None:
            owners = () if allows_anyone(entity.write_rules) else ownership_properties(entity.write_rules)
            missing_parents = {part.name for key in entity.foreign_keys for part in key.by} - parent_ids.keys()
            taken = [names for names in unique if names <= values.keys() and not names & new_values.keys()]
            placeholders = [name for name in values if name in owners or name in missing_parents]
            placeholders += [name for names in taken for name in values if name in names]
            change = next(_changes(entity, values, same[1:], preferred), None)
            return SampleRecord(entity, record, provided, [*dict.fromkeys(placeholders)], change)
    return None


def _changes(
    entity: EntitySpec, values: Mapping[str, Any], others: Sequence[Entity], preferred: Sequence[str]
) -> Iterator[tuple[PropertySpec, Any]]:
    """Return properties that can change without regard to constraints and owners, each with a new value."""
    constrained = {part.name for key in entity.foreign_keys for part in key.by}
    constrained |= {name for unique in entity.unique for part in unique.parts for name in (part.name, *part.sources)}
    constrained |= ownership_properties(entity.write_rules)
    candidates = [
        part
        for part in updatable_properties(entity)
        if part.codec is not None
        and part.name not in constrained
        and part not in entity.visibility_properties
        and allows_anyone(part.allow)
    ]
    joined_by = {part.name for join in entity.joins.values() for part in join.by}
    candidates.sort(key=lambda part: (part.name not in preferred, part.name in joined_by, part.name not in values))
    for part in candidates:
        current = values.get(part.name)
        codec = part.column.codec
        other = _codec_value(codec, part.name) if current is None else codec.other_sample(current)
        for value in (*(value_of(record, part.name) for record in others), other):
            if value is not None and value != current and _validate(entity, {**values, part.name: value}) is not None:
                yield part, value


def _validate(entity: EntitySpec, values: Mapping[str, Any]) -> Entity | None:
    """Return the record with these values; None if it is invalid."""
    # As in a mutation, omitted nullable properties are null.
    nulls = {
        part.name: None
        for part in writable_properties(entity)
        if part.nullable and part is not entity.created and entity.model.model_fields[part.name].is_required()
    }
    try:
        return build_record(entity, {**nulls, **values}, None, Timestamp.samples.low)
    except Exception:  # noqa: BLE001 - the functions of derived properties may reject sample values with any error
        return None


# --- sample values ---------------------------------------------------------------------------------------------


def _any_value(entity: EntitySpec, part: PropertySpec, template: Entity | None) -> Any:
    """Return the value of the template, or any value of the type. The record must be visible."""
    if part is entity.ttl:
        return part.column.codec.samples.unused
    template_value = None if template is None else value_of(template, part.name)
    if template_value is not None:
        return template_value
    if part.codec is not None:
        return _codec_value(part.codec, part.name)
    return _annotation_value(entity.model.model_fields[part.name].annotation, part.name)


def _new_value(entity: EntitySpec, part: PropertySpec, template_value: Any) -> Any:
    """Return a value that no record has yet; None if the type has too few values."""
    if part.codec is None:
        return None
    if part.codec.kind != "text":
        return part.codec.sample(f"{entity.type_name}.{part.name}", unused=True)
    if template_value is None:
        return _example_id(entity_name(entity.type_name))
    return f"{_ID_PREFIX}-{template_value}"


def _codec_value(codec: Codec[Any], name: str) -> Any:
    """Return any value of a scalar. A string contains the name of its property."""
    if codec.kind != "text":
        return codec.sample(name)
    is_id = name.endswith("_id")
    return _example_id(strip_id_suffix(camel_case(name))) if is_id else name.replace("_", " ").strip().capitalize()


def _example_id(camel: str) -> str:
    """Return a readable id such as `example-order-line`."""
    return f"{_ID_PREFIX}-{re.sub(r'(?<!^)(?=[A-Z])', '-', camel).lower()}"


def _annotation_value(annotation: Any, name: str) -> Any:
    """Return a minimal value that pydantic accepts for an annotation."""
    read = parse_annotation(annotation)
    if read.codec is not None:
        return _codec_value(read.codec, name)
    if read.nullable:
        return None
    kind = get_origin(read.types[0]) or read.types[0]
    if not isinstance(kind, type):
        return None
    if issubclass(kind, BaseModel):
        return {
            name: _annotation_value(field.annotation, name)
            for name, field in kind.model_fields.items()
            if field.is_required()
        }
    if issubclass(kind, bytes):
        return _ID_PREFIX.encode()
    return [] if issubclass(kind, list | tuple | AbstractSet) else {}
