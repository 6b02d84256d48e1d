"""The page for browsers and the files it is made of, without a browser."""

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
from graphql_api.playground.graphiql import FILES, HEADERS, POLICY, graphiql_page, graphiql_routes
from graphql_api.playground.tab_text import Tab
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.csrf import check_not_cross_site
from tests.api.scripted import ScriptedEngine, no_database

TITLE = 'User & "<Email>" $title'
TAB = Tab("Sly", '# </div><script>alert(1)</script> "it\'s" $page é\nquery Sly { a }\n', '{\n  "x": "&quot;"\n}')
PATHS = ["/graphql", "/", "/deep/er/graphql"]
VENDOR = Path(graphiql.__file__).parent / "pages" / "vendor"


def client(app: Starlette, root_path: str = "") -> AsyncClient:
    """A client of an application."""
    return AsyncClient(transport=ASGITransport(app, root_path=root_path), base_url="http://test")


def site_at(path: str) -> AsyncClient:
    """A client of an application with the page at this path."""
    return client(Starlette(routes=[Route(path, graphiql_page(TITLE, [TAB])), *graphiql_routes(path)]))


def links(html: str) -> list[str]:
    """What the page loads."""
    return re.findall(r'(?:src|href)="([^"]+)"', html)


def data_of(html: str) -> Any:
    """What the page tells its script."""
    (attribute,) = re.findall(r'data-page="([^"]*)"', html)
    return json.loads(unescape(attribute))


async def test_page_holds_its_data_whatever_stands_in_it() -> None:
    """Titles and tabs reach the script as they are, and nothing of them becomes markup."""
    html = (await site_at("/graphql").get("/graphql")).text
    data = data_of(html)
    assert (data["title"], data["tabs"]) == (
        TITLE,
        [{"title": TAB.title, "query": TAB.query, "variables": TAB.variables}],
    )
    assert "<title>User &amp; &quot;&lt;Email&gt;&quot; $title · ShardQL</title>" in html
    assert "alert(1)</script>" not in html


async def test_page_has_no_script_or_style_of_its_own() -> None:
    """All scripts and styles are files beside the page, so that the policy needs no exception."""
    html = (await site_at("/graphql").get("/graphql")).text
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", html)
    assert all(re.search(r"\ssrc=", tag) for tag in re.findall(r"<script\b[^>]*>", html))
    assert "unsafe" not in POLICY
    assert set(re.findall(r"'[^']+'|\bdata:|https?:", POLICY)) == {"'none'", "'self'", "data:"}


@pytest.mark.parametrize("path", PATHS)
async def test_everything_that_the_page_loads_is_there(path: str) -> None:
    """Each link leads to one of the files, at any path, and no two links to the same."""
    site = site_at(path)
    html = (await site.get(path)).text
    found = [await site.get(urljoin(path, link)) for link in links(html)]
    assert [reply.status_code for reply in found] == [200] * len(FILES)
    assert [reply.content for reply in found] == [(VENDOR.parent / file).read_bytes() for file in FILES]


@pytest.mark.parametrize("prefix", ["/api", "/a/b"])
async def test_links_hold_behind_a_prefix(prefix: str) -> None:
    """Mounted in another application, and behind a proxy that takes a prefix away, links lead to the files."""
    inner = Starlette(routes=[Route("/graphql", graphiql_page(TITLE, [])), *graphiql_routes("/graphql")])
    mounted = client(Starlette(routes=[Mount(prefix, inner)]))
    html = (await mounted.get(f"{prefix}/graphql")).text
    for link in links(html):
        assert (await mounted.get(urljoin(f"{prefix}/graphql", link))).status_code == 200
    behind = client(inner, root_path=prefix)
    assert links((await behind.get("/graphql")).text) == links(html)


async def test_files_are_kept_for_ever_and_the_page_is_not() -> None:
    """Files have a name for each content and may be kept; the page is asked for again, and says what it depends on."""
    site = site_at("/graphql")
    page = await site.get("/graphql")
    assert page.headers["cache-control"] == "no-cache"
    assert page.headers["vary"] == "accept"
    assert page.headers["content-security-policy"] == POLICY
    types = set()
    for link in links(page.text):
        asset = await site.get(f"/{link}")
        assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert asset.headers["x-content-type-options"] == "nosniff"
        types.add(asset.headers["content-type"])
    assert types == {"text/javascript; charset=utf-8", "text/css; charset=utf-8", "image/svg+xml"}


async def test_files_are_zipped_for_clients_that_unzip() -> None:
    """What travels is 0.8 MB at most where the client takes gzip, and the same content as without."""
    site = site_at("/graphql")
    travelled = 0
    for link in links((await site.get("/graphql")).text):
        zipped = await site.get(f"/{link}", headers={"accept-encoding": "br, gzip"})
        plain = await site.get(f"/{link}", headers={"accept-encoding": "identity"})
        assert (zipped.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
        assert zipped.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert zipped.content == plain.content
        travelled += int(zipped.headers["content-length"])
    assert travelled < 800_000


@pytest.mark.parametrize("name", ["", "graphiql.js", "graphiql-000000000000.js", "..%2fgraphiql.py", "vendor/NOTICES"])
async def test_nothing_else_is_served(name: str) -> None:
    """What is no file of the page is not there, whatever lies in its folder."""
    assert (await site_at("/graphql").get(f"/graphql/assets/{name}")).status_code == 404


async def test_new_tabs_of_a_catalog_are_told_from_old_ones() -> None:
    """Tabs are known by what stands in them: the same ones by the same name, others by another."""
    ids = []
    for tab in (TAB, Tab(TAB.title, TAB.query, TAB.variables), Tab("Sly", TAB.query)):
        site = client(Starlette(routes=[Route("/", graphiql_page("T", [tab]))]))
        ids.append(data_of((await site.get("/")).text)["tabsId"])
    first, same, other = ids
    assert first == same != other


def test_headers_of_the_page_satisfy_the_rule_against_forged_requests() -> None:
    """With the headers that GraphiQL begins with even a GET from anywhere is let through."""
    check_not_cross_site(Headers({**HEADERS, "sec-fetch-mode": "cors", "sec-fetch-site": "cross-site"}))


@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_the_host_alone_leads_to_the_page(prefix: str) -> None:
    """A browser that opens the host alone is sent to the page, below a proxy's prefix too."""
    app = build_app(ScriptedEngine(), no_database(), WebOptions(), page=graphiql_page(TITLE, [TAB]))
    answer = await client(app, prefix).get(f"{prefix}/")
    assert (answer.status_code, answer.headers["location"]) == (307, f"{prefix}/graphql")
