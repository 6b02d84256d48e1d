"""Declarations of lookups, and their validation."""

from types import new_class
from typing import Any

import pytest

from graphql_api import Catalog, Entity, HasMany, Hidden, Id, Index, Lookup, Ref, SubId, Union
from graphql_api.errors import InvalidCatalog


class Member(Entity):
    """A member."""

    member_id: Id[str]
    first: str
    last: str

    by_first = Lookup("first")
    by_both_names = Lookup("last", "first", name="names")


def violations_of(annotations: dict[str, Any] | None = None, **body: Any) -> list[str]:
    """Returns the violations of an entity with these declarations."""
    own = {"thing_id": Id[str], "name": str, "tags": list[str]}
    space = {**body, "__annotations__": own if annotations is None else annotations}
    try:
        Catalog(new_class("Thing", (Entity,), {}, lambda names: names.update({**space, "__module__": __name__})))
    except InvalidCatalog as refused:
        return [f"{one.property}: {one.problem} {one.remedy}" for one in refused.violations]
    return []


def test_a_lookup_is_an_index_whose_entries_are_in_the_table() -> None:
    """A lookup is hashed by its properties, and ordered by the record key; it needs no physical index."""
    catalog = Catalog(Member)
    lookup = catalog.index(Member.by_both_names)
    assert (lookup.name, lookup.lookup, lookup.hash_entity) == ("bothNames", "names", "member~lookup.names")
    assert [part.name for part in lookup.hash] == ["last", "first"]
    assert [part.name for part in lookup.range_properties] == ["member_id"]
    assert lookup.physical is None
    assert not lookup.is_primary
    assert catalog.table_definition().indexes == ()
    assert catalog.entity(Member).written_lookups == (catalog.index(Member.by_first), lookup)
    assert catalog.entity(Member).is_constrained


def test_lookups_are_inherited() -> None:
    """A subclass has the lookups of its bases, and may replace them."""

    class Chair(Member):
        """The chair."""

        by_first = Lookup("last", "first")

    entity = Catalog(Chair).entity(Chair)
    assert [lookup.lookup for lookup in entity.written_lookups] == ["first", "names"]
    assert [part.name for part in entity.indexes["by_first"].hash] == ["last", "first"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"by_x": Lookup()}, "by_x: is a lookup of no properties. Name at least one property."),
        ({"by_x": Lookup("tags")}, "by_x: looks up tags, which is no scalar. Name a scalar property."),
        ({"by_x": Lookup("name", "name")}, "by_x: looks up name twice. Name it once."),
        ({"by_x": Lookup("nam")}, "by_x: looks up 'nam', which is no property of Thing. Did you mean 'name'?"),
        (
            {"lookup": Lookup("name")},
            "lookup: is a lookup, and its name does not start with by_ and a letter. Call it by_lookup.",
        ),
        (
            {"by_x": Lookup("name", name="a b")},
            "by_x: is called 'a b' in the table. Use ASCII letters and digits, a letter first. At most 100 fit.",
        ),
        (
            {"by_x": Lookup("name", name="one"), "by_y": Lookup("name", name="one")},
            "by_y: is called 'one' in the table, as by_x is. Set another name= for one of them.",
        ),
        (
            {"by_x": Lookup("name"), "by_y": Index(sort="name"), "by_both": Union("by_y", "by_x")},
            "by_both: is a union of 'by_x', which is a lookup and not an index. Search the lookup by its own field.",
        ),
        (
            {"by_name": Index(hash="name"), "by_name_": Lookup("name")},
            "by_name_: is called 'name' in GraphQL, as by_name is. Rename one of the attributes.",
        ),
    ],
)
def test_invalid_lookups(body: dict[str, Any], problem: str) -> None:
    """Each violation names the lookup, what is wrong, and what to do."""
    assert violations_of(**body) == [problem]


def test_a_singleton_has_no_lookups() -> None:
    """An entity without an id has one record, which is read by id."""
    (problem,) = violations_of({"name": str}, by_x=Lookup("name"))
    assert problem == "by_x: is a lookup, and the entity has no id. Remove it: a singleton is read by id."


def test_hidden_properties_have_no_lookup() -> None:
    """A search by a lookup needs its properties as arguments, so none of them may be hidden."""
    annotations: dict[str, Any] = {"thing_id": Id[str], "name": Hidden[str] | None}
    (problem,) = violations_of(annotations, name=None, by_x=Lookup("name"))
    assert "is Hidden, and searches of by_x need it as an argument." in problem


def test_joins_through_lookups() -> None:
    """HasMany and Ref join through a lookup, by properties of the same types."""

    class House(Entity):
        """A house."""

        house_id: Id[str]
        last: str

        first_person = Ref("Visitor", by="last", via="by_last")
        people = HasMany("Visitor", via="by_last")

    class Visitor(Entity):
        """A visitor."""

        visitor_id: Id[str]
        day: SubId[int]
        last: str

        by_last = Lookup("last")

    joins = Catalog(House, Visitor).entity(House).joins
    assert [(join.via, join.target_properties) for join in joins.values()] == [("by_last", ("last",))] * 2
