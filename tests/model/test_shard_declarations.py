"""Declared shards: validation and conversion to a shard space."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from graphql_api import Shards, codecs
from graphql_api.codecs import Codec
from graphql_api.model.shard_declarations import build_shard_space, shard_problems
from graphql_api.sharding.shard_space import Generation, ShardSpace

NEW_YEAR = 1767225600
"""2026-01-01 in UTC, in seconds"""


def test_then_returns_a_new_declaration() -> None:
    """`then` returns a new declaration with one more generation, and does not change the original."""
    one = Shards(1)
    assert one.then(16, since=5).generations[1:] != one.generations[1:] == ()
    assert build_shard_space(one.then(4, since=5).then(16, since=9), codecs.Int64()) == ShardSpace(
        (Generation(None, 1), Generation(5, 4), Generation(9, 16))
    )


def test_width_and_function_are_kept() -> None:
    """A shard space has the width and the shard function of its declaration."""
    assert build_shard_space(Shards(2, width=1, function="string-hash"), None) == ShardSpace(
        (Generation(None, 2),), 1, "string-hash"
    )


@pytest.mark.parametrize(
    ("codec", "since", "first_creation_value"),
    [
        (codecs.Timestamp(), "2026-01-01", NEW_YEAR),
        (codecs.Timestamp(), date(2026, 1, 1), NEW_YEAR),
        (codecs.Timestamp(), "2026-01-01T02:00:00+02:00", NEW_YEAR),
        (codecs.Timestamp(), datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), NEW_YEAR),
        (codecs.Timestamp(), "2026-01-01T00:00:00.5", NEW_YEAR + 1),
        (codecs.Timestamp(), 77, 77),
        (codecs.TimestampMs(), "2026-01-01", NEW_YEAR * 1000),
        (codecs.TimestampMs(), "2026-01-01T00:00:00.0015Z", NEW_YEAR * 1000 + 2),
        (codecs.TimestampMs(), 77, 77),
        (codecs.DateTime(), "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        (codecs.DateTime(), datetime(2026, 1, 1, 3), datetime(2026, 1, 1, 3, tzinfo=UTC)),  # noqa: DTZ001
        (codecs.Date(), "2026-01-01", date(2026, 1, 1)),
        (codecs.Date(), datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1)),
        (codecs.Int64(), 12, 12),
        (codecs.Int32(), 12, 12),
        (codecs.Text(), "2026-01-01", "2026-01-01"),
    ],
)
def test_start_is_converted_to_a_creation_value(codec: Codec[Any], since: Any, first_creation_value: Any) -> None:
    """A generation starts at the first creation value that is not before the declared time."""
    shards = Shards(1).then(16, since=since)
    assert list(shard_problems(shards, codec)) == []
    found = build_shard_space(shards, codec).generations[1].since
    assert (found, type(found)) == (first_creation_value, type(first_creation_value))


@pytest.mark.parametrize(
    ("codec", "since", "remedy"),
    [
        (codecs.Timestamp(), "next year", "Write the date as 2026-01-31"),
        (codecs.Timestamp(), 2**60, "timestamp"),
        (codecs.DateTime(), 12, "Give a date or a datetime"),
        (codecs.Date(), "2026-01-01T12:00:00Z", "midnight"),
        (codecs.Date(), True, "Give a date"),
        (codecs.Int64(), "2026-01-01", "int"),
        (codecs.Text(), 12, "str"),
    ],
)
def test_invalid_start_is_reported(codec: Codec[Any], since: Any, remedy: str) -> None:
    """A start that the creation property cannot represent is reported with a remedy."""
    ((problem, found),) = shard_problems(Shards(1).then(16, since=since), codec)
    assert repr(since) in problem
    assert remedy in found


@pytest.mark.parametrize("later", ["2026-01-01", "2025-12-31"])
def test_generations_must_ascend(later: str) -> None:
    """A generation that does not start after the previous one is reported."""
    shards = Shards(1).then(16, since="2026-01-01").then(32, since=later)
    ((problem, _),) = shard_problems(shards, codecs.Timestamp())
    assert problem == f"has a shard generation since {later!r} declared after the one since '2026-01-01'."


@pytest.mark.parametrize(
    ("shards", "problem"),
    [
        (Shards(0), "has a generation of 0 shards."),
        (Shards(37, width=1), "has a generation of 37 shards."),
        (Shards(True), "has a generation of True shards."),
        (Shards(1, width=0), "has the shard width 0."),
        (Shards(1, width=6), "has the shard width 6."),
        (Shards(1, function="blake2"), "has the unknown shard function 'blake2'."),
        (Shards(1, function=len), "has the unknown shard function <built-in function len>."),  # type: ignore[arg-type]
        (Shards(1, function=["md5"]), "has the unknown shard function ['md5']."),  # type: ignore[arg-type]
    ],
)
def test_invalid_shards_are_reported(shards: Shards, problem: str) -> None:
    """Invalid sizes, invalid widths and unknown shard functions are reported."""
    assert [found for found, _ in shard_problems(shards, None)] == [problem]


def test_all_problems_are_reported_together() -> None:
    """All problems of one declaration are reported together."""
    shards = Shards(0, function="md5").then(2000, since="?").then(4, since="2026-01-01").then(5, since="2025-01-01")
    assert len(list(shard_problems(shards, codecs.Timestamp()))) == 5
