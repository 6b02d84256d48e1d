"""The recipes of docs/clients.md and docs/client-writes.md: each block that begins with its name, as a file."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "clients.md"
WRITES = ROOT / "docs" / "client-writes.md"
ADDRESS = "http://localhost:8000"
"""where the recipes look for a server"""

_BLOCK = re.compile(r"^```(\w+)\n((?:#|//) ([\w.]+)\n.*?)^```$", re.MULTILINE | re.DOTALL)


def recipes(page: Path) -> Mapping[str, str]:
    """The text of each recipe of a page, by its name."""
    return {name: text for _, text, name in _BLOCK.findall(page.read_text(encoding="utf-8"))}


def write_recipe(name: str, folder: Path, address: str) -> Path:
    """Writes a recipe as it is documented, for a server at this address."""
    path = folder / name
    text = {**recipes(PAGE), **recipes(WRITES)}[name]
    path.write_text(text.replace(ADDRESS, address), encoding="utf-8")
    return path
