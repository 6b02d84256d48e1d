"""`shardql new`: a project that can be served at once."""

import json
import re
import shlex
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from graphql_api import canonical
from graphql_api.cli import load_command
from graphql_api.cli.commands.new import FILES
from graphql_api.cli.starter.catalog import Author, Book, sample
from tests.server.server_processes import environment, server_process
from tests.support.cli_runner import run

CATALOG = "catalog:catalog"
HIDDEN = '{ bookByTitle(prefix: "the hidden", limit: 3%s) { items { title isbn } nextToken } }'


def create_project(folder: Path) -> Path:
    """Create a project with the command."""
    words = [sys.executable, "-m", "graphql_api.cli", "new", "bookshop"]
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=True)  # noqa: S603 - a fixed command
    assert done.stdout == (
        "Wrote catalog.py, test_catalog.py, pyproject.toml, Dockerfile, README.md, .gitignore to bookshop. Next:\n\n"
        "  cd bookshop\n  shardql serve catalog:catalog --sample 100\n"
    )
    assert done.stderr == ""
    return folder / "bookshop"


def test_new_project_can_be_served(tmp_path: Path) -> None:
    """A new project is served by the printed command, with sample data and pages."""
    project = create_project(tmp_path)
    with server_process(project, CATALOG, "--sample", "100") as server:
        first = server.execute(HIDDEN % "")["data"]["bookByTitle"]
        second = server.execute(HIDDEN % f', nextToken: "{first["nextToken"]}"')["data"]["bookByTitle"]
        author = server.execute('{ authorByName(prefix: "emile") { items { name born } } }')["data"]["authorByName"]
    books = [record for record in sample(100) if isinstance(record, Book)]
    hidden = sorted((canonical(book.title), book.isbn) for book in books if book.title.startswith("The Hidden"))
    assert [book["isbn"] for page in (first, second) for book in page["items"]] == [isbn for _, isbn in hidden[:6]]
    assert len(hidden) >= 6
    assert author["items"] == [{"name": "Émile Zola", "born": "1819-02-08"}]


@pytest.fixture
def in_a_new_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a new project. Its module is unloaded afterwards."""
    run("new", str(tmp_path / "bookshop"))
    monkeypatch.chdir(tmp_path / "bookshop")
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "catalog", raising=False)
    monkeypatch.setitem(sys.modules, "catalog", None)
    del sys.modules["catalog"]


@pytest.mark.usefixtures("in_a_new_project")
def test_commands_of_the_readme() -> None:
    """Each command in the table of the new README runs without findings."""
    commands = re.findall(r"^\| `shardql (.+?)` \|", Path("README.md").read_text("utf-8"), re.MULTILINE)
    assert len(commands) == 8
    Path("books.jsonl").write_bytes(run("sample", CATALOG, "Book", "--count", "3").stdout_bytes)
    for command in commands:
        words, _, file = command.partition(" > ")
        result = run(*shlex.split(words))
        if file:
            Path(file).write_text(result.stdout, "utf-8")
        assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("in_a_new_project")
def test_gitignore() -> None:
    """All files that loading and serving create are ignored, above all keys."""
    ignored = Path(".gitignore").read_text("utf-8").split()
    assert {
        "*.db",
        "*.db-shm",
        "*.db-wal",
        "*.token-key",
        "*.record-key",
        "*.rejected",
        "*.progress",
        "__pycache__/",
    } <= set(ignored)


@pytest.mark.parametrize(
    ("existing", "named"),
    [
        (["catalog.py"], "catalog.py"),
        (["notes.txt"], "notes.txt"),
        (["b", "a", "d", "c"], "a, b and 2 more"),
    ],
)
def test_a_directory_with_other_files_is_refused(existing: list[str], named: str, tmp_path: Path) -> None:
    """Nothing is written, and the error names what is there."""
    for name in existing:
        (tmp_path / name).write_text("mine")
    result = run("new", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr == f"shardql: {tmp_path} already contains {named}: name an empty directory.\n"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(existing, "mine")


def test_an_empty_repository_becomes_a_project(tmp_path: Path) -> None:
    """A directory that holds nothing but a new repository of git can become a project."""
    (tmp_path / ".git").mkdir()
    assert run("new", str(tmp_path)).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".git", *FILES])


def test_the_tests_of_a_new_project_pass(tmp_path: Path) -> None:
    """The tests run with pytest alone, and with the fixtures of this package."""
    project = create_project(tmp_path)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    done = subprocess.run(words, cwd=project, env=environment(), capture_output=True, text=True, check=False)  # noqa: S603
    assert "3 passed" in done.stdout, done.stdout


def test_the_container_file_serves_the_catalog_without_privileges() -> None:
    """It has two stages, a user without privileges, a health check, and the command line of a server."""
    lines = (files("graphql_api.cli.starter") / "Dockerfile").read_text("utf-8").splitlines()
    assert len([line for line in lines if line.startswith("FROM ")]) == 2
    assert [line for line in lines if line.startswith("USER ")] == ["USER 10001"]
    assert any(line.startswith("HEALTHCHECK ") for line in lines)
    (command,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith('CMD ["shardql')]
    options = {option for parameter in load_command("serve").params for option in parameter.opts}
    assert {word for word in command if word.startswith("--")} <= options


def test_path_is_a_file(tmp_path: Path) -> None:
    """If the path is a file, the command prints a one-line error."""
    (tmp_path / "bookshop").write_text("mine")
    result = run("new", str(tmp_path / "bookshop"))
    assert result.exit_code == 2
    assert re.fullmatch(r"shardql: .+bookshop.*: .+\n", result.stderr)


def test_sample_of_any_size() -> None:
    """The sample has the requested number of books, all authors of its books, and is reproducible."""
    for count in (0, 1, 4, 80, 300):
        records = [*sample(count)]
        books = [record for record in records if isinstance(record, Book)]
        authors = {record.author_id for record in records if isinstance(record, Author)}
        assert len({book.isbn for book in books}) == len({book.title for book in books}) == count
        assert {book.author_id for book in books} <= authors
        assert records == [*sample(count)]
