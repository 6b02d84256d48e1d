"""The base of all errors, and helpers that add context to an error."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar, Self, TypeVar

from graphql_api.errors.message_templates import Message
from graphql_api.errors.name_references import PYTHON_RESOLVER, Localizable, NameResolver, WithoutSuggestions


class ShardQLError(Exception):
    """Base of every error that ShardQL raises on purpose.

    The message is used verbatim, unless named values are passed. Then it is a template with a placeholder for each
    value, such as `"{property} never changes."`. An error as a value is replaced by its message.
    """

    code: ClassVar[str]
    status: ClassVar[int] = 400
    retryable: ClassVar[bool] = False
    summary: ClassVar[str] = "The request failed."
    """what clients read that must not see the message"""

    _names: NameResolver = PYTHON_RESOLVER

    def __init__(
        self, message: str, *, argument: str | Localizable | None = None, shard: str | None = None, **values: object
    ) -> None:
        self._message = Message(message, **{name: _message_or_value(value) for name, value in values.items()})
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
        parts: dict[str, Any] = {"code": self.code}
        if self.argument is not None:
            parts["argument"] = self.argument
        if self.shard is not None:
            parts["shard"] = self.shard
        if self.retryable:
            parts["retryable"] = True
        return parts

    def localized(self, names: NameResolver) -> Self:
        """Return a copy whose message, argument and fields have the names of another audience."""
        localized = copy(self)
        localized._names = names  # noqa: SLF001 - of this class
        localized.args = (localized.message,)
        return localized

    def without_suggestions(self) -> Self:
        """Return a copy for an audience that must not learn which names exist."""
        return self.localized(WithoutSuggestions(self._names))

    def rephrase(self, template: str, /, **values: object) -> None:
        """Replace the message by a template in which `{problem}` is the present message."""
        self._message = Message(template, problem=self._message, **values)
        self.args = (self.message,)

    def __copy__(self) -> Self:
        # Exceptions are copied by calling their class with `args`, which fails for subclasses with other parameters.
        duplicate = type(self).__new__(type(self), *self.args)
        duplicate.__dict__.update(self.__dict__)
        return duplicate


E = TypeVar("E", bound=ShardQLError)


@contextmanager
def about(argument: str | Localizable | None) -> Iterator[None]:
    """Add the argument that is being processed to errors from the block that do not name one."""
    try:
        yield
    except ShardQLError as problem:
        if argument is not None and problem.argument is None:
            problem._argument = argument  # noqa: SLF001 - of this module
            problem.rephrase("{argument}: {problem}", argument=argument)
        raise


def for_one_of_several(problem: E) -> E:
    """Return a copy of an error for one of several waiting tasks. Each raises its own, since handlers may add to it."""
    own = copy(problem)
    own.__cause__ = problem
    return own


def _message_or_value(value: object) -> object:
    return value._message if isinstance(value, ShardQLError) else value  # noqa: SLF001 - of this module
