"""A Strawberry application around a catalog: books and authors, served inside a FastAPI application."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from graphql_api import asgi
from graphql_api.server.auth.bearer_tokens import mint_token
from graphql_api.server.auth.principals import Identity
from tests.server.books_application import Library, library_graph
from tests.server.subscription_client import subscription_client
from tests.support.loopback import TIMEOUT, serve_app

SECRET = bytes(range(32))
QUERIES = (
    '{ bookByAuthor(authorId: "eco") { items { title rating author { name } } } shelves { name size } }',
    '{ booksOf(name: "eco") { items { title rating notes } nextToken } }',
    '{ book(id: "b1") { id title notes rating } author(id: "eco") { name } }',
    "query Broken { book(id: 5) { nope } }",
)
WRITES = (
    'mutation { createAuthor(input: {authorId: "eco", name: "Umberto Eco"}) { author { name } } }',
    'mutation { createBook(input: {bookId: "b1", title: "Baudolino", authorId: "eco"}) { book { title } } }',
    'mutation { createBook(input: {bookId: "b2", title: "Foucault", authorId: "eco"}) { book { title } } }',
)
ADD = 'mutation Add { addBook(title: "The Name of the Rose", author: "eco") { title rating author { name } } }'


def token() -> str:
    """Return the header of an authenticated reader."""
    return f"Bearer {mint_token(SECRET, Identity('ann'), now=time(), seconds=3600)}"


@contextmanager
def serve_library(library: Library, store: str, **settings: Any) -> Iterator[httpx.Client]:
    """Serve a FastAPI application that has the endpoint beside a route of its own."""
    app = FastAPI()

    @app.get("/health")
    def health() -> dict[str, bool]:
        return {"ok": True}

    app.mount("/library", asgi(library_graph(library), store, token_keys=SECRET.hex(), **settings))
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        assert client.get("/health").json() == {"ok": True}
        yield client


def post(client: httpx.Client, query: str, **headers: str) -> bytes:
    """Return the bytes of the response to an operation."""
    return client.post("/library/graphql", json={"query": query}, headers=headers).content


@pytest.mark.timeout(90)
def test_application(tmp_path: Path) -> None:
    """Types, extension, permission, dataloader, mutations and subscriptions work together, by both executions alike."""
    store = f"sqlite:///{tmp_path}/library.db"
    seen = []
    for compiled in (True, False):
        library = Library()
        with serve_library(library, store, compiled_documents=compiled) as client:
            if compiled:
                assert all(b"errors" not in post(client, write) for write in WRITES)
                library.operations.clear()
            seen.append([post(client, query) for query in QUERIES])
            seen[-1] += [post(client, query, authorization=token()) for query in QUERIES]
            assert library.loaded == [["b1", "b2"], ["b1", "b2"], ["b1"]] * 2
            assert library.operations == ["anonymous: True", "anonymous: True", "anonymous: True", "Broken: True"] * 2
    assert seen[0] == seen[1]
    first, anonymous, *_ = [json.loads(body) for body in seen[0]]
    assert first["data"]["bookByAuthor"]["items"][0] == {
        "title": "Baudolino",
        "rating": 5,
        "author": {"name": "Umberto Eco"},
    }
    assert [error["extensions"]["code"] for error in anonymous["errors"]] == ["UNAUTHORIZED"] * 2
    assert json.loads(seen[0][5])["data"]["booksOf"]["items"][0]["notes"] == "Notes on Baudolino"


@pytest.mark.timeout(90)
def test_subscriptions(tmp_path: Path) -> None:
    """A subscription of the application receives what its own mutation adds, with joins and dataloaders."""
    with serve_library(Library(), f"sqlite:///{tmp_path}/library.db") as client:
        assert b"errors" not in post(client, WRITES[0])
        with subscription_client(str(client.base_url), "/library/graphql") as subscriber:
            subscriber.init(authorization=token())
            subscriber.subscribe("1", "subscription { booksAdded { title rating notes author { name } } }")
            subscriber.subscribe("2", "subscription { count(target: 2) }")
            assert [subscriber.next("2"), subscriber.next("2")] == [{"data": {"count": 0}}, {"data": {"count": 1}}]
            subscriber.completed("2")
            assert json.loads(post(client, ADD))["data"]["addBook"]["rating"] == 1
            assert subscriber.next("1") == {
                "data": {
                    "booksAdded": {
                        "title": "The Name of the Rose",
                        "rating": 1,
                        "notes": "Notes on The Name of the Rose",
                        "author": {"name": "Umberto Eco"},
                    }
                }
            }
