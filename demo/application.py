"""The application of the demo: GraphQL for the right list, per-shard pages for the left one, growth, and the audit."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from demo.places import NEW_SHARE, City, place_catalog, place_records
from demo.shard_paging import read_shards
from graphql_api import asgi, open_catalog
from graphql_api.connection import Secrets
from graphql_api.database import Database

PAGE_SIZE = 200
GROWS_AFTER = 2
"""seconds until the new generation of shards begins"""


@dataclass
class Demo:
    """The places, of which some are written only after the growth."""

    cities: Sequence[City]
    url: str
    graphql: Starlette
    database: Database | None = None
    has_grown: bool = False
    shards: list[str] = field(default_factory=list)
    """hash keys of the first generation"""
    _growth: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def first(self) -> list[City]:
        return [city for number, city in enumerate(self.cities) if number % NEW_SHARE]

    @property
    def later(self) -> list[City]:
        return [city for number, city in enumerate(self.cities) if number % NEW_SHARE == 0]

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Load the first places, and keep the table open."""
        catalog = place_catalog()
        space = catalog.entity("Place").space
        self.shards = [f"place!{space.shard_text(ordinal)}" for ordinal in space.covering_shards()]
        async with AsyncExitStack() as stack:
            self.database = await stack.enter_async_context(open_catalog(catalog, self.url, secrets=Secrets.generate()))
            await _put(self.database, place_records(catalog, self.first, int(time.time())))
            await stack.enter_async_context(self.graphql.router.lifespan_context(self.graphql))
            yield

    async def usual_page(self, request: Request) -> Response:
        """Return the next page of the left list."""
        assert self.database is not None
        token = (await request.json())["token"]
        return JSONResponse(await read_shards(self.database.store, self.shards, token, PAGE_SIZE))

    async def grow(self, _: Request) -> Response:
        """Add a generation of shards that begins in a moment, and write the later places once it has begun."""
        async with self._growth:
            if not self.has_grown:
                grows_at = int(time.time()) + GROWS_AFTER
                catalog = place_catalog(grows_at)
                async with open_catalog(catalog, self.url, secrets=Secrets.generate()) as db:
                    await asyncio.sleep(max(0.0, grows_at - time.time()))
                    await _put(db, place_records(catalog, self.later, grows_at))
                self.has_grown = True
        return JSONResponse({"added": len(self.later)})

    async def audit(self, request: Request) -> Response:
        """Compare the ids that a list has shown with those that it had to show.

        Those are the first places, and the later ones that sort after what the list showed last before the growth.
        """
        body = await request.json()
        shown: list[str] = body["shown"]
        after = tuple(body["after"]) if body["after"] else ("", "")
        expected = {city.id for city in self.first}
        if self.has_grown:
            expected |= {city.id for city in self.later if city.order > after}
        order = {city.id: city.order for city in self.cities}
        return JSONResponse(
            {
                "repeated": len(shown) - len({*shown}),
                "missing": len(expected - {*shown}),
                "unordered": sum(order[second] < order[first] for first, second in pairwise(shown)),
            }
        )


async def _put(db: Database, records: Any) -> None:
    problems = [result for result in await db.put_many([*records]) if result is not None]
    assert not problems, problems[0]


def demo_app(cities: Sequence[City], file: Path) -> Starlette:
    """Return the application. The table is a new file."""
    graphql = asgi(place_catalog(), f"sqlite:///{file}")
    demo = Demo(cities, f"sqlite:///{file}", graphql)
    page = Path(__file__).with_name("page.html")
    return Starlette(
        routes=[
            Route("/", lambda _: FileResponse(page)),
            Route("/usual", demo.usual_page, methods=["POST"]),
            Route("/grow", demo.grow, methods=["POST"]),
            Route("/audit", demo.audit, methods=["POST"]),
            Mount("/", graphql),
        ],
        lifespan=demo.lifespan,
    )
