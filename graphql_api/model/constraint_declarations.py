"""Declare constraints across records, counters and generated ids."""

from collections.abc import Callable, Mapping, Sequence
from secrets import choice
from string import ascii_lowercase, digits
from typing import Any
from uuid import uuid4

from pydantic import Field

from graphql_api.codecs import Codec, Text, Uuid

_ID_LETTERS = ascii_lowercase + digits
_ID_LENGTH = 22
"""113 random bits: even the ids of a full table do not collide"""


class Constraint:
    """A class attribute that declares a constraint on writes. The attribute may have any name."""

    attribute: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name


class UniqueTogether(Constraint):
    """The values of these properties are unique together: `unique_num = UniqueTogether("project_id", "num")`.

    The constraint does not apply to a record in which one of the properties is null.
    """

    def __init__(self, *properties: str) -> None:
        self.properties = properties


class ForeignKey(Constraint):
    """The referenced record must exist: `of_project = ForeignKey("Project", by="project_id")`.

    `by`: the properties that hold the id of the referenced record, in order.
    A record in which one of them is null references no record.
    """

    def __init__(self, entity: str, *, by: str | Sequence[str]) -> None:
        self.entity = entity
        self.by: tuple[str, ...] = (by,) if isinstance(by, str) else tuple(by)


class Counted:
    """Mark a property as a counter of its group. As a default factory, provide null until a number is assigned."""

    __slots__ = ("group",)

    def __init__(self, group: tuple[str, ...]) -> None:
        self.group = group

    def __call__(self) -> None:
        """Return the placeholder, null."""


def counter(*group: str) -> Any:
    """Number the records with the same values of `group`, from 1: `num: Int32 = counter("project_id")`.

    Without a group, all records of the entity are numbered together. The number is assigned when a record is created
    and never changes. Numbers are unique within the group, but some may be skipped.
    """
    return Field(default_factory=Counted(group))


class Generated:
    """Generate the default values of a property, as a default factory that depends on the property's type."""

    __slots__ = ("factory",)

    def __init__(self) -> None:
        self.factory: Callable[[], Any] = new_id

    def __call__(self) -> Any:
        return self.factory()

    def select_factory(self, codec: Codec[Any] | None) -> bool:
        """Generate values of the codec's type from now on. Return whether that type is supported."""
        factory = None if codec is None else _FACTORIES.get(type(codec))
        self.factory = factory or new_id
        return factory is not None


def generated() -> Any:
    """Generate an id if none is provided: `user_id: Id[str] = generated()`, or `Id[UUID]`.

    For other types, declare a `Field(default_factory=…)`.
    """
    return Field(default_factory=Generated(), validate_default=True)


def new_id() -> str:
    """Generate a globally unique id of lower-case letters and digits."""
    return "".join(choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


_FACTORIES: Mapping[type[Codec[Any]], Callable[[], Any]] = {Text: new_id, Uuid: uuid4}
