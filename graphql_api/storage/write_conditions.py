"""Conditions of writes: their limits, their evaluation, and the error if they do not hold."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from graphql_api.errors import ConditionFailed, StoreRefused
from graphql_api.storage.item_rules import values_equal
from graphql_api.storage.values import Expect, Item, Key

MAX_CONDITION_ATTRIBUTES = 100
"""attributes in the condition of one write; DynamoDB allows 300 operators and 4 KB"""

_MAX_NAMED = 3
"""attributes named in an error message"""


class FailedCondition(NamedTuple):
    """A condition that did not hold, with the record that was stored instead."""

    position: int
    key: Key
    expect: Expect
    old: dict[str, Any] | None
    """the stored record, or None"""


def check_condition(expect: Expect) -> None:
    """Refuse a condition that is contradictory or exceeds the limits."""
    if expect.absent and (expect.attributes or expect.without):
        raise StoreRefused(
            "A record is expected both to be absent and to have or lack attributes. Expect only one of them."
        )
    both = sorted(expect.attributes.keys() & set(expect.without))
    if both:
        raise StoreRefused(f"{both[0]!r} is expected both to have a value and to be missing. Expect only one of them.")
    named = len(expect.attributes) + len(expect.without)
    if named > MAX_CONDITION_ATTRIBUTES:
        raise StoreRefused(
            f"A condition names {named} attributes, at most {MAX_CONDITION_ATTRIBUTES} are allowed. Test the write id "
            "of the record instead."
        )


def condition_holds(expect: Expect, old: Item | None) -> bool:
    """Return whether the stored record, or its absence, satisfies the condition."""
    if expect.absent or old is None:
        return expect.absent and old is None
    return not any(_differing_attributes(expect, old))


def condition_failed_error(failed: Sequence[FailedCondition]) -> ConditionFailed:
    """Return the error for one or more conditions that did not hold."""
    first = failed[0]
    message = (
        f"The record {tuple(first.key)!r} does not meet the condition: {_describe_failure(first.expect, first.old)}"
    )
    if len(failed) > 1:
        others = len(failed) - 1
        message += f", and {others} other{'s do not' if others > 1 else ' does not'} either"
    failures = {one.position: one.old for one in failed}
    return ConditionFailed(f"{message}.", position=first.position, old=first.old, failures=failures)


def _describe_failure(expect: Expect, old: Item | None) -> str:
    """Describe the difference by attribute names only, because values may be secrets."""
    if expect.absent:
        return "it already exists"
    if old is None:
        return "it does not exist"
    names = list(_differing_attributes(expect, old))
    listed = ", ".join(map(repr, names[:_MAX_NAMED]))
    if not names:
        return "it differs"
    return f"it differs in {listed}{' and more' if len(names) > _MAX_NAMED else ''}"


def _differing_attributes(expect: Expect, old: Item) -> Iterator[str]:
    for name, value in expect.attributes.items():
        if name not in old or not values_equal(old[name], value):
            yield name
    for name in expect.without:
        if name in old:
            yield name
