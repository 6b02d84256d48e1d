"""What pages of other sites may do by way of a visitor's browser."""

from collections.abc import Iterator

import pytest

from graphql_api.errors import InvalidValue
from graphql_api.server.app import WebOptions, build_app
from tests.api.running import Wire, running
from tests.api.scripted import ScriptedEngine, no_database

GOOD = b'{"query": "{ a }"}'
QUERY = "GET /graphql?query={a}"
FRIEND = "https://friend.example:8443"

ENGINE = ScriptedEngine()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server that allows no origin."""
    with running(build_app(ENGINE, no_database(), WebOptions())) as found:
        yield found


@pytest.fixture(scope="module")
def friendly_address() -> Iterator[str]:
    """A server that allows two origins."""
    options = WebOptions(cors_origins=(FRIEND, "http://localhost:3000"))
    with running(build_app(ENGINE, no_database(), options)) as found:
        yield found


@pytest.mark.parametrize(
    "headers",
    [
        {"apollo_require_preflight": "1"},
        {"apollo_require_preflight": "false"},
        {"x_apollo_operation_name": "A"},
        {"content_type": "application/json"},
        {"content_type": "application/graphql; charset=utf-8"},
        {"sec_fetch_mode": "cors"},
    ],
)
def test_get_of_a_client(address: str, headers: dict[str, str]) -> None:
    """A GET with a header that a browser sends only after asking, or never so, is answered."""
    with Wire(address) as wire:
        assert wire.ask(QUERY, **headers).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"apollo_require_preflight": ""},
        {"apollo_require_preflight": "  "},
        {"x_apollo_operation_name": ""},
        {"accept": "application/graphql-response+json"},
        {"content_type": "text/plain"},
        {"content_type": "Text/Plain ; charset=utf-8"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "multipart/form-data; boundary=a"},
        {"content_type": ""},
        {"content_type": "no type"},
        {"content_type": "text/plain, application/json"},
        {"content_type": "text/plain\r\ncontent-type: application/json"},
        {"sec_fetch_mode": "no-cors", "sec_fetch_site": "cross-site"},
        {"sec_fetch_mode": "cors", "sec_fetch_site": "same-site", "origin": "https://foe.example"},
    ],
)
def test_get_of_a_foreign_page(address: str, headers: dict[str, str]) -> None:
    """A GET as any page can make a browser send it is refused, and says what to add."""
    asked = len(ENGINE.operations)
    with Wire(address) as wire:
        reply = wire.ask(QUERY, **headers)
        assert (reply.status, reply.codes) == (403, ["CROSS_SITE_REQUEST"])
        assert "apollo-require-preflight" in reply.json["errors"][0]["message"]
        assert len(ENGINE.operations) == asked
        assert wire.post(GOOD).status == 200


def test_no_origin_is_allowed_by_default(address: str) -> None:
    """Without a list of origins no page of another one may read an answer, or is given leave to ask."""
    with Wire(address) as wire:
        reply = wire.post(GOOD, origin=FRIEND)
        assert not [name for name in reply.headers if name.startswith("access-control")]
        asked = wire.ask("OPTIONS /graphql", origin=FRIEND, access_control_request_method="POST")
        assert asked.status == 204
        assert not [name for name in asked.headers if name.startswith("access-control")]


def test_allowed_origin(friendly_address: str) -> None:
    """A page of an allowed origin reads every answer, errors included, and its correlation id; caches know why."""
    with Wire(friendly_address) as wire:
        for reply in (
            wire.post(GOOD, origin=FRIEND),
            wire.post(b"1", origin=FRIEND),
            wire.ask("POST /nowhere", origin=FRIEND),
            wire.post(b'{"query": "fail"}', origin=FRIEND),
        ):
            assert reply.headers["access-control-allow-origin"] == FRIEND
            assert reply.headers["access-control-expose-headers"] == "x-request-id"
            assert reply.headers["vary"].lower().replace(" ", "").split(",") == ["accept", "origin"]
            assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    "origin", ["https://foe.example", "https://friend.example", "http://friend.example:8443", "null", f"{FRIEND}.foe"]
)
def test_other_origins(friendly_address: str, origin: str) -> None:
    """A page of another origin, however alike, may not read; the answer varies by origin all the same."""
    with Wire(friendly_address) as wire:
        reply = wire.post(GOOD, origin=origin)
        assert "access-control-allow-origin" not in reply.headers
        assert "origin" in reply.headers["vary"]


def test_leave_to_ask(friendly_address: str) -> None:
    """A browser that asks for an allowed page gets leave for GET and POST with the headers that it names."""
    with Wire(friendly_address) as wire:
        reply = wire.ask(
            "OPTIONS /graphql",
            origin=FRIEND,
            access_control_request_method="POST",
            access_control_request_headers="content-type,authorization",
        )
        assert (reply.status, reply.body) == (204, b"")
        assert reply.headers["access-control-allow-origin"] == FRIEND
        assert reply.headers["access-control-allow-methods"] == "GET, POST"
        assert reply.headers["access-control-allow-headers"] == "content-type,authorization"
        assert "origin" in reply.headers["vary"]
        refused = wire.ask("OPTIONS /graphql", origin="https://foe.example", access_control_request_method="POST")
        assert "access-control-allow-origin" not in refused.headers


def test_any_origin() -> None:
    """With * pages of all origins may read, and no browser adds credentials to what they ask."""
    with (
        running(build_app(ENGINE, no_database(), WebOptions(cors_origins=("*",)))) as address,
        Wire(address) as wire,
    ):
        reply = wire.post(GOOD, origin="https://anyone.example")
        assert reply.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize("origin", ["friend.example", "https://friend.example/", "https://*.example", "", "https://A"])
def test_no_origins(origin: str) -> None:
    """What is not an origin is refused before the server starts."""
    with pytest.raises(InvalidValue, match="is not an origin"):
        WebOptions(cors_origins=(origin,))
