"""`shardql schema`: the printed schema, and the effect of its changes on clients."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from graphql import build_schema

from tests.support.cli_runner import USERS, run

SHOP = """from graphql_api import Catalog, Entity, Id, Index

class {name}(Entity):
    ware_id: Id[str]
    title: str{optional}
    by_title = Index(sort="title")

catalog = Catalog({name}, namespace={namespace!r})
"""


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory, and can import modules from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def write_catalog(module: str, name: str, namespace: str | None = None, optional: str = "") -> str:
    """Write a module with a catalog of one entity, and return its address."""
    Path(f"{module}.py").write_text(SHOP.format(name=name, namespace=namespace, optional=optional))
    return f"{module}:catalog"


def printed_schema(*addresses: str) -> str:
    """Return the output of `schema print`."""
    result = run("schema", "print", *addresses)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_print_is_the_schema() -> None:
    """`print` writes the schema as SDL with descriptions, and always the same text."""
    text = printed_schema(USERS)
    schema = build_schema(text)
    assert schema.query_type is not None
    assert "userByFirstName" in schema.query_type.fields
    assert '"""Phone number in international form, digits only: `17739999999`."""' in text
    assert text.endswith("}\n")
    assert printed_schema(USERS) == text


def test_check_without_a_difference() -> None:
    """`check` ends with 0 if the file is the schema, in any layout."""
    Path("schema.graphql").write_text("# printed\n\n" + printed_schema(USERS).replace("\n}\n", "\n}\n\n"), "utf-8")
    result = run("schema", "check", USERS)
    assert (result.exit_code, result.stdout) == (0, f"schema.graphql is the schema of {USERS}.\n")


def with_removed_field(text: str) -> str:
    """Return an earlier schema that had one more field."""
    return text.replace("type User implements Node {\n", "type User implements Node {\n  nickname: String\n")


def with_non_null_field(text: str) -> str:
    """Return an earlier schema in which a field was not nullable."""
    return text.replace("phone: String\n", "phone: String!\n")


def without_enum_value(text: str) -> str:
    """Return an earlier schema in which an enum had one value less."""
    return text.replace("  PARTIAL\n", "")


def without_new_field(text: str) -> str:
    """Return an earlier schema that lacked a field."""
    before, head, fields = text.partition("type User implements Node {\n")
    return before + head + fields.replace('  """First name, as entered by the user."""\n  firstName: String!\n', "", 1)


@pytest.mark.parametrize(
    ("before", "line", "verdict"),
    [
        (with_removed_field, "breaking  Field User.nickname was removed.", "Clients will break"),
        (with_non_null_field, "breaking  Field User.phone changed type from String! to String.", "Clients will break"),
        (without_enum_value, "dangerous Enum value OnShardFailure.PARTIAL was added.", "To accept all changes"),
        (without_new_field, "", "There is also 1 safe change."),
    ],
)
def test_check_lists_changes(before: Callable[[str], str], line: str, verdict: str) -> None:
    """`check` lists breaking and dangerous changes, counts safe ones, names the next command, and ends with 1."""
    now = printed_schema(USERS)
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
    """A file with another order of fields differs, without a change for clients."""
    text = printed_schema(USERS)
    Path("s.graphql").write_text(text.replace("  hasNextPage: Boolean!\n", "  moved: Int\n"), "utf-8")
    one, other = "  expected: Int!\n", "  answered: Int!\n"
    swapped = text.replace(one, "#").replace(other, one).replace("#", other)
    Path("s.graphql").write_text(swapped, "utf-8")
    shown = json.loads(run("schema", "check", USERS, "s.graphql", "--json").stdout)
    assert shown["differs"]
    assert (shown["breaking"], shown["dangerous"]) == ([], [])


def test_write_updates_the_file() -> None:
    """`check --write` lists changes, updates the file, and ends with 0. Afterwards there is no difference."""
    now = printed_schema(USERS)
    Path("old.graphql").write_text(with_removed_field(now), "utf-8")
    result = run("schema", "check", USERS, "old.graphql", "--write")
    assert result.exit_code == 0
    assert result.stdout == "breaking  Field User.nickname was removed.\nold.graphql is updated.\n"
    assert Path("old.graphql").read_text("utf-8") == now
    assert run("schema", "check", USERS, "old.graphql").exit_code == 0
    again = json.loads(run("schema", "check", USERS, "old.graphql", "--write", "--json").stdout)
    assert (again["differs"], again["written"]) == (False, False)


@pytest.mark.parametrize("text", [None, "<<<<<<< ours\n", "\udcff"])
def test_write_creates_or_replaces_the_file(text: str | None) -> None:
    """`check --write` also writes the file if it is missing or invalid."""
    if text is not None:
        Path("schema.graphql").write_bytes(text.encode("utf-8", "surrogateescape"))
    result = run("schema", "check", USERS, "--write")
    assert (result.exit_code, result.stdout) == (0, "schema.graphql is written.\n")
    assert Path("schema.graphql").read_text("utf-8") == printed_schema(USERS)


def test_check_as_json() -> None:
    """`check --json` lists all changes by kind."""
    Path("old.graphql").write_text(without_new_field(with_removed_field(printed_schema(USERS))), "utf-8")
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
    """Several catalogs are printed as one schema with shared types once and all fields."""
    other = write_catalog("other_shop", "Ware")
    text = printed_schema(USERS, other)
    schema = build_schema(text)
    assert schema.query_type is not None
    assert {"userByFirstName", "wareByTitle"} <= set(schema.query_type.fields)
    assert text.count("type PageInfo {") == 1
    assert {*schema.type_map} == {
        *build_schema(printed_schema(USERS)).type_map,
        *build_schema(printed_schema(other)).type_map,
    }
    Path("all.graphql").write_text(text, "utf-8")
    assert run("schema", "check", USERS, other, "all.graphql").exit_code == 0
    assert run("schema", "check", USERS, "all.graphql").exit_code == 1


def test_repeated_catalog() -> None:
    """A repeated catalog adds nothing to the schema."""
    assert (
        build_schema(printed_schema(USERS, USERS)).type_map.keys()
        == build_schema(printed_schema(USERS)).type_map.keys()
    )


def test_conflicting_names() -> None:
    """Catalogs with conflicting names are refused. The error lists all names with remedies."""
    one, other = write_catalog("shop_one", "Ware"), write_catalog("shop_two", "Ware", optional=" | None = None")
    result = run("schema", "print", one, other)
    assert result.exit_code == 4
    assert f"type Ware of {one} and of {other}" in result.stderr
    assert "Set another namespace= on one catalog" in result.stderr
    apart = write_catalog("shop_apart", "Ware", namespace="Two", optional=" | None = None")
    assert "type Two_Ware implements Node {" in printed_schema(one, apart)


# --- errors ----------------------------------------------------------------------------------------------------


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
def test_errors(words: tuple[str, ...], exit_code: int, message: str) -> None:
    """An invalid command prints a one-line error, and has an exit code for the kind of error."""
    if "schem.graphql" in words:
        Path("scheme.graphql").touch()
    Path("broken.graphql").write_text("type Query {")
    Path("invalid.graphql").write_text("type Query { a: A }")
    Path("binary.graphql").write_bytes(b"\xff")
    result = run("schema", *words)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
