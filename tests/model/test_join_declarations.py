"""Validation of joins: all invalid joins are reported together, each with its property and a remedy."""

from enum import Enum
from types import new_class
from typing import Any

import pytest

from graphql_api import (
    Catalog,
    Entity,
    HasMany,
    Id,
    Index,
    Int32,
    Ref,
    RefMany,
    SubId,
    Union,
    canonical,
    derived,
)
from graphql_api.errors import InvalidCatalog
from graphql_api.model.relation_declarations import Join


class Color(Enum):
    """A color."""

    RED = "red"


class Target(Entity):
    """The target of joins."""

    target_id: Id[str]
    owner: str
    number: int
    color: Color = Color.RED
    folded: str = derived(canonical, "owner")

    by_owner = Index(hash="owner", sort=["number", "color"])
    by_folded = Index(hash="folded")
    by_number = Index(sort="number")
    by_other = Index(hash="owner", sort="color")
    by_any = Union("by_number", "by_number_too")
    by_number_too = Index(sort=["number", "owner"])
    by_owned = Union("by_owner", "by_owner_too")
    by_owner_too = Index(hash="owner", sort=["number"])


class Entry(Entity):
    """A history with a composite id."""

    target_id: Id[str]
    place: Id[int]
    at: SubId[int]


class Only(Entity):
    """A singleton entity."""

    text: str = ""


def _source(**joins: Join) -> type[Entity]:
    """An entity with these joins."""
    body: dict[str, Any] = {
        "__module__": __name__,
        "__qualname__": "Source",
        "__annotations__": {
            "source_id": Id[str],
            "owner": str | None,
            "number": int,
            "small": Int32,
            "color": Color,
            "names": list[str],
            "numbers": set[int] | None,
            "parts": list[dict[str, str]],
        },
        **joins,
    }
    return new_class("Source", (Entity,), {}, lambda names: names.update(body))


def _problems(**joins: Join) -> list[tuple[str, str]]:
    """The violations of these joins: property, and problem with remedy."""
    with pytest.raises(InvalidCatalog) as error:
        Catalog(_source(**joins), Target, Entry, Only)
    found = error.value.violations
    assert {one.entity for one in found} == {"Source"}
    return [(str(one.property), f"{one.problem} {one.remedy}") for one in found]


def test_valid_joins_are_accepted() -> None:
    """Each kind of join becomes a specification with its result type and arguments."""
    catalog = Catalog(
        _source(
            one=Ref("Target", by="source_id"),
            entry=Ref("Entry", by=["source_id", "number"]),
            exact=Ref("Entry", by=["source_id", "number", "number"]),
            only=Ref("Only", by=()),
            first=Ref("Target", by=["owner", "number"], via="by_owner"),
            numbered=Ref("Target", by="number", via="by_number"),
            last=Ref("Entry", by=["source_id", "number"], via="by_id"),
            many=RefMany("Target", by="names"),
            pages=HasMany("Target", via="by_owner"),
            folded=HasMany("Target", via="by_folded", by="source_id"),
            history=HasMany("Entry", via="by_id", by=["source_id", "number"]),
            union=HasMany("Target", via="by_owned", description="All of them."),
            itself=Ref("Source", by="owner"),
        ),
        Target,
        Entry,
        Only,
    )
    joins = catalog.entity("Source").joins
    assert {
        name: (one.kind, one.target, one.via, tuple(p.name for p in one.by), one.target_properties)
        for name, one in joins.items()
    } == {
        "one": ("one", "target", None, ("source_id",), ("target_id",)),
        "entry": ("one", "entry", None, ("source_id", "number"), ("target_id", "place")),
        "exact": ("one", "entry", None, ("source_id", "number", "number"), ("target_id", "place", "at")),
        "only": ("one", "only", None, (), ()),
        "first": ("one", "target", "by_owner", ("owner", "number"), ("owner", "number")),
        "numbered": ("one", "target", "by_number", ("number",), ("number",)),
        "last": ("one", "entry", "by_id", ("source_id", "number"), ("target_id", "place")),
        "many": ("many", "target", None, ("names",), ("target_id",)),
        "pages": ("page", "target", "by_owner", ("owner",), ("owner",)),
        "folded": ("page", "target", "by_folded", ("source_id",), ("folded",)),
        "history": ("page", "entry", "by_id", ("source_id", "number"), ("target_id", "place")),
        "union": ("page", "target", "by_owned", ("owner",), ("owner",)),
        "itself": ("one", "source", None, ("owner",), ("source_id",)),
    }
    assert joins["union"].description == "All of them."


@pytest.mark.parametrize(
    ("join", "message"),
    [
        (Ref("Traget", by="owner"), "joins 'Traget', which is no entity of this catalog. Did you mean 'Target'?"),
        (Ref("Zebra", by="owner"), "joins 'Zebra', which is no entity of this catalog. Its entities are Source, "),
        (
            Ref("Target", by=["owner", "number"]),
            "joins Target by 2 properties (owner, number). Its id is target_id: name one property for each part.",
        ),
        (
            Ref("Entry", by="owner"),
            "joins Entry by 1 property (owner). Its id is target_id, place: name one property for each part, or",
        ),
        (Ref("Only", by="owner"), "joins Only by 1 property (owner). Its id is empty:"),
        (Ref("Target", by="number"), "matches Target.target_id, which is text, with number, which is int64. Give both"),
        (
            Ref("Target", by="names"),
            "joins Target by names, which is no scalar. Name a scalar property",
        ),
        (
            Ref("Target", by="owner", via="by_ownr"),
            "through 'by_ownr', which is no index of Target. Did you mean 'by_owner'?",
        ),
        (
            Ref("Target", by="owner", via="by_owned"),
            "joins one Target through the union by_owned. Name one of its indexes",
        ),
        (
            Ref("Target", by=(), via="by_number"),
            "searches Target.by_number by no property. Name one property for each of n",
        ),
        (
            Ref("Target", by=["owner", "number", "color", "owner"], via="by_owner"),
            "(owner, number, color, owner). Name one property for each of owner, number, color, at least 1.",
        ),
        (
            Ref("Target", by=["owner", "small"], via="by_owner"),
            "matches Target.number, which is int64, with small, which is int32.",
        ),
        (
            Ref("Target", by="source_id", via="by_id"),
            "joins Target through by_id, which finds only one record. Use Ref",
        ),
        (
            RefMany("Target", by="owner"),
            "joins Target by owner, which is no list of scalars. Name a list, tuple or",
        ),
        (RefMany("Target", by="parts"), "joins Target by parts, which is no list of scalars."),
        (RefMany("Target", by="numbers"), "matches Target.target_id, which is text, with numbers, which is int64."),
        (RefMany("Entry", by="names"), "joins several Entry by id, and its key is target_id, place, at."),
        (RefMany("Only", by="names"), "joins several Only by id, and its key is empty."),
        (HasMany("Target", via="by_number"), "joins all Target records, because by_number has no hash properties."),
        (HasMany("Target", via="by_any"), "joins all Target records, because by_number has no hash properties."),
        (
            HasMany("Target", via="by_id"),
            "joins Target through by_id, which finds only one record. Use Ref without via.",
        ),
        (
            HasMany("Entry", via="by_id"),
            "by 'target_id', which is no property of Source. Name the property with by=….",
        ),
        (
            HasMany("Target", via="by_owner", by=["owner", "number"]),
            "searches Target.by_owner by 2 properties (owner, number). Name one property for each of owner.",
        ),
        (HasMany("Target", via="by_owner", by="color"), "which is text, with color, which is "),
        (HasMany("Target", via="by_owner", by="parts"), "joins Target by parts, which is no scalar."),
    ],
)
def test_invalid_joins_are_reported(join: Join, message: str) -> None:
    """A join that can find no record is reported with the reason and a remedy."""
    ((property_name, problem),) = _problems(wrong=join)
    assert property_name == "wrong"
    assert message in problem, problem


def test_names_of_joins() -> None:
    """The name of a join differs from the names of properties, other joins and predefined fields."""
    found = _problems(
        sourceId=Ref("Target", by="owner"),
        id=Ref("Target", by="owner"),
        a_b=Ref("Target", by="owner"),
        aB=Ref("Target", by="owner"),
        _x1=Ref("Target", by="owner"),
    )
    assert dict(found) == {
        "sourceId": "becomes the field 'sourceId', which the property 'source_id' uses. Rename one of the two.",
        "id": "becomes the field 'id', which every record type has. Rename it.",
        "aB": "becomes the field 'aB', which the join 'a_b' uses. Rename one of the two.",
    }


def test_violations_are_reported_together() -> None:
    """All invalid joins of an entity are reported together."""
    found = _problems(
        one=Ref("Nobody", by="owner"), two=RefMany("Target", by="owner"), three=HasMany("Target", via="by_nothing")
    )
    assert [property_name for property_name, _ in found] == ["one", "two", "three"]


def test_unknown_property_fails_at_class_creation() -> None:
    """A join by an unknown property fails at class creation, and the error suggests the nearest name."""
    with pytest.raises(
        InvalidCatalog, match=r"Source\.wrong: is joined by 'ownr', which is no property of Source\. Did"
    ):
        _source(wrong=Ref("Target", by="ownr"))
    with pytest.raises(InvalidCatalog, match="is joined by 'nmes'"):
        _source(wrong=RefMany("Target", by="nmes"))


def test_joins_are_inherited() -> None:
    """A join of a base class is inherited, and a subclass can replace it."""

    class Base(Entity):
        owner: str
        target = Ref("Target", by="owner")
        same = Ref("Target", by="owner")

    class Thing(Base):
        thing_id: Id[str]
        same = HasMany("Target", via="by_owner")  # type: ignore[assignment]

    joins = Catalog(Thing, Target).entity(Thing).joins
    assert {name: one.kind for name, one in joins.items()} == {"target": "one", "same": "page"}
