"""Serve the data page, and the start page that links to it and to GraphiQL."""

import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from graphql_api.playground.page_assets import PageAssets

GRID_FILES = ("icon.svg", "grid/tokens.css", "grid/layout.css", "grid/grid.css", "grid/grid.js")
"""In load order."""
START_FILES = ("icon.svg", "grid/tokens.css", "start.css")

_GRID = PageAssets("grid.html", GRID_FILES)
_START = PageAssets("start.html", START_FILES)


def grid_page(title: str, **data: Any) -> Callable[[Request], Response]:
    """Return the handler that serves the data page. `data`: relative URLs and limits that its script reads."""
    text = json.dumps({"title": title, **data}, ensure_ascii=False)
    return lambda request: _GRID.respond(request, title, page=text)


def grid_routes(path: str) -> list[BaseRoute]:
    """Return the routes of the asset files of the data page."""
    return _GRID.routes(path)


def start_page(title: str, graphiql: str, grid: str) -> Callable[[Request], Response]:
    """Return the handler of the start page. `graphiql`, `grid`: relative URLs of the two pages."""
    return lambda request: _START.respond(request, title, graphiql=graphiql, grid=grid)


def start_routes() -> list[BaseRoute]:
    """Return the routes of the asset files of the start page."""
    return _START.routes("/")
