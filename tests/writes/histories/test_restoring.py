"""Restoring tables from lines with entries, current records, or both, in any order."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api.errors import CreationChanged
from graphql_api.ops.loader import load_lines
from tests.writes.histories.order_history import CATALOG, CURRENT, Order, Shop, order


def _lines(*lines: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _history(order_id: str, count: int) -> list[dict[str, Any]]:
    """Returns the lines of an order as exported: versions, and the last of them as the current record."""
    versions = [{"orderId": order_id, "version": f"v{at:02}", "total": at} for at in range(count)]
    return [*versions, {**versions[-1], "version": CURRENT}]


@pytest.mark.parametrize("batch", [1, 7, 1_000])
async def test_restore_entries_and_current_records(shop: Shop, tmp_path: Path, random: Random, batch: int) -> None:
    """Entries and current records are restored in any order and batch. Each current record equals the last entry."""
    lines = [line for at in range(5) for line in _history(f"o{at}", 6)]
    random.shuffle(lines)
    file = tmp_path / "orders.jsonl"
    file.write_bytes(_lines(*lines))
    report = await load_lines(shop.db.restore_many, CATALOG.entity(Order), file, batch=batch)
    assert (report.written, report.rejected) == (len(lines), 0)
    assert await shop.histories() == {f"o{at}": [f"v{number:02}" for number in range(6)] for at in range(5)}
    assert (await shop.state("o3"))["total"] == 5


async def test_restore_current_records_only(shop: Shop) -> None:
    """A current record without entries is kept until the first entry, which continues from it."""
    assert await shop.db.restore_many([order("o", CURRENT, total=9), order("p", CURRENT, total=1)]) == [None, None]
    assert (await shop.state("o"))["total"] == 9
    assert await shop.db.restore_many([order("p", CURRENT, total=2)]) == [None]
    assert (await shop.state("p"))["total"] == 2
    assert (await shop.db.update(Order, "o", version="v1", status="sent")).total == 9
    await shop.db.put(order("p", "v0", total=0))
    assert await shop.histories() == {"o": ["v1"], "p": ["v0"]}
    assert (await shop.state("p"))["total"] == 0


async def test_entries_take_precedence_over_current_records(shop: Shop) -> None:
    """Entries take precedence over a different current record, before or after them."""
    await shop.db.put(order("o", "v1", total=1))
    batch = [order("o", CURRENT, total=7), order("p", CURRENT, total=7), order("p", "v1", total=1)]
    assert await shop.db.restore_many(batch) == [None] * 3
    assert await shop.histories() == {"o": ["v1"], "p": ["v1"]}
    assert await shop.db.restore_many([order("q", CURRENT, total=7)]) == [None]
    assert await shop.db.restore_many([order("q", "v1", total=1)]) == [None]
    assert (await shop.state("q"))["total"] == 1


async def test_invalid_rows_fail_alone(shop: Shop) -> None:
    """An invalid entry or current record fails in its own row."""
    rows: Sequence[Order] = [
        order("o", CURRENT, total=1, body="x" * 410_000),
        order("p", CURRENT, total=1),
        order("p", "v1", created=1),
        order("p", "v2", created=2),
    ]
    found = await shop.db.restore_many(rows)
    assert [problem is None for problem in found] == [False, True, True, False]
    assert isinstance(found[3], CreationChanged)
    assert await shop.histories() == {"p": ["v1"]}
    assert await shop.db.restore_many([]) == []
