"""A catalog in which rules of every kind stand, with records of two people, asked by whoever it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from graphql_api import (
    Catalog,
    Entity,
    HasMany,
    Id,
    Index,
    Ref,
    RefMany,
    Shards,
    SubId,
    Union,
    allow,
    group,
    owner,
    owner_through,
    signed_in,
)
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from tests.schema.asking import Asked, asked


class Deed(Entity, allow=[]):
    """Who owns a shelf."""

    shelf_id: Id[str]
    holder: SubId[str]


class Safe(Entity):
    """Whose a room is."""

    room: Id[str]
    holder: str


class Doc(Entity, shards=Shards(3), allow=[group("Admin"), owner("user_id")]):
    """Somebody's document."""

    doc_id: Id[str]
    user_id: str | None = None
    title: str
    folder: str = "f"
    more: list[str] | None = None
    pay: Annotated[str, allow(group("Payroll"))] = "-"
    note: Annotated[str, allow(group("Admin"), owner("user_id"))] = "-"
    room: Annotated[str, allow(owner_through("Safe", of="folder", owner="holder"))] = "-"

    by_user = Index(hash="user_id", sort="title", projection="KEYS_ONLY")
    by_title = Index(sort="title", allow=signed_in)
    by_folder = Index(hash="folder", sort="user_id")
    by_pay = Index(sort="pay", allow=group("Payroll", "Admin"))
    by_note = Index(sort="note")
    by_any = Union("by_title", "by_pay", allow=group("Payroll"))

    following = RefMany("Doc", by="more", description="What to read next.")


class Line(Entity, allow=[group("Admin"), owner_through("Deed", of="shelf_id", owner="holder")]):
    """What stands on a shelf."""

    shelf_id: Id[str]
    number: SubId[int]
    colour: str = "red"
    doc_id: str = "d1"

    by_colour = Index(hash="colour", sort="number")

    doc = Ref("Doc", by="doc_id", description="What it is.")


class Room(Entity, allow=owner_through("Safe", of="within", owner="holder")):
    """A room within another one."""

    room_id: Id[str]
    within: str | None = None


class Shelf(Entity):
    """A shelf that everybody may look at."""

    shelf_id: Id[str]
    doc_id: str = "d1"
    title: str = "-"

    by_title = Index(sort="title", name="shelfTitle")

    doc = Ref("Doc", by="doc_id", description="The one in the middle.")
    first = Ref("Doc", via="by_title", by="title", description="The first by its title.")
    lines = HasMany("Line", via="by_id", description="All that stands on it.")
    papers = HasMany("Doc", via="by_folder", by="title", description="Those of its folder.")


CATALOG = Catalog(Deed, Safe, Doc, Line, Room, Shelf)
RECORDS = (
    Deed(shelf_id="s1", holder="ann"),
    Deed(shelf_id="s2", holder="bob"),
    Safe(room="r1", holder="ann"),
    Safe(room="r2", holder="bob"),
    Safe(room="f", holder="bob"),
    *(
        Doc(
            doc_id=f"d{at}",
            user_id=("ann", "bob", None)[at % 3],
            title=f"t{at}",
            folder="fg"[at // 6 % 2],
            more=[f"d{at + 1}", f"d{at + 3}"],
            pay=f"p{at}",
            note=f"n{at}",
            room=f"r{at}",
        )
        for at in range(12)
    ),
    *(Line(shelf_id=f"s{1 + at % 2}", number=at, doc_id=f"d{at}") for at in range(6)),
    Room(room_id="attic", within="r1"),
    Room(room_id="cellar", within="r2"),
    Room(room_id="void"),
    Shelf(shelf_id="s1", doc_id="d0", title="f"),
    Shelf(shelf_id="s2", doc_id="d1", title="g"),
)
"""documents of ann are those whose number is divisible by three; the next one each is bob's, the one after nobody's"""

NOBODY = Caller("c-1")
ANN = Caller("c-1", subject="ann")
BOB = Caller("c-1", subject="bob")
CLERK = Caller("c-1", subject="eve", groups=frozenset({"Payroll"}))
ADMIN = Caller("c-1", subject="root", groups=frozenset({"Admin", "Staff"}))
ROBOT = Caller("c-1", groups=frozenset({"Admin"}))
"""has no name, and a group"""


@cache
def graph() -> Graph:
    """The schema, made once."""
    return Graph(CATALOG)


@asynccontextmanager
async def guarded(folder: Path, **more: Any) -> AsyncIterator[Asked]:
    """The catalog over its records; nothing has been counted yet."""
    async with asked(CATALOG, folder, *RECORDS, graph=graph(), **more) as ask:
        ask.forget()
        yield ask
