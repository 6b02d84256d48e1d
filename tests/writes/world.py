"""What the servers of these tests serve: the examples `users` and `issues`, and an entity with a unique property."""

from graphql_api import Catalog, Entity, Id, Index, Int32, Shards, Unique, Version
from graphql_api.examples.issues import Issue, Project, Tenant
from graphql_api.examples.users import Email, User


class Account(Entity, shards=Shards(4)):
    """Somebody who signs in by an address that nobody else has."""

    account_id: Id[str]
    """Unique id of the account."""
    email: Unique[str]
    """The address."""
    note: str | None = None
    """Anything."""
    version: Version[Int32]
    """How often the account was written."""

    by_email = Index(sort="email")


CATALOG = Catalog(User, Email, Tenant, Project, Issue, Account)
