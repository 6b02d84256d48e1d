"""The Python examples of the documents run unchanged, and the commands of some pages too."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from graphql_api.examples import users
from tests.docs.page_commands import USER_PAGES, CommandRunner, mark_before
from tests.docs.pages import PAGES, page_name
from tests.docs.tutorial_script import PAGE as TUTORIAL


class PageModule(ModuleType):
    """The module of classes that a page declares, for libraries that look it up, and for commands."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        super().__init__("__page__")
        self.namespace = namespace

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__("namespace" if name == "__dict__" else name)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.namespace[name]
        except KeyError:
            raise AttributeError(name) from None


def run_commands(example: Example) -> None:
    """Run the commands of a block, with the catalogs that the page has declared before."""
    is_marked = mark_before(example.document.text, example.region.start) is not None
    example.namespace["output"] = None if is_marked else example.namespace["runner"].run(example.parsed)


def compare_output(example: Example) -> None:
    """Compare a block of text with the output of the commands before it, unless they are not run here."""
    printed = example.namespace.pop("output", None)
    assert printed is None or [line.rstrip() for line in printed] == example.parsed.splitlines()


SYBIL = Sybil(parsers=[PythonCodeBlockParser()])
COMMANDS_TOO = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("sh", run_commands), CodeBlockParser("text", compare_output)]
)
PAGES_WITH_COMMANDS = {*USER_PAGES} - {TUTORIAL}
"""Their Python blocks are the module `app` of the commands. The tutorial is run as a whole."""


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The blocks of a page run in order in one namespace and folder, and print the documented output."""
    monkeypatch.chdir(tmp_path)
    document = (COMMANDS_TOO if page in PAGES_WITH_COMMANDS else SYBIL).parse(page)
    runner = CommandRunner(tmp_path, lambda: request.getfixturevalue("dynamodb"))
    document.namespace |= {"__name__": "__page__", "runner": runner, "catalog": users.catalog}
    for name in ("__page__", "app"):
        monkeypatch.setitem(sys.modules, name, PageModule(document.namespace))
    monkeypatch.setitem(sys.modules, "shop", users)
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
