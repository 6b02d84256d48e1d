"""Maintain the record that a table keeps about itself: its format, shard generations and index entry formats.

docs/table-format.md specifies the record.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from graphql_api import codecs
from graphql_api.codecs import hash_key, parse_hash_key
from graphql_api.errors import ConditionFailed, Conflict, GenerationTooEarly, StoreUnavailable, WrongTable
from graphql_api.evolution.table_differences import refuse_differences
from graphql_api.model import Catalog, EntitySpec, IndexSpec
from graphql_api.storage import Expect, Item, Key, Put, Store
from graphql_api.writes import commit_transaction, new_write_id

TABLE_FORMAT = 1
TABLE_RECORD_ENTITY = "shardql"
TABLE_RECORD_KEY = Key(hash_key(TABLE_RECORD_ENTITY, ""), "table#meta")
_MAX_ATTEMPTS = 10


async def prepare_table(
    store: Store, catalog: Catalog, now: float, *, create_table: bool = True, read_only: bool = False
) -> None:
    """Create or verify the table of a catalog, and update the record that it keeps about itself.

    A table without a record accepts all declared shard generations. A table that does not fit the catalog is refused
    and stays unchanged. Without `create_table`, a missing table or index is an error. With `read_only`, nothing is
    written: the first process that may write updates the record.
    """
    definition = catalog.table_definition()
    stored_definition = await store.describe()
    if not create_table:
        refuse_differences(stored_definition, definition)
    elif stored_definition is None:
        await store.ensure_table(definition)
    for _ in range(_MAX_ATTEMPTS):
        (item,) = await store.get_many([TABLE_RECORD_KEY], consistent=True)
        if item is not None and item.get("format") != TABLE_FORMAT:
            raise WrongTable(
                f"The table has format {item.get('format')!r}, and this release reads format {TABLE_FORMAT}: use the "
                "release that wrote it, or migrate."
            )
        record = TableRecord.from_item(item)
        for problem in changed_index_entries(record.indexes, catalog):
            raise WrongTable(problem)
        spaces, indexes = dict(record.spaces), dict(record.indexes)
        for entity in catalog.entities.values():
            if entity.name in spaces:
                await _check_growth(store, catalog, entity, spaces[entity.name], now)
            spaces[entity.name] = recorded_space(entity)
            indexes[entity.name] = {**indexes.get(entity.name, {}), **index_entry_formats(entity)}
        if create_table:
            await store.ensure_table(definition)
        updated = TableRecord(spaces, indexes)
        if updated == record or read_only:
            return
        try:
            await _write_record(store, updated, item)
        except (ConditionFailed, Conflict):
            continue  # Another process wrote the record first: read it again.
        return
    raise StoreUnavailable("Other processes keep changing the record of the table: retry.")


@dataclass(frozen=True, slots=True)
class TableRecord:
    """The content of the record, by the names of entities in hash keys."""

    spaces: Mapping[str, Any]
    """applied shard generations"""
    indexes: Mapping[str, Mapping[str, str]]
    """entry format of each index, by physical name; `id` is the table itself"""

    @staticmethod
    def from_item(item: Item | None) -> "TableRecord":
        """Decode the stored record; empty if the table has none."""
        return TableRecord({}, {}) if item is None else TableRecord(item["spaces"], item.get("indexes", {}))


async def _write_record(store: Store, record: TableRecord, previous: Item | None) -> None:
    """Write the record, on the condition that it is still the previous one."""
    stored = {} if previous is None else previous
    expected = {name: stored[name] for name in ("spaces", "indexes") if name in stored}
    condition = Expect(attributes=expected) if expected else Expect(absent=True)
    item = {
        "hashKey": TABLE_RECORD_KEY.hash,
        "rangeKey": TABLE_RECORD_KEY.range,
        "format": TABLE_FORMAT,
        "spaces": dict(record.spaces),
        "indexes": dict(record.indexes),
        "_w": new_write_id(),
    }
    await commit_transaction(store, [Put(item, condition)])


def recorded_space(entity: EntitySpec) -> dict[str, Any]:
    """Return the declared shard space of an entity as the record stores it."""
    space = entity.space
    return {
        "width": space.width,
        "function": space.function,
        "generations": [
            {"size": generation.size}
            | ({} if generation.since is None else {"since": _format(entity, generation.since)})
            for generation in space.generations
        ],
    }


def index_entry_formats(entity: EntitySpec) -> dict[str, str]:
    """Return the entry format of each index of an entity, as text that is stored and compared."""
    return {index.physical or "id": _entry_format(index) for index in entity.indexes.values()}


def _entry_format(index: IndexSpec) -> str:
    """Return `userBeneficiaryHashKey: user, beneficiaryId text; createdRangeKey: created timestamp, userId text`."""
    hashed = [index.hash_entity, *(f"{part.stored} {part.column.codec.name}" for part in index.hash)]
    columns = (index.sort[0].column,) if index.raw else index.columns
    ordered = [f"{column.name} {column.codec.name}{' desc' if column.descending else ''}" for column in columns]
    raw = " raw" if index.raw else ""
    return f"{index.hash_attribute}: {', '.join(hashed)}; {index.range_attribute}{raw}: {', '.join(ordered)}"


def changed_index_entries(recorded: Mapping[str, Mapping[str, str]], catalog: Catalog) -> Iterator[str]:
    """Return a message for each index whose stored entries have another format: searches would miss those entries."""
    for entity in catalog.entities.values():
        stored_formats = recorded.get(entity.name, {})
        for index in entity.indexes.values():
            stored, declared = stored_formats.get(index.physical or "id"), _entry_format(index)
            if stored not in {None, declared}:
                yield (
                    f"The entries of {entity.type_name}.{index.attribute} are stored as {stored}, and the catalog "
                    f"declares {declared}: declare the new order as an index with another name, or use a new table."
                )


def _format(entity: EntitySpec, created: Any) -> str:
    return entity.created.column.codec.format(created) if entity.created is not None else ""


async def _check_growth(
    store: Store, catalog: Catalog, entity: EntitySpec, applied: Mapping[str, Any], now: float
) -> None:
    """Verify that the applied generations are unchanged, and that new ones start after every stored record."""
    declared = recorded_space(entity)
    if (applied["width"], applied["function"]) != (declared["width"], declared["function"]):
        raise WrongTable(
            f"{entity.type_name} was stored with shards of width {applied['width']} by {applied['function']}, and the "
            f"catalog declares width {declared['width']} by {declared['function']}: these can never change."
        )
    generations: Sequence[Any] = applied["generations"]
    if declared["generations"][: len(generations)] != [*generations]:
        raise WrongTable(
            f"{entity.type_name} was stored with the shard generations {describe_generations(generations)}, and the "
            f"catalog declares {describe_generations(declared['generations'])}: keep the applied generations, and "
            "append new ones with then(…)."
        )
    added = entity.space.generations[len(generations) :]
    if added:
        await _check_start(store, catalog, entity, added[0].since, now)


async def _check_start(store: Store, catalog: Catalog, entity: EntitySpec, since: Any, now: float) -> None:
    current = _creation_value_at(entity, now)
    if current is not None and since <= current:
        raise GenerationTooEarly(
            f"{entity.type_name} gets a shard generation since {_format(entity, since)}, which is not in the future: "
            "records may exist since then. Set a start after every server has the new catalog."
        )
    latest = await _latest_creation(store, catalog, entity)
    if latest is not None and since <= latest:
        raise GenerationTooEarly(
            f"{entity.type_name} gets a shard generation since {_format(entity, since)}, and a record in its shards "
            f"was created at {_format(entity, latest)}: set a later start."
        )


_CREATION_VALUE: Mapping[type[codecs.Codec[Any]], Callable[[float], Any]] = {
    codecs.Timestamp: int,
    codecs.TimestampMs: lambda now: int(now * 1000),
    codecs.DateTime: lambda now: datetime.fromtimestamp(now, UTC),
    codecs.Date: lambda now: datetime.fromtimestamp(now, UTC).date(),
}
"""Convert the current time to a creation value; plain numbers and texts have no time."""


def _creation_value_at(entity: EntitySpec, now: float) -> Any | None:
    convert = _CREATION_VALUE.get(type(entity.created.column.codec)) if entity.created is not None else None
    return convert(now) if convert is not None else None


async def _latest_creation(store: Store, catalog: Catalog, entity: EntitySpec) -> Any | None:
    """Return the greatest stored creation value of all tenants; this scans the whole table, once for each growth.

    Records of entities with an index in the shards of this entity count too, by their own creation values.
    """
    creations = {
        spec.name: spec.created
        for spec in catalog.entities.values()
        if spec.created is not None and (spec is entity or _is_child(spec, entity))
    }
    latest, after = None, None
    while True:
        page = await store.scan(0, 1, after)
        for item in page.items:
            created = creations.get(parse_hash_key(item["hashKey"]).head)
            if created is not None and created.stored in item:
                value = created.column.codec.load(item[created.stored])
                latest = value if latest is None else max(latest, value)
        if page.after is None:
            return latest
        after = page.after


def _is_child(spec: EntitySpec, parent: EntitySpec) -> bool:
    return any(index.sharded_like_parent and index.hash_entity == parent.name for index in spec.indexes.values())


def describe_generations(generations: Sequence[Mapping[str, Any]]) -> str:
    """Format recorded generations: `1, 16 since 1767225600`."""
    return ", ".join(
        f"{generation['size']} since {generation['since']}" if "since" in generation else f"{generation['size']}"
        for generation in generations
    )
