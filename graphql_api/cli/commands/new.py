"""`shardql new`: creates a project with a catalog that can be served at once."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from graphql_api.errors import InvalidValue

FILES = {"catalog.py": "catalog.py", "README.md": "README.md", ".gitignore": "gitignore"}
"""Names of the created files, and of their templates in the package."""


def new(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Directory of the project. It is created if it does not exist.")
    ],
) -> None:
    """Create a project: a catalog of two entities with sample data, and a README.

    Existing files are never overwritten.

    Exit codes: 0 written, 2 usage.

    Try it:

    ```
    shardql new bookshop
    cd bookshop
    shardql serve catalog:catalog --sample 100
    ```
    """
    existing = [name for name in FILES if (directory / name).exists()]
    if existing:
        raise InvalidValue(f"{directory} already contains {' and '.join(existing)}: name another directory.")
    directory.mkdir(parents=True, exist_ok=True)
    for name, template in FILES.items():
        with (directory / name).open("x", encoding="utf-8") as file:
            file.write((files("graphql_api.cli.starter") / template).read_text("utf-8"))
    typer.echo(f"Wrote {', '.join(FILES)} to {directory}. Next:\n\n  cd {directory}")
    typer.echo("  shardql serve catalog:catalog --sample 100")
