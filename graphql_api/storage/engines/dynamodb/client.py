"""The client of the driver: without retries of its own, and with verification of every response."""

from contextlib import AsyncExitStack
from io import BytesIO
from typing import Any
from zlib import crc32

import aioboto3
import orjson
from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError

from graphql_api.errors import StoreRefused
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentResponse

_CHECKSUM_HEADER = "x-amz-crc32"

_LARGE_BODY_BYTES = 256 * 1024


async def open_client(
    stack: AsyncExitStack,
    session: aioboto3.Session,
    region: str | None,
    endpoint: str | None,
    settings: DynamoSettings,
) -> Any:
    """Return a low-level client that is closed with the exit stack."""
    config = AioConfig(
        connect_timeout=settings.connect_seconds,
        read_timeout=settings.read_seconds,
        max_pool_connections=settings.pool,
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
    client.meta.events.register("before-send.dynamodb", stream_large_body)
    client.meta.events.register("before-parse.dynamodb", verify_response)
    return client


def stream_large_body(request: Any, **_: Any) -> None:
    """Send a large body in chunks, so that it does not block the event loop."""
    if isinstance(request.body, bytes) and len(request.body) > _LARGE_BODY_BYTES:
        request.body = BytesIO(request.body)


def verify_response(response_dict: dict[str, Any], **_: Any) -> None:
    """Refuse an incomplete or damaged body. The driver itself accepts a truncated body as an empty response."""
    body = response_dict["body"]
    checksum = response_dict["headers"].get(_CHECKSUM_HEADER)
    if checksum is not None:
        if checksum != str(crc32(body)):
            raise InconsistentResponse("the checksum of the body does not match")
        if body.startswith(b"{"):
            return
    is_json = "json" in response_dict["headers"].get("content-type", "")
    if response_dict["status_code"] >= 300 and not is_json:
        return  # Sent by an intermediary, such as a proxy: only the status is meaningful.
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise InconsistentResponse("the body is not JSON") from problem
    if not isinstance(parsed, dict):
        raise InconsistentResponse("the body is not a JSON object")
