"""Whatever bytes come, the server answers, and goes on."""

import json
from collections.abc import Iterator
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.server.app import WebOptions, build_app
from tests.api.running import Reply, Wire, running
from tests.api.scripted import ScriptedEngine, no_database

GOOD = b'{"query": "{ a }"}'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
NAMES = st.sampled_from(["query", "operationName", "variables", "extensions", "documentId", "", "\ud800"])
REQUESTS = st.dictionaries(NAMES, JSON | st.just("{ a }"))
CUTS = st.tuples(REQUESTS, st.integers(0, 100), st.binary(max_size=3))
VISIBLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=60).map(str.strip)


def cut(parts: tuple[object, int, bytes]) -> bytes:
    """A JSON text with some of its bytes replaced by others."""
    value, at, bytes_instead = parts
    text = json.dumps(value).encode()
    return text[:at] + bytes_instead + text[at + 1 :]


BODIES = st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode) | REQUESTS.map(json.dumps).map(str.encode)


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    """One connection for everything."""
    with running(build_app(ScriptedEngine(), no_database(), WebOptions())) as address, Wire(address) as connection:
        yield connection
        assert connection.post(GOOD).status == 200


def is_clear(reply: Reply) -> bool:
    """Whether a reply is an answer, or says with a code what is wrong."""
    return reply.status == 200 or (400 <= reply.status < 500 and len(reply.codes) == 1)


@given(BODIES | CUTS.map(cut))
def test_bodies(wire: Wire, body: bytes) -> None:
    """Any body is answered, or refused with a code, over the same connection."""
    assert is_clear(wire.post(body))


@given(
    st.dictionaries(NAMES.filter(str.isascii), st.binary(max_size=40) | REQUESTS.map(json.dumps).map(str.encode)),
    st.text("%&=;+ag0", max_size=5),
)
def test_addresses(wire: Wire, parameters: dict[str, bytes], rest: str) -> None:
    """Any address is answered, or refused with a code, over the same connection."""
    query = "&".join(f"{name}={quote_from_bytes(value)}" for name, value in parameters.items())
    assert is_clear(wire.ask(f"GET /graphql?{query}{rest}", apollo_require_preflight="1"))


@given(
    st.dictionaries(
        st.sampled_from(
            ["accept", "content_type", "content_encoding", "expect", "origin", "x_request_id", "x_explain", "cookie"]
        ),
        VISIBLE,
    )
)
def test_headers(wire: Wire, headers: dict[str, str]) -> None:
    """Any headers are answered, or refused with a code, over the same connection."""
    assert is_clear(wire.ask("POST /graphql", GOOD, **headers))
