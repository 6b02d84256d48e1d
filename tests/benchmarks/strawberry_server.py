"""Stock Strawberry with uvicorn, as contestant: `python -m tests.benchmarks.strawberry_server ENGINE [--caches]`.

The engines: `sqlite FILE`, a query per shard; `offset FILE`, one table and OFFSET; `client` and `resource`, aioboto3
with the table that the environment variable BENCH_TABLE describes.
"""

import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import Annotated, Any, NewType

import aioboto3
import strawberry
import uvicorn
from boto3.dynamodb.conditions import Key
from boto3.dynamodb.types import TypeDeserializer
from botocore.config import Config
from strawberry.asgi import GraphQL
from strawberry.extensions import ParserCache, SchemaExtension, ValidationCache
from strawberry.schema.config import StrawberryConfig

from tests.benchmarks.dynamodb_index import ATTRIBUTES, DynamoIndex
from tests.benchmarks.plain_database import COLUMNS, OFFSET_QUERY, SHARD_QUERY
from tests.benchmarks.sample_rows import FIELDS
from tests.benchmarks.sharded_page import read_sharded_page

Rows = list[dict[str, Any]]
ReadPage = Callable[[int, int, int, str | None], Awaitable[tuple[Rows, str | None]]]
Timestamp = NewType("Timestamp", int)
CONFIG = StrawberryConfig(scalar_map={Timestamp: strawberry.scalar(name="Timestamp", serialize=int, parse_value=int)})


@strawberry.type
class User:
    user_id: str
    created: Timestamp
    first_name: str
    last_name: str
    phone: str
    city: str
    visits: int
    height: float
    active: bool
    note: str | None


@strawberry.type
class Connection:
    items: list[User]
    next_token: str | None


class Resources:
    """What is opened with the first request, in the event loop of the server."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._opened: Any = None

    async def get(self, resource: Callable[[], Any]) -> Any:
        if self._opened is None:
            self._opened = await self._stack.enter_async_context(resource())
        return self._opened


resources = Resources()


def sqlite_pages(file: str) -> ReadPage:
    """Read with a query per shard through aiosqlite."""
    import aiosqlite  # noqa: PLC0415 - installed only for the benchmark

    async def read_page(low: int, high: int, limit: int, token: str | None) -> tuple[Rows, str | None]:
        connection = await resources.get(lambda: aiosqlite.connect(file))
        start = low if token is None else int(token) + 1

        async def read(shard: int, last: Any, size: int) -> list[Any]:
            after = start if last is None else last[1] + 1
            return [*await connection.execute_fetchall(SHARD_QUERY, (shard, after, high, size))]

        rows = await read_sharded_page(range(shards()), limit + 1, read, lambda row: row[1])
        return _page([dict(zip(COLUMNS, row, strict=True)) for row in rows], limit, lambda row: str(row["created"]))

    return read_page


def offset_pages(file: str) -> ReadPage:
    """Read one table with OFFSET through aiosqlite."""
    import aiosqlite  # noqa: PLC0415 - installed only for the benchmark

    async def read_page(low: int, high: int, limit: int, token: str | None) -> tuple[Rows, str | None]:
        connection = await resources.get(lambda: aiosqlite.connect(file))
        offset = int(token or 0)
        rows = [*await connection.execute_fetchall(OFFSET_QUERY, (low, high, limit + 1, offset))]
        items = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        return _page(items, limit, lambda _: str(offset + limit))

    return read_page


def client_pages() -> ReadPage:
    """Read with a query per shard through the client of aioboto3."""
    index, deserialize = DynamoIndex.from_environment(), TypeDeserializer().deserialize

    async def read_page(low: int, high: int, limit: int, token: str | None) -> tuple[Rows, str | None]:
        client = await resources.get(
            lambda: _session().client("dynamodb", endpoint_url=index.endpoint, config=_config())
        )

        async def read(hash_key: str, last: Any, size: int) -> list[Any]:
            start = index.lower_bound(low, token if last is None else last[index.range_attribute])
            answer = await client.query(**index.query(hash_key, start, index.upper_bound(high), size))
            return [{name: deserialize(value) for name, value in item.items()} for item in answer["Items"]]

        rows = await read_sharded_page(index.hash_keys, limit + 1, read, lambda row: row[index.range_attribute])
        return _page(rows, limit, lambda row: row[index.range_attribute])

    return read_page


def resource_pages() -> ReadPage:
    """Read with a query per shard through the resource of aioboto3."""
    index = DynamoIndex.from_environment()
    names = {f"#{at}": name for at, name in enumerate([*ATTRIBUTES, index.range_attribute])}

    async def read_page(low: int, high: int, limit: int, token: str | None) -> tuple[Rows, str | None]:
        service = await resources.get(
            lambda: _session().resource("dynamodb", endpoint_url=index.endpoint, config=_config())
        )
        table = await service.Table(index.table)

        async def read(hash_key: str, last: Any, size: int) -> list[Any]:
            start = index.lower_bound(low, token if last is None else last[index.range_attribute])
            in_range = Key(index.range_attribute).between(start, index.upper_bound(high))
            answer = await table.query(
                IndexName=index.index,
                KeyConditionExpression=Key(index.hash_attribute).eq(hash_key) & in_range,
                Limit=size,
                ProjectionExpression=",".join(names),
                ExpressionAttributeNames=names,
            )
            return list(answer["Items"])

        rows = await read_sharded_page(index.hash_keys, limit + 1, read, lambda row: row[index.range_attribute])
        return _page(rows, limit, lambda row: row[index.range_attribute])

    return read_page


@cache
def _session() -> aioboto3.Session:
    return aioboto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1")  # noqa: S106 - dummy


def _config() -> Config:
    return Config(max_pool_connections=200)


def _page(rows: Rows, limit: int, token: Callable[[dict[str, Any]], str]) -> tuple[Rows, str | None]:
    return rows[:limit], token(rows[limit - 1]) if len(rows) > limit else None


def _user(row: dict[str, Any]) -> User:
    values: dict[str, Any] = {name: row.get(name) for name in FIELDS}
    return User(
        user_id=values["userId"],
        created=Timestamp(int(values["created"])),
        first_name=values["firstName"],
        last_name=values["lastName"],
        phone=values["phone"],
        city=values["city"],
        visits=int(values["visits"]),
        height=float(values["height"]),
        active=bool(values["active"]),
        note=values["note"],
    )


def make_schema(read_page: ReadPage, *, caches: bool) -> strawberry.Schema:
    """Make the schema of the page query."""

    @strawberry.type
    class Query:
        @strawberry.field
        async def user_by_created(
            self,
            from_: Annotated[Timestamp | None, strawberry.argument(name="from")] = None,
            to: Timestamp | None = None,
            limit: int | None = 50,
            next_token: str | None = None,
        ) -> Connection:
            rows, token = await read_page(int(from_ or 0), int(to or 2**62), limit or 50, next_token)
            return Connection(items=[_user(row) for row in rows], next_token=token)

    shared = [ParserCache(), ValidationCache()] if caches else []
    extensions = [partial(_same, each) for each in shared]
    return strawberry.Schema(Query, extensions=extensions, config=CONFIG)


def _same(extension: SchemaExtension, **_: Any) -> SchemaExtension:
    """Return the extension that all requests share: its cache is within."""
    return extension


def shards() -> int:
    """Return the number of shards."""
    return int(os.environ["BENCH_SHARDS"])


def main() -> None:
    """Serve one engine."""
    engine, *words = sys.argv[1:]
    caches = "--caches" in words
    files = [word for word in words if not word.startswith("-")]
    pages: dict[str, Callable[..., ReadPage]] = {
        "sqlite": sqlite_pages,
        "offset": offset_pages,
        "client": client_pages,
        "resource": resource_pages,
    }
    application = GraphQL[Any, Any](make_schema(pages[engine](*files), caches=caches), graphql_ide=None)
    listener = socket.create_server(("127.0.0.1", 0))
    print("http://{}:{}/graphql".format(*listener.getsockname()), flush=True)
    uvicorn.Server(uvicorn.Config(application, log_level="warning", access_log=False)).run(sockets=[listener])


if __name__ == "__main__":
    main()
