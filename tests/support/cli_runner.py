"""Runs commands of the command line inside the test process."""

import re
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner, Result

from graphql_api.cli import app

USERS = "graphql_api.examples.users:catalog"


def run(*words: str, width: int = 300, stdin: str | None = None) -> Result:
    """Runs one command and returns its result. Unexpected exceptions are raised."""
    result = CliRunner().invoke(app, words, input=stdin, env={"COLUMNS": str(width), "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def plain_output(result: Result) -> str:
    """The whole output on one line, without box characters."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


def commands(group: Any = None, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """All commands by their path of words."""
    group = group or get_command(app)
    found: dict[tuple[str, ...], Any] = {}
    for name, command in group.commands.items():
        inside = commands(command, (*path, name)) if hasattr(command, "commands") else {(*path, name): command}
        found |= inside
    return found
