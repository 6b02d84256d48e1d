"""What the sample application does with its catalog, as a user would write it."""

import asyncio
from datetime import date
from typing import assert_type

import strawberry
from people import Member, Order, Status, Team, Ticket, catalog

from graphql_api import Connection, Create, Database, Delete, Graph, Page, Put, Update, asgi
from graphql_api.testing import GraphQLClient, in_memory

graph = Graph(catalog)


@graph.extend(Member)
def greeting(member: strawberry.Parent[Member], formal: bool = False) -> str:
    """A greeting for the member."""
    return f"Dear {member.full_name}" if formal else f"Hi {member.first_name}"


async def newest(info: strawberry.Info, limit: int = 20) -> Connection:
    """Return the newest members."""
    database: Database = info.context.database
    return Connection(await database.search(Member.by_created, reverse=True, limit=limit))


@graph.query
@strawberry.type
class Queries:
    """Queries of the application."""

    newest: Connection = strawberry.field(resolver=newest, graphql_type=graph.page_type(Member))


app = asgi(graph)


async def names(db: Database, prefix: str) -> list[str]:
    """Return the names of all members that begin with a text, by either name."""
    found: list[str] = []
    token: str | None = None
    while True:
        page = await db.search(Member.by_name, prefix=prefix, limit=100, next_token=token)
        found += [member.full_name for member in page.items]
        if (token := page.next_token) is None:
            return found


async def read(db: Database) -> None:
    """Read records, pages and counts."""
    assert_type(await db.search(Member.by_first_name, eq="jo", created={"from": 10}), Page[Member])
    assert_type(await db.search(Team.by_created, from_=10), Page[Team])
    assert_type(await db.search(Member.by_team, team_id="red", num=7, select=["first_name"]), Page[Member])
    await db.search(Member.by_team, team_id_in=["red", "blue"], filter={"email": {"exists": True}, "or": []})
    await db.search(Member.by_born, born=date(2000, 1, 2), first=5)
    await db.search(Member.by_name, eq="jo", order_by="last_name")
    await db.search(Order.by_member, member_id="ann", eq=Status.sent, history="CURRENT")
    await db.search(Order.by_id, order_id="o-1", prefix="v")
    assert (await db.count(Member.by_team, team_id="red", at_most=50)).value >= 0
    member = await db.get(Member, "ann")
    assert_type(member, Member | None)
    assert_type(await db.get(Order, "o-1", step="v2", consistent=False), Order | None)
    assert_type(await db.get(Ticket, 7), Ticket | None)
    assert_type(await db.get_many(Member, ["ann", "bob"]), list[Member | None])
    assert_type(await db.get_by(Member, email="ann@example.com"), Member | None)
    if member is not None:
        assert_type(member.born, date | None)
        assert_type(member.created, int)
        assert_type(member.first_canonical, str)


async def write(db: Database) -> None:
    """Write records, one by one and together."""
    team = await db.create(Team(name="Red"))
    ann = Member(member_id="ann", team_id=team.team_id, first_name="Ann", last_name="Lee")
    assert_type(await db.create(ann, idempotency_key="1"), Member)
    bob = await db.create(Member, member_id="bob", team_id=team.team_id, first_name="Bob", last_name="Ray")
    assert_type(bob, Member)
    await db.put(ann)
    assert_type(await db.update(Member, "bob", email=None, born=date(2000, 1, 2)), Member)
    await db.create(Order, order_id="o-1", step="v1", member_id="ann", total=3)
    await db.update(Order, "o-1", step="v2", status=Status.sent)
    await db.create(Ticket, ticket_id=7, text="x", idempotency_key="2")
    await db.update(Ticket, 7, text="y", expected_version=1)
    done = await db.write(
        [Create(Ticket, ticket_id=8, text="z"), Update(Ticket, 7, text="w"), Put(Ticket(ticket_id=9, text="v"))]
    )
    assert_type(done, list[Ticket | None])
    await db.write([Create(Team, name="Blue"), Delete(Member, "bob")])
    await db.delete(Order, "o-1", step="v1")


async def main() -> str:
    """Run everything on a database in memory, and return what a client sees."""
    async with in_memory(catalog) as db:
        await write(db)
        await read(db)
        client = GraphQLClient(graph, db, subject="ann", groups=["Admin"])
        await client.query("{ newest { items { firstName greeting(formal: true) } } }")
        return ", ".join(await names(db, "A"))


if __name__ == "__main__":
    print(asyncio.run(main()))
