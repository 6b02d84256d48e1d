"""The example catalog `orders`: its declaration and its sample data."""

from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import TypeVar

import pytest

from graphql_api import Entity
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
    catalog,
    sample,
)
from graphql_api.writes.item_keys import to_item
from tests.support.sample_digest import digest_of

E = TypeVar("E", bound=Entity)

RECORDS = [*sample(300)]


def all_of(kind: type[E]) -> list[E]:
    """The records of one entity, in the order of the sample."""
    return [record for record in RECORDS if isinstance(record, kind)]


# --- catalog -----------------------------------------------------------------------------------------------------


def test_key_patterns() -> None:
    """The catalog has all key patterns: singleton, id, history, and composite ids with several sub ids."""
    parts = {
        kind: (len(catalog.entity(kind).ids), len(catalog.entity(kind).sub_ids))
        for kind in (OrderCount, Customer, Product, Ownership, OrderTracking, OrderHistory, Order, OrderLine)
    }
    assert parts == {
        OrderCount: (0, 0),
        **dict.fromkeys((Customer, Product, Ownership), (1, 0)),
        **dict.fromkeys((OrderTracking, OrderHistory, Order), (1, 1)),
        OrderLine: (1, 2),
    }
    spec = catalog.entity(SchemaChange)
    assert (len(spec.ids), len(spec.sub_ids), spec.separator) == (2, 2, "/")


@pytest.mark.parametrize("name", [spec.type_name for spec in catalog.entities.values()])
def test_everything_is_described(name: str) -> None:
    """Each entity, property and join has a description."""
    spec = catalog.entity(name)
    assert spec.description
    assert [part.name for part in spec.properties.values() if not part.description] == []
    declared = spec.model.__declaration__.joins
    assert [name for name, join in declared.items() if not join.description] == []


def test_only_ownership_has_rules() -> None:
    """Only ownership has access rules; everything else is open to anyone."""
    ruled = [
        name
        for spec in catalog.entities.values()
        for name, rules in [
            (spec.type_name, spec.allow),
            *((f"{spec.type_name}.{name}", index.allow) for name, index in spec.indexes.items()),
            *((f"{spec.type_name}.{name}", part.allow) for name, part in spec.properties.items()),
        ]
        if rules is not None
    ]
    assert ruled == ["Ownership", "Ownership.by_owner_id"]


def test_orders_are_in_three_shard_generations() -> None:
    """Orders are in 1, 4 or 16 shards, depending on their month. All versions of an order are in one shard."""
    spec = catalog.entity(Order)
    keys = defaultdict(set)
    for order in all_of(Order):
        keys[order.order_id].add(to_item(spec, order, None, "a write")["hashKey"])
    assert {len(found) for found in keys.values()} == {1}
    by_month: dict[int, set[object]] = defaultdict(set)
    for order in all_of(Order):
        by_month[order.placed_at.month] |= keys[order.order_id]
    assert by_month[1] | by_month[2] == {"order!"}
    assert by_month[3] | by_month[4] == {f"order!0{digit}" for digit in "0123"}
    assert by_month[5] == {f"order!0{digit}" for digit in "0123456789abcdef"}


# --- sample ------------------------------------------------------------------------------------------------------


def test_sample_is_pinned() -> None:
    """The sample is the same on every platform and Python version."""
    assert digest_of(sample(100)) == PINNED_SAMPLE


def test_shorter_sample_is_a_prefix() -> None:
    """A shorter sample without its count is a prefix of a longer one. Another seed generates other orders."""
    *shorter, count = sample(40)
    assert count == OrderCount(orders=40)
    assert RECORDS[: len(shorter)] == shorter
    assert RECORDS[-1] == OrderCount(orders=300)
    orders_by_seed = [
        [(order.order_id, order.placed_at) for order in sample(40, seed) if isinstance(order, Order)] for seed in (1, 2)
    ]
    assert set(orders_by_seed[0]) & set(orders_by_seed[1]) == {("order-123", datetime(2024, 1, 15, 10, 30, tzinfo=UTC))}


def test_sample_contains_the_records_of_the_guide() -> None:
    """Every sample contains the records of the guide: `order-123`, `cust-456`, `prod-456` and status `shipped`."""
    few = [*sample(1)]
    assert {order.order_id for order in few if isinstance(order, Order)} == {"order-123"}
    assert [customer.customer_id for customer in few if isinstance(customer, Customer)] == ["cust-456"]
    lines = [line for line in few if isinstance(line, OrderLine)]
    assert ("electronics", "prod-456") in [(line.category, line.product_id) for line in lines]
    assert "shipped" in {entry.status for entry in few if isinstance(entry, OrderTracking)}
    times = [entry.timestamp for entry in few if isinstance(entry, OrderHistory)]
    assert times[0] == "2024-01-15T10:30:00Z"
    assert {moment[:7] for moment in times} >= {"2024-01", "2024-02", "2024-03", "2024-06"}


def test_times_are_within_half_a_year() -> None:
    """All times are between January and June 2024, with entries in every month, and sort as texts do."""
    times = [entry.timestamp for entry in all_of(OrderHistory)]
    assert {moment[:7] for moment in times} == {f"2024-0{month}" for month in range(1, 7)}
    assert sorted(times) == sorted(times, key=datetime.fromisoformat)
    assert all(order.placed_at.tzinfo is UTC for order in all_of(Order))


def test_read_models_are_consistent() -> None:
    """Tracking, history and versions of an order have the same statuses and totals, in order of time."""
    histories: dict[str, list[list[tuple[str, float]]]] = defaultdict(lambda: [[], [], []])
    for entry in RECORDS:
        if isinstance(entry, OrderTracking | OrderHistory | Order):
            at = (OrderTracking, OrderHistory, Order).index(type(entry))
            histories[entry.order_id][at].append((entry.status, entry.total))
    assert len(histories) == 300
    assert all(tracking == history == versions for tracking, history, versions in histories.values())
    assert {history[0][0] for _, history, _ in histories.values()} == {"placed"}
    for one, other in pairwise(all_of(OrderHistory)):
        assert one.order_id != other.order_id or one.timestamp < other.timestamp


def test_versions_sort_as_texts() -> None:
    """The versions of an order count from `v1` and stay below ten, so that they sort correctly as texts."""
    versions = defaultdict(list)
    for order in all_of(Order):
        versions[order.order_id].append(order.version)
    assert all(found == [f"v{number}" for number in range(1, len(found) + 1)] for found in versions.values())
    assert max(map(len, versions.values())) == 8


def test_references_exist() -> None:
    """Referenced customers, products and owners exist, and the lines of an order add up to its total."""
    customers = {customer.customer_id for customer in all_of(Customer)}
    products = {product.product_id: product for product in all_of(Product)}
    lines = defaultdict(list)
    for line in all_of(OrderLine):
        lines[line.order_id].append(line)
    for order in all_of(Order):
        assert order.customer_id in customers
        assert order.product_ids == [line.product_id for line in lines[order.order_id]]
        assert all(products[product_id].created_at < order.placed_at for product_id in order.product_ids)
        cost = sum(products[line.product_id].price * line.quantity for line in lines[order.order_id])
        assert order.total == pytest.approx(0 if order.status == "returned" else cost)
    tracked_customers = {entry.customer_id for entry in all_of(OrderTracking)}
    assert tracked_customers == {order.customer_id for order in all_of(Order)} | {None}
    owned = {ownership.resource_id for ownership in all_of(Ownership)}
    assert {ownership.owner_id for ownership in all_of(Ownership)} <= customers | owned
    assert owned >= {order.order_id for order in all_of(Order)}


def test_products_of_each_category_differ_in_age() -> None:
    """Each of five categories has six products, whose creation times differ and are not in the order of their ids."""
    ages = defaultdict(list)
    for product in all_of(Product):
        ages[product.category].append(product.created_at)
    assert Counter(map(len, ages.values())) == {6: 5}
    assert all(len(set(times)) == 6 and times != sorted(times) for times in ages.values())


PINNED_SAMPLE = "741f02db4459a5bd"
