"""Parse the annotation of a property: markers, nullability, plain types and the codec."""

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
"""codec of each plain type"""


@dataclass(frozen=True, slots=True)
class Annotation:
    """The parts of a parsed annotation."""

    types: tuple[Any, ...]
    """the possible types of a non-null value: one type, or the members of a union"""
    nullable: bool
    markers: tuple[Any, ...]
    """all metadata that was attached with `Annotated`"""

    @property
    def codec(self) -> codecs.Codec[Any] | None:
        """How the value is stored and ordered, or None if it is no scalar."""
        for marker in self.markers:
            if isinstance(marker, StoredAs):
                return marker.codec
        codecs = {_codec_of(kind) for kind in self.types}
        return codecs.pop() if len(codecs) == 1 else None

    @property
    def invalid_enum(self) -> tuple[type[Enum], str] | None:
        """An enum that cannot have a codec, and the reason."""
        for kind in self.types:
            if isinstance(kind, type) and issubclass(kind, Enum):
                problem = codecs.enum_problem(kind)
                if problem:
                    return kind, problem
        return None


def parse_annotation(annotation: Any, metadata: Iterable[Any] = ()) -> Annotation:
    """Resolve `Annotated`, unions, aliases and new types. The item types of lists and maps are not inspected."""
    markers: list[Any] = list(metadata)
    types: list[Any] = []
    for kind in _plain_types(annotation, markers):
        if kind not in types:
            types.append(kind)
    return Annotation(
        types=tuple(kind for kind in types if kind is not NoneType),
        nullable=NoneType in types or Any in types,
        markers=tuple(markers),
    )


def item_codec(annotation: Any) -> codecs.Codec[Any] | None:
    """Return the codec of the items of a list, tuple or set, if all items have the same scalar type."""
    kinds = parse_annotation(annotation).types
    if not all(issubclass(get_origin(kind) or object, list | tuple | AbstractSet) for kind in kinds):
        return None
    item_types = {item_type for kind in kinds for item_type in get_args(kind) if item_type is not Ellipsis}
    return parse_annotation(item_types.pop()).codec if len(item_types) == 1 else None


def _plain_types(annotation: Any, markers: list[Any]) -> Iterator[Any]:
    """Yield the plain types of an annotation, and append its metadata to `markers`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        markers.extend(annotation.__metadata__)
        yield from _plain_types(annotation.__origin__, markers)
    elif origin is Union or origin is UnionType:
        for member in get_args(annotation):
            yield from _plain_types(member, markers)
    elif isinstance(annotation, NewType):
        yield from _plain_types(annotation.__supertype__, markers)
    elif hasattr(annotation, "__value__"):  # `type Name = str`, from Python 3.12 on
        yield from _plain_types(annotation.__value__, markers)
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
