"""`docs/reference/command-line.md` agrees with the commands."""

import re
import shlex
from typing import Any

from tests.docs.pages import ROOT
from tests.support.cli_runner import commands, run

PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## `shardql ([a-z ]+?)((?: [A-Z\[<].*)?)`$", re.MULTILINE)
ROW = re.compile(r"^\| `(.+?)` \| (.+) \|$", re.MULTILINE)


def sections() -> dict[tuple[str, ...], str]:
    """Return the section of each command."""
    places = [*SECTION.finditer(PAGE)]
    ends = [place.start() for place in places[1:]] + [len(PAGE)]
    return {tuple(at[1].split()): PAGE[at.end() : end] for at, end in zip(places, ends, strict=True)}


def documented_name(parameter: Any) -> str:
    """Return an argument or option as the page writes it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar)
    names = " / ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar}".replace("|", "\\|")


def test_each_command_has_its_section() -> None:
    """The page has exactly one section for each command."""
    assert sections().keys() == commands().keys()


def test_arguments_and_options_are_documented() -> None:
    """Each section lists the arguments and options of its command, in order, with their help texts."""
    for words, text in sections().items():
        expected = [(documented_name(parameter), parameter.help) for parameter in commands()[words].params]
        assert ROW.findall(text) == expected, words


def test_exit_codes_are_documented() -> None:
    """Each section contains the exit codes of the command's help."""
    for words, text in sections().items():
        found = re.search(r"^Exit codes: .+$", commands()[words].help, re.MULTILINE)
        if found:
            assert found[0] in text, words


def test_example_plan() -> None:
    """The plan on the page is the output of the command above it."""
    text = sections()["explain",]
    command, shown = re.findall(r"^```(?:sh|text)\n(.+?)\n```$", text, re.MULTILINE | re.DOTALL)
    printed = run(*shlex.split(command)[1:]).stdout
    assert [line.rstrip() for line in printed.splitlines() if line.strip()] == shown.splitlines()
