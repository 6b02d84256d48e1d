"""The catalog of the servers: the examples `users` and `issues`, and an entity with a unique property."""

from graphql_api import Catalog, Entity, Id, Index, Int32, Shards, Unique, Version
from graphql_api.examples.issues import Issue, Project, Tenant
from graphql_api.examples.users import Email, User


class Account(Entity, shards=Shards(4)):
    """An account with a unique address."""

    account_id: Id[str]
    """Unique id of the account."""
    email: Unique[str]
    """The unique address."""
    note: str | None = None
    """Any text."""
    version: Version[Int32]
    """The number of writes of the account."""

    by_email = Index(sort="email")


CATALOG = Catalog(User, Email, Tenant, Project, Issue, Account)
