"""Unexpected failures are masked for the client and logged once."""

import logging
from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from graphql_api.server.app import build_app
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import RawConnection, serve_app


async def refused(request: Request) -> Response:
    """A route that raises the status in its path."""
    raise HTTPException(int(request.path_params["status"]), "a reason")


async def interrupted(_: Request) -> Response:
    """A route that fails in the middle of its response."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"half an "
        raise ZeroDivisionError("a secret of the server")

    return StreamingResponse(parts())


APP = build_app(
    ScriptedExecutor(), no_database(), Settings(), [Route("/refused/{status}", refused), Route("/cut", interrupted)]
)


def test_masked_error(caplog: pytest.LogCaptureFixture) -> None:
    """A failure is a 500 with its correlation id only. The log has the details once, with the same id."""
    with serve_app(APP) as address, RawConnection(address) as connection:
        reply = connection.post(b'{"query": "fail"}', x_request_id="find-me")
        assert (reply.status, reply.codes) == (500, ["INTERNAL_ERROR"])
        assert reply.headers["x-request-id"] == "find-me"
        (error,) = reply.json["errors"]
        assert error["extensions"]["correlationId"] == "find-me"
        assert "secret" not in reply.body.decode()
        assert "Traceback" not in reply.body.decode()
        assert connection.post(b'{"query": "{ a }"}').status == 200
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "find-me" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_interrupted_response(caplog: pytest.LogCaptureFixture) -> None:
    """A failure in the middle of a response closes the connection, so that the response is visibly incomplete."""
    with serve_app(APP) as address, RawConnection(address) as connection:
        connection.send(b"GET /cut HTTP/1.1\r\nhost: a\r\n\r\n")
        received = b""
        while part := connection.socket.recv(1000):
            received += part
        assert b"half an " in received
        assert not received.endswith(b"0\r\n\r\n")
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


@pytest.mark.parametrize(
    ("status", "expected_status", "code"),
    [
        (404, 404, "NOT_FOUND"),
        (413, 413, "BODY_TOO_LARGE"),
        (415, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (418, 400, "INVALID_REQUEST"),
        (502, 500, "INTERNAL_ERROR"),
    ],
)
def test_errors_of_other_routes(status: int, expected_status: int, code: str) -> None:
    """HTTP errors of other routes are JSON responses with a code."""
    with serve_app(APP) as address, RawConnection(address) as connection:
        reply = connection.exchange(f"GET /refused/{status}")
        assert (reply.status, reply.codes) == (expected_status, [code])
