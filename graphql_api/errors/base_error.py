"""The base of all errors, helpers that add context to an error, and the JSON of errors."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, ClassVar, Self, TypeVar

from graphql_api.errors.error_messages import PYTHON_RESOLVER, Localizable, Message, NameResolver


class ShardQLError(Exception):
    """Base of every error that ShardQL raises on purpose.

    The message is used verbatim, unless named values are passed. Then it is a template with a placeholder for each
    value, such as `"{property} never changes."`. An error as a value is replaced by its message.
    """

    code: ClassVar[str]
    status: ClassVar[int] = 400
    retryable: bool = False
    retry_after: int | None = None
    """seconds before a retry, if the error is retryable and a second is too short"""
    summary: ClassVar[str] = "The request failed."
    """what clients read that must not see the message; by default the docstring, for classes of this package"""

    operations: Sequence[tuple[int, "ShardQLError"]] = ()
    """of an all-or-none write: the operations that failed, by position, and why"""

    _message: Message
    _names = PYTHON_RESOLVER

    def __init_subclass__(
        cls, *, code: str | None = None, status: int | None = None, retryable: bool | None = None
    ) -> None:
        """Set the attributes that the subclass does not inherit."""
        for name, value in {"code": code, "status": status, "retryable": retryable}.items():
            if value is not None:
                setattr(cls, name, value)

    def __init__(
        self, message: str, *, argument: str | Localizable | None = None, shard: str | None = None, **values: object
    ) -> None:
        problems = {name: value._message for name, value in values.items() if isinstance(value, ShardQLError)}  # noqa: SLF001 - of this class
        self._message = Message(message, **{**values, **problems})
        self._argument = argument
        self.shard = shard
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """Return what is wrong, where, and what to do, with the names of the audience: by default those of Python."""
        return self._message.resolve(self._names)

    @property
    def argument(self) -> str | None:
        """Return the argument or property that the error is about."""
        argument = self._argument
        return argument.resolve(self._names) if isinstance(argument, Localizable) else argument

    @property
    def extensions(self) -> dict[str, Any]:
        """Return the machine-readable part, which GraphQL shows under `extensions`."""
        parts = {
            "argument": self.argument,
            "shard": self.shard,
            "retryable": self.retryable or None,
            "retryAfter": self.retry_after if self.retryable else None,
            "operations": [
                {"index": index, "message": error.message, **error.extensions} for index, error in self.operations
            ]
            or None,
        }
        return {"code": self.code, **{name: value for name, value in parts.items() if value is not None}}

    def localized(self, names: NameResolver) -> Self:
        """Return a copy whose message, argument and fields have the names of another audience."""
        return self._changed(_names=names)

    def without_suggestions(self) -> Self:
        """Return a copy for an audience that must not learn which names exist."""
        return self._changed(_message=self._message.without_suggestions())

    def _changed(self, **attributes: object) -> Self:
        duplicate = copy(self)
        vars(duplicate).update(attributes)
        duplicate.args = (duplicate.message,)
        return duplicate

    def rephrase(self, template: str, /, **values: object) -> None:
        """Replace the message by a template in which `{problem}` is the present message."""
        self._message = Message(template, problem=self._message, **values)
        self.args = (self.message,)

    def replace_message(self, message: str) -> None:
        """Replace the message by a text for clients that must not see it."""
        self._message = Message(message)
        self.args = (message,)

    def __copy__(self) -> Self:
        # Exceptions are copied by calling their class with `args`, which fails for subclasses with other parameters.
        duplicate = type(self).__new__(type(self), *self.args)
        duplicate.__dict__.update(self.__dict__)
        return duplicate


E = TypeVar("E", bound=ShardQLError)


class _About:
    """Adds an argument to errors. A generator in its place would take five times as long, and most blocks are small."""

    __slots__ = ("_argument",)

    def __init__(self, argument: str | Localizable | None) -> None:
        self._argument = argument

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        argument = self._argument
        if isinstance(problem, ShardQLError) and argument is not None and problem.argument is None:
            problem._argument = argument  # noqa: SLF001 - of this module
            problem.rephrase("{argument}: {problem}", argument=argument)


def about(argument: str | Localizable | None) -> AbstractContextManager[None]:
    """Add the argument that is being processed to errors from the block that do not name one."""
    return _About(argument)


def for_operations(problems: Mapping[int, ShardQLError]) -> ShardQLError:
    """Return the error of an all-or-none write, from the errors of its operations by position."""
    index, first = min(problems.items())
    error = copy(first)
    error.operations = sorted(problems.items())
    error.rephrase("operations[{index}]: {problem}", index=index)
    return error


def for_one_of_several(problem: E) -> E:
    """Return a copy of an error for one of several waiting tasks. Each raises its own, since handlers may add to it."""
    own = copy(problem)
    own.__cause__ = problem
    return own


def error_body(
    error: ShardQLError, *, position: Mapping[str, Any] | None = None, extensions: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the JSON of an error, for GraphQL and HTTP, in the names of its audience.

    `position`: `locations` and `path` of a GraphQL error. `extensions`: entries that replace or extend those of the
    error.
    """
    return {"message": error.message, **(position or {}), "extensions": {**error.extensions, **(extensions or {})}}


def error_code(body: Mapping[str, Any]) -> str:
    """Return the code in the JSON of an error."""
    return str(body["extensions"]["code"])
