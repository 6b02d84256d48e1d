"""A catalog with access rules of every kind, records of two owners, and callers to test them with."""

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
from tests.schema.graphql_client import GraphQLClient, open_client


class Deed(Entity, allow=[]):
    """Names an owner of a shelf."""

    shelf_id: Id[str]
    holder: SubId[str]


class Safe(Entity):
    """Names the owner of a room."""

    room: Id[str]
    holder: str


class Doc(Entity, shards=Shards(3), allow=[group("Admin"), owner("user_id")]):
    """A document with an optional owner."""

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

    following = RefMany("Doc", by="more", description="Documents to read next.")


class Line(Entity, allow=[group("Admin"), owner_through("Deed", of="shelf_id", owner="holder")]):
    """An item of a shelf, owned by the owners of the shelf."""

    shelf_id: Id[str]
    number: SubId[int]
    colour: str = "red"
    doc_id: str = "d1"

    by_colour = Index(hash="colour", sort="number")

    doc = Ref("Doc", by="doc_id", description="The document of this line.")


class Room(Entity, allow=owner_through("Safe", of="within", owner="holder")):
    """A room inside another room."""

    room_id: Id[str]
    within: str | None = None


class Shelf(Entity):
    """A shelf without access rules."""

    shelf_id: Id[str]
    doc_id: str = "d1"
    title: str = "-"

    by_title = Index(sort="title", name="shelfTitle")

    doc = Ref("Doc", by="doc_id", description="The document of this shelf.")
    first = Ref("Doc", via="by_title", by="title", description="The first document with this title.")
    lines = HasMany("Line", via="by_id", description="The lines of this shelf.")
    papers = HasMany("Doc", via="by_folder", by="title", description="The documents of its folder.")


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
"""documents d0, d3, d6 and d9 belong to ann, d1, d4, d7 and d10 to bob; the others have no owner"""

ANONYMOUS = Caller("c-1")
ANN = Caller("c-1", subject="ann")
BOB = Caller("c-1", subject="bob")
CLERK = Caller("c-1", subject="eve", groups=frozenset({"Payroll"}))
ADMIN = Caller("c-1", subject="root", groups=frozenset({"Admin", "Staff"}))
ROBOT = Caller("c-1", groups=frozenset({"Admin"}))
"""belongs to a group, but has no subject"""


@cache
def graph() -> Graph:
    """Return the cached graph."""
    return Graph(CATALOG)


@asynccontextmanager
async def guarded_client(folder: Path, **executor_options: Any) -> AsyncIterator[GraphQLClient]:
    """Open a client for the catalog with its records and zero call counts."""
    async with open_client(CATALOG, folder, *RECORDS, graph=graph(), **executor_options) as client:
        client.reset_counts()
        yield client
