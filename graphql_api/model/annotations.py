"""What a property's annotation says: markers wherever they stand, null, the plain type and the codec that fits it."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from graphql_api import codecs
from graphql_api.model.markers import StoredAs

CODECS: dict[type, codecs.Codec[Any]] = {
    str: codecs.Text(),
    int: codecs.Int64(),
    float: codecs.Float64(),
    Decimal: codecs.DecimalNumber(),
    bool: codecs.Boolean(),
    UUID: codecs.Uuid(),
    date: codecs.Date(),
    datetime: codecs.DateTime(),
    timedelta: codecs.Duration(),
}
"""how the plain types are stored"""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation taken apart."""

    types: tuple[Any, ...]
    """what a value may be, null aside: one type, or the members of a union"""
    nullable: bool
    marks: tuple[Any, ...]
    """everything that was attached with `Annotated`"""

    @property
    def codec(self) -> codecs.Codec[Any] | None:
        """How the value is stored and ordered; None where it is no scalar."""
        for mark in self.marks:
            if isinstance(mark, StoredAs):
                return mark.codec
        codecs = {_codec_of(kind) for kind in self.types}
        return codecs.pop() if len(codecs) == 1 else None

    @property
    def bad_enum(self) -> tuple[type[Enum], str] | None:
        """An enum that cannot be ordered, and why."""
        for kind in self.types:
            if isinstance(kind, type) and issubclass(kind, Enum):
                problem = codecs.enum_problem(kind)
                if problem:
                    return kind, problem
        return None


def read_annotation(annotation: Any, marks: Iterable[Any] = ()) -> Annotation:
    """Walks through `Annotated`, unions, aliases and new types; the inside of lists and maps is not the property's."""
    found: list[Any] = list(marks)
    types: list[Any] = []
    for kind in _walk(annotation, found):
        if kind not in types:
            types.append(kind)
    return Annotation(
        types=tuple(kind for kind in types if kind is not NoneType),
        nullable=NoneType in types or Any in types,
        marks=tuple(found),
    )


def codec_of_items(annotation: Any) -> codecs.Codec[Any] | None:
    """The codec of what a list, tuple or set is made of, if it is made of one kind of plain values."""
    kinds = read_annotation(annotation).types
    if not all(issubclass(get_origin(kind) or object, list | tuple | AbstractSet) for kind in kinds):
        return None
    inside = {inner for kind in kinds for inner in get_args(kind) if inner is not Ellipsis}
    return read_annotation(inside.pop()).codec if len(inside) == 1 else None


def _walk(annotation: Any, marks: list[Any]) -> Iterator[Any]:
    """The plain types below an annotation; collects the marks on the way."""
    origin = get_origin(annotation)
    if origin is Annotated:
        marks.extend(annotation.__metadata__)
        yield from _walk(annotation.__origin__, marks)
    elif origin is Union or origin is UnionType:
        for member in get_args(annotation):
            yield from _walk(member, marks)
    elif isinstance(annotation, NewType):
        yield from _walk(annotation.__supertype__, marks)
    elif hasattr(annotation, "__value__"):  # `type Name = str`, in Pythons that have it
        yield from _walk(annotation.__value__, marks)
    elif origin is Literal:
        yield from (NoneType if value is None else type(value) for value in get_args(annotation))
    else:
        yield NoneType if annotation is None else annotation


def _codec_of(kind: Any) -> codecs.Codec[Any] | None:
    if not isinstance(kind, type):
        return None
    if issubclass(kind, Enum):
        return None if codecs.enum_problem(kind) else codecs.EnumCodec(kind)
    return CODECS.get(kind)
