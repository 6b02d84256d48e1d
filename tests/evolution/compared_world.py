"""Servers of several releases over one SQLite table, and what their writes should have stored."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from graphql_api import open_catalog
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.errors import CatalogBehind, ForeignKeyBroken, NotReady, ShardQLError, WrongTable
from graphql_api.evolution import MigrationSettings, TableRecord, prepare_table, read_record, run_migration
from tests.evolution.catalog_oracle import (
    MODELS,
    Operation,
    check_page,
    check_refusal,
    check_unique,
    creation_of,
    last_entry,
)
from tests.evolution.changing_catalogs import (
    CURRENT,
    CURRENT_ELEMENT,
    GUESTS,
    IDS,
    RecordId,
    Release,
    Values,
    catalog_of,
    queries_of,
)

SECRETS = Secrets.generate()
START = 1_000


@dataclass
class World:
    """Servers over one table, and what their writes should have stored."""

    url: str
    stack: AsyncExitStack
    now: int = START
    servers: list[Database] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    stored: dict[RecordId, Values] = field(default_factory=dict)
    refusals: set[str] = field(default_factory=set)
    answers: int = 0
    violations: int = 0

    async def open(self, release: Release) -> bool:
        """Opens a server. Returns False if the table refuses its catalog."""
        try:
            opened = open_catalog(
                catalog_of(release), self.url, secrets=SECRETS, migrate=False, clock=lambda: float(self.now)
            )
            self.servers.append(await self.stack.enter_async_context(opened))
        except WrongTable:
            self.refusals.add(WrongTable.code)
            return False
        self.releases.append(release)
        return True

    async def migrate(self, number: int, *, drops: bool = False) -> None:
        """Lets a server's release migrate the table."""
        db = self.servers[number]
        settings = MigrationSettings(drop=drops, clock=lambda: float(self.now))
        try:
            result = await run_migration(db.store, db.catalog, settings)
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

    async def states(self) -> dict[str, str]:
        """The state of each element."""
        found: TableRecord | None = await read_record(self.servers[0].store)
        assert found is not None
        return {key: recorded.state for key, recorded in found.elements.items()}

    # --- writes ------------------------------------------------------------------------------------------------

    async def write(self, number: int, kind: str, id: RecordId, values: Values) -> None:
        """Lets a server write a record, and compares the outcome with the oracle."""
        db, release = self.servers[number], self.releases[number]
        if id[0] == "visit" and not release.visits:
            return
        created = creation_of(self.stored, id)
        created = self.now if created is None or (kind == "put" and values.get("moves")) else created
        operation = Operation.of(kind, id, {**values, "created": created}, release)
        try:
            await operation.send(db, release)
        except ShardQLError as problem:
            self.refusals.add(problem.code)
            if not isinstance(problem, NotReady | CatalogBehind):
                check_refusal(problem, operation, [self.stored])
            return
        outcome = operation.outcome(self.stored)
        assert not (kind == "create" and id in self.stored), f"{id} was created twice"
        assert not (kind == "update" and created is None), f"{id} was updated and does not exist"
        if outcome is None:
            self.stored.pop(id, None)
        else:
            self.stored[id] = outcome

    async def write_team(self, number: int, team_id: str, *, removes: bool) -> None:
        """Lets a server create or delete a team."""
        db = self.servers[number]
        team: Any = db.catalog.entity("Team").model
        try:
            if removes:
                await db.delete(team, team_id)
                self.stored.pop(("team", team_id), None)
            else:
                await db.put(team(team_id=team_id))
                self.stored["team", team_id] = {}
        except NotReady:
            self.refusals.add(NotReady.code)
        except ForeignKeyBroken:
            self.refusals.add(ForeignKeyBroken.code)
            assert any(values.get("team_id") == team_id for values in self.stored.values())

    # --- reads -------------------------------------------------------------------------------------------------

    async def check(self, number: int) -> None:
        """Compares every answer of a server with the oracle."""
        db, release = self.servers[number], self.releases[number]
        user: Any = db.catalog.entity("User").model
        for user_id in IDS:
            found = await db.get(user, user_id)
            shown = None if found is None else release.values("user", found)
            assert shown == release.shown("user", self.stored.get(("user", user_id))), user_id
        for guest in GUESTS if release.visits else ():
            await self._check_head(db, release, guest)
        states = await self.states()
        shows_current = [states.get(CURRENT_ELEMENT) == "ready"]
        for query in queries_of(release):
            model: Any = db.catalog.entity(MODELS[query.entity]).model
            index = getattr(model, release.python_name(query.index))
            try:
                page = await db.search(index, limit=50, **query.arguments)
            except (NotReady, CatalogBehind) as problem:
                self.refusals.add(problem.code)
                continue
            self.answers += 1
            assert page.next_token is None
            check_page(query, release, page.items, [self.stored], shows_current)
        check_unique(self.stored, states)

    async def _check_head(self, db: Database, release: Release, guest: str) -> None:
        """Compares the latest state of a history, and its current record."""
        visit: Any = db.catalog.entity("Visit").model
        expected = release.shown("visit", last_entry(self.stored, guest))
        found = await db.get(visit, guest)
        assert (None if found is None else release.values("visit", found)) == expected, guest
        try:
            found = await db.get(visit, guest, number=CURRENT)
        except NotReady:
            self.refusals.add(NotReady.code)
            return
        shown = None if found is None else release.values("visit", found)
        assert shown == (expected if release.has_current else None), guest
