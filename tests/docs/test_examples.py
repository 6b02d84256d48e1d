"""The Python examples of the documents run unchanged, and the commands of some pages too."""

import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from tests.docs.pages import PAGES, page_name
from tests.support.cli_runner import run

COLUMNS = 100
USAGE = 2
"""the first exit code of an error; 1 means findings"""


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
    """Run the `shardql` commands of a block on SQLite, with the catalogs that the page has declared before."""
    output: list[str] = []
    needs_dynamodb = "dynamodb:" in example.parsed
    for line in () if needs_dynamodb else example.parsed.splitlines():
        program, *words = shlex.split(line)
        assert program == "shardql"
        result = run(*words, width=COLUMNS)
        assert result.exit_code < USAGE, result.output
        output += result.stdout.splitlines()
    example.namespace["output"] = None if needs_dynamodb else output


def compare_output(example: Example) -> None:
    """Compare a block of text with the output of the commands before it."""
    printed = example.namespace.pop("output")
    assert printed is None or [line.rstrip() for line in printed] == example.parsed.splitlines()


SYBIL = Sybil(parsers=[PythonCodeBlockParser()])
COMMANDS_TOO = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("sh", run_commands), CodeBlockParser("text", compare_output)]
)
PAGES_WITH_COMMANDS = {"docs/how-to/changing-a-catalog.md", "docs/how-to/verifying.md"}
"""Their Python blocks are the module `app` of the commands. Commands for DynamoDB are not run here."""


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run in order in one namespace, and print the documented output."""
    monkeypatch.chdir(tmp_path)
    document = (COMMANDS_TOO if page_name(page) in PAGES_WITH_COMMANDS else SYBIL).parse(page)
    document.namespace["__name__"] = "__page__"
    for name in ("__page__", "app"):
        monkeypatch.setitem(sys.modules, name, PageModule(document.namespace))
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
