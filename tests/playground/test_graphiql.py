"""The GraphiQL page and its assets, tested without a browser."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from httpx import ASGITransport, AsyncClient
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Mount, Route

from graphql_api.playground import graphiql
from graphql_api.playground.graphiql import (
    ASSET_FILES,
    DEFAULT_HEADERS,
    graphiql_page,
    graphiql_routes,
)
from graphql_api.playground.page_assets import CONTENT_SECURITY_POLICY
from graphql_api.playground.tab_text import Tab
from graphql_api.server.app import build_app
from graphql_api.server.graphql_request import check_not_cross_site
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database

TITLE = 'User & "<Email>" $title'
TAB = Tab("Sly", '# </div><script>alert(1)</script> "it\'s" $page é\nquery Sly { a }\n', '{\n  "x": "&quot;"\n}')
PATHS = ["/graphql", "/", "/deep/er/graphql"]
VENDOR = Path(graphiql.__file__).parent / "pages" / "vendor"


def client(app: Starlette, root_path: str = "") -> AsyncClient:
    """Return a client of an application."""
    return AsyncClient(transport=ASGITransport(app, root_path=root_path), base_url="http://test")


def site_at(path: str) -> AsyncClient:
    """Return a client of an application with the page at this path."""
    return client(Starlette(routes=[Route(path, graphiql_page(TITLE, [TAB])), *graphiql_routes(path)]))


def links(html: str) -> list[str]:
    """Return the URLs that the page loads."""
    return re.findall(r'(?:src|href)="([^"]+)"', html)


def data_of(html: str) -> Any:
    """Return the data for the script of the page."""
    (attribute,) = re.findall(r'data-page="([^"]*)"', html)
    return json.loads(unescape(attribute))


async def test_page_escapes_its_data() -> None:
    """Titles and tabs reach the script unchanged, and none of their text becomes markup."""
    html = (await site_at("/graphql").get("/graphql")).text
    data = data_of(html)
    assert (data["title"], data["tabs"]) == (
        TITLE,
        [{"title": TAB.title, "query": TAB.query, "variables": TAB.variables}],
    )
    assert "<title>User &amp; &quot;&lt;Email&gt;&quot; $title · ShardQL</title>" in html
    assert "alert(1)</script>" not in html


async def test_page_has_no_inline_script_or_style() -> None:
    """All scripts and styles are files, so that the content security policy needs no exception."""
    html = (await site_at("/graphql").get("/graphql")).text
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", html)
    assert all(re.search(r"\ssrc=", tag) for tag in re.findall(r"<script\b[^>]*>", html))
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert set(re.findall(r"'[^']+'|\bdata:|https?:", CONTENT_SECURITY_POLICY)) == {"'none'", "'self'", "data:"}


@pytest.mark.parametrize("path", PATHS)
async def test_all_assets_are_served(path: str) -> None:
    """Each link leads to a different asset, with the page at any path."""
    site = site_at(path)
    html = (await site.get(path)).text
    responses = [await site.get(urljoin(path, link)) for link in links(html)]
    assert [response.status_code for response in responses] == [200] * len(ASSET_FILES)
    assert [response.content for response in responses] == [(VENDOR.parent / file).read_bytes() for file in ASSET_FILES]


@pytest.mark.parametrize("prefix", ["/api", "/a/b"])
async def test_links_work_below_a_prefix(prefix: str) -> None:
    """Links work in a mounted application, and with a proxy that strips a path prefix."""
    inner = Starlette(routes=[Route("/graphql", graphiql_page(TITLE, [])), *graphiql_routes("/graphql")])
    mounted = client(Starlette(routes=[Mount(prefix, inner)]))
    html = (await mounted.get(f"{prefix}/graphql")).text
    for link in links(html):
        assert (await mounted.get(urljoin(f"{prefix}/graphql", link))).status_code == 200
    proxied = client(inner, root_path=prefix)
    assert links((await proxied.get("/graphql")).text) == links(html)


async def test_caching() -> None:
    """Assets have a content hash in their names, and are cached forever. The page is revalidated."""
    site = site_at("/graphql")
    page = await site.get("/graphql")
    assert page.headers["cache-control"] == "no-cache"
    assert page.headers["vary"] == "accept"
    assert page.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    types = set()
    for link in links(page.text):
        asset = await site.get(f"/{link}")
        assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert asset.headers["x-content-type-options"] == "nosniff"
        types.add(asset.headers["content-type"])
    assert types == {"text/javascript; charset=utf-8", "text/css; charset=utf-8", "image/svg+xml"}


async def test_assets_are_compressed_for_clients_that_accept_gzip() -> None:
    """Compressed assets have at most 0.8 MB in total, and the same content as uncompressed ones."""
    site = site_at("/graphql")
    total = 0
    for link in links((await site.get("/graphql")).text):
        gzipped = await site.get(f"/{link}", headers={"accept-encoding": "br, gzip"})
        plain = await site.get(f"/{link}", headers={"accept-encoding": "identity"})
        assert (gzipped.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
        assert gzipped.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert gzipped.content == plain.content
        total += int(gzipped.headers["content-length"])
    assert total < 800_000


@pytest.mark.parametrize("name", ["", "graphiql.js", "graphiql-000000000000.js", "..%2fgraphiql.py", "vendor/NOTICES"])
async def test_no_other_files_are_served(name: str) -> None:
    """Other files, even those in the folder of the page, are not found."""
    assert (await site_at("/graphql").get(f"/graphql/assets/{name}")).status_code == 404


async def test_tabs_id_depends_on_content() -> None:
    """Equal tabs have the same id. Tabs with other content have another id."""
    ids = []
    for tab in (TAB, Tab(TAB.title, TAB.query, TAB.variables), Tab("Sly", TAB.query)):
        site = client(Starlette(routes=[Route("/", graphiql_page("T", [tab]))]))
        ids.append(data_of((await site.get("/")).text)["tabsId"])
    first, same, other = ids
    assert first == same != other


def test_default_headers_satisfy_the_csrf_protection() -> None:
    """With the default headers of GraphiQL, even a cross-site GET is accepted."""
    check_not_cross_site(Headers({**DEFAULT_HEADERS, "sec-fetch-mode": "cors", "sec-fetch-site": "cross-site"}))


@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_root_path_redirects_to_the_page(prefix: str) -> None:
    """A browser that opens the root path is redirected to the page, with the path prefix of a proxy too."""
    app = build_app(ScriptedExecutor(), no_database(), Settings(), browser_page=graphiql_page(TITLE, [TAB]))
    answer = await client(app, prefix).get(f"{prefix}/")
    assert (answer.status_code, answer.headers["location"]) == (307, f"{prefix}/graphql")
