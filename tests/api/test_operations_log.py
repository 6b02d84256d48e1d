"""The log of requests: one line each, with what helps and nothing that is secret."""

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphql_api.cli.process.log_output import JsonFormatter, TextFormatter, configure_logging
from graphql_api.errors import StoreUnavailable
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.storage.values import RangeRead, ReadResult
from tests.api.running import PATIENCE, Wire, request, running
from tests.api.scripted import ScriptedEngine, no_database
from tests.api.watched import watched
from tests.stores import FailingStore, WrappedStore

SECRET = "a-secret-of-a-client"  # noqa: S105 - that of a client who puts it where it does not belong
SEARCH = "query Search($p: String) { userByFirstName(prefix: $p, limit: 3) { items { userId } nextToken } }"


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """What was logged of requests."""
    return [getattr(record, "facts") for record in caplog.records if record.name == "shardql.request"]  # noqa: B009


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    """Requests are logged as they are by default."""
    caplog.set_level(logging.INFO, "shardql")


def test_a_line_for_an_operation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An operation is one line: the id of its reply, its name, what its text hashes to, and what it cost."""
    with watched(tmp_path) as server:
        first = server.client.post("/graphql", json={"query": SEARCH, "variables": {"p": "j"}})
        server.client.post("/graphql", json={"query": SEARCH, "variables": {"p": "m"}})
        server.post(SEARCH.replace("Search", "Other"))
    line, same, other = lines(caplog)
    seconds = line.pop("milliseconds")
    assert 0 < seconds < PATIENCE * 1000
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
    """The codes of errors are in the line, those of the way to the server too."""
    with watched(tmp_path, wrap=lambda inner: FailingStore(inner, lambda read: True)) as server:
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
    """Variables, tokens, texts of queries, headers and what stands behind the path never get into the log."""
    caplog.set_level(logging.DEBUG, "shardql")
    with watched(tmp_path) as server:
        server.post(SEARCH, variables={"p": SECRET})
        server.post(SEARCH, variables={"wrong": SECRET})
        server.post(f'{{ userByFirstName(prefix: "{SECRET}") {{ items {{ userId }} }} }}')
        server.post(f'{{ userByFirstName(nextToken: "{SECRET}") {{ items {{ userId }} }} }}')
        server.client.get(f"/graphql?query={{x}}&variables={SECRET}", headers={"apollo-require-preflight": "1"})
        server.client.get("/graphql", headers={"authorization": SECRET})
    assert len(lines(caplog)) == 6
    for record in caplog.records:
        assert SECRET not in JsonFormatter().format(record)


def test_machines_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Questions of machines are logged only when the answer is bad, or at level debug."""
    with watched(tmp_path) as server:
        for path in ("/healthz", "/readyz", "/metrics"):
            server.client.get(path)
        assert lines(caplog) == []
        server.operations.readiness.begin_shutdown()
        server.client.get("/readyz")
        assert [(line["path"], line["status"]) for line in lines(caplog)] == [("/readyz", 503)]
        caplog.set_level(logging.DEBUG, "shardql")
        server.client.get("/healthz")
    assert [line["path"] for line in lines(caplog)] == ["/readyz", "/healthz"]


def test_mistakes_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A mistake of the server is one line with its traceback, and the line of its request with the same id."""
    operations = Instrumentation()
    app = build_app(
        operations.instrument_executor(ScriptedEngine()),
        no_database(),
        WebOptions(),
        middleware=[operations.middleware()],
    )
    with running(app) as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        reply = client.post("/graphql", json={"query": "fail"})
    told, line = caplog.records
    assert told.exc_info is not None
    assert "ZeroDivisionError" in JsonFormatter().format(told)
    assert reply.headers["x-request-id"] in told.getMessage()
    facts = getattr(line, "facts")  # noqa: B009
    assert (facts["status"], facts["codes"]) == (500, ("INTERNAL_ERROR",))
    assert facts["correlationId"] == reply.headers["x-request-id"]
    assert "a secret of the server" not in reply.text


class Mistaken(WrappedStore):
    """Fails as nobody foresaw."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        raise ZeroDivisionError


def test_mistakes_in_fields_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody foresaw in a field is one traceback under the id of the reply, its code once in the line."""
    with watched(tmp_path, wrap=Mistaken) as server:
        reply = server.post("{ a: userByCreated { nextToken } b: userByPhone { nextToken } }")
    tracebacks = [record for record in caplog.records if record.exc_info is not None]
    assert len(tracebacks) == 2
    for record in tracebacks:
        assert json.loads(JsonFormatter().format(record))["correlationId"] == reply.headers["x-request-id"]
        assert reply.headers["x-request-id"] in TextFormatter().format(record).splitlines()[0]
    assert [line["codes"] for line in lines(caplog)] == [("INTERNAL_ERROR",)]


def test_a_client_that_left_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A request whose client did not wait is logged with status 499."""
    engine, operations = ScriptedEngine(), Instrumentation()
    app = build_app(
        operations.instrument_executor(engine), no_database(), WebOptions(), middleware=[operations.middleware()]
    )
    with running(app) as address:
        with Wire(address) as wire:
            wire.send(request("POST /graphql", b'{"query": "wait"}', content_type="application/json"))
            assert engine.waits.wait(PATIENCE)
        assert engine.ended.wait(PATIENCE)
    assert [line["status"] for line in lines(caplog)] == [499]


def test_long_names_are_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a client makes up takes no more room in the log than a line has."""
    with watched(tmp_path) as server:
        server.post("{ nothing }", operationName="n" * 10_000)
        server.client.get("/" + "p" * 5_000)
    for line in lines(caplog):
        assert len(json.dumps(line)) < 1_000


# --- how a line is written -------------------------------------------------------------------------------------


def record(message: str, /, *arguments: object, **facts: object) -> logging.LogRecord:
    """A line of log."""
    made = logging.LogRecord("shardql.request", logging.INFO, __file__, 1, message, arguments, None)
    made.created = 1_764_000_000.25
    made.__dict__["facts"] = facts
    return made


def test_json_lines() -> None:
    """A line in JSON has time, level, logger and message, and the facts beside them."""
    assert json.loads(JsonFormatter().format(record("%s %s", "POST", "/graphql", status=200, codes=("A", "B")))) == {
        "time": "2025-11-24T16:00:00.250+00:00",
        "level": "info",
        "logger": "shardql.request",
        "message": "POST /graphql",
        "status": 200,
        "codes": ["A", "B"],
    }


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
@pytest.mark.parametrize("trick", ["a\nb", "\x1b[2Ja", "a\r", "\u2028a", "\ud800a", "\x00a"])
def test_no_line_breaks_out(formatter: logging.Formatter, trick: str) -> None:
    """Whatever a client puts into a name or a path, a line stays one line that can be written."""
    written = formatter.format(record("GET %s", trick, operation=trick))
    assert written.isprintable()
    written.encode("utf-8")


def test_text_lines_hold_tracebacks() -> None:
    """For people a traceback stands below its line; in JSON it is a part of it."""
    failed = record("It failed.")
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        failed.exc_info = sys.exc_info()
    first, *others = TextFormatter().format(failed).splitlines()
    assert first.endswith("info    It failed.")
    assert others[0].startswith("Traceback")
    assert json.loads(JsonFormatter().format(failed))["exception"].endswith("integer division or modulo by zero")


@pytest.mark.usefixtures("loggers_as_before")
def test_uvicorn_logs_in_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    """What uvicorn and other libraries warn of comes in the form of our own log; what they chat about does not come."""
    configure_logging("info", "json")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("uvicorn.error").info("Shutting down")
    logging.getLogger("botocore").info("Found credentials")
    logging.getLogger("shardql").info("Ours")
    logging.getLogger("shardql").debug("Too much")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["logger"], line["level"]) for line in said] == [("uvicorn.error", "warning"), ("shardql", "info")]
