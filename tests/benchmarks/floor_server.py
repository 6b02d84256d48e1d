"""The bare engine over HTTP, as floor: `python -m tests.benchmarks.floor_server sqlite FILE` or `dynamodb`.

It reads the variables of the page query, and nothing else of GraphQL.
"""

import sqlite3
import sys
from typing import Any

import aiohttp
import orjson

from tests.benchmarks.dynamodb_index import UNSIGNED_HEADERS, DynamoIndex
from tests.benchmarks.loopback_server import Handler, response, serve
from tests.benchmarks.plain_database import COLUMNS, PAGE_QUERY
from tests.benchmarks.sample_rows import FIELDS
from tests.benchmarks.sharded_page import read_sharded_page


def _answer(items: list[dict[str, Any]], token: Any) -> bytes:
    return response(orjson.dumps({"data": {"userByCreated": {"items": items, "nextToken": token}}}))


async def start_sqlite() -> Handler:
    """Open the database and return the handler of requests."""
    connection = sqlite3.connect(sys.argv[2])

    async def handle(_: bytes, body: bytes) -> bytes:
        variables = orjson.loads(body)["variables"]
        limit, token = variables["limit"], variables["nextToken"]
        start = variables["from"] if token is None else int(token) + 1
        rows = connection.execute(PAGE_QUERY, (start, variables["to"], limit + 1)).fetchall()
        items = [dict(zip(COLUMNS, row, strict=True)) for row in rows[:limit]]
        for item in items:
            item["active"] = bool(item["active"])
        return _answer(items, str(items[-1]["created"]) if len(rows) > limit else None)

    return handle


async def start_dynamodb() -> Handler:
    """Open the connections and return the handler of requests."""
    index = DynamoIndex.from_environment()
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=200))
    numbers = {"created": int, "visits": int, "height": float}

    async def handle(_: bytes, body: bytes) -> bytes:
        variables = orjson.loads(body)["variables"]
        limit, token, high = variables["limit"], variables["nextToken"], index.upper_bound(variables["to"])

        async def read(hash_key: str, last: Any, size: int) -> list[Any]:
            start = index.lower_bound(variables["from"], token if last is None else last[index.range_attribute]["S"])
            query = orjson.dumps(index.query(hash_key, start, high, size))
            async with session.post(index.endpoint, data=query, headers=UNSIGNED_HEADERS) as answer:
                return list(orjson.loads(await answer.read())["Items"])

        rows = await read_sharded_page(index.hash_keys, limit + 1, read, lambda row: row[index.range_attribute]["S"])
        items = []
        for row in rows[:limit]:
            values = {name: next(iter(value.values())) for name, value in row.items()}
            items.append({name: numbers.get(name, _unchanged)(values.get(name)) for name in FIELDS})
            if "NULL" in row.get("note", ()):
                items[-1]["note"] = None
        more = len(rows) > limit
        return _answer(items, rows[limit - 1][index.range_attribute]["S"] if more else None)

    return handle


def _unchanged(value: Any) -> Any:
    return value


if __name__ == "__main__":
    serve(start_sqlite if sys.argv[1] == "sqlite" else start_dynamodb)
