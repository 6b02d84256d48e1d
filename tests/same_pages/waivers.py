"""The permitted differences between a page of SQLite and of DynamoDB, with reasons (docs/explanation/engines.md)."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

View = Mapping[str, Any]
"""a page or an error as callers receive it"""

waiver_uses = Counter[str]()
"""how often a waiver was needed; unused waivers must be removed"""

TOKENS = ("start cursor", "end cursor", "next token")


@dataclass(frozen=True)
class Waiver:
    """One permitted difference."""

    name: str
    reason: str
    remove_waived: Callable[[View], View]


def _without_cost(view: View) -> View:
    if "explain" not in view:
        return view
    cost = {"read": {"returned": view["explain"]["read"]["returned"]}}
    return {**view, "explain": {**view["explain"], **cost}}


def _without_order_of_ties(view: View) -> View:
    if "items" not in view:
        return view
    tokens = {name: view[name] is not None for name in TOKENS}
    return _without_first_reads({**view, **tokens, "items": view["values"], "cursors": len(view["cursors"])})


def _without_first_reads(view: View) -> View:
    """Removes the first reads of a resumed page and their estimate: the engines resume at different positions."""
    if not view["explain"]["resumed"]:
        return view
    first_reads = ("shards", "hashKeys", "firstRead", "estimate")
    plan = {name: value for name, value in view["explain"].items() if name not in first_reads}
    return {name: value for name, value in view.items() if name != "shards"} | {"explain": plan}


def _without_filtered_positions(view: View) -> View:
    if "items" not in view:
        return view
    has_more, without_positions = view["next token"] is not None, dict(view)
    for name, differs in (
        ("next token", has_more),
        ("end cursor", has_more),
        ("start cursor", view["has previous"] and not has_more),
    ):
        without_positions[name] = view[name] is not None if differs else view[name]
    return _without_first_reads(without_positions)


COST = Waiver(
    "the cost of a page",
    "SQLite reads all shards by one ordered scan, which stops at the page; DynamoDB reads each shard up to its share.",
    _without_cost,
)
ORDER_OF_TIES = Waiver(
    "the order of ties",
    "Records of a raw index may tie, and each engine orders ties, including expired records, differently: tokens name "
    "one of them, and fewer shards may remain after it.",
    _without_order_of_ties,
)
FILTERED = Waiver(
    "the position after a filtered page",
    "A filter may exclude rows between two pages, and an engine that tests it does not return them. So the text of the "
    "token, which includes the cost of its page, may differ; the following pages do not.",
    _without_filtered_positions,
)
WAIVERS = (COST, ORDER_OF_TIES, FILTERED)


def check_same(one: View, other: View, *, ties: bool, filtered: bool = False) -> None:
    """Asserts that two views are equal, except for what is waived."""
    for waiver in (COST, *([ORDER_OF_TIES] if ties else []), *([FILTERED] if filtered else [])):
        left, right = waiver.remove_waived(one), waiver.remove_waived(other)
        waiver_uses[waiver.name] += one != other and (left != one or right != other) and left == right
        one, other = left, right
    assert one == other
