"""The request log: one line per request, without secrets."""

import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphql_api.cli.process.log_output import JsonFormatter, TextFormatter, configure_logging
from graphql_api.errors import StoreUnavailable
from graphql_api.server.app import build_app
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.settings import Settings
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import RangeRead, ReadResult
from tests.server.observed_server import observed_server
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import TIMEOUT, RawConnection, request, serve_app
from tests.support.store_doubles import FailingStore

SECRET = "a-secret-of-a-client"  # noqa: S105 - a test value
SEARCH = "query Search($p: String) { userByFirstName(prefix: $p, limit: 3) { items { userId } nextToken } }"


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the logged facts of requests."""
    return [getattr(record, "facts") for record in caplog.records if record.name == "shardql.request"]  # noqa: B009


def wait_for_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Wait for the first line. A server logs a request after its response."""
    end = time.monotonic() + TIMEOUT
    while not lines(caplog):
        assert time.monotonic() < end, "no request is logged"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def default_log_level(caplog: pytest.LogCaptureFixture) -> None:
    """Requests are logged at their default level."""
    caplog.set_level(logging.INFO, "shardql")


def test_operation_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An operation is one line: correlation id, operation name, document hash, and cost."""
    with observed_server(tmp_path) as server:
        first = server.client.post("/graphql", json={"query": SEARCH, "variables": {"p": "j"}})
        server.client.post("/graphql", json={"query": SEARCH, "variables": {"p": "m"}})
        server.post(SEARCH.replace("Search", "Other"))
    line, same, other = lines(caplog)
    seconds = line.pop("milliseconds")
    assert 0 < seconds < TIMEOUT * 1000
    assert line == {
        "correlationId": first.headers["x-request-id"],
        "method": "POST",
        "path": "/graphql",
        "status": 200,
        "operation": "Search",
        "document": line["document"],
        "storeCalls": line["storeCalls"],
        "recordsRead": line["recordsRead"],
        "searches": 1,
        "shardsAsked": 17,
        "recordsReturned": 3,
    }
    assert line["storeCalls"] >= 1
    assert line["recordsRead"] >= 3
    assert (same["operation"], other["operation"]) == ("Search", "Other")
    assert line["document"] == same["document"] != other["document"]


def test_codes_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The line contains the error codes, also those of HTTP errors."""
    with observed_server(tmp_path, wrap=lambda inner: FailingStore(inner, lambda read: True)) as server:
        server.post(SEARCH)
        server.post("{ nothing }")
        server.client.post("/graphql", content=b"{", headers={"content-type": "application/json"})
        server.client.get("/nowhere")
    assert [(line["status"], line["codes"]) for line in lines(caplog)] == [
        (200, (StoreUnavailable.code,)),
        (200, ("GRAPHQL_VALIDATION_FAILED",)),
        (400, ("INVALID_JSON",)),
        (404, ("NOT_FOUND",)),
    ]


def test_nothing_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Variables, tokens, query texts, headers and URL parameters are never logged."""
    caplog.set_level(logging.DEBUG, "shardql")
    with observed_server(tmp_path) as server:
        server.post(SEARCH, variables={"p": SECRET})
        server.post(SEARCH, variables={"wrong": SECRET})
        server.post(f'{{ userByFirstName(prefix: "{SECRET}") {{ items {{ userId }} }} }}')
        server.post(f'{{ userByFirstName(nextToken: "{SECRET}") {{ items {{ userId }} }} }}')
        server.client.get(f"/graphql?query={{x}}&variables={SECRET}", headers={"apollo-require-preflight": "1"})
        server.client.get("/graphql", headers={"authorization": SECRET})
    assert len(lines(caplog)) == 6
    for record in caplog.records:
        assert SECRET not in JsonFormatter().format(record)


def test_health_checks_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Health checks and scrapes are logged only if they fail, or at level debug."""
    with observed_server(tmp_path) as server:
        for path in ("/healthz", "/readyz", "/metrics"):
            server.client.get(path)
        assert lines(caplog) == []
        server.instrumentation.readiness.begin_shutdown()
        server.client.get("/readyz")
        wait_for_lines(caplog)
        assert [(line["path"], line["status"]) for line in lines(caplog)] == [("/readyz", 503)]
        caplog.set_level(logging.DEBUG, "shardql")
        server.client.get("/healthz")
    assert [line["path"] for line in lines(caplog)] == ["/readyz", "/healthz"]


def test_internal_errors_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An internal error is one traceback, and one request line with the same correlation id."""
    instrumentation = Instrumentation(Settings())
    app = build_app(
        instrumentation.instrument_executor(ScriptedExecutor()),
        no_database(),
        Settings(),
        middleware=[instrumentation.middleware()],
    )
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        reply = client.post("/graphql", json={"query": "fail"})
    traceback, line = caplog.records
    assert traceback.exc_info is not None
    assert "ZeroDivisionError" in JsonFormatter().format(traceback)
    assert reply.headers["x-request-id"] in traceback.getMessage()
    facts = getattr(line, "facts")  # noqa: B009
    assert (facts["status"], facts["codes"]) == (500, ("INTERNAL_ERROR",))
    assert facts["correlationId"] == reply.headers["x-request-id"]
    assert "a secret of the server" not in reply.text


class CrashingStore(ForwardingStore):
    """Raises an unexpected error."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        raise ZeroDivisionError


def test_internal_errors_of_fields_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error of a field is one traceback with the correlation id. The line has its code once."""
    with observed_server(tmp_path, wrap=CrashingStore) as server:
        reply = server.post("{ a: userByCreated { nextToken } b: userByPhone { nextToken } }")
    tracebacks = [record for record in caplog.records if record.exc_info is not None]
    assert len(tracebacks) == 2
    for record in tracebacks:
        assert json.loads(JsonFormatter().format(record))["correlationId"] == reply.headers["x-request-id"]
        assert reply.headers["x-request-id"] in TextFormatter().format(record).splitlines()[0]
    assert [line["codes"] for line in lines(caplog)] == [("INTERNAL_ERROR",)]


def test_disconnect_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A request whose client disconnected is logged with status 499."""
    executor, instrumentation = ScriptedExecutor(), Instrumentation(Settings())
    app = build_app(
        instrumentation.instrument_executor(executor),
        no_database(),
        Settings(),
        middleware=[instrumentation.middleware()],
    )
    with serve_app(app) as address:
        with RawConnection(address) as connection:
            connection.send(request("POST /graphql", b'{"query": "wait"}', content_type="application/json"))
            assert executor.waiting.wait(TIMEOUT)
        assert executor.ended.wait(TIMEOUT)
    assert [line["status"] for line in lines(caplog)] == [499]


def test_long_names_are_truncated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Long names and paths of clients are truncated in the log."""
    with observed_server(tmp_path) as server:
        server.post("{ nothing }", operationName="n" * 10_000)
        server.client.get("/" + "p" * 5_000)
    for line in lines(caplog):
        assert len(json.dumps(line)) < 1_000


# --- formatters ------------------------------------------------------------------------------------------------


def record(message: str, /, *arguments: object, **facts: object) -> logging.LogRecord:
    """Create a log record."""
    made = logging.LogRecord("shardql.request", logging.INFO, __file__, 1, message, arguments, None)
    made.created = 1_764_000_000.25
    made.__dict__["facts"] = facts
    return made


def test_json_lines() -> None:
    """A JSON line has time, level, logger, message, and the facts."""
    assert json.loads(JsonFormatter().format(record("%s %s", "POST", "/graphql", status=200, codes=("A", "B")))) == {
        "time": "2025-11-24T16:00:00.250+00:00",
        "level": "info",
        "logger": "shardql.request",
        "message": "POST /graphql",
        "status": 200,
        "codes": ["A", "B"],
    }


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
@pytest.mark.parametrize("text", ["a\nb", "\x1b[2Ja", "a\r", "\u2028a", "\ud800a", "\x00a"])
def test_lines_cannot_be_forged(formatter: logging.Formatter, text: str) -> None:
    """With any name or path, a log entry stays one printable line."""
    written = formatter.format(record("GET %s", text, operation=text))
    assert written.isprintable()
    written.encode("utf-8")


def test_tracebacks() -> None:
    """In text format a traceback follows its line. In JSON it is a property."""
    failed = record("It failed.")
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        failed.exc_info = sys.exc_info()
    first, *others = TextFormatter().format(failed).splitlines()
    assert first.endswith("info    It failed.")
    assert others[0].startswith("Traceback")
    assert json.loads(JsonFormatter().format(failed))["exception"].endswith("integer division or modulo by zero")


@pytest.mark.usefixtures("restore_loggers")
def test_uvicorn_uses_the_same_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings of uvicorn and other libraries have the same format. Their info messages are dropped."""
    configure_logging("info", "json")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("uvicorn.error").info("Shutting down")
    logging.getLogger("botocore").info("Found credentials")
    logging.getLogger("shardql").info("Ours")
    logging.getLogger("shardql").debug("Too much")
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["logger"], line["level"]) for line in logged] == [("uvicorn.error", "warning"), ("shardql", "info")]
