"""`shardql export`: the command, its errors, and the way back by `shardql load`."""

from pathlib import Path

import pytest

from tests.support.cli_runner import USERS, run

ISSUES, ORDERS = "graphql_api.examples.issues:catalog", "graphql_api.examples.orders:catalog"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory."""
    monkeypatch.chdir(tmp_path)


def test_an_export_is_loaded_into_another_engine_without_a_difference(dynamodb_url: str) -> None:
    """All records of an example pass from SQLite to DynamoDB and back, and both comparisons find nothing."""
    here, there, back = "sqlite:///here.db", dynamodb_url, "sqlite:///back.db"
    assert run("load", ISSUES, "--sample", "40", "--store", here).exit_code == 0
    assert run("table", "create", ISSUES, "--store", there).exit_code == 0
    for source, target in ((here, there), (there, back)):
        for entity in ("Tenant", "Project", "Issue"):
            file = f"{entity}-{len(source)}.jsonl"
            assert run("export", ISSUES, entity, "--store", source, "--output", file).exit_code == 0
            loaded = run("load", ISSUES, entity, file, "--store", target)
            assert loaded.exit_code == 0, loaded.output
        compared = run("verify", ISSUES, "--store", source, "--against", target, "--settle", "0")
        assert compared.exit_code == 0, compared.output
        assert "no findings" in compared.output
    assert Path(f"Issue-{len(here)}.jsonl").read_bytes() == Path(f"Issue-{len(there)}.jsonl").read_bytes()


def test_histories_and_their_current_records_return(tmp_path: Path) -> None:
    """The entries and the current record of each id are exported; a load makes the same table of them."""
    assert run("load", ORDERS, "--sample", "20", "--store", "sqlite:///a.db").exit_code == 0
    for entity in ("Product", "SchemaChange", "Ownership", "Customer", "OrderLine"):
        assert run("export", ORDERS, entity, "--store", "sqlite:///a.db", "--output", f"{entity}.jsonl").exit_code == 0
    for entity in ("OrderTracking", "OrderHistory", "Order", "OrderCount"):
        assert run("export", ORDERS, entity, "--store", "sqlite:///a.db", "--output", f"{entity}.jsonl").exit_code == 0
    for file in tmp_path.glob("*.jsonl"):
        loaded = run("load", ORDERS, file.stem, str(file), "--store", "sqlite:///b.db")
        assert loaded.exit_code == 0, loaded.output
    compared = run("verify", ORDERS, "--store", "sqlite:///a.db", "--against", "sqlite:///b.db", "--settle", "0")
    assert compared.exit_code == 0, compared.output


def test_a_search_selects_what_is_exported() -> None:
    """The second argument is a field as in GraphQL, with conditions and filters."""
    assert run("load", USERS, "--sample", "100", "--store", "sqlite:///u.db").exit_code == 0
    every = run("export", USERS, "User", "--store", "sqlite:///u.db").stdout.splitlines()
    assert len(every) == 100
    search = "userByCreated(from: 1600000000, filter: {phone: {exists: true}}, reverse: true)"
    found = run("export", USERS, "User", search, "--store", "sqlite:///u.db").stdout.splitlines()
    assert 0 < len(found) < 100
    assert set(found) <= set(every)


def test_each_tenant_has_its_own_export() -> None:
    """Records of one tenant are loaded and exported with its name, and with no other."""
    Path("e.jsonl").write_text('{"email":"a@x","userId":"u","created":1}\n')
    store = ("--store", "sqlite:///t.db")
    assert run("load", USERS, "Email", "e.jsonl", "--tenant", "a", *store).exit_code == 0
    assert run("export", USERS, "Email", "--tenant", "a", *store).stdout == Path("e.jsonl").read_text()
    assert run("export", USERS, "Email", "--tenant", "b", *store).stdout == ""
    assert run("export", USERS, "Email", *store).stdout == ""


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["User", "userByNme"], 2, "Did you mean 'userByName'"),
        (["User", 'userByName(prefix: "a", limit: 3)'], 2, "omit its paging"),
        (["User", 'userByName(prefix: "a", nextToken: "x")'], 2, "nextToken"),
        (["Email", 'userByName(prefix: "a")'], 2, "finds records of User, not of Email"),
        (["User", 'user(id: "a")'], 2, "is no search"),
        (["User", "userByName(prefix: 1)"], 2, "String cannot represent"),
        (["Usr"], 4, "Did you mean 'User'"),
        (["User", "--restart"], 2, "--restart needs --output"),
    ],
)
def test_mistakes_are_named(words: list[str], code: int, text: str) -> None:
    """Each mistake has one sentence with the remedy, and nothing is written."""
    assert run("load", USERS, "--sample", "3", "--store", "sqlite:///u.db").exit_code == 0
    result = run("export", USERS, *words, "--store", "sqlite:///u.db")
    assert result.exit_code == code, result.output
    assert text in " ".join(result.output.split())
    assert result.stdout == ""


def test_a_store_that_does_not_exist_is_not_created() -> None:
    """The error names the file, and an export never makes one."""
    result = run("export", USERS, "User", "--store", "sqlite:///none.db")
    assert result.exit_code == 3
    assert not [*Path.cwd().iterdir()]


def test_attributes_of_another_catalog_are_named(tmp_path: Path) -> None:
    """What lines leave out, because this catalog does not declare it, makes the command fail with its name."""
    for name, extra in (("older", ""), ("newer", "    nickname: str = 'n'\n")):
        text = f"from graphql_api import Catalog, Entity, Id\n\n\nclass Pet(Entity):\n    pet_id: Id[str]\n{extra}"
        (tmp_path / f"{name}.py").write_text(f"{text}\n\ncatalog = Catalog(Pet)\n")
    (tmp_path / "pets.jsonl").write_text('{"petId": "p"}\n')
    assert run("load", "newer:catalog", "Pet", "pets.jsonl", "--store", "sqlite:///p.db").exit_code == 0
    result = run("export", "older:catalog", "Pet", "--store", "sqlite:///p.db")
    assert result.exit_code == 1
    assert "left out: nickname." in result.stderr
    assert result.stdout == '{"petId":"p"}\n'
