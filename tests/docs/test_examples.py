"""The Python examples of the documents run unchanged."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from tests.docs.pages import PAGES, page_name

SYBIL = Sybil(parsers=[PythonCodeBlockParser()])


class PageModule(ModuleType):
    """The module of classes that a page declares, for libraries that look it up."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        super().__init__("__page__")
        self.namespace = namespace

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__("namespace" if name == "__dict__" else name)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run in order in one namespace, and print the documented output."""
    monkeypatch.chdir(tmp_path)
    document = SYBIL.parse(page)
    document.namespace["__name__"] = "__page__"
    monkeypatch.setitem(sys.modules, "__page__", PageModule(document.namespace))
    for example in document:
        example.evaluate()


def test_wrong_example_fails(tmp_path: Path) -> None:
    """A block with another output than documented fails."""
    page = tmp_path / "page.md"
    page.write_text("```python\nanswer = 41\n```\n\n```python\n>>> answer\n42\n```\n", encoding="utf-8")
    first, second = SYBIL.parse(page)
    first.evaluate()
    with pytest.raises(AssertionError, match="42"):
        second.evaluate()
