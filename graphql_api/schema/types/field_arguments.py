"""Arguments of generated fields, and fields that are resolved with what a client gave."""

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

from graphql_api.query import DEFAULT_LIMIT, MAX_LIMIT
from graphql_api.schema.request_context import Context
from graphql_api.schema.types.connection_types import OnShardFailure
from graphql_api.schema.types.graphql_scalars import or_null, read_once

Info = strawberry.Info[Context, None]
PARENT: Any = strawberry.Parent
"""marks the parameter that is the record; type checkers take it for a plain alias"""

Given = Mapping[str, Any]
"""arguments that a client gave, by their GraphQL names"""


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
        """A name that Python lets a parameter have."""
        word = self.name.rstrip("_")
        return f"{self.name}_" if keyword.iskeyword(word) or word in ("info", "self", "root", "source") else self.name

    @cached_property
    def read(self) -> StrawberryArgument:
        """The argument as Strawberry has it, made once for all fields that take it."""
        says_itself = self.required or self.default is not strawberry.UNSET
        return StrawberryArgument(
            self.python_name,
            self.name,
            read_once(self.annotation if says_itself else or_null(self.annotation)),
            description=self.description,
            default=self.default,
        )


class _Resolver(StrawberryResolver[Any]):
    """Is told its arguments: to read them out of signatures is half of the time that a large schema takes."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Argument]) -> None:
        super().__init__(function)
        self.arguments = [one.read for one in arguments]


def resolved_field(
    name: str,
    answer: Any,
    description: str,
    arguments: Sequence[Argument],
    resolve: Callable[[Info, Given], Awaitable[Any]],
    marks: Sequence[str] = (),
) -> StrawberryField:
    """A field of the query; what is null or left out does not reach its resolver."""

    async def resolver(info: Info, **given: Any) -> Any:
        return await resolve(info, _given(arguments, given))

    return _field(name, answer, description, arguments, resolver, [_INFO], marks)


def record_field(
    name: str,
    answer: Any,
    description: str,
    arguments: Sequence[Argument],
    resolve: Callable[[Any, Info, Given], Awaitable[Any]],
    marks: Sequence[str] = (),
) -> StrawberryField:
    """A field of a record, which its resolver gets as well."""

    async def resolver(root: Any, info: Info, **given: Any) -> Any:
        return await resolve(root, info, _given(arguments, given))

    return _field(name, answer, description, arguments, resolver, [_ROOT, _INFO], marks)


_ROOT = inspect.Parameter("root", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=PARENT[Any])
_INFO = inspect.Parameter("info", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=strawberry.Info)


def _given(arguments: Sequence[Argument], values: Mapping[str, Any]) -> Given:
    names = {argument.python_name: argument.name for argument in arguments}
    return {names[key]: value for key, value in values.items() if value is not None and value is not strawberry.UNSET}


def _field(
    name: str,
    answer: Any,
    description: str,
    arguments: Sequence[Argument],
    resolver: Any,
    parameters: Sequence[inspect.Parameter],
    marks: Sequence[str],
) -> StrawberryField:
    resolver.__name__ = name
    resolver.__signature__ = inspect.Signature(parameters, return_annotation=answer)
    resolver.__annotations__ = {**{one.name: one.annotation for one in parameters}, "return": answer}
    made: StrawberryField = strawberry.field(
        resolver=_Resolver(resolver, arguments), name=name, description=description, metadata=dict.fromkeys(marks, True)
    )
    made.python_name = name
    return made


PAGE_ARGUMENTS = (
    Argument(
        "limit",
        int,
        f"How many records a page has, 1 to {MAX_LIMIT}; {DEFAULT_LIMIT} if nothing is said. Goes with nextToken.",
    ),
    Argument("nextToken", str, "Asks for what follows the page that gave this token."),
    Argument("first", int, "How many records a page has, walking forward. Goes with after."),
    Argument("after", str, "The place behind which the page begins: a cursor or nextToken."),
    Argument("last", int, "How many records a page has, walking backward from the end. Goes with before."),
    Argument("before", str, "The place before which the page ends: a cursor or nextToken."),
    Argument(
        "onShardFailure",
        OnShardFailure,
        "What becomes of the page when a shard does not answer; FAIL if nothing is said.",
    ),
)
