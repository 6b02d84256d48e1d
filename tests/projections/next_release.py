"""The release after `account_projections`: a replay builds its accounts under a new name, by another function."""

from graphql_api import (
    Catalog,
    Delete,
    Entity,
    Graph,
    Id,
    Index,
    Int32,
    Set,
    Unique,
    Update,
    Version,
    group,
    projection,
)
from tests.projections import account_projections
from tests.projections.account_projections import Branch, Closed, Copied, Moved, Opened, Statement, statements

AccountEvent = Opened | Moved | Closed | Copied


class Account(Entity, name="account2"):
    """An account, with its balance in cents."""

    account_id: Id[str]
    owner: str
    balance: int = 0
    iban: Unique[str] | None = None
    version: Version[Int32] = 1
    """Number of writes since the account was created."""

    by_owner = Index(hash="owner", sort="balance", name="owner2")


class FormerAccount(account_projections.Account, name="account"):
    """An account as the servers of the release before answer it."""


@projection(FormerAccount, source="bank", name="accounts")
def former_accounts(event: AccountEvent) -> list[Set | Update | Delete]:
    """The read model of the release before, which stays current until its last server is gone."""
    return _operations(FormerAccount, event, factor=1)


@projection(Account, source="bank", name="accounts_2")
def accounts(event: AccountEvent) -> list[Set | Update | Delete]:
    """The latest state of each account."""
    return _operations(Account, event, factor=100)


def _operations(model: type[Account | FormerAccount], event: AccountEvent, factor: int) -> list[Set | Update | Delete]:
    match event:
        case Opened():
            return [Set(model(account_id=event.account_id, owner=event.owner, iban=event.iban))]
        case Moved():
            if event.balance == 13:
                raise ValueError("the event has an unlucky balance")
            return [Update(model, event.account_id, balance=factor * event.balance)]
        case Closed():
            return [Delete(model, event.account_id)]
        case Copied():
            ids = [f"{event.account_id}-{number}" for number in range(event.copies)]
            return [Set(model(account_id=id, owner="copy")) for id in ids]


CATALOG = Catalog(Account, FormerAccount, Statement, Branch)
GRAPH = Graph(CATALOG, projections=[former_accounts, accounts, statements], event_rules={"bank": group("Feed")})
