"""Credentials in GraphiQL, in a real browser."""

import json
import time
from collections.abc import Mapping
from typing import Any

import strawberry
from playwright.async_api import Browser

from graphql_api import Graph
from graphql_api.examples.users import catalog
from graphql_api.server.auth.development_tokens import mint
from graphql_api.server.auth.identity import Identity
from graphql_api.server.settings import Settings
from graphql_api.server.startup import application, operations_of
from tests.api.running import running
from tests.api.server import SECRETS
from tests.browser.conftest import Open
from tests.browser.visit import visiting

WHO = "{ me }"


@strawberry.type
class Me:
    """Who asks."""

    @strawberry.field
    def me(self, info: strawberry.Info[Any, Any]) -> str:
        caller = info.context.caller
        return f"{caller.subject} of {', '.join(sorted(caller.groups))}"


async def test_a_token_in_the_headers(browser: Browser, people: Open) -> None:
    """A bearer token that is put into the tab of headers is sent, and the answer is for whom it stands for."""
    graph = Graph(catalog)
    graph.query(Me)
    settings = Settings()
    app = application(graph, people, settings, operations_of(settings), secrets=SECRETS)
    who = Identity("alice", frozenset({"Admin", "Staff"}))
    token = mint(bytes(SECRETS.tokens[0]), who, now=time.time(), seconds=600)
    with running(app) as site:
        async with visiting(browser, site) as visit:
            await visit.open("/graphql")
            await visit.press("New tab")
            await visit.replace("Query Editor", WHO)
            nobody = await visit.run()
            await visit.press("Headers")
            sent: Mapping[str, str] = json.loads(await visit.text("Headers"))
            await visit.replace("Headers", json.dumps({**sent, "authorization": f"Bearer {token}"}))
            alice = await visit.run()
    assert nobody["data"]["me"] == "None of "
    assert alice["data"]["me"] == "alice of Admin, Staff"
