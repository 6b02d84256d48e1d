"""Completion of all results of a column at once: stored records of references."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from graphql_api.model import StoredColumns
from graphql_api.query.execution import StoredResults
from graphql_api.schema.execution.record_completion import KeySeal, RecordCompletion
from graphql_api.schema.execution.resolved_fields import FieldColumn, RecordFields


class CompletedColumn(NamedTuple):
    """The response values of a column, and the fields with resolvers below it."""

    positions: Sequence[int]
    """of the records that have a value"""
    values: Sequence[Any]
    resolved: RecordFields | None


def complete_stored_records(
    completion: RecordCompletion, results: StoredResults, column: FieldColumn, seal: KeySeal
) -> CompletedColumn | None:
    """Complete stored records; None if codecs do not suffice. Raise any error if a value is unexpected."""
    positions = [at for at, item in enumerate(results.items) if item is not None]
    source = completion.stored_records(StoredColumns(results.entity, [results.items[at] or {} for at in positions]))
    if source is None:
        return None
    objects = completion.objects(source, seal)
    fields = None
    if completion.resolved and objects:
        fields = RecordFields(
            completion.kind, completion.resolved, source, objects, lambda at: column.path_of(positions[at])
        )
    return CompletedColumn(positions, objects, fields)
