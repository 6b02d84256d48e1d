"""Releases of a catalog, and the searches that each of them offers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import new_class
from typing import Annotated, Any, NamedTuple

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Index,
    Int32,
    Lookup,
    Shards,
    SubId,
    Timestamp,
    Unique,
    Version,
    derived,
    stored,
)

NAMES = ("ada", "bob", "cy")
TOWNS = ("Bern", "Oslo", None)
EMAILS = ("a@x", "b@x", None)
TEAMS = ("red", "blue", None)
PLACES = ("hall", "roof", None)
IDS = ("u1", "u2", "u3", "u4")
GUESTS = ("g1", "g2", "g3")
NUMBERS = ("1", "2", "3")
CURRENT = "now"
"""the sub id of current records"""
CURRENT_ELEMENT = "visit current record current"

RecordId = tuple[str, ...]
"""entity, id and sub id: `("visit", "g1", "2")`"""
Values = Mapping[str, Any]


def first_letter(name: str) -> str:
    """The first version of a derived property."""
    return name[:1]


def last_letter(name: str) -> str:
    """The second version of a derived property."""
    return name[-1:]


class Release(NamedTuple):
    """What the catalog of one release declares beyond ids, names and creation times."""

    has_town: bool = False
    by_town: int = 0
    """0: no index, 1: users of a town by name, 2: another definition of that name: users of a town by id, 3: the same
    under another name"""
    is_renamed: bool = False
    """the town and its index have other names in Python, and their names in the table"""
    email: int = 0
    """0: no property, 1: a property, 2: a unique one"""
    team: int = 0
    """0: no property, 1: a property, 2: a foreign key"""
    has_version: bool = False
    letter: int = 0
    """0: no derived property, 1 and 2: its versions, with an index"""
    visits: int = 0
    """0: no entity, 1: a history, 2: with current records, 3: their places are unique, 4: places of entries are"""
    growth: tuple[tuple[int, int], ...] = ()
    """sizes and beginnings of further shard generations of users and visits"""
    has_lookups: bool = False
    """lookups of towns, letters and places"""

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties of a user that callers provide, by their first names."""
        optional = {"town": self.has_town, "email": self.email > 0, "team_id": self.team > 0}
        return ("created", "name", *(name for name, is_declared in optional.items() if is_declared))

    @property
    def has_current(self) -> bool:
        """Whether the release declares current records."""
        return self.visits in {2, 3}

    def properties_of(self, entity: str) -> tuple[str, ...]:
        """The properties of an entity that callers provide."""
        return self.properties if entity == "user" else ("created", "place", "note")

    def python_name(self, name: str) -> str:
        """The name of a property or index in this release."""
        return {"town": "home", "by_town": "by_home"}.get(name, name) if self.is_renamed else name

    def values(self, entity: str, record: Any) -> dict[str, Any]:
        """The properties of a record that this release shows."""
        return {name: getattr(record, self.python_name(name)) for name in self.properties_of(entity)}

    def shown(self, entity: str, values: Values | None) -> Values | None:
        """The stored properties that this release shows."""
        return None if values is None else {name: values.get(name) for name in self.properties_of(entity)}


@cache
def catalog_of(release: Release) -> Catalog:
    """The catalog of a release."""

    class Team(Entity):
        team_id: Id[str]

    return Catalog(Team, *([_visit(release)] if release.visits else ()), _user(release))


def _user(release: Release) -> Any:
    annotations: dict[str, Any] = {"user_id": Id[str], "name": str, "created": Created[Timestamp]}
    body: dict[str, Any] = {"by_name": Index(sort="name")}
    if release.has_town:
        town, by_town = map(release.python_name, ("town", "by_town"))
        annotations[town] = Annotated[str | None, stored("town")]
        body[town] = None
        if release.by_town:
            sort, name = ("name" if release.by_town == 1 else ()), ("townAndId" if release.by_town > 2 else "town")
            body[by_town] = Index(hash=town, sort=sort, name=name)
        if release.has_lookups:
            body[f"{by_town}_lookup"] = Lookup(town, name="town")
    if release.email:
        annotations["email"] = Unique[str] | None if release.email > 1 else str | None
        body["email"] = None
    if release.team:
        annotations["team_id"] = str | None
        body["team_id"] = None
        if release.team > 1:
            body["of_team"] = ForeignKey("Team", by="team_id")
    if release.has_version:
        annotations["version"] = Version[Int32]
        body["version"] = 0
    if release.letter:
        annotations["letter"] = str | None
        function = first_letter if release.letter == 1 else last_letter
        previous = None if release.letter == 1 else first_letter
        body["letter"] = derived(function, "name", version=release.letter, previous=previous)
        body["by_letter"] = Index(hash="letter", sort="name")
        if release.has_lookups:
            body["by_letter_lookup"] = Lookup("letter")
    return _entity("User", release, annotations, body)


def _visit(release: Release) -> Any:
    unique = release.visits > 2
    annotations: dict[str, Any] = {
        "guest_id": Id[str],
        "number": SubId[str],
        "created": Created[Timestamp],
        "place": Unique[str] | None if unique else str | None,
        "note": str | None,
    }
    body: dict[str, Any] = {"place": None, "note": None, "by_place": Index(hash="place", sort="number")}
    if release.has_lookups:
        body["by_place_lookup"] = Lookup("place")
    return _entity("Visit", release, annotations, body, **({"current": CURRENT} if release.has_current else {}))


def _entity(name: str, release: Release, annotations: dict[str, Any], body: dict[str, Any], **options: Any) -> Any:
    shards = Shards(1)
    for size, since in release.growth:
        shards = shards.then(size, since=since)
    space = {**body, "__annotations__": annotations}
    return new_class(name, (Entity,), {"shards": shards, **options}, lambda own: own.update(space))


@dataclass(frozen=True)
class Query:
    """A search, the records that it finds, and their order."""

    entity: str
    index: str
    arguments: Values
    matches: Callable[[RecordId, Values], bool]
    order: Callable[[RecordId, Values], Any]
    scope: str = "PAST"
    """entries, current records, or both"""


@cache
def queries_of(release: Release) -> tuple[Query, ...]:
    """All searches of a release."""
    found = [Query("user", "by_name", {}, lambda *_: True, _by_name)]
    if release.has_town and release.by_town:
        order = _by_name if release.by_town == 1 else _by_id
        town = release.python_name("town")
        found += [Query("user", "by_town", {town: one}, _has("town", one), order) for one in filter(None, TOWNS)]
    if release.has_town and release.has_lookups:
        town, attribute = release.python_name("town"), f"{release.python_name('by_town')}_lookup"
        found += [Query("user", attribute, {town: one}, _has("town", one), _by_id) for one in filter(None, TOWNS)]
    if release.letter and release.has_lookups:
        found += [Query("user", "by_letter_lookup", {"letter": name}, _has("name", name), _by_id) for name in NAMES]
    if release.letter:  # Each version of the function maps the argument and the names alike.
        found += [Query("user", "by_letter", {"letter": name}, _has("name", name), _by_name) for name in NAMES]
    if release.visits:
        scopes = ("ALL", "PAST", "CURRENT") if release.has_current else ("PAST",)
        for scope in scopes:
            more = {"history": scope} if release.has_current else {}
            found += [Query("visit", "by_id", {"guest_id": id, **more}, _is_of(id), _by_id, scope) for id in GUESTS]
            for place in filter(None, PLACES):
                own = {"place": place, **more}
                found.append(Query("visit", "by_place", own, _has("place", place), _by_number, scope))
                if release.has_lookups:
                    found.append(Query("visit", "by_place_lookup", own, _has("place", place), _by_id, scope))
    return tuple(found)


def _has(name: str, value: str) -> Callable[[RecordId, Values], bool]:
    return lambda _, values: bool(values.get(name) == value)


def _is_of(guest: str) -> Callable[[RecordId, Values], bool]:
    return lambda key, _: key[1] == guest


def _by_id(id: RecordId, _: Values) -> Any:
    return id


def _by_name(id: RecordId, values: Values) -> Any:
    return values["name"], id


def _by_number(id: RecordId, _: Values) -> Any:
    return id[2], id[1]
