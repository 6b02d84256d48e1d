"""`shardql doctor`: findings, remedies, and exit codes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from graphql_api.ops import TableState, read_state
from graphql_api.storage import Store
from tests.server.server_processes import KEY
from tests.support.cli_runner import USERS, run
from tests.support.dynamodb_servers import CREDENTIALS

FLAGS = """from graphql_api import Catalog, Entity, Id, Index

class Flag(Entity):
    flag_id: Id[str]
    raised: bool
    number: str
    {extra}
    by_raised = Index(hash="raised")
    by_number = Index(sort="number")

catalog = Catalog(Flag)

def sample(count):
    model = next(iter(catalog.entities.values())).model
    return [model(flag_id=f"f{{n}}", raised=True, number=str(n)) for n in range(count)]
"""


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory, and can import modules from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


ABOUT = ["versions", "catalog", "schema", "settings", "access", "token key", "record key", "callers", "store", "table"]
"""The topics of every report."""


def examine(*words: str) -> tuple[int, dict[str, list[str]]]:
    """Return the exit code, and the report lines by topic, each with its mark."""
    result = run("doctor", *words)
    lines: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        mark, rest = line[0], line[2:]
        topic = next(name for name in (*ABOUT, "documents") if rest.startswith(name))
        lines.setdefault(topic, []).append(f"{mark} {rest.removeprefix(topic).strip()}")
    assert result.stderr == ""
    return result.exit_code, lines


def test_no_findings() -> None:
    """With a loaded store, every check passes and the exit code is 0."""
    run("load", USERS, "--sample", "30", "--store", "sqlite:///users.db")
    code, lines = examine(USERS, "--store", "sqlite:///users.db")
    assert code == 0
    assert [*lines] == ABOUT
    assert all(
        line.startswith("✓ ") for topic, topic_lines in lines.items() if topic != "access" for line in topic_lines
    )
    assert lines["catalog"] == ["✓ User, Email: 11 of at most 20 indexes per table."]
    assert lines["table"] == ["✓ The table has everything that the catalog needs."]
    assert lines["settings"][0] == "✓ SHARDQL_STORE = sqlite:///users.db (argument)"


def test_global_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a global table, the regions are listed, since servers may write in one of them only. This is no finding."""

    async def read_global(store: Store) -> TableState:
        state = await read_state(store)
        assert state.definition is not None
        return replace(state, definition=replace(state.definition, replica_regions=("eu-west-1", "us-east-1")))

    run("load", USERS, "--sample", "30", "--store", "sqlite:///users.db")
    monkeypatch.setattr("graphql_api.cli.doctor_checks.read_state", read_global)
    code, lines = examine(USERS, "--store", "sqlite:///users.db")
    assert code == 0
    assert lines["table"] == [
        "✓ The table has everything that the catalog needs.",
        (
            "· The table is a global table, with replicas in eu-west-1, us-east-1. Let servers write in one region "
            "only: conditions, and the record of the table, hold within a region."
        ),
    ]


def test_before_the_first_start() -> None:
    """Before the first start there are no findings, and nothing is created."""
    code, lines = examine(USERS)
    assert code == 0
    assert lines["store"] == ["✓ There is no file shardql.db yet: the first start creates it."]
    none_yet = ["✓ There is none yet: the first start creates one and stores it next to the SQLite file."]
    assert lines["token key"] == lines["record key"] == none_yet
    assert [*Path().iterdir()] == []


def test_a_table_of_another_catalog() -> None:
    """Missing indexes are one finding with the command that adds them. The exit code is 1."""
    Path("flags.py").write_text(FLAGS.format(extra=""))
    run("load", "flags:catalog", "--sample", "0", "--store", "sqlite:///flags.db")
    code, lines = examine(USERS, "--store", "sqlite:///flags.db")
    assert code == 1
    assert lines["table"][0].startswith("! The table has no index created, updated, phone, firstName, lastName, ")
    assert lines["table"][0].endswith(f'shardql table create {USERS} --store "sqlite:///flags.db"')
    (foreign,) = lines["table"][1:]
    assert foreign.startswith("! The table belongs to other catalogs: it knows flag, and no entity of this one. ")


@pytest.mark.parametrize("stored", [False, True])
def test_findings_of_the_catalog(stored: bool) -> None:
    """Hot hash keys and unpadded numbers are findings. Numbers come from stored records or from the sample."""
    module = f"advised_{stored}".lower()
    Path(f"{module}.py").write_text(FLAGS.format(extra=""))
    if stored:
        run("load", f"{module}:catalog", "--sample", "12", "--store", "sqlite:///shardql.db")
    code, lines = examine(f"{module}:catalog")
    assert code == 1
    assert [line.split(":")[0] for line in lines["catalog"]] == ["✓ Flag", "! Flag.by_raised", "! Flag.number"]
    looked_at = "'11' comes before '2'" if stored else "'109' comes before '11'"
    assert looked_at in lines["catalog"][2]


def test_titles_with_numbers() -> None:
    """Titles that end in a number are no finding: nothing says that the number orders them."""
    Path("topics.py").write_text(
        FLAGS.format(extra="")
        .replace('    by_raised = Index(hash="raised")\n', "")
        .replace("number=str(n)", 'number=f"Topic {n}"')
    )
    code, lines = examine("topics:catalog")
    assert (code, lines["catalog"]) == (0, ["✓ Flag: 1 of at most 20 indexes per table."])


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (
            'yield Flag(flag_id="f", flag="up")',
            "ValidationError: raised: Field required; number: Field required; flag: Extra inputs are not permitted",
        ),
        ("yield 1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_sample_that_does_not_fit_the_entities(sample: str, reason: str) -> None:
    """A failing sample() is reported like other errors of the catalog's module, by every command that needs it."""
    module = f"outdated_{len(sample)}"
    text = FLAGS.format(extra="")
    Path(f"{module}.py").write_text(f"{text[: text.index('def sample')]}def sample(count):\n    {sample}\n")
    code, lines = examine(f"{module}:catalog")
    assert code == 4
    message = f"of module '{module}' raises {reason}. Correct or remove it."
    assert f"✗ sample(200) {message}" in lines["catalog"]
    for command, count in (("sample {} Flag --count 7", 7), ("capacity {}", 1000), ("load {} --sample 7", 7)):
        store = ["--store", "sqlite:///flags.db"] if "load" in command else []
        result = run(*command.format(f"{module}:catalog").split(), *store)
        assert (result.exit_code, result.stderr) == (4, f"shardql: sample({count}) {message}\n")


def test_file_instead_of_a_module() -> None:
    """A command that gets a file instead of a module says which module to name."""
    Path("flagged.py").write_text(FLAGS.format(extra=""))
    result = run("serve", "flagged.py:catalog")
    message = "shardql: 'flagged.py' is a file. Write the name of its module: flagged:catalog.\n"
    assert (result.exit_code, result.stderr) == (4, message)


def test_index_that_is_not_covering() -> None:
    """The cost of an index that is not covering is a note, not a finding."""
    Path("bare_flags.py").write_text(
        FLAGS.format(extra="note: str = ''\n    by_bare = Index(sort='note', projection='KEYS_ONLY')")
        .replace('    by_raised = Index(hash="raised")\n', "")
        .replace("number=str(n)", 'number=f"{n:04d}"')
    )
    code, lines = examine("bare_flags:catalog")
    assert code == 0
    fine, note = lines["catalog"]
    assert fine.startswith("✓ Flag: 2 of at most 20 indexes")
    assert note.startswith(
        "· Flag.by_bare: does not project raised, number: selecting or filtering by one of them reads "
    )
    assert " read units, not 0.5; with a filter, 0.5 more for each record that is examined. Add the properties " in note
    shown = json.loads(run("doctor", "bare_flags:catalog", "--json").stdout)
    assert [check["status"] for check in shown["checks"] if check["topic"] == "catalog"] == ["fine", "note"]


RULED = """
from graphql_api import Catalog, Entity, Id, anyone, group, owner


class Paper(Entity, allow=[group("Admin"), owner("author_id")]):
    paper_id: Id[str]
    author_id: str


class Letter(Entity, allow=[group("Admin"), owner("author_id")]):
    letter_id: Id[str]
    author_id: str


class Post(Entity, allow=anyone, write=anyone):
    post_id: Id[str]


class Rule(Entity, allow=anyone, write=[]):
    rule_id: Id[str]
{extra}

catalog = Catalog(Paper, Letter, Post, Rule{more})
"""


def test_write_access() -> None:
    """The report lists who may write each entity. Unrestricted writing without a write rule is a note."""
    Path("ruled_papers.py").write_text(RULED.format(extra="", more=""))
    code, lines = examine("ruled_papers:catalog")
    assert code == 0
    writers = [
        "✓ Members of Admin or the owner (authorId) may write Paper, Letter.",
        "✓ Everyone may write Post.",
        "✓ No caller may write Rule.",
    ]
    assert lines["access"] == ["✓ Every entity declares who may read and write it.", *writers]
    wall = "\n\nclass Wall(Entity, allow=anyone):\n    wall_id: Id[str]\n"
    Path("papers_on_walls.py").write_text(RULED.format(extra=wall, more=", Wall"))
    code, lines = examine("papers_on_walls:catalog")
    assert code == 0
    note, *others = lines["access"]
    assert note == (
        "· Anyone who reaches the server can write Wall: allow= allows anyone, and write= is not set. "
        "Set write=, or write=anyone if that is intended."
    )
    assert others == writers


def test_read_only_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of a read-only server does not list who may write."""
    monkeypatch.setenv("SHARDQL_READ_ONLY", "1")
    Path("read_papers.py").write_text(RULED.format(extra="", more=""))
    assert examine("read_papers:catalog")[1]["access"] == ["✓ Every entity declares who may read it."]


def test_missing_access_rules() -> None:
    """Entities without access rules are a note, not a finding."""
    code, lines = examine(USERS)
    assert code == 0
    (note,) = lines["access"]
    assert note.startswith(
        "· Anyone who reaches the server can read and write User, Email: no access rule is declared. Set allow=, "
    )


def test_invalid_catalog() -> None:
    """Each violation of a catalog is a line with its remedy. Other topics are checked, and the exit code is 4."""
    Path("broken_flags.py").write_text(FLAGS.format(extra="tags: list[str]\n    by_tags = Index(sort='tags')"))
    code, lines = examine("broken_flags:catalog", "--store", "sqlite:///none/x.db")
    assert code == 4
    assert lines["catalog"] == ["✗ Flag.by_tags: is sorted by tags, which is no scalar. Name a scalar property."]
    assert lines["store"] == ["✗ There is no directory none. Create it, or name another one with --store."]


def test_conflicting_schema_names() -> None:
    """Conflicting GraphQL names are an error of the schema. The exit code is 4."""
    declared = "class PageInfo(Flag):\n    pass\n\ncatalog = Catalog(PageInfo)"
    Path("twice_flags.py").write_text(FLAGS.format(extra="").replace("catalog = Catalog(Flag)", declared))
    code, lines = examine("twice_flags:catalog")
    assert code == 4
    assert lines["catalog"][0].startswith("✓ PageInfo: ")
    assert lines["schema"][0].startswith("✗ PageInfo: becomes the type 'PageInfo', which is taken by ")


@pytest.mark.parametrize(
    ("words", "exit_code", "topic", "message"),
    [
        (("graphql_api.examples.user:catalog",), 4, "catalog", "✗ There is no module 'graphql_api.examples.user'. Did"),
        ((USERS, "--store", "sqlite:///user.db"), 1, "store", "! There is no file user.db. Did you mean 'users.db'?"),
        ((USERS, "--store", "sqlite:///file.txt"), 3, "store", "✗ file.txt is not a SQLite database"),
        (
            (USERS, "--store", "sqlte:///users.db"),
            2,
            "store",
            "✗ 'sqlte:///users.db' is not a store URL. Use sqlite:///",
        ),
    ],
)
def test_misspelled_arguments(words: tuple[str, ...], exit_code: int, topic: str, message: str) -> None:
    """A misspelled module or store is one line with the nearest name, and the matching exit code."""
    Path("users.db").touch()
    Path("file.txt").write_text("no database\n" * 100)
    code, lines = examine(*words)
    assert code == exit_code
    assert lines[topic][0].startswith(message)


def test_unavailable_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unavailable store ends the command with 3. Missing keys are findings."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    code, lines = examine(
        USERS, "--store", "dynamodb://users?endpoint=http://127.0.0.1:1&deadline=0.5&table_deadline=0.5"
    )
    assert code == 3
    assert lines["store"][0].startswith("✗ ")
    assert lines["token key"][0].startswith("! There is none: page tokens become invalid when a server stops")
    assert lines["record key"][0].startswith("! There is none: record keys become invalid when a server stops")
    assert "table" not in lines


def test_settings_with_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed settings are listed with their source, secrets without values. JSON lists all settings."""
    monkeypatch.setenv("SHARDQL_TOKEN_KEYS", KEY)
    monkeypatch.setenv("SHARDQL_RECORD_KEY", KEY[::-1])
    monkeypatch.setenv("SHARDQL_PORT", "8123")
    code, lines = examine(USERS)
    assert code == 0
    assert "✓ SHARDQL_PORT = 8123 (environment)" in lines["settings"]
    assert "✓ SHARDQL_TOKEN_KEYS = 1 secret (environment)" in lines["settings"]
    assert "✓ SHARDQL_RECORD_KEY = 1 secret (environment)" in lines["settings"]
    assert lines["token key"] == ["✓ Page tokens are sealed with 1 key from the settings."]
    assert lines["record key"] == ["✓ Record keys are signed with the key from the settings."]
    shown = json.loads(run("doctor", USERS, "--json").stdout)
    origins = {setting["variable"]: setting["origin"] for setting in shown["settings"]}
    assert origins["SHARDQL_PORT"] == "environment"
    assert origins["SHARDQL_HOST"] == "default"
    assert KEY not in json.dumps(shown)
    assert KEY[::-1] not in json.dumps(shown)


def test_production_without_required_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that production lacks are errors. The exit code is 2."""
    monkeypatch.setenv("SHARDQL_PRODUCTION", "1")
    code, lines = examine(USERS)
    assert code == 2
    wrong = [line for line in lines["settings"] if line.startswith("✗")]
    assert [line[:40] for line in wrong] == [
        "✗ Production needs a key that seals page",
        "✗ Production needs a key that signs reco",
        "✗ Production needs a store: pass --store",
    ]
    assert not {"token key", "record key"} & {*lines}


def test_misspelled_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelled variable is reported with the nearest name. JSON has the same checks and exit code."""
    monkeypatch.setenv("SHARDQL_PORTT", "1")
    result = run("doctor", USERS, "--json")
    shown = json.loads(result.stdout)
    assert result.exit_code == shown["exitCode"] == 2
    assert {
        "topic": "settings",
        "status": "wrong",
        "message": "SHARDQL_PORTT is not a setting. Did you mean SHARDQL_PORT?",
        "remedy": None,
    } in shown["checks"]


@pytest.mark.parametrize(
    ("content", "code", "expected"),
    [
        (None, 2, ["✗ SHARDQL_DOCUMENTS names trusted.json: No such file or directory."]),
        ("{", 2, ["✗ SHARDQL_DOCUMENTS names trusted.json, which is not JSON"]),
        ('{"a": 1}', 2, ["✗ SHARDQL_DOCUMENTS names trusted.json, which is not a JSON object of queries by id."]),
        ('{"a": "{ __typename }"}', 0, ["✓ 1 in trusted.json, all valid for the schema."]),
        (
            json.dumps({"good": "{ __typename }", "old": "{ gone }", "cut": "{", "deep": "{a" * 16 + "}" * 16}),
            1,
            [
                "! old: line 1, column 3: Cannot query field 'gone' on type 'Query'.",
                "! cut: line 1, column 2: Syntax Error",
                "! deep: The operation is 16 levels deep; the limit is 15",
            ],
        ),
    ],
    ids=["missing", "no JSON", "no queries", "fine", "unfit"],
)
def test_trusted_documents(
    monkeypatch: pytest.MonkeyPatch, content: str | None, code: int, expected: list[str]
) -> None:
    """Each trusted document that the server would refuse is a finding with its position."""
    monkeypatch.setenv("SHARDQL_DOCUMENTS", "trusted.json")
    if content is not None:
        Path("trusted.json").write_text(content, "utf-8")
    found, lines = examine(USERS)
    assert found == code
    assert len(lines["documents"]) == len(expected)
    assert all(line.startswith(start) for line, start in zip(lines["documents"], expected, strict=True)), lines[
        "documents"
    ]
