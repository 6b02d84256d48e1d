"""Who asks, on a real server: bearer tokens of an issuer, API keys, tokens for development, and everything else."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
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
from graphql_api.examples.user_samples import generate_users
from graphql_api.examples.users import catalog
from graphql_api.schema.request_context import Caller
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.auth.auth_configuration import build_authenticator
from graphql_api.server.auth.bearer_tokens import IssuerTokenVerifier
from graphql_api.server.auth.development_tokens import mint_token
from graphql_api.server.auth.identity import Identity
from graphql_api.server.auth.jwks_loading import jwks_loader
from graphql_api.server.settings import Settings, read_settings
from graphql_api.server.startup import create_application, create_instrumentation
from tests.api.processes import USERS, failing, serving
from tests.api.running import LOOPBACK, PATIENCE, Reply, Wire, running
from tests.api.scripted import ScriptedEngine, no_database
from tests.api.server import SECRETS
from tests.issuer import (
    AUDIENCE,
    NAME,
    Issuer,
    claims,
    hmac_token,
    jwks,
    part,
    private_key,
    public_der,
    public_jwk,
    public_pem,
    publishing,
    signed,
)

GOOD = b'{"query": "good"}'
KEY = "a-key-of-more-than-twenty-characters"
OTHER_KEY = "another-key-of-more-than-twenty-characters"
PROTECTED: dict[str, Any] = {"jwt_issuer": NAME, "jwt_audiences": ("other", AUDIENCE)}


class Door:
    """A server that shows who comes in."""

    def __init__(self, address: str, engine: ScriptedEngine) -> None:
        self.address = address
        self._engine = engine

    def ask(self, **headers: str) -> Reply:
        """The reply to a request with these headers."""
        with Wire(self.address) as wire:
            return wire.post(GOOD, **headers)

    def enter(self, **headers: str) -> Caller:
        """Who a request comes from that must be let in."""
        reply = self.ask(**headers)
        assert reply.status == 200, reply.body
        return self._engine.callers[-1]

    def bearer(self, token: str) -> Caller:
        """Who a token stands for that must be right."""
        return self.enter(authorization=f"Bearer {token}")

    def refusal(self, **headers: str) -> dict[str, Any]:
        """The error of a request whose credentials must be refused; nothing reaches the engine."""
        before = len(self._engine.callers)
        reply = self.ask(accept="application/graphql-response+json", **headers)
        assert (reply.status, reply.codes) == (401, [Unauthenticated.code]), reply.body
        assert reply.headers["www-authenticate"] == "Bearer"
        assert len(self._engine.callers) == before
        for value in headers.values():
            credential = value.rpartition(" ")[2]
            assert len(credential) < 8 or credential not in reply.body.decode()
        error: dict[str, Any] = reply.json["errors"][0]
        return error

    def refused(self, token: str) -> str:
        """Why a token is refused for good."""
        error = self.refusal(authorization=f"Bearer {token}")
        assert error["extensions"] == {"code": Unauthenticated.code}
        return str(error["message"])

    def unchecked(self, token: str) -> bool:
        """Whether a token is refused because it cannot be checked now."""
        error = self.refusal(authorization=f"Bearer {token}")
        return error["extensions"].get("retryable") is True


@contextmanager
def door(options: WebOptions | None = None, *, hasty: bool = False, **settings: Any) -> Iterator[Door]:
    """A server with these settings; a hasty one does not wait long for keys, nor before it asks for them anew."""
    chosen = read_settings(**settings)
    authenticator = build_authenticator(chosen, SECRETS)
    for bearer in authenticator.token_verifiers:
        if hasty and isinstance(bearer, IssuerTokenVerifier):
            bearer.keys.max_age = bearer.keys.retry_interval = bearer.keys.unknown_key_interval = 0.1
            bearer.keys.load = jwks_loader(bearer.keys.location, bearer.algorithms, seconds=0.5)
    engine = ScriptedEngine()
    with running(build_app(engine, no_database(), options or WebOptions(), authenticator=authenticator)) as address:
        yield Door(address, engine)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """An issuer of two keys."""
    return Issuer({"one": ("RS256", private_key("RS256")), "two": ("ES256", private_key("ES256"))})


@pytest.fixture(scope="module")
def guarded(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A server that knows the issuer by a file, and two API keys."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "jwks.json").write_bytes(issuer.text())
    keys = [
        {"key": KEY, "subject": "robot", "groups": ["Reader"]},
        {"sha256": sha256(OTHER_KEY.encode()).hexdigest().upper(), "subject": "other robot"},
    ]
    (folder / "keys.json").write_text(json.dumps(keys))
    with door(jwks=str(folder / "jwks.json"), api_keys_file=folder / "keys.json", **PROTECTED) as found:
        yield found


# --- who comes in ----------------------------------------------------------------------------------------------


def test_nobody(guarded: Door) -> None:
    """A request without credentials comes from nobody, and comes in."""
    caller = guarded.enter()
    assert (caller.subject, caller.groups, caller.tenant, caller.principal) == (None, frozenset(), None, None)


@pytest.mark.parametrize("kid", ["one", "two"])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_somebody(guarded: Door, issuer: Issuer, kid: str, scheme: str) -> None:
    """A token of the issuer stands for its subject and groups; without a setting for tenants it names none."""
    caller = guarded.enter(authorization=f"{scheme} {issuer.token(kid, tenant='acme')}")
    assert (caller.subject, caller.groups, caller.tenant) == ("alice", frozenset({"Reader", "Staff"}), None)


def test_api_keys(guarded: Door) -> None:
    """An API key stands for whom the file says, whether the file has it or its digest."""
    robot, other = guarded.enter(x_api_key=KEY), guarded.enter(x_api_key=OTHER_KEY)
    assert (robot.subject, robot.groups) == ("robot", frozenset({"Reader"}))
    assert (other.subject, other.groups) == ("other robot", frozenset())


def test_a_query_in_the_address(guarded: Door, issuer: Issuer) -> None:
    """A GET is authenticated as a POST is."""
    with Wire(guarded.address) as wire:
        way = "GET /graphql?query=good"
        good = wire.ask(way, apollo_require_preflight="1", authorization=f"Bearer {issuer.token()}")
        bad = wire.ask(way, apollo_require_preflight="1", authorization="Bearer x")
    assert (good.status, bad.status, bad.codes) == (200, 401, [Unauthenticated.code])


def test_the_connection_goes_on(guarded: Door) -> None:
    """After a refusal the connection can be used again, whatever of the body had not been read."""
    with Wire(guarded.address) as wire:
        assert wire.post(b'{"query": "' + b"x" * 200_000 + b'"}', authorization="Bearer x").status == 401
        assert wire.post(GOOD).status == 200


# --- tokens that are not right ---------------------------------------------------------------------------------


def forged(issuer: Issuer, **changed: Any) -> str:
    """A token in the name of the issuer, signed by somebody else."""
    return signed("RS256", private_key("RS256", 99), claims(**changed), "one")


def unsigned(algorithm: str) -> str:
    """A token without a signature."""
    return f"{part({'alg': algorithm, 'kid': 'one', 'typ': 'JWT'})}.{part(claims())}."


NOW = time.time()
WRONG: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda issuer: issuer.token(exp=NOW - 61), "has expired"),
    "not yet valid": (lambda issuer: issuer.token(nbf=NOW + 3600), "not valid yet"),
    "issued in the future": (lambda issuer: issuer.token(iat=NOW + 3600), "in the future"),
    "without an end": (lambda issuer: issuer.token(exp=None), "no claim exp"),
    "another audience": (lambda issuer: issuer.token(aud="warehouse"), "another audience"),
    "no audience": (lambda issuer: issuer.token(aud=None), "another audience"),
    "another issuer": (lambda issuer: issuer.token(iss="https://foe.example"), "another issuer"),
    "no subject": (lambda issuer: issuer.token(sub=None), "no claim sub"),
    "groups of a wrong type": (lambda issuer: issuer.token(groups={"Admin": 1}), "groups"),
    "another key": (forged, "signature"),
    "unknown key": (lambda issuer: signed("RS256", issuer.keys["one"][1], claims(), "three"), "does not know"),
    "the other key": (lambda issuer: signed("ES256", issuer.keys["two"][1], claims(), "one"), "No key of the issuer"),
    "unsigned": (lambda _: unsigned("none"), "unsigned, or signed with an algorithm that this server does not accept"),
    "unsigned, in capitals": (
        lambda _: unsigned("NONE"),
        "unsigned, or signed with an algorithm that this server does not accept",
    ),
    "cut": (lambda issuer: issuer.token()[:-2], "signature"),
    "without a signature": (lambda issuer: issuer.token().rpartition(".")[0] + ".", "signature"),
    "a secret": (lambda _: signed("HS256", b"s" * 32, claims(), "one"), "does not accept"),
    "two parts": (lambda issuer: issuer.token().rpartition(".")[0], "three parts"),
    "encrypted": (lambda issuer: f"{issuer.token()}.AA.AA", "three parts"),
    "too large": (lambda issuer: issuer.token(pad="x" * 20_000), "at most 16,384"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_tokens_that_are_not_right(guarded: Door, issuer: Issuer, kind: str) -> None:
    """A token that is not right is refused with the kind of its fault, even where nothing needs any."""
    make, said = WRONG[kind]
    assert said in guarded.refused(make(issuer))


def test_confused_algorithms(guarded: Door, issuer: Issuer) -> None:
    """The public key of the issuer, in any of its forms, is no secret to sign with."""
    key = issuer.keys["one"][1]
    forms = (public_pem(key), public_pem(key).strip(), public_der(key), json.dumps(public_jwk("RS256", key)).encode())
    for form in forms:
        for kid in ("one", "two", None):
            assert "does not accept" in guarded.refused(hmac_token(form, claims(), kid))


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
def test_headers_that_are_not_right(guarded: Door, headers: dict[str, str]) -> None:
    """A header of credentials that holds none, another scheme's, or two at once is refused."""
    guarded.refusal(**headers)


def test_headers_that_come_twice(guarded: Door, issuer: Issuer) -> None:
    """Credentials that come twice are refused, even the same ones: proxies differ in which they look at."""
    for name, value in (("authorization", f"Bearer {issuer.token()}"), ("x-api-key", KEY)):
        line = f"{name}: {value}\r\n"
        head = f"POST /graphql HTTP/1.1\r\nhost: {LOOPBACK}\r\ncontent-type: application/json\r\n{line}{line}"
        with Wire(guarded.address) as wire:
            wire.send(f"{head}content-length: {len(GOOD)}\r\n\r\n".encode() + GOOD)
            reply = wire.reply()
        assert (reply.status, reply.codes) == (401, [Unauthenticated.code])
        assert "twice" in reply.json["errors"][0]["message"]


HEADER_VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=200)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["authorization", "Authorization", "x-api-key"]),
            HEADER_VALUES
            | HEADER_VALUES.map("Bearer {}".format)
            | st.lists(st.binary(max_size=60).map(part), min_size=3, max_size=3).map(".".join).map("Bearer {}".format)
            | st.recursive(st.none() | st.text(max_size=9) | st.floats(), st.lists).map(
                lambda value: f"Bearer {part({'alg': value, 'kid': value})}.{part(value)}.AAAA"
            ),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_headers(guarded: Door, headers: list[tuple[str, str]]) -> None:
    """Whatever stands in the headers of credentials, it is refused as such and never a failure of the server."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"POST /graphql HTTP/1.1\r\nhost: {LOOPBACK}\r\ncontent-type: application/json\r\n{lines}"
    with Wire(guarded.address) as wire:
        wire.send(f"{head}content-length: {len(GOOD)}\r\n\r\n".encode("latin-1") + GOOD)
        reply = wire.reply()
    assert (reply.status, reply.codes) == (401, [Unauthenticated.code])


def test_a_server_without_credentials() -> None:
    """A server that takes no credentials says so, instead of passing over them."""
    with running(build_app(ScriptedEngine(), no_database(), WebOptions())) as address:
        found = Door(address, ScriptedEngine())
        assert "accepts no bearer tokens" in found.refusal(authorization="Bearer abc.def.ghi")["message"]
        assert "accepts no API keys" in found.refusal(x_api_key=KEY)["message"]


# --- keys that come from an address ----------------------------------------------------------------------------


@pytest.fixture
def published() -> Iterator[Issuer]:
    """An issuer of one key that gives it out at an address."""
    with publishing(Issuer()) as found:
        yield found


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def enters(found: Door, token: str) -> bool:
    """Whether a token is taken."""
    return found.ask(authorization=f"Bearer {token}").status == 200


def test_keys_are_fetched_with_the_first_token(published: Issuer) -> None:
    """Keys are fetched when the first token comes, and not again for the next ones."""
    with door(jwks=published.address, **PROTECTED) as found:
        found.enter()
        assert published.asked == 0
        assert [found.bearer(published.token()).subject for _ in range(3)] == ["alice"] * 3
        assert published.asked == 1


def test_keys_rotate(published: Issuer) -> None:
    """A key that the issuer adds is taken, and one that it removes is refused, once keys were fetched anew."""
    first = published.token()
    with door(jwks=published.address, hasty=True, **PROTECTED) as found:
        assert found.bearer(first).subject == "alice"
        published.keys["new"] = ("ES256", private_key("ES256", 7))
        wait_until(lambda: enters(found, published.token("new")), "the new key is not known")
        assert enters(found, first)
        del published.keys["one"]
        wait_until(lambda: not enters(found, first), "the old key is not forgotten")
        assert "does not know" in found.refused(first)
        assert enters(found, published.token("new"))


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        return int(listener.getsockname()[1])


def test_keys_that_are_down_at_the_start() -> None:
    """Without keys the server starts and serves those who need none; it takes tokens as soon as there are keys."""
    issuer, port = Issuer(), free_port()
    with door(jwks=f"http://{LOOPBACK}:{port}/jwks.json", hasty=True, **PROTECTED) as found:
        assert found.unchecked(issuer.token())
        assert found.enter().subject is None
        with publishing(issuer, port):
            wait_until(lambda: enters(found, issuer.token()), "the keys are not asked for again")
        assert found.bearer(issuer.token()).subject == "alice"


BAD_ANSWERS = {
    "a failure": (500, b"{}", {}),
    "a page": (200, b"<html>Sign in</html>", {}),
    "nothing": (200, b"", {}),
    "another object": (200, b'{"error": "none"}', {}),
    "too much": (200, b'{"keys": [' + b" " * 300_000 + b"]}", {}),
    "less than it says": (200, b'{"keys"', {"content-length": "1000"}),
    "no length": (200, b'{"keys": []}', {"content-length": "x"}),
    "what is not zipped": (200, b'{"keys": []}', {"content-encoding": "gzip"}),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_bad_answers(published: Issuer, kind: str) -> None:
    """Whatever an address answers, the server lives; tokens may be tried again, and tokens of known keys are taken."""
    with door(jwks=published.address, hasty=True, **PROTECTED) as found:
        published.answers = [BAD_ANSWERS[kind]]
        assert found.unchecked(published.token())
        assert found.enter().subject is None
        published.answers = []
        wait_until(lambda: enters(found, published.token()), "the keys are not asked for again")
        published.answers, before = [BAD_ANSWERS[kind]], published.asked

        def taken_and_asked() -> bool:
            assert enters(found, published.token())
            return published.asked > before + 1

        wait_until(taken_and_asked, "the keys are not asked for again")
        assert enters(found, published.token())


def test_redirects_are_not_followed(published: Issuer) -> None:
    """An address that sends elsewhere gives no keys: elsewhere nobody has looked at."""
    elsewhere = Issuer(answers=[(302, b"", {"location": published.address})])
    with publishing(elsewhere) as other, door(jwks=other.address, **PROTECTED) as found:
        assert found.unchecked(published.token())
    assert published.asked == 0


def test_slow_keys(published: Issuer) -> None:
    """While keys are fetched others are served, and who waits for them comes in when they are there."""
    published.holds = Event()
    with door(jwks=published.address, **PROTECTED) as found, ThreadPoolExecutor() as pool:
        waiting = pool.submit(found.ask, authorization=f"Bearer {published.token()}")
        wait_until(lambda: published.asked == 1, "nobody asks for the keys")
        assert found.enter().subject is None
        assert not waiting.done()
        published.holds.set()
        assert waiting.result(PATIENCE).status == 200


def test_keys_that_never_come(published: Issuer) -> None:
    """Keys that do not come are waited for for a bounded time; the server stops while it waits for them, too."""
    published.holds = Event()
    with door(jwks=published.address, hasty=True, **PROTECTED) as found:
        assert found.unchecked(published.token())
        assert found.enter().subject is None


def test_keys_in_a_file_rotate(tmp_path: Path) -> None:
    """A file of keys that changes is read anew; what is no key set leaves the keys as they were."""
    issuer, file = Issuer(), tmp_path / "jwks.json"
    file.write_bytes(issuer.text())
    with door(jwks=str(file), **PROTECTED) as found:
        assert enters(found, issuer.token())
        issuer.keys["new"] = ("ES256", private_key("ES256", 7))
        file.write_bytes(issuer.text())
        wait_until(lambda: enters(found, issuer.token("new")), "the file is not read again")
        file.write_text("half of a fi")
        assert enters(found, issuer.token("new"))


# --- settings --------------------------------------------------------------------------------------------------


def test_skew(published: Issuer) -> None:
    """Clocks may differ by as much as the settings say, in both directions."""
    early, late = published.token(nbf=time.time() + 200), published.token(exp=time.time() - 200)
    with door(jwks=published.address, jwt_skew_seconds=300, **PROTECTED) as found:
        assert enters(found, early)
        assert enters(found, late)
    with door(jwks=published.address, jwt_skew_seconds=100, **PROTECTED) as found:
        assert "not valid yet" in found.refused(early)
        assert "has expired" in found.refused(late)


def test_algorithms_by_name(published: Issuer) -> None:
    """Only the algorithms that are named are accepted."""
    key = published.keys["one"][1]
    with door(jwks=published.address, jwt_algorithms=("PS512",), **PROTECTED) as found:
        assert enters(found, signed("PS512", key, claims(), "one"))
        assert "does not accept" in found.refused(published.token())


def test_secrets_by_name(tmp_path: Path) -> None:
    """A secret in a file of keys serves where its algorithm is named."""
    secret = {"kty": "oct", "kid": "s", "k": part(b"s" * 32)}
    (tmp_path / "jwks.json").write_bytes(jwks(secret, public_jwk("RS256", private_key("RS256"), kid="one")))
    token = signed("HS256", b"s" * 32, claims(), "s")
    with door(jwks=str(tmp_path / "jwks.json"), jwt_algorithms=("HS256", "RS256"), **PROTECTED) as found:
        assert enters(found, token)
    with door(jwks=str(tmp_path / "jwks.json"), **PROTECTED) as found:
        assert "does not accept" in found.refused(token)


def test_cognito(tmp_path: Path) -> None:
    """A user pool of Cognito is known by its id: issuer, groups, app clients, and what tokens are for."""
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.text())
    pool: dict[str, Any] = {
        "iss": "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Abc123",
        "cognito:groups": ["Admin"],
    }
    access = {**pool, "token_use": "access", "client_id": "app", "aud": None, "groups": None}
    identity = {**pool, "token_use": "id", "aud": "app", "groups": None}
    with door(cognito_user_pool="eu-west-1_Abc123", jwks=str(tmp_path / "jwks.json"), jwt_audiences=("app",)) as found:
        for said in (access, identity):
            caller = found.bearer(issuer.token(**said))
            assert (caller.subject, caller.groups) == ("alice", frozenset({"Admin"}))
        assert "another audience" in found.refused(issuer.token(**{**access, "client_id": "other"}))
        assert "another audience" in found.refused(issuer.token(**{**identity, "aud": "other"}))
        assert "token_use" in found.refused(issuer.token(**{**access, "token_use": "refresh"}))
        assert "another issuer" in found.refused(issuer.token(**{**access, "iss": f"{pool['iss']}4"}))


def test_tenants(issuer: Issuer, tmp_path: Path) -> None:
    """Where there are tenants every request needs one, from its token or its key; pages and health need none."""
    (tmp_path / "jwks.json").write_bytes(issuer.text())
    (tmp_path / "keys.json").write_text(json.dumps([{"key": KEY, "subject": "robot", "tenant": "acme"}]))
    options = WebOptions(cors_origins=("https://app.example",))
    files: dict[str, Any] = {"jwks": str(tmp_path / "jwks.json"), "api_keys_file": tmp_path / "keys.json"}
    with door(options, tenant_claim="org", **files, **PROTECTED) as found:
        assert found.bearer(issuer.token(org="acme")).tenant == "acme"
        assert found.enter(x_api_key=KEY).tenant == "acme"
        assert "needs a tenant" in found.refusal()["message"]
        for wrong in (None, 7, ["acme"], "", {"id": "acme"}):
            assert "claim org" in found.refused(issuer.token(org=wrong))
        with Wire(found.address) as wire:
            preflight = wire.ask(
                "OPTIONS /graphql",
                origin="https://app.example",
                access_control_request_method="POST",
                access_control_request_headers="authorization,content-type,x-api-key",
            )
        assert preflight.headers["access-control-allow-headers"] == "authorization,content-type,x-api-key"
        refused = found.ask(origin="https://app.example")
        assert refused.headers["access-control-allow-origin"] == "https://app.example"


def test_pages_without_a_tenant(tmp_path: Path) -> None:
    """Where there are tenants, GraphiQL, health and metrics are open to those who have none."""
    with serving(tmp_path, USERS, SHARDQL_TENANT_CLAIM="org") as server:
        page = httpx.get(server.url, headers={"accept": "text/html"})
        others = [httpx.get(server.address + path).status_code for path in ("/healthz", "/readyz", "/metrics")]
        asked = httpx.post(server.url, json={"query": "{ __typename }"})
    assert "GraphiQL" in page.text
    assert others == [200, 200, 200]
    assert asked.status_code == 401


# --- page tokens and explain -----------------------------------------------------------------------------------

PAGE = "query ($after: String) { userByCreated(limit: 5, nextToken: $after) { items { userId } nextToken } }"


@pytest.fixture
def shop(tmp_path: Path, issuer: Issuer) -> Iterator[httpx.Client]:
    """The example catalog in production, with explain for members of Admin."""
    (tmp_path / "jwks.json").write_bytes(issuer.text())
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
    with running(app) as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        yield client


def ask(client: httpx.Client, token: str | None, query: str, **more: Any) -> Any:
    """The body of an answer."""
    headers = {"x-explain": "1", **({} if token is None else {"authorization": f"Bearer {token}"})}
    return client.post("/graphql", json={"query": query, **more}, headers=headers).json()


def test_explain_is_for_some(shop: httpx.Client, issuer: Issuer) -> None:
    """In production explain is heard from members of the named groups, and passed over for everybody else."""
    told = ask(shop, issuer.token(groups=["Staff", "Admin"]), PAGE)
    assert [one["index"] for one in told["extensions"]["explain"]] == ["created"]
    for token in (None, issuer.token(groups=["Staff"]), issuer.token(groups=["admin"]), issuer.token(groups=None)):
        answer = ask(shop, token, PAGE)
        assert "extensions" not in answer
        assert "errors" not in answer


async def test_page_tokens_are_those_of_a_person(tmp_path: Path, issuer: Issuer) -> None:
    """A page token goes on with a renewed bearer token of the same person, and with nobody else's."""
    (tmp_path / "jwks.json").write_bytes(issuer.text())
    settings = read_settings(jwks=str(tmp_path / "jwks.json"), jwt_issuer=NAME, jwt_audiences=(AUDIENCE,))

    def opening() -> AbstractAsyncContextManager[Database]:
        return open_catalog(catalog, f"sqlite:///{tmp_path}/users.db", secrets=SECRETS)

    async with opening() as database:
        assert not any(await database.put_many([*generate_users(20)]))
    with (
        running(create_application(catalog, opening, settings, create_instrumentation(settings))) as address,
        httpx.Client(base_url=address, timeout=PATIENCE) as client,
    ):
        first = ask(client, issuer.token(), PAGE)["data"]["userByCreated"]
        after = {"after": first["nextToken"]}
        renewed = issuer.token("two", exp=time.time() + 999, groups=["Staff", "Reader"])
        second = ask(client, renewed, PAGE, variables=after)["data"]["userByCreated"]
        assert len(second["items"]) == 5
        assert not {item["userId"] for item in first["items"]} & {item["userId"] for item in second["items"]}
        for other in (None, issuer.token(sub="bob"), issuer.token(groups=["Staff"])):
            refused = ask(client, other, PAGE, variables=after)
            assert [error["extensions"]["code"] for error in refused["errors"]] == [InvalidToken.code]


# --- tokens for development ------------------------------------------------------------------------------------


def minted(who: Identity, secret: bytes = b"", seconds: float = 600) -> str:
    """A token for development."""
    return mint_token(secret or bytes(SECRETS.tokens[0]), who, now=time.time(), seconds=seconds)


def test_development_takes_minted_tokens(issuer: Issuer, tmp_path: Path) -> None:
    """In development tokens of `shardql token` are taken, beside those of the issuer."""
    (tmp_path / "jwks.json").write_bytes(issuer.text())
    with door(jwks=str(tmp_path / "jwks.json"), **PROTECTED) as found:
        caller = found.bearer(minted(Identity("dev", frozenset({"Admin"}))))
        assert (caller.subject, caller.groups, caller.tenant) == ("dev", frozenset({"Admin"}), None)
        assert found.bearer(issuer.token()).subject == "alice"
        assert "another key" in found.refused(minted(Identity("dev"), b"x" * 32))
        assert "has expired" in found.refused(minted(Identity("dev"), seconds=-100))
        assert "SHARDQL_TENANT_CLAIM" in found.refused(minted(Identity("dev", tenant="acme")))
    with door(tenant_claim="org") as found:
        assert found.bearer(minted(Identity("dev", tenant="acme"))).tenant == "acme"
        assert "claim tenant" in found.refused(minted(Identity("dev")))
        assert "`shardql token` mints one" in found.refused(issuer.token())


def test_production_takes_no_minted_tokens(issuer: Issuer, tmp_path: Path) -> None:
    """In production a minted token is one of an unknown key."""
    (tmp_path / "jwks.json").write_bytes(issuer.text())
    with door(jwks=str(tmp_path / "jwks.json"), production=True, **PROTECTED) as found:
        assert "does not accept" in found.refused(minted(Identity("dev")))
        assert found.bearer(issuer.token()).subject == "alice"
    with door(
        jwks=str(tmp_path / "jwks.json"), production=True, jwt_algorithms=("HS256", "RS256"), **PROTECTED
    ) as found:
        assert "does not know" in found.refused(minted(Identity("dev")))


def test_credentials_stay_out_of_the_log(issuer: Issuer, tmp_path: Path) -> None:
    """No credential, right or wrong, gets into the log, not even at the level debug."""
    (tmp_path / "jwks.json").write_bytes(issuer.text())
    (tmp_path / "keys.json").write_text(json.dumps([{"key": KEY, "subject": "robot"}]))
    variables = {
        "SHARDQL_JWKS": "jwks.json",
        "SHARDQL_API_KEYS_FILE": "keys.json",
        "SHARDQL_JWT_ISSUER": NAME,
        "SHARDQL_JWT_AUDIENCES": f"other,{AUDIENCE}",
        "SHARDQL_LOG_LEVEL": "debug",
    }
    tokens = [issuer.token(), issuer.token(exp=1), forged(issuer)]
    with serving(tmp_path, USERS, **variables) as server:
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
        r"callers anonymous; bearer tokens of \S+, keys from jwks.json; API keys in keys.json; ", server.said
    )
    for secret in (KEY, *(piece for token in tokens for piece in token.split("."))):
        assert secret not in log
        assert secret not in server.said


# --- settings that keep a server from starting -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SHARDQL_JWKS": "none.json"}, "SHARDQL_JWKS names none.json: No such file or directory."),
        ({"SHARDQL_JWKS": "keys.json"}, "SHARDQL_JWKS names keys.json: The text is not a key set"),
        ({"SHARDQL_API_KEYS_FILE": "none.json"}, "SHARDQL_API_KEYS_FILE names none.json: No such file"),
        ({"SHARDQL_API_KEYS_FILE": "keys.json"}, "Entry 1 has no subject"),
    ],
)
def test_files_that_are_no_keys(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    """A file of keys that cannot be used keeps the server from starting, and is told with what is wrong."""
    (tmp_path / "keys.json").write_text(json.dumps([{"key": KEY}]))
    result = failing(tmp_path, USERS, "--port", "0", **variables)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert KEY not in result.stderr


def test_settings_of_a_server_are_enough() -> None:
    """A server without any setting of credentials takes tokens for development alone."""
    assert len(build_authenticator(Settings(), SECRETS).token_verifiers) == 1
    assert build_authenticator(Settings(production=True), SECRETS).token_verifiers == []
