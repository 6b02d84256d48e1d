"""The shard space of an entity, by the generations that the table's record holds."""

from collections.abc import Iterable, Iterator
from typing import Any

from graphql_api.codecs import Codec
from graphql_api.evolution.elements import Data, Element, part_from_data
from graphql_api.evolution.table_record import RecordedElement, TableRecord
from graphql_api.sharding import Generation, ShardSpace

SPACE_STATES = ("announced", "building", "ready")
"""states of the generations that readers include"""


def recorded_space(entity: Data, generations: Iterable[RecordedElement]) -> ShardSpace:
    """Return the shard space of an entity. Generations are pending from the first one on that is not ready."""
    later = sorted((one for one in generations if one.state in SPACE_STATES), key=_number)
    added = [*_growing(later)]
    ready = next((number for number, (_, is_ready) in enumerate(added) if not is_ready), len(added))
    return ShardSpace(
        (Generation(None, int(entity["size"])), *(generation for generation, _ in added)),
        int(entity["width"]),
        entity["function"],
        pending=len(added) - ready,
    )


def _growing(later: Iterable[RecordedElement]) -> Iterator[tuple[Generation, bool]]:
    """Yield generations, and whether each is ready, as long as each follows the one before and begins later."""
    last = None
    for number, recorded in enumerate(later, 1):
        _, since = beginning(recorded.element)
        if recorded.element.name != f"{number}" or not (last is None or last < since):
            return
        yield Generation(since, int(recorded.element.definition["size"])), recorded.state == "ready"
        last = since


def recorded_generations(record: TableRecord, entity: str) -> list[RecordedElement]:
    """Return the later generations of an entity, in order."""
    return sorted((one for one in record.of_entity(entity) if one.element.kind == "generation"), key=_number)


def describe_generations(record: TableRecord, entity: str) -> str:
    """Format the generations of an entity: `1, 16 since 2026-01-01`."""
    sizes = [f"{int(record.entities[entity]['size'])}"]
    for recorded in recorded_generations(record, entity):
        codec, since = beginning(recorded.element)
        sizes.append(f"{int(recorded.element.definition['size'])} since {codec.display(since)}")
    return ", ".join(sizes)


def beginning(generation: Element) -> tuple[Codec[Any], Any]:
    """Return the codec of creation values, and the first one of a generation."""
    codec: Codec[Any] = part_from_data(generation.definition["created"]).column.codec
    return codec, codec.parse(generation.definition["since"])


def _number(generation: RecordedElement) -> int:
    return int(generation.element.name)
