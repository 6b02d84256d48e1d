"""Runs commands of the command line inside the test process."""

import re
from typing import Any

from typer.testing import CliRunner, Result

from graphql_api.cli import SUMMARIES, app, load_command

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


def commands() -> dict[tuple[str, ...], Any]:
    """All commands by their path of words."""
    found: dict[tuple[str, ...], Any] = {}
    for name in SUMMARIES:
        command = load_command(name)
        inside = getattr(command, "commands", None)
        found |= {(name,): command} if inside is None else {(name, word): one for word, one in inside.items()}
    return found
