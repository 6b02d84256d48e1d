"""Serve the pages of the playground: an HTML template, and asset files whose names contain a content hash."""

import gzip
import string
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Allows the files of a page, data embedded in them, and requests to its own origin; nothing else."""

_PAGE_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "vary": "accept",
}
_PAGES = files("graphql_api.playground") / "pages"
_MEDIA_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_TAGS = {
    "js": '    <script src="{}" defer></script>',
    "css": '    <link rel="stylesheet" href="{}">',
    "svg": '    <link rel="icon" href="{}">',
}


@dataclass(frozen=True)
class PageAssets:
    """A template in `pages`, and the files that it loads, in load order."""

    template: str
    files: tuple[str, ...]
    _contents: dict[str, bytes] = field(default_factory=dict, compare=False)
    """by URL name; empty until the first use"""
    _gzipped: dict[str, bytes] = field(default_factory=dict, compare=False)

    def respond(self, request: Request, title: str, **texts: str) -> Response:
        """Return the page. `texts`: other values of the template, which are escaped."""
        # Links are relative, so they work with the path prefix of a proxy and in a mounted application.
        html = _render(self, request.url.path.rpartition("/")[2], title=title, **texts)
        return HTMLResponse(html, headers=_PAGE_HEADERS)

    def routes(self, path: str) -> list[BaseRoute]:
        """Return the routes of the files. Their names contain a content hash, so caches may keep them forever."""
        return [Route(f"{path.rstrip('/')}/assets/{{name}}", self._send, methods=["GET"])]

    def by_name(self) -> dict[str, bytes]:
        """Return the files by URL name: the file name, with a part of the content hash before the extension."""
        if not self._contents:
            for file in self.files:
                content = (_PAGES / file).read_bytes()
                stem, _, extension = file.rpartition("/")[2].rpartition(".")
                self._contents[f"{stem}-{sha256(content).hexdigest()[:12]}.{extension}"] = content
        return self._contents

    def _send(self, request: Request) -> Response:
        # Not a coroutine, so that it runs in a thread: the first calls read and compress the files.
        name = request.path_params["name"]
        if name not in self.by_name():
            raise HTTPException(404)
        headers = {
            "content-type": _MEDIA_TYPES[name.rpartition(".")[2]],
            "cache-control": "public, max-age=31536000, immutable",
            "x-content-type-options": "nosniff",
            "vary": "Accept-Encoding",
        }
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.by_name()[name], headers=headers)
        if name not in self._gzipped:
            self._gzipped[name] = gzip.compress(self.by_name()[name], mtime=0)
        return Response(self._gzipped[name], headers={**headers, "content-encoding": "gzip"})

    def __hash__(self) -> int:
        return hash((self.template, self.files))


@lru_cache(maxsize=16)
def _render(assets: PageAssets, last_segment: str, **texts: str) -> str:
    """Render a page. `last_segment`: the last segment of its path, which relative links must repeat."""
    folder = f"{last_segment}/assets" if last_segment else "assets"
    template = string.Template((_PAGES / assets.template).read_text(encoding="utf-8"))
    links = [_TAGS[name.rpartition(".")[2]].format(escape(f"{folder}/{name}")) for name in assets.by_name()]
    values: dict[str, Any] = {name: escape(text) for name, text in texts.items()}
    return template.substitute(values, links="\n".join(links))
