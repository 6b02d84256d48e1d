"""Subgraphs compose with each other, and with one that adds fields to an entity."""

import json
import shutil
from pathlib import Path

from graphql_api import Graph
from graphql_api.examples import orders, users
from graphql_api.schema import print_sdl
from tests.clients.conftest import HERE, run, tool

REVIEWS = """
extend schema @link(url: "https://specs.apollo.dev/federation/v2.9", import: ["@key"])

type User @key(fields: "userId") {
  userId: String!
  reviews: [String!]!
}

type Query {
  latestReviewer: User
}
"""


def test_composition(packages: Path, tmp_path: Path) -> None:
    """Graphs with different namespaces compose, and clients of the gateway see their fields together."""
    (tmp_path / "node_modules").symlink_to(packages)
    shutil.copy(HERE / "compose.mjs", tmp_path)
    (tmp_path / "reviews.graphql").write_text(REVIEWS)
    for name, catalog in (("users", users.catalog), ("orders", orders.catalog)):
        sdl = print_sdl({name: Graph(catalog, federation=True).schema})
        (tmp_path / f"{name}.graphql").write_text(sdl)
    found = json.loads(
        run([tool("node"), "compose.mjs", "users.graphql", "orders.graphql", "reviews.graphql"], tmp_path)
    )
    assert found["errors"] == []
    assert "  reviews: [String!]!" in found["sdl"]
    assert "  userByCreated(" in found["sdl"]
    assert "  Plugin_Order(" in found["sdl"]
    assert "  node(" not in found["sdl"]
