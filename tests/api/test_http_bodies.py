"""Bodies of every kind over a real connection: each is answered, and the connection goes on."""

import json
from collections.abc import Iterator
from decimal import Decimal

import pytest

from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.strict_json import MAX_NESTING
from tests.api.running import Reply, Wire, request, running
from tests.api.scripted import ScriptedEngine, no_database

GOOD = b'{"query": "{ a }"}'
LIMIT = 1 << 20

ENGINE = ScriptedEngine()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the server is."""
    options = WebOptions(max_body_bytes=LIMIT, body_deadline=0.5)
    with running(build_app(ENGINE, no_database(), options)) as found:
        yield found


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    """A connection, which must be usable after the test."""
    with Wire(address) as connection:
        yield connection
        assert connection.post(GOOD).status == 200


def variables(text: str) -> bytes:
    """A body with this JSON as its one variable."""
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
    "100k deep lists": (variables("[" * 100_000 + "]" * 100_000), "INVALID_JSON"),
    "100k deep objects": (variables('{"a":' * 100_000 + "1" + "}" * 100_000), "INVALID_JSON"),
    "100k open lists": (b"[" * 100_000, "INVALID_JSON"),
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
def test_bad_bodies(wire: Wire, name: str) -> None:
    """A body that is no operation is a 400 with a code, which asks nothing of the engine; the connection goes on."""
    body, code = BAD[name]
    asked = len(ENGINE.operations)
    reply = wire.post(body)
    assert (reply.status, reply.codes) == (400, [code])
    assert len(reply.body) < 600
    assert len(ENGINE.operations) == asked


@pytest.mark.parametrize("name", ["query", "operationName", "variables", "extensions", "documentId"])
def test_errors_name_the_parameter(wire: Wire, name: str) -> None:
    """An error about one parameter says which, for programs too."""
    (error,) = wire.post(json.dumps({"query": "{ a }", name: 1}).encode()).json["errors"]
    assert error["extensions"]["argument"] == name
    assert name in error["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"query":\n  nonsense}', "line 2, column 3"),
        (b'{"query": "a", "query": "b"}', "'query'"),
        (variables("NaN"), "NaN"),
        (variables("9" * 401), "401 digits"),
        (b'{"query": "\xff"}', "byte 11"),
    ],
)
def test_mistakes_in_json_are_located(wire: Wire, body: bytes, words: str) -> None:
    """A mistake in JSON is told with its place, a doubled key and a strange number with themselves."""
    (error,) = wire.post(body).json["errors"]
    assert words in error["message"]


@pytest.mark.parametrize(
    "digits",
    ["1", "-0", "9007199254740993", "18446744073709551616", "-170141183460469231731687303715884105728", "7" * 400],
)
def test_integers_keep_their_digits(wire: Wire, digits: str) -> None:
    """An integer reaches the engine exactly, however long it is within the limit, and comes back as exactly."""
    reply = wire.post(variables(digits))
    assert reply.status == 200
    assert ENGINE.operations[-1].variables == {"v": int(digits)}
    assert reply.json["data"]["variables"] == {"v": int(digits)}


@pytest.mark.parametrize("digits", ["0.5", "1.10", "3.14159265358979323846264338327950288", "1E2", "-0.0", "1e-400"])
def test_fractions_keep_their_digits(wire: Wire, digits: str) -> None:
    """A fraction reaches the engine as a float that a decimal type reads with every digit that was sent."""
    assert wire.post(variables(digits)).status == 200
    value = ENGINE.operations[-1].variables["v"]
    assert isinstance(value, float)
    assert value == float(digits)
    assert Decimal(str(value)) == Decimal(digits)


def test_levels(wire: Wire) -> None:
    """As many levels as are allowed are read; brackets in texts, and beside each other, are none."""
    inside = MAX_NESTING - 2
    assert wire.post(variables("[" * inside + "]" * inside)).status == 200
    assert wire.post(variables(json.dumps("[" * 5_000))).status == 200
    assert wire.post(variables(json.dumps([[]] * 5_000))).status == 200


def test_text_is_kept(wire: Wire) -> None:
    """Characters beyond the basic plane, escaped or not, NUL as an escape and empty texts arrive as they were sent."""
    assert wire.post(variables('["\\ud83c\\udfc3", "🏊", "\\u0000", "", "a\\\\ud800"]')).status == 200
    assert ENGINE.operations[-1].variables == {"v": ["🏃", "🏊", "\0", "", "a\\ud800"]}


def test_parameters(wire: Wire) -> None:
    """Name, variables, extensions and a document's id reach the engine; null means not given; others are ignored."""
    sent = {"query": "{ a }", "operationName": "A", "variables": {"v": [1]}, "extensions": {"e": {}}, "more": 1}
    assert wire.post(json.dumps(sent).encode()).json["data"]["name"] == "A"
    operation = ENGINE.operations[-1]
    assert (operation.query, operation.name) == ("{ a }", "A")
    assert (operation.variables, operation.extensions, operation.document_id) == ({"v": [1]}, {"e": {}}, None)
    assert wire.post(b'{"documentId": "d", "query": null, "variables": null, "extensions": null}').status == 200
    operation = ENGINE.operations[-1]
    assert (operation.query, operation.document_id, operation.variables) == (None, "d", {})


def test_persisted_query(wire: Wire) -> None:
    """Apollo's extension for a known query names a document; beside the query itself it is only an extension."""
    extensions = {"persistedQuery": {"version": 1, "sha256Hash": "abc"}}
    assert wire.post(json.dumps({"extensions": extensions}).encode()).status == 200
    assert ENGINE.operations[-1].document_id == "abc"
    assert wire.post(json.dumps({"query": "{ a }", "extensions": extensions}).encode()).status == 200
    operation = ENGINE.operations[-1]
    assert operation.query == "{ a }"
    assert operation.document_id is None
    refused = wire.post(b'{"extensions": {"persistedQuery": {"sha256Hash": 1}}}')
    assert (refused.status, refused.codes) == (400, ["INVALID_REQUEST"])


# --- size and time ---------------------------------------------------------------------------------------------


def padded(size: int) -> bytes:
    """A good body of so many bytes."""
    return GOOD[:-1] + b" " * (size - len(GOOD)) + b"}"


def chunked(*parts: bytes) -> bytes:
    """A body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"


def too_large(reply: Reply) -> bool:
    """Whether a reply says that the body was too large."""
    return (reply.status, reply.codes) == (413, ["BODY_TOO_LARGE"])


def test_largest_body(wire: Wire) -> None:
    """A body of exactly the limit is read, one byte more is not; either way, with a length or in chunks."""
    assert wire.post(padded(LIMIT)).status == 200
    assert too_large(wire.post(padded(LIMIT + 1)))
    for size in (LIMIT, LIMIT + 1):
        wire.send(request("POST /graphql", content_type="application/json", transfer_encoding="chunked"))
        wire.send(chunked(*[padded(size)[at : at + 60_000] for at in range(0, size, 60_000)]))
        reply = wire.reply()
        assert reply.status == 200 if size == LIMIT else too_large(reply)


def test_ten_megabytes(wire: Wire) -> None:
    """Ten megabytes are read away, answered with 413, and the connection goes on."""
    assert too_large(wire.post(padded(10 << 20)))
    wire.send(request("POST /graphql", content_type="application/json", transfer_encoding="chunked"))
    wire.send(chunked(padded(10 << 20)))
    assert too_large(wire.reply())


def test_body_without_end(address: str) -> None:
    """In a body beyond all bounds the client gets the answer while it still sends, then the connection ends."""
    with Wire(address) as wire:
        head = request("POST /graphql", content_type="application/json", content_length=str(1 << 40))
        wire.send(head + b" " * 100_000)
        reply = wire.reply()
        assert too_large(reply)
        assert reply.headers["connection"] == "close"
        wire.send(b" " * 100_000)
        assert wire.is_closed()


@pytest.mark.parametrize("framing", [{"content_length": "1000"}, {"transfer_encoding": "chunked"}])
def test_slow_bodies(address: str, framing: dict[str, str]) -> None:
    """A body that does not arrive in time is a 408, and its connection ends; others are answered all the while."""
    with Wire(address) as slow, Wire(address) as other:
        slow.send(request("POST /graphql", content_type="application/json", **framing))
        slow.send(b"5\r\n{\r\n"[: 3 if "content_length" in framing else None])
        assert other.post(GOOD).status == 200
        reply = slow.reply()
        assert (reply.status, reply.codes) == (408, ["BODY_TOO_SLOW"])
        assert reply.headers["connection"] == "close"
        assert slow.is_closed()


def test_consent_is_asked_for(wire: Wire) -> None:
    """A client that waits for 100-continue is told to go on, and then answered."""
    wire.send(
        request("POST /graphql", content_type="application/json", expect="100-continue", content_length=str(len(GOOD)))
    )
    assert wire.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.send(GOOD)
    assert wire.reply().status == 200


def test_consent_is_refused(address: str) -> None:
    """A client that waits for 100-continue before a body that is too large is told so without having to send it."""
    with Wire(address) as wire:
        head = {"content_type": "application/json", "expect": "100-continue"}
        wire.send(request("POST /graphql", **head, content_length=str(LIMIT + 1)))
        reply = wire.reply()
        assert too_large(reply)
        assert reply.headers["connection"] == "close"


def test_unknown_expectation(wire: Wire) -> None:
    """Another expectation than 100-continue is a 417."""
    reply = wire.post(GOOD, expect="a miracle")
    assert (reply.status, reply.codes) == (417, ["EXPECTATION_FAILED"])


# --- types -----------------------------------------------------------------------------------------------------


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
def test_wrong_types(wire: Wire, headers: dict[str, str]) -> None:
    """A body of another type, charset or encoding than JSON in UTF-8 as it is is a 415, whatever is in it."""
    reply = wire.ask("POST /graphql", GOOD, **headers)
    assert (reply.status, reply.codes) == (415, ["UNSUPPORTED_MEDIA_TYPE"])


def test_missing_type(wire: Wire) -> None:
    """A body without a type is a 415, and so is one with two."""
    assert wire.ask("POST /graphql", GOOD).codes == ["UNSUPPORTED_MEDIA_TYPE"]
    twice = request("POST /graphql", GOOD, content_type="application/json\r\ncontent-type: application/json")
    wire.send(twice)
    assert wire.reply().codes == ["UNSUPPORTED_MEDIA_TYPE"]


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        'APPLICATION/JSON;charset="UTF-8"',
        "application/json;x=y",
        "application/json;",
    ],
)
def test_right_types(wire: Wire, content_type: str) -> None:
    """JSON in UTF-8 is read however its type is written."""
    assert wire.ask("POST /graphql", GOOD, content_type=content_type).status == 200


def test_large_body_of_a_wrong_type(wire: Wire) -> None:
    """What is refused before its body was read is read away too, so the connection goes on."""
    assert wire.ask("POST /graphql", padded(3 << 20), content_type="text/plain").status == 415
    assert wire.ask("POST /nowhere", padded(3 << 20), content_type="text/plain").status == 404
    assert wire.ask("PUT /graphql", padded(3 << 20), content_type="text/plain").status == 405
