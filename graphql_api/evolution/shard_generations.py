"""The shard space of an entity, by the generations that the table's record holds."""

from collections.abc import Iterable, Iterator

from graphql_api.codecs import Codec
from graphql_api.evolution.elements import Data, part_from_data
from graphql_api.evolution.table_record import RecordedElement
from graphql_api.sharding import Generation, ShardSpace

SPACE_STATES = ("announced", "building", "ready")
"""states of the generations that readers include"""


def recorded_space(entity: Data, generations: Iterable[RecordedElement]) -> ShardSpace:
    """Return the shard space of an entity. Generations are pending from the first one on that is not ready."""
    later = sorted((one for one in generations if one.state in SPACE_STATES), key=lambda one: int(one.element.name))
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
        data = recorded.element.definition
        codec: Codec[object] = part_from_data(data["created"]).column.codec
        since = codec.parse(data["since"])
        if recorded.element.name != f"{number}" or not (last is None or last < since):  # type: ignore[operator]
            return
        yield Generation(since, int(data["size"])), recorded.state == "ready"
        last = since
