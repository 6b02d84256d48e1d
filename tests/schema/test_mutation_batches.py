"""Batch mutations: each row has its own result, in input order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Int32, SubId, Unique, Version
from graphql_api.errors import ShardQLError, StoreRefused, Throttled
from graphql_api.schema.fields.mutation_fields import MAX_ROWS
from graphql_api.schema.graph import Graph
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from tests.schema.graphql_client import LIMITS, GraphQLClient, client_for, open_client, open_database
from tests.schema.graphql_text import input_type
from tests.support.store_doubles import Counts


class Badge(Entity):
    """A badge that opens doors."""

    badge_id: Id[str]
    code: Unique[str]
    level: Int32 = 0
    version: Version[Int32]


class Entry(Entity):
    """The time of an entry."""

    badge_id: Id[str]
    at: SubId[Int32]
    door: str = "-"


class Ledger(Entity):
    """Its version exceeds 32 bits."""

    ledger_id: Id[str]
    sum: Int32 = 0
    version: Version[int]


CATALOG = Catalog(Badge, Entry, Ledger)
GRAPH = Graph(CATALOG)
ERROR = "error { code message argument retryable version fields { field message } }"


async def run_batch(
    client: GraphQLClient, verb: str, given: Sequence[Mapping[str, Any]], key: str | None = None
) -> list[Any]:
    """Runs a batch mutation of badges and returns its results."""
    shown = "deletedId" if verb == "delete" else "badge { badgeId code level version }"
    name = f"{verb}Badges"
    query = f"""mutation ($inputs: [{input_type(verb, "Badge")}!]!, $key: String) {{
      {name}(inputs: $inputs, idempotencyKey: $key) {{ results {{ {shown} {ERROR} }} }}
    }}"""
    found: list[Any] = (await client.data(query, {"inputs": given, "key": key}))[name]["results"]
    assert len(found) == len(given)
    return found


def badge_input(number: int, **more: Any) -> dict[str, Any]:
    """The input of a new badge."""
    return {"badgeId": f"b{number}", "code": f"c{number}", **more}


def error_codes(results: list[Any]) -> list[Any]:
    """The error code of each row, or None."""
    return [one["error"] and one["error"]["code"] for one in results]


async def test_result_of_each_row(tmp_path: Path) -> None:
    """Results are in input order, each with its record or its error. Valid rows are written."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        await run_batch(client, "create", [badge_input(0)])
        results = await run_batch(
            client,
            "create",
            [
                badge_input(1),
                badge_input(0),
                badge_input(2, code="c0"),
                badge_input(3, badgeId=""),
                badge_input(4, level=7),
            ],
        )
        assert error_codes(results) == [None, "ALREADY_EXISTS", "NOT_UNIQUE", "EMPTY_KEY", None]
        assert [one["badge"] for one in results] == [
            {**badge_input(1), "level": 0, "version": 1},
            None,
            None,
            None,
            {**badge_input(4), "level": 7, "version": 1},
        ]
        assert results[2]["error"]["argument"] == "code"
        assert not any(one["error"]["retryable"] for one in results if one["error"])
        found = await client.data("{ badgeById { items { badgeId } } }")
        assert found["badgeById"]["items"] == [{"badgeId": f"b{number}"} for number in (0, 1, 4)]


async def test_update_put_and_delete(tmp_path: Path) -> None:
    """Batches update, put and delete records, each row with its own expected version."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        await run_batch(client, "create", [badge_input(number) for number in range(4)])
        changes = [{"id": "b0", "level": 1}, {"id": "b9", "level": 1}, {"id": "b1", "level": 2, "expectedVersion": 5}]
        assert error_codes(await run_batch(client, "update", changes)) == [None, "RECORD_NOT_FOUND", "VERSION_CONFLICT"]
        puts = [
            badge_input(1, code="c1"),
            badge_input(5),
            badge_input(2, expectedVersion=1),
            badge_input(3, expectedVersion=2),
        ]
        results = await run_batch(client, "put", puts)
        assert error_codes(results) == [None, None, None, "VERSION_CONFLICT"]
        assert [one["badge"] and one["badge"]["version"] for one in results] == [2, 1, 2, None]
        deleted = await run_batch(client, "delete", [{"id": "b1"}, {"id": "b9"}, {"id": "b2", "expectedVersion": 1}])
        assert error_codes(deleted) == [None, None, "VERSION_CONFLICT"]
        assert [bool(one["deletedId"]) for one in deleted] == [True, False, False]
        found = await client.data("{ badgeById { items { badgeId level } } }")
        assert [(one["badgeId"], one["level"]) for one in found["badgeById"]["items"]] == [
            ("b0", 1),
            ("b2", 0),
            ("b3", 0),
            ("b5", 0),
        ]


async def test_version_of_a_row(tmp_path: Path) -> None:
    """A version conflict reports the stored version of its row, as a string that holds 64-bit numbers."""
    large_version = 2**53 + 1
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        for record in (Badge(badge_id="b0", code="c0", version=3), Ledger(ledger_id="l", version=large_version)):
            assert await client.db.restore_many([record]) == [None]
        changes = [{"id": "b0", "level": 1, "expectedVersion": 2}, {"id": "b9", "level": 1, "expectedVersion": 2}]
        results = await run_batch(client, "update", [*changes, {"id": "b0", "level": 1, "expectedVersion": 3}])
        assert [one["error"] and (one["error"]["code"], one["error"]["version"]) for one in results] == [
            ("VERSION_CONFLICT", "3"),
            ("RECORD_NOT_FOUND", None),
            None,
        ]
        (put,) = await run_batch(client, "put", [badge_input(9, expectedVersion=1)])
        assert (put["error"]["code"], put["error"]["version"]) == ("VERSION_CONFLICT", None)
        update = """mutation ($at: BigInt!) { updateLedgers(inputs: [{id: "l", sum: 2, expectedVersion: $at}]) {
          results { ledger { version } error { version } } } }"""
        (first,) = (await client.data(update, {"at": 1}))["updateLedgers"]["results"]
        assert first == {"ledger": None, "error": {"version": str(large_version)}}
        (second,) = (await client.data(update, {"at": first["error"]["version"]}))["updateLedgers"]["results"]
        assert second == {"ledger": {"version": str(large_version + 1)}, "error": None}


async def test_history_rows(tmp_path: Path) -> None:
    """Updates of histories identify their entry by id and sub id, or by its global id; deletes by its global id."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        query = """mutation {
          createEntries(inputs: [{badgeId: "b", at: 1}, {badgeId: "b", at: 2}]) { results { entry { id at } } }
          updateEntries(inputs: [{id: "b", at: 1, door: "A"}, {id: "b"}]) { results { entry { door } error { code } } }
        }"""
        made = await client.data(query)
        assert made["updateEntries"]["results"] == [
            {"entry": {"door": "A"}, "error": None},
            {"entry": None, "error": {"code": "MISSING_ARGUMENT"}},
        ]
        second = made["createEntries"]["results"][1]["entry"]["id"]
        delete = """mutation ($id: ID!) { deleteEntries(inputs: [{id: $id}, {id: "b"}]) {
          results { deletedId error { code argument } } } }"""
        deleted = (await client.data(delete, {"id": second}))["deleteEntries"]["results"]
        assert deleted == [
            {"deletedId": second, "error": None},
            {"deletedId": None, "error": {"code": "MISSING_ARGUMENT", "argument": "id"}},
        ]


async def test_idempotency_keys(tmp_path: Path) -> None:
    """A batch that is repeated with its idempotency key writes nothing, and returns the first results."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        first = await run_batch(client, "create", [badge_input(1), badge_input(2)], "k")
        assert await run_batch(client, "create", [badge_input(1), badge_input(2)], "k") == first
        assert error_codes(await run_batch(client, "create", [badge_input(1), badge_input(3)], "k")) == [
            None,
            "IDEMPOTENCY_MISMATCH",
        ]
        assert error_codes(await run_batch(client, "create", [badge_input(1), badge_input(2)])) == [
            "ALREADY_EXISTS",
            "ALREADY_EXISTS",
        ]


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 252])
async def test_invalid_idempotency_keys(tmp_path: Path, key: str) -> None:
    """An invalid idempotency key is refused for the whole batch, before any write."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        inputs = '[{badgeId: "b", code: "c"}]'
        query = f"mutation ($key: String) {{ createBadges(inputs: {inputs}, idempotencyKey: $key) {{ __typename }} }}"
        error = await client.error(query, {"key": key})
        assert error["extensions"] == {"code": "INVALID_VALUE", "argument": "idempotencyKey"}
        assert client.counts.scalar_counts() == Counts().scalar_counts()
        longest = await run_batch(client, "create", [badge_input(1)], "x" * 251)
        assert error_codes(longest) == [None]


async def test_several_rows_of_one_record(tmp_path: Path) -> None:
    """Several rows of a batch may update the same record, and each takes effect."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        await run_batch(client, "create", [badge_input(1)])
        results = await run_batch(client, "update", [{"id": "b1", "level": number} for number in range(5)])
        assert error_codes(results) == [None] * 5
        assert sorted(one["badge"]["version"] for one in results) == [2, 3, 4, 5, 6]


# --- limits ----------------------------------------------------------------------------------------------------


async def test_row_limit(tmp_path: Path) -> None:
    """One field writes at most 100 rows. An empty batch is valid, and larger batches are refused before any read."""
    async with open_client(CATALOG, tmp_path, graph=GRAPH) as client:
        assert await run_batch(client, "create", []) == []
        query = "mutation ($inputs: [DeleteInput!]!) { deleteBadges(inputs: $inputs) { results { deletedId } } }"
        error = await client.error(query, {"inputs": [{"id": "b"}] * (MAX_ROWS + 1)})
        assert error["extensions"] == {"code": "INVALID_LIMIT", "argument": "inputs"}
        assert client.counts.scalar_counts() == Counts().scalar_counts()
        assert len(await run_batch(client, "delete", [{"id": f"b{number}"} for number in range(MAX_ROWS)])) == MAX_ROWS


@pytest.mark.parametrize("by_variable", [True, False])
async def test_query_cost_of_rows(tmp_path: Path, by_variable: bool) -> None:
    """Each row adds its write and its selected fields to the query cost, even with a minimal selection."""
    literal = "[{id: 1}, {id: 2}, {id: 3}]"
    given, inputs = ("($inputs: [DeleteInput!]!)", "$inputs") if by_variable else ("", literal)
    variables = {"inputs": [{"id": "1"}, {"id": "2"}, {"id": "3"}]} if by_variable else {}
    async with open_client(CATALOG, tmp_path, graph=GRAPH, limits=replace(LIMITS, cost=5)) as client:
        for shown, cost in (("{ __typename }", 32), ("{ results { deletedId error { code } } }", 1 + 30 + 1 + 3 * 4)):
            query = f"mutation {given} {{ deleteBadges(inputs: {inputs}) {shown} }}"
            error = await client.error(query, variables)
            assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 5, "found": cost}
        one = "mutation { deleteBadge(id: 1) { deletedId } }"
        assert (await client.error(one))["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 5, "found": 12}


# --- store errors ----------------------------------------------------------------------------------------------


class RefusingStore(ForwardingStore):
    """Fails every write of the configured badges."""

    problems: Mapping[str, ShardQLError] = {}

    def _check(self, writes: Any) -> None:
        for one in writes:
            problem = self.problems.get(getattr(one, "item", {}).get("badgeId", ""))
            if problem is not None:
                raise problem

    async def write(self, writes: Any) -> Any:
        """Raises the configured error, or writes."""
        self._check(writes)
        return await super().write(writes)

    async def write_together(self, writes: Any, token: str) -> None:
        """Raises the configured error, or writes."""
        self._check(writes)
        await super().write_together(writes, token)


async def test_store_errors_of_a_row(tmp_path: Path) -> None:
    """A store error of a row reports its code and whether it is retryable; the store's message is only in the log."""
    store = RefusingStore(await open_sqlite(tmp_path / "x.db"))
    store.problems = {
        "b1": Throttled("The table orders-7 asks for patience."),
        "b2": StoreRefused("The table orders-7 takes no such record."),
    }
    async with open_database(CATALOG, store) as db:
        client = client_for(db, graph=GRAPH, details=False)
        results = await run_batch(client, "create", [badge_input(number) for number in range(4)])
        assert results[0]["error"] is None
        assert results[3]["error"] is None
        assert results[2]["error"]["code"] == "STORE_REFUSED"
        assert results[1]["error"]["retryable"]
        assert "orders-7" not in str(results)
