"""The release after `account_projections`, with a second version of its accounts that a replay builds."""

from graphql_api import Catalog, Delete, Graph, Index, Set, Update, group, projection
from tests.projections import account_projections as before
from tests.projections.account_projections import Branch, Closed, Copied, Moved, Opened, Statement, statements

AccountEvent = Opened | Moved | Closed | Copied


class Account(before.Account, version=2):
    """An account, with its balance in cents."""

    by_owner = Index(hash="owner", sort="balance")


def _operations(event: AccountEvent, factor: int) -> list[Set | Update | Delete]:
    match event:
        case Opened():
            return [Set(Account(account_id=event.account_id, owner=event.owner, iban=event.iban))]
        case Moved():
            if event.balance == 13:
                raise ValueError("the event has an unlucky balance")
            return [Update(Account, event.account_id, balance=factor * event.balance)]
        case Closed():
            return [Delete(Account, event.account_id)]
        case Copied():
            ids = [f"{event.account_id}-{number}" for number in range(event.copies)]
            return [Set(Account(account_id=id, owner="copy")) for id in ids]


def in_units(event: AccountEvent) -> list[Set | Update | Delete]:
    """What the release before makes of an event."""
    return _operations(event, 1)


@projection(Account, source="bank", previous=in_units)
def accounts(event: AccountEvent) -> list[Set | Update | Delete]:
    """The latest state of each account, in cents."""
    return _operations(event, 100)


@projection(Account, source="bank", name="accounts")
def strict_accounts(event: AccountEvent) -> list[Set | Update | Delete]:
    """The same, without the function of the version before."""
    return _operations(event, 100)


CATALOG = Catalog(Account, Statement, Branch)
GRAPH = Graph(CATALOG, projections=[accounts, statements], event_rules={"bank": group("Feed")})
STRICT = Graph(CATALOG, projections=[strict_accounts, statements])
