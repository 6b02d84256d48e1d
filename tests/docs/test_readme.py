"""The first screen of the README."""

import re
from typing import Any

import graphql
import pytest

from graphql_api.examples import users
from graphql_api.schema.graph import Graph
from tests.docs.pages import README

FIRST_SCREEN = 50


def test_first_screen_names_the_commands() -> None:
    """The first screen of the README shows the two main commands, `scripts/serve` first."""
    screen = README.read_text(encoding="utf-8").splitlines()[:FIRST_SCREEN]
    commands = [word for line in screen for word in ("scripts/serve", "scripts/test") if word in line]
    assert list(dict.fromkeys(commands)) == ["scripts/serve", "scripts/test"]


def readme_module() -> dict[str, Any]:
    """Return the names of the module on the first screen."""
    found = re.search(r"```python\n(# people\.py\n.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {"__name__": "people"}
    exec(found[1], names)  # noqa: S102 - our own code
    return names


@pytest.mark.parametrize("catalog", [users.catalog, readme_module()["catalog"]], ids=["scripts/serve", "people.py"])
def test_the_query_fits_what_is_served(catalog: Any) -> None:
    """The query of the first screen is valid for its module, and for the catalog that `scripts/serve` serves."""
    (query,) = re.findall(r"```graphql\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    schema = graphql.build_schema(Graph(catalog).schema.as_str())
    assert graphql.validate(schema, graphql.parse(query)) == []
