"""Plain requests are recognized in raw bytes. Whatever a parser could read differently is left to the parser."""

import pytest

from graphql_api.cli.process.request_scanner import MAX_SCANNED_BYTES, RequestScanner
from tests.support.loopback import request

BODY = b'{"query": "{ a }"}'
POST = "POST /graphql"


def scan(data: bytes) -> object:
    """Scan one read of a server."""
    return RequestScanner(b"/graphql").scan(data)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ((), "")),
        ({"connection": "keep-alive"}, ((), "")),
        ({"Connection": "Keep-Alive"}, ((), "")),
        ({"accept": "application/json, */*;q=0.1"}, (("application/json, */*;q=0.1",), "")),
        ({"X-Request-ID": "Id-1"}, ((), "Id-1")),
        ({"accept-encoding": "gzip", "traceparent": "00-ab-cd-01", "content-type": "text/plain"}, ((), "")),
        ({"authorization": "Bearer origin: \\n accept:"}, ((), "")),
    ],
)
def test_plain_requests_are_recognized(headers: dict[str, str], expected: tuple[tuple[str, ...], str]) -> None:
    """A complete request is recognized with its preferences and the id of its client, whatever other headers it has."""
    assert scan(request(POST, BODY, **headers)) == expected


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://a.example"},
        {"Origin": "https://a.example"},
        {"expect": "100-continue"},
        {"connection": "close"},
        {"connection": "keep-alive, upgrade"},
        {"proxy-connection": "close"},
        {"upgrade": "h2c"},
        {"transfer-encoding": "chunked"},
        {"Transfer-Encoding": "identity"},
        {"content-length": "+18"},
        {"content-length": "18, 18"},
        {"content-length": "0x12"},
        {"content-length": "\u00b2"},
        {"content-length": "17"},
        {"content-length": "19"},
        {"content-length": "9" * 5000},
        {"content-length ": "18"},
        {"a": "b\r\n folded"},
        {"a": "b\r\n\tfolded"},
        {"a": "b\ntransfer-encoding: chunked"},
        {"a": "b\rtransfer-encoding: chunked"},
        {"a": "b\r\n\rtransfer-encoding: chunked"},
        {"a": "b\0"},
        {"a": "\u00e4"},
        {"accept": "text/html\r\naccept: application/json"},
        {"x-request-id": "a\r\nx-request-id: b"},
        {"a": "b\r\ncontent-length: 18"},
        {"a": "x" * MAX_SCANNED_BYTES},
    ],
)
def test_unusual_headers_are_left_to_the_parser(headers: dict[str, str]) -> None:
    """A header that changes the connection, the length or the meaning of others needs the parser."""
    assert scan(request(POST, BODY, **headers)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST /graphql HTTP/1.1\r\n\r\n",
        request(POST, BODY)[:-1],
        request(POST, BODY) + b"P",
        request(POST, BODY) * 2,
        b"\r\n" + request(POST, BODY),
        request("post /graphql", BODY),
        request("GET /graphql", BODY),
        request("POST /graphql/", BODY),
        request("POST /graphql?a=b", BODY),
        request("POST http://a/graphql", BODY),
        request(POST, BODY).replace(b"HTTP/1.1", b"HTTP/1.0"),
        request(POST, BODY).replace(b"\r\n", b"\n"),
    ],
)
def test_other_data_is_left_to_the_parser(data: bytes) -> None:
    """Parts of a request, several requests, and other methods, paths and versions need the parser."""
    assert scan(data) is None


@pytest.mark.parametrize("size", range(1, len(request(POST, BODY))))
def test_no_part_of_a_request_is_a_request(size: int) -> None:
    """A request that arrives in two reads needs the parser, wherever it is divided."""
    assert scan(request(POST, BODY)[:size]) is None
