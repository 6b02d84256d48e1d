"""A worker that calls other libraries from Python, for comparisons with what ShardQL does in one process."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aioboto3
import aiohttp
import orjson
import strawberry
from boto3.dynamodb.types import TypeDeserializer
from botocore.config import Config

from tests.benchmarks.dynamodb_index import UNSIGNED_HEADERS, DynamoIndex
from tests.benchmarks.sample_rows import FIELDS, user_rows
from tests.benchmarks.strawberry_server import make_schema
from tests.benchmarks.worker_loop import serve_calls

INDEXED = ("created", "firstName", "lastName", "phone", "visits")
_SESSION = aioboto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1")  # noqa: S106 - dummy


class LibraryWorker:
    """Connections and schemas that stay between the calls."""

    def __init__(self) -> None:
        self._client: Any = None
        self._http: aiohttp.ClientSession | None = None
        self._schemas: dict[bool, Any] = {}
        self._accounts: sqlite3.Connection | None = None
        self._files = 0
        self._numbers = 0

    # --- DynamoDB ----------------------------------------------------------------------------------------------

    async def client_query(self, hash_key: str, low: int, high: int, size: int, times: int) -> Any:
        """Send one Query several times with the client of aioboto3, and deserialize its items."""
        index, deserialize = DynamoIndex.from_environment(), TypeDeserializer().deserialize
        if self._client is None:
            config = Config(max_pool_connections=200)
            opening = _SESSION.client("dynamodb", endpoint_url=index.endpoint, config=config)
            self._client = await opening.__aenter__()
        query = index.query(hash_key, index.lower_bound(low, None), index.upper_bound(high), size)
        items: list[Any] = []
        for _ in range(times):
            answer = await self._client.query(**query)
            items = [{name: deserialize(value) for name, value in item.items()} for item in answer["Items"]]
        return [item["userId"] for item in items]

    async def floor_query(self, hash_key: str, low: int, high: int, size: int, times: int) -> Any:
        """Send one Query several times with aiohttp, without a signature, and parse it with orjson."""
        index = DynamoIndex.from_environment()
        if self._http is None:
            self._http = aiohttp.ClientSession()
        query = index.query(hash_key, index.lower_bound(low, None), index.upper_bound(high), size)
        items: list[Any] = []
        for _ in range(times):
            async with self._http.post(index.endpoint, data=orjson.dumps(query), headers=UNSIGNED_HEADERS) as answer:
                items = orjson.loads(await answer.read())["Items"]
        return [item["userId"]["S"] for item in items]

    # --- GraphQL -----------------------------------------------------------------------------------------------

    async def execute(self, query: str, count: int, times: int, users: int, caches: bool) -> Any:
        """Execute the page query over rows in memory with Strawberry, and serialize the response."""
        if caches not in self._schemas:
            rows = [*user_rows(users)]

            async def read_page(_low: int, _high: int, limit: int, _token: str | None) -> Any:
                return rows[:limit], None

            self._schemas[caches] = make_schema(read_page, caches=caches)
        schema: strawberry.Schema = self._schemas[caches]
        text = ""
        for _ in range(times):
            result = await schema.execute(query, {"limit": count})
            assert not result.errors, result.errors
            text = json.dumps({"data": result.data})
        return json.loads(text)["data"]

    # --- loading -----------------------------------------------------------------------------------------------

    async def load_sqlite_utils(self, file: str, folder: str) -> int:
        """Load a file of JSON lines into a new table with six indexes, through sqlite-utils."""
        import sqlite_utils  # noqa: PLC0415 - only here

        database = sqlite_utils.Database(self._new_file(folder))
        columns = dict(zip(FIELDS, (str, int, str, str, str, str, int, float, bool, str), strict=True))
        table = database.table("users").create(columns, pk="userId")
        for name in INDEXED:
            table.create_index([name])
        table.create_index(["city", "created"])
        table.insert_all(map(orjson.loads, _lines(file)))
        database.conn.commit()
        count = int(table.count)
        database.conn.close()
        return count

    async def load_executemany(self, file: str, folder: str) -> int:
        """Load a file of JSON lines into a new table with six indexes, through executemany."""
        connection = sqlite3.connect(self._new_file(folder))
        names = ", ".join(FIELDS)
        connection.execute(f"CREATE TABLE users ({names}, PRIMARY KEY (userId))")
        for name in (*INDEXED, "city, created"):
            connection.execute(f"CREATE INDEX users_{name.partition(',')[0]} ON users ({name})")
        marks = ", ".join(f":{name}" for name in FIELDS)
        rows = ({**dict.fromkeys(FIELDS), **orjson.loads(line)} for line in _lines(file))
        connection.executemany(f"INSERT INTO users VALUES ({marks})", rows)  # noqa: S608 - constants
        connection.commit()
        (count,) = connection.execute("SELECT count(*) FROM users").fetchone()
        connection.close()
        return int(count)

    async def open_accounts(self, folder: str) -> None:
        """Make a table of accounts with a unique property, as durable as that of ShardQL."""
        self._accounts = connection = sqlite3.connect(self._new_file(folder))
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE accounts (account_id PRIMARY KEY, email UNIQUE, name)")
        connection.commit()

    async def create_accounts(self, count: int) -> int:
        """Create accounts, each with a commit of its own."""
        for _ in range(count):
            self._insert(1)
        return count

    async def create_account_batches(self, count: int) -> int:
        """Create accounts, with a commit for each 100."""
        for _ in range(count // 100):
            self._insert(100)
        return count

    def _insert(self, count: int) -> None:
        assert self._accounts is not None
        for _ in range(count):
            self._numbers += 1
            values = (f"a{self._numbers}", f"{self._numbers}@post.example", "Name")
            self._accounts.execute("INSERT INTO accounts VALUES (?, ?, ?)", values)
        self._accounts.commit()

    def _new_file(self, folder: str) -> str:
        self._files += 1
        return f"{folder}/library-{id(self)}-{self._files}.db"


def _lines(file: str) -> Iterator[bytes]:
    with Path(file).open("rb") as lines:
        yield from lines


if __name__ == "__main__":
    serve_calls(LibraryWorker())
