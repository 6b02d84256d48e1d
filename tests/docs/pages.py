"""The documents: the README and the pages in docs/."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [*PAGES, ROOT / "CHANGELOG.md"]


def page_name(page: Path) -> str:
    """Return the path of a page relative to the repository, as its test id."""
    return str(page.relative_to(ROOT))
