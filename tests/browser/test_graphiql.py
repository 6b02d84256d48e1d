"""GraphiQL in a real browser, over the example catalog."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette
from starlette.routing import Mount

from graphql_api import Catalog, Graph
from graphql_api.examples.users import Email, User, catalog, sample
from graphql_api.playground.query_tabs import PAGE_SIZE, sample_tabs
from graphql_api.server.app import create_application
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.settings import Settings
from tests.browser.conftest import DatabaseOpener, create_database
from tests.browser.graphiql_page import open_graphiql
from tests.support.loopback import serve_app

FIRST_TITLE, RECORD_TITLE, *_ = TITLES = [tab.title for tab in sample_tabs(Graph(catalog))]

UNTITLED = "<untitled>"
"""The title of a tab whose operation has no name."""
PAGE_FIELDS = ("nextToken", "pageInfo")
"""Fields of a page that contain no records."""


def expected_rows(users: Any) -> list[tuple[str, str, str, int]]:
    """Return the values that the first tab selects, from records of the Python API."""
    return [(user.user_id, user.first_name, user.last_name, user.created) for user in users]


def response_rows(page: Any) -> list[tuple[str, str, str, int]]:
    """Return the same values from a page of a response."""
    return [(item["userId"], item["firstName"], item["lastName"], item["created"]) for item in page["items"]]


async def test_first_tab_pages_by_token(browser: Browser, site: str, users_database: DatabaseOpener) -> None:
    """The first tab runs unchanged. Its tokens lead to two more pages, with the rows of the database."""
    async with open_graphiql(browser, site) as graphiql:
        await graphiql.open("/graphql")
        pages = [(await graphiql.run())["data"]["userByFirstName"]]
        for _ in range(2):
            await graphiql.replace("Variables", json.dumps({"nextToken": pages[-1]["nextToken"]}, indent=2))
            pages.append((await graphiql.run(by_keyboard=True))["data"]["userByFirstName"])
        await graphiql.take_screenshot("first-tab")
    async with users_database() as database:
        found = await database.search(User.by_first_name, limit=3 * PAGE_SIZE)
    assert [row for page in pages for row in response_rows(page)] == expected_rows(found.items)
    assert all(page["nextToken"] for page in pages)
    assert len(found.items) == 3 * PAGE_SIZE


async def test_typed_query_returns_the_rows_of_the_database(
    browser: Browser, site: str, users_database: DatabaseOpener
) -> None:
    """A query typed into a new tab, key by key, returns the rows that the Python API returns."""
    query = '{ userByLastName(prefix: "s", limit: 3) { items { userId firstName lastName created } nextToken } }'
    async with open_graphiql(browser, site) as graphiql:
        await graphiql.open("/graphql")
        await graphiql.press("New tab")
        await graphiql.replace("Query Editor", query, key_by_key=True)
        assert await graphiql.text("Query Editor") == query
        body = await graphiql.run(by_keyboard=True)
    async with users_database() as database:
        found = await database.search(User.by_last_name, prefix="s", limit=3)
    assert response_rows(body["data"]["userByLastName"]) == expected_rows(found.items)
    assert len(found.items) == 3


async def test_every_tab_runs_unchanged(browser: Browser, site: str) -> None:
    """All tabs exist, in order, and return records without an edit."""
    async with open_graphiql(browser, site) as graphiql:
        await graphiql.open("/graphql")
        assert await graphiql.tabs() == TITLES
        for title in TITLES:
            await graphiql.select_tab(title)
            body = await graphiql.run()
            assert "errors" not in body
            (found,) = body["data"].values()
            assert (
                found
                if title == RECORD_TITLE
                else next(value for name, value in found.items() if name not in PAGE_FIELDS)
            )


async def test_create_search_update_and_delete_a_record(
    browser: Browser, site: str, users_database: DatabaseOpener
) -> None:
    """Create makes a user that a search finds, and fails the second time. Update and Delete change only this user."""
    search = '{ userByFirstName(prefix: "%s", limit: 50) { items { userId firstName } } }'

    async def found(name: str) -> list[str]:
        await graphiql.replace("Query Editor", search % name)
        body = (await graphiql.run())["data"]["userByFirstName"]
        return [item["userId"] for item in body["items"] if item["firstName"] == name]

    async with users_database() as database:
        before = {user.user_id: user for user in (await database.search(User.by_id, limit=500)).items}
    async with open_graphiql(browser, site) as graphiql:
        await graphiql.open("/graphql")
        await graphiql.press("New tab")
        await graphiql.select_tab("Create")
        created = (await graphiql.run())["data"]["createUser"]["user"]
        await graphiql.take_screenshot("create")
        (refused,) = (await graphiql.run())["errors"]
        await graphiql.take_screenshot("create-again")
        await graphiql.select_tab(UNTITLED)
        assert created["userId"] in await found(created["firstName"])
        await graphiql.select_tab("Update")
        changed = (await graphiql.run())["data"]["updateUser"]["user"]
        await graphiql.select_tab(UNTITLED)
        assert created["userId"] in await found(changed["firstName"])
        assert created["userId"] not in await found(created["firstName"])
        await graphiql.select_tab("Delete")
        assert (await graphiql.run())["data"]["deleteUser"]["deletedId"]
        assert (await graphiql.run())["data"]["deleteUser"] == {"deletedId": None}
        await graphiql.select_tab("Update")
        (missing,) = (await graphiql.run())["errors"]
    assert created["userId"] not in before
    assert refused["extensions"]["code"] == "ALREADY_EXISTS"
    assert created["userId"] in refused["message"]
    assert {**created, "firstName": changed["firstName"]} == changed
    assert created["firstName"] != changed["firstName"]
    assert missing["extensions"]["code"] == "RECORD_NOT_FOUND"
    async with users_database() as database:
        assert {user.user_id: user for user in (await database.search(User.by_id, limit=500)).items} == before


async def test_read_only_server_has_no_mutation_tabs(browser: Browser, users_database: DatabaseOpener) -> None:
    """A read-only server has the query tabs, and no mutation in the documentation."""
    settings = Settings(read_only=True)
    with serve_app(create_application(catalog, users_database, settings, Instrumentation(settings))) as address:
        async with open_graphiql(browser, address) as graphiql:
            await graphiql.open("/graphql")
            assert await graphiql.tabs() == TITLES[:-3]
            await graphiql.press("Show Documentation Explorer")
            await graphiql.page.get_by_text("Root Types").wait_for()
            roots = await graphiql.page.locator(".graphiql-doc-explorer-section-content").first.inner_text()
    assert roots.split() == ["query:", "Query"]


async def test_error_is_displayed(browser: Browser, site: str) -> None:
    """An invalid token gives an error with its code."""
    async with open_graphiql(browser, site) as graphiql:
        await graphiql.open("/graphql")
        await graphiql.replace("Variables", '{"nextToken": "made up"}')
        (error,) = (await graphiql.run())["errors"]
    assert error["extensions"]["code"] == "INVALID_TOKEN"


async def test_default_headers_satisfy_the_csrf_protection(browser: Browser, site: str) -> None:
    """The tab Headers contains the CSRF header. It is sent, and users can add further headers."""
    async with open_graphiql(browser, site) as graphiql:
        await graphiql.open("/graphql")
        await graphiql.page.get_by_role("button", name="Headers").click()
        headers = json.loads(await graphiql.text("Headers"))
        assert headers == {"apollo-require-preflight": "1"}
        await graphiql.replace("Headers", json.dumps(headers | {"x-request-id": "from-the-page"}))
        async with graphiql.page.expect_response(lambda response: response.request.method == "POST") as response_info:
            await graphiql.run()
        response = await response_info.value
    assert response.request.headers["apollo-require-preflight"] == "1"
    assert response.headers["x-request-id"] == "from-the-page"


async def test_explorer_builds_a_query(browser: Browser, site: str) -> None:
    """The explorer opens inside the window. A field selected there appears in the query and in the response."""
    async with open_graphiql(browser, site) as graphiql:
        await graphiql.open("/graphql")
        await graphiql.press("Show GraphiQL Explorer")
        field = graphiql.page.locator("[data-field-name='phone']")
        await field.scroll_into_view_if_needed()
        box = await field.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < 400
        await field.click()
        await graphiql.wait_for_text("Query Editor", containing=" phone\n")
        body = await graphiql.run()
        await graphiql.take_screenshot("explorer")
    assert all("phone" in item for item in body["data"]["userByFirstName"]["items"])


async def test_tabs_survive_a_reload(browser: Browser, site: str) -> None:
    """Edits of tabs survive a reload. No tab is added, and the active tab stays active."""
    async with open_graphiql(browser, site) as graphiql:
        await graphiql.open("/graphql")
        await graphiql.reload()
        assert await graphiql.tabs() == TITLES
        await graphiql.select_tab("Newest")
        changed = (await graphiql.text("Query Editor")).replace(f"limit: {PAGE_SIZE}", "limit: 2")
        await graphiql.replace("Query Editor", changed)
        # GraphiQL stores the tabs after a pause.
        stored = "query => Object.values(localStorage).some(value => value.includes(JSON.stringify(query)))"
        await graphiql.page.wait_for_function(stored, arg=changed)
        await graphiql.reload()
        assert await graphiql.tabs() == TITLES
        assert await graphiql.text("Query Editor") == changed
        await graphiql.select_tab(FIRST_TITLE)
        assert await graphiql.text("Variables") == json.dumps({"nextToken": None}, indent=2)


async def test_catalogs_of_one_site_have_their_own_tabs(
    browser: Browser, users_database: DatabaseOpener, tmp_path: Path
) -> None:
    """Two catalogs mounted on one site show their own tabs, and load their assets below their own paths."""
    settings = Settings()
    other = Catalog(Email, User, namespace="Other")
    others = await create_database(other, tmp_path / "other.db", [*sample(2)])
    apps = [
        Mount(f"/{name}", create_application(served, opening, settings, Instrumentation(settings)))
        for name, served, opening in (("one", catalog, users_database), ("other", other, others))
    ]
    with serve_app(Starlette(routes=apps)) as address:
        async with open_graphiql(browser, address) as graphiql:
            await graphiql.open("/one/graphql")
            await graphiql.open("/other/graphql")
            assert await graphiql.tabs() == [tab.title for tab in sample_tabs(Graph(other))]
            assert "data" in await graphiql.run()
            await graphiql.open("/one/graphql")
            assert await graphiql.tabs() == TITLES


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_narrow_window_shows_query_and_response(browser: Browser, site: str, scheme: Any) -> None:
    """In a window as narrow as a phone, all controls are inside the window, in both color schemes."""
    window = {"width": 420, "height": 800}
    async with open_graphiql(browser, site, viewport=window, color_scheme=scheme) as graphiql:
        await graphiql.open("/graphql")
        await graphiql.run()
        for part in (".graphiql-execute-button", ".graphiql-query-editor", ".graphiql-response", ".graphiql-tab-add"):
            box = await graphiql.page.locator(part).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= window["width"]
            assert box["height"] >= 24
        await graphiql.take_screenshot(f"narrow-{scheme}")
        await graphiql.press("Show GraphiQL Explorer")
        await graphiql.page.locator("[data-field-name='phone']").scroll_into_view_if_needed()
        await graphiql.press("Hide GraphiQL Explorer")
        await graphiql.page.locator(".graphiql-query-editor").wait_for()
