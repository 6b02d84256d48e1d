"""Credentials in GraphiQL, in a real browser."""

import json
import time
from collections.abc import Mapping
from typing import Any

import strawberry
from playwright.async_api import Browser

from graphql_api import Graph
from graphql_api.examples.users import catalog
from graphql_api.server.app import create_application
from graphql_api.server.auth.bearer_tokens import mint_token
from graphql_api.server.auth.principals import Identity
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.settings import Settings
from tests.browser.conftest import DatabaseOpener
from tests.browser.graphiql_page import open_graphiql
from tests.server.catalog_server import SECRETS
from tests.support.loopback import serve_app

ME_QUERY = "{ me }"


@strawberry.type
class Me:
    """A query field that returns the principal."""

    @strawberry.field
    def me(self, info: strawberry.Info[Any, Any]) -> str:
        caller = info.context.caller
        return f"{caller.subject} of {', '.join(sorted(caller.groups))}"


async def test_bearer_token_in_the_headers(browser: Browser, users_database: DatabaseOpener) -> None:
    """A bearer token in the tab Headers is sent, and authenticates its principal."""
    graph = Graph(catalog)
    graph.query(Me)
    settings = Settings()
    app = create_application(graph, users_database, settings, Instrumentation(settings), secrets=lambda: SECRETS)
    identity = Identity("alice", frozenset({"Admin", "Staff"}))
    token = mint_token(bytes(SECRETS.tokens[0]), identity, now=time.time(), seconds=600)
    with serve_app(app) as site:
        async with open_graphiql(browser, site) as graphiql:
            await graphiql.open("/graphql")
            await graphiql.press("New tab")
            await graphiql.replace("Query Editor", ME_QUERY)
            anonymous = await graphiql.run()
            await graphiql.press("Headers")
            sent: Mapping[str, str] = json.loads(await graphiql.text("Headers"))
            await graphiql.replace("Headers", json.dumps({**sent, "authorization": f"Bearer {token}"}))
            alice = await graphiql.run()
    assert anonymous["data"]["me"] == "None of "
    assert alice["data"]["me"] == "alice of Admin, Staff"
