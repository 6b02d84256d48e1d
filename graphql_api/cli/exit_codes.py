"""How a command ends: exit codes, and errors told in words."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

import typer

from graphql_api.errors import InvalidCatalog, ShardQLError, StoreError, UnknownEntity

FINDINGS = 1
USAGE = 2
STORE = 3
CATALOG = 4
INTERRUPTED = 130
"""what shells expect of a command that Ctrl-C ended"""


@contextmanager
def errors_told() -> Iterator[None]:
    """Turns what can go wrong for a user into a message and an exit code; a traceback is left for mistakes of ours."""
    try:
        yield
    except ShardQLError as problem:
        raise failed(problem.message, exit_code(problem)) from problem
    except KeyboardInterrupt:
        raise failed("stopped.", INTERRUPTED) from None
    except BrokenPipeError:  # whoever read our output has seen enough: typer ends quietly
        raise
    except OSError as problem:
        raise failed(
            f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem), USAGE
        ) from problem


def failed(message: str, code: int) -> typer.Exit:
    """Says what went wrong on the error stream; raise what it returns."""
    typer.echo(f"shardql: {message}", err=True)
    return typer.Exit(code)


def exit_code(problem: ShardQLError) -> int:
    """The exit code of a command that ends with this error."""
    if isinstance(problem, StoreError):
        return STORE
    if isinstance(problem, InvalidCatalog | UnknownEntity) or problem.argument == "catalog":
        return CATALOG
    return USAGE


def print_anywhere() -> None:
    """Lets a terminal of any age print what it can, and question marks for the rest."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
