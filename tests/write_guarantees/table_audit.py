"""Audits a whole table: every record has its keys, and constraint items match the records exactly."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from graphql_api.codecs.hash_keys import parse_hash_key
from graphql_api.database import Database
from graphql_api.model.catalog import Catalog
from graphql_api.model.record_codec import decode_record
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.storage.values import Item, Key
from graphql_api.writes.item_keys import WRITE_ID, item_key, to_item
from tests.support.store_doubles import all_items

OWNER, LAST_NUMBER, DELETE_INTENT = "_owner", "_last", "_closing"
EncodedValues = tuple[tuple[str, str], ...]
"""stored names and encoded values"""


@dataclass
class Table:
    """The items of one tenant by type."""

    records: dict[str, list[Item]] = field(default_factory=dict)
    """by entity"""
    unique: dict[tuple[str, str, EncodedValues], Item] = field(default_factory=dict)
    """by entity, constraint and values"""
    references: dict[tuple[str, EncodedValues], list[Item]] = field(default_factory=dict)
    """by referenced entity and id"""
    counters: dict[tuple[str, EncodedValues], int] = field(default_factory=dict)
    """last numbers, by entity and group"""
    responses: list[Item] = field(default_factory=list)
    """responses stored under idempotency keys"""


def classify_items(items: Sequence[Item], tenant: str | None) -> Table:
    """Classifies the items of a tenant. An unknown item fails the test."""
    table = Table()
    for item in items:
        parts = parse_hash_key(item["hashKey"])
        if parts.tenant != tenant:
            continue
        head, _, item_type = parts.head.partition("~")
        if item_type == "unique":
            table.unique[head, item["rangeKey"], parts.values] = item
        elif item_type == "refs":
            table.references.setdefault((head, parts.values), []).append(item)
        elif item_type == "counter":
            table.counters[head, parts.values] = int(item[LAST_NUMBER])
        elif item_type == "once":
            table.responses.append(item)
        elif item_type or head != "shardql":
            assert not item_type, f"unknown item {item}"
            table.records.setdefault(head, []).append(item)
    return table


async def check_table(db: Database, *, allow_delete_intents: bool = False) -> Table:
    """Audits the tenant of a database while there are no writes, and returns its items."""
    table = classify_items(await all_items(db.store), db.tenant)
    check(db.catalog, table, db.tenant, allow_delete_intents=allow_delete_intents)
    return table


def check(catalog: Catalog, table: Table, tenant: str | None, *, allow_delete_intents: bool = False) -> None:
    """Checks that keys, unique items, reference items and counters match the records exactly.

    `allow_delete_intents`: a record may have the delete intent of an aborted deletion.
    """
    specs = {spec.name: spec for spec in catalog.entities.values()}
    unique: dict[tuple[str, str, EncodedValues], Key] = {}
    references: list[tuple[str, EncodedValues, Key]] = []
    for name, items in table.records.items():
        spec = specs[name]
        _check_records(spec, items, tenant, {DELETE_INTENT} if allow_delete_intents else set())
        for item in items:
            for one in spec.unique:
                values = _encoded_values(one.parts, one.parts, item)
                if values is not None:
                    assert (name, one.name, values) not in unique, f"two records have {one.name} {values}"
                    unique[name, one.name, values] = item_key(item)
            for foreign_key in spec.foreign_keys:
                values = _encoded_values(foreign_key.parent.ids, foreign_key.by, item)
                is_self_reference = foreign_key.parent.name == name and values == _encoded_values(
                    spec.ids, spec.ids, item
                )
                if values is not None and not is_self_reference:
                    references.append((foreign_key.parent.name, values, item_key(item)))
            for part in spec.counters:
                group = [spec.properties[one] for one in part.counter_group or ()]
                group_values = tuple(
                    (one.stored, one.column.encode(one.column.codec.load(item[one.stored]))) for one in group
                )
                assert item[part.stored] <= table.counters[name, group_values], f"{item} is above its counter"
    unique_found = {unique_key: _owner(item) for unique_key, item in table.unique.items()}
    assert unique_found == unique, (
        f"orphaned: {unique_found.items() - unique.items()}, missing: {unique.items() - unique_found.items()}"
    )
    found = Counter(
        (*reference_key, _owner(item)) for reference_key, items in table.references.items() for item in items
    )
    expected_references = Counter(references)
    assert found == expected_references, (
        f"orphaned: {found - expected_references}, missing: {expected_references - found}"
    )
    existing = {
        (name, _encoded_values(specs[name].ids, specs[name].ids, item))
        for name, items in table.records.items()
        for item in items
    }
    assert [reference_key for *reference_key, _ in references if tuple(reference_key) not in existing] == []


def _check_records(spec: EntitySpec, items: Sequence[Item], tenant: str | None, ignored: AbstractSet[str]) -> None:
    """Checks that each record has exactly the keys of its values, and that each id exists once."""
    range_keys = Counter(item["rangeKey"] for item in items)
    assert [range_key for range_key, times in range_keys.items() if times > 1] == []
    for item in items:
        expected = to_item(spec, decode_record(spec, item), tenant, item[WRITE_ID])
        found = {name: value for name, value in item.items() if name not in ignored}
        assert found == dict(expected), f"a record of {spec.name} has wrong keys"


def _encoded_values(
    names: Sequence[PropertySpec], parts: Sequence[PropertySpec], item: Mapping[str, Any]
) -> EncodedValues | None:
    """Returns the encoded values of properties, or None if one of them is null."""
    if any(item.get(part.stored) is None for part in parts):
        return None
    return tuple(
        (name.stored, part.column.encode(part.column.codec.load(item[part.stored])))
        for name, part in zip(names, parts, strict=True)
    )


def _owner(item: Item) -> Key:
    hash_key, range_key = item[OWNER]
    return Key(hash_key, range_key)
