"""`shardql stubs`: writes what type checkers and editors know of the calls of a catalog."""

from pathlib import Path
from typing import Annotated

import typer

from graphql_api.cli.common_options import CatalogAddress, option
from graphql_api.cli.exit_codes import FINDINGS


def stubs(
    address: CatalogAddress,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing. Fail if a stub is missing or differs from the catalog.")
    ] = False,
    output: Annotated[Path | None, option("FOLDER", "Folder for the stubs, by default next to each module.")] = None,
) -> None:
    """Write stubs, so that type checkers and editors know the arguments of each search, read and write.

    There is one `.pyi` file for each module that declares entities. A type checker reads it instead of the module.
    Modules of installed packages get one only with --output.

    Exit codes: 0 written or equal, 1 different, 2 usage, 4 catalog.

    Try it:

    ```
    shardql stubs catalog:catalog
    ```
    """
    from graphql_api.model import load_catalog  # noqa: PLC0415 - slow import
    from graphql_api.ops import stub_modules  # noqa: PLC0415 - slow import

    modules = stub_modules(load_catalog(address), address)
    for stub in modules if output is None else ():
        if stub.is_installed:
            typer.echo(f"{stub.module} is an installed package: --output FOLDER writes its stub.")
    files = [
        (stub.beside() if output is None else stub.below(output), stub)
        for stub in modules
        if output is not None or not stub.is_installed
    ]
    stale = [(path, stub) for path, stub in files if not stub.is_written_to(path)]
    if not check:
        for path, stub in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(stub.text, "utf-8")
    for path, _ in files:
        is_stale = path in dict(stale)
        state = ("differs from the catalog" if check else "is written") if is_stale else "is up to date"
        typer.echo(f"{path} {state}.")
    if check and stale:
        folder = "" if output is None else f" --output {output}"
        typer.echo(f"To update the stubs: shardql stubs {address}{folder}")
        raise typer.Exit(FINDINGS)
