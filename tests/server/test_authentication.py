"""Authentication on a real server: issuer tokens, API keys, development tokens, and invalid credentials."""

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import asgi, open_catalog
from graphql_api.database import Database
from graphql_api.errors import InvalidToken, Unauthenticated
from graphql_api.examples.users import catalog, generate_users
from graphql_api.schema.request_context import Caller
from graphql_api.server.app import build_app, create_application
from graphql_api.server.auth.authenticator import build_authenticator
from graphql_api.server.auth.bearer_tokens import IssuerTokenVerifier, mint_token
from graphql_api.server.auth.jwks import load_key_set
from graphql_api.server.auth.principals import Identity
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.settings import Settings, read_settings
from tests.server.catalog_server import SECRETS
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.server.server_processes import USERS, run_failing_server, server_process
from tests.support.loopback import LOOPBACK, TIMEOUT, RawConnection, Reply, free_port, serve_app
from tests.support.token_issuer import (
    AUDIENCE,
    NAME,
    Issuer,
    claims,
    hmac_token,
    jwks,
    private_key,
    public_der,
    public_jwk,
    public_pem,
    serve_jwks,
    sign_token,
    token_segment,
)

GOOD = b'{"query": "good"}'
KEY = "a-key-of-more-than-twenty-characters"
OTHER_KEY = "another-key-of-more-than-twenty-characters"
PROTECTED: dict[str, Any] = {"jwt_issuer": NAME, "jwt_audiences": ("other", AUDIENCE)}


class AuthenticationClient:
    """A client of a server that records authenticated callers."""

    def __init__(self, address: str, executor: ScriptedExecutor) -> None:
        self.address = address
        self._executor = executor

    def send(self, **headers: str) -> Reply:
        """Return the response to a request with these headers."""
        with RawConnection(self.address) as connection:
            return connection.post(GOOD, **headers)

    def authenticate(self, **headers: str) -> Caller:
        """Return the caller of a request that must be accepted."""
        reply = self.send(**headers)
        assert reply.status == 200, reply.body
        return self._executor.callers[-1]

    def authenticate_bearer(self, token: str) -> Caller:
        """Return the caller of a request with a valid bearer token."""
        return self.authenticate(authorization=f"Bearer {token}")

    def refusal(self, **headers: str) -> dict[str, Any]:
        """Return the error of a request with invalid credentials. It must not reach the executor."""
        before = len(self._executor.callers)
        reply = self.send(accept="application/graphql-response+json", **headers)
        assert (reply.status, reply.codes) == (401, [Unauthenticated.code]), reply.body
        assert reply.headers["www-authenticate"] == "Bearer"
        assert len(self._executor.callers) == before
        for value in headers.values():
            credential = value.rpartition(" ")[2]
            assert len(credential) < 8 or credential not in reply.body.decode()
        error: dict[str, Any] = reply.json["errors"][0]
        return error

    def token_error(self, token: str) -> str:
        """Return why a token is invalid. The error must not be retryable."""
        error = self.refusal(authorization=f"Bearer {token}")
        assert error["extensions"] == {"code": Unauthenticated.code}
        return str(error["message"])

    def is_retryable(self, token: str) -> bool:
        """Return whether a token is refused with a retryable error, because no keys are available."""
        error = self.refusal(authorization=f"Bearer {token}")
        return error["extensions"].get("retryable") is True


@contextmanager
def start_client(
    options: Settings | None = None, *, fast: bool = False, **settings: Any
) -> Iterator[AuthenticationClient]:
    """Start a server with these settings. `fast` shortens the timeouts and intervals of the JWKS cache."""
    chosen = read_settings(**settings)
    authenticator = build_authenticator(chosen, lambda: SECRETS)
    for verifier in authenticator.token_verifiers:
        if fast and isinstance(verifier, IssuerTokenVerifier):
            verifier.keys.max_age = verifier.keys.retry_interval = verifier.keys.unknown_key_interval = 0.1
            verifier.keys.load = partial(load_key_set, verifier.keys.location, verifier.algorithms, seconds=0.5)
    executor = ScriptedExecutor()
    with serve_app(build_app(executor, no_database(), options or Settings(), authenticator=authenticator)) as address:
        yield AuthenticationClient(address, executor)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """An issuer with two keys."""
    return Issuer({"one": ("RS256", private_key("RS256")), "two": ("ES256", private_key("ES256"))})


@pytest.fixture(scope="module")
def client(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthenticationClient]:
    """A client of a server that reads the keys of the issuer from a file, and accepts two API keys."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "jwks.json").write_bytes(issuer.jwks_text())
    keys = [
        {"key": KEY, "subject": "robot", "groups": ["Reader"]},
        {"sha256": sha256(OTHER_KEY.encode()).hexdigest().upper(), "subject": "other robot"},
    ]
    (folder / "keys.json").write_text(json.dumps(keys))
    with start_client(jwks=str(folder / "jwks.json"), api_keys_file=folder / "keys.json", **PROTECTED) as client:
        yield client


# --- valid credentials -----------------------------------------------------------------------------------------


def test_anonymous(client: AuthenticationClient) -> None:
    """A request without credentials is accepted as anonymous."""
    caller = client.authenticate()
    assert (caller.subject, caller.groups, caller.tenant, caller.principal) == (None, frozenset(), None, None)


@pytest.mark.parametrize("kid", ["one", "two"])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_bearer_token(client: AuthenticationClient, issuer: Issuer, kid: str, scheme: str) -> None:
    """A bearer token authenticates its subject and groups. Without a tenant claim setting, the tenant is None."""
    caller = client.authenticate(authorization=f"{scheme} {issuer.token(kid, tenant='acme')}")
    assert (caller.subject, caller.groups, caller.tenant) == ("alice", frozenset({"Reader", "Staff"}), None)


def test_api_keys(client: AuthenticationClient) -> None:
    """An API key authenticates the configured identity, whether the file has the key or its digest."""
    robot, other = client.authenticate(x_api_key=KEY), client.authenticate(x_api_key=OTHER_KEY)
    assert (robot.subject, robot.groups) == ("robot", frozenset({"Reader"}))
    assert (other.subject, other.groups) == ("other robot", frozenset())


def test_get_request(client: AuthenticationClient, issuer: Issuer) -> None:
    """A GET request is authenticated like a POST request."""
    with RawConnection(client.address) as connection:
        target = "GET /graphql?query=good"
        good = connection.exchange(target, apollo_require_preflight="1", authorization=f"Bearer {issuer.token()}")
        bad = connection.exchange(target, apollo_require_preflight="1", authorization="Bearer x")
    assert (good.status, bad.status, bad.codes) == (200, 401, [Unauthenticated.code])


def test_connection_stays_usable(client: AuthenticationClient) -> None:
    """After a refusal the connection can be reused, even if the body was not read completely."""
    with RawConnection(client.address) as connection:
        assert connection.post(b'{"query": "' + b"x" * 200_000 + b'"}', authorization="Bearer x").status == 401
        assert connection.post(GOOD).status == 200


# --- invalid credentials ---------------------------------------------------------------------------------------


def forged_token(issuer: Issuer, **changed: Any) -> str:
    """Return a token that names the issuer, but has another signer."""
    return sign_token("RS256", private_key("RS256", 99), claims(**changed), "one")


def unsigned_token(algorithm: str) -> str:
    """Return a token without a signature."""
    return f"{token_segment({'alg': algorithm, 'kid': 'one', 'typ': 'JWT'})}.{token_segment(claims())}."


NOW = time.time()
INVALID_TOKENS: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda issuer: issuer.token(exp=NOW - 61), "has expired"),
    "not yet valid": (lambda issuer: issuer.token(nbf=NOW + 3600), "not valid yet"),
    "issued in the future": (lambda issuer: issuer.token(iat=NOW + 3600), "in the future"),
    "without an end": (lambda issuer: issuer.token(exp=None), "no claim exp"),
    "another audience": (lambda issuer: issuer.token(aud="warehouse"), "another audience"),
    "no audience": (lambda issuer: issuer.token(aud=None), "another audience"),
    "another issuer": (lambda issuer: issuer.token(iss="https://foe.example"), "another issuer"),
    "no subject": (lambda issuer: issuer.token(sub=None), "no claim sub"),
    "groups of a wrong type": (lambda issuer: issuer.token(groups={"Admin": 1}), "groups"),
    "another key": (forged_token, "signature"),
    "unknown key": (lambda issuer: sign_token("RS256", issuer.keys["one"][1], claims(), "three"), "does not know"),
    "the other key": (
        lambda issuer: sign_token("ES256", issuer.keys["two"][1], claims(), "one"),
        "No key of the issuer",
    ),
    "unsigned": (
        lambda _: unsigned_token("none"),
        "unsigned, or signed with an algorithm that this server does not accept",
    ),
    "unsigned, in capitals": (
        lambda _: unsigned_token("NONE"),
        "unsigned, or signed with an algorithm that this server does not accept",
    ),
    "cut": (lambda issuer: issuer.token()[:-2], "signature"),
    "without a signature": (lambda issuer: issuer.token().rpartition(".")[0] + ".", "signature"),
    "a secret": (lambda _: sign_token("HS256", b"s" * 32, claims(), "one"), "does not accept"),
    "two parts": (lambda issuer: issuer.token().rpartition(".")[0], "three parts"),
    "encrypted": (lambda issuer: f"{issuer.token()}.AA.AA", "three parts"),
    "too large": (lambda issuer: issuer.token(pad="x" * 20_000), "at most 16,384"),
}


@pytest.mark.parametrize("kind", INVALID_TOKENS)
def test_invalid_tokens(client: AuthenticationClient, issuer: Issuer, kind: str) -> None:
    """An invalid token is refused with its reason, even if the operation needs no authentication."""
    make, message = INVALID_TOKENS[kind]
    assert message in client.token_error(make(issuer))


def test_algorithm_confusion(client: AuthenticationClient, issuer: Issuer) -> None:
    """The public key of the issuer is not accepted as an HMAC secret, in any encoding."""
    key = issuer.keys["one"][1]
    forms = (public_pem(key), public_pem(key).strip(), public_der(key), json.dumps(public_jwk("RS256", key)).encode())
    for form in forms:
        for kid in ("one", "two", None):
            assert "does not accept" in client.token_error(hmac_token(form, claims(), kid))


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer a b"},
        {"authorization": "Basic dXNlcjpwYXNzd29yZA=="},
        {"authorization": "Token abcdefghijk"},
        {"x_api_key": ""},
        {"x_api_key": KEY[:-1]},
        {"x_api_key": KEY + "x"},
        {"x_api_key": sha256(OTHER_KEY.encode()).hexdigest()},
        {"x_api_key": KEY, "authorization": "Bearer abcdefghijk"},
    ],
)
def test_invalid_credential_headers(client: AuthenticationClient, headers: dict[str, str]) -> None:
    """A credential header that is empty, of another scheme, or combined with the other one is refused."""
    client.refusal(**headers)


def test_repeated_credential_headers(client: AuthenticationClient, issuer: Issuer) -> None:
    """Repeated credential headers are refused, even if they are equal, because proxies read different ones."""
    for name, value in (("authorization", f"Bearer {issuer.token()}"), ("x-api-key", KEY)):
        line = f"{name}: {value}\r\n"
        head = f"POST /graphql HTTP/1.1\r\nhost: {LOOPBACK}\r\ncontent-type: application/json\r\n{line}{line}"
        with RawConnection(client.address) as connection:
            connection.send(f"{head}content-length: {len(GOOD)}\r\n\r\n".encode() + GOOD)
            reply = connection.reply()
        assert (reply.status, reply.codes) == (401, [Unauthenticated.code])
        assert "twice" in reply.json["errors"][0]["message"]


HEADER_VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=200)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["authorization", "Authorization", "x-api-key"]),
            HEADER_VALUES
            | HEADER_VALUES.map("Bearer {}".format)
            | st.lists(st.binary(max_size=60).map(token_segment), min_size=3, max_size=3)
            .map(".".join)
            .map("Bearer {}".format)
            | st.recursive(st.none() | st.text(max_size=9) | st.floats(), st.lists).map(
                lambda value: f"Bearer {token_segment({'alg': value, 'kid': value})}.{token_segment(value)}.AAAA"
            ),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_arbitrary_credential_headers(client: AuthenticationClient, headers: list[tuple[str, str]]) -> None:
    """Any content of a credential header is refused as invalid credentials, never with a server error."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"POST /graphql HTTP/1.1\r\nhost: {LOOPBACK}\r\ncontent-type: application/json\r\n{lines}"
    with RawConnection(client.address) as connection:
        connection.send(f"{head}content-length: {len(GOOD)}\r\n\r\n".encode("latin-1") + GOOD)
        reply = connection.reply()
    assert (reply.status, reply.codes) == (401, [Unauthenticated.code])


def test_server_without_authentication() -> None:
    """A server without authentication refuses credentials instead of ignoring them."""
    with serve_app(build_app(ScriptedExecutor(), no_database(), Settings())) as address:
        client = AuthenticationClient(address, ScriptedExecutor())
        assert "accepts no bearer tokens" in client.refusal(authorization="Bearer abc.def.ghi")["message"]
        assert "accepts no API keys" in client.refusal(x_api_key=KEY)["message"]


# --- keys from a URL -------------------------------------------------------------------------------------------


@pytest.fixture
def published_issuer() -> Iterator[Issuer]:
    """An issuer with one key that publishes its key set at a URL."""
    with serve_jwks(Issuer()) as client:
        yield client


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def is_accepted(client: AuthenticationClient, token: str) -> bool:
    """Return whether a token is accepted."""
    return client.send(authorization=f"Bearer {token}").status == 200


def test_keys_are_fetched_with_the_first_token(published_issuer: Issuer) -> None:
    """Keys are fetched when the first token arrives, and are cached for the next tokens."""
    with start_client(jwks=published_issuer.address, **PROTECTED) as client:
        client.authenticate()
        assert published_issuer.request_count == 0
        assert [client.authenticate_bearer(published_issuer.token()).subject for _ in range(3)] == ["alice"] * 3
        assert published_issuer.request_count == 1


def test_key_rotation(published_issuer: Issuer) -> None:
    """After the next fetch, an added key is accepted and a removed key is refused."""
    first = published_issuer.token()
    with start_client(jwks=published_issuer.address, fast=True, **PROTECTED) as client:
        assert client.authenticate_bearer(first).subject == "alice"
        published_issuer.keys["new"] = ("ES256", private_key("ES256", 7))
        wait_until(lambda: is_accepted(client, published_issuer.token("new")), "the new key is not known")
        assert is_accepted(client, first)
        del published_issuer.keys["one"]
        wait_until(lambda: not is_accepted(client, first), "the old key is not forgotten")
        assert "does not know" in client.token_error(first)
        assert is_accepted(client, published_issuer.token("new"))


def test_issuer_unavailable_at_startup() -> None:
    """Without keys the server starts and serves anonymous requests. It accepts tokens once keys are available."""
    issuer, port = Issuer(), free_port()
    with start_client(jwks=f"http://{LOOPBACK}:{port}/jwks.json", fast=True, **PROTECTED) as client:
        assert client.is_retryable(issuer.token())
        assert client.authenticate().subject is None
        with serve_jwks(issuer, port):
            wait_until(lambda: is_accepted(client, issuer.token()), "the keys are not fetched again")
        assert client.authenticate_bearer(issuer.token()).subject == "alice"


BAD_RESPONSES = {
    "a failure": (500, b"{}", {}),
    "a page": (200, b"<html>Sign in</html>", {}),
    "nothing": (200, b"", {}),
    "another object": (200, b'{"error": "none"}', {}),
    "too much": (200, b'{"keys": [' + b" " * 300_000 + b"]}", {}),
    "less than it says": (200, b'{"keys"', {"content-length": "1000"}),
    "no length": (200, b'{"keys": []}', {"content-length": "x"}),
    "what is not zipped": (200, b'{"keys": []}', {"content-encoding": "gzip"}),
}


@pytest.mark.parametrize("kind", BAD_RESPONSES)
def test_bad_jwks_responses(published_issuer: Issuer, kind: str) -> None:
    """After a bad JWKS response, unknown tokens are retryable, and tokens of known keys are still accepted."""
    with start_client(jwks=published_issuer.address, fast=True, **PROTECTED) as client:
        published_issuer.responses = [BAD_RESPONSES[kind]]
        assert client.is_retryable(published_issuer.token())
        assert client.authenticate().subject is None
        published_issuer.responses = []
        wait_until(lambda: is_accepted(client, published_issuer.token()), "the keys are not fetched again")
        published_issuer.responses, before = [BAD_RESPONSES[kind]], published_issuer.request_count

        def accepted_and_fetched() -> bool:
            assert is_accepted(client, published_issuer.token())
            return published_issuer.request_count > before + 1

        wait_until(accepted_and_fetched, "the keys are not fetched again")
        assert is_accepted(client, published_issuer.token())


def test_redirects_are_not_followed(published_issuer: Issuer) -> None:
    """A redirect is not followed, and yields no keys."""
    elsewhere = Issuer(responses=[(302, b"", {"location": published_issuer.address})])
    with serve_jwks(elsewhere) as other, start_client(jwks=other.address, **PROTECTED) as client:
        assert client.is_retryable(published_issuer.token())
    assert published_issuer.request_count == 0


def test_slow_issuer(published_issuer: Issuer) -> None:
    """While keys are fetched, other requests are served. Requests that wait for keys are accepted afterwards."""
    published_issuer.response_gate = Event()
    with start_client(jwks=published_issuer.address, **PROTECTED) as client, ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.send, authorization=f"Bearer {published_issuer.token()}")
        wait_until(lambda: published_issuer.request_count == 1, "the keys are not requested")
        assert client.authenticate().subject is None
        assert not waiting.done()
        published_issuer.response_gate.set()
        assert waiting.result(TIMEOUT).status == 200


def test_issuer_timeout(published_issuer: Issuer) -> None:
    """Waiting for keys is limited. The server stops even while it waits."""
    published_issuer.response_gate = Event()
    with start_client(jwks=published_issuer.address, fast=True, **PROTECTED) as client:
        assert client.is_retryable(published_issuer.token())
        assert client.authenticate().subject is None


def test_key_file_rotation(tmp_path: Path) -> None:
    """A changed key file is read again. An invalid file leaves the keys unchanged."""
    issuer, file = Issuer(), tmp_path / "jwks.json"
    file.write_bytes(issuer.jwks_text())
    with start_client(jwks=str(file), **PROTECTED) as client:
        assert is_accepted(client, issuer.token())
        issuer.keys["new"] = ("ES256", private_key("ES256", 7))
        file.write_bytes(issuer.jwks_text())
        wait_until(lambda: is_accepted(client, issuer.token("new")), "the file is not read again")
        file.write_text("half of a fi")
        assert is_accepted(client, issuer.token("new"))


# --- settings --------------------------------------------------------------------------------------------------


def test_clock_skew(published_issuer: Issuer) -> None:
    """Clocks may differ by the configured skew in both directions."""
    early, late = published_issuer.token(nbf=time.time() + 200), published_issuer.token(exp=time.time() - 200)
    with start_client(jwks=published_issuer.address, jwt_skew_seconds=300, **PROTECTED) as client:
        assert is_accepted(client, early)
        assert is_accepted(client, late)
    with start_client(jwks=published_issuer.address, jwt_skew_seconds=100, **PROTECTED) as client:
        assert "not valid yet" in client.token_error(early)
        assert "has expired" in client.token_error(late)


def test_configured_algorithms(published_issuer: Issuer) -> None:
    """Only the configured algorithms are accepted."""
    key = published_issuer.keys["one"][1]
    with start_client(jwks=published_issuer.address, jwt_algorithms=("PS512",), **PROTECTED) as client:
        assert is_accepted(client, sign_token("PS512", key, claims(), "one"))
        assert "does not accept" in client.token_error(published_issuer.token())


def test_configured_hmac_secret(tmp_path: Path) -> None:
    """A secret in a key file is accepted if its algorithm is configured."""
    secret = {"kty": "oct", "kid": "s", "k": token_segment(b"s" * 32)}
    (tmp_path / "jwks.json").write_bytes(jwks(secret, public_jwk("RS256", private_key("RS256"), kid="one")))
    token = sign_token("HS256", b"s" * 32, claims(), "s")
    with start_client(jwks=str(tmp_path / "jwks.json"), jwt_algorithms=("HS256", "RS256"), **PROTECTED) as client:
        assert is_accepted(client, token)
    with start_client(jwks=str(tmp_path / "jwks.json"), **PROTECTED) as client:
        assert "does not accept" in client.token_error(token)


def test_cognito_user_pool(tmp_path: Path) -> None:
    """The id of a Cognito user pool determines issuer, groups claim and audience claim."""
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.jwks_text())
    pool: dict[str, Any] = {
        "iss": "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Abc123",
        "cognito:groups": ["Admin"],
    }
    access = {**pool, "token_use": "access", "client_id": "app", "aud": None, "groups": None}
    identity = {**pool, "token_use": "id", "aud": "app", "groups": None}
    with start_client(
        cognito_user_pool="eu-west-1_Abc123", jwks=str(tmp_path / "jwks.json"), jwt_audiences=("app",)
    ) as client:
        for changed in (access, identity):
            caller = client.authenticate_bearer(issuer.token(**changed))
            assert (caller.subject, caller.groups) == ("alice", frozenset({"Admin"}))
        assert "another audience" in client.token_error(issuer.token(**{**access, "client_id": "other"}))
        assert "another audience" in client.token_error(issuer.token(**{**identity, "aud": "other"}))
        assert "token_use" in client.token_error(issuer.token(**{**access, "token_use": "refresh"}))
        assert "another issuer" in client.token_error(issuer.token(**{**access, "iss": f"{pool['iss']}4"}))


def test_tenants(issuer: Issuer, tmp_path: Path) -> None:
    """If tenants are configured, every operation needs one, from its token or its API key."""
    (tmp_path / "jwks.json").write_bytes(issuer.jwks_text())
    (tmp_path / "keys.json").write_text(json.dumps([{"key": KEY, "subject": "robot", "tenant": "acme"}]))
    options = Settings(cors_origins=("https://app.example",))
    files: dict[str, Any] = {"jwks": str(tmp_path / "jwks.json"), "api_keys_file": tmp_path / "keys.json"}
    with start_client(options, tenant_claim="org", **files, **PROTECTED) as client:
        assert client.authenticate_bearer(issuer.token(org="acme")).tenant == "acme"
        assert client.authenticate(x_api_key=KEY).tenant == "acme"
        assert "needs a tenant" in client.refusal()["message"]
        for wrong in (None, 7, ["acme"], "", {"id": "acme"}):
            assert "claim org" in client.token_error(issuer.token(org=wrong))
        with RawConnection(client.address) as connection:
            preflight = connection.exchange(
                "OPTIONS /graphql",
                origin="https://app.example",
                access_control_request_method="POST",
                access_control_request_headers="authorization,content-type,x-api-key",
            )
        assert preflight.headers["access-control-allow-headers"] == "authorization,content-type,x-api-key"
        refused = client.send(origin="https://app.example")
        assert refused.headers["access-control-allow-origin"] == "https://app.example"


def test_public_paths_need_no_tenant(tmp_path: Path) -> None:
    """If tenants are configured, GraphiQL, health checks and metrics need no tenant."""
    with server_process(tmp_path, USERS, SHARDQL_TENANT_CLAIM="org") as server:
        page = httpx.get(server.url, headers={"accept": "text/html"})
        others = [httpx.get(server.address + path).status_code for path in ("/healthz", "/readyz", "/metrics")]
        response = httpx.post(server.url, json={"query": "{ __typename }"})
    assert "GraphiQL" in page.text
    assert others == [200, 200, 200]
    assert response.status_code == 401


# --- page tokens and explain -----------------------------------------------------------------------------------

PAGE = "query ($after: String) { userByCreated(limit: 5, nextToken: $after) { items { userId } nextToken } }"


@pytest.fixture
def production_client(tmp_path: Path, issuer: Issuer) -> Iterator[httpx.Client]:
    """A client of the example catalog in production, with explain output for members of Admin."""
    (tmp_path / "jwks.json").write_bytes(issuer.jwks_text())
    settings = {
        "production": True,
        "token_keys": (bytes(range(32)),),
        "record_key": bytes(range(32)),
        "jwks": str(tmp_path / "jwks.json"),
        "jwt_issuer": NAME,
        "jwt_audiences": (AUDIENCE,),
        "explain_groups": ("Admin", "Support"),
    }
    app = asgi(catalog, f"sqlite:///{tmp_path}/users.db", **settings)
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        yield client


def execute(client: httpx.Client, token: str | None, query: str, **more: Any) -> Any:
    """Return the body of a response."""
    headers = {"x-explain": "1", **({} if token is None else {"authorization": f"Bearer {token}"})}
    return client.post("/graphql", json={"query": query, **more}, headers=headers).json()


def test_explain_groups(production_client: httpx.Client, issuer: Issuer) -> None:
    """In production, explain output is returned to members of the configured groups only."""
    response = execute(production_client, issuer.token(groups=["Staff", "Admin"]), PAGE)
    assert [one["index"] for one in response["extensions"]["explain"]] == ["created"]
    for token in (None, issuer.token(groups=["Staff"]), issuer.token(groups=["admin"]), issuer.token(groups=None)):
        answer = execute(production_client, token, PAGE)
        assert "extensions" not in answer
        assert "errors" not in answer


async def test_page_tokens_are_bound_to_the_principal(tmp_path: Path, issuer: Issuer) -> None:
    """A page token is valid with a renewed bearer token of the same principal only."""
    (tmp_path / "jwks.json").write_bytes(issuer.jwks_text())
    settings = read_settings(jwks=str(tmp_path / "jwks.json"), jwt_issuer=NAME, jwt_audiences=(AUDIENCE,))

    def open_database() -> AbstractAsyncContextManager[Database]:
        return open_catalog(catalog, f"sqlite:///{tmp_path}/users.db", secrets=SECRETS)

    async with open_database() as database:
        assert not any(await database.put_many([*generate_users(20)]))
    with (
        serve_app(create_application(catalog, open_database, settings, Instrumentation(settings))) as address,
        httpx.Client(base_url=address, timeout=TIMEOUT) as client,
    ):
        first = execute(client, issuer.token(), PAGE)["data"]["userByCreated"]
        after = {"after": first["nextToken"]}
        renewed = issuer.token("two", exp=time.time() + 999, groups=["Staff", "Reader"])
        second = execute(client, renewed, PAGE, variables=after)["data"]["userByCreated"]
        assert len(second["items"]) == 5
        assert not {item["userId"] for item in first["items"]} & {item["userId"] for item in second["items"]}
        for other in (None, issuer.token(sub="bob"), issuer.token(groups=["Staff"])):
            refused = execute(client, other, PAGE, variables=after)
            assert [error["extensions"]["code"] for error in refused["errors"]] == [InvalidToken.code]


# --- development tokens ----------------------------------------------------------------------------------------


def development_token(who: Identity, secret: bytes = b"", seconds: float = 600) -> str:
    """Return a development token."""
    return mint_token(secret or bytes(SECRETS.tokens[0]), who, now=time.time(), seconds=seconds)


def test_development_tokens(issuer: Issuer, tmp_path: Path) -> None:
    """In development, tokens of `shardql token` and of the issuer are accepted."""
    (tmp_path / "jwks.json").write_bytes(issuer.jwks_text())
    with start_client(jwks=str(tmp_path / "jwks.json"), **PROTECTED) as client:
        caller = client.authenticate_bearer(development_token(Identity("dev", frozenset({"Admin"}))))
        assert (caller.subject, caller.groups, caller.tenant) == ("dev", frozenset({"Admin"}), None)
        assert client.authenticate_bearer(issuer.token()).subject == "alice"
        assert "another key" in client.token_error(development_token(Identity("dev"), b"x" * 32))
        assert "has expired" in client.token_error(development_token(Identity("dev"), seconds=-100))
        assert "SHARDQL_TENANT_CLAIM" in client.token_error(development_token(Identity("dev", tenant="acme")))
    with start_client(tenant_claim="org") as client:
        assert client.authenticate_bearer(development_token(Identity("dev", tenant="acme"))).tenant == "acme"
        assert "claim tenant" in client.token_error(development_token(Identity("dev")))
        assert "`shardql token` mints one" in client.token_error(issuer.token())


def test_production_refuses_development_tokens(issuer: Issuer, tmp_path: Path) -> None:
    """In production, a development token has an unknown key."""
    (tmp_path / "jwks.json").write_bytes(issuer.jwks_text())
    with start_client(jwks=str(tmp_path / "jwks.json"), production=True, **PROTECTED) as client:
        assert "does not accept" in client.token_error(development_token(Identity("dev")))
        assert client.authenticate_bearer(issuer.token()).subject == "alice"
    with start_client(
        jwks=str(tmp_path / "jwks.json"), production=True, jwt_algorithms=("HS256", "RS256"), **PROTECTED
    ) as client:
        assert "does not know" in client.token_error(development_token(Identity("dev")))


def test_credentials_are_not_logged(issuer: Issuer, tmp_path: Path) -> None:
    """No credential, valid or invalid, appears in the log, even at level debug."""
    (tmp_path / "jwks.json").write_bytes(issuer.jwks_text())
    (tmp_path / "keys.json").write_text(json.dumps([{"key": KEY, "subject": "robot"}]))
    variables = {
        "SHARDQL_JWKS": "jwks.json",
        "SHARDQL_API_KEYS_FILE": "keys.json",
        "SHARDQL_JWT_ISSUER": NAME,
        "SHARDQL_JWT_AUDIENCES": f"other,{AUDIENCE}",
        "SHARDQL_LOG_LEVEL": "debug",
    }
    tokens = [issuer.token(), issuer.token(exp=1), forged_token(issuer)]
    with server_process(tmp_path, USERS, **variables) as server:
        statuses = [
            httpx.post(server.url, json={"query": "{ __typename }"}, headers=headers).status_code
            for headers in (
                *({"authorization": f"Bearer {token}"} for token in tokens),
                {"x-api-key": KEY},
                {"x-api-key": KEY + KEY},
            )
        ]
        assert server.stop() == 0
        log = server.log.read_text()
    assert statuses == [200, 401, 401, 200, 401]
    assert Unauthenticated.code in log
    assert re.search(
        r"callers anonymous; bearer tokens of \S+, keys from jwks.json; API keys in keys.json; ", server.output
    )
    for secret in (KEY, *(piece for token in tokens for piece in token.split("."))):
        assert secret not in log
        assert secret not in server.output


# --- invalid settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SHARDQL_JWKS": "none.json"}, "SHARDQL_JWKS names none.json: No such file or directory."),
        ({"SHARDQL_JWKS": "keys.json"}, "SHARDQL_JWKS names keys.json: The text is not a key set"),
        ({"SHARDQL_API_KEYS_FILE": "none.json"}, "SHARDQL_API_KEYS_FILE names none.json: No such file"),
        ({"SHARDQL_API_KEYS_FILE": "keys.json"}, "Entry 1 has no subject"),
    ],
)
def test_invalid_key_files(tmp_path: Path, variables: dict[str, str], message: str) -> None:
    """An invalid key file prevents the start. The message names the file and the problem."""
    (tmp_path / "keys.json").write_text(json.dumps([{"key": KEY}]))
    result = run_failing_server(tmp_path, USERS, "--port", "0", **variables)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert KEY not in result.stderr


def test_default_settings() -> None:
    """By default, development accepts development tokens, and production accepts no tokens."""
    assert len(build_authenticator(Settings(), lambda: SECRETS).token_verifiers) == 1
    assert build_authenticator(Settings(production=True), lambda: SECRETS).token_verifiers == []
