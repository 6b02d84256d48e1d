"""What writes should store while catalogs change, what searches should find, and which refusals are right."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from tests.evolution.changing_catalogs import CURRENT, GUESTS, Query, RecordId, Release, Values

Stored = Mapping[RecordId, Values]
"""all records at some moment, without current records: these follow from the entries"""

MODELS = {"user": "User", "visit": "Visit", "team": "Team"}


@dataclass
class Operation:
    """A write of a client, and whether the engine has applied it."""

    kind: str
    id: RecordId
    values: Values
    since: float = 0.0
    """when the client sent it"""
    is_applied: bool = False
    is_in_doubt: bool = False
    """one of its requests got no reply, and may be applied later although others were refused"""
    refusal: str | None = None
    """the error by which the client knows that nothing is written"""

    @classmethod
    def of(cls, kind: str, id: RecordId, values: Values, release: Release, since: float = 0.0) -> "Operation":
        """A write by a server of a release. Updates leave some properties out."""
        if kind == "delete":
            return cls(kind, id, {}, since)
        names = [*release.properties_of(id[0])]
        if kind == "update":  # all but the creation time, and the first or last of the others
            names = names[1:2] if id[0] == "visit" else names[2:] or names[1:]
        return cls(kind, id, {name: values[name] for name in names}, since)

    async def send(self, db: Database, release: Release) -> None:
        """Send the write to a server."""
        entity, key = self.id[0], self.id[1]
        model: Any = db.catalog.entity(MODELS[entity]).model
        values = {release.python_name(name): value for name, value in self.values.items()}
        sub_id: dict[str, Any] = {"number": self.id[2]} if entity == "visit" else {}
        match self.kind:
            case "create":
                await db.create(model, **_ids(self.id), **values)
            case "put":
                server_set = {"version": 1} if release.has_version and entity == "user" else {}
                await db.put(model(**_ids(self.id), **values, **server_set))
            case "update":
                await db.update(model, key, **sub_id, **values)
            case _:
                await db.delete(model, key, **sub_id)

    def outcome(self, stored: Stored) -> Values | None:
        """What is stored after the operation."""
        old = stored.get(self.id)
        match self.kind:
            case "delete":
                return None
            case "create":
                return self.values
            case "update" if old is None and self.id[0] == "visit":
                old = last_entry(stored, self.id[1])
        return {**(old or {}), **self.values}


def _ids(id: RecordId) -> dict[str, str]:
    names = {"user": ("user_id",), "visit": ("guest_id", "number"), "team": ("team_id",)}[id[0]]
    return dict(zip(names, id[1:], strict=True))


def id_of(entity: str, record: Any) -> RecordId:
    """The id of a record."""
    return ("user", record.user_id) if entity == "user" else ("visit", record.guest_id, record.number)


def last_entry(stored: Stored, guest: str) -> Values | None:
    """The last entry of a history."""
    numbers = [id[2] for id in stored if id[:2] == ("visit", guest)]
    return stored["visit", guest, max(numbers)] if numbers else None


def current_records(stored: Stored) -> dict[RecordId, Values]:
    """The current records of all histories."""
    found = {("visit", guest, CURRENT): last_entry(stored, guest) for guest in GUESTS}
    return {id: values for id, values in found.items() if values is not None}


def creation_of(stored: Stored, id: RecordId) -> int | None:
    """The creation time that a further write of a record should have, if it or its history is stored."""
    values = last_entry(stored, id[1]) if id[0] == "visit" else stored.get(id)
    return None if values is None else values["created"]


def found_by(query: Query, release: Release, stored: Stored, *, shows_current: bool) -> dict[RecordId, Values]:
    """What a search finds. `shows_current`: current records are ready."""
    records = {id: values for id, values in stored.items() if id[0] == query.entity}
    if query.entity == "visit":
        entries = {} if query.scope == "CURRENT" else records
        is_shown = query.scope == "CURRENT" or (query.scope == "ALL" and shows_current)
        records = {**entries, **(current_records(stored) if is_shown else {})}
    shown = {id: release.shown(query.entity, values) or {} for id, values in records.items()}
    return {id: values for id, values in shown.items() if query.matches(id, values)}


def check_page(
    query: Query, release: Release, items: Sequence[Any], possible: Sequence[Stored], shows_current: Sequence[bool]
) -> None:
    """Compare a page with what was stored at some moments: each record as at one of them, in order, and once."""
    what = f"{query.index} {dict(query.arguments)} by {release}"
    found = {id_of(query.entity, record): release.values(query.entity, record) for record in items}
    assert len(found) == len(items), f"{what}: a record twice in {items}"
    positions = [query.order(id, values) for id, values in found.items()]
    assert positions == sorted(positions), f"{what}: {positions} are not in order"
    expected = [
        found_by(query, release, stored, shows_current=is_shown) for stored in possible for is_shown in shows_current
    ]
    for id in {*found, *(id for one in expected for id in one)}:
        options = [one.get(id) for one in expected]
        assert found.get(id) in options, f"{what}: {id} is {found.get(id)} instead of one of {options}"


def check_refusal(
    problem: ShardQLError, operation: Operation, possible: Sequence[Stored], removed_teams: Collection[str] = ()
) -> None:
    """Check that the records explain a refusal that cannot be retried."""
    is_right = _explains(problem.code, operation, possible, removed_teams)
    assert is_right, f"{operation} is refused: {problem.code}: {problem}; {possible}"


def _explains(code: str, operation: Operation, possible: Sequence[Stored], removed_teams: Collection[str]) -> bool:
    id, kind, values = operation.id, operation.kind, operation.values
    bases = [
        one for stored in possible for one in (stored.get(id), last_entry(stored, id[1]) if id[0] == "visit" else None)
    ]
    old = [one for one in bases if one is not None]
    match code:
        case "ALREADY_EXISTS":
            return kind == "create" and any(id in stored for stored in possible)
        case "RECORD_NOT_FOUND":
            return kind == "update" and any(creation_of(stored, id) is None for stored in possible)
        case "CREATION_CHANGED":
            return any(one["created"] != values.get("created", one["created"]) for one in old) or (
                id[0] == "visit" and len({one["created"] for one in old}) > 1
            )
        case "NOT_UNIQUE":
            name = "email" if id[0] == "user" else "place"
            others = {one.get(name) for stored in possible for key, one in stored.items() if key != id} - {None}
            own = {values.get(name), *(one.get(name) for one in old)}
            if id[0] == "visit":  # Without its last entry, another one becomes current.
                own |= {one.get(name) for stored in possible for key, one in stored.items() if key[:2] == id[:2]}
            return bool(own & others)
        case "FOREIGN_KEY":
            teams = {values.get("team_id"), *(one.get("team_id") for one in old)} - {None}
            missing = any(("team", team) not in stored for stored in possible for team in teams)
            return missing or bool(teams & {*removed_teams})
    return False


def check_unique(stored: Stored, states: Mapping[str, str]) -> None:
    """Check that every constraint that is ready holds."""
    if states.get("user unique email") == "ready":
        emails = [values["email"] for id, values in stored.items() if id[0] == "user" and values.get("email")]
        assert len({*emails}) == len(emails), "the unique constraint is ready and violated"
    if states.get("user foreign key ofTeam") == "ready":
        used = {values["team_id"] for id, values in stored.items() if id[0] == "user" and values.get("team_id")}
        assert all(("team", team) in stored for team in used), "the foreign key is ready and violated"
    current = states.get("visit current record current", "absent")
    if states.get("visit unique place") == "ready" and current in {"ready", "absent", "announced"}:
        entries = {id: values for id, values in stored.items() if id[0] == "visit"}
        owners = current_records(stored) if current == "ready" else entries
        places = [values["place"] for values in owners.values() if values.get("place")]
        assert len({*places}) == len(places), f"the unique constraint of visits is ready and violated: {owners}"
