"""The words that join entities: one record, several, or a page of them, found by what a record holds."""

from collections.abc import Sequence
from typing import Literal

Kind = Literal["one", "many", "page"]


class Join:
    """A class attribute that stands for records of another entity."""

    kind: Kind
    attribute: str

    def __init__(self, entity: str, by: str | Sequence[str] | None, via: str | None, description: str | None) -> None:
        self.entity = entity
        self.by: tuple[str, ...] | None = None if by is None else (by,) if isinstance(by, str) else tuple(by)
        self.via = via
        self.description = description

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name


class Ref(Join):
    """One record of another entity: `customer = Ref("Customer", by="customer_id")`.

    `by`: the properties that hold its id, in order; with `via`, an index of that entity, its hash properties and then
    its sort properties, and the first record there is it.
    """

    kind: Kind = "one"

    def __init__(
        self, entity: str, *, by: str | Sequence[str], via: str | None = None, description: str | None = None
    ) -> None:
        super().__init__(entity, by, via, description)


class RefMany(Join):
    """Several records of another entity: `products = RefMany("Product", by="product_ids")`.

    `by`: the property that lists their ids; those that are not there are left out of the answer's list as null.
    """

    kind: Kind = "many"

    def __init__(self, entity: str, *, by: str, description: str | None = None) -> None:
        super().__init__(entity, by, None, description)


class HasMany(Join):
    """Pages of another entity: `emails = HasMany("Email", via="by_user")`.

    `via`: an index of that entity, or a union, or `by_id` where its records have sub ids. `by`: the properties that its
    hash properties (of `by_id`: its ids) are found by, in order; those of the same names, if nothing is said.
    """

    kind: Kind = "page"

    def __init__(
        self, entity: str, *, via: str, by: str | Sequence[str] | None = None, description: str | None = None
    ) -> None:
        super().__init__(entity, by, via, description)
