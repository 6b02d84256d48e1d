"""The Python blocks of the documents run as they stand."""

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from tests.docs.pages import PAGES, name

SYBIL = Sybil(parsers=[PythonCodeBlockParser()])


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run from top to bottom in one namespace, and print what the page says."""
    monkeypatch.chdir(tmp_path)
    document = SYBIL.parse(page)
    document.namespace["__name__"] = "__page__"
    for example in document:
        example.evaluate()


def test_wrong_example_fails(tmp_path: Path) -> None:
    """A page whose block prints something else than it says is found out."""
    page = tmp_path / "page.md"
    page.write_text("```python\nanswer = 41\n```\n\n```python\n>>> answer\n42\n```\n", encoding="utf-8")
    first, second = SYBIL.parse(page)
    first.evaluate()
    with pytest.raises(AssertionError, match="42"):
        second.evaluate()
