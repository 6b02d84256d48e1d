"""The driver's client: opened without retries of its own, with every answer checked before it is believed."""

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
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentAnswer

_CHECKSUM = "x-amz-crc32"

_LARGE = 256 * 1024


async def open_client(
    stack: AsyncExitStack,
    session: aioboto3.Session,
    region: str | None,
    endpoint: str | None,
    settings: DynamoSettings,
) -> Any:
    """A low-level client whose life is the stack's."""
    config = AioConfig(
        connect_timeout=settings.connect_seconds,
        read_timeout=settings.read_seconds,
        max_pool_connections=settings.pool,
        retries={"total_max_attempts": 1, "mode": "standard"},
        parameter_validation=False,  # what is sent was checked when it was encoded
    )
    try:
        client = await stack.enter_async_context(
            session.client("dynamodb", region_name=region, endpoint_url=endpoint, config=config)
        )
    except (BotoCoreError, ValueError) as problem:
        raise StoreRefused(
            f"DynamoDB cannot be reached like this: {problem} Give region and endpoint with the table's name, or set "
            "AWS_DEFAULT_REGION."
        ) from problem
    client.meta.events.register("before-send.dynamodb", stream_large)
    client.meta.events.register("before-parse.dynamodb", check_answer)
    return client


def stream_large(request: Any, **_: Any) -> None:
    """Has a large body sent piece by piece, so that it does not hold up the event loop."""
    if isinstance(request.body, bytes) and len(request.body) > _LARGE:
        request.body = BytesIO(request.body)


def check_answer(response_dict: dict[str, Any], **_: Any) -> None:
    """Refuses a body that is not what the server sent: the driver itself takes a cut one for an empty answer."""
    body = response_dict["body"]
    told = response_dict["headers"].get(_CHECKSUM)
    if told is not None:
        if told != str(crc32(body)):
            raise InconsistentAnswer("the checksum of the body is wrong")
        if body.startswith(b"{"):
            return
    said_to_be_json = "json" in response_dict["headers"].get("content-type", "")
    if response_dict["status_code"] >= 300 and not said_to_be_json:
        return  # Something on the way speaks here, and the status is all that it has to say.
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise InconsistentAnswer("the body is no JSON") from problem
    if not isinstance(parsed, dict):
        raise InconsistentAnswer("the body is no JSON object")
