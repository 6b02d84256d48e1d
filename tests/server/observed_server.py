"""Run an instrumented application on a real server, and read its metrics."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import httpx

from graphql_api import Catalog, Entity, open_catalog
from graphql_api.database import Database
from graphql_api.examples import users
from graphql_api.server.admission_control import AdmissionController
from graphql_api.server.app import create_application
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.observability.tracing import Tracing
from graphql_api.server.settings import Settings, read_settings
from graphql_api.storage.port import Store
from tests.server.catalog_server import SECRETS
from tests.support.loopback import TIMEOUT, serve_app

USER_COUNT = 80
USERS = [*users.generate_users(USER_COUNT)]
SAMPLE = re.compile(r"^(shardql_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)

Counts = Mapping[str, float]
"""Values by the metric's name and label values, such as `shardql_errors_total INVALID_TOKEN`."""


@dataclass(frozen=True, slots=True)
class ObservedServer:
    """A running server and its instrumentation."""

    client: httpx.Client
    instrumentation: Instrumentation
    admission: AdmissionController

    def post(self, query: str, **more: Any) -> httpx.Response:
        """Return the response to an operation."""
        return self.client.post("/graphql", json={"query": query, **more})

    def counts(self) -> Counts:
        """Scrape the metrics that do not depend on time."""
        return parse_counts(self.client.get("/metrics").text)


def parse_counts(text: str) -> Counts:
    """Parse a metrics page. Omit sums of seconds, buckets and times."""
    found: dict[str, float] = {}
    for name, labels, value in SAMPLE.findall(text):
        if not name.endswith(("_bucket", "_sum", "_created", "_time_seconds")):
            found[" ".join([name, *re.findall(r'"(.*?)"', labels)])] = float(value)
    return found


def count_changes(before: Counts, after: Counts) -> Counts:
    """Return the differences between two scrapes. Values that are not known (NaN) are equal."""
    changes = {name: value - before.get(name, 0) for name, value in after.items()}
    return {name: change for name, change in changes.items() if change != 0 and not isnan(change)}


@contextmanager
def observed_server(
    folder: Path,
    *,
    catalog: Catalog = users.catalog,
    records: Sequence[Entity] = USERS,
    store: str | None = None,
    wrap: Callable[[Store], Store] = lambda inner: inner,
    tracing: Tracing | None = None,
    settings: Settings | None = None,
    **server_options: Any,
) -> Iterator[ObservedServer]:
    """Start an instrumented server for a catalog with these records: by default the users catalog with `USERS`.

    `store` is the URL of its store, by default a new file in the folder.
    """

    @asynccontextmanager
    async def open_database() -> AsyncIterator[Database]:
        url = store or f"sqlite:///{folder}/observed.db"
        async with open_catalog(catalog, url, secrets=SECRETS, create_table=True) as database:
            for kind in dict.fromkeys(map(type, records)):
                assert not any(await database.put_many([record for record in records if type(record) is kind]))
            yield replace(database, store=wrap(database.store))

    settings = settings or read_settings(graphiql=False, ready_seconds=0.3)
    instrumentation = Instrumentation(settings, tracing=tracing)
    app = create_application(catalog, open_database, settings, instrumentation)
    with serve_app(app, **server_options) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        yield ObservedServer(client, instrumentation, app.state.admission)
