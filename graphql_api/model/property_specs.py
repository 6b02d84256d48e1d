"""Parse the annotations of properties (markers, nullability, plain types, codec), and build their specifications."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from graphql_api.codecs import Codec, codec_of_type, enum_problem
from graphql_api.model.access_declarations import PropertyRules
from graphql_api.model.markers import Derived, Role, RoleName, Stored, StoredAs
from graphql_api.model.naming import camel_case
from graphql_api.model.relation_declarations import Counted, ServerSet
from graphql_api.model.specs import PropertySpec

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity


@dataclass(frozen=True, slots=True)
class Annotation:
    """The parts of a parsed annotation."""

    types: tuple[Any, ...]
    """the possible types of a non-null value: one type, or the members of a union"""
    nullable: bool
    markers: tuple[Any, ...]
    """all metadata that was attached with `Annotated`"""

    @property
    def codec(self) -> Codec[Any] | None:
        """How the value is stored and ordered, or None if it is no scalar."""
        for marker in self.markers:
            if isinstance(marker, StoredAs):
                return marker.codec
        found = {codec_of_type(kind) for kind in self.types}
        return found.pop() if len(found) == 1 else None

    @property
    def invalid_enum(self) -> tuple[type[Enum], str] | None:
        """An enum that cannot have a codec, and the reason."""
        for kind in self.types:
            if isinstance(kind, type) and issubclass(kind, Enum):
                problem = enum_problem(kind)
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


def item_codec(annotation: Any) -> Codec[Any] | None:
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


# --- specifications --------------------------------------------------------------------------------------------


def property_specs(model: type["Entity"]) -> dict[str, PropertySpec]:
    """Return the specifications of all properties of a class by Python name."""
    model.model_rebuild(raise_errors=False)
    return {name: _property_spec(name, field) for name, field in model.model_fields.items()}


def with_role(properties: Mapping[str, PropertySpec], role: RoleName) -> tuple[PropertySpec, ...]:
    """Return the properties with a role, in declared order."""
    return tuple(part for part in properties.values() if role in part.roles)


def _property_spec(name: str, field: FieldInfo) -> PropertySpec:
    annotation = parse_annotation(field.annotation, field.metadata)
    markers: dict[type, Any] = {type(marker): marker for marker in annotation.markers}  # the last one of each type
    factory = field.default_factory
    rule = factory if isinstance(factory, Derived) else None
    has_default = not field.is_required() and (factory is not None or field.default is not None)
    return PropertySpec(
        name=name,
        stored=markers[Stored].name if Stored in markers else camel_case(name),
        codec=annotation.codec,
        nullable=annotation.nullable,
        description=field.description,
        function=rule.function if rule else None,
        sources=rule.sources if rule else (),
        null_is_stored=annotation.nullable and not rule and has_default,
        allow=markers[PropertyRules].rules if PropertyRules in markers else None,
        roles=frozenset(marker.name for marker in annotation.markers if isinstance(marker, Role)),
        counter_group=factory.group if isinstance(factory, Counted) else None,
        is_server_set=isinstance(factory, ServerSet),
        default=field.default if has_default and factory is None and annotation.codec is not None else None,
        version=rule.version if rule else 1,
        previous=rule.previous if rule else None,
    )
