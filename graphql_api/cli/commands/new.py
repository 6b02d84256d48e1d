"""`shardql new`: a directory with a catalog that serves at once."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from graphql_api.cli.exit_codes import errors_told
from graphql_api.errors import InvalidValue

FILES = {"catalog.py": "catalog.py", "README.md": "README.md", ".gitignore": "gitignore"}
"""what is written, and what it is called in the package"""


def new(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where to begin; it is made if it is not there.")
    ],
) -> None:
    """Begins a project: a catalog of two entities with sample data, which serves at once, and a README.

    Nothing that is there already is written over.

    Exit codes: 0 written, 2 usage.

    Try it:

    ```
    shardql new bookshop
    cd bookshop
    shardql serve catalog:catalog --sample 100
    ```
    """
    with errors_told():
        taken = [name for name in FILES if (directory / name).exists()]
        if taken:
            raise InvalidValue(f"{directory} holds {' and '.join(taken)} already: name another directory.")
        directory.mkdir(parents=True, exist_ok=True)
        for name, kept_as in FILES.items():
            with (directory / name).open("x", encoding="utf-8") as file:
                file.write((files("graphql_api.cli.starter") / kept_as).read_text("utf-8"))
    typer.echo(f"Wrote {', '.join(FILES)} to {directory}. Now:\n\n  cd {directory}")
    typer.echo("  shardql serve catalog:catalog --sample 100")
