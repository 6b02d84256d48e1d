"""A catalog with rules of every kind, and random worlds that differ only in what one caller may not see."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Annotated

from graphql_api import (
    Catalog,
    Entity,
    ForeignKey,
    HasMany,
    Id,
    Index,
    Int32,
    Ref,
    RefMany,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Union,
    Unique,
    Version,
    allow,
    counter,
    group,
    owner,
    owner_through,
    signed_in,
)
from tests.schema.graphql_client import NOW

CALLER, OTHERS = "ann", ("bob", "root")
TITLES = ("a", "ab", "b", "ba", "z")
IDS = tuple(f"i{number}" for number in range(14))


class Share(Entity, allow=[]):
    """The members of a folder."""

    folder_id: Id[str]
    holder: SubId[str]


class Folder(Entity, allow=[group("Admin"), owner_through("Share", of="folder_id", owner="holder")]):
    """A folder of its members."""

    folder_id: Id[str]
    title: str

    by_title = Index(sort="title")
    pages = HasMany("Page", via="by_id", by="folder_id")


class Page(Entity, allow=[group("Admin"), owner_through("Share", of="folder_id", owner="holder")]):
    """A numbered page of a folder."""

    folder_id: Id[str]
    number: SubId[Int32] = counter("folder_id")
    text: str

    of_folder = ForeignKey("Folder", by="folder_id")


class Document(Entity, shards=Shards(3), allow=[group("Admin"), owner("author")]):
    """A document of its author."""

    document_id: Id[str]
    author: str | None = None
    title: str
    place: str = "-"
    code: Unique[str | None] = None
    previous_id: str | None = None
    related: list[str] | None = None
    grade: Annotated[str, allow(group("Admin"))] = "-"
    version: Version[Int32]

    by_author = Index(hash="author", sort="title")
    by_title = Index(sort=["title", "place"])
    by_place = Index(sort="place", projection="KEYS_ONLY")
    by_any = Union("by_title", "by_place_title")
    by_place_title = Index(sort=["place", "title"], name="placeTitle")
    of_previous = ForeignKey("Document", by="previous_id")
    previous = Ref("Document", by="previous_id")
    others = RefMany("Document", by="related")
    notes = HasMany("Note", via="by_document", by="document_id")


class Note(Entity, allow=[group("Admin"), owner("writer")]):
    """A numbered note on a document."""

    note_id: Id[str]
    document_id: str | None = None
    writer: str
    text: str
    number: Int32 = counter("document_id")

    by_document = Index(hash="document_id", sort="number")
    by_text = Index(sort="text", raw=True)
    of_document = ForeignKey("Document", by="document_id")
    document = Ref("Document", by="document_id")


class Card(Entity, allow=signed_in):
    """A card that all members see, in part."""

    card_id: Id[str]
    holder: str
    title: str
    salary: Annotated[str, allow(group("Payroll"))] = "0"
    memo: Annotated[str, allow(owner("holder"))] = ""
    version: Version[Int32]

    by_title = Index(sort="title")
    by_holder = Index(hash="holder", sort="title")
    by_memo = Index(sort="memo", allow=owner("holder"))


class Case(Entity, current="~current", allow=owner("holder")):
    """A history with a current record."""

    case_id: Id[str]
    step: SubId[str]
    holder: str
    text: str

    by_text = Index(sort="text", name="caseText")


class Session(Entity, allow=owner("user_id")):
    """A session, which expires."""

    session_id: Id[str]
    user_id: str
    until: Ttl[Timestamp]

    by_until = Index(sort="until")


CATALOG = Catalog(Share, Folder, Page, Document, Note, Card, Case, Session)


@dataclass(frozen=True)
class Worlds:
    """The records that both worlds share, and those of each world that the caller may not see."""

    shared: tuple[Entity, ...]
    hidden: tuple[tuple[Entity, ...], tuple[Entity, ...]]


def random_worlds(random: Random) -> Worlds:
    """Draw the records of two worlds."""
    ids = random.sample(IDS, len(IDS))
    own, rest = ids[: len(ids) // 2], ids[len(ids) // 2 :]
    cards = [
        {"card_id": id, "holder": random.choice((CALLER, *OTHERS)), "title": random.choice(TITLES), "version": 1}
        for id in random.sample(IDS, 6)
    ]
    memos = {id: random.choice(TITLES) for id in IDS}

    def with_hidden_values(card: dict[str, object]) -> Card:
        is_own = card["holder"] == CALLER
        memo = memos[str(card["card_id"])] if is_own else random.choice(TITLES)
        return Card.model_validate({**card, "salary": random.choice(TITLES), "memo": memo})

    hidden = [
        (*map(with_hidden_values, cards), *_records(random, random.sample(rest, random.randint(0, len(rest))), OTHERS))
        for _ in range(2)
    ]
    return Worlds(tuple(_records(random, own, (CALLER,))), (hidden[0], hidden[1]))


def _records(random: Random, ids: list[str], owners: tuple[str, ...]) -> Iterator[Entity]:
    """Yield records of the owners, in an order in which references exist."""
    documents: list[str] = []
    for id in ids:
        owner_name = random.choice(owners)
        if random.random() < 0.7:
            references = {"previous_id": random.choice(documents)} if documents and random.random() < 0.3 else {}
            is_other = owners != (CALLER,)
            yield Document.model_validate(
                {
                    "document_id": id,
                    "author": random.choice((owner_name, None)) if is_other else owner_name,
                    "title": random.choice(TITLES),
                    "place": random.choice(TITLES),
                    "code": f"c{id}" if random.random() < 0.3 else None,
                    "related": random.sample(IDS, 2),
                    "grade": "-",
                    "version": 1,
                    **references,
                }
            )
            documents.append(id)
        if random.random() < 0.5:
            document = random.choice(documents) if documents else None
            yield Note.model_validate(
                {
                    "note_id": id,
                    "document_id": document,
                    "writer": owner_name,
                    "text": random.choice(TITLES),
                    "number": len(documents) + IDS.index(id),
                }
            )
        if random.random() < 0.5:
            yield Share(folder_id=id, holder=owner_name)
            yield Folder(folder_id=id, title=random.choice(TITLES))
            for number in range(random.randint(0, 3)):
                yield Page(folder_id=id, number=number + 1, text=random.choice(TITLES))
        if random.random() < 0.4:
            for step in random.sample(TITLES, random.randint(1, 3)):
                yield Case(case_id=id, step=step, holder=owner_name, text=random.choice(TITLES))
        if random.random() < 0.4:
            until = int(NOW) + random.choice((-10, 1_000, 2_000))
            # An expired record of the caller's own is no hidden record.
            yield Session(
                session_id=id, user_id=owner_name, until=max(until, int(NOW) + 1) if owner_name == CALLER else until
            )
