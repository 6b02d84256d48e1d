"""A worker that calls ShardQL from Python: this code, or the release that is first on the module path.

It uses what both export from `graphql_api`. The few private names that it needs are looked up where they are.
"""

import json
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import orjson

from graphql_api import Graph, Secrets, open_catalog
from tests.benchmarks import measured_catalog
from tests.benchmarks.page_walk import QUERY
from tests.benchmarks.sample_rows import FIELDS, FIRST_CREATED, property_name, user_rows
from tests.benchmarks.worker_loop import serve_calls

_BATCH = 500
_PROPERTIES = [property_name(name) for name in FIELDS]
_PRIVATE_NAMES = {
    "executor": (
        "graphql_api.schema.execution.document_executor:DocumentExecutor",
        "graphql_api.schema.execution:Engine",
    ),
    "operation": (
        "graphql_api.schema.execution.document_executor:Operation",
        "graphql_api.schema.execution:Operation",
    ),
    "caller": ("graphql_api.schema.request_context:Caller", "graphql_api.schema.context:Caller"),
    "limits": ("graphql_api.schema.execution.document_limits:Limits", "graphql_api.schema.limits:Limits"),
    "load_lines": ("graphql_api.ops.loader:load_lines", "graphql_api.upkeep.load_lines:load_lines"),
}
"""in this code, and in release 0.1.0"""


def _private(name: str) -> Any:
    problems = []
    for address in _PRIVATE_NAMES[name]:
        try:
            return resolve_name(address)
        except (AttributeError, ImportError) as problem:
            problems.append(str(problem))
    raise LookupError(f"this code has no {name}: {problems}")


class _CountingReads:
    """A store that counts the calls that read it, and remembers the last read of ranges."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls = 0
        self.records_read = 0
        self.last_read: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def read_ranges(self, *arguments: Any) -> Any:
        self.calls += 1
        self.last_read = arguments
        answers = await self.inner.read_ranges(*arguments)
        self.records_read += sum(getattr(answer, "records_read", 0) for answer in answers)
        return answers

    async def get_many(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        return await self.inner.get_many(*arguments, **options)


def _decode_rows(page: Any) -> Any:
    """Decode what GraphQL execution begins with: stored items, or in a release without compiled documents records."""
    return page.stored_records.stored if hasattr(page, "stored_records") else page.items


class ProductWorker:
    """One open database, and what is measured with it."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._db: Any = None
        self._run: Any = None
        self._store: Any = None
        self._read: tuple[Any, ...] = ()
        self._rows: list[list[Any]] = []
        self._numbers = 0

    async def open(self, catalog: str, url: str, create_table: bool | None = None) -> None:
        """Open a catalog, and its schema."""
        await self._stack.aclose()
        declared = getattr(measured_catalog, catalog)
        opening = open_catalog(declared, url, secrets=Secrets((bytes(32),), bytes(32)), create_table=create_table)
        self._db = await self._stack.enter_async_context(opening)
        self._store = self._db.store
        limits = _private("limits")(deadline=600.0)
        self._run = _private("executor")(Graph(declared).schema, limits).run

    async def close(self) -> None:
        await self._stack.aclose()

    # --- records -----------------------------------------------------------------------------------------------

    async def _put(self, records: list[Any]) -> None:
        for at in range(0, len(records), _BATCH):
            problems = [one for one in await self._db.put_many(records[at : at + _BATCH]) if one is not None]
            if problems:
                raise problems[0]

    async def put_users(self, count: int, note: int = 0) -> None:
        """Store users; with `note`, each has a note of this size."""
        batch = []
        for row in user_rows(count):
            values = {property_name(name): value for name, value in row.items()}
            batch.append(measured_catalog.User(**values | ({"note": "n" * note} if note else {})))
            if len(batch) == _BATCH:
                await self._put(batch)
                batch.clear()
        await self._put(batch)

    async def put_orders(self, count: int, lines: int) -> None:
        """Store orders, each of an own customer, with lines."""
        catalog = measured_catalog
        customers = [catalog.Customer(customer_id=f"c{number:05}", name=f"Name {number}") for number in range(count)]
        await self._put([*customers])
        fields: list[dict[str, Any]] = [
            {
                "order_id": f"o{number:05}",
                "placed": FIRST_CREATED + number,
                "customer_id": f"c{number * 7 % count:05}",
                "status": "paid",
            }
            for number in range(count)
        ]
        await self._put([catalog.Order(**each) for each in fields])
        numbers = [(number, line) for number in range(count) for line in range(lines)]
        await self._put(
            [
                catalog.OrderLine(order_id=f"o{number:05}", line=f"{line:02}", product=f"p{line}", quantity=line + 1)
                for number, line in numbers
            ]
        )

    async def load(self, file: str) -> int:
        """Load the lines of a file, as `shardql load` does."""
        spec = self._db.catalog.entity("User")
        progress = await _private("load_lines")(self._db.restore_many, spec, Path(file), resume=False)
        return int(progress.written)

    async def create_accounts(self, count: int) -> int:
        """Create accounts with a unique property, one after the other."""
        for _ in range(count):
            await self._db.create(self._account())
        return count

    async def create_account_batches(self, count: int) -> int:
        """Create accounts, 100 in each call."""
        created = 0
        for _ in range(count // 100):
            results = await self._db.create_many([self._account() for _ in range(100)])
            created += sum(isinstance(one, measured_catalog.Account) for one in results)
        return created

    def _account(self) -> Any:
        self._numbers += 1
        number = f"{os.getpid()}-{self._numbers}"
        return measured_catalog.Account(account_id=f"a{number}", email=f"{number}@post.example", name="Name")

    # --- reads -------------------------------------------------------------------------------------------------

    async def search(self, low: int, high: int, limit: int) -> int:
        """Read all pages of a window from Python, with all properties of their items. Return the number of pages."""
        pages, token = 0, None
        self._rows = []
        while pages == 0 or token is not None:
            index = measured_catalog.User.by_created
            page = await self._db.search(index, from_=low, to=high, limit=limit, next_token=token)
            self._rows += [[getattr(item, name) for name in _PROPERTIES] for item in page.items]
            pages, token = pages + 1, page.next_token
        return pages

    async def count_records_read(self, low: int, high: int, limit: int) -> float:
        """Return how many records a page of a window reads, on average."""
        counting = _CountingReads(self._store)
        db, self._db = self._db, replace(self._db, store=counting)
        try:
            pages = await self.search(low, high, limit)
        finally:
            self._db = db
        return counting.records_read / pages

    async def found_rows(self) -> list[list[Any]]:
        """Return the rows of the last search."""
        return self._rows

    async def _execute(self, query: str, variables: dict[str, Any]) -> bytes:
        operation = _private("operation")(query, variables=variables)
        answer = await self._run(operation, self._db, _private("caller")("bench"))
        if "errors" in answer.body:
            raise AssertionError(answer.body)
        return orjson.dumps(answer.body["data"])  # as the server does

    async def execute_page(self, low: int, high: int, limit: int, times: int) -> Any:
        """Execute the page query for the first page several times. Return its rows."""
        data = b""
        for _ in range(times):
            data = await self._execute(QUERY, {"from": low, "to": high, "limit": limit})
        return [[*item.values()] for item in json.loads(data)["userByCreated"]["items"]]

    async def search_page(self, low: int, high: int, limit: int, times: int) -> Any:
        """Search for the first page several times from Python, and decode its stored items. Return its rows."""
        page: Any = None
        for _ in range(times):
            page = await self._db.search(measured_catalog.User.by_created, from_=low, to=high, limit=limit)
            _decode_rows(page)
        return [[getattr(item, name) for name in _PROPERTIES] for item in page.items]

    async def execute(self, query: str, times: int) -> Any:
        """Execute an operation several times and return its last data."""
        data = b"null"
        for _ in range(times):
            data = await self._execute(query, {})
        return json.loads(data)

    async def count_calls(self, query: str) -> int:
        """Return how often an operation calls the store to read."""
        counting = _CountingReads(self._store)
        db, self._db = self._db, replace(self._db, store=counting)
        try:
            await self._execute(query, {})
        finally:
            self._db = db
        return counting.calls

    async def _first_read(self, low: int, high: int, limit: int) -> tuple[Any, ...]:
        counting = _CountingReads(self._store)
        db = replace(self._db, store=counting)
        await db.search(measured_catalog.User.by_created, from_=low, to=high, limit=limit)
        return counting.last_read

    async def first_read_limit(self, low: int, high: int, limit: int) -> int:
        """Return how many rows a page reads of its only shard."""
        self._read = await self._first_read(low, high, limit)
        ((read,), *_) = self._read
        return int(read.limit)

    async def query_one_shard(self, times: int) -> Any:
        """Send that first read several times through the engine. Return the ids of its rows."""
        rows: list[Any] = []
        for _ in range(times):
            (page,) = await self._store.read_ranges(*self._read)
            rows = [row.item for row in page.rows]
        return [row["userId"] for row in rows]

    # --- start -------------------------------------------------------------------------------------------------

    async def build_schema(self) -> int:
        """Declare a catalog of many entities and build its schema."""
        catalog = measured_catalog.numbered_catalog()
        return len(Graph(catalog).schema.schema_converter.type_map) and len(catalog.entities)


if __name__ == "__main__":
    serve_calls(ProductWorker())
