"""The text and tables of docs/how-to/clients.md and docs/how-to/client-writes.md agree with the code."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from graphql_api import errors
from graphql_api.errors import ShardQLError
from graphql_api.schema.types.graphql_scalars import SCALARS
from tests.clients.recipes import PAGE, WRITES, recipes

TEXT = PAGE.read_text(encoding="utf-8")
RUN = {
    *("post.sh", "get.sh", "people.py", "client.mjs", "lists.mjs", "client.urql.mjs"),
    *("relay.config.js", "environment.js", "People.jsx"),
}
RUN_FOR_WRITES = {"notes.py", "notes.mjs", "notes.urql.mjs"}
"""The recipes that tests run."""

ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `(.+)` \|$", re.MULTILINE)
TYPES = {"string": str, "number": int, "unknown": object}
SAMPLES: dict[str, Any] = {
    "BigInt": 2**60,
    "Bytes": b"octets",
    "Date": date(2026, 1, 31),
    "DateTime": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "Decimal": Decimal("0.10"),
    "Duration": timedelta(days=1, seconds=2),
    "JSON": {"any": ["value"]},
    "Timestamp": 1_767_225_600,
    "TimestampMs": 1_767_225_600_000,
    "UUID": UUID(int=7),
}


@pytest.mark.parametrize(("page", "run"), [(PAGE, RUN), (WRITES, RUN_FOR_WRITES)])
def test_every_block_is_run(page: Path, run: set[str]) -> None:
    """Every code block of the pages is a recipe that a test runs."""
    assert recipes(page).keys() == run
    assert len(re.findall(r"^```\w", page.read_text(encoding="utf-8"), re.MULTILINE)) == len(run)


def test_scalars() -> None:
    """The table of scalars lists all scalars with their response and variable types."""
    rows = {name: (answer, variable) for name, answer, variable in ROW.findall(TEXT)}
    assert rows.keys() == {definition.name for definition in SCALARS.values()}
    for definition in SCALARS.values():
        answer, variable = rows[definition.name]
        serialize: Any = definition.serialize
        report = serialize(SAMPLES[definition.name])
        assert isinstance(report, TYPES[answer])
        if answer == "unknown":
            assert variable == answer
            continue
        accepted = [
            type for type, value in (("string", str(report)), ("number", 5)) if _accepts(definition.parse_value, value)
        ]
        assert variable == " \\| ".join(accepted), definition.name


def _accepts(parse: Any, value: object) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


def test_codes() -> None:
    """Every error code on the page exists, and those named retryable are retryable."""
    known = {error.code: error for error in vars(errors).values() if _has_code(error)}
    named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", TEXT))
    assert named <= known.keys()
    (first,) = re.findall(r"^\| `retryable: true`, such as (.+?) \|", TEXT, re.MULTILINE)
    assert all(known[code].retryable for code in re.findall(r"`(\w+)`", first))
    not_retryable = {"EXPIRED_TOKEN", "INVALID_TOKEN", "TOKEN_MISMATCH"}
    assert not any(known[code].retryable for code in not_retryable)


def _has_code(error: object) -> bool:
    return isinstance(error, type) and issubclass(error, ShardQLError) and "code" in vars(error)
