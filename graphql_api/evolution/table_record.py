"""What a table records about itself: its format, the applied shard generations, what index entries are made of.

docs/table-format.md says how.
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
from graphql_api.writes import commit, new_write_id

TABLE_FORMAT = 1
META_ENTITY = "shardql"
META_KEY = Key(hash_key(META_ENTITY, ""), "table#meta")
_ATTEMPTS = 10


async def admit_table(
    store: Store, catalog: Catalog, now: float, *, create_table: bool = True, read_only: bool = False
) -> None:
    """Makes sure that there is a table of our format with the catalog's indexes, whose shards have grown as they may.

    A table without a record of itself takes all generations as they are declared; one that does not fit stays as it is.
    Without `create_table` a missing table or index is an error. With `read_only` nothing is written: what the table
    would record of itself is left to the first process that may.
    """
    definition = catalog.table_definition()
    found = await store.describe()
    if not create_table:
        refuse_differences(found, definition)
    elif found is None:
        await store.ensure_table(definition)
    for _ in range(_ATTEMPTS):
        (meta,) = await store.get_many([META_KEY], consistent=True)
        if meta is not None and meta.get("format") != TABLE_FORMAT:
            raise WrongTable(
                f"The table has format {meta.get('format')!r}, and this release reads format {TABLE_FORMAT}: use the "
                "release that wrote it, or migrate."
            )
        recorded = Recorded.of(meta)
        for problem in index_changes(recorded.indexes, catalog):
            raise WrongTable(problem)
        spaces, indexes = dict(recorded.spaces), dict(recorded.indexes)
        for entity in catalog.entities.values():
            if entity.name in spaces:
                await _check_growth(store, catalog, entity, spaces[entity.name], now)
            spaces[entity.name] = space_of(entity)
            indexes[entity.name] = {**indexes.get(entity.name, {}), **entries_of(entity)}
        if create_table:
            await store.ensure_table(definition)
        found_out = Recorded(spaces, indexes)
        if found_out == recorded or read_only:
            return
        try:
            await _record(store, found_out, meta)
        except (ConditionFailed, Conflict):
            continue  # Another process was first: look at what it has recorded.
        return
    raise StoreUnavailable("Other processes keep changing the table's record of itself: try again.")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the table says of its entities, by their names in hash keys."""

    spaces: Mapping[str, Any]
    """the applied shard generations"""
    indexes: Mapping[str, Mapping[str, str]]
    """by physical name what entries are made of; `id` is the table itself"""

    @staticmethod
    def of(meta: Item | None) -> "Recorded":
        """What a record says; a table without one says nothing."""
        return Recorded({}, {}) if meta is None else Recorded(meta["spaces"], meta.get("indexes", {}))


async def _record(store: Store, recorded: Recorded, meta: Item | None) -> None:
    before = {name: meta[name] for name in ("spaces", "indexes") if name in meta} if meta is not None else {}
    expected = Expect(attributes=before) if before else Expect(absent=True)
    item = {
        "hashKey": META_KEY.hash,
        "rangeKey": META_KEY.range,
        "format": TABLE_FORMAT,
        "spaces": dict(recorded.spaces),
        "indexes": dict(recorded.indexes),
        "_w": new_write_id(),
    }
    await commit(store, [Put(item, expected)])


def space_of(entity: EntitySpec) -> dict[str, Any]:
    """The declared shards of an entity as the table records them."""
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


def entries_of(entity: EntitySpec) -> dict[str, str]:
    """What the entries of each index of an entity are made of, in words that are compared for ever."""
    return {index.physical or "id": _entries(index) for index in entity.indexes.values()}


def _entries(index: IndexSpec) -> str:
    """`userBeneficiaryHashKey: user, beneficiaryId text; createdRangeKey: created timestamp, userId text`."""
    hashed = [index.head, *(f"{part.stored} {part.column.codec.name}" for part in index.hash)]
    columns = (index.sort[0].column,) if index.raw else index.columns
    ordered = [f"{column.name} {column.codec.name}{' desc' if column.descending else ''}" for column in columns]
    raw = " raw" if index.raw else ""
    return f"{index.hash_attribute}: {', '.join(hashed)}; {index.range_attribute}{raw}: {', '.join(ordered)}"


def index_changes(recorded: Mapping[str, Mapping[str, str]], catalog: Catalog) -> Iterator[str]:
    """The indexes whose entries were made otherwise than the catalog says: searches would miss the older ones."""
    for entity in catalog.entities.values():
        before = recorded.get(entity.name, {})
        for index in entity.indexes.values():
            made, declared = before.get(index.physical or "id"), _entries(index)
            if made not in {None, declared}:
                yield (
                    f"The entries of {entity.type_name}.{index.attribute} were made as {made}, and the catalog says "
                    f"{declared}: declare the new order as an index of another name, or begin a new table."
                )


def _format(entity: EntitySpec, created: Any) -> str:
    return entity.created.column.codec.format(created) if entity.created is not None else ""


async def _check_growth(
    store: Store, catalog: Catalog, entity: EntitySpec, applied: Mapping[str, Any], now: float
) -> None:
    """What was applied must stand as it is; what comes on top must begin behind everything that exists."""
    declared = space_of(entity)
    if (applied["width"], applied["function"]) != (declared["width"], declared["function"]):
        raise WrongTable(
            f"{entity.type_name} was stored with shards of width {applied['width']} by {applied['function']}, and the "
            f"catalog says width {declared['width']} by {declared['function']}: these can never change."
        )
    before: Sequence[Any] = applied["generations"]
    if declared["generations"][: len(before)] != [*before]:
        raise WrongTable(
            f"{entity.type_name} was stored with the shard generations {in_words(before)}, and the catalog says "
            f"{in_words(declared['generations'])}: keep those that were applied, and add new ones behind them with "
            "then(…)."
        )
    added = entity.space.generations[len(before) :]
    if added:
        await _check_beginning(store, catalog, entity, added[0].since, now)


async def _check_beginning(store: Store, catalog: Catalog, entity: EntitySpec, since: Any, now: float) -> None:
    present = _present(entity, now)
    if present is not None and since <= present:
        raise GenerationTooEarly(
            f"{entity.type_name} gets a shard generation since {_format(entity, since)}, which is not in the future: "
            "records may have been created since. Let it begin after every server knows it."
        )
    latest = await _latest_creation(store, catalog, entity)
    if latest is not None and since <= latest:
        raise GenerationTooEarly(
            f"{entity.type_name} gets a shard generation since {_format(entity, since)}, and there is a record in its "
            f"shards created at {_format(entity, latest)}: let it begin after that."
        )


_PRESENT: Mapping[type[codecs.Codec[Any]], Callable[[float], Any]] = {
    codecs.Timestamp: int,
    codecs.TimestampMs: lambda now: int(now * 1000),
    codecs.DateTime: lambda now: datetime.fromtimestamp(now, UTC),
    codecs.Date: lambda now: datetime.fromtimestamp(now, UTC).date(),
}
"""Now, as creation properties tell time; plain numbers and texts tell none."""


def _present(entity: EntitySpec, now: float) -> Any | None:
    convert = _PRESENT.get(type(entity.created.column.codec)) if entity.created is not None else None
    return convert(now) if convert is not None else None


async def _latest_creation(store: Store, catalog: Catalog, entity: EntitySpec) -> Any | None:
    """The greatest stored creation value, of all tenants: reads the whole table, once for a growth.

    Records of entities that have an index sharded like this one count too: they lie in its shards by their own values.
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
    return any(index.like_parent and index.head == parent.name for index in spec.indexes.values())


def in_words(generations: Sequence[Mapping[str, Any]]) -> str:
    """Recorded generations as people read them: `1, 16 since 1767225600`."""
    return ", ".join(
        f"{generation['size']} since {generation['since']}" if "since" in generation else f"{generation['size']}"
        for generation in generations
    )
