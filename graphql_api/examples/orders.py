"""Example catalog: read models of a shop, with histories, joins and access rules."""

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
    """A status change of an order."""

    order_id: Id[str]
    """Unique id of the order."""
    changed_at: SubId[str]
    """Time of the status change: `2024-01-15T10:30:00Z`."""
    customer_id: str | None = None
    """Unique id of the customer; null if the carrier reported the status, because carriers do not know the customer."""
    status: str
    """New status of the order: `placed`, `paid`, `packed`, `shipped`, `delivered` or `returned`."""
    total: float
    """Total of the order at that time."""

    by_customer_id = Index(hash="customer_id")
    by_status = Index(hash="status", sort="changed_at")

    customer = Ref("Customer", by="customer_id", description="The customer of the order.")


class OrderHistory(Entity):
    """A change of an order."""

    order_id: Id[str]
    """Unique id of the order."""
    timestamp: SubId[str]
    """Time of the change: `2024-01-15T10:30:00Z`."""
    status: str
    """Status of the order after the change."""
    total: float
    """Total of the order after the change."""


class OrderLine(Entity):
    """A product of an order, with its quantity. Lines are sorted by category."""

    order_id: Id[str]
    """Unique id of the order."""
    category: SubId[str]
    """Category of the product: `electronics`."""
    product_id: SubId[str]
    """Unique id of the product."""
    quantity: Int32
    """Quantity of the product."""

    product = Ref("Product", by="product_id", description="The ordered product.")


class Order(Entity, shards=THREE_GENERATIONS, current="~current"):
    """A version of an order. The version `~current` is the current record."""

    order_id: Id[str]
    """Unique id of the order."""
    version: SubId[str]
    """Version: `v1`, `v2` and so on, or `~current` for the current record, which equals the latest version."""
    placed_at: Created[datetime]
    """Time at which the order was placed, the same in all its versions."""
    customer_id: str
    """Unique id of the customer."""
    status: str
    """Status of the order."""
    total: float
    """Total of the order."""
    product_ids: list[str]
    """Unique ids of the products, without duplicates."""

    by_version = Index(hash="version", sort="placed_at")
    by_customer = Index(hash="customer_id", sort=["version", "placed_at"])

    customer = Ref("Customer", by="customer_id", description="The customer of the order.")
    products = RefMany("Product", by="product_ids", description="The ordered products.")
    lines = HasMany("OrderLine", via="by_id", description="The lines of the order, sorted by category.")
    history = HasMany("OrderHistory", via="by_id", description="The changes of the order.")
    tracking = HasMany("OrderTracking", via="by_id", description="The status changes of the order.")


class Customer(Entity):
    """A customer of the shop."""

    customer_id: Id[str]
    """Unique id of the customer."""
    name: str
    """First and last name."""
    email: str
    """E-mail address for messages about orders."""

    orders = HasMany("Order", via="by_customer", description="All versions of the customer's orders.")
    tracking = HasMany("OrderTracking", via="by_customer_id", description="Status changes of the customer's orders.")


class Product(Entity):
    """A product of the shop."""

    product_id: Id[str]
    """Unique id of the product."""
    name: str
    """Name of the product."""
    price: float
    """Price of one piece."""
    category: str
    """Category of the product: `electronics`."""
    created_at: Created[datetime]
    """Time from which the product can be ordered."""

    by_category = Index(hash="category", sort="created_at")


class Ownership(Entity, allow=[group("Admin"), owner("owner_id")]):
    """The owner of an order or of another resource. A team can own orders, and a customer can own the team."""

    resource_id: Id[str]
    """Unique id of the owned resource."""
    owner_id: str
    """Unique id of the owner: a customer, or a resource that has an owner itself."""

    # The owner of a team may search for what the team owns.
    by_owner_id = Index(
        hash="owner_id",
        allow=[group("Admin"), owner("owner_id"), owner_through("Ownership", of="owner_id", owner="owner_id")],
    )


class SchemaChange(Entity):
    """A change of a plugin's schema in one environment."""

    environment: Id[str]
    """Environment of the plugin: `prod` or `test`."""
    plugin_name: Id[str]
    """Name of the plugin: `orders`."""
    month: SubId[str]
    """Month of the change: `2024-01`."""
    version: SubId[str]
    """Version of the plugin, with leading zeros so that it sorts: `001.002.000`."""
    summary: str
    """Summary of the change in one sentence."""


class OrderCount(Entity):
    """The number of orders."""

    orders: Int32
    """Number of all orders ever placed."""


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
    """Yield the products and schema changes, then `count` orders with their records."""
    from graphql_api.examples.order_samples import generate_orders  # noqa: PLC0415 - imports this module

    yield from generate_orders(count)
