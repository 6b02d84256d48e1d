"""Sends the frequent API calls over own connections, without the layers of the client of aioboto3.

The client provides credentials, endpoint, region and TLS settings, parses errors, and sends all other calls.
"""

import asyncio
import json
from base64 import b64encode
from typing import Any, NamedTuple

import orjson
from botocore.parsers import create_parser

from graphql_api.storage.engines.dynamodb.driver_client import (
    KEEP_ALIVE_SECONDS,
    READS,
    WRITES,
    ClientTransport,
    Response,
    parse_object,
    verify_body,
    verify_checksum,
    verify_fence,
)
from graphql_api.storage.engines.dynamodb.http_connections import ConnectionPool, HttpResponse
from graphql_api.storage.engines.dynamodb.request_routes import RouteResolver
from graphql_api.storage.engines.dynamodb.request_signature import RequestSigner


class _Sender(NamedTuple):
    """How requests are sent with one set of credentials."""

    credentials: Any
    pool: ConnectionPool | None
    """None: the client sends them"""
    signer: RequestSigner | None
    heads: dict[str, str]
    """the first lines of a request, by operation"""


class DirectTransport:
    """Sends the frequent calls itself where the configuration allows it, and the others with the client."""

    def __init__(self, client: Any, connections: int) -> None:
        self._client = client
        self._client_transport = ClientTransport(client)
        self._connections = connections
        self._credentials = client._request_signer._credentials  # noqa: SLF001 - the client has no accessor
        self._resolver = RouteResolver(client)
        self._resolving = asyncio.Lock()
        self._sender: _Sender | None = None
        self._service = client.meta.service_model
        self._error_parser = create_parser(self._service.resolved_protocol)
        self._content_type = f"application/x-amz-json-{self._service.metadata['jsonVersion']}"
        self._targets = {name: f"{self._service.metadata['targetPrefix']}.{name}" for name in READS | WRITES}

    async def send(self, operation: str, request: dict[str, Any]) -> Response:
        """Return the response to a request. Binary values in it are base64 text."""
        target = self._targets.get(operation)
        if target is None or self._credentials is None:
            return await self._client_transport.send(operation, request)
        credentials = await self._credentials.get_frozen_credentials()
        sender = self._sender
        if sender is None or sender.credentials != credentials:
            sender = await self._resolve(credentials)
        if sender.pool is None or sender.signer is None:
            return await self._client_transport.send(operation, request)
        body = encode_body(request)
        connection = await sender.pool.acquire()
        try:
            head = f"{sender.heads[operation]}{sender.signer.sign(target, body)}Content-Length: {len(body)}\r\n\r\n"
            if operation in WRITES:
                verify_fence()
            response = await connection.exchange(head.encode("latin-1"), body)
        except BaseException:
            connection.abort()
            raise
        sender.pool.release(connection)
        return self._parse(operation, response)

    async def close(self) -> None:
        """Close the connections."""
        if self._sender is not None and self._sender.pool is not None:
            await self._sender.pool.close()

    async def _resolve(self, credentials: Any) -> _Sender:
        """Resolve how requests with these credentials are sent. Accounts may have endpoints of their own."""
        async with self._resolving:
            old = self._sender
            if old is not None and old.credentials == credentials:
                return old
            route = await self._resolver.resolve()
            if route is None:
                sender = _Sender(credentials, None, None, {})
            else:
                same = None if old is None or old.pool is None or old.pool.endpoint != route.endpoint else old.pool
                pool = same or ConnectionPool(route.endpoint, self._connections, KEEP_ALIVE_SECONDS)
                signer = RequestSigner(credentials, route.region, route.service, route.host, self._content_type)
                sender = _Sender(credentials, pool, signer, self._heads(route.host))
            self._sender = sender
        if old is not None and old.pool is not None and old.pool is not sender.pool:
            await old.pool.close()
        return sender

    def _heads(self, host: str) -> dict[str, str]:
        lines = (
            f"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: {self._content_type}\r\nAccept-Encoding: identity\r\n"
            f"User-Agent: {self._client.meta.config.user_agent}\r\nX-Amz-Target: "
        )
        return {operation: f"{lines}{target}\r\n" for operation, target in self._targets.items()}

    def _parse(self, operation: str, response: HttpResponse) -> Response:
        status, headers, body = response
        if status >= 300:
            verify_body(status, headers, body)
            raise self._error(operation, response)
        verify_checksum(headers, body)
        parsed = parse_object(body)
        parsed["ResponseMetadata"] = {"HTTPHeaders": headers}
        return parsed

    def _error(self, operation: str, response: HttpResponse) -> Exception:
        """Return the error that the client raises for a response."""
        reply = {"status_code": response.status, "headers": response.headers, "body": response.body, "context": {}}
        parsed = self._error_parser.parse(reply, self._service.operation_model(operation).output_shape)
        code = parsed.get("Error", {}).get("Code")
        shape = self._service.shape_for_error_code(code)
        if shape is not None:
            parsed.update(self._error_parser.parse(reply, shape))
        error: Exception = self._client.exceptions.from_code(code)(parsed, operation)
        return error


def encode_body(request: dict[str, Any]) -> bytes:
    """Encode a request. Text that is not valid Unicode is escaped, as the client does; DynamoDB refuses it."""
    try:
        return orjson.dumps(request, default=_encode_binary)
    except TypeError:
        return json.dumps(request, default=_encode_binary).encode()


def _encode_binary(value: bytes) -> str:
    return b64encode(value).decode()
