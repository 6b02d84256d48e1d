"""The command line: what its commands do, say and return."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

import graphql_api
from graphql_api.cli import app
from graphql_api.examples.user_samples import generate_emails, generate_users
from graphql_api.examples.users import Email, User, catalog
from graphql_api.opening import open_catalog

USERS = "graphql_api.examples.users:catalog"
STORE = "sqlite:///test.db"
URL = ("--store", STORE)


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run where nothing is."""
    monkeypatch.chdir(tmp_path)


def run(*words: str, width: int = 300) -> Result:
    """A command as a shell would run it; whatever it did not foresee comes through."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": str(width), "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def said(result: Result) -> str:
    """Everything that was printed, without boxes and line ends."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


# --- sample ----------------------------------------------------------------------------------------------------


def test_sample_writes_stored_names() -> None:
    """`sample` writes one JSON object a line under stored names, without what is derived or missing."""
    lines = [json.loads(text) for text in run("sample", USERS, "User", "--count", "30").stdout.splitlines()]
    expected = [
        {
            "userId": user.user_id,
            "beneficiaryId": user.beneficiary_id,
            "created": user.created,
            "updated": user.updated,
            "firstName": user.first_name,
            "lastName": user.last_name,
        }
        | ({"phone": user.phone} if user.phone else {})
        for user in generate_users(30)
    ]
    assert lines == expected
    assert any("phone" not in written for written in lines)


def test_sample_of_the_other_entity() -> None:
    """`sample` writes the records of the entity that it is asked for, and no others."""
    lines = run("sample", USERS, "Email", "--count", "10").stdout.splitlines()
    emails = [email for user in generate_users(10) for email in generate_emails(user)]
    assert [json.loads(text)["email"] for text in lines] == [email.email for email in emails]


# --- load ------------------------------------------------------------------------------------------------------


def stored(record: User | Email) -> User | Email | None:
    """What the store that commands wrote to holds under the id of a record."""

    async def find() -> User | Email | None:
        async with open_catalog(catalog, STORE) as db:
            return await (db.get(Email, record.email) if isinstance(record, Email) else db.get(User, record.user_id))

    return asyncio.run(find())


def test_load_a_sample_from_a_file() -> None:
    """What `sample` writes, `load` loads, to the last digit."""
    written = run("sample", USERS, "User", "--count", "50").stdout_bytes
    Path("users.jsonl").write_bytes(written)
    result = run("load", USERS, "User", "users.jsonl", *URL)
    assert result.exit_code == 0
    assert re.fullmatch(r"users\.jsonl: 50 records of User written, [\d.]+ s\.\n", result.stdout)
    for user in generate_users(50):
        assert stored(user) == user


def test_progress_is_shown_to_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a bar tells bytes, records a second and rejected lines; elsewhere there is none."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "5").stdout_bytes + b"{}\n")
    quiet = run("load", USERS, "User", "users.jsonl", *URL)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    watched = CliRunner().invoke(app, ["load", USERS, "User", "users.jsonl", *URL], env={"COLUMNS": "200"})
    assert quiet.stderr == ""
    assert "users.jsonl" in watched.stderr
    assert re.search(r"5 records, [\d,]+/s, 1 rejected", watched.stderr)
    assert watched.exit_code == 1


def test_load_says_where_rejected_lines_are() -> None:
    """`load` ends with 1 where lines were rejected, and says in which file they are."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "5").stdout_bytes + b"{}\n")
    result = run("load", USERS, "User", "users.jsonl", *URL)
    assert result.exit_code == 1
    assert "5 records of User written" in result.stdout
    assert "1 line rejected, see users.jsonl.rejected" in result.stdout
    (kept,) = [json.loads(text) for text in Path("users.jsonl.rejected").read_bytes().splitlines()]
    assert (kept["line"], kept["record"]) == (6, "{}")
    assert kept["reason"].startswith("userId: Field required; beneficiaryId: Field required")


def test_load_sample_data() -> None:
    """`load --sample` fills a catalog with all entities of its sample."""
    result = run("load", USERS, "--sample", "40", "--batch", "7", *URL)
    emails = [email for user in generate_users(40) for email in generate_emails(user)]
    assert result.exit_code == 0
    assert f"Sample data: 40 of User and {len(emails)} of Email written" in result.stdout
    assert stored(emails[-1]) == emails[-1]


def test_sample_from_an_asynchronous_generator() -> None:
    """A module of one's own offers sample data by a generator of either kind, also an asynchronous one."""
    Path("own_shop.py").write_text(
        "from graphql_api import Catalog, Entity, Id\n\n"
        "class Ware(Entity):\n    ware_id: Id[str]\n\n"
        "catalog = Catalog(Ware)\n\n"
        "async def sample(count):\n    for number in range(count):\n        yield Ware(ware_id=f'w{number}')\n"
    )
    assert "3 of Ware written" in run("load", "own_shop:catalog", "--sample", "3", *URL).stdout
    assert run("sample", "own_shop:catalog", "Ware", "--count", "1").stdout == '{"wareId":"w0"}\n'


def test_module_without_sample_data() -> None:
    """A module that offers no sample data is told so, with what to write."""
    Path("plain_shop.py").write_text(
        "from graphql_api import Catalog, Entity, Id\n\n"
        "class Ware(Entity):\n    ware_id: Id[str]\n\n"
        "catalog = Catalog(Ware)\n"
    )
    result = run("load", "plain_shop:catalog", "--sample", "3", *URL)
    assert result.exit_code == 4
    assert "'plain_shop' provides no sample data: define sample(count)" in result.stderr


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (("load", "graphql_api.examples.user:catalog", "User", "x"), 4, "Did you mean 'graphql_api.examples.users'?"),
        (("load", "graphql_api.examples.users:catalogue", "User", "x"), 4, "Did you mean 'catalog'?"),
        (("load", "graphql_api.examples.users", "User", "x"), 4, "write MODULE:ATTRIBUTE"),
        (("load", USERS, "Usr", "x"), 4, "declares no entity 'Usr'. Did you mean 'User'?"),
        (("sample", USERS, "Mail"), 4, "declares no entity 'Mail'. Did you mean 'Email'?"),
        (("load", USERS, "User", "nowhere.jsonl"), 2, "'nowhere.jsonl' does not exist"),
        (("load", USERS, "User", "."), 2, "is a directory"),
        (("load", USERS, "User"), 2, "Provide ENTITY and FILE, or --sample N."),
        (("load", USERS), 2, "Provide ENTITY and FILE, or --sample N."),
        (("load", USERS, "User", "x", "--sample", "3"), 2, "Provide ENTITY and FILE, or --sample N."),
        (("load", USERS, "User", "x", "--batch", "0"), 2, "--batch"),
        (("load", USERS, "User", "x", "--store", "mysql://x"), 2, "'mysql://x' is not a store URL. Use sqlite:///"),
        (("load", USERS, "User", "x", "--store", "sqlite:///none/x.db"), 3, "the directory none does not exist"),
        (("load", USERS, "User", "x", "--store", "sqlite:///x"), 3, "x"),
    ],
)
def test_mistakes(words: tuple[str, ...], exit_code: int, message: str) -> None:
    """A mistake on the command line is told in one line, with what to do and an exit code of its kind."""
    Path("x").write_text("no database, nor a record")
    result = run(*words, *(() if "--store" in words or words[0] == "sample" else URL))
    assert result.exit_code == exit_code
    assert message in said(result)
    assert result.stdout == ""
    if "Usage:" not in result.stderr:
        assert re.fullmatch(r"shardql: .+\n", result.stderr)


def test_invalid_catalog_lists_everything() -> None:
    """A catalog with problems ends a command with 4, and all of them are listed."""
    Path("wrong_shop.py").write_text(
        "from graphql_api import Catalog, Entity, Id, Index\n\n"
        "class Ware(Entity):\n    ware_id: Id[float]\n    tags: list[str]\n\n    by_tags = Index(sort='tags')\n\n"
        "catalog = Catalog(Ware)\n"
    )
    result = run("load", "wrong_shop:catalog", "--sample", "1", *URL)
    assert result.exit_code == 4
    assert "Ware.ware_id" in result.stderr
    assert "Ware.by_tags" in result.stderr


def interrupt(monkeypatch: pytest.MonkeyPatch, words: Sequence[str], write: int) -> Result:
    """A load on which Ctrl-C is pressed during a write; the writes before it only seem to succeed."""
    writes = 0

    async def put_records(*arguments: Any, **_: Any) -> list[None]:
        nonlocal writes
        writes += 1
        if writes == write:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(10)
        return [None for _ in arguments[2]]

    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # Shells let background jobs ignore it.
    try:
        with monkeypatch.context() as patched:
            patched.setattr("graphql_api.database.put_records", put_records)
            return run(*words)
    finally:
        signal.signal(signal.SIGINT, heard)


def test_stopped_load_goes_on_by_the_same_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends a load with 130, and the same command goes on from there."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "50").stdout_bytes)
    words = ("load", USERS, "User", "users.jsonl", "--batch", "10", *URL)
    stopped = interrupt(monkeypatch, words, write=3)
    assert stopped.exit_code == 130
    assert "Run the same command again to resume." in stopped.stderr
    assert run(*words).exit_code == 0
    users = [*generate_users(50)]
    assert stored(users[19]) is None
    assert stored(users[20]) == users[20]


def test_load_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """`load --anew` forgets where an earlier load was stopped."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "20").stdout_bytes)
    words = ("load", USERS, "User", "users.jsonl", "--batch", "10", *URL)
    assert interrupt(monkeypatch, words, write=2).exit_code == 130
    assert run(*words, "--anew").exit_code == 0
    first = next(generate_users(1))
    assert stored(first) == first


def test_load_into_a_store_that_was_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was removed after its load was stopped gets all of the file, and not what was left of it."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "20").stdout_bytes)
    words = ("load", USERS, "User", "users.jsonl", "--batch", "10", *URL)
    assert interrupt(monkeypatch, words, write=2).exit_code == 130
    for file in Path().glob("test.db*"):
        file.unlink()
    assert run(*words).exit_code == 0
    first = next(generate_users(1))
    assert stored(first) == first


def test_load_from_a_pipe() -> None:
    """What cannot be read again where a load was stopped is refused, and it is said what to do."""
    os.mkfifo("users.jsonl")
    told = run("load", USERS, "User", "users.jsonl", *URL)
    assert told.exit_code == 2
    assert "'users.jsonl' is not a regular file. Write the lines to one first" in told.stderr


# --- show ------------------------------------------------------------------------------------------------------


def test_show_explains_each_page() -> None:
    """`show` prints six pages with index, range, shards and work; the first two are one search that goes on."""
    result = run("show", "--people", "300", *URL)
    assert result.exit_code == 0
    assert result.stdout.count("await db.search(") == 6
    for word in ("index", "range", "shards", "work", "nextToken"):
        assert len(re.findall(rf"^{word} ", result.stdout, re.MULTILINE)) == 6
    assert "17: user!, user!00, user!01 … user!0f" in result.stdout
    assert "2: user!|userId#" in result.stdout
    assert "reversed" in result.stdout
    assert re.search(r"next_token='[\w-]+…'", result.stdout)


def test_show_shows_what_is_there() -> None:
    """The pages of `show` hold the sample's records in the order that they claim."""
    output = run("show", "--people", "300", *URL).stdout
    users = [*generate_users(300)]
    named = [user for user in users if user.first_name_canonical.startswith("jo")]
    named.sort(key=lambda user: (user.first_name_canonical, user.last_name_canonical, user.created, user.user_id))
    newest = sorted(users, key=lambda user: (user.created, user.user_id), reverse=True)
    callers = sorted(
        (user for user in users if (user.phone or "").startswith("1773")), key=lambda user: user.phone or ""
    )
    for group, size in ((named, 16), (newest, 5), (callers, 5)):
        places = [output.find(user.user_id) for user in group[:size]]
        assert -1 not in places
    assert [output.find(user.user_id) for user in named[:16]] == sorted(
        output.find(user.user_id) for user in named[:16]
    )
    assert len(named) >= 16


def test_show_fills_once() -> None:
    """The second start of `show` finds the sample data there, and prints the same records."""
    first, second = run("show", "--people", "60", *URL).stdout, run("show", "--people", "60", *URL).stdout
    assert re.match(r"Wrote \d+ sample records to sqlite:///test\.db\.\n", first)
    assert "Wrote" not in second
    without_tokens = [re.sub(r"[\w-]{60,}|next_token=\S+", "", text).split() for text in (first, second)]
    assert without_tokens[0][6:] == without_tokens[1]
    assert "Wrote" in run("show", "--people", "90", *URL).stdout


def test_show_keeps_its_data_in_the_directory() -> None:
    """Without a URL `show` keeps its data in a file of the working directory, and one person is enough for it."""
    assert run("show", "--people", "1").exit_code == 0
    assert Path("users.db").exists()


# --- help ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["load", "sample", "serve", "show"])
def test_help_teaches(command: str) -> None:
    """Each command has help with an example of itself, and a sentence about each argument and option."""
    overview, result = run(), run(command, "--help")
    assert re.search(rf"\b{command}\b", said(overview))
    assert result.exit_code == 0
    assert f"shardql {command}" in said(result).partition("Options")[0].replace("Usage: shardql", "")
    parameters: Any = getattr(get_command(app), "commands")[command].params  # noqa: B009 - of a group, not of all
    assert [parameter.name for parameter in parameters if not str(parameter.help).endswith(".")] == []


def test_module_is_the_command() -> None:
    """`python -m graphql_api.cli` runs the same commands."""
    root = Path(graphql_api.__file__).parents[1]
    listed = subprocess.run(
        [sys.executable, "-m", "graphql_api.cli", "--help"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert b"Usage: shardql" in listed.stdout


def test_version() -> None:
    """The command tells its version, and does nothing else."""
    told = CliRunner().invoke(app, ["--version", "serve", USERS])
    assert (told.exit_code, told.output) == (0, f"shardql {version('shardql')}\n")
