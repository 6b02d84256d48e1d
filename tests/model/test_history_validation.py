"""Validation of `current=`: which histories may have a current record, and its sub id."""

from enum import Enum
from types import new_class
from typing import Annotated, Any

import pytest
from pydantic import Field, StringConstraints

from graphql_api import Catalog, Created, Entity, Id, Index, SubId, Timestamp, canonical, derived
from graphql_api.errors import InvalidCatalog, Violation

CURRENT = "~current"


def _problems(current: Any, annotations: dict[str, Any], **attributes: Any) -> list[str]:
    """The violations of a catalog with one history, each as `property: problem`."""
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
    """An enum that contains the sub id of the current record."""

    FIRST = "1"
    CURRENT = CURRENT


ID_ANNOTATION: dict[str, Any] = {"order_id": Id[str]}


def test_valid_histories_are_accepted() -> None:
    """A history with one text sub id may have a current record with any non-empty sub id."""
    for current in (CURRENT, "current", "", None, "é", "0", "a|b#c!d/e", "\0"):
        expected = ["version: needs a non-empty string, and current='' is none."] if current == "" else []
        assert _problems(current, {**ID_ANNOTATION, "version": SubId[str]}) == expected
    assert _problems(CURRENT, {"tenant": Id[str], "number": Id[int], "version": SubId[str]}) == []
    assert _problems(CURRENT, {"version": SubId[str]}) == []


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        (ID_ANNOTATION, "None: has current='~current' and no SubId."),
        (
            {**ID_ANNOTATION, "a": SubId[str], "b": SubId[str]},
            "None: has current='~current' and several sub ids, a and b.",
        ),
        (
            {**ID_ANNOTATION, "version": SubId[int]},
            "version: is no text, and the current record needs the value '~current'.",
        ),
        (
            {**ID_ANNOTATION, "version": SubId[Version]},
            "version: is no text, and the current record needs the value '~current'.",
        ),
        (
            {**ID_ANNOTATION, "version": SubId[Created[str]]},
            "version: is both Created and the SubId that the current record changes.",
        ),
        (
            {**ID_ANNOTATION, "version": SubId[Annotated[str, Field(max_length=5)]]},
            "version: does not accept current='~current': String should have at most 5 characters.",
        ),
        (
            {**ID_ANNOTATION, "version": SubId[Annotated[str, StringConstraints(pattern="^v")]]},
            "version: does not accept current='~current': String should match pattern '^v'.",
        ),
        (
            {**ID_ANNOTATION, "version": SubId[Annotated[str, StringConstraints(to_upper=True)]]},
            "version: does not accept current='~current': its type changes it to '~CURRENT'.",
        ),
    ],
)
def test_invalid_histories_are_reported(annotations: dict[str, Any], problem: str) -> None:
    """A history whose sub id cannot hold the value of `current=` is reported."""
    assert _problems(CURRENT, annotations) == [problem]


def test_derived_sub_id_is_reported() -> None:
    """A derived sub id is reported, because each write computes it from other properties."""
    annotations = {**ID_ANNOTATION, "name": str, "version": SubId[str]}
    (problem,) = _problems(CURRENT, annotations, version=derived(canonical, "name"))
    assert problem == "version: is derived, and the current record needs the value '~current'."


@pytest.mark.parametrize(
    ("current", "message"),
    [("\ud800", "cannot be"), ("x" * 1_020, "1,028 bytes in the current record's key"), (5, "current=5 is none")],
)
def test_invalid_current_values_are_reported(current: Any, message: str) -> None:
    """A value of `current=` is refused if it is not text, not valid Unicode, or too long for a key."""
    (problem,) = _problems(current, {**ID_ANNOTATION, "version": SubId[str]})
    assert problem.startswith("version: ")
    assert message in problem


def test_violations_are_reported_together() -> None:
    """An invalid `current=` is reported together with the other violations of the entity."""
    annotations = {"order_id": Id[float], "version": SubId[int], "made": Created[Timestamp]}
    assert len(_problems(CURRENT, annotations, by_made=Index(hash="made", sort="made"))) >= 2


class Base(Entity, current=CURRENT):
    """A base class with `current=`."""

    order_id: Id[str]
    version: SubId[str]


class Invoice(Base):
    """Inherits `current=`."""


class Offer(Base, current="~now"):
    """Overrides `current=`."""


def test_current_is_inherited() -> None:
    """`current=` is inherited, and a subclass can override it."""
    catalog = Catalog(Invoice, Offer)
    assert [catalog.entity(one).current for one in (Invoice, Offer)] == [CURRENT, "~now"]
