"""Sample mutations for the tabs of GraphiQL. They create, update and delete one new record, and touch no other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql import GraphQLArgument, GraphQLField, GraphQLInputField, GraphQLSchema, get_named_type

from graphql_api.model import Catalog, Entity, EntitySpec, PropertySpec, allows_anyone, value_of
from graphql_api.playground.access_paths import AccessPath, id_argument
from graphql_api.playground.sample_records import SampleRecord, make_sample_record
from graphql_api.playground.tab_text import (
    Tab,
    access_comment,
    block,
    comment,
    join_names,
    operation_text,
    placeholder_comment,
)
from graphql_api.schema import (
    EXPECTED_VERSION,
    ID,
    GraphQLNames,
    NotRepresentable,
    input_field_name,
    input_literal,
    record_field_name,
    with_article,
)

MAX_LISTED_PROPERTIES = 3
"""Optional properties that a comment names. If there are more, it shows their number."""

InputFields = Mapping[str, GraphQLInputField] | Mapping[str, GraphQLArgument]
"""The fields of an input type, or the arguments of a mutation, by name."""


@dataclass(frozen=True, slots=True)
class MutationTabs:
    """Builder of the tabs. It prefers an entity that any caller can write without placeholders."""

    catalog: Catalog
    names: GraphQLNames
    schema: GraphQLSchema
    stored: Mapping[str, Sequence[Entity]]
    """Stored records by entity name."""

    def tabs(self, main: AccessPath | None, record_fields: Callable[[EntitySpec], list[str]]) -> Iterator[Tab]:
        """Return the tabs. `main`: the search of the first tab. `record_fields`: fields to select of an entity."""
        samples = [*self._samples(main)]
        samples.sort(
            key=lambda sample: (
                not sample.is_open,
                len(sample.placeholders),
                sample.change is None,
                main is None or sample.entity is not main.entity,
            )
        )
        for sample in samples:
            try:
                yield from [*_EntityTabs(self.names, self.schema, sample, record_fields(sample.entity)).tabs()]
            except NotRepresentable:
                continue
            return

    def _samples(self, main: AccessPath | None) -> Iterator[SampleRecord]:
        for entity in self.catalog.entities.values():
            if entity.write_rules != () and self.names.mutation_field("create", entity) in _mutations(self.schema):
                order = main.index.sort if main is not None and main.entity is entity else ()
                preferred = [name for part in order for name in part.property.input_names]
                sample = make_sample_record(entity, self.stored, preferred)
                if sample is not None:
                    yield sample


def _mutations(schema: GraphQLSchema) -> Mapping[str, GraphQLField]:
    return {} if schema.mutation_type is None else schema.mutation_type.fields


@dataclass(frozen=True, slots=True)
class _EntityTabs:
    names: GraphQLNames
    schema: GraphQLSchema
    sample: SampleRecord
    fields: Sequence[str]

    def tabs(self) -> Iterator[Tab]:
        """Return the tabs in the order in which they are run."""
        yield self.create()
        if self.sample.change is not None:
            yield self.update(*self.sample.change)
        yield self.delete()

    def create(self) -> Tab:
        """Return a mutation that creates the sample record."""
        fields = self._input_fields("create")
        values = {input_field_name(part.name): value_of(self.sample.record, part.name) for part in self.sample.provided}
        optional = [name for name in fields if name not in values]
        listed = join_names(optional) if len(optional) <= MAX_LISTED_PROPERTIES else f"{len(optional)} properties"
        entity = self.sample.entity
        comments = [
            comment(
                f"Creates {with_article(entity.type_name)} that searches can find.",
                "Running it again is the error ALREADY_EXISTS.",
            ),
            comment(f"Also possible in input: {listed}. Press Ctrl-Space to list all fields.") if optional else "",
            comment(f"{self.names.mutation_field('create', entity, several=True)} creates many records at once."),
            placeholder_comment([input_field_name(name) for name in self.sample.placeholders]),
        ]
        arguments = _input_argument(_arguments(fields, values))
        return self._tab("create", comments, arguments, self._selection(), open_to_all=self.sample.is_open)

    def update(self, part: PropertySpec, value: Any) -> Tab:
        """Return a mutation that changes one property of the sample record."""
        entity, fields = self.sample.entity, self._input_fields("update")
        hints = [f"With {EXPECTED_VERSION} in input, a concurrent change is an error."] * bool(entity.version)
        if entity.sub_ids:
            sub_ids = join_names([input_field_name(sub.name) for sub in entity.sub_ids])
            hints.append(f"With a new {sub_ids}, it appends an entry based on the last one.")
        comments = [
            comment(
                f"Updates the record from {_title('create')}. Omitted fields keep their values; null clears a field.",
                "Searches find the record by its new values.",
            ),
            comment(*hints),
            self._id_comment(),
        ]
        changes = _arguments(fields, {input_field_name(part.name): value})
        arguments = _input_argument([*self._key_arguments(fields), *changes])
        open_to_all = allows_anyone(entity.write_rules) and allows_anyone(entity.allow)
        return self._tab("update", comments, arguments, self._selection(part), open_to_all=open_to_all)

    def delete(self) -> Tab:
        """Return a mutation that deletes the sample record."""
        key_arguments = self._key_arguments(_mutations(self.schema)[self._name("delete")].args)
        comments = [
            comment(
                f"Deletes the record from {_title('create')}, and no other.",
                "deletedId is the id of the deleted record, or null if the record does not exist.",
            ),
            self._id_comment(),
        ]
        open_to_all = allows_anyone(self.sample.entity.write_rules)
        return self._tab("delete", comments, key_arguments, ["deletedId"], open_to_all=open_to_all)

    # --- parts of a tab ----------------------------------------------------------------------------------------

    def _tab(
        self,
        verb: str,
        comments: Sequence[str],
        arguments: Sequence[str],
        selection: Sequence[str],
        *,
        open_to_all: bool,
    ) -> Tab:
        title = _title(verb)
        all_comments = [*comments, access_comment(open_to_all=open_to_all)]
        return Tab(title, operation_text(f"mutation {title}", all_comments, self._name(verb), arguments, selection))

    def _name(self, verb: str) -> str:
        return self.names.mutation_field(verb, self.sample.entity)

    def _input_fields(self, verb: str) -> Mapping[str, GraphQLInputField]:
        input_type: Any = get_named_type(_mutations(self.schema)[self._name(verb)].args["input"].type)
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

    def _id_comment(self) -> str:
        """Return the placeholder comment for the id, if the id of the created record is a placeholder."""
        return placeholder_comment(
            [ID] if any(part.name in self.sample.placeholders for part in self.sample.entity.ids) else []
        )

    def _key_arguments(self, fields: InputFields) -> list[str]:
        """Return the arguments that identify the record: its id, and its sub ids."""
        entity, record = self.sample.entity, self.sample.record
        sub_ids = {input_field_name(part.name): value_of(record, part.name) for part in entity.sub_ids}
        return [id_argument(entity, record).text, *_arguments(fields, sub_ids)]


def _title(verb: str) -> str:
    """Return a short title, so that all tabs are visible. The field names the entity."""
    return verb.capitalize()


def _arguments(fields: InputFields, values: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {input_literal(fields[name].type, value)}" for name, value in values.items()]


def _input_argument(fields: Sequence[str]) -> list[str]:
    return ["\n".join(block("input:", fields))]
