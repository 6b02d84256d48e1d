"""Projections for tests: accounts, statements with their current record, and one that stops at dead letters."""

from typing import Literal

from graphql_api import (
    Catalog,
    Delete,
    Entity,
    Event,
    Graph,
    Id,
    Index,
    Int32,
    Set,
    SubId,
    Unique,
    Update,
    Version,
    group,
    projection,
)


class Account(Entity):
    """An account, as its events leave it."""

    account_id: Id[str]
    owner: str
    balance: int = 0
    iban: Unique[str] | None = None
    version: Version[Int32] = 1
    """Number of writes since the account was created."""

    by_owner = Index(hash="owner", sort="balance")


class Statement(Entity, current="~current"):
    """The states of an account, by time."""

    account_id: Id[str]
    at: SubId[str]
    owner: str | None = None
    balance: int


class Branch(Entity):
    """A branch of the bank."""

    branch_id: Id[str]


class Opened(Event):
    """An account was opened."""

    type: Literal["Opened"] = "Opened"
    account_id: str
    owner: str
    at: str
    iban: str | None = None


class Moved(Event):
    """Money was moved. The event carries the new balance, and not the owner."""

    type: Literal["Moved"] = "Moved"
    account_id: str
    balance: int
    at: str


class Closed(Event):
    """An account was closed."""

    type: Literal["Closed"] = "Closed"
    account_id: str


class Copied(Event):
    """An account was copied many times."""

    type: Literal["Copied"] = "Copied"
    account_id: str
    copies: int


@projection(Account, source="bank")
def accounts(event: Opened | Moved | Closed | Copied, seq: int) -> list[Set | Update | Delete]:
    """The latest state of each account."""
    match event:
        case Opened():
            return [Set(Account(account_id=event.account_id, owner=event.owner, iban=event.iban))]
        case Moved():
            if event.balance == 13:
                raise ValueError(f"event {seq} has an unlucky balance")
            return [Update(Account, event.account_id, balance=event.balance)]
        case Closed():
            return [Delete(Account, event.account_id)]
        case Copied():
            ids = [f"{event.account_id}-{number}" for number in range(event.copies)]
            return [Set(Account(account_id=id, owner="copy")) for id in ids]


@projection(Statement, source="bank")
def statements(event: Opened | Moved) -> list[Set | Update]:
    """Every state of each account, and the current one."""
    if isinstance(event, Opened):
        return [Set(Statement(account_id=event.account_id, at=event.at, owner=event.owner, balance=0))]
    return [Update(Statement, event.account_id, at=event.at, balance=event.balance)]


@projection(Account, source="careful", first_seq=0, on_dead_letter="stop")
def careful_accounts(event: Opened | Moved) -> list[Set | Update]:
    """The latest state of each account; a stream stops at an event that cannot be applied."""
    if isinstance(event, Opened):
        return [Set(Account(account_id=event.account_id, owner=event.owner))]
    return [Update(Account, event.account_id, balance=event.balance)]


CATALOG = Catalog(Account, Statement, Branch)
GRAPH = Graph(CATALOG, projections=[accounts, statements, careful_accounts], event_rules={"bank": group("Feed")})
