"""Serve GraphiQL: the page with the data of its tabs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from graphql_api.playground.page_assets import PageAssets
from graphql_api.playground.tab_text import Tab

ASSET_FILES = (
    "icon.svg",
    "vendor/graphiql-4.1.2.css",
    "vendor/plugin-explorer-4.0.6.css",
    "graphiql.css",
    "vendor/react-18.3.1.js",
    "vendor/react-dom-18.3.1.js",
    "vendor/graphiql-4.1.2.js",
    "vendor/plugin-explorer-4.0.6.js",
    "graphiql.js",
)
"""In load order."""

DEFAULT_HEADERS = {"apollo-require-preflight": "1"}
"""Sent with every operation: the CSRF protection of the endpoint requires it. Visible and editable in GraphiQL."""

NEW_TAB_TEXT = "# Ctrl-Space lists completions; Ctrl-Enter runs the query.\n\nquery {\n  \n}\n"

_ASSETS = PageAssets("graphiql.html", ASSET_FILES)


def graphiql_page(title: str, tabs: Sequence[Tab], data_page: str | None = None) -> Callable[[Request], Response]:
    """Return the handler that serves the page to a browser. `data_page`: relative URL of the data page, if served."""
    tab_data = [asdict(tab) for tab in tabs]
    page_data = {
        "title": title,
        "tabs": tab_data,
        "tabsId": sha256(json.dumps(tab_data).encode()).hexdigest()[:16],
        "headers": json.dumps(DEFAULT_HEADERS, indent=2),
        "newTab": NEW_TAB_TEXT,
        "dataPage": data_page,
    }
    data = json.dumps(page_data, ensure_ascii=False)
    return lambda request: _ASSETS.respond(request, title, page=data)


def graphiql_routes(path: str) -> list[BaseRoute]:
    """Return the routes of the asset files."""
    return _ASSETS.routes(path)
