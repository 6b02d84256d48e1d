"""The commands of the pages: what is run, by which test, or why not.

A shell block is run with the Python blocks of its page (`tests/docs/test_examples.py`), unless a comment comes before
it: `<!-- not run: REASON -->` or `<!-- run by: TEST FILE -->`.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests.docs.pages import PAGES, ROOT, page_name
from tests.server.server_processes import server_process
from tests.support.cli_runner import run
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server

COLUMNS = 100
USAGE = 2
"""the first exit code of an error; 1 means findings"""
SHELLS = ("sh", "bash", "shell", "console")
USER_PAGES = [page for page in PAGES if page_name(page).startswith(("README", "docs/tutorial", "docs/how-to"))]
"""The pages whose commands users copy."""

_BLOCK = re.compile(rf"^( *)```({'|'.join(SHELLS)})\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (not run|run by): (.+?) -->\s*\Z")
_TABLE = re.compile(r"dynamodb://([\w-]+)\?region=[\w-]+(?:&endpoint=[\w.:/-]+)?")
_TIMEOUTS = "table_pause=0.05&connect_seconds=10&read_seconds=20&deadline=60"
_SECONDS = 60
_MODULE = "from graphql_api.examples.users import catalog\n"


@dataclass(frozen=True)
class Mark:
    """The comment before a block."""

    kind: str
    text: str


def mark_before(text: str, start: int) -> Mark | None:
    """Return the mark of the block that starts at a position."""
    found = _MARK.search(text[:start].rstrip(" "))
    return found and Mark(*found.groups())


def marked_blocks(page: Path) -> Iterator[tuple[str, Mark | None, str]]:
    """Yield each shell block of a page: its place for messages, its mark, and its text."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        place = f"{page_name(page)}:{text.count(chr(10), 0, found.start()) + 1}"
        yield place, mark_before(text, found.start()), found[3]


def commands_of(text: str) -> list[list[str]]:
    """Return the words of each command of a block. A backslash continues a line, and `#` begins a comment."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@dataclass
class CommandRunner:
    """Runs the simple commands of one page in a folder: no pipes and no substitutions but variables."""

    folder: Path
    dynamodb: Callable[[], Server]
    environment: MutableMapping[str, str] = field(default_factory=dict)
    variables: MutableMapping[str, str] = field(default_factory=dict)
    tables: MutableMapping[str, str] = field(default_factory=dict)
    """the tables of DynamoDB Local, by their names on the page"""

    def run(self, text: str) -> list[str]:
        """Run a block, and return the lines that its commands print."""
        return [line for words in commands_of(text) for line in self._run(words)]

    def _run(self, words: list[str]) -> list[str]:
        if words[0] == "export" or all(_is_assignment(word) for word in words):
            assigned = dict(word.split("=", 1) for word in words if word != "export")
            (self.environment if words[0] == "export" else self.variables).update(assigned)
            return []
        start = next(number for number, word in enumerate(words) if not _is_assignment(word))
        expanded = [self.variables.get(word[1:], word) if word.startswith("$") else word for word in words[start:]]
        program, *arguments = map(self._with_local_tables, expanded)
        local = {**self.environment, **dict(word.split("=", 1) for word in words[:start])}
        target = None
        if ">" in arguments:
            *arguments, _, target = arguments
        output = self._output(program, arguments, local)
        if target is None:
            return output.splitlines()
        (self.folder / target).write_text(output, encoding="utf-8")
        return []

    def _output(self, program: str, arguments: list[str], variables: MutableMapping[str, str]) -> str:
        if program != "shardql":
            return self._output_of_program([program, *arguments], variables)
        if arguments[0] == "serve":
            return self._serve(arguments[1:], variables)
        self._create_presumed_table(arguments)
        with _environment(variables):
            result = run(*arguments, width=COLUMNS)
        assert result.exit_code < USAGE, (arguments, result.output)
        return result.stdout

    def _output_of_program(self, line: list[str], variables: MutableMapping[str, str]) -> str:
        program = [sys.executable] if line[0] == "python" else [line[0]]
        environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join([str(ROOT), str(self.folder)])}
        completed = subprocess.run(  # noqa: S603 - the commands of our own pages
            [*program, *line[1:]],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert completed.returncode == 0, (line, completed.stderr)
        return completed.stdout

    def _serve(self, words: list[str], variables: MutableMapping[str, str]) -> str:
        """Start a server, and stop it once it listens."""
        for name in ("app", "shop"):
            (self.folder / f"{name}.py").write_text(_MODULE)
        self._create_presumed_table(["serve", *words])
        with server_process(self.folder, *words, **variables, SHARDQL_DRAIN_SECONDS="0") as server:
            assert server.stop(signal.SIGTERM) == 0
            return server.output

    def _with_local_tables(self, word: str) -> str:
        return _TABLE.sub(lambda found: self._local_url(found[1]), word)

    def _local_url(self, name: str) -> str:
        self.environment.update(CREDENTIALS)
        table = self.tables.setdefault(name, f"{name}-{uuid4().hex}")
        return f"dynamodb://{table}?region={REGION}&endpoint={self.dynamodb().endpoint}&{_TIMEOUTS}"

    def _create_presumed_table(self, words: list[str]) -> None:
        """Create the table of DynamoDB that a command presumes."""
        if "--store" not in words or words[:2] == ["table", "create"]:
            return
        address = next(word for word in words[1:] if re.fullmatch(r"[\w.]+:\w+", word))
        options = [(name, words[words.index(name) + 1]) for name in ("--store", "--lookup-store") if name in words]
        if options[0][1].startswith("dynamodb:"):
            with _environment(self.environment):
                result = run("table", "create", address, *(word for option in options for word in option))
            assert result.exit_code == 0, result.output


def _is_assignment(word: str) -> bool:
    return re.match(r"[A-Z_]+=", word) is not None


@contextmanager
def _environment(variables: MutableMapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
