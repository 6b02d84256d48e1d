"""Requests that are expensive to refuse: the server visits a bounded number of elements for each of them.

`scripts/bench --hostile` measures the CPU time of the same requests.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from graphql import GraphQLNonNull
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from strawberry.types import arguments as strawberry_arguments
from strawberry.types.base import StrawberryOptional

from graphql_api.codecs import strict_json
from graphql_api.errors import InputTooLarge, InvalidJson
from graphql_api.query import filter_parser
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.server import asgi
from tests.benchmarks.hostile_catalog import USERS, catalog
from tests.benchmarks.hostile_requests import hostile_requests
from tests.support.asgi_client import request

MAX_ELEMENTS = Limits().elements


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Starlette]:
    """Serve the catalog with 50 users."""
    app = asgi(catalog, f"sqlite:///{tmp_path}/x.db", deadline_seconds=60)
    database = await app.state.opened.get()
    await database.put_many(USERS[:50])
    yield app
    await app.state.opened.close()


class Visits:
    """Counts the elements that each stage of a request visits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: dict[str, int] = {}
        coercion, validation = (sys.modules[f"graphql.utilities.{name}_input_value"] for name in ("coerce", "validate"))
        self._patch(monkeypatch, "coerce_input_value", coercion, sys.modules["graphql.execution.values"])
        self._patch(monkeypatch, "validate_input_value_impl", validation)
        self._patch(monkeypatch, "convert_argument", strawberry_arguments)
        self._patch(monkeypatch, "parse", filter_parser._FilterParser)
        decoder = strict_json._DECODER

        def decode(text: str) -> Any:
            value = decoder.decode(text)
            self.counts["decode"] = self.counts.get("decode", 0) + count_values(value)
            return value

        monkeypatch.setattr(strict_json, "_DECODER", SimpleNamespace(decode=decode))

    def _patch(self, monkeypatch: pytest.MonkeyPatch, name: str, *owners: Any) -> None:
        original = getattr(owners[0], name)

        def counting(*arguments: Any, **options: Any) -> Any:
            type_ = options.get("type_", arguments[1] if len(arguments) > 1 else None)
            if not isinstance(
                type_, GraphQLNonNull | StrawberryOptional
            ):  # The same value is visited again without it.
                self.counts[name] = self.counts.get(name, 0) + 1
            return original(*arguments, **options)

        for owner in owners:
            monkeypatch.setattr(owner, name, counting)


def count_values(value: Any) -> int:
    """Count the values in a JSON value."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count_values, below))


async def test_visited_elements(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    """No hostile request makes any stage visit more elements than the documented limit."""
    visits, most = Visits(monkeypatch), dict[str, int]()
    for hostile in hostile_requests():
        visits.counts.clear()
        await request(app, hostile.body(0), hostile.headers)
        assert max(visits.counts.values(), default=0) <= MAX_ELEMENTS, (hostile.name, visits.counts)
        most |= {stage: max(count, most.get(stage, 0)) for stage, count in visits.counts.items()}
    assert set(most) == {
        "decode",
        "coerce_input_value",
        "validate_input_value_impl",
        "convert_argument",
        "parse",
    }, "a stage was not counted"


async def test_variables_are_converted_once(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that four fields use is converted once."""
    visits = Visits(monkeypatch)
    fields = " ".join(f"a{number}: users(filter: $f) {{ nextToken }}" for number in range(4))
    body = {"query": f"query ($f: UserFilter) {{ {fields} }}", "variables": {"f": {"userId": {"in": ["a", "b", "c"]}}}}
    response = await request(app, json.dumps(body).encode())
    assert response.status == 200
    # Prepared code may convert a part of the value by itself.
    assert 0 < visits.counts["coerce_input_value"] <= len(["filter", "userId", "in", "a", "b", "c"])


def count_outside_of_texts(text: str, characters: str) -> int:
    """Count characters of a JSON text that are not inside of its strings."""
    count, inside, position = 0, False, 0
    while position < len(text):
        if text[position] == '"':
            inside = not inside
        elif inside and text[position] == "\\":
            position += 1
        else:
            count += not inside and text[position] in characters
        position += 1
    return count


@pytest.mark.parametrize(
    "member",
    ["[{}]", "[[1, 2], [3, 4]]", '{"a": "x,y", "b": [",,,[[[{{{", 1]}', '["\\\\", ",", "\\",", 1, 2]', '"é"'],
    ids=str,
)
def test_elements_of_json(member: str) -> None:
    """Brackets, braces and commas count outside of texts, before anything is decoded."""
    text = f'{{"query": "{{a, b}}", "variables": {member}}}'
    elements = count_outside_of_texts(text, "[{,")
    assert strict_json.read_json(text, "It", elements) == json.loads(text)
    with pytest.raises(InputTooLarge) as refused:
        strict_json.read_json(text, "It", elements - 1)
    assert refused.value.extensions == {"code": "INPUT_TOO_LARGE", "limit": elements - 1}


@given(st.text(alphabet='"\\,[]{}:a1 ', max_size=40))
def test_elements_of_any_text(text: str) -> None:
    """A text with few brackets, braces and commas is decoded, or is not JSON."""
    with suppress(InvalidJson):
        strict_json.read_json(text, "It", count_outside_of_texts(text, "[{,"))
