"""Sample orders of the first half of 2024: any number of them, the same on every platform and in every Python.

Each order is drawn by itself, from the seed and its number, so a longer sample begins with the shorter one. The first
one is written out: `order-123` of `cust-456`, which was sent back once.
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
from graphql_api.examples.seeded_random import Draw

SEED = 1
FIRST_ORDER = 123
FIRST_CUSTOMER = 456
FIRST_PRODUCT = 456
ORDERS_PER_CUSTOMER = 4
TEAM = "team-logistics"

NEW_YEAR_2023 = datetime(2023, 1, 1, tzinfo=UTC)
NEW_YEAR_2024 = datetime(2024, 1, 1, tzinfo=UTC)
SECONDS_OF_ORDERS = 152 * 86_400
"""orders are placed from January to May"""

LIFE = ("placed", "paid", "packed", "shipped", "delivered", "returned")
MAX_WAITS = (0, 1, 3, 2, 7, 14)
"""days until a status follows the one before"""

CARRIER_REPORTS = ("shipped", "delivered")

WARES = {
    "electronics": "Headphones Keyboard Lamp Loudspeaker Radio Webcam",
    "books": "Atlas Cookbook Dictionary Novel Poems Thriller",
    "kitchen": "Grater Kettle Pan Sieve Teapot Whisk",
    "garden": "Bench Hose Rake Spade Trowel Wheelbarrow",
    "toys": "Blocks Doll Kite Puzzle Robot Train",
}

CHANGES = (
    ("prod", "orders", "2024-01", "001.000.000", "Orders have a status."),
    ("prod", "orders", "2024-01", "001.001.000", "Orders have a total."),
    ("prod", "orders", "2024-02", "001.009.000", "Orders name their customer."),
    ("prod", "orders", "2024-02", "001.010.000", "Orders list their products."),
    ("prod", "orders", "2024-06", "002.000.000", "Orders keep every version."),
    ("test", "orders", "2024-01", "001.001.000", "Orders have a total."),
    ("prod", "billing", "2024-01", "001.000.000", "Invoices have a number."),
)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to an order: the event of which all read models are made."""

    at: datetime
    status: str
    by_carrier: bool = False


@dataclass(frozen=True, slots=True)
class Purchase:
    """An order with its lines and all that happened to it."""

    number: int
    customer_id: str
    lines: Sequence[tuple[Product, int]]
    changes: Sequence[Change]
    owner_id: str

    @property
    def order_id(self) -> str:
        """`order-123` is the first one."""
        return f"order-{FIRST_ORDER + self.number}"

    def total(self, change: Change) -> float:
        """What it costs at this moment: nothing, once it was sent back."""
        cents = sum(round(product.price * 100) * quantity for product, quantity in self.lines)
        return 0.0 if change.status == "returned" else cents / 100

    def entries(self) -> Iterator[Entity]:
        """Its records: what was ordered, what became of it, and whose it is."""
        for product, quantity in self.lines:
            yield OrderLine(
                order_id=self.order_id, category=product.category, product_id=product.product_id, quantity=quantity
            )
        for version, change in enumerate(self.changes, 1):
            moment, total = f"{change.at:%Y-%m-%dT%H:%M:%SZ}", self.total(change)
            yield OrderTracking(
                order_id=self.order_id,
                changed_at=moment,
                customer_id=None if change.by_carrier else self.customer_id,
                status=change.status,
                total=total,
            )
            yield OrderHistory(order_id=self.order_id, timestamp=moment, status=change.status, total=total)
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


def purchases(count: int, seed: int = SEED) -> Iterator[Entity]:
    """The records of so many orders, behind those that all of them share."""
    wares = [*products(seed)]
    yield from wares
    yield from (
        SchemaChange(environment=environment, plugin_name=plugin, month=month, version=version, summary=summary)
        for environment, plugin, month, version, summary in CHANGES
    )
    yield Ownership(resource_id=TEAM, owner_id=customer_id(0))
    for number in range(count):
        if number % ORDERS_PER_CUSTOMER == 0:
            yield customer(number // ORDERS_PER_CUSTOMER, seed)
        yield from purchase(number, wares, seed).entries()
    yield OrderCount(orders=count)


def products(seed: int = SEED) -> Iterator[Product]:
    """Everything that can be ordered, category by category; each came into the shop in 2023 or early in 2024."""
    wares = [(category, name) for category, names in WARES.items() for name in names.split()]
    for number, (category, name) in enumerate(wares):
        draw = Draw(f"product {seed} {number}")
        yield Product(
            product_id=f"prod-{FIRST_PRODUCT + number}",
            name=name,
            price=(499 + draw.small(20_000)) / 100,
            category=category,
            created_at=NEW_YEAR_2023 + timedelta(seconds=draw.below(500 * 86_400)),
        )


def customer_id(number: int) -> str:
    """`cust-456` is the first one."""
    return f"cust-{FIRST_CUSTOMER + number}"


def customer(number: int, seed: int = SEED) -> Customer:
    """The customer with this number of the sample."""
    draw = Draw(f"customer {seed} {number}")
    region = draw.one_of(REGIONS)
    first, last = draw.one_of(region.first_names), draw.one_of(region.last_names)
    return Customer(
        customer_id=customer_id(number),
        name=f"{first} {last}",
        email=f"{canonical(first)}.{canonical(last)}.{number}@post.example",
    )


def purchase(number: int, wares: Sequence[Product], seed: int = SEED) -> Purchase:
    """The order with this number of the sample."""
    if number == 0:
        return _first(wares)
    draw = Draw(f"order {seed} {number}")
    changes = [*_life(draw)]
    # What a cart holds is drawn by its place in what is left, so that nothing is in it twice.
    left = [product for product in wares if product.created_at < changes[0].at]
    lines = [(left.pop(draw.below(len(left))), 1 + draw.small(4)) for _ in range(1 + draw.small(5))]
    buyer = customer_id(draw.small(1 + number // ORDERS_PER_CUSTOMER))
    return Purchase(number, buyer, lines, changes, TEAM if draw.chance(0.2) else buyer)


def _life(draw: Draw) -> Iterator[Change]:
    """What happens to an order, from its placing as far as it has come."""
    moment = NEW_YEAR_2024 + timedelta(seconds=draw.below(SECONDS_OF_ORDERS))
    steps = 1 + max(draw.below(len(LIFE)), draw.below(len(LIFE) - 1))
    for status, days in zip(LIFE[:steps], MAX_WAITS, strict=False):
        moment += timedelta(seconds=days and 60 + draw.below(days * 86_400 - 60))
        yield Change(moment, status, by_carrier=status in CARRIER_REPORTS and draw.chance(0.25))


def _first(wares: Sequence[Product]) -> Purchase:
    moments = {
        "2024-01-15T10:30:00+00:00": "placed",
        "2024-01-15T10:31:12+00:00": "paid",
        "2024-01-31T16:05:40+00:00": "packed",
        "2024-02-02T08:00:00+00:00": "shipped",
        "2024-03-04T12:44:09+00:00": "returned",
        "2024-03-28T09:15:00+00:00": "packed",
        "2024-04-02T07:50:31+00:00": "shipped",
        "2024-06-11T18:20:00+00:00": "delivered",
    }
    changes = [Change(datetime.fromisoformat(moment), status) for moment, status in moments.items()]
    lines = [(wares[at], quantity) for at, quantity in ((0, 1), (3, 2), (7, 1), (12, 4))]
    return Purchase(0, customer_id(0), lines, changes, customer_id(0))
