"""`/metrics` of a real server after known requests."""

from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from graphql_api.examples.users import generate_users
from graphql_api.server.app import build_app
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.observability.metrics import MAX_CODES, OTHER, Metric, Metrics
from graphql_api.server.settings import Settings, read_settings
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, ReadResult
from tests.server.observed_server import USER_COUNT, count_changes, observed_server, parse_counts
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import TIMEOUT, RawConnection, request, serve_app
from tests.support.store_doubles import CountingStore, FailingStore

PAGE = "query Page($after: String) { userByCreated(limit: 9, nextToken: $after) { items { userId } nextToken } }"


def test_metrics_change_by_exact_counts(tmp_path: Path) -> None:
    """Between two scrapes, each metric changes by exactly the effect of the requests. No other metric changes."""
    stores: list[CountingStore] = []

    def wrap(inner: Store) -> Store:
        stores.append(CountingStore(inner))
        return stores[-1]

    with observed_server(tmp_path, wrap=wrap) as server:
        before = server.counts()
        first = server.post(PAGE).json()["data"]["userByCreated"]
        second = server.post(PAGE, variables={"after": first["nextToken"]}).json()["data"]["userByCreated"]
        known = next(generate_users(1)).user_id
        assert server.post(f'{{ user(id: "{known}") {{ userId }} }}').json()["data"]["user"]["userId"] == known
        assert server.post(PAGE, variables={"after": "forged"}).json()["data"]["userByCreated"] is None
        mismatch = f'{{ userByPhone(nextToken: "{first["nextToken"]}") {{ items {{ userId }} }} }}'
        assert "errors" in server.post(mismatch).json()
        assert "errors" in server.post("{ nothing }").json()
        assert "errors" in server.post("{").json()
        assert server.client.get("/nowhere").status_code == 404
        assert server.client.get("/healthz").status_code == 200
        after = server.counts()
    (store,) = stores
    counted = count_changes(before, after)
    assert len(first["items"]) == len(second["items"]) == 9
    shards = len(set(store.counts.hash_keys))
    assert counted == {
        "shardql_http_requests_total graphql 200": 7,
        "shardql_http_requests_total other 404": 1,
        "shardql_http_requests_total healthz 200": 1,
        "shardql_http_requests_total metrics 200": 1,
        "shardql_operations_total ok": 3,
        "shardql_queries_total fast": 5,
        "shardql_operations_total errors": 2,
        "shardql_operations_total refused": 2,
        "shardql_operation_queue_seconds_count": 7,
        "shardql_operation_seconds_count": 7,
        "shardql_errors_total INVALID_TOKEN": 1,
        "shardql_errors_total TOKEN_MISMATCH": 1,
        "shardql_errors_total GRAPHQL_VALIDATION_FAILED": 1,
        "shardql_errors_total GRAPHQL_PARSE_FAILED": 1,
        "shardql_errors_total NOT_FOUND": 1,
        "shardql_token_errors_total INVALID_TOKEN": 1,
        "shardql_token_errors_total TOKEN_MISMATCH": 1,
        "shardql_store_calls_total read_ranges ok": store.counts.rounds,
        "shardql_store_call_seconds_count read_ranges": store.counts.rounds,
        "shardql_store_calls_total get_many ok": 1,
        "shardql_store_call_seconds_count get_many": 1,
        "shardql_searches_total user created first_page": 1,
        "shardql_searches_total user created next_page": 1,
        "shardql_key_reads_total user": 1,
        "shardql_shards_asked_total user created": 2 * shards,
        "shardql_records_read_total user created": store.counts.records_read,
        "shardql_records_read_total user id": 1,
        "shardql_records_returned_total user created": 9 + 9,
        "shardql_records_returned_total user id": 1,
        "shardql_index_read_seconds_count user created": store.counts.rounds,
        "shardql_index_read_seconds_count user id": 1,
    }
    assert shards == 17
    assert store.counts.rounds >= 2


def test_full_traversal_is_counted(tmp_path: Path) -> None:
    """After a traversal of all pages, the records returned are all stored records."""
    with observed_server(tmp_path) as server:
        before, token = server.counts(), None
        while True:
            page = server.post(PAGE, variables={"after": token}).json()["data"]["userByCreated"]
            token = page["nextToken"]
            if token is None:
                break
        counted = count_changes(before, server.counts())
    assert counted["shardql_records_returned_total user created"] == USER_COUNT
    assert counted["shardql_searches_total user created first_page"] == 1
    assert counted["shardql_searches_total user created next_page"] == -(-USER_COUNT // 9) - 1
    assert counted["shardql_records_read_total user created"] >= USER_COUNT


def test_store_failures_are_counted(tmp_path: Path) -> None:
    """A failing shard is counted as an outcome of the call and as an error code."""

    def fails(read: RangeRead) -> bool:
        return read.hash_key == "user!03"

    with observed_server(tmp_path, wrap=lambda inner: FailingStore(inner, fails)) as server:
        before = server.counts()
        server.post(PAGE)
        counted = count_changes(before, server.counts())
    assert counted["shardql_store_calls_total read_ranges STORE_UNAVAILABLE"] == 1
    assert counted["shardql_errors_total STORE_UNAVAILABLE"] == 1
    assert counted["shardql_operations_total errors"] == 1
    assert not any(name.startswith(("shardql_records_returned", "shardql_searches")) for name in counted)


class CrashingStore(CountingStore):
    """Raises an unexpected error."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        raise ZeroDivisionError


def test_internal_errors_are_counted(tmp_path: Path) -> None:
    """An unexpected error is counted as an internal error of the operation and as an outcome of the call."""
    with observed_server(tmp_path, wrap=CrashingStore) as server:
        before = server.counts()
        server.post(PAGE)
        counted = count_changes(before, server.counts())
    assert counted["shardql_errors_total INTERNAL_ERROR"] == 1
    assert counted["shardql_operations_total errors"] == 1
    assert counted["shardql_store_calls_total read_ranges UNFORESEEN"] == 1


def test_operations_in_flight() -> None:
    """An operation is in flight until its end. On a disconnect it ends as cancelled, with status 499."""
    executor, instrumentation = ScriptedExecutor(), Instrumentation(Settings())
    app = build_app(
        instrumentation.instrument_executor(executor),
        no_database(),
        Settings(),
        instrumentation.routes(),
        middleware=[instrumentation.middleware()],
    )
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        with RawConnection(address) as connection:
            connection.send(request("POST /graphql", b'{"query": "wait"}', content_type="application/json"))
            assert executor.waiting.wait(TIMEOUT)
            during = parse_counts(client.get("/metrics").text)
        assert executor.ended.wait(TIMEOUT)
        after = parse_counts(client.get("/metrics").text)
        while "shardql_http_requests_total graphql 499" not in after:
            after = parse_counts(client.get("/metrics").text)
        client.post("/graphql", json={"query": "fail"})
        failed = parse_counts(client.get("/metrics").text)
    assert (during["shardql_operations_in_flight"], after["shardql_operations_in_flight"]) == (1, 0)
    assert "shardql_operations_total cancelled" not in during
    assert after["shardql_operations_total cancelled"] == 1
    assert (failed["shardql_operations_total failed"], failed["shardql_errors_total INTERNAL_ERROR"]) == (1, 1)
    assert failed["shardql_operations_in_flight"] == 0


def test_formats_of_the_page(tmp_path: Path) -> None:
    """The page is in Prometheus text format, or in OpenMetrics if requested, and is never cached."""
    with observed_server(tmp_path) as server:
        plain = server.client.get("/metrics")
        open_form = server.client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert plain.headers["content-type"].startswith("text/plain")
    assert plain.headers["cache-control"] == "no-store"
    assert open_form.headers["content-type"].startswith("application/openmetrics-text")
    assert open_form.text.endswith("# EOF\n")


def test_root_path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a path prefix of a proxy, requests are counted by the same routes. Health checks are not logged."""
    caplog.set_level("INFO", "shardql")
    with observed_server(tmp_path, root_path="/prefix") as server:
        before = server.counts()
        server.post(PAGE)
        server.client.get("/healthz")
        counted = count_changes(before, server.counts())
    assert counted["shardql_http_requests_total graphql 200"] == 1
    assert counted["shardql_http_requests_total healthz 200"] == 1
    assert caplog.messages == ["POST /prefix/graphql 200"]


def test_metrics_disabled(tmp_path: Path) -> None:
    """If metrics are disabled, their path is not found."""
    with observed_server(tmp_path, settings=read_settings(graphiql=False, metrics=False)) as server:
        assert server.client.get("/metrics").status_code == 404
        assert server.client.get("/readyz").status_code == 200


def test_servers_have_separate_counts() -> None:
    """Two servers in one process have separate counts."""
    first, second = Metrics(), Metrics()

    first.record(Metric.STORE_RETRIES, amount=3)
    assert parse_counts(first.render("")[0].decode())["shardql_store_retries_total"] == 3
    assert parse_counts(second.render("")[0].decode())["shardql_store_retries_total"] == 0


def test_code_labels_are_limited() -> None:
    """The number of code labels is limited, however many codes custom resolvers use. Known codes keep theirs."""
    metrics = Metrics()
    labels = [metrics.code_label(f"CODE_{number}") for number in range(MAX_CODES * 2)]
    assert labels == [f"CODE_{number}" for number in range(MAX_CODES)] + [OTHER] * MAX_CODES
    assert metrics.code_label("CODE_7") == "CODE_7"


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_operational_paths_are_read_only(path: str, tmp_path: Path) -> None:
    """The operational paths support GET and HEAD only."""
    with observed_server(tmp_path) as server:
        assert server.client.head(path).status_code == 200
        assert server.client.post(path).status_code == 405
