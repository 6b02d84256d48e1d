"""Example catalog: read models of a shop, with histories, joins and access rules."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from graphql_api import (
    Catalog,
    Created,
    Entity,
    HasMany,
    Id,
    Index,
    Int32,
    Lookup,
    Ref,
    RefMany,
    Shards,
    SubId,
    canonical,
    group,
    owner,
    owner_through,
)
from graphql_api.examples.person_names import REGIONS
from graphql_api.examples.seeded_random import SeededRandom

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

    # Several customers may share an address.
    by_email = Lookup("email")

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


# --- sample ----------------------------------------------------------------------------------------------------
# Orders of the first half of 2024, the same on every platform and Python version. Each order depends only on the seed
# and its number, so a longer sample begins with the shorter one. The first order is fixed: `order-123` of `cust-456`,
# which was returned once.

SEED = 1
FIRST_ORDER = 123
FIRST_CUSTOMER = 456
FIRST_PRODUCT = 456
ORDERS_PER_CUSTOMER = 4
TEAM = "team-logistics"

NEW_YEAR_2023 = datetime(2023, 1, 1, tzinfo=UTC)
NEW_YEAR_2024 = datetime(2024, 1, 1, tzinfo=UTC)
ORDER_PERIOD_SECONDS = 152 * 86_400
"""orders are placed from January to May 2024"""

STATUSES = ("placed", "paid", "packed", "shipped", "delivered", "returned")
MAX_DAYS_TO_STATUS = (0, 1, 3, 2, 7, 14)
"""maximum days until each status follows the previous one"""

CARRIER_STATUSES = ("shipped", "delivered")

PRODUCT_NAMES = {
    "electronics": "Headphones Keyboard Lamp Loudspeaker Radio Webcam",
    "books": "Atlas Cookbook Dictionary Novel Poems Thriller",
    "kitchen": "Grater Kettle Pan Sieve Teapot Whisk",
    "garden": "Bench Hose Rake Spade Trowel Wheelbarrow",
    "toys": "Blocks Doll Kite Puzzle Robot Train",
}

FIRST_LINES = ((0, 1), (3, 2), (7, 1), (12, 4))
FIRST_CHANGES = {
    "2024-01-15T10:30:00+00:00": "placed",
    "2024-01-15T10:31:12+00:00": "paid",
    "2024-01-31T16:05:40+00:00": "packed",
    "2024-02-02T08:00:00+00:00": "shipped",
    "2024-03-04T12:44:09+00:00": "returned",
    "2024-03-28T09:15:00+00:00": "packed",
    "2024-04-02T07:50:31+00:00": "shipped",
    "2024-06-11T18:20:00+00:00": "delivered",
}

SCHEMA_CHANGES = (
    ("prod", "orders", "2024-01", "001.000.000", "Orders have a status."),
    ("prod", "orders", "2024-01", "001.001.000", "Orders have a total."),
    ("prod", "orders", "2024-02", "001.009.000", "Orders name their customer."),
    ("prod", "orders", "2024-02", "001.010.000", "Orders list their products."),
    ("prod", "orders", "2024-06", "002.000.000", "Orders keep every version."),
    ("test", "orders", "2024-01", "001.001.000", "Orders have a total."),
    ("prod", "billing", "2024-01", "001.000.000", "Invoices have a number."),
)


class StatusChange(NamedTuple):
    """A status change of an order. `order_events.py` makes events of them, from which read models can be derived."""

    at: datetime
    status: str
    by_carrier: bool = False

    @property
    def time(self) -> str:
        """The time as read models hold it."""
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ}"


class OrderPlan(NamedTuple):
    """What happens to one order of the sample."""

    order_id: str
    buyer: str
    lines: Sequence[tuple[Product, int]]
    """products and quantities"""
    changes: Sequence[StatusChange]
    owner_id: str

    def total_at(self, status: str) -> float:
        """Return the total of the order in a status."""
        cents = sum(round(product.price * 100) * quantity for product, quantity in self.lines)
        return 0.0 if status == "returned" else cents / 100


def generate_products(seed: int = SEED) -> Iterator[Product]:
    """Yield all products, by category. They were created in 2023 or early in 2024."""
    names = [(category, name) for category, names in PRODUCT_NAMES.items() for name in names.split()]
    for number, (category, name) in enumerate(names):
        random = SeededRandom(f"product {seed} {number}")
        yield Product(
            product_id=f"prod-{FIRST_PRODUCT + number}",
            name=name,
            price=(499 + random.small_integer_below(20_000)) / 100,
            category=category,
            created_at=NEW_YEAR_2023 + timedelta(seconds=random.integer_below(500 * 86_400)),
        )


def customer_id(number: int) -> str:
    """Return the id of a customer by number; the first one is `cust-456`."""
    return f"cust-{FIRST_CUSTOMER + number}"


def generate_customer(number: int, seed: int = SEED) -> Customer:
    """Generate one customer of the sample by number."""
    random = SeededRandom(f"customer {seed} {number}")
    region = random.choose(REGIONS)
    first, last = random.choose(region.first_names), random.choose(region.last_names)
    return Customer(
        customer_id=customer_id(number),
        name=f"{first} {last}",
        email=f"{canonical(first)}.{canonical(last)}.{number}@post.example",
    )


def plan_order(number: int, products: Sequence[Product], seed: int = SEED) -> OrderPlan:
    """Return what happens to one order of the sample by number; the first one is `order-123`."""
    order_id = f"order-{FIRST_ORDER + number}"
    if number == 0:
        lines = [(products[index], quantity) for index, quantity in FIRST_LINES]
        changes = [StatusChange(datetime.fromisoformat(time), status) for time, status in FIRST_CHANGES.items()]
        return OrderPlan(order_id, customer_id(0), lines, changes, customer_id(0))
    random = SeededRandom(f"order {seed} {number}")
    changes = [*_generate_changes(random)]
    # A chosen product is removed from the available ones, so an order has each product once.
    available = [product for product in products if product.created_at < changes[0].at]
    lines = [
        (available.pop(random.integer_below(len(available))), 1 + random.small_integer_below(4))
        for _ in range(1 + random.small_integer_below(5))
    ]
    buyer = customer_id(random.small_integer_below(1 + number // ORDERS_PER_CUSTOMER))
    return OrderPlan(order_id, buyer, lines, changes, TEAM if random.chance(0.2) else buyer)


def _generate_changes(random: SeededRandom) -> Iterator[StatusChange]:
    """Yield the status changes of an order, from `placed` to its latest status."""
    time = NEW_YEAR_2024 + timedelta(seconds=random.integer_below(ORDER_PERIOD_SECONDS))
    steps = 1 + max(random.integer_below(len(STATUSES)), random.integer_below(len(STATUSES) - 1))
    for status, days in zip(STATUSES[:steps], MAX_DAYS_TO_STATUS, strict=False):
        time += timedelta(seconds=days and 60 + random.integer_below(days * 86_400 - 60))
        # Only the latest status may lack the customer, since the next one would copy it.
        by_carrier = status in CARRIER_STATUSES and random.chance(0.25)
        yield StatusChange(time, status, by_carrier=by_carrier and status == STATUSES[steps - 1])


def _order_records(plan: OrderPlan) -> Iterator[Entity]:
    """Yield all records of an order: lines (products and quantities), status changes, versions and ownership."""
    order_id = plan.order_id
    for product, quantity in plan.lines:
        yield OrderLine(order_id=order_id, category=product.category, product_id=product.product_id, quantity=quantity)
    product_ids = [product.product_id for product, _ in plan.lines]
    for version, change in enumerate(plan.changes, 1):
        time, status, total = change.time, change.status, plan.total_at(change.status)
        customer = None if change.by_carrier else plan.buyer
        yield OrderTracking(order_id=order_id, changed_at=time, customer_id=customer, status=status, total=total)
        yield OrderHistory(order_id=order_id, timestamp=time, status=status, total=total)
        yield Order(
            order_id=order_id,
            version=f"v{version}",
            placed_at=plan.changes[0].at,
            customer_id=plan.buyer,
            status=status,
            total=total,
            product_ids=product_ids,
        )
    yield Ownership(resource_id=order_id, owner_id=plan.owner_id)


def sample(count: int, seed: int = SEED) -> Iterator[Entity]:
    """Yield the products and schema changes, then `count` orders with their records."""
    products = [*generate_products(seed)]
    yield from products
    yield from (
        SchemaChange(environment=environment, plugin_name=plugin, month=month, version=version, summary=summary)
        for environment, plugin, month, version, summary in SCHEMA_CHANGES
    )
    yield Ownership(resource_id=TEAM, owner_id=customer_id(0))
    for number in range(count):
        if number % ORDERS_PER_CUSTOMER == 0:
            yield generate_customer(number // ORDERS_PER_CUSTOMER, seed)
        yield from _order_records(plan_order(number, products, seed))
    yield OrderCount(orders=count)
