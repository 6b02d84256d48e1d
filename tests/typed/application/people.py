"""The catalog of a sample application: teams, their members, and the orders that members place."""

from datetime import date
from enum import Enum

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    HasMany,
    Id,
    Index,
    Int32,
    Lookup,
    Ref,
    Shards,
    SubId,
    Timestamp,
    Union,
    Unique,
    Updated,
    Version,
    canonical,
    counter,
    derived,
    desc,
    generated,
    group,
    owner,
    server_set,
)


class Status(Enum):
    """Status of an order."""

    placed = "placed"
    sent = "sent"


class Stamped(Entity):
    """What all records of the application have."""

    created: Created[Timestamp] = server_set()
    updated: Updated[Timestamp] = server_set()

    by_created = Index(sort="created")


class Team(Stamped, write=group("Admin")):
    """A team."""

    team_id: Id[str] = generated()
    name: Unique[str]

    members = HasMany("Member", via="by_team")


class Member(Stamped, shards=Shards(1).then(16, since="2026-01-01"), allow=[group("Admin"), owner("member_id")]):
    """A member of a team."""

    member_id: Id[str]
    team_id: str
    first_name: str
    last_name: str
    born: date | None = None
    email: Unique[str | None] = None
    num: Int32 = counter("team_id")
    first_canonical: str = derived(canonical, "first_name")
    last_canonical: str = derived(canonical, "last_name")

    by_first_name = Index(sort=["first_canonical", "created"])
    by_last_name = Index(sort=["last_canonical", "created"])
    by_name = Union("by_first_name", "by_last_name")
    by_team = Index(hash="team_id", sort=desc("num"))
    by_born = Lookup("born")

    of_team = ForeignKey("Team", by="team_id")
    team = Ref("Team", by="team_id")

    @property
    def full_name(self) -> str:
        """First and last name."""
        return f"{self.first_name} {self.last_name}"


class Order(Entity, current="~current"):
    """A version of an order."""

    order_id: Id[str]
    step: SubId[str]
    member_id: str
    status: Status = Status.placed
    total: float

    by_member = Index(hash="member_id", sort=["status", "total"])


class Ticket(Entity):
    """A ticket with a version."""

    ticket_id: Id[int]
    text: str
    version: Version[Int32] = server_set()


catalog = Catalog(Team, Member, Order, Ticket)
