"""The client of aioboto3: it sends table operations and scans, and every request if `transport` is `aioboto3`."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from io import BytesIO
from ssl import SSLContext
from typing import Any, Protocol
from zlib import crc32

import aioboto3
import orjson
from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError
from botocore.httpsession import create_urllib3_context

from graphql_api.errors import StoreRefused
from graphql_api.storage import current_fence
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentResponse

Response = dict[str, Any]

READS = frozenset({"Query", "BatchGetItem"})
"""operations that are hedged, unless the request has a capacity ceiling"""

WRITES = frozenset({"TransactWriteItems", "BatchWriteItem", "PutItem", "DeleteItem"})

KEEP_ALIVE_SECONDS = 60.0
"""for which an idle connection is kept, so that a wide search rarely has to open all of its connections"""

_LARGE_BODY_BYTES = 256 * 1024
_NO_TIMEOUT = 24 * 3600


class Transport(Protocol):
    """Sends API calls. It makes one attempt, and has no timeouts of its own."""

    async def send(self, operation: str, request: dict[str, Any]) -> Response:
        """Return the response to a request in the wire format, or raise one of `DRIVER_ERRORS`."""
        ...


class ClientTransport:
    """Sends API calls with the client of aioboto3."""

    def __init__(self, client: Any) -> None:
        self._methods = {
            operation: getattr(client, method) for method, operation in client.meta.method_to_api_mapping.items()
        }

    async def send(self, operation: str, request: dict[str, Any]) -> Response:
        """Return the response to a request, as the client parses it."""
        response: Response = await self._methods[operation](**request)
        return response


async def open_client(
    stack: AsyncExitStack,
    session: aioboto3.Session,
    region: str | None,
    endpoint: str | None,
    settings: DynamoSettings,
) -> Any:
    """Return a low-level client that is closed with the exit stack.

    It has no timeouts of its own: they would count the time in which this process has no CPU (`ResponsiveTimer`).
    """
    config = AioConfig(
        connect_timeout=_NO_TIMEOUT,
        read_timeout=_NO_TIMEOUT,
        max_pool_connections=settings.pool,
        connector_args={"keepalive_timeout": KEEP_ALIVE_SECONDS},
        retries={"total_max_attempts": 1, "mode": "standard"},
        parameter_validation=False,  # requests are validated when they are encoded
    )
    try:
        client = await stack.enter_async_context(
            session.client("dynamodb", region_name=region, endpoint_url=endpoint, config=config)
        )
    except (BotoCoreError, ValueError) as problem:
        raise StoreRefused(
            f"The DynamoDB client cannot be created: {problem} Set region and endpoint with the table's name, or set "
            "AWS_DEFAULT_REGION."
        ) from problem
    client._endpoint.http_session._get_ssl_context = _verifying_context  # noqa: SLF001 - there is no setting
    client.meta.events.register("before-send.dynamodb", _stream_large_body)
    for operation in WRITES:
        client.meta.events.register(f"before-send.dynamodb.{operation}", verify_fence)
    client.meta.events.register("before-parse.dynamodb", _verify_response)
    return client


def _verifying_context() -> SSLContext:
    """Return a TLS context that verifies the name of the host too. That of aiobotocore does not."""
    context: SSLContext = create_urllib3_context()
    context.check_hostname = True
    return context


def verify_fence(**_: Any) -> None:
    """Stop a write whose plan is too old. The request is signed by now: it cannot be applied long after this check."""
    fence = current_fence()
    if fence is not None:
        fence.verify()


def _stream_large_body(request: Any, **_: Any) -> None:
    """Send a large body in chunks, so that it does not block the event loop."""
    if isinstance(request.body, bytes) and len(request.body) > _LARGE_BODY_BYTES:
        request.body = BytesIO(request.body)


def _verify_response(response_dict: dict[str, Any], **_: Any) -> None:
    verify_body(response_dict["status_code"], response_dict["headers"], response_dict["body"])


def verify_body(status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Refuse an incomplete or damaged body. The driver itself accepts a truncated body as an empty response."""
    if verify_checksum(headers, body) and body.startswith(b"{"):
        return
    try:
        parse_object(body)
    except InconsistentResponse as problem:
        # A body that is not JSON may be that of an intermediary, such as a proxy: only the status is meaningful.
        is_text = isinstance(problem.__cause__, orjson.JSONDecodeError)
        if status < 300 or not is_text or "json" in headers.get("content-type", ""):
            raise


def verify_checksum(headers: Mapping[str, str], body: bytes) -> bool:
    """Refuse a body that does not match its checksum. Return whether there is one."""
    checksum = headers.get("x-amz-crc32")
    if checksum is not None and checksum != str(crc32(body)):
        raise InconsistentResponse("the checksum of the body does not match")
    return checksum is not None


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse the JSON object of a body."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise InconsistentResponse("the body is not JSON") from problem
    if not isinstance(parsed, dict):
        raise InconsistentResponse("the body is not a JSON object")
    return parsed
