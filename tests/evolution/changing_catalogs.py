"""A world of servers whose catalogs differ, over one table, and an oracle of what is stored."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import new_class
from typing import Any, NamedTuple

from graphql_api import Catalog, Entity, ForeignKey, Id, Index, Int32, Unique, Version, derived, open_catalog
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.errors import CatalogBehind, ForeignKeyBroken, NotReady, ShardQLError, WrongTable
from graphql_api.evolution import MigrationSettings, TableRecord, prepare_table, read_record, run_migration

SECRETS = Secrets.generate()
NAMES = ("ada", "bob", "cy")
TOWNS = ("Bern", "Oslo", None)
EMAILS = ("a@x", "b@x", None)
TEAMS = ("red", "blue", None)
IDS = ("u1", "u2", "u3", "u4")


def first_letter(name: str) -> str:
    """The first version of a derived property."""
    return name[:1]


def last_letter(name: str) -> str:
    """The second version of a derived property."""
    return name[-1:]


class Release(NamedTuple):
    """What the catalog of one release declares beyond ids and names."""

    has_town: bool = False
    by_town: int = 0
    """0: no index, 1: users of a town by name, 2: another definition of that name: users of a town by id"""
    email: int = 0
    """0: no property, 1: a property, 2: a unique one"""
    team: int = 0
    """0: no property, 1: a property, 2: a foreign key"""
    has_version: bool = False
    letter: int = 0
    """0: no derived property, 1 and 2: its versions, with an index"""

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties of a user that callers provide."""
        optional = {"town": self.has_town, "email": self.email > 0, "team_id": self.team > 0}
        return ("name", *(name for name, is_declared in optional.items() if is_declared))


def catalog_of(release: Release) -> Catalog:
    """The catalog of a release."""

    class Team(Entity):
        team_id: Id[str]

    annotations: dict[str, Any] = {"user_id": Id[str], "name": str}
    body: dict[str, Any] = {"by_name": Index(sort="name")}
    if release.has_town:
        annotations["town"] = str | None
        body["town"] = None
        if release.by_town == 1:
            body["by_town"] = Index(hash="town", sort="name")
        elif release.by_town:
            body["by_town"] = Index(hash="town")
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
    user = new_class("User", (Entity,), {}, lambda space: space.update({**body, "__annotations__": annotations}))
    return Catalog(Team, user)


Query = tuple[str, Mapping[str, Any], Callable[[Mapping[str, Any]], bool], Callable[[str, Mapping[str, Any]], Any]]
"""an index, its arguments, which users it finds, and the position of a user in the result"""


def queries_of(release: Release) -> list[Query]:
    """All searches of a release."""
    queries: list[Query] = [("by_name", {}, lambda _: True, lambda key, user: (user["name"], key))]
    if release.has_town and release.by_town:
        order = _by_key if release.by_town == 2 else _by_name
        queries += [("by_town", {"town": town}, _has("town", town), order) for town in filter(None, TOWNS)]
    if release.letter:  # Each version of the function maps the argument and the names alike.
        queries += [("by_letter", {"letter": name}, _has("name", name), _by_name) for name in NAMES]
    return queries


def _has(name: str, value: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda user: user[name] == value


def _by_key(key: str, _: Mapping[str, Any]) -> Any:
    return key


def _by_name(key: str, user: Mapping[str, Any]) -> Any:
    return user["name"], key


@dataclass
class World:
    """Servers over one table, and what their writes should have stored."""

    url: str
    stack: AsyncExitStack
    servers: list[Database] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    teams: set[str] = field(default_factory=set)
    refusals: set[str] = field(default_factory=set)
    answers: int = 0
    violations: int = 0

    async def open(self, release: Release, *, migrate: bool = False) -> bool:
        """Opens a server. Returns False if the table refuses its catalog."""
        try:
            opened = open_catalog(catalog_of(release), self.url, secrets=SECRETS, migrate=migrate)
            self.servers.append(await self.stack.enter_async_context(opened))
        except WrongTable:
            self.refusals.add(WrongTable.code)
            return False
        self.releases.append(release)
        return True

    async def migrate(self, number: int, *, drops: bool = False) -> None:
        """Lets a server's release migrate the table."""
        db = self.servers[number]
        try:
            result = await run_migration(db.store, db.catalog, MigrationSettings(drop=drops))
        except WrongTable:  # Another release has built an element with this name and another definition.
            self.refusals.add(WrongTable.code)
            return
        self.violations += len(result.violations)
        if drops:
            await self._restart({*self.releases[number].properties})

    async def _restart(self, kept: set[str]) -> None:
        """Starts the servers again that declare dropped properties, so that others know these properties again."""
        for at in reversed(range(len(self.servers))):
            if not {*self.releases[at].properties} <= kept:
                try:
                    await prepare_table(self.servers[at].store, self.servers[at].catalog)
                except WrongTable:
                    del self.servers[at], self.releases[at]

    async def record(self) -> TableRecord:
        """The table's record."""
        found = await read_record(self.servers[0].store)
        assert found is not None
        return found

    def state_of(self, record: TableRecord, element: str) -> str:
        """The state of an element."""
        found = record.elements.get(element)
        return "absent" if found is None else found.state

    # --- writes ------------------------------------------------------------------------------------------------

    async def write(self, number: int, kind: str, user_id: str, values: Mapping[str, Any]) -> None:
        """Lets a server write a user, and compares the outcome with the oracle."""
        db, release = self.servers[number], self.releases[number]
        user: Any = db.catalog.entity("User").model
        provided = {name: values[name] for name in release.properties}
        stored = self.users.get(user_id)
        try:
            if kind == "create":
                await db.create(user, user_id=user_id, **provided)
                assert stored is None, f"{user_id} was created twice"
                self.users[user_id] = dict(provided)
            elif kind == "put":
                server_set = {"version": 1} if release.has_version else {}
                await db.put(user(user_id=user_id, **provided, **server_set))
                self.users[user_id] = {**(stored or {}), **provided}
            elif kind == "update":
                changes = dict([next(iter(provided.items()))] if len(provided) == 1 else [*provided.items()][1:])
                await db.update(user, user_id, **changes)
                assert stored is not None, f"{user_id} was updated and does not exist"
                self.users[user_id] = {**stored, **changes}
            else:
                await db.delete(user, user_id)
                self.users.pop(user_id, None)
        except ShardQLError as problem:
            self._check_refusal(problem, kind, user_id, values)

    def _check_refusal(self, problem: ShardQLError, kind: str, user_id: str, values: Mapping[str, Any]) -> None:
        self.refusals.add(problem.code)
        others = [one for key, one in self.users.items() if key != user_id]
        possible = {
            "ALREADY_EXISTS": kind == "create" and user_id in self.users,
            "RECORD_NOT_FOUND": kind == "update" and user_id not in self.users,
            "NOT_UNIQUE": any(one.get("email") == values["email"] for one in others),
            "FOREIGN_KEY": values["team_id"] not in self.teams,
            "NOT_READY": True,
            "CATALOG_BEHIND": True,
        }
        stored = self.users.get(user_id, {})
        if kind == "update":  # A constraint also holds for a stored value that the update keeps.
            possible["NOT_UNIQUE"] |= any(one.get("email") == stored.get("email") for one in others)
            possible["FOREIGN_KEY"] |= stored.get("team_id") not in self.teams
        assert possible.get(problem.code), (problem.code, problem, kind, user_id, values)

    async def write_team(self, number: int, team_id: str, *, removes: bool) -> None:
        """Lets a server create or delete a team."""
        db = self.servers[number]
        team: Any = db.catalog.entity("Team").model
        try:
            if removes:
                await db.delete(team, team_id)
                self.teams.discard(team_id)
            else:
                await db.put(team(team_id=team_id))
                self.teams.add(team_id)
        except NotReady:
            self.refusals.add(NotReady.code)
        except ForeignKeyBroken:
            self.refusals.add(ForeignKeyBroken.code)
            assert any(user.get("team_id") == team_id for user in self.users.values())

    # --- reads -------------------------------------------------------------------------------------------------

    async def check(self, number: int) -> None:
        """Compares every answer of a server with the oracle."""
        db, release = self.servers[number], self.releases[number]
        user = db.catalog.entity("User").model
        shown = self.expected(release)
        for user_id in IDS:
            found = await db.get(user, user_id)
            assert (None if found is None else _values(found, release)) == shown.get(user_id), user_id
        for index, arguments, matches, order in queries_of(release):
            expected = sorted((order(key, one), key) for key, one in shown.items() if matches(one))
            await self._compare(db, release, index, arguments, [key for _, key in expected])

    async def _compare(
        self, db: Database, release: Release, index: str, arguments: Mapping[str, Any], expected: list[str]
    ) -> None:
        user: Any = db.catalog.entity("User").model
        try:
            page = await db.search(getattr(user, index), limit=50, **arguments)
        except (NotReady, CatalogBehind) as problem:
            self.refusals.add(problem.code)
            return
        self.answers += 1
        found = [(record.user_id, _values(record, release)) for record in page.items]
        shown = self.expected(release)
        assert found == [(key, shown[key]) for key in expected], (index, dict(arguments))
        assert page.next_token is None

    def expected(self, release: Release) -> dict[str, dict[str, Any]]:
        """What a server of a release should show of each user."""
        return {key: {name: user.get(name) for name in release.properties} for key, user in sorted(self.users.items())}

    async def check_constraints(self) -> None:
        """Checks that every constraint that is ready holds."""
        record = await self.record()
        if self.state_of(record, "user unique email") == "ready":
            emails = [user["email"] for user in self.users.values() if user.get("email") is not None]
            assert len({*emails}) == len(emails), "the unique constraint is ready and violated"
        if self.state_of(record, "user foreign key ofTeam") == "ready":
            used = {user["team_id"] for user in self.users.values() if user.get("team_id") is not None}
            assert used <= self.teams, "the foreign key is ready and violated"


def _values(record: Any, release: Release) -> dict[str, Any]:
    return {name: getattr(record, name) for name in release.properties}
