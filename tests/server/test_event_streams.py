"""Subscriptions over server-sent events: the protocol graphql-sse in its mode of distinct connections."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from time import time
from typing import Any

import httpx
import pytest

from graphql_api import asgi
from graphql_api.server.auth.bearer_tokens import mint_token
from graphql_api.server.auth.principals import Identity
from tests.server.notes_graph import Notices, notes_graph
from tests.support.loopback import TIMEOUT, serve_app

SECRET = bytes(range(32))
ACCEPT = {"accept": "text/event-stream"}
COUNT = "subscription { count(to: 2) }"
CHANGES = 'subscription { noteChanges(first: "n1") { text } }'
COMPLETE = ("complete", None)


@pytest.fixture(scope="module")
def notices() -> Notices:
    """What the generators of the server do."""
    return Notices()


@pytest.fixture(scope="module")
def client(notices: Notices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server without notes."""
    store = f"sqlite:///{tmp_path_factory.mktemp('notes')}/notes.db"
    settings: dict[str, Any] = {"token_keys": SECRET.hex(), "keep_alive_seconds": 0.1, "max_subscriptions": 2}
    with (
        serve_app(asgi(notes_graph(notices), store, **settings)) as address,
        httpx.Client(base_url=address, headers=ACCEPT, timeout=TIMEOUT) as connected,
    ):
        yield connected


def events(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    """Yield the name and the data of each event; comments have the name of a colon."""
    name = ""
    for line in response.iter_lines():
        field, _, value = line.partition(":")
        if field == "event":
            name = value.strip()
        elif field == "data":
            yield name, json.loads(value) if value.strip() else None
        elif line:
            yield ":", None


@contextmanager
def stream(client: httpx.Client, query: str, **headers: str) -> Iterator[Iterator[tuple[str, Any]]]:
    """Subscribe, and yield the events but no comments."""
    with client.stream("POST", "/graphql", json={"query": query}, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield (event for event in events(response) if event[0] != ":")


def codes(event: tuple[str, Any]) -> list[str]:
    """Return the error codes of an event."""
    return [error["extensions"]["code"] for error in event[1]["errors"]]


def test_events(client: httpx.Client) -> None:
    """Each event of a subscription is one of the stream, which ends with `complete`."""
    with stream(client, COUNT) as found:
        assert [*found] == [("next", {"data": {"count": 0}}), ("next", {"data": {"count": 1}}), COMPLETE]


def test_get(client: httpx.Client) -> None:
    """A GET subscribes if it cannot come from another site, and changes nothing."""
    safe = {"apollo-require-preflight": "1"}
    reply = client.get("/graphql", params={"query": COUNT}, headers=safe)
    assert len([*events(reply)]) == 3
    reply = client.get("/graphql", params={"query": 'mutation { announce(noteId: "n1") }'}, headers=safe)
    assert codes(next(events(reply))) == ["METHOD_NOT_ALLOWED"]
    reply = client.get("/graphql", params={"query": COUNT})
    assert (reply.status_code, reply.json()["errors"][0]["extensions"]["code"]) == (403, "CROSS_SITE_REQUEST")


def test_queries_and_mutations(client: httpx.Client) -> None:
    """Queries and mutations are streams of one response."""
    for query, data in (
        ("{ __typename }", {"__typename": "Query"}),
        ('mutation { announce(noteId: "n") }', {"announce": 0}),
    ):
        with stream(client, query) as found:
            assert [*found] == [("next", {"data": data}), COMPLETE]


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/graphql-response+json"])
def test_other_media_types(client: httpx.Client, accept: str) -> None:
    """A subscription whose client accepts only one response is refused, with the remedy; queries get JSON."""
    reply = client.post("/graphql", json={"query": COUNT}, headers={"accept": accept})
    (error,) = reply.json()["errors"]
    assert error["extensions"]["code"] == "NOT_ACCEPTABLE"
    assert "accept: text/event-stream" in error["message"]
    both = {"accept": f"{accept}, text/event-stream;q=0.5"}
    assert client.post("/graphql", json={"query": "{ __typename }"}, headers=both).json() == {
        "data": {"__typename": "Query"}
    }


@pytest.mark.parametrize(
    ("query", "code"),
    [("subscription {", "GRAPHQL_PARSE_FAILED"), ("subscription { x }", "GRAPHQL_VALIDATION_FAILED")],
)
def test_refused_operations(client: httpx.Client, query: str, code: str) -> None:
    """An operation that is refused is a stream with its errors."""
    with stream(client, query) as found:
        (event, end) = found
    assert (codes(event), end) == ([code], COMPLETE)


def test_refused_requests(client: httpx.Client) -> None:
    """Requests that are wrong as such have the status of their error, without a stream."""
    reply = client.post("/graphql", json=[])
    assert (reply.status_code, reply.json()["errors"][0]["extensions"]["code"]) == (400, "INVALID_REQUEST")
    reply = client.post("/graphql", json={"query": COUNT}, headers={"authorization": "Bearer a.b.c"})
    assert reply.status_code == 401


def test_masked_errors(client: httpx.Client) -> None:
    """An exception of a generator is masked, and ends the subscription."""
    with stream(client, "subscription { count(to: 1, fails: true) }") as found:
        (_, failed, end) = found
    assert (codes(failed), end) == (["INTERNAL_ERROR"], COMPLETE)
    assert "sesame" not in str(failed)


def test_keep_alive(client: httpx.Client) -> None:
    """A stream without events has comments, so that no proxy closes it."""
    body = {"query": CHANGES}
    with client.stream("POST", "/graphql", json=body) as response:
        found = events(response)
        assert next(found) == ("next", {"data": {"noteChanges": None}})
        assert [next(found), next(found)] == [(":", None)] * 2


def test_disconnect(client: httpx.Client, notices: Notices) -> None:
    """When the client disconnects, the generator ends."""
    notices.ended.clear()
    with client.stream("POST", "/graphql", json={"query": CHANGES}) as response:
        next(events(response))
    wait_for_ends(client, notices, 1)


def wait_for_ends(client: httpx.Client, notices: Notices, count: int) -> None:
    """Wait until this number of generators have ended."""
    end = time() + TIMEOUT
    while len(notices.ended) < count:
        assert time() < end, "the generator does not end"
        client.post("/graphql", json={"query": "{ __typename }"})


def test_slow_clients(client: httpx.Client, notices: Notices) -> None:
    """A client that does not read stops the generator: only the buffers of the connection are filled."""
    notices.produced = 0
    notices.ended.clear()
    with client.stream("POST", "/graphql", json={"query": "subscription { forever }"}) as response:
        found = events(response)
        next(found)
        produced = -1
        while produced != notices.produced:
            produced = notices.produced
            for _ in range(20):
                client.post("/graphql", json={"query": "{ __typename }"})
        assert produced < 2_000
    wait_for_ends(client, notices, 1)


def test_number_of_subscriptions(client: httpx.Client, notices: Notices) -> None:
    """A process has a limited number of open subscriptions."""
    notices.ended.clear()
    with stream(client, CHANGES) as first, stream(client, CHANGES) as second:
        next(first)
        next(second)
        with stream(client, CHANGES) as found:
            (refused, end) = found
        assert (codes(refused), end) == (["TOO_MANY_SUBSCRIPTIONS"], COMPLETE)
    wait_for_ends(client, notices, 2)


def test_expired_token(client: httpx.Client) -> None:
    """A stream is cut off when the token expires, without `complete`, so that clients subscribe again."""
    minted = mint_token(SECRET, Identity("ann"), now=time(), seconds=-59.0)
    with stream(client, CHANGES, authorization=f"Bearer {minted}") as found:
        assert [name for name, _ in found] == ["next"]
