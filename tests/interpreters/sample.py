"""What a user does first, with any Python: import all modules, then make a project, test it, load it and serve it.

It needs only the packages of an application, so that they install in seconds. `scripts/interpreters` runs it.
"""

import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from json import dumps, loads
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from urllib.request import Request, urlopen

import graphql_api

ROOT = Path(__file__).parents[2]
CATALOG = "catalog:catalog"
QUERY = '{ bookByTitle(prefix: "the", limit: 3) { items { title author { name } } nextToken } }'
NEEDS_EXTRA = ("graphql_api.storage.engines.dynamodb.", "graphql_api.cli.__main__")


def import_modules() -> int:
    """Import all modules that need no extra. Return their number."""
    found = [module.name for module in pkgutil.walk_packages(graphql_api.__path__, "graphql_api.")]
    names = [name for name in found if not name.startswith(NEEDS_EXTRA)]
    for name in names:
        import_module(name)
    return len(names)


def command(*words: str) -> list[str]:
    """Return a command of this Python that fails on each warning."""
    return [sys.executable, "-W", "error", "-m", *words]


def run(folder: Path, words: Sequence[str]) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return an environment in which the working copy is found."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def server(folder: Path, *words: str) -> Iterator[str]:
    """Start a server at a free port, and return its URL."""
    served = command("graphql_api.cli", "serve", *words, "--port", "0")
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - a fixed command
            served, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            url = re.search(r"http://[\d.]+:\d+", line)
            if url is not None:
                yield url[0]
                return
        sys.exit(f"The server did not start:\n{log.read_text('utf-8')}")
    finally:
        process.terminate()
        process.communicate()


def answer(url: str, query: str) -> Any:
    """Return the data of a query over HTTP."""
    request = Request(f"{url}/graphql", dumps({"query": query}).encode(), {"content-type": "application/json"})  # noqa: S310
    with urlopen(request, timeout=60) as response:  # noqa: S310 - the server above
        return loads(response.read())["data"]


def main() -> None:
    """Run the sample, and print one line."""
    begin = perf_counter()
    modules = import_modules()
    with TemporaryDirectory() as name:
        folder = Path(name) / "bookshop"
        run(ROOT, command("graphql_api.cli", "new", str(folder)))
        tests = run(
            folder, command("pytest", "-q", "-p", "graphql_api.testing.pytest_plugin", "-p", "no:cacheprovider")
        )
        run(folder, command("graphql_api.cli", "stubs", CATALOG))
        with server(folder, CATALOG, "--sample", "20") as url:
            page = answer(url, QUERY)["bookByTitle"]
    assert len(page["items"]) == 3, page
    assert page["nextToken"], page
    version = ".".join(map(str, sys.version_info[:3]))
    passed = re.search(r"\d+ passed", tests)
    assert passed is not None, tests
    print(f"Python {version}: {modules} modules, {passed[0]}, and a served page in {perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
