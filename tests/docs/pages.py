"""The documents under test: the README and every page in docs/."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [*PAGES, ROOT / "CHANGELOG.md"]


def name(page: Path) -> str:
    """How a page is called in the report of a run."""
    return str(page.relative_to(ROOT))
