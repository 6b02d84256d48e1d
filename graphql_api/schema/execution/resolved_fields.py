"""Fields of response objects whose values resolvers determine: one by one, or of many records at once."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, NamedTuple

import graphql
from graphql.execution.collect_fields import FieldDetailsList
from graphql.pyutils import Path

from graphql_api.model import value_of
from graphql_api.schema.types.generated_fields import Parents

ResponseObject = dict[str, Any]


class ResolvedField(NamedTuple):
    """A field of a response object that is still null, since a resolver determines its value."""

    response: ResponseObject
    response_name: str
    details: FieldDetailsList
    parent_type: graphql.GraphQLObjectType
    parent: Any
    path: Path
    """of the field"""

    def set(self, value: Any) -> None:
        self.response[self.response_name] = value


class RecordFields(NamedTuple):
    """The fields with resolvers of several records of one type, which are still null."""

    kind: graphql.GraphQLObjectType
    fields: Mapping[str, FieldDetailsList]
    """by response name"""
    parents: Parents
    objects: Sequence[ResponseObject]
    path_of: Callable[[int], Path]
    """returns the path of a record"""

    def groups(self) -> "ResolvedFields":
        """Return the fields of each record."""
        kind, named = self.kind, self.fields.items()
        return [
            [
                ResolvedField(response, name, details, kind, record, Path(path, name, kind.name))
                for name, details in named
            ]
            for record, response, path in zip(
                self.parents.records, self.objects, map(self.path_of, range(len(self.objects))), strict=True
            )
        ]


ResolvedFields = list["ResolvedField | RecordFields | ResolvedFields"]
"""Fields that have resolvers, by the objects and lists that contain them. Awaiting them in the same groups as
graphql-core makes dataloaders form the same batches."""


class CompletedObject(NamedTuple):
    """A response object, and the fields in it that have resolvers."""

    response: ResponseObject
    resolved: ResolvedFields


class DecodedRecords:
    """Parents that are decoded records."""

    def __init__(self, records: Sequence[Any]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def values(self, name: str) -> Sequence[Any]:
        """Return the value of a property of each record."""
        return [value_of(record, name) for record in self.records]


class _SeveralParents:
    """The parents of several objects or pages."""

    def __init__(self, parts: Sequence[Parents]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @cached_property
    def records(self) -> Sequence[Any]:
        return [*chain.from_iterable(part.records for part in self._parts)]

    def values(self, name: str) -> Sequence[Any]:
        return [*chain.from_iterable(part.values(name) for part in self._parts)]


class FieldColumn:
    """One selected field of many records."""

    def __init__(self, response_name: str, details: FieldDetailsList, parent_type: graphql.GraphQLObjectType) -> None:
        self.response_name = response_name
        self.details = details
        self.parent_type = parent_type
        self._parts: list[RecordFields] = []

    def add(self, part: RecordFields) -> None:
        """Add the field of the records of one page."""
        self._parts.append(part)

    def add_one(self, field: ResolvedField) -> None:
        """Add the field of one record."""
        path = field.path.prev
        assert path is not None, "a record has a path"
        parents = DecodedRecords([field.parent])
        self._parts.append(RecordFields(self.parent_type, {}, parents, [field.response], lambda _: path))

    @cached_property
    def parents(self) -> Parents:
        """The records."""
        return (
            self._parts[0].parents if len(self._parts) == 1 else _SeveralParents([one.parents for one in self._parts])
        )

    @cached_property
    def objects(self) -> Sequence[ResponseObject]:
        """The response objects of the records."""
        if len(self._parts) == 1:
            return self._parts[0].objects
        return [*chain.from_iterable(part.objects for part in self._parts)]

    @cached_property
    def _begins(self) -> Sequence[int]:
        return [*accumulate((len(part.objects) for part in self._parts), initial=0)]

    def path_of(self, at: int) -> Path:
        """Return the path of the field of a record."""
        number = bisect_right(self._begins, at) - 1
        return Path(self._parts[number].path_of(at - self._begins[number]), self.response_name, self.parent_type.name)

    def field(self, at: int) -> ResolvedField:
        """Return the field of one record."""
        record = self.parents.records[at]
        return ResolvedField(
            self.objects[at], self.response_name, self.details, self.parent_type, record, self.path_of(at)
        )
