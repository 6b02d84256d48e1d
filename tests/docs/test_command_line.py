"""The page of the command line and the commands say the same."""

import re
import shlex
from typing import Any

from tests.docs.pages import ROOT
from tests.unit.shell import commands, run

PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## `shardql ([a-z ]+?)((?: [A-Z\[<].*)?)`$", re.MULTILINE)
ROW = re.compile(r"^\| `(.+?)` \| (.+) \|$", re.MULTILINE)


def sections() -> dict[tuple[str, ...], str]:
    """The text about each command."""
    places = [*SECTION.finditer(PAGE)]
    ends = [place.start() for place in places[1:]] + [len(PAGE)]
    return {tuple(at[1].split()): PAGE[at.end() : end] for at, end in zip(places, ends, strict=True)}


def spoken(parameter: Any) -> str:
    """An argument or option as the page writes it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar)
    names = " / ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar}".replace("|", "\\|")


def test_each_command_has_its_section() -> None:
    """The page has a section for each command there is, and for no other."""
    assert sections().keys() == commands().keys()


def test_arguments_and_options_are_documented() -> None:
    """Each section lists the arguments and options of its command, in their order, in the words of its help."""
    for words, text in sections().items():
        expected = [(spoken(parameter), parameter.help) for parameter in commands()[words].params]
        assert ROW.findall(text) == expected, words


def test_exit_codes_are_documented() -> None:
    """What the help of a command says of its exit codes, its section says too."""
    for words, text in sections().items():
        found = re.search(r"^Exit codes: .+$", commands()[words].help, re.MULTILINE)
        if found:
            assert found[0] in text, words


def test_the_plan_that_the_page_shows() -> None:
    """The plan on the page is what the command above it prints."""
    text = sections()["explain",]
    command, shown = re.findall(r"^```(?:sh|text)\n(.+?)\n```$", text, re.MULTILINE | re.DOTALL)
    printed = run(*shlex.split(command)[1:]).stdout
    assert [line.rstrip() for line in printed.splitlines() if line.strip()] == shown.splitlines()
