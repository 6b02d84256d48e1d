"""The words for what must hold of records together, and for values that are made for them."""

from collections.abc import Callable, Mapping, Sequence
from secrets import choice
from string import ascii_lowercase, digits
from typing import Any
from uuid import uuid4

from pydantic import Field

from graphql_api.codecs import Codec, Text, Uuid

_ID_LETTERS = ascii_lowercase + digits
_ID_LENGTH = 22
"""113 random bits: of so many ids that every table is full no two are the same"""


class Constraint:
    """A class attribute that says what no write may break; it may have any name."""

    attribute: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name


class UniqueTogether(Constraint):
    """No two records have the same values of these properties: `unique_num = UniqueTogether("project_id", "num")`.

    A record of which one of them is null is not held to it.
    """

    def __init__(self, *properties: str) -> None:
        self.properties = properties


class ForeignKey(Constraint):
    """A record exists only as long as the one that it names: `of_project = ForeignKey("Project", by="project_id")`.

    `by`: the properties that hold the other's id, in order. A record of which one of them is null names none.
    """

    def __init__(self, entity: str, *, by: str | Sequence[str]) -> None:
        self.entity = entity
        self.by: tuple[str, ...] = (by,) if isinstance(by, str) else tuple(by)


class Counted:
    """That a property is the next number of its group; pydantic's placeholder for it until it is taken."""

    __slots__ = ("group",)

    def __init__(self, group: tuple[str, ...]) -> None:
        self.group = group

    def __call__(self) -> None:
        """The placeholder."""


def counter(*group: str) -> Any:
    """The next number, from 1, among the records with the same values of `group`: `num: Int32 = counter("project_id")`.

    Without a group it counts all records of the entity. It is set when a record is created and never changes; no number
    comes twice, some may be left out.
    """
    return Field(default_factory=Counted(group))


class Generated:
    """Makes the values of a property, of the type that the property is found to have."""

    __slots__ = ("make",)

    def __init__(self) -> None:
        self.make: Callable[[], Any] = new_id

    def __call__(self) -> Any:
        return self.make()

    def fit(self, codec: Codec[Any] | None) -> bool:
        """Whether values of this type can be made, which they are from now on."""
        made = None if codec is None else _MADE.get(type(codec))
        self.make = made or new_id
        return made is not None


def generated() -> Any:
    """An id that is made where none is given: `user_id: Id[str] = generated()`, or `Id[UUID]`.

    Of any other type, give a `Field(default_factory=…)` of your own.
    """
    return Field(default_factory=Generated(), validate_default=True)


def new_id() -> str:
    """A new id for all time, of lower-case letters and digits."""
    return "".join(choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


_MADE: Mapping[type[Codec[Any]], Callable[[], Any]] = {Text: new_id, Uuid: uuid4}
