"""Mistakes that type checkers find. A comment begins with `plain` if mypy finds the mistake without stubs."""

import strawberry
from people import Member, Order, Team, Ticket
from service import graph

from graphql_api import Create, Database, Delete, Entity, Id, Index, Put, Update, group, owner_through


async def searches(db: Database) -> None:
    """Mistakes in searches."""
    await db.search(Member.by_name, prefx="jo")  # Unexpected keyword argument "prefx" for "search" of "Database"; did you mean "prefix"?
    await db.search(Member.by_team, team_id=7)  # Argument "team_id" to "search" of "Database" has incompatible type "int"; expected "str"
    await db.search(Order.by_member, member_id="a", prefix="x")  # Unexpected keyword argument "prefix" for "search" of "Database"
    await db.search(Team.by_team, team_id="red")  # plain: "type[Team]" has no attribute "by_team"
    await db.search(Team.by_created, team_id="red")  # Unexpected keyword argument "team_id" for "search" of "Database"
    page = await db.search(Member.by_name, prefix="jo", limit="20")  # plain: Argument "limit" to "search" of "Database" has incompatible type "str"; expected "int | None"
    print(page.items[0].surname)  # plain: "Member" has no attribute "surname"
    await db.search(Member.by_name, next_token=page)  # plain: Argument "next_token" to "search" of "Database" has incompatible type "Page[Member]"; expected "str | None"
    tokens: list[str] = [page.next_token]  # plain: List item 0 has incompatible type "str | None"; expected "str"
    teams: list[Team] = [*page.items]  # plain: List item 0 has incompatible type "Sequence[Member]"; expected "Team"
    await db.search(Member.by_name, prefix="jo", order_by="surname")  # Argument "order_by" to "search" of "Database" has incompatible type "Literal['surname']"; expected
    await db.search(Member.by_name, select=["surname"])  # List item 0 has incompatible type "Literal['surname']"; expected
    await db.search(Member.by_name, filter={"surname": "Lee"})  # Dict entry 0 has incompatible type "Literal['surname']": "str"; expected
    await db.count(Member.by_team, team="red")  # Unexpected keyword argument "team" for "count" of "Database"
    print(tokens, teams)


async def reads(db: Database) -> None:
    """Mistakes in reads of one record."""
    await db.get(Member, 7)  # Argument 2 to "get" of "Database" has incompatible type "int"; expected "str | RecordKey | None"
    await db.get_by(Member, mail="ann@example.com")  # Unexpected keyword argument "mail" for "get_by" of "Database"
    member = await db.get(Member, "ann")
    print(member.first_name)  # plain: Item "None" of "Member | None" has no attribute "first_name"


async def writes(db: Database) -> None:
    """Mistakes in writes."""
    Member(member_id="ann", team_id="red", first_name="Ann")  # plain: Missing named argument "last_name" for "Member"
    Team(name=7)  # plain: Argument "name" to "Team" has incompatible type "int"; expected "str"
    Member(member_id="a", team_id="r", first_name="A", last_name="B", first_canonical="a")  # plain, mypy: Unexpected keyword argument "first_canonical" for "Member"
    await db.create(Ticket, ticket_id=7)  # No overload variant of "create" of "Database" matches argument types "type[Ticket]", "int"
    await db.update(Member, "ann", born="2000-01-02")  # Argument "born" to "update" of "Database" has incompatible type "str"; expected "date | None"
    await db.update(Member, "ann", last_nam="Lee")  # Unexpected keyword argument "last_nam" for "update" of "Database"; did you mean "last_name"?
    await db.put(Member)  # plain: Value of type variable "E" of "put" of "Database" cannot be "type[Member]"
    Update(Order, "o-1", step="v2", status="sent")  # Argument "status" to "Update" has incompatible type "str"; expected "Status"
    await db.write([Create(Ticket, ticket_id=8, txt="z")])  # No overload variant of "Create" matches argument types "type[Ticket]", "int", "str"
    await db.delete(Order, "o-1", stp="v1")  # Unexpected keyword argument "stp" for "delete" of "Database"; did you mean "step"?
    Delete(Ticket, None, ticket="7")  # Unexpected keyword argument "ticket" for "Delete"
    await db.write([Put(Member)])  # plain: Value of type variable "E_co" of "Put" cannot be "type[Member]"


class Secret(Entity):
    """Mistakes in rules."""

    secret_id: Id[str]

    by_owner = Index(sort="secret_id", allow="Admin")  # plain: Argument "allow" to "Index" has incompatible type "str"; expected
    by_group = Index(sort="secret_id", allow=group)  # plain: Argument "allow" to "Index" has incompatible type
    by_team = Index(sort="secret_id", allow=owner_through("Member", of="secret_id"))  # plain: Missing named argument "owner" for "OwnerThrough"


@graph.extend(Team)  # plain: Argument 1 has incompatible type "Callable[[Member], str]"; expected "Callable[[Team], str]"
def initials(member: strawberry.Parent[Member]) -> str:
    """Return the initials."""
    return member.first_name[0]
