"""Arguments of generated fields, and fields whose resolvers receive the arguments as a mapping."""

import inspect
import keyword
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import strawberry
from strawberry.types.arguments import StrawberryArgument
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import StrawberryResolver

from graphql_api.schema import descriptions
from graphql_api.schema.request_context import Context
from graphql_api.schema.types.connection_types import OnShardFailure
from graphql_api.schema.types.graphql_scalars import cached_annotation, make_nullable

Info = strawberry.Info[Context, None]
PARENT: Any = strawberry.Parent
"""Annotation of the resolver parameter that receives the record; type checkers see a plain alias."""

ArgumentValues = Mapping[str, Any]
"""Provided arguments by their GraphQL names."""


@dataclass(frozen=True)
class Argument:
    """An argument of a generated field."""

    name: str
    annotation: Any
    description: str
    required: bool = False
    default: Any = strawberry.UNSET

    @property
    def python_name(self) -> str:
        """The name of the resolver parameter: no keyword, and no name that Strawberry reserves."""
        base = self.name.rstrip("_")
        return f"{self.name}_" if keyword.iskeyword(base) or base in ("info", "self", "root", "source") else self.name

    @cached_property
    def strawberry_argument(self) -> StrawberryArgument:
        """The argument for Strawberry, created once for all fields that use it."""
        is_non_null = self.required or self.default is not strawberry.UNSET
        return StrawberryArgument(
            self.python_name,
            self.name,
            cached_annotation(self.annotation if is_non_null else make_nullable(self.annotation)),
            description=self.description,
            default=self.default,
        )


class _Resolver(StrawberryResolver[Any]):
    """Resolver with predefined arguments: parsing signatures takes half of the time to build a large schema."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Argument]) -> None:
        super().__init__(function)
        self.arguments = [argument.strawberry_argument for argument in arguments]


def root_field(
    name: str,
    result_type: Any,
    description: str,
    arguments: Sequence[Argument],
    resolve: Callable[[Info, ArgumentValues], Awaitable[Any]],
    marks: Sequence[str] = (),
) -> StrawberryField:
    """Create a field of Query or Mutation; null and omitted arguments do not reach its resolver."""

    async def resolver(info: Info, **values: Any) -> Any:
        return await resolve(info, _provided_arguments(arguments, values))

    return _field(name, result_type, description, arguments, resolver, [_INFO], marks)


def record_field(
    name: str,
    result_type: Any,
    description: str,
    arguments: Sequence[Argument],
    resolve: Callable[[Any, Info, ArgumentValues], Awaitable[Any]],
    marks: Sequence[str] = (),
) -> StrawberryField:
    """Create a field of a record type; its resolver also receives the record."""

    async def resolver(root: Any, info: Info, **values: Any) -> Any:
        return await resolve(root, info, _provided_arguments(arguments, values))

    return _field(name, result_type, description, arguments, resolver, [_ROOT, _INFO], marks)


_ROOT = inspect.Parameter("root", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=PARENT[Any])
_INFO = inspect.Parameter("info", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=strawberry.Info)


def _provided_arguments(arguments: Sequence[Argument], values: Mapping[str, Any]) -> ArgumentValues:
    names = {argument.python_name: argument.name for argument in arguments}
    return {names[key]: value for key, value in values.items() if value is not None and value is not strawberry.UNSET}


def _field(
    name: str,
    result_type: Any,
    description: str,
    arguments: Sequence[Argument],
    resolver: Any,
    parameters: Sequence[inspect.Parameter],
    marks: Sequence[str],
) -> StrawberryField:
    resolver.__name__ = name
    resolver.__signature__ = inspect.Signature(parameters, return_annotation=result_type)
    resolver.__annotations__ = {
        **{parameter.name: parameter.annotation for parameter in parameters},
        "return": result_type,
    }
    field: StrawberryField = strawberry.field(
        resolver=_Resolver(resolver, arguments), name=name, description=description, metadata=dict.fromkeys(marks, True)
    )
    field.python_name = name
    return field


PAGE_ARGUMENTS = (
    Argument("limit", int, descriptions.LIMIT),
    Argument("nextToken", str, descriptions.NEXT_TOKEN_ARGUMENT),
    Argument("first", int, descriptions.FIRST),
    Argument("after", str, descriptions.AFTER),
    Argument("last", int, descriptions.LAST),
    Argument("before", str, descriptions.BEFORE),
    Argument("onShardFailure", OnShardFailure, descriptions.ON_SHARD_FAILURE_ARGUMENT),
)
