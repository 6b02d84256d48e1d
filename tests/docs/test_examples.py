"""The Python blocks of the documents run as they stand."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from tests.docs.pages import PAGES, name

SYBIL = Sybil(parsers=[PythonCodeBlockParser()])


class _Module(ModuleType):
    """What libraries find when they look up the module of a class that a page declares."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        super().__init__("__page__")
        self.namespace = namespace

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__("namespace" if name == "__dict__" else name)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run from top to bottom in one namespace, and print what the page says."""
    monkeypatch.chdir(tmp_path)
    document = SYBIL.parse(page)
    document.namespace["__name__"] = "__page__"
    monkeypatch.setitem(sys.modules, "__page__", _Module(document.namespace))
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
