"""`shardql schema`: the printed schema, and what its changes do to clients."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from graphql import build_schema

from tests.unit.shell import USERS, run

SHOP = """from graphql_api import Catalog, Entity, Id, Index

class {name}(Entity):
    ware_id: Id[str]
    title: str{optional}
    by_title = Index(sort="title")

catalog = Catalog({name}, namespace={namespace!r})
"""


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run where nothing is, and modules of one test are none of another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def shop(module: str, name: str, namespace: str | None = None, optional: str = "") -> str:
    """The address of a new catalog of one entity."""
    Path(f"{module}.py").write_text(SHOP.format(name=name, namespace=namespace, optional=optional))
    return f"{module}:catalog"


def printed(*addresses: str) -> str:
    """What `schema print` prints."""
    result = run("schema", "print", *addresses)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_print_is_the_schema() -> None:
    """`print` gives a schema in GraphQL's own language, with the descriptions, and the same one every time."""
    text = printed(USERS)
    schema = build_schema(text)
    assert schema.query_type is not None
    assert "userByFirstName" in schema.query_type.fields
    assert '"""Phone number in international form, digits only: `17739999999`."""' in text
    assert text.endswith("}\n")
    assert printed(USERS) == text


def test_check_without_a_difference() -> None:
    """`check` ends with 0 where the file is the schema, however it is laid out."""
    Path("schema.graphql").write_text("# printed\n\n" + printed(USERS).replace("\n\n", "\n\n\n"), "utf-8")
    result = run("schema", "check", USERS)
    assert (result.exit_code, result.stdout) == (0, f"schema.graphql is the schema of {USERS}.\n")


def removed(text: str) -> str:
    """The schema when it still had another field."""
    return text.replace("type User implements Node {\n", "type User implements Node {\n  nickname: String\n")


def narrowed(text: str) -> str:
    """The schema when a field could not be null."""
    return text.replace("phone: String\n", "phone: String!\n")


def grown(text: str) -> str:
    """The schema when an enum had a value less."""
    return text.replace("  PARTIAL\n", "")


def added(text: str) -> str:
    """The schema when a field was not there yet."""
    before, head, fields = text.partition("type User implements Node {\n")
    return before + head + fields.replace('  """First name, as entered by the user."""\n  firstName: String!\n', "", 1)


@pytest.mark.parametrize(
    ("before", "line", "verdict"),
    [
        (removed, "breaking  Field User.nickname was removed.", "Clients will break"),
        (narrowed, "breaking  Field User.phone changed type from String! to String.", "Clients will break"),
        (grown, "dangerous Enum value OnShardFailure.PARTIAL was added.", "To accept all changes"),
        (added, "", "There is also 1 safe change."),
    ],
)
def test_check_tells_what_changes_do(before: Callable[[str], str], line: str, verdict: str) -> None:
    """`check` lists breaking and dangerous changes one a line, counts safe ones, says what to do, and ends with 1."""
    now = printed(USERS)
    Path("schema.graphql").write_text(before(now), "utf-8")
    assert before(now) != now
    result = run("schema", "check", USERS)
    *changes, last = result.stdout.splitlines()
    assert result.exit_code == 1
    assert changes == ([line] if line else [])
    assert last.startswith(f"schema.graphql is no longer the schema of {USERS}.")
    assert verdict in last
    assert last.endswith(f"shardql schema check {USERS} schema.graphql --write")
    assert Path("schema.graphql").read_text("utf-8") == before(now)


def test_check_finds_another_order_of_fields() -> None:
    """A file in which nothing but the order of fields is another one differs, without a change for clients."""
    text = printed(USERS)
    Path("s.graphql").write_text(text.replace("  hasNextPage: Boolean!\n", "  moved: Int\n"), "utf-8")
    one, other = "  expected: Int!\n", "  answered: Int!\n"
    swapped = text.replace(one, "#").replace(other, one).replace("#", other)
    Path("s.graphql").write_text(swapped, "utf-8")
    shown = json.loads(run("schema", "check", USERS, "s.graphql", "--json").stdout)
    assert shown["differs"]
    assert (shown["breaking"], shown["dangerous"]) == ([], [])


def test_write_renews_the_file() -> None:
    """`check --write` tells what changes, writes the file, and ends with 0; then there is no difference any more."""
    now = printed(USERS)
    Path("old.graphql").write_text(removed(now), "utf-8")
    result = run("schema", "check", USERS, "old.graphql", "--write")
    assert result.exit_code == 0
    assert result.stdout == "breaking  Field User.nickname was removed.\nold.graphql is updated.\n"
    assert Path("old.graphql").read_text("utf-8") == now
    assert run("schema", "check", USERS, "old.graphql").exit_code == 0
    again = json.loads(run("schema", "check", USERS, "old.graphql", "--write", "--json").stdout)
    assert (again["differs"], again["written"]) == (False, False)


@pytest.mark.parametrize("text", [None, "<<<<<<< ours\n", "\udcff"])
def test_write_begins_anew(text: str | None) -> None:
    """`check --write` writes the file also where there is none, or one that is no schema."""
    if text is not None:
        Path("schema.graphql").write_bytes(text.encode("utf-8", "surrogateescape"))
    result = run("schema", "check", USERS, "--write")
    assert (result.exit_code, result.stdout) == (0, "schema.graphql is written.\n")
    assert Path("schema.graphql").read_text("utf-8") == printed(USERS)


def test_check_as_json() -> None:
    """`check --json` lists all changes by their kind."""
    Path("old.graphql").write_text(added(removed(printed(USERS))), "utf-8")
    result = run("schema", "check", USERS, "old.graphql", "--json")
    shown = json.loads(result.stdout)
    assert result.exit_code == 1
    assert shown == {
        "file": "old.graphql",
        "differs": True,
        "written": False,
        "breaking": ["Field User.nickname was removed."],
        "dangerous": [],
        "safe": ["Field User.firstName was added."],
    }


# --- several catalogs ------------------------------------------------------------------------------------------


def test_several_catalogs_in_one_schema() -> None:
    """Several catalogs are printed as one schema: what they have in common stands there once, all fields together."""
    other = shop("shop_beside", "Ware")
    text = printed(USERS, other)
    schema = build_schema(text)
    assert schema.query_type is not None
    assert {"userByFirstName", "wareByTitle"} <= set(schema.query_type.fields)
    assert text.count("type PageInfo {") == 1
    assert {*schema.type_map} == {*build_schema(printed(USERS)).type_map, *build_schema(printed(other)).type_map}
    Path("all.graphql").write_text(text, "utf-8")
    assert run("schema", "check", USERS, other, "all.graphql").exit_code == 0
    assert run("schema", "check", USERS, "all.graphql").exit_code == 1


def test_a_catalog_twice_is_itself() -> None:
    """A catalog that is named twice adds nothing to itself."""
    assert build_schema(printed(USERS, USERS)).type_map.keys() == build_schema(printed(USERS)).type_map.keys()


def test_names_that_mean_two_things() -> None:
    """Catalogs that give one name two meanings are not printed together, and all such names are told with remedies."""
    one, other = shop("shop_one", "Ware"), shop("shop_two", "Ware", optional=" | None = None")
    result = run("schema", "print", one, other)
    assert result.exit_code == 4
    assert f"type Ware of {one} and of {other}" in result.stderr
    assert "Set another namespace= on one catalog" in result.stderr
    apart = shop("shop_apart", "Ware", namespace="Two", optional=" | None = None")
    assert "type Two_Ware implements Node {" in printed(one, apart)


# --- mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (("check", USERS), 2, "There is no file schema.graphql. The option --write writes a new one."),
        (("check", USERS, "schem.graphql"), 2, "There is no file schem.graphql. Did you mean 'scheme.graphql'?"),
        (
            ("check", USERS, "broken.graphql"),
            2,
            "broken.graphql is not a GraphQL schema: line 1, column 13: Syntax Error",
        ),
        (("check", USERS, "invalid.graphql"), 2, "invalid.graphql is not a GraphQL schema: Unknown type"),
        (("check", USERS, "binary.graphql"), 2, "binary.graphql is not UTF-8 text: invalid start byte at byte 0."),
        (("check", "graphql_api.examples.users"), 4, "write MODULE:ATTRIBUTE"),
        (("print", "graphql_api.examples.user:catalog"), 4, "Did you mean 'graphql_api.examples.users'?"),
    ],
)
def test_mistakes(words: tuple[str, ...], exit_code: int, message: str) -> None:
    """A mistake is told in one line, and ends with the code of its kind."""
    if "schem.graphql" in words:
        Path("scheme.graphql").touch()
    Path("broken.graphql").write_text("type Query {")
    Path("invalid.graphql").write_text("type Query { a: A }")
    Path("binary.graphql").write_bytes(b"\xff")
    result = run("schema", *words)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
