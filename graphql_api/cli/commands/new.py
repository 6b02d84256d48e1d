"""`shardql new`: creates a project with a catalog that can be served at once."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from graphql_api.errors import InvalidValue

FILES = {
    "catalog.py": "catalog.py",
    "test_catalog.py": "tests.template",
    "pyproject.toml": "pyproject.toml",
    "Dockerfile": "Dockerfile",
    "README.md": "README.md",
    ".gitignore": "gitignore",
}
"""Names of the created files, and of their templates in the package."""


def new(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Directory of the project. It is created if it does not exist.")
    ],
) -> None:
    """Create a project: a catalog of two entities with sample data, tests, a container file and a README.

    The directory must be empty, or not exist yet.

    Exit codes: 0 written, 2 usage.

    Try it:

    ```
    shardql new bookshop
    cd bookshop
    shardql serve catalog:catalog --sample 100
    ```
    """
    existing = sorted(path.name for path in directory.iterdir() if path.name != ".git") if directory.is_dir() else []
    if existing:
        others = f" and {len(existing) - 2} more" if len(existing) > 2 else ""
        raise InvalidValue(f"{directory} already contains {', '.join(existing[:2])}{others}: name an empty directory.")
    directory.mkdir(parents=True, exist_ok=True)
    for name, template in FILES.items():
        with (directory / name).open("x", encoding="utf-8") as file:
            file.write((files("graphql_api.cli.starter") / template).read_text("utf-8"))
    typer.echo(f"Wrote {', '.join(FILES)} to {directory}. Next:\n\n  cd {directory}")
    typer.echo("  shardql serve catalog:catalog --sample 100")
