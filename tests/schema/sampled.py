"""A look into the records of a sample, as they were made up."""

from collections.abc import Iterable
from typing import Any, TypeVar

from graphql_api import Entity

E = TypeVar("E", bound=Entity)


def all_of(records: Iterable[Entity], kind: type[E], **given: Any) -> list[E]:
    """Those of one entity that have these values, in the order of the sample."""
    return [
        record
        for record in records
        if isinstance(record, kind) and all(getattr(record, name) == value for name, value in given.items())
    ]
