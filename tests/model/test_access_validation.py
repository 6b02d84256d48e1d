"""Validation of access rules: each check has a declaration that violates it."""

from typing import Annotated, Any

import pytest

from graphql_api import (
    Catalog,
    Entity,
    Id,
    Index,
    SubId,
    Union,
    allow,
    anyone,
    canonical,
    derived,
    group,
    owner,
    owner_through,
    signed_in,
)
from graphql_api.errors import InvalidCatalog
from graphql_api.model.access_declarations import Group, Rule
from graphql_api.model.validation.access_validation import find_unrestricted_access


class Share(Entity):
    """Records who shares a thing."""

    thing_id: Id[str]
    holder: SubId[str]


class Deed(Entity):
    """Records the owner of a thing."""

    thing_id: Id[str]
    holder: str
    signed: int = 0


class Log(Entity):
    """An entity with two sub ids."""

    thing_id: Id[str]
    at: SubId[int]
    holder: SubId[str]


class Thing(Entity):
    """An entity with an owner property."""

    thing_id: Id[str]
    name: str
    name_canonical: str = derived(canonical, "name")
    user_id: str | None = None
    number: int = 0
    tags: list[str] | None = None

    by_name = Index(sort="name")
    by_user = Index(hash="user_id")


def problems(base: type[Entity] = Thing, /, **body: Any) -> list[tuple[str | None, str, str]]:
    """The violations of an entity with additional attributes: property, problem and remedy.

    `allow` is passed to the class. A property is an annotation, or a pair of annotation and default.
    """
    keywords = {"allow": body.pop("allow")} if "allow" in body else {}
    space: dict[str, Any] = {"__module__": __name__, "__qualname__": "Ruled", "__annotations__": {}}
    for name, value in body.items():
        given, default = value if isinstance(value, tuple) else (value, None)
        if isinstance(given, Index | Union):
            space[name] = given
        else:
            space["__annotations__"][name] = given
            space |= {} if default is None else {name: default}
    try:
        Catalog(type("Ruled", (base,), space, **keywords), Share, Deed, Log)
    except InvalidCatalog as invalid:
        return [(one.property, one.problem, one.remedy) for one in invalid.violations]
    return []


@pytest.mark.parametrize(
    "rules",
    [
        anyone,
        signed_in,
        group("Admin", "Support"),
        owner("user_id"),
        owner("thing_id"),
        owner_through("Share", of="thing_id", owner="holder"),
        owner_through("share", of="name", owner="holder"),
        owner_through("Deed", of="user_id", owner="holder"),
        [group("Admin"), owner("user_id")],
        [],
    ],
)
def test_valid_rules_are_accepted(rules: Any) -> None:
    """Entities, indexes and properties accept every kind of rule. An empty list denies everyone."""
    assert problems(allow=rules) == []
    assert problems(by_number=Index(sort="number", allow=rules)) == []
    given = rules if isinstance(rules, list) else [rules]
    assert problems(note=(Annotated[str, allow(*given)], "-")) == []


OWNER_REMEDY = "Name a str that is not derived: callers are identified by strings."


@pytest.mark.parametrize(
    ("rule", "problem", "remedy"),
    [
        (group(), "has a group rule without a name.", 'Name at least one group: group("Admin").'),
        (group("A", ""), "has a group rule without a name.", 'Name at least one group: group("Admin").'),
        (Group((7,)), "has a group rule without a name.", 'Name at least one group: group("Admin").'),  # type: ignore[arg-type]
        (
            "Admin",
            "has 'Admin' instead of a rule.",
            "Use anyone, signed_in, group(…), owner(…) or owner_through(…).",
        ),
        (
            owner("usr_id"),
            "names the owner property 'usr_id', which Ruled does not have.",
            "Did you mean 'user_id'?",
        ),
        (
            owner("xyzzy"),
            "names the owner property 'xyzzy', which Ruled does not have.",
            "Name the property that holds the owner of the record.",
        ),
        (
            owner("number"),
            "names the owner property Ruled.number, which is derived or no str.",
            OWNER_REMEDY,
        ),
        (
            owner("tags"),
            "names the owner property Ruled.tags, which is derived or no str.",
            OWNER_REMEDY,
        ),
        (
            owner("name_canonical"),
            "names the owner property Ruled.name_canonical, which is derived or no str.",
            OWNER_REMEDY,
        ),
        (
            owner_through("Shares", of="thing_id", owner="holder"),
            "names the ownership entity 'Shares', which the catalog does not declare.",
            "Did you mean 'Share'?",
        ),
        (
            owner_through("Zzz", of="thing_id", owner="holder"),
            "names the ownership entity 'Zzz', which the catalog does not declare.",
            "Add it to the catalog.",
        ),
        (
            owner_through("Log", of="thing_id", owner="holder"),
            "looks up one record of Log, whose key is thing_id and at and holder.",
            "Declare its key as one Id, or as one Id and the owner as its SubId.",
        ),
        (
            owner_through("Deed", of="thing_id", owner="signed"),
            "names the owner property Deed.signed, which is derived or no str.",
            OWNER_REMEDY,
        ),
        (
            owner_through("Deed", of="thing_id", owner="holders"),
            "names the owner property 'holders', which Deed does not have.",
            "Did you mean 'holder'?",
        ),
        (
            owner_through("Deed", of="thin_id", owner="holder"),
            "looks up Deed by 'thin_id', which Ruled does not have.",
            "Did you mean 'thing_id'?",
        ),
        (
            owner_through("Deed", of="number", owner="holder"),
            "looks up Deed by number, whose type differs from that of thing_id.",
            "Give both properties the same type.",
        ),
    ],
)
def test_invalid_rules_are_reported(rule: Rule, problem: str, remedy: str) -> None:
    """A rule must name existing properties that can identify a caller, wherever it is declared."""
    assert problems(allow=[anyone, rule]) == [(None, problem, remedy)]
    assert problems(by_number=Index(sort="number", allow=[rule])) == [("by_number", problem, remedy)]
    assert problems(note=(Annotated[str, allow(rule)], "-")) == [("note", problem, remedy)]
    union = {"by_note": Index(sort="note"), "by_any": Union("by_name", "by_note", allow=[rule])}
    assert problems(note=(str, "-"), **union) == [("by_any", problem, remedy)]


def test_ownership_entity_has_one_owner_per_id() -> None:
    """An ownership entity with a sub id is valid only if the sub id is the owner."""

    class Entry(Entity):
        """An entity with a sub id that is not an owner."""

        thing_id: Id[str]
        at: SubId[int]
        holder: str

    class Ruled(Thing, allow=[owner_through("Entry", of="thing_id", owner="holder")]):
        """Looks up its owner in `Entry`."""

    with pytest.raises(InvalidCatalog) as invalid:
        Catalog(Ruled, Entry)
    assert [(one.entity, one.problem) for one in invalid.value.violations] == [
        ("Ruled", "looks up one record of Entry, whose key is thing_id and at.")
    ]


PRIVATE = Annotated[str, allow(group("Payroll"))]


def test_key_properties_have_no_rules() -> None:
    """A property of the primary key cannot have access rules, because the id of the record contains it."""

    class Safe(Entity):
        """An entity with a protected key."""

        safe_id: Id[PRIVATE]

    with pytest.raises(InvalidCatalog) as invalid:
        Catalog(Safe)
    assert [(one.property, one.problem, one.remedy) for one in invalid.value.violations] == [
        (
            "safe_id",
            "has access rules and is part of the primary key, which every record's id contains.",
            "Move the rules to the entity.",
        )
    ]


def test_derived_property_needs_the_rule_of_its_source() -> None:
    """A property without a rule cannot be derived from a property with a rule."""
    violation = ("note_canonical", "has no access rule and is derived from note, which has one.", "Add allow(…) to it.")
    rule = derived(canonical, "note")
    assert problems(note=(PRIVATE, "-"), note_canonical=(str, rule)) == [violation]
    assert problems(note=(PRIVATE, "-"), note_canonical=(PRIVATE, rule)) == []


@pytest.mark.parametrize("index", [{"hash": "note"}, {"sort": ["name", "note"], "name": "note"}])
def test_open_index_by_restricted_property_is_reported(index: dict[str, Any]) -> None:
    """An index that is open to anyone cannot be hashed or sorted by a restricted property."""
    violation = ("by_note", "is open to anyone and searched by note, which is restricted.", "Add allow= to it.")
    assert problems(note=(PRIVATE, "-"), by_note=Index(**index)) == [violation]
    assert problems(note=(PRIVATE, "-"), by_note=Index(**index, allow=signed_in)) == []
    assert problems(note=(PRIVATE, "-"), by_note=Index(**index), allow=signed_in) == []


def test_open_union_of_restricted_index_is_reported() -> None:
    """A union that is open to anyone cannot contain a restricted index."""
    body: dict[str, Any] = {"note": (str, "-"), "by_note": Index(sort="note", allow=signed_in)}
    violation = ("by_any", "is open to anyone and searches by_note, which is restricted.", "Add allow= to it.")
    assert problems(**body, by_any=Union("by_name", "by_note")) == [violation]
    assert problems(**body, by_any=Union("by_name", "by_note", allow=group("Admin"))) == []
    assert problems(**body, by_any=Union("by_name", "by_note"), allow=[owner("user_id")]) == []


def test_unrestricted_access_is_reported() -> None:
    """Unrestricted access is reported separately for reading and writing."""

    class Ruled(Entity, allow=anyone):
        """Declares read access only."""

        ruled_id: Id[str]

    class Posted(Entity, allow=anyone, write=group("Admin")):
        """Declares read and write access."""

        posted_id: Id[str]

    class Box(Entity, write=[anyone, group("Admin")]):
        """Declares write access only."""

        box_id: Id[str]

    class Own(Entity, allow=[owner("user_id")]):
        """Write access defaults to the declared read access."""

        own_id: Id[str]
        user_id: str

    specs = [*Catalog(Ruled, Posted, Box, Own, Share, Deed).entities.values()]
    assert [one.description for one in find_unrestricted_access(specs)] == [
        "Anyone who reaches the server can read and write Share, Deed: no access rule is declared.",
        "Anyone who reaches the server can read Box: allow= is not set.",
        "Anyone who reaches the server can write Ruled: allow= allows anyone, and write= is not set.",
    ]
    assert [one.description for one in find_unrestricted_access(specs, is_written=False)] == [
        "Anyone who reaches the server can read Box, Share, Deed: allow= is not set."
    ]
    assert find_unrestricted_access([spec for spec in specs if spec.type_name in ("Posted", "Own")]) == []
