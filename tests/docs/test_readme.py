"""The README: its first screen, its catalog with queries, and its cost example."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import graphql
import httpx
import pytest

from graphql_api import asgi
from graphql_api.examples import users
from graphql_api.schema.graph import Graph
from tests.docs.pages import README
from tests.support.cli_runner import run

FIRST_SCREEN = 50
TEXT = README.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STORAGE_PRICE = 0.25
"""dollars for a GB and month; prices of units are the defaults of the settings"""


def test_first_screen_names_the_commands() -> None:
    """The first screen of the README shows the two main commands, `scripts/serve` first."""
    screen = TEXT.splitlines()[:FIRST_SCREEN]
    commands = [word for line in screen for word in ("scripts/serve", "scripts/test") if word in line]
    assert list(dict.fromkeys(commands)) == ["scripts/serve", "scripts/test"]


def readme_module() -> dict[str, Any]:
    """Return the names of the module of the README."""
    found = re.search(r"```python\n(# people\.py\n.*?)```", TEXT, re.DOTALL)
    assert found is not None
    assert len([line for line in found[1].splitlines() if line]) <= 15
    names: dict[str, Any] = {"__name__": "people"}
    exec(found[1], names)  # noqa: S102 - our own code
    return names


def queries() -> list[tuple[str, Any]]:
    """Return each operation with the response that the README shows."""
    return [
        (query, json.loads(shown))
        for (language, query), (next_language, shown) in pairwise(BLOCK.findall(TEXT))
        if (language, next_language) == ("graphql", "json")
    ]


@pytest.mark.parametrize("catalog", [users.catalog, readme_module()["catalog"]], ids=["scripts/serve", "people.py"])
def test_the_search_fits_what_is_served(catalog: Any) -> None:
    """The search of the README is valid for its module, and for the catalog that `scripts/serve` serves."""
    _, (search, _) = queries()
    schema = graphql.build_schema(Graph(catalog).schema.as_str())
    assert graphql.validate(schema, graphql.parse(search)) == []


async def responses(app: Any) -> list[Any]:
    """Return the responses to the operations, with `…` in place of tokens."""
    found = []
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost:8000") as client,
    ):
        for query, _ in queries():
            answer = (await client.post("/graphql", json={"query": query})).text
            found.append(json.loads(re.sub(r'"nextToken":"[^"]+"', '"nextToken":"…"', answer)))
    return found


def test_operations_have_the_responses_shown(tmp_path: Path) -> None:
    """On an empty database, the operations give the responses that the README shows, in their order."""
    app = asgi(readme_module()["catalog"], f"sqlite:///{tmp_path}/people.db")
    assert asyncio.run(responses(app)) == [shown for _, shown in queries()]


# --- the cost example ----------------------------------------------------------------------------------------------


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the catalog of the README."""
    found = re.search(r"```python\n(# people\.py\n.*?)```", TEXT, re.DOTALL)
    assert found is not None
    (tmp_path / "people.py").write_text(found[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "people:catalog"


def printed(pattern: str, *words: str) -> float:
    """Return the number that a command prints."""
    result = run(*words)
    assert result.exit_code == 0, result.output
    found = re.search(pattern, result.stdout)
    assert found is not None, result.stdout
    return float(found[1])


def test_the_cost_example(people: str) -> None:
    """Units, bytes and sums of the example are those that the commands print for the catalog of the README."""
    _, (search, _) = queries()
    page = search.replace("limit: 1", "limit: 20")
    create = 'mutation { createUser(input: {userId: "u1", firstName: "José"}) { user { id } } }'
    read = printed(r"units +([0-9.]+) read units expected", "explain", people, page)
    write = printed(r"units +([0-9.]+) write units expected", "explain", people, create)
    size = printed(r"storage +([0-9]+) bytes per record", "capacity", people, "--records", "User=100000")
    read_price = printed(r"at ([0-9.]+) per million", "explain", people, page)
    write_price = printed(r"at ([0-9.]+) per million", "explain", people, create)
    costs = [read * read_price, write * 0.1 * write_price, size * 1e5 / 1e9 * STORAGE_PRICE]
    rows = [re.findall(r" ([^|]+?) \|", line) for line in TEXT.splitlines() if re.match(r"\| a .+\$", line)]
    assert [row[1] for row in rows] == [f"{read:g} read units", f"{write:g} write units", f"{size:g} bytes"]
    assert [row[2] for row in rows] == [f"{read:g} million", f"{write * 0.1:g} million", f"{size * 1e5 / 1e9:.2f} GB"]
    prices = (f"{read_price} per million", f"{write_price} per million", f"{STORAGE_PRICE} per GB")
    assert [row[3] for row in rows] == [f"${price}" for price in prices]
    assert [row[4] for row in rows] == [f"${cost:.2f}" for cost in costs]
    assert f"**${sum(round(cost, 2) for cost in costs):.2f}**" in TEXT


def test_measured_rows_are_those_of_the_performance_page() -> None:
    """The multiples in the README are figures of one run, which the performance page shows."""
    page = (README.parent / "docs/explanation/performance.md").read_text(encoding="utf-8")
    figures = {line.split(" | ")[0]: line for line in page.splitlines() if line.startswith("| page of 20 x 10")}
    rows = re.findall(r"^\| (graphql-yoga|Strawberry) .* \| ([\d.]+) \| ([\d.]+) \|$", TEXT, re.MULTILINE)
    contestants = ["graphql-yoga + SDK v3", "Strawberry + aioboto3 client", "graphql-yoga, static rows"]
    for (_, *ratios), name in zip(rows, contestants, strict=True):
        engine = "SQLite" if "static" in name else "DynamoDB protocol"
        for shards, ratio in zip((16, 150), ratios, strict=True):
            assert f"{name} {ratio}" in figures[f"| page of 20 x 10, {engine}, {shards} shards, HTTP"]
