"""The help of each command: examples, descriptions, and suggestions for misspelled commands."""

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from graphql_api.cli import SUMMARIES, load_command
from tests.docs.pages import ROOT
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
    for name, summary in SUMMARIES.items():
        assert f"{name} {summary}" in overview


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_help_of_a_command_begins_with_its_summary(name: str) -> None:
    """The list of commands describes a command with the first sentences of its own help."""
    assert " ".join(load_command(name).help.partition("\n\n")[0].split()) == SUMMARIES[name]


HEAVY = {"aioboto3", "aiohttp", "botocore", "graphql", "pydantic", "sqlite3", "starlette", "strawberry", "uvicorn"}
"""packages that take long to import"""


def modules_after(code: str) -> set[str]:
    """Return the modules that a new process has imported after running some code."""
    script = f"import sys\ntry:\n    {code}\nfinally:\n    sys.__stderr__.write(' '.join(sys.modules))"
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)  # noqa: S603 - a fixed command
    assert "Traceback" not in done.stderr
    return set(done.stderr.split())


def test_the_package_imports_nothing_before_it_is_used() -> None:
    """`import graphql_api` imports no other module of the package, and no other package."""
    modules = modules_after("import graphql_api")
    assert {name for name in modules if name.startswith("graphql_api.")} == {"graphql_api.lazy_exports"}
    assert modules.isdisjoint({*HEAVY, "ast", "asyncio", "typer"})


def test_the_version_imports_no_command() -> None:
    """`shardql --version` imports only what prints it."""
    modules = modules_after("from graphql_api.cli import app; app(['--version'])")
    own = {name for name in modules if name.startswith("graphql_api.")}
    assert own == {"graphql_api.lazy_exports", "graphql_api.cli", "graphql_api.cli.package_versions"}
    assert modules.isdisjoint({*HEAVY, "asyncio"})


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["load", "--help"], ["migrate", "--help"]])
def test_help_imports_no_server(words: list[str]) -> None:
    """Help imports no server, no GraphQL and no engine. That of a command imports pydantic, for its types."""
    modules = modules_after(f"from graphql_api.cli import app; app({words})")
    assert "graphql_api.storage.engines" in modules
    assert modules.isdisjoint(HEAVY - {"pydantic"} if len(words) > 1 else HEAVY)
