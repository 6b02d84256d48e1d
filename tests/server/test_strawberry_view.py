"""Strawberry's own ASGI view over a graph answers like the server."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import strawberry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route, WebSocketRoute
from strawberry.asgi import GraphQL

from graphql_api import Catalog, Entity, Graph, Id, Index, open_catalog
from graphql_api.schema.request_context import Caller, Context
from graphql_api.server import asgi
from tests.server.subscription_client import subscription_client
from tests.support.loopback import TIMEOUT, serve_app


class Book(Entity):
    """A book."""

    book_id: Id[str]
    author: str

    by_author = Index(hash="author", sort="book_id")


def language(request: Request | None, context: Context) -> dict[str, str]:
    """Return the language that a client asks for."""
    return {"language": request.headers["accept-language"] if request else "none"}


def library() -> Graph:
    """Return a graph with a field that uses the request."""
    graph = Graph(Catalog(Book), context_getter=language)

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def greeting(self, info: strawberry.Info[Any, None]) -> str:
            return f"{info.context.language} {info.context.request.url.path}"

        @strawberry.field
        def broken(self) -> int | None:
            raise RuntimeError("sesame")

    @graph.subscription
    @strawberry.type
    class Subscriptions:
        @strawberry.subscription
        async def greetings(self, info: strawberry.Info[Any, None]) -> AsyncGenerator[str, None]:
            yield f"{info.context.language} {info.context.caller.subject}"
            raise RuntimeError("sesame")

    return graph


class View(GraphQL[Any, None]):
    """The view of an application that authenticates by a header of its own."""

    def __init__(self, graph: Graph, database: Any) -> None:
        super().__init__(graph.schema)
        self.graph, self.database = graph, database

    async def get_context(self, request: Any, response: Any) -> Context:
        caller = Caller("c-1", subject=request.headers.get("x-user"))
        return await self.graph.context(self.database, caller, request)


def strawberry_app(store: str) -> Starlette:
    """Return an application with Strawberry's view."""
    graph = library()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with open_catalog(graph.catalog, store) as database:
            view = View(graph, database)
            app.router.routes += [Route("/graphql", view), WebSocketRoute("/graphql", view)]
            yield

    return Starlette(lifespan=lifespan)


@contextmanager
def client_of(app: Starlette) -> Iterator[httpx.Client]:
    """Serve an application over loopback."""
    headers = {"accept-language": "it", "accept": "application/json"}
    with serve_app(app) as address, httpx.Client(base_url=address, headers=headers, timeout=TIMEOUT) as client:
        yield client


DOCUMENTS = (
    "{ greeting }",
    '{ bookByAuthor(author: "Eco") { items { bookId } } }',
    'mutation { createBook(input: {bookId: "b1", author: "Eco"}) { book { bookId author } } }',
    'mutation { createBook(input: {bookId: "b1", author: "Eco"}) { book { bookId } } }',
    '{ book(id: "b1") { author } bookByAuthor(author: "Eco") { items { bookId } totalCount { value } } }',
    "{ wrong }",
    "{ broken }",
    '{ bookByAuthor(author: "Eco", limit: 100000) { items { bookId } } }',
    "{",
    "query ($id: ID!) { book(id: $id) { author } }",
)


@pytest.mark.timeout(60)
def test_view_answers_like_the_server(tmp_path: Path) -> None:
    """Queries, mutations and errors have the same data, codes, paths and locations over both."""
    server = asgi(library(), f"sqlite:///{tmp_path}/server.db")
    with client_of(server) as ours, client_of(strawberry_app(f"sqlite:///{tmp_path}/view.db")) as theirs:
        for query in DOCUMENTS:
            bodies = [client.post("/graphql", json={"query": query}).json() for client in (ours, theirs)]
            for body in bodies:
                body.setdefault("data", None)
                for error in body.get("errors", ()):
                    error["extensions"].pop("correlationId", None)
                    error["message"] = error["message"].split(" The log")[0].split(" Its log")[0]
            assert bodies[0]["data"] == bodies[1]["data"], query
            codes = [[error["extensions"] for error in body.get("errors", ())] for body in bodies]
            assert codes[0] == codes[1], query
        refused = theirs.get("/graphql", params={"query": DOCUMENTS[2]})
        assert refused.json()["errors"][0]["extensions"]["code"] == "METHOD_NOT_ALLOWED"


@pytest.mark.timeout(60)
def test_subscriptions_of_the_view(tmp_path: Path) -> None:
    """Subscriptions over the view have the same events and masked errors as over the server."""
    server = asgi(library(), f"sqlite:///{tmp_path}/server.db")
    headers = {"accept-language": "it", "x-user": "ann"}
    for app, subject in ((server, "None"), (strawberry_app(f"sqlite:///{tmp_path}/view.db"), "ann")):
        with serve_app(app) as address, subscription_client(address, additional_headers=headers) as client:
            client.send(type="connection_init")
            assert client.receive()["type"] == "connection_ack"
            client.subscribe("1", "subscription { greetings }")
            assert client.next("1") == {"data": {"greetings": f"it {subject}"}}
            failed = client.next("1")
            assert (failed["data"], failed["errors"][0]["extensions"]["code"]) == (None, "INTERNAL_ERROR")
            client.completed("1")
            client.subscribe("2", "subscription { wrong }")
            assert client.error_codes("2") == ["GRAPHQL_VALIDATION_FAILED"]
