"""The catalogs that are measured. This code and release 0.1.0 both import them."""

import os
import types

from graphql_api import Catalog, Created, Entity, HasMany, Id, Index, Int32, Ref, Shards, SubId, Timestamp, Unique

SHARDS = int(os.environ.get("BENCH_SHARDS", "16"))
NUMBERED_ENTITIES = 20


class User(Entity, shards=Shards(SHARDS)):
    """A user, with ten properties and six indexes."""

    user_id: Id[str]
    created: Created[Timestamp]
    first_name: str
    last_name: str
    phone: str
    city: str
    visits: Int32
    height: float
    active: bool
    note: str | None = None

    by_created = Index(sort="created")
    by_first_name = Index(sort="first_name")
    by_last_name = Index(sort="last_name")
    by_phone = Index(sort="phone")
    by_city = Index(hash="city", sort="created")
    by_visits = Index(sort="visits")


class Customer(Entity):
    """A customer."""

    customer_id: Id[str]
    name: str


class OrderLine(Entity):
    """A line of an order."""

    order_id: Id[str]
    line: SubId[str]
    product: str
    quantity: Int32


class Order(Entity):
    """An order with a reference and a has-many list."""

    order_id: Id[str]
    placed: Created[Timestamp]
    customer_id: str
    status: str

    by_placed = Index(sort="placed")
    customer = Ref("Customer", by="customer_id")
    lines = HasMany("OrderLine", via="by_id")


class Account(Entity):
    """An account with a unique property."""

    account_id: Id[str]
    email: Unique[str]
    name: str


users, orders, accounts = Catalog(User), Catalog(Customer, OrderLine, Order), Catalog(Account)


def numbered_catalog() -> Catalog:
    """Declare a catalog of many equal entities."""
    return Catalog(*(_numbered_entity(number) for number in range(NUMBERED_ENTITIES)))


def _numbered_entity(number: int) -> type[Entity]:
    annotations = {"key": Id[str], "created": Created[Timestamp], "name": str, "city": str, "visits": Int32}
    indexes = {"by_created": Index(sort="created"), "by_name": Index(sort="name")}
    body = {"__annotations__": annotations, "__doc__": "An entity.", "__module__": __name__, **indexes}
    made: type[Entity] = types.new_class(f"Entity{number}", (Entity,), exec_body=lambda names: names.update(body))
    return made
