"""Own connections to DynamoDB: what they take over from the client of aioboto3, and when they leave requests to it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from zlib import crc32

import aioboto3
import pytest
import uvloop
from aiobotocore.credentials import AioRefreshableCredentials
from botocore import UNSIGNED
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import SchemaChanged, StoreDenied, StoreError, StoreUnavailable
from graphql_api.storage import WriteFence, fenced
from graphql_api.storage.engines.dynamodb import DynamoStore, open_dynamodb
from graphql_api.storage.engines.dynamodb.direct_transport import encode_body
from graphql_api.storage.engines.dynamodb.driver_client import KEEP_ALIVE_SECONDS
from graphql_api.storage.engines.dynamodb.dynamodb_settings import TRANSPORTS
from graphql_api.storage.engines.dynamodb.request_routes import RequestRoute, RouteResolver
from graphql_api.storage.values import Check, Expect, Key, Put, RangeRead, RowPage
from tests.storage.scripted_dynamodb import (
    DESCRIPTION,
    QUICK,
    Reply,
    ScriptedDynamoDB,
    error_reply,
    start_scripted_dynamodb,
)
from tests.storage.scripted_http import Answer, HttpServer, http_response, start_http_server
from tests.support.certificates import CertificateAuthority
from tests.support.dynamodb_servers import REGION
from tests.support.dynamodb_servers import session as shared_session

READ = RangeRead("byText", "t!01", 1, KeyRange(), 10)
ROW = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}, "t": {"S": "t!01"}, "text": {"S": "v"}}
PAGE = {"Items": [ROW], "Count": 1, "ScannedCount": 1}
PUT = Put({"hashKey": "h!", "rangeKey": "r"})
DONE = Reply({"ConsumedCapacity": {"TableName": "script", "CapacityUnits": 1.0}})


@pytest.fixture
async def script() -> AsyncIterator[ScriptedDynamoDB]:
    """A server whose stores use the direct transport."""
    async with start_scripted_dynamodb() as server:
        server.set_replies("Query", Reply(PAGE))
        server.set_replies("PutItem", DONE)
        yield server


def new_session(**more: Any) -> aioboto3.Session:
    """A session whose configuration a test may change."""
    return aioboto3.Session(
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - dummy
        region_name=REGION,
        **more,
    )


async def open_store(endpoint: str, session: aioboto3.Session | None = None, transport: str = "direct") -> DynamoStore:
    """Open a store with a session."""
    settings, used = replace(QUICK, transport=transport), session or shared_session()
    return await open_dynamodb("script", region=REGION, endpoint=endpoint, settings=settings, session=used)


async def read_once(store: DynamoStore) -> RowPage | StoreError:
    """The result of one query."""
    (page,) = await store.read_ranges([READ], 10)
    return page


# --- which requests are sent directly -----------------------------------------------------------------------------


async def test_frequent_requests_are_sent_directly(script: ScriptedDynamoDB) -> None:
    """Queries, batches and writes are sent directly, and descriptions and scans by the client."""
    script.set_replies("Scan", Reply({"Items": [], "Count": 0}))
    script.set_replies("BatchGetItem", Reply({"Responses": {}, "UnprocessedKeys": {}}))
    script.set_replies("BatchWriteItem", Reply({"UnprocessedItems": {}}))
    script.set_replies("TransactWriteItems", Reply({"ConsumedCapacity": []}))
    script.set_replies("DeleteItem", DONE)
    store = await script.open()
    await read_once(store)
    await store.get_many([Key("h!", "r")], consistent=True)
    await store.write([PUT])
    await store.write([PUT, Put({"hashKey": "h!", "rangeKey": "s"})])
    await store.write_together([PUT], "token")
    assert script.transports == {"direct"}
    await store.scan(0, 1, None)
    await store.close()
    by_client = {
        operation
        for (operation, _), headers in zip(script.received, script.headers, strict=True)
        if "amz-sdk-invocation-id" in headers
    }
    assert by_client == {"DescribeTable", "Scan"}


async def test_headers_and_signature(script: ScriptedDynamoDB) -> None:
    """A request has the headers and the signature that botocore would send."""
    store = await script.open()
    await read_once(store)
    await store.close()
    (headers,) = [one for one in script.headers if one["X-Amz-Target"].endswith(".Query")]
    assert headers["Content-Type"] == "application/x-amz-json-1.0"
    assert headers["User-Agent"].startswith("aiobotocore/")
    body = encode_body(script.requests("Query")[0])
    assert signature_of(headers, body, ReadOnlyCredentials("local", "local", None)) == headers["Authorization"]


def signature_of(headers: Mapping[str, str], body: bytes, credentials: ReadOnlyCredentials) -> str:
    """The authorization header of botocore for a received request."""
    signed = {name: headers[name] for name in ("Content-Type", "Host", "X-Amz-Target")}
    request = AWSRequest("POST", "http://unused/", signed, body)
    sent = datetime.strptime(headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    with patch("botocore.auth.get_current_datetime", return_value=sent):
        SigV4Auth(credentials, "dynamodb", REGION).add_auth(request)
    return str(request.headers["Authorization"])


async def test_a_proxy_is_used_by_the_client(script: ScriptedDynamoDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the environment names a proxy, the client sends all requests through it."""
    monkeypatch.setenv("HTTP_PROXY", script.endpoint)
    monkeypatch.setenv("http_proxy", script.endpoint)
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    store = await open_store("http://dynamodb.test:8000")
    assert isinstance(await read_once(store), RowPage)
    assert await store.write([PUT]) == [None]
    await store.close()
    assert script.transports == {"aioboto3"}
    assert {headers["Host"] for headers in script.headers} == {"dynamodb.test:8000"}


async def test_no_proxy(script: ScriptedDynamoDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is not for this host changes nothing."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    store = await open_store(script.endpoint)
    assert isinstance(await read_once(store), RowPage)
    await store.close()
    assert script.transports == {"direct"}


@pytest.mark.parametrize("event", ["before-sign.dynamodb.Query", "before-send.dynamodb", "after-call.*.Query"])
async def test_hooks_are_called_by_the_client(script: ScriptedDynamoDB, event: str) -> None:
    """If the application has hooks on requests, the client sends the requests and calls them."""
    called: list[str] = []

    def hook(event_name: str, **_: Any) -> None:
        called.append(event_name)

    session = new_session()
    session.events.register(event, hook)
    store = await open_store(script.endpoint, session)
    await read_once(store)
    await store.close()
    assert script.transports == {"aioboto3"}
    assert any(name.endswith(".Query") for name in called)


async def test_unsigned_requests_are_sent_by_the_client(script: ScriptedDynamoDB) -> None:
    """A session that does not sign by version 4 is left to the client."""
    session = new_session()
    session._session.set_default_client_config(Config(signature_version=UNSIGNED))
    store = await open_store(script.endpoint, session)
    await read_once(store)
    await store.close()
    assert script.transports == {"aioboto3"}
    assert not any("Authorization" in headers for headers in script.headers)


# --- routes -------------------------------------------------------------------------------------------------------


async def route(session: aioboto3.Session, region: str, endpoint: str | None = None, **config: Any) -> Any:
    """The route of a client."""
    opening = session.client("dynamodb", region_name=region, endpoint_url=endpoint, config=Config(**config))
    async with opening as client:
        return await RouteResolver(client).resolve()


@pytest.mark.parametrize(
    ("region", "endpoint", "config", "url", "host", "signed_region"),
    [
        ("eu-west-1", None, {}, "https://dynamodb.eu-west-1.amazonaws.com", None, "eu-west-1"),
        ("us-east-1", None, {"use_fips_endpoint": True}, "https://dynamodb-fips.us-east-1.amazonaws.com", None, None),
        ("us-east-1", None, {"use_dualstack_endpoint": True}, "https://dynamodb.us-east-1.api.aws", None, None),
        ("cn-north-1", None, {}, "https://dynamodb.cn-north-1.amazonaws.com.cn", None, None),
        ("local", None, {}, "http://localhost:8000", "localhost:8000", "us-east-1"),
        ("eu-west-1", "http://127.0.0.1:8000/", {}, "http://127.0.0.1:8000/", "127.0.0.1:8000", None),
        ("eu-west-1", "https://dynamodb.test:443", {}, "https://dynamodb.test:443", "dynamodb.test", None),
        ("eu-west-1", "http://[::1]:8000", {}, "http://[::1]:8000", "[::1]:8000", None),
    ],
)
async def test_routes(
    region: str, endpoint: str | None, config: dict[str, Any], url: str, host: str | None, signed_region: str | None
) -> None:
    """Endpoint, host and region of the signature are those that the client would use."""
    found = await route(shared_session(), region, endpoint, **config)
    assert isinstance(found, RequestRoute)
    assert found.endpoint.url == url
    assert found.host == (host or url.removeprefix("https://"))
    assert (found.region, found.service) == (signed_region or region, "dynamodb")
    assert (found.endpoint.tls is not None) == url.startswith("https")


async def test_accounts_have_endpoints_of_their_own() -> None:
    """If the credentials name their account, its own endpoint is used."""
    found = await route(new_session(aws_account_id="123456789012"), "eu-west-1")
    assert found.host == "123456789012.ddb.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8000/path", "http://127.0.0.1:8000/?a=b", "http://user:word@127.0.0.1:8000"]
)
async def test_unusual_endpoints_are_left_to_the_client(endpoint: str) -> None:
    """An endpoint with more than a host and a port has no route."""
    assert await route(shared_session(), "eu-west-1", endpoint) is None


# --- credentials --------------------------------------------------------------------------------------------------


def refreshed_session(lifetimes: list[timedelta]) -> aioboto3.Session:
    """A session whose credentials expire. The n-th ones are `KEY<n>`."""
    numbers = iter(range(len(lifetimes)))

    async def refresh() -> dict[str, str]:
        number = next(numbers)
        expiry = (datetime.now(UTC) + lifetimes[number]).isoformat()
        return {
            "access_key": f"KEY{number}",
            "secret_key": f"secret {number}",
            "token": f"token{number}",
            "expiry_time": expiry,
        }

    session = new_session()
    first = {"access_key": "none", "secret_key": "none", "token": "none", "expiry_time": "2001-01-01T00:00:00Z"}
    session._session._credentials = AioRefreshableCredentials.create_from_metadata(first, refresh, "test")
    return session


async def test_refreshed_credentials_sign_the_next_request(script: ScriptedDynamoDB) -> None:
    """Credentials are refreshed as their provider requires, and sign each request from then on."""
    day = timedelta(days=1)
    store = await open_store(script.endpoint, refreshed_session([day, day]))
    credentials = store._api._transport._credentials  # type: ignore[attr-defined]
    await read_once(store)
    await read_once(store)
    credentials._expiry_time = datetime.now(UTC)
    await read_once(store)
    await store.close()
    queries = [headers for headers in script.headers if headers["X-Amz-Target"].endswith(".Query")]
    used = [re.findall(r"Credential=(\w+)/", headers["Authorization"])[0] for headers in queries]
    assert used == ["KEY0", "KEY0", "KEY1"]
    assert [headers["X-Amz-Security-Token"] for headers in queries] == ["token0", "token0", "token1"]
    assert script.transports == {"direct"}


async def test_expired_credentials_are_denied(script: ScriptedDynamoDB) -> None:
    """If DynamoDB refuses a token, the call is denied and not repeated. The next call has the refreshed credentials."""
    day = timedelta(days=1)
    script.set_replies("Query", error_reply("ExpiredTokenException"), Reply(PAGE))
    store = await open_store(script.endpoint, refreshed_session([day, day]))
    assert isinstance(await read_once(store), StoreDenied)
    assert script.counts["Query"] == 1
    store._api._transport._credentials._expiry_time = datetime.now(UTC)  # type: ignore[attr-defined]
    assert isinstance(await read_once(store), RowPage)
    await store.close()
    assert "KEY1/" in script.headers[-1]["Authorization"]


# --- connections --------------------------------------------------------------------------------------------------


def dynamodb_response(content: Mapping[str, Any]) -> bytes:
    """The bytes of a successful response."""
    body = json.dumps(content).encode()
    return http_response(body, f"x-amz-crc32: {crc32(body)}", "Content-Type: application/x-amz-json-1.0")


DESCRIBED = dynamodb_response({"Table": DESCRIPTION})
WRITTEN = dynamodb_response({"ConsumedCapacity": {"TableName": "script", "CapacityUnits": 1.0}})


@pytest.fixture
async def http() -> AsyncIterator[HttpServer]:
    """A server with scripted responses, of which the first describes the table."""
    async with start_http_server() as server:
        yield server


async def test_a_read_on_a_dropped_connection_is_repeated(http: HttpServer) -> None:
    """If the server closes a kept-alive connection when a read arrives, it is repeated on another connection."""
    page = dynamodb_response(PAGE)
    http.answer(Answer((DESCRIBED,)), Answer((page,)), Answer(closes=True), Answer((page,)))
    store = await open_store(f"http://127.0.0.1:{http.port}")
    assert isinstance(await read_once(store), RowPage)
    assert isinstance(await read_once(store), RowPage)
    await store.close()
    assert len(http.requests) == 4
    await http.wait_for_disconnects()


async def test_a_write_on_a_dropped_connection_is_in_doubt(http: HttpServer) -> None:
    """If all attempts of a write receive no response, its outcome is unknown."""
    http.answer(Answer((DESCRIBED,)), Answer((WRITTEN,)), Answer(closes=True))
    store = await open_store(f"http://127.0.0.1:{http.port}")
    assert await store.write([PUT]) == [None]
    (problem,) = await store.write([PUT])
    assert isinstance(problem, StoreUnavailable)
    assert not problem.certain
    await store.close()
    assert len(http.requests) == 2 + QUICK.attempts


async def test_closing_the_store_closes_its_connections(http: HttpServer) -> None:
    """After `close`, the server has no connection left."""
    http.answer(Answer((DESCRIBED,)), Answer((dynamodb_response(PAGE),)))
    store = await open_store(f"http://127.0.0.1:{http.port}")
    await read_once(store)
    assert http.open_connections == 2
    await store.close()
    await http.wait_for_disconnects()


async def test_the_fence_is_checked_after_waiting_for_a_connection(script: ScriptedDynamoDB) -> None:
    """A write whose plan becomes too old while its connection is opened is not sent."""
    store = await script.open()
    await read_once(store)
    pool = store._api._transport._sender.pool  # type: ignore[attr-defined]
    is_open = True

    def verify() -> None:
        if not is_open:
            raise SchemaChanged("changed")

    async def acquire() -> Any:
        nonlocal is_open
        connection = await type(pool).acquire(pool)
        is_open = False
        return connection

    with patch.object(pool, "acquire", acquire), fenced(WriteFence(Check(Key("e!", "1"), Expect()), verify)):
        (problem,) = await store.write([PUT])
    assert isinstance(problem, SchemaChanged)
    await store.close()
    assert script.counts["PutItem"] == 0


# --- TLS ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """A certificate authority that no bundle contains."""
    return CertificateAuthority(tmp_path_factory.mktemp("certificates"))


on_both_transports = pytest.mark.parametrize("transport", TRANSPORTS)


async def read_over_tls(authority: CertificateAuthority, name: str, transport: str = "direct") -> RowPage | StoreError:
    """The result of a query of a server with a certificate for this name."""
    async with start_scripted_dynamodb() as plain, start_http_server(authority.server_context(name)) as server:
        server.answer(dynamodb_response(PAGE))
        store = await open_store(f"https://127.0.0.1:{server.port}", transport=transport)
        described = await open_store(plain.endpoint)
        store._table._description = await described._table.describe()
        await described.close()
        try:
            return await read_once(store)
        finally:
            await store.close()


@on_both_transports
async def test_tls_with_a_bundle(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """AWS_CA_BUNDLE names the certificate authorities, as for the client."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
    result = await read_over_tls(authority, "127.0.0.1", transport)
    assert isinstance(result, RowPage), result


@on_both_transports
async def test_unknown_certificate_authority(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """A certificate of an unknown authority is refused before anything is sent."""
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    error = await read_over_tls(authority, "127.0.0.1", transport)
    assert isinstance(error, StoreUnavailable)
    assert "certificate verify failed" in error.message
    assert error.certain


@on_both_transports
async def test_certificate_of_another_host(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """A valid certificate for another host is refused."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
    error = await read_over_tls(authority, "127.0.0.2", transport)
    assert isinstance(error, StoreUnavailable)
    assert "IP address mismatch" in error.message


async def test_the_event_loop_of_servers(authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch) -> None:
    """On uvloop, which servers use, requests with and without TLS, large bodies and cancellation work too."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))

    async def scenario() -> None:
        assert isinstance(await read_over_tls(authority, "127.0.0.1"), RowPage)
        async with start_http_server() as server:
            pool = server.pool(keep_alive_seconds=KEEP_ALIVE_SECONDS)
            body = bytes(1_000_000)
            server.answer(http_response(body))
            for _ in range(2):
                connection = await pool.acquire()
                response = await connection.exchange(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", body)
                assert response.body == body
                pool.release(connection)
            assert server.connections == 1
            server.answer(Answer(waits=True))
            connection = await pool.acquire()
            request = asyncio.ensure_future(connection.exchange(b"POST / HTTP/1.1\r\n\r\n", b""))
            await server.wait_until(lambda: len(server.requests) == 3)
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
            connection.abort()
            await server.wait_for_disconnects()
            await pool.close()

    await asyncio.to_thread(uvloop.run, scenario())


# --- bodies -------------------------------------------------------------------------------------------------------


def test_encoded_bodies() -> None:
    """Bodies are JSON with base64 for binary values, and invalid Unicode is escaped as the client does."""
    value = {"B": b"\x00\xff", "S": "é\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "N": "1" * 38}
    assert json.loads(encode_body(value)) == {**value, "B": "AP8="}
    assert encode_body({"S": "\ud800"}) == rb'{"S": "\ud800"}'
