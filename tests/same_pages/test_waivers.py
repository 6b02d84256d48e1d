"""The documentation and the tests have the same list of permitted differences between engines."""

import re
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.same_pages.waivers import WAIVERS, View, check_same

ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
PAGE: dict[str, Any] = {
    "items": [{"key": "a"}, {"key": "b"}],
    "values": [1, 1],
    "cursors": ["x", "y"],
    "start cursor": "x",
    "end cursor": "y",
    "next token": None,
    "has previous": False,
    "complete": True,
    "shards": 2,
    "explain": {"resumed": False, "shards": 2, "read": {"rounds": 1, "returned": 2}},
}
RESUMED = {**PAGE, "explain": {"resumed": True, "shards": 2, "firstRead": 3, "read": {"rounds": 1, "returned": 2}}}
REVERSED = {**PAGE, "items": PAGE["items"][::-1], "cursors": ["z", "w"], "start cursor": "z", "end cursor": "w"}


def test_waivers_are_documented() -> None:
    """The table of permitted differences lists exactly the waivers of the tests, each with its reason."""
    page = (ROOT / "docs" / "explanation" / "engines.md").read_text(encoding="utf-8")
    section = page.partition("## What may differ\n")[2].partition("\n## ")[0]
    _, *rows = ROW.findall(section)
    assert rows == [(waiver.name, waiver.reason) for waiver in WAIVERS]


@pytest.mark.parametrize(
    ("other", "ties"),
    [
        ({**PAGE, "complete": False}, True),
        ({**PAGE, "values": [1, 2]}, True),
        ({**PAGE, "next token": "y"}, True),
        ({**PAGE, "cursors": ["x"]}, True),
        ({**PAGE, "explain": {**PAGE["explain"], "shards": 3}}, True),
        ({**PAGE, "explain": {**PAGE["explain"], "read": {"rounds": 1, "returned": 1}}}, True),
        ({"error": {"code": "THROTTLED"}, "message": "no"}, True),
        ({**PAGE, "end cursor": "z"}, False),
        (REVERSED, False),
    ],
)
def test_differences_without_a_waiver_fail(other: View, ties: bool) -> None:
    """A page with any other difference fails; without ties, its order and tokens must be equal, too."""
    with pytest.raises(AssertionError):
        check_same(PAGE, other, ties=ties)


def test_waived_differences_pass() -> None:
    """The cost of a page may differ, and tied records may be in another order."""
    check_same(PAGE, {**PAGE, "explain": {**PAGE["explain"], "read": {"rounds": 3, "returned": 2}}}, ties=False)
    check_same(PAGE, REVERSED, ties=True)
    check_same(RESUMED, {**RESUMED, "shards": 1, "explain": {**RESUMED["explain"], "shards": 1}}, ties=True)


@pytest.mark.parametrize(
    ("page", "differs", "permitted"),
    [
        ({**PAGE, "next token": "n", "end cursor": "n"}, {"next token": "m", "end cursor": "m"}, True),
        ({**PAGE, "start cursor": "n", "has previous": True}, {"start cursor": "m"}, True),
        (RESUMED, {"shards": 1, "explain": {**RESUMED["explain"], "shards": 1, "firstRead": 4}}, True),
        (RESUMED, {"explain": {**RESUMED["explain"], "estimate": {"expected": 4.5}}}, True),
        (RESUMED, {"explain": {**RESUMED["explain"], "read": {"rounds": 1, "returned": 1}}}, False),
        (PAGE, {"explain": {**PAGE["explain"], "estimate": {"expected": 4.5}}}, False),
        (PAGE, {"explain": {**PAGE["explain"], "shards": 1}}, False),
        (PAGE, {"shards": 1}, False),
        (PAGE, {"next token": "m", "end cursor": "m"}, False),
        (PAGE, {"end cursor": "m"}, False),
        (PAGE, {"start cursor": "m"}, False),
        ({**PAGE, "next token": "n", "end cursor": "n"}, {"cursors": ["x", "z"]}, False),
        ({**PAGE, "next token": "n", "end cursor": "n"}, {"items": [{"key": "a"}]}, False),
    ],
)
def test_a_filtered_page_may_differ_only_in_its_resume_position(page: View, differs: View, permitted: bool) -> None:
    """Under a filter, the resume token and its first reads may differ; records and cursors may not."""
    with pytest.raises(AssertionError):
        check_same(page, {**page, **differs}, ties=False)
    if permitted:
        check_same(page, {**page, **differs}, ties=False, filtered=True)
    else:
        with pytest.raises(AssertionError):
            check_same(page, {**page, **differs}, ties=False, filtered=True)
