"""Exit codes of the commands, and error reporting on the error stream."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import typer

from graphql_api.errors import InvalidCatalog, ShardQLError, StoreError, UnknownEntity, WrongTable
from graphql_api.storage.engines import store_file

FINDINGS = 1
USAGE = 2
STORE = 3
CATALOG = 4
INTERRUPTED = 130
"""The code that shells expect of a command stopped by Ctrl-C."""


@contextmanager
def report_errors(complete: Callable[[str], str] = str) -> Iterator[None]:
    """Turn expected errors into a message and an exit code. Internal errors keep their traceback.

    `complete` puts the names of the command into the remedies of a message.
    """
    try:
        yield
    except ShardQLError as error:
        raise error_exit(complete(error.message), exit_code(error)) from error
    except KeyboardInterrupt:
        raise error_exit("stopped.", INTERRUPTED) from None
    except BrokenPipeError:  # The reader of the output has closed it: typer exits silently.
        raise
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise error_exit(message, USAGE) from error


def error_exit(message: str, code: int) -> typer.Exit:
    """Print a message to the error stream, and return the exception for the caller to raise."""
    typer.echo(f"shardql: {message}", err=True)
    return typer.Exit(code)


def exit_code(error: ShardQLError) -> int:
    """Return the exit code of a command that ends with this error."""
    if isinstance(error, StoreError):
        return STORE
    if isinstance(error, InvalidCatalog | UnknownEntity) or error.argument == "catalog":
        return CATALOG
    return USAGE


def require_file(url: str) -> None:
    """Raise WrongTable if the file of a store is missing: opening the store would create it."""
    path = store_file(url)
    if path is not None and not path.exists():
        from graphql_api.evolution import CREATE_TABLE_REMEDY  # noqa: PLC0415 - slow import

        raise WrongTable(f"There is no file {path}.{suggest_file(path)} {CREATE_TABLE_REMEDY}")


def suggest_file(path: Path) -> str:
    """Return ` Did you mean 'x.db'?` for the closest name with the same suffix in the directory, or an empty text."""
    stems = [sibling.stem for sibling in path.parent.glob(f"*{path.suffix}")] if path.suffix else []
    close = get_close_matches(path.stem, stems, n=1)
    return f" Did you mean {str(path.with_stem(close[0]))!r}?" if close else ""
