"""The help of the command line: it teaches by examples, and knows what somebody who mistyped may have meant."""

import re
import shlex
from typing import Any

import pytest

from tests.unit.shell import commands, run, said

COMMANDS = commands()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_teaches_by_example(words: tuple[str, ...]) -> None:
    """Each command says what it does, shows itself in an example, and has a sentence for each argument and option."""
    command = COMMANDS[words]
    shown = run(*words, "--help")
    assert shown.exit_code == 0
    assert examples(command, words), "no example of the command itself"
    assert [parameter.name for parameter in command.params if not str(parameter.help).endswith(".")] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_examples_use_options_that_there_are(words: tuple[str, ...]) -> None:
    """Every command line of an example names a command and options that there are."""
    for line in re.findall(r"^shardql .+", COMMANDS[words].help, re.MULTILINE):
        spoken = shlex.split(line, comments=False)[1:]
        path = next(known for known in COMMANDS if tuple(spoken[: len(known)]) == known)
        options = {option for parameter in COMMANDS[path].params for option in parameter.opts}
        assert {word for word in spoken if word.startswith("--")} <= options


def examples(command: Any, words: tuple[str, ...]) -> list[str]:
    """The lines of a command's help that run it."""
    found: list[str] = re.findall(rf"^shardql {' '.join(words)}\b.*", command.help, re.MULTILINE)
    return found


@pytest.mark.parametrize(
    ("words", "meant"), [(("serv",), "serve"), (("table", "descrbe"), "describe"), (("schema", "chek"), "check")]
)
def test_a_mistyped_command_gets_the_nearest(words: tuple[str, ...], meant: str) -> None:
    """A command that there is none of is answered with the nearest one."""
    result = run(*words)
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'?" in said(result)


def test_the_overview_lists_every_command() -> None:
    """Without a word the program lists its commands, each with what it does."""
    overview = said(run())
    for path, command in COMMANDS.items():
        if len(path) == 1:
            assert f"{path[0]} {command.help.split('.')[0].split(':')[0][:40]}" in overview
