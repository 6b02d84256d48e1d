"""Declarations of unique values, foreign keys, versions, counters and write times, and their validation."""

from datetime import UTC, date, datetime
from types import new_class
from typing import Any

import pytest

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Immutable,
    Int32,
    SubId,
    Timestamp,
    TimestampMs,
    Ttl,
    Unique,
    UniqueTogether,
    Updated,
    Version,
    allow,
    anyone,
    canonical,
    counter,
    derived,
    generated,
    group,
    new_id,
    owner,
    server_set,
    signed_in,
)
from graphql_api.errors import InvalidCatalog, Violation
from graphql_api.writes.record_builder import current_time_value

ID_ANNOTATION: dict[str, Any] = {"thing_id": Id[str]}


class Parent(Entity):
    """An entity with an id of one part."""

    parent_id: Id[str]


class Pair(Entity):
    """An entity with an id of two parts."""

    left: Id[str]
    right: Id[int]


class Log(Entity):
    """A history."""

    log_id: Id[str]
    at: SubId[int]


class Passing(Entity):
    """An entity that expires."""

    passing_id: Id[str]
    until: Ttl[Timestamp]


class Only(Entity):
    """A singleton entity."""

    words: str = ""


def _thing(annotations: dict[str, Any], attributes: dict[str, Any], **head: Any) -> type[Entity]:
    body = {"__module__": __name__, "__annotations__": annotations, **attributes}
    made: type[Entity] = new_class("Thing", (Entity,), head, lambda names: names.update(body))
    return made


def _problems(annotations: dict[str, Any], *, head: dict[str, Any] | None = None, **attributes: Any) -> list[str]:
    """The violations of a catalog with this entity, each as `property: problem`."""
    found: tuple[Violation, ...] = ()
    try:
        Catalog(_thing({**ID_ANNOTATION, **annotations}, attributes, **(head or {})), Parent, Pair, Log, Passing, Only)
    except InvalidCatalog as invalid:
        found = invalid.violations
    assert all(one.remedy.endswith((".", "?")) for one in found)
    return [f"{one.property}: {one.problem}" for one in found]


def test_all_constraints_together() -> None:
    """A catalog may combine all constraint markers, also nested and nullable, and its specification contains them."""

    class Thing(Entity, write=group("Editor"), allow=anyone):
        thing_id: Unique[Id[str]] = generated()
        mail: Unique[Immutable[str] | None] = None
        parent_id: str | None = None
        left: str = ""
        right: int = 0
        num: Int32 = counter("left", "right")
        version: Version[int]
        updated: Updated[datetime]
        created: Created[Timestamp]

        unique_pair = UniqueTogether("left", "right")
        of_parent = ForeignKey("Parent", by="parent_id")
        of_pair = ForeignKey("Pair", by=["left", "right"])

    catalog = Catalog(Thing, Parent, Pair)
    thing = catalog.entity(Thing)
    assert [(one.name, one.attribute, [part.name for part in one.parts]) for one in thing.unique] == [
        ("mail", "mail", ["mail"]),
        ("uniquePair", "unique_pair", ["left", "right"]),
    ]
    assert [(one.name, one.parent.name) for one in thing.foreign_keys] == [("ofParent", "parent"), ("ofPair", "pair")]
    for parent in (Parent, Pair):
        assert [child.name for child in catalog.entity(parent).children] == ["thing"]
    assert [part.name for part in thing.counters] == ["num"]
    assert thing.properties["mail"].immutable
    assert (thing.write_rules, thing.allow) == ((group("Editor"),), (anyone,))
    assert thing.is_constrained
    assert not catalog.entity(Parent).is_constrained


@pytest.mark.parametrize(
    ("annotations", "attributes", "problem"),
    [
        ({"tags": Unique[list[str]]}, {}, "tags: is unique by tags, which is no scalar."),
        ({}, {"unique_x": UniqueTogether()}, "unique_x: is unique by no property."),
        ({"a": str}, {"unique_x": UniqueTogether("a", "a")}, "unique_x: names a property twice."),
        (
            {"a": Unique[str], "b": Unique[str]},
            {"c": UniqueTogether("a", "b"), "C": UniqueTogether("a")},
            None,
        ),
        (
            {"a": str},
            {"the_a": UniqueTogether("a"), "theA": UniqueTogether("a")},
            "theA: has the name 'theA' of another unique constraint.",
        ),
        ({"a": str}, {"ä": UniqueTogether("a")}, "ä: has an invalid name."),
        ({"num": Updated[bool]}, {}, "num: is Updated, and its type cannot hold a time."),
        ({"at": Updated[int] | None}, {}, "at: is Updated and may be null."),
        ({"at": Updated[Id[Timestamp]]}, {}, "at: is Updated and part of the primary key, which never changes."),
        ({"at": Updated[Created[Timestamp]]}, {}, "at: is Updated and Created, which never changes."),
        ({"at": Updated[Immutable[Timestamp]]}, {}, "at: is Updated and Immutable."),
        ({"at": Updated[Version[int]]}, {}, "at: is Version and Updated."),
        ({"at": Updated[int], "to": Updated[int]}, {}, "to: is a second Updated."),
        ({"num": int}, {"num": server_set()}, "num: is declared as server_set(), and the server sets no such value."),
        ({"at": Created[int] | None}, {"at": server_set()}, "at: is declared as server_set() and may be null."),
        ({"count": Version[str]}, {}, "count: is Version and no integer."),
        ({"count": Version[int], "more": Version[int]}, {}, "more: is a second Version."),
        ({"count": Version[int]}, {"count": counter()}, "count: is Version and a counter."),
        ({"num": float}, {"num": counter()}, "num: is a counter and no integer."),
        ({"num": int | None}, {"num": counter()}, "num: is a counter and may be null."),
        (
            {"num": int, "tags": list[str]},
            {"num": counter("tags")},
            "num: counts records grouped by tags, which is no scalar.",
        ),
        ({"num": int}, {"num": counter("num")}, "num: counts records grouped by num, which the server sets."),
        (
            {"num": int, "at": Updated[int]},
            {"num": counter("at")},
            "num: counts records grouped by at, which the server sets.",
        ),
        (
            {"name": str, "plain": Immutable[str]},
            {"plain": derived(canonical, "name")},
            "plain: is Immutable and derived, so it changes with its sources.",
        ),
        (
            {"p": str},
            {"of_p": ForeignKey("Parnt", by="p")},
            "of_p: references 'Parnt', which is no entity of this catalog.",
        ),
        (
            {"p": str},
            {"of_p": ForeignKey("Log", by="p")},
            "of_p: references Log, which has several records for each id.",
        ),
        (
            {"p": str},
            {"of_p": ForeignKey("Passing", by="p")},
            "of_p: references Passing, whose records expire.",
        ),
        ({"p": str}, {"of_p": ForeignKey("Only", by="p")}, "of_p: references Only, which has only one record."),
        ({"p": str}, {"of_p": ForeignKey("Pair", by="p")}, "of_p: references Pair by p."),
        ({"p": str}, {"of_p": ForeignKey("Pair", by=())}, "of_p: references Pair by no property."),
        (
            {"p": int},
            {"of_p": ForeignKey("Parent", by="p")},
            "of_p: references Parent.parent_id, which is text, by p, which is int64.",
        ),
        (
            {"p": list[str]},
            {"of_p": ForeignKey("Parent", by="p")},
            "of_p: references a record by p, which is no scalar.",
        ),
        ({"p": str}, {"ö": ForeignKey("Parent", by="p")}, "ö: has an invalid name."),
        (
            {f"a{n}": Unique[int] for n in range(21)},
            {},
            "None: has 21 unique constraints and foreign keys.",
        ),
    ],
)
def test_invalid_constraints_are_reported(
    annotations: dict[str, Any], attributes: dict[str, Any], problem: str | None
) -> None:
    """A constraint that no write could satisfy is reported with its property."""
    problems = _problems(annotations, **attributes)
    assert (problem in problems) if problem else problems == []


def test_violations_are_reported_together() -> None:
    """All violations of one entity are reported together."""
    problems = _problems({"tags": Unique[list[str]], "p": int, "at": Updated[bool]}, of_p=ForeignKey("Parent", by="p"))
    assert len(problems) == 3


def test_constraints_of_histories() -> None:
    """Histories with a current record have no versions and counters; in other histories, the id is not unique."""
    entries = {"entry": SubId[str]}
    assert _problems({**entries, "num": int, "v": Version[int]}, head={"current": "~c"}, num=counter()) == [
        "v: is Version in a history with a current record.",
        "num: is a counter in a history with a current record.",
    ]
    assert _problems({**entries, "num": int, "v": Version[int], "a": Unique[str]}, num=counter()) == []
    shared = "x: is unique by the id, which all entries of a history share."
    assert _problems(entries, x=UniqueTogether("thing_id")) == [shared]
    assert _problems(entries, x=UniqueTogether("thing_id", "entry")) == []
    assert _problems(entries, head={"current": "~c"}, x=UniqueTogether("thing_id")) == []


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"unique_x": UniqueTogether("nmae")}, "is unique by 'nmae', which is no property of Thing."),
        ({"of_x": ForeignKey("Parent", by="nmae")}, "references a record by 'nmae', which is no property of Thing."),
        ({"num": counter("nmae")}, "counts records grouped by 'nmae', which is no property of Thing."),
    ],
)
def test_unknown_property_suggests_the_nearest(attributes: dict[str, Any], problem: str) -> None:
    """An unknown property fails at class creation, and the error suggests the nearest name."""
    with pytest.raises(InvalidCatalog) as error:
        _thing({**ID_ANNOTATION, "name": str, "num": int}, attributes)
    (violation,) = error.value.violations
    assert violation.problem == problem
    assert violation.remedy == "Did you mean 'name'?"


def test_write_rules() -> None:
    """`write=` accepts the same rules as `allow=`, is inherited, and is validated in the same way."""

    class Base(Entity, write=[signed_in, owner("name")]):
        thing_id: Id[str]
        name: str

    class Thing(Base, allow=anyone):
        """Inherits its write rules."""

    assert Catalog(Thing).entity(Thing).write_rules == (signed_in, owner("name"))
    assert _problems({"name": str}, head={"write": owner("nmae")}) == [
        "None: names the owner property 'nmae', which Thing does not have."
    ]
    assert _problems({"name": str}, head={"write": allow(anyone)}) == [
        "None: has PropertyRules(rules=(Anyone(),)) instead of a rule."
    ]
    assert _problems({"name": str}, head={"write": "nobody"}) == ["None: has 'nobody' instead of a rule."]


def test_inherited_constraints() -> None:
    """Constraints of a base class are inherited, unless the subclass redeclares their name."""

    class Base(Entity):
        thing_id: Id[str]
        a: Unique[int]
        b: int

        unique_b = UniqueTogether("b")

    class Thing(Base):
        c: int
        unique_b = UniqueTogether("b", "c")

    assert [[part.name for part in one.parts] for one in Catalog(Thing).entity(Thing).unique] == [["a"], ["b", "c"]]


def test_generated_ids() -> None:
    """Generated ids have 22 lower-case letters and digits, and are unique."""
    ids = {new_id() for _ in range(2_000)}
    assert len(ids) == 2_000
    assert {len(one) for one in ids} == {22}
    assert all(one.isascii() and one.isalnum() and one == one.lower() for one in ids)


def test_current_time_values() -> None:
    """The current time is converted to the type of the property: a number, a datetime, a date or sortable text."""

    class Thing(Entity):
        thing_id: Id[str]
        seconds: Timestamp
        milliseconds: TimestampMs
        at: datetime
        day: date
        text: str
        whole: int
        small: Int32

    thing = Catalog(Thing).entity(Thing)
    made = {name: current_time_value(thing.properties[name], 1_800_000_000.25) for name in list(thing.properties)[1:]}
    assert made == {
        "seconds": 1_800_000_000,
        "milliseconds": 1_800_000_000_250,
        "at": datetime(2027, 1, 15, 8, 0, 0, 250_000, UTC),
        "day": date(2027, 1, 15),
        "text": "2027-01-15T08:00:00.250000Z",
        "whole": 1_800_000_000,
        "small": 1_800_000_000,
    }
