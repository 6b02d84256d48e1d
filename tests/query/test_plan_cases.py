"""Search plans as case files: each case has a search and its expected plan or error."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from graphql_api.errors import ShardQLError
from graphql_api.examples.users import catalog
from graphql_api.query.planner import plan_search
from graphql_api.query.search_request import SearchRequest
from graphql_api.query.token_seal import TokenSeal

FOLDER = Path(__file__).parent.parent / "plan_cases"
SEAL = TokenSeal([b"s" * 32])
NOW = 1_800_000_000


def _plan_or_error(query: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"plan": plan_search(catalog, SearchRequest(**query), NOW, SEAL).describe()}
    except ShardQLError as problem:
        return {"error": {"message": problem.message, **problem.extensions}}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_case_has_the_expected_plan(path: Path) -> None:
    """Each case has the expected plan; a different one is written to an `.actual` file for review."""
    cases = json.loads(path.read_text())
    actual = [{"comment": case["comment"], "query": case["query"], **_plan_or_error(case["query"])} for case in cases]
    if actual != cases and not os.environ.get("CI"):
        path.with_suffix(".actual").write_text(json.dumps(actual, indent=1, ensure_ascii=False) + "\n")
    assert actual == cases


def test_the_cases_cover_every_index_of_the_example() -> None:
    """The cases plan each index of the users catalog at least once."""
    planned = {
        (case["query"]["entity"], case["query"]["index"])
        for path in FOLDER.glob("*.json")
        for case in json.loads(path.read_text())
        if "plan" in case
    }
    assert planned >= {(entity.name, name) for entity in catalog.entities.values() for name in entity.indexes}
