"""`current=`: which histories may keep a current record, and under which sub id."""

from enum import Enum
from types import new_class
from typing import Annotated, Any

import pytest
from pydantic import Field, StringConstraints

from graphql_api import Catalog, Created, Entity, Id, Index, SubId, Timestamp, canonical, derived
from graphql_api.errors import InvalidCatalog, Violation

CURRENT = "~current"


def _problems(current: Any, annotations: dict[str, Any], **attributes: Any) -> list[str]:
    """What is wrong with a catalog of one history, each problem behind its place."""
    body = {"__module__": __name__, "__annotations__": annotations, **attributes}
    order = new_class("Order", (Entity,), {"current": current}, lambda names: names.update(body))
    found: tuple[Violation, ...] = ()
    try:
        Catalog(order)
    except InvalidCatalog as invalid:
        found = invalid.violations
    assert all(one.remedy.endswith(".") for one in found)
    return [f"{one.property}: {one.problem}" for one in found]


class Version(Enum):
    """Versions that can be counted."""

    FIRST = "1"
    CURRENT = CURRENT


ONE: dict[str, Any] = {"order_id": Id[str]}


def test_a_history_that_may() -> None:
    """One sub id of text is all that it takes, whichever text the current record has there."""
    for current in (CURRENT, "current", "", None, "é", "0", "a|b#c!d/e", "\0"):
        expected = ["version: needs a non-empty string, and current='' is none."] if current == "" else []
        assert _problems(current, {**ONE, "version": SubId[str]}) == expected
    assert _problems(CURRENT, {"tenant": Id[str], "number": Id[int], "version": SubId[str]}) == []
    assert _problems(CURRENT, {"version": SubId[str]}) == []


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        (ONE, "None: has current='~current' and no SubId."),
        ({**ONE, "a": SubId[str], "b": SubId[str]}, "None: has current='~current' and several sub ids, a and b."),
        ({**ONE, "version": SubId[int]}, "version: is no text, and the current record needs the value '~current'."),
        (
            {**ONE, "version": SubId[Version]},
            "version: is no text, and the current record needs the value '~current'.",
        ),
        (
            {**ONE, "version": SubId[Created[str]]},
            "version: is both Created and the SubId that the current record changes.",
        ),
        (
            {**ONE, "version": SubId[Annotated[str, Field(max_length=5)]]},
            "version: does not accept current='~current': String should have at most 5 characters.",
        ),
        (
            {**ONE, "version": SubId[Annotated[str, StringConstraints(pattern="^v")]]},
            "version: does not accept current='~current': String should match pattern '^v'.",
        ),
        (
            {**ONE, "version": SubId[Annotated[str, StringConstraints(to_upper=True)]]},
            "version: does not accept current='~current': its type changes it to '~CURRENT'.",
        ),
    ],
)
def test_histories_that_may_not(annotations: dict[str, Any], problem: str) -> None:
    """Whatever the current record could not have as its sub id is found when the catalog is made."""
    assert _problems(CURRENT, annotations) == [problem]


def test_a_derived_sub_id() -> None:
    """What is computed anew at each write cannot be another text in the current record."""
    annotations = {**ONE, "name": str, "version": SubId[str]}
    (problem,) = _problems(CURRENT, annotations, version=derived(canonical, "name"))
    assert problem == "version: is derived, and the current record needs the value '~current'."


@pytest.mark.parametrize(
    ("current", "words"),
    [("\ud800", "cannot be"), ("x" * 1_020, "1,028 bytes in the current record's key"), (5, "current=5 is none")],
)
def test_texts_that_no_key_takes(current: Any, words: str) -> None:
    """A current= that is no text, no well-formed one, or too long for a key is refused."""
    (problem,) = _problems(current, {**ONE, "version": SubId[str]})
    assert problem.startswith("version: ")
    assert words in problem


def test_every_violation_comes_with_the_others() -> None:
    """A wrong current= hides nothing else that is wrong with the entity."""
    annotations = {"order_id": Id[float], "version": SubId[int], "made": Created[Timestamp]}
    assert len(_problems(CURRENT, annotations, by_made=Index(hash="made", sort="made"))) >= 2


class Base(Entity, current=CURRENT):
    """A history that hands its declaration down."""

    order_id: Id[str]
    version: SubId[str]


class Invoice(Base):
    """Inherits it."""


class Offer(Base, current="~now"):
    """Has another one."""


def test_current_is_inherited() -> None:
    """A base class hands it down, and a class may say another one."""
    catalog = Catalog(Invoice, Offer)
    assert [catalog.entity(one).current for one in (Invoice, Offer)] == [CURRENT, "~now"]
