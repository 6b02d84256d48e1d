"""The books and authors of Strawberry's documentation, around a catalog: with documented calls of ShardQL only.

From the pages of Strawberry: types and own mutations (getting started), an extension that times operations (custom
extensions), a permission (permissions), a dataloader (dataloaders) and subscriptions (subscriptions).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import strawberry
from strawberry.dataloader import DataLoader
from strawberry.extensions import SchemaExtension
from strawberry.permission import BasePermission
from strawberry.types import Info

from graphql_api import Catalog, Entity, Graph, Id, Index, Ref
from graphql_api.schema import Connection, Context


class Author(Entity):
    """An author."""

    author_id: Id[str]
    name: str


class Book(Entity):
    """A book."""

    book_id: Id[str]
    title: str
    author_id: str

    by_author = Index(hash="author_id", sort="title")
    author = Ref("Author", by="author_id")


class Library:
    """What the application keeps by itself."""

    def __init__(self) -> None:
        self.loaded: list[list[str]] = []
        self.ratings = {"b1": 5, "b2": 3}
        self.operations: list[str] = []
        self.added: set[asyncio.Queue[str]] = set()

    async def load_ratings(self, keys: list[str]) -> list[int | None]:
        """Load the ratings of books in one batch."""
        self.loaded.append(sorted(keys))
        return [self.ratings.get(key) for key in keys]


class IsAuthenticated(BasePermission):
    """As in the page on permissions."""

    message = "User is not authenticated"
    error_extensions = {"code": "UNAUTHORIZED"}  # noqa: RUF012 - as in that page

    def has_permission(self, source: Any, info: Info, **kwargs: Any) -> bool:
        return info.context.caller.subject is not None


@strawberry.type
class Shelf:
    """A type of the application, in whose list are generated books."""

    name: str
    size: int


def library_graph(library: Library) -> Graph:  # noqa: C901 - as an application writes it
    """Return the graph of the application."""

    class Timing(SchemaExtension):
        def on_operation(self) -> Iterator[None]:
            started = time.perf_counter()
            yield
            name = self.execution_context.operation_name or "anonymous"
            library.operations.append(f"{name}: {time.perf_counter() - started >= 0}")

    def context_getter(request: Any, context: Context) -> dict[str, Any]:
        return {"ratings": DataLoader(load_fn=library.load_ratings)}

    graph = Graph(Catalog(Author, Book), extensions=[Timing], context_getter=context_getter)
    book_type, book_page = graph.record_type(Book), graph.page_type(Book)

    @strawberry.type
    class BookFields:
        @strawberry.field
        async def rating(self, info: Info) -> int | None:
            rating: int | None = await info.context.ratings.load(self.book_id)  # type: ignore[attr-defined]
            return rating

        @strawberry.field(permission_classes=[IsAuthenticated])  # type: ignore[untyped-decorator]
        def notes(self) -> str | None:
            return f"Notes on {self.title}"  # type: ignore[attr-defined]

    graph.extend(Book, BookFields)

    @graph.query
    @strawberry.type
    class Query:
        @strawberry.field
        def shelves(self) -> list[Shelf]:
            return [Shelf(name="novels", size=len(library.ratings))]

        @strawberry.field
        async def books_of(self, info: Info, name: str) -> book_page:  # type: ignore[valid-type]
            return Connection(await info.context.database.search(Book.by_author, author_id=name, limit=2))

    @graph.mutation
    @strawberry.type
    class Mutation:
        @strawberry.mutation
        async def add_book(self, info: Info, title: str, author: str) -> book_type:  # type: ignore[valid-type]
            number = len(library.ratings) + 1
            library.ratings[f"b{number}"] = 1
            book = await info.context.database.create(Book(book_id=f"b{number}", title=title, author_id=author))
            for queue in library.added:
                queue.put_nowait(book.book_id)
            return book  # type: ignore[no-any-return]

    @graph.subscription
    @strawberry.type
    class Subscription:
        @strawberry.subscription
        async def count(self, target: int = 3) -> AsyncGenerator[int, None]:
            for number in range(target):
                yield number

        @strawberry.subscription
        async def books_added(self, info: Info) -> AsyncGenerator[book_type | None, None]:  # type: ignore[valid-type]
            queue = asyncio.Queue[str](maxsize=10)
            library.added.add(queue)
            try:
                while True:
                    yield await info.context.database.get(Book, await queue.get())
            finally:
                library.added.discard(queue)

    return graph
