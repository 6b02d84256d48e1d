"""The routes of the data page, and of the start page that links to it."""

from collections.abc import Iterator
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from graphql_api.model import group
from graphql_api.playground import CatalogDescription, Viewer, grid_page, grid_routes, start_page, start_routes
from graphql_api.schema import check_caller
from graphql_api.server.auth import Authenticator
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.responses import json_response
from graphql_api.server.settings import GRID_PATH, Settings


@dataclass(frozen=True, slots=True)
class DataPage:
    """The data page of a catalog: the page itself, and the description of the catalog that it reads."""

    title: str
    description: CatalogDescription
    settings: Settings
    database: DatabaseHolder
    authenticator: Authenticator

    def routes(self) -> Iterator[BaseRoute]:
        settings = self.settings
        endpoint = f".{settings.path}"
        page = grid_page(self.title, endpoint=endpoint, graphiql=endpoint if settings.graphiql else None)
        yield Route(GRID_PATH, page, methods=["GET"])
        yield Route(f"{GRID_PATH}/catalog.json", self.send_catalog, methods=["GET"])
        yield from grid_routes(GRID_PATH)

    async def send_catalog(self, request: Request) -> Response:
        """Send the description of the catalog, with the rules as they apply to the caller."""
        identity = await self.authenticator.authenticate(request.headers)
        groups = self.settings.grid_groups
        if groups:
            check_caller("The data page", (group(*groups),), identity.subject, identity.groups)
        database = await self.database.get()
        body = await self.description.describe(database, Viewer(identity.subject, identity.groups))
        settings, groups = self.settings, self.settings.explain_groups
        explain = settings.explain and (not groups or not identity.groups.isdisjoint(groups))
        limits = {"explain": explain, "readUnitPrice": settings.read_unit_price, "readOnly": settings.read_only}
        return json_response({**body, **limits})


def root_routes(title: str, settings: Settings, *, graphiql: bool, grid: bool) -> list[BaseRoute]:
    """Return the routes of `/`: people type only the host. With two pages it links to both, else it redirects."""
    if settings.path == "/" or not (graphiql or grid):
        return []
    if graphiql and grid:
        page = start_page(title, f".{settings.path}", f".{GRID_PATH}")
        return [Route("/", page, methods=["GET"]), *start_routes()]
    target = GRID_PATH if grid else settings.path
    # The mount path is kept.
    return [
        Route("/", lambda request: RedirectResponse(f"{request.scope.get('root_path', '')}{target}"), methods=["GET"])
    ]


def path_to_grid(settings: Settings) -> str | None:
    """Return the URL of the data page relative to GraphiQL, or None if it is off."""
    return "../" * (settings.path.count("/") - 1) + GRID_PATH.lstrip("/") if settings.grid else None
