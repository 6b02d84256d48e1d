"""Every command that a user may copy from README, tutorial and how-to pages is run by a test, or says why it is not."""

import re
from pathlib import Path

import pytest

from tests.docs.page_commands import SHELLS, USER_PAGES, CommandRunner, commands_of, mark_before, marked_blocks
from tests.docs.pages import ROOT, page_name
from tests.docs.test_examples import PAGES_WITH_COMMANDS
from tests.docs.tutorial_script import PAGE as TUTORIAL


@pytest.mark.parametrize("page", USER_PAGES, ids=page_name)
def test_every_command_is_run_or_says_why_not(page: Path) -> None:
    """A shell block without a mark is run with its page. A mark names a test that runs it, or gives a reason."""
    assert page in PAGES_WITH_COMMANDS or page == TUTORIAL
    for place, mark, text in marked_blocks(page):
        if mark is None:
            assert f"```sh\n{text}" in page.read_text(encoding="utf-8"), f"{place}: call the language sh"
        elif mark.kind == "not run":
            assert len(mark.text.split()) >= 3, f"{place}: give a reason"
        else:
            assert page != TUTORIAL
            assert runs(ROOT / mark.text, page, text), f"{place}: {mark.text} does not run it"


def runs(test: Path, page: Path, text: str) -> bool:
    """Return whether a test reads the page, or uses every option of the block."""
    code = test.read_text(encoding="utf-8")
    if page.name in code:
        return True
    words = [word for command in commands_of(text) for word in command]
    return all(word in code for word in words if word.startswith("--"))


def test_every_shell_is_found() -> None:
    """No page has a code block of a language that looks like a shell, and is none of those that are collected."""
    languages = {
        language
        for page in USER_PAGES
        for language in re.findall(r"^ *```(\w+)$", page.read_text("utf-8"), re.MULTILINE)
    }
    known = {
        "python",
        "graphql",
        "json",
        "text",
        "html",
        "jsx",
        "js",
        "javascript",
        "ini",
        "dockerfile",
        "yaml",
        "toml",
    }
    assert languages - known <= {*SHELLS}


def test_commands_are_really_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong command fails. Variables, comments, continued lines and redirections have their effect."""
    monkeypatch.chdir(tmp_path)
    runner = CommandRunner(tmp_path, pytest.fail)
    query = "'{ users(limit: 1) { items { userId } } }'"
    for wrong in ("shardql explain $CATALOG '{ nothing }'", "shardql explain --wrong", "ls missing"):
        with pytest.raises(AssertionError):
            runner.run(f"CATALOG=graphql_api.examples.users:catalog\n{wrong}\n")
    assert runner.run(f"shardql explain $CATALOG \\\n  {query}  # the plan\n")
    assert runner.run(f"shardql explain $CATALOG {query} --json > plan.json\n") == []
    assert "estimate" in (tmp_path / "plan.json").read_text("utf-8")
    assert runner.run("export KIND=plan\nprintenv KIND\n") == ["plan"]


def test_marks() -> None:
    """A mark belongs to the block that follows it at once."""
    text = "<!-- not run: needs an account -->\n```sh\naws\n```\n\n```sh\nls\n```\n"
    found = mark_before(text, text.index("```sh"))
    assert found is not None
    assert (found.kind, found.text) == ("not run", "needs an account")
    assert mark_before(text, text.rindex("```sh")) is None
