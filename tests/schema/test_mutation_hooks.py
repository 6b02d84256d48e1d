"""Hooks on generated mutations: their view of the input, their changes, and their refusals."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import strawberry
from strawberry.extensions import FieldExtension

from graphql_api import Catalog, Entity, Id, Int32, Unique, Version
from graphql_api.errors import ShardQLError
from graphql_api.schema.graph import Graph
from tests.schema.graphql_client import open_client
from tests.support.store_doubles import Counts

Info = strawberry.Info[Any, None]


class Seat(Entity):
    """A seat in a row."""

    seat_id: Id[str]
    code: Unique[str]
    row_name: str | None = None
    version: Version[Int32]


CATALOG = Catalog(Seat)
SHOWN = "{ results { seat { seatId code rowName version } error { code } } }"


class NotForSale(ShardQLError):
    """The error of a hook."""

    code = "NOT_FOR_SALE"


class BeforeMutation(FieldExtension):
    """Calls a check with the arguments, which may raise."""

    def __init__(self, check: Callable[[Mapping[str, Any]], None]) -> None:
        self.check = check

    async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
        """Checks the arguments before the mutation runs."""
        self.check(given)
        return await next_(source, info, **given)


def refuse_starred_seats(given: Mapping[str, Any]) -> None:
    """Refuses seats whose code or id begins with an asterisk."""
    inputs = given.get("inputs", [given["input"]] if "input" in given else [])
    names = [given["id"]] if "id" in given else [one.code for one in inputs]
    if any(name.startswith("*") for name in names):
        raise NotForSale("Seats with a star are not for sale: choose another one.")


MUTATIONS = {
    "createSeat": 'createSeat(input: {seatId: "new", code: "*1"}) { seat { seatId } }',
    "putSeat": 'putSeat(input: {seatId: "a", code: "*1"}) { seat { seatId } }',
    "updateSeat": 'updateSeat(input: {id: "a", code: "*1"}) { seat { seatId } }',
    "deleteSeat": 'deleteSeat(id: "*a") { deletedId }',
    "createSeats": f'createSeats(inputs: [{{seatId: "n", code: "n"}}, {{seatId: "o", code: "*1"}}]) {SHOWN}',
}


@pytest.mark.parametrize("name", MUTATIONS)
async def test_refusal_by_a_hook(tmp_path: Path, name: str) -> None:
    """An error raised by a hook is an error of the field, with its own code, before any read or write."""
    graph = Graph(CATALOG)
    graph.hook(name, BeforeMutation(refuse_starred_seats))
    seats = [Seat(seat_id=id, code=id, version=1) for id in ("a", "*a")]
    async with open_client(CATALOG, tmp_path, *seats, graph=graph) as client:
        client.reset_counts()
        error = await client.error(f"mutation {{ {MUTATIONS[name]} }}")
        assert error["extensions"]["code"] == "NOT_FOR_SALE"
        assert error["path"] == [name]
        assert client.counts.scalar_counts() == Counts().scalar_counts()
        found = await client.data("{ seatById { items { seatId code version } } }")
        assert found["seatById"]["items"] == [{"seatId": id, "code": id, "version": 1} for id in ("*a", "a")]


async def test_arguments_of_a_hook(tmp_path: Path) -> None:
    """Inputs have Python names and UNSET for omitted fields; the arguments themselves have GraphQL names."""
    seen: list[dict[str, Any]] = []
    graph = Graph(CATALOG)
    for name in ("createSeat", "updateSeats", "deleteSeat"):
        graph.hook(name, BeforeMutation(lambda given: seen.append({**given})))
    async with open_client(CATALOG, tmp_path, graph=graph) as client:
        await client.data("""mutation {
          createSeat(input: {seatId: "a", code: "c"}, idempotencyKey: "k") { __typename }
          updateSeats(inputs: [{id: "a", rowName: null, expectedVersion: 1}]) { __typename }
          deleteSeat(id: "a", expectedVersion: 2) { __typename }
        }""")
    create, update, delete = seen
    assert vars(create.pop("input")) == {
        "seat_id": "a",
        "code": "c",
        "row_name": strawberry.UNSET,
        "expected_version": strawberry.UNSET,
    }
    (row,) = update.pop("inputs")
    assert vars(row) == {"id": "a", "code": strawberry.UNSET, "row_name": None, "expected_version": 1}
    assert (create, update) == ({"idempotencyKey": "k"}, {})
    assert delete == {"id": "a", "expectedVersion": 2}


async def test_hook_on_a_batch(tmp_path: Path) -> None:
    """A hook sees all rows of a batch, and can change or drop some. The result is validated row by row."""

    class Numbered(FieldExtension):
        async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
            for at, row in enumerate(given["inputs"]):
                row.row_name = f"row {at}"
                row.code = row.code.upper()
            return await next_(source, info, **{**given, "inputs": given["inputs"][:2]})

    graph = Graph(CATALOG)
    graph.hook("createSeats", Numbered())
    async with open_client(CATALOG, tmp_path, Seat(seat_id="s", code="Y", version=1), graph=graph) as client:
        inputs = [{"seatId": f"s{at}", "code": code} for at, code in enumerate("xyz")]
        query = f"mutation ($inputs: [SeatInput!]!) {{ createSeats(inputs: $inputs) {SHOWN} }}"
        made = {"seatId": "s0", "code": "X", "rowName": "row 0", "version": 1}
        assert (await client.data(query, {"inputs": inputs}))["createSeats"]["results"] == [
            {"seat": made, "error": None},
            {"seat": None, "error": {"code": "NOT_UNIQUE"}},
        ]
        found = await client.data("{ seatById { items { seatId code rowName version } } }")
        assert [one["seatId"] for one in found["seatById"]["items"]] == ["s", "s0"]
        assert found["seatById"]["items"][1] == made


async def test_hook_after_a_write(tmp_path: Path) -> None:
    """A hook that runs after the write can change or refuse the response, but not undo the write."""

    class Late(FieldExtension):
        async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
            answer = await next_(source, info, **given)
            if given["input"].code == "late":
                raise NotForSale("Too late.")
            return answer

    graph = Graph(CATALOG)
    graph.hook("createSeat", Late())
    async with open_client(CATALOG, tmp_path, graph=graph) as client:
        query = "mutation ($input: SeatInput!) { createSeat(input: $input) { seat { code } } }"
        assert (await client.data(query, {"input": {"seatId": "a", "code": "c"}}))["createSeat"]["seat"] == {
            "code": "c"
        }
        error = await client.error(query, {"input": {"seatId": "b", "code": "late"}})
        assert error["extensions"]["code"] == "NOT_FOR_SALE"
        found = await client.data("{ seatById { items { code } } }")
        assert found["seatById"]["items"] == [{"code": "c"}, {"code": "late"}]
