"""Hooks around generated mutations: what they see, what they change, and what they keep from being written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import strawberry
from strawberry.extensions import FieldExtension

from graphql_api import Catalog, Entity, Id, Int32, Unique, Version
from graphql_api.errors import ShardQLError
from graphql_api.schema.graph import Graph
from tests.schema.asking import asked
from tests.stores import Counts

Info = strawberry.Info[Any, None]


class Seat(Entity):
    """A place in a row."""

    seat_id: Id[str]
    code: Unique[str]
    row_name: str | None = None
    version: Version[Int32]


CATALOG = Catalog(Seat)
SHOWN = "{ results { seat { seatId code rowName version } error { code } } }"


class NotForSale(ShardQLError):
    """Some seats are nobody's."""

    code = "NOT_FOR_SALE"


class Before(FieldExtension):
    """Looks at what is asked for, and may refuse it."""

    def __init__(self, look: Callable[[Mapping[str, Any]], None]) -> None:
        self.look = look

    async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
        """Before anything is done."""
        self.look(given)
        return await next_(source, info, **given)


def sold(given: Mapping[str, Any]) -> None:
    """Refuses the seats whose code or id begins with a star."""
    inputs = given.get("inputs", [given["input"]] if "input" in given else [])
    named = [given["id"]] if "id" in given else [one.code for one in inputs]
    if any(name.startswith("*") for name in named):
        raise NotForSale("Seats with a star are not for sale: choose another one.")


MUTATIONS = {
    "createSeat": 'createSeat(input: {seatId: "new", code: "*1"}) { seat { seatId } }',
    "putSeat": 'putSeat(input: {seatId: "a", code: "*1"}) { seat { seatId } }',
    "updateSeat": 'updateSeat(input: {id: "a", code: "*1"}) { seat { seatId } }',
    "deleteSeat": 'deleteSeat(id: "*a") { deletedId }',
    "createSeats": f'createSeats(inputs: [{{seatId: "n", code: "n"}}, {{seatId: "o", code: "*1"}}]) {SHOWN}',
}


@pytest.mark.parametrize("name", MUTATIONS)
async def test_a_hook_refuses(tmp_path: Path, name: str) -> None:
    """What a hook refuses is an error of the field with the hook's own code, before anything is read or written."""
    graph = Graph(CATALOG)
    graph.hook(name, Before(sold))
    seats = [Seat(seat_id=id, code=id, version=1) for id in ("a", "*a")]
    async with asked(CATALOG, tmp_path, *seats, graph=graph) as ask:
        ask.forget()
        error = await ask.error(f"mutation {{ {MUTATIONS[name]} }}")
        assert error["extensions"]["code"] == "NOT_FOR_SALE"
        assert error["path"] == [name]
        assert ask.counts.without_lists() == Counts().without_lists()
        found = await ask.data("{ seatById { items { seatId code version } } }")
        assert found["seatById"]["items"] == [{"seatId": id, "code": id, "version": 1} for id in ("*a", "a")]


async def test_what_a_hook_sees(tmp_path: Path) -> None:
    """Inputs have the Python names of properties, and UNSET for what was left out; arguments go by those in GraphQL."""
    seen: list[dict[str, Any]] = []
    graph = Graph(CATALOG)
    for name in ("createSeat", "updateSeats", "deleteSeat"):
        graph.hook(name, Before(lambda given: seen.append({**given})))
    async with asked(CATALOG, tmp_path, graph=graph) as ask:
        await ask.data("""mutation {
          createSeat(input: {seatId: "a", code: "c"}, idempotencyKey: "k") { __typename }
          updateSeats(inputs: [{id: "a", rowName: null, expectedVersion: 1}]) { __typename }
          deleteSeat(id: "a", expectedVersion: 2) { __typename }
        }""")
    create, update, delete = seen
    assert vars(create.pop("input")) == {"seat_id": "a", "code": "c", "row_name": strawberry.UNSET}
    (row,) = update.pop("inputs")
    assert vars(row) == {"id": "a", "code": strawberry.UNSET, "row_name": None, "expected_version": 1}
    assert (create, update) == ({"idempotencyKey": "k"}, {})
    assert delete == {"id": "a", "expectedVersion": 2}


async def test_a_hook_around_a_batch(tmp_path: Path) -> None:
    """It sees all rows at once, may change them and leave some out; what it makes of them is judged row by row."""

    class Numbered(FieldExtension):
        async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
            for at, row in enumerate(given["inputs"]):
                row.row_name = f"row {at}"
                row.code = row.code.upper()
            return await next_(source, info, **{**given, "inputs": given["inputs"][:2]})

    graph = Graph(CATALOG)
    graph.hook("createSeats", Numbered())
    async with asked(CATALOG, tmp_path, Seat(seat_id="s", code="Y", version=1), graph=graph) as ask:
        inputs = [{"seatId": f"s{at}", "code": code} for at, code in enumerate("xyz")]
        query = f"mutation ($inputs: [CreateSeatInput!]!) {{ createSeats(inputs: $inputs) {SHOWN} }}"
        made = {"seatId": "s0", "code": "X", "rowName": "row 0", "version": 1}
        assert (await ask.data(query, {"inputs": inputs}))["createSeats"]["results"] == [
            {"seat": made, "error": None},
            {"seat": None, "error": {"code": "NOT_UNIQUE"}},
        ]
        found = await ask.data("{ seatById { items { seatId code rowName version } } }")
        assert [one["seatId"] for one in found["seatById"]["items"]] == ["s", "s0"]
        assert found["seatById"]["items"][1] == made


async def test_a_hook_behind_a_write(tmp_path: Path) -> None:
    """It changes the answer and not the record; what it refuses then is written all the same."""

    class Late(FieldExtension):
        async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
            answer = await next_(source, info, **given)
            if given["input"].code == "late":
                raise NotForSale("Too late.")
            return answer

    graph = Graph(CATALOG)
    graph.hook("createSeat", Late())
    async with asked(CATALOG, tmp_path, graph=graph) as ask:
        query = "mutation ($input: CreateSeatInput!) { createSeat(input: $input) { seat { code } } }"
        assert (await ask.data(query, {"input": {"seatId": "a", "code": "c"}}))["createSeat"]["seat"] == {"code": "c"}
        error = await ask.error(query, {"input": {"seatId": "b", "code": "late"}})
        assert error["extensions"]["code"] == "NOT_FOR_SALE"
        found = await ask.data("{ seatById { items { code } } }")
        assert found["seatById"]["items"] == [{"code": "c"}, {"code": "late"}]
