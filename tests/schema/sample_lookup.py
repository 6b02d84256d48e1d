"""Selects records from sample data."""

from collections.abc import Iterable
from typing import Any, TypeVar

from graphql_api import Entity

E = TypeVar("E", bound=Entity)


def records_with(records: Iterable[Entity], kind: type[E], **given: Any) -> list[E]:
    """Return the records of one entity with these property values, in sample order."""
    return [
        record
        for record in records
        if isinstance(record, kind) and all(getattr(record, name) == value for name, value in given.items())
    ]
