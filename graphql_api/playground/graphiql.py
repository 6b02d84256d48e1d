"""Serve GraphiQL: the page and its asset files."""

import gzip
import json
import string
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache, lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

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

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Allows the files of the page, data embedded in them, and requests to its own origin; nothing else."""

DEFAULT_HEADERS = {"apollo-require-preflight": "1"}
"""Sent with every operation: the CSRF protection of the endpoint requires it. Visible and editable in GraphiQL."""

NEW_TAB_TEXT = "# Ctrl-Space lists completions; Ctrl-Enter runs the query.\n\nquery {\n  \n}\n"

_PAGE_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "vary": "accept",
}
_PAGES = files("graphql_api.playground") / "pages"
_MEDIA_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


def graphiql_page(title: str, tabs: Sequence[Tab]) -> Callable[[Request], Response]:
    """Return the handler that serves the page to a browser."""
    tab_data = [asdict(tab) for tab in tabs]
    page_data = {
        "title": title,
        "tabs": tab_data,
        "tabsId": sha256(json.dumps(tab_data).encode()).hexdigest()[:16],
        "headers": json.dumps(DEFAULT_HEADERS, indent=2),
        "newTab": NEW_TAB_TEXT,
    }
    data = json.dumps(page_data, ensure_ascii=False)

    def page(request: Request) -> Response:
        # Links are relative, so they work with the path prefix of a proxy and in a mounted application.
        return HTMLResponse(_page(request.url.path.rpartition("/")[2], title, data), headers=_PAGE_HEADERS)

    return page


def graphiql_routes(path: str) -> list[BaseRoute]:
    """Return the routes of the asset files. Their names contain a content hash, so caches may keep them forever."""
    return [Route(f"{path.rstrip('/')}/assets/{{name}}", _send_asset, methods=["GET"])]


# --- the page --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _page(last_segment: str, title: str, data: str) -> str:
    """Render the page. `last_segment`: the last segment of its path, which relative links must repeat."""
    folder = f"{last_segment}/assets" if last_segment else "assets"
    template = string.Template((_PAGES / "graphiql.html").read_text(encoding="utf-8"))
    tags = {
        "js": '    <script src="{}" defer></script>',
        "css": '    <link rel="stylesheet" href="{}">',
        "svg": '    <link rel="icon" href="{}">',
    }
    links = [tags[name.rpartition(".")[2]].format(escape(f"{folder}/{name}")) for name in _assets()]
    return template.substitute(title=escape(title), page=escape(data), links="\n".join(links))


# --- assets ----------------------------------------------------------------------------------------------------


@cache
def _assets() -> dict[str, bytes]:
    """Return the assets by URL name: the file name, with a part of the content hash before the extension."""
    assets = {}
    for file in ASSET_FILES:
        content = (_PAGES / file).read_bytes()
        stem, _, extension = file.rpartition("/")[2].rpartition(".")
        assets[f"{stem}-{sha256(content).hexdigest()[:12]}.{extension}"] = content
    return assets


@cache
def _gzipped(name: str) -> bytes:
    return gzip.compress(_assets()[name], mtime=0)


def _send_asset(request: Request) -> Response:
    # Not a coroutine, so that it runs in a thread: the first calls read and compress the files.
    name = request.path_params["name"]
    if name not in _assets():
        raise HTTPException(404)
    headers = {
        "content-type": _MEDIA_TYPES[name.rpartition(".")[2]],
        "cache-control": "public, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
        "vary": "Accept-Encoding",
    }
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(_assets()[name], headers=headers)
    return Response(_gzipped(name), headers={**headers, "content-encoding": "gzip"})
