"""Teams and their members: two entities with everything that may be declared of writes, and the same in plain words."""

from types import new_class
from typing import Any

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Immutable,
    Index,
    Int32,
    Shards,
    Timestamp,
    Unique,
    UniqueTogether,
    Updated,
    Version,
    canonical,
    counter,
    derived,
)
from tests.writes.model import Kind

SINCE = (1_000, 2_000)
"""when the later generations of shards begin"""

SHARDS = (
    Shards(2),
    Shards(2).then(5, since=SINCE[0]),
    Shards(2).then(5, since=SINCE[0]).then(16, since=SINCE[1]),
)


class Team(Entity):
    """What members belong to."""

    team_id: Id[str]
    name: Unique[str]
    version: Version[Int32]

    by_name = Index(sort="name")


class Base(Entity, name="member"):
    """Somebody who belongs to a team."""

    member_id: Id[str]
    created: Created[Timestamp]
    updated: Updated[Timestamp]
    version: Version[Int32]
    team_id: str
    num: Int32 = counter("team_id")
    nick: str | None = None
    email: Unique[str] | None = None
    mentor_id: str | None = None
    code: Immutable[str] = "c"
    nick_canonical: str | None = derived(canonical, "nick")

    unique_nick = UniqueTogether("team_id", "nick_canonical")
    of_team = ForeignKey("Team", by="team_id")
    of_mentor = ForeignKey("Member", by="mentor_id")

    by_nick = Index(hash="team_id", sort=["nick_canonical", "num"], sharded=False)
    by_email = Index(sort="email")
    by_num = Index(hash="team_id", sort="num")
    by_updated = Index(sort="updated", projection="KEYS_ONLY")


def _grown(shards: Shards) -> type[Base]:
    body = {"__module__": __name__, "__doc__": Base.__doc__}
    return new_class("Member", (Base,), {"shards": shards, "name": "member"}, lambda names: names.update(body))


MEMBERS = [_grown(shards) for shards in SHARDS]
CATALOGS = [Catalog(Team, member) for member in MEMBERS]
GROWN = CATALOGS[-1]

INDEXES: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "by_name": ("team", None, ("name", "team_id")),
    "by_nick": ("member", "team_id", ("nick_canonical", "num", "member_id")),
    "by_email": ("member", None, ("email", "member_id")),
    "by_num": ("member", "team_id", ("num", "member_id")),
    "by_updated": ("member", None, ("updated", "member_id")),
}
"""of which kind they are, what they are hashed by, and what orders them"""

KINDS = {
    "team": Kind("team", "team_id", {"name": None, "version": 0}, unique=(("name",),)),
    "member": Kind(
        "member",
        "member_id",
        {
            "created": 0,
            "updated": 0,
            "version": 0,
            "team_id": None,
            "num": None,
            "nick": None,
            "email": None,
            "mentor_id": None,
            "code": "c",
        },
        unique=(("email",), ("team_id", "nick")),
        refers=(("team_id", "team"), ("mentor_id", "member")),
        immutable=("code",),
        counter=("num", "team_id"),
    ),
}


def told_by(record: Entity) -> dict[str, Any]:
    """A record in the words of the model."""
    return record.model_dump(exclude={"nick_canonical"})
