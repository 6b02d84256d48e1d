"""`shardql serve`: its output, shutdown, workers, and errors at startup."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from graphql_api.cli import app
from graphql_api.errors import BodyTooLarge, DocumentRequired, QueryTooDeep
from graphql_api.examples.users import generate_users
from tests.server.observed_server import count_changes, parse_counts
from tests.server.server_processes import (
    KEY,
    USERS,
    ServerProcess,
    run_failing_server,
    server_process,
    wait_until_refused,
)
from tests.support.loopback import LOOPBACK, TIMEOUT, RawConnection

PAGE = "query Page($after: String) { userByCreated(limit: 5, nextToken: $after) { items { userId } nextToken } }"
PROC = Path("/proc/self/task")


def sorted_ids(count: int) -> list[str]:
    """Return the ids of sample users in the order of `userByCreated`."""
    return [user.user_id for user in sorted(generate_users(count), key=lambda user: (user.created, user.user_id))]


# --- start and shutdown ----------------------------------------------------------------------------------------


def test_first_and_second_start(tmp_path: Path) -> None:
    """The first start writes the sample and prints its URL. The second start keeps data and token key."""
    words = (USERS, "--sample", "40", "--store", "sqlite:///users.db")
    with server_process(tmp_path, *words) as first:
        page = first.execute(PAGE)["data"]["userByCreated"]
        browser = httpx.get(first.url, headers={"accept": "text/html"})
        assert first.stop(signal.SIGINT) == 0
    with server_process(tmp_path, *words) as second:
        next_page = second.execute(PAGE, variables={"after": page["nextToken"]})["data"]["userByCreated"]
        assert second.stop() == 0
    ids = [item["userId"] for item in (*page["items"], *next_page["items"])]
    assert ids == sorted_ids(40)[:10]
    assert "GraphiQL" in browser.text
    assert re.fullmatch(
        r"Wrote \d+ sample records to sqlite:///users\.db\.\n"
        rf"Serving {USERS} at http://127\.0\.0\.1:\d+/graphql\n"
        r"  mode    development: introspection, GraphiQL, data page, explain\n"
        r"  store   sqlite:///users\.db\n"
        r"  tokens  sealed with the key in users\.db\.token-key\n"
        r"  callers anonymous; tokens of `shardql token --store sqlite:///users\.db`\n"
        r"Press Ctrl-C to stop\.\n",
        first.output,
    )
    assert second.output.startswith("Serving ")
    assert "Traceback" not in first.log.read_text() + second.log.read_text()


def test_accepted_requests_are_finished(tmp_path: Path) -> None:
    """After a signal no connection is accepted, and accepted requests get their complete response."""
    body = json.dumps({"query": PAGE}).encode()
    with server_process(tmp_path, USERS, "--sample", "20") as server, RawConnection(server.address) as connection:
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n"
        connection.send(f"POST /graphql HTTP/1.1\r\nhost: {LOOPBACK}\r\n{head}".encode())
        assert connection.socket.recv(1000).startswith(b"HTTP/1.1 100 ")
        server.process.send_signal(signal.SIGTERM)
        wait_until_refused(server.address)
        connection.send(body)
        reply = connection.reply()
        assert server.process.wait(TIMEOUT) == 0
    assert [item["userId"] for item in reply.json["data"]["userByCreated"]["items"]] == sorted_ids(20)[:5]
    assert reply.headers["connection"] == "close"


def test_shutdown_timeout(tmp_path: Path) -> None:
    """Requests that exceed the shutdown timeout are aborted. The exit code is 0."""
    with (
        server_process(tmp_path, USERS, SHARDQL_STOP_SECONDS="1") as server,
        RawConnection(server.address) as connection,
    ):
        connection.send(f"POST /graphql HTTP/1.1\r\nhost: {LOOPBACK}\r\n".encode())
        connection.send(b"content-type: application/json\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n")
        assert connection.socket.recv(1000).startswith(b"HTTP/1.1 100 ")
        assert server.stop() == 0


def test_draining(tmp_path: Path) -> None:
    """A draining server is not ready and still serves requests. A second Ctrl-C stops it at once."""
    with server_process(tmp_path, USERS, "--sample", "20", SHARDQL_DRAIN_SECONDS="600") as server:
        ready = httpx.get(f"{server.address}/readyz")
        server.process.send_signal(signal.SIGINT)
        end = time.monotonic() + TIMEOUT
        while (draining := httpx.get(f"{server.address}/readyz")).status_code == 200 and time.monotonic() < end:
            time.sleep(0.02)
        answer = server.execute(PAGE)
        assert server.stop(signal.SIGINT) == 0
    assert (ready.status_code, draining.status_code, draining.json()["code"]) == (200, 503, "STOPPING")
    assert len(answer["data"]["userByCreated"]["items"]) == 5


# --- modes and settings ----------------------------------------------------------------------------------------


def test_production(tmp_path: Path) -> None:
    """In production, introspection and GraphiQL are disabled, and every log line is JSON."""
    words = (USERS, "--production", "--store", "sqlite:///users.db", "--sample", "20")
    variables = {"SHARDQL_TOKEN_KEYS": KEY, "SHARDQL_RECORD_KEY": KEY, "SHARDQL_DRAIN_SECONDS": "0"}
    with server_process(tmp_path, *words, **variables) as server:
        schema = server.execute("{ __schema { queryType { name } } }")
        mistyped = server.execute("{ userByCreate { items { userId } } }")
        browser = httpx.get(server.url, headers={"accept": "text/html"})
        page = server.execute(PAGE)["data"]["userByCreated"]
        assert server.stop() == 0
    assert "data" not in schema
    assert "Did you mean" not in json.dumps(mistyped)
    assert browser.status_code == 406
    assert "mode    production\n" in server.output
    assert "tokens  sealed with 1 key from the settings\n" in server.output
    warning, hosts, *requests = map(json.loads, server.log.read_text().splitlines())
    assert (
        warning["message"]
        == "Anyone who reaches the server can read and write User, Email: no access rule is declared."
    )
    assert "list the names that clients use in SHARDQL_ALLOWED_HOSTS" in hosts["message"]
    assert [line["status"] for line in requests] == [200, 200, 406, 200]
    with server_process(tmp_path, *words, **variables) as other:
        next_page = other.execute(PAGE, variables={"after": page["nextToken"]})["data"]["userByCreated"]
    assert [item["userId"] for item in next_page["items"]] == sorted_ids(20)[5:10]


def test_settings_reach_the_server(tmp_path: Path) -> None:
    """Path, documents, CORS origins and the body limit come from environment variables."""
    (tmp_path / "queries.json").write_text(json.dumps({"page": PAGE}))
    variables = {
        "SHARDQL_PATH": "/api",
        "SHARDQL_DOCUMENTS": "queries.json",
        "SHARDQL_ONLY_DOCUMENTS": "1",
        "SHARDQL_TRACING": "1",
        "SHARDQL_MAX_BODY_BYTES": "300",
        "SHARDQL_CORS_ORIGINS": "https://app.example",
    }
    with server_process(tmp_path, USERS, "--sample", "20", **variables) as server:
        assert server.url.endswith("/api")
        origin = {"origin": "https://app.example"}
        known = httpx.post(server.url, json={"documentId": "page"}, headers=origin)
        unknown = httpx.post(server.url, json={"query": "{ __typename }"}).json()
        large = httpx.post(server.url, json={"query": "#" * 300}).json()
        foreign = httpx.post(server.url, json={"documentId": "page"}, headers={"origin": "https://other.example"})
    assert len(known.json()["data"]["userByCreated"]["items"]) == 5
    assert known.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in foreign.headers
    assert unknown["errors"][0]["extensions"]["code"] == DocumentRequired.code
    assert large["errors"][0]["extensions"]["code"] == BodyTooLarge.code


def test_depth_from_the_environment(tmp_path: Path) -> None:
    """A limit from an environment variable is enforced."""
    with server_process(tmp_path, USERS, SHARDQL_MAX_DEPTH="2") as server:
        refused = server.execute(PAGE)
        allowed = server.execute("{ userByCreated { nextToken } }")
    assert [error["extensions"]["code"] for error in refused["errors"]] == [QueryTooDeep.code]
    assert "errors" not in allowed


def test_custom_catalog(tmp_path: Path) -> None:
    """A catalog in the working directory is served without options, with a store in the same directory."""
    (tmp_path / "own_shop.py").write_text(
        "from graphql_api import Catalog, Entity, Id\n\n"
        "class Ware(Entity):\n    ware_id: Id[str]\n\n"
        "catalog = Catalog(Ware)\n"
    )
    with server_process(tmp_path, "own_shop:catalog") as server:
        assert server.execute('{ ware(id: "x") { wareId } }') == {"data": {"ware": None}}
        assert server.stop() == 0
    assert (tmp_path / "shardql.db").exists()


# --- workers ---------------------------------------------------------------------------------------------------


def worker_processes(process: int) -> list[int]:
    """Return the ids of the worker processes of a process."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(one) for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def test_workers_share_port_and_metrics(tmp_path: Path) -> None:
    """Workers share a port, and each returns the total metrics of all. A signal ends all of them with 0."""
    with server_process(tmp_path, USERS, "--workers", "2", "--sample", "20", "--log-format", "json") as server:
        before = parse_counts(httpx.get(f"{server.address}/metrics").text)
        for _ in range(30):
            assert len(server.execute(PAGE)["data"]["userByCreated"]["items"]) == 5
        after = parse_counts(httpx.get(f"{server.address}/metrics").text)
        assert server.stop() == 0
    counted = count_changes(before, after)
    assert counted["shardql_operations_total ok"] == 30
    assert counted["shardql_records_returned_total user created"] == 150
    assert counted["shardql_operation_seconds_count"] == 30
    assert after["shardql_operations_in_flight"] == 0
    assert "Traceback" not in server.log.read_text()


@pytest.mark.skipif(not PROC.exists(), reason="needs /proc to find processes")
def test_killed_worker_is_replaced(tmp_path: Path) -> None:
    """A killed worker is replaced, with a log entry. The other workers keep serving, and no counts are lost."""
    earlier = tmp_path / "earlier.txt"
    with server_process(tmp_path, USERS, "--workers", "2", "--sample", "20") as server:
        for _ in range(12):
            server.execute(PAGE)
        earlier.write_text(httpx.get(f"{server.address}/metrics").text)
        first = worker_processes(server.process.pid)
        os.kill(first[0], signal.SIGKILL)
        assert len(server.execute(PAGE)["data"]["userByCreated"]["items"]) == 5
        workers = wait_until_replaced(server, first[0])
        result = CliRunner().invoke(app, ["compare", str(earlier), server.address, "--json"])
        assert server.stop() == 0
    assert first[1] in workers
    periods = [json.loads(result.stdout)[side] for side in ("before", "after")]
    assert [(period["operations"], period["since"]) for period in periods] == [
        (12, "the start of the server"),
        (1, "the first page"),
    ]
    assert re.search(rf"Worker process {first[0]} ended with -9: starting a new one", server.log.read_text())


def wait_until_replaced(server: ServerProcess, worker: int) -> list[int]:
    """Wait until another process replaces a worker, and connect to the server meanwhile. Return the workers."""
    end = time.monotonic() + TIMEOUT
    while len(workers := worker_processes(server.process.pid)) < 2 or worker in workers:
        assert time.monotonic() < end, "the worker is not replaced"
        assert httpx.get(f"{server.address}/healthz", timeout=TIMEOUT).status_code == 200
        time.sleep(0.05)
    return workers


@pytest.mark.skipif(not PROC.exists(), reason="needs /proc to find processes")
def test_stopped_worker_is_replaced(tmp_path: Path) -> None:
    """A worker that gets a stop signal of its own is replaced. The server accepts connections all the time."""
    with server_process(tmp_path, USERS, "--workers", "2", SHARDQL_DRAIN_SECONDS="0.1") as server:
        first = worker_processes(server.process.pid)
        os.kill(first[0], signal.SIGTERM)
        assert first[1] in wait_until_replaced(server, first[0])
        for _ in range(10):
            assert httpx.get(f"{server.address}/healthz", timeout=TIMEOUT).status_code == 200
        assert server.stop() == 0


@pytest.mark.skipif(not PROC.exists(), reason="needs /proc to find processes")
def test_workers_end_with_the_main_process(tmp_path: Path) -> None:
    """When the main process is killed, the workers stop, the port is free, and the metrics files are deleted."""
    counts = tmp_path / "counts"
    counts.mkdir()
    with server_process(tmp_path, USERS, "--workers", "2", TMPDIR=str(counts)) as server:
        assert [path.name.startswith("shardql-metrics-") for path in counts.iterdir()] == [True]
        server.process.kill()
        server.process.wait(TIMEOUT)
        wait_until_refused(server.address)
        end = time.monotonic() + TIMEOUT
        while [*counts.iterdir()]:
            assert time.monotonic() < end, "the metrics files are not deleted"
            time.sleep(0.02)


# --- errors at startup -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "variables", "exit_code", "message"),
    [
        (["graphql_api.examples.user:catalog"], {}, 4, "Did you mean 'graphql_api.examples.users'?"),
        (["graphql_api.examples.users:catalogue"], {}, 4, "Did you mean 'catalog'?"),
        ([USERS, "--store", "mysql://x"], {}, 2, "'mysql://x' is not a store URL. Use sqlite:///"),
        ([USERS, "--store", "sqlite:///none/x.db"], {}, 3, "none/x.db"),
        (
            [USERS, "--production", "--store", "sqlite:///x.db"],
            {"SHARDQL_RECORD_KEY": KEY},
            2,
            "Production needs a key",
        ),
        (
            [USERS, "--production", "--store", "sqlite:///x.db"],
            {"SHARDQL_TOKEN_KEYS": KEY},
            2,
            "needs a key that signs record",
        ),
        (
            [USERS, "--production"],
            {"SHARDQL_TOKEN_KEYS": KEY, "SHARDQL_RECORD_KEY": KEY},
            2,
            "Production needs a store",
        ),
        ([USERS, "--port", "70000"], {}, 2, "--port is 70000"),
        ([USERS, "--host", "nowhere.invalid"], {}, 2, "Cannot listen on nowhere.invalid:0"),
        ([USERS], {"SHARDQL_PRODUCTON": "1"}, 2, "Did you mean SHARDQL_PRODUCTION?"),
        ([USERS], {"SHARDQL_DOCUMENTS": "none.json"}, 2, "SHARDQL_DOCUMENTS names none.json: No such file"),
        ([USERS], {"SHARDQL_CORS_ORIGINS": "app.example"}, 2, "'app.example' is not an origin"),
        ([USERS, "--read-only", "--sample", "3"], {}, 2, "leave out --sample"),
    ],
)
@pytest.mark.usefixtures("restore_loggers")
def test_errors(
    words: list[str],
    variables: dict[str, str],
    exit_code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that cannot start prints one line with the remedy, and has an exit code for the kind of error."""
    monkeypatch.chdir(tmp_path)
    free = {"SHARDQL_PORT": "0"} if "--port" not in words else {}
    for name in [name for name in os.environ if name.startswith("SHARDQL_")]:
        monkeypatch.delenv(name)
    result = CliRunner().invoke(app, ["serve", *words], env={"COLUMNS": "300", **free, **variables})
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr
    assert re.fullmatch(r"shardql: .+\n", result.stderr)


def test_store_error_with_workers(tmp_path: Path) -> None:
    """If the store cannot be opened, no worker is started, and one error is printed."""
    result = run_failing_server(tmp_path, USERS, "--store", "sqlite:///none/x.db", "--workers", "2", "--port", "0")
    assert (result.returncode, result.stdout) == (3, "")
    assert re.fullmatch(r"shardql: none/x\.db: .+\n", result.stderr)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_port_in_use(workers: str, tmp_path: Path) -> None:
    """A port in use is a one-line error, before anything is written."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run_failing_server(tmp_path, USERS, "--port", port, "--workers", workers)
    assert (result.returncode, result.stdout) == (2, "")
    assert re.fullmatch(rf"shardql: Cannot listen on 127\.0\.0\.1:{port}: address already in use\. .+\n", result.stderr)
    assert not [*tmp_path.iterdir()]
