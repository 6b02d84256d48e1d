"""What writes expect of the records at their keys: checked before anything is done, tested, told where it fails."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from graphql_api.errors import ConditionFailed, StoreRefused
from graphql_api.storage.item_rules import same
from graphql_api.storage.values import Expect, Item, Key

MAX_EXPECTED = 100
"""attributes that one write names: AWS takes 300 operators and 4 KB of condition"""

_MAX_NAMED = 3
"""attributes in a message"""


class Unmet(NamedTuple):
    """An expectation that did not hold."""

    position: int
    key: Key
    expect: Expect
    old: dict[str, Any] | None
    """what stands there instead"""


def check_expectation(expect: Expect) -> None:
    """Refuses what no record can meet, and what no engine can test."""
    if expect.absent and (expect.attributes or expect.without):
        raise StoreRefused("A record is expected to be absent and to have attributes, or to lack them. Expect one.")
    both = sorted(expect.attributes.keys() & set(expect.without))
    if both:
        raise StoreRefused(f"{both[0]!r} is expected to have a value and to be missing. Expect one of the two.")
    named = len(expect.attributes) + len(expect.without)
    if named > MAX_EXPECTED:
        raise StoreRefused(
            f"{named} attributes are expected of one record, at most {MAX_EXPECTED} can be. Expect what tells it from "
            "other versions of it: its write id."
        )


def condition_holds(expect: Expect, old: Item | None) -> bool:
    """Whether what stands at a key, if anything does, is as expected."""
    if expect.absent or old is None:
        return expect.absent and old is None
    return not any(_differences(expect, old))


def unmet_error(unmet: Sequence[Unmet]) -> ConditionFailed:
    """What the caller learns of them, of which there is at least one."""
    first = unmet[0]
    message = f"The record {tuple(first.key)!r} is not as expected: {_trouble(first.expect, first.old)}"
    if len(unmet) > 1:
        others = len(unmet) - 1
        message += f", and {others} other{'s are not' if others > 1 else ' is not'} either"
    failures = {one.position: one.old for one in unmet}
    return ConditionFailed(f"{message}.", position=first.position, old=first.old, failures=failures)


def _trouble(expect: Expect, old: Item | None) -> str:
    """What is wrong in names: values may be secrets."""
    if expect.absent:
        return "nothing should stand there"
    if old is None:
        return "it is not there"
    names = list(_differences(expect, old))
    listed = ", ".join(map(repr, names[:_MAX_NAMED]))
    if not names:
        return "it differs"
    return f"it differs in {listed}{' and more' if len(names) > _MAX_NAMED else ''}"


def _differences(expect: Expect, old: Item) -> Iterator[str]:
    for name, value in expect.attributes.items():
        if name not in old or not same(old[name], value):
            yield name
    for name in expect.without:
        if name in old:
            yield name
