"""Validation of unions: each check has a union that violates it."""

from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, Union, desc
from graphql_api.errors import InvalidCatalog

REMEDY = "Search them by two fields, or declare the indexes alike."


class Parent(Entity, shards=Shards(2)):
    """An entity for parent shards."""

    parent_id: Id[str]


class Thing(Entity, shards=Shards(4)):
    """An entity with many kinds of indexes."""

    thing_id: Id[str]
    created: Created[Timestamp]
    name: str
    alias: str | None = None
    number: int = 0
    town: str = "-"
    parent_id: str = "-"

    by_name = Index(sort=["name", "created"])
    by_alias = Index(sort="alias")
    by_alias_down = Index(sort=["alias", desc("created")], name="aliasDown")
    by_number = Index(sort="number")
    by_bare = Index(sort="name", projection="KEYS_ONLY", name="bare")
    by_some = Index(sort="alias", projection=["name"], name="some")
    by_town = Index(hash="town", sort="name")
    by_town_alias = Index(hash="town", sort="alias")
    by_town_alone = Index(hash="town", name="townAlone", hash_key="townAloneHashKey")
    by_parent = Index(hash="parent_id", sort="name", sharded="Parent")
    by_parent_alias = Index(hash="parent_id", sort="alias", name="parentAlias")
    by_unsharded = Index(sort="name", sharded=False, name="unsharded")


def problems(**unions: Union) -> list[tuple[str | None, str, str]]:
    """The violations of these unions of `Thing`: property, problem and remedy."""
    body = {"__module__": __name__, "__qualname__": "Union", **unions}
    try:
        Catalog(type("Joined", (Thing,), body), Parent)
    except InvalidCatalog as invalid:
        return [(one.property, one.problem, one.remedy) for one in invalid.violations]
    return []


@pytest.mark.parametrize(
    "members",
    [
        ("by_name", "by_alias"),
        ("by_alias_down", "by_name", "by_alias"),
        ("by_bare", "by_name"),
        ("by_town", "by_town_alias"),
    ],
)
def test_valid_unions_are_accepted(members: tuple[str, ...]) -> None:
    """A union accepts indexes with equal hash properties, shards and type of the first sort property."""
    assert problems(by_joined=Union(*members)) == []


INVALID_UNIONS: list[tuple[tuple[str, ...], str, str]] = [
    ((), "is a union of fewer than two indexes.", "Name the indexes that it searches, in order."),
    (("by_name",), "is a union of fewer than two indexes.", "Name the indexes that it searches, in order."),
    (("by_name", "by_alias", "by_name"), "names an index twice.", "Name each index once."),
    (("by_name", "by_town"), "joins by_name and by_town, which are hashed by different properties.", REMEDY),
    (("by_name", "by_unsharded"), "joins by_name and by_unsharded, which are sharded differently.", REMEDY),
    (("by_parent", "by_parent_alias"), "joins by_parent and by_parent_alias, which are sharded differently.", REMEDY),
    (
        ("by_name", "by_number"),
        "joins by_name and by_number, whose first sort properties have different types.",
        REMEDY,
    ),
    (
        ("by_town", "by_town_alone"),
        "joins by_town and by_town_alone, whose first sort properties have different types.",
        REMEDY,
    ),
    (
        ("by_name", "by_some"),
        "has by_some after other indexes, and its entries do not carry their keys.",
        'Set projection="ALL", or name it first.',
    ),
]


@pytest.mark.parametrize(("members", "problem", "remedy"), INVALID_UNIONS)
def test_invalid_unions_are_reported(members: tuple[str, ...], problem: str, remedy: str) -> None:
    """Indexes that cannot be searched together are reported with their names and a remedy."""
    assert problems(by_joined=Union(*members)) == [("by_joined", problem, remedy)]


def test_names_of_unions() -> None:
    """The name of a union follows the rules of index names, and is unique within the entity."""
    called = "is a union, and its name does not start with by_ and a letter."
    assert problems(joined=Union("by_name", "by_alias")) == [("joined", called, "Call it by_joined.")]
    assert problems(by_townAlias=Union("by_name", "by_alias")) == [
        ("by_townAlias", "is called 'townAlias' in GraphQL, as by_town_alias is.", "Give one of them another name.")
    ]


def test_violations_are_reported_together() -> None:
    """All violations of several unions are reported together."""
    found = problems(by_one=Union("by_name"), by_two=Union("by_name", "by_bare", "by_town"))
    assert [(place, problem.split(",")[0]) for place, problem, _ in found] == [
        ("by_one", "is a union of fewer than two indexes."),
        ("by_two", "joins by_name and by_town"),
        ("by_two", "has by_bare after other indexes"),
    ]


def test_unknown_member_suggests_the_nearest() -> None:
    """An unknown member fails at class creation, and the error suggests the nearest index."""
    assert problems(by_joined=Union("by_name", "by_alais")) == [
        ("by_joined", "is a union of 'by_alais', which is no index of Joined.", "Did you mean 'by_alias'?")
    ]


def test_primary_index_and_unions_are_no_members() -> None:
    """The primary index and other unions are refused as members, each with its own remedy."""
    assert problems(by_pair=Union("by_name", "by_alias"), by_joined=Union("by_id", "by_name", "by_pair")) == [
        (
            "by_joined",
            "is a union of 'by_id', which is the table itself and not an index.",
            "Search ids by by_id alone, or declare an index that is sorted by them.",
        ),
        (
            "by_joined",
            "is a union of 'by_pair', which is a union itself.",
            "Name its members instead: by_name, by_alias.",
        ),
    ]


def test_unions_are_inherited() -> None:
    """A union of a base class is inherited."""

    class Base(Entity):
        name: str
        alias: str

        by_name = Index(sort="name")
        by_alias = Index(sort="alias")
        by_both = Union("by_name", "by_alias")

    class One(Base):
        one_id: Id[str]

    class Other(Base):
        other_id: Id[str]

    catalog = Catalog(One, Other)
    for kind in (One, Other):
        made: Any = catalog.entity(kind).unions["by_both"]
        assert [index.attribute for index in made.members] == ["by_name", "by_alias"]
        assert {index.entity for index in made.members} == {catalog.entity(kind).name}
