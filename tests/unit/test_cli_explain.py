"""`shardql explain`: what a query would read, told without reading it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphql_api.codecs.record_key import RecordKeySeal
from graphql_api.database import Database
from graphql_api.examples.user_samples import generate_users
from graphql_api.examples.users import Email, User, catalog
from graphql_api.opening import open_catalog
from graphql_api.query.execution.result_page import Page
from graphql_api.server.development_keys import resolve_secrets
from graphql_api.server.settings import read_settings
from tests.unit.shell import USERS, run

STORE = "sqlite:///test.db"
JO = '{ userByFirstName(prefix: "Jo") { items { userId } nextToken } }'


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run where nothing is."""
    monkeypatch.chdir(tmp_path)


def plans(*words: str) -> list[dict[str, Any]]:
    """The plans that the command prints as JSON."""
    result = run("explain", USERS, *words, "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["problems"], result.stderr) == (0, [], "")
    found: list[dict[str, Any]] = shown["plans"]
    return found


def searched(search: Callable[[Database], Any]) -> Page[Any]:
    """A page of the example, really read."""

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
def test_the_plan_is_that_of_the_search(field: str, search: Callable[[Database], Any]) -> None:
    """The plan of a field is, word for word, what the search explains of itself when it is run."""
    (plan,) = plans(f"{{ {field} {{ items {{ __typename }} }} }}")
    ran = dict(searched(search).explain)
    ran.pop("read")
    assert plan.pop("why")
    assert plan == {"path": [field.partition("(")[0]], **ran}


def test_each_field_has_its_plan() -> None:
    """Fields of one query are planned each by itself, in the order of the query and under their aliases."""
    query = '{ b: userByPhone(eq: "1") { nextToken } a: userByPhone(eq: "2") { nextToken } __typename }'
    found = plans(query)
    assert [(plan["path"], plan["conditions"]) for plan in found] == [
        (["b"], 'phone "1"'),
        (["a"], 'phone "2"'),
    ]


def test_a_record_by_id_is_read_by_its_keys() -> None:
    """A record that is asked for by its id is read by one key for each shard generation that may hold it."""
    (plan,) = plans('{ one: user(id: "wf5y") { userId } }')
    keys = [{"hashKey": key, "rangeKey": "userId#wf5y"} for key in ("user!", "user!05")]
    why = "user reads one record by its key."
    assert plan == {"path": ["one"], "why": why, "entity": "User", "keys": keys, "consistent": True}


OWN = """import strawberry
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


def test_own_fields_are_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fields of one's own search, count and read is planned as well."""
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_people.py").write_text(OWN)
    result = run("explain", "own_people:graph", "{ people howMany isThere }", "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["problems"]) == (0, [])
    people, how_many, is_there = shown["plans"]
    assert (people["path"], people["union"], people["limit"]) == (["people"], "name", 50)
    assert (how_many["path"], how_many["union"], how_many["limit"]) == (["howMany"], "name", 7)
    assert (is_there["path"], is_there["keys"][0]["rangeKey"]) == (["isThere"], "userId#wf5y")


def test_nothing_is_made_or_read() -> None:
    """Neither a store nor a key comes into being, and none has to be there."""
    assert run("explain", USERS, JO).exit_code == 0
    assert run("explain", USERS, JO.replace("prefix:", 'nextToken: "x", prefix:')).exit_code == 2
    assert [*Path().iterdir()] == []


def test_rules_do_not_hold() -> None:
    """Whoever declares a catalog sees the plans of what only some callers may read."""
    query = '{ Plugin_Ownership(id: "o") { resourceId } Plugin_OwnershipByOwnerId(ownerId: "u") { items { ownerId } } }'
    result = run("explain", "graphql_api.examples.orders:catalog", query, "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["problems"]) == (0, [])
    assert [plan["path"] for plan in shown["plans"]] == [["Plugin_Ownership"], ["Plugin_OwnershipByOwnerId"]]


def test_variables_and_operation() -> None:
    """Variables come as JSON, the operation by its name, and the query, if it is long, by the input stream."""
    query = "query A($p: String) { a: userByPhone(prefix: $p) { nextToken } } query B { b: users { nextToken } }"
    words = ("explain", USERS, "-", "--operation", "A", "--variables", '{"p": "1773"}', "--json")
    (plan,) = json.loads(run(*words, stdin=query).stdout)["plans"]
    assert (plan["path"], plan["conditions"]) == (["a"], 'phone prefix "1773"')


def test_people_read_the_plan() -> None:
    """Without --json each plan is a few lines: what is searched, index, range, shards, and how much is read first."""
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
    }
    union = run("explain", USERS, '{ userByName(prefix: "Jo", filter: {phone: {exists: true}}) { nextToken } }').stdout
    for line in ("index 1  firstName (firstName)", "index 2  lastName (lastName)", "filter   phone exists"):
        assert line in union
    assert "2 by key, consistently" in run("explain", USERS, '{ user(id: "a") { userId } }').stdout


def test_a_query_without_searches() -> None:
    """A query that reads nothing is told to read nothing."""
    assert run("explain", USERS, "{ __typename }").stdout == "The query reads no records.\n"


# --- page tokens -----------------------------------------------------------------------------------------------


def test_a_token_of_the_store() -> None:
    """A page token is opened with the key of the store that gave it, and the plan goes on from its place."""
    first = searched(lambda db: db.search(User.by_first_name, prefix="Jo", limit=2))
    query = JO.replace("prefix:", f'limit: 2, nextToken: "{first.next_token}", prefix:')
    (plan,) = plans(query, "--store", STORE)
    assert plan["resumed"]
    refused = run("explain", USERS, query)
    assert refused.exit_code == 2
    assert "There is no token key: name the store of the token with --store, or set SHARDQL_TOKEN" in refused.stderr


def test_a_token_that_the_key_does_not_open() -> None:
    """A token that the known key does not open is refused without the advice to name a key."""
    searched(lambda db: db.search(User.by_first_name))
    refused = run("explain", USERS, JO.replace("prefix:", 'nextToken: "x", prefix:'), "--store", STORE)
    assert refused.exit_code == 2
    assert "nextToken is no token of this search service" in refused.stderr
    assert "There is no token key" not in refused.stderr


# --- record keys -----------------------------------------------------------------------------------------------


def test_an_id_of_the_store() -> None:
    """A sealed id is opened with the key of its store, and names one place to read; without a key, that is advised."""
    page = searched(lambda db: db.search(User.by_first_name, limit=1))
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


# --- mistakes --------------------------------------------------------------------------------------------------


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
def test_mistakes(words: tuple[str, ...], message: str) -> None:
    """A mistake in a query is told in one line, with its place where it has one, and ends with 2."""
    result = run("explain", USERS, *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("shardql: ")
    assert result.stderr.count("\n") == 1


def test_other_fields_are_planned_beside_a_mistake() -> None:
    """What is wrong with one field does not keep the plans of others back."""
    result = run("explain", USERS, '{ userByPhone(prefix: "1") { nextToken } users(limit: 0) { nextToken } }', "--json")
    shown = json.loads(result.stdout)
    assert [plan["path"] for plan in shown["plans"]] == [["userByPhone"]]
    (problem,) = shown["problems"]
    assert (problem["code"], problem["path"], problem["line"]) == ("INVALID_LIMIT", ["users"], 1)
    assert result.exit_code == 2


def test_a_mutation_has_no_plan() -> None:
    """A mutation is refused with where its reads and writes are told, and nothing of it runs."""
    result = run("explain", USERS, 'mutation { deleteUser(id: "a") { deletedId } }')
    assert result.exit_code == 2
    assert "Only queries are planned" in result.stderr
    assert "x-explain: 1" in result.stderr


def test_a_query_that_a_server_would_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query above the limits of the settings has no plan, as it would have no answer."""
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
def test_mistyped_catalog(address: str, message: str) -> None:
    """A mistyped module or catalog is told in one line with the nearest one, and ends with 4."""
    result = run("explain", address, JO)
    assert result.exit_code == 4
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
