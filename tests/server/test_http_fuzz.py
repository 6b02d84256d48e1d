"""Random requests: the server always responds, and the connection stays usable."""

import json
from collections.abc import Iterator
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.server.app import build_app
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import RawConnection, Reply, serve_app

GOOD = b'{"query": "{ a }"}'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
NAMES = st.sampled_from(["query", "operationName", "variables", "extensions", "documentId", "", "\ud800"])
REQUESTS = st.dictionaries(NAMES, JSON | st.just("{ a }"))
CORRUPTED = st.tuples(REQUESTS, st.integers(0, 100), st.binary(max_size=3))
VISIBLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=60).map(str.strip)


def corrupted(parts: tuple[object, int, bytes]) -> bytes:
    """Replace some bytes of a JSON text."""
    value, at, bytes_instead = parts
    text = json.dumps(value).encode()
    return text[:at] + bytes_instead + text[at + 1 :]


BODIES = st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode) | REQUESTS.map(json.dumps).map(str.encode)


@pytest.fixture(scope="module")
def connection() -> Iterator[RawConnection]:
    """One connection for all examples."""
    with (
        serve_app(build_app(ScriptedExecutor(), no_database(), Settings())) as address,
        RawConnection(address) as connection,
    ):
        yield connection
        assert connection.post(GOOD).status == 200


def is_result_or_client_error(reply: Reply) -> bool:
    """Return whether a response is a result, or a client error with one code."""
    return reply.status == 200 or (400 <= reply.status < 500 and len(reply.codes) == 1)


@given(BODIES | CORRUPTED.map(corrupted))
def test_random_bodies(connection: RawConnection, body: bytes) -> None:
    """Any body gets a result or an error code, over the same connection."""
    assert is_result_or_client_error(connection.post(body))


@given(
    st.dictionaries(NAMES.filter(str.isascii), st.binary(max_size=40) | REQUESTS.map(json.dumps).map(str.encode)),
    st.text("%&=;+ag0", max_size=5),
)
def test_random_urls(connection: RawConnection, parameters: dict[str, bytes], rest: str) -> None:
    """Any URL gets a result or an error code, over the same connection."""
    query = "&".join(f"{name}={quote_from_bytes(value)}" for name, value in parameters.items())
    assert is_result_or_client_error(connection.exchange(f"GET /graphql?{query}{rest}", apollo_require_preflight="1"))


@given(
    st.dictionaries(
        st.sampled_from(
            ["accept", "content_type", "content_encoding", "expect", "origin", "x_request_id", "x_explain", "cookie"]
        ),
        VISIBLE,
    )
)
def test_random_headers(connection: RawConnection, headers: dict[str, str]) -> None:
    """Any headers get a result or an error code, over the same connection."""
    assert is_result_or_client_error(connection.exchange("POST /graphql", GOOD, **headers))
