"""GraphiQL for browsers: one page, and the files it is made of, all of them served from here."""

import gzip
import json
import string
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from graphql_api.playground.tab_text import Tab

FILES = (
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
"""in the order in which the page loads them"""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""what the page may load: its own files and what stands in them, and nothing from anywhere else"""

HEADERS = {"apollo-require-preflight": "1"}
"""sent with every operation, visible and editable: what the rule against forged requests asks of any client"""

NEW_TAB = "# Ctrl-Space proposes what can stand here; Ctrl-Enter runs it.\n\nquery {\n  \n}\n"

_PAGE_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "vary": "accept",
}
_PAGES = files("graphql_api.playground") / "pages"
_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


def graphiql_page(title: str, tabs: Sequence[Tab]) -> Callable[[Request], Response]:
    """Answers a browser that opens the endpoint."""
    data = _page_data(title, tabs)

    def page(request: Request) -> Response:
        # Links are relative to the page, so they hold behind a proxy's prefix and in an app mounted in another one.
        return HTMLResponse(_page(request.url.path.rpartition("/")[2], title, data), headers=_PAGE_HEADERS)

    return page


def graphiql_routes(path: str) -> list[BaseRoute]:
    """The files of the page. Their names change with their content, so browsers and proxies keep them for ever."""
    return [Route(f"{path.rstrip('/')}/assets/{{name}}", _send_asset, methods=["GET"])]


# --- the page --------------------------------------------------------------------------------------------------


def _page_data(title: str, tabs: Sequence[Tab]) -> str:
    shown = [asdict(tab) for tab in tabs]
    data = {
        "title": title,
        "tabs": shown,
        "tabsId": sha256(json.dumps(shown).encode()).hexdigest()[:16],
        "headers": json.dumps(HEADERS, indent=2),
        "newTab": NEW_TAB,
    }
    return json.dumps(data, ensure_ascii=False)


@lru_cache(maxsize=16)
def _page(folder: str, title: str, data: str) -> str:
    beside = f"{folder}/assets" if folder else "assets"
    template = string.Template((_PAGES / "graphiql.html").read_text(encoding="utf-8"))
    links = (_link(f"{beside}/{name}") for name in _assets())
    return template.substitute(title=escape(title), page=escape(data), links="\n".join(f"    {link}" for link in links))


def _link(url: str) -> str:
    address = escape(url)
    if url.endswith(".js"):
        return f'<script src="{address}" defer></script>'
    return f'<link rel="{"icon" if url.endswith(".svg") else "stylesheet"}" href="{address}">'


# --- its files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Asset:
    content: bytes
    zipped: bytes
    type: str


@cache
def _assets() -> dict[str, _Asset]:
    """By the name in its address: the file's own, with a piece of its hash before the ending."""
    assets = {}
    for file in FILES:
        content = (_PAGES / file).read_bytes()
        stem, _, ending = file.rpartition("/")[2].rpartition(".")
        name = f"{stem}-{sha256(content).hexdigest()[:12]}.{ending}"
        assets[name] = _Asset(content, gzip.compress(content, mtime=0), _TYPES[ending])
    return assets


def _send_asset(request: Request) -> Response:
    # No coroutine: the first call reads and zips everything, which a thread can do.
    asset = _assets().get(request.path_params["name"])
    if asset is None:
        raise HTTPException(404)
    headers = {
        "content-type": asset.type,
        "cache-control": "public, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
        "vary": "Accept-Encoding",
    }
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(asset.content, headers=headers)
    return Response(asset.zipped, headers={**headers, "content-encoding": "gzip"})
