"""Subscriptions over WebSocket: the protocol graphql-transport-ws on a real server."""

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from time import time
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus

from graphql_api import asgi
from graphql_api.examples.users import catalog
from graphql_api.server.auth.bearer_tokens import mint_token
from graphql_api.server.auth.principals import Identity
from tests.server.notes_graph import Notices, notes_graph
from tests.server.subscription_client import SubscriptionClient, subscription_client
from tests.support.loopback import LOOPBACK, TIMEOUT, serve_app

CREATE = 'mutation { createNote(input: {noteId: "n1", text: "old"}) { note { text } } }'
UPDATE = 'mutation { updateNote(input: {id: "n1", text: "new"}) { note { text } } }'
CHANGES = 'subscription { noteChanges(first: "n1") { text contextNumber } }'


SETTINGS: dict[str, Any] = {
    "token_keys": bytes(range(32)).hex(),
    "max_connection_operations": 3,
    "max_body_bytes": 20_000,
    "cors_origins": "https://app.example.com",
}
SECRET = bytes(range(32))


def token(*groups: str, seconds: float = 3600.0) -> str:
    """Return the value of a header that authenticates ann."""
    minted = mint_token(SECRET, Identity("ann", frozenset(groups)), now=time(), seconds=seconds)
    return f"Bearer {minted}"


@pytest.fixture(scope="module")
def notices() -> Notices:
    """What the generators of the server do."""
    return Notices()


@pytest.fixture(scope="module")
def address(notices: Notices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with one note."""
    app = asgi(notes_graph(notices), f"sqlite:///{tmp_path_factory.mktemp('notes')}/notes.db", **SETTINGS)
    with serve_app(app) as found:
        httpx.post(f"{found}/graphql", json={"query": CREATE}, timeout=TIMEOUT).raise_for_status()
        yield found


class ErrorList(logging.Handler):
    """The errors that the process logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture(scope="module")
def logged_errors() -> Iterator[ErrorList]:
    """The errors that are logged while the tests of this module run."""
    handler = ErrorList()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def client(address: str) -> Iterator[SubscriptionClient]:
    """A client that is connected, and anonymous."""
    with subscription_client(address) as connected:
        assert connected.init()["requestId"]
        yield connected


def test_events(client: SubscriptionClient) -> None:
    """A subscription sends a response for each event, and completes with its generator."""
    client.subscribe("1", "subscription ($to: Int!) { count(to: $to) }", variables={"to": 2})
    assert [client.next("1"), client.next("1")] == [{"data": {"count": 0}}, {"data": {"count": 1}}]
    client.completed("1")


def test_trusted_documents(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The payload of an operation may name a trusted document instead of its text."""
    folder = tmp_path_factory.mktemp("documents")
    documents = folder / "documents.json"
    documents.write_text(json.dumps({"count": "subscription { count(to: 1) }"}))
    app = asgi(notes_graph(), f"sqlite:///{folder}/notes.db", documents=documents, only_documents=True)
    with serve_app(app) as address, subscription_client(address) as client:
        client.init()
        client.send(type="subscribe", id="1", payload={"documentId": "count"})
        assert client.next("1") == {"data": {"count": 0}}
        client.completed("1")
        client.subscribe("2", "subscription { count(to: 2) }")
        assert client.error_codes("2") == ["PERSISTED_QUERY_REQUIRED"]


def test_queries_and_mutations(client: SubscriptionClient) -> None:
    """Queries and mutations have one response."""
    client.subscribe("1", '{ note(id: "n1") { author } }')
    assert client.next("1") == {"data": {"note": {"author": "ann"}}}
    client.completed("1")
    client.subscribe("2", 'mutation { announce(noteId: "n1") }')
    assert client.next("2") == {"data": {"announce": 0}}
    client.completed("2")


def test_fresh_contexts(client: SubscriptionClient) -> None:
    """Each event has a context and dataloaders of its own, and shows the record as it is then."""
    client.subscribe("1", CHANGES)
    assert client.next("1")["data"]["noteChanges"]["text"] == "old"
    client.subscribe("2", UPDATE)
    client.next("2")
    client.completed("2")
    client.subscribe("3", 'mutation { announce(noteId: "n1") }')
    received = [client.receive() for _ in range(3)]
    (event,) = [message["payload"] for message in received if message.get("id") == "1"]
    assert event["data"]["noteChanges"] == {"text": "new", "contextNumber": 3}


# --- authentication --------------------------------------------------------------------------------------------

SECRETS = 'subscription { noteChanges(first: "n1") { secret } }'
WATCHED = "subscription { watched }"


def test_anonymous_clients(client: SubscriptionClient) -> None:
    """Rules on properties and permissions on subscriptions refuse anonymous clients as in a query."""
    client.subscribe("1", SECRETS)
    response = client.next("1")
    assert response["data"] == {"noteChanges": None}
    assert [error["extensions"]["code"] for error in response["errors"]] == ["FORBIDDEN"]
    client.send(type="complete", id="1")
    client.subscribe("2", WATCHED)
    assert client.error_codes("2") == ["FORBIDDEN"]


@pytest.mark.parametrize("sent_as", ["header", "payload", "Payload"])
def test_authenticated_clients(address: str, sent_as: str) -> None:
    """A bearer token is sent as a header, or by browsers as a member of the first message."""
    headers = {"authorization": token("Keepers")} if sent_as == "header" else {}
    payload = {} if headers else {"authorization" if sent_as == "payload" else "Authorization": token("Keepers")}
    with subscription_client(address, additional_headers=headers) as client:
        client.init(**payload)
        client.subscribe("1", SECRETS)
        assert client.next("1") == {"data": {"noteChanges": {"secret": "hidden"}}}
        client.subscribe("2", WATCHED)
        assert client.next("2") == {"data": {"watched": 1}}


@pytest.mark.parametrize(
    ("payload", "code", "reason"),
    [
        ({"authorization": "Bearer a.b.c"}, 4403, "header of the token"),
        ({"authorization": "Basic x"}, 4403, "must be the word Bearer"),
        ({"x-api-key": "no"}, 4403, "accepts no API keys"),
        ({"authorization": 5}, 4400, "authorization in the payload"),
        ({"x-max-units": "-1"}, 4400, "x-max-units is"),
    ],
)
def test_invalid_credentials(address: str, payload: dict[str, Any], code: int, reason: str) -> None:
    """Invalid credentials close the connection, with a code after which clients may connect again."""
    with subscription_client(address) as client:
        client.send(type="connection_init", payload=payload)
        closed = client.closed()
        assert closed[0] == code
        assert reason in closed[1]


def test_expired_token(address: str, notices: Notices) -> None:
    """A connection is closed when the token expires, and its subscriptions end."""
    with subscription_client(address) as client:
        client.init(authorization=token(seconds=-59.0))
        client.subscribe("1", CHANGES)
        client.next("1")
        assert client.closed() == (4403, "The token has expired: connect again with a new one")
    assert "ann" in notices.ended


# --- origins ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["https://app.example.com", None, "same"])
def test_allowed_origins(address: str, origin: str | None) -> None:
    """Pages of allowed origins connect, those of the server itself, and clients that are no browsers."""
    with subscription_client(address, origin=address if origin == "same" else origin) as client:
        client.init()


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"origin": "https://evil.example"}, 403, "CROSS_SITE_REQUEST"),
        ({"origin": "null"}, 403, "CROSS_SITE_REQUEST"),
        ({"host": "rebound.example.com"}, 421, "HOST_NOT_ALLOWED"),
    ],
)
def test_refused_origins(address: str, headers: dict[str, str], status: int, code: str) -> None:
    """The handshake of a page of another site is refused, and one under a name that is not the server's."""
    origin, host = headers.get("origin"), headers.get("host")
    server = (LOOPBACK, int(address.rpartition(":")[2]))
    name = f"http://{host or LOOPBACK}:{server[1]}"
    with pytest.raises(InvalidStatus) as refused, subscription_client(name, origin=origin, address=server):
        pass
    assert refused.value.response.status_code == status
    assert json.loads(refused.value.response.body or b"")["errors"][0]["extensions"]["code"] == code


# --- limits and errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("subscription {", "GRAPHQL_PARSE_FAILED"),
        ("subscription { unknown }", "GRAPHQL_VALIDATION_FAILED"),
        ("subscription { a: count(to: 1) b: count(to: 1) }", "GRAPHQL_VALIDATION_FAILED"),
        ("subscription ($to: Int!) { count(to: $to) }", "BAD_USER_INPUT"),
        (
            f"subscription {{ noteChanges(first: {'a' * 9000!r}) {{ ...a }} }}".replace("'", '"'),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (f"subscription {{ {' '.join(f'a{i}: __typename' for i in range(60))} }}", "TOO_MANY_ALIASES"),
        (f'{{ notes: noteByAuthor(author: "ann") {{ items {{ {"id " * 1990} }} }} }}', "QUERY_TOO_LONG"),
    ],
)
def test_refused_operations(client: SubscriptionClient, query: str, code: str) -> None:
    """An operation that the limits or the schema refuse has an error with a code, and the connection stays usable."""
    client.subscribe("1", query)
    assert set(client.error_codes("1")) == {code}
    client.subscribe("1", "{ __typename }")
    assert client.next("1") == {"data": {"__typename": "Query"}}


def test_masked_errors(client: SubscriptionClient) -> None:
    """An exception of a generator is masked, and ends the subscription."""
    client.subscribe("1", "subscription { count(to: 0, fails: true) }")
    response = client.next("1")
    assert response["data"] is None
    assert response["errors"][0]["extensions"]["code"] == "INTERNAL_ERROR"
    assert response["errors"][0]["path"] == ["count"]
    assert "sesame" not in str(response)
    client.completed("1")


def test_options_of_a_connection(address: str) -> None:
    """The id of the handshake leads to the log of each operation, and the first message may ask for explain output."""
    with subscription_client(address, additional_headers={"x-request-id": "tab-7"}) as client:
        assert client.init(**{"x-explain": "1"}) == {"requestId": "tab-7"}
        client.subscribe("1", "subscription { count(to: 0, fails: true) }")
        assert client.next("1")["errors"][0]["extensions"]["correlationId"].startswith("tab-7-")
        client.completed("1")
        client.subscribe("2", CHANGES)
        assert client.next("2")["extensions"] == {"explain": []}
        client.subscribe("3", '{ note(id: "n1") { text } }')
        assert client.next("3")["extensions"]["explain"][0]["path"] == ["note"]


def test_operations_of_a_connection(client: SubscriptionClient) -> None:
    """A connection has a limited number of operations in progress. A place is free when the client ends one."""
    for id in "123":
        client.subscribe(id, CHANGES)
        client.next(id)
    client.subscribe("4", CHANGES)
    assert client.error_codes("4") == ["TOO_MANY_SUBSCRIPTIONS"]
    client.send(type="complete", id="2")
    client.subscribe("4", CHANGES)
    client.next("4")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("x", 4400),
        ("[]", 4400),
        ("5", 4400),
        ('{"type": 5}', 4400),
        ('{"type": "dance"}', 4400),
        ('{"type": "subscribe", "payload": {"query": "{ a }"}}', 4400),
        ('{"type": "subscribe", "id": [], "payload": {"query": "{ a }"}}', 4400),
        ('{"type": "subscribe", "id": "1", "payload": []}', 4400),
        ('{"type": "connection_init", "payload": {}}', 4429),
        ('{"type": "ping", "type": "ping"}', 4400),
        ("[" * 5000, 4400),
        ('{"type": "ping", "payload": "' + "x" * 30_000 + '"}', 1009),
        (b"{}", 4400),
    ],
)
def test_invalid_messages(client: SubscriptionClient, message: str | bytes, code: int) -> None:
    """A message that is not one of the protocol closes the connection with a code of the protocol."""
    client.connection.send(message)
    assert client.closed()[0] == code


@pytest.mark.parametrize("payload", [{}, {"query": 5}, {"query": "{ a }", "variables": []}, {"query": None}])
def test_invalid_parameters(client: SubscriptionClient, payload: dict[str, Any]) -> None:
    """An operation with parameters of wrong types is refused, and the connection stays usable."""
    client.send(type="subscribe", id="1", payload=payload)
    assert client.error_codes("1") == ["INVALID_REQUEST"]
    client.send(type="ping")
    assert client.receive() == {"type": "pong"}


def test_order_of_messages(address: str) -> None:
    """Operations before the first message, and ids that are in use, close the connection."""
    with subscription_client(address) as client:
        client.subscribe("1", CHANGES)
        assert client.closed()[0] == 4401
    with subscription_client(address) as client:
        client.init()
        client.subscribe("1", CHANGES)
        client.subscribe("1", CHANGES)
        assert client.closed()[0] == 4409


def test_other_protocols(address: str) -> None:
    """A client that does not offer the protocol is disconnected with a code."""
    with subscription_client(address, subprotocols=["graphql-ws"]) as client:
        assert client.closed()[0] == 4406


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["query", "id", "type"]), inner),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["connection_init", "subscribe", "complete", "ping", "pong", "next", "error"]) | JSON,
        "id": st.sampled_from(["1", "2"]) | JSON,
        "payload": JSON | st.fixed_dictionaries({"query": st.sampled_from(["{ __typename }", WATCHED, "{"])}),
    },
)


@given(messages=st.lists(MESSAGES | JSON, max_size=4))
def test_hostile_messages(address: str, logged_errors: ErrorList, messages: list[Any]) -> None:
    """Whatever a client sends, the server logs no exception."""
    logged_errors.messages.clear()
    with subscription_client(address) as client:
        client.init()
        for message in messages:
            with suppress(ConnectionClosed):
                client.connection.send(json.dumps(message))
    assert logged_errors.messages == []


def test_schemas_without_subscriptions(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without a subscription root there is no WebSocket endpoint, and no stream of events."""
    app = asgi(catalog, f"sqlite:///{tmp_path_factory.mktemp('users')}/users.db")
    with serve_app(app) as address:
        with pytest.raises(InvalidStatus) as refused, subscription_client(address):
            pass
        assert refused.value.response.status_code == 403
        reply = httpx.get(f"{address}/graphql", headers={"accept": "text/event-stream"}, timeout=TIMEOUT)
        assert (reply.status_code, reply.json()["errors"][0]["extensions"]["code"]) == (406, "NOT_ACCEPTABLE")
