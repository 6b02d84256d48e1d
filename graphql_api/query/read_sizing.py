"""Estimate how many records to read from each shard: few, yet probably enough (docs/explanation/search.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, sqrt

from graphql_api.storage import RangeRead, most_of_ranges

MAX_FETCH_BATCH = 3_000
"""records that one batch fetches by key"""
_SHARES = 1024
"""parts in which limits are lowered to fit under a ceiling"""


def first_limit(count: int, shards: int, *, selectivity_hint: int = 0, single_id: bool = False) -> int:
    """Return the limit of the first read of every shard, to find `count` records of the result.

    `selectivity_hint` is log2 of the records scanned for each match. With `single_id`, one shard holds all records.
    """
    if selectivity_hint:
        return _scan_size((count + 1) / (1 if single_id else shards), 1 << selectivity_hint, count + 1)
    return count + 1 if single_id else _probable_share(count, shards)


@lru_cache(maxsize=4096)
def _probable_share(limit: int, shards: int) -> int:
    """Return a number of records that nearly always covers one shard's share of the page.

    The share is approximately Poisson distributed. The caps bound the sum over all shards.
    """
    wanted = limit + 1
    if shards <= 1:
        return wanted
    most = min(wanted, (2 * limit + 3 * shards) // (shards + 1), int(0.97 * (2 * limit + 3 * shards) / shards))
    mean = wanted / shards
    accepted_risk = min(1 / shards, 0.05)
    cumulative = probability = exp(-mean)
    for count in range(1, most):
        if 1 - cumulative <= accepted_risk:
            return count
        probability *= mean / count
        cumulative += probability
    return max(1, most)


def next_limit(needed: int, share: float, last_limit: int, refill: int, scale: float = 1) -> int:
    """Return the limit of a later read: the shard's expected share of the needed records, plus a margin.

    `scale` is the number of records scanned for each match. From the third refill on the limit at least doubles, so
    that no distribution of records needs many rounds.
    """
    expected = needed * share
    count = ceil(expected + sqrt(expected)) if scale <= 1 else _scan_size(expected, scale, needed)
    if refill >= 3:
        count = max(count, 2 * last_limit)
    return max(1, count)


@dataclass(slots=True)
class FetchSizing:
    """Size the batches of records fetched by key, where only the fetched record shows whether it matches.

    `selectivity_hint` is log2 of the records fetched for each match on the previous page.
    """

    selectivity_hint: int
    fetched: int = 0
    matched: int = 0
    batches: int = 0

    def next_count(self, needed: int) -> int:
        """Return the size of the next batch, to find `needed` more matches.

        From the fourth batch on, it is at least three times the size of all earlier batches together.
        """
        if not self.batches:
            return needed << self.selectivity_hint
        scale = self.fetched / self.matched if self.matched else 2 * self.fetched
        count = _scan_size(needed, scale, needed)
        return max(count, 3 * self.fetched) if self.batches >= 3 else count

    def add_batch(self, fetched: int, matched: int) -> None:
        """Record the size and the matches of a batch."""
        self.fetched += fetched
        self.matched += matched
        self.batches += 1


def _scan_size(matches: float, scale: float, needed: int) -> int:
    """Return the number of records to scan for some matches, with margins for the variance of both factors."""
    mean = matches * scale
    return max(1, ceil(mean + sqrt(mean) + mean / sqrt(max(1, needed))))


def within_units(
    reads: Sequence[RangeRead], units: float, *, fetch_units: float = 0.0, needed: int = 0
) -> Sequence[RangeRead]:
    """Lower the limits of reads, so that they cannot charge more than these capacity units.

    Leave units to fetch the `needed` rows by key, if these have a price. Return no reads if not even one record of each
    shard fits.
    """

    def price(share: int) -> float:
        shared = _shared(reads, share)
        return most_of_ranges(shared) + fetch_units * min(needed, sum(read.limit for read in shared))

    if smallest_units(reads) > units:
        return ()
    if price(_SHARES) <= units:
        return reads
    fits, exceeds = 0, _SHARES  # shares of the limits: the greatest that fits is searched
    while exceeds - fits > 1:
        share = (fits + exceeds) // 2
        if price(share) <= units:
            fits = share
        else:
            exceeds = share
    return _shared(reads, fits)


def smallest_units(reads: Sequence[RangeRead]) -> float:
    """Return the most capacity units of reading one record of each shard."""
    return most_of_ranges(read._replace(limit=1) for read in reads)


def _shared(reads: Sequence[RangeRead], share: int) -> Sequence[RangeRead]:
    return [read._replace(limit=1 + (read.limit - 1) * share // _SHARES) for read in reads]
