"""Looks over a whole table: every record where it belongs, and nothing that binds records without its record."""

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
from graphql_api.writes.item_keys import WRITE_ID, to_item, item_key
from tests.stores import all_items

OWNER, LAST_NUMBER, DELETE_INTENT = "_owner", "_last", "_closing"
Said = tuple[tuple[str, str], ...]
"""stored names and encoded values"""


@dataclass
class Table:
    """The items of one tenant, by what they are."""

    records: dict[str, list[Item]] = field(default_factory=dict)
    """by entity"""
    unique: dict[tuple[str, str, Said], Item] = field(default_factory=dict)
    """by entity, name and values"""
    references: dict[tuple[str, Said], list[Item]] = field(default_factory=dict)
    """by the entity and the id that they name"""
    counters: dict[tuple[str, Said], int] = field(default_factory=dict)
    """last numbers, by entity and group"""
    kept: list[Item] = field(default_factory=list)
    """answers under idempotency keys"""


def sorted_out(items: Sequence[Item], tenant: str | None) -> Table:
    """The items of a tenant, each in its place; there is none of which nobody knows what it is."""
    table = Table()
    for item in items:
        parts = parse_hash_key(item["hashKey"])
        if parts.tenant != tenant:
            continue
        head, _, what = parts.head.partition("~")
        if what == "unique":
            table.unique[head, item["rangeKey"], parts.values] = item
        elif what == "refs":
            table.references.setdefault((head, parts.values), []).append(item)
        elif what == "counter":
            table.counters[head, parts.values] = int(item[LAST_NUMBER])
        elif what == "once":
            table.kept.append(item)
        elif what or head != "shardql":
            assert not what, f"nobody knows what {item} is"
            table.records.setdefault(head, []).append(item)
    return table


async def check_table(db: Database, *, in_between: bool = False) -> Table:
    """Looks over what the database's tenant has in a table where nobody writes; gives it, sorted out."""
    table = sorted_out(await all_items(db.store), db.tenant)
    check(db.catalog, table, db.tenant, in_between=in_between)
    return table


def check(catalog: Catalog, table: Table, tenant: str | None, *, in_between: bool = False) -> None:
    """Keys, unique values, foreign keys and counters agree with the records, and the other way round.

    `in_between`: a record may have the mark of a removal that was not carried to its end.
    """
    specs = {spec.name: spec for spec in catalog.entities.values()}
    unique: dict[tuple[str, str, Said], Key] = {}
    references: list[tuple[str, Said, Key]] = []
    for name, items in table.records.items():
        spec = specs[name]
        _check_records(spec, items, tenant, {DELETE_INTENT} if in_between else set())
        for item in items:
            for one in spec.unique:
                said = _said(one.parts, one.parts, item)
                if said is not None:
                    assert (name, one.name, said) not in unique, f"two records have {one.name} {said}"
                    unique[name, one.name, said] = item_key(item)
            for foreign_key in spec.foreign_keys:
                said = _said(foreign_key.parent.ids, foreign_key.by, item)
                names_itself = foreign_key.parent.name == name and said == _said(spec.ids, spec.ids, item)
                if said is not None and not names_itself:
                    references.append((foreign_key.parent.name, said, item_key(item)))
            for part in spec.counters:
                group = [spec.properties[one] for one in part.counter_group or ()]
                counted = tuple(
                    (one.stored, one.column.encode(one.column.codec.load(item[one.stored]))) for one in group
                )
                assert item[part.stored] <= table.counters[name, counted], f"{item} is beyond its counter"
    held = {place: _owner(item) for place, item in table.unique.items()}
    assert held == unique, f"held: {held.items() - unique.items()}, not held: {unique.items() - held.items()}"
    found = Counter((*place, _owner(item)) for place, items in table.references.items() for item in items)
    named = Counter(references)
    assert found == named, f"left behind: {found - named}, missing: {named - found}"
    there = {
        (name, _said(specs[name].ids, specs[name].ids, item)) for name, items in table.records.items() for item in items
    }
    assert [place for *place, _ in references if tuple(place) not in there] == []


def _check_records(spec: EntitySpec, items: Sequence[Item], tenant: str | None, beside: AbstractSet[str]) -> None:
    """Each record has the keys that its values make, all of them and no others, and an id lives in one place."""
    places = Counter(item["rangeKey"] for item in items)
    assert [place for place, times in places.items() if times > 1] == []
    for item in items:
        wanted = to_item(spec, decode_record(spec, item), tenant, item[WRITE_ID])
        found = {name: value for name, value in item.items() if name not in beside}
        assert found == dict(wanted), f"a record of {spec.name} has keys that are not its own"


def _said(named: Sequence[PropertySpec], parts: Sequence[PropertySpec], item: Mapping[str, Any]) -> Said | None:
    """The values of properties as keys say them; None as soon as one of them is null."""
    if any(item.get(part.stored) is None for part in parts):
        return None
    return tuple(
        (name.stored, part.column.encode(part.column.codec.load(item[part.stored])))
        for name, part in zip(named, parts, strict=True)
    )


def _owner(item: Item) -> Key:
    hash_key, range_key = item[OWNER]
    return Key(hash_key, range_key)
