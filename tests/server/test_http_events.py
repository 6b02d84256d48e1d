"""`POST /events/SOURCE` over loopback: who may post, what is refused, and that each event is applied once."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphql_api import Graph, asgi, signed_in
from tests.projections.account_projections import CATALOG, GRAPH, accounts, careful_accounts
from tests.support.dynamodb_servers import CREDENTIALS, ENGINE, REGION, Server
from tests.support.loopback import TIMEOUT, serve_app

FEED, OTHER = "0123456789-feed-key-0123456789", "0123456789-other-key-0123456789"
OPENED = {"stream": "a", "seq": 1, "type": "Opened", "data": {"accountId": "a", "owner": "ann", "at": "1"}}


def moved(seq: int, balance: int = 5, stream: str = "a") -> dict[str, Any]:
    """An event of an account."""
    return {"stream": stream, "seq": seq, "type": "Moved", "data": {"accountId": stream, "balance": balance, "at": "1"}}


@dataclass
class Poster:
    """A client that posts events with an API key."""

    client: httpx.Client
    key: str | None = FEED

    def post(self, events: Any, source: str = "bank", **more: Any) -> httpx.Response:
        """Post events."""
        headers = {} if self.key is None else {"x-api-key": self.key}
        return self.client.post(f"/events/{source}", json=events, headers=headers, **more)

    def applied(self, events: Any, source: str = "bank") -> dict[str, Any]:
        """Post events that must be accepted, and return what became of them, by projection."""
        reply = self.post(events, source)
        assert reply.status_code == 200, reply.text
        projections: dict[str, Any] = reply.json()["projections"]
        return projections

    def refused(self, events: Any, source: str = "bank", **more: Any) -> tuple[int, dict[str, Any]]:
        """Post events that must be refused, and return the status and the first error."""
        reply = self.post(events, source, **more)
        body = reply.json()
        assert reply.headers["content-type"] == "application/json; charset=utf-8"
        return reply.status_code, {"message": body["errors"][0]["message"], **body["errors"][0]["extensions"]}

    def account(self, id: str = "a") -> Any:
        """Read an account over GraphQL."""
        query = f'{{ account(id: "{id}") {{ owner balance version }} }}'
        return self.client.post("/graphql", json={"query": query}).json()["data"]["account"]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with the keys of a member of Feed and of another caller."""
    path = tmp_path / "keys.json"
    entries = [{"key": FEED, "subject": "feed", "groups": ["Feed"]}, {"key": OTHER, "subject": "other"}]
    path.write_text(json.dumps(entries))
    return path


@pytest.fixture(params=["sqlite", ENGINE])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a table that does not exist."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'bank.db'}"
    server: Server = request.getfixturevalue("dynamodb")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return f"dynamodb://posted-{tmp_path.name}?endpoint={server.endpoint}&region={REGION}&deadline=60&read_seconds=30"


@pytest.fixture
def poster(store: str, keys: Path) -> Iterator[Poster]:
    """A client of a running server."""
    app = asgi(GRAPH, store, api_keys_file=keys, max_body_bytes=100_000, create_table=True)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        yield Poster(client)


@pytest.fixture
def local_poster(tmp_path: Path, keys: Path) -> Iterator[Poster]:
    """A client of a running server on SQLite, for what does not depend on the engine."""
    app = asgi(GRAPH, f"sqlite:///{tmp_path / 'bank.db'}", api_keys_file=keys, max_body_bytes=100_000)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        yield Poster(client)


def test_events_are_applied_once(poster: Poster) -> None:
    """One event or a list is applied by all projections; a repeated one is skipped."""
    assert poster.applied(OPENED)["accounts"] == {"applied": 1, "repeated": 0, "deadLetters": []}
    projections = poster.applied([moved(3, 7), OPENED, moved(2, 6)])
    assert projections["accounts"] == {"applied": 2, "repeated": 1, "deadLetters": []}
    assert projections["statements"]["applied"] == 2
    assert poster.account() == {"owner": "ann", "balance": "7", "version": 3}


def test_two_clients_may_post_one_stream(poster: Poster) -> None:
    """Two clients post the same stream at the same time, each event twice, and each event is applied once."""
    events = [OPENED, *(moved(seq, 100 + seq) for seq in range(2, 31))]
    parts = [events[start : start + 5] for start in range(0, 30, 5)]

    def post_all(parts: list[list[dict[str, Any]]]) -> int:
        applied = 0
        for part in parts:
            for _ in range(100):
                reply = poster.post(part)
                applied += reply.json()["projections"]["accounts"]["applied"]
                if reply.status_code == 200:
                    break
                assert reply.json()["errors"][0]["extensions"]["code"] == "EVENT_GAP"
            else:
                pytest.fail("the missing events did not arrive")
        return applied

    with ThreadPoolExecutor(4) as pool:
        counts = [*pool.map(post_all, [parts, parts, parts[::2], parts[1::2]])]
    assert sum(counts) == 30
    assert poster.account() == {"owner": "ann", "balance": "130", "version": 30}


def test_a_missing_event_is_named(local_poster: Poster) -> None:
    """Events after a missing one are not applied, and not stored: the error names the missing one, and is retryable."""
    reply = local_poster.post([OPENED, moved(3), moved(1, stream="b")])
    assert reply.status_code == 409
    assert int(reply.headers["retry-after"]) >= 1
    error = reply.json()["errors"][0]
    assert error["extensions"] == {"code": "EVENT_GAP", "retryable": True, "stream": "a", "expected": 2}
    assert error["message"].startswith("The stream 'a' needs the event 2 next (accounts).")
    accounts = reply.json()["projections"]["accounts"]
    assert (accounts["applied"], [letter["stream"] for letter in accounts["deadLetters"]]) == (1, ["b"])
    assert local_poster.applied([moved(2), moved(3)])["accounts"]["applied"] == 2


def test_outcomes_are_counted(local_poster: Poster) -> None:
    """The metrics count events by projection and outcome."""
    local_poster.applied([OPENED, moved(2, 13)])
    local_poster.post([OPENED, moved(4)])
    metrics = local_poster.client.get("/metrics").text
    for outcome in ("applied", "dead", "repeated", "waiting"):
        assert f'shardql_events_total{{outcome="{outcome}",projection="accounts"}} 1.0' in metrics
    assert 'shardql_http_requests_total{route="events",status="409"} 1.0' in metrics


def test_dead_letters_are_accepted(local_poster: Poster) -> None:
    """An event that cannot be applied is accepted, since posting it again would not help; the response says why."""
    (letter,) = local_poster.applied([OPENED, moved(2, 13)])["accounts"]["deadLetters"]
    assert (letter["stream"], letter["seq"], letter["code"]) == ("a", 2, "INVALID_EVENT")
    assert "unlucky balance" in letter["reason"]
    assert local_poster.applied(moved(2, 13))["accounts"]["repeated"] == 1


# --- refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "remedy"), [(None, "Sign in"), (OTHER, "Request membership")])
def test_only_callers_whom_the_rule_allows_may_post(local_poster: Poster, key: str | None, remedy: str) -> None:
    """Everyone else is refused before the body is read, and nothing is written."""
    poster = Poster(local_poster.client, key)
    message = f"Posting events of bank is allowed only for members of Feed. {remedy}."
    for body in ([OPENED], {"invalid": True}):
        assert poster.refused(body) == (403, {"message": message, "code": "FORBIDDEN"})
    assert Poster(local_poster.client, "x" * 30).refused([OPENED])[1]["code"] == "UNAUTHENTICATED"
    assert local_poster.account() is None


@pytest.mark.parametrize("source", ["careful", "unknown"])
def test_sources_without_a_rule_are_not_served(local_poster: Poster, source: str) -> None:
    """Without a rule, nobody may post events, and there is nothing at the path."""
    assert local_poster.refused([OPENED], source)[0] == 404


@pytest.mark.parametrize(
    ("events", "code", "problem"),
    [
        ([], "INVALID_LIMIT", "1 to 100 events, not 0"),
        ([OPENED] * 101, "INVALID_LIMIT", "1 to 100 events, not 101"),
        ([OPENED, {"type": "Opened"}], "INVALID_EVENT", "events[1]: The envelope of the event is invalid: seq"),
        ("Opened", "INVALID_EVENT", "events[0]: The envelope"),
        ([None], "INVALID_EVENT", "events[0]: The envelope"),
    ],
)
def test_a_request_with_an_invalid_envelope_is_refused(
    local_poster: Poster, events: Any, code: str, problem: str
) -> None:
    """None of its events is applied."""
    status, error = local_poster.refused(events)
    assert (status, error["code"]) == (400, code)
    assert problem in error["message"]
    assert local_poster.account() is None


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"{", {}, 400, "INVALID_JSON"),
        (b'{"seq": 1, "seq": 2, "type": "Opened"}', {}, 400, "INVALID_JSON"),
        (b'{"seq": 1, "type": "Opened", "data": {"accountId": "\\ud800"}}', {}, 400, "INVALID_JSON"),
        (b"", {}, 400, "INVALID_REQUEST"),
        (b"[" + b" " * 100_000 + b"]", {}, 413, "BODY_TOO_LARGE"),
        (b"[" + b"1," * 20_000 + b"1]", {}, 400, "INPUT_TOO_LARGE"),
        (b"[]", {"content-type": "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
    ],
)
def test_bodies_are_read_by_the_rules_of_all_requests(
    local_poster: Poster, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    """Malformed and large bodies have the errors that they have for GraphQL."""
    sent = {"content-type": "application/json", "x-api-key": FEED, **headers}
    reply = local_poster.client.post("/events/bank", content=content, headers=sent)
    assert (reply.status_code, reply.json()["errors"][0]["extensions"]["code"]) == (status, code)


def test_other_methods_are_refused(local_poster: Poster) -> None:
    """Events are posted, and never read."""
    reply = local_poster.client.get("/events/bank")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert reply.json()["errors"][0]["extensions"]["code"] == "METHOD_NOT_ALLOWED"


def test_posts_have_the_deadline_of_operations(tmp_path: Path, keys: Path) -> None:
    """Events that are not applied in time are refused as retryable; what was applied before is skipped afterwards."""
    app = asgi(GRAPH, f"sqlite:///{tmp_path / 'bank.db'}", api_keys_file=keys, deadline_seconds=0.5)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        poster = Poster(client)
        status, error = poster.refused([OPENED, moved(3)])
        assert (status, error["code"], error["retryable"]) == (504, "DEADLINE_EXCEEDED", True)
        assert poster.applied([OPENED, moved(2), moved(3)])["accounts"] in (
            {"applied": 2, "repeated": 1, "deadLetters": []},
            {"applied": 3, "repeated": 0, "deadLetters": []},
        )


def test_posts_are_under_admission_control(tmp_path: Path, keys: Path) -> None:
    """While the only place is taken by events that wait for a missing one, other posts are refused as overload."""
    options: Any = {"max_in_flight": 1, "queue_seconds": 0}
    app = asgi(GRAPH, f"sqlite:///{tmp_path / 'bank.db'}", api_keys_file=keys, **options)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        poster = Poster(client)
        poster.applied(OPENED)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(poster.post, moved(3))
            codes = set()
            while not waiting.done():
                codes.add(poster.post(moved(9, stream="z")).json()["errors"][0]["extensions"]["code"])
        codes.add(waiting.result().json()["errors"][0]["extensions"]["code"])
        assert codes == {"OVERLOADED", "EVENT_GAP"}


def test_a_read_only_server_accepts_no_events(tmp_path: Path, keys: Path, local_poster: Poster) -> None:
    """It has no endpoint of events."""
    app = asgi(GRAPH, f"sqlite:///{tmp_path / 'bank.db'}", api_keys_file=keys, read_only=True)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        assert Poster(client).refused([OPENED])[0] == 404


def test_a_stopped_stream_is_refused_until_its_dead_letter_is_gone(tmp_path: Path, keys: Path) -> None:
    """The error names the dead letter; when the event is posted again and can be applied, the stream goes on."""
    graph = Graph(CATALOG, projections=[careful_accounts, accounts], event_rules={"careful": signed_in})
    app = asgi(graph, f"sqlite:///{tmp_path / 'bank.db'}", api_keys_file=keys)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        poster = Poster(client)
        assert len(poster.applied(moved(0), "careful")["careful_accounts"]["deadLetters"]) == 1
        status, error = poster.refused(moved(1, 6), "careful")
        assert (status, error["code"], error["expected"]) == (409, "STREAM_STOPPED", 0)
        create = 'mutation { createAccount(input: {accountId: "a", owner: "ann"}) { account { owner } } }'
        assert "errors" not in client.post("/graphql", json={"query": create}).json()
        assert poster.applied([moved(0), moved(1, 6)], "careful")["careful_accounts"]["applied"] == 2
        assert poster.account()["balance"] == "6"


def test_production_does_not_tell_why(tmp_path: Path, keys: Path) -> None:
    """The words of a projection's own error may hold what the sender must not read; the code is enough."""
    secrets = {"token_keys": ["a" * 43 + "="], "record_key": "b" * 43 + "="}
    app = asgi(GRAPH, f"sqlite:///{tmp_path / 'bank.db'}", api_keys_file=keys, production=True, **secrets)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        (letter,) = Poster(client).applied([OPENED, moved(2, 13)])["accounts"]["deadLetters"]
        assert letter == {"stream": "a", "seq": 2, "code": "INVALID_EVENT"}
