"""Histories stay consistent when shard generations are added between writes."""

import pytest

from graphql_api import Catalog
from graphql_api.errors import CreationChanged
from tests.writes.histories.order_history import Entry, Order, Plain, Shop, order, with_generations


async def test_a_generation_added_between_two_updates(shop: Shop) -> None:
    """Old orders keep their shard and new ones use the new generation, each with one current record."""
    await shop.db.put_many([order(f"old{at}", "v1", created=at) for at in range(5)])
    shop.clock.now = 3_000
    order_class = with_generations((64, 3_000), (150, 4_000))
    db = shop.through(shop.store, Catalog(order_class, Entry, Plain))
    for at in range(5):
        updated = await db.update(order_class, f"old{at}", version="v2", total=at)
        assert updated.created == at
        await db.put(order_class(order_id=f"new{at}", version="v1", created=3_500 + 200 * at))
        await db.update(order_class, f"new{at}", version="v2", total=at)
    assert await shop.histories() == {f"{age}{at}": ["v1", "v2"] for age in ("old", "new") for at in range(5)}
    for at in range(5):
        for name in (f"old{at}", f"new{at}"):
            found = await db.get(order_class, name)
            assert found is not None
            assert found.total == at


async def test_a_server_without_the_new_generation(shop: Shop) -> None:
    """Servers of two releases can write to one history, because both compute the same shard for it."""
    order_class = with_generations((64, 3_000))
    newer_server = shop.through(shop.store, Catalog(order_class, Entry, Plain))
    await newer_server.put(order_class(order_id="o", version="v1", created=2_000))
    await shop.db.update(Order, "o", version="v2", total=2)
    await newer_server.update(order_class, "o", version="v3", status="sent")
    await shop.db.delete(Order, "o", version="v3")
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_a_creation_value_of_the_new_generation_is_refused(shop: Shop) -> None:
    """An entry with a creation value of another generation is refused, because it would move the order."""
    await shop.db.put(order("o", "v1", created=1))
    order_class = with_generations((64, 3_000))
    db = shop.through(shop.store, Catalog(order_class, Entry, Plain))
    with pytest.raises(CreationChanged, match="was created at 1"):
        await db.put(order_class(order_id="o", version="v2", created=3_500))
    with pytest.raises(CreationChanged, match="was created at 1"):
        await db.update(order_class, "o", version="v2", created=3_500)
    assert await shop.histories() == {"o": ["v1"]}
