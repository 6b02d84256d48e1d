"""Unit tests of projections: given events, return the operations, the records and the dead letters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from graphql_api.codecs import hash_key_parts
from graphql_api.database import Database
from graphql_api.errors import InvalidEvent
from graphql_api.model import HASH_ATTRIBUTE, Catalog, Entity, decode_record
from graphql_api.operations import Operation
from graphql_api.projections.event_envelopes import Envelope, parse_envelope
from graphql_api.projections.projection_functions import Projection
from graphql_api.projections.stream_projector import StreamProjector
from graphql_api.query import TokenSeal
from graphql_api.storage import Store
from graphql_api.storage.engines import MemoryStore
from graphql_api.writes import item_key

E = TypeVar("E", bound=Entity)

GivenEvent = BaseModel | Mapping[str, Any] | tuple[str, BaseModel]
"""an event of the only stream, an envelope, or the name of a stream with an event"""


@dataclass(frozen=True, slots=True)
class ProjectedEvents:
    """The result of events: operations, records and dead letters."""

    operations: Sequence[Sequence[Operation]]
    """of each event, in the order of the events; none for those that are dead letters"""
    records: Sequence[Entity]
    """all records at the end, by entity and key"""
    dead_letters: Mapping[tuple[str, int], str]
    """why an event was not applied, by stream and number"""

    def records_of(self, entity: type[E]) -> list[E]:
        """Return the records of one entity."""
        return [record for record in self.records if isinstance(record, entity)]


async def project_events(
    catalog: Catalog, projections: Projection | Sequence[Projection], events: Iterable[GivenEvent]
) -> ProjectedEvents:
    """Apply events to an empty table, and return the result: for unit tests of projections.

    Events without an envelope are numbered in the order in which they are given, in each stream.
    """
    applied = [projections] if isinstance(projections, Projection) else [*projections]
    envelopes = [*_envelopes(events, applied[0].first_seq)]
    store = MemoryStore()
    await store.ensure_table(catalog.table_definition())
    database = Database(catalog, store, TokenSeal([TokenSeal.new_secret()]))
    dead: dict[tuple[str, int], str] = {}
    for projection in applied:
        dead |= await _apply(StreamProjector(database, projection), envelopes)
    operations = [[*_operations(applied, envelope)] for envelope in envelopes]
    return ProjectedEvents(operations, await _records(catalog, store), dead)


def _envelopes(events: Iterable[GivenEvent], first_seq: int) -> Iterator[Envelope]:
    last: dict[str, int] = {}
    for given in events:
        if isinstance(given, Mapping):
            yield parse_envelope(dict(given))
            continue
        stream, event = ("", given) if isinstance(given, BaseModel) else given
        seq = last[stream] = last.get(stream, first_seq - 1) + 1
        data = event.model_dump(mode="json", by_alias=True)
        yield parse_envelope({"stream": stream, "seq": seq, "type": data.pop("type"), "data": data})


def _operations(projections: Sequence[Projection], envelope: Envelope) -> Iterator[Operation]:
    for projection in projections:
        try:
            yield from projection.operations(envelope)
        except InvalidEvent:
            continue


async def _apply(projector: StreamProjector, envelopes: Sequence[Envelope]) -> dict[tuple[str, int], str]:
    """Apply the events of all streams. Return the reasons of dead letters. Raise `InvalidEvent` for a missing event."""
    dead: dict[tuple[str, int], str] = {}
    for stream in dict.fromkeys(envelope.stream for envelope in envelopes):
        result = await projector.apply(stream, [one for one in envelopes if one.stream == stream])
        dead |= {(stream, envelope.seq): problem.message for envelope, problem in result.dead}
        if result.waiting and not result.is_stopped:
            raise InvalidEvent(f"The event {result.expected} of the stream {stream!r} is missing: provide it.")
    return dead


async def _records(catalog: Catalog, store: Store) -> list[Entity]:
    """Return all records of a table, by entity and key."""
    found, after, is_first = [], None, True
    while is_first or after is not None:
        page = await store.scan(0, 1, after)
        for item in page.items:
            parts = hash_key_parts(item[HASH_ATTRIBUTE])
            if parts is not None and not parts.kind and parts.entity in catalog.entities:
                found.append((parts.entity, item_key(item).range, item))
        after, is_first = page.after, False
    order = [*catalog.entities]
    found.sort(key=lambda one: (order.index(one[0]), one[1]))
    return [decode_record(catalog.entities[entity], item) for entity, _, item in found]
