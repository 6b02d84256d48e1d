"""What docs/clients.md and docs/client-writes.md say beside their recipes agrees with the code."""

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
"""the recipes that tests run"""

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
    """Every block of the pages begins with its name, and is a recipe that a test runs."""
    assert recipes(page).keys() == run
    assert len(re.findall(r"^```\w", page.read_text(encoding="utf-8"), re.MULTILINE)) == len(run)


def test_scalars() -> None:
    """The table of scalars lists them all, with the types that answers have and variables may have."""
    rows = {name: (answer, variable) for name, answer, variable in ROW.findall(TEXT)}
    assert rows.keys() == {definition.name for definition in SCALARS.values()}
    for definition in SCALARS.values():
        answer, variable = rows[definition.name]
        serialize: Any = definition.serialize
        told = serialize(SAMPLES[definition.name])
        assert isinstance(told, TYPES[answer])
        if answer == "unknown":
            assert variable == answer
            continue
        taken = [
            type for type, value in (("string", str(told)), ("number", 5)) if _takes(definition.parse_value, value)
        ]
        assert variable == " \\| ".join(taken), definition.name


def _takes(parse: Any, value: object) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


def test_codes() -> None:
    """Every code that the page names is one of the list, and those that it calls retryable are."""
    known = {error.code: error for error in vars(errors).values() if _has_code(error)}
    named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", TEXT))
    assert named <= known.keys()
    (first,) = re.findall(r"^\| `retryable: true`, such as (.+?) \|", TEXT, re.MULTILINE)
    assert all(known[code].retryable for code in re.findall(r"`(\w+)`", first))
    anew = {"EXPIRED_TOKEN", "INVALID_TOKEN", "TOKEN_MISMATCH"}
    assert not any(known[code].retryable for code in anew)


def _has_code(error: object) -> bool:
    return isinstance(error, type) and issubclass(error, ShardQLError) and "code" in vars(error)
