"""Request bodies over a real connection: each gets a response, and the connection stays usable."""

import json
from collections.abc import Iterator
from decimal import Decimal

import pytest

from graphql_api.codecs.strict_json import MAX_NESTING
from graphql_api.server.app import build_app
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import RawConnection, Reply, request, serve_app

GOOD = b'{"query": "{ a }"}'
LIMIT = 1 << 20

EXECUTOR = ScriptedExecutor()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the URL of the server."""
    app = build_app(EXECUTOR, no_database(), Settings(max_body_bytes=LIMIT), body_seconds=0.5)
    with serve_app(app) as found:
        yield found


@pytest.fixture
def connection(address: str) -> Iterator[RawConnection]:
    """A connection, which must be usable after the test."""
    with RawConnection(address) as connection:
        yield connection
        assert connection.post(GOOD).status == 200


def variables(text: str) -> bytes:
    """Build a body with this JSON as its only variable."""
    return b'{"query": "{ a }", "variables": {"v": %s}}' % text.encode()


BAD = {
    "empty": (b"", "INVALID_REQUEST"),
    "blank": (b" \r\n\t", "INVALID_REQUEST"),
    "one": (b"1", "INVALID_REQUEST"),
    "null": (b"null", "INVALID_REQUEST"),
    "text": (b'"a"', "INVALID_REQUEST"),
    "list": (b"[]", "INVALID_REQUEST"),
    "batch": (b"[" + GOOD + b"]", "INVALID_REQUEST"),
    "no query": (b"{}", "INVALID_REQUEST"),
    "null query": (b'{"query": null}', "INVALID_REQUEST"),
    "query and document": (b'{"query": "{ a }", "documentId": "b"}', "INVALID_REQUEST"),
    "cut": (b'{"query": "{ a }"', "INVALID_JSON"),
    "two": (GOOD + GOOD, "INVALID_JSON"),
    "no JSON": (b"query=%7Ba%7D", "INVALID_JSON"),
    "bad UTF-8": (b'{"query": "\xff"}', "INVALID_JSON"),
    "UTF-8 of a surrogate": (b'{"query": "\xed\xa0\x80"}', "INVALID_JSON"),
    "UTF-16": ('{"query": "{ a }"}'.encode("utf-16"), "INVALID_JSON"),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, "INVALID_JSON"),
    "lone surrogate in query": (b'{"query": "{ a(b: \\"\\ud800\\") }"}', "INVALID_JSON"),
    "lone surrogate in variables": (variables('"\\uDFFF"'), "INVALID_JSON"),
    "lone surrogate in a key": (b'{"query": "{ a }", "\\ud800": 1}', "INVALID_JSON"),
    "raw control character": (b'{"query": "a\x00b"}', "INVALID_JSON"),
    "100k deep lists": (variables("[" * 100_000 + "]" * 100_000), "INPUT_TOO_LARGE"),
    "100k deep objects": (variables('{"a":' * 100_000 + "1" + "}" * 100_000), "INPUT_TOO_LARGE"),
    "100k open lists": (b"[" * 100_000, "INPUT_TOO_LARGE"),
    "a level too deep": (variables("[" * (MAX_NESTING - 1) + "]" * (MAX_NESTING - 1)), "INVALID_JSON"),
    "10k digits": (variables("9" * 10_000), "INVALID_JSON"),
    "10k digits below the point": (variables("0." + "9" * 10_000), "INVALID_JSON"),
    "huge exponent": (variables("1e999999999"), "INVALID_JSON"),
    "NaN": (variables("NaN"), "INVALID_JSON"),
    "Infinity": (variables("Infinity"), "INVALID_JSON"),
    "-Infinity": (variables("-Infinity"), "INVALID_JSON"),
    "query twice": (b'{"query": "{ a }", "query": "{ b }"}', "INVALID_JSON"),
    "variable twice": (b'{"query": "{ a }", "variables": {"v": 1, "v": 2}}', "INVALID_JSON"),
    **{
        f"{name} is {wrong}": (json.dumps({"query": "{ a }", name: wrong}).encode(), "INVALID_REQUEST")
        for name, values in {
            "query": [0, False, {"a": "b"}, ["a"]],
            "operationName": [0, False, {"a": "b"}, ["a"]],
            "variables": ["a", 0, False, ["a"]],
            "extensions": ["a", 0, False, ["a"]],
            "documentId": [0, False, {"a": "b"}, ["a"]],
        }.items()
        for wrong in values
    },
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_bodies(connection: RawConnection, name: str) -> None:
    """An invalid body is a 400 with a code, and does not reach the executor. The connection stays usable."""
    body, code = BAD[name]
    executed = len(EXECUTOR.operations)
    reply = connection.post(body)
    assert (reply.status, reply.codes) == (400, [code])
    assert len(reply.body) < 600
    assert len(EXECUTOR.operations) == executed


@pytest.mark.parametrize("name", ["query", "operationName", "variables", "extensions", "documentId"])
def test_errors_name_the_parameter(connection: RawConnection, name: str) -> None:
    """An error about one parameter names it in its message and its extensions."""
    (error,) = connection.post(json.dumps({"query": "{ a }", name: 1}).encode()).json["errors"]
    assert error["extensions"]["argument"] == name
    assert name in error["message"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"query":\n  nonsense}', "line 2, column 3"),
        (b'{"query": "a", "query": "b"}', "'query'"),
        (variables("NaN"), "NaN"),
        (variables("9" * 401), "401 digits"),
        (b'{"query": "\xff"}', "byte 11"),
    ],
)
def test_json_errors_are_located(connection: RawConnection, body: bytes, expected: str) -> None:
    """A JSON error names its line and column, the duplicate key, or the invalid number."""
    (error,) = connection.post(body).json["errors"]
    assert expected in error["message"]


@pytest.mark.parametrize(
    "digits",
    ["1", "-0", "9007199254740993", "18446744073709551616", "-170141183460469231731687303715884105728", "7" * 400],
)
def test_integers_keep_their_digits(connection: RawConnection, digits: str) -> None:
    """An integer of any length within the limit reaches the executor and the response exactly."""
    reply = connection.post(variables(digits))
    assert reply.status == 200
    assert EXECUTOR.operations[-1].variables == {"v": int(digits)}
    assert reply.json["data"]["variables"] == {"v": int(digits)}


@pytest.mark.parametrize("digits", ["0.5", "1.10", "3.14159265358979323846264338327950288", "1E2", "-0.0", "1e-400"])
def test_fractions_keep_their_digits(connection: RawConnection, digits: str) -> None:
    """A fraction reaches the executor as a float that a decimal type reads with every digit."""
    assert connection.post(variables(digits)).status == 200
    value = EXECUTOR.operations[-1].variables["v"]
    assert isinstance(value, float)
    assert value == float(digits)
    assert Decimal(str(value)) == Decimal(digits)


def test_nesting_limit(connection: RawConnection) -> None:
    """Nesting up to the limit is accepted. Brackets in texts and adjacent lists do not count."""
    inside = MAX_NESTING - 2
    assert connection.post(variables("[" * inside + "]" * inside)).status == 200
    assert connection.post(variables(json.dumps("[" * 5_000))).status == 200
    assert connection.post(variables(json.dumps([[]] * 5_000))).status == 200


def test_text_is_unchanged(connection: RawConnection) -> None:
    """Characters of all planes, escapes, NUL and empty texts arrive unchanged."""
    assert connection.post(variables('["\\ud83c\\udfc3", "🏊", "\\u0000", "", "a\\\\ud800"]')).status == 200
    assert EXECUTOR.operations[-1].variables == {"v": ["🏃", "🏊", "\0", "", "a\\ud800"]}


def test_parameters(connection: RawConnection) -> None:
    """All parameters reach the executor. Null means not provided, and unknown parameters are ignored."""
    sent = {"query": "{ a }", "operationName": "A", "variables": {"v": [1]}, "extensions": {"e": {}}, "more": 1}
    assert connection.post(json.dumps(sent).encode()).json["data"]["name"] == "A"
    operation = EXECUTOR.operations[-1]
    assert (operation.query, operation.name) == ("{ a }", "A")
    assert (operation.variables, operation.extensions, operation.document_id) == ({"v": [1]}, {"e": {}}, None)
    assert connection.post(b'{"documentId": "d", "query": null, "variables": null, "extensions": null}').status == 200
    operation = EXECUTOR.operations[-1]
    assert (operation.query, operation.document_id, operation.variables) == (None, "d", {})


def test_persisted_query(connection: RawConnection) -> None:
    """Apollo's extension for a persisted query names a document. With a query, it is only an extension."""
    extensions = {"persistedQuery": {"version": 1, "sha256Hash": "abc"}}
    assert connection.post(json.dumps({"extensions": extensions}).encode()).status == 200
    assert EXECUTOR.operations[-1].document_id == "abc"
    assert connection.post(json.dumps({"query": "{ a }", "extensions": extensions}).encode()).status == 200
    operation = EXECUTOR.operations[-1]
    assert operation.query == "{ a }"
    assert operation.document_id is None
    refused = connection.post(b'{"extensions": {"persistedQuery": {"sha256Hash": 1}}}')
    assert (refused.status, refused.codes) == (400, ["INVALID_REQUEST"])


# --- size and time ---------------------------------------------------------------------------------------------


def padded_body(size: int) -> bytes:
    """Build a valid body of this size."""
    return GOOD[:-1] + b" " * (size - len(GOOD)) + b"}"


def chunked(*parts: bytes) -> bytes:
    """Encode a body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"


def is_too_large(reply: Reply) -> bool:
    """Return whether the response says that the body is too large."""
    return (reply.status, reply.codes) == (413, ["BODY_TOO_LARGE"])


def test_body_size_limit(connection: RawConnection) -> None:
    """A body of the maximum size is accepted, and one more byte is not, with a length or in chunks."""
    assert connection.post(padded_body(LIMIT)).status == 200
    assert is_too_large(connection.post(padded_body(LIMIT + 1)))
    for size in (LIMIT, LIMIT + 1):
        connection.send(request("POST /graphql", content_type="application/json", transfer_encoding="chunked"))
        connection.send(chunked(*[padded_body(size)[at : at + 60_000] for at in range(0, size, 60_000)]))
        reply = connection.reply()
        assert reply.status == 200 if size == LIMIT else is_too_large(reply)


def test_large_body_is_drained(connection: RawConnection) -> None:
    """Ten megabytes are drained and refused with 413. The connection stays usable."""
    assert is_too_large(connection.post(padded_body(10 << 20)))
    connection.send(request("POST /graphql", content_type="application/json", transfer_encoding="chunked"))
    connection.send(chunked(padded_body(10 << 20)))
    assert is_too_large(connection.reply())


def test_endless_body(address: str) -> None:
    """A client that sends an endless body gets the response meanwhile. Then the connection is closed."""
    with RawConnection(address) as connection:
        head = request("POST /graphql", content_type="application/json", content_length=str(1 << 40))
        connection.send(head + b" " * 100_000)
        reply = connection.reply()
        assert is_too_large(reply)
        assert reply.headers["connection"] == "close"
        connection.send(b" " * 100_000)
        assert connection.is_closed()


@pytest.mark.parametrize("framing", [{"content_length": "1000"}, {"transfer_encoding": "chunked"}])
def test_slow_bodies(address: str, framing: dict[str, str]) -> None:
    """A body that does not arrive in time is a 408, and its connection is closed. Other clients are served."""
    with RawConnection(address) as slow, RawConnection(address) as other:
        slow.send(request("POST /graphql", content_type="application/json", **framing))
        slow.send(b"5\r\n{\r\n"[: 3 if "content_length" in framing else None])
        assert other.post(GOOD).status == 200
        reply = slow.reply()
        assert (reply.status, reply.codes) == (408, ["BODY_TOO_SLOW"])
        assert reply.headers["connection"] == "close"
        assert slow.is_closed()


def test_expect_continue(connection: RawConnection) -> None:
    """A client that expects 100-continue gets it, and then the response."""
    connection.send(
        request("POST /graphql", content_type="application/json", expect="100-continue", content_length=str(len(GOOD)))
    )
    assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.send(GOOD)
    assert connection.reply().status == 200


def test_expect_continue_with_a_large_body(address: str) -> None:
    """A client that expects 100-continue is refused before it sends a body that is too large."""
    with RawConnection(address) as connection:
        head = {"content_type": "application/json", "expect": "100-continue"}
        connection.send(request("POST /graphql", **head, content_length=str(LIMIT + 1)))
        reply = connection.reply()
        assert is_too_large(reply)
        assert reply.headers["connection"] == "close"


def test_unknown_expectation(connection: RawConnection) -> None:
    """Another expectation than 100-continue is a 417."""
    reply = connection.post(GOOD, expect="a miracle")
    assert (reply.status, reply.codes) == (417, ["EXPECTATION_FAILED"])


# --- content types ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "text/plain"},
        {"content_type": "text/plain; charset=utf-8", "apollo_require_preflight": "1"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "multipart/form-data; boundary=a"},
        {"content_type": "application/graphql"},
        {"content_type": "application/json5"},
        {"content_type": "application"},
        {"content_type": ""},
        {"content_type": "text/plain, application/json"},
        {"content_type": "application/json; charset=latin-1"},
        {"content_type": 'application/json; a=b; Charset="UTF-16"'},
        {"content_type": "application/json", "content_encoding": "gzip"},
        {"content_type": "application/json", "content_encoding": "identity, br"},
    ],
)
def test_unsupported_content_types(connection: RawConnection, headers: dict[str, str]) -> None:
    """A body that is not JSON in unencoded UTF-8 is a 415, whatever its content."""
    reply = connection.exchange("POST /graphql", GOOD, **headers)
    assert (reply.status, reply.codes) == (415, ["UNSUPPORTED_MEDIA_TYPE"])


def test_missing_content_type(connection: RawConnection) -> None:
    """A body without a content type, or with two, is a 415."""
    assert connection.exchange("POST /graphql", GOOD).codes == ["UNSUPPORTED_MEDIA_TYPE"]
    twice = request("POST /graphql", GOOD, content_type="application/json\r\ncontent-type: application/json")
    connection.send(twice)
    assert connection.reply().codes == ["UNSUPPORTED_MEDIA_TYPE"]


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        'APPLICATION/JSON;charset="UTF-8"',
        "application/json;x=y",
        "application/json;",
    ],
)
def test_supported_content_types(connection: RawConnection, content_type: str) -> None:
    """JSON in UTF-8 is accepted in any spelling of its content type."""
    assert connection.exchange("POST /graphql", GOOD, content_type=content_type).status == 200


def test_refused_body_is_drained(connection: RawConnection) -> None:
    """The body of a refused request is drained, so that the connection stays usable."""
    assert connection.exchange("POST /graphql", padded_body(3 << 20), content_type="text/plain").status == 415
    assert connection.exchange("POST /nowhere", padded_body(3 << 20), content_type="text/plain").status == 404
    assert connection.exchange("PUT /graphql", padded_body(3 << 20), content_type="text/plain").status == 405
