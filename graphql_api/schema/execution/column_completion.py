"""Completion of all results of a column at once: stored records of references, and pages of has-many lists."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from graphql.pyutils import Path

from graphql_api.model import StoredColumns
from graphql_api.query.execution import StoredResults
from graphql_api.schema.execution.page_completion import ItemsMember, PageCompletion, PageMember
from graphql_api.schema.execution.record_completion import KeySeal, RecordCompletion
from graphql_api.schema.execution.resolved_fields import FieldColumn, RecordFields, ResponseObject
from graphql_api.schema.types.connection_types import Connection, EmptyPage
from graphql_api.storage import EncodedRecords


class CompletedColumn(NamedTuple):
    """The response values of a column, and the fields with resolvers below it."""

    positions: Sequence[int]
    """of the records that have a value"""
    values: Sequence[Any]
    resolved: Sequence[RecordFields]


def complete_stored_records(
    completion: RecordCompletion, results: StoredResults, column: FieldColumn, seal: KeySeal
) -> CompletedColumn | None:
    """Complete stored records; None if codecs do not suffice. Raise any error if a value is unexpected."""
    positions = [at for at, item in enumerate(results.items) if item is not None]
    items = [item for item in results.items if item is not None]
    stored = StoredColumns(results.entity, EncodedRecords(items))
    completed = _complete_records(completion, stored, lambda at: column.path_of(positions[at]), seal)
    return None if completed is None else CompletedColumn(positions, *completed)


def complete_pages(
    completion: PageCompletion, results: Sequence[Connection], column: FieldColumn, seal: KeySeal
) -> CompletedColumn | None:
    """Complete pages; None if they need more than codecs. Raise any error if a value is unexpected."""
    pages: list[ResponseObject] = [{} for _ in results]
    resolved: list[RecordFields] = []
    for name, member in completion.members.items():
        if isinstance(member, PageMember):
            values: Sequence[Any] = [member.complete(result) for result in results]
        elif isinstance(member, ItemsMember):
            ends = [*accumulate(result.page.record_count for result in results)]
            items = _complete_items(member, results, _PathsOfItems(column, ends, name, completion.kind.name), seal)
            if items is None:
                return None
            objects, below = items
            resolved += below
            values = [objects[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        else:
            return None
        for page, value in zip(pages, values, strict=True):
            page[name] = value
    return CompletedColumn(range(len(results)), pages, resolved)


def _complete_items(
    member: ItemsMember, results: Sequence[Connection], path_of: Callable[[int], Path], seal: KeySeal
) -> tuple[Sequence[ResponseObject], Sequence[RecordFields]] | None:
    """Return the response objects of the records of all pages."""
    entity, parts = None, list[EncodedRecords]()
    for page in (result.page for result in results):
        if not page.record_count or isinstance(page, EmptyPage):
            continue
        stored = page.stored_bodies
        if stored is None or (entity is not None and page.entity is not entity):
            return None
        entity = page.entity
        parts.append(stored)
    if entity is None:
        return [], []
    together = StoredColumns(entity, EncodedRecords.joined(parts))
    return _complete_records(member.completion, together, path_of, seal)


def _complete_records(
    completion: RecordCompletion, stored: StoredColumns, path_of: Callable[[int], Path], seal: KeySeal
) -> tuple[Sequence[ResponseObject], Sequence[RecordFields]] | None:
    source = completion.stored_records(stored) if completion.resolves_columns else None
    if source is None:
        return None
    objects = completion.objects(source, seal)
    if not completion.resolved or not objects:
        return objects, []
    return objects, [RecordFields(completion.kind, completion.resolved, source, objects, path_of)]


class _PathsOfItems:
    """Paths of the records of several pages, by their number among all of these records."""

    def __init__(self, column: FieldColumn, ends: Sequence[int], name: str, page_type: str) -> None:
        self._column = column
        self._ends = ends
        self._name = name
        self._page_type = page_type

    def __call__(self, at: int) -> Path:
        page = bisect_right(self._ends, at)
        begin = self._ends[page - 1] if page else 0
        return Path(self._column.path_of(page), self._name, self._page_type).add_key(at - begin)
