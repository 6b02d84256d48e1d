"""Histories stay whole when shards are added between two writes."""

import pytest

from graphql_api import Catalog
from graphql_api.errors import CreationChanged
from tests.histories.orders import Entry, Order, Plain, Shop, grown, order


async def test_growth_between_two_updates(shop: Shop) -> None:
    """Old orders go on where they are and new ones begin where they belong, each with one current record."""
    await shop.db.put_many([order(f"old{at}", "v1", created=at) for at in range(5)])
    shop.clock.now = 3_000
    more = grown((64, 3_000), (150, 4_000))
    db = shop.through(shop.store, Catalog(more, Entry, Plain))
    for at in range(5):
        made = await db.update(more, f"old{at}", version="v2", total=at)
        assert made.created == at
        await db.put(more(order_id=f"new{at}", version="v1", created=3_500 + 200 * at))
        await db.update(more, f"new{at}", version="v2", total=at)
    assert await shop.histories() == {f"{age}{at}": ["v1", "v2"] for age in ("old", "new") for at in range(5)}
    for at in range(5):
        for name in (f"old{at}", f"new{at}"):
            found = await db.get(more, name)
            assert found is not None
            assert found.total == at


async def test_a_server_that_has_not_grown_yet(shop: Shop) -> None:
    """Servers of two releases write to one history side by side: its home is the same for both."""
    more = grown((64, 3_000))
    newer = shop.through(shop.store, Catalog(more, Entry, Plain))
    await newer.put(more(order_id="o", version="v1", created=2_000))
    await shop.db.update(Order, "o", version="v2", total=2)
    await newer.update(more, "o", version="v3", status="sent")
    await shop.db.delete(Order, "o", version="v3")
    assert await shop.histories() == {"o": ["v1", "v2"]}


async def test_a_creation_value_in_the_new_generation(shop: Shop) -> None:
    """An entry of an old order cannot move it: that would be a second current record."""
    await shop.db.put(order("o", "v1", created=1))
    more = grown((64, 3_000))
    db = shop.through(shop.store, Catalog(more, Entry, Plain))
    with pytest.raises(CreationChanged, match="was created at 1"):
        await db.put(more(order_id="o", version="v2", created=3_500))
    with pytest.raises(CreationChanged, match="was created at 1"):
        await db.update(more, "o", version="v2", created=3_500)
    assert await shop.histories() == {"o": ["v1"]}
