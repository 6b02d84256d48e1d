"""Builders of types and fields: Strawberry reads them from classes and functions, a catalog declares them as data."""

import inspect
import keyword
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

import strawberry
from graphql import (
    GraphQLArgument,
    GraphQLField,
    GraphQLInputField,
    GraphQLResolveInfo,
    get_nullable_type,
    is_leaf_type,
)
from strawberry.types.arguments import StrawberryArgument, convert_argument
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import StrawberryResolver

from graphql_api.errors import InvalidLimit, ShardQLError
from graphql_api.model import camel_case
from graphql_api.schema.request_context import Context
from graphql_api.schema.types.graphql_scalars import cached_annotation, make_nullable

Info = strawberry.Info[Context, None]

ArgumentValues = Mapping[str, Any]
"""Provided arguments by their GraphQL names."""

_PARENT: Any = strawberry.Parent
"""Annotation of the resolver parameter that receives the record; type checkers see a plain alias."""

_PARAMETERS = {"root": _PARENT[Any], "info": strawberry.Info}


COLUMN_RESOLVER = "column-resolver"
"""Key of a `DirectColumnResolver` in the extensions of a GraphQL field; None if each parent needs its own call."""

DIRECT_RESOLVER = "direct-resolver"
"""Key of the `direct_resolver` in the extensions of a GraphQL field whose resolver it is."""

INPUT_LISTS = ("inputs", "ids", "operations", "representations")
"""Names of the arguments with one element for each record."""


class Mark(Enum):
    """A mark in the metadata of a field, which decides how its cost is counted and its value is completed."""

    PER_RECORD = auto()
    """A list in a page with one entry for each record."""
    SORTABLE = auto()
    """Returns the whole result as one page if the field has the argument `orderBy`."""
    COUNTING = auto()
    """Counts records, each at a tenth of the cost of a record."""
    PER_INPUT = auto()
    """A list with one entry for each element of an argument in `INPUT_LISTS`."""
    WRITES = auto()
    """Writes one record, or one for each element of an argument in `INPUT_LISTS`."""
    STORED_LIST = auto()
    """A list that is part of a record, and costs as much as any other property."""
    PROPERTY = auto()
    """The property of a record that has the Python name of the field."""
    RECORD_KEY = auto()
    """The sealed key of a record."""


@dataclass(frozen=True, slots=True)
class ListLimit:
    """A limit on the items of a list, which is checked before the items are converted."""

    max_items: int
    items: str
    error: type[ShardQLError] = InvalidLimit
    remedy: str = "split them into several requests"

    def check(self, found: int, name: str, argument: str | None = None) -> None:
        """Refuse too many items of the list `name`, which is an argument, or a part of this `argument`."""
        if found > self.max_items:
            where = name if argument in (None, name) else f"{argument}: {name}"
            raise self.error(
                f"{where} has {found:,} {self.items}, and at most {self.max_items} are allowed: {self.remedy}.",
                argument=argument or name,
            )


def list_limit(definition: GraphQLArgument | GraphQLInputField) -> ListLimit | None:
    """Return the limit on the items of an argument or input field, if it has one."""
    metadata = getattr(definition.extensions.get("strawberry-definition"), "metadata", {})
    limit: ListLimit | None = metadata.get(ListLimit)
    return limit


# --- types -----------------------------------------------------------------------------------------------------


def object_type(name: str, fields: Iterable[StrawberryField], description: str | None = None) -> type:
    """Create a GraphQL object type of fields that have their Python names."""
    return strawberry.type(python_class(name, fields), name=name, description=description)


def input_type(name: str, fields: Iterable[StrawberryField], description: str, *, one_of: bool = False) -> type:
    """Create a GraphQL input type."""
    return strawberry.input(python_class(name, fields), name=name, description=description, one_of=one_of)


def enum_type(name: str, values: Mapping[str, Any], description: str) -> Any:
    """Create a GraphQL enum type."""
    untyped_enum: Any = Enum  # Type checkers cannot evaluate enums that are created from data.
    return strawberry.enum(untyped_enum(name, values), name=name, description=description)


def python_class(name: str, fields: Iterable[StrawberryField], bases: tuple[type, ...] = (), **members: Any) -> type:
    """Create the class that Strawberry converts to a type."""
    by_name = {field.python_name: field for field in fields}
    annotations = {name: field.type_annotation for name, field in by_name.items() if field.type_annotation}
    for name_ in annotations:
        by_name[name_].type_annotation = None  # Otherwise Strawberry resolves the annotations of class and field.
    body = {**by_name, **members, "__annotations__": annotations}
    return types.new_class(name, bases, {}, lambda namespace: namespace.update(body))


# --- fields ----------------------------------------------------------------------------------------------------


def plain_field(
    python_name: str,
    annotation: Any,
    description: str | None = None,
    *,
    name: str | None = None,
    deprecated: str | None = None,
    marks: Iterable[Mark] = (),
    default: Any = None,
    limit: ListLimit | None = None,
    resolver: Callable[[Any, strawberry.Info[Any, Any]], Any] | None = None,
) -> StrawberryField:
    """Create a field that is read from the attribute of the same Python name, or by a resolver."""
    options: dict[str, Any] = {} if default is None else {"default": default}
    if resolver is not None:
        resolver.__annotations__ = {**_PARAMETERS}
        options["resolver"] = resolver
    metadata = dict.fromkeys(marks, True) if limit is None else {ListLimit: limit}
    field: StrawberryField = strawberry.field(
        name=name or camel_case(python_name),
        description=description,
        deprecation_reason=deprecated,
        metadata=metadata,
        **options,
    )
    field.python_name = python_name
    field.type_annotation = cached_annotation(annotation)
    return field


def input_field(
    python_name: str,
    name: str,
    annotation: Any,
    description: str | None,
    required: bool,
    deprecated: str | None = None,
    limit: ListLimit | None = None,
) -> StrawberryField:
    """Create a field of an input type. One that is not required may be null or omitted. `limit`: that of its items."""
    if required:
        return plain_field(python_name, annotation, description, name=name)
    nullable, default = make_nullable(annotation), strawberry.UNSET
    return plain_field(
        python_name, nullable, description, name=name, deprecated=deprecated, default=default, limit=limit
    )


def argument(
    name: str,
    annotation: Any,
    description: str | None = None,
    *,
    required: bool = False,
    default: Any = strawberry.UNSET,
    limit: ListLimit | None = None,
) -> StrawberryArgument:
    """Create an argument of a generated field. `limit`: the number of its items."""
    base = name.rstrip("_")  # No keyword, and no name that Strawberry reserves, may be a resolver parameter.
    python_name = f"{name}_" if keyword.iskeyword(base) or base in ("info", "self", "root", "source") else name
    is_non_null = required or default is not strawberry.UNSET
    annotated = cached_annotation(annotation if is_non_null else make_nullable(annotation))
    metadata = None if limit is None else {ListLimit: limit}
    return StrawberryArgument(python_name, name, annotated, description=description, default=default, metadata=metadata)


GeneratedResolver = Callable[[Any, Info, ArgumentValues], Awaitable[Any]]
"""Receives the parent and the arguments, but no null and no omitted argument."""


class Parents(Protocol):
    """The records whose fields are resolved."""

    def __len__(self) -> int: ...

    @property
    def records(self) -> Sequence[Any]: ...

    def values(self, name: str) -> Sequence[Any]:
        """Return the value of a property of each record."""
        ...


ColumnResolver = Callable[[Parents, Info, ArgumentValues], Awaitable[Sequence[Any]]]
"""Resolves a field for several parents at once. Returns the value or the error of each.

The path in `Info` is that of the first parent.
"""


class _Resolver(StrawberryResolver[Any]):
    """Resolver with predefined arguments: parsing signatures takes half of the time to build a large schema."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[StrawberryArgument],
        resolve: GeneratedResolver,
        resolve_column: ColumnResolver | None,
    ) -> None:
        super().__init__(function)
        self.arguments = [*arguments]
        self.resolve = resolve
        self.resolve_column = resolve_column


def generated_field(
    name: str,
    result_type: Any,
    description: str,
    arguments: Sequence[StrawberryArgument],
    resolve: GeneratedResolver,
    marks: Sequence[Mark] = (),
    *,
    has_parent: bool = False,
    resolve_column: ColumnResolver | None = None,
) -> StrawberryField:
    """Create a field with a resolver.

    `has_parent`: the field belongs to a record or page. The parent of a field of Query or Mutation is None.
    `resolve_column`: does the same for several parents, if that costs less.
    """
    names = {argument.python_name: argument.graphql_name or "" for argument in arguments}

    async def resolver(info: Info, root: Any = None, **values: Any) -> Any:
        provided = {key: value for key, value in values.items() if value is not None and value is not strawberry.UNSET}
        return await resolve(root, info, {names[key]: value for key, value in provided.items()})

    resolver.__name__ = name
    parameters = _PARAMETERS if has_parent else {"info": strawberry.Info}
    resolver.__annotations__ = {**parameters, "return": result_type}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    resolver.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(one, kind, annotation=annotation) for one, annotation in parameters.items()],
        return_annotation=result_type,
    )
    field: StrawberryField = strawberry.field(
        resolver=_Resolver(resolver, arguments, resolve, resolve_column),
        name=name,
        description=description,
        metadata=dict.fromkeys(marks, True),
    )
    field.python_name = name
    return field


def direct_resolver(definition: GraphQLField, schema: strawberry.Schema) -> Callable[..., Awaitable[Any]] | None:
    """Return the resolver of a generated field for graphql-core; None if extensions must run.

    It does what that of Strawberry does, which visits all declared arguments, and awaits two more coroutines.
    """
    resolver = _direct_resolver(definition)
    if resolver is None:
        return None
    resolve, read_call = resolver.resolve, _call_reader(definition, resolver, schema)

    async def direct(source: Any, raw_info: GraphQLResolveInfo[Any], **values: Any) -> Any:
        return await resolve(source, *read_call(raw_info, values))

    return direct


DirectColumnResolver = Callable[[Parents, "GraphQLResolveInfo[Any]", Mapping[str, Any]], Awaitable[Sequence[Any]]]
"""Receives the parents, the info of the first one, and the arguments as graphql-core has coerced them"""


def direct_column_resolver(definition: GraphQLField, schema: strawberry.Schema) -> DirectColumnResolver | None:
    """Return the resolver of a generated field for several parents; None if each needs its own call."""
    resolver = _direct_resolver(definition)
    if resolver is None or resolver.resolve_column is None:
        return None
    resolve_column, read_call = resolver.resolve_column, _call_reader(definition, resolver, schema)

    async def direct(sources: Parents, raw_info: GraphQLResolveInfo[Any], values: Mapping[str, Any]) -> Any:
        return await resolve_column(sources, *read_call(raw_info, values))

    return direct


def _direct_resolver(definition: GraphQLField) -> _Resolver | None:
    field = definition.extensions.get("strawberry-definition")
    resolver = getattr(field, "base_resolver", None)
    if not isinstance(field, StrawberryField) or not isinstance(resolver, _Resolver) or field.extensions:
        return None
    return resolver


def _call_reader(
    definition: GraphQLField, resolver: _Resolver, schema: strawberry.Schema
) -> Callable[["GraphQLResolveInfo[Any]", Mapping[str, Any]], tuple[Info, ArgumentValues]]:
    """Return a function that returns what a resolver receives: Strawberry's info, and the converted arguments."""
    field, info_class = definition.extensions["strawberry-definition"], schema.config.info_class
    scalars, config = schema.schema_converter.scalar_registry, schema.config
    types = {
        argument.graphql_name: argument.type
        for argument in resolver.arguments
        if not is_leaf_type(get_nullable_type(definition.args[argument.graphql_name or ""].type))
    }

    def read(raw_info: GraphQLResolveInfo[Any], values: Mapping[str, Any]) -> tuple[Info, ArgumentValues]:
        info, provided = info_class(_raw_info=raw_info, _field=field), dict[str, Any]()
        for name, value in values.items():
            if value is not None and value is not strawberry.UNSET:
                if name in types:
                    value = convert_argument(value, types[name], scalars, config, info, path=(name,))  # noqa: PLW2901
                provided[name] = value
        return info, provided

    return read


def field_marks(definition: GraphQLField) -> Mapping[Any, Any]:
    """Return the metadata of the Strawberry field of a GraphQL field."""
    return getattr(definition.extensions.get("strawberry-definition"), "metadata", {})
