"""A catalog whose records need more than codecs: validators, nested values, hooks, custom fields, a namespace."""

from typing import Annotated, Any, Literal
from uuid import UUID

import strawberry
from pydantic import Field, field_validator
from strawberry.extensions import FieldExtension

from graphql_api import Catalog, Entity, HasMany, Hidden, Id, Index, Int32, Ref, RefMany, Shards, derived
from graphql_api.codecs import RecordKey
from graphql_api.schema.graph import Graph
from tests.schema.test_nested_values import Address
from tests.schema.test_values import Level


class Author(Entity):
    """Has a validator that changes values, and types that pydantic checks."""

    author_id: Id[str]
    name: str
    rank: Literal["a", "b"] = "a"
    code: Annotated[str, Field(min_length=2)] = "xx"
    internal: Hidden[str] = "s"

    by_name = Index(sort="name", projection=["code"])
    books = HasMany("Book", via="by_author")

    @field_validator("name")
    @classmethod
    def _shouted(cls, name: str) -> str:
        return name.upper()


class Book(Entity, shards=Shards(3)):
    """Has nested values, keys of other records, and a derived property that fails for some titles."""

    book_id: Id[UUID]
    title: str
    author_id: str | None = None
    home: Address | None = None
    homes: list[Address] = Field(default_factory=list)
    levels: set[Level] = Field(default_factory=set)
    level: Level | None = None
    pages: Int32 | None = 7
    weight: float | None = None
    number: int = 5
    initial: str = derived(lambda title: title[0], "title")
    origin: RecordKey | None = None
    others: list[UUID] = Field(default_factory=list)
    anything: Any = None
    old: Annotated[int, Field(deprecated="Take `number`.")] = 0

    by_title = Index(sort="title")
    by_author = Index(hash="author_id", sort="pages")

    author = Ref("Author", by="author_id")
    related = RefMany("Book", by="others")


class _Doubled(FieldExtension):
    async def resolve_async(self, next_: Any, source: Any, info: Any, **arguments: Any) -> Any:
        return await next_(source, info, **arguments)

    def resolve(self, next_: Any, source: Any, info: Any, **arguments: Any) -> Any:
        return f"{next_(source, info, **arguments)}{source.book_id}"


@strawberry.type
class _BookFields:
    @strawberry.field
    def size(self, root: strawberry.Parent[Any]) -> int:
        return len(root.title) // len(root.homes)  # It fails for some books.

    @strawberry.field
    async def later(self, root: strawberry.Parent[Any]) -> str:
        return str(root.title)


CATALOG = Catalog(Author, Book, namespace="Lib")


def make_graph() -> Graph:
    """Return the graph with a hook and custom fields."""
    graph = Graph(CATALOG)
    graph.extend(Book, _BookFields)
    graph.hook("Lib_Book.title", _Doubled())
    return graph


_BOOKS = [UUID(int=number) for number in range(1, 9)]
RECORDS: tuple[Entity, ...] = (
    Author(author_id="a", name="Ann"),
    Author(author_id="b", name="bob", rank="b"),
    *(
        Book(
            book_id=book_id,
            title=f"t{at % 3}é",
            author_id=("a", "b", "c", None)[at % 4],
            home=Address(street_name="s", number=at, inners=[None]) if at % 2 else None,
            homes=[Address(street_name="é", number=one, position=(0.5,)) for one in range(at % 3)],
            levels=set([*Level][: at % 3]),
            level=[*Level][at % len(Level)] if at % 2 else None,
            pages=at % 4 if at % 3 else None,
            weight=at / 4 if at % 2 else None,
            origin=RecordKey("author", ("a",)) if at % 2 else None,
            others=_BOOKS[at : at + 2],
            anything=({"a": [1, 2.5, None]}, 3, None)[at % 3],
        )
        for at, book_id in enumerate(_BOOKS)
    ),
)
