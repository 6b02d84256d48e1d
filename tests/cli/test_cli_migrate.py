"""`shardql migrate`: plans, migrations, violations and removals, on SQLite and DynamoDB."""

import json
from pathlib import Path

import orjson
import pytest
from typer.testing import Result

from tests.support.cli_runner import USERS, plain_output, run

STORE = "sqlite:///shop.db"
SHOP = """
from graphql_api import Catalog, Entity, HasMany, Id, Index, Unique, Union

class Town(Entity):
    town_id: Id[str]
    {join}

class Place(Entity):
    place_id: Id[str]
    town_id: str = "t1"
    name: str = ""
    other_name: str = ""
    email: {email} = None
    {indexes}

catalog = Catalog(Town, Place)
"""
INDEXES = """by_name = Index(sort="name")
    by_other_name = Index(sort="other_name")
    by_any_name = Union("by_name", "by_other_name")
    by_town = Index(hash="town_id", sort="name")"""
PLACES = [
    {"placeId": "p1", "name": "Bakery", "email": "shop@example.com"},
    {"placeId": "p2", "name": "Mill", "email": "shop@example.com"},
    {"placeId": "p3", "name": "Pond"},
]
PENDING = ["index place.name", "index place.otherName", "index place.town"]
"""the elements that INDEXES adds"""


@pytest.fixture(autouse=True)
def in_a_directory_with_catalogs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a directory with three catalogs of one application and the records of the first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    unique, plain = "Unique[str] | None", "str | None"
    for name, email, indexes, join in (
        ("plain", plain, "", ""),
        ("indexed", plain, INDEXES, 'places = HasMany("Place", via="by_town")'),
        ("unique", unique, "", ""),
    ):
        Path(f"shop_{name}.py").write_text(SHOP.format(email=email, indexes=indexes, join=join))
    Path("places.jsonl").write_bytes(b"".join(orjson.dumps(place) + b"\n" for place in PLACES))


def load(catalog: str = "plain", store: str = STORE, file: str = "places.jsonl") -> None:
    """Load the records."""
    result = run("load", f"shop_{catalog}:catalog", "Place", file, "--store", store, "--restart")
    assert result.exit_code == 0, result.output


def migrate(catalog: str, *words: str, store: str = STORE, stdin: str | None = None) -> Result:
    """Run the command with a catalog of the directory."""
    return run("migrate", f"shop_{catalog}:catalog", "--store", store, *words, stdin=stdin)


def command(catalog: str, option: str) -> str:
    """Return the command line of the remedy."""
    return f'shardql migrate shop_{catalog}:catalog --store "{STORE}" {option}'


# --- the plan --------------------------------------------------------------------------------------------------


def test_plan() -> None:
    """The plan lists the pending elements, what they cost, and the GraphQL fields that are refused until the end."""
    load()
    before = run("table", "describe", "shop_plain:catalog", "--store", STORE, "--json").stdout
    result = migrate("indexed")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert lines[0] == f"to build   {', '.join(PENDING)}"
    assert lines[1].endswith("to read, 3 to write")
    assert lines[2] == "time       at least 0 s"
    assert f"Run it with: {command('indexed', '--apply')}" in lines
    assert json.loads(migrate("indexed", "--json").stdout)["notReadyQueries"] == [
        "placeByName",
        "placeByOtherName",
        "placeByTown",
        "placeByAnyName",
        "places(orderBy: NAME_ASC)",
        "places(orderBy: NAME_DESC)",
        "places(orderBy: OTHER_NAME_ASC)",
        "places(orderBy: OTHER_NAME_DESC)",
        "placesByTownId(orderBy: NAME_ASC)",
        "placesByTownId(orderBy: NAME_DESC)",
        "Town.places",
    ]
    after = run("table", "describe", "shop_plain:catalog", "--store", STORE, "--json").stdout
    assert after == before, "a plan changes nothing"


ORDERS = """
from graphql_api import Catalog, Entity, Id, Int32, SubId, Version

class Order(Entity{options}):
    order_id: Id[str]
    entry: SubId[str]

class Customer(Entity):
    customer_id: Id[str]
    changes: {changes} = 0

catalog = Catalog(Order, Customer)
"""


def test_refused_arguments_in_the_plan() -> None:
    """The plan names arguments that are refused, if their fields are served without them."""
    Path("orders_plain.py").write_text(ORDERS.format(options="", changes="Int32"))
    Path("orders_current.py").write_text(ORDERS.format(options=', current="~current"', changes="Version[Int32]"))
    assert run("table", "create", "orders_plain:catalog", "--store", STORE).exit_code == 0
    plan = json.loads(run("migrate", "orders_current:catalog", "--store", STORE, "--json").stdout)
    assert plan["notReadyQueries"] == ["orderById(history: CURRENT)", "expectedVersion of Customer"]


DERIVED = """
from graphql_api import Catalog, Entity, Id, Index, derived

class Place(Entity):
    place_id: Id[str]
    name: str = ""
    key: str = derived({how})
    by_key = Index(sort="key")

catalog = Catalog(Place)
"""


def test_refused_queries_of_a_new_version() -> None:
    """For a new version of a derived property, the plan names its searches and filters, refused while it is built."""
    Path("keys_old.py").write_text(DERIVED.format(how='str.upper, "name"'))
    Path("keys_new.py").write_text(DERIVED.format(how='str.lower, "name", version=2, previous=str.upper'))
    assert run("table", "create", "keys_old:catalog", "--store", STORE).exit_code == 0
    plan = json.loads(run("migrate", "keys_new:catalog", "--store", STORE, "--json").stdout)
    assert plan["notReadyQueries"] == [
        "placeByKey",
        "places(orderBy: KEY_ASC)",
        "places(orderBy: KEY_DESC)",
        "filters of Place.key",
    ]


def test_another_definition_of_an_index() -> None:
    """A catalog that redefines an index is refused with what differs, and a command that can be copied."""
    load("indexed")
    Path("shop_other.py").write_text(Path("shop_indexed.py").read_text().replace('sort="name")', 'sort="town_id")', 1))
    for command_name in ("migrate", "table create", "serve"):
        refused = run(*command_name.split(), "shop_other:catalog", "--store", STORE)
        assert refused.exit_code == 3
        assert (
            "sort is name text default '' in the table, and townId text default 't1' in the catalog" in refused.stderr
        )
        assert refused.stderr.endswith(f"remove the old one with: {command('other', '--drop')}\n")


def test_plan_without_pending_elements() -> None:
    """Without pending elements there is no plan, and the exit code is 0."""
    load("indexed")
    result = migrate("indexed")
    message = "Nothing is pending: the table has everything that the catalog declares.\n"
    assert (result.exit_code, result.stdout) == (0, message)
    plan = json.loads(migrate("indexed", "--json").stdout)
    assert (plan["pending"], plan["undeclared"], plan["notReadyQueries"], plan["records"]) == ([], [], [], 0)


def test_rate_in_the_plan() -> None:
    """With a rate, the shortest time includes the time for all records."""
    load()
    plan = json.loads(migrate("indexed", "--rate", "2", "--json").stdout)
    assert plan["seconds"] == plan["records"] / 2 > 0


def test_tables_that_cannot_be_migrated() -> None:
    """A missing table, and a table of other catalogs, are errors of the store."""
    missing = migrate("plain")
    assert missing.exit_code == 3
    remedy = f'shardql table create shop_plain:catalog --store "{STORE}"'
    assert missing.stderr == f"shardql: There is no file shop.db. Create what is missing with: {remedy}\n"
    assert not Path("shop.db").exists(), "a plan creates nothing"
    load()
    for words in ([], ["--apply"], ["--drop", "--yes"]):
        foreign = run("migrate", USERS, "--store", STORE, *words)
        assert foreign.exit_code == 3
        assert foreign.stderr.startswith("shardql: The table belongs to other catalogs: it knows place, town, and no")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--apply", "--drop"], "--drop includes --apply"),
        (["--yes"], "--report and --yes need --apply or --drop"),
        (["--report", "x"], "--report and --yes need --apply or --drop"),
        (["--rate", "0"], "greater than or equal to 0.001"),
    ],
)
def test_conflicting_options(words: list[str], message: str) -> None:
    """Options that do not fit together are an error, before anything is opened."""
    result = migrate("plain", *words)
    assert result.exit_code == 2
    assert message in plain_output(result)
    assert not Path("shop.db").exists()


# --- building --------------------------------------------------------------------------------------------------


def test_apply() -> None:
    """A migration builds what is pending, and reports its progress on the error stream. A second one does nothing."""
    load()
    result = migrate("indexed", "--apply")
    assert result.exit_code == 0
    ready, counts = result.stdout.splitlines()
    assert ready == f"Ready: {', '.join(PENDING)}."
    assert counts.endswith("items read, 3 written.")
    assert "migrating the table: repairing records" in result.stderr
    assert "\n! " not in run("table", "describe", "shop_indexed:catalog", "--store", STORE).stdout
    again = migrate("indexed", "--apply")
    assert (again.exit_code, again.stdout) == (0, "Nothing to do: nothing is pending.\n")
    assert migrate("indexed").exit_code == 0


def test_json_of_a_migration() -> None:
    """The JSON output of a migration lists what it did."""
    load()
    done = json.loads(migrate("indexed", "--apply", "--json").stdout)
    assert (sorted(done["ready"]), done["written"]) == (PENDING, 3)
    assert (done["dropped"], done["withdrawn"], done["violations"], done["notes"]) == ([], {}, [], [])


def test_violations() -> None:
    """Records that violate a constraint are reported until they are corrected. Then the constraint becomes ready."""
    load()
    result = migrate("unique", "--apply", "--report", "report.jsonl")
    assert result.exit_code == 1
    reported = [orjson.loads(line) for line in Path("report.jsonl").read_bytes().splitlines()]
    assert {violation["record"][1] for violation in reported} <= {"placeId#p1", "placeId#p2"}
    assert {tuple(violation["elements"]) for violation in reported} == {("unique place.email",)}
    assert all(violation["reason"] for violation in reported)
    assert "! unique place.email: place!" in result.stdout
    assert result.stdout.endswith(": see report.jsonl. Correct the records, and run the command again.\n")
    assert json.loads(migrate("unique", "--apply", "--json").stdout)["violations"] == reported
    assert migrate("unique", "--apply").stdout.endswith(
        "1 violation: --report FILE lists all of them. Correct the records, and run the command again.\n"
    )
    described = run("table", "describe", "shop_unique:catalog", "--store", STORE)
    assert (
        "! The unique place.email is being built: it is enforced, and stored records may still violate it."
        in described.stdout
    )
    Path("correct.jsonl").write_bytes(orjson.dumps({**PLACES[1], "email": "mill@example.com"}) + b"\n")
    load("plain", file="correct.jsonl")
    repaired = migrate("unique", "--apply", "--report", "report.jsonl")
    assert (repaired.exit_code, repaired.stdout.splitlines()[0]) == (0, "Ready: unique place.email.")
    assert Path("report.jsonl").read_bytes() == b"", "an earlier report is replaced"


def test_missing_elements_in_doctor() -> None:
    """Each element that is not ready is a finding with the command that builds it."""
    load()
    migrated = run("table", "create", "shop_indexed:catalog", "--store", STORE)
    assert migrated.exit_code == 0
    result = run("doctor", "shop_indexed:catalog", "--store", STORE)
    found = [line for line in result.stdout.splitlines() if line.startswith("! table")]
    assert result.exit_code == 1
    assert found == [
        f"! table       The {element} is announced, and not built yet. Build it with: {command('indexed', '--apply')}"
        for element in PENDING
    ]
    migrate("indexed", "--apply")
    assert run("doctor", "shop_indexed:catalog", "--store", STORE).exit_code == 0


# --- removing --------------------------------------------------------------------------------------------------


def test_drop() -> None:
    """What the catalog no longer declares is named by the plan, and removed once that is confirmed."""
    load("indexed")
    plan = migrate("plain")
    assert plan.exit_code == 0
    assert f"No longer declared by this catalog: {', '.join(PENDING)}." in plan.stdout
    assert command("plain", "--drop") in plan.stdout
    refused = migrate("plain", "--drop", stdin="n\n")
    assert refused.exit_code == 1
    assert f"To be removed: {', '.join(PENDING)}." in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert migrate("indexed").exit_code == 0
    result = migrate("plain", "--drop", stdin="y\n")
    assert result.exit_code == 0
    assert f"Removed: {', '.join(PENDING)}." in result.stdout.splitlines()
    assert migrate("plain").stdout == "Nothing is pending: the table has everything that the catalog declares.\n"
    again = migrate("plain", "--drop")
    assert (again.exit_code, again.stdout) == (0, "Nothing to do: nothing is pending.\n"), "asks only if necessary"


def test_drop_without_asking() -> None:
    """With --yes nothing is asked."""
    load("indexed")
    done = json.loads(migrate("plain", "--drop", "--yes", "--json").stdout)
    assert sorted(done["dropped"]) == PENDING


# --- automatic migration ---------------------------------------------------------------------------------------


def test_load_migrates_sqlite() -> None:
    """Commands that open a SQLite file for writing build what the catalog adds."""
    load()
    load("indexed")
    assert migrate("indexed").exit_code == 0


def test_load_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """In production, and without SHARDQL_MIGRATE, a load only announces."""
    load()
    for name, value in (("PRODUCTION", "1"), ("MIGRATE", "0")):
        with monkeypatch.context() as patched:
            patched.setenv(f"SHARDQL_{name}", value)
            load("indexed")
        assert [one["state"] for one in json.loads(migrate("indexed", "--json").stdout)["pending"]] == ["announced"] * 3


# --- DynamoDB --------------------------------------------------------------------------------------------------


@pytest.fixture
def url(dynamodb_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a table with short leases that does not exist yet."""
    for name, value in (("LEASE_SECONDS", "3.0"), ("LEASE_MARGIN_SECONDS", "0.1"), ("REQUEST_LIFE_SECONDS", "0.2")):
        monkeypatch.setenv(f"SHARDQL_{name}", value)
    return dynamodb_url


def test_migration_on_dynamodb(url: str) -> None:
    """On DynamoDB the plan has units, their price and the waits. Applying it builds the indexes."""
    assert run("table", "create", "shop_plain:catalog", "--store", url).exit_code == 0
    load(store=url)
    result = migrate("indexed", store=url)
    assert result.exit_code == 1
    assert "read units and 3 write units" in result.stdout
    plan = json.loads(migrate("indexed", "--json", store=url).stdout)
    assert plan["writeUnits"] == 3
    assert plan["cost"] == pytest.approx((plan["readUnits"] * 0.125 + 3 * 0.625) / 1_000_000)
    assert plan["seconds"] == pytest.approx(3.3), "a lease, the margin, and the life of a request"
    assert plan["isExact"]
    applied = migrate("indexed", "--apply", store=url)
    assert (applied.exit_code, applied.stdout.splitlines()[0]) == (0, f"Ready: {', '.join(PENDING)}.")
    assert "repairing records" in applied.stderr
    described = json.loads(run("table", "describe", "shop_indexed:catalog", "--store", url, "--json").stdout)
    assert (described["leaseSeconds"], described["differences"]) == (3.0, [])
    assert {index["status"] for index in described["indexes"]} == {"fits"}
