"""Methods, URLs, content negotiation and headers over a real connection."""

import json
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from graphql_api.server.app import build_app
from graphql_api.server.graphql_request import MAX_URL_BYTES
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import RawConnection, Reply, serve_app

GOOD = b'{"query": "{ a }"}'
JSON = "application/json"
GRAPHQL = "application/graphql-response+json"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

EXECUTOR = ScriptedExecutor()


def page(_: Request) -> Response:
    """The page for browsers."""
    return HTMLResponse("<p>a page")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The URL of the server."""
    with serve_app(build_app(EXECUTOR, no_database(), Settings(), browser_page=page)) as found:
        yield found


@pytest.fixture
def connection(address: str) -> Iterator[RawConnection]:
    """A connection, which must be usable after the test."""
    with RawConnection(address) as connection:
        yield connection
        assert connection.post(GOOD).status == 200


def get(connection: RawConnection, parameters: str, method: str = "GET", **headers: str) -> Reply:
    """Send a GET as a client that is no browser."""
    return connection.exchange(f"{method} /graphql?{parameters}", **{"apollo_require_preflight": "1", **headers})


# --- URLs ------------------------------------------------------------------------------------------------------


def test_get(connection: RawConnection) -> None:
    """A GET provides query, operation name, variables and extensions in its URL, and is read-only."""
    sent = {
        "query": "query A { a }",
        "operationName": "A",
        "variables": '{"v": 18446744073709551617, "t": "ü+ &"}',
        "extensions": '{"e": 1}',
    }
    assert get(connection, urlencode(sent)).json["data"]["name"] == "A"
    operation = EXECUTOR.operations[-1]
    assert (operation.query, operation.name, operation.extensions) == ("query A { a }", "A", {"e": 1})
    assert operation.variables == {"v": 18446744073709551617, "t": "ü+ &"}
    assert EXECUTOR.callers[-1].read_only
    assert connection.post(GOOD).status == 200
    assert not EXECUTOR.callers[-1].read_only


def test_empty_parameters(connection: RawConnection) -> None:
    """An empty URL parameter means not provided. Plus signs are spaces."""
    assert get(connection, "query={+a+}&operationName=&variables=&extensions=&documentId=&utm=1").status == 200
    operation = EXECUTOR.operations[-1]
    assert (operation.query, operation.name, operation.variables) == ("{ a }", None, {})


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("", "INVALID_REQUEST"),
        ("operationName=A", "INVALID_REQUEST"),
        ("query=%7Ba%7D&query=%7Bb%7D", "INVALID_REQUEST"),
        ("query=%7", "INVALID_REQUEST"),
        ("query=%zz", "INVALID_REQUEST"),
        ("query=%", "INVALID_REQUEST"),
        ("query=%ff%fe", "INVALID_REQUEST"),
        ("query=%ed%a0%80", "INVALID_REQUEST"),
        ("query=%7Ba%7D&variables=%7B", "INVALID_JSON"),
        ("query=%7Ba%7D&variables=1", "INVALID_REQUEST"),
        ("query=%7Ba%7D&variables=NaN", "INVALID_JSON"),
        ("query=%7Ba%7D&variables=" + quote('{"a": "\\ud800"}'), "INVALID_JSON"),
        ("query=%7Ba%7D&extensions=[]", "INVALID_REQUEST"),
        ("&".join(f"a{n}=1" for n in range(60)), "INVALID_REQUEST"),
    ],
)
def test_invalid_urls(connection: RawConnection, parameters: str, code: str) -> None:
    """An invalid URL is a 400 with a code."""
    executed = len(EXECUTOR.operations)
    reply = get(connection, parameters)
    assert (reply.status, reply.codes) == (400, [code])
    assert len(EXECUTOR.operations) == executed


def test_url_size_limit(connection: RawConnection) -> None:
    """A URL of the maximum length is accepted. One more byte is a 414."""
    room = MAX_URL_BYTES - len("/graphql") - len("query=")
    assert get(connection, "query=" + "a" * room).status == 200
    reply = get(connection, "query=" + "a" * (room + 1))
    assert (reply.status, reply.codes) == (414, ["URL_TOO_LONG"])


def test_body_of_a_get(connection: RawConnection) -> None:
    """The body of a GET is drained."""
    reply = connection.exchange("GET /graphql?query={a}", b" " * 300_000, apollo_require_preflight="1")
    assert reply.status == 200


def test_mutation_by_get(connection: RawConnection) -> None:
    """A mutation by GET is a 405 that names POST, with both media types."""
    for media_type in (JSON, GRAPHQL):
        reply = get(connection, "query=refuse+405", accept=media_type)
        assert (reply.status, reply.headers["allow"]) == (405, "POST")


# --- methods and paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
def test_unsupported_methods(connection: RawConnection, method: str) -> None:
    """Another method is a 405 that names the supported ones."""
    reply = connection.exchange(f"{method} /graphql", GOOD, content_type=JSON)
    assert (reply.status, reply.codes) == (405, ["METHOD_NOT_ALLOWED"])
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS, POST"


@pytest.mark.parametrize("path", ["/graphql/", "/graphql/x", "/Graphql", "/%67raph%71l%2f", "/..%2f", "/ü", "*"])
def test_unknown_paths(connection: RawConnection, path: str) -> None:
    """Another path is a 404, not a redirect."""
    reply = connection.exchange(f"POST {quote(path, safe='/%*')}", GOOD, content_type=JSON)
    assert (reply.status, reply.codes) == (404, ["NOT_FOUND"])


def test_head(connection: RawConnection) -> None:
    """HEAD returns the status and headers of GET, without a body."""
    headers = get(connection, "query={a}").headers
    reply = get(connection, "query={a}", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert {**reply.headers, "x-request-id": "", "date": ""} == {**headers, "x-request-id": "", "date": ""}
    assert get(connection, "", method="HEAD").status == 400


def test_options(connection: RawConnection) -> None:
    """OPTIONS lists the supported methods."""
    reply = connection.exchange("OPTIONS /graphql")
    assert (reply.status, reply.body, reply.headers["allow"]) == (204, b"", "GET, HEAD, OPTIONS, POST")


# --- media types -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (JSON, JSON),
        (GRAPHQL, GRAPHQL),
        (f"{GRAPHQL};charset=utf-8, {JSON};charset=utf-8", GRAPHQL),
        (f"{JSON}, {GRAPHQL}", GRAPHQL),
        (f"{GRAPHQL};q=0.5, {JSON}", JSON),
        (f"{GRAPHQL};q=0, */*", JSON),
        (f"{JSON};q=0, */*", GRAPHQL),
        (f"{JSON};q=x, {GRAPHQL};q=0.1", GRAPHQL),
        (f"text/html, {GRAPHQL.upper()}", GRAPHQL),
        ("text/html, */*;q=0.1", JSON),
        (", ,", JSON),
    ],
)
def test_media_types(connection: RawConnection, accept: str | None, media_type: str) -> None:
    """The response has the preferred media type in UTF-8. Without a preference it is `application/json`."""
    reply = connection.post(GOOD, **({} if accept is None else {"accept": accept}))
    assert (reply.status, reply.headers["content-type"]) == (200, f"{media_type}; charset=utf-8")


@pytest.mark.parametrize("accept", ["text/html", "text/*", "image/png, */*;q=0", f"{JSON};q=0"])
def test_unacceptable_media_types(connection: RawConnection, accept: str) -> None:
    """A client that accepts no supported media type gets a 406 in JSON."""
    reply = connection.post(GOOD, accept=accept)
    assert (reply.status, reply.codes) == (406, ["NOT_ACCEPTABLE"])
    assert reply.headers["content-type"] == f"{JSON}; charset=utf-8"


def test_status_by_media_type(connection: RawConnection) -> None:
    """A refused operation has its own status. With `application/json`, an invalid query is a 200."""
    for status, older in ((400, 200), (403, 403), (503, 503)):
        body = json.dumps({"query": f"refuse {status}"}).encode()
        for media_type, expected in ((GRAPHQL, status), (JSON, older)):
            reply = connection.post(body, accept=media_type)
            assert (reply.status, reply.codes) == (expected, [f"REFUSED_{status}"])
            assert "data" not in reply.json


def test_http_errors_by_media_type(connection: RawConnection) -> None:
    """An HTTP error has the same status with both media types, and the requested media type."""
    for media_type in (JSON, GRAPHQL):
        reply = connection.post(b"1", accept=media_type)
        assert (reply.status, reply.headers["content-type"]) == (400, f"{media_type}; charset=utf-8")


def test_browsers_get_the_page(connection: RawConnection) -> None:
    """A browser gets the page, even with a query in the URL. A JSON client never gets it."""
    for path in ("/graphql", "/graphql?query={a}"):
        assert connection.exchange(f"GET {path}", accept=BROWSER).body == b"<p>a page"
        assert connection.exchange(f"GET {path}", accept="*/*").codes
    assert connection.post(GOOD, accept=BROWSER).status == 200


def test_browsers_without_a_page() -> None:
    """Without a page, a browser gets a JSON error that names what is missing."""
    with serve_app(build_app(EXECUTOR, no_database(), Settings())) as address, RawConnection(address) as connection:
        assert connection.exchange("GET /graphql", accept=BROWSER).codes == ["INVALID_REQUEST"]


# --- headers ---------------------------------------------------------------------------------------------------


def test_response_headers(connection: RawConnection) -> None:
    """Responses are not cached, and browsers must not guess their type."""
    for reply in (
        connection.post(GOOD),
        connection.post(b"1"),
        connection.exchange("POST /nowhere"),
        get(connection, "query={a}"),
    ):
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "accept" in reply.headers["vary"]


@pytest.mark.parametrize("sent", ["a", "0f-9_A.b:c", "x" * 64])
def test_provided_correlation_id(connection: RawConnection, sent: str) -> None:
    """A short plain x-request-id is returned, on errors too, and reaches the executor."""
    assert connection.post(GOOD, x_request_id=sent).headers["x-request-id"] == sent
    assert EXECUTOR.callers[-1].correlation_id == sent
    assert connection.post(b"1", x_request_id=sent).headers["x-request-id"] == sent
    assert connection.exchange("POST /nowhere", x_request_id=sent).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", [None, "", "x" * 65, "a b", '"', "<b>", "ü", "-a"])
def test_generated_correlation_id(connection: RawConnection, sent: str | None) -> None:
    """A missing or invalid x-request-id is replaced by a new one for each request."""
    made = {
        connection.post(GOOD, **({} if sent is None else {"x_request_id": sent})).headers["x-request-id"] for _ in "ab"
    }
    assert len(made) == 2
    assert all(len(one) == 32 and one.isalnum() for one in made)


@pytest.mark.parametrize(("sent", "expected"), [({"x_explain": "1"}, True), ({"x_explain": "0"}, False), ({}, False)])
def test_explain_header(connection: RawConnection, sent: dict[str, str], expected: bool) -> None:
    """The header x-explain requests explain output."""
    assert connection.post(GOOD, **sent).status == 200
    assert EXECUTOR.callers[-1].explain is expected


def test_explain_disabled() -> None:
    """If explain is disabled, the header x-explain has no effect."""
    app = build_app(EXECUTOR, no_database(), Settings(explain=False))
    with serve_app(app) as address, RawConnection(address) as connection:
        assert connection.post(GOOD, x_explain="1").status == 200
        assert not EXECUTOR.callers[-1].explain


def test_path_and_root_path() -> None:
    """The path can be configured, and the application works below a root path."""
    app = build_app(EXECUTOR, no_database(), Settings(path="/api/q"))
    with serve_app(app, root_path="/below") as address, RawConnection(address) as connection:
        assert connection.exchange("POST /api/q", GOOD, content_type=JSON).status == 200
        assert connection.exchange("POST /graphql", GOOD, content_type=JSON).status == 404


def test_http_1_0(address: str) -> None:
    """A client of HTTP/1.0 is served, and its connection is closed."""
    with RawConnection(address) as connection:
        connection.send(
            b"POST /graphql HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: 18\r\n\r\n" + GOOD
        )
        assert connection.reply().status == 200
        assert connection.is_closed()


def test_pipelined_requests(connection: RawConnection) -> None:
    """Pipelined requests get their responses in order."""
    body = [f'{{"query": "{{ a }}", "operationName": "n{n}"}}'.encode() for n in range(10)]
    for one in body:
        connection.send(
            b"POST /graphql HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(one), one)
        )
    names = []
    with connection.socket.makefile("rb") as stream:
        for _ in body:
            lines = [*iter(stream.readline, b"\r\n")]
            length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
            names.append(json.loads(stream.read(length))["data"]["name"])
    assert names == [f"n{n}" for n in range(10)]
