"""The keys of records are those that each index has alone, whatever indexes share."""

from collections.abc import Sequence
from itertools import islice
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Int32, Shards, SubId, Timestamp, canonical, derived, desc
from graphql_api.codecs import encode_tuple, hash_key, join_segments
from graphql_api.examples import issues, orders, users
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec
from graphql_api.writes.item_keys import to_item
from tests.laws import completion_catalogs
from tests.support import all_types_catalog
from tests.support.run_depth import depth


class Shared(Entity, shards=Shards(1).then(7, since=1_000)):
    """Has indexes that share values, hash values and parts of their sort order, and may lack some of them."""

    shared_id: Id[str]
    at: SubId[Int32]
    created: Created[Timestamp]
    town: str | None = None
    rank: Int32 | None = None
    code: str = "c"
    code_canonical: str = derived(canonical, "code")

    by_town = Index(hash="town", sort="created")
    by_town_rank = Index(hash=["town", "rank"], sort=desc("created"))
    by_rank = Index(sort=["rank", desc("created")])
    by_code = Index(sort=["code_canonical", "rank"])


CATALOG = Catalog(Shared)
TOWNS = (None, "", "Bern", "B|e#r!n/%", "é", "t" * 300)


def shared_records(random: Random, count: int) -> list[Entity]:
    """Return records of which some are not in every index."""
    return [
        Shared(
            shared_id=random.choice(("a", "b\x01", "ü")),
            at=number,
            created=random.randrange(2_000),
            town=random.choice(TOWNS),
            rank=random.choice((None, 0, -5, 7)),
            code=random.choice(("C", "Ç d", "\x02")),
        )
        for number in range(count)
    ]


def values_of(record: Entity, parts: Sequence[PropertySpec]) -> list[Any]:
    """Return the values of these properties."""
    return [getattr(record, part.name) for part in parts]


def keys_of(entity: EntitySpec, index: IndexSpec, record: Entity, tenant: str | None) -> dict[str, Any]:
    """Return the key attributes that one index gives a record, from nothing but the formats of keys."""
    hash_values, range_values = values_of(record, index.hash), values_of(record, index.range_properties)
    if None in hash_values or "" in hash_values or (range_values and range_values[0] is None):
        return {}
    encoded = [part.column.encode(value) for part, value in zip(index.hash, hash_values, strict=True)]
    ids = [part.column.encode(value) for part, value in zip(entity.ids, values_of(record, entity.ids), strict=True)]
    created = None if entity.created is None else getattr(record, entity.created.name)
    places = encoded if index.sharded_like_parent else ids
    ordinal = index.space.ordinal(join_segments(places), index.space.generation_at(created))
    named = [(part.stored, text) for part, text in zip(index.hash, encoded, strict=True)]
    range_value = (
        index.sort[0].property.column.codec.store(range_values[0])
        if index.raw
        else encode_tuple(index.columns, range_values)
    )
    hash_text = hash_key(index.hash_entity, index.space.shard_text(ordinal), named, tenant)
    return {index.hash_attribute: hash_text, index.range_attribute: range_value}


@pytest.mark.parametrize("tenant", [None, "te|nant"])
def test_keys_are_those_of_each_index_alone(random: Random, tenant: str | None) -> None:
    """For records of all kinds, the key attributes of an item are those of its indexes, and no others."""
    samples: list[tuple[Catalog, Sequence[Entity]]] = [
        (users.catalog, [*users.sample(20)]),
        (orders.catalog, [*islice(orders.sample(4), 60)]),
        (issues.catalog, [*islice(issues.sample(6), 60)]),
        (completion_catalogs.CATALOG, completion_catalogs.RECORDS),
        (all_types_catalog.CATALOG, [all_types_catalog.Line(order="o", year=1, category="c", num=2)]),
        (CATALOG, shared_records(random, depth(quick=150, deep=5_000))),
    ]
    for catalog, records in samples:
        for record in records:
            entity = catalog.entity(type(record))
            item = to_item(entity, record, tenant, "w")
            expected: dict[str, Any] = {}
            for index in entity.indexes.values():
                if index.lookup is None:
                    expected |= keys_of(entity, index, record, tenant)
            stored = {part.stored for part in entity.properties.values()}
            assert {name: value for name, value in item.items() if name not in stored | {"_w"}} == {
                name: value for name, value in expected.items() if name not in stored
            }
