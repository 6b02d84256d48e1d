"""Digests: equal for equal items, whatever engine stores them, in whatever order they are read."""

from decimal import Decimal
from pathlib import Path
from random import Random
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs import hash_key_parts
from graphql_api.storage import Item, Put, Store
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.verification.item_digests import DigestSums, item_digest
from tests.support.dynamodb_servers import Server
from tests.support.store_doubles import all_items
from tests.verification.damaged_tables import CATALOG

STORED = [
    None, True, 0, -1, 10**37, Decimal("0.5"), Decimal("-1.50"), Decimal("1E+20"), Decimal("1.23E-20"), "", "é", b"\0",
    [1, "a", [None]], {"b": Decimal("2.0"), "a": {"c": [True]}}, frozenset({"x", "y"}), frozenset({1, Decimal("2.5")}),
    frozenset({b"1"}), [], {},
]  # fmt: skip
"""values of all types"""

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.text(max_size=5),
        st.integers(-(10**12), 10**12),
        st.binary(max_size=4),
        st.frozensets(st.text(min_size=1, max_size=3), min_size=1, max_size=4),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=5)


def keyed(attributes: Item, number: int = 0) -> dict[str, object]:
    """Returns an item with a key."""
    return {**attributes, "hashKey": "user!00", "rangeKey": f"userId#{number}"}


@given(ITEMS)
def test_bookkeeping_does_not_count(attributes: Item) -> None:
    """Items that differ only in their write id, delete intent and order of attributes have one digest."""
    item = keyed(attributes)
    other = dict(reversed([*keyed(attributes).items()]))
    assert item_digest({**item, "_w": "one"}) == item_digest({**other, "_w": "two", "_closing": 5})


@given(ITEMS, st.text("abc", min_size=1, max_size=3), VALUES)
def test_a_change_changes_the_digest(attributes: Item, name: str, value: object) -> None:
    """An item with another value of an attribute has another digest; 1 and 1.0 are one value, 1 and true are two."""
    item, changed = keyed(attributes), keyed({**attributes, name: value})
    same = name in attributes and repr(attributes[name]) == repr(value)
    if same:
        assert item_digest(item) == item_digest(changed)
    assert item_digest(keyed({"a": 1})) == item_digest(keyed({"a": Decimal("1.0")}))
    assert item_digest(keyed({"a": 1})) != item_digest(keyed({"a": True}))
    if name not in attributes:
        assert item_digest(item) != item_digest(changed)


@given(st.lists(ITEMS, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_reading_does_not_count(items: list[Item], random: Random) -> None:
    """The sum of a shard is the same for every order, and differs if an item is left out."""
    digests = [item_digest(keyed(item, number)) for number, item in enumerate(items)]
    sums = [DigestSums(), DigestSums(), DigestSums()]
    place = hash_key_parts("user!00")
    assert place is not None
    for digest in digests:
        sums[0].add(place, digest)
    random.shuffle(digests)
    for digest in digests:
        sums[1].add(place, digest)
    for digest in digests[1:]:
        sums[2].add(place, digest)
    assert sums[0].differing(sums[1]) == set()
    assert sums[0].differing(sums[2]) == ({("user", "00")} if digests else set())


async def test_engines_return_items_with_one_digest(tmp_path: Path, dynamodb: Server) -> None:
    """Values of all types have the same digest before they are stored, and as each engine returns them."""
    items = [keyed({"value": value}, number) for number, value in enumerate(STORED)]
    expected = sorted(map(item_digest, items))
    stores: list[Store] = [await open_sqlite(tmp_path / "digests.db"), await dynamodb.open(f"digests-{uuid4().hex}")]
    for store in stores:
        await store.ensure_table(CATALOG.table_definition())
        assert not any(await store.write([Put(item) for item in items]))
        assert sorted(map(item_digest, await all_items(store))) == expected
        await store.close()
