"""Every rule of access rules, by a declaration that breaks it."""

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
from graphql_api.model.unrestricted_access import left_open


class Share(Entity):
    """Who has a share of a thing."""

    thing_id: Id[str]
    holder: SubId[str]


class Deed(Entity):
    """Whose a thing is."""

    thing_id: Id[str]
    holder: str
    signed: int = 0


class Log(Entity):
    """Something with two sub ids."""

    thing_id: Id[str]
    at: SubId[int]
    holder: SubId[str]


class Thing(Entity):
    """Something that somebody owns."""

    thing_id: Id[str]
    name: str
    name_canonical: str = derived(canonical, "name")
    user_id: str | None = None
    number: int = 0
    tags: list[str] | None = None

    by_name = Index(sort="name")
    by_user = Index(hash="user_id")


def problems(base: type[Entity] = Thing, /, **body: Any) -> list[tuple[str | None, str, str]]:
    """Where, what and remedy of everything that is wrong with an entity that has these attributes too.

    `allow` is given to the class itself; a property is an annotation, or a pair of one and its default.
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
def test_rules_that_hold(rules: Any) -> None:
    """Every kind of rule may stand on an entity, an index and a property; an empty list is for nobody."""
    assert problems(allow=rules) == []
    assert problems(by_number=Index(sort="number", allow=rules)) == []
    given = rules if isinstance(rules, list) else [rules]
    assert problems(note=(Annotated[str, allow(*given)], "-")) == []


ONE_TEXT = "Name a str that is not derived: callers are known by texts."


@pytest.mark.parametrize(
    ("rule", "problem", "remedy"),
    [
        (group(), "is for members of a group without a name.", 'Name at least one: group("Admin").'),
        (group("A", ""), "is for members of a group without a name.", 'Name at least one: group("Admin").'),
        (Group((7,)), "is for members of a group without a name.", 'Name at least one: group("Admin").'),  # type: ignore[arg-type]
        (
            "Admin",
            "is for 'Admin', which is no rule.",
            "Give anyone, signed_in, group(…), owner(…) or owner_through(…).",
        ),
        (
            owner("usr_id"),
            "is for the owner that 'usr_id' names, and Ruled has no such property.",
            "Did you mean 'user_id'?",
        ),
        (
            owner("xyzzy"),
            "is for the owner that 'xyzzy' names, and Ruled has no such property.",
            "Name the property that holds who owns the record.",
        ),
        (
            owner("number"),
            "is for the owner that Ruled.number names, which is no text that is stored as it was given.",
            ONE_TEXT,
        ),
        (
            owner("tags"),
            "is for the owner that Ruled.tags names, which is no text that is stored as it was given.",
            ONE_TEXT,
        ),
        (
            owner("name_canonical"),
            "is for the owner that Ruled.name_canonical names, which is no text that is stored as it was given.",
            ONE_TEXT,
        ),
        (
            owner_through("Shares", of="thing_id", owner="holder"),
            "is for owners that 'Shares' names, and the catalog declares no such entity.",
            "Did you mean 'Share'?",
        ),
        (
            owner_through("Zzz", of="thing_id", owner="holder"),
            "is for owners that 'Zzz' names, and the catalog declares no such entity.",
            "Add it to the catalog.",
        ),
        (
            owner_through("Log", of="thing_id", owner="holder"),
            "looks up one record of Log, whose key is thing_id and at and holder.",
            "Declare the key of such an entity as one Id, or as one Id and the owner as its SubId.",
        ),
        (
            owner_through("Deed", of="thing_id", owner="signed"),
            "is for the owner that Deed.signed names, which is no text that is stored as it was given.",
            ONE_TEXT,
        ),
        (
            owner_through("Deed", of="thing_id", owner="holders"),
            "is for the owner that 'holders' names, and Deed has no such property.",
            "Did you mean 'holder'?",
        ),
        (
            owner_through("Deed", of="thin_id", owner="holder"),
            "is for owners of 'thin_id', and Ruled has no such property.",
            "Did you mean 'thing_id'?",
        ),
        (
            owner_through("Deed", of="number", owner="holder"),
            "looks up Deed by number, which is of another type than thing_id.",
            "Declare both of one type.",
        ),
    ],
)
def test_rules_that_do_not(rule: Rule, problem: str, remedy: str) -> None:
    """What a rule names must be there and must be able to name somebody, wherever the rule stands."""
    assert problems(allow=[anyone, rule]) == [(None, problem, remedy)]
    assert problems(by_number=Index(sort="number", allow=[rule])) == [("by_number", problem, remedy)]
    assert problems(note=(Annotated[str, allow(rule)], "-")) == [("note", problem, remedy)]
    union = {"by_note": Index(sort="note"), "by_any": Union("by_name", "by_note", allow=[rule])}
    assert problems(note=(str, "-"), **union) == [("by_any", problem, remedy)]


def test_a_history_is_no_deed() -> None:
    """An entity with a sub id tells who owns something only if the sub id is the owner."""

    class Entry(Entity):
        """Something with a sub id that owns nothing."""

        thing_id: Id[str]
        at: SubId[int]
        holder: str

    class Ruled(Thing, allow=[owner_through("Entry", of="thing_id", owner="holder")]):
        """Whose owner is looked for there."""

    with pytest.raises(InvalidCatalog) as invalid:
        Catalog(Ruled, Entry)
    assert [(one.entity, one.problem) for one in invalid.value.violations] == [
        ("Ruled", "looks up one record of Entry, whose key is thing_id and at.")
    ]


PRIVATE = Annotated[str, allow(group("Payroll"))]


def test_keys_have_no_rules_of_their_own() -> None:
    """A property of the primary key may carry no rule, since the id of the record holds it."""

    class Safe(Entity):
        """Something with a protected key."""

        safe_id: Id[PRIVATE]

    with pytest.raises(InvalidCatalog) as invalid:
        Catalog(Safe)
    assert [(one.property, one.problem, one.remedy) for one in invalid.value.violations] == [
        (
            "safe_id",
            "carries rules and is part of the primary key, which every record's id holds.",
            "Put the rules on the entity.",
        )
    ]


def test_what_is_derived_is_protected_too() -> None:
    """A property without a rule may not be computed from one that has some."""
    told = ("note_canonical", "carries no rule and is derived from note, which does.", "Give it allow(…) too.")
    rule = derived(canonical, "note")
    assert problems(note=(PRIVATE, "-"), note_canonical=(str, rule)) == [told]
    assert problems(note=(PRIVATE, "-"), note_canonical=(PRIVATE, rule)) == []


@pytest.mark.parametrize("index", [{"hash": "note"}, {"sort": ["name", "note"], "name": "note"}])
def test_open_searches_by_what_is_protected(index: dict[str, Any]) -> None:
    """An index that everybody may search is not hashed or sorted by a property that only some may read."""
    told = ("by_note", "is open to everyone and searched by note, which is not.", "Give it allow= too.")
    assert problems(note=(PRIVATE, "-"), by_note=Index(**index)) == [told]
    assert problems(note=(PRIVATE, "-"), by_note=Index(**index, allow=signed_in)) == []
    assert problems(note=(PRIVATE, "-"), by_note=Index(**index), allow=signed_in) == []


def test_open_unions_of_what_is_protected() -> None:
    """A union that everybody may search has no index that only some may."""
    body: dict[str, Any] = {"note": (str, "-"), "by_note": Index(sort="note", allow=signed_in)}
    told = ("by_any", "is open to everyone and searches by_note, which is not.", "Give it allow= too.")
    assert problems(**body, by_any=Union("by_name", "by_note")) == [told]
    assert problems(**body, by_any=Union("by_name", "by_note", allow=group("Admin"))) == []
    assert problems(**body, by_any=Union("by_name", "by_note"), allow=[owner("user_id")]) == []


def test_what_is_left_open() -> None:
    """What everybody may read or write is told where nobody has said so: to read and to write are two things."""

    class Ruled(Entity, allow=anyone):
        """Says who may read it, and not who may write it."""

        ruled_id: Id[str]

    class Posted(Entity, allow=anyone, write=group("Admin")):
        """Says both."""

        posted_id: Id[str]

    class Box(Entity, write=[anyone, group("Admin")]):
        """Says who may write it, and not who may read it."""

        box_id: Id[str]

    class Own(Entity, allow=[owner("user_id")]):
        """Whoever may read it may write it."""

        own_id: Id[str]
        user_id: str

    specs = [*Catalog(Ruled, Posted, Box, Own, Share, Deed).entities.values()]
    assert [one.told for one in left_open(specs)] == [
        "Whoever reaches the server may read and write Share, Deed, which carry no rule.",
        "Whoever reaches the server may read Box, since nothing says who may.",
        "Whoever reaches the server may write Ruled, since everybody may read that and nothing says who may write it.",
    ]
    assert [one.told for one in left_open(specs, is_written=False)] == [
        "Whoever reaches the server may read Box, Share, Deed, since nothing says who may."
    ]
    assert left_open([spec for spec in specs if spec.type_name in ("Posted", "Own")]) == []
