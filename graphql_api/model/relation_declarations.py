"""Declare joins, constraints across records, counters and generated ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from graphql_api.codecs import Codec, new_id
from graphql_api.model.access_declarations import RulesArgument, normalize_rules

JoinKind = Literal["one", "many", "page"]


class Join:
    """A class attribute that declares a field with related records of another entity."""

    kind: JoinKind

    def __init__(self, entity: str, by: str | Sequence[str] | None, via: str | None, description: str | None) -> None:
        self.entity = entity
        self.by: tuple[str, ...] | None = (by,) if isinstance(by, str) else None if by is None else tuple(by)
        self.via = via
        self.description = description


class Ref(Join):
    """Join one record of another entity: `customer = Ref("Customer", by="customer_id")`.

    `by`: the properties that hold its id, in order.
    `via`: an index of that entity. `by` then holds its hash properties and sort properties, in order, and the first
    record of that search is joined.
    """

    kind: JoinKind = "one"

    def __init__(
        self, entity: str, *, by: str | Sequence[str], via: str | None = None, description: str | None = None
    ) -> None:
        super().__init__(entity, by, via, description)


class RefMany(Join):
    """Join several records of another entity by id: `products = RefMany("Product", by="product_ids")`.

    `by`: the property that lists their ids. A record that does not exist is null in the result.
    """

    kind: JoinKind = "many"

    def __init__(self, entity: str, *, by: str, description: str | None = None) -> None:
        super().__init__(entity, by, None, description)


class HasMany(Join):
    """Join pages of a search of another entity: `emails = HasMany("Email", via="by_user")`.

    `via`: an index or union of that entity, or `by_id` if its records have sub ids.
    `by`: the properties that hold the values of its hash properties, or of its ids for `by_id`, in order.
    By default these are the properties of the same names. One of them may list several values.
    """

    kind: JoinKind = "page"

    def __init__(
        self, entity: str, *, via: str, by: str | Sequence[str] | None = None, description: str | None = None
    ) -> None:
        super().__init__(entity, by, via, description)


# --- constraints -----------------------------------------------------------------------------------------------


class Constraint:
    """A class attribute that declares a constraint on writes. The attribute may have any name."""

    use: ClassVar[str]
    """how it uses its properties, for messages"""
    properties: tuple[str, ...]


class UniqueTogether(Constraint):
    """The values of these properties are unique together: `unique_num = UniqueTogether("project_id", "num")`.

    The constraint does not apply to a record in which one of the properties is null.
    """

    use = "is unique by"

    def __init__(self, *properties: str) -> None:
        self.properties = properties


class ForeignKey(Constraint):
    """The referenced record must exist: `of_project = ForeignKey("Project", by="project_id")`.

    `by`: the properties that hold the id of the referenced record, in order.
    A record in which one of them is null references no record.
    `allow`: who may reference a record, by default those who may read it. Their properties are those of that record.
    """

    use = "references a record by"

    def __init__(self, entity: str, *, by: str | Sequence[str], allow: RulesArgument = None) -> None:
        self.entity = entity
        self.properties = (by,) if isinstance(by, str) else tuple(by)
        self.allow = normalize_rules(allow)


@dataclass(frozen=True, slots=True)
class Counted:
    """Mark a property as a counter of its group. As a default factory, provide null until a number is assigned."""

    group: tuple[str, ...]

    def __call__(self) -> None:
        """Return the placeholder, null."""


def counter(*group: str) -> Any:
    """Number the records with the same values of `group`, from 1: `num: Int32 = counter("project_id")`.

    Without a group, all records of the entity are numbered together. The number is assigned when a record is created
    and never changes. Numbers are unique within the group, but some may be skipped.
    """
    return Field(default_factory=Counted(group))


class ServerSet:
    """Leave a property to the server. As a default factory, provide null until the record is written."""

    def __call__(self) -> None:
        """Return the placeholder, null."""


def server_set() -> Any:
    """Let the server set the value: `created: Created[Timestamp] = server_set()`, and `Updated` and `Version` too.

    Constructors then do not require the value. A record has null there until it is written.
    """
    return Field(default_factory=ServerSet())


class Generated:
    """Generate the default values of a property, as a default factory that depends on the property's type."""

    def __init__(self) -> None:
        self.factory: Callable[[], Any] = new_id

    def __call__(self) -> Any:
        return self.factory()

    def select_factory(self, codec: Codec[Any] | None) -> bool:
        """Generate values of the codec's type from now on. Return whether that type is supported."""
        factory = None if codec is None else codec.generate
        self.factory = factory or new_id
        return factory is not None


def generated() -> Any:
    """Generate an id if none is provided: `user_id: Id[str] = generated()`, or `Id[UUID]`.

    For other types, declare a `Field(default_factory=…)`.
    """
    return Field(default_factory=Generated(), validate_default=True)
