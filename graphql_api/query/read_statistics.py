"""What is known of stored records, for estimates of capacity units."""

from collections.abc import Sequence
from dataclasses import dataclass

from graphql_api.model import EntitySpec
from graphql_api.storage import UnitEstimate, read_units


@dataclass(frozen=True, slots=True)
class ReadStatistics:
    """What is known of the records that are read."""

    record_bytes: int | None = None
    """size of a record; None: as the entity declares, or 500 bytes"""
    row_bytes: int | None = None
    """size of an index entry; None: that of the record"""
    matches_per_shard: int | Sequence[int] | None = None
    """records in the range, of every shard or of each one; None: more than a page needs"""

    def record_size(self, entity: EntitySpec) -> int:
        """Return the size of a record."""
        return self.record_bytes or entity.usual_record_bytes

    def row_size(self, entity: EntitySpec) -> int:
        """Return the size of an index entry."""
        return self.row_bytes or self.record_size(entity)

    def matches(self, shard: int, needed: int) -> int:
        """Return the number of records in the range of one shard; `needed`: enough for a page."""
        known = self.matches_per_shard
        if known is None:
            return needed
        if isinstance(known, int):
            return known
        return known[shard] if shard < len(known) else 0


NO_STATISTICS = ReadStatistics()


def estimate_keys(
    entity: EntitySpec, keys: int, *, consistent: bool, statistics: ReadStatistics = NO_STATISTICS
) -> UnitEstimate:
    """Estimate the read of one record by all keys that it can have. Expected is that one of them has it."""
    if not keys:
        return UnitEstimate(0.0, 0.0, 0.0)
    absent = read_units(0, consistent=consistent)
    found = read_units(statistics.record_size(entity), consistent=consistent)
    most = keys * read_units(entity.max_record_bytes, consistent=consistent)
    return UnitEstimate(keys * absent, (keys - 1) * absent + found, most)
