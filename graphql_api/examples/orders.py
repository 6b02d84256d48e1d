"""A shop's read models: orders with their history, what they join, and one entity that only some people may read."""

from collections.abc import Iterator
from datetime import datetime

from graphql_api import (
    Catalog,
    Created,
    Entity,
    HasMany,
    Id,
    Index,
    Int32,
    Ref,
    RefMany,
    Shards,
    SubId,
    group,
    owner,
    owner_through,
)

THREE_GENERATIONS = Shards(1).then(4, since="2024-03-01").then(16, since="2024-05-01")


class OrderTracking(Entity, shards=Shards(4)):
    """One entry for every status that an order went through."""

    order_id: Id[str]
    """Unique id of the order."""
    changed_at: SubId[str]
    """When the order came into this status: `2024-01-15T10:30:00Z`."""
    customer_id: str | None = None
    """Unique id of the customer; null where the carrier reported the status, who does not know it."""
    status: str
    """What became of the order: `placed`, `paid`, `packed`, `shipped`, `delivered` or `returned`."""
    total: float
    """What the order cost at that moment."""

    by_customer_id = Index(hash="customer_id")
    by_status = Index(hash="status", sort="changed_at")

    customer = Ref("Customer", by="customer_id", description="Who ordered.")


class OrderHistory(Entity):
    """One entry for every change of an order."""

    order_id: Id[str]
    """Unique id of the order."""
    timestamp: SubId[str]
    """When the order was changed: `2024-01-15T10:30:00Z`."""
    status: str
    """The status since then."""
    total: float
    """What the order cost since then."""


class OrderLine(Entity):
    """One product of an order; the products of a category lie together."""

    order_id: Id[str]
    """Unique id of the order."""
    category: SubId[str]
    """The category of the product: `electronics`."""
    product_id: SubId[str]
    """Unique id of the product."""
    quantity: Int32
    """How many of it were ordered."""

    product = Ref("Product", by="product_id", description="What was ordered.")


class Order(Entity, shards=THREE_GENERATIONS, current="~current"):
    """Every version of an order, and beside them the current one under the version `~current`."""

    order_id: Id[str]
    """Unique id of the order."""
    version: SubId[str]
    """`v1`, `v2` and so on; `~current` is always equal to the last of them."""
    placed_at: Created[datetime]
    """When the order was placed; the same in all of its versions."""
    customer_id: str
    """Unique id of the customer."""
    status: str
    """What became of the order."""
    total: float
    """What the order costs."""
    product_ids: list[str]
    """Unique ids of the products, each of them once."""

    by_version = Index(hash="version", sort="placed_at")
    by_customer = Index(hash="customer_id", sort=["version", "placed_at"])

    customer = Ref("Customer", by="customer_id", description="Who ordered.")
    products = RefMany("Product", by="product_ids", description="What was ordered.")
    lines = HasMany("OrderLine", via="by_id", description="What was ordered, with its quantity, by category.")
    history = HasMany("OrderHistory", via="by_id", description="Every change of the order.")
    tracking = HasMany("OrderTracking", via="by_id", description="Every status that the order went through.")


class Customer(Entity):
    """Somebody who orders."""

    customer_id: Id[str]
    """Unique id of the customer."""
    name: str
    """First and last name."""
    email: str
    """Where messages about orders go."""

    orders = HasMany("Order", via="by_customer", description="Every version of every order.")
    tracking = HasMany("OrderTracking", via="by_customer_id", description="What became of the orders.")


class Product(Entity):
    """Something that can be ordered."""

    product_id: Id[str]
    """Unique id of the product."""
    name: str
    """What it is called."""
    price: float
    """What one of it costs."""
    category: str
    """The category, by which products are found: `electronics`."""
    created_at: Created[datetime]
    """Since when it can be ordered."""

    by_category = Index(hash="category", sort="created_at")


class Ownership(Entity, allow=[group("Admin"), owner("owner_id")]):
    """Who owns an order, or whatever else can be owned: a team can own orders, and a customer the team."""

    resource_id: Id[str]
    """Unique id of what is owned."""
    owner_id: str
    """Who owns it: a customer, or something that is owned itself."""

    # Whoever owns the owner sees what that one owns: a customer the orders of the team that is theirs.
    by_owner_id = Index(
        hash="owner_id",
        allow=[group("Admin"), owner("owner_id"), owner_through("Ownership", of="owner_id", owner="owner_id")],
    )


class SchemaChange(Entity):
    """What changed in the schema of a plugin, in one environment."""

    environment: Id[str]
    """Where the plugin runs: `prod` or `test`."""
    plugin_name: Id[str]
    """The plugin: `orders`."""
    month: SubId[str]
    """The month of the change: `2024-01`."""
    version: SubId[str]
    """The version that brought it, with zeros in front so that it sorts: `001.002.000`."""
    summary: str
    """What changed, in a sentence."""


class OrderCount(Entity):
    """How many orders there are."""

    orders: Int32
    """All that were ever placed."""


catalog = Catalog(
    OrderTracking,
    OrderHistory,
    OrderLine,
    Order,
    Customer,
    Product,
    Ownership,
    SchemaChange,
    OrderCount,
    namespace="Plugin",
)


def sample(count: int) -> Iterator[Entity]:
    """The products and what changed in the plugins, then so many orders with all that belongs to them."""
    from graphql_api.examples.order_samples import purchases  # noqa: PLC0415 - purchases are made of the classes above

    yield from purchases(count)
