"""How many records to ask each shard for: as few as will probably fill the page (docs/search.md)."""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, sqrt

MAX_FETCHED = 3_000
"""records that are fetched by key at once"""


def first_limit(count: int, shards: int, *, hint: int = 0, one_id: bool = False) -> int:
    """The first read of every shard, for so many records of the answer.

    `hint` tells about how many records a filter looked at for each that it let through, as a power of two.
    """
    if hint:
        return _scanned((count + 1) / (1 if one_id else shards), 1 << hint, count + 1)
    return count + 1 if one_id else _expected(count, shards)


@lru_cache(maxsize=4096)
def _expected(limit: int, shards: int) -> int:
    """It should hold the shard's part of the page in nearly all cases.

    The part is about Poisson distributed; the caps keep the sum of all shards within what a page may read.
    """
    wanted = limit + 1
    if shards <= 1:
        return wanted
    most = min(wanted, (2 * limit + 3 * shards) // (shards + 1), int(0.97 * (2 * limit + 3 * shards) / shards))
    mean = wanted / shards
    accepted = min(1 / shards, 0.05)
    below = probability = exp(-mean)
    for count in range(1, most):
        if 1 - below <= accepted:
            return count
        probability *= mean / count
        below += probability
    return max(1, most)


def next_limit(needed: int, share: float, last_limit: int, refill: int, scale: float = 1) -> int:
    """A later read of a shard that may hold more of the page: its expected part of what is still needed, and some more.

    `scale` is how many records are looked at for each that counts. From the third refill on at least twice the last
    read, so that no distribution needs many rounds.
    """
    expected = needed * share
    count = ceil(expected + sqrt(expected)) if scale <= 1 else _scanned(expected, scale, needed)
    if refill >= 3:
        count = max(count, 2 * last_limit)
    return max(1, count)


@dataclass(slots=True)
class Tries:
    """How many records to fetch by key at once, where only they tell which of them count.

    `hint` tells about how many were looked at for each that counted on the page before, as a power of two.
    """

    hint: int
    fetched: int = 0
    kept: int = 0
    batches: int = 0

    def next_count(self, needed: int) -> int:
        """For so many more that count, as far as the batches so far tell; after three of them, boldly."""
        if not self.batches:
            return needed << self.hint
        scale = self.fetched / self.kept if self.kept else 2 * self.fetched
        count = _scanned(needed, scale, needed)
        return max(count, 3 * self.fetched) if self.batches >= 3 else count

    def took(self, fetched: int, kept: int) -> None:
        """Notes a batch, and how many of it count."""
        self.fetched += fetched
        self.kept += kept
        self.batches += 1


def _scanned(matches: float, scale: float, needed: int) -> int:
    """How many records to look at for so many matches, when the place of the last of them is not known well either."""
    mean = matches * scale
    return max(1, ceil(mean + sqrt(mean) + mean / sqrt(max(1, needed))))
