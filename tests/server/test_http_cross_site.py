"""Cross-site requests by the browser of a visitor: CSRF protection and CORS."""

from collections.abc import Iterator

import pytest

from graphql_api.errors import InvalidValue
from graphql_api.server.app import build_app
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import RawConnection, serve_app

GOOD = b'{"query": "{ a }"}'
QUERY = "GET /graphql?query={a}"
ALLOWED_ORIGIN = "https://friend.example:8443"

EXECUTOR = ScriptedExecutor()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The URL of a server that allows no origin."""
    with serve_app(build_app(EXECUTOR, no_database(), Settings(cors_origins=()))) as found:
        yield found


@pytest.fixture(scope="module")
def cors_address() -> Iterator[str]:
    """The URL of a server that allows two origins."""
    options = Settings(cors_origins=(ALLOWED_ORIGIN, "http://localhost:3000"))
    with serve_app(build_app(EXECUTOR, no_database(), options)) as found:
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
def test_get_with_a_preflight_header(address: str, headers: dict[str, str]) -> None:
    """A GET with a header that requires a preflight, or that a page cannot set, is accepted."""
    with RawConnection(address) as connection:
        assert connection.exchange(QUERY, **headers).status == 200


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
def test_simple_cross_site_get(address: str, headers: dict[str, str]) -> None:
    """A GET that any page can send without a preflight is refused. The message names the header to add."""
    executed = len(EXECUTOR.operations)
    with RawConnection(address) as connection:
        reply = connection.exchange(QUERY, **headers)
        assert (reply.status, reply.codes) == (403, ["CROSS_SITE_REQUEST"])
        assert "apollo-require-preflight" in reply.json["errors"][0]["message"]
        assert len(EXECUTOR.operations) == executed
        assert connection.post(GOOD).status == 200


def test_no_origin_is_allowed_by_default(address: str) -> None:
    """Without configured origins, no other site may read a response or send a preflighted request."""
    with RawConnection(address) as connection:
        reply = connection.post(GOOD, origin=ALLOWED_ORIGIN)
        assert not [name for name in reply.headers if name.startswith("access-control")]
        executed = connection.exchange("OPTIONS /graphql", origin=ALLOWED_ORIGIN, access_control_request_method="POST")
        assert executed.status == 204
        assert not [name for name in executed.headers if name.startswith("access-control")]


def test_allowed_origin(cors_address: str) -> None:
    """A page of an allowed origin can read every response and its correlation id. Responses vary by origin."""
    with RawConnection(cors_address) as connection:
        for reply in (
            connection.post(GOOD, origin=ALLOWED_ORIGIN),
            connection.post(b"1", origin=ALLOWED_ORIGIN),
            connection.exchange("POST /nowhere", origin=ALLOWED_ORIGIN),
            connection.post(b'{"query": "fail"}', origin=ALLOWED_ORIGIN),
        ):
            assert reply.headers["access-control-allow-origin"] == ALLOWED_ORIGIN
            assert reply.headers["access-control-expose-headers"] == "x-request-id"
            assert reply.headers["vary"].lower().replace(" ", "").split(",") == ["accept", "origin"]
            assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    "origin",
    ["https://foe.example", "https://friend.example", "http://friend.example:8443", "null", f"{ALLOWED_ORIGIN}.foe"],
)
def test_other_origins(cors_address: str, origin: str) -> None:
    """A page of another origin, however similar, cannot read a response. The response varies by origin."""
    with RawConnection(cors_address) as connection:
        reply = connection.post(GOOD, origin=origin)
        assert "access-control-allow-origin" not in reply.headers
        assert "origin" in reply.headers["vary"]


def test_preflight(cors_address: str) -> None:
    """A preflight of an allowed origin permits GET and POST with the requested headers."""
    with RawConnection(cors_address) as connection:
        reply = connection.exchange(
            "OPTIONS /graphql",
            origin=ALLOWED_ORIGIN,
            access_control_request_method="POST",
            access_control_request_headers="content-type,authorization",
        )
        assert (reply.status, reply.body) == (204, b"")
        assert reply.headers["access-control-allow-origin"] == ALLOWED_ORIGIN
        assert reply.headers["access-control-allow-methods"] == "GET, POST"
        assert reply.headers["access-control-allow-headers"] == "content-type,authorization"
        assert "origin" in reply.headers["vary"]
        refused = connection.exchange(
            "OPTIONS /graphql", origin="https://foe.example", access_control_request_method="POST"
        )
        assert "access-control-allow-origin" not in refused.headers


def test_any_origin() -> None:
    """With `*`, pages of all origins may read responses, without credentials."""
    with (
        serve_app(build_app(EXECUTOR, no_database(), Settings(cors_origins=("*",)))) as address,
        RawConnection(address) as connection,
    ):
        reply = connection.post(GOOD, origin="https://anyone.example")
        assert reply.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_pages_of_the_same_machine(host: str) -> None:
    """In development, pages of the same machine may read responses from any port; in production they may not."""
    local, others = [f"http://{host}", f"http://{host}:5173"], [f"https://{host}:5173", f"http://{host}.example:80"]
    with (
        serve_app(build_app(EXECUTOR, no_database(), Settings())) as address,
        RawConnection(address) as connection,
    ):
        for origin in local:
            assert connection.post(GOOD, origin=origin).headers["access-control-allow-origin"] == origin
        for origin in (*others, "null"):
            assert "access-control-allow-origin" not in connection.post(GOOD, origin=origin).headers
    assert Settings(production=True).cors_origins == ()


@pytest.mark.parametrize(
    "origin", ["friend.example", "https://a:*:*", "https://friend.example/", "https://*.example", "", "https://A"]
)
def test_invalid_origins(origin: str) -> None:
    """An invalid origin is refused before the server starts."""
    with pytest.raises(InvalidValue, match="is not an origin"):
        build_app(EXECUTOR, no_database(), Settings(cors_origins=(origin,)))
