"""`shardql explain`: the plan of a query, without running it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphql_api.codecs.record_key import RecordKeySeal
from graphql_api.connection import open_catalog
from graphql_api.database import Database
from graphql_api.examples.users import Email, User, catalog, generate_users
from graphql_api.query.execution.result_page import Page
from graphql_api.server.secret_keys import resolve_secrets
from graphql_api.server.settings import read_settings
from tests.support.cli_runner import USERS, run

STORE = "sqlite:///test.db"
JO = '{ userByFirstName(prefix: "Jo") { items { userId } nextToken } }'


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory."""
    monkeypatch.chdir(tmp_path)


def plans(*words: str) -> list[dict[str, Any]]:
    """Return the plans that the command prints as JSON."""
    result = run("explain", USERS, *words, "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["problems"], result.stderr) == (0, [], "")
    found: list[dict[str, Any]] = shown["plans"]
    return found


def search_page(search: Callable[[Database], Any]) -> Page[Any]:
    """Run a search of the example catalog and return its page."""

    async def read() -> Page[Any]:
        secrets, _ = resolve_secrets(read_settings(store=STORE))
        async with open_catalog(catalog, STORE, secrets=secrets) as db:
            await db.put_many([*generate_users(200)])
            page: Page[Any] = await search(db)
            return page

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("field", "search"),
    [
        ('userByFirstName(prefix: "Jo", limit: 8)', lambda db: db.search(User.by_first_name, prefix="Jo", limit=8)),
        ("userByCreated(from: 1767225600)", lambda db: db.search(User.by_created, from_=1767225600)),
        ('emailByUser(userId: "u", reverse: true)', lambda db: db.search(Email.by_user, user_id="u", reverse=True)),
        ("users(orderBy: PHONE_DESC, last: 3)", lambda db: db.search(User.by_phone, reverse=True, last=3)),
        ('userByName(prefix: "Jo", reverse: true)', lambda db: db.search(User.by_name, prefix="Jo", reverse=True)),
        (
            'userByPhone(filter: {lastName: {prefix: "A"}})',
            lambda db: db.search(User.by_phone, filter={"last_name": {"prefix": "A"}}),
        ),
    ],
)
def test_plan_equals_explain_output(field: str, search: Callable[[Database], Any]) -> None:
    """The plan of a field equals the explain output of the executed search."""
    (plan,) = plans(f"{{ {field} {{ items {{ __typename }} }} }}")
    ran = dict(search_page(search).explain)
    ran.pop("read")
    assert plan.pop("why")
    assert plan == {"path": [field.partition("(")[0]], **ran}


def test_each_field_has_its_plan() -> None:
    """Each field of a query has its own plan, under its alias and in order."""
    query = '{ b: userByPhone(eq: "1") { nextToken } a: userByPhone(eq: "2") { nextToken } __typename }'
    found = plans(query)
    assert [(plan["path"], plan["conditions"]) for plan in found] == [
        (["b"], 'phone "1"'),
        (["a"], 'phone "2"'),
    ]


def test_plan_of_a_point_lookup() -> None:
    """A record by id is read with one key per shard generation that may contain it."""
    (plan,) = plans('{ one: user(id: "wf5y") { userId } }')
    keys = [{"hashKey": key, "rangeKey": "userId#wf5y"} for key in ("user!", "user!05")]
    why = "user reads one record by its key."
    estimate = {"least": 2.0, "expected": 2.0, "most": 200.0}
    assert plan == {
        "path": ["one"],
        "why": why,
        "entity": "User",
        "keys": keys,
        "consistent": True,
        "estimate": estimate,
    }


CUSTOM_GRAPH = """import strawberry
from graphql_api import Graph
from graphql_api.examples.users import User, catalog

graph = Graph(catalog)

@graph.query
@strawberry.type
class Own:
    @strawberry.field
    async def people(self, info: strawberry.Info) -> int | None:
        return len((await info.context.database.search(User.by_name, prefix="jo")).items)

    @strawberry.field
    async def how_many(self, info: strawberry.Info) -> int | None:
        return (await info.context.database.count(User.by_name, prefix="jo", at_most=7)).value

    @strawberry.field
    async def is_there(self, info: strawberry.Info) -> bool | None:
        return await info.context.database.get(User, "wf5y") is not None
"""


def test_custom_fields_are_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches, counts and reads of custom fields are planned too."""
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_people.py").write_text(CUSTOM_GRAPH)
    result = run("explain", "own_people:graph", "{ people howMany isThere }", "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["problems"]) == (0, [])
    people, how_many, is_there = shown["plans"]
    assert (people["path"], people["union"], people["limit"]) == (["people"], "name", 50)
    assert (how_many["path"], how_many["union"], how_many["limit"]) == (["howMany"], "name", 7)
    assert (is_there["path"], is_there["keys"][0]["rangeKey"]) == (["isThere"], "userId#wf5y")


def test_nothing_is_created() -> None:
    """The command needs neither a store nor a key, and creates none."""
    assert run("explain", USERS, JO).exit_code == 0
    assert run("explain", USERS, JO.replace("prefix:", 'nextToken: "x", prefix:')).exit_code == 2
    assert [*Path().iterdir()] == []


def test_access_rules_are_ignored() -> None:
    """Plans include fields that only some callers may read."""
    query = '{ Plugin_Ownership(id: "o") { resourceId } Plugin_OwnershipByOwnerId(ownerId: "u") { items { ownerId } } }'
    result = run("explain", "graphql_api.examples.orders:catalog", query, "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["problems"]) == (0, [])
    assert [plan["path"] for plan in shown["plans"]] == [["Plugin_Ownership"], ["Plugin_OwnershipByOwnerId"]]


def test_variables_and_operation() -> None:
    """The command takes variables as JSON, an operation name, and a query from the standard input."""
    query = "query A($p: String) { a: userByPhone(prefix: $p) { nextToken } } query B { b: users { nextToken } }"
    words = ("explain", USERS, "-", "--operation", "A", "--variables", '{"p": "1773"}', "--json")
    (plan,) = json.loads(run(*words, stdin=query).stdout)["plans"]
    assert (plan["path"], plan["conditions"]) == (["a"], 'phone prefix "1773"')


def test_text_output() -> None:
    """Without --json, each plan is text: condition, reason, index, range, shards and first reads."""
    result = run("explain", USERS, JO)
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.splitlines() if line.strip()}
    (plan,) = plans(JO)
    assert lines == {
        "userByFirstName": "",
        "search": 'firstNameCanonical prefix "jo"',
        "why": "userByFirstName names the index firstName.",
        "index": "firstName (firstName), by firstNameCanonical, lastNameCanonical, created, userId",
        "range": "firstNameCanonical#jo … firstNameCanonical#jp",
        "shards": "17: user!, user!00, user!01 … user!0f",
        "reads": f"{plan['firstRead']} records of each shard first, for a page of 50",
        "units": "8.5 read units expected, from 8.5 to 131,342",
        "price": "1.062 for a million, at 0.125 per million read units",
    }
    union = run("explain", USERS, '{ userByName(prefix: "Jo", filter: {phone: {exists: true}}) { nextToken } }').stdout
    for line in ("index 1  firstName (firstName)", "index 2  lastName (lastName)", "filter   phone exists"):
        assert line in union
    assert "2 by key, consistently" in run("explain", USERS, '{ user(id: "a") { userId } }').stdout
    by_number = '{ issue(projectIdNum: {projectId: "35e9a4d0-71bc-4f28-b6e5-09f3d8c1427a", num: 1}) { name } }'
    shown = run("explain", "graphql_api.examples.issues:catalog", by_number).stdout
    assert "1 by key, consistently, then the record that the unique item names" in shown


def test_query_without_reads() -> None:
    """A query that reads no records has no plan, and the output says so."""
    assert run("explain", USERS, "{ __typename }").stdout == "The query reads no records.\n"


# --- page tokens -----------------------------------------------------------------------------------------------


def test_page_token() -> None:
    """A page token is opened with the key of its store, and the plan resumes at its cursor."""
    first = search_page(lambda db: db.search(User.by_first_name, prefix="Jo", limit=2))
    query = JO.replace("prefix:", f'limit: 2, nextToken: "{first.next_token}", prefix:')
    (plan,) = plans(query, "--store", STORE)
    assert plan["resumed"]
    refused = run("explain", USERS, query)
    assert refused.exit_code == 2
    assert "There is no token key: name the store of the token with --store, or set SHARDQL_TOKEN" in refused.stderr


def test_invalid_page_token() -> None:
    """An invalid token is an error without the hint to set a key if the key is known."""
    search_page(lambda db: db.search(User.by_first_name))
    refused = run("explain", USERS, JO.replace("prefix:", 'nextToken: "x", prefix:'), "--store", STORE)
    assert refused.exit_code == 2
    assert "nextToken is no token of this search service" in refused.stderr
    assert "There is no token key" not in refused.stderr


# --- record keys -----------------------------------------------------------------------------------------------


def test_record_key() -> None:
    """A record key is opened with the key of its store, and has one key to read. Without the key, the error says so."""
    page = search_page(lambda db: db.search(User.by_first_name, limit=1))
    record_key = resolve_secrets(read_settings(store=STORE))[0].record
    key = page.items[0].key
    id = RecordKeySeal(record_key).seal(key)
    (plan,) = plans(f'{{ node(id: "{id}") {{ id }} }}', "--store", STORE)
    (by_id,) = plans(f'{{ user(id: "{id}") {{ userId }} }}', "--store", STORE)
    assert plan["keys"] == by_id["keys"]
    assert [place["rangeKey"] for place in plan["keys"]] == [f"userId#{key.ids[0]}"]
    refused = run("explain", USERS, f'{{ node(id: "{id}") {{ id }} }}')
    assert refused.exit_code == 2
    assert "name their store with --store, or set SHARDQL_RECORD_KEY." in refused.stderr


# --- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{ userByFirstNme { nextToken } }",), "query: line 1, column 3: Cannot query field 'userByFirstNme'"),
        (("{ users {",), "query: line 1, column 10: Syntax Error: Expected Name, found <EOF>."),
        (('{\n  userByPhone(eq: "1", prefix: "2") { nextToken } }',), "query: line 2, column 3: eq and prefix exclude"),
        (("query ($p: Int!) { users(limit: $p) { nextToken } }",), "query: line 1, column 8: Variable '$p'"),
        (("{ users(limit: 501) { nextToken } }",), "limit must be a whole number from 1 to 500"),
        (("query A { users { nextToken } } query B { users { nextToken } }",), "Choose one by operationName"),
        (("{ users { nextToken } }", "--operation", "A"), "The document has no operation 'A'."),
        (("{ users { nextToken } }", "--variables", "{"), "--variables is not JSON: "),
        (("{ users { nextToken } }", "--variables", "[]"), "--variables is not a JSON object"),
        (("{ users { nextToken } }", "--store", "sqlite:///x.db", "--operation", "A"), "The document has no operation"),
    ],
)
def test_errors(words: tuple[str, ...], message: str) -> None:
    """An invalid query is a one-line error with its position. The exit code is 2."""
    result = run("explain", USERS, *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("shardql: ")
    assert result.stderr.count("\n") == 1


def test_token_key_is_read_only_for_a_page_token() -> None:
    """An unusable key file is an error only if the query has a page token."""
    Path("x.db.token-key").write_text("short", encoding="ascii")
    store = ("--store", "sqlite:///x.db")
    assert run("explain", USERS, "{ users { nextToken } }", *store).exit_code == 0
    result = run("explain", USERS, '{ users(nextToken: "a") { nextToken } }', *store)
    assert result.exit_code == 2
    assert "x.db.token-key cannot be used" in result.stderr


def test_other_fields_are_planned_despite_an_error() -> None:
    """An error of one field does not prevent the plans of other fields."""
    result = run("explain", USERS, '{ userByPhone(prefix: "1") { nextToken } users(limit: 0) { nextToken } }', "--json")
    shown = json.loads(result.stdout)
    assert [plan["path"] for plan in shown["plans"]] == [["userByPhone"]]
    (problem,) = shown["problems"]
    assert (problem["code"], problem["path"], problem["line"]) == ("INVALID_LIMIT", ["users"], 1)
    assert result.exit_code == 2


def test_estimate_with_sizes_and_matches() -> None:
    """With the size of a record and the matches of each shard, the expected units are those of such records."""
    options = ("--record-bytes", "4096", "--matches", "3", "--json")
    (plan,) = json.loads(run("explain", USERS, JO, *options).stdout)["plans"]
    assert plan["estimate"]["expected"] == 17 * 1.5
    (plan,) = json.loads(
        run("explain", USERS, '{ user(id: "a") { userId } }', "--record-bytes", "5000", "--json").stdout
    )["plans"]
    assert plan["estimate"]["expected"] == 1.0 + 2.0


def test_price_of_a_mutation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutation shows the estimate of its write units and their price, and writes nothing."""
    monkeypatch.setenv("SHARDQL_WRITE_UNIT_PRICE", "2")
    mutation = 'mutation { deleteUser(id: "a") { deletedId } }'
    (plan,) = json.loads(run("explain", USERS, mutation, "--json").stdout)["plans"]
    assert {name: plan[name] for name in ("path", "entity", "records")} == {
        "path": ["deleteUser"],
        "entity": "User",
        "records": 1,
    }
    estimate = plan["write"]["estimate"]
    assert 0 == estimate["least"] < estimate["expected"] < estimate["most"]
    text = run("explain", USERS, mutation).stdout
    assert "1 User by key" in text
    assert f"{2 * estimate['expected']:.3f} for a million, at 2 per million write units" in text


def test_query_above_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query above the configured limits is refused like by a server."""
    monkeypatch.setenv("SHARDQL_MAX_COST", "10")
    result = run("explain", USERS, JO)
    assert result.exit_code == 2
    assert "the limit is 10" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("graphql_api.examples.user:catalog", "Did you mean 'graphql_api.examples.users'?"),
        ("graphql_api.examples.users:catalogue", "Did you mean 'catalog'?"),
    ],
)
def test_misspelled_catalog(address: str, message: str) -> None:
    """A misspelled module or catalog is a one-line error with the nearest name. The exit code is 4."""
    result = run("explain", address, JO)
    assert result.exit_code == 4
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
