"""Links between the documents have existing targets."""

from pathlib import Path

import pytest

from tests.docs.links import is_broken, relative_links
from tests.docs.pages import DOCUMENTS, ROOT, page_name


@pytest.mark.parametrize("page", DOCUMENTS, ids=page_name)
def test_relative_links_resolve(page: Path) -> None:
    """Every relative link of a page leads to a file of the repository, and to an existing heading."""
    assert [link for link in relative_links(page) if is_broken(page, link, ROOT)] == []


def test_broken_links_are_detected(tmp_path: Path) -> None:
    """Missing files, missing headings and paths out of the repository are broken. Code and URLs are ignored."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.md").touch()
    (root / "other.md").write_text("# A `key`, twice\n\n# A key twice\n", encoding="utf-8")
    page = root / "page.md"
    good = ["other.md", "other.md#a-key-twice", "other.md#a-key-twice-1", "#here"]
    bad = ["gone.md", "other.md#a-key", "../outside.md", "#there"]
    links = " ".join(f"[text]({link})" for link in [*good, *bad, "https://example.org/gone.md"])
    page.write_text(f"# Here\n{links}\n`[code](gone.md)`\n\n```\n[block](gone.md)\n```\n", encoding="utf-8")
    assert relative_links(page) == good + bad
    assert [link for link in relative_links(page) if is_broken(page, link, root)] == bad
