"""Point lookups by the schema of a table: the keys that a record can have, and what cannot be answered yet."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphql_api.clock import Clock
from graphql_api.codecs import MAX_KEY_BYTES, RecordKey, hash_key, join_segments
from graphql_api.errors import ShardQLError
from graphql_api.model import Catalog, EntitySpec, check_generation, tells_generation, unready_error
from graphql_api.query.execution import (
    FetchedRecords,
    LookupGroups,
    PointLookup,
    PointLookups,
    fetch_records,
)
from graphql_api.storage import Key, Store
from graphql_api.writes import encode_id, possible_hash_keys, possible_keys


def point_lookup(
    spec: EntitySpec,
    values: Sequence[Any],
    generation: int | None,
    tenant: str | None,
    *,
    consistent: bool,
    why: str | None = None,
) -> PointLookup:
    """Return the lookup of the record with these values of its whole primary key."""
    keys = _keys(spec, values, tenant, generation)
    return PointLookup(spec, keys, consistent, why, values, generation)


def _keys(spec: EntitySpec, values: Sequence[Any], tenant: str | None, generation: int | None) -> list[Key]:
    """Return the keys that a record can have: none for a current record that only other catalogs declare."""
    keys = possible_keys(spec, values, tenant, placed_generation(spec, generation))
    return [] if spec.declared_current is None and spec.current is not None and values[-1] == spec.current else keys


def point_lookups(
    spec: EntitySpec, rows: Sequence[Sequence[Any]], tenant: str | None, *, consistent: bool, why: str | None
) -> PointLookups | None:
    """Return the lookups of the records with these checked values of their primary keys.

    None if a key is invalid or unusually long: look up each alone.
    """
    columns = spec.indexes["by_id"].columns
    if not columns or spec.current is not None:
        return None
    segments = [column.segments(values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)]
    if any("" in row for row in rows):
        return None
    range_keys = [*map(join_segments, zip(*segments, strict=True))]
    if max(map(len, range_keys), default=0) * _MAX_CHARACTER_BYTES > MAX_KEY_BYTES:
        return None
    ids, only_generation = len(spec.ids), len(spec.space.generations) == 1
    if only_generation and spec.space.generations[0].size == 1:
        hash_key_text = hash_key(spec.name, spec.space.shard_text(0), (), tenant)
        keys = [[Key(hash_key_text, range_key)] for range_key in range_keys]
    else:
        hash_keys = (possible_hash_keys(spec, encode_id(spec, row[:ids]), tenant) for row in rows)
        keys = [[Key(text, one) for text in texts] for texts, one in zip(hash_keys, range_keys, strict=True)]
    return PointLookups(spec, keys, rows, consistent=consistent, why=why)


_MAX_CHARACTER_BYTES = 4


def placed_generation(spec: EntitySpec, generation: int | None) -> int | None:
    """Return the shard generation in a record key, or None if it does not tell where the record is.

    The key of a record in a pending generation has the generation of the catalog, and the record is in an earlier one.
    If the catalog lacks a generation of the table, keys have the last one that it declares.
    """
    return generation if tells_generation(spec, generation) else None


def renewed_lookups(catalog: Catalog, lookups: Sequence[PointLookup], tenant: str | None) -> Sequence[PointLookup]:
    """Return lookups as a catalog requires them, which may be another one than they were made for."""
    if isinstance(lookups, LookupGroups):
        return LookupGroups([renewed_lookups(catalog, group, tenant) for group in lookups.groups])
    if isinstance(lookups, PointLookups) and lookups.entity is catalog.entity(lookups.entity.model):
        return lookups
    renewed: list[PointLookup] = []
    for lookup in lookups:
        spec = catalog.entity(lookup.entity.model)
        if lookup.entity is spec:
            renewed.append(lookup)
        else:
            keys = _keys(spec, lookup.values, tenant, lookup.generation)
            renewed.append(replace(lookup, entity=spec, keys=keys))
    return renewed


async def fetch_answerable(store: Store, lookups: Sequence[PointLookup], clock: Clock) -> FetchedRecords:
    """Fetch the records of lookups. Those that the table cannot answer yet have an error as result."""
    groups = lookups.groups if isinstance(lookups, LookupGroups) else [lookups]
    if all(isinstance(group, PointLookups) and _has_no_problem(group) for group in groups):
        return await fetch_records(store, lookups, clock)
    problems = {at: problem for at, lookup in enumerate(lookups) if (problem := _find_problem(lookup)) is not None}
    if not problems:
        return await fetch_records(store, lookups, clock)
    answerable = [lookup for at, lookup in enumerate(lookups) if at not in problems]
    fetched = await fetch_records(store, answerable, clock) if answerable else FetchedRecords([])
    found = iter(fetched.results)
    return replace(fetched, results=[problems[at] if at in problems else next(found) for at in range(len(lookups))])


def _has_no_problem(lookups: PointLookups) -> bool:
    """Return whether the table certainly answers all lookups."""
    return lookups.entity.recorded is None or lookups.entity.recorded.current is None


def _find_problem(lookup: PointLookup) -> ShardQLError | None:
    spec, generation = lookup.entity, lookup.generation
    if generation is not None and generation >= len(spec.space.generations):
        try:
            check_generation(spec, RecordKey(spec.name, tuple(lookup.values), generation=generation))
        except ShardQLError as problem:
            return problem
    status = None if spec.recorded is None else spec.recorded.current
    if status is None or lookup.values[-1] != spec.current:
        return None
    return unready_error(status, f"A current {spec.type_name} needs")
