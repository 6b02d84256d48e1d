"""The recipes of docs/how-to/clients.md and docs/how-to/client-writes.md: each block that begins with a file name."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "how-to" / "clients.md"
WRITES = ROOT / "docs" / "how-to" / "client-writes.md"
ADDRESS = "http://localhost:8000"
"""The server URL in the recipes."""

_BLOCK = re.compile(r"^```(\w+)\n((?:#|//) ([\w.]+)\n.*?)^```$", re.MULTILINE | re.DOTALL)


def recipes(page: Path) -> Mapping[str, str]:
    """Return the text of each recipe of a page, by file name."""
    return {name: text for _, text, name in _BLOCK.findall(page.read_text(encoding="utf-8"))}


def write_recipe(name: str, folder: Path, address: str) -> Path:
    """Write a recipe to a file, with the URL of a server."""
    path = folder / name
    text = {**recipes(PAGE), **recipes(WRITES)}[name]
    path.write_text(text.replace(ADDRESS, address), encoding="utf-8")
    return path
