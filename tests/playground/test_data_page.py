"""The data page without a browser: its routes, its switch, and the description of the catalog for a caller."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from graphql_api.errors import InvalidSettings
from graphql_api.server.app import settings_problems
from graphql_api.server.settings import read_settings
from tests.browser.conftest import create_database
from tests.browser.grid.task_catalog import NOTES, TASK_CATALOG, TASKS, TEAMS
from tests.browser.grid.task_server import bearer_token, create_app, start_task_server
from tests.support.loopback import serve_app


async def fetch(url: str, *, credential: str | None = None, **options: Any) -> httpx.Response:
    """Return the response to a GET request."""
    headers = {} if credential is None else {"authorization": f"Bearer {credential}"}
    async with httpx.AsyncClient() as client:
        return await client.get(url, headers=headers, **options)


async def described(url: str, credential: str | None = None) -> dict[str, Any]:
    """Return the description of the catalog, with its entities by name."""
    body: dict[str, Any] = (await fetch(f"{url}/grid/catalog.json", credential=credential)).json()
    return {**body, "entities": {entity["name"]: entity for entity in body["entities"]}}


async def test_description_of_the_catalog(tmp_path: Path) -> None:
    """The description has the entities with their properties, searches, joins, constraints, mutations and types."""
    async with start_task_server(TASK_CATALOG, tmp_path, [*TEAMS, *TASKS[:3]]) as server:
        catalog = await described(server.url)
    task = catalog["entities"]["Task"]
    searches = {search["field"]: search for search in task["searches"]}
    assert [*catalog["entities"]] == ["Team", "Task", "Note", "Event", "Vault"]
    assert (task["ids"], task["version"], task["shards"]) == (["taskId"], "version", 4)
    assert {one["name"]: one["selection"] for one in task["properties"]}["effort"] == "{ planned spent }"
    assert [*searches] == ["taskById", "taskByTitle", "taskByTeam", "taskByPoints"]
    assert searches["taskByTeam"]["required"] == [{"argument": "teamId", "properties": ["teamId"], "type": "String"}]
    assert searches["taskByTitle"]["sort"] == [{"property": "title", "descending": False, "sources": ["title"]}]
    assert searches["taskByPoints"]["carries"] == ["taskId", "title", "points"]
    assert searches["taskByTitle"]["cost"]["least"] == 2.0
    assert {(join["name"], join["kind"], join["target"]) for join in task["joins"]} == {
        ("team", "one", "Team"),
        ("waiting", "many", "Task"),
    }
    (tasks,) = catalog["entities"]["Team"]["joins"]
    assert (tasks["search"], tasks["by"], tasks["arguments"]) == ("taskByTeam", ["teamId"], ["teamId"])
    assert (task["unique"], task["foreignKeys"]) == ([["code"]], [{"parent": "Team", "by": ["teamId"]}])
    assert task["mutations"]["update"]["arguments"]["input"] == "TaskPatch!"
    assert catalog["types"]["TaskPatch"]["fields"]["level"]["type"] == "Level"
    assert catalog["types"]["Level"] == {"kind": "enum", "values": ["low", "high"]}
    assert catalog["types"][task["filter"]]["fields"]["points"]["type"] == "IntFilter"
    assert catalog["entities"]["Event"]["subIds"] == ["at"]


async def test_rules_apply_to_the_caller(tmp_path: Path) -> None:
    """For each caller the description says whether the rules allow all records, only own ones, or none."""
    async with start_task_server(TASK_CATALOG, tmp_path, [*NOTES]) as server:
        callers = {
            "anonymous": await described(server.url),
            "ann": await described(server.url, bearer_token("ann")),
            "writer": await described(server.url, bearer_token("will", "Writers", "Keepers")),
        }
    seen = {
        name: (
            catalog["entities"]["Note"]["write"]["may"],
            {one["name"]: one["read"]["may"] for one in catalog["entities"]["Note"]["properties"]}["remark"],
            catalog["entities"]["Vault"]["read"]["may"],
            catalog["subject"],
        )
        for name, catalog in callers.items()
    }
    assert seen == {
        "anonymous": ("none", "none", "none", None),
        "ann": ("own", "none", "none", "ann"),
        "writer": ("all", "all", "all", "will"),
    }
    assert callers["ann"]["entities"]["Note"]["write"]["rules"] == ["members of Writers", "the owner (author)"]


async def test_only_members_of_the_groups(tmp_path: Path) -> None:
    """If groups are named, other callers get no description; the page itself contains nothing of the catalog."""
    async with start_task_server(TASK_CATALOG, tmp_path, [], grid_groups=("Support",)) as server:
        anonymous = await fetch(f"{server.url}/grid/catalog.json")
        other = await fetch(f"{server.url}/grid/catalog.json", credential=bearer_token("ann", "Staff"))
        member = await fetch(f"{server.url}/grid/catalog.json", credential=bearer_token("bob", "Support"))
        bad = await fetch(f"{server.url}/grid/catalog.json", credential="nonsense")
        page = await fetch(f"{server.url}/grid")
    assert [one.status_code for one in (anonymous, other, member, bad, page)] == [403, 403, 200, 401, 200]
    assert anonymous.json()["errors"][0]["extensions"]["code"] == "FORBIDDEN"
    assert "Vault" not in page.text


async def test_a_read_only_server_describes_no_mutations(tmp_path: Path) -> None:
    """A read-only server has no mutations to offer."""
    async with start_task_server(TASK_CATALOG, tmp_path, []) as writable:
        assert not (await described(writable.url))["readOnly"]
        async with start_task_server(TASK_CATALOG, tmp_path, [], read_only=True) as server:
            catalog = await described(server.url)
    assert catalog["readOnly"]
    assert all(entity["mutations"] == {} for entity in catalog["entities"].values())


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        ({}, True),
        ({"grid": False}, False),
        ({"production": True}, False),
        ({"production": True, "grid_groups": ("Support",)}, True),
        ({"only_documents": True}, False),
    ],
)
def test_switch(settings: dict[str, Any], is_on: bool) -> None:
    """The data page is on in development and off in production, unless groups are named for it."""
    assert read_settings(**settings).grid is is_on


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"production": True, "grid": True}, "Production limits the data page to named groups"),
        ({"grid": False, "grid_groups": ("Support",)}, "SHARDQL_GRID_GROUPS names groups, but SHARDQL_GRID is off"),
        ({"grid": True, "only_documents": True}, "The data page sends documents of its own"),
        ({"path": "/grid"}, "SHARDQL_PATH is /grid, the path of the data page"),
    ],
)
def test_settings_that_exclude_each_other(settings: dict[str, Any], problem: str) -> None:
    """A server does not start with settings of the data page that contradict each other."""
    try:
        problems = [*settings_problems(read_settings(**settings))]
    except InvalidSettings as error:
        problems = [str(error)]
    assert any(problem in one for one in problems)


@pytest.mark.parametrize(
    ("settings", "start", "links"),
    [
        ({}, 200, ["./grid", "./graphql"]),
        ({"path": "/api/graphql"}, 200, ["./grid", "./api/graphql"]),
        ({"graphiql": False}, 307, []),
        ({"grid": False}, 307, []),
    ],
)
async def test_start_page(tmp_path: Path, settings: dict[str, Any], start: int, links: list[str]) -> None:
    """The root path links to the data page and to GraphiQL. If only one of them is on, it redirects there."""
    async with start_task_server(TASK_CATALOG, tmp_path, [], **settings) as server:
        root = await fetch(server.url)
        grid = await fetch(f"{server.url}/grid")
    assert root.status_code == start
    assert all(f'href="{link}"' in root.text for link in links)
    if start == 307:
        assert root.headers["location"] == ("/grid" if settings.get("graphiql") is False else "/graphql")
    assert grid.status_code == (404 if settings.get("grid") is False else 200)


async def test_graphiql_links_to_the_data_page(tmp_path: Path) -> None:
    """GraphiQL gets the URL of the data page, relative to its own path."""
    async with start_task_server(TASK_CATALOG, tmp_path, [], path="/api/v1/graphql") as server:
        page = await fetch(f"{server.url}/api/v1/graphql", follow_redirects=True)
        async with httpx.AsyncClient(headers={"accept": "text/html"}) as client:
            html = await client.get(f"{server.url}/api/v1/graphql")
    assert page.status_code == 400  # without a query, and without asking for a page
    assert "&quot;dataPage&quot;: &quot;../../grid&quot;" in html.text


async def test_page_below_a_mount(tmp_path: Path) -> None:
    """All links of the page are relative, so a mounted application serves it."""
    opened = await create_database(TASK_CATALOG, tmp_path / "tasks.db", [*TEAMS])
    with serve_app(Starlette(routes=[Mount("/tools", create_app(TASK_CATALOG, opened))])) as url:
        page = await fetch(f"{url}/tools/grid")
        catalog = await fetch(f"{url}/tools/grid/catalog.json")
        only_grid = await fetch(f"{url}/tools/")
    assert (page.status_code, catalog.status_code, only_grid.status_code) == (200, 200, 200)
    assert 'src="grid/assets/grid-' in page.text
