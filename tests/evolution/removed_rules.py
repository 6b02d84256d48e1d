"""Removes one rule of the protocol from the code, to show that the law fails without it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import PropertyMock, patch

from graphql_api.evolution import migration, pass_runner, shard_generations, table_opening
from graphql_api.evolution.derived_versions import DerivedVersions
from graphql_api.evolution.element_states import ElementStates
from graphql_api.evolution.migration_pass import TablePass, rewritten_indexes
from graphql_api.evolution.migration_plan import WaitTimes
from graphql_api.evolution.schema_copy import SchemaCopy, read_copy
from graphql_api.evolution.table_record import EPOCH_KEY, RecordedElement, TableRecord, read_epoch
from graphql_api.evolution.table_schema import LeasedSchema, TableSchema
from graphql_api.model import Catalog, EntitySpec, IndexSpec
from graphql_api.storage import Put, Store
from graphql_api.writes import commit_transaction, entity_records, item_at
from tests.evolution.late_store import LEASE, LIFE, MARGIN, ServerStore


async def _latest(schema: LeasedSchema) -> SchemaCopy:
    return schema.latest


async def _held(schema: LeasedSchema, copy: SchemaCopy) -> bool:
    return True


async def _renew(schema: LeasedSchema) -> None:
    if (await read_epoch(schema._store))["epoch"] != schema.latest.record.epoch:
        schema.latest = await read_copy(schema._store, schema._declared, schema._clocks)
    schema.latest = replace(schema.latest, asked_at=schema._clocks())


async def _save(store: Store, _: TableRecord | None, new: TableRecord) -> bool:
    await commit_transaction(store, [Put(new.to_item()), Put(item_at(EPOCH_KEY, {"epoch": new.epoch}))])
    return True


async def _find(*_: Any) -> None:
    """Finds nothing in indexes."""


def _new_indexes(catalog: Catalog, elements: Sequence[RecordedElement]) -> list[IndexSpec]:
    return rewritten_indexes(catalog, [one for one in elements if one.element.kind == "index"])


def _built_current(states: ElementStates, entity: str) -> RecordedElement | None:
    return next((one for one in states.of(entity, "current record") if one.state != "announced"), None)


def _fence(seconds: float) -> list[tuple[Any, str, Any]]:
    return [(WaitTimes, "fence", PropertyMock(return_value=seconds))]


REMOVALS: Mapping[str, list[tuple[Any, str, Any]]] = {
    "a write needs a lease": [
        (LeasedSchema, "_verify", TableSchema._verify),
        (LeasedSchema, "copy_for_writing", _latest),
    ],
    "a write is planned with the newest copy": [
        (TableSchema, "_verify", lambda schema, copy: None),
        (LeasedSchema, "_verify", lambda schema, copy: None),
    ],
    "a read needs a read lease": [
        (LeasedSchema, "copy_for_reading", _latest),
        (LeasedSchema, "held_for_reading", _held),
    ],
    "a lease counts from sending": [(LeasedSchema, "_renew", _renew)],
    "the clock goes on while a process is frozen": [(ServerStore, "clocks", ServerStore.stopping_clocks)],
    "the final pass waits for a lease": _fence(MARGIN + LIFE),
    "the final pass waits for a margin": _fence(LEASE + LIFE),
    "the final pass waits for the life of a request": _fence(LEASE + MARGIN),
    "the final pass waits at all": _fence(0.0),
    "dropping waits for readers": [(WaitTimes, "readers", PropertyMock(return_value=0.0))],
    "readers leave announced current records out": [(ElementStates, "hidden_current", _built_current)],
    "readers search announced generations": [(shard_generations, "SPACE_STATES", ("building", "ready"))],
    "current records are built after a read lease": [(migration, "READERS_PREPARE", frozenset())],
    "generations are built after a read lease": [(migration, "READERS_PREPARE", frozenset())],
    "new properties are announced first": [(table_opening, "is_compared", lambda _: True)],
    "an earlier version waits for readers": [(migration, "superseded_versions", lambda *_: [])],
    "changes of the record are conditional": [(migration, "save_record", _save)],
    "records are found in a new index": [(TablePass, "_find_in_indexes", _find)],
    "records are found under new keys": [(pass_runner, "rewritten_indexes", _new_indexes)],
    "a server with an older catalog stops": [(DerivedVersions, "uncomputable", PropertyMock(return_value=None))],
    "first entries are guarded while current records change": [
        (EntitySpec, "guards_first_entries", PropertyMock(return_value=False))
    ],
    "values of removed properties are refused": [(ElementStates, "unkept_properties", lambda *_: {})],
    "unknown properties survive": [(entity_records, "unknown_attributes", lambda *_: {})],
}


@contextmanager
def removed(rule: str) -> Iterator[None]:
    """Removes a rule within the block."""
    with ExitStack() as stack:
        for owner, name, new in REMOVALS[rule]:
            stack.enter_context(patch.object(owner, name, new))
        yield
