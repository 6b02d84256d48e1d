"""Generate sample orders of the first half of 2024, the same on every platform and Python version.

Each order depends only on the seed and its number, so a longer sample begins with the shorter one.
The first order is fixed: `order-123` of `cust-456`, which was returned once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from graphql_api import Entity, canonical
from graphql_api.examples.orders import (
    Customer,
    Order,
    OrderCount,
    OrderHistory,
    OrderLine,
    OrderTracking,
    Ownership,
    Product,
    SchemaChange,
)
from graphql_api.examples.person_names import REGIONS
from graphql_api.examples.seeded_random import SeededRandom

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

SCHEMA_CHANGES = (
    ("prod", "orders", "2024-01", "001.000.000", "Orders have a status."),
    ("prod", "orders", "2024-01", "001.001.000", "Orders have a total."),
    ("prod", "orders", "2024-02", "001.009.000", "Orders name their customer."),
    ("prod", "orders", "2024-02", "001.010.000", "Orders list their products."),
    ("prod", "orders", "2024-06", "002.000.000", "Orders keep every version."),
    ("test", "orders", "2024-01", "001.001.000", "Orders have a total."),
    ("prod", "billing", "2024-01", "001.000.000", "Invoices have a number."),
)


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A status change of an order: the event that all read models are derived from."""

    at: datetime
    status: str
    by_carrier: bool = False


@dataclass(frozen=True, slots=True)
class Purchase:
    """An order with its lines and status changes."""

    number: int
    customer_id: str
    lines: Sequence[tuple[Product, int]]
    changes: Sequence[StatusChange]
    owner_id: str

    @property
    def order_id(self) -> str:
        """Unique id of the order; the first one is `order-123`."""
        return f"order-{FIRST_ORDER + self.number}"

    def total(self, change: StatusChange) -> float:
        """Return the total after a status change. Returned orders cost nothing."""
        cents = sum(round(product.price * 100) * quantity for product, quantity in self.lines)
        return 0.0 if change.status == "returned" else cents / 100

    def entries(self) -> Iterator[Entity]:
        """Yield all records of the order: lines, status changes, versions and ownership."""
        for product, quantity in self.lines:
            yield OrderLine(
                order_id=self.order_id, category=product.category, product_id=product.product_id, quantity=quantity
            )
        for version, change in enumerate(self.changes, 1):
            time, total = f"{change.at:%Y-%m-%dT%H:%M:%SZ}", self.total(change)
            yield OrderTracking(
                order_id=self.order_id,
                changed_at=time,
                customer_id=None if change.by_carrier else self.customer_id,
                status=change.status,
                total=total,
            )
            yield OrderHistory(order_id=self.order_id, timestamp=time, status=change.status, total=total)
            yield Order(
                order_id=self.order_id,
                version=f"v{version}",
                placed_at=self.changes[0].at,
                customer_id=self.customer_id,
                status=change.status,
                total=total,
                product_ids=[product.product_id for product, _ in self.lines],
            )
        yield Ownership(resource_id=self.order_id, owner_id=self.owner_id)


def generate_orders(count: int, seed: int = SEED) -> Iterator[Entity]:
    """Yield the records that all orders share, then `count` orders with their records."""
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
        yield from generate_purchase(number, products, seed).entries()
    yield OrderCount(orders=count)


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


def generate_purchase(number: int, products: Sequence[Product], seed: int = SEED) -> Purchase:
    """Generate one order of the sample by number."""
    if number == 0:
        return _first_purchase(products)
    random = SeededRandom(f"order {seed} {number}")
    changes = [*_generate_changes(random)]
    # A chosen product is removed from the available ones, so an order has each product once.
    available = [product for product in products if product.created_at < changes[0].at]
    lines = [
        (available.pop(random.integer_below(len(available))), 1 + random.small_integer_below(4))
        for _ in range(1 + random.small_integer_below(5))
    ]
    buyer = customer_id(random.small_integer_below(1 + number // ORDERS_PER_CUSTOMER))
    return Purchase(number, buyer, lines, changes, TEAM if random.chance(0.2) else buyer)


def _generate_changes(random: SeededRandom) -> Iterator[StatusChange]:
    """Yield the status changes of an order, from `placed` to its latest status."""
    time = NEW_YEAR_2024 + timedelta(seconds=random.integer_below(ORDER_PERIOD_SECONDS))
    steps = 1 + max(random.integer_below(len(STATUSES)), random.integer_below(len(STATUSES) - 1))
    for status, days in zip(STATUSES[:steps], MAX_DAYS_TO_STATUS, strict=False):
        time += timedelta(seconds=days and 60 + random.integer_below(days * 86_400 - 60))
        yield StatusChange(time, status, by_carrier=status in CARRIER_STATUSES and random.chance(0.25))


def _first_purchase(products: Sequence[Product]) -> Purchase:
    status_by_time = {
        "2024-01-15T10:30:00+00:00": "placed",
        "2024-01-15T10:31:12+00:00": "paid",
        "2024-01-31T16:05:40+00:00": "packed",
        "2024-02-02T08:00:00+00:00": "shipped",
        "2024-03-04T12:44:09+00:00": "returned",
        "2024-03-28T09:15:00+00:00": "packed",
        "2024-04-02T07:50:31+00:00": "shipped",
        "2024-06-11T18:20:00+00:00": "delivered",
    }
    changes = [StatusChange(datetime.fromisoformat(time), status) for time, status in status_by_time.items()]
    lines = [(products[number], quantity) for number, quantity in ((0, 1), (3, 2), (7, 1), (12, 4))]
    return Purchase(0, customer_id(0), lines, changes, customer_id(0))
