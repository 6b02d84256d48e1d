"""The commands `sample`, `load` and `show`: output, stored records, and exit codes."""

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

import pytest
from typer.testing import CliRunner, Result

import graphql_api
from graphql_api.cli import app, load_command
from graphql_api.connection import open_catalog
from graphql_api.database import Database
from graphql_api.examples.users import Email, User, catalog, generate_emails, generate_users
from graphql_api.model.entity import Entity

USERS = "graphql_api.examples.users:catalog"
STORE = "sqlite:///test.db"
URL = ("--store", STORE)


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory."""
    monkeypatch.chdir(tmp_path)


def run(*words: str, width: int = 300) -> Result:
    """Run a command. Unexpected exceptions are raised."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": str(width), "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def plain_output(result: Result) -> str:
    """Return the output without boxes and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


# --- sample ----------------------------------------------------------------------------------------------------


def test_sample_writes_stored_names() -> None:
    """`sample` writes one JSON object per line under stored names, without derived and missing properties."""
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


def test_sample_of_one_entity() -> None:
    """`sample` writes the records of the given entity only."""
    lines = run("sample", USERS, "Email", "--count", "10").stdout.splitlines()
    emails = [email for user in generate_users(10) for email in generate_emails(user)]
    assert [json.loads(text)["email"] for text in lines] == [email.email for email in emails]


# --- load ------------------------------------------------------------------------------------------------------


def stored_record(record: User | Email) -> User | Email | None:
    """Return the stored version of a record."""

    async def find() -> User | Email | None:
        async with open_catalog(catalog, STORE) as db:
            return await (db.get(Email, record.email) if isinstance(record, Email) else db.get(User, record.user_id))

    return asyncio.run(find())


def test_load_a_sample_from_a_file() -> None:
    """`load` stores exactly the records that `sample` writes."""
    written = run("sample", USERS, "User", "--count", "50").stdout_bytes
    Path("users.jsonl").write_bytes(written)
    result = run("load", USERS, "User", "users.jsonl", *URL)
    assert result.exit_code == 0
    assert re.fullmatch(r"users\.jsonl: 50 records of User written, [\d.]+ s\.\n", result.stdout)
    for user in generate_users(50):
        assert stored_record(user) == user


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, progress shows file, records per second and rejected lines. Otherwise it is hidden."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "5").stdout_bytes + b"{}\n")
    quiet = run("load", USERS, "User", "users.jsonl", *URL)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    on_terminal = CliRunner().invoke(app, ["load", USERS, "User", "users.jsonl", *URL], env={"COLUMNS": "200"})
    assert quiet.stderr == ""
    assert "users.jsonl" in on_terminal.stderr
    assert re.search(r"5 records, [\d,]+/s, 1 rejected", on_terminal.stderr)
    assert on_terminal.exit_code == 1


def test_rejected_lines() -> None:
    """If lines are rejected, `load` ends with 1 and names the file that contains them."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "5").stdout_bytes + b"{}\n")
    result = run("load", USERS, "User", "users.jsonl", *URL)
    assert result.exit_code == 1
    assert "5 records of User written" in result.stdout
    assert "1 line rejected, see users.jsonl.rejected" in result.stdout
    (kept,) = [json.loads(text) for text in Path("users.jsonl.rejected").read_bytes().splitlines()]
    assert (kept["line"], kept["record"]) == (6, "{}")
    assert kept["reason"].startswith("userId: Field required; beneficiaryId: Field required")


def test_load_sample_data() -> None:
    """`load --sample` stores all entities of the sample."""
    result = run("load", USERS, "--sample", "40", "--batch", "7", *URL)
    emails = [email for user in generate_users(40) for email in generate_emails(user)]
    assert result.exit_code == 0
    assert f"Sample data: 40 of User and {len(emails)} of Email written" in result.stdout
    assert stored_record(emails[-1]) == emails[-1]


def test_sample_from_an_asynchronous_generator() -> None:
    """A module may provide sample data by an asynchronous generator."""
    Path("own_shop.py").write_text(
        "from graphql_api import Catalog, Entity, Id\n\n"
        "class Ware(Entity):\n    ware_id: Id[str]\n\n"
        "catalog = Catalog(Ware)\n\n"
        "async def sample(count):\n    for number in range(count):\n        yield Ware(ware_id=f'w{number}')\n"
    )
    assert "3 of Ware written" in run("load", "own_shop:catalog", "--sample", "3", *URL).stdout
    assert run("sample", "own_shop:catalog", "Ware", "--count", "1").stdout == '{"wareId":"w0"}\n'


def test_module_without_sample_data() -> None:
    """A module without sample data is an error that says what to define."""
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
def test_errors(words: tuple[str, ...], exit_code: int, message: str) -> None:
    """An invalid command prints one line with the remedy, and has an exit code for the kind of error."""
    Path("x").write_text("no database, nor a record")
    result = run(*words, *(() if "--store" in words or words[0] == "sample" else URL))
    assert result.exit_code == exit_code
    assert message in plain_output(result)
    assert result.stdout == ""
    if "Usage:" not in result.stderr:
        assert re.fullmatch(r"shardql: .+\n", result.stderr)


def test_invalid_catalog_lists_everything() -> None:
    """An invalid catalog ends a command with 4 and a list of all problems."""
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
    """Run a load with Ctrl-C during a write. The preceding writes store nothing."""
    writes = 0

    async def restore_many(_: Database, records: Sequence[Entity]) -> list[None]:
        nonlocal writes
        writes += 1
        if writes == write:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(10)
        return [None for _ in records]

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # Shells let background jobs ignore it.
    try:
        with monkeypatch.context() as patched:
            patched.setattr(Database, "restore_many", restore_many)
            return run(*words)
    finally:
        signal.signal(signal.SIGINT, previous)


def test_interrupted_load_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends a load with 130. The same command resumes it."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "50").stdout_bytes)
    words = ("load", USERS, "User", "users.jsonl", "--batch", "10", *URL)
    stopped = interrupt(monkeypatch, words, write=3)
    assert stopped.exit_code == 130
    assert "Run the same command again to resume." in stopped.stderr
    assert run(*words).exit_code == 0
    users = [*generate_users(50)]
    assert stored_record(users[19]) is None
    assert stored_record(users[20]) == users[20]


def test_load_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """`load --restart` ignores the progress of an interrupted load."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "20").stdout_bytes)
    words = ("load", USERS, "User", "users.jsonl", "--batch", "10", *URL)
    assert interrupt(monkeypatch, words, write=2).exit_code == 130
    assert run(*words, "--restart").exit_code == 0
    first = next(generate_users(1))
    assert stored_record(first) == first


def test_load_into_a_new_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the store was deleted after an interrupted load, the next load starts from the beginning."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "20").stdout_bytes)
    words = ("load", USERS, "User", "users.jsonl", "--batch", "10", *URL)
    assert interrupt(monkeypatch, words, write=2).exit_code == 130
    for file in Path().glob("test.db*"):
        file.unlink()
    assert run(*words).exit_code == 0
    first = next(generate_users(1))
    assert stored_record(first) == first


def test_load_while_the_table_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the table's record between an interrupted load and the next one does not start it over."""
    Path("users.jsonl").write_bytes(run("sample", USERS, "User", "--count", "30").stdout_bytes)
    words = ("load", USERS, "User", "users.jsonl", "--batch", "10", *URL)
    assert interrupt(monkeypatch, words, write=2).exit_code == 130
    Path("other_catalog.py").write_text(
        "from graphql_api import Catalog, Entity, Id\n\nclass Ware(Entity):\n    ware_id: Id[str]\n\n"
        "catalog = Catalog(Ware)\n"
    )
    assert run("table", "create", "other_catalog:catalog", "--adopt-table", *URL).exit_code == 0
    assert run(*words).exit_code == 0
    users = [*generate_users(30)]
    assert stored_record(users[9]) is None, "the load did not begin again"
    assert stored_record(users[10]) == users[10]


def test_load_from_a_pipe() -> None:
    """A file that cannot be read again is refused with the remedy."""
    os.mkfifo("users.jsonl")
    result = run("load", USERS, "User", "users.jsonl", *URL)
    assert result.exit_code == 2
    assert "'users.jsonl' is not a regular file. Write the lines to one first" in result.stderr


# --- show ------------------------------------------------------------------------------------------------------


def test_show_explains_each_page() -> None:
    """`show` prints six pages with their plan and cost. The first two are pages of one search."""
    result = run("show", "--people", "300", *URL)
    assert result.exit_code == 0
    assert result.stdout.count("await db.search(") == 6
    for word in ("index", "range", "shards", "work", "nextToken"):
        assert len(re.findall(rf"^{word} ", result.stdout, re.MULTILINE)) == 6
    assert "17: user!, user!00, user!01 … user!0f" in result.stdout
    assert "2: user!|userId#" in result.stdout
    assert "reversed" in result.stdout
    assert re.search(r"next_token='[\w-]+…'", result.stdout)


def test_show_prints_stored_records() -> None:
    """The pages of `show` contain stored records in the described order."""
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


def test_show_writes_the_sample_once() -> None:
    """The second run of `show` finds the sample data, and prints the same records."""
    first, second = run("show", "--people", "60", *URL).stdout, run("show", "--people", "60", *URL).stdout
    assert re.match(r"Wrote \d+ sample records to sqlite:///test\.db\.\n", first)
    assert "Wrote" not in second
    without_tokens = [re.sub(r"[\w-]{60,}|next_token=\S+", "", text).split() for text in (first, second)]
    assert without_tokens[0][6:] == without_tokens[1]
    assert "Wrote" in run("show", "--people", "90", *URL).stdout


def test_show_replaces_a_changed_sample() -> None:
    """`show` writes the sample again if the last user is stored with other values."""
    run("show", "--people", "30", *URL)
    *_, last = run("sample", USERS, "User", "--count", "30").stdout.splitlines()
    Path("other.jsonl").write_text(json.dumps(json.loads(last) | {"lastName": "Other"}), encoding="utf-8")
    assert run("load", USERS, "User", "other.jsonl", *URL).exit_code == 0
    assert "Wrote" in run("show", "--people", "30", *URL).stdout
    assert "Wrote" not in run("show", "--people", "30", *URL).stdout


def test_show_default_store() -> None:
    """Without a URL, `show` stores its data in the working directory. One person is enough."""
    assert run("show", "--people", "1").exit_code == 0
    assert Path("users.db").exists()


# --- help ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["load", "sample", "serve", "show"])
def test_help_has_examples(command: str) -> None:
    """Each command has help with an example, and a sentence for each argument and option."""
    overview, result = run(), run(command, "--help")
    assert re.search(rf"\b{command}\b", plain_output(overview))
    assert result.exit_code == 0
    assert f"shardql {command}" in plain_output(result).partition("Options")[0].replace("Usage: shardql", "")
    assert [parameter.name for parameter in load_command(command).params if not str(parameter.help).endswith(".")] == []


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
    """`--version` prints the version, and does nothing else."""
    result = CliRunner().invoke(app, ["--version", "serve", USERS])
    assert (result.exit_code, result.output) == (0, f"shardql {version('shardql')}\n")
