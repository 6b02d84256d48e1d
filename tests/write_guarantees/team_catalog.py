"""Teams and members: two entities with all write-related declarations, and their rules for the reference model."""

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
from tests.write_guarantees.reference_model import EntityRules

SINCE = (1_000, 2_000)
"""starts of the later shard generations"""

SHARDS = (
    Shards(2),
    Shards(2).then(5, since=SINCE[0]),
    Shards(2).then(5, since=SINCE[0]).then(16, since=SINCE[1]),
)


class Team(Entity):
    """A team of members."""

    team_id: Id[str]
    name: Unique[str]
    version: Version[Int32]

    by_name = Index(sort="name")


class Base(Entity, name="member"):
    """A member of a team."""

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


def _with_shards(shards: Shards) -> type[Base]:
    body = {"__module__": __name__, "__doc__": Base.__doc__}
    return new_class("Member", (Base,), {"shards": shards, "name": "member"}, lambda names: names.update(body))


MEMBERS = [_with_shards(shards) for shards in SHARDS]
CATALOGS = [Catalog(Team, member) for member in MEMBERS]
LATEST_CATALOG = CATALOGS[-1]

INDEXES: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "by_name": ("team", None, ("name", "team_id")),
    "by_nick": ("member", "team_id", ("nick_canonical", "num", "member_id")),
    "by_email": ("member", None, ("email", "member_id")),
    "by_num": ("member", "team_id", ("num", "member_id")),
    "by_updated": ("member", None, ("updated", "member_id")),
}
"""entity, hash property and sort properties of each index"""

ENTITY_RULES = {
    "team": EntityRules("team", "team_id", {"name": None, "version": 0}, unique=(("name",),)),
    "member": EntityRules(
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
        references=(("team_id", "team"), ("mentor_id", "member")),
        immutable=("code",),
        counter=("num", "team_id"),
    ),
}


def to_model(record: Entity) -> dict[str, Any]:
    """Returns the model record of an entity."""
    return record.model_dump(exclude={"nick_canonical"})
