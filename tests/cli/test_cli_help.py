"""The help of each command: examples, descriptions, and suggestions for misspelled commands."""

import re
import shlex
from typing import Any

import pytest

from tests.support.cli_runner import commands, plain_output, run

COMMANDS = commands()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_has_an_example(words: tuple[str, ...]) -> None:
    """Each command has a help text, an example, and a sentence for each argument and option."""
    command = COMMANDS[words]
    shown = run(*words, "--help")
    assert shown.exit_code == 0
    assert examples(command, words), "no example of the command itself"
    assert [parameter.name for parameter in command.params if not str(parameter.help).endswith(".")] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_examples_use_existing_options(words: tuple[str, ...]) -> None:
    """Each command line of an example uses an existing command and existing options."""
    for line in re.findall(r"^shardql .+", COMMANDS[words].help, re.MULTILINE):
        arguments = shlex.split(line, comments=False)[1:]
        path = next(known for known in COMMANDS if tuple(arguments[: len(known)]) == known)
        options = {option for parameter in COMMANDS[path].params for option in parameter.opts}
        assert {word for word in arguments if word.startswith("--")} <= options


def examples(command: Any, words: tuple[str, ...]) -> list[str]:
    """Return the lines of a help text that run the command."""
    found: list[str] = re.findall(rf"^shardql {' '.join(words)}\b.*", command.help, re.MULTILINE)
    return found


@pytest.mark.parametrize(
    ("words", "suggestion"), [(("serv",), "serve"), (("table", "descrbe"), "describe"), (("schema", "chek"), "check")]
)
def test_misspelled_command(words: tuple[str, ...], suggestion: str) -> None:
    """An unknown command is an error with the nearest command."""
    result = run(*words)
    assert result.exit_code == 2
    assert f"Did you mean '{suggestion}'?" in plain_output(result)


def test_overview_lists_every_command() -> None:
    """Without arguments, the program lists its commands with their descriptions."""
    overview = plain_output(run())
    for path, command in COMMANDS.items():
        if len(path) == 1:
            assert f"{path[0]} {command.help.split('.')[0].split(':')[0][:40]}" in overview
