"""The JSON writer of responses, and limits of the JSON reader."""

import json
from collections.abc import Callable

import pytest

from graphql_api.codecs.strict_json import MAX_NESTING, LiteralFloat, read_json, write_json
from graphql_api.errors import InvalidJson


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True, "ü🏃\0"]}, 2**63, -(2**70), {"a": "half \ud800"}, LiteralFloat("1.50")]
)
def test_write_json(value: object) -> None:
    """Every value of a response is written, and is equal after reading."""
    assert json.loads(write_json(value)) == value


def test_write_deep_values() -> None:
    """A stored value may be nested more deeply than a request."""
    deep: list[object] = []
    for _ in range(400):
        deep = [deep]
    assert json.loads(write_json(deep)) == deep


def test_write_non_finite_numbers() -> None:
    """Infinite and undefined floats are null in a response."""
    assert write_json([float("nan"), float("inf")]) == b"[null,null]"


def test_literal_float() -> None:
    """A fraction that a float represents exactly is a plain float. Another one keeps its literal text."""
    assert type(read_json("0.1", "It")) is float
    assert repr(read_json("0.10", "It")) == str(read_json("0.10", "It")) == "0.10"


NESTED: list[Callable[[int], str]] = [
    lambda levels: "[" * levels + "]" * levels,
    lambda levels: '{"a":' * levels + "1" + "}" * levels,
    lambda levels: '[{"a":"]"},' * (levels - 1) + "[1]" + "]" * (levels - 1),
]


@pytest.mark.parametrize("nested", NESTED)
def test_nesting_limit(nested: Callable[[int], str]) -> None:
    """Nesting of lists and objects up to the limit is accepted, and one more level is refused."""
    assert read_json(nested(MAX_NESTING), "It") == json.loads(nested(MAX_NESTING))
    for levels in (MAX_NESTING + 1, 1_000_000):
        with pytest.raises(InvalidJson, match=f"It nests more than {MAX_NESTING}"):
            read_json(nested(levels), "It")
