"""Declare joins of entities: to one record, to several records by id, or to pages of a search."""

from collections.abc import Sequence
from typing import Literal

JoinKind = Literal["one", "many", "page"]


class Join:
    """A class attribute that declares a field with related records of another entity."""

    kind: JoinKind
    attribute: str

    def __init__(self, entity: str, by: str | Sequence[str] | None, via: str | None, description: str | None) -> None:
        self.entity = entity
        self.by: tuple[str, ...] | None = None if by is None else (by,) if isinstance(by, str) else tuple(by)
        self.via = via
        self.description = description

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name


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
    By default these are the properties of the same names.
    """

    kind: JoinKind = "page"

    def __init__(
        self, entity: str, *, via: str, by: str | Sequence[str] | None = None, description: str | None = None
    ) -> None:
        super().__init__(entity, by, via, description)
