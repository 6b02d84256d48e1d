"""Methods, addresses, forms of answers and headers over a real connection."""

import json
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.graphql_endpoint import MAX_URL_BYTES
from tests.api.running import Reply, Wire, running
from tests.api.scripted import ScriptedEngine, no_database

GOOD = b'{"query": "{ a }"}'
JSON = "application/json"
GRAPHQL = "application/graphql-response+json"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

ENGINE = ScriptedEngine()


def a_page(_: Request) -> Response:
    """What browsers get."""
    return HTMLResponse("<p>a page")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the server is."""
    with running(build_app(ENGINE, no_database(), WebOptions(), browser_page=a_page)) as found:
        yield found


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    """A connection, which must be usable after the test."""
    with Wire(address) as connection:
        yield connection
        assert connection.post(GOOD).status == 200


def get(wire: Wire, parameters: str, method: str = "GET", **headers: str) -> Reply:
    """Sends a GET as a client does that no browser is."""
    return wire.ask(f"{method} /graphql?{parameters}", **{"apollo_require_preflight": "1", **headers})


# --- addresses -------------------------------------------------------------------------------------------------


def test_get(wire: Wire) -> None:
    """A GET brings query, name, variables and extensions in its address, and may only read."""
    sent = {
        "query": "query A { a }",
        "operationName": "A",
        "variables": '{"v": 18446744073709551617, "t": "ü+ &"}',
        "extensions": '{"e": 1}',
    }
    assert get(wire, urlencode(sent)).json["data"]["name"] == "A"
    operation = ENGINE.operations[-1]
    assert (operation.query, operation.name, operation.extensions) == ("query A { a }", "A", {"e": 1})
    assert operation.variables == {"v": 18446744073709551617, "t": "ü+ &"}
    assert ENGINE.callers[-1].read_only
    assert wire.post(GOOD).status == 200
    assert not ENGINE.callers[-1].read_only


def test_empty_parameters(wire: Wire) -> None:
    """An empty parameter of an address is one that was not given; plus signs are blanks."""
    assert get(wire, "query={+a+}&operationName=&variables=&extensions=&documentId=&utm=1").status == 200
    operation = ENGINE.operations[-1]
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
def test_bad_addresses(wire: Wire, parameters: str, code: str) -> None:
    """An address that is no operation is a 400 with a code."""
    asked = len(ENGINE.operations)
    reply = get(wire, parameters)
    assert (reply.status, reply.codes) == (400, [code])
    assert len(ENGINE.operations) == asked


def test_long_addresses(wire: Wire) -> None:
    """An address as long as the limit is read; one byte more is a 414."""
    room = MAX_URL_BYTES - len("/graphql") - len("query=")
    assert get(wire, "query=" + "a" * room).status == 200
    reply = get(wire, "query=" + "a" * (room + 1))
    assert (reply.status, reply.codes) == (414, ["URL_TOO_LONG"])


def test_body_of_a_get(wire: Wire) -> None:
    """A body that comes with a GET is read away."""
    reply = wire.ask("GET /graphql?query={a}", b" " * 300_000, apollo_require_preflight="1")
    assert reply.status == 200


def test_refusal_to_write(wire: Wire) -> None:
    """What a GET may not do is a 405 that names POST, in both forms."""
    for form in (JSON, GRAPHQL):
        reply = get(wire, "query=refuse+405", accept=form)
        assert (reply.status, reply.headers["allow"]) == (405, "POST")


# --- methods and paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
def test_wrong_methods(wire: Wire, method: str) -> None:
    """Another method is a 405 that names the right ones."""
    reply = wire.ask(f"{method} /graphql", GOOD, content_type=JSON)
    assert (reply.status, reply.codes) == (405, ["METHOD_NOT_ALLOWED"])
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS, POST"


@pytest.mark.parametrize("path", ["/graphql/", "/graphql/x", "/Graphql", "/%67raph%71l%2f", "/..%2f", "/ü", "*"])
def test_unknown_paths(wire: Wire, path: str) -> None:
    """Another path is a 404, without being sent elsewhere."""
    reply = wire.ask(f"POST {quote(path, safe='/%*')}", GOOD, content_type=JSON)
    assert (reply.status, reply.codes) == (404, ["NOT_FOUND"])


def test_head(wire: Wire) -> None:
    """HEAD gives the status and headers of GET, without a body."""
    headers = get(wire, "query={a}").headers
    reply = get(wire, "query={a}", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert {**reply.headers, "x-request-id": "", "date": ""} == {**headers, "x-request-id": "", "date": ""}
    assert get(wire, "", method="HEAD").status == 400


def test_options(wire: Wire) -> None:
    """OPTIONS lists the methods."""
    reply = wire.ask("OPTIONS /graphql")
    assert (reply.status, reply.body, reply.headers["allow"]) == (204, b"", "GET, HEAD, OPTIONS, POST")


# --- forms of answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "form"),
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
def test_forms(wire: Wire, accept: str | None, form: str) -> None:
    """The answer has the form that the client likes best, in UTF-8; the older one where it does not choose."""
    reply = wire.post(GOOD, **({} if accept is None else {"accept": accept}))
    assert (reply.status, reply.headers["content-type"]) == (200, f"{form}; charset=utf-8")


@pytest.mark.parametrize("accept", ["text/html", "text/*", "image/png, */*;q=0", f"{JSON};q=0"])
def test_impossible_forms(wire: Wire, accept: str) -> None:
    """A client that takes no form of answer gets a 406, in JSON."""
    reply = wire.post(GOOD, accept=accept)
    assert (reply.status, reply.codes) == (406, ["NOT_ACCEPTABLE"])
    assert reply.headers["content-type"] == f"{JSON}; charset=utf-8"


def test_status_by_form(wire: Wire) -> None:
    """What was refused before it ran has its own status in the newer form; in the older one a bad query is a 200."""
    for status, older in ((400, 200), (403, 403), (503, 503)):
        body = json.dumps({"query": f"refuse {status}"}).encode()
        for form, expected in ((GRAPHQL, status), (JSON, older)):
            reply = wire.post(body, accept=form)
            assert (reply.status, reply.codes) == (expected, [f"REFUSED_{status}"])
            assert "data" not in reply.json


def test_http_errors_by_form(wire: Wire) -> None:
    """An error of the way to the server has its own status in both forms, and the form that was asked for."""
    for form in (JSON, GRAPHQL):
        reply = wire.post(b"1", accept=form)
        assert (reply.status, reply.headers["content-type"]) == (400, f"{form}; charset=utf-8")


def test_browsers_get_the_page(wire: Wire) -> None:
    """A browser that opens the path gets the page, with a query in its address too; a client of JSON never does."""
    for path in ("/graphql", "/graphql?query={a}"):
        assert wire.ask(f"GET {path}", accept=BROWSER).body == b"<p>a page"
        assert wire.ask(f"GET {path}", accept="*/*").codes
    assert wire.post(GOOD, accept=BROWSER).status == 200


def test_browsers_without_a_page() -> None:
    """Where there is no page, a browser that opens the path is told in JSON what is missing."""
    with running(build_app(ENGINE, no_database(), WebOptions())) as address, Wire(address) as wire:
        assert wire.ask("GET /graphql", accept=BROWSER).codes == ["INVALID_REQUEST"]


# --- headers ---------------------------------------------------------------------------------------------------


def test_headers_of_answers(wire: Wire) -> None:
    """No cache keeps an answer, good or bad, and no browser guesses at its type."""
    for reply in (wire.post(GOOD), wire.post(b"1"), wire.ask("POST /nowhere"), get(wire, "query={a}")):
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "accept" in reply.headers["vary"]


@pytest.mark.parametrize("sent", ["a", "0f-9_A.b:c", "x" * 64])
def test_correlation_id_of_the_client(wire: Wire, sent: str) -> None:
    """A short plain x-request-id comes back, on errors too, and reaches the engine."""
    assert wire.post(GOOD, x_request_id=sent).headers["x-request-id"] == sent
    assert ENGINE.callers[-1].correlation_id == sent
    assert wire.post(b"1", x_request_id=sent).headers["x-request-id"] == sent
    assert wire.ask("POST /nowhere", x_request_id=sent).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", [None, "", "x" * 65, "a b", '"', "<b>", "ü", "-a"])
def test_made_correlation_id(wire: Wire, sent: str | None) -> None:
    """Another x-request-id, or none, is replaced by a new one each time."""
    made = {wire.post(GOOD, **({} if sent is None else {"x_request_id": sent})).headers["x-request-id"] for _ in "ab"}
    assert len(made) == 2
    assert all(len(one) == 32 and one.isalnum() for one in made)


@pytest.mark.parametrize(("sent", "heard"), [({"x_explain": "1"}, True), ({"x_explain": "0"}, False), ({}, False)])
def test_explain(wire: Wire, sent: dict[str, str], heard: bool) -> None:
    """The header x-explain asks the engine to explain."""
    assert wire.post(GOOD, **sent).status == 200
    assert ENGINE.callers[-1].explain is heard


def test_explain_can_be_shut() -> None:
    """Where it is shut, the header x-explain is not heard."""
    app = build_app(ENGINE, no_database(), WebOptions(explain=False))
    with running(app) as address, Wire(address) as wire:
        assert wire.post(GOOD, x_explain="1").status == 200
        assert not ENGINE.callers[-1].explain


def test_path_and_root_path() -> None:
    """The path can be chosen, and the application works below another one."""
    app = build_app(ENGINE, no_database(), WebOptions(path="/api/q"))
    with running(app, root_path="/below") as address, Wire(address) as wire:
        assert wire.ask("POST /api/q", GOOD, content_type=JSON).status == 200
        assert wire.ask("POST /graphql", GOOD, content_type=JSON).status == 404


def test_older_http(address: str) -> None:
    """A client of HTTP/1.0 is answered, and its connection closed."""
    with Wire(address) as wire:
        wire.send(b"POST /graphql HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: 18\r\n\r\n" + GOOD)
        assert wire.reply().status == 200
        assert wire.is_closed()


def test_requests_sent_at_once(wire: Wire) -> None:
    """Requests that are sent without waiting are answered in their order."""
    body = [f'{{"query": "{{ a }}", "operationName": "n{n}"}}'.encode() for n in range(10)]
    for one in body:
        wire.send(
            b"POST /graphql HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(one), one)
        )
    names = []
    with wire.socket.makefile("rb") as stream:
        for _ in body:
            lines = [*iter(stream.readline, b"\r\n")]
            length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
            names.append(json.loads(stream.read(length))["data"]["name"])
    assert names == [f"n{n}" for n in range(10)]
