"""The store of pages and the scale of scrolling, with more rows than a browser test can read."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

TOTAL = 230_000


@pytest.fixture(scope="module")
def measured(axe: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what page_store_check.ts measures. It is bundled by the esbuild of the data page."""
    script = tmp_path_factory.mktemp("page store") / "check.mjs"
    source = Path(__file__).parent / "page_store_check.ts"
    esbuild = axe.parent.parent / ".bin" / "esbuild"
    bundle: list[str | Path] = [
        *(esbuild, source, "--bundle", "--format=esm", "--platform=node"),
        f"--outfile={script}",
    ]
    subprocess.run(bundle, check=True, capture_output=True, timeout=60)  # noqa: S603 - a pinned package
    ran = subprocess.run(["node", script], check=True, capture_output=True, timeout=120)  # noqa: S603, S607 - the same
    return json.loads(ran.stdout)


def test_every_page_is_read_once_and_forgotten(measured: Any) -> None:
    """2,300 pages are read with one request each, while the store keeps a bounded number of records and tokens."""
    limits = measured["limits"]
    assert (measured["seen"], measured["ended"]) == (TOTAL, True)
    assert measured["readForward"] == TOTAL / limits["page"]
    assert measured["mostRecords"] <= limits["records"] + limits["request"]
    assert measured["mostTokens"] <= limits["tokens"]


def test_jumps_back_to_any_row(measured: Any) -> None:
    """A jump to any of 230,000 rows shows exactly these rows, after at most four requests."""
    assert measured["wrong"] == []
    assert measured["mostRequests"] <= 4


def test_a_search_with_rare_matches_pauses(measured: Any) -> None:
    """After some pages that spent the read budget, nothing more is read until the reader asks to go on."""
    pages = measured["limits"]["budgetPages"]
    assert measured["budget"] == {"pausedAfter": pages, "whilePaused": 0, "afterResume": pages}


def test_more_rows_than_a_browser_can_be_high(measured: Any) -> None:
    """In scaled content, steps of the wheel are exact, settling moves nothing, and the ends are the ends."""
    scale = measured["scale"]
    assert abs(scale["middle"] - 50_000_000) < 10_000
    assert (scale["inexact"], scale["moved"]) == (0, 0)
    assert (scale["start"], scale["end"]) == (0, 100_000_000 - 600)
