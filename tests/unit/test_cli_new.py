"""`shardql new`: a project that serves at once."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from graphql_api import canonical
from graphql_api.cli.starter.catalog import Author, Book, sample
from tests.api.processes import environment, serving
from tests.unit.shell import run

CATALOG = "catalog:catalog"
HIDDEN = '{ bookByTitle(prefix: "the hidden", limit: 3%s) { items { title isbn } nextToken } }'


def begin(folder: Path) -> Path:
    """A new project, by the real command."""
    words = [sys.executable, "-m", "graphql_api.cli", "new", "bookshop"]
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=True)  # noqa: S603 - our own words
    assert done.stdout == (
        "Wrote catalog.py, README.md, .gitignore to bookshop. Next:\n\n"
        "  cd bookshop\n  shardql serve catalog:catalog --sample 100\n"
    )
    assert done.stderr == ""
    return folder / "bookshop"


def test_a_new_project_serves_at_once(tmp_path: Path) -> None:
    """What `new` writes is served by the command that it names, with data, page by page."""
    project = begin(tmp_path)
    with serving(project, CATALOG, "--sample", "100") as server:
        first = server.ask(HIDDEN % "")["data"]["bookByTitle"]
        second = server.ask(HIDDEN % f', nextToken: "{first["nextToken"]}"')["data"]["bookByTitle"]
        author = server.ask('{ authorByName(prefix: "emile") { items { name born } } }')["data"]["authorByName"]
    books = [record for record in sample(100) if isinstance(record, Book)]
    hidden = sorted((canonical(book.title), book.isbn) for book in books if book.title.startswith("The Hidden"))
    assert [book["isbn"] for page in (first, second) for book in page["items"]] == [isbn for _, isbn in hidden[:6]]
    assert len(hidden) >= 6
    assert author["items"] == [{"name": "Émile Zola", "born": "1819-02-08"}]


@pytest.fixture
def in_a_new_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a new project, whose module is forgotten afterwards."""
    run("new", str(tmp_path / "bookshop"))
    monkeypatch.chdir(tmp_path / "bookshop")
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "catalog", raising=False)
    monkeypatch.setitem(sys.modules, "catalog", None)
    del sys.modules["catalog"]


@pytest.mark.usefixtures("in_a_new_project")
def test_the_commands_of_its_readme() -> None:
    """Each command of the table in the new README runs as it stands there and finds nothing wrong."""
    commands = re.findall(r"^\| `shardql (.+?)` \|", Path("README.md").read_text("utf-8"), re.MULTILINE)
    assert len(commands) == 7
    Path("books.jsonl").write_bytes(run("sample", CATALOG, "Book", "--count", "3").stdout_bytes)
    for command in commands:
        words, _, file = command.partition(" > ")
        result = run(*shlex.split(words))
        if file:
            Path(file).write_text(result.stdout, "utf-8")
        assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("in_a_new_project")
def test_its_gitignore_covers_what_serving_leaves() -> None:
    """Every file that loading and serving leave in the project is ignored, keys before all."""
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


@pytest.mark.parametrize("taken", [["catalog.py"], ["README.md", ".gitignore"]])
def test_nothing_is_written_over(taken: list[str], tmp_path: Path) -> None:
    """A directory that holds one of the files already is left as it is, and the file is named."""
    for name in taken:
        (tmp_path / name).write_text("mine")
    result = run("new", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr == f"shardql: {tmp_path} already contains {' and '.join(taken)}: name another directory.\n"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(taken, "mine")


def test_other_files_do_not_matter(tmp_path: Path) -> None:
    """A directory with other files is a place to begin too."""
    (tmp_path / "notes.txt").write_text("mine")
    assert run("new", str(tmp_path)).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "README.md", "catalog.py", "notes.txt"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    """Where a file is in the way, one line says so."""
    (tmp_path / "bookshop").write_text("mine")
    result = run("new", str(tmp_path / "bookshop"))
    assert result.exit_code == 2
    assert re.fullmatch(r"shardql: .+bookshop.*: .+\n", result.stderr)


def test_the_sample_is_of_any_size() -> None:
    """The sample has as many books as asked for, each of an author in it, and is the same every time."""
    for count in (0, 1, 4, 80, 300):
        records = [*sample(count)]
        books = [record for record in records if isinstance(record, Book)]
        authors = {record.author_id for record in records if isinstance(record, Author)}
        assert len({book.isbn for book in books}) == len({book.title for book in books}) == count
        assert {book.author_id for book in books} <= authors
        assert records == [*sample(count)]
