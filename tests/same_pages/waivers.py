"""What may differ between a page of SQLite and the same page of DynamoDB, and why (docs/engines.md lists it too)."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

View = Mapping[str, Any]
"""a page or an error as a caller sees it"""

needed = Counter[str]()
"""how often engines differed in what is waived: a waiver that nothing needs is to go"""

TOKENS = ("start cursor", "end cursor", "next token")


@dataclass(frozen=True)
class Waiver:
    """One thing that may differ."""

    name: str
    reason: str
    leave_out: Callable[[View], View]


def _without_cost(view: View) -> View:
    if "explain" not in view:
        return view
    cost = {"read": {"returned": view["explain"]["read"]["returned"]}}
    return {**view, "explain": {**view["explain"], **cost}}


def _without_order_of_ties(view: View) -> View:
    if "items" not in view:
        return view
    tokens = {name: view[name] is not None for name in TOKENS}
    return _without_beginning({**view, **tokens, "items": view["values"], "cursors": len(view["cursors"])})


def _without_beginning(view: View) -> View:
    """Behind a place that is another one for each engine, the page without where its reads begin."""
    if not view["explain"]["resumed"]:
        return view
    begun = ("shards", "hashKeys", "firstRead")
    plan = {name: value for name, value in view["explain"].items() if name not in begun}
    return {name: value for name, value in view.items() if name != "shards"} | {"explain": plan}


def _without_places_among_filtered(view: View) -> View:
    if "items" not in view:
        return view
    goes_on, told = view["next token"] is not None, dict(view)
    for name, differs in (
        ("next token", goes_on),
        ("end cursor", goes_on),
        ("start cursor", view["has previous"] and not goes_on),
    ):
        told[name] = view[name] is not None if differs else view[name]
    return _without_beginning(told)


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
    _without_places_among_filtered,
)
WAIVERS = (COST, ORDER_OF_TIES, FILTERED)


def check_same(one: View, other: View, *, ties: bool, filtered: bool = False) -> None:
    """Two views are the same in everything that is not waived."""
    for waiver in (COST, *([ORDER_OF_TIES] if ties else []), *([FILTERED] if filtered else [])):
        left, right = waiver.leave_out(one), waiver.leave_out(other)
        needed[waiver.name] += one != other and (left != one or right != other) and left == right
        one, other = left, right
    assert one == other
