"""Inputs that are converted by prepared code: the same responses as graphql-core gives, also for invalid values."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import graphql
import pytest

from graphql_api.schema.execution.compiled_execution import CompiledExecution
from tests.schema.graphql_client import open_client
from tests.schema.people_catalog import people_catalog, sample_people

PAGE = "{ items { personId name } nextToken }"
VARIABLES: list[dict[str, Any]] = [
    {},
    {"limit": 3},
    {"limit": 3.0},
    {"limit": None},
    {"limit": "3"},
    {"limit": True},
    {"limit": 2**40},
    {"limit": 3, "unknown": 1},
    {"filter": {"town": {"eq": "Rome"}}},
    {"filter": {"town": {"eq": 1}}},
    {"filter": {"planet": {"eq": "x"}}},
    {"filter": []},
]
CASES = [
    (f"query ($limit: Int, $filter: PersonFilter) {{ persons(limit: $limit, filter: $filter) {PAGE} }}", variables)
    for variables in VARIABLES
]
CASES += [
    (f"query ($limit: Int = 2) {{ persons(limit: $limit) {PAGE} }}", {}),
    (f"query ($limit: Int = 2) {{ persons(limit: $limit) {PAGE} }}", {"limit": None}),
    (f"query ($order: PersonOrder = FOLDED_DESC_CREATED_ASC) {{ persons(orderBy: $order) {PAGE} }}", {}),
    (f"query ($order: PersonOrder!) {{ persons(orderBy: $order) {PAGE} }}", {"order": "FOLDED_ASC_CREATED_DESC"}),
    (f"query ($order: PersonOrder!) {{ persons(orderBy: $order) {PAGE} }}", {"order": None}),
    (f"query ($order: PersonOrder!) {{ persons(orderBy: $order) {PAGE} }}", {"order": "NONE"}),
    (f"query ($order: PersonOrder!) {{ persons(orderBy: $order) {PAGE} }}", {}),
    (f"query ($town: String!) {{ personsByTown(town: $town, limit: 2) {PAGE} }}", {"town": "Rome"}),
    (f"query ($town: String) {{ personByTown(town: $town, limit: 2) {PAGE} }}", {}),
    (f"query ($towns: [String!]) {{ personByTown(townIn: $towns, limit: 2) {PAGE} }}", {"towns": ["Rome", "Oslo"]}),
    (f"query ($one: String!) {{ personByTown(townIn: [$one], limit: 2) {PAGE} }}", {"one": "Rome"}),
    ("query ($id: ID!) { a: person(id: $id) { name } b: person(id: 7) { name } }", {"id": 1}),
    (f'query ($from: Timestamp) {{ personByTown(town: "Rome", from: $from, limit: 9) {PAGE} }}', {"from": "now"}),
    (f'query ($from: Timestamp) {{ personByTown(town: "Rome", from: $from, limit: 9) {PAGE} }}', {"from": 1.5}),
    (f"query ($x: Boolean!) {{ a: persons @include(if: $x) {PAGE} b: persons @skip(if: $x) {PAGE} }}", {"x": True}),
    (f"query ($n: Int) {{ ...F }} fragment F on Query {{ persons(limit: $n) {PAGE} }}", {"n": 2}),
]  # fmt: skip


async def test_responses_are_those_of_graphql_core(tmp_path: Path) -> None:
    """Whatever the variables and arguments are, both executions give the same response, also the second time."""
    catalog, person = people_catalog(3)
    succeeded = 0
    async with open_client(catalog, tmp_path, *sample_people(person, 12)) as client:
        stock = replace(client, executor=replace(client.executor, compiled=False))
        for query, variables in CASES:
            expected = await stock.execute(query, variables)
            succeeded += not expected.codes
            for _ in range(2):
                found = await client.execute(query, variables)
                assert (found.body, found.status) == (expected.body, expected.status), (query, variables)
    assert succeeded >= len(CASES) // 2


async def test_usual_inputs_need_no_graphql_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page whose variables are scalars is executed without the conversions of graphql-core."""
    catalog, person = people_catalog(3)
    query = f"query ($limit: Int, $town: String!) {{ personByTown(town: $town, limit: $limit, reverse: true) {PAGE} }}"
    async with open_client(catalog, tmp_path, *sample_people(person, 12)) as client:
        variables = {"limit": 2, "town": "Rome"}
        expected = await client.data(query, variables)

        def unexpected(*_: Any, **__: Any) -> Any:
            raise AssertionError("graphql-core converts inputs")

        monkeypatch.setattr(CompiledExecution, "build", unexpected)
        monkeypatch.setattr(graphql.execution.executor, "get_argument_values", unexpected)
        assert await client.data(query, variables) == expected
