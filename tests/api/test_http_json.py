"""JSON as it is written into answers, and read beyond what a request can bring."""

import json
from collections.abc import Callable

import pytest

from graphql_api.errors import InvalidJson
from graphql_api.server.strict_json import MAX_NESTING, LiteralFloat, read_json, write_json


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True, "ü🏃\0"]}, 2**63, -(2**70), {"a": "half \ud800"}, LiteralFloat("1.50")]
)
def test_writing(value: object) -> None:
    """Whatever an answer holds is written, and read back as it was."""
    assert json.loads(write_json(value)) == value


def test_writing_deep_values() -> None:
    """A stored value deeper than what a request may bring is written."""
    deep: list[object] = []
    for _ in range(400):
        deep = [deep]
    assert json.loads(write_json(deep)) == deep


def test_numbers_that_are_not() -> None:
    """A float that is no number is null in an answer."""
    assert write_json([float("nan"), float("inf")]) == b"[null,null]"


def test_written_float() -> None:
    """A fraction that a float holds as it was written is a plain float; another one shows how it was written."""
    assert type(read_json("0.1", "It")) is float
    assert repr(read_json("0.10", "It")) == str(read_json("0.10", "It")) == "0.10"


NESTED: list[Callable[[int], str]] = [
    lambda levels: "[" * levels + "]" * levels,
    lambda levels: '{"a":' * levels + "1" + "}" * levels,
    lambda levels: '[{"a":"]"},' * (levels - 1) + "[1]" + "]" * (levels - 1),
]


@pytest.mark.parametrize("nested", NESTED)
def test_levels(nested: Callable[[int], str]) -> None:
    """As many levels as are allowed are read, of lists, of objects, and beside others; one more is refused."""
    assert read_json(nested(MAX_NESTING), "It") == json.loads(nested(MAX_NESTING))
    for levels in (MAX_NESTING + 1, 1_000_000):
        with pytest.raises(InvalidJson, match=f"It nests more than {MAX_NESTING}"):
            read_json(nested(levels), "It")
