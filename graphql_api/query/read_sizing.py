"""Estimate how many records to read from each shard: few, yet probably enough (docs/explanation/search.md)."""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, sqrt

MAX_FETCH_BATCH = 3_000
"""records that one batch fetches by key"""


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
