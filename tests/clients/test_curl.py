"""The curl recipes of docs/how-to/clients.md against a real server."""

import json
from pathlib import Path

import pytest

from tests.clients.conftest import ExampleServer, run, tool
from tests.clients.recipes import write_recipe


@pytest.mark.parametrize("name", ["post.sh", "get.sh"])
def test_all_pages(name: str, folder: Path, users: ExampleServer, by_first_name: list[str]) -> None:
    """Commands that pass each page token on return all records."""
    tool("curl")
    script = write_recipe(name, folder, users.server.address)
    found: list[str] = []
    variables: dict[str, str] = {}
    while True:
        page = json.loads(run([tool("sh"), script], folder, **variables))["data"]["userByFirstName"]
        found += [user["userId"] for user in page["items"]]
        if page["nextToken"] is None:
            break
        variables = {"token": json.dumps(page["nextToken"])}
    assert found == by_first_name


def test_header_of_a_get(folder: Path, users: ExampleServer) -> None:
    """Without its CSRF header, the GET is refused."""
    tool("curl")
    header = "--header 'apollo-require-preflight: 1'"
    script = write_recipe("get.sh", folder, users.server.address)
    text = script.read_text(encoding="utf-8")
    assert header in text
    script.write_text(text.replace(header, ""), encoding="utf-8")
    (error,) = json.loads(run([tool("sh"), script], folder))["errors"]
    assert error["extensions"]["code"] == "CROSS_SITE_REQUEST"
