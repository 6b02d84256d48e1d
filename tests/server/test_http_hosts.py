"""Host names under which a server answers: protection against DNS rebinding."""

import pytest
from starlette.applications import Starlette

from graphql_api.errors import InvalidValue
from graphql_api.server.app import build_app
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.asgi_client import request

QUERY = b'{"query": "{ a }"}'
ALWAYS = ("localhost", "localhost:8000", "LOCALHOST.", "app.localhost:3000", "shardql", "127.0.0.1:8000", "[::1]:80")
LISTED = ("api.example.com", "API.example.com:8443", "api.example.com.", "a.b.example.org", "server.example.net")
REFUSED = (
    "evil.example:8000",
    "example.com",
    "evil-api.example.com",
    "example.org",
    "evilexample.org",
    "api.example.com.evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "api.example.com:8000@evil.example",
    "api.example.com/evil.example",
    "[::1].evil.example",
    "[evil.example]",
    "a b.example",
)


def create_app(*hosts: str, production: bool = False) -> Starlette:
    """Create an application that allows these hosts."""
    settings = Settings(allowed_hosts=hosts, host="server.example.net", production=production)
    return build_app(ScriptedExecutor(), no_database(), settings, Instrumentation(settings).routes())


@pytest.mark.parametrize("production", [False, True])
async def test_names_that_are_always_allowed(production: bool) -> None:
    """Addresses, names without a dot and names below localhost are allowed in both modes."""
    for host in ALWAYS:
        assert (await request(create_app(production=production), QUERY, {"host": host})).status == 200, host


async def test_listed_names() -> None:
    """Listed names, names below a listed domain, and the name that the server listens on are allowed."""
    app = create_app("api.example.com", "*.example.org")
    for host in LISTED:
        assert (await request(app, QUERY, {"host": host})).status == 200, host
    everything = create_app("*")
    for host in REFUSED[:4]:
        assert (await request(everything, QUERY, {"host": host})).status == 200, host


@pytest.mark.parametrize("host", REFUSED)
async def test_other_names_are_refused(host: str) -> None:
    """A request to any other name is refused as JSON, before it is executed, also from a page of that name."""
    for origin in ({}, {"origin": f"http://{host}"}):
        response = await request(create_app("api.example.com", "*.example.org"), QUERY, {"host": host, **origin})
        assert response.status == 421
        assert '"code":"HOST_NOT_ALLOWED"' in response.text


async def test_probes_answer_under_every_name() -> None:
    """Health checks answer under every name; metrics do not."""
    for path, status in (("/healthz", 200), ("/metrics", 421), ("/", 421)):
        assert (await request(create_app(), b"", {"host": "evil.example"}, method="GET", path=path)).status == status


@pytest.mark.parametrize("host", ["https://a.example", "a.example:80", "API.example.com", "a..b", "-a", "*.*"])
def test_invalid_names(host: str) -> None:
    """A text that is no host name prevents the start, with a remedy."""
    with pytest.raises(InvalidValue, match="is no host name: write names such as"):
        create_app(host)
