"""Compile the completion of pages: their records, and the fields that describe the page."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import graphql
from graphql.execution.collect_fields import FieldDetailsList
from graphql.pyutils import Path

from graphql_api.query.execution import Page
from graphql_api.schema.execution.record_completion import KeySeal, RecordCompletion
from graphql_api.schema.execution.resolved_fields import (
    CompletedObject,
    DecodedRecords,
    RecordFields,
    ResolvedField,
    ResolvedFields,
    ResponseObject,
)
from graphql_api.schema.execution.value_completion import SubfieldCollector, compile_member, field_name, plain_attribute
from graphql_api.schema.types.connection_types import Connection, EmptyPage
from graphql_api.schema.types.generated_fields import Mark, Parents, field_marks

_Member = Callable[[Connection, Path, KeySeal], tuple[Any, RecordFields | ResolvedFields]]
"""Returns the value of a field of a page, and the fields with resolvers below it"""


def complete_record(completion: RecordCompletion, record: Any, path: Path, seal: KeySeal) -> CompletedObject:
    """Complete one record that is decoded."""
    response = completion.object_of(record, seal)
    kind = completion.kind
    resolved: ResolvedFields = [
        ResolvedField(response, name, details, kind, record, Path(path, name, kind.name))
        for name, details in completion.resolved.items()
    ]
    return CompletedObject(response, resolved)


class PageCompletion:
    """The completion of a page for one selection of its fields."""

    def __init__(self, kind: graphql.GraphQLObjectType, members: Mapping[str, _Member | FieldDetailsList]) -> None:
        self.kind = kind
        self.members = members

    def complete(self, connection: Connection, path: Path, seal: KeySeal) -> CompletedObject:
        """Complete a page. Raise any error if a value is unexpected. No resolver has been called then."""
        response: ResponseObject = {}
        resolved: ResolvedFields = []
        for name, member in self.members.items():
            member_path = Path(path, name, self.kind.name)
            if callable(member):
                response[name], below = member(connection, member_path, seal)
                if below:
                    resolved.append(below)
            else:
                response[name] = None
                resolved.append(ResolvedField(response, name, member, self.kind, connection, member_path))
        return CompletedObject(response, resolved)


def compile_page(
    schema: graphql.GraphQLSchema,
    kind: graphql.GraphQLObjectType,
    details: FieldDetailsList,
    collect: SubfieldCollector,
) -> PageCompletion | None:
    """Compile the completion of pages of one type; None if only the stock execution completes them."""
    members: dict[str, _Member | FieldDetailsList] = {}
    for response_name, subfield in collect(kind, details).items():
        definition = schema.get_field(kind, field_name(subfield))
        attribute = plain_attribute(definition)
        if definition is not None and Mark.PER_RECORD in field_marks(definition):
            below = graphql.get_named_type(definition.type)
            member = _compile_records(schema, attribute, below, subfield, collect)
            if member is None:
                return None
            members[response_name] = member
        else:
            complete = compile_member(schema, kind, subfield, collect)
            members[response_name] = subfield if complete is None else PageMember(complete)
    return PageCompletion(kind, members)


class PageMember:
    """A field of a page that needs no resolver."""

    def __init__(self, complete: Callable[[Any], Any]) -> None:
        self.complete = complete

    def __call__(self, connection: Connection, _path: Path, _seal: KeySeal) -> tuple[Any, ResolvedFields]:
        return self.complete(connection), []


def _compile_records(
    schema: graphql.GraphQLSchema,
    attribute: str | None,
    kind: graphql.GraphQLNamedType,
    details: FieldDetailsList,
    collect: SubfieldCollector,
) -> _Member | None:
    if not graphql.is_object_type(kind):
        return None
    if attribute == "items":
        return ItemsMember(RecordCompletion(schema, kind, details, collect))
    return _compile_edges(schema, kind, details, collect) if attribute == "edges" else None


class ItemsMember:
    """The records of a page."""

    def __init__(self, completion: RecordCompletion) -> None:
        self.completion = completion

    def __call__(self, connection: Connection, path: Path, seal: KeySeal) -> tuple[Any, RecordFields | ResolvedFields]:
        parents, objects = _complete_records(self.completion, connection.page, seal)
        return objects, _resolved_fields(self.completion, parents, objects, path.add_key) or []


def _compile_edges(
    schema: graphql.GraphQLSchema,
    kind: graphql.GraphQLObjectType,
    details: FieldDetailsList,
    collect: SubfieldCollector,
) -> _Member | None:
    members: dict[str, RecordCompletion | str | None] = {}
    for response_name, subfield in collect(kind, details).items():
        definition = schema.get_field(kind, field_name(subfield))
        attribute = plain_attribute(definition)
        if field_name(subfield) == "__typename":
            members[response_name] = None
        elif attribute == "cursor":
            members[response_name] = attribute
        elif definition is not None and attribute == "node":
            below = graphql.get_named_type(definition.type)
            if not graphql.is_object_type(below):
                return None
            members[response_name] = RecordCompletion(schema, below, subfield, collect)
        else:
            return None
    return _edges_member(kind, members)


def _edges_member(kind: graphql.GraphQLObjectType, members: Mapping[str, RecordCompletion | str | None]) -> _Member:
    def complete(connection: Connection, path: Path, seal: KeySeal) -> tuple[Any, RecordFields | ResolvedFields]:
        page, count = connection.page, connection.page.record_count
        columns: dict[str, Sequence[Any]] = {}
        resolved: list[RecordFields] = []
        for name, member in members.items():
            if isinstance(member, RecordCompletion):
                parents, columns[name] = _complete_records(member, page, seal)
                path_of = partial(_node_path, path, name, kind.name)
                fields = _resolved_fields(member, parents, columns[name], path_of)
                resolved += [] if fields is None else [fields]
            else:
                columns[name] = [kind.name] * count if member is None else page.cursors
        edges = [{name: column[at] for name, column in columns.items()} for at in range(count)]
        if len(resolved) == 1:
            return edges, resolved[0]
        return edges, [[*fields] for fields in zip(*(each.groups() for each in resolved), strict=True)]

    return complete


# --- records ---------------------------------------------------------------------------------------------------


def _node_path(path: Path, name: str, edge_type: str, at: int) -> Path:
    return Path(path.add_key(at), name, edge_type)


def _complete_records(
    completion: RecordCompletion, page: Page[Any] | EmptyPage, seal: KeySeal
) -> tuple[Parents, Sequence[ResponseObject]]:
    """Return the records of a page for fields with resolvers, and their response objects.

    The objects are made of stored items if codecs suffice.
    """
    stored = page.stored_records
    if stored is not None:
        with suppress(Exception):  # Whatever codecs refuse, decoding the records reports.
            source = completion.stored_records(stored)
            if source is not None:
                return source, completion.objects(source, seal)
    return DecodedRecords(page.items), [completion.object_of(record, seal) for record in page.items]


def _resolved_fields(
    completion: RecordCompletion, parents: Parents, objects: Sequence[ResponseObject], path_of: Callable[[int], Path]
) -> RecordFields | None:
    """Return the fields of records that have resolvers, or None."""
    if not completion.resolved or not objects:
        return None
    return RecordFields(completion.kind, completion.resolved, parents, objects, path_of)
