"""Subscriptions in GraphiQL, in a real browser."""

from pathlib import Path

from playwright.async_api import Browser

from graphql_api import asgi
from tests.browser.graphiql_page import open_graphiql
from tests.server.notes_graph import Notices, notes_graph
from tests.support.loopback import serve_app


async def test_subscription(browser: Browser, tmp_path: Path) -> None:
    """GraphiQL shows the events of a subscription, and ends it when the user stops it."""
    notices = Notices()
    with serve_app(asgi(notes_graph(notices), f"sqlite:///{tmp_path}/notes.db")) as site:
        async with open_graphiql(browser, site) as graphiql:
            await graphiql.open("/graphql")
            await graphiql.press("New tab")
            await graphiql.replace("Query Editor", "subscription { count(to: 3) }")
            await graphiql.press("Execute query (Ctrl-Enter)")
            await graphiql.wait_for_text("Result Window", '"count": 2')
            await graphiql.replace("Query Editor", 'subscription { noteChanges(first: "n1") { text } }')
            await graphiql.press("Execute query (Ctrl-Enter)")
            await graphiql.wait_for_text("Result Window", '"noteChanges": null')
            assert len(notices.queues) == 1
            await graphiql.press("Stop query (Ctrl-Enter)")
            while not notices.ended:
                await graphiql.page.evaluate("fetch('/healthz').then((response) => response.text())")
