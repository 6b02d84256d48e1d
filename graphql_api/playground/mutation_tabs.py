"""Tabs that write: one record is created, changed and removed again, and nothing else is touched."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql import GraphQLArgument, GraphQLField, GraphQLInputField, GraphQLSchema, get_named_type

from graphql_api.model import Catalog, Entity, EntitySpec, PropertySpec, is_open, value_of
from graphql_api.playground.access_paths import Way, needed_id
from graphql_api.playground.sample_records import Example, example_of
from graphql_api.playground.tab_text import Tab, and_joined, braced, comment, document, gap_comment, rules_comment
from graphql_api.schema import (
    EXPECTED_VERSION,
    ID,
    Names,
    NotInDocument,
    input_literal,
    input_name,
    own_name,
    with_article,
)

MAX_NAMED = 3
"""properties that may be left out, named in a comment"""

Takes = Mapping[str, GraphQLInputField] | Mapping[str, GraphQLArgument]
"""what an input or a mutation takes, by name"""


@dataclass(frozen=True, slots=True)
class EditTabs:
    """Makes tabs for the entity that everybody can write as they stand, or for the one that lacks least for that."""

    catalog: Catalog
    names: Names
    schema: GraphQLSchema
    known: Mapping[str, Sequence[Entity]]
    """records of the store, by the name of their entity"""

    def tabs(self, main: Way | None, shown: Callable[[EntitySpec], list[str]]) -> Iterator[Tab]:
        """`main`: the search that the other tabs begin with. `shown`: fields of an entity's records."""
        examples = [*self._examples(main)]
        examples.sort(
            key=lambda one: (
                not one.is_open,
                len(one.gaps),
                one.change is None,
                main is None or one.entity is not main.entity,
            )
        )
        for example in examples:
            try:
                yield from [*_Writer(self.names, self.schema, example, shown(example.entity)).tabs()]
            except NotInDocument:
                continue
            return

    def _examples(self, main: Way | None) -> Iterator[Example]:
        for entity in self.catalog.entities.values():
            if entity.writers != () and self.names.edit("create", entity) in _mutations(self.schema):
                order = main.index.sort if main is not None and main.entity is entity else ()
                first = [name for part in order for name in part.property.given_by]
                example = example_of(entity, self.known, first)
                if example is not None:
                    yield example


def _mutations(schema: GraphQLSchema) -> Mapping[str, GraphQLField]:
    return {} if schema.mutation_type is None else schema.mutation_type.fields


@dataclass(frozen=True, slots=True)
class _Writer:
    names: Names
    schema: GraphQLSchema
    example: Example
    fields: Sequence[str]

    def tabs(self) -> Iterator[Tab]:
        """One after the other, as they are to be run."""
        yield self.create()
        if self.example.change is not None:
            yield self.update(*self.example.change)
        yield self.delete()

    def create(self) -> Tab:
        """A record that was not there."""
        takes = self._input("create")
        given = {input_name(part.name): value_of(self.example.record, part.name) for part in self.example.given}
        others = [name for name in takes if name not in given]
        further = and_joined(others) if len(others) <= MAX_NAMED else f"{len(others)} properties more"
        entity = self.example.entity
        comments = [
            comment(
                f"Creates {with_article(entity.type_name)}, which searches find from now on. A second time it is",
                "ALREADY_EXISTS, and nothing is written.",
            ),
            comment(f"Ctrl-Space inside of input proposes what it may have too: {further}.") if others else "",
            comment(f"{self.names.edit('create', entity, several=True)} takes many records at once."),
            gap_comment([input_name(name) for name in self.example.gaps]),
        ]
        open_to_all = self.example.is_open
        return self._tab("create", comments, _input(_said(takes, given)), self._record(), open_to_all=open_to_all)

    def update(self, part: PropertySpec, value: Any) -> Tab:
        """Something of it is another."""
        entity, takes = self.example.entity, self._input("update")
        further = [f"With {EXPECTED_VERSION} in input it is refused if somebody was faster."] * bool(entity.version)
        if entity.sub_ids:
            subs = and_joined([input_name(sub.name) for sub in entity.sub_ids])
            further.append(f"With another {subs} it adds an entry that goes on from the last one.")
        comments = [
            comment(
                f"Changes what {_title('create')} has written: what is left out stays, and null clears.",
                "Searches find it where it belongs now.",
            ),
            comment(*further),
            self._id_comment(),
        ]
        changes = _said(takes, {input_name(part.name): value})
        arguments = _input([*self._key(takes), *changes])
        open_to_all = is_open(entity.writers) and is_open(entity.allow)
        return self._tab("update", comments, arguments, self._record(part), open_to_all=open_to_all)

    def delete(self) -> Tab:
        """It goes."""
        key = self._key(_mutations(self.schema)[self._name("delete")].args)
        words = "deletedId says what is gone, and null that there was nothing."
        comments = [
            comment(f"Removes what {_title('create')} has written, and nothing else.", words),
            self._id_comment(),
        ]
        open_to_all = is_open(self.example.entity.writers)
        return self._tab("delete", comments, key, ["deletedId"], open_to_all=open_to_all)

    # --- its parts ---------------------------------------------------------------------------------------------

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
        said = [*comments, rules_comment(open_to_all=open_to_all)]
        return Tab(title, document(f"mutation {title}", said, self._name(verb), arguments, selection))

    def _name(self, verb: str) -> str:
        return self.names.edit(verb, self.example.entity)

    def _input(self, verb: str) -> Mapping[str, GraphQLInputField]:
        kind: Any = get_named_type(_mutations(self.schema)[self._name(verb)].args["input"].type)
        found: Mapping[str, GraphQLInputField] = kind.fields
        return found

    def _record(self, *changed: PropertySpec) -> list[str]:
        """What is shown of the record; of one that nobody may read, nothing."""
        entity = self.example.entity
        if entity.allow == ():
            return ["__typename"]
        made = [part for part in (*changed, *entity.counters, entity.version) if part is not None]
        shown = dict.fromkeys([*self.fields, *(self.names.dialect.property(part.name) for part in made)])
        return braced(own_name(entity), [*shown])

    def _id_comment(self) -> str:
        """Where only somebody else knows the id under which the record was created."""
        return gap_comment([ID] if any(part.name in self.example.gaps for part in self.example.entity.ids) else [])

    def _key(self, takes: Takes) -> list[str]:
        """What names the record: its id as clients have it, and sub ids."""
        entity, record = self.example.entity, self.example.record
        subs = {input_name(part.name): value_of(record, part.name) for part in entity.sub_ids}
        return [needed_id(entity, record).text, *_said(takes, subs)]


def _title(verb: str) -> str:
    """As short as those of the other tabs, so that all of them are seen: the field says of what."""
    return verb.capitalize()


def _said(takes: Takes, given: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {input_literal(takes[name].type, value)}" for name, value in given.items()]


def _input(fields: Sequence[str]) -> list[str]:
    return ["\n".join(braced("input:", fields))]
