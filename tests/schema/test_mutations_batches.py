"""Batches: a result for each row, in its place, whatever becomes of the others."""

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
from tests.schema.asking import LIMITS, Asked, asked, asking, opened
from tests.stores import Counts, WrappedStore


class Badge(Entity):
    """Who may come in."""

    badge_id: Id[str]
    code: Unique[str]
    level: Int32 = 0
    version: Version[Int32]


class Entry(Entity):
    """When they came."""

    badge_id: Id[str]
    at: SubId[Int32]
    door: str = "-"


class Ledger(Entity):
    """What is written more often than 32 bits count."""

    ledger_id: Id[str]
    sum: Int32 = 0
    version: Version[int]


CATALOG = Catalog(Badge, Entry, Ledger)
GRAPH = Graph(CATALOG)
ERROR = "error { code message argument retryable version fields { field message } }"


async def rows(ask: Asked, verb: str, given: Sequence[Mapping[str, Any]], key: str | None = None) -> list[Any]:
    """The results of a batch of badges."""
    shown = "deletedId" if verb == "delete" else "badge { badgeId code level version }"
    name = f"{verb}Badges"
    query = f"""mutation ($inputs: [{verb.capitalize()}BadgeInput!]!, $key: String) {{
      {name}(inputs: $inputs, idempotencyKey: $key) {{ results {{ {shown} {ERROR} }} }}
    }}"""
    found: list[Any] = (await ask.data(query, {"inputs": given, "key": key}))[name]["results"]
    assert len(found) == len(given)
    return found


def badge(number: int, **more: Any) -> dict[str, Any]:
    """A badge as it is created."""
    return {"badgeId": f"b{number}", "code": f"c{number}", **more}


def told(results: list[Any]) -> list[Any]:
    """Of each row its code, or None."""
    return [one["error"] and one["error"]["code"] for one in results]


async def test_a_result_for_each_row(tmp_path: Path) -> None:
    """Rows are answered in their order, each with its record or with its error, and those that fit are written."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        await rows(ask, "create", [badge(0)])
        results = await rows(
            ask, "create", [badge(1), badge(0), badge(2, code="c0"), badge(3, badgeId=""), badge(4, level=7)]
        )
        assert told(results) == [None, "ALREADY_EXISTS", "NOT_UNIQUE", "EMPTY_KEY", None]
        assert [one["badge"] for one in results] == [
            {**badge(1), "level": 0, "version": 1},
            None,
            None,
            None,
            {**badge(4), "level": 7, "version": 1},
        ]
        assert results[2]["error"]["argument"] == "code"
        assert not any(one["error"]["retryable"] for one in results if one["error"])
        found = await ask.data("{ badgeById { items { badgeId } } }")
        assert found["badgeById"]["items"] == [{"badgeId": f"b{number}"} for number in (0, 1, 4)]


async def test_other_verbs(tmp_path: Path) -> None:
    """Records are changed, put and removed in batches too, each row with the version that it expects."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        await rows(ask, "create", [badge(number) for number in range(4)])
        changes = [{"id": "b0", "level": 1}, {"id": "b9", "level": 1}, {"id": "b1", "level": 2, "expectedVersion": 5}]
        assert told(await rows(ask, "update", changes)) == [None, "RECORD_NOT_FOUND", "VERSION_CONFLICT"]
        puts = [badge(1, code="c1"), badge(5), badge(2, expectedVersion=1), badge(3, expectedVersion=2)]
        results = await rows(ask, "put", puts)
        assert told(results) == [None, None, None, "VERSION_CONFLICT"]
        assert [one["badge"] and one["badge"]["version"] for one in results] == [2, 1, 2, None]
        gone = await rows(ask, "delete", [{"id": "b1"}, {"id": "b9"}, {"id": "b2", "expectedVersion": 1}])
        assert told(gone) == [None, None, "VERSION_CONFLICT"]
        assert [bool(one["deletedId"]) for one in gone] == [True, False, False]
        found = await ask.data("{ badgeById { items { badgeId level } } }")
        assert [(one["badgeId"], one["level"]) for one in found["badgeById"]["items"]] == [
            ("b0", 1),
            ("b2", 0),
            ("b3", 0),
            ("b5", 0),
        ]


async def test_the_version_of_a_row(tmp_path: Path) -> None:
    """A row whose record has another version is told which, as a text that holds every version; no other row is."""
    far = 2**53 + 1
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        for record in (Badge(badge_id="b0", code="c0", version=3), Ledger(ledger_id="l", version=far)):
            assert await ask.db.restore_many([record]) == [None]
        changes = [{"id": "b0", "level": 1, "expectedVersion": 2}, {"id": "b9", "level": 1, "expectedVersion": 2}]
        results = await rows(ask, "update", [*changes, {"id": "b0", "level": 1, "expectedVersion": 3}])
        assert [one["error"] and (one["error"]["code"], one["error"]["version"]) for one in results] == [
            ("VERSION_CONFLICT", "3"),
            ("RECORD_NOT_FOUND", None),
            None,
        ]
        (put,) = await rows(ask, "put", [badge(9, expectedVersion=1)])
        assert (put["error"]["code"], put["error"]["version"]) == ("VERSION_CONFLICT", None)
        late = """mutation ($at: BigInt!) { updateLedgers(inputs: [{id: "l", sum: 2, expectedVersion: $at}]) {
          results { ledger { version } error { version } } } }"""
        (first,) = (await ask.data(late, {"at": 1}))["updateLedgers"]["results"]
        assert first == {"ledger": None, "error": {"version": str(far)}}
        (second,) = (await ask.data(late, {"at": first["error"]["version"]}))["updateLedgers"]["results"]
        assert second == {"ledger": {"version": str(far + 1)}, "error": None}


async def test_rows_of_a_history(tmp_path: Path) -> None:
    """Rows of histories name their entry by id and sub id, or by the sealed id of the entry."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        query = """mutation {
          createEntries(inputs: [{badgeId: "b", at: 1}, {badgeId: "b", at: 2}]) { results { entry { id at } } }
          updateEntries(inputs: [{id: "b", at: 1, door: "A"}, {id: "b"}]) { results { entry { door } error { code } } }
        }"""
        made = await ask.data(query)
        assert made["updateEntries"]["results"] == [
            {"entry": {"door": "A"}, "error": None},
            {"entry": None, "error": {"code": "MISSING_ARGUMENT"}},
        ]
        second = made["createEntries"]["results"][1]["entry"]["id"]
        delete = """mutation ($id: ID!) { deleteEntries(inputs: [{id: $id}, {id: $id, at: 1}]) {
          results { deletedId error { code argument } } } }"""
        gone = (await ask.data(delete, {"id": second}))["deleteEntries"]["results"]
        assert gone == [
            {"deletedId": second, "error": None},
            {"deletedId": None, "error": {"code": "CONFLICTING_ARGUMENTS", "argument": "at"}},
        ]


async def test_the_same_batch_again(tmp_path: Path) -> None:
    """A batch that is sent again under its key changes nothing more, and its rows are answered as the first time."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        first = await rows(ask, "create", [badge(1), badge(2)], "k")
        assert await rows(ask, "create", [badge(1), badge(2)], "k") == first
        assert told(await rows(ask, "create", [badge(1), badge(3)], "k")) == [None, "IDEMPOTENCY_MISMATCH"]
        assert told(await rows(ask, "create", [badge(1), badge(2)])) == ["ALREADY_EXISTS", "ALREADY_EXISTS"]


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 252])
async def test_what_is_no_key(tmp_path: Path, key: str) -> None:
    """What is no idempotency key is refused for the whole batch, before anything is written."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        inputs = '[{badgeId: "b", code: "c"}]'
        query = f"mutation ($key: String) {{ createBadges(inputs: {inputs}, idempotencyKey: $key) {{ __typename }} }}"
        error = await ask.error(query, {"key": key})
        assert error["extensions"] == {"code": "INVALID_VALUE", "argument": "idempotencyKey"}
        assert ask.counts.without_lists() == Counts().without_lists()
        longest = await rows(ask, "create", [badge(1)], "x" * 251)
        assert told(longest) == [None]


async def test_several_rows_of_one_record(tmp_path: Path) -> None:
    """Rows of one batch may be about the same record: every one of them counts."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        await rows(ask, "create", [badge(1)])
        results = await rows(ask, "update", [{"id": "b1", "level": number} for number in range(5)])
        assert told(results) == [None] * 5
        assert sorted(one["badge"]["version"] for one in results) == [2, 3, 4, 5, 6]


# --- limits ----------------------------------------------------------------------------------------------------


async def test_most_rows(tmp_path: Path) -> None:
    """At most a hundred rows are written by one field; none is fine, and more are refused before anything is read."""
    async with asked(CATALOG, tmp_path, graph=GRAPH) as ask:
        assert await rows(ask, "create", []) == []
        query = "mutation ($inputs: [DeleteBadgeInput!]!) { deleteBadges(inputs: $inputs) { results { deletedId } } }"
        error = await ask.error(query, {"inputs": [{"id": "b"}] * (MAX_ROWS + 1)})
        assert error["extensions"] == {"code": "INVALID_LIMIT", "argument": "inputs"}
        assert ask.counts.without_lists() == Counts().without_lists()
        assert len(await rows(ask, "delete", [{"id": f"b{number}"} for number in range(MAX_ROWS)])) == MAX_ROWS


@pytest.mark.parametrize("by_variable", [True, False])
async def test_rows_are_weighed(tmp_path: Path, by_variable: bool) -> None:
    """Every row of a batch costs a write and what is shown of it, whether anything is shown or not."""
    literal = "[{id: 1}, {id: 2}, {id: 3}]"
    given, inputs = ("($inputs: [DeleteBadgeInput!]!)", "$inputs") if by_variable else ("", literal)
    variables = {"inputs": [{"id": "1"}, {"id": "2"}, {"id": "3"}]} if by_variable else {}
    async with asked(CATALOG, tmp_path, graph=GRAPH, limits=replace(LIMITS, cost=5)) as ask:
        for shown, cost in (("{ __typename }", 32), ("{ results { deletedId error { code } } }", 1 + 30 + 1 + 3 * 4)):
            query = f"mutation {given} {{ deleteBadges(inputs: {inputs}) {shown} }}"
            error = await ask.error(query, variables)
            assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 5, "found": cost}
        one = "mutation { deleteBadge(id: 1) { deletedId } }"
        assert (await ask.error(one))["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 5, "found": 12}


# --- the store -------------------------------------------------------------------------------------------------


class Breaking(WrappedStore):
    """Lets no write of some badges through."""

    problems: Mapping[str, ShardQLError] = {}

    def _check(self, writes: Any) -> None:
        for one in writes:
            problem = self.problems.get(getattr(one, "item", {}).get("badgeId", ""))
            if problem is not None:
                raise problem

    async def write(self, writes: Any) -> Any:
        """Refuses all of them."""
        self._check(writes)
        return await super().write(writes)

    async def write_together(self, writes: Any, token: str) -> None:
        """Refuses all of them."""
        self._check(writes)
        await super().write_together(writes, token)


async def test_what_the_store_says_of_a_row(tmp_path: Path) -> None:
    """A row that the store refuses says so, and whether it may be tried again; the log alone has the store's words."""
    store = Breaking(await open_sqlite(tmp_path / "x.db"))
    store.problems = {
        "b1": Throttled("The table orders-7 asks for patience."),
        "b2": StoreRefused("The table orders-7 takes no such record."),
    }
    async with opened(CATALOG, store) as db:
        ask = asking(db, graph=GRAPH, details=False)
        results = await rows(ask, "create", [badge(number) for number in range(4)])
        assert results[0]["error"] is None
        assert results[3]["error"] is None
        assert results[2]["error"]["code"] == "STORE_REFUSED"
        assert results[1]["error"]["retryable"]
        assert "orders-7" not in str(results)
