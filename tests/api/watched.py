"""Applications that are watched, on a real server, and what a scrape of their metrics says."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from graphql_api import open_catalog
from graphql_api.database import Database
from graphql_api.examples.user_samples import generate_users
from graphql_api.examples.users import catalog
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.observability.tracing import Tracing
from graphql_api.server.settings import Settings, read_settings
from graphql_api.server.startup import create_application
from graphql_api.storage.port import Store
from tests.api.running import PATIENCE, running
from tests.api.server import SECRETS

PEOPLE = 80
SAMPLE = re.compile(r"^(shardql_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)

Counts = Mapping[str, float]
"""by the metric's name with the values of its labels: `shardql_errors_total INVALID_TOKEN`"""


@dataclass(frozen=True, slots=True)
class Watched:
    """A server, and what watches it."""

    client: httpx.Client
    operations: Instrumentation

    def post(self, query: str, **more: Any) -> httpx.Response:
        """The reply to an operation."""
        return self.client.post("/graphql", json={"query": query, **more})

    def counts(self) -> Counts:
        """What a scrape says, as far as it does not depend on time."""
        return counts_in(self.client.get("/metrics").text)


def counts_in(text: str) -> Counts:
    """The counts of a page of metrics, without sums of seconds."""
    found: dict[str, float] = {}
    for name, labels, value in SAMPLE.findall(text):
        if not name.endswith(("_bucket", "_sum", "_created")):
            found[" ".join([name, *re.findall(r'"(.*?)"', labels)])] = float(value)
    return found


def moved(before: Counts, after: Counts) -> Counts:
    """What is counted between two scrapes."""
    return {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}


@contextmanager
def watched(
    folder: Path,
    *,
    wrap: Callable[[Store], Store] = lambda inner: inner,
    tracing: Tracing | None = None,
    settings: Settings | None = None,
    **server: Any,
) -> Iterator[Watched]:
    """The catalog of users with so many people, watched."""

    def opening() -> AbstractAsyncContextManager[Database]:
        return _opening(f"sqlite:///{folder}/users.db", wrap)

    settings = settings or read_settings(graphiql=False, ready_seconds=0.3)
    operations = Instrumentation(ready_seconds=settings.ready_seconds, metrics=settings.metrics, tracing=tracing)
    app = create_application(catalog, opening, settings, operations)
    with running(app, **server) as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        yield Watched(client, operations)


@asynccontextmanager
async def _opening(store: str, wrap: Callable[[Store], Store]) -> AsyncIterator[Database]:
    async with open_catalog(catalog, store, secrets=SECRETS) as database:
        assert not any(await database.put_many([*generate_users(PEOPLE)]))
        yield replace(database, store=wrap(database.store))
