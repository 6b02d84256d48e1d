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
from graphql_api.playground.query_tabs import PAGE, tabs_of
from graphql_api.server.settings import Settings
from graphql_api.server.startup import application, operations_of
from tests.api.running import running
from tests.browser.conftest import Open, filled
from tests.browser.visit import visiting

FIRST, ONE, *_ = TITLES = [tab.title for tab in tabs_of(Graph(catalog))]

NEW = "<untitled>"
"""the title of a tab whose operation has no name"""
BESIDE = ("nextToken", "pageInfo")
"""fields of answers that stand beside the records"""


def rows(users: Any) -> list[tuple[str, str, str, int]]:
    """What the first tab shows of users, as the core gives them."""
    return [(user.user_id, user.first_name, user.last_name, user.created) for user in users]


def shown(page: Any) -> list[tuple[str, str, str, int]]:
    """The same, of an answer."""
    return [(item["userId"], item["firstName"], item["lastName"], item["created"]) for item in page["items"]]


async def test_first_tab_is_followed_from_page_to_page(browser: Browser, site: str, people: Open) -> None:
    """The first tab runs as it is, its token in the variables gives the next page twice, and the core's rows come."""
    async with visiting(browser, site) as visit:
        await visit.open("/graphql")
        pages = [(await visit.run())["data"]["userByFirstName"]]
        for _ in range(2):
            await visit.replace("Variables", json.dumps({"nextToken": pages[-1]["nextToken"]}, indent=2))
            pages.append((await visit.run(by_keys=True))["data"]["userByFirstName"])
        await visit.shoot("first-tab")
    async with people() as database:
        found = await database.search(User.by_first_name, limit=3 * PAGE)
    assert [row for page in pages for row in shown(page)] == rows(found.items)
    assert all(page["nextToken"] for page in pages)
    assert len(found.items) == 3 * PAGE


async def test_typed_query_is_answered(browser: Browser, site: str, people: Open) -> None:
    """A query that is typed into a new tab, key by key, is answered with what the core finds."""
    query = '{ userByLastName(prefix: "s", limit: 3) { items { userId firstName lastName created } nextToken } }'
    async with visiting(browser, site) as visit:
        await visit.open("/graphql")
        await visit.press("New tab")
        await visit.replace("Query Editor", query, key_by_key=True)
        assert await visit.text("Query Editor") == query
        answer = await visit.run(by_keys=True)
    async with people() as database:
        found = await database.search(User.by_last_name, prefix="s", limit=3)
    assert shown(answer["data"]["userByLastName"]) == rows(found.items)
    assert len(found.items) == 3


async def test_every_tab_runs_as_it_is(browser: Browser, site: str) -> None:
    """Each tab stands there under its title, and gives records without an edit."""
    async with visiting(browser, site) as visit:
        await visit.open("/graphql")
        assert await visit.tabs() == TITLES
        for title in TITLES:
            await visit.choose(title)
            answer = await visit.run()
            assert "errors" not in answer
            (found,) = answer["data"].values()
            assert found if title == ONE else next(value for name, value in found.items() if name not in BESIDE)


async def test_a_record_is_created_found_changed_and_removed(browser: Browser, site: str, people: Open) -> None:
    """Play creates a user, whom a search finds; once more it is refused; further tabs change and remove the user."""
    search = '{ userByFirstName(prefix: "%s", limit: 50) { items { userId firstName } } }'

    async def found(name: str) -> list[str]:
        await visit.replace("Query Editor", search % name)
        answer = (await visit.run())["data"]["userByFirstName"]
        return [item["userId"] for item in answer["items"] if item["firstName"] == name]

    async with people() as database:
        before = {user.user_id: user for user in (await database.search(User.by_id, limit=500)).items}
    async with visiting(browser, site) as visit:
        await visit.open("/graphql")
        await visit.press("New tab")
        await visit.choose("Create")
        created = (await visit.run())["data"]["createUser"]["user"]
        await visit.shoot("create")
        (refused,) = (await visit.run())["errors"]
        await visit.shoot("create-again")
        await visit.choose(NEW)
        assert created["userId"] in await found(created["firstName"])
        await visit.choose("Update")
        changed = (await visit.run())["data"]["updateUser"]["user"]
        await visit.choose(NEW)
        assert created["userId"] in await found(changed["firstName"])
        assert created["userId"] not in await found(created["firstName"])
        await visit.choose("Delete")
        assert (await visit.run())["data"]["deleteUser"]["deletedId"]
        assert (await visit.run())["data"]["deleteUser"] == {"deletedId": None}
        await visit.choose("Update")
        (missing,) = (await visit.run())["errors"]
    assert created["userId"] not in before
    assert refused["extensions"]["code"] == "ALREADY_EXISTS"
    assert created["userId"] in refused["message"]
    assert {**created, "firstName": changed["firstName"]} == changed
    assert created["firstName"] != changed["firstName"]
    assert missing["extensions"]["code"] == "RECORD_NOT_FOUND"
    async with people() as database:
        assert {user.user_id: user for user in (await database.search(User.by_id, limit=500)).items} == before


async def test_who_only_reads_sees_no_tab_that_writes(browser: Browser, people: Open) -> None:
    """A server that only reads has the other tabs, and no mutation in its documentation."""
    settings = Settings(read_only=True)
    with running(application(catalog, people, settings, operations_of(settings))) as address:
        async with visiting(browser, address) as visit:
            await visit.open("/graphql")
            assert await visit.tabs() == TITLES[:-3]
            await visit.press("Show Documentation Explorer")
            await visit.page.get_by_text("Root Types").wait_for()
            roots = await visit.page.locator(".graphiql-doc-explorer-section-content").first.inner_text()
    assert roots.split() == ["query:", "Query"]


async def test_error_says_what_to_do(browser: Browser, site: str) -> None:
    """A token that is none is answered with the code and the message of the error."""
    async with visiting(browser, site) as visit:
        await visit.open("/graphql")
        await visit.replace("Variables", '{"nextToken": "made up"}')
        (error,) = (await visit.run())["errors"]
    assert error["extensions"]["code"] == "INVALID_TOKEN"


async def test_headers_are_those_that_the_server_asks_of_clients(browser: Browser, site: str) -> None:
    """The header against forged requests stands among the headers, is sent, and further ones can be added."""
    async with visiting(browser, site) as visit:
        await visit.open("/graphql")
        await visit.page.get_by_role("button", name="Headers").click()
        headers = json.loads(await visit.text("Headers"))
        assert headers == {"apollo-require-preflight": "1"}
        await visit.replace("Headers", json.dumps(headers | {"x-request-id": "from-the-page"}))
        async with visit.page.expect_response(lambda response: response.request.method == "POST") as asked:
            await visit.run()
        response = await asked.value
    assert response.request.headers["apollo-require-preflight"] == "1"
    assert response.headers["x-request-id"] == "from-the-page"


async def test_explorer_builds_a_query(browser: Browser, site: str) -> None:
    """The explorer opens inside of the window, and a field that is ticked there comes into the query and the answer."""
    async with visiting(browser, site) as visit:
        await visit.open("/graphql")
        await visit.press("Show GraphiQL Explorer")
        field = visit.page.locator("[data-field-name='phone']")
        await field.scroll_into_view_if_needed()
        box = await field.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < 400
        await field.click()
        await visit.read("Query Editor", containing=" phone\n")
        answer = await visit.run()
        await visit.shoot("explorer")
    assert all("phone" in item for item in answer["data"]["userByFirstName"]["items"])


async def test_tabs_stay_in_the_browser(browser: Browser, site: str) -> None:
    """What was changed in the tabs is there after a reload, with no tab more, and the open one is open again."""
    async with visiting(browser, site) as visit:
        await visit.open("/graphql")
        await visit.reload()
        assert await visit.tabs() == TITLES
        await visit.choose("Newest")
        changed = (await visit.text("Query Editor")).replace(f"limit: {PAGE}", "limit: 2")
        await visit.replace("Query Editor", changed)
        await visit.page.wait_for_timeout(1_000)  # GraphiQL keeps what was typed half a second later
        await visit.reload()
        assert await visit.tabs() == TITLES
        assert await visit.text("Query Editor") == changed
        await visit.choose(FIRST)
        assert await visit.text("Variables") == json.dumps({"nextToken": None}, indent=2)


async def test_catalogs_of_one_site_have_their_own_tabs(browser: Browser, people: Open, tmp_path: Path) -> None:
    """Two catalogs that are mounted on one site each show their own tabs, and their pages find everything below."""
    settings = Settings()
    other = Catalog(Email, User, namespace="Other")
    others = await filled(other, tmp_path / "other.db", [*sample(2)])
    apps = [
        Mount(f"/{name}", application(served, opening, settings, operations_of(settings)))
        for name, served, opening in (("one", catalog, people), ("other", other, others))
    ]
    with running(Starlette(routes=apps)) as address:
        async with visiting(browser, address) as visit:
            await visit.open("/one/graphql")
            await visit.open("/other/graphql")
            assert await visit.tabs() == [tab.title for tab in tabs_of(Graph(other))]
            assert "data" in await visit.run()
            await visit.open("/one/graphql")
            assert await visit.tabs() == TITLES


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_narrow_window_shows_query_and_answer(browser: Browser, site: str, scheme: Any) -> None:
    """In a window as narrow as a telephone's all that a query needs is inside of the window, in either scheme."""
    window = {"width": 420, "height": 800}
    async with visiting(browser, site, viewport=window, color_scheme=scheme) as visit:
        await visit.open("/graphql")
        await visit.run()
        for part in (".graphiql-execute-button", ".graphiql-query-editor", ".graphiql-response", ".graphiql-tab-add"):
            box = await visit.page.locator(part).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= window["width"]
            assert box["height"] >= 24
        await visit.shoot(f"narrow-{scheme}")
        await visit.press("Show GraphiQL Explorer")
        await visit.page.locator("[data-field-name='phone']").scroll_into_view_if_needed()
        await visit.press("Hide GraphiQL Explorer")
        await visit.page.locator(".graphiql-query-editor").wait_for()
