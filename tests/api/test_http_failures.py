"""Failures that nobody foresaw: masked for the client, told once to the log."""

import logging
from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from graphql_api.server.app import WebOptions, build_app
from tests.api.running import Wire, running
from tests.api.scripted import ScriptedEngine, no_database


async def refused(request: Request) -> Response:
    """A route that refuses by the status in its path."""
    raise HTTPException(int(request.path_params["status"]), "a reason")


async def cut(_: Request) -> Response:
    """A route that fails in the middle of its answer."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"half an "
        raise ZeroDivisionError("a secret of the server")

    return StreamingResponse(parts())


APP = build_app(
    ScriptedEngine(), no_database(), WebOptions(), [Route("/refused/{status}", refused), Route("/cut", cut)]
)


def test_masked(caplog: pytest.LogCaptureFixture) -> None:
    """A failure is a 500 that tells no more than its correlation id; the log has it with the same id, once."""
    with running(APP) as address, Wire(address) as wire:
        reply = wire.post(b'{"query": "fail"}', x_request_id="find-me")
        assert (reply.status, reply.codes) == (500, ["INTERNAL_ERROR"])
        assert reply.headers["x-request-id"] == "find-me"
        (error,) = reply.json["errors"]
        assert error["extensions"]["correlationId"] == "find-me"
        assert "secret" not in reply.body.decode()
        assert "Traceback" not in reply.body.decode()
        assert wire.post(b'{"query": "{ a }"}').status == 200
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "find-me" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_half_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    """A failure in the middle of an answer cuts the connection, so that nobody takes half of it for all."""
    with running(APP) as address, Wire(address) as wire:
        wire.send(b"GET /cut HTTP/1.1\r\nhost: a\r\n\r\n")
        received = b""
        while part := wire.socket.recv(1000):
            received += part
        assert b"half an " in received
        assert not received.endswith(b"0\r\n\r\n")
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


@pytest.mark.parametrize(
    ("status", "answered", "code"),
    [
        (404, 404, "NOT_FOUND"),
        (413, 413, "BODY_TOO_LARGE"),
        (415, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (418, 400, "INVALID_REQUEST"),
        (502, 500, "INTERNAL_ERROR"),
    ],
)
def test_errors_of_other_routes(status: int, answered: int, code: str) -> None:
    """What other routes of the application refuse is answered in JSON with a code too."""
    with running(APP) as address, Wire(address) as wire:
        reply = wire.ask(f"GET /refused/{status}")
        assert (reply.status, reply.codes) == (answered, [code])
